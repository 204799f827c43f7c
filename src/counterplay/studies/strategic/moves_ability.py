"""Budgets read off two samples: coverage, flags, effort and the cut they lead to, on credit tables.

Populations are drawn from real people with their exact acceptance prices; budgets are drawn from a
known law, so the truth is known.

Source: "Budgets from before and after", "Measured", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.validation import FloatArray
from counterplay.strategic import cheapest_moves
from counterplay.strategic.best_shown import best_shown
from counterplay.strategic.budget_law import BudgetLaw, paired_law, share_interval, unpaired_law
from counterplay.strategic.cuts import CutProblem, best_cut
from counterplay.strategic.effort import effort_by_column, total_effort
from counterplay.strategic.move_blocks import NumberBlock
from counterplay.studies.strategic.credit_tables import (
    GMSC,
    HELOC,
    STAND_IN,
    TAIWAN,
    TITLES,
    available,
    free_moves,
    people,
    whole_moves,
)
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

LAWS = ("exponential", "40 % lognormal")
POINTS = 41
PART_WAY = {HELOC: 0.39, TAIWAN: 0.65, GMSC: 0.90}  # least share of runs that is flagged


def _grid(scale: Scale) -> list[Params]:
    quick = scale == "quick"
    tables = [HELOC if available(HELOC) else STAND_IN] if quick else [HELOC, TAIWAN, GMSC]
    cells: list[Params] = []
    for data in tables:
        for law in LAWS:
            for n in (1000,) if quick else (1000, 5000):
                cells.append({"what": "coverage", "data": data, "law": law, "cut": "own", "n": n,
                              "runs": 20 if quick else 200})  # fmt: skip
        for cut in ("own", "median") if data == TAIWAN else (_cut(data),):
            cells.append({"what": "flags", "data": data, "law": LAWS[0], "cut": cut,
                          "n": 1000 if quick else 5000, "runs": 10 if quick else 100})  # fmt: skip
            cells.append({"what": "decision", "data": data, "law": LAWS[0], "cut": cut,
                          "n": 1000 if quick else 5000, "runs": 3 if quick else 60})  # fmt: skip
    return cells


def _cut(data: str) -> str:
    """Where nearly everybody is accepted at the model's own cut, the cut is at the median."""
    return "median" if data in (GMSC, TAIWAN) else "own"


def truth(law: str, t: FloatArray) -> FloatArray:
    """Return P(budget < t)."""
    if law == LAWS[0]:
        return np.asarray(-np.expm1(-t / 0.5))
    return np.where(t > 0, 0.6 + 0.4 * stats.lognorm.cdf(t, 0.8, scale=0.5), 0.0)


def draw(law: str, rng: np.random.Generator, n: int) -> FloatArray:
    """Draw budgets."""
    if law == LAWS[0]:
        return rng.exponential(0.5, n)
    return np.where(rng.random(n) < 0.4, rng.lognormal(np.log(0.5), 0.8, n), 0.0)


@lru_cache(maxsize=4)
def tree_prices(name: str, count: int) -> tuple[FloatArray, float]:
    """Return acceptance prices of people under boosted trees, and the share of exact ones.

    Prices beyond 2 count as out of reach.
    """
    table = people(name)
    A, B, ya, _ = train_test_split(table.X, table.y, test_size=0.3, random_state=0)
    model = HistGradientBoostingClassifier(
        max_iter=60, max_depth=5, early_stopping=False, random_state=0
    ).fit(A, ya)
    plan = cheapest_moves(
        model, B.iloc[:count], whole_moves(table, A), positive=1, budget=2.0, nodes=4000
    )
    return plan.upper, float(plan.exact.mean())


@lru_cache(maxsize=4)
def linear_world(name: str, cut: str) -> dict[str, Any]:
    """Return people, their moves against logistic regression, and a population that is worse.

    The cut is the model's own, or at the median score: with few rejected people little can be told.
    """
    table = people(name).numbers()
    A, B, ya, yb = train_test_split(table.X, table.y, test_size=0.5, random_state=0,
                                    stratify=table.y)  # fmt: skip
    model: Any = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(A, ya)
    if cut == "median":
        model[-1].intercept_ = model[-1].intercept_ - np.median(model.decision_function(A))
    moves = free_moves(table, A)
    B, yb = B.iloc[:4000], yb[:4000]
    plan = cheapest_moves(model, B, moves, positive=1)
    # The cheapest column: most score per spread. A worse population has 0.3 spread less of it.
    slope = model[-1].coef_[0] / model[0].scale_
    units = {c: b.unit for c, b in moves.blocks.items() if isinstance(b, NumberBlock)}
    gains = {name: slope[list(B.columns).index(name)] * unit for name, unit in units.items()}
    cheapest = max(gains, key=lambda name: abs(gains[name]))
    shift = -0.3 * np.sign(gains[cheapest]) * units[cheapest]
    worse = B.assign(**{cheapest: B[cheapest] + shift})
    return {
        "model": model, "moves": moves, "people": B, "y": yb, "prices": plan.upper,
        "goals": plan.destination, "cheapest": cheapest,
        "worse": cheapest_moves(model, worse, moves, positive=1).upper,
    }  # fmt: skip


