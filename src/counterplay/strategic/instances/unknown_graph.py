"""Hard instances on unknown graphs: many candidates, one of them true.

Few samples leave most of an unknown graph open: the adversary of :class:`SampledGroups` fixes it
only after it has seen the learner's rule. Nodes that were sampled have no arcs, so the sample says
nothing about the others.

Source: Theorem 3.3, Theorem 3.7 and proposition 3.1, Proposition 3.E, see
docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.finite_class import FiniteClass
from counterplay.core.play import Learner
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_int,
    check_open_fraction,
    check_positive_int,
    check_real,
    check_size,
)
from counterplay.errors import InvalidInputError
from counterplay.strategic.graphs.graph_classes import (
    Block,
    ExplicitGraphClass,
    ProductGraphClass,
)
from counterplay.strategic.graphs.manipulation_graph import ManipulationGraph
from counterplay.strategic.instances.graph_instance import (
    GraphAdversary,
    GraphInstance,
    LazyAdversary,
)
from counterplay.strategic.settings import FEATURES_AFTER_GRAPH, FEATURES_FIRST
from counterplay.strategic.transcript import StrategicTranscript

MOST_CELLS = 100_000_000


@checked
def group_singletons(n: int) -> GraphInstance:
    """|G| = (n+1)^n graphs of degree one: every deterministic learner errs n - 1 times.

    Examples
    --------
    >>> round(np.exp(group_singletons(4).graphs.log_size)) == 5**4
    True
    """
    n = check_int(n, "n", low=2)
    rules, graphs = _groups(n, (n + 1) * n)
    empty = ManipulationGraph.from_lists([[] for _ in range(graphs.n)], k=1)
    return GraphInstance(
        rules,
        empty,
        {"dimension": 1, "lower": n - 1},
        _GroupAdversary,
        FEATURES_FIRST,
        graphs,
    )


class _GroupAdversary(GraphAdversary):
    """Shows (0, t) and builds the graph as it goes; see ``final_graph``."""

    @property
    def rounds(self) -> int:
        """One per group."""
        return int(self.instance.expected["lower"]) + 1

    def start(self, rounds: int = 0, random_state: RandomState = None) -> None:
        """Begin with every group possible and no arc."""
        super().start(rounds, random_state)
        self.n = self.rounds
        self.alive = set(range(1, self.n + 1))
        self.arcs: dict[int, int] = {}
        self.wanted: list[int] = []
        self.x = -1

    def arrive(self, learner: Learner) -> bool:
        """Bring the agent at (0, t)."""
        self.x += 1
        return self.x < self.n

    def answer(self, rule: BoolArray) -> tuple[int, int, int]:
        """Choose the arc of this agent and her label."""
        return (self.x, *self._answer(rule, self.x))

    def transcript(self, learner: Learner) -> StrategicTranscript:
        """The rounds; those who were wanted get an arc to the target that is left."""
        for t in self.wanted:
            self.arcs[t] = min(self.alive) * self.n + t
        return super().transcript(learner)

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


@checked
def path_AB_C(n: int) -> GraphInstance:
    """Unknown paths A - B - C_i, features seen only afterwards: n - 1 mistakes for everybody.

    Examples
    --------
    >>> path_AB_C(3).expected["lower"]
    2
    """
    n = check_int(n, "n", low=2)
    check_size(n**3, MOST_CELLS, "cells of all graphs")
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
        _PathAdversary,
        FEATURES_AFTER_GRAPH,
        listed,
    )


class _PathAdversary(LazyAdversary):
    """Kills one end per mistake, as long as two are left."""

    @property
    def rounds(self) -> int:
        """At most so many; the game ends when the truth is found."""
        return 4 * (int(self.instance.expected["lower"]) + 1) + 8

    def start(self, rounds: int = 0, random_state: RandomState = None) -> None:
        """Begin with every end possible."""
        super().start(rounds, random_state)
        self.alive = set(range(int(self.instance.expected["lower"]) + 1))

    def arrive(self, learner: Learner) -> bool:
        """Go on until the rule accepts the last end and nothing else."""
        if len(self.alive) > 1:
            return True
        accepted = np.flatnonzero(self.next_rule(learner)).tolist()
        return bool(accepted != [2 + i for i in self.alive])

    def pick(self, rule: BoolArray) -> tuple[int, int]:
        """An agent about whom the rule errs, and her label."""
        if not rule.any():
            return 1, 1
        if rule[0] or rule[1]:
            return 0, 0
        positive = (np.flatnonzero(rule) - 2).tolist()
        end = next((i for i in positive if i not in self.alive), positive[0])
        self.alive.discard(end)
        return 2 + end, 0


@checked
def superset_trap(n: int, k: int, g: int, random_state: RandomState = None) -> GraphInstance:
    """The true graph among supersets of degree k and graphs that lost arcs.

    Examples
    --------
    >>> instance = superset_trap(20, 4, 8, random_state=0)
    >>> len(instance.graphs), instance.graphs.k
    (8, 4)
    """
    n, k, g = check_int(n, "n", low=3), check_positive_int(k, "k"), check_int(g, "g", low=3)
    if k >= n:
        raise InvalidInputError(f"k must be below the number of nodes {n}, got {k}")
    check_size(n * n * g, MOST_CELLS, "cells of all graphs")
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
        losers = rng.choice(n, size=max(1, n // 4), replace=False)
        lost = np.where(truth[losers], rng.random((losers.size, n)), -1.0).argmax(axis=1)
        thinned[losers, lost] = False
        tensor.append(thinned)
    order = rng.permutation(g)
    graphs = ExplicitGraphClass(np.stack(tensor)[order])
    return GraphInstance(
        FiniteClass.from_matrix(np.ones((1, n))),
        ManipulationGraph.from_matrix(truth, k=k),
        {"truth": int(np.flatnonzero(order == 0)[0])},
        graphs=graphs,
    )


@checked
def majority_graph_counterexample() -> GraphInstance:
    """Three nodes on which the printed online algorithm errs for ever.

    Examples
    --------
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


