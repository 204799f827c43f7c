"""What an adaptive questionnaire knows and can say: answers, conflicts, the recommendation.

Everything here is a function of the raw list of answers, so undoing and resuming are replays.
Source: docs/theory/08-elicitation.md, "The adaptive questionnaire".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from counterplay.core.seeds import derive_seed
from counterplay.core.validation import FloatArray, IntArray
from counterplay.elicitation import bounds
from counterplay.elicitation.comparisons import Answer, LoggedAnswer, Query
from counterplay.elicitation.consistent_set import ConsistentSet
from counterplay.elicitation.contradictions import fewest_to_set_aside, smallest_conflict
from counterplay.elicitation.guaranteed_procedure import (
    ProcedureSettings,
    guaranteed_procedure,
    sampling_notes,
)
from counterplay.elicitation.informative import Choice, most_informative
from counterplay.elicitation.option_pool import Certificate, OptionPool, clean
from counterplay.elicitation.results import Contradiction, ElicitationResult
from counterplay.elicitation.sessions import ProcedureSession
from counterplay.elicitation.shared_bases import SharedBases
from counterplay.errors import ContradictionError, InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

OnContradiction: TypeAlias = Literal["ask", "set_aside", "raise"]
ADAPTIVE = ("compare", "confirm", "volunteered")
_PATIENCE = 4  # answers "same" in a row, without progress, before the fallback


@dataclass(frozen=True)
class Settings:
    """Parameters of the questionnaire, checked."""

    target_regret: float
    contradictions: OnContradiction
    max_contradictions: int
    fallback: bool
    adaptive_questions: int
    max_rays: int


class AdaptiveState:
    """Replays answers and finds the next question."""

    def __init__(
        self,
        shared: SharedBases,
        settings: Settings,
        seed: int,
        witnesses: FloatArray | None = None,
    ) -> None:
        self.shared = shared
        self.settings = settings
        self.seed = seed
        self.pool = OptionPool(shared.oracle, witnesses)
        largest = shared.oracle.scale / np.sqrt(shared.oracle.k)
        self.consistent = ConsistentSet(shared.oracle.k, largest, settings.max_rays)
        self.log: list[LoggedAnswer] = []
        self.given: dict[int, tuple[FloatArray, Answer]] = {}  # every answer, as last given
        self.aside: set[int] = set()  # numbers of the answers that are ignored
        self.contradictions: list[Contradiction] = []
        self.open_conflict: tuple[int, ...] = ()
        self.to_confirm: list[int] = []
        self.inner: ProcedureSession[ElicitationResult] | None = None
        self.inner_failed = False
        self.stopped = False
        self._same_in_a_row: list[float] = []
        self._certificate: Certificate | None = None
        self._contenders: IntArray | None = None  # of a larger consistent set

    @property
    def active(self) -> dict[int, tuple[FloatArray, Answer]]:
        """The answers that count."""
        return {i: answer for i, answer in self.given.items() if i not in self.aside}

    @property
    def certificate(self) -> Certificate:
        """Best option so far and its largest regret over all consistent preferences."""
        if self._certificate is None:
            among = self._contenders if self.consistent.exact else None
            self._certificate = self.pool.evaluate(self.consistent, among=among)
            self._contenders = self._certificate.contenders
        return self._certificate

    @property
    def good_enough(self) -> bool:
        """Whether the target is met and no conflict is open."""
        return not self.to_confirm and self.certificate.regret <= self.settings.target_regret

    def apply(self, entry: LoggedAnswer) -> None:
        """Take one answer; on ContradictionError the state must be rebuilt without it."""
        number = len(self.log)
        self.log.append(entry)
        same = entry.answer is Answer.INDISTINGUISHABLE
        before = self.certificate.regret if same else 0.0
        self._certificate = None
        if entry.about is not None:
            self._confirmed(entry.about, entry.answer)
        else:
            self.given[number] = (entry.difference, entry.answer)
            if entry.purpose not in ADAPTIVE:
                self._feed_inner(entry)
            if not self.consistent.tell(entry.difference, entry.answer):
                self._conflict(number)
        if same:
            self._same_in_a_row.append(before)
        else:
            self._same_in_a_row.clear()

    def next_query(self) -> Query | None:
        """Return the next question, or None when the questionnaire is over."""
        if self.to_confirm:
            return self._confirmation(self.to_confirm[0])
        if self.stopped or self.good_enough:
            return None
        if self.inner is None and not self._stalled():
            choice = self._choose()
            if choice is not None:
                return self.comparison(choice.first, choice.second, self._reason(choice))
        return self._guaranteed_query()

    def comparison(
        self, first: int, second: int, reason: str = "", about: int | None = None
    ) -> Query:
        """Return the question that compares two options of the pool."""
        room, pool = self.shared.showroom, self.pool
        return Query(
            room.option(pool.items[first], pool.values[first]),
            room.option(pool.items[second], pool.values[second]),
            reason,
            number=len(self.log),
            purpose="compare" if about is None else "confirm",
            options=(first, second),
            about=about,
        )

    def recommendation(self) -> tuple[int, float]:
        """Return the recommended option of the pool and its certificate.

        After a completed fallback only options that satisfy the guarantee of the theory for every
        consistent preference are considered; the fallback's own option always does.
        """
        if self.inner is None or not self.inner.done or self.inner_failed:
            return self.certificate.option, self.certificate.regret
        outcome = self.inner.result()
        estimate = outcome.estimate
        witness = np.ones(self.shared.oracle.k) if estimate is None else estimate.w_hat
        own = self.pool.position_of(outcome.item, outcome.value, witness)
        worst = self.pool.worst_regrets(self.consistent)
        allowed = self.pool.excesses(self.consistent, self._guarantee_factor()) <= 1e-9
        allowed[own] = True
        option = int(np.where(allowed, worst, np.inf).argmin())
        return option, clean(float(worst[option]))

    def _guarantee_factor(self) -> float:
        """K with regret <= K eps for the guaranteed procedure."""
        k = self.shared.oracle.k
        if self.inner is not None and self.inner.done and not self.inner_failed:
            estimate = self.inner.result().estimate
            d = k if estimate is None else len(estimate.basis_values)
        else:
            d = self.shared.basis(0).d
        return bounds.regret_barycentric(k, d, 1.0, self.shared.C)

    def _stalled(self) -> bool:
        asked = sum(entry.purpose in ("compare", "confirm") for entry in self.log)
        if asked >= self.settings.adaptive_questions:
            return True
        streak = self._same_in_a_row[-_PATIENCE:]
        return len(streak) == _PATIENCE and self.certificate.regret > 0.9 * streak[0]

    def _choose(self) -> Choice | None:
        done = {(min(entry.options), max(entry.options)) for entry in self.log if entry.options}
        rng = np.random.default_rng(derive_seed(self.seed, len(self.log)))
        target = self.settings.target_regret
        return most_informative(self.pool, self.consistent, self.certificate, done, target, rng)

    def _reason(self, choice: Choice) -> str:
        return (
            f"your answers so far leave both possible: {100 * choice.share_first:.0f} % of the "
            f"preferences that fit them favour the first option and "
            f"{100 * choice.share_second:.0f} % the second; the expected loss falls from "
            f"{100 * choice.regret_before:.2g} % to {100 * choice.regret_after:.2g} %"
        )

    def _guaranteed_query(self) -> Query | None:
        """The next question of the guaranteed procedure that earlier answers do not decide."""
        if not self.settings.fallback or self.inner_failed:
            return None
        if self.inner is None:
            excess = self.pool.evaluate(self.consistent, self._guarantee_factor()).excess
            if excess <= 0:  # everyone who fits the answers already has the guarantee
                return None
        inner = self._inner_session()
        return None if inner is None else inner.ask()

    def _inner_session(self) -> ProcedureSession[ElicitationResult] | None:
        """The guaranteed procedure, with implied answers filled in."""
        if self.inner is None:
            self.inner = ProcedureSession(
                lambda: guaranteed_procedure(self.shared, ProcedureSettings())
            )
        try:
            while (query := self.inner.ask()) is not None:
                implied = self.consistent.implied(query.difference)
                if implied is None:
                    break
                self.inner.tell(implied)
        except ContradictionError:
            self.inner_failed = True
            return None
        return self.inner

    def _feed_inner(self, entry: LoggedAnswer) -> None:
        inner = self._inner_session()
        if inner is None or inner.done:
            raise InvalidInputError("the saved answers do not belong to this questionnaire")
        inner.check_same_question(entry)
        try:
            inner.tell(entry.answer)
        except ContradictionError:
            self.inner_failed = True

    def _conflict(self, number: int) -> None:
        """An answer leaves no consistent preference: report, ask again, or set aside."""
        numbers, answers = zip(*self.active.items())
        conflict = smallest_conflict(answers, self.consistent.scale)
        members = tuple(numbers[i] for i in conflict) or (number,)
        policy = self.settings.contradictions
        if policy == "raise" or len(self.contradictions) >= self.settings.max_contradictions:
            raise ContradictionError(
                f"answers {', '.join(str(i + 1) for i in members)} exclude each other: no "
                "preference explains them together; take one back with undo()",
                conflict=tuple(self.log[i] for i in members),
            )
        again = [i for i in reversed(members) if self.log[i].options is not None]
        if policy == "ask" and again and self.log[number].purpose in ADAPTIVE:
            self.open_conflict = members
            self.to_confirm = again
        else:
            self._set_aside(members)

    def _confirmed(self, number: int, answer: Answer) -> None:
        """A questioned answer was given again: keep it or replace it."""
        self.to_confirm = [i for i in self.to_confirm if i != number]
        difference, said = self.given[number]
        if said is not answer:
            self.given[number] = (difference, answer)
            self._contenders = None
            if self.consistent.reset([*self.active.values()]):
                self.contradictions.append(Contradiction(self.open_conflict, (), (number,)))
                self.to_confirm, self.open_conflict = [], ()
                return
        if not self.to_confirm:
            self._set_aside(self.open_conflict)
            self.open_conflict = ()

    def _set_aside(self, conflict: tuple[int, ...]) -> None:
        """Ignore the fewest of all answers that restore consistency.

        Answers set aside before count again if that leaves fewer: one early slip must not outweigh
        many later answers that it contradicts one at a time.
        """
        before, self.aside = self.aside, set()
        self._contenders = None
        while not self.consistent.reset([*self.active.values()]):
            numbers, answers = zip(*self.active.items())
            fewest = fewest_to_set_aside(answers, self.consistent.scale)
            self.aside |= {numbers[i] for i in fewest}
        dropped, restored = sorted(self.aside - before), sorted(before - self.aside)
        self.contradictions.append(Contradiction(conflict, tuple(dropped), (), tuple(restored)))

    def _confirmation(self, number: int) -> Query:
        options = self.log[number].options
        if options is None:
            raise InvalidInputError(f"answer {number + 1} cannot be asked again")
        others = ", ".join(str(i + 1) for i in self.open_conflict)
        reason = (
            f"your answers {others} exclude each other; please look at question {number + 1} again"
        )
        return self.comparison(*options, reason, about=number)


def standing(state: AdaptiveState, *, ended: bool) -> ElicitationResult:
    """Return the recommendation on the answers so far, with its certificate."""
    option, regret = state.recommendation()
    pool, room = state.pool, state.shared.showroom
    rng = np.random.default_rng(derive_seed(state.seed, "centre"))
    weights = state.consistent.sample(256, rng)[0].mean(axis=0)
    vertices = state.consistent.vertices
    return ElicitationResult(
        item=pool.items[option],
        value=pool.values[option],
        regret_certificate=regret,
        n_queries=len(state.log),
        method="polytope",
        label=room.label(pool.items[option], pool.values[option]),
        objective_names=tuple(room.objective_name(j) for j in range(pool.oracle.k)),
        answers=tuple(state.log),
        weights=weights,
        weight_ranges=np.stack([vertices.min(axis=0), vertices.max(axis=0)], axis=1),
        single_values=pool.values[pool.best(np.eye(pool.oracle.k))],
        contradictions=tuple(state.contradictions),
        notes=_notes(state, regret, ended),
        row=room.row(pool.items[option]),
    )


def leaders(state: AdaptiveState, n: int) -> pd.DataFrame:
    """Return the ``n`` options with the best guaranteed worth, with exact bands."""
    import pandas as pd

    vertices, pool, room = state.consistent.vertices, state.pool, state.shared.showroom
    share = (vertices @ pool.values.T) / pool.best_values(vertices)[:, None]
    order = np.argsort(-share.min(axis=0), kind="stable")[:n]
    index = getattr(pool.oracle, "index", None)
    rows = None if index is None else index[[pool.items[i] for i in order]]
    return pd.DataFrame(
        {
            "item": [room.label(pool.items[i], pool.values[i]) for i in order],
            "lowest": share.min(axis=0)[order],
            "highest": share.max(axis=0)[order],
        },
        index=rows,
    )


def _notes(state: AdaptiveState, regret: float, ended: bool) -> tuple[str, ...]:
    notes = []
    if state.inner is not None:
        notes.append("the guaranteed procedure took over after the adaptive questions")
    target = state.settings.target_regret
    if regret > target and ended:
        notes.append(
            f"stopped before the target of {100 * target:.3g} % was reached"
            if state.stopped
            else f"the target of {100 * target:.3g} % was not reached: the remaining differences "
            "are too small for the answers given"
        )
    if not state.consistent.exact:
        notes.append("some answers were left out of the certificate to keep it fast")
    return (*notes, *sampling_notes(state.shared))
