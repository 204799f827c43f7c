"""The next rounds: offers that learn, and try something new only while it can pay back.

Thompson sampling on isotonic means picks a tried offer. If the response jumps between it and its
weaker neighbour, the jump may sit anywhere in the gap; a random offer in the gap bisects it, and is
made when the gain over the rounds left exceeds what finding out costs.
Source: docs/theory/25-offers.md, "The planner"; an empirical rule, no worst-case guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterplay.core.records import read_generator, require_state, write_record
from counterplay.core.validation import FloatArray, check_real
from counterplay.errors import CounterplayError, InvalidInputError, ProtocolError
from counterplay.principal.offer_words import plain_offer
from counterplay.principal.plan_report import PlanReport
from counterplay.principal.saved_plan import (
    WHAT,
    PlanSettings,
    SavedEvent,
    SavedPlan,
    digest_of,
    read_plan,
    terms_of,
)
from counterplay.tables.cells import is_missing, shown

_NO_SPREAD = 0.5  # coefficient of variation when nothing is known about it
_DIGITS = 12


@dataclass
class _Arm:
    """Rows, mean and squared deviations of one offer."""

    offer: Any
    power: float
    rows: int
    mean: float
    square: float

    def add(self, outcome: float) -> None:
        self.rows += 1
        step = outcome - self.mean
        self.mean += step / self.rows
        self.square += step * (outcome - self.mean)


class OfferPlanner:
    """Offers for a number of rounds, each learning from those before; made by ``fit.planner``.

    Every :meth:`act` is a round; outcomes may come late, in any order, or never. The plan survives
    between days as JSON (:meth:`to_json`, :meth:`from_json`): the same offers as undisturbed.

    Parameters
    ----------
    settings:
        What the plan starts with; ``fit.planner(...)`` makes it.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from counterplay.principal import fit_game
    >>> rng = np.random.default_rng(0)
    >>> share = np.repeat([0.1, 0.3, 0.5], 80)
    >>> revenue = np.where(share < 0.3, 100, 400) * rng.lognormal(-0.08, 0.4, 240)
    >>> log = pd.DataFrame({"offer": share, "outcome": revenue})
    >>> plan = fit_game(log).planner(rounds=20)
    >>> for _ in range(20):
    ...     offer = plan.act()
    ...     plan.observe(offer, 400.0 if offer >= 0.22 else 100.0)
    >>> bool(plan.report().earned > 250)
    True

    References
    ----------
    "The planner", see docs/theory/25-offers.md.
    """

    def __init__(self, settings: PlanSettings) -> None:
        if not isinstance(settings, PlanSettings):
            raise InvalidInputError("a plan is made by fit_game(log).planner(rounds=30)")
        self.settings = settings
        self.terms = terms_of(settings, WHAT)
        self.events: list[SavedEvent] = []
        self._rng = read_generator(settings.generator, "generator", what=WHAT)
        self._arms = [
            _Arm(arm.offer, self._power(arm.offer, i), arm.rows, arm.mean, arm.square)
            for i, arm in enumerate(settings.arms)
        ]
        self._arms.sort(key=lambda arm: arm.power)
        self._limits = sorted(
            (self._power(a.offer, i), a.lower) for i, a in enumerate(settings.arms)
        )
        self._made = 0
        self._earned = 0.0

    def __repr__(self) -> str:
        return (
            f"OfferPlanner(round {self._made} of {self.settings.rounds}, {len(self._arms)} offers)"
        )

    def _power(self, offer: Any, place: int) -> float:
        return float(self.terms.power(offer)) if self.terms.ordered else float(place)

    def act(self) -> Any:
        """Return the offer of the next round; the outcome may be observed later."""
        if self._made >= self.settings.rounds:
            raise ProtocolError(
                f"the plan of {self.settings.rounds} rounds is used up; fit the longer log and "
                "make a new one"
            )
        offer = self._propose()
        self._made += 1
        self.events.append(SavedEvent(what="offered", offer=offer))
        return offer

    def observe(self, offer: Any, outcome: float | None) -> None:
        """Learn the outcome of an offer; None or NaN if it was never seen."""
        known = self._known(offer)
        if is_missing(outcome):
            self.events.append(SavedEvent(what="seen", offer=known))
            return
        seen = check_real(outcome, self.settings.outcome)
        if seen < self.settings.floor:
            raise InvalidInputError(
                f"{self.settings.outcome} is {seen:g}, below the floor {self.settings.floor:g}"
            )
        self._learn(known, seen)
        self.events.append(SavedEvent(what="seen", offer=known, outcome=seen))

    def _known(self, offer: Any) -> Any:
        """The offer as it is kept; unknown arms and impossible numbers are refused."""
        if not self.terms.ordered:
            for arm in self._arms:
                if arm.offer == offer and isinstance(arm.offer, str) == isinstance(offer, str):
                    return arm.offer
            names = ", ".join(plain_offer(arm.offer) for arm in self._arms[:8])
            raise InvalidInputError(f"{shown(offer, 40)} is no arm of the plan; arms: {names}")
        number = check_real(offer, self.settings.offer)
        if fault := self.terms.fault(number):
            raise InvalidInputError(f"offer {number:g} {fault}")
        return number

    def _learn(self, offer: Any, outcome: float) -> None:
        margin = float(self.terms.margin(offer)) if self.terms.ordered else 1.0
        self._earned += margin * outcome
        for arm in self._arms:
            if arm.offer == offer:
                arm.add(outcome)
                return
        new = _Arm(offer, self._power(offer, -1), 1, outcome, 0.0)
        self._arms.append(new)
        self._arms.sort(key=lambda arm: arm.power)

    def _propose(self) -> Any:
        """One draw: Thompson on isotonic means, then perhaps a new offer in the gap below."""
        power = np.array([arm.power for arm in self._arms])
        margin = self._margins()
        drawn, cv = self._draw()
        worth = np.where(margin >= 0, margin * drawn, -np.inf)
        i = int(np.argmax(worth))
        if not self.settings.explore:
            return self._arms[i].offer
        below = (power[i - 1], drawn[i - 1]) if i > 0 else self._below()
        uniform = self._rng.random()  # drawn in every round, so that the stream does not branch
        new = self._new_offer(power[i], float(drawn[i]), float(margin[i]), below, uniform, cv)
        return self._arms[i].offer if new is None else new

    def _margins(self) -> FloatArray:
        if not self.terms.ordered:
            return np.ones(len(self._arms))
        return self.terms.margin([arm.offer for arm in self._arms])

    def _draw(self) -> tuple[FloatArray, float]:
        """Responses drawn around the means with the pooled coefficient of variation."""
        n = np.array([float(arm.rows) for arm in self._arms])
        m = np.array([arm.mean for arm in self._arms])
        square = np.array([arm.square for arm in self._arms])
        good = (m > 0) & (n > 1)
        free = float((n[good] - 1).sum())
        cv = math.sqrt(float((square[good] / m[good] ** 2).sum()) / free) if free else _NO_SPREAD
        fitted = self._isotonic(m, n)
        size = np.maximum(fitted, 1e-9 * max(float(fitted.max(initial=0.0)), 1e-300))
        noisy = m + cv * size / np.sqrt(n) * self._rng.standard_normal(n.size)
        drawn = self._isotonic(np.maximum(noisy, self.settings.floor), n / size**2)
        return drawn, cv

    def _isotonic(self, values: FloatArray, weights: FloatArray) -> FloatArray:
        if not self.settings.shaped:
            return values
        from scipy.optimize import isotonic_regression

        scaled = weights / weights.max()
        return np.asarray(isotonic_regression(values, weights=np.maximum(scaled, 1e-12)).x)

    def _below(self) -> tuple[float, float] | None:
        """What lies under the weakest offer: power 0 (a highest price), where nothing is sold."""
        lowest = self.settings.lowest_power
        return None if lowest is None else (lowest, self.settings.floor)

    def _new_offer(
        self,
        top: float,
        f: float,
        g: float,
        below: tuple[float, float] | None,
        uniform: float,
        cv: float,
    ) -> Any:
        """An offer in the gap under the chosen one, if it pays back in the rounds left."""
        if below is None or not f > below[1]:
            return None
        p, weak = below
        gap, step = top - p, self.settings.step
        if gap <= 2 * step:
            return None
        power = min(math.ceil((p + uniform * gap) / step - 1e-9) * step, top)
        offer = round(float(self.terms.offer(power)), _DIGITS)
        if power >= top or power <= p or self.terms.fault(offer):
            return None
        chance = (power - p) / gap  # that the jump lies below the new offer
        need = max(1.0, (2 * cv * f / (f - weak)) ** 2)
        left = self.settings.rounds - self._made
        margin = float(self.terms.margin(offer))
        gain = chance * (margin - g) * f * (left - need)
        loss = (1 - chance) * (g * f - margin * weak) * need
        return offer if gain > loss and self._affordable(power, margin, left) else None

    def _affordable(self, power: float, margin: float, left: int) -> bool:
        """Whether the total stays above the protected share of the safe promise."""
        if self.settings.at_least is None:
            return True
        under = [low for p, low in self._limits if p <= power]
        worst = margin * max(under, default=self.settings.floor)
        total = self._earned + worst + (left - 1) * self.settings.promise
        return total >= self.settings.at_least * self.settings.rounds * self.settings.promise

    def report(self) -> PlanReport:
        """Return what happened so far."""
        return PlanReport(
            tuple(self.events), self.settings, tuple((a.offer, a.rows, a.mean) for a in self._arms)
        )

    def to_json(self) -> str:
        """Return the plan as JSON text."""
        events = tuple(self.events)
        saved = SavedPlan(
            kind="offer plan",
            version=1,
            settings=self.settings,
            events=events,
            digest=digest_of(self.settings, events),
        )
        return write_record(saved)

    @classmethod
    def from_json(cls, text: str | bytes, *, what: str = WHAT) -> OfferPlanner:
        """Return the plan of a JSON text; untrusted: checked, then replayed event by event."""
        saved = read_plan(text, what)
        try:
            plan = cls(saved.settings)
            for i, event in enumerate(saved.events):
                if event.what == "seen":
                    plan.observe(event.offer, event.outcome)
                    continue
                offer = plan.act()
                require_state(
                    offer == event.offer, what, f"event {i}", f"the plan proposes {offer!r:.40}"
                )
        except CounterplayError as error:
            if str(error).startswith(what):
                raise
            require_state(False, what, "", str(error)[:150])
        return plan
