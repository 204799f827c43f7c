"""What people can do to one column: change a number, or switch a category.

Source: "Prices", see docs/theory/20-moves.md.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from counterplay.core.validation import check_choice, shorten
from counterplay.errors import InvalidInputError
from counterplay.tables.cells import shown

Direction = Literal["up", "down", "both"]
Per = Literal["unit", "step", "spread", "sd", "decile"]

UNITS = {
    "unit": "raw unit",
    "step": "step",
    "spread": "spread of the reference data",
    "sd": "standard deviation of the reference data",
    "decile": "tenth of the reference people",
}


@dataclass(frozen=True)
class Change:
    """A numeric column that people can move.

    Parameters
    ----------
    direction
        ``"up"``, ``"down"`` or ``"both"``.
    cost
        Price of one unit of the scale; a pair is (up, down).
    step
        Destinations are the own value plus whole multiples of it.
    per
        The scale: ``"unit"`` (raw units), ``"step"``, ``"spread"`` (robust standard deviation of
        the reference column: (q90 - q10) / 2.563), ``"sd"``, or ``"decile"`` (ranks among the
        reference people).
    low
        Least destination; default: the least value seen in the reference data.
    high
        Largest destination; default: the largest value seen.
    grid
        The only destinations, instead of ``step``.
    missing
        ``"keep"``, or the flat price of filling a missing entry with any allowed value.
    hide
        Price of withholding a value; None if it cannot be withheld.
    codes
        Values that mean "no record", such as -9: they are missing entries, never destinations.

    Examples
    --------
    >>> Change("down", step=1, cost=2.0, per="unit", low=0).prices
    (inf, 2.0)
    >>> Change("sideways")
    Traceback (most recent call last):
    ...
    counterplay.errors.InvalidInputError: direction must be one of 'up', 'down', 'both', got \
