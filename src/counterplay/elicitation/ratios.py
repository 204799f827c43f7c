"""How much each basis option is worth relative to the benchmark, by bisection.

Diluting an option with "nothing" scales its worth, so mixtures serve as a measuring scale. Under
the model the border of "cannot tell" is a fixed function of the preference, so ``refine_ratios``
bisects both ends of the indistinguishable zone and gets far below the user's precision.
Source: Algorithm G.1, Equation 8.3; docs/theory/08-elicitation.md, "Proposition 8.C: ratios" and
"Proposition 8.J: ratios below the precision".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
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
Bracket = tuple[float, float]


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


@checked
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


@checked
def refine_ratios(
    V: ArrayLike,
    user: User,
    estimates: RatioEstimates,
    extra_queries: int = 8,
    *,
    precision: Bracket | None = None,
) -> RatioEstimates:
    """Push the ratios below the user's precision by bisecting both ends of the "same" zone.

    Parameters
    ----------
    V:
        Values (d, k) of the basis; row 0 is the benchmark.
    user:
        Anyone with ``compare``.
    estimates:
        Result of :func:`estimate_ratios`.
    extra_queries:
        Bisections per end of the zone; 6 to 10 in practice. Each halves the error.
    precision:
        Bracket of ``eps/x`` from :func:`estimate_precision`; it is needed only if no ratio has
        both ends, because every ratio with both ends reveals ``eps/x`` as well.

    Returns
    -------
    RatioEstimates
        Exact up to the width of the bisected brackets, for an exact user; ``errors`` says how far.

    Examples
    --------
    >>> from counterplay.elicitation import LinearPreferenceUser
    >>> from counterplay.elicitation.lab import estimate_ratios
    >>> V, user = [[1.0, 0.2], [0.3, 0.6]], LinearPreferenceUser([1.0, 0.7], eps=0.1)
    >>> coarse = estimate_ratios(V, user)
    >>> fine = refine_ratios(V, user, coarse, extra_queries=40)
    >>> true = (0.3 + 0.42) / 1.14
    >>> bool(abs(coarse.alpha_hat[0] - true) > 1e-3), bool(abs(fine.alpha_hat[0] - true) < 1e-11)
    (True, True)
    """
    values = check_float_array(V, "V", ndim=2)
    if len(values) != len(estimates.ratios) + 1:
        raise InvalidInputError(
            f"V has {len(values)} rows, but the estimates are of {len(estimates.ratios) + 1}"
        )
    room, items = Showroom(PointSetOracle(values)), list(range(len(values)))
    session = ProcedureSession(
        lambda: refine_procedure(room, items, values, estimates, extra_queries, precision)
    )
    ratios: RatioEstimates = answered_by(session, user)
    return ratios


@dataclass(frozen=True)
class _Zone:
    """Brackets of both ends of the numbers that cannot be told from the ratio."""

    low: Bracket | None
    high: Bracket | None
    n_queries: int


def refine_procedure(
    showroom: Showroom,
    items: Sequence[Any],
    values: FloatArray,
    estimates: RatioEstimates,
    extra_queries: int,
    precision: Bracket | None = None,
) -> Procedure[RatioEstimates]:
    """Ask for the lower and upper end of each indistinguishable zone."""
    bisections = check_int(extra_queries, "extra_queries", low=1)
    scale = MeasuringScale(showroom, items, values)
    zones: dict[int, _Zone] = {}
    for i, ratio in enumerate(estimates.ratios):
        if ratio.settled:
            low, n_low = yield from _zone_end(scale, i, ratio, bisections, lower=True)
            high, n_high = yield from _zone_end(scale, i, ratio, bisections, lower=False)
            zones[i] = _Zone(low, high, n_low + n_high)
    shared = _shared_precision(zones.values(), precision)
    ratios = [
        _from_zone(ratio, zones[i], shared) if i in zones else ratio
        for i, ratio in enumerate(estimates.ratios)
    ]
    asked = estimates.n_queries + sum(zone.n_queries for zone in zones.values())
    return replace(estimates, ratios=tuple(ratios), n_queries=asked)


def _zone_end(
    scale: MeasuringScale, i: int, ratio: Ratio, bisections: int, *, lower: bool
) -> Procedure[tuple[Bracket | None, int]]:
    """Bracket one end of the zone; None if the zone does not end on this side."""
    inside, outside = ratio.estimate, ratio.low if lower else ratio.high
    asked = 0
    if not (ratio.low_asked if lower else ratio.high_asked):
        answer = yield scale.question(i, outside, "refine")
        asked += 1
        if answer is Answer.INDISTINGUISHABLE:
            return None, asked
    for _ in range(bisections):
        middle = (inside + outside) / 2
        if middle in (inside, outside):
            break
        answer = yield scale.question(i, middle, "refine")
        asked += 1
        if answer is Answer.INDISTINGUISHABLE:
            inside = middle
        else:
            outside = middle
    return (min(inside, outside), max(inside, outside)), asked


def _shared_precision(zones: Any, given: Bracket | None) -> Bracket | None:
    """Bracket of eps/x, which is the same for all ratios: each full zone narrows it."""
    low, high = (0.0, float("inf")) if given is None else given
    found = given is not None
    for zone in zones:
        if zone.low is not None and zone.high is not None:
            low = max(low, zone_ratio(zone.low[1], zone.high[0])[1])
            high = min(high, zone_ratio(zone.low[0], zone.high[1])[1])
            found = True
    if not found:
        return None
    return (low, high) if low <= high else (high, low)


def _from_zone(ratio: Ratio, zone: _Zone, precision: Bracket | None) -> Ratio:
    """The ratio grows with both ends, so the corners of the brackets bound it."""
    asked = ratio.n_queries + zone.n_queries
    complete = zone.low is not None and zone.high is not None
    if not complete and (precision is None or (zone.low is None and zone.high is None)):
        return replace(ratio, n_queries=asked)
    unknown: Sequence[float | None] = (None,) if complete else (precision or (None,))
    corners = [
        zone_ratio(low, high, e)[0]
        for low in (zone.low or (None,))
        for high in (zone.high or (None,))
        for e in unknown
    ]
    low, high = max(ratio.low, min(corners)), min(ratio.high, max(corners))
    if low > high:  # only a user whose threshold wavers gets here
        low, high = min(corners), max(corners)
    middle = (low + high) / 2  # the corners follow from answers, so the ratio is limited
    return replace(
        ratio, estimate=middle, low=low, high=high, n_queries=asked, high_asked=True, refined=True
    )


@checked
def zone_ratio(
    low: float | None, high: float | None, precision: float | None = None
) -> tuple[float, float]:
    """Return (alpha, eps/x) from the ends of the indistinguishable zone.

    With both ends the precision is computed as well; with one end missing it must be given.

    Examples
    --------
    >>> alpha, e = zone_ratio(0.55, 0.65)
    >>> round(alpha, 12), round(e, 12)
    (0.6, 0.05)
    """
    if low is not None and high is not None:
        if high <= 1:
            return (low + high) / 2, (high - low) / 2
        if low > 1:
            return 2 / (1 / low + 1 / high), (high - low) / (high + low)
        e = (high - low) / (1 + high)
        return low + e, e
    if precision is None:
        raise InvalidInputError("with one end of the zone missing, give the precision eps/x")
    if high is not None:
        return (high - precision if high <= 1 else high * (1 - precision)), precision
    if low is not None:
        return (low + precision if low <= 1 else low * (1 + precision)), precision
    raise InvalidInputError("at least one end of the zone is needed")