def _cell(params: Params, seed: int) -> Record:
    what = str(params["what"])
    data, law = str(params["data"]), str(params["law"])
    n, runs = int(params["n"] or 0), int(params["runs"] or 0)
    rng = np.random.default_rng(seed)
    if what == "coverage":
        return _coverage(data, law, n, runs, rng)
    if what == "flags":
        return _flags(linear_world(data, str(params["cut"])), law, n, runs, rng)
    return _decision(linear_world(data, str(params["cut"])), law, n, runs, rng)


def _coverage(data: str, law: str, n: int, runs: int, rng: np.random.Generator) -> Record:
    prices, exact = tree_prices(data, 1500 if runs >= 100 else 200)
    open_ = prices[(prices > 0) & np.isfinite(prices)]
    spots = np.quantile(open_, [0.25, 0.5, 0.75])
    share = float(np.where(prices > 0, 1 - truth(law, prices), 0.0).mean())
    hits = {"band": 0, "share": 0, "refuted": 0}
    errors, paired_errors, widths = [], [], []
    for _ in range(runs):
        before, after = rng.choice(prices, n), rng.choice(prices, n)
        stay = (after > 0) & (draw(law, rng, n) < after)
        seen = np.where(stay, after, 0.0)
        found = unpaired_law(before, seen, 0.95)
        low, high = found.band(found.prices)
        H = truth(law, found.prices)
        hits["band"] += bool(((low <= H + 1e-12) & (high + 1e-12 >= H)).all())
        _, bottom, top = share_interval(float((before > 0).sum()), n, float(stay.sum()), n, 0.95)
        hits["share"] += bottom <= share <= top
        hits["refuted"] += flagged(found)
        widths.append(float(np.mean(high - low)))
        errors.append(np.abs(found.cdf(spots) - truth(law, spots)))
        known = (after > 0) & np.isfinite(after)
        panel = paired_law(after[known], stay[known], 0.95)
        paired_errors.append(np.abs(panel.cdf(spots) - truth(law, spots)))
    record = {name: hit / runs for name, hit in hits.items()}
    record |= {"exact": exact, "width": float(np.mean(widths)), "true_share": share}
    for k in range(3):
        record[f"error{k}"] = float(np.mean([e[k] for e in errors]))
        record[f"paired{k}"] = float(np.mean([e[k] for e in paired_errors]))
    t = np.linspace(0, float(np.quantile(open_, 0.95)), POINTS)
    low, high = found.band(t)
    for k in range(POINTS):
        record |= {f"t{k:02d}": float(t[k]), f"H{k:02d}": float(truth(law, t)[k]),
                   f"cdf{k:02d}": float(found.cdf(t)[k]), f"low{k:02d}": float(low[k]),
                   f"high{k:02d}": float(high[k]),
                   f"before{k:02d}": float(np.mean((before > 0) & (before <= t[k]))),
                   f"after{k:02d}": float(np.mean((seen > 0) & (seen <= t[k])))}  # fmt: skip
    return record


def flagged(law: BudgetLaw) -> bool:
    """Whether the samples refute the story."""
    return bool(law.above_one.any() or law.empty.size)


