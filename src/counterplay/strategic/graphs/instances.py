"""Hard instances on manipulation graphs, each with its adversary. Source: spec 03, section 4."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from counterplay.core.errors import InvalidInputError
from counterplay.core.finite_class import FiniteClass
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import BoolArray, IntArray, check_int, check_positive_int
from counterplay.strategic.graphs.environment import GraphGame, GraphLearner, GraphTranscript
from counterplay.strategic.graphs.graph_classes import (
    Block,
    ExplicitGraphClass,
    ProductGraphClass,
)
from counterplay.strategic.graphs.manipulation_graph import ManipulationGraph


class GraphAdversary(ABC):
    """Chooses agents and labels while looking at the rule; realizable in the end."""

    @abstractmethod
    def play(self, learner: GraphLearner, game: GraphGame) -> GraphTranscript:
        """Play against a learner and return the transcript."""


@dataclass(frozen=True, eq=False)
class GraphInstance:
    """A class of rules on a graph, and what theory says about it.

    Attributes
    ----------
    hypotheses, graph:
        Rules on the nodes and the (true) graph.
    expected:
        Numbers the theory gives for this instance.
    graphs:
        Candidate graphs, where the graph is unknown.
    nodes, labels:
        A fixed sequence of agents, where the instance has one.
    """

    hypotheses: FiniteClass
    graph: ManipulationGraph
    expected: dict[str, Any]
    make_adversary: Callable[[], GraphAdversary] | None = None
    graphs: ExplicitGraphClass | ProductGraphClass | None = None
    nodes: tuple[int, ...] = ()
    labels: tuple[int, ...] = ()

    def adversary(self) -> GraphAdversary:
        """A fresh adversary."""
        if self.make_adversary is None:
            raise InvalidInputError("this instance has no adversary")
        return self.make_adversary()


def binary_code_instance(k: int, d: int = 1, *, strengthened: bool = False) -> GraphInstance:
    """Moving multiplies the dimension by log2 k: d copies of a binary code on stars.

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
            answer = _Opposite(learner)
            _, after = game.round(answer, x, 0)
            rows.append((x, x, answer.yhat, 1 - answer.yhat))
            del after
        return _transcript(rows, learner, game)


class _Opposite(GraphLearner):
    """Passes the rule through, then tells the learner that it was wrong."""

    def __init__(self, learner: GraphLearner) -> None:
        self.learner, self.mode, self.yhat = learner, learner.mode, 0

    def publish(self, before: Any, n: int) -> BoolArray:
        return self.learner.publish(before, n)

    def observe(self, after: Any) -> None:
        from dataclasses import replace

        self.yhat = after.yhat
        self.learner.observe(replace(after, y=1 - after.yhat))


def star_singletons(k: int, d: int = 1, *, directed: bool = False) -> GraphInstance:
    """Hiding the original feature costs a factor k: stars whose leaves are the rules.

    ``directed=True`` is the source's star (arcs from the centre only), on which the game value is
    1 instead of k - 1.

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
                agent = _Lazy(learner, game, partial(self._pick, c=c, alive=alive))
                if not agent.play():
                    break
                rows.append(agent.row)
        return _transcript(rows, learner, game)

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


class _Lazy:
    """One round in which the agent is chosen after the rule is published (hidden-feature modes)."""

    def __init__(
        self,
        learner: GraphLearner,
        game: GraphGame,
        pick: Callable[[BoolArray], tuple[int, int] | None],
    ) -> None:
        self.learner, self.game, self.pick = learner, game, pick
        self.row = (0, 0, 0, 0)

    def play(self) -> bool:
        from counterplay.strategic.graphs.environment import Before
        from counterplay.strategic.graphs.response import respond

        rule = np.asarray(self.learner.publish(Before(), self.game.graph.n), dtype=np.bool_)
        chosen = self.pick(rule)
        if chosen is None:
            return False
        x, y = chosen
        v = respond(rule, x, self.game.graph, "first")
        self.learner.observe(self.game.reveal(x, v, int(rule[v]), y, self.learner.mode))
        self.row = (x, v, int(rule[v]), y)
        return True


def halving_trap(r: int, k: int) -> GraphInstance:
    """A class of Littlestone dimension 2 on which biased majority errs r times.

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


