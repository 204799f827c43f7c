"""The next offer, the planner and the guarded forecaster against what people do now, as ratios.

1. Next offer from 5 x 20 rows: isotonic winner against the A/B winner, a Welch winner, a log-linear
   demand fit, and `design_contract` fed with plug-in values, midpoint costs and quartile states.
2. Planner over 300 rounds against the A/B winner, Thompson on tried offers and UCB; four sellers.
3. Bias of a guarded recent average against the average alone (adversary), log loss against the
   forecaster without a base (flu trends in the order of the file, where the data are there).
4. Time: a fit of 100,000 rows, a band and a step of the planner, as ratios to scikit-learn's
   isotonic regression, random forest and pairwise tests on the same rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from ledger import Times, compare, skipped, timed
from scipy.stats import ttest_ind
from sklearn.ensemble import RandomForestRegressor
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LinearRegression

from counterplay.errors import DataUnavailableError
from counterplay.principal import UnbiasedForecaster, design_contract, fit_game
from counterplay.principal.lab import (
    EWMAForecaster,
    Seller,
    cost_ranges,
    random_offer_market,
    response_band,
)
from counterplay.studies.principal.forecast_logs import flu_run
from counterplay.studies.principal.offer_plans import plan_row
from counterplay.studies.principal.safety_net import HALF, forecast

SHARES = np.linspace(0.1, 0.5, 5)
ROWS = np.repeat(SHARES, 20)
MARKETS = 60


def welch(revenue: np.ndarray) -> float:
    """The best mean, unless it is not significantly better than the smallest share's."""
    worth = [(1 - s) * revenue[s == ROWS] for s in SHARES]
    best = int(np.argmax([w.mean() for w in worth]))
    sure = best == 0 or ttest_ind(worth[best], worth[0], equal_var=False).pvalue < 0.05
    return float(SHARES[best] if sure else SHARES[0])


def demand(revenue: np.ndarray) -> float:
    """A log-linear response, maximised over all shares."""
    line = LinearRegression().fit(ROWS[:, None], np.log(np.maximum(revenue, 1e-9)))
    grid = np.linspace(0, 0.95, 96)
    return float(grid[np.argmax((1 - grid) * np.exp(line.predict(grid[:, None])))])


def plug_in(revenue: np.ndarray, seed: int) -> float:
    """Quartiles of the revenue as states, midpoints of the cost intervals, then design_contract."""
    values = np.array(
        [np.quantile(revenue[s == ROWS], [0.125, 0.375, 0.625, 0.875]) for s in SHARES]
    )
    means = np.maximum.accumulate(values.mean(axis=1))
    low, high = cost_ranges(SHARES, means, means)
    costs = (low + high) / 2 + 2.0 * np.arange(5)  # efforts must differ in cost
    scale = max(values.max(), costs.max())
    history = np.random.default_rng(seed).integers(0, 4, 60)
    return float(design_contract(values / scale, costs / scale, history, replicates=1).policy)


def next_offer() -> None:
    found: dict[str, list[float]] = {}
    for seed in range(MARKETS):
        market = random_offer_market(np.random.default_rng([seed, 1]))
        log = market.log(ROWS, random_state=np.random.default_rng([seed, 2]))
        revenue, best = log["revenue"].to_numpy(), market.best_value()
        fit = fit_game(log, offer="commission", outcome="revenue")
        means = [(1 - s) * revenue[s == ROWS].mean() for s in SHARES]
        chosen = {
            "A/B winner": float(SHARES[int(np.argmax(means))]),
            "isotonic winner": fit.next_offer().offer,
            "safe": fit.next_offer("safe").offer,
            "Welch winner": welch(revenue),
            "log-linear demand": demand(revenue),
            "design_contract, plug-in": plug_in(revenue, seed),
        }
        for name, share in chosen.items():
            found.setdefault(name, []).append(1 - market.value(share) / best)
    own = {name: found.pop(name) for name in ("isotonic winner", "safe")}
    bars = {"A/B winner": 1.0, "design_contract, plug-in": 2.0}
    for name, theirs in found.items():
        for way, regrets in own.items():
            compare("principal", f"regret of the next offer from 5 x 20 rows, {way}", regrets,
                    theirs, against=name, unit="regret",
                    bar=bars.get(name) if way == "isotonic winner" else None,
                    note=f"{MARKETS} markets")  # fmt: skip


def ucb(seed: int, rounds: int) -> float:
    """Regret of UCB on the tried offers against a seller who answers well."""
    market = random_offer_market(np.random.default_rng([seed, 0, 1]))
    seller = Seller(market, random_state=seed)
    revenue = np.array([seller.answer(float(s))[1] for s in ROWS])
    worth = np.array([(1 - s) * revenue[s == ROWS].mean() for s in SHARES])
    count, spread, got = np.full(5, 20.0), float(np.std((1 - ROWS) * revenue)), 0.0
    for t in range(rounds):
        i = int(np.argmax(worth + spread * np.sqrt(2 * np.log(100 + t) / count)))
        offer = float(SHARES[i])
        mean, drawn = seller.answer(offer)
        got += (1 - offer) * mean / rounds
        count[i] += 1
        worth[i] += ((1 - offer) * drawn - worth[i]) / count[i]
    return 1 - got / market.best_value()


