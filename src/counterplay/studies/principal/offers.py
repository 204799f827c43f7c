"""Offers on simulated markets: coverage, the next offer, the planner against four sellers.

A cell is a handful of markets; verdicts and tables average over the cells.
Source: docs/theory/25-offers.md, "Measured".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.core.stats import mean_interval
from counterplay.principal import fit_game
from counterplay.principal.lab import (
    OfferFit,
    OfferMarket,
    Seller,
    random_offer_market,
    response_band,
)
from counterplay.principal.offer_checks import permutation_test
from counterplay.principal.offer_pictures import draw_response, draw_value
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SHARES = np.linspace(0.1, 0.5, 5)
LOGS: dict[str, tuple[int, Any]] = {
    "5 x 20": (20, SHARES),
    "5 x 100": (100, SHARES),
    "3 x 60": (60, SHARES[::2]),
    "continuous 400": (400, None),
    "continuous 2000": (2000, None),
}
FEW = ("3 x 60", "continuous 2000")
SELLERS = ("best", "spiteful", "hedge", "drift")
MARKETS = 10
EXAMPLE = OfferMarket(np.array([100.0, 400.0, 700.0]), np.array([0.0, 60.0, 210.0]), 0.42)


def grid(scale: Scale) -> Sequence[Params]:
    """Logs, outcomes that are hard, falls, clusters and strata, checks, sellers x rounds."""
    quick = scale == "quick"
    cells: list[dict[str, Any]] = []

    def add(part: str, case: str, cells_full: int, rounds: int = 0) -> None:
        markets = 4 if quick else MARKETS
        for chunk in range(1 if quick else cells_full):
            cells.append(
                {"part": part, "case": case, "rounds": rounds, "chunk": chunk, "markets": markets}
            )

    for name in LOGS:
        add("log", name, 20 if name in FEW else 100)
    for case in ("zeros 20", "zeros 50", "zeros 100", "heavy 15", "heavy 20", "heavy 100"):
        add("hard", case, 30)
    for fall in ("0", "10", "20", "30"):
        add("fall", fall, 15)
    for case in ("agents apart", "agents shared", "strata"):
        add("dependent", case, 20)
    for case in ("level", "drift"):
        add("checks", case, 50 if case == "level" else 10)
    for seller in SELLERS:
        for rounds in (30,) if quick else (30, 300):
            add("planner", seller, 20, rounds)
    return cells


def cell(params: Params, seed: int) -> Record:
    """Means over the markets of a cell."""
    part, case = str(params["part"]), str(params["case"])
    rounds, markets = int(str(params["rounds"])), int(str(params["markets"]))
    run = {
        "log": _log_cell,
        "hard": _hard_cell,
        "fall": _fall_cell,
        "dependent": _dependent_cell,
        "checks": _check_cell,
    }
    if part == "planner":
        rows = [_planner_row(case, rounds, [seed, i]) for i in range(markets // 2)]
    else:
        rows = [run[part](case, [seed, i]) for i in range(markets)]
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def simulated(key: list[int], rows: int, shares: Any) -> tuple[OfferMarket, pd.DataFrame]:
    """A random market and a log of it."""
    market, rng = random_offer_market(np.random.default_rng([*key, 1])), np.random.default_rng(key)
    s = np.sort(rng.uniform(0.1, 0.5, rows)) if shares is None else np.repeat(shares, rows)
    return market, market.log(s, random_state=np.random.default_rng([*key, 2]))


def _covers(market: OfferMarket, band: Any, low: float, high: float) -> bool:
    fine = np.unique(np.concatenate([np.linspace(low, high, 81), SHARES]))
    fine = fine[(fine >= low) & (fine <= high)]
    truth = np.array([market.response(float(s)) for s in fine])
    inside = (band.lower(fine) <= truth + 1e-9) & (truth <= band.upper(fine) + 1e-9)
    return bool(inside.all())


def _log_cell(case: str, key: list[int]) -> dict[str, float]:
    rows, shares = LOGS[case]
    market, log = simulated(key, rows, shares)
    fit = fit_game(log, offer="commission", outcome="revenue")
    best = market.best_value()
    tried = np.unique(log["commission"])
    groups = fit.band.groups
    middle = np.array([log["commission"][groups.group == g].mean() for g in range(len(groups))])
    chosen = {
        "ab": float(middle[int(np.argmax((1 - middle) * groups.mean))]),
        "winner": float(fit.next_offer().offer),
        "safe": float(fit.next_offer("safe").offer),
        "cautious": _least_worst_regret(fit),
    }
    record = {name: 1 - market.value(s) / best for name, s in chosen.items() if s >= 0}
    record.setdefault("cautious", float("nan"))
    record["oracle"] = 1 - max(market.value(float(s)) for s in tried) / best
    record["covered"] = float(_covers(market, fit.band, tried[0], tried[-1]))
    safe = fit.next_offer("safe")
    record["kept"] = float(safe.promise <= market.value(float(safe.offer)) + 1e-9)
    record["costs"] = float("nan") if shares is None else float(_costs_cover(market, fit))
    record["false_alarm"] = float(not fit.monotone)
    return record


def _least_worst_regret(fit: OfferFit) -> float:
    """The offer with the least worst regret; -1 where all are unknown."""
    from counterplay.principal.lab import worst_regrets

    offers, powers = fit.log.distinct
    at = fit.candidates
    low, high = fit.band.lower(powers[at]), fit.band.upper(powers[at])
    found = worst_regrets(powers[at], 1 - offers[at].astype(float), low, high)
    return float(offers[at[int(np.argmin(found))]]) if np.isfinite(found).any() else -1.0


def _costs_cover(market: OfferMarket, fit: OfferFit) -> bool:
    costs = fit.costs()
    pay = np.multiply.outer(costs["offer"].to_numpy(dtype=float), market.revenues) - market.costs
    true = market.costs[pay.argmax(axis=1)]
    true = true - true[0]
    return bool(((costs["lower"] <= true + 1e-6) & (true <= costs["upper"] + 1e-6)).all())


def _hard_cell(case: str, key: list[int]) -> dict[str, float]:
    """Nineteen zeros in twenty, or a coefficient of variation of three."""
    kind, rows = case.split()[0], int(case.split()[1])
    market = random_offer_market(np.random.default_rng([*key, 1]))
    rng, s = np.random.default_rng(key), np.repeat(SHARES, rows)
    mean = np.array([market.response(float(x)) for x in s])
    if kind == "zeros":
        m = mean * market.noise(rng, s.size) * (rng.random(s.size) < 0.05) * 20
    else:
        sigma = np.sqrt(np.log1p(9.0))
        m = mean * rng.lognormal(-(sigma**2) / 2, sigma, s.size)
    return {"covered": float(_covers(market, response_band(s, m), 0.1, 0.5))}


def _fall_cell(case: str, key: list[int]) -> dict[str, float]:
    """A flat response that falls once, between the second and the third of five offers."""
    rng, s = np.random.default_rng(key), np.repeat(SHARES, 60)
    sigma = np.sqrt(np.log1p(0.36))
    mean = np.where(s < 0.25, 500.0, 500.0 * (1 - int(case) / 100))
    band = response_band(s, mean * rng.lognormal(-(sigma**2) / 2, sigma, s.size))
    return {"rejected": float(not band.monotone)}


def _dependent_cell(case: str, key: list[int]) -> dict[str, float]:
    """Rows of one agent share his level; or a season moves offers and outcomes together."""
    rng = np.random.default_rng(key)
    if case == "strata":
        month = rng.integers(0, 4, 900)
        s = np.where(rng.random(900) < np.array([0.8, 0.6, 0.4, 0.2])[month], 0.3, 0.1)
        level = np.array([50.0, 100.0, 200.0, 300.0])
        m = level[month] * np.where(s > 0.2, 1.2, 1.0) * rng.lognormal(-0.08, 0.4, 900)
        band = response_band(s, m, stratum=month)
        share = np.bincount(month, minlength=4) / 900
        truth = float(share @ level) * np.array([1.0, 1.2])
        tried = np.array([0.1, 0.3])
    else:
        agent = np.repeat(np.arange(60), 10)
        tried = np.array([0.1, 0.2, 0.3])
        s = np.repeat(tried, 200) if case == "agents apart" else np.tile(np.repeat(tried, 200), 1)
        if case == "agents shared":
            agent = np.tile(np.arange(60), 10)
        level = np.exp(0.5 * rng.standard_normal(60) - 0.125)[agent]
        m = 100 * level * rng.lognormal(-0.045, 0.3, 600)
        band, truth = response_band(s, m, agent=agent), np.full(3, 100.0)
    inside = (band.lower(tried) <= truth) & (truth <= band.upper(tried))
    return {"covered": float(inside.all())}


def _check_cell(case: str, key: list[int]) -> dict[str, float]:
    """Permutation checks: exchangeable rows, or a drift of one standard deviation."""
    rng, strata, time = np.random.default_rng(key), np.tile(np.arange(4), 50), np.arange(200.0)
    x = rng.lognormal(0, 0.6, 200)
    if case == "drift":
        x = rng.standard_normal(200) + np.linspace(-0.5, 0.5, 200)
    return {"rejected": float(permutation_test(x, time, strata, rng)[1] <= 0.05)}


def _planner_row(case: str, rounds: int, key: list[int]) -> dict[str, float]:
    """Regret of the A/B winner, of Thompson on tried offers, and of the planner; one market."""
    market = random_offer_market(np.random.default_rng([*key, 1]))
    shares = np.repeat(SHARES, 20)
    record = {}
    for name in ("ab", "tried", "planner"):
        answering: Any = case
        seller = Seller(
            market, answering, horizon=rounds, random_state=np.random.default_rng([*key, 2])
        )
        revenue = np.array([seller.answer(float(s))[1] for s in shares])
        seller.begin()
        fit = fit_game({"offer": shares, "outcome": revenue})
        plan = fit.planner(rounds, explore=name == "planner", random_state=key[0] % 2**32)
        means = [(1 - s) * revenue[shares == s].mean() for s in SHARES]
        fixed = float(SHARES[int(np.argmax(means))])
        got = best = 0.0
        for _ in range(rounds):
            offer = fixed if name == "ab" else plan.act()
            best += market.best_value(dearer=seller.dearer)
            mean, drawn = seller.answer(offer)
            got += (1 - offer) * mean
            if name != "ab":
                plan.observe(offer, drawn)
        record[name] = 1 - got / best
    record["gain"] = record["planner"] - record["ab"]
    return record


def table(frame: pd.DataFrame, part: str) -> pd.DataFrame:
    """Means per case (and rounds) of one part."""
    own = frame[frame["part"] == part]
    return own.groupby(["case", "rounds"], sort=False).mean(numeric_only=True)


def _upper(values: Any) -> float:
    """Upper 95 % limit of a mean over cells; the mean itself of a single cell."""
    return float(values.iloc[0]) if len(values) < 2 else mean_interval(values.to_numpy()).high


def verdicts(frame: pd.DataFrame) -> Sequence[Verdict]:
    """The rates of the claims; one cell per case allows no more than a glance."""
    quick = len(frame) < 100
    logs, hard, fall = table(frame, "log"), table(frame, "hard"), table(frame, "fall")
    zeros = hard[[case.startswith("zeros") for case, _ in hard.index]]
    bar = 0.5 if quick else 0.92
    found = [
        at_least("25.05", "Bands cover all offers at once.", logs["covered"].min(), bar,
                 what="lowest coverage"),
        at_least("25.05", "Also with 95 % zeros.", zeros["covered"].min(), bar + 0.01 - 0.2 * quick,
                 what="lowest coverage"),
        at_least("25.07", "Cost intervals cover.", logs["costs"].min(), 0.95 - 0.4 * quick),
        at_most("25.08", "False rejections are rare.", fall.loc[("0", 0), "rejected"],
                0.05 + 0.4 * quick),
        at_least("25.08", "A fall of 30 % is seen.", fall.loc[("30", 0), "rejected"],
                 0.8 - 0.5 * quick),
        at_most("25.09", "The isotonic winner loses less than the A/B winner on continuous offers.",
                logs.loc[("continuous 400", 0), "winner"]
                - logs.loc[("continuous 400", 0), "ab"], -0.015 + 0.1 * quick,
                what="difference of regrets"),
        at_least("25.10", "The safe promise is kept.", logs["kept"].min(), 0.95 - 0.4 * quick),
        *_planner_verdicts(frame, quick),
    ]  # fmt: skip
    checks = table(frame, "checks")["rejected"]
    found.append(
        at_most("25.29", "Permutation checks keep their level.", checks[("level", 0)],
                0.07 + 0.5 * quick)
    )  # fmt: skip
    found.append(
        at_least("25.29", "A drift of one standard deviation is seen.", checks[("drift", 0)],
                 0.95 - 0.6 * quick)
    )  # fmt: skip
    return found


def _planner_verdicts(frame: pd.DataFrame, quick: bool) -> list[Verdict]:
    own = frame[frame["part"] == "planner"]
    found = []
    for (seller, rounds), rows in own.groupby(["case", "rounds"], sort=False):
        limit = 0.0 if rounds == 300 else 0.02 + 0.3 * quick
        found.append(
            at_most("25.11", f"Planner minus A/B winner, {seller} seller, {rounds} rounds.",
                    _upper(rows["gain"]), limit, what="upper limit")
        )  # fmt: skip
    return found


def band_figure(frame: pd.DataFrame) -> Figure:
    """Left: means of a log as points, the band that follows from monotonicity as steps, the true
    response dashed; gaps between offers stay wide. Right: our money with winner and safe offer."""
    figure, axes = panels(2, width=5.2, height=3.8)
    market = EXAMPLE
    log = market.log(np.repeat([0.1, 0.25, 0.4, 0.6], 60), random_state=25)
    fit = fit_game(log, offer="commission", outcome="revenue", currency="EUR")
    draw_response(fit, axes[0], truth=lambda s: market.response(float(s)))
    draw_value(fit, axes[1])
    return figure


def cost_figure(frame: pd.DataFrame) -> Figure:
    """Intervals of the seller's cost above that under the weakest offer, with the true cost."""
    figure, (axis,) = panels(1, height=3.2)
    market = EXAMPLE
    log = market.log(np.repeat([0.1, 0.25, 0.4, 0.6], 60), random_state=25)
    costs = fit_game(log, offer="commission", outcome="revenue").costs()
    at = np.arange(len(costs))
    axis.bar(at, costs["upper"] - costs["lower"], bottom=costs["lower"], width=0.5,
             color=PALETTE[0], alpha=0.4, label="limits")  # fmt: skip
    axis.plot(at, [0.0, 60.0, 60.0, 210.0], "k_", ms=28, mew=2, label="true cost")
    axis.set_xticks(at, [f"{x:g}" for x in costs["offer"]])
    axis.set_xlabel("commission")
    axis.set_ylabel("cost above the weakest offer, EUR")
    axis.legend(loc="upper left")
    return figure


