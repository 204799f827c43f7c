"""Hard instances on known graphs: what moving and hidden features cost.

Source: spec 03, sections 4.1 to 4.4.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from counterplay.core.finite_class import FiniteClass
from counterplay.core.validation import BoolArray, check_int, check_positive_int
from counterplay.strategic.graphs.environment import GraphGame, GraphLearner, GraphTranscript
from counterplay.strategic.graphs.instances.model import (
    GraphAdversary,
    GraphInstance,
    LazyRound,
    Opposite,
    transcript,
)
from counterplay.strategic.graphs.manipulation_graph import ManipulationGraph


def binary_code_instance(k: int, d: int = 1, *, strengthened: bool = False) -> GraphInstance:
    """Moving multiplies the dimension by log2 k: d copies of a binary code on stars.

    Examples
    --------
    >>> binary_code_instance(8, 2).expected["induced"]
    6
    """
    k, d = check_int(k, "k", low=2), check_positive_int(d, "d")
    bits = int(np.floor(np.log2(k + 2 if strengthened else k)))
    size = bits * (k + 1)

    def node(c: int, i: int, j: int) -> int:
        return c * size + i * (k + 1) + j

    lists: list[list[int]] = [[] for _ in range(d * size)]
    for c in range(d):
        for i in range(bits):
            lists[node(c, i, 0)] = [node(c, i, j) for j in range(1, k + 1)]
    rows = []
    for j in range(0 if strengthened else 1, k + 1):
        row = np.zeros(size, dtype=np.bool_)
        for i in range(bits):
            row[i * (k + 1) + j] = bool((j + strengthened) % 2**bits >> i & 1)
        rows.append(row)
    if strengthened:
        rows.append(np.zeros(size, dtype=np.bool_))
    copy = FiniteClass.from_matrix(np.array(rows)).deduplicated().unique
    cls = FiniteClass.product(*[copy] * d).deduplicated().unique
    graph = ManipulationGraph.from_lists(lists)
    centres = tuple(node(c, i, 0) for c in range(d) for i in range(bits))
    return GraphInstance(
        cls,
        graph,
        {"dimension": d, "induced": d * bits, "centres": centres},
        lambda: _CodeAdversary(centres),
    )


class _CodeAdversary(GraphAdversary):
    """Shows every centre once and answers the opposite of the decision."""

    def __init__(self, centres: tuple[int, ...]) -> None:
        self.centres = centres

    def play(self, learner: GraphLearner, game: GraphGame) -> GraphTranscript:
        rows = []
        for x in self.centres:
            answer = Opposite(learner)
            _, after = game.round(answer, x, 0)
            rows.append((x, x, answer.yhat, 1 - answer.yhat))
            del after
        return transcript(rows, learner, game)


def star_singletons(k: int, d: int = 1, *, directed: bool = False) -> GraphInstance:
    """Hiding the original feature costs a factor k: stars whose leaves are the rules.

    ``directed=True`` is the source's star (arcs from the centre only), on which the game value is
    1 instead of k - 1.

    Examples
    --------
    >>> star_singletons(4, 2).expected["lower"]
    6
    """
    k, d = check_int(k, "k", low=2), check_positive_int(d, "d")
    lists: list[list[int]] = []
    for c in range(d):
        first = c * (k + 1)
        lists.append([first + j for j in range(1, k + 1)])
        lists.extend([[] if directed else [first] for _ in range(k)])
    leaf = FiniteClass.from_matrix(np.hstack([np.zeros((k, 1)), np.eye(k)]))
    cls = FiniteClass.product(*[leaf] * d)
    graph = ManipulationGraph.from_lists(lists)
    return GraphInstance(
        cls, graph, {"dimension": d, "lower": d * (k - 1)}, lambda: _StarAdversary(k, d)
    )


class _StarAdversary(GraphAdversary):
    """Kills one leaf per mistake; star after star."""

    def __init__(self, k: int, d: int) -> None:
        self.k, self.d = k, d

    def play(self, learner: GraphLearner, game: GraphGame) -> GraphTranscript:
        rows: list[tuple[int, int, int, int]] = []
        for c in range(self.d):
            alive = set(range(1, self.k + 1))
            for _ in range(4 * self.k + 8):
                agent = LazyRound(learner, game, partial(self._pick, c=c, alive=alive))
                if not agent.play():
                    break
                rows.append(agent.row)
        return transcript(rows, learner, game)

    def _pick(self, rule: BoolArray, c: int, alive: set[int]) -> tuple[int, int] | None:
        first = c * (self.k + 1)
        star = rule[first : first + self.k + 1]
        if not star.any():
            return first, 1
        dead = [j for j in range(1, self.k + 1) if j not in alive]
        if star[0]:
            leaf = dead[0] if dead else max(alive)
            if not dead and len(alive) == 1:
                return None
            alive.discard(leaf)
            return first + leaf, 0
        positive = [j for j in range(1, self.k + 1) if star[j]]
        killed = [j for j in positive if j not in alive]
        if killed:
            return first + killed[0], 0
        if len(alive) == 1:
            return None
        leaf = positive[0]
        alive.discard(leaf)
        return first + leaf, 0


def halving_trap(r: int, k: int) -> GraphInstance:
    """A class of Littlestone dimension 2 on which biased majority errs r times.

    Examples
    --------
    >>> trap = halving_trap(20, 2)
    >>> len(trap.hypotheses), trap.graph.indices.size
    (1551, 0)
    """
    r, k = check_positive_int(r, "r"), check_positive_int(k, "k")
    members: list[set[int]] = [set(), {0}, {1}, {0, 1}]
    n, marks = 2, []
    for _ in range(r):
        size = max(2, -(-len(members) // (k + 1)))
        x, n = n, n + 1
        marks.append(x)
        for _ in range(size):
            members.append({x, n})
            n += 1
    rows = np.zeros((len(members), n), dtype=np.bool_)
    for i, points in enumerate(members):
        rows[i, list(points)] = True
    graph = ManipulationGraph.from_lists([[] for _ in range(n)], k=k)
    return GraphInstance(
        FiniteClass.from_matrix(rows),
        graph,
        {"dimension": 2, "baseline": r, "reduction": 0},
        nodes=tuple(reversed(marks)),
        labels=(0,) * r,
    )
