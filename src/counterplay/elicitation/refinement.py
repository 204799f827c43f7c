"""Ratios below the user's precision: bisect both ends of the indistinguishable zone.

Under the model the boundary of "cannot tell" is a fixed function of the preference, so it can be
located as precisely as one likes, although no single comparison is finer than eps.
Source: docs/theory/08-elicitation.md, "Proposition 8.J: ratios below the precision".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike

from counterplay.core.validation import FloatArray, check_float_array, check_int
from counterplay.elicitation.comparisons import (
    Answer,
    Procedure,
    User,
)
from counterplay.elicitation.oracles import PointSetOracle
from counterplay.elicitation.ratios import MeasuringScale, Ratio, RatioEstimates
from counterplay.elicitation.sessions import ProcedureSession, answered_by
from counterplay.elicitation.showroom import Showroom
from counterplay.errors import InvalidInputError

Bracket = tuple[float, float]


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
