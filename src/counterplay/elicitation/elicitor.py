"""The guaranteed procedure: O(k log(k/eps)) questions, then a near-optimal option.

Benchmark, basis, ratios, preference, plan: the chapter's procedure, repaired and improved,
as an ask/tell object that can be saved at any time.
Source: Theorem 8.1; docs/theory/08-elicitation.md, "Preference, precision, refinement".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from counterplay.core.arguments import checked
from counterplay.core.records import write_record
from counterplay.core.seeds import RandomState
from counterplay.core.validation import check_choice, check_int
from counterplay.elicitation.comparisons import Answer, LoggedAnswer, Query, User
from counterplay.elicitation.estimators import Delta
from counterplay.elicitation.guaranteed_procedure import ProcedureSettings, guaranteed_procedure
from counterplay.elicitation.oracles import as_oracle
from counterplay.elicitation.results import ElicitationResult
from counterplay.elicitation.saved import (
    GuaranteedSettings,
    SavedAnswer,
    SavedGuaranteed,
    read_guaranteed,
    replayed,
    settings_of,
    source_fingerprint,
)
from counterplay.elicitation.sessions import Elicitor, ProcedureSession, answered_by
from counterplay.elicitation.shared_bases import BasisKind, SharedBases
from counterplay.elicitation.showroom import Representation
from counterplay.errors import InvalidInputError, ProtocolError


@checked
class PreferenceElicitor(Elicitor):
    """Find a near-optimal option for one person with a guaranteed number of comparisons.

    Use it when the worst case matters or when options are policies of a decision process; for
    people choosing from a catalogue, :class:`PolytopeElicitor` needs fewer questions on average.

    Parameters
    ----------
    source:
        A :class:`MultiObjectiveMDP`, a :class:`Catalogue`, a table of values, an oracle, or a
        :class:`SharedBases` that many elicitors share.
    basis:
        ``"barycentric"`` (default; no exponential factor), ``"thesis"`` or ``"single"``.
    estimator:
        ``"full"`` or ``"truncated"`` (biased; with ``delta``).
    delta:
        Threshold of the truncated estimator, a number or ``"auto"``.
    refine:
        Extra bisections per end of each indistinguishable zone; 0 for none.
    precision:
        Ask some more questions to measure the person's precision, for a sharper certificate.
    nonneg:
        Project the estimate on non-negative weights.
    representation:
        ``"values"``, ``"policy"`` or ``"trajectories"``: what the questions show.
    max_queries:
        Cap on the questions; then the widest bracket is asked first and midpoints are used.
    random_state:
        Seed for ``complement="random"`` only; the procedure itself is deterministic.

    Notes
    -----
    For a consistent person the number of questions is at most
    :func:`bounds.total_questions`, and the regret at most ``max(2k, 4kC(d-1)) eps`` with the
    barycentric and ``max(2k, 4kB) eps`` with the thesis' basis (improves
    Theorem 8.1, whose rate is eps^(1/3)).

    Examples
    --------
    >>> from counterplay.elicitation import LinearPreferenceUser, answered_by, instances
    >>> mdp = instances.random_mdp(0)
    >>> user = LinearPreferenceUser([0.8, 0.1, 0.5, 0.4], eps=1e-3)
    >>> answered_by(PreferenceElicitor(mdp), user).n_queries
    45

    References
    ----------
    Shao et al., Eliciting User Preferences for Personalized Multi-Objective Decision Making
    through Comparative Feedback (2023).
    """

    def __init__(
        self,
        source: Any,
        *,
        basis: BasisKind = "barycentric",
        estimator: Literal["full", "truncated"] = "full",
        delta: Delta = "auto",
        refine: int = 0,
        precision: bool = False,
        nonneg: bool = False,
        representation: Representation = "values",
        max_queries: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.source = source
        self.basis = basis
        self.estimator = estimator
        self.delta = delta
        self.refine = refine
        self.precision = precision
        self.nonneg = nonneg
        self.representation = representation
        self.max_queries = max_queries
        self.random_state = random_state

    def ask(self) -> Query | None:
        """Return the next question, or None after the last."""
        return self._session_or_new().ask()

    def tell(self, answer: Answer | str) -> None:
        """Answer the question: ``"first"``, ``"second"`` or ``"same"``.

        Raises :class:`ContradictionError` when no consistent person answers like this; the answer
        is then not taken, so one can answer again or :meth:`undo` an earlier one.
        """
        self._session_or_new().tell(Answer.parse(answer))

    def undo(self) -> None:
        """Take the last answer back."""
        self._session_or_new().undo()

    @property
    def done(self) -> bool:
        """Whether all questions are answered."""
        return self._session_or_new().done

    def result(self) -> ElicitationResult:
        """Return the recommendation; the procedure has none before its last question."""
        return self._session_or_new().result()

    @property
    def events(self) -> tuple[LoggedAnswer, ...]:
        """Every answer so far."""
        return self._session_or_new().events

    def to_json(self) -> str:
        """Return the whole state as JSON; :meth:`from_json` continues from it."""
        self._session_or_new()
        record = SavedGuaranteed(
            kind="PreferenceElicitor",
            version=2,
            problem=source_fingerprint(self._shared.oracle),
            params=settings_of(self, GuaranteedSettings),
            answers=tuple(map(SavedAnswer.of, self.events)),
        )
        return write_record(record)

    @classmethod
    def from_json(cls, text: str, source: Any) -> PreferenceElicitor:
        """Continue a saved session on the same source; every answered question is checked.

        Raises ``InvalidStateError`` when the text is damaged or about other options.
        """
        oracle = source.oracle if isinstance(source, SharedBases) else as_oracle(source)
        saved = read_guaranteed(text, oracle)
        elicitor = cls(source, **msgspec.structs.asdict(saved.params))
        answers = [answer.entry(i, oracle.k) for i, answer in enumerate(saved.answers)]
        replayed(lambda: elicitor._open(source, answers))
        return elicitor

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        state.pop("_shared", None)
        if state.pop("_session", None) is not None:
            state["_answers"] = self.events
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        answers = state.pop("_answers", None)
        vars(self).update(state)
        if answers is not None:
            self._open(self.source, answers)

    def _session_or_new(self) -> ProcedureSession[ElicitationResult]:
        if not hasattr(self, "_session"):
            self._open(self.source)
        return self._session

    def _open(self, source: Any, answers: Iterable[LoggedAnswer] = ()) -> None:
        if source is None:
            raise ProtocolError(
                "there is nothing to choose from: give the options, PreferenceElicitor(source)"
            )
        self._check_params()
        if isinstance(source, SharedBases):
            shared = source
        else:
            shared = SharedBases(
                source,
                kind=self.basis,
                random_state=self.random_state,
                representation=self.representation,
            )
        self._shared = shared
        settings = ProcedureSettings(
            self.estimator, self.delta, self.refine, self.precision, self.nonneg, self.max_queries
        )
        self._session: ProcedureSession[ElicitationResult] = ProcedureSession(
            lambda: guaranteed_procedure(shared, settings), tuple(answers)
        )

    def _check_params(self) -> None:
        check_choice(self.estimator, "estimator", ("full", "truncated"))
        check_int(self.refine, "refine", low=0)
        check_choice(self.precision, "precision", (True, False))
        check_choice(self.nonneg, "nonneg", (True, False))
        if self.max_queries is not None:
            check_int(self.max_queries, "max_queries", low=0)
        if isinstance(self.delta, str) and self.delta != "auto":
            raise InvalidInputError(
                f"delta={self.delta!r} needs quantities the procedure cannot know; compute a "
                "number with truncation_delta(...) or use 'auto'"
            )


@checked
def elicit_many(
    source: Any, users: Iterable[User], **params: Any
) -> tuple[list[ElicitationResult], SharedBases]:
    """Run the guaranteed procedure for many users who share bases; return results and bases.

    The oracle is called for at most ``k + k d(2k-d-1)`` directions plus one per user (plus the
    coefficients of the certificate, once per basis).

    Use it for a group of people who choose from the same source: planning is shared.

    Parameters
    ----------
    source:
        A catalogue, a decision process, an oracle, or bases from an earlier call.
    users:
        The people: objects that answer comparisons.
    params:
        Further parameters of :class:`PreferenceElicitor`.

    Examples
    --------
    >>> from counterplay.elicitation import LinearPreferenceUser, instances
    >>> import numpy as np
    >>> users = [LinearPreferenceUser(w, 0.01) for w in np.eye(4) + 0.1]
    >>> results, bases = elicit_many(instances.random_mdp(0), users)
    >>> len(results), bases.oracle.n_calls
    (4, 104)

    References
    ----------
    "Preference, precision, refinement", Proposition 8.A, see docs/theory/08-elicitation.md.
    """
    kind = params.get("basis", "barycentric")
    representation = params.get("representation", "values")
    shared = source
    if not isinstance(source, SharedBases):
        shared = SharedBases(source, kind=kind, representation=representation)
    return [answered_by(PreferenceElicitor(shared, **params), user) for user in users], shared
