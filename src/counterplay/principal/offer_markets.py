"""Simulated sellers with a secret: what a commission really does, to measure methods against.

A seller has a few efforts, each with a mean revenue and a cost. He best-responds, breaks near-ties
against us, learns per offer (Hedge), or faces rising costs. Revenues are lognormal.
Source: docs/theory/25-offers.md, "Measured".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator, spawn
from counterplay.core.validation import (
    FloatArray,
    check_choice,
    check_float_array,
    check_fraction,
    check_positive_int,
    check_real,
    check_same_shape,
)
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

Answering = Literal["best", "spiteful", "hedge", "exp3", "drift"]
ANSWERING: tuple[Answering, ...] = ("best", "spiteful", "hedge", "exp3", "drift")
SPITE = 20.0
DRIFT = 0.5
HEDGE_RATE = 2.0
EXPLORED = 0.1
_SHARES = np.linspace(0.0, 0.95, 951)


@checked
@dataclass(frozen=True)
class OfferMarket:
    """Mean revenue and cost of every effort of a seller; commissions are shares.

    Parameters
    ----------
    revenues:
        Mean revenue of each effort, in money.
    costs:
        Cost of each effort, in money.
    cv:
        Coefficient of variation of the revenue.

    Examples
    --------
    >>> market = OfferMarket([100.0, 400.0], [0.0, 60.0])
    >>> market.response(0.1), market.response(0.3), market.best_value()
    (100.0, 400.0, 320.0)
    """

    revenues: FloatArray
    costs: FloatArray
    cv: float = 0.6

    def __post_init__(self) -> None:
        f = check_float_array(self.revenues, "revenues", ndim=1)
        c = check_float_array(self.costs, "costs", ndim=1)
        check_same_shape(f, c, ("revenues", "costs"))
        if f.size == 0 or (f < 0).any():
            raise InvalidInputError("revenues must be 0 or more, one per effort")
        check_real(self.cv, "cv", low=0.0, open_low=True)
        for name, array in (("revenues", f.copy()), ("costs", c.copy())):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    def response(self, share: float, *, dearer: float = 0.0) -> float:
        """Mean revenue of the best effort at a share; ``dearer`` raises all costs by a part."""
        rate = check_fraction(share, "share")
        gain = rate * self.revenues - (1.0 + check_real(dearer, "dearer")) * self.costs
        near = gain >= gain.max() - 1e-9
        return float(self.revenues[near].max())

    def value(self, share: float, *, dearer: float = 0.0) -> float:
        """Our mean money at a share."""
        return (1.0 - share) * self.response(share, dearer=dearer)

    def best_value(self, *, dearer: float = 0.0) -> float:
        """Our money at the best of all shares from 0 to 0.95."""
        spent = (1.0 + check_real(dearer, "dearer")) * self.costs
        gain = np.multiply.outer(_SHARES, self.revenues) - spent
        near = gain >= gain.max(axis=1, keepdims=True) - 1e-9
        return float(((1.0 - _SHARES) * np.where(near, self.revenues, 0.0).max(axis=1)).max())

    def noise(self, rng: np.random.Generator, size: int | None = None) -> Any:
        """Lognormal factors with mean one."""
        sigma = np.sqrt(np.log1p(self.cv**2))
        return rng.lognormal(-(sigma**2) / 2, sigma, size)

    def log(
        self,
        shares: FloatArray,
        *,
        answering: Answering = "best",
        random_state: RandomState = None,
    ) -> pd.DataFrame:
        """Return a log with the columns ``commission`` and ``revenue``, one row per share."""
        import pandas as pd

        seller = Seller(self, answering, random_state=random_state)
        offered = check_float_array(shares, "shares", ndim=1)
        revenue = [seller.answer(s)[1] for s in offered.tolist()]
        return pd.DataFrame({"commission": offered, "revenue": revenue})


@checked
def random_offer_market(random_state: RandomState = None, n_efforts: int = 4) -> OfferMarket:
    """A seller with efforts drawn at random: revenues up to 1000, costs up to 400.

    Examples
    --------
    >>> random_offer_market(0).revenues.size
    4
    """
    rng = generator(random_state)
    n = check_positive_int(n_efforts, "n_efforts")
    revenues = np.sort(rng.uniform(0.0, 1000.0, n))
    return OfferMarket(revenues, np.append(0.0, np.sort(rng.uniform(0.0, 400.0, n - 1))))


@checked
@dataclass
class Seller:
    """A seller who answers offers one after the other.

    Parameters
    ----------
    market:
        His efforts.
    answering:
        ``best`` response; ``spiteful`` (worst for us among efforts within 20 money of his best);
        ``hedge`` (learns per offer and sees what every effort would have earned); ``exp3`` (sees
        only his own); ``drift`` (best response while costs rise by half).
    horizon:
        Rounds until the drift is complete; it begins with :meth:`begin`.
    random_state:
        Seed of revenues and of the learner.

    Examples
    --------
    >>> seller = Seller(OfferMarket([100.0, 400.0], [0.0, 60.0]), random_state=0)
    >>> seller.answer(0.3)[0]
    400.0
    """

    market: OfferMarket
    answering: Answering = "best"
    horizon: int = 300
    random_state: RandomState = None
    _weights: dict[float, FloatArray] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_choice(self.answering, "answering", ANSWERING)
        self._choices, self._noise = spawn(self.random_state, 2)
        self._round: int | None = None

    def begin(self) -> None:
        """From here on costs drift."""
        self._round = 0

    @property
    def dearer(self) -> float:
        """By which part costs have risen."""
        if self.answering != "drift" or self._round is None:
            return 0.0
        return DRIFT * min(self._round / self.horizon, 1.0)

    def answer(self, share: float) -> tuple[float, float]:
        """Return mean and drawn revenue at this share, and go on to the next round."""
        share, market = check_fraction(share, "share"), self.market
        gain = share * market.revenues - (1.0 + self.dearer) * market.costs
        if self.answering == "spiteful":
            mean = float(market.revenues[gain >= gain.max() - SPITE].min())
        elif self.answering in ("hedge", "exp3"):
            mean = self._learned(share, gain)
        else:
            mean = market.response(share, dearer=self.dearer)
        if self._round is not None:
            self._round += 1
        return mean, mean * float(market.noise(self._noise))

    def _learned(self, share: float, gain: FloatArray) -> float:
        """Mean revenue of the effort drawn by exponential weights of this offer, then learn."""
        total = self._weights.setdefault(share, np.zeros(gain.size))
        chance = np.exp(total - total.max())
        chance /= chance.sum()
        scaled = gain / max(float(np.abs(self.market.revenues).max()), 1e-300)
        if self.answering == "exp3":
            chance = (1.0 - EXPLORED) * chance + EXPLORED / gain.size
        drawn = int(self._choices.choice(gain.size, p=chance))
        if self.answering == "exp3":  # only his own effort's gain is seen, weighted by its chance
            total[drawn] += EXPLORED / gain.size * (1.0 + scaled[drawn]) / chance[drawn]
        else:
            total += HEDGE_RATE * scaled
        return float(self.market.revenues[drawn])
