"""Outcomes that become known together: batches of forecasts, and their residuals per event.

Source: Proposition 25.F, see docs/theory/25-offers.md.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from numpy.typing import ArrayLike

from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError, ProtocolError
from counterplay.principal.games import check_states
from counterplay.tables.cells import is_missing, shown

Moves = list[tuple[Sequence[int], FloatArray, int]]
"""Events, their summed residual, and how many outcomes it sums."""


def check_batch(contexts: Any) -> list[Any]:
    """Return the contexts of a batch as a list; at least one."""
    if isinstance(contexts, str) or not hasattr(contexts, "__iter__"):
        raise InvalidInputError("predict_batch takes one context per outcome, such as [None] * 10")
    batch = list(contexts)
    if not batch:
        raise InvalidInputError("a batch needs at least one context")
    return batch


def batch_outcomes(outcomes: ArrayLike, contexts: list[Any] | None, n: int | None) -> Any:
    """Return the outcomes of the batch that was forecast, one per context."""
    if contexts is None:
        raise ProtocolError("call predict_batch before learn_batch")
    y = check_states(outcomes, int(n or 1))
    if y.size != len(contexts):
        raise InvalidInputError(f"the batch has {len(contexts)} forecasts, got {y.size} outcomes")
    return y


def batch_slices(batches: Any, rounds: int) -> list[slice]:
    """Return the runs of equal names; a name that comes back later is an error."""
    names = list(batches) if hasattr(batches, "__iter__") else []
    if len(names) != rounds or isinstance(batches, str):
        raise InvalidInputError(f"batches must name the batch of each of {rounds} rows")
    for t, name in enumerate(names):
        if not isinstance(name, Hashable) or is_missing(name):
            raise InvalidInputError(f"the batch of row {t} is {shown(name, 40)}: expected a name")
    edges = [0] + [t for t in range(1, rounds) if names[t] != names[t - 1]] + [rounds]
    firsts = [names[a] for a in edges[:-1]]
    if len(set(firsts)) < len(firsts):
        raise InvalidInputError("rows of one batch must stand together; sort by the batch")
    return [slice(a, b) for a, b in zip(edges, edges[1:])]


def summed_residuals(
    active: Sequence[Sequence[int]], points: FloatArray, outcomes: Sequence[int]
) -> Moves:
    """Return the residual of every active event, summed over the rows of a batch."""
    sums: dict[int, FloatArray] = {}
    counts: dict[int, int] = {}
    for events, point, outcome in zip(active, points, outcomes):
        residual = point.copy()
        residual[outcome] -= 1.0
        for event in events:
            sums[event] = sums.get(event, 0.0) + residual
            counts[event] = counts.get(event, 0) + 1
    return [([event], sums[event], counts[event]) for event in sums]
