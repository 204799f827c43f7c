"""Finite moves as a manipulation graph: every row that somebody can become within a budget.

Source: "Moves as a graph", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from counterplay.core.validation import FloatArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.strategic.columns import frame_of
from counterplay.strategic.links import column_options
from counterplay.strategic.move_blocks import Block, NumberBlock
from counterplay.tables.cells import is_missing, shown

if TYPE_CHECKING:
    from counterplay.strategic.graphs.manipulation_graph import ManipulationGraph
    from counterplay.strategic.moves import Moves

MOST_ROWS = 5_000_000


def reached_rows(
    moves: Moves, frame: pd.DataFrame, budget: float
) -> tuple[IntArray, pd.DataFrame, FloatArray]:
    """Return all rows that people can become within a budget: who, the row, its price.

    Staying is left out.
    """
    moves.check_columns(list(frame.columns))
    who, price = np.arange(len(frame)), np.zeros(len(frame))
    cells = {name: _objects(frame[name]) for name in frame.columns}
    for name, block in moves.blocks.items():
        if isinstance(block, NumberBlock) and not block.finite:
            raise InvalidInputError(f"a graph of moves needs a step or grid for {shown(name, 40)}")
        who, price, cells = _extended(moves, name, block, budget, (who, price, cells))
    rows = pd.DataFrame(
        {name: pd.Series(values).astype(frame[name].dtype) if name not in moves.touched else values
         for name, values in cells.items()}
    )  # fmt: skip
    rows = rows.infer_objects()
    for name in moves.touched:
        if name not in moves.blocks:
            link = next(k for k in moves.links if getattr(k, "column", None) == name)
            rows[name] = link.values(rows)  # type: ignore[union-attr]
    moved = price > 0
    if moves.links:
        again = moves.price(frame.iloc[who].reset_index(drop=True), rows)
        moved &= np.isfinite(again)
    root = np.sqrt(price) if moves.power == 2 else price
    return who[moved], rows[moved].reset_index(drop=True), root[moved]


State = tuple[IntArray, FloatArray, dict[Any, Any]]


def _extended(moves: Moves, name: Any, block: Block, budget: float, state: State) -> State:
    """Return all rows with every option of one more column, within the budget."""
    who, price, cells = state
    keys = ["missing" if is_missing(v) else v for v in cells[name]]
    known = {
        key: column_options(block, np.nan if key == "missing" else key, budget)
        for key in dict.fromkeys(keys)
    }
    count = np.array([len(known[key][0]) for key in keys], dtype=np.int64)
    if count.sum() > MOST_ROWS:
        raise InvalidInputError(
            f"more than {MOST_ROWS:,} rows can be reached within the budget; lower it, or coarsen "
            f"the step of {shown(name, 40)}"
        )
    back = np.repeat(np.arange(len(keys)), count)
    values = np.empty(back.size, dtype=object)
    values[:] = [v for key in keys for v in known[key][0]]
    paid = np.concatenate([known[key][1] for key in keys]) if keys else np.zeros(0)
    power = moves.power
    total = np.maximum(price[back], paid) if np.isinf(power) else price[back] + paid**power
    roof = budget if np.isinf(power) else budget**power
    inside = total <= roof * (1 + 1e-9)
    back = back[inside]
    cells = {c: values[inside] if c == name else v[back] for c, v in cells.items()}
    return who[back], total[inside], cells


def _objects(column: pd.Series) -> Any:
    return np.asarray(column.astype(object), dtype=object)


def graph_of(moves: Moves, nodes: Any, budget: float) -> ManipulationGraph:
    """Return the graph with an arc x -> z for 0 < price(x, z) <= budget; see `Moves.graph`."""
    frame = frame_of(nodes, "nodes").reset_index(drop=True)
    who, rows, _ = reached_rows(moves, frame, budget)
    place: dict[tuple[Any, ...], list[int]] = {}
    for i, key in enumerate(_keys(frame)):
        place.setdefault(key, []).append(i)
    arcs: list[set[int]] = [set() for _ in range(len(frame))]
    for x, key in zip(who.tolist(), _keys(rows[list(frame.columns)])):
        arcs[x].update(place.get(key, ()))
    return _graph(frame, arcs, nodes)


def grown_graph(
    moves: Moves, nodes: Any, budget: float, actions: tuple[Any, ...]
) -> ManipulationGraph:
    """Return the graph on the distinct rows and everything they can become; arcs from the rows."""
    from counterplay.strategic.graphs.manipulation_graph import ManipulationGraph
    from counterplay.tables import Table

    frame = frame_of(nodes).astype(np.float64) + 0.0
    distinct = pd.DataFrame(np.unique(frame.to_numpy(), axis=0), columns=frame.columns)
    who, rows, _ = reached_rows(moves, distinct, budget)
    reached = rows[list(frame.columns)].to_numpy(dtype=np.float64).reshape(-1, frame.shape[1])
    points, inverse = np.unique(
        np.concatenate([distinct.to_numpy(), reached]) + 0.0, axis=0, return_inverse=True
    )
    inverse = inverse.reshape(-1)
    starts, ends = inverse[: len(distinct)][who], inverse[len(distinct) :]
    pairs = np.unique(np.column_stack((starts, ends)), axis=0)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(pairs[:, 0], minlength=len(points)))))
    return ManipulationGraph(
        indptr.astype(np.int64),
        pairs[:, 1].astype(np.int64),
        points,
        -1,
        actions,
        Table.of(nodes).names,
    )


def _graph(frame: pd.DataFrame, arcs: list[set[int]], nodes: Any) -> ManipulationGraph:
    from counterplay.strategic.graphs.manipulation_graph import ManipulationGraph
    from counterplay.tables import Table

    flat = [sorted(targets - {x}) for x, targets in enumerate(arcs)]
    numeric = all(pd.api.types.is_numeric_dtype(d) for d in frame.dtypes)
    whole = numeric and not frame.isna().to_numpy().any()
    return ManipulationGraph(
        np.cumsum([0, *map(len, flat)]).astype(np.int64),
        np.array([z for targets in flat for z in targets], dtype=np.int64),
        frame.to_numpy(dtype=np.float64) if whole else None,
        -1,
        (),
        Table.of(nodes).names if whole else None,
    )


def _keys(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Return rows as keys: numbers by value, missing cells alike."""
    columns = [["missing" if is_missing(v) else v for v in frame[name].tolist()] for name in frame]
    return list(zip(*columns)) if columns else [() for _ in range(len(frame))]
