"""Observed moves, and candidate graphs judged by them: missed moves, degree, what was learned.

Publishing the rule "everything but x" makes the agent at x move to a uniformly random neighbour, or
stay if there is none. Graphs are compared on the distinct pairs (x, v) with their counts.

Source: Proposition 3.E, Lemma B.3 and theorem B.5, see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, IntArray, check_positive_int
from counterplay.errors import InvalidInputError, NotRealizableError
from counterplay.strategic.graphs.graph_classes import (
    GraphClass,
    ProductGraphClass,
)
from counterplay.strategic.graphs.manipulation_graph import ManipulationGraph, check_nodes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@checked
def probe(graph: ManipulationGraph, nodes: ArrayLike, random_state: RandomState = None) -> IntArray:
    """Where agents go when everything but their own node is accepted: a random neighbour.

    Examples
    --------
    >>> probe(ManipulationGraph.from_lists([[1], []]), [0, 1, 0], random_state=0)
    array([1, 1, 1])
    """
    x = check_nodes(nodes, graph.n)
    degrees = graph.degrees[x]
    pick = np.floor(generator(random_state).random(x.size) * np.maximum(degrees, 1)).astype(
        np.int64
    )
    start = np.minimum(graph.indptr[x] + pick, max(0, graph.indices.size - 1))
    moved = graph.indices[start] if graph.indices.size else x
    return np.where(degrees > 0, moved, x).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Moves:
    """Distinct observed pairs: ``counts`` people at ``x`` went to ``v``; v = x is a stay."""

    x: IntArray
    v: IntArray
    counts: IntArray

    @classmethod
    def of(cls, nodes: ArrayLike, moved_to: ArrayLike, n: int) -> Moves:
        """Count the pairs of a sample on nodes 0 to n-1."""
        x, v = check_nodes(nodes, n), check_nodes(moved_to, n)
        if x.shape != v.shape or x.ndim != 1 or x.size == 0:
            raise InvalidInputError(
                f"nodes and moves must be equally long, got {x.shape} and {v.shape}"
            )
        pairs, counts = np.unique(x * n + v, return_counts=True)
        return cls(pairs // n, pairs % n, counts.astype(np.int64))

    @property
    def total(self) -> int:
        """Size of the sample."""
        return int(self.counts.sum())

    @cached_property
    def by_node(self) -> dict[int, list[tuple[int, int]]]:
        """For every node the (v, count) seen there."""
        seen: dict[int, list[tuple[int, int]]] = {}
        for x, v, count in zip(self.x.tolist(), self.v.tolist(), self.counts.tolist()):
            seen.setdefault(x, []).append((v, count))
        return seen


@dataclass(frozen=True, eq=False)
class Ranking:
    """Missed moves and degree of every candidate, summed over the sample.

    ``block`` is the block of a product class that a candidate belongs to (0 for listed graphs).
    """

    block: IntArray
    candidate: IntArray
    misses: IntArray
    degree: IntArray
    k: int
    total: int

    @property
    def score(self) -> IntArray:
        """2 k misses + degree: the proxy loss times k T, up to a constant; whole numbers."""
        result: IntArray = 2 * self.k * self.misses + self.degree
        return result

    def best(self) -> list[int]:
        """Smallest score per block; ties: smaller degree, then index."""
        order = self.order
        first = np.flatnonzero(np.diff(self.block[order], prepend=-1))
        return [int(i) for i in self.candidate[order][first]]

    @property
    def order(self) -> IntArray:
        """Candidates block by block, best first."""
        return np.lexsort((self.candidate, self.degree, self.score, self.block))


def rank(graphs: GraphClass, moves: Moves) -> Ranking:
    """Judge every candidate graph (every candidate of every block) by the moves."""
    k = max(1, graphs.k)
    if isinstance(graphs, ProductGraphClass):
        rows = [
            (b, c, *_judge(candidate, sources, moves))
            for b, (sources, candidates) in enumerate(graphs.blocks)
            for c, candidate in enumerate(candidates)
        ]
        table = np.array(rows, dtype=np.int64).reshape(-1, 4).T
        return Ranking(table[0], table[1], table[2], table[3], k, moves.total)
    explicit, moved = graphs.explicit(), moves.v != moves.x
    missed = ~explicit.tensor[:, moves.x[moved], moves.v[moved]]
    degree = explicit.degrees[:, moves.x] @ moves.counts
    index = np.arange(len(explicit))
    misses = (missed @ moves.counts[moved]).astype(np.int64)
    return Ranking(np.zeros_like(index), index, misses, degree, k, moves.total)


def _judge(
    candidate: dict[int, tuple[int, ...]], sources: tuple[int, ...], moves: Moves
) -> tuple[int, int]:
    misses = degree = 0
    for x in sources:
        targets = candidate.get(x, ())
        for v, count in moves.by_node.get(x, ()):
            degree += count * len(targets)
            if v != x and v not in targets:
                misses += count
    return misses, degree


def build(graphs: GraphClass, choice: list[int]) -> tuple[ManipulationGraph, Any]:
    """The graph with the chosen candidate of every block, and the choice as users see it."""
    if isinstance(graphs, ProductGraphClass):
        return graphs.build(choice), tuple(choice)
    return graphs.explicit().graph(choice[0]), choice[0]


def last_consistent(ranking: Ranking) -> list[int]:
    """The last candidate of every block that misses no move."""
    choice = []
    for block in np.unique(ranking.block):
        fits = ranking.candidate[(ranking.block == block) & (ranking.misses == 0)]
        if fits.size == 0:
            raise NotRealizableError("no candidate graph contains all observed moves")
        choice.append(int(fits.max()))
    return choice


@checked
def proxy_loss(
    candidate: ManipulationGraph,
    truth: ManipulationGraph,
    k: int,
    distribution: FloatArray | None = None,
) -> float:
    """Population proxy 2 E[Pr(v not in N_G)] + (E|N_G| - E|N_G*|)/k; needs the true graph.

    Examples
    --------
    >>> nothing, truth = (ManipulationGraph.from_lists(arcs) for arcs in ([[], []], [[1], []]))
    >>> proxy_loss(nothing, truth, k=1)
    0.5
    """
    k = check_positive_int(k, "k")
    A, B = candidate.dense, truth.dense
    p = np.full(len(A), 1 / len(A)) if distribution is None else distribution
    missed = (B & ~A).sum(axis=1) / np.maximum(B.sum(axis=1), 1)
    return float(2 * p @ missed + p @ (A.sum(axis=1) - B.sum(axis=1)) / k)


@checked
@dataclass(frozen=True, eq=False, kw_only=True)
class UnknownGraphFit(Report):
    """A learned graph and rule.

    Attributes
    ----------
    graph:
        The learned graph.
    choice:
        Its index (or one index per block of a product class).
    hypothesis:
        Index of the chosen rule, or the fitted estimator.
    loss:
        Strategic error rate of the rule under the learned graph on its sample.
    misses:
        Share of moves that the graph does not contain.
    degree:
        Mean out-degree on the sample.
    certificate:
        With probability ``1 - delta`` the empirical graph loss is at most this (realizable only).
    used_labels:
        Whether the labels took part in choosing the graph.
    ranking:
        Missed moves and degree of every candidate; see :meth:`to_frame`.
    slack:
        Agnostic only: with probability ``1 - delta`` the error is at most
        ``6 k Delta_G + Delta_H + slack`` (worst-case constants; above 1 it says nothing).

    Examples
    --------
    >>> from counterplay.core.finite_class import FiniteClass
    >>> from counterplay.strategic.lab import ExplicitGraphClass, UnknownGraphPACAgnostic
    >>> graphs = ExplicitGraphClass.from_graphs([ManipulationGraph.from_lists([[1], []])])
    >>> rules = FiniteClass.from_matrix([[0, 1], [0, 0]])
    >>> print(UnknownGraphPACAgnostic(rules, graphs).fit([0], [1], [0, 1], [1, 1]).summary()[:41])
    graph 0: misses 0.000 of the moves, mean
    """

    graph: ManipulationGraph
    choice: Any
    hypothesis: Any
    loss: float
    degree: float
    ranking: Ranking
    misses: float = 0.0
    certificate: float = math.nan
    used_labels: bool = False
    slack: float = math.nan

    def summary(self) -> str:
        """The fit as text."""
        text = (
            f"graph {self.choice}: misses {self.misses:.3f} of the moves, mean degree "
            f"{self.degree:.2f}; rule {self.hypothesis} with error {self.loss:.3f}"
        )
        if math.isfinite(self.certificate):
            return text + f"; graph certificate {self.certificate:.3f}"
        k = self.ranking.k
        if math.isfinite(self.slack):
            text += f"; error at most {6 * k} Delta_G + Delta_H + {self.slack:.2f}"
        return text

    def to_frame(self) -> pd.DataFrame:
        """One row per candidate, best score first: share of missed moves, mean degree, score.

        The score is the proxy loss up to a constant that is the same for all candidates.
        """
        import pandas as pd

        r = self.ranking
        frame = pd.DataFrame(
            {
                "block": r.block,
                "candidate": r.candidate,
                "misses": r.misses / r.total,
                "degree": r.degree / r.total,
                "score": r.score / (r.k * r.total),
                "chosen": self._chosen(),
            }
        )
        return frame.iloc[r.order].reset_index(drop=True)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Missed moves against mean degree: supersets lie low and right, the choice at the knee."""
        from counterplay.core.figures import PALETTE, axes_or_new, figure_style

        frame = self.to_frame()
        others, chosen = frame[~frame["chosen"]], frame[frame["chosen"]]
        with figure_style():
            ax = axes_or_new(ax)
            ax.plot(others["degree"], others["misses"], "o", color=PALETTE[0], ms=4,
                    label="other candidates")  # fmt: skip
            ax.plot(chosen["degree"], chosen["misses"], "s", color=PALETTE[1], ms=8, label="chosen")
            ax.set(xlabel="mean number of moves per person", ylabel="share of moves it misses",
                   title="Which graph explains the moves?")  # fmt: skip
            ax.legend()
        return ax

    def _chosen(self) -> np.ndarray:
        choice = np.atleast_1d(np.asarray(self.choice))
        return np.asarray(choice[self.ranking.block] == self.ranking.candidate)
