"""Terms of an offer: what an offer means to both sides, in money.

Terms turn an offer into the *power* of the incentive (what the other side earns per unit of the
outcome, up to a constant) and the *margin* (what we earn per unit). Shares, fees, prices, discounts
and bonuses then are one thing: a power, sorted. The one place where prices and fees run backwards.
Source: docs/theory/25-offers.md, "Setting".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    FloatArray,
    check_choice,
    check_float_array,
    check_real,
)
from counterplay.errors import InvalidInputError

Kind: TypeAlias = Literal["commission", "fee", "price", "discount", "bonus", "arms"]
KINDS: tuple[Kind, ...] = ("commission", "fee", "price", "discount", "bonus", "arms")
SHARES = ("commission", "fee", "discount")


@checked
@dataclass(frozen=True)
class Terms:
    """What an offer x means: power s(x) for the other side, margin g(x) for us.

    Parameters
    ----------
    kind:
        ``commission`` (share paid), ``fee`` (share kept), ``price``, ``discount`` (share off
        ``list_price``), ``bonus`` (money per success) or ``arms`` (anything, without an order).
    unit_cost:
        What a unit costs us (prices and discounts).
    list_price:
        The price before the discount.
    unit_value:
        What a success is worth to us (bonuses).

    Examples
    --------
    >>> import numpy as np
    >>> fee = Terms("fee")
    >>> fee.power(np.array([0.2])), fee.margin(np.array([0.2]))
    (array([0.8]), array([0.2]))
    """

    kind: Kind = "commission"
    unit_cost: float = 0.0
    list_price: float | None = None
    unit_value: float | None = None

    def __post_init__(self) -> None:
        check_choice(self.kind, "terms", KINDS)
        check_real(self.unit_cost, "unit_cost")
        for name, kind in (("list_price", "discount"), ("unit_value", "bonus")):
            value = getattr(self, name)
            if value is not None:
                check_real(value, name, low=0.0, open_low=True)
            if self.kind == kind and value is None:
                raise InvalidInputError(f"terms={kind!r} needs {name}")

    @property
    def ordered(self) -> bool:
        """Whether offers have a strength; arms have none."""
        return self.kind != "arms"

    @property
    def is_share(self) -> bool:
        """Whether offers are shares between 0 and 1."""
        return self.kind in SHARES

    def power(self, offers: Any) -> FloatArray:
        """Return the power of the incentive."""
        x = check_float_array(offers, "offers")
        return {"fee": 1.0 - x, "price": -x}.get(self.kind, x)

    def pay(self, power: Any) -> FloatArray:
        """Return the power in money per unit of the outcome (a discount is a share of a price)."""
        s = check_float_array(power, "power")
        return s * self.list_price if self.kind == "discount" and self.list_price else s

    def offer(self, power: Any) -> FloatArray:
        """Return the offer that has this power; the inverse of :meth:`power`."""
        s = check_float_array(power, "power")
        return {"fee": 1.0 - s, "price": -s}.get(self.kind, s)

    def margin(self, offers: Any) -> FloatArray:
        """Return what we earn per unit of the outcome."""
        x = check_float_array(offers, "offers")
        if self.kind == "commission":
            return 1.0 - x
        if self.kind == "fee":
            return x
        if self.kind == "price":
            return x - self.unit_cost
        if self.kind == "discount":
            assert self.list_price is not None
            return self.list_price * (1.0 - x) - self.unit_cost
        if self.kind == "bonus":
            assert self.unit_value is not None
            return self.unit_value - x
        return np.ones_like(x)

    def fault(self, offer: float) -> str:
        """Say why a number cannot be such an offer; empty if it can."""
        if not isinstance(offer, int | float) or not math.isfinite(offer):
            return "expected a finite number"
        if self.is_share and not 0.0 <= offer <= 1.0:
            return "is not a share"
        return "is negative" if offer < 0.0 and self.kind != "arms" else ""

    def stated(self) -> str:
        """Return the terms in words, with the money that goes into the margin."""
        if self.kind == "price":
            return f"price per unit, unit cost {self.unit_cost:g}"
        if self.kind == "discount":
            return f"share off the list price {self.list_price:g}, unit cost {self.unit_cost:g}"
        if self.kind == "bonus":
            return f"bonus per success, a success is worth {self.unit_value:g}"
        return {
            "commission": "share paid to the other side",
            "fee": "share that is kept",
            "arms": "arms without an order",
        }[self.kind]
