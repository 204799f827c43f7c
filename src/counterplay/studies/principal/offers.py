"""Offers on simulated markets: coverage, the next offer, the planner against four sellers.

A cell is a handful of markets; verdicts and tables average over the cells.
Source: docs/theory/25-offers.md, "Measured".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

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
from counterplay.principal.offer_markets import SPITE
from counterplay.studies.principal.offer_figures import (
    band_figure,
    cost_figure,
    planner_figure,
    regret_figure,
    table,
)
from counterplay.studies.principal.offer_plans import SHARES, plan_row
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most

if TYPE_CHECKING:
    import pandas as pd

LOGS: dict[str, tuple[int, Any]] = {
    "5 x 20": (20, SHARES),
    "5 x 100": (100, SHARES),
    "3 x 60": (60, SHARES[::2]),
    "continuous 400": (400, None),
    "continuous 2000": (2000, None),
}
FEW = ("3 x 60", "continuous 2000")
SELLERS = ("best", "spiteful", "hedge", "drift")
OTHERS = ("exp3", "best protected", "price", "bonus")
MARKETS = 10


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
    add("slack", "spiteful", 20)
    for case in ("level", "drift"):
        add("checks", case, 50 if case == "level" else 10)
    for seller in SELLERS:
        for rounds in (30,) if quick else (30, 300):
            add("planner", seller, 20, rounds)
    for other in OTHERS:
        add("other plans", other, 20, 30 if quick else 300)
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
        "slack": _slack_cell,
        "checks": _check_cell,
    }
    if part in ("planner", "other plans"):
        rows = [plan_row(case, rounds, [seed, i]) for i in range(markets // 2)]
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
        s = np.repeat(tried, 200)
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


def _slack_cell(case: str, key: list[int]) -> dict[str, float]:
    """A seller who may miss his best by 20 money: the band with and without that slack."""
    market = random_offer_market(np.random.default_rng([*key, 1]))
    shares = np.repeat(SHARES, 60)
    log = market.log(shares, answering="spiteful", random_state=np.random.default_rng([*key, 2]))
    seller = Seller(market, "spiteful", random_state=0)
    truth = np.array([seller.answer(float(s))[0] for s in SHARES])
    record = {}
    for name, slack in (("covered", SPITE), ("covered_without", 0.0)):
        band = response_band(shares, log["revenue"].to_numpy(), slack=slack)
        inside = (band.lower(SHARES) <= truth + 1e-9) & (truth <= band.upper(SHARES) + 1e-9)
        record[name] = float(inside.all())
    return record


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
