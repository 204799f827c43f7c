"""Hard instances on known graphs: what moving and hidden features cost.

Source: Theorem 3.1, Proposition 3.A, see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

import math

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.finite_class import FiniteClass
from counterplay.core.play import Learner
from counterplay.core.seeds import RandomState
from counterplay.core.validation import BoolArray, check_int, check_positive_int, check_size
from counterplay.strategic.graphs.manipulation_graph import ManipulationGraph
from counterplay.strategic.instances.graph_instance import (
    GraphAdversary,
    GraphInstance,
    LazyAdversary,
)
from counterplay.strategic.settings import FEATURES_AFTER_GRAPH, FEATURES_FIRST_GRAPH

MOST_NODES = 1_000_000


@checked
def binary_code_instance(k: int, d: int = 1, *, strengthened: bool = False) -> GraphInstance:
    """Moving multiplies the dimension by log2 k: d copies of a binary code on stars.

    Examples
    --------
    >>> binary_code_instance(8, 2).expected["induced"]
    6
    """
    k, d = check_int(k, "k", low=2), check_positive_int(d, "d")
    bits = (k + 2 if strengthened else k).bit_length() - 1
    check_size(d * bits * (k + 1), MOST_NODES, "nodes")
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
        _CodeAdversary,
        FEATURES_FIRST_GRAPH,
    )


class _CodeAdversary(GraphAdversary):
    """Shows every centre once and answers the opposite of the decision."""

    def start(self, rounds: int = 0, random_state: RandomState = None) -> None:
        """Begin with the first centre."""
        super().start(rounds, random_state)
        self._centres = list(self.instance.expected["centres"])

    @property
    def rounds(self) -> int:
        """One round per centre."""
        return len(self.instance.expected["centres"])

    def arrive(self, learner: Learner) -> bool:
        """Bring the next centre."""
        if not self._centres:
            return False
        self.x = self._centres.pop(0)
        return True

    def answer(self, rule: BoolArray) -> tuple[int, int, int]:
        """Whatever is decided about her is wrong."""
        report = self.moved(rule, self.x)
        return self.x, report, 1 - int(rule[report])


@checked
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
    check_size(k * d, MOST_NODES, "nodes")
    lists: list[list[int]] = []
    for c in range(d):
        first = c * (k + 1)
        lists.append([first + j for j in range(1, k + 1)])
        lists.extend([[] if directed else [first] for _ in range(k)])
    leaf = FiniteClass.from_matrix(np.hstack([np.zeros((k, 1)), np.eye(k)]))
    cls = FiniteClass.product(*[leaf] * d)
    graph = ManipulationGraph.from_lists(lists)
    return GraphInstance(
        cls,
        graph,
        {"dimension": d, "lower": d * (k - 1), "k": k},
        _StarAdversary,
        FEATURES_AFTER_GRAPH,
    )


class _StarAdversary(LazyAdversary):
    """Kills one leaf per mistake; star after star."""

    def start(self, rounds: int = 0, random_state: RandomState = None) -> None:
        """Begin with the first star."""
        super().start(rounds, random_state)
        self.k = int(self.instance.expected["k"])
        self._next_star(0)

    def _next_star(self, star: int) -> None:
        self._star, self._shown = star, 0
        self._alive = set(range(1, self.k + 1))

    @property
    def rounds(self) -> int:
        """At most so many; a star whose truth is found ends before."""
        expected = self.instance.expected
        return int(expected["dimension"]) * (4 * int(expected["k"]) + 8)

    def arrive(self, learner: Learner) -> bool:
        """Go on with the star, or with the next one when no mistake can be forced any more."""
        while self._star < self.instance.expected["dimension"]:
            found = len(self._alive) == 1 and self._is_right(self.next_rule(learner))
            if not found and self._shown < 4 * self.k + 8:
                self._shown += 1
                return True
            self._next_star(self._star + 1)
        return False

    def _is_right(self, rule: BoolArray) -> bool:
        """Whether the rule accepts the last leaf of the star and nothing else there."""
        first = self._star * (self.k + 1)
        accepted = np.flatnonzero(rule[first : first + self.k + 1]).tolist()
        return bool(accepted == list(self._alive))

    def pick(self, rule: BoolArray) -> tuple[int, int]:
        """An agent about whom the rule errs, and her label."""
        first = self._star * (self.k + 1)
        star = rule[first : first + self.k + 1]
        if not star.any():
            return first, 1
        dead = [j for j in range(1, self.k + 1) if j not in self._alive]
        if star[0]:
            leaf = dead[0] if dead else max(self._alive)
        else:
            positive = [j for j in range(1, self.k + 1) if star[j]]
            leaf = next((j for j in positive if j not in self._alive), positive[0])
        self._alive.discard(leaf)
        return first + leaf, 0


@checked
def halving_trap(r: int, k: int) -> GraphInstance:
    """A class of Littlestone dimension 2 on which biased majority errs r times.

    Examples
    --------
    >>> trap = halving_trap(20, 2)
    >>> len(trap.hypotheses), trap.graph.indices.size
    (1551, 0)
    """
    r, k = check_positive_int(r, "r"), check_positive_int(k, "k")
    # Every step adds a share 1 / (k + 1) of the rules: two at least, so the size is known before.
    check_size(r * math.log1p(1 / (k + 1)) if r <= 1e9 else r, 8.0, "steps (r ln(1 + 1 / (k + 1)))")
    check_size(r, 5000, "steps")
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
