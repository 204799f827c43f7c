"""Learning an unknown graph from one random neighbour per example, and a rule on top of it.

Publishing the rule "everything but x" makes the agent at x move to a uniformly random neighbour.
Many graphs contain what was seen; the right one is found by also asking for few arcs (realizable
case), or by a loss that trades missed moves against degree (agnostic case). Source: Sec.
sec:highlight-ug-pac, Thm. thm:ug-pac-rel and thm:ug-pac-agn, spec 03, sections 3.6 to 3.8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.errors import InvalidInputError
from counterplay.core.finite_class import FiniteClass
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_choice,
    check_labels01,
    check_open_fraction,
    check_positive_int,
)
from counterplay.strategic.graphs.experts import RealizabilityError
from counterplay.strategic.graphs.graph_classes import (
    ExplicitGraphClass,
    GraphClass,
    ProductGraphClass,
)
from counterplay.strategic.graphs.manipulation_graph import ManipulationGraph
from counterplay.strategic.graphs.strategic_erm import finite_erm

if TYPE_CHECKING:
    import pandas as pd


def probe(graph: ManipulationGraph, nodes: ArrayLike, random_state: RandomState = None) -> IntArray:
    """Where agents go when everything but their own node is accepted: a random neighbour.

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
class UnknownGraphFit:
    """A learned graph and rule.

    Attributes
    ----------
    graph, choice:
        The graph and its index (or one index per block of a product class).
    hypothesis:
        Index of the chosen rule.
    loss:
        Strategic error rate of the rule under the learned graph on its sample.
    misses, degree:
        Share of moves that the graph does not contain; mean out-degree on the sample.
    certificate:
        With probability ``1 - delta`` the empirical graph loss is at most this (realizable only).
    used_labels:
        Whether the labels took part in choosing the graph.

    Examples
    --------
    >>> graphs = ExplicitGraphClass.from_graphs([ManipulationGraph.from_lists([[1], []])])
    >>> rules = FiniteClass.from_matrix([[0, 1], [0, 0]])
    >>> print(UnknownGraphPACAgnostic(rules, graphs).fit([0], [1], [0, 1], [1, 1]).summary()[:41])
    graph 0: misses 0.000 of the moves, mean
    """

    graph: ManipulationGraph
    choice: Any
    hypothesis: int
    loss: float
    misses: float
    degree: float
    certificate: float
    used_labels: bool

    def summary(self) -> str:
        """The fit as text."""
        return (
            f"graph {self.choice}: misses {self.misses:.3f} of the moves, mean degree "
            f"{self.degree:.2f}; rule {self.hypothesis} with error {self.loss:.3f}; "
            f"graph certificate {self.certificate:.3f}"
        )

    def to_frame(self) -> pd.DataFrame:
        """One row with the numbers of the summary."""
        import pandas as pd

        names = ("hypothesis", "loss", "misses", "degree", "certificate")
        return pd.DataFrame([{name: getattr(self, name) for name in names}])


