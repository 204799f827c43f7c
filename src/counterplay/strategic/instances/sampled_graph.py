"""Few samples leave most of an unknown graph open: the lower bound for learning it from a sample.

The adversary fixes the graph only after it has seen the learner's rule. Nodes that were sampled
have no arcs, so the sample says nothing about the others.

Source: Theorem 3.3, see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.finite_class import FiniteClass
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_int,
    check_open_fraction,
    check_positive_int,
)
from counterplay.errors import InvalidInputError
from counterplay.strategic.graphs.graph_classes import Block, ProductGraphClass
from counterplay.strategic.graphs.manipulation_graph import ManipulationGraph


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
        self, T: int, random_state: RandomState = None
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Nodes, where they move (nowhere) and labels (0) of T random people."""
        draws = generator(random_state).choice(
            self.graphs.n, size=check_positive_int(T, "T"), p=self.distribution
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
    size = n * (n + 1) + 1

    def block(j: int) -> Block:
        arcs: list[dict[int, tuple[int, ...]]] = [{j: (i * n + j,)} for i in range(1, n + 1)]
        return (j,), ({}, *arcs)

    rows = np.zeros((n, size), dtype=np.bool_)
    for i in range(1, n + 1):
        rows[i - 1, i * n : (i + 1) * n] = True
    graphs = ProductGraphClass(size, tuple(block(j) for j in range(n)))
    return SampledGroups(n, eps, FiniteClass.from_matrix(rows), graphs)
