"""From a log of offers and outcomes to what it identifies, and to the next offer.

Nobody in such a log writes down actions, costs, states or priors. If the other side answers well,
his response rises with the strength of the incentive; that alone gives bands for offers never made,
intervals for his costs, and a test. The next offer is the isotonic winner, or the safest promise.
Source: docs/theory/25-offers.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_real,
)
from counterplay.errors import InvalidInputError
from counterplay.principal import offer_words as words
from counterplay.principal.offer_checks import time_checks
from counterplay.principal.offer_groups import LEAST_OFF, MOST_GROUPS
from counterplay.principal.offer_log import OfferLog
from counterplay.principal.offer_terms import Terms
from counterplay.principal.response_band import ResponseBand
from counterplay.principal.revealed_costs import cost_ranges, smallest_regret
from counterplay.principal.worst_regret import worst_regrets

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from counterplay.principal.offer_planner import OfferPlanner

Rule = Literal["winner", "safe"]


@checked
@dataclass(frozen=True)
class NextOffer(Report):
    """The offer to commit to, in money per round.

    Attributes
    ----------
    offer:
        The offer.
    estimate:
        What it is estimated to earn per round.
    promise:
        Lower limit of what it earns; limits of all offers hold together.
    worst_regret:
        Most that another tried offer can be better, over all rising responses in the band;
        infinite where the upper limit is unknown.
    reason:
        Why this one, with the warnings of the log.
    rule:
        How it was chosen.
    currency:
        Unit of the money.
    """

    offer: Any
    estimate: float
    promise: float
    worst_regret: float
    reason: str
    rule: Rule = "winner"
    currency: str = ""

    def summary(self) -> str:
        """Return the offer with its promise as text."""
        return (
            f"{self.reason}\noffer {words.plain_offer(self.offer)}: about "
            f"{words.money(self.estimate, self.currency)} per round, at least "
            f"{words.money(self.promise, self.currency)}; another tried offer is better by at most "
            f"{words.money(self.worst_regret, self.currency)}"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the numbers as one row."""
        import pandas as pd

        names = ("offer", "rule", "estimate", "promise", "worst_regret")
        return pd.DataFrame([{name: getattr(self, name) for name in names}])