class UnknownGraphPACRealizable:
    """The graph with fewest arcs that explains all moves, and a rule that explains all labels.

    Use it when some candidate graph and some rule are exactly right on the sample.

    Parameters
    ----------
    hypotheses:
        Candidate rules on the nodes.
    graphs:
        Candidate graphs, listed or as a product of blocks.
    delta:
        Confidence of the certificate.

    Notes
    -----
    ``bounds.graph_T_realizable(k, log_G, eps, delta)`` examples give graph loss at most eps with
    probability 1 - delta. A stay reveals an empty neighbourhood, which the source does not use.

    Examples
    --------
    >>> truth = ManipulationGraph.from_lists([[1], [], []])
    >>> other = ManipulationGraph.from_lists([[1, 2], [0], []])
    >>> graphs = ExplicitGraphClass.from_graphs([other, truth])
    >>> rules = FiniteClass.from_matrix([[0, 1, 0], [0, 0, 1]])
    >>> learner = UnknownGraphPACRealizable(rules, graphs)
    >>> fit = learner.fit([0, 1, 2], probe(truth, [0, 1, 2], 0), [1, 1, 0])
    >>> fit.choice, fit.hypothesis
    (1, 0)

    References
    ----------
    Han Shao, Trustworthy Machine Learning under Social and Adversarial Data Sources, 2024, Thm.
    ug-pac-rel.
    """

    def __init__(self, hypotheses: FiniteClass, graphs: GraphClass, *, delta: float = 0.05) -> None:
        _check_nodes(hypotheses, graphs)
        self.hypotheses, self.graphs = hypotheses, graphs
        self.delta = check_open_fraction(delta, "delta")

    def __repr__(self) -> str:
        return f"UnknownGraphPACRealizable({self.hypotheses!r}, delta={self.delta})"

    def fit(self, nodes: ArrayLike, moved_to: ArrayLike, y: ArrayLike) -> UnknownGraphFit:
        """Fit to (x, v, y); raises ``RealizabilityError`` when no pair explains everything."""
        x, v = _pairs(nodes, moved_to)
        labels = check_labels01(y).astype(np.bool_)
        choice: Any
        if isinstance(self.graphs, ProductGraphClass):
            graph, choice, h = self._fit_product(self.graphs, x, v, labels)
        else:
            graph, choice, h = self._fit_listed(self.graphs, x, v, labels)
        T = max(1, x.size)
        certificate = 2 * max(1, self.graphs.k) * (
            self.graphs.log_size + math.log(1 / self.delta)
        ) / T  # fmt: skip
        degree = float(graph.degrees[x].mean())
        return UnknownGraphFit(graph, choice, h, 0.0, 0.0, degree, certificate, True)

    def _fit_listed(
        self, graphs: GraphClass, x: IntArray, v: IntArray, y: BoolArray
    ) -> tuple[ManipulationGraph, int, int]:
        listed = (
            graphs
            if isinstance(graphs, ExplicitGraphClass)
            else ExplicitGraphClass.from_graphs(list(graphs.graphs()))
        )
        fits = _consistent(listed.tensor, x, v)
        if not fits.any():
            raise RealizabilityError("no candidate graph contains all observed moves and stays")
        degree = listed.degrees[:, x].sum(axis=1)
        order = np.lexsort((np.arange(len(listed)), degree))
        for index in order[fits[order]]:
            graph = listed.graph(int(index))
            h, loss, _ = finite_erm(self.hypotheses, x, y, graph)
            if loss == 0:
                return graph, int(index), h
        raise RealizabilityError(
            "no rule explains all labels on any graph that explains the moves; the last candidate "
            f"tried was graph {int(order[fits[order]][-1])}"
        )

    def _fit_product(
        self, graphs: ProductGraphClass, x: IntArray, v: IntArray, y: BoolArray
    ) -> tuple[ManipulationGraph, tuple[int, ...], int]:
        H = self.hypotheses.labels
        best: tuple[int, tuple[int, ...], int] | None = None
        for h in range(len(self.hypotheses)):
            result = _smallest_blocks(graphs, H[h], x, v, y)
            if result is not None and (best is None or result[0] < best[0]):
                best = (*result, h)
        if best is None:
            raise RealizabilityError("no graph of the product explains all moves and labels")
        return graphs.build(best[1]), best[1], best[2]