def planned(rounds: int = 300) -> None:
    bars = {"best": 0.92, "spiteful": 0.92, "hedge": 1.1, "drift": 1.1}
    for seller, bar in bars.items():
        rows = [plan_row(seller, rounds, [seed, 0]) for seed in range(MARKETS)]
        ab, tried, plan = ([row[name] for row in rows] for name in ("ab", "tried", "planner"))
        what = f"regret of the planner, {rounds} rounds, {MARKETS} markets, seller: {seller}"
        others = {"the A/B winner": (ab, 0.85 if seller == "best" else None),
                  "Thompson on tried offers": (tried, bar)}  # fmt: skip
        if seller == "best":
            others["UCB on tried offers"] = ([ucb(seed, rounds) for seed in range(MARKETS)], None)
        for name, (regrets, most) in others.items():
            compare("principal", what, plan, regrets, against=name, unit="regret",
                    bar=1 / most if most else None)  # fmt: skip


def adversary(rounds: int = 1000, seeds: int = 5) -> None:
    alone, bias = [], []
    for seed in range(seeds):
        points, y = forecast(EWMAForecaster(2), "threshold", rounds, seed)
        act = np.array([HALF.key(point, None) for point in points])
        residual = points - np.eye(2)[y]
        alone.append(sum(np.abs(residual[act == a].sum(axis=0)).sum() for a in (0, 1)) / rounds)
        guarded = UnbiasedForecaster(2, events=[HALF], base=EWMAForecaster(), horizon=rounds,
                                     random_state=seed)  # fmt: skip
        forecast(guarded, "threshold", rounds, seed)
        bias.append(float(guarded.bias_report()["alpha"].sum()))
    compare("principal", "bias of a guarded recent average against an adversary", bias, alone,
            against="the average alone", package="counterplay", unit="bias", bar=10)  # fmt: skip


def flu() -> None:
    what = "log loss of a guarded recent average, flu trends in the order of the file"
    try:
        scores = {name: flu_run("file", name, 0) for name in ("unbiased", "guarded recent average")}
    except DataUnavailableError:
        skipped("principal", what, "set COUNTERPLAY_DATA to a folder with the FluSight data")
        return
    alone, guarded = (scores[name]["log_loss"] for name in scores)
    compare("principal", what, guarded, alone, against="no base",
            package="counterplay", unit="log loss", bar=1 / 0.85)  # fmt: skip


def seconds(work: Callable[[], object], repeats: int = 1) -> Times:
    """Processor time of one call, after one that warms up."""
    work()
    return timed(lambda: [work() for _ in range(repeats)], cpu=True).each(repeats)


def speed() -> None:
    rng = np.random.default_rng(0)
    share = np.round(rng.uniform(0.1, 0.5, 100_000), 5)
    log = {"offer": share, "outcome": 300 * rng.lognormal(0, 0.5, share.size)}
    fit = seconds(lambda: fit_game(log))
    forest = RandomForestRegressor(10, random_state=0)
    fitted = seconds(lambda: forest.fit(share[:, None], log["outcome"]))
    compare("principal", "fit_game of 100,000 rows", fit, fitted, against="a forest of ten trees",
            package="scikit-learn", bar=1.0)  # fmt: skip
    some, outcome = share[:2000], np.asarray(log["outcome"][:2000])
    band = seconds(lambda: response_band(some, outcome), 3)
    forty = [outcome[np.floor(100 * some) == k] for k in range(10, 50)]
    tests = seconds(lambda: [ttest_ind(a, b) for a in forty for b in forty], 1)
    compare("principal", "band of 2,000 rows and 40 groups", band, tests,
            against="all pairwise t-tests", package="scipy", bar=1.0)  # fmt: skip
    revenue = 300 * rng.lognormal(0, 0.5, 100)
    plan = fit_game({"offer": ROWS, "outcome": revenue}).planner(4000)
    step = seconds(lambda: plan.observe(plan.act(), 300.0), 1000)
    means = np.array([revenue[s == ROWS].mean() for s in SHARES])
    reference = seconds(lambda: IsotonicRegression().fit(SHARES, means).predict(SHARES), 300)
    compare("principal", "a step of the planner", step, reference, package="scikit-learn",
            against="one isotonic regression of its arms", bar=1 / 2)  # fmt: skip


def main() -> None:
    next_offer()
    planned()
    adversary()
    flu()
    speed()


if __name__ == "__main__":
    main()
