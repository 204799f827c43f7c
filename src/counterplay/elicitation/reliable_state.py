"""What a questionnaire with people who slip knows: a replay of its answers.

Forecasts, bets, the recommendation and the next question are functions of the answers and a seed,
so undoing and resuming are replays and a certificate is computed, never read.
Source: docs/theory/26-people.md, "Forecasts and questions".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from counterplay.core.seeds import derive_seed
from counterplay.core.validation import FloatArray
from counterplay.elicitation import region as regions
from counterplay.elicitation.choice_log import ChoiceAnswer, ChoiceQuery
from counterplay.elicitation.exact_path import exact_elicitor, told_exact
from counterplay.elicitation.forecast import Forecast
from counterplay.elicitation.item_table import ItemTable
from counterplay.elicitation.question_policy import Choice, Threats, most_telling
from counterplay.elicitation.region import ModelRegion, Region, start_cells
from counterplay.elicitation.regrets import item_regrets, regrets
from counterplay.elicitation.slips import AtMost, Unknown

Stop = Literal["reliable", "credible", "exact"]
MOST_DIMENSIONS = 6
UNANSWERED = 8
"""So many questions in a row without an answer end the questionnaire."""
_CLOUD = 1000
_JITTERED = 2000
_THREATS = 600  # enough of them to see where the region still threatens
_GROWTH = 5  # rounds of copies around known threats
_CLEAR = 0.9
_STEPS = 8
_WIDEN = 0.02


@dataclass(frozen=True)
class Settings:
    """Parameters of the questionnaire, checked."""

    confidence: float
    target: float
    errors: AtMost | Unknown
    show: int
    ranking: bool
    check_every: int
    stop: Stop
    max_questions: int
    max_cells: int

    @property
    def alpha(self) -> float:
        """Probability of error."""
        return 1.0 - self.confidence


@dataclass
class View:
    """What one look at the answers found; computed once per answer."""

    item: int
    """Row that is recommended."""
    bound: int | None
    """Number of the error bound in use; None once all of them are refuted."""
    threats: Threats
    certified: bool
    member: bool
    """Whether a preference in the region is known, without which nothing can be certified."""
    largest: float
    """Largest regret of a known member of the region."""


@dataclass
class Repeats:
    """Questions that were asked twice."""

    pairs: list[bool] = field(default_factory=list)
    """Whether the two answers differ."""


class ReliableState:
    """Replays answers and finds the next question.

    Parameters
    ----------
    items:
        What can be chosen from.
    settings:
        Parameters.
    seed:
        Of the particles, the order of options and the choice of questions.
    particles:
        The prior (N, k).
    """

    def __init__(
        self, items: ItemTable, settings: Settings, seed: int, particles: FloatArray
    ) -> None:
        self.items, self.settings, self.seed = items, settings, seed
        self.forecast = Forecast(particles)
        self.pool_values = np.ascontiguousarray(items.values[items.pool])
        self.regions = _new_regions(settings, items.k)
        self.log: list[ChoiceAnswer] = []
        self.clear: list[int] = []  # asked questions whose answer was nearly certain before
        self.repeats = Repeats()
        self.stopped = False
        self.exact = None
        if settings.stop == "exact":
            self.exact = exact_elicitor(items, settings.target, seed)
        self._regrets = regrets(self.forecast.weights, self.pool_values, ranged=items.ranged)
        self._position = {int(row): j for j, row in enumerate(items.pool)}
        self._view: View | None = None

    @property
    def asked(self) -> int:
        """Questions that were asked, repeats included."""
        return sum(entry.kind != "volunteered" for entry in self.log)

    @property
    def certifiable(self) -> bool:
        """Whether there are few enough dimensions for a certificate."""
        return self.items.k <= MOST_DIMENSIONS

    def apply(self, entry: ChoiceAnswer) -> None:
        """Take one answer."""
        if self.exact is not None and entry.kind != "volunteered":
            told_exact(self.exact, entry)
        answered = entry.kind == "asked" and entry.said == "choice"
        if answered and self.forecast.predict(entry.values).max() >= _CLEAR:
            self.clear.append(len(self.log))
        if entry.kind == "repeat" and entry.repeats is not None and entry.said == "choice":
            before = self.log[entry.repeats]
            changed = before.rows[before.order[0]] != entry.rows[entry.order[0]]
            self.repeats.pairs.append(changed)
        for options, chosen in entry.choices():
            p = self.forecast.update(options, chosen)
            for region in self.regions:
                region.add(options, chosen, p)
        self.log.append(entry)
        self._view = None

    @property
    def view(self) -> View:
        """The recommendation and what still speaks against it."""
        if self._view is None:
            self._view = self._look()
        return self._view

    def recommended(self) -> int:
        """Return the row with the smallest posterior mean regret."""
        return int(self.items.pool[int((self.forecast.shares @ self._regrets).argmin())])

    def credible_regret(self, item: int) -> float:
        """Return the posterior quantile of the regret at the confidence."""
        own = self._own(self.forecast.weights, item)
        order = np.argsort(own)
        reached = np.cumsum(self.forecast.shares[order])
        at = int(np.searchsorted(reached, self.settings.confidence * reached[-1] - 1e-12))
        return max(0.0, float(own[order[min(at, len(order) - 1)]]))

    def expected_regret(self, item: int) -> float:
        """Return the posterior mean of the regret."""
        own = self._own(self.forecast.weights, item)
        return max(0.0, float(own @ self.forecast.shares))

    def finished(self) -> bool:
        """Whether there is nothing left to ask."""
        settings = self.settings
        if self.stopped or self.asked >= settings.max_questions or self.silent():
            return True
        if settings.stop == "exact":
            return self.exact is None or self.exact.done
        if settings.stop == "credible":
            return self.credible_regret(self.recommended()) <= settings.target
        return self.view.certified or self.view.bound is None

    def silent(self) -> bool:
        """Whether too many questions in a row were not answered."""
        last = [entry for entry in self.log if entry.kind != "volunteered"][-UNANSWERED:]
        return len(last) == UNANSWERED and all(entry.said != "choice" for entry in last)

    def next_query(self) -> ChoiceQuery | None:
        """Return the next question, or None."""
        if self.finished():
            return None
        if self.exact is not None:
            query = self.exact.ask()
            if query is None:
                return None
            return self._query((query.first.item, query.second.item), query.reason)
        if (repeat := self._to_repeat()) is not None:
            reason = (
                f"question {repeat + 1} again: how often answers differ shows how many are slips"
            )
            return self._query(self._order(self.log[repeat].rows), reason, repeat)
        choice = self._choose()
        if choice is None:
            return None
        reason = (
            f"the answer is worth {choice.information:.2g} bits; so far the forecasts are "
            f"{', '.join(f'{100 * p:.0f} %' for p in choice.forecast)}"
        )
        rows = tuple(int(self.items.pool[j]) for j in choice.rows)
        return self._query(self._order(rows), reason)

    def certificate(self) -> float | None:
        """Return the largest regret over the region; None if nothing can be said."""
        view = self.view
        if view.bound is None or not view.member or not self.certifiable:
            return None
        low, high = max(0.0, view.largest), 1.0
        if view.certified:
            high = self.settings.target
        low = min(low, high)
        known = low  # somebody in the region regrets the item so much
        for _ in range(_STEPS):
            middle = 0.5 * (low + high)
            found = None
            if middle >= known:
                found = self._certified(view.bound, view.item, middle, witnesses=1)
                known = self._own(found.witnesses, view.item).max(initial=known)
            if found is not None and found.status == regions.CERTIFIED:
                high = middle
            else:
                low = middle
        return high

    def _look(self) -> View:
        """Find threats in a cloud; only if there are none, search everywhere."""
        item = self.recommended()
        nobody = Threats(np.zeros((0, self.items.k)), np.zeros(0))
        if not self.certifiable:
            return View(item, 0, nobody, False, False, 1.0)
        cloud = self._cloud()
        own = self._own(cloud, item)
        for number, region in enumerate(self.regions):
            evidence = region.evidence(cloud)
            inside = evidence < region.limit
            member = bool(inside.any())
            if not member:
                status = self._search(region, item, 0.0, regions.ANY).status
                if status == regions.CERTIFIED:
                    continue  # no preference is left: this bound is refuted
                member = status == regions.REFUTED  # one was found
            largest = float(own[inside].max(initial=0.0))
            danger = inside & (own > self.settings.target)
            if danger.any() or self.settings.stop != "reliable":
                threats = self._grown(cloud[danger], region, item)
                return View(item, number, threats, False, member, largest)
            found = self._certified(number, item, self.settings.target)
            certified = found.status == regions.CERTIFIED and member
            threats = self._grown(found.witnesses, region, item)
            return View(item, number, threats, certified, member, largest)
        return View(item, None, nobody, False, False, 1.0)

    def _certified(
        self, number: int, item: int, regret: float, witnesses: int = regions.WITNESSES
    ) -> regions.Search:
        mode = regions.RANGE if self.items.ranged else regions.RATIO
        return self._search(self.regions[number], item, regret, mode, witnesses)

    def _search(
        self, region: Region, item: int, regret: float, mode: int, witnesses: int = 1
    ) -> regions.Search:
        start = start_cells(self.items.k, self.items.unknown)
        values = self._with(item)
        return region.search(
            start, values, len(values) - 1, regret, mode, self.settings.max_cells, witnesses
        )

    def _own(self, weights: FloatArray, item: int) -> FloatArray:
        """Regret of an item under every preference."""
        values = self.items.values[item]
        return item_regrets(weights, self.pool_values, values, ranged=self.items.ranged)

    def _with(self, item: int) -> FloatArray:
        """Values of the pool, and the item at the end."""
        return np.vstack([self.pool_values, self.items.values[item]])

    def _cloud(self) -> FloatArray:
        """Posterior draws and jittered copies: they choose questions, never enter a forecast."""
        rng = np.random.default_rng(derive_seed(self.seed, "cloud", len(self.log)))
        draws = self.forecast.weights[self.forecast.people(_CLOUD + _JITTERED, rng)]
        corners = start_cells(self.items.k, self.items.unknown).reshape(-1, self.items.k)
        return np.vstack([draws[:_CLOUD], self._jittered(draws[_CLOUD:], 0.2, rng), corners])

    def _grown(self, known: FloatArray, region: Region, item: int) -> Threats:
        """Threats around the known ones, which are few or come in clusters."""
        rng = np.random.default_rng(derive_seed(self.seed, "around", len(self.log)))
        evidence = region.evidence(known)
        for _ in range(_GROWTH if len(known) else 0):
            if len(known) >= _THREATS:
                break
            near = self._jittered(known[rng.integers(len(known), size=_THREATS)], -0.3, rng)
            own = self._own(near, item)
            against = region.evidence(near)
            danger = (against < region.limit) & (own > self.settings.target)
            known = np.vstack([known, near[danger]])
            evidence = np.append(evidence, against[danger])
        return Threats(known, evidence)

    def _jittered(self, weights: FloatArray, most: float, rng: np.random.Generator) -> FloatArray:
        scale = 10 ** rng.uniform(-2, most, size=(len(weights), 1)) / self.items.k
        moved = weights + scale * rng.standard_normal(weights.shape)
        known = np.ones(self.items.k, dtype=bool)
        known[self.items.unknown] = False
        moved[:, known] = np.abs(moved[:, known])
        return np.asarray(moved / (np.abs(moved) @ np.ones((self.items.k, 1))))

    def _choose(self) -> Choice | None:
        rng = np.random.default_rng(derive_seed(self.seed, "question", len(self.log)))
        position = self._position
        asked = [
            tuple(sorted(position[row] for row in entry.rows))
            for entry in self.log if entry.kind != "volunteered"
        ]  # fmt: skip
        rates = getattr(self.settings.errors, "rates", (0.1,))
        bound = self.view.bound or 0
        unanswered = 0
        for entry in reversed(self.log):
            if entry.said == "choice":
                break
            unanswered += 1
        return most_telling(
            self.pool_values, self.forecast, self.view.threats, position[self.view.item], asked,
            show=min(self.settings.show, len(self.items.pool)), rate=rates[bound],
            widen=_WIDEN * unanswered, rng=rng,
        )  # fmt: skip

    def _order(self, rows: tuple[int, ...]) -> tuple[int, ...]:
        """Shuffle: drawn from a stream of its own, which no answer enters."""
        rng = np.random.default_rng(derive_seed(self.seed, "order", len(self.log)))
        return tuple(int(row) for row in rng.permutation(np.array(rows)))

    def _to_repeat(self) -> int | None:
        """The oldest clear question that was not yet repeated, where a repeat is due."""
        every = self.settings.check_every
        if not every or (self.asked + 1) % every:
            return None
        done = {entry.repeats for entry in self.log if entry.kind == "repeat"}
        return next((number for number in self.clear if number not in done), None)

    def _query(self, rows: tuple[int, ...], reason: str, repeats: int | None = None) -> ChoiceQuery:
        return ChoiceQuery(
            tuple(self.items.option(row) for row in rows), rows, reason, self.asked, repeats,
            tuple(self.items.labels[row] for row in rows), self.settings.ranking,
        )  # fmt: skip


def _new_regions(settings: Settings, k: int) -> list[Region]:
    """One region per error bound, which share the error probability."""
    errors = settings.errors
    if isinstance(errors, Unknown):
        return [ModelRegion(k, settings.alpha)]
    share = settings.alpha / len(errors.rates)
    return [Region(k, rate, errors.jnd, share, errors.running) for rate in errors.rates]
