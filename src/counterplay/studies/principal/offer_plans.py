"""Plans against somebody who answers: sellers on commission, and smooth demand for other terms."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from counterplay.principal import fit_game
from counterplay.principal.lab import Seller, random_offer_market

SHARES = np.linspace(0.1, 0.5, 5)
AT_LEAST = 0.9


def plan_row(case: str, rounds: int, key: list[int]) -> dict[str, float]:
    """Regret of the A/B winner, of Thompson on tried offers, and of the planner; one market."""
    record = {}
    for name in ("ab", "tried", "planner"):
        trade = trade_of(case, rounds, key)
        offers = np.repeat(trade.tried, 20)
        outcome = np.array([trade.answer(float(x))[1] for x in offers])
        trade.begin()
        fit = fit_game({"offer": offers, "outcome": outcome}, **trade.terms)
        plan = fit.planner(
            rounds,
            explore=name == "planner",
            at_least=AT_LEAST if case == "best protected" else None,
            random_state=key[0] % 2**32,
        )
        means = [trade.margin(x) * outcome[offers == x].mean() for x in trade.tried]
        fixed = float(trade.tried[int(np.argmax(means))])
        got = best = earned = 0.0
        for _ in range(rounds):
            offer = fixed if name == "ab" else plan.act()
            best += trade.best()
            mean, drawn = trade.answer(offer)
            got += trade.margin(offer) * mean
            earned += trade.margin(offer) * drawn
            if name != "ab":
                plan.observe(offer, drawn)
        record[name] = 1 - got / best
    record["gain"] = record["planner"] - record["ab"]
    record["kept"] = float(earned >= AT_LEAST * rounds * fit.next_offer("safe").promise)
    return record


def trade_of(case: str, rounds: int, key: list[int]) -> Any:
    """The other side of a plan: a seller with efforts, or smooth demand for other terms."""
    if case in ("price", "bonus"):
        return SmoothTrade(case, key)
    return SellerTrade(case.split()[0], rounds, key)


class SellerTrade:
    """A seller on commission."""

    terms: ClassVar[dict[str, Any]] = {}
    tried = SHARES

    def __init__(self, answering: Any, rounds: int, key: list[int]) -> None:
        self.market = random_offer_market(np.random.default_rng([*key, 1]))
        stream = np.random.default_rng([*key, 2])
        self.seller = Seller(self.market, answering, horizon=rounds, random_state=stream)
        self._best: dict[float, float] = {}

    def begin(self) -> None:
        """The plan begins."""
        self.seller.begin()

    def margin(self, offer: float) -> float:
        """Our share."""
        return 1.0 - offer

    def best(self) -> float:
        """Money of the best share now."""
        dearer = self.seller.dearer
        if dearer not in self._best:
            self._best[dearer] = self.market.best_value(dearer=dearer)
        return self._best[dearer]

    def answer(self, offer: float) -> tuple[float, float]:
        """Mean and drawn revenue."""
        return self.seller.answer(offer)


class SmoothTrade:
    """Units that fall smoothly with a price, or sales that rise with a bonus; noise as before."""

    def __init__(self, kind: str, key: list[int]) -> None:
        self.rng, self.kind = np.random.default_rng([*key, 2]), kind
        drawn = np.random.default_rng([*key, 1])
        price = kind == "price"
        self.tried = np.linspace(5.0, 11.0, 5) if price else np.linspace(2.0, 18.0, 5)
        self.middle = float(drawn.uniform(6, 12) if price else drawn.uniform(4, 16))
        self.width = float(drawn.uniform(0.5, 2) if price else drawn.uniform(1, 4))
        self.terms: dict[str, Any] = {"terms": kind}
        self.terms |= {"unit_cost": 3.0} if price else {"unit_value": 40.0}
        fine = np.linspace(0.0, 20.0, 2001)
        self._best = max(self.margin(x) * self.mean(x) for x in fine.tolist())

    def begin(self) -> None:
        """Nothing changes when the plan begins."""

    def margin(self, offer: float) -> float:
        """What a unit earns us."""
        return offer - 3.0 if self.kind == "price" else 40.0 - offer

    def mean(self, offer: float) -> float:
        """Mean units."""
        side = -1.0 if self.kind == "price" else 1.0
        return 20.0 / (1.0 + float(np.exp(-side * (offer - self.middle) / self.width)))

    def best(self) -> float:
        """Money of the best offer."""
        return self._best

    def answer(self, offer: float) -> tuple[float, float]:
        """Mean and drawn units."""
        mean, sigma = self.mean(offer), np.sqrt(np.log1p(0.36))
        return mean, mean * float(self.rng.lognormal(-(sigma**2) / 2, sigma))
