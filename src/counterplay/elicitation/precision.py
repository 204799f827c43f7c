"""The user's precision relative to the benchmark, measured with the benchmark itself.

Compare the benchmark with a slightly diluted copy of itself. Only the ratio eps/x can be found:
scaling the hidden weights and the hidden precision together changes no answer.
Source: paragraph after Theorem 8.2; docs/theory/08-elicitation.md, "Proposition 8.I: precision".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    FloatArray,
    check_float_array,
    check_positive_int,
    check_real,
)
from counterplay.elicitation.comparisons import (
    Answer,
    Procedure,
    Query,
    User,
)
from counterplay.elicitation.oracles import PointSetOracle
from counterplay.elicitation.sessions import ProcedureSession, answered_by
from counterplay.elicitation.showroom import Showroom


@dataclass(frozen=True)
class PrecisionEstimate:
    """Bracket of eps/x: indistinguishable at ``low``, distinguishable at ``high``."""

    low: float
    high: float
    n_queries: int

    @property
    def estimate(self) -> float:
        """Middle of the bracket."""
        return (self.low + self.high) / 2

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@checked
def estimate_precision(
    V1: ArrayLike,
    user: User,
    rel_tol: float = 0.5,
    max_iter: int = 60,
) -> PrecisionEstimate | None:
    """Bracket ``eps/x`` by bisection; None if the user cannot tell the benchmark from nothing.

    Parameters
    ----------
    V1:
        Value of the benchmark.
    user:
        Anyone with ``compare``.
    rel_tol:
        Stop when the bracket is at most this fraction of its lower end.
    max_iter:
        Most bisections.

    Examples
    --------
    >>> from counterplay.elicitation import LinearPreferenceUser
    >>> found = estimate_precision([1.0, 0.2], LinearPreferenceUser([1.0, 0.5], eps=0.0146))
    >>> 0.0146 / 1.1 in found, found.n_queries
    (True, 9)
    """
    value = check_float_array(V1, "V1", ndim=1)
    room = Showroom(PointSetOracle(value[None]))
    session = ProcedureSession(lambda: precision_procedure(room, 0, value, rel_tol, max_iter))
    found: PrecisionEstimate | None = answered_by(session, user)
    return found


def precision_procedure(
    showroom: Showroom, item: Any, value: FloatArray, rel_tol: float = 0.5, max_iter: int = 60
) -> Procedure[PrecisionEstimate | None]:
    """Ask whether the benchmark beats a copy of itself that is diluted less and less."""
    tolerance = check_real(rel_tol, "rel_tol", low=0.0, open_low=True)
    limit = check_positive_int(max_iter, "max_iter")
    low, high, asked = 0.0, 1.0, 1
    answer = yield _question(showroom, item, value, 1.0)
    if answer is Answer.INDISTINGUISHABLE:
        return None
    for _ in range(limit):
        if high - low <= tolerance * low:
            break
        middle = (low + high) / 2
        answer = yield _question(showroom, item, value, middle)
        asked += 1
        if answer is Answer.INDISTINGUISHABLE:
            low = middle
        else:
            high = middle
    return PrecisionEstimate(low, high, asked)


def _question(showroom: Showroom, item: Any, value: FloatArray, eta: float) -> Query:
    return Query(
        showroom.option(item, value, 1.0),
        showroom.option(item, value, 1.0 - eta),
        reason="it finds the smallest difference that matters to you",
        purpose="precision",
    )
