"""The questionnaire for people: few questions, exact certificate, survives contradictions.

Keep the exact polytope of preferences that explain the three-valued answers, ask the most
informative comparison of two real options, stop when the largest regret over all those preferences
is small enough. If that does not work out, the guaranteed procedure takes over.
Source: docs/theory/08-elicitation.md, "The adaptive questionnaire"; Propositions 8.L to 8.O.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.records import require_state, write_record
from counterplay.core.seeds import RandomState, derive_seed, generator
from counterplay.core.validation import (
    FloatArray,
    check_choice,
    check_float_array,
    check_int,
    check_real,
    check_size,
)
from counterplay.elicitation import bounds
from counterplay.elicitation.adaptive_state import (
    AdaptiveState,
    OnContradiction,
    Settings,
    leaders,
    standing,
)
from counterplay.elicitation.catalogue import CatalogueOracle
from counterplay.elicitation.comparisons import (
    Answer,
    LoggedAnswer,
    Query,
)
from counterplay.elicitation.option_pool import best_among
from counterplay.elicitation.oracles import PointSetOracle
from counterplay.elicitation.population import ENOUGH, prior_shares
from counterplay.elicitation.results import ElicitationResult
from counterplay.elicitation.saved import (
    WHAT,
    AdaptiveSettings,
    SavedAdaptive,
    SavedAnswer,
    SavedQuestion,
    read_adaptive,
    replayed,
    settings_of,
    source_fingerprint,
)
from counterplay.elicitation.sessions import Elicitor
from counterplay.elicitation.shared_bases import SharedBases
from counterplay.errors import ContradictionError, InvalidInputError, ProtocolError

if TYPE_CHECKING:
    import pandas as pd


MOST_OBJECTIVES = 32
"""Nobody can compare options that differ in more; the polytope has too many vertices."""


@checked
class PolytopeElicitor(Elicitor):
    """Find the option this person wants with a handful of comparisons, with a certificate.

    Use it whenever a person chooses from a catalogue or among policies. Questions compare two
    real options. It needs no knowledge of how preferences are distributed.

    Parameters
    ----------
    source:
        A :class:`Catalogue`, a table of values, a :class:`MultiObjectiveMDP`, an oracle, or a
        :class:`SharedBases`; with at most 32 objectives.
    target_regret:
        Stop when the recommended option is at most this fraction below the best one, for every
        preference that explains the answers.
    contradictions:
        What to do when no preference explains all answers: ``"ask"`` (show the questions concerned
        again, then set the fewest answers aside), ``"set_aside"`` (at once), or ``"raise"``.
    max_contradictions:
        After this many, the next one raises :class:`ContradictionError`.
    fallback:
        Whether the guaranteed procedure takes over when the adaptive questions do not suffice.
    adaptive_questions:
        Most adaptive questions; ``k (ceil(log2(2k/target)) + 1)`` by default.
    max_rays:
        Most vertices of the polytope kept exactly; beyond it the certificate stays valid but is
        no longer the smallest possible.
    random_state:
        Seed of the sampled preferences that rank the questions.

    Notes
    -----
    Certificate: relative regret is extreme at the vertices of the polytope, so the reported number
    is the exact maximum over every consistent preference. Questions: at most
    ``adaptive_questions`` (plus confirmations) and then those of the guaranteed procedure,
    :func:`bounds.total_questions`; answers that are already implied are not asked.

    Examples
    --------
    >>> from counterplay.elicitation import LinearPreferenceUser, answered_by
    >>> items = np.random.default_rng(0).random((1000, 4))
    >>> elicitor = PolytopeElicitor(items, random_state=0)
    >>> user = LinearPreferenceUser([1.0, 0.2, 0.5, 0.1], eps=1e-3)
    >>> result = answered_by(elicitor, user)
    >>> result.n_queries <= 12, bool(result.regret_certificate <= 0.01)
    (True, True)

    References
    ----------
    Boutilier et al., Constraint-based optimization and utility elicitation using the minimax
    decision criterion (2006).
    """

    _query: Query | None
    _ready: bool
    _asked: bool

    def __init__(
        self,
        source: Any,
        *,
        target_regret: float = 0.01,
        contradictions: OnContradiction = "ask",
        max_contradictions: int = 10,
        fallback: bool = True,
        adaptive_questions: int | None = None,
        max_rays: int = 4000,
        random_state: RandomState = None,
    ) -> None:
        self.source = source
        self.target_regret = target_regret
        self.contradictions = contradictions
        self.max_contradictions = max_contradictions
        self.fallback = fallback
        self.adaptive_questions = adaptive_questions
        self.max_rays = max_rays
        self.random_state = random_state

    @property
    def done(self) -> bool:
        """Whether there is no further question."""
        self._prepare()
        return self._query is None

    def ask(self) -> Query | None:
        """Return the next question, or None when there is none; asking twice is free."""
        self._prepare()
        self._asked = self._query is not None
        return self._query

    def tell(self, answer: Answer | str) -> None:
        """Answer the question: ``"first"``, ``"second"`` or ``"same"``.

        Raises :class:`ContradictionError` when contradictions are not tolerated (any more); the
        answer is then not taken, so one can answer again or :meth:`undo` an earlier one.
        """
        said = Answer.parse(answer)
        state = self._state_or_new()
        if not self._asked or self._query is None:
            raise ProtocolError("call ask() before tell()")
        self._take(state, self._query.answered(said))

    def volunteer(self, first: Any, second: Any, answer: Answer | str) -> None:
        """Take a comparison the person offers unasked.

        Parameters
        ----------
        first:
            Row of the table (an integer), or a vector: for a :class:`Catalogue` in the units of
            its columns, benefits first, so that less of a cost is better; otherwise values, in
            which more of everything is better.
        second:
            The other option, likewise.
        answer:
            ``"first"``, ``"second"`` or ``"same"``.
        """
        state = self._state_or_new()
        entry = LoggedAnswer(
            self._value_of(first), self._value_of(second), Answer.parse(answer), "volunteered"
        )
        self._take(state, entry)

    def undo(self) -> None:
        """Take the last answer back."""
        log = self._state_or_new().log
        if not log:
            raise ProtocolError("there is no answer to take back")
        self._replay(log[:-1])

    def stop(self) -> None:
        """End the questionnaire now; the result keeps its certificate, whatever it is."""
        self._state_or_new().stopped = True
        self._state_or_new().to_confirm = []
        self._forget_query()

    @property
    def events(self) -> tuple[LoggedAnswer, ...]:
        """Every answer so far."""
        return tuple(self._state_or_new().log)

    def result(self) -> ElicitationResult:
        """Return the recommendation on the answers so far, with its certificate."""
        return standing(self._state_or_new(), ended=self.done)

    @property
    def certificate(self) -> float:
        """Largest regret of the best option so far, over every consistent preference."""
        return self._state_or_new().recommendation()[1]

    def best_guess(self) -> Any:
        """Return the item with the smallest average regret over the consistent preferences.

        It is usually right long before the certificate is small; it carries no guarantee.
        """
        state = self._state_or_new()
        rng = np.random.default_rng(derive_seed(state.seed, "centre"))
        weights = state.consistent.people(2048, rng)
        shares = np.ones(len(weights))
        if len(weights) < ENOUGH:
            weights = state.consistent.sample(1024, rng)[0]
            shares = prior_shares(weights)
        contenders = state.certificate.contenders  # nobody prefers any other option
        values = state.pool.values[contenders]
        shares = shares / best_among(weights, values)[1]
        kept = values @ (shares @ weights)  # expected worth, as a share of the best
        return state.pool.items[int(contenders[kept.argmax()])]

    def ranking(self, n: int = 10) -> pd.DataFrame:
        """Return the ``n`` best options with exact bands over all consistent preferences.

        ``lowest`` and ``highest`` are the worth of the option as a fraction of the best one.
        """
        return leaders(self._state_or_new(), check_int(n, "n", low=1))

    def to_json(self) -> str:
        """Return settings and answers as JSON; :meth:`from_json` continues from them."""
        state, query = self._state_or_new(), self._query
        pending = None
        if query is not None and query.options is not None:
            pending = SavedQuestion(options=query.options, reason=query.reason, about=query.about)
        record = SavedAdaptive(
            kind="PolytopeElicitor",
            version=2,
            problem=source_fingerprint(state.shared.oracle),
            params=settings_of(self, AdaptiveSettings),
            seed=state.seed,
            witnesses=tuple(map(tuple, state.pool.witnesses.tolist())),
            answers=tuple(map(SavedAnswer.of, state.log)),
            stopped=state.stopped,
            asked=self._asked,
            pending=pending,
        )
        return write_record(record)

    @classmethod
    def from_json(cls, text: str, source: Any) -> PolytopeElicitor:
        """Continue a saved questionnaire on the same source.

        The answers are replayed: the certificate is computed, never read. Raises
        ``InvalidStateError`` when the text is damaged or about other options.
        """
        shared = source if isinstance(source, SharedBases) else SharedBases(source)
        saved = read_adaptive(text, shared.oracle)
        k = shared.oracle.k
        elicitor = cls(source, random_state=saved.seed, **msgspec.structs.asdict(saved.params))
        elicitor._open(shared, saved.seed, np.array(saved.witnesses).reshape(-1, k))
        answers = [answer.entry(i, k) for i, answer in enumerate(saved.answers)]
        replayed(lambda: elicitor._replay(answers))
        state = elicitor._state
        state.stopped = saved.stopped
        if state.stopped:
            state.to_confirm = []
        if saved.pending is not None:
            elicitor._query = _saved_question(state, saved.pending)
            elicitor._ready = True
        elicitor._asked = saved.asked
        if elicitor._asked:
            elicitor._prepare()
        return elicitor

    def __getstate__(self) -> dict[str, Any]:
        hidden = ("_state", "_query", "_ready", "_asked")
        state = {name: value for name, value in vars(self).items() if name not in hidden}
        if hasattr(self, "_state"):
            state["_saved"] = self.to_json()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        saved = state.pop("_saved", None)
        vars(self).update(state)
        if saved is not None:
            twin = type(self).from_json(saved, self.source)
            for name in ("_state", "_query", "_ready", "_asked"):
                setattr(self, name, getattr(twin, name))

    def _take(self, state: AdaptiveState, entry: LoggedAnswer) -> None:
        kept = list(state.log)
        try:
            state.apply(entry)
        except ContradictionError:
            self._replay(kept)
            raise
        self._forget_query()

    def _value_of(self, option: Any) -> FloatArray:
        oracle = self._state_or_new().shared.oracle
        if isinstance(oracle, PointSetOracle) and isinstance(option, int | np.integer):
            return np.asarray(
                oracle.X[check_int(int(option), "option", low=0, high=len(oracle.X) - 1)]
            )
        value = check_float_array(option, "option", ndim=1)
        if isinstance(oracle, CatalogueOracle):
            return oracle.catalogue.normalise(value)
        if value.shape != (oracle.k,):
            raise InvalidInputError(f"the option must have {oracle.k} values, got {value.size}")
        return value

    def _prepare(self) -> None:
        state = self._state_or_new()
        if not self._ready:
            self._query = state.next_query()
            self._ready = True

    def _forget_query(self) -> None:
        self._query = None
        self._ready = False
        self._asked = False

    def _state_or_new(self) -> AdaptiveState:
        if not hasattr(self, "_state"):
            self._open(self.source)
        return self._state

    def _replay(self, log: Iterable[LoggedAnswer]) -> None:
        old = self._state
        self._open(old.shared, old.seed, old.pool.witnesses)
        for entry in log:
            self._check_options(entry)
            self._state.apply(entry)

    def _check_options(self, entry: LoggedAnswer) -> None:
        pool, log = self._state.pool, self._state.log
        if (entry.options is None) != (entry.purpose not in ("compare", "confirm")):
            raise InvalidInputError(
                f"saved answer {len(log) + 1} does not say which options were shown"
            )
        if entry.first.size != pool.values.shape[1]:
            raise InvalidInputError(
                f"a saved answer has {entry.first.size} values, the source "
                f"{pool.values.shape[1]}; resume it with the source it was started with"
            )
        if entry.about is not None and entry.about not in self._state.to_confirm:
            raise InvalidInputError(
                f"saved answer {len(log) + 1} confirms answer {entry.about + 1}, which was not "
                "asked again; the saved state is damaged"
            )
        if entry.options is None:
            return
        for position, value in zip(entry.options, (entry.first, entry.second)):
            same = position < len(pool) and np.allclose(
                pool.values[position], value, rtol=1e-9, atol=1e-12
            )
            if not same:
                raise InvalidInputError(
                    "the saved questionnaire shows other options than this source; resume it "
                    "with the source it was started with"
                )

    def _open(
        self, source: Any, seed: int | None = None, witnesses: FloatArray | None = None
    ) -> None:
        if source is None:
            raise ProtocolError(
                "there is nothing to choose from: give the options, PolytopeElicitor(source)"
            )
        shared = source if isinstance(source, SharedBases) else SharedBases(source)
        if seed is None:
            seed = int(generator(self.random_state).integers(2**31))
        self._state = AdaptiveState(shared, self._settings(shared.oracle.k), seed, witnesses)
        self._forget_query()

    def _settings(self, k: int) -> Settings:
        check_size(k, MOST_OBJECTIVES, "objectives")
        target = check_real(self.target_regret, "target_regret", low=1e-6, high=1.0, open_high=True)
        adaptive = self.adaptive_questions
        if adaptive is None:
            adaptive = bounds.adaptive_questions(k, target)
        return Settings(
            target,
            check_choice(self.contradictions, "contradictions", ("ask", "set_aside", "raise")),
            check_int(self.max_contradictions, "max_contradictions", low=0),
            check_choice(self.fallback, "fallback", (True, False)),
            check_int(adaptive, "adaptive_questions", low=0),
            check_int(self.max_rays, "max_rays", low=2),
        )


def _saved_question(state: AdaptiveState, pending: SavedQuestion) -> Query:
    """The open question of a saved questionnaire."""
    size, expected = len(state.pool), state.to_confirm[0] if state.to_confirm else None
    require_state(max(pending.options) < size, WHAT, "pending.options", f"must be below {size}")
    told = "must be the answer that is asked again, if there is one"
    require_state(pending.about == expected, WHAT, "pending.about", told)
    require_state(not state.stopped, WHAT, "pending", "the questionnaire was stopped")
    return state.comparison(*pending.options, pending.reason, pending.about)