def group_singletons(n: int) -> GraphInstance:
    """|G| = (n+1)^n graphs of degree one: every deterministic learner errs n - 1 times.

    >>> round(np.exp(group_singletons(4).graphs.log_size)) == 5**4
    True
    """
    n = check_int(n, "n", low=2)

    def node(i: int, j: int) -> int:
        return i * n + j

    def block(j: int) -> Block:
        arcs: list[dict[int, tuple[int, ...]]] = [{node(0, j): (node(i, j),)} for i in rest]
        return (node(0, j),), ({}, *arcs)

    rest = range(1, n + 1)
    blocks = tuple(block(j) for j in range(n))
    rows = np.zeros((n, (n + 1) * n), dtype=np.bool_)
    for i in range(1, n + 1):
        rows[i - 1, i * n : (i + 1) * n] = True
    graphs = ProductGraphClass((n + 1) * n, blocks)
    empty = ManipulationGraph.from_lists([[] for _ in range((n + 1) * n)], k=1)
    return GraphInstance(
        FiniteClass.from_matrix(rows),
        empty,
        {"dimension": 1, "lower": n - 1},
        lambda: _GroupAdversary(n),
        graphs,
    )


class _GroupAdversary(GraphAdversary):
    """Shows (0, t) and builds the graph as it goes; see ``final_graph``."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.alive = set(range(1, n + 1))
        self.arcs: dict[int, int] = {}
        self.wanted: list[int] = []

    def play(self, learner: GraphLearner, game: GraphGame) -> GraphTranscript:
        from counterplay.strategic.graphs.environment import After, Before

        rows = []
        for t in range(self.n):
            rule = np.asarray(learner.publish(Before(t), game.graph.n), dtype=np.bool_)
            v, y = self._answer(rule, t)
            yhat = int(rule[v])
            learner.observe(After(y, yhat, v, t))
            rows.append((t, v, yhat, y))
        target = min(self.alive)
        for t in self.wanted:
            self.arcs[t] = target * self.n + t
        return _transcript(rows, learner, game)

    def _answer(self, rule: BoolArray, t: int) -> tuple[int, int]:
        if rule[t]:
            return t, 0
        positive = [i for i in range(1, self.n + 1) if rule[i * self.n + t]]
        if not positive:
            self.wanted.append(t)
            return t, 1
        dead = [i for i in positive if i not in self.alive]
        chosen = dead[0] if dead else positive[0]
        if not dead:
            if len(self.alive) == 1:  # only the truth is left: no mistake can be forced
                self.wanted.append(t)
                return chosen * self.n + t, 1
            self.alive.discard(chosen)
        self.arcs[t] = chosen * self.n + t
        return chosen * self.n + t, 0

    def final_graph(self) -> ManipulationGraph:
        """The graph that explains everything."""
        lists = [[self.arcs[x]] if x in self.arcs else [] for x in range((self.n + 1) * self.n)]
        return ManipulationGraph.from_lists(lists, k=1)


def path_AB_C(n: int) -> GraphInstance:
    """Unknown paths A - B - C_i, features seen only afterwards: n - 1 mistakes for everybody.

    >>> path_AB_C(3).expected["lower"]
    2
    """
    n = check_int(n, "n", low=2)
    graphs = []
    for i in range(n):
        lists: list[list[int]] = [[1], [0, 2 + i], *[[] for _ in range(n)]]
        lists[2 + i] = [1]
        graphs.append(ManipulationGraph.from_lists(lists))
    rows = np.hstack([np.zeros((n, 2)), np.eye(n)])
    listed = ExplicitGraphClass.from_graphs(graphs)
    return GraphInstance(
        FiniteClass.from_matrix(rows),
        listed.union(),
        {"dimension": 1, "lower": n - 1},
        lambda: _PathAdversary(n),
        listed,
    )


class _PathAdversary(GraphAdversary):
    def __init__(self, n: int) -> None:
        self.n, self.alive = n, set(range(n))

    def play(self, learner: GraphLearner, game: GraphGame) -> GraphTranscript:
        rows = []
        for _ in range(4 * self.n + 8):
            agent = _Lazy(learner, game, self._pick)
            if not agent.play():
                break
            rows.append(agent.row)
        return _transcript(rows, learner, game)

    def _pick(self, rule: BoolArray) -> tuple[int, int] | None:
        if not rule.any():
            return 1, 1
        if rule[0] or rule[1]:
            return 0, 0
        positive = [i for i in range(self.n) if rule[2 + i]]
        dead = [i for i in positive if i not in self.alive]
        if dead:
            return 2 + dead[0], 0
        if len(self.alive) == 1:
            return None
        self.alive.discard(positive[0])
        return 2 + positive[0], 0


def superset_trap(n: int, k: int, g: int, random_state: RandomState = None) -> GraphInstance:
    """The true graph among supersets of degree k and graphs that lost arcs.

    >>> instance = superset_trap(20, 4, 8, random_state=0)
    >>> len(instance.graphs), instance.graphs.k
    (8, 4)
    """
    n, k, g = check_int(n, "n", low=3), check_positive_int(k, "k"), check_int(g, "g", low=3)
    if k >= n:
        raise InvalidInputError(f"k must be below the number of nodes {n}, got {k}")
    rng = generator(random_state)
    truth = np.zeros((n, n), dtype=np.bool_)
    for x in range(n):
        others = np.delete(np.arange(n), x)
        truth[x, rng.choice(others, size=int(rng.integers(1, max(2, k))), replace=False)] = True
    tensor = [truth]
    for _ in range((g - 1) // 2):
        tensor.append(_filled(truth, k, rng))
    while len(tensor) < g:
        thinned = truth.copy()
        for x in rng.choice(n, size=max(1, n // 4), replace=False):
            thinned[x, rng.choice(np.flatnonzero(thinned[x]))] = False
        tensor.append(thinned)
    order = rng.permutation(g)
    graphs = ExplicitGraphClass(np.stack(tensor)[order])
    return GraphInstance(
        FiniteClass.from_matrix(np.ones((1, n))),
        ManipulationGraph.from_matrix(truth, k=k),
        {"truth": int(np.flatnonzero(order == 0)[0])},
        graphs=graphs,
    )


def majority_graph_counterexample() -> GraphInstance:
    """Three nodes on which the printed online algorithm errs for ever.

    >>> len(majority_graph_counterexample().graphs)
    3
    """
    arcs: list[list[list[int]]] = [[[1], [], []], [[1], [], [0]], [[], [], []]]
    graphs = [ManipulationGraph.from_lists(lists) for lists in arcs]
    return GraphInstance(
        FiniteClass.from_matrix([[0, 1, 0], [0, 1, 1], [1, 1, 0]]),
        graphs[2],
        {"literal": "all rounds", "repaired": 1},
        graphs=ExplicitGraphClass.from_graphs(graphs),
        nodes=(0,),
        labels=(1,),
    )


def empty_neighborhoods() -> GraphInstance:
    """Isolated nodes make the printed constraint infeasible; a stay must mean "no arcs".

    >>> empty_neighborhoods().graph.degrees
    array([1, 0, 0])
    """
    truth = ManipulationGraph.from_lists([[1], [], []])
    busy = ManipulationGraph.from_lists([[1], [], [1]])
    return GraphInstance(
        FiniteClass.from_matrix([[0, 1, 0], [0, 0, 1]]),
        truth,
        {"truth": 1},
        graphs=ExplicitGraphClass.from_graphs([busy, truth]),
    )


def _filled(truth: BoolArray, k: int, rng: np.random.Generator) -> BoolArray:
    full = truth.copy()
    for x in range(len(truth)):
        free = np.setdiff1d(np.flatnonzero(~full[x]), [x])
        full[x, rng.choice(free, size=k - int(full[x].sum()), replace=False)] = True
    return full


def _transcript(
    rows: list[tuple[int, int, int, int]], learner: GraphLearner, game: GraphGame
) -> GraphTranscript:
    table: IntArray = np.array(rows, dtype=np.int64).reshape(-1, 4)
    columns = {name: table[:, i] for i, name in enumerate(("x", "v", "yhat", "y"))}
    return GraphTranscript(columns, {"learner": type(learner).__name__, "mode": game.mode.name})