'sideways'

    References
    ----------
    "Prices", see docs/theory/20-moves.md.
    """

    direction: Direction
    cost: float | tuple[float, float] = 1.0
    step: float | None = None
    per: Per = "spread"
    low: float | None = None
    high: float | None = None
    grid: Sequence[float] | None = None
    missing: float | Literal["keep"] = "keep"
    hide: float | None = None
    codes: Sequence[float] = ()

    def __post_init__(self) -> None:
        check_choice(self.direction, "direction", ("up", "down", "both"))
        check_choice(self.per, "per", tuple(UNITS))
        if isinstance(self.cost, Sequence) and not isinstance(self.cost, str):
            pair = tuple(_price(c, "cost", infinite=True) for c in self.cost)
            if len(pair) != 2:
                raise InvalidInputError(f"cost is a number or (up, down), got {shown(self.cost)}")
            object.__setattr__(self, "cost", pair)
        else:
            object.__setattr__(self, "cost", _price(self.cost, "cost", infinite=True))
        if not any(map(math.isfinite, self.prices)):
            raise InvalidInputError(
                "cost is infinite both ways; a column nobody can move is left out of Moves"
            )
        for name in ("low", "high", "step"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _number(value, name))
        if self.low is not None and self.high is not None and self.low > self.high:
            raise InvalidInputError(f"low is {self.low:g} and above high, which is {self.high:g}")
        if self.step is not None and not self.step > 0:
            raise InvalidInputError(f"step must be above 0, got {self.step:g}")
        if self.step is not None and self.grid is not None:
            raise InvalidInputError("give step or grid, not both")
        if self.per == "step" and self.step is None:
            raise InvalidInputError('per="step" needs a step')
        if self.per == "decile" and self.step is not None:
            raise InvalidInputError('per="decile" moves to values that were seen; leave out step')
        if self.grid is not None:
            values = tuple(sorted({_number(v, "grid") for v in self.grid}))
            if not values:
                raise InvalidInputError("grid is empty")
            object.__setattr__(self, "grid", values)
        _check_holes(self)
        object.__setattr__(self, "codes", tuple(_number(c, "codes") for c in self.codes))

    @property
    def prices(self) -> tuple[float, float]:
        """Price of one unit upward and downward; infinite where the way is closed."""
        up, down = self.cost if isinstance(self.cost, tuple) else (self.cost, self.cost)
        return (
            up if self.direction != "down" else math.inf,
            down if self.direction != "up" else math.inf,
        )


@dataclass(frozen=True)
class Switch:
    """A column of categories that people can switch.

    Parameters
    ----------
    cost
        Price of every allowed switch, or a dictionary {(from, to): price}.
    allowed
        Pairs (from, to) that can be switched; default: any to any category that was seen.
    ladder
        Categories from the lowest to the highest rung; the price is per rung.
    direction
        Way on the ladder: ``"up"``, ``"down"`` or ``"both"``.
    missing
        ``"keep"``, or the flat price of filling a missing entry with any of the categories.
    hide
        Price of withholding the value; None if it cannot be withheld.

    Examples
    --------
    >>> Switch({("rent", "own"): 3.0, ("free", "rent"): 1.0}).pairs()
    {('rent', 'own'): 3.0, ('free', 'rent'): 1.0}
    >>> Switch(0.5, ladder=["none", "some", "full"], direction="up").pairs()
    {('none', 'some'): 0.5, ('some', 'full'): 0.5}

    References
    ----------
    "Prices", see docs/theory/20-moves.md.
    """

    cost: float | Mapping[tuple[Any, Any], float] = 1.0
    allowed: Sequence[tuple[Any, Any]] | None = None
    ladder: Sequence[Any] | None = None
    direction: Direction = "both"
    missing: float | Literal["keep"] = "keep"
    hide: float | None = None

    def __post_init__(self) -> None:
        check_choice(self.direction, "direction", ("up", "down", "both"))
        if isinstance(self.cost, Mapping):
            if self.allowed is not None or self.ladder is not None:
                raise InvalidInputError(
                    "a table of prices says what is allowed; leave out the rest"
                )
            if not self.cost:
                raise InvalidInputError("the table of switches is empty")
            table = {_pair(k): _price(p, f"price of {shown(k)}") for k, p in self.cost.items()}
            object.__setattr__(self, "cost", MappingProxyType(table))
        else:
            object.__setattr__(self, "cost", _price(self.cost, "cost"))
        if self.allowed is not None and self.ladder is not None:
            raise InvalidInputError("give allowed or ladder, not both")
        if self.allowed is not None:
            object.__setattr__(self, "allowed", tuple(map(_pair, self.allowed)))
        if self.ladder is not None:
            rungs = tuple(self.ladder)
            if len(rungs) < 2 or len(set(rungs)) < len(rungs):
                raise InvalidInputError("a ladder needs at least two different rungs")
            object.__setattr__(self, "ladder", rungs)
        elif self.direction != "both":
            raise InvalidInputError("direction belongs to a ladder")
        _check_holes(self)

    def __reduce__(self) -> tuple[Any, ...]:
        cost = dict(self.cost) if isinstance(self.cost, Mapping) else self.cost
        return Switch, (cost, self.allowed, self.ladder, self.direction, self.missing, self.hide)

    def pairs(self, seen: Iterable[Any] = ()) -> dict[tuple[Any, Any], float]:
        """Return the price of each direct switch; ``seen`` are the categories of the data."""
        if isinstance(self.cost, Mapping):
            return dict(self.cost)
        if self.ladder is not None:
            steps = list(zip(self.ladder, self.ladder[1:]))
            up = steps if self.direction != "down" else []
            down = [(b, a) for a, b in steps] if self.direction != "up" else []
            return {pair: float(self.cost) for pair in up + down}
        if self.allowed is not None:
            return {pair: float(self.cost) for pair in self.allowed}
        known = list(dict.fromkeys(seen))
        return {(a, b): float(self.cost) for a in known for b in known if a != b}


def _price(value: Any, name: str, *, infinite: bool = False) -> float:
    fine = _is_number(value) and float(value) > 0
    if not fine or (math.isinf(float(value)) and not infinite):
        raise InvalidInputError(f"{name} must be a price above 0, got {shorten(value, 100)}")
    return float(value)


def _number(value: Any, name: str) -> float:
    if not _is_number(value) or math.isnan(float(value)):
        raise InvalidInputError(f"{name} must be a number, got {shorten(value, 100)}")
    return float(value)


def _is_number(value: Any) -> bool:
    """Whether a value is a number that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    return not isinstance(value, numbers.Integral) or abs(int(value)) < 2**1000


def _pair(value: Any) -> tuple[Any, Any]:
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise InvalidInputError(f"a switch is a pair (from, to), got {shown(value)}")
    if value[0] == value[1]:
        raise InvalidInputError(f"a switch leads to another category, got {shown(value)}")
    return value[0], value[1]


def _check_holes(item: Change | Switch) -> None:
    if item.missing != "keep":
        object.__setattr__(item, "missing", _price(item.missing, "missing"))
    if item.hide is not None:
        object.__setattr__(item, "hide", _price(item.hide, "hide"))