@checked
def empty_neighborhoods() -> GraphInstance:
    """Isolated nodes make the printed constraint infeasible; a stay must mean "no arcs".

    Examples
    --------
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


@checked
@dataclass(frozen=True, eq=False)
class SampledGroups:
    """Groups whose arcs are decided after the sample; made by ``sampled_groups``.

    Attributes
    ----------
    n:
        Number of groups and blocks.
    eps:
        Half the mass of the nodes that can move.
    hypotheses:
        Rule i accepts group i.
    graphs:
        Block j moves nowhere or to one of the groups.
    """

    n: int
    eps: float
    hypotheses: FiniteClass
    graphs: ProductGraphClass

    def __post_init__(self) -> None:
        check_int(self.n, "n", low=1, high=self.graphs.n - 1)
        check_real(self.eps, "eps", low=0.0, high=0.5, open_low=True, open_high=True)

    @property
    def distribution(self) -> FloatArray:
        """Mass of every node: 1 - 2 eps on the isolated last one, the rest on the first n."""
        mass = np.zeros(self.graphs.n)
        mass[: self.n], mass[-1] = 2 * self.eps / self.n, 1 - 2 * self.eps
        return mass

    @property
    def few(self) -> int:
        """Samples below which every learner fails with constant probability: n / (8 eps)."""
        return int(np.ceil(self.n / (8 * self.eps))) - 1

    def sample(
        self, size: int, random_state: RandomState = None
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Nodes, where they move (nowhere) and labels (0) of ``size`` random people."""
        draws = generator(random_state).choice(
            self.graphs.n, size=check_positive_int(size, "size"), p=self.distribution
        )
        nodes = draws.astype(np.int64)
        return nodes, nodes.copy(), np.zeros(nodes.size, dtype=np.int64)

    def worst_case(self, rule: ArrayLike, nodes: ArrayLike) -> tuple[ManipulationGraph, int, float]:
        """The graph and the true rule that hurt a published rule most, and its strategic loss.

        Both agree with everything that was sampled.
        """
        accepted = np.asarray(rule, dtype=np.bool_)
        if accepted.shape != (self.graphs.n,):
            raise InvalidInputError(
                f"rule must have one label per node ({self.graphs.n}), got {accepted.shape}"
            )
        seen = np.isin(np.arange(self.n), np.asarray(nodes, dtype=np.int64))
        table = accepted[:-1].reshape(self.n + 1, self.n)  # row 0: people, row i: group i
        target = self._target(table, ~seen)
        goals = np.array([0 if s else _arc(table[:, j], target) for j, s in enumerate(seen)])
        degrees = np.zeros(self.graphs.n, dtype=np.int64)
        degrees[: self.n] = goals > 0
        moved = np.flatnonzero(goals)
        indptr = np.concatenate([[0], np.cumsum(degrees)])
        graph = ManipulationGraph(indptr, goals[moved] * self.n + moved, None, 1)
        truth = self.hypotheses.labels[target - 1]
        wrong = graph.induced(accepted[None, :])[0] != graph.induced(truth[None, :])[0]
        return graph, target - 1, float(self.distribution @ wrong)

    def _target(self, table: BoolArray, unseen: BoolArray) -> int:
        """The group that is least often the only accepted one of an unseen block (pigeonhole)."""
        alone = ~table[0] & (table[1:].sum(axis=0) == 1) & unseen
        return 1 + int((table[1:] & alone).sum(axis=1).argmin())


