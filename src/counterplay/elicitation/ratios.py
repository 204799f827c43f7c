"""How much each basis option is worth relative to the benchmark, by bisection.

Diluting an option with "nothing" scales its worth, so mixtures serve as a measuring scale. After
the bisection stops, ``refine_ratios`` bisects the edges of the indistinguishable zone and gets far
below the user's precision.
Source: Algorithm G.1, Equation 8.3; docs/theory/08-elicitation.md, "Proposition 8.C: ratios".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    check_float_array,
    check_int,
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
from counterplay.errors import ContradictionError, InvalidInputError

MAX_BISECTIONS = 200


@dataclass(frozen=True)
class Ratio:
    """What is known about one ratio alpha = <w, V_i> / <w, V_1>.

    ``low`` and ``high`` bracket it: the user preferred the basis option at ``low`` and the
    benchmark at ``high`` (0 and 2*C_alpha if never asked). A ``high`` that was never asked limits
    the ratio only if the caller knows that it does.
    """

    estimate: float
    low: float
    high: float
    n_queries: int = 0
    settled: bool = False
    """Whether the bisection ended with "indistinguishable"."""
    low_asked: bool = False
    high_asked: bool = False
    refined: bool = False
    """Whether the estimate is no longer the number at which the user said "same"."""

    @property
    def error(self) -> float:
        """Largest distance of the true ratio from the estimate, from the answers alone."""
        return max(self.estimate - self.low, self.high - self.estimate)


@dataclass(frozen=True)
class RatioEstimates:
    """Ratios of all basis options but the benchmark."""

    ratios: tuple[Ratio, ...]
    n_queries: int
    suspicious: tuple[int, ...] = ()
    """Ratios whose first question was answered in a way no consistent user would."""
    benchmark_worthless: bool = False
    """The user cannot tell the benchmark from nothing, so nothing can be measured."""
    worth_shown: bool = False
    """An answer showed that the benchmark is worth more than the user's precision: x > eps."""

    @property
    def alpha_hat(self) -> FloatArray:
        """Estimates (d-1,)."""
        return np.array([ratio.estimate for ratio in self.ratios])

    @property
    def errors(self) -> FloatArray:
        """Guaranteed error of each estimate (d-1,), if no ratio exceeds ``2 C_alpha``.

        Infinite where the user cannot tell the benchmark from nothing and no answer limits the
        ratio from above.
        """
        errors = np.array([ratio.error for ratio in self.ratios])
        if self.benchmark_worthless:
            errors[~self.limited] = np.inf
        return errors

    @property
    def limited(self) -> BoolArray:
        """Which ratios are limited from above by an answer (d-1,)."""
        return np.array([ratio.high_asked for ratio in self.ratios], dtype=bool)


def estimate_ratios(
    V: ArrayLike,
    user: User,
    C_alpha: float | None = None,
    max_queries: int | None = None,
) -> RatioEstimates:
    """Estimate ``alpha_i = <w, V_{i+1}> / <w, V_1>`` by bisection.

    Parameters
    ----------
    V:
        Values (d, k) of the basis; row 0 is the benchmark.
    user:
        Anyone with ``compare``.
    C_alpha:
        Upper limit of the ratios; 2k by default.
    max_queries:
        Cap on all questions together; then the ratio with the widest bracket is asked next.

    Returns
    -------
    RatioEstimates
        With ``|alpha_hat - alpha| * x <= max(1, alpha_hat) * eps`` and, if ``eps <= v*/(2k)``,
        ``|alpha_hat - alpha| <= 4 k^2 eps / v*`` (Lemma 8.1), using at most
        ``max(0, ceil(log2(C_alpha x / eps))) + 1`` questions per ratio.

    Raises
    ------
    ContradictionError
        When a bisection does not end: no consistent user answers like that.

    Examples
    --------
    >>> from counterplay.elicitation import LinearPreferenceUser, instances
    >>> thin = instances.thin_direction(1e-5)
    >>> found = estimate_ratios(thin.values, LinearPreferenceUser(thin.w, thin.eps))
    >>> found.alpha_hat.tolist(), found.ratios[0].n_queries
    ([1.6875, 1.0078125], 6)
    """
    values = check_float_array(V, "V", ndim=2)
    if max_queries is None and getattr(user, "eps", 1.0) == 0:
        raise InvalidInputError(
            "a user with eps = 0 never says 'same', so the bisection does not end; set max_queries"
        )
    room, items = Showroom(PointSetOracle(values)), list(range(len(values)))
    session = ProcedureSession(
        lambda: ratio_procedure(room, items, values, C_alpha=C_alpha, max_queries=max_queries)
    )
    ratios: RatioEstimates = answered_by(session, user)
    return ratios