def _flags(world: dict[str, Any], law: str, n: int, runs: int, rng: np.random.Generator) -> Record:
    """Count flags and compare certified with true effort."""
    prices, worse = world["prices"], world["worse"]
    counts = {"rational": 0, "worse": 0, "part_way": 0, "above_truth": 0, "still": 0}
    names: list[str] = []
    certified, spent = [], []
    for _ in range(runs):
        before, after, other = (rng.integers(0, prices.size, n) for _ in range(3))
        budget = draw(law, rng, n)
        d0, d1, d2 = prices[before], prices[after], worse[other]
        counts["rational"] += flagged(unpaired_law(d0, np.where(budget >= d1, 0.0, d1), 0.95))
        counts["worse"] += flagged(unpaired_law(d0, np.where(budget >= d2, 0.0, d2), 0.95))
        # Greedy moves on lines: who spends a of her price d has d - a left.
        with np.errstate(invalid="ignore"):
            rest = np.where(np.isfinite(d1), np.maximum(d1 - budget, 0.0), np.inf)
        counts["part_way"] += flagged(unpaired_law(d0, rest, 0.95))
        X, goals, moves = world["people"], world["goals"], world["moves"]
        old = X.iloc[before].reset_index(drop=True)
        here = X.iloc[after].reset_index(drop=True)
        effort = effort_by_column(old, here, moves, 0.95, rng, 0)
        counts["still"] += total_effort(effort["certified"].to_numpy(), "sum") == 0
        moved = (d1 > 0) & np.isfinite(d1)  # all able
        there = here.copy()
        there.loc[moved] = goals.iloc[after[moved]].to_numpy()
        effort = effort_by_column(old, there, moves, 0.95, rng, 0)
        certified.append(total_effort(effort["certified"].to_numpy(), "sum"))
        spent.append(float(np.where(moved, d1, 0.0).mean()))
        counts["above_truth"] += certified[-1] > spent[-1]
        names.append(str(effort["certified"].idxmax()) if certified[-1] > 0 else "")
    record: dict[str, Any] = {k: v / runs for k, v in counts.items()}
    record |= {
        "rejected": float((prices > 0).mean()),
        "certified_effort": float(np.mean(certified)),
        "true_effort": float(np.mean(spent)),
        "named": max(set(names), key=names.count),
        "cheapest": world["cheapest"],
    }
    return record


def _decision(
    world: dict[str, Any], law: str, n: int, runs: int, rng: np.random.Generator
) -> Record:
    """Compare the cut for estimated budgets with that for the true ones, under the true ones."""
    prices = world["prices"]
    q = (np.arange(POINTS) + 0.5) / POINTS
    radii = -0.5 * np.log1p(-q)
    low, high = best_shown(world["model"], world["people"], world["moves"], radii, positive=1)
    table = CutProblem(radii, low, high, world["y"] == 1, np.ones(len(world["y"])))
    even = np.full(POINTS, 1 / POINTS)

    def lost(cut: float) -> float:
        fp, fn, _, _ = table.errors(cut)
        return float(np.mean(fp + fn))

    best = lost(best_cut(table, "expected", even).cut)
    gaps = []
    for _ in range(runs):
        before, after = rng.choice(prices, n), rng.choice(prices, n)
        budget = draw(law, rng, n)
        seen = np.where(budget >= after, 0.0, after)
        found = unpaired_law(before, seen, 0.95)
        # The same budgets as above, weighted by the estimated law instead of the true one.
        edges = np.concatenate(([0.0], (radii[1:] + radii[:-1]) / 2, [np.inf]))
        H = np.append(found.cdf(edges[:-1]), 1.0)
        shares = np.maximum(np.diff(H), 0.0)
        gaps.append(lost(best_cut(table, "expected", shares / shares.sum()).cut) - best)
    return {
        "rejected": float((prices > 0).mean()),
        "lost": float(np.mean(gaps)),
        "lost_most": float(np.max(gaps)),
        "lost_old": lost(float(np.nextafter(0.0, 1.0))) - best,
    }


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    cover = frame[frame["what"] == "coverage"]
    flags = frame[frame["what"] == "flags"]
    decision = frame[frame["what"] == "decision"]
    return [*_coverage_verdicts(cover), *_flag_verdicts(flags), *_effort_verdicts(flags),
            *_decision_verdicts(decision)]  # fmt: skip


def _coverage_verdicts(cover: pd.DataFrame) -> list[Verdict]:
    runs = int(cover["runs"].min())
    slack = 3 * (0.05 * 0.95 / runs) ** 0.5
    bar = 0.93 if runs >= 200 else 0.95 - slack
    low, high = (0.9, 0.99) if runs >= 200 else (0.95 - slack, 1.0)
    return [
        Verdict("20.23", "The band covers the whole law of budgets.",
                f"least {cover['band'].min():.3f}", f">= {bar:.2f}",
                bool(cover["band"].min() >= bar)),
        Verdict("20.23", "The interval covers the share of gaming.",
                f"{cover['share'].min():.3f} to {cover['share'].max():.3f}",
                f"{low:.2f} to {high:.2f}",
                bool(cover["share"].min() >= low and cover["share"].max() <= high)),
        Verdict("20.23", "True assumptions are rarely refuted.",
                f"at most {cover['refuted'].max():.3f}", "<= 0.05",
                bool(cover["refuted"].max() <= 0.05)),
    ]  # fmt: skip


