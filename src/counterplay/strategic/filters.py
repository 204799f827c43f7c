"""Which rules survive a round: by the mistake alone, or by everything the round reveals.

With ``rho`` the distance to the published rule: an accepted agent has radius >= rho, a rejected one
radius < rho. A rule survives if some admissible radius explains both the round and the rule being
perfect. The rule of the theorems uses mistakes only; :func:`safe_filter` uses every round.

Source: UPD in "The mistake filter", Proposition 2.H, see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import BoolArray, FloatArray, array_fault, check_int, check_real
from counterplay.errors import InvalidInputError


@checked(nonfinite=["rho"])
def mistake_filter(row: ArrayLike, rho: float, y: int, yhat: int) -> BoolArray:
    """Return which rules survive a round, using mistakes only.

    After a false negative a perfect rule is strictly closer than ``rho``, after a false positive
    strictly farther; ties go. A correct round teaches nothing here.

    Parameters
    ----------
    row:
        Distances of the agent to the rules.
    rho:
        Her distance to the published rule.
    y:
        True label.
    yhat:
        Decision.

    Examples
    --------
    >>> mistake_filter([1.0, 2.0, 3.0], rho=2.0, y=0, yhat=1)
    array([False, False,  True])

    References
    ----------
    Algorithm 2.1, "The mistake filter", see docs/theory/02-strategic-finite.md.
    """
    d = _check_row(row)
    if y == yhat:
        return np.ones(d.shape, dtype=np.bool_)
    return d < rho if y == 1 else d > rho


@checked(nonfinite=["rho", "r_max"])
def safe_filter(
    row: ArrayLike,
    rho: float,
    y: int,
    yhat: int,
    r_min: float = 0.0,
    r_max: float = math.inf,
) -> BoolArray:
    """Return which rules survive a round, using all the information in it.

    Use it instead of :func:`mistake_filter` when the population is realizable: it never removes a
    perfect rule and never keeps more. Do not combine it with :class:`LongestSurvivor`, which needs
    a learner that changes on mistakes only.

    Parameters
    ----------
    row:
        Distances of the agent to the rules.
    rho:
        Her distance to the published rule.
    y:
        True label.
    yhat:
        Decision.
    r_min:
        Smallest radius that any agent can have.
    r_max:
        Largest radius that any agent can have.

    Notes
    -----
    A rule is kept exactly if some radius in [r_min, r_max] gives the observed decision and makes
    the rule right. With ``r_min = 0`` every true negative removes all rules that accept her as she
    stands, even in rounds without a mistake.

    Examples
    --------
    A rejected agent who deserved it: the rule that accepts her where she stands is wrong.

    >>> safe_filter([0.0, 1.0, 2.0], rho=1.0, y=0, yhat=0)
    array([False,  True,  True])
    """
    d = _check_row(row)
    check_int(y, "y", low=0, high=1)
    check_int(yhat, "yhat", low=0, high=1)
    check_real(r_min, "r_min", low=0.0)
    if math.isnan(r_max) or r_max < r_min:
        raise InvalidInputError(f"r_max must be at least r_min={r_min:g}, got {r_max:g}")
    keep: BoolArray
    if y == 1:
        # A right rule has d <= r for some admissible r; a rejection also says r < rho.
        keep = (d <= r_max) if yhat == 1 else (d < rho) & (d <= r_max)
        # No finite radius reaches a rule that accepts nobody.
        return keep & np.isfinite(d)
    keep = d > r_min if yhat == 0 else d > max(rho, r_min)
    return keep


@checked
def safe_set_filter(
    positive: BoolArray, published: BoolArray, x: int, delta: int, y: int, yhat: int
) -> BoolArray:
    """Return which rules survive a round with an agent whose reach is an unknown set.

    Parameters
    ----------
    positive:
        ``(n, N)`` accepted points of the rules.
    published:
        ``(N,)`` accepted points of the published rule.
    x:
        Her point.
    delta:
        The point she reported.
    y:
        True label.
    yhat:
        Decision.

    Notes
    -----
    A negative agent contradicts every rule that accepts ``x`` or ``delta``. A positive agent who
    was rejected reaches nothing that was published, so every rule within the published set is
    wrong.

    Examples
    --------
    >>> rules = np.eye(3, dtype=bool)
    >>> safe_set_filter(rules, rules[1], x=0, delta=1, y=0, yhat=1)
    array([False, False,  True])
    """
    rules, shown = np.asarray(positive, dtype=np.bool_), np.asarray(published, dtype=np.bool_)
    if rules.ndim != 2 or shown.shape != rules.shape[1:]:
        raise InvalidInputError(
            f"positive must be a table with one column per point of published, got shapes "
            f"{rules.shape} and {shown.shape}"
        )
    x, delta = (check_int(v, "point", low=0, high=rules.shape[1] - 1) for v in (x, delta))
    keep: BoolArray = np.ones(rules.shape[0], dtype=np.bool_)
    if y == 0:
        keep = ~(rules[:, x] | rules[:, delta])
    elif yhat == 0:
        keep = np.asarray((rules & ~shown).any(axis=1))
    return keep


def _check_row(row: ArrayLike) -> FloatArray:
    if fault := array_fault(row, kinds="biuf"):
        raise InvalidInputError(f"distances must be numbers: {fault}")
    d = np.asarray(row, dtype=np.float64)
    if np.isnan(d).any() or (d < 0).any():
        raise InvalidInputError("distances must not be NaN or negative")
    return d
