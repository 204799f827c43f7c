"""How much people spent, column by column, from two samples: certified, without a model of them.

Whatever people did, the law of a column before must have been carried to the law after. The
cheapest way to carry it costs at least what one-dimensional transport costs; with the sampling
error of both samples taken off, that is a lower bound on what was spent. Mass that can only have
come by a closed way refutes the declared moves.

Source: "What was spent", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from counterplay.core.programs import minimize_linear
from counterplay.core.stats import clopper_pearson
from counterplay.core.validation import BoolArray, FloatArray
from counterplay.strategic.columns import as_floats
from counterplay.strategic.move_blocks import CategoryBlock, NumberBlock
from counterplay.strategic.moves import Moves
from counterplay.tables.cells import is_missing

EXCHANGES = 200
MOST_CELLS = 40  # of a numeric column whose entries may be filled or hidden


def effort_by_column(
    before: pd.DataFrame,
    after: pd.DataFrame,
    moves: Moves,
    confidence: float,
    rng: np.random.Generator,
    exchanges: int = EXCHANGES,
) -> pd.DataFrame:
    """Return per column the certified effort, its plain estimate, a p-value, and what is refuted.

    ``certified`` is a lower bound on the mean effort per person, all columns together at the
    confidence level; ``estimate`` is the same without the allowance for sampling (so noise alone
    makes it positive); ``p_value`` is that of as many exchanges of the samples (none: it is 1).
    """
    level = (1 - confidence) / len(moves.columns)
    rows = []
    for name in moves.columns:
        block = moves.blocks[name]
        if isinstance(block, NumberBlock) and np.isinf(block.fill) and np.isinf(block.hide):
            a, b = (as_floats(f[name].to_numpy(), name) for f in (before, after))
            found = _number(block, a, b, level, rng, exchanges)
        else:
            found = _category(block, before[name], after[name], level, rng, exchanges)
        rows.append({"column": name, **found})
    return pd.DataFrame(rows).set_index("column")


def total_effort(bounds: FloatArray, combine: str) -> float:
    """Return a lower bound on the mean price of a whole move, given one per column.

    A norm of means is at most the mean of norms.
    """
    if combine == "sum":
        return float(bounds.sum())
    if combine == "euclid":
        return float(np.sqrt((bounds**2).sum()))
    return float(bounds.max(initial=0.0))


def _number(
    block: NumberBlock,
    a: FloatArray,
    b: FloatArray,
    level: float,
    rng: np.random.Generator,
    exchanges: int,
) -> dict[str, Any]:
    """Transport on a line: upward where fewer lie below than before, downward where more do."""
    absent_a, absent_b = block.absent(a), block.absent(b)
    pooled = np.concatenate((a, b))
    gone = np.concatenate((absent_a, absent_b))
    known = np.unique(pooled[~gone])
    slack = float(sum(np.sqrt(np.log(4 / level) / (2 * n)) for n in (a.size, b.size)))
    if known.size < 2:
        return _nothing()
    widths = np.diff(block.scale(known))
    place = np.searchsorted(known, np.where(gone, known[-1], pooled))
    place = np.where(gone, known.size, place)  # missing entries lie beyond all values
    new = np.zeros(pooled.size, dtype=bool)
    new[a.size :] = True
    gap = _gap(place, new, known.size)
    up, down = (float(c) if np.isfinite(c) else 0.0 for c in (block.up, block.down))
    certified = float(
        (up * np.maximum(gap - slack, 0) + down * np.maximum(-gap - slack, 0)) @ widths
    )
    estimate = _spent(gap, widths, up, down)
    closed_up = np.isinf(block.up) and bool((gap > slack).any())
    closed_down = np.isinf(block.down) and bool((-gap > slack).any())
    beat = sum(
        _spent(_gap(place, rng.permutation(new), known.size), widths, up, down) >= estimate - 1e-12
        for _ in range(exchanges)
    )
    refuted = "upward" if closed_up else "downward" if closed_down else ""
    return {
        "certified": certified,
        "estimate": estimate,
        "p_value": (1 + beat) / (1 + exchanges),
        "refuted": refuted,
    }


def _gap(place: Any, new: BoolArray, size: int) -> FloatArray:
    """Return F0 - F1 between neighbouring values."""
    f0 = np.cumsum(np.bincount(place[~new], minlength=size + 1)[:size]) / (~new).sum()
    f1 = np.cumsum(np.bincount(place[new], minlength=size + 1)[:size]) / new.sum()
    return np.asarray((f0 - f1)[:-1], dtype=np.float64)


def _spent(gap: FloatArray, widths: FloatArray, up: float, down: float) -> float:
    return float((up * np.maximum(gap, 0) + down * np.maximum(-gap, 0)) @ widths)


def _nothing() -> dict[str, Any]:
    return {"certified": 0.0, "estimate": 0.0, "p_value": 1.0, "refuted": ""}


def _category(
    block: Any,
    a: pd.Series,
    b: pd.Series,
    level: float,
    rng: np.random.Generator,
    exchanges: int,
) -> dict[str, Any]:
    """Transport between categories, "missing" among them: a linear program on the shares."""
    old, new, prices = _cells(block, a, b)
    size = prices.shape[0]
    p = np.bincount(old, minlength=size) / old.size
    q = np.bincount(new, minlength=size) / new.size
    each = 1 - level / (2 * size)
    bounds = [
        (np.array([clopper_pearson(round(s * n), n, each).low for s in shares]),
         np.array([clopper_pearson(round(s * n), n, each).high for s in shares]))
        for shares, n in ((p, old.size), (q, new.size))
    ]  # fmt: skip
    certified = _flow(prices, *bounds)
    estimate = _flow(prices, (p, p), (q, q))
    gap = float(np.abs(p - q).sum())
    pooled = np.concatenate((old, new))
    beat = 0
    for _ in range(exchanges):
        mixed = rng.permutation(pooled)
        u = np.bincount(mixed[: old.size], minlength=size) / old.size
        v = np.bincount(mixed[old.size :], minlength=size) / new.size
        beat += float(np.abs(u - v).sum()) >= gap - 1e-12
    return {
        "certified": 0.0 if certified is None else certified,
        "estimate": np.nan if estimate is None else estimate,
        "p_value": (1 + beat) / (1 + exchanges),
        "refuted": "" if certified is not None else "no allowed switch",
    }


def _cells(block: Any, a: pd.Series, b: pd.Series) -> tuple[Any, Any, FloatArray]:
    """Return both columns as places, and prices between the places; the last one is "missing"."""
    if isinstance(block, CategoryBlock):
        extra = [v for v in dict.fromkeys([*a.tolist(), *b.tolist()]) if not is_missing(v)]
        known = [*block.categories, *(v for v in extra if v not in set(block.categories))]
        prices = np.full((len(known) + 1,) * 2, np.inf)
        k = len(block.categories)
        prices[:k, :k] = block.prices
        prices[-1, :k], prices[:k, -1] = block.fill, block.hide
        np.fill_diagonal(prices, 0.0)
        place = {v: j for j, v in enumerate(known)}
        old, new = (
            np.array(
                [len(known) if is_missing(v) else place[v] for v in s.tolist()], dtype=np.int64
            )
            for s in (a, b)
        )
        return old, new, prices
    x, z = (as_floats(s.to_numpy(), block.name) for s in (a, b))
    both = np.concatenate((x, z))
    gone = block.absent(both)
    edges = np.unique(np.quantile(both[~gone], np.linspace(0, 1, MOST_CELLS + 1)))
    cell = np.clip(np.searchsorted(edges, both, "right") - 1, 0, max(edges.size - 2, 0))
    size = max(edges.size - 1, 1)
    spot = np.where(gone, size, cell)
    # The cheapest way between two cells: from the near edge to the near edge.
    at = block.scale(edges) if edges.size > 1 else np.zeros(2)
    prices = np.full((size + 1, size + 1), np.inf)
    for i in range(size):
        for j in range(size):
            if j > i:
                prices[i, j] = block.up * max(0.0, at[j] - at[i + 1])
            elif j < i:
                prices[i, j] = block.down * max(0.0, at[i] - at[j + 1])
    prices = np.where(np.isnan(prices), np.inf, prices)
    prices[-1, :size], prices[:size, -1] = block.fill, block.hide
    np.fill_diagonal(prices, 0.0)
    return spot[: x.size], spot[x.size :], prices


def _flow(
    prices: FloatArray, old: tuple[FloatArray, FloatArray], new: tuple[FloatArray, FloatArray]
) -> float | None:
    """Return the least cost of carrying some law within ``old`` to some law within ``new``.

    None if the open ways cannot do it.
    """
    i, j = np.nonzero(np.isfinite(prices))
    n = prices.shape[0]
    ones = np.ones(i.size)
    columns = np.arange(i.size)
    rows = sparse.csr_array(
        (np.concatenate((ones, ones, ones)),
         (np.concatenate((i, n + j, np.full(i.size, 2 * n))), np.tile(columns, 3))),
        shape=(2 * n + 1, i.size),
    )  # fmt: skip
    low = np.concatenate((old[0], new[0], [1.0])) - 1e-9
    high = np.concatenate((old[1], new[1], [1.0])) + 1e-9
    found = minimize_linear(
        prices[i, j],
        A_ub=sparse.vstack([rows, -rows]),
        b_ub=np.concatenate((high, -low)),
        what="the cheapest way from the shares before to those after",
        allow=("infeasible",),
    )
    return None if found.x is None else max(0.0, float(prices[i, j] @ found.x))
