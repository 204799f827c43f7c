"""What a saved questionnaire holds: its options' fingerprint, its settings, and every answer.

Nothing that follows from the answers is in the file; reading one is replaying it.
Source: docs/theory/08-elicitation.md, "Sessions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from msgspec import Meta

from counterplay.core.records import (
    Count,
    Fingerprint,
    Record,
    Word,
    check_fingerprint,
    fingerprint,
    read_record,
    refusal,
    to_record,
)
from counterplay.core.validation import FloatArray
from counterplay.elicitation.comparisons import Answer, LoggedAnswer
from counterplay.elicitation.oracles import LinearOracle, MDPOracle, PointSetOracle, PolytopeOracle
from counterplay.errors import InvalidInputError, InvalidStateError, ProtocolError

Values = Annotated[tuple[float, ...], Meta(min_length=1, max_length=10_000)]
R = TypeVar("R", bound=Record)
WHAT = "the saved questionnaire"


class SavedAnswer(Record, frozen=True):
    """One answered question."""

    first: Values
    second: Values
    answer: Literal["first", "second", "same"]
    purpose: Word
    options: tuple[Count, Count] | None = None
    about: Count | None = None

    @classmethod
    def of(cls, entry: LoggedAnswer) -> SavedAnswer:
        """Return the record of an answer."""
        return cls(
            first=tuple(entry.first.tolist()),
            second=tuple(entry.second.tolist()),
            answer=entry.answer.value,
            purpose=entry.purpose,
            options=entry.options,
            about=entry.about,
        )

    def entry(self, number: int, k: int) -> LoggedAnswer:
        """Return the answer of a questionnaire about ``k`` objectives."""
        for side, values in (("first", self.first), ("second", self.second)):
            if len(values) != k:
                where = f"answers[{number}].{side}"
                raise refusal(WHAT, where, f"must have {k} values, got {len(values)}")
        return LoggedAnswer(
            np.array(self.first),
            np.array(self.second),
            Answer(self.answer),
            self.purpose,
            self.options,
            self.about,
        )


Answers = Annotated[tuple[SavedAnswer, ...], Meta(max_length=1_000_000)]


class GuaranteedSettings(Record, frozen=True):
    """Parameters of :class:`PreferenceElicitor`."""

    basis: Literal["barycentric", "thesis", "single"]
    estimator: Literal["full", "truncated"]
    delta: Literal["auto"] | float
    refine: Annotated[int, Meta(ge=0, le=1000)]
    precision: bool
    nonneg: bool
    representation: Literal["values", "policy", "trajectories"]
    max_queries: Count | None


class SavedGuaranteed(Record, frozen=True):
    """State of :class:`PreferenceElicitor`."""

    kind: Literal["PreferenceElicitor"]
    version: Literal[2]
    problem: Fingerprint
    params: GuaranteedSettings
    answers: Answers


class AdaptiveSettings(Record, frozen=True):
    """Parameters of :class:`PolytopeElicitor`."""

    target_regret: Annotated[float, Meta(ge=1e-6, lt=1.0)]
    contradictions: Literal["ask", "set_aside", "raise"]
    max_contradictions: Count
    fallback: bool
    adaptive_questions: Count | None
    max_rays: Annotated[int, Meta(ge=2, le=10_000_000)]


class SavedQuestion(Record, frozen=True):
    """The open question of an adaptive questionnaire."""

    options: tuple[Count, Count]
    reason: Annotated[str, Meta(max_length=2000)]
    about: Count | None = None


class SavedAdaptive(Record, frozen=True):
    """State of :class:`PolytopeElicitor`."""

    kind: Literal["PolytopeElicitor"]
    version: Literal[2]
    problem: Fingerprint
    params: AdaptiveSettings
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    witnesses: Annotated[tuple[Values, ...], Meta(max_length=1_000_000)]
    answers: Answers
    stopped: bool
    asked: bool
    pending: SavedQuestion | None


class Setup(Record, frozen=True):
    """Which columns of a table a questionnaire in the terminal is about."""

    benefits: Annotated[tuple[str, ...], Meta(max_length=10_000)]
    costs: Annotated[tuple[str, ...], Meta(max_length=10_000)]
    name: str | None
    either: Annotated[tuple[str, ...], Meta(max_length=10_000)]
    exact: bool
    """Whether every answer is taken to be right."""
    seed: int


class SavedTerminal(Record, frozen=True):
    """A questionnaire in the terminal: the file it is about, and the state of the elicitor."""

    kind: Literal["questionnaire"]
    version: Literal[3]
    digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    setup: Setup
    elicitor: dict[str, Any]


def read_guaranteed(text: str | bytes, oracle: LinearOracle) -> SavedGuaranteed:
    """Parse the state of a guaranteed procedure about these options."""
    saved = read_record(text, SavedGuaranteed, what=WHAT)
    check_fingerprint(saved.problem, source_fingerprint(oracle), what=WHAT)
    return saved


def read_adaptive(text: str | bytes, oracle: LinearOracle) -> SavedAdaptive:
    """Parse the state of an adaptive questionnaire about these options."""
    saved = read_record(text, SavedAdaptive, what=WHAT)
    check_fingerprint(saved.problem, source_fingerprint(oracle), what=WHAT)
    for number, witness in enumerate(saved.witnesses):
        if len(witness) != oracle.k:
            raise refusal(WHAT, f"witnesses[{number}]", f"must have {oracle.k} values")
    return saved


def settings_of(elicitor: Any, kind: type[R]) -> R:
    """Return the parameters of an elicitor as a record."""
    given = {name: getattr(elicitor, name) for name in kind.__struct_fields__}
    plain = {name: v.item() if isinstance(v, np.generic) else v for name, v in given.items()}
    return to_record(plain, kind, what="the questionnaire", where="its parameters.")


def replayed(replay: Callable[[], None]) -> None:
    """Apply saved answers; one that the questionnaire would not have taken is damage."""
    try:
        replay()
    except InvalidStateError:
        raise
    except (InvalidInputError, ProtocolError) as error:
        raise refusal(WHAT, "answers", str(error)) from None


def source_fingerprint(oracle: LinearOracle) -> dict[str, str]:
    """Return what identifies the options; of a planner that is a function, only its size."""
    parts: dict[str, Any] = {"objectives": oracle.k}
    if isinstance(oracle, PointSetOracle):
        parts |= {"options": len(oracle.X), "values": _rounded(oracle.X)}
    elif isinstance(oracle, MDPOracle):
        mdp = oracle.mdp
        parts |= {"start": mdp.s0, "horizon": mdp.H, "rewards": _rounded(mdp.R)}
        parts["transitions"] = _transitions(mdp.P)
    elif isinstance(oracle, PolytopeOracle):
        parts |= {"inequalities": [_rounded(oracle.A), _rounded(oracle.b)]}
    return fingerprint(parts)


def _transitions(P: Any) -> list[Any]:
    """A dense or sparse table of probabilities, or a list of such, in one form."""
    from scipy import sparse

    parts = P if isinstance(P, list | tuple) else [P]
    tables = [t.tocsr() if sparse.issparse(t) else sparse.csr_array(np.atleast_2d(
        np.asarray(t, dtype=np.float64).reshape(-1, np.shape(t)[-1]))) for t in parts]  # fmt: skip
    for table in tables:
        table.sum_duplicates()
    return [[list(t.shape), t.indptr, t.indices, _rounded(t.data)] for t in tables]


def _rounded(values: Any) -> FloatArray:
    """Ten digits: the same numbers computed on another machine may differ in the last bits."""
    numbers = np.asarray(values, dtype=np.float64)
    largest = float(np.abs(numbers).max(initial=0.0)) or 1.0
    return np.round(numbers / largest, 10) + 0.0
