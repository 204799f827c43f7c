"""Online learning when the graph is one of many: majority neighbourhoods and a reduction.

The printed algorithm errs for ever on a three-node instance; the bag used after a false negative
must hold only nodes that were below the threshold, and the agent's own node must be treated as a
neighbour. ``literal=True`` keeps the printed version for comparison.

Source: Algorithm B.2, Theorem 3.6, "Errata", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import BoolArray, IntArray, check_int
from counterplay.errors import InvalidInputError, NotRealizableError, ProtocolError
from counterplay.strategic.graphs.finite_learners import OnlineLearner
from counterplay.strategic.graphs.graph_classes import GraphClass, ProductGraphClass
from counterplay.strategic.graphs.red2online import Red2OnlinePMF
from counterplay.strategic.learner import StrategicLearner
from counterplay.strategic.settings import FEATURES_FIRST, Feedback


@checked
class UnknownGraphOnline(StrategicLearner):
    """Strategic learner that sees features but never neighbourhoods.

    Parameters
    ----------
    learner:
        A copyable online learner.
    graphs:
        Candidate graphs; one of them has the right neighbourhoods.
    k:
        Bound on the out-degree; default: that of the candidates.
    eager:
        Filter graphs in every round, not only on mistakes.
    literal:
        The algorithm as printed (errs for ever on ``majority_graph_counterexample``).
    exact:
        Keep weights as fractions.

    Notes
    -----
    At most ``log2 |G|`` mistakes that halve the candidates plus
    ``M ln(2(2k+1)) / -ln(1 - 1/(4(2k+1)))`` others (Theorem 3.6, repaired).

    Examples
    --------
    >>> from counterplay.strategic.lab import SOA
    >>> from counterplay.strategic import GraphApplicants, instances, play
    >>> instance = instances.majority_graph_counterexample()
    >>> people = GraphApplicants(
    ...     instance.graph, [0] * 100, [1] * 100, setting="features_first")
    >>> def mistakes(**options):
    ...     learner = UnknownGraphOnline(SOA(instance.hypotheses), instance.graphs, **options)
    ...     return play(learner, people).mistakes
    >>> mistakes(eager=False), mistakes(literal=True)
    (1, 100)
    """

    on_graph = True
    needs = FEATURES_FIRST

    def __init__(
        self,
        learner: OnlineLearner,
        graphs: GraphClass,
        k: int | None = None,
        *,
        eager: bool = True,
        literal: bool = False,
        exact: bool = False,
    ) -> None:
        self.k = check_int(graphs.k if k is None else k, "k", low=0)
        if self.k < graphs.k:
            raise InvalidInputError(
                f"k={self.k} but a candidate graph has out-degree {graphs.k}; the bound needs k to "
                "cover all candidates"
            )
        self.eager, self.literal = eager and not literal, literal
        self.reduction = Red2OnlinePMF(learner, 2 * self.k, exact=exact)
        self.candidates: Any
        if isinstance(graphs, ProductGraphClass):
            self.candidates = _Blocks(graphs)
        else:
            self.candidates = _Listed(graphs)
        self.types = {"a": 0, "b": 0, "c": 0}
        self.round = 0
        self._x = -1
        self._majority: IntArray = np.zeros(0, dtype=np.int64)
        self._rule: BoolArray = np.zeros(0, dtype=np.bool_)

    def act(self, seen: Any = None) -> BoolArray:
        """Follow the reduction on the majority neighbourhood, accept everything else."""
        if seen.x is None:
            raise ProtocolError("UnknownGraphOnline must see the agent's feature first")
        self.round += 1
        self.reduction.round = self.round
        self._x = seen.x
        self._majority = self.candidates.majority(seen.x)
        rule = np.ones(seen.n, dtype=np.bool_)
        rule[self._majority] = self.reduction.accepts(self._majority)
        rule[seen.x] = self.reduction.accepts(np.array([seen.x]))[0]
        self._rule = rule
        return rule

    def observe(self, feedback: Feedback) -> None:
        """Filter graphs and update the reduction."""
        assert feedback.report is not None
        x, v, wrong = self._x, feedback.report, feedback.yhat != feedback.y
        outside = v != x and v not in self._majority
        if self.eager or (wrong and outside):
            self._filter(x, v)
        if not wrong:
            return
        if outside:
            self.types["a"] += 1
        elif feedback.y == 0:
            self.types["b"] += 1
            self.reduction.update_false_positive(v)
        else:
            self.types["c"] += 1
            below = self._majority if self.literal else self._majority[~self._rule[self._majority]]
            self.reduction.update_false_negative(np.append(x, below))

    def _filter(self, x: int, v: int) -> None:
        if v != x:
            self.candidates.keep_with_arc(x, v)
        elif not self._rule[x]:
            self.candidates.keep_without(x, self._rule)
        if self.candidates.empty:
            raise NotRealizableError(
                f"round {self.round}: no candidate graph agrees with the moves seen so far",
                round=self.round,
            )


class _Listed:
    """Alive graphs of an explicit class."""

    def __init__(self, graphs: GraphClass) -> None:
        self.tensor = graphs.explicit().tensor
        self.alive = np.ones(len(self.tensor), dtype=np.bool_)

    @property
    def empty(self) -> bool:
        return not self.alive.any()

    def majority(self, x: int) -> IntArray:
        """Nodes that strictly more than half of the alive graphs list at x."""
        arcs = self.tensor[self.alive, x, :]
        return np.flatnonzero(2 * arcs.sum(axis=0) > len(arcs)).astype(np.int64)

    def keep_with_arc(self, x: int, v: int) -> None:
        self.alive &= self.tensor[:, x, v]

    def keep_without(self, x: int, rule: BoolArray) -> None:
        self.alive &= ~(self.tensor[:, x, :] & rule).any(axis=1)


class _Blocks:
    """Alive candidates per block of a product class; only the block of x ever matters."""

    def __init__(self, graphs: ProductGraphClass) -> None:
        self.n = graphs.n
        self.candidates = [list(candidates) for _, candidates in graphs.blocks]
        self.block_of = {x: b for b, (sources, _) in enumerate(graphs.blocks) for x in sources}
        self._contradicted = False

    @property
    def empty(self) -> bool:
        return self._contradicted or any(not alive for alive in self.candidates)

    def majority(self, x: int) -> IntArray:
        if x not in self.block_of:
            return np.zeros(0, dtype=np.int64)
        alive = self.candidates[self.block_of[x]]
        counts = np.zeros(self.n, dtype=np.int64)
        for candidate in alive:
            counts[list(candidate.get(x, ()))] += 1
        return np.flatnonzero(2 * counts > len(alive)).astype(np.int64)

    def keep_with_arc(self, x: int, v: int) -> None:
        if x not in self.block_of:
            self._contradicted = True
            return
        b = self.block_of[x]
        self.candidates[b] = [c for c in self.candidates[b] if v in c.get(x, ())]

    def keep_without(self, x: int, rule: BoolArray) -> None:
        if x in self.block_of:
            b = self.block_of[x]
            self.candidates[b] = [
                c for c in self.candidates[b] if not rule[list(c.get(x, ()))].any()
            ]
