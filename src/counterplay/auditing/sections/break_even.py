"""From which share of people who game does a hardened cut pay?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from counterplay.core.validation import FloatArray

Kind = Literal["never", "always", "from", "below"]


@dataclass(frozen=True)
class BreakEven:
    """The share at which two rules cost the same, and on which side of it the second one pays.

    ``kind``: ``"from"`` this share on, only ``"below"`` it, ``"always"`` (share 0) or ``"never"``
    (share 1).

    Examples
    --------
    >>> break_even(542, 801, 585, 570)
    BreakEven(kind='from', share=0.15693430656934307)
    """

    kind: Kind
    share: float


def break_even(c0: float, c1: float, h0: float, h1: float) -> BreakEven:
    """Return from which share of people who game the second rule is the cheaper one.

    Parameters
    ----------
    c0
        Cost of the first rule if nobody games.
    c1
        Its cost if all do.
    h0
        Cost of the second rule if nobody games.
    h1
        Its cost if all do.

    Notes
    -----
    Cost is linear in the share s: the rules cross at (h0 - c0) / ((h0 - c0) + (c1 - h1)).
    """
    lost, gained = h0 - c0, c1 - h1
    if lost >= 0 and gained <= 0:
        return BreakEven("never", 1.0)
    if lost <= 0 and gained >= 0:
        return BreakEven("always", 0.0)
    return BreakEven("from" if lost > 0 else "below", lost / (lost + gained))


def drawn_shares(c0: FloatArray, c1: FloatArray, h0: FloatArray, h1: FloatArray) -> FloatArray:
    """Return the share from which the second rule pays, per draw: 0 always, 1 never.

    Where it pays only below a share, that draw says never: nobody can count on few people gaming.
    """
    lost, gained = h0 - c0, c1 - h1
    with np.errstate(invalid="ignore", divide="ignore"):
        crossing = lost / (lost + gained)
    never = gained <= 0
    shares: FloatArray = np.where(never, 1.0, np.where(lost <= 0, 0.0, crossing))
    return shares