def ratio_procedure(
    showroom: Showroom,
    items: Sequence[Any],
    values: FloatArray,
    *,
    C_alpha: float | None = None,
    max_queries: int | None = None,
    strict: bool = False,
) -> Procedure[RatioEstimates]:
    """Ask the bisection questions of every ratio; ``strict`` raises at the first impossible one."""
    limit = 2.0 * values.shape[1] if C_alpha is None else check_real(C_alpha, "C_alpha", low=1.0)
    cap = None if max_queries is None else check_int(max_queries, "max_queries", low=0)
    scale = MeasuringScale(showroom, items, values)
    ratios = [Ratio(limit, 0.0, 2 * limit) for _ in range(len(values) - 1)]
    suspicious: list[int] = []
    asked = 0
    while cap is None or asked < cap:
        i = _next_ratio(ratios, by_width=cap is not None)
        if i is None:
            break
        ratio = ratios[i]
        answer = yield scale.question(i, ratio.estimate)
        asked += 1
        if answer is Answer.SECOND and ratio.n_queries == 0:
            suspicious.append(i)
            if strict:
                raise ContradictionError(
                    f"basis option {i + 2} was preferred although it was diluted to 1/{limit:g}; "
                    "no preference explains that together with the first answers",
                    conflict=(i,),
                )
        ratios[i] = _narrow(ratio, answer)
        _check_progress(ratios[i], i)
    worthless, shown = False, any(ratio.high_asked for ratio in ratios)
    at_once = bool(ratios) and all(r.settled and r.n_queries == 1 for r in ratios)
    if at_once and (cap is None or asked < cap):
        answer = yield scale.benchmark_or_nothing()
        asked += 1
        worthless, shown = answer is Answer.INDISTINGUISHABLE, answer is Answer.FIRST
    return RatioEstimates(tuple(ratios), asked, tuple(suspicious), worthless, shown)


@dataclass(frozen=True)
class MeasuringScale:
    """Builds questions "a times the benchmark, or basis option i?"; the benchmark side is first."""

    showroom: Showroom
    items: Sequence[Any]
    values: FloatArray

    def question(self, i: int, a: float, purpose: str = "ratio") -> Query:
        """Return the question that compares ratio ``i`` with the number ``a``."""
        benchmark, other = self.items[0], self.items[i + 1]
        left = self.showroom.option(benchmark, self.values[0], min(a, 1.0))
        right = self.showroom.option(other, self.values[i + 1], 1.0 if a <= 1 else 1.0 / a)
        reason = (
            f"it measures whether option {i + 2} is worth more or less than {a:.4g} times your "
            "yardstick"
        )
        return Query(left, right, reason, purpose=purpose)

    def benchmark_or_nothing(self) -> Query:
        """Return the question "benchmark or nothing?"."""
        left = self.showroom.option(self.items[0], self.values[0], 1.0)
        right = self.showroom.option(self.items[0], self.values[0], 0.0)
        reason = "it checks that your yardstick is worth something to you at all"
        return Query(left, right, reason, purpose="worth")


def _next_ratio(ratios: Sequence[Ratio], *, by_width: bool) -> int | None:
    open_ratios = [i for i, ratio in enumerate(ratios) if not ratio.settled]
    if not open_ratios:
        return None
    if not by_width:
        return open_ratios[0]
    return max(open_ratios, key=lambda i: (ratios[i].high - ratios[i].low, -i))


def _narrow(ratio: Ratio, answer: Answer) -> Ratio:
    asked = ratio.n_queries + 1
    if answer is Answer.INDISTINGUISHABLE:
        return replace(ratio, n_queries=asked, settled=True)
    if answer is Answer.FIRST:
        narrower = replace(ratio, high=ratio.estimate, high_asked=True, n_queries=asked)
    else:
        narrower = replace(ratio, low=ratio.estimate, low_asked=True, n_queries=asked)
    return replace(narrower, estimate=(narrower.low + narrower.high) / 2)


def _check_progress(ratio: Ratio, i: int) -> None:
    if ratio.settled:
        return
    if ratio.n_queries >= MAX_BISECTIONS or ratio.high - ratio.low < 1e-15 * ratio.high:
        raise ContradictionError(
            f"after {ratio.n_queries} questions about option {i + 2} the bracket is "
            f"[{ratio.low:g}, {ratio.high:g}] and still no answer was 'same'; a person with a "
            "positive precision would have said so",
            conflict=(i,),
        )