def regret_figure(frame: pd.DataFrame) -> Figure:
    """Left: regret of the offer chosen from a log, by rule; the oracle knows the best tried offer.
    Right: regret per round against four sellers over the longest horizon, by policy."""
    figure, axes = panels(2, width=5.2, height=3.8)
    logs = table(frame, "log").droplevel("rounds")
    names = {"ab": "A/B winner", "winner": "isotonic", "safe": "safe", "oracle": "best tried"}
    _bars(axes[0], logs, names)
    planner = table(frame, "planner")
    longest = planner.index.get_level_values("rounds").max()
    shown = planner.xs(longest, level="rounds")
    _bars(axes[1], shown, {"ab": "A/B winner", "tried": "tried offers only", "planner": "planner"})
    axes[0].set_title("one offer from a log", fontsize=10)
    axes[1].set_title(f"{longest} rounds", fontsize=10)
    return figure


def _bars(axis: Any, frame: pd.DataFrame, names: dict[str, str]) -> None:
    at = np.arange(len(frame))
    for i, (column, label) in enumerate(names.items()):
        width = 0.8 / len(names)
        axis.bar(at + (i - (len(names) - 1) / 2) * width, frame[column], width,
                 color=PALETTE[i], label=label)  # fmt: skip
    axis.set_xticks(at, list(frame.index), fontsize=8, rotation=15)
    axis.set_ylabel("regret, share of the best value")
    axis.legend(fontsize=8)


