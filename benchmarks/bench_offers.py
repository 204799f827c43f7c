"""The next offer, the planner and the guarded forecaster against what people do now, as ratios.

1. Next offer from 5 x 20 rows: isotonic winner against the A/B winner, a Welch winner, a log-linear
   demand fit, and `design_contract` fed with plug-in values, midpoint costs and quartile states.
2. Planner over 300 rounds against the A/B winner, Thompson on tried offers and UCB.
3. Threshold adversary: bias of a guarded recent average against the average alone.
4. Time: fit of 100,000 rows, a step of the planner, the critical value of a band.
"""

from __future__ import annotations

import time

import numpy as np
from scipy.stats import ttest_ind
from sklearn.linear_model import LinearRegression

from counterplay.principal import UnbiasedForecaster, design_contract, fit_game
from counterplay.principal.lab import (
    EWMAForecaster,
    Seller,
    cost_ranges,
    random_offer_market,
    response_band,
)
from counterplay.studies.principal.safety_net import HALF, forecast

SHARES = np.linspace(0.1, 0.5, 5)
ROWS = np.repeat(SHARES, 20)
MARKETS = 20


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
    base = np.mean(found["A/B winner"])
    print(f"1. next offer from 5 x 20 rows, {MARKETS} markets: regret, ratio to the A/B winner")
    for name, regrets in found.items():
        print(f"{name:>26} {np.mean(regrets):7.3f} {np.mean(regrets) / base:6.2f}")


def planned(rounds: int = 300) -> None:
    found: dict[str, list[float]] = {}
    for seed in range(MARKETS // 2):
        market = random_offer_market(np.random.default_rng([seed, 1]))
        for name in ("A/B winner", "UCB", "Thompson, tried offers", "planner"):
            seller = Seller(market, random_state=seed)
            revenue = np.array([seller.answer(float(s))[1] for s in ROWS])
            plan = fit_game({"offer": ROWS, "outcome": revenue}).planner(
                rounds, explore=name == "planner", random_state=seed
            )
            worth = np.array([(1 - s) * revenue[s == ROWS].mean() for s in SHARES])
            count, spread, got = np.full(5, 20.0), float(np.std((1 - ROWS) * revenue)), 0.0
            for t in range(rounds):
                i = int(np.argmax(worth))
                if name == "UCB":
                    bonus = spread * np.sqrt(2 * np.log(100 + t) / count)
                    i = int(np.argmax(worth + bonus))
                offer = float(SHARES[i]) if name in ("A/B winner", "UCB") else plan.act()
                mean, drawn = seller.answer(offer)
                got += (1 - offer) * mean / rounds
                if name == "UCB":
                    count[i] += 1
                    worth[i] += ((1 - offer) * drawn - worth[i]) / count[i]
                elif name != "A/B winner":
                    plan.observe(offer, drawn)
            found.setdefault(name, []).append(1 - got / market.best_value())
    base = np.mean(found["A/B winner"])
    print(f"\n2. {rounds} rounds, best response: regret, ratio to the A/B winner")
    for name, regrets in found.items():
        print(f"{name:>26} {np.mean(regrets):7.3f} {np.mean(regrets) / base:6.2f}")


def adversary(rounds: int = 1000) -> None:
    points, y = forecast(EWMAForecaster(2), "threshold", rounds, 0)
    act = np.array([HALF.key(point, None) for point in points])
    residual = points - np.eye(2)[y]
    alone = sum(np.abs(residual[act == a].sum(axis=0)).sum() for a in (0, 1)) / rounds
    base = EWMAForecaster()
    guarded = UnbiasedForecaster(2, events=[HALF], base=base, horizon=rounds, random_state=0)
    forecast(guarded, "threshold", rounds, 0)
    bias = float(guarded.bias_report()["alpha"].sum())
    print(f"\n3. adversary: bias {alone:.3f} alone, {bias:.3f} guarded, ratio {bias / alone:.3f}")


def speed() -> None:
    rng = np.random.default_rng(0)
    share = np.round(rng.uniform(0.1, 0.5, 100_000), 5)
    log = {"offer": share, "outcome": 300 * rng.lognormal(0, 0.5, share.size)}
    begin = time.process_time()
    fit = fit_game(log)
    spent = time.process_time() - begin
    print(f"\n4. fit of 100,000 rows, {len(fit.band.groups)} groups: {spent:.2f} s")
    begin = time.process_time()
    response_band(share[:2000], log["outcome"][:2000])
    print(f"   band of 2,000 rows and its critical value: {time.process_time() - begin:.3f} s")
    plan = fit_game({"offer": ROWS, "outcome": 300 * rng.lognormal(0, 0.5, 100)}).planner(500)
    begin = time.process_time()
    for _ in range(500):
        plan.observe(plan.act(), 300.0)
    print(f"   a step of the planner: {1000 * (time.process_time() - begin) / 500:.2f} ms")


def main() -> None:
    next_offer()
    planned()
    adversary()
    speed()


if __name__ == "__main__":
    main()