def _arc(column: BoolArray, target: int) -> int:
    """The group to which a block must move so that a rule with these labels errs; 0: none."""
    if column[0]:
        return 0  # accepted where she stands, though her label is 0
    others = [i for i in range(1, column.size) if column[i] and i != target]
    if others:
        return others[0]  # accepted in a group that the truth rejects
    return 0 if column[target] else target  # rejected, though the truth accepts the group


@checked
def sampled_groups(n: int, eps: float = 0.05) -> SampledGroups:
    """(n+1)^n graphs: fewer than n / (8 eps) samples leave every learner with loss eps.

    Examples
    --------
    >>> groups = sampled_groups(16, 0.05)
    >>> x, v, y = groups.sample(groups.few, random_state=0)
    >>> accept_nobody = np.zeros(groups.graphs.n)
    >>> groups.few, bool(groups.worst_case(accept_nobody, x)[2] >= 0.05)
    (39, True)
    """
    n = check_int(n, "n", low=2)
    eps = check_open_fraction(eps, "eps")
    if eps >= 0.5:
        raise InvalidInputError(f"eps must be below 1/2, got {eps}")
    return SampledGroups(n, eps, *_groups(n, n * (n + 1) + 1))


def _groups(n: int, size: int) -> tuple[FiniteClass, ProductGraphClass]:
    """Node i n + j is member j of group i. Rule i accepts group i; j moves nowhere or to (i, j)."""

    def block(j: int) -> Block:
        arcs: list[dict[int, tuple[int, ...]]] = [{j: (i * n + j,)} for i in range(1, n + 1)]
        return (j,), ({}, *arcs)

    check_size(n * size, MOST_CELLS, "cells of the table of rules")
    rows = np.zeros((n, size), dtype=np.bool_)
    for i in range(1, n + 1):
        rows[i - 1, i * n : (i + 1) * n] = True
    return FiniteClass.from_matrix(rows), ProductGraphClass(size, tuple(map(block, range(n))))


def _filled(truth: BoolArray, k: int, rng: np.random.Generator) -> BoolArray:
    keys = np.where(truth, -1.0, rng.random(truth.shape))  # the arcs of the truth come first
    np.fill_diagonal(keys, np.inf)
    full = truth.copy()
    np.put_along_axis(full, keys.argsort(axis=1)[:, :k], True, axis=1)
    return full
