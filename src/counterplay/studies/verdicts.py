"""Verdicts in the words of theory: at most a bound, equal to a value, growing at a rate.

The right-hand side comes from the ``bounds`` of the area, so that no study types a formula again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.stats import Interval
from counterplay.errors import InvalidInputError
from counterplay.studies.study import Verdict


def at_most(
    claim: str, statement: str, measured: float, bound: float, *, what: str = "", slack: float = 0.0
) -> Verdict:
    """The measured number does not exceed the bound (plus a stated slack for rounding).

    Examples
    --------
    >>> at_most("09.10", "The regret keeps its bound.", 0.26, 1.0, what="largest ratio")
    Verdict(claim='09.10', statement='The regret keeps its bound.', measured='largest ratio 0.26', \
expected='<= 1', holds=True)
    """
    shown = f"{what} {measured:.4g}".strip()
    return Verdict(claim, statement, shown, f"<= {bound:.4g}", bool(measured <= bound + slack))


def at_least(
    claim: str, statement: str, measured: float, bound: float, *, what: str = "", slack: float = 0.0
) -> Verdict:
    """The measured number reaches the bound (minus a stated slack for rounding)."""
    shown = f"{what} {measured:.4g}".strip()
    return Verdict(claim, statement, shown, f">= {bound:.4g}", bool(measured >= bound - slack))


def seen(claim: str, statement: str, measured: str) -> Verdict:
    """A number that is looked at beside a claim, and about which nothing is promised.

    Examples
    --------
    >>> seen("26.11", "Coin tossers.", "12 of 40 certified").holds is None
    True
    """
    return Verdict(claim, statement, measured, "no promise", None)


def equals(
    claim: str,
    statement: str,
    measured: float,
    expected: float,
    *,
    what: str = "",
    tolerance: float = 0.0,
) -> Verdict:
    """The measured number is the expected one, up to a stated tolerance."""
    shown = f"{what} {measured:.6g}".strip()
    wanted = f"{expected:.6g}" + (f" +- {tolerance:g}" if tolerance else "")
    return Verdict(claim, statement, shown, wanted, bool(abs(measured - expected) <= tolerance))


def covers(claim: str, statement: str, measured: Interval, expected: float) -> Verdict:
    """The interval of the measured number contains the expected one.

    Examples
    --------
    >>> covers("10.20", "Nobody beats a coin.", Interval(0.48, 0.41, 0.55), 0.5).holds
    True
    """
    return Verdict(claim, statement, str(measured), f"{expected:.4g}", expected in measured)


def slope(
    claim: str,
    statement: str,
    x: ArrayLike,
    y: ArrayLike,
    expected: float,
    tolerance: float,
) -> Verdict:
    """On logarithmic axes the measured points grow with the expected slope.

    Examples
    --------
    >>> slope("09.07", "Grows like a square root.", [1, 100], [3.0, 30.0], 0.5, 0.01).holds
    True
    """
    measured = log_slope(x, y)
    return Verdict(
        claim,
        statement,
        f"slope {measured:.3f}",
        f"{expected:g} +- {tolerance:g}",
        bool(abs(measured - expected) <= tolerance),
    )


def log_slope(x: ArrayLike, y: ArrayLike) -> float:
    """Least-squares slope of ``log y`` against ``log x``."""
    first, second = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if first.size < 2 or (first <= 0).any() or (second <= 0).any():
        raise InvalidInputError("a slope on logarithmic axes needs two positive points or more")
    return float(np.polyfit(np.log(first), np.log(second), 1)[0])
