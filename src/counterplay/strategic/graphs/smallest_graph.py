"""The graph with fewest arcs among those that explain every move, every stay, and every label.

Source: Proposition 3.E (constraints a, a' and b), see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

import numpy as np

from counterplay.core.validation import BoolArray, IntArray
from counterplay.errors import NotRealizableError
from counterplay.strategic.graphs.graph_classes import ExplicitGraphClass, ProductGraphClass
from counterplay.strategic.graphs.moves import Moves, rank


def smallest_listed(graphs: ExplicitGraphClass, moves: Moves) -> list[int]:
    """Graphs that explain all moves and stays, fewest arcs on the sample first."""
    ranking = rank(graphs, moves)
    arcs = ranking.misses == 0
    if not arcs.any():
        best = int(ranking.misses.argmin())
        raise NotRealizableError(
            "no candidate graph contains all observed moves and stays: graph "
            f"{best} misses {int(ranking.misses[best])} of {moves.total} moves, all others as many "
            "or more"
        )
    still = np.unique(moves.x[moves.x == moves.v])
    busy = graphs.degrees[:, still] > 0
    fits = arcs & ~busy.any(axis=1)
    if not fits.any():
        last = int(np.flatnonzero(arcs)[-1])
        node = int(still[busy[last].argmax()])
        raise NotRealizableError(
            "no candidate graph contains all observed moves and stays: graph "
            f"{last} contains the moves, but has arcs at node {node}, where somebody stayed"
        )
    order = np.lexsort((ranking.candidate, ranking.degree))
    return [int(i) for i in order[fits[order]]]


def smallest_blocks(
    graphs: ProductGraphClass,
    moves: Moves,
    rule: BoolArray | None = None,
    x: IntArray | None = None,
    y: BoolArray | None = None,
) -> tuple[int, list[int]] | None:
    """Total degree and choice of the cheapest candidate per block; None: some block has none.

    With a rule and labelled nodes the candidate must explain the labels, too.
    """
    wanted = {} if rule is None or x is None or y is None else _labels(x, y)
    if wanted is None:
        return None
    covered: set[int] = set()
    choice, total = [], 0
    for sources, candidates in graphs.blocks:
        covered.update(sources)
        costs = [_cost(c, sources, moves, rule, wanted) for c in candidates]
        possible = [(cost, i) for i, cost in enumerate(costs) if cost is not None]
        if not possible:
            return None
        cost, index = min(possible)
        total += cost
        choice.append(index)
    for node, seen in moves.by_node.items():
        if node not in covered and any(v != node for v, _ in seen):
            return None  # somebody moved from a node without arcs
    if rule is not None:
        for node, label in wanted.items():
            if node not in covered and bool(rule[node]) != label:
                return None
    return total, choice


def _labels(x: IntArray, y: BoolArray) -> dict[int, bool] | None:
    """The label of every node; None if a node has both."""
    labels: dict[int, bool] = {}
    for node, label in set(zip(x.tolist(), y.tolist())):
        if node in labels:
            return None
        labels[node] = label
    return labels


def _cost(
    candidate: dict[int, tuple[int, ...]],
    sources: tuple[int, ...],
    moves: Moves,
    rule: BoolArray | None,
    labels: dict[int, bool],
) -> int | None:
    """Degree of a candidate on the sample; None if it contradicts a move, a stay or a label."""
    cost = 0
    for node in sources:
        targets = candidate.get(node, ())
        for v, count in moves.by_node.get(node, ()):
            if (v != node and v not in targets) or (v == node and targets):
                return None
            cost += count * len(targets)
        if rule is None or node not in labels:
            continue
        if bool(rule[node] or rule[list(targets)].any()) != labels[node]:
            return None
    return cost
