"""What several studies of the area share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from counterplay.studies.study import Params

EPS = 1 / 64


def integer(params: Params, key: str) -> int:
    """A whole number among the parameters."""
    return int(params[key] or 0)


def plain_ticks(ax: Any, values: Sequence[int]) -> None:
    """Ticks at these values, written as plain numbers."""
    ax.set_xticks(values, [str(v) for v in values])
    ax.minorticks_off()