def _flag_verdicts(flags: pd.DataFrame) -> list[Verdict]:
    """One verdict per table at the cut of `_cut`; at other cuts rational movers alone."""
    large = int(flags["n"].min()) >= 5000  # few people: no promise
    verdicts = []
    for _, row in flags.iterrows():
        main = row["cut"] == _cut(str(row["data"]))
        worse, part = (0.85, PART_WAY.get(str(row["data"]), 0.0)) if main and large else (0.0, 0.0)
        verdicts.append(
            Verdict("20.24", f"{TITLES[str(row['data'])]}, {row['cut']} cut ({row['rejected']:.0%} "
                    "rejected): flagged are rational movers, a worse population, people who go "
                    "part of the way.",
                    f"{row['rational']:.2f}, {row['worse']:.2f}, {row['part_way']:.2f}",
                    f"<= 0.05, >= {worse:g}, >= {part:g}",
                    bool(row["rational"] <= 0.05 and row["worse"] >= worse
                         and row["part_way"] >= part)))  # fmt: skip
    return verdicts


def _effort_verdicts(flags: pd.DataFrame) -> list[Verdict]:
    named = flags[flags["data"] == TAIWAN]["named"]
    return [
        Verdict("20.24", "No effort is certified if nobody moves.",
                f"none in {flags['still'].min():.2f} of runs", ">= 0.95",
                bool(flags["still"].min() >= 0.95)),
        Verdict("20.25", "Certified effort stays below the true one.",
                f"above in {flags['above_truth'].max():.2f} of runs", "<= 0.05",
                bool(flags["above_truth"].max() <= 0.05)),
        *([Verdict("20.25", "All able on Taiwan: the column that is named.", " / ".join(named),
                   "PAY_0", bool((named == "PAY_0").all()))] if len(named) else []),
    ]  # fmt: skip


def _decision_verdicts(decision: pd.DataFrame) -> list[Verdict]:
    old = " / ".join(f"{v:.3f}" for v in decision["lost_old"])
    return [
        Verdict("20.26", "A cut for estimated budgets loses little against one for the true ones.",
                f"at most {decision['lost'].max():.4f} (worst run "
                f"{decision['lost_most'].max():.4f}; old cut {old})",
                "<= 0.005", bool(decision["lost"].max() <= 0.005)),
    ]  # fmt: skip


def _figure(frame: pd.DataFrame) -> Figure:
    """Distribution of budgets from before/after samples: truth (dashed), estimate and 95 % band;
    below it the rejected before and after, cumulated over the price. Last run of each table.
    """
    rows = frame[(frame["what"] == "coverage") & (frame["law"] == LAWS[0])]
    rows = rows[rows["n"] == rows["n"].max()]
    figure, axes = panels(len(rows), width=4.2)
    for ax, (_, row) in zip(axes, rows.iterrows()):
        t, H, cdf, low, high, before, after = (
            [row[f"{name}{k:02d}"] for k in range(POINTS)]
            for name in ("t", "H", "cdf", "low", "high", "before", "after")
        )
        ax.fill_between(t, low, high, color=PALETTE[0], alpha=0.2, label="95 % band")
        ax.step(t, cdf, where="pre", color=PALETTE[0], label="estimate")
        ax.plot(t, H, label="truth", **THEORY)
        ax.plot(t, before, color=PALETTE[1], label="rejected before (share up to t)")
        ax.plot(t, after, color=PALETTE[2], label="rejected after")
        ax.set(xlabel="price, budget t", ylabel="P(budget < t)", title=TITLES[row["data"]],
               ylim=(-0.02, 1.02))  # fmt: skip
    axes[0].legend(fontsize=7)
    return figure


MOVES_ABILITY = Study(
    name="moves-ability",
    title="What people can spend, read off two samples",
    question=(
        "Applicants before they could react and after: does the band cover the true distribution "
        "of budgets, are broken assumptions flagged, and how good is a cut for the estimated "
        "budgets?"
    ),
    claims=("20.23", "20.24", "20.25", "20.26"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"budgets": _figure},
    version=2,
    full_needs="the tables heloc, taiwan and give_me_some_credit",
)
