"""Attributes whose worth bends: segments between quantiles instead of one straight line.

Any rising piecewise linear worth with these knots is a non-negative weighting of the segments, so
nothing else changes.
Source: docs/theory/26-people.md, "Curves and signs".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError, UnknownNameError
from counterplay.tables.cells import shown


def check_curves(
    curves: Mapping[str | int, int],
    columns: Sequence[str | int],
    either: Sequence[str | int],
    scale: str,
) -> dict[str | int, int]:
    """Return the number of segments of each curved column."""
    for column, segments in curves.items():
        if column not in columns:
            raise UnknownNameError.among("column", str(column)[:60], [str(c)[:60] for c in columns])
        if column in either:
            raise InvalidInputError(
                f"column {shown(column, 40)} has an unknown sign; only a benefit or a cost can bend"
            )
        if isinstance(segments, bool) or not isinstance(segments, int) or not 1 <= segments <= 20:
            raise InvalidInputError(
                f"curves[{shown(column, 40)}] must be 1 to 20 segments, got {shown(segments, 40)}"
            )
    if curves and scale != "range":
        raise InvalidInputError("curves need scale='range'")
    return dict(curves)


def quantile_knots(numbers: FloatArray, segments: int, column: str | int) -> FloatArray:
    """Return the ends of the segments: quantiles of the items."""
    knots = np.quantile(numbers, np.linspace(0.0, 1.0, segments + 1))
    if (np.diff(knots) <= 0).any():
        raise InvalidInputError(
            f"column {shown(column, 40)} has too few different numbers for {segments} segments; "
            "use fewer"
        )
    return np.asarray(knots)


def value_names(columns: Sequence[str], knots: Mapping[int, FloatArray]) -> tuple[str, ...]:
    """Return the name of every value; a segment is named by its ends."""
    names = []
    for j, column in enumerate(columns):
        ends = knots.get(j)
        if ends is None or len(ends) == 2:
            names.append(column)
        else:
            names += [f"{column} {low:.4g}..{high:.4g}" for low, high in zip(ends, ends[1:])]
    return tuple(names)