def planner_figure(frame: pd.DataFrame) -> Figure:
    """Left: offers of a plan over the rounds; new ones bisect the gap in which the response jumps.
    Right: money earned so far beyond the A/B winner."""
    figure, axes = panels(2, width=5.2, height=3.6)
    market = EXAMPLE
    shares = np.repeat([0.1, 0.25, 0.4, 0.6], 20)
    fit = fit_game(market.log(shares, random_state=1), offer="commission", outcome="revenue")
    seller, plan = Seller(market, random_state=2), fit.planner(200, random_state=0)
    gained = []
    for _ in range(200):
        offer = plan.act()
        mean, drawn = seller.answer(offer)
        plan.observe(offer, drawn)
        gained.append((1 - offer) * mean - market.value(float(fit.next_offer().offer)))
    plan.report().plot(axes[0])
    axes[0].set_ylabel("commission")
    axes[1].plot(np.cumsum(gained), color=PALETTE[0])
    axes[1].axhline(0.0, color="#444444", linestyle="--")
    axes[1].set_xlabel("round")
    axes[1].set_ylabel("money beyond the committed offer")
    return figure


OFFERS = Study(
    name="offers",
    title="The next offer from a log of offers",
    question=(
        "How often do bands, cost intervals and promises hold, how much is lost by the offer that "
        "each rule chooses, and does a plan that learns beat the A/B winner against sellers who "
        "answer well, with spite, by learning or with rising costs?"
    ),
    claims=("25.05", "25.07", "25.08", "25.09", "25.10", "25.11", "25.29"),
    grid=grid,
    cell=cell,
    verdicts=verdicts,
    figures={
        "band": band_figure,
        "costs": cost_figure,
        "regret": regret_figure,
        "planner": planner_figure,
    },
)
