"""Columns along which a score is straight, found by asking: their slopes, and grids for the rest.

Where a column has no bound people may go anywhere, so the model is asked far out as well.

Source: "Fold by asking", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError
from counterplay.strategic.asking import Asking, far_out
from counterplay.strategic.columns import as_floats, frame_of
from counterplay.strategic.move_blocks import NumberBlock
from counterplay.strategic.move_compile import thinned
from counterplay.strategic.moves import Moves
from counterplay.tables.cells import shown


def slopes_of(ask: Asking, moves: Moves) -> tuple[dict[Any, float], dict[Any, tuple[float, float]]]:
    """Return the slope of every numeric column on which the score is affine, and an anchor."""
    frame = ask.asked.frame
    probes: dict[Any, tuple[NumberBlock, FloatArray]] = {}
    for name, block in _numbers(moves).items():
        if name in frame:
            points = _probes(block, as_floats(frame[name].to_numpy(), name))
            if points.size >= 3:
                probes[name] = block, points
    slopes, anchors = {}, {}
    for name, gains in ask({k: v.tolist() for k, (_, v) in probes.items()}).items():
        block, v = probes[name]
        slope = (gains[-1] - gains[0]) / (v[-1] - v[0])
        off = np.abs(gains - gains[0] - slope * (v - v[0]))
        near = off <= 1e-9 * (np.abs(gains).max() + abs(slope) * (v[-1] - v[0]) + 1e-300)
        if near.all() and _straight_far_out(ask, name, block, (v[0], gains[0], slope)):
            slopes[name] = float(slope)
            anchors[name] = (float(v[0]), float(gains[0]))
    return slopes, anchors


def _straight_far_out(
    ask: Asking, name: Any, block: NumberBlock, line: tuple[float, float, float]
) -> bool:
    """Return whether a score that is straight among known values stays so where no bound is."""
    start, gain, slope = line
    points = np.concatenate(far_out(np.array([start]), block))
    if not points.size:
        return True
    try:
        with np.errstate(all="ignore"):
            gains = ask({name: points.tolist()})[name]
    except (ValueError, OverflowError):  # a straight step has a value everywhere
        return False
    way = slope * (points - start)
    off = np.abs(gains - gain - way)
    return bool((off <= 1e-6 * np.abs(way) + 1e-9 * (1 + abs(ask.base) + abs(gain))).all())


def _numbers(moves: Moves) -> dict[Any, NumberBlock]:
    """Return the numeric columns that may change; those that follow others have no bounds."""
    follow = {name: NumberBlock(name, 1.0, 1.0, 1.0, -np.inf, np.inf) for name in moves.touched}
    own = {name: block for name, block in moves.blocks.items() if isinstance(block, NumberBlock)}
    return {k: v for k, v in {**follow, **own}.items() if k in own or k not in moves.blocks}


def _probes(block: NumberBlock, own: FloatArray) -> FloatArray:
    """Return values at which a column is asked: both ends, quantiles, beyond if unbounded."""
    known = own[np.isfinite(own) & ~block.absent(own)]
    ends = [v for v in (block.low, block.high) if np.isfinite(v)]
    inside = np.quantile(known, [0, 0.25, 0.5, 0.75, 1]) if known.size else np.zeros(0)
    points = np.unique(np.concatenate((ends, inside)))
    if points.size < 2:
        points = np.array([p + d for p in (*points, 0.0)[:1] for d in (-1.0, 0.0, 1.0)])
    low, high = points[0], points[-1]
    far = 4 * (high - low)
    more = [low + 0.37 * (high - low), low + 0.81 * (high - low)]
    more += [low - far] if not np.isfinite(block.low) else []
    more += [high + far] if not np.isfinite(block.high) else []
    return np.unique(np.concatenate((points, more)))


def gridded(block: NumberBlock, moves: Moves) -> NumberBlock:
    """Return a shaped column on the grid of values that were seen."""
    if moves.reference is None:
        raise InvalidInputError(
            f"the score is not straight along {shown(block.name, 40)}: give it a step or a grid, "
            "or give Moves a reference, whose values are then the destinations"
        )
    seen = as_floats(frame_of(moves.reference)[block.name].to_numpy(), block.name)
    seen = np.unique(seen[np.isfinite(seen) & ~block.absent(seen)])
    return block.with_grid(thinned(seen[(seen >= block.low) & (seen <= block.high)]))
