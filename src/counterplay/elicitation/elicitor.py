"""The guaranteed procedure: O(k log(k/eps)) questions, then a near-optimal option.

Benchmark, basis, ratios, preference, plan: the chapter's procedure with the repairs and
improvements of the spec, as an ask/tell object that can be saved at any time.
Source: Thm. thm:est-without-tau, spec 08 section A9.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from counterplay.core.errors import (
    AssumptionWarning,
    ContradictionError,
    InvalidInputError,
    ProtocolError,
)
from counterplay.core.seeds import RandomState
from counterplay.core.validation import FloatArray, check_choice, check_int
from counterplay.elicitation import bounds
from counterplay.elicitation.basis import Basis
from counterplay.elicitation.benchmark_policy import Benchmark, benchmark_procedure
from counterplay.elicitation.comparisons import Answer, LoggedAnswer, Procedure, Query, User
from counterplay.elicitation.estimators import (
    Delta,
    PreferenceEstimate,
    nonnegative_preference,
    solve_preference,
    truncated_preference,
    truncation_delta,
)
from counterplay.elicitation.parameters import Parameterised
from counterplay.elicitation.precision import PrecisionEstimate, precision_procedure
from counterplay.elicitation.ratios import RatioEstimates, ratio_procedure
from counterplay.elicitation.refinement import refine_procedure
from counterplay.elicitation.results import ElicitationResult
from counterplay.elicitation.sessions import Session
from counterplay.elicitation.shared_bases import BasisKind, SharedBases
from counterplay.elicitation.showroom import Representation


class PreferenceElicitor(Parameterised):
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

    Attributes
    ----------
    result_ : ElicitationResult
        After :meth:`fit`.

    Notes
    -----
    For a consistent person the number of questions is at most
    :func:`bounds.total_questions`, and the regret at most ``max(2k, 4kC(d-1)) eps`` with the
    barycentric and ``max(2k, 4kB) eps`` with the thesis' basis (improves Thm.
    thm:est-without-tau, whose rate is eps^(1/3)).

    Examples
    --------
    >>> from counterplay.elicitation import LinearPreferenceUser, instances
    >>> mdp = instances.random_mdp(0)
    >>> user = LinearPreferenceUser(np.array([0.8, 0.1, 0.5, 0.4]), eps=1e-3)
    >>> result = PreferenceElicitor(mdp).run(user)
    >>> result.n_queries
    45

    References
    ----------
    Shao et al., Eliciting User Preferences for Personalized Multi-Objective Decision Making
    through Comparative Feedback (2023).
    """

    def __init__(
        self,
        source: Any = None,
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

    def fit(self, source: Any, user: User) -> PreferenceElicitor:
        """Ask ``user`` about ``source``; the result is in ``result_``."""
        self.source = source
        self._open(source)
        self.result_ = self._loop(user)
        self.w_ = None if self.result_.estimate is None else self.result_.estimate.w_hat
        return self

    def run(self, user: User) -> ElicitationResult:
        """Ask ``user`` every remaining question and return the result."""
        self._session_or_new()
        return self._loop(user)

    def recommend(self) -> Any:
        """Return the recommended item."""
        return self.result.item

    def ask(self) -> Query:
        """Return the next question."""
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

    @property
    def result(self) -> ElicitationResult:
        """The result, once done."""
        return self._session_or_new().result

    @property
    def answers(self) -> tuple[LoggedAnswer, ...]:
        """Every answer so far."""
        return tuple(self._session_or_new().answers)

    def to_json(self) -> str:
        """Return the whole state as JSON; :meth:`from_json` continues from it."""
        state = {
            "kind": "PreferenceElicitor",
            "version": 1,
            "params": {name: getattr(self, name) for name in _SAVED},
            "answers": [answer.to_dict() for answer in self.answers],
        }
        return json.dumps(state)

    @classmethod
    def from_json(cls, text: str, source: Any) -> PreferenceElicitor:
        """Continue a saved session on the same source; every answered question is checked."""
        state = read_state(text, "PreferenceElicitor")
        elicitor = cls(source, **state["params"])
        answers = [LoggedAnswer.from_dict(record) for record in state["answers"]]
        elicitor._open(source, answers)
        return elicitor

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if state.pop("_session", None) is not None:
            state["_answers"] = self.answers
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        answers = state.pop("_answers", None)
        vars(self).update(state)
        if answers is not None:
            self._open(self.source, answers)

    def _loop(self, user: User) -> ElicitationResult:
        session = self._session_or_new()
        if self.max_queries is None and getattr(user, "eps", 1.0) == 0:
            raise InvalidInputError(
                "a user with eps = 0 never says 'same', so the bisection does not end; "
                "set max_queries"
            )
        while not session.done:
            query = session.ask()
            session.tell(Answer.parse(user.compare(query.first, query.second)))
        return session.result

    def _session_or_new(self) -> Session[ElicitationResult]:
        if not hasattr(self, "_session"):
            self._open(self.source)
        return self._session

    def _open(self, source: Any, answers: Iterable[LoggedAnswer] = ()) -> None:
        if source is None:
            raise ProtocolError(
                "give the options first: PreferenceElicitor(source) or fit(source, user)"
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
        start = _Start(self, shared)
        self._session: Session[ElicitationResult] = Session(start, tuple(answers))

    def _check_params(self) -> None:
        check_choice(self.estimator, "estimator", ("full", "truncated"))
        check_int(self.refine, "refine", low=0)
        if self.max_queries is not None:
            check_int(self.max_queries, "max_queries", low=0)
        if isinstance(self.delta, str) and self.delta != "auto":
            raise InvalidInputError(
                f"delta={self.delta!r} needs quantities the procedure cannot know; compute a "
                "number with truncation_delta(...) or use 'auto'"
            )


_SAVED = (
    "basis",
    "estimator",
    "delta",
    "refine",
    "precision",
    "nonneg",
    "representation",
    "max_queries",
)


def read_state(text: str, kind: str) -> dict[str, Any]:
    """Parse a saved state and check what wrote it."""
    try:
        state = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"the saved state is not valid JSON: {error}") from None
    if not isinstance(state, dict) or state.get("kind") != kind or state.get("version") != 1:
        raise InvalidInputError(f"the saved state was not written by {kind} version 1")
    return state


@dataclass(frozen=True)
class _Start:
    """Starts the procedure from the beginning, with the parameters of an elicitor."""

    params: PreferenceElicitor
    shared: SharedBases

    def __call__(self) -> Procedure[ElicitationResult]:
        return guaranteed_procedure(self.shared, self.params)


@dataclass(frozen=True)
class _Measured:
    """Everything the questions revealed."""

    benchmark: Benchmark
    basis: Basis
    ratios: RatioEstimates
    precision: PrecisionEstimate | None
    errors: FloatArray
    n_queries: int


def guaranteed_procedure(
    shared: SharedBases, params: PreferenceElicitor
) -> Procedure[ElicitationResult]:
    """Benchmark, ratios, precision and refinement, then the recommendation."""
    log: list[LoggedAnswer] = []
    measured = yield from _logged(_measure(shared, params), log)
    return _recommend(shared, params, measured, tuple(log))


def _logged(procedure: Procedure[_Measured], log: list[LoggedAnswer]) -> Procedure[_Measured]:
    try:
        query = next(procedure)
        while True:
            answer = yield query
            log.append(query.answered(answer))
            query = procedure.send(answer)
    except StopIteration as stop:
        measured: _Measured = stop.value
        return measured
    except ContradictionError as error:
        raise ContradictionError(str(error), conflict=tuple(log)) from None


def _measure(shared: SharedBases, params: PreferenceElicitor) -> Procedure[_Measured]:
    items, values = shared.single_best()
    room = shared.showroom
    cap = params.max_queries
    benchmark = yield from _capped_benchmark(shared, items, values, cap)
    asked = benchmark.n_queries
    basis = shared.basis(benchmark.index)
    left = None if cap is None else max(0, cap - asked)
    ratios = yield from ratio_procedure(
        room, basis.items, basis.values, max_queries=left, strict=benchmark.n_queries == room.k - 1
    )
    asked += ratios.n_queries
    precision = None
    wanted = params.precision or (params.delta == "auto" and params.estimator == "truncated")
    if wanted and (cap is None or asked < cap):
        precision = yield from precision_procedure(room, basis.items[0], basis.values[0])
        asked += 0 if precision is None else precision.n_queries
    if params.refine and cap is None:
        bracket = None if precision is None else (precision.low, precision.high)
        before = ratios.n_queries
        ratios = yield from refine_procedure(
            room, basis.items, basis.values, ratios, params.refine, bracket
        )
        asked += ratios.n_queries - before
    return _Measured(benchmark, basis, ratios, precision, _errors(ratios, precision), asked)


def _capped_benchmark(
    shared: SharedBases, items: list[Any], values: FloatArray, cap: int | None
) -> Procedure[Benchmark]:
    """The benchmark questions, or as many of them as the cap allows."""
    n = len(items) if cap is None else min(len(items), cap + 1)
    benchmark = yield from benchmark_procedure(shared.showroom, items[:n], values[:n])
    return benchmark


def _errors(ratios: RatioEstimates, precision: PrecisionEstimate | None) -> FloatArray:
    """Guaranteed errors: from the brackets and, where it was measured, from the precision."""
    errors = ratios.errors
    if precision is not None:
        for i, ratio in enumerate(ratios.ratios):
            if ratio.settled:
                errors[i] = min(errors[i], bounds.ratio_error(ratio.estimate, precision.high))
    return errors


def _recommend(
    shared: SharedBases,
    params: PreferenceElicitor,
    measured: _Measured,
    log: tuple[LoggedAnswer, ...],
) -> ElicitationResult:
    basis, ratios = measured.basis, measured.ratios
    alpha = ratios.alpha_hat
    w_hat, d_used = _estimate(shared, params, measured)
    notes = []
    if params.nonneg:
        projected = nonnegative_preference(basis.values, alpha, measured.errors)
        if projected is None:
            notes.append("no non-negative weights explain the answers; the raw estimate is used")
        else:
            w_hat = projected
    items, values = shared.oracle.argmax(w_hat[None])
    deviation = np.abs(basis.values[1:] @ w_hat - alpha) + measured.errors
    certificate = min(
        1.0, bounds.certificate(shared.coefficients(measured.benchmark.index), deviation)
    )
    notes += _warnings(shared, measured, certificate)
    estimate = PreferenceEstimate(
        w_hat,
        basis.values,
        basis.directions,
        basis.extents,
        alpha,
        measured.benchmark.index,
        measured.n_queries,
        measured.errors,
        d_used,
    )
    return ElicitationResult(
        item=items[0],
        value=values[0],
        regret_certificate=certificate,
        n_queries=len(log),
        method="guaranteed",
        label=shared.showroom.label(items[0], values[0]),
        objective_names=tuple(shared.showroom.objective_name(j) for j in range(shared.oracle.k)),
        answers=log,
        weights=estimate.weights(),
        estimate=estimate,
        single_values=shared.single_best()[1],
        notes=tuple(notes),
    )


def _estimate(
    shared: SharedBases, params: PreferenceElicitor, measured: _Measured
) -> tuple[FloatArray, int]:
    basis, alpha = measured.basis, measured.ratios.alpha_hat
    if params.estimator == "full":
        return solve_preference(basis.values, alpha), basis.d
    k = shared.oracle.k
    high = 1.0 if measured.precision is None else measured.precision.high
    delta = truncation_delta(
        params.delta,
        k=k,
        d=basis.d,
        scale=shared.oracle.scale,
        norm_w=1.0 / float(np.linalg.norm(basis.values[0])),
        ratio_error=2 * k * high,
    )
    return truncated_preference(basis.values, alpha, basis.extents, delta)


def _warnings(shared: SharedBases, measured: _Measured, certificate: float) -> list[str]:
    notes = []
    if measured.ratios.benchmark_worthless:
        notes.append(
            "the person cannot tell the yardstick from nothing, so nothing could be measured; any "
            f"option is within {2 * shared.oracle.k} times the person's precision of the best"
        )
        warnings.warn(notes[-1], AssumptionWarning, stacklevel=2)
    elif certificate >= 1.0 and measured.basis.d > 1:
        notes.append("the person's precision is too coarse for these options: no useful guarantee")
    error = getattr(getattr(shared.oracle, "mdp", None), "value_error", 0.0)
    if error:
        notes.append(
            f"values were estimated from samples and may be off by {error:.3g} in each objective; "
            "add twice this times the sum of the weights to the regret"
        )
    return notes


def elicit_many(
    source: Any, users: Iterable[User], **params: Any
) -> tuple[list[ElicitationResult], SharedBases]:
    """Run the guaranteed procedure for many users who share bases; return results and bases.

    The oracle is called for at most ``k + k d(2k-d-1)`` directions plus one per user (plus the
    coefficients of the certificate, once per basis).

    Examples
    --------
    >>> from counterplay.elicitation import LinearPreferenceUser, instances
    >>> users = [LinearPreferenceUser(w, 0.01) for w in np.eye(4) + 0.1]
    >>> results, bases = elicit_many(instances.random_mdp(0), users)
    >>> len(results), bases.oracle.n_calls
    (4, 104)
    """
    kind = params.get("basis", "barycentric")
    representation = params.get("representation", "values")
    shared = source
    if not isinstance(source, SharedBases):
        shared = SharedBases(source, kind=kind, representation=representation)
    return [PreferenceElicitor(shared, **params).run(user) for user in users], shared