@checked
@dataclass(frozen=True, eq=False, repr=False)
class OfferFit(Report):
    """What a log of offers identifies, from :func:`fit_game`; everything in the user's money.

    Attributes
    ----------
    log:
        The log as it was read.
    band:
        Limits of the response for all offers at once.
    level:
        Confidence of the limits.
    currency:
        Unit of the money.
    aside:
        Arms with too few rows for limits, with their rows.
    seed:
        Seed of the permutation checks.
    slack:
        Money per round by which answers may miss the best one.
    """

    log: OfferLog
    band: ResponseBand
    level: float
    currency: str = ""
    aside: tuple[tuple[Any, int], ...] = ()
    seed: int = 0
    slack: float = 0.0

    def __repr__(self) -> str:
        return (
            f"OfferFit({len(self.log)} rows, {self.log.distinct[1].size} offers of "
            f"{self.log.offer!r}, monotone={self.monotone})"
        )

    @property
    def terms(self) -> Terms:
        """What an offer means."""
        return self.log.terms

    @property
    def monotone(self) -> bool:
        """Whether a response that rises with the incentive fits the log."""
        return self.band.monotone

    @cached_property
    def smallest_regret(self) -> float:
        """Least regret per round, in money, that explains the mean outcomes: "at least"."""
        if not self.terms.ordered:
            return float("nan")
        groups = self.band.groups
        return smallest_regret(self.terms.pay((groups.low + groups.high) / 2), groups.mean)

    @property
    def not_identified(self) -> tuple[str, ...]:
        """What no analysis of this log can say, as sentences."""
        return words.not_identified(self)

    @property
    def _by_offer(self) -> bool:
        """Whether every distinct offer has its own mean; many offers are taken in groups."""
        return self.log.distinct[1].size <= MOST_GROUPS and self.log.stratum is None

    def unit(self, power: float) -> int:
        """The mean that a tried power belongs to: its own, or that of its group."""
        if self._by_offer:
            return int(np.searchsorted(self.log.distinct[1], power))
        return self._group_of(power)

    @cached_property
    def unit_rows(self) -> IntArray:
        """The unit of every row."""
        if self._by_offer:
            return np.searchsorted(self.log.distinct[1], self.log.power)
        return self.band.groups.group

    @cached_property
    def isotonic(self) -> FloatArray:
        """Mean of every unit, made nondecreasing in the power where that fits."""
        rows = np.bincount(self.unit_rows).astype(np.float64)
        mean = self.band.groups.mean
        if self._by_offer:
            order = np.lexsort((self.log.values, self.unit_rows))
            starts = np.searchsorted(self.unit_rows[order], np.arange(rows.size))
            mean = np.add.reduceat(self.log.values[order], starts) / rows
        if not self.terms.ordered or not self.monotone:
            return np.asarray(mean)
        from scipy.optimize import isotonic_regression

        return np.asarray(isotonic_regression(mean, weights=rows).x)

    @cached_property
    def candidates(self) -> IntArray:
        """One tried offer per unit with a margin, as positions among the distinct offers."""
        offers, power = self.log.distinct
        units = np.empty(power.size, dtype=np.int64)  # every distinct power is some row's
        units[np.searchsorted(power, self.log.power)] = self.unit_rows
        rows = np.bincount(self.unit_rows)
        found = []
        for u in range(rows.size):
            own = np.flatnonzero(units == u)
            middle = self.log.power[self.unit_rows == u].mean()
            at = int(own[np.argmin(np.abs(power[own] - middle))])
            if self._margin(offers[at]) > 0 and rows[u] >= LEAST_OFF:
                found.append(at)
        return np.array(found, dtype=np.int64)

    def _margin(self, offer: Any) -> float:
        return 1.0 if not self.terms.ordered else float(self.terms.margin(offer))

    def response(self, offers: Any = None) -> pd.DataFrame:
        """Return the mean outcome at ``offers`` (default: all tried) with its limits.

        Columns: ``offer``, ``rows``, ``estimate`` (NaN for untried offers: nothing interpolates),
        ``lower``, ``upper`` and ``tried``.
        """
        import pandas as pd

        known, powers = self.log.distinct
        asked = list(known) if offers is None else list(_as_list(offers))
        counts = np.bincount(np.searchsorted(powers, self.log.power), minlength=powers.size)
        rows = []
        for offer in asked:
            at, power = self._place(offer, known, powers)
            group = -1 if at < 0 else self.unit(powers[at])
            low, high = float(self.band.lower(power)[0]), float(self.band.upper(power)[0])
            rows.append(
                {
                    "offer": offer,
                    "rows": 0 if at < 0 else int(counts[at]),
                    "estimate": float("nan") if group < 0 else float(self.isotonic[group]),
                    "lower": low,
                    "upper": high,
                    "tried": at >= 0,
                }
            )
        return pd.DataFrame(rows)

    def _place(self, offer: Any, known: Any, powers: FloatArray) -> tuple[int, float]:
        """Position among the distinct offers (-1: untried) and power."""
        if not self.terms.ordered:
            at = next((i for i, name in enumerate(known) if name == offer), -1)
            return at, float(powers[at]) if at >= 0 else float("nan")
        number = check_real(offer, "offer")
        if fault := self.terms.fault(number):
            raise InvalidInputError(f"offer {number:g} {fault}")
        power = float(self.terms.power(number))
        at = int(np.searchsorted(powers, power))
        same = at < powers.size and powers[at] == power
        return (at if same else -1), power

    def _group_of(self, power: float) -> int:
        groups = self.band.groups
        at = int(np.searchsorted(groups.high, power))
        return at if at < len(groups) and groups.low[at] <= power else -1

    def value(self, offers: Any = None) -> pd.DataFrame:
        """Return what ``offers`` earn us per round: the response times our margin."""
        frame = self.response(offers)
        margin = np.array([self._margin(offer) for offer in frame["offer"]])
        ends = {"lower": frame["lower"].to_numpy(), "upper": frame["upper"].to_numpy()}
        frame["estimate"] *= margin
        with np.errstate(invalid="ignore"):
            sides = [np.where(margin == 0, 0.0, margin * ends[name]) for name in ends]
        frame["lower"], frame["upper"] = np.minimum(*sides), np.maximum(*sides)
        return frame

    def costs(self) -> pd.DataFrame:
        """Return limits of his cost under each offer above that under the weakest offer.

        For prices and discounts the "cost" is minus what the units are worth to the buyer. With
        ``action=`` the commonest action under each offer is named. NaN where no rising response
        fits, or where offers have no order.
        """
        import pandas as pd

        groups, (offers, powers) = self.band.groups, self.log.distinct
        at = np.searchsorted(powers, groups.low)
        frame = pd.DataFrame({"offer": offers[at]})
        frame["lower"] = frame["upper"] = float("nan")
        if self.terms.ordered and self.monotone:
            frame["lower"], frame["upper"] = self._cost_ranges
        if self.log.action is not None:
            taken = [_commonest(self.log.action[groups.group == g]) for g in range(len(groups))]
            frame["action"] = [name for name, _ in taken]
            frame["action_share"] = [share for _, share in taken]
        return frame

    @cached_property
    def _cost_ranges(self) -> tuple[FloatArray, FloatArray]:
        """Costs at the weakest offer of every group: its own upper limit is finite."""
        low = self.band.groups.low
        limits = self.band.lower(low), self.band.upper(low)
        return cost_ranges(self.terms.pay(low), *limits, slack=self.slack)

    def checks(self) -> pd.DataFrame:
        """Return the tests of what the limits rest on: check, statistic, p_value, verdict."""
        import pandas as pd

        return pd.DataFrame(self._checks, columns=["check", "statistic", "p_value", "verdict"])

    @cached_property
    def _checks(self) -> list[tuple[str, float, float, str]]:
        rows: list[tuple[str, float, float, str]] = []
        if self.terms.ordered:
            fit = "consistent" if self.monotone else "rejected"
            rows.append(("monotone response", self.smallest_regret, self.band.p_value, fit))
        return rows + time_checks(self.log, self.band.groups, self.level, self.seed)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the checks found, as sentences; advice begins with them."""
        return words.warnings(self)

    def next_offer(self, rule: Rule = "winner") -> NextOffer:
        """Return the tried offer to commit to.

        Parameters
        ----------
        rule:
            ``"winner"``: the largest estimate after isotonic regression. ``"safe"``: the largest
            promise (lower limit); it costs value, for people who must not lose.
        """
        check_choice(rule, "rule", ("winner", "safe"))
        offers, powers = self.log.distinct
        at = self.candidates
        margin = np.array([self._margin(offers[i]) for i in at])
        lower, upper = self.band.lower(powers[at]), self.band.upper(powers[at])
        estimate = np.array([self.isotonic[self.unit(powers[i])] for i in at])
        score = margin * (estimate if rule == "winner" else lower)
        best = int(np.argmax(score))
        regret = worst_regrets(powers[at], margin, lower, upper, ordered=self._ordered)
        return NextOffer(
            offer=_plain(offers[at[best]]),
            estimate=float(margin[best] * estimate[best]),
            promise=float(margin[best] * lower[best]),
            worst_regret=float(regret[best]),
            reason=words.reason(self, rule, len(at)),
            rule=rule,
            currency=self.currency,
        )

    @property
    def _ordered(self) -> bool:
        return self.terms.ordered and self.monotone

    def planner(
        self,
        rounds: int = 30,
        *,
        step: float | None = None,
        explore: bool | None = None,
        at_least: float | None = None,
        highest: float | None = None,
        random_state: RandomState = 0,
    ) -> OfferPlanner:
        """Return a plan for the next rounds that learns from each, see :class:`OfferPlanner`.

        Parameters
        ----------
        rounds:
            Rounds of the plan.
        step:
            Smallest difference between new offers; default 0.01 for shares, about a hundredth of
            the largest offer otherwise.
        explore:
            Whether offers never made may be tried; default: only if the checks found no drift and
            no carry-over.
        at_least:
            Try new offers only while the total stays above this share of the safe promise.
        highest:
            Highest price that may be tried (terms ``price``).
        random_state:
            Seed.
        """
        from counterplay.principal.plan_start import planner_of

        return planner_of(self, rounds, step, explore, at_least, highest, random_state)

    def summary(self) -> str:
        """Return what the log says, warnings first, in the user's words and money."""
        return words.fit_summary(self)

    def to_frame(self) -> pd.DataFrame:
        """Return response and value of every tried offer."""
        frame, value = self.response(), self.value()
        for name in ("estimate", "lower", "upper"):
            frame[f"value_{name}"] = value[name]
        return frame

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the response band over the offers: means as points, limits as steps."""
        from counterplay.principal.offer_pictures import draw_response

        return draw_response(self, ax)

    def plot_value(self, ax: Axes | None = None) -> Axes:
        """Draw our money per round over the offers, with winner, safe offer and promise."""
        from counterplay.principal.offer_pictures import draw_value

        return draw_value(self, ax)


def _commonest(actions: Any) -> tuple[Any, float]:
    values, counts = np.unique(actions.astype(str), return_counts=True)
    return str(values[int(counts.argmax())]), float(counts.max() / counts.sum())


def _as_list(offers: Any) -> Sequence[Any]:
    if isinstance(offers, str) or np.ndim(offers) == 0:
        return [offers]
    return [_plain(offer) for offer in offers]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
