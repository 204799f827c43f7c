"""Learning an unknown graph from one random neighbour per example, and a rule on top of it.

Many graphs contain the moves that were seen; the right one is found by also asking for few arcs
(realizable case), or by a loss that trades missed moves against degree (agnostic case).

Source: "Learning an unknown graph from moves", Theorem 3.2, Theorem B.5, Proposition 3.E, Lemma B.3
and theorem B.5, see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from counterplay.core.arguments import checked
from counterplay.core.finite_class import FiniteClass
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_float_array,
    check_labels01,
    check_open_fraction,
)
from counterplay.errors import CounterplayWarning, InvalidInputError, NotRealizableError
from counterplay.strategic import bounds
from counterplay.strategic.erm import FiniteERM
from counterplay.strategic.graphs.graph_classes import (
    ExplicitGraphClass,
    GraphClass,
    ProductGraphClass,
)
from counterplay.strategic.graphs.manipulation_graph import ManipulationGraph, check_nodes
from counterplay.strategic.graphs.moves import (
    Moves,
    Ranking,
    UnknownGraphFit,
    build,
    last_consistent,
    rank,
)


class _UnknownGraphLearner:
    """Candidate rules (or an estimator) and candidate graphs; subclasses choose the graph."""

    def __init__(
        self,
        hypotheses: Any,
        graphs: GraphClass,
        *,
        features: ArrayLike | None = None,
        delta: float = 0.05,
    ) -> None:
        self.features = _check_rules(hypotheses, graphs, features)
        self.hypotheses, self.graphs = hypotheses, graphs
        self.delta = check_open_fraction(delta, "delta")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.hypotheses!r}, delta={self.delta})"

    def _best_rule(self, graph: ManipulationGraph, x: IntArray, y: BoolArray) -> tuple[Any, float]:
        """The rule (or fitted copy of the estimator) of least strategic error, and that error."""
        if isinstance(self.hypotheses, FiniteClass):
            best = FiniteERM(self.hypotheses).fit(x, y, graph=graph)
            return best.member_, float(best.losses_[best.member_])
        assert self.features is not None
        placed = ManipulationGraph.from_matrix(graph.adjacency, features=self.features)
        model = clone(self.hypotheses).fit(self.features[x], y.astype(np.int64), graph=placed)
        return model, float(model.loss_)


@checked
class UnknownGraphPACRealizable(_UnknownGraphLearner):
    """The graph with fewest arcs that explains all moves, and a rule that explains all labels.

    Use it when some candidate graph and some rule are exactly right on the sample.

    Parameters
    ----------
    hypotheses:
        Candidate rules on the nodes; or an estimator such as ``StrategicERM()`` for classes that
        cannot be listed: the graph is then chosen by the moves alone, which keeps its guarantee.
    graphs:
        Candidate graphs, listed or as a product of blocks.
    features:
        Feature rows of the nodes, where ``hypotheses`` is an estimator.
    delta:
        Confidence of the certificate.

    Notes
    -----
    ``bounds.graph_T_realizable(k, log_G, eps, delta)`` examples give graph loss at most eps
    with probability 1 - delta, ``unknown_graph_T_realizable`` bounds rule and graph together. A
    stay reveals an empty neighbourhood, which the source does not use.

    Examples
    --------
    >>> from counterplay.strategic.lab import ExplicitGraphClass, probe
    >>> truth = ManipulationGraph.from_lists([[1], [], []])
    >>> other = ManipulationGraph.from_lists([[1, 2], [0], []])
    >>> graphs = ExplicitGraphClass.from_graphs([other, truth])
    >>> rules = FiniteClass.from_matrix([[0, 1, 0], [0, 0, 1]])
    >>> learner = UnknownGraphPACRealizable(rules, graphs)
    >>> fit = learner.fit([0, 1, 2], probe(truth, [0, 1, 2], 0), [1, 1, 0])
    >>> fit.choice, fit.hypothesis
    (1, 0)
    """

    def fit(self, nodes: ArrayLike, moved_to: ArrayLike, y: ArrayLike) -> UnknownGraphFit:
        """Fit to (x, v, y); raises ``NotRealizableError`` when no pair explains everything."""
        moves = Moves.of(nodes, moved_to, self.graphs.n)
        x, labels = check_nodes(nodes, self.graphs.n), _labels_of(y, nodes)
        hypothesis: Any
        loss = 0.0
        if isinstance(self.hypotheses, FiniteClass):
            choice, hypothesis = self._smallest_pair(moves, x, labels)
            graph, shown = build(self.graphs, choice)
        else:
            graph, shown = build(self.graphs, smallest_graph(self.graphs, moves))
            hypothesis, loss = self._best_rule(graph, x, labels)
        k, log_G = max(1, self.graphs.k), self.graphs.log_size
        return UnknownGraphFit(
            graph=graph,
            choice=shown,
            hypothesis=hypothesis,
            loss=loss,
            degree=float(graph.degrees[x].mean()),
            certificate=bounds.graph_certificate(k, log_G, x.size, self.delta),
            used_labels=isinstance(self.hypotheses, FiniteClass),
            ranking=rank(self.graphs, moves),
        )

    def _smallest_pair(self, moves: Moves, x: IntArray, y: BoolArray) -> tuple[list[int], int]:
        if isinstance(self.graphs, ProductGraphClass):
            best: tuple[int, list[int], int] | None = None
            for h, row in enumerate(self.hypotheses.labels):
                result = smallest_blocks(self.graphs, moves, row, x, y)
                if result is not None and (best is None or result < best[:2]):
                    best = (*result, h)  # ties: the graph that comes first in the list of all
            if best is None:
                smallest_graph(self.graphs, moves)  # names the moves if they are to blame
                raise NotRealizableError(
                    "no rule explains all labels on any graph of the product that explains the "
                    "moves and stays"
                )
            return best[1], best[2]
        explicit = self.graphs.explicit()
        order = smallest_listed(explicit, moves)
        for index in order:
            fitted = FiniteERM(self.hypotheses).fit(x, y, graph=explicit.graph(index))
            if fitted.losses_[fitted.member_] == 0:
                return [index], fitted.member_
        raise NotRealizableError(
            f"no rule explains all labels on any of the {len(order)} graphs that explain the moves "
            f"and stays; the last one tried was graph {order[-1]}"
        )


def smallest_graph(graphs: GraphClass, moves: Moves) -> list[int]:
    """The candidate of fewest arcs per block that explains all moves and stays."""
    if isinstance(graphs, ProductGraphClass):
        result = smallest_blocks(graphs, moves)
        if result is None:
            raise NotRealizableError("no graph of the product explains all moves and stays")
        return result[1]
    return smallest_listed(graphs.explicit(), moves)[:1]


@checked
class UnknownGraphPACAgnostic(_UnknownGraphLearner):
    """The graph with the smallest proxy loss, then the best rule under it.

    Use it when no candidate needs to be exactly right. Two independent samples: one with moves for
    the graph, one with labels for the rule.

    Parameters
    ----------
    hypotheses:
        As in ``UnknownGraphPACRealizable``.
    graphs:
        As in ``UnknownGraphPACRealizable``.
    features:
        As in ``UnknownGraphPACRealizable``.
    eps:
        Error you aim at; a sample too small for it gives a warning, never an error.
    delta:
        Confidence of the guarantee.

    Notes
    -----
    With k bounding all degrees: error at most ``6 k Delta_G + Delta_H + slack`` with probability
    1 - delta (Theorem B.5), where the fit reports the slack of its sample sizes. The
    proxy lies between 1/k and 3 times the graph loss.

    Examples
    --------
    >>> from counterplay.strategic.lab import ExplicitGraphClass
    >>> truth = ManipulationGraph.from_lists([[1], [], []])
    >>> other = ManipulationGraph.from_lists([[2], [], []])
    >>> graphs = ExplicitGraphClass.from_graphs([other, truth])
    >>> rules = FiniteClass.from_matrix([[0, 1, 0], [0, 0, 1]])
    >>> fit = UnknownGraphPACAgnostic(rules, graphs).fit([0, 1], [1, 1], [0, 1, 2], [1, 1, 0])
    >>> fit.choice, fit.loss
    (1, 0.0)
    """

    def __init__(
        self,
        hypotheses: Any,
        graphs: GraphClass,
        *,
        features: ArrayLike | None = None,
        eps: float | None = None,
        delta: float = 0.05,
    ) -> None:
        super().__init__(hypotheses, graphs, features=features, delta=delta)
        self.eps = None if eps is None else check_open_fraction(eps, "eps")

    def fit(
        self, nodes: ArrayLike, moved_to: ArrayLike, label_nodes: ArrayLike, y: ArrayLike
    ) -> UnknownGraphFit:
        """Fit the graph to moves and the rule to labels."""
        moves = Moves.of(nodes, moved_to, self.graphs.n)
        ranking = rank(self.graphs, moves)
        choice = ranking.best()
        graph, shown = build(self.graphs, choice)
        x, labels = check_nodes(label_nodes, self.graphs.n), _labels_of(y, label_nodes)
        hypothesis, loss = self._best_rule(graph, x, labels)
        chosen = np.array(choice)[ranking.block] == ranking.candidate
        return UnknownGraphFit(
            graph=graph,
            choice=shown,
            hypothesis=hypothesis,
            loss=loss,
            misses=float(ranking.misses[chosen].sum() / moves.total),
            degree=float(ranking.degree[chosen].sum() / moves.total),
            ranking=ranking,
            slack=self._slack(moves.total, x.size),
        )

    def _slack(self, T1: int, T2: int) -> float:
        k, log_G = max(1, self.graphs.k), self.graphs.log_size
        if self.eps is not None:
            needed = bounds.unknown_graph_T1(k, log_G, self.eps, self.delta)
            if needed > T1:
                warnings.warn(
                    f"{T1} moves are fewer than the {needed} that guarantee an error within "
                    f"eps={self.eps:g} of the best; the fit may still be good",
                    CounterplayWarning,
                    stacklevel=3,
                )
        if not isinstance(self.hypotheses, FiniteClass):
            return math.nan
        log_H = math.log(len(self.hypotheses))
        return bounds.unknown_graph_slack(k, log_G, log_H, T1, max(1, T2), self.delta)


@checked
class ConsistentGraphOnly(_UnknownGraphLearner):
    """Any graph that contains all observed moves, whatever its degree, and the best rule under it.

    What one does without the degree term: supersets of the truth never contradict a move.

    Examples
    --------
    >>> from counterplay.strategic import ManipulationGraph
    >>> from counterplay.strategic.lab import ExplicitGraphClass
    >>> graphs = ExplicitGraphClass.from_graphs([ManipulationGraph.from_lists([[1], [], []]),
    ...                                          ManipulationGraph.from_lists([[1, 2], [], []])])
    >>> ConsistentGraphOnly(FiniteClass.singletons(3), graphs).fit([0], [1], [1]).choice
    1
    """

    def fit(self, nodes: ArrayLike, moved_to: ArrayLike, y: ArrayLike) -> UnknownGraphFit:
        """Fit graph and rule to (x, v, y)."""
        moves = Moves.of(nodes, moved_to, self.graphs.n)
        x, labels = check_nodes(nodes, self.graphs.n), _labels_of(y, nodes)
        ranking = rank(self.graphs, moves)
        graph, choice = self._graph(ranking)
        hypothesis, loss = self._best_rule(graph, x, labels)
        return UnknownGraphFit(
            graph=graph,
            choice=choice,
            hypothesis=hypothesis,
            loss=loss,
            degree=float(graph.degrees[x].mean()),
            ranking=ranking,
        )

    def _graph(self, ranking: Ranking) -> tuple[ManipulationGraph, Any]:
        return build(self.graphs, last_consistent(ranking))


@checked
class SuperGraph(ConsistentGraphOnly):
    """The union of all candidate graphs, and the best rule under it; its ``choice`` is -1.

    What one does to be on the safe side: everybody may do everything that anybody might.

    Examples
    --------
    >>> from counterplay.strategic import ManipulationGraph
    >>> from counterplay.strategic.lab import ExplicitGraphClass
    >>> graphs = ExplicitGraphClass.from_graphs([ManipulationGraph.from_lists([[1], [], []]),
    ...                                          ManipulationGraph.from_lists([[2], [], []])])
    >>> SuperGraph(FiniteClass.singletons(3), graphs).fit([0], [1], [1]).graph.neighbors(0)
    array([1, 2])
    """

    def _graph(self, ranking: Ranking) -> tuple[ManipulationGraph, Any]:
        return self.graphs.union(), -1


def _check_rules(
    hypotheses: Any, graphs: GraphClass, features: ArrayLike | None
) -> FloatArray | None:
    if isinstance(hypotheses, FiniteClass):
        if hypotheses.n_points != graphs.n:
            raise InvalidInputError(
                f"rules are on {hypotheses.n_points} nodes, graphs on {graphs.n}; they must agree"
            )
        return None
    if not hasattr(hypotheses, "fit"):
        raise InvalidInputError("hypotheses must be a FiniteClass or an estimator to fit")
    if features is None:
        raise InvalidInputError("an estimator needs features, one row per node")
    rows = check_float_array(features, "features", ndim=2)
    if len(rows) != graphs.n:
        raise InvalidInputError(f"features have {len(rows)} rows, graphs {graphs.n} nodes")
    return rows


def _labels_of(y: ArrayLike, nodes: ArrayLike) -> BoolArray:
    labels = check_labels01(y).astype(np.bool_)
    if labels.size != np.asarray(nodes).size:
        raise InvalidInputError(f"got {np.asarray(nodes).size} nodes but {labels.size} labels")
    return labels


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
