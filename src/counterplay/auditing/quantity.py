"""A number of the audit, with what it rests on: no number is shown without its basis.

From strong to weak: *exact* (computed for all rows in question), *certified* (holds whatever the
other side does, under the stated threat), *measured* (an estimate with a sampling interval),
*found* (a search reached it, the other side may do more), *assumed* (a setting or a default). A
number that is computed from others has the weakest basis among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from counterplay.core.records import Count, Fraction, Record
from counterplay.errors import InvalidInputError

Basis = Literal["exact", "certified", "measured", "found", "assumed"]
BASES: tuple[Basis, ...] = ("exact", "certified", "measured", "found", "assumed")
"""From strong to weak."""

Text = Annotated[str, Meta(max_length=4000)]
Texts = Annotated[tuple[Text, ...], Meta(max_length=100)]


class Quantity(Record, frozen=True):
    """A number with its interval, its unit and its basis.

    Parameters
    ----------
    value
        The number.
    low
        Lower end of its interval; the value itself where there is none.
    high
        Upper end of its interval.
    level
        Level of the interval; 1 where it holds for certain.
    unit
        What one is: ``"share"``, ``"rows"``, ``"hundred marks per 1,000 decisions"``.
    basis
        What the number rests on.
    n
        Rows behind it.
    assumes
        The settings it uses, such as ``"costs of moves"``.
    two_sided
        Whether the interval bounds both sides although the basis is found or certified. A found
        count bounds what the other side can do from below only, a certified one from above only.

    Examples
    --------
    >>> accuracy = Quantity(value=0.75, low=0.722, high=0.777, unit="share", basis="measured")
    >>> str(accuracy)
    '0.750 [0.722, 0.777]'
    >>> str(Quantity.certain(12, unit="rows", n=400))
    '12'

    References
    ----------
    "Numbers and their basis", see docs/theory/27-audit.md.
    """

    value: float
    low: float
    high: float
    unit: Text
    basis: Basis
    level: Fraction = 0.95
    n: Count = 0
    assumes: Texts = ()
    two_sided: bool = False

    def __post_init__(self) -> None:
        """Refuse ends that are not numbers or in the wrong order."""
        ends = (self.low, self.value, self.high)
        if not all(math.isfinite(end) for end in ends) or self.low > self.high:
            raise InvalidInputError(
                f"a quantity needs finite numbers low <= high, got {self.value!r} "
                f"[{self.low!r}, {self.high!r}]"
            )

    @classmethod
    def certain(
        cls,
        value: float,
        *,
        unit: str,
        n: int,
        basis: Basis = "exact",
        assumes: Iterable[str] = (),
    ) -> Quantity:
        """Return a number without an interval."""
        try:
            number, told = float(value), tuple(assumes)
        except (TypeError, ValueError, OverflowError):
            raise InvalidInputError(
                "a quantity needs a number and the settings it assumes as texts"
            ) from None
        return cls(
            value=number,
            low=number,
            high=number,
            unit=unit,
            basis=basis,
            level=1.0,
            n=n,
            assumes=told,
        )

    def __str__(self) -> str:
        shown = number_text(self.value, self.unit)
        if self.low == self.value == self.high:
            return shown
        return f"{shown} [{number_text(self.low, self.unit)}, {number_text(self.high, self.unit)}]"


def weakest(bases: Iterable[Basis]) -> Basis:
    """Return the weakest of some bases: that of a number computed from such numbers.

    Examples
    --------
    >>> weakest(["exact", "found", "measured"])
    'found'
    """
    return max(bases, key=BASES.index)


def number_text(value: float, unit: str) -> str:
    """Return a number as people read it: shares with three digits, counts with separators.

    Examples
    --------
    >>> number_text(0.70449, "share"), number_text(-1234.4, "marks"), number_text(0.25, "days")
    ('0.704', '-1,234', '0.25')
    """
    if unit == "share":
        return f"{value:.3f}"
    if value == round(value) or abs(value) >= 9.95:
        halves = unit == "rows" and value != round(value) and 2 * value == round(2 * value)
        return f"{value:,.1f}" if halves else f"{round(value):,}"  # a median may be a half
    if "per 1,000" in unit:
        return f"{value:.1f}"
    return f"{value:.3g}"


def quantity_key(name: str, at: Mapping[str, Any] | None = None) -> str:
    """Return the name under which a gate finds a quantity.

    Examples
    --------
    >>> quantity_key("gamed_money", {"budget": 1.0, "rule": "honest cut"})
    'gamed_money at budget=1, rule=honest cut'
    """
    if not at:
        return name
    places = (f"{key}={_place(at[key])}" for key in sorted(at))
    return f"{name} at {', '.join(places)}"


def _place(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{float(value):.12g}"