class UnknownGraphPACAgnostic:
    """The graph with the smallest proxy loss, then the best rule under it.

    Use it when no candidate needs to be exactly right. Two independent samples: one with moves for
    the graph, one with labels for the rule.

    Parameters
    ----------
    hypotheses, graphs:
        As in ``UnknownGraphPACRealizable``.

    Notes
    -----
    With k bounding all degrees: error at most ``6 k Delta_G + Delta_H + eps``
    (Thm. ``thm:ug-pac-agn``); the proxy lies between 1/k and 3 times the graph loss.

    Examples
    --------
    >>> truth = ManipulationGraph.from_lists([[1], [], []])
    >>> other = ManipulationGraph.from_lists([[2], [], []])
    >>> graphs = ExplicitGraphClass.from_graphs([other, truth])
    >>> rules = FiniteClass.from_matrix([[0, 1, 0], [0, 0, 1]])
    >>> fit = UnknownGraphPACAgnostic(rules, graphs).fit([0, 1], [1, 1], [0, 1, 2], [1, 1, 0])
    >>> fit.choice, fit.loss
    (1, 0.0)

    References
    ----------
    Han Shao, Trustworthy Machine Learning under Social and Adversarial Data Sources, 2024, Thm.
    ug-pac-agn.
    """

    def __init__(self, hypotheses: FiniteClass, graphs: GraphClass) -> None:
        _check_nodes(hypotheses, graphs)
        self.hypotheses, self.graphs = hypotheses, graphs

    def __repr__(self) -> str:
        return f"UnknownGraphPACAgnostic({self.hypotheses!r})"

    def fit(
        self, nodes: ArrayLike, moved_to: ArrayLike, label_nodes: ArrayLike, y: ArrayLike
    ) -> UnknownGraphFit:
        """Fit the graph to moves and the rule to labels."""
        x, v = _pairs(nodes, moved_to)
        graph, choice = proxy_graph(self.graphs, x, v)
        labels = check_labels01(y)
        h, loss, _ = finite_erm(self.hypotheses, label_nodes, labels, graph)
        misses = _misses(graph, x, v)
        degree = float(graph.degrees[x].mean())
        share = loss / max(1, labels.size)
        return UnknownGraphFit(graph, choice, h, share, misses, degree, float("nan"), False)


def proxy_graph(
    graphs: GraphClass, nodes: ArrayLike, moved_to: ArrayLike
) -> tuple[ManipulationGraph, Any]:
    """Minimise twice the share of missed moves plus mean degree / k; ties: degree, then index.

    >>> graphs = ExplicitGraphClass.from_graphs([ManipulationGraph.from_lists([[1, 2], [], []]),
    ...                                          ManipulationGraph.from_lists([[1], [], []])])
    >>> proxy_graph(graphs, [0, 0], [1, 1])[1]
    1
    """
    x, v = _pairs(nodes, moved_to)
    k = max(1, graphs.k)
    if isinstance(graphs, ProductGraphClass):
        choice = tuple(
            _best_candidate(sources, candidates, x, v, k) for sources, candidates in graphs.blocks
        )
        return graphs.build(choice), choice
    listed = (
        graphs
        if isinstance(graphs, ExplicitGraphClass)
        else ExplicitGraphClass.from_graphs(list(graphs.graphs()))
    )
    moved = v != x
    misses = (~listed.tensor[:, x[moved], v[moved]]).sum(axis=1)
    degree = listed.degrees[:, x].sum(axis=1)
    score = 2 * k * misses + degree  # integers: exact ties
    index = int(np.lexsort((np.arange(len(listed)), degree, score))[0])
    return listed.graph(index), index


def consistent_graph(graphs: ExplicitGraphClass, nodes: ArrayLike, moved_to: ArrayLike) -> int:
    """Baseline: the last graph that contains all observed arcs, whatever its degree.

    >>> graphs = ExplicitGraphClass.from_graphs([ManipulationGraph.from_lists([[1], [], []]),
    ...                                          ManipulationGraph.from_lists([[1, 2], [], []])])
    >>> consistent_graph(graphs, [0], [1])
    1
    """
    x, v = _pairs(nodes, moved_to)
    moved = v != x
    fits = np.flatnonzero(graphs.tensor[:, x[moved], v[moved]].all(axis=1))
    if fits.size == 0:
        raise RealizabilityError("no candidate graph contains all observed moves")
    return int(fits[-1])


