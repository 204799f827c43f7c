"""Do this next: actions in the order of what they surely gain.

Blocking actions come first, then advised ones by the lower end of their gain, then what is not
worth it now, last the suggestions whose gain was not measured. Gains come credited: each after
those that are credited before it, so that they add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from counterplay.auditing.findings import Action
from counterplay.auditing.quantity import BASES, Quantity, number_text

_MOST_ROWS = 10**9


def ranked(actions: Iterable[Action]) -> tuple[Action, ...]:
    """Return actions in the order in which to do them.

    Examples
    --------
    >>> from counterplay.auditing.quantity import Quantity
    >>> gain = Quantity(value=30, low=10, high=50, unit="euro", basis="measured", n=400)
    >>> more = Quantity(value=40, low=-2, high=82, unit="euro", basis="measured", n=400)
    >>> sure = Action(name="cut", title="Move the cut", how="cut.skops", gain=gain)
    >>> unsure = Action(name="verify", title="Verify", how="by hand", gain=more)
    >>> [(a.name, a.advised, a.rows_needed) for a in ranked([unsure, sure])]
    [('cut', True, None), ('verify', False, 450)]
    """
    return tuple(sorted((_with_rows(action) for action in actions), key=_place))


def rows_needed(action: Action) -> int | None:
    """Return the rows at which the gain would stand clear of zero: n (half-width / gain)^2."""
    gain = action.gain
    if gain is None or action.advised or gain.value <= 0 or gain.n == 0:
        return None
    half = (gain.high - gain.low) / 2
    needed = math.ceil(gain.n * (half / gain.value) ** 2 - 1e-9)
    if needed <= gain.n:
        return None
    coarse = int(10 ** max(0, len(str(needed)) - 2))  # two digits: it is a guess
    return min(-(-needed // coarse) * coarse, _MOST_ROWS)


def sum_line(actions: Iterable[Action], unit: str, left: Quantity | None = None) -> str:
    """Return the sentence on what the advised actions gain together, and what they leave."""
    advised = [a for a in actions if a.advised and a.gain is not None and a.gain.unit == unit]
    gains = [a.gain for a in advised if a.gain is not None]
    if not gains:
        return ""
    total = sum(gain.value for gain in gains)
    text = f"The advised action gains {number_text(total, unit)} {unit}."
    if len(gains) > 1:
        text = (
            f"The {len(gains)} advised actions together gain {number_text(total, unit)} {unit}; "
            "each is counted after those credited before it."
        )
    if left is None or not all(a.credit for a in advised):
        return text
    return f"{text} A cost of {left} remains."


def _with_rows(action: Action) -> Action:
    return msgspec.structs.replace(action, rows_needed=rows_needed(action))


def _place(action: Action) -> tuple[int, float, int, int, str]:
    if action.blocking:
        return (0, 0.0, 0, action.effort, action.name)
    if action.gain is None:
        return (3, 0.0, 0, action.effort, action.name)
    group = 1 if action.advised else 2
    return (group, -action.gain.low, BASES.index(action.gain.basis), action.effort, action.name)
