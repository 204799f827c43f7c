"""One cut for people of whom nobody knows what they can spend: test regret on six real tables.

Source: "One cut for a range of budgets", "Measured", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.validation import FloatArray
from counterplay.strategic import cheapest_moves, rethreshold
from counterplay.strategic.best_shown import best_shown
from counterplay.strategic.cuts import CutProblem, best_cut
from counterplay.strategic.measures import drawn_interval
from counterplay.studies.strategic.credit_tables import (
    ADULT,
    GERMAN,
    GMSC,
    HELOC,
    LAW,
    STAND_IN,
    TAIWAN,
    TITLES,
    People,
    available,
    free_moves,
    people,
)
from counterplay.studies.study import Params, Record, Scale, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

POINTS = 21
CUTS = ("naive", "budget 1", "minimax")
BARS = {GMSC: 0.01, ADULT: 0.035}  # worst test regret of the minimax cut
FAR = {GMSC: 1, ADULT: 0}  # which other cut loses more than a fifth there
GROUPS = {ADULT: "sex", LAW: "race"}
TREES = "boosted trees"


def _grid(scale: Scale) -> list[Params]:
    if scale == "quick":
        data = HELOC if available(HELOC) else STAND_IN
        return [{"data": data, "model": "logistic", "replicate": i} for i in range(2)]
    plain: list[Params] = [
        {"data": data, "model": "logistic", "replicate": i}
        for data in (HELOC, TAIWAN, GMSC, ADULT, LAW, GERMAN)
        for i in range(5)
    ]
    plain += [{"data": HELOC, "model": TREES, "replicate": i} for i in range(3)]
    return plain


def _cell(params: Params, seed: int) -> Record:
    raw = people(str(params["data"]))
    split = int(params["replicate"] or 0)
    if params["model"] == TREES:
        return _boosted(raw, split)
    table = raw.numbers()
    rows = np.arange(len(table.y))
    train, test = train_test_split(rows, test_size=0.5, random_state=split, stratify=table.y)
    A, B, ya, yb = table.X.iloc[train], table.X.iloc[test], table.y[train], table.y[test]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(A, ya)
    moves = free_moves(table, A)
    fix = rethreshold(model, A, ya, moves, budget=(0.0, 1.0), positive=1)
    one = rethreshold(model, A, ya, moves, budget=1.0, positive=1)
    radii = np.linspace(0, 1, POINTS)
    low, high = best_shown(model, B, moves, radii, positive=1)
    record = _test(CutProblem(radii, low, high, yb == 1, np.ones(yb.size)),
                   (fix.old, one.cut, fix.cut))  # fmt: skip
    record["certified"] = fix.regret_certified
    record["train_regret"] = fix.regret
    record["train_low"], record["train_high"] = fix.interval
    record["radii"] = float(fix.problem.budgets.size)
    if raw.name in GROUPS:
        plan = cheapest_moves(model, B, moves, positive=1)
        groups = raw.X[GROUPS[raw.name]].to_numpy()[test]
        record |= _burden(plan.upper, yb == 1, groups)
    return record


def _boosted(table: People, split: int) -> dict[str, Any]:
    """Boosted trees: fitted on half of the people, the cut chosen on one quarter and tested on
    the other, five budgets.
    """
    rows = np.arange(len(table.y))
    fit, rest = train_test_split(rows, test_size=0.5, random_state=split, stratify=table.y)
    A, ya = table.X.iloc[fit], table.y[fit]
    model = HistGradientBoostingClassifier(
        max_iter=100, max_depth=6, early_stopping=False, random_state=0
    ).fit(A, ya)
    moves = free_moves(table, A)
    radii = np.linspace(0, 1, 5)
    parts = []
    for mine in np.array_split(rest, 2):
        low, high = best_shown(model, table.X.iloc[mine], moves, radii, positive=1, nodes=2000)
        y = table.y[mine] == 1
        parts.append(
            (CutProblem(radii, low, high, y, np.ones(y.size)), float((low == high).mean()))
        )
    chosen = best_cut(parts[0][0], "regret")
    problem = parts[0][0]
    last = CutProblem(radii[-1:], problem.low[:, -1:], problem.high[:, -1:], problem.qualified,
                      problem.weights)  # fmt: skip
    record = _test(parts[1][0], (np.nextafter(0, 1), best_cut(last, "regret").cut, chosen.cut))
    record["train_regret"] = chosen.worst
    record["exact"] = min(part[1] for part in parts)
    return record


def _test(problem: CutProblem, cuts: tuple[float, float, float]) -> dict[str, Any]:
    """Return accuracy over the budgets and the worst regret of each cut, on other people."""
    record: dict[str, Any] = {}
    for name, cut in zip(CUTS, cuts):
        fp, fn, _, _ = problem.errors(cut)
        record[f"{name} regret"] = float(problem.regret(cut).max())
        for k, value in enumerate((1 - fp - fn).tolist()):
            record[f"{name} acc{k:02d}"] = value
        for k, value in enumerate(problem.regret(cut).tolist()):
            record[f"{name} reg{k:02d}"] = value
    return record


def _burden(prices: FloatArray, qualified: Any, groups: Any) -> dict[str, Any]:
    """Return the mean acceptance price of the qualified who can be accepted, by group."""
    record: dict[str, Any] = {}
    for k, group in enumerate(sorted(set(groups.tolist()))[:2]):
        mine = qualified & (groups == group) & np.isfinite(prices)
        low, high = drawn_interval(prices[mine], np.ones(int(mine.sum())), 0.95)
        record |= {
            f"group{k}": str(group),
            f"burden{k}": float(prices[mine].mean()),
            f"burden{k}_low": low,
            f"burden{k}_high": high,
        }
    return record


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    plain = frame[frame["model"] == "logistic"]
    verdicts = []
    for data, part in plain.groupby("data", sort=False):
        means = [float(part[f"{name} regret"].mean()) for name in CUTS]
        bar = BARS.get(str(data), min(means[:2]) + 0.01)
        far = str(data) not in FAR or means[FAR[str(data)]] >= 0.2
        verdicts.append(
            Verdict(
                "20.20",
                f"{TITLES[str(data)]}: worst test regret over budgets 0 to 1 of the minimax cut "
                "(naive cut, cut for budget 1 beside it).",
                f"{means[2]:.3f} ({means[0]:.3f}, {means[1]:.3f})",
                f"<= {bar:.3f}" + (f" ({CUTS[FAR[str(data)]]} >= 0.2)" if data in FAR else ""),
                means[2] <= bar and far,
            )
        )
    trees = frame[frame["model"] == TREES]
    if len(trees):
        means = [float(trees[f"{name} regret"].mean()) for name in CUTS]
        verdicts.append(
            Verdict(
                "20.20",
                "Boosted trees on HELOC: worst test regret of the minimax cut (naive cut, cut for "
                f"budget 1 beside it); {trees['exact'].min():.3f} of the scores are exact.",
                f"{means[2]:.3f} ({means[0]:.3f}, {means[1]:.3f})",
                f"<= {min(means[:2]):.3f}",
                means[2] <= min(means[:2]),
            )
        )
    certified = bool((plain["certified"] >= plain["train_regret"] - 1e-12).all())
    verdicts.append(
        Verdict(
            "20.19",
            "The certificate for all budgets of the range is above the regret at the budgets.",
            f"largest certificate {plain['certified'].max():.3f}",
            "above",
            certified,
        )
    )
    return verdicts


def _regret_figure(frame: pd.DataFrame) -> Figure:
    """Regret on test people over the budget, mean of the splits: the naive cut, the cut for
    budget 1 and the minimax cut. Dashed: what was certified on the training people for all budgets.
    """
    plain = frame[frame["model"] == "logistic"]
    names = list(dict.fromkeys(plain["data"]))
    figure, axes = _small_panels(len(names))
    r = np.linspace(0, 1, POINTS)
    for ax, data in zip(axes, names):
        part = plain[plain["data"] == data]
        for name, color in zip(CUTS, PALETTE):
            curve = part[[f"{name} reg{k:02d}" for k in range(POINTS)]].to_numpy(dtype=float)
            ax.plot(r, curve.mean(axis=0), color=color, label=name)
        ax.axhline(float(part["certified"].mean()), label="certified (train)", **THEORY)
        ax.set(title=TITLES[str(data)], xlabel="budget", ylabel="regret (test)")
        ax.set_yscale("symlog", linthresh=0.01)
        ax.set_ylim(-0.001, 1.0)
    axes[0].legend(fontsize=7)
    return figure


def _small_panels(n: int) -> tuple[Figure, list[Any]]:
    """Return a figure with axes in rows of three."""
    from matplotlib.figure import Figure

    rows, columns = -(-n // 3), min(n, 3)
    figure = Figure(figsize=(3.4 * columns, 2.8 * rows), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).ravel())


def _burden_figure(frame: pd.DataFrame) -> Figure:
    """Mean price at which qualified people are accepted, by group, with bootstrap intervals of the
    first split. Price 1 is one spread.
    """
    rows = frame[frame.get("burden0", np.nan).notna()] if "burden0" in frame else frame.iloc[:0]
    rows = rows.drop_duplicates("data")
    figure, (ax,) = panels(1, width=5.5)
    place, ticks = 0, []
    for _, row in rows.iterrows():
        for k in (0, 1):
            mean = row[f"burden{k}"]
            error = [[mean - row[f"burden{k}_low"]], [row[f"burden{k}_high"] - mean]]
            ax.errorbar([place], [mean], yerr=error, fmt="o", color=PALETTE[k], capsize=3)
            ticks.append(f"{TITLES[row['data']]}\n{row[f'group{k}']}")
            place += 1
    ax.set_xticks(range(place), ticks)
    ax.set_ylabel("acceptance price of the qualified")
    if not place:
        ax.text(0.5, 0.5, "groups are in the tables of the full scale", ha="center")
    return figure


MOVES_CUTS = Study(
    name="moves-cuts",
    title="One cut, whatever people can spend",
    question=(
        "A cut chosen for people who do not react, a cut for people who can spend one spread, and "
        "the cut of least worst regret over all budgets between: how much does each lose on other "
        "people against the best cut of every budget?"
    ),
    claims=("20.19", "20.20"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"regret": _regret_figure, "burden": _burden_figure},
    version=2,
    full_needs="the tables heloc, taiwan, give_me_some_credit, adult, law_school and german_credit",
)