class NeighborhoodLearner:
    """Learn the set of items each person likes from one click per visit.

    Use it for recommenders: candidate taste models are graphs from people (or clusters) to items,
    a click is one random item of the liked set.

    Parameters
    ----------
    graphs:
        Candidate models; nodes are people and items together.
    mode:
        ``"agnostic"`` (proxy loss) or ``"realizable"`` (fewest arcs that explain every click).

    Attributes
    ----------
    graph_:
        The chosen model.

    Examples
    --------
    >>> likes = [ManipulationGraph.from_lists([[1, 2], [], []]),
    ...          ManipulationGraph.from_lists([[1], [], []])]
    >>> learner = NeighborhoodLearner(ExplicitGraphClass.from_graphs(likes), mode="realizable")
    >>> [set(items.tolist()) for items in learner.fit([0, 0], [1, 1]).predict([0])]
    [{1}]
    """

    def __init__(
        self, graphs: GraphClass | None = None, mode: Literal["agnostic", "realizable"] = "agnostic"
    ) -> None:
        self.graphs = graphs
        self.mode = mode

    def __repr__(self) -> str:
        return f"NeighborhoodLearner(mode={self.mode!r})"

    def fit(
        self, X: ArrayLike, y: ArrayLike, *, slates: Sequence[ArrayLike] | None = None
    ) -> NeighborhoodLearner:
        """Fit to people and clicked items; a click of -1 means nothing was clicked.

        ``slates`` lists what was shown when it was not everything: then a missing click says
        nothing and is left out.
        """
        if self.graphs is None:
            raise InvalidInputError("NeighborhoodLearner needs candidate graphs")
        check_choice(self.mode, "mode", ("agnostic", "realizable"))
        people = np.asarray(X, dtype=np.int64).reshape(-1)
        clicks = np.asarray(y, dtype=np.int64).reshape(-1)
        if people.shape != clicks.shape or people.size == 0:
            raise InvalidInputError(f"got {people.size} people but {clicks.size} clicks")
        keep = np.ones(people.size, dtype=np.bool_) if slates is None else clicks >= 0
        x, v = people[keep], np.where(clicks[keep] < 0, people[keep], clicks[keep])
        if self.mode == "agnostic":
            self.graph_, self.choice_ = proxy_graph(self.graphs, x, v)
        else:
            everything = FiniteClass.from_matrix(np.ones((1, self.graphs.n)))
            fit = UnknownGraphPACRealizable(everything, self.graphs).fit(x, v, np.ones(x.size))
            self.graph_, self.choice_ = fit.graph, fit.choice
        return self

    def predict(self, X: ArrayLike) -> list[IntArray]:
        """The liked items of each person."""
        if not hasattr(self, "graph_"):
            raise InvalidInputError("this NeighborhoodLearner is not fitted yet; call fit first")
        return [self.graph_.neighbors(int(x)) for x in np.asarray(X).reshape(-1)]

    def predict_indicator(self, X: ArrayLike) -> NDArray[np.int8]:
        """The liked items as a multi-label indicator matrix, one column per node."""
        rows = np.zeros((np.asarray(X).size, self.graph_.n), dtype=np.int8)
        for i, items in enumerate(self.predict(X)):
            rows[i, items] = 1
        return rows


def _check_nodes(hypotheses: FiniteClass, graphs: GraphClass) -> None:
    if hypotheses.n_points != graphs.n:
        raise InvalidInputError(
            f"rules are on {hypotheses.n_points} nodes, graphs on {graphs.n}; they must agree"
        )


def check_nodes(nodes: ArrayLike, n: int) -> IntArray:
    """Return node numbers as integers; raises for the first one outside 0 to n-1."""
    x = np.asarray(nodes, dtype=np.int64)
    outside = np.flatnonzero((x < 0) | (x >= n))
    if outside.size:
        raise InvalidInputError(
            f"entry {outside[0]} is node {x.flat[outside[0]]}; nodes are 0 to {n - 1}"
        )
    return x


def _pairs(nodes: ArrayLike, moved_to: ArrayLike) -> tuple[IntArray, IntArray]:
    x, v = np.asarray(nodes, dtype=np.int64), np.asarray(moved_to, dtype=np.int64)
    if x.shape != v.shape or x.ndim != 1 or x.size == 0:
        raise InvalidInputError(
            f"nodes and moves must be equally long, got {x.shape} and {v.shape}"
        )
    return x, v


def _consistent(tensor: BoolArray, x: IntArray, v: IntArray) -> BoolArray:
    """Graphs with every observed arc and no arc at nodes where somebody stayed."""
    moved = v != x
    arcs = np.asarray(tensor[:, x[moved], v[moved]].all(axis=1), dtype=np.bool_)
    return arcs & ~np.asarray(tensor[:, x[~moved], :].any(axis=(1, 2)), dtype=np.bool_)


def _misses(graph: ManipulationGraph, x: IntArray, v: IntArray) -> float:
    moved = v != x
    arcs = graph.adjacency.toarray()
    return float((~arcs[x[moved], v[moved]]).sum() / x.size)


def _smallest_blocks(
    graphs: ProductGraphClass, h: BoolArray, x: IntArray, v: IntArray, y: BoolArray
) -> tuple[int, tuple[int, ...]] | None:
    """Cheapest candidate per block that explains its moves, stays and labels under rule h."""
    covered = np.zeros(graphs.n, dtype=np.bool_)
    choice, total = [], 0
    for sources, candidates in graphs.blocks:
        inside = np.isin(x, sources)
        covered[list(sources)] = True
        best: tuple[int, int] | None = None
        for index, candidate in enumerate(candidates):
            cost = _candidate_cost(candidate, h, x[inside], v[inside], y[inside])
            if cost is not None and (best is None or cost < best[0]):
                best = cost, index
        if best is None:
            return None
        total += best[0]
        choice.append(best[1])
    free = ~covered[x]
    if (v[free] != x[free]).any() or (h[x[free]] != y[free]).any():
        return None
    return total, tuple(choice)


def _candidate_cost(
    candidate: dict[int, tuple[int, ...]], h: BoolArray, x: IntArray, v: IntArray, y: BoolArray
) -> int | None:
    cost = 0
    for node, moved, label in zip(x.tolist(), v.tolist(), y.tolist()):
        targets = candidate.get(node, ())
        if (moved != node and moved not in targets) or (moved == node and targets):
            return None
        if bool(h[node] or h[list(targets)].any()) != label:
            return None
        cost += len(targets)
    return cost


def _best_candidate(
    sources: tuple[int, ...],
    candidates: tuple[dict[int, tuple[int, ...]], ...],
    x: IntArray,
    v: IntArray,
    k: int,
) -> int:
    inside = np.isin(x, sources)
    pairs = list(zip(x[inside].tolist(), v[inside].tolist()))
    scores: list[tuple[int, int, int]] = []
    for index, candidate in enumerate(candidates):
        misses = sum(v != x and v not in candidate.get(x, ()) for x, v in pairs)
        degree = sum(len(candidate.get(x, ())) for x, _ in pairs)
        scores.append((2 * k * misses + degree, degree, index))
    return min(scores)[2]


def proxy_loss(
    candidate: ManipulationGraph,
    truth: ManipulationGraph,
    k: int,
    distribution: FloatArray | None = None,
) -> float:
    """Population proxy 2 E[Pr(v not in N_G)] + (E|N_G| - E|N_G*|)/k; needs the true graph.

    >>> nothing, truth = (ManipulationGraph.from_lists(arcs) for arcs in ([[], []], [[1], []]))
    >>> proxy_loss(nothing, truth, k=1)
    0.5
    """
    k = check_positive_int(k, "k")
    A, B = candidate.adjacency.toarray(), truth.adjacency.toarray()
    p = np.full(len(A), 1 / len(A)) if distribution is None else distribution
    missed = (B & ~A).sum(axis=1) / np.maximum(B.sum(axis=1), 1)
    return float(2 * p @ missed + p @ (A.sum(axis=1) - B.sum(axis=1)) / k)
