"""The rule of a finite class with the fewest mistakes on past data, exactly.

One rule counts mistakes after everybody has moved, which needs the agents' abilities (or the graph)
and serves as a skyline; the other as if nobody moved, the practitioner's default, and is gamed.

Source: "Safe filter, exact solver, baselines", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.finite_class import FiniteClass
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_float_array,
    check_labels01,
)
from counterplay.errors import InvalidInputError
from counterplay.strategic.agents import Agents
from counterplay.strategic.classes import HypothesisClass
from counterplay.strategic.graphs.manipulation_graph import ManipulationGraph, check_nodes
from counterplay.strategic.predictors import UnionPredictor


@checked
class FiniteERM:
    """Pick the rule with the fewest mistakes after everybody has moved.

    For rules as functions of feature rows, or halfspaces, use :class:`StrategicERM`.

    Parameters
    ----------
    hypotheses:
        A catalogue (fit it to :class:`Agents`) or rules on the nodes of a graph (fit them to nodes,
        labels and the graph).
    strategic:
        Count mistakes after people have moved; False: on features as they are, as if nobody moved.
        That is what fitting on past data does; after deployment it accepts gamers.

    Attributes
    ----------
    member_:
        Number of the rule, the first among equals.
    losses_:
        Share of mistakes of every rule.
    minimisers_:
        All rules with the fewest mistakes.

    Examples
    --------
    The threshold 1.5 is perfect on honest data, and accepts the person at 1 who moves by 0.5.

    >>> from counterplay.strategic.lab import ThresholdClass
    >>> people = Agents(X=[[0.0], [1.0], [2.0]], y=[0, 0, 1], radius=0.5)
    >>> rules = ThresholdClass([1.0, 1.5, 2.0])
    >>> naive = FiniteERM(rules, strategic=False).fit(people)
    >>> FiniteERM(rules).fit(people).member_, naive.member_
    (2, 1)
    >>> round(naive.predictor_.loss(people), 3)
    0.333

    Rules on the nodes of a graph:

    >>> line = ManipulationGraph.from_lists([[1], []])
    >>> two = FiniteClass.from_matrix([[0, 0], [0, 1]])
    >>> FiniteERM(two).fit([0, 1], [1, 1], graph=line).member_
    1
    """

    member_: int
    losses_: FloatArray
    minimisers_: IntArray

    def __init__(
        self, hypotheses: HypothesisClass | FiniteClass, *, strategic: bool = True
    ) -> None:
        self.hypotheses = hypotheses
        self.strategic = strategic

    def __repr__(self) -> str:
        return f"FiniteERM({self.hypotheses!r}, strategic={self.strategic})"

    def fit(
        self,
        people: Agents | ArrayLike,
        y: ArrayLike | None = None,
        *,
        graph: ManipulationGraph | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Count the mistakes of every rule and keep the best."""
        if isinstance(self.hypotheses, FiniteClass):
            wrong, total = self._on_nodes(people, y, graph, sample_weight)
        elif isinstance(people, Agents):
            if y is not None or graph is not None or sample_weight is not None:
                raise InvalidInputError("agents have their own labels and moves; give nothing else")
            wrong, total = self._on_agents(people)
        else:
            raise InvalidInputError("a catalogue of rules is fitted to Agents")
        self.losses_ = wrong / (total or 1.0)
        self.member_ = int(np.argmin(wrong))
        self.minimisers_ = np.flatnonzero(wrong <= wrong.min() + 1e-12)
        return self

    @property
    def predictor_(self) -> UnionPredictor:
        """The chosen rule of a catalogue."""
        assert not isinstance(self.hypotheses, FiniteClass)
        return UnionPredictor(self.hypotheses, [self.member_])

    def _on_agents(self, agents: Agents) -> tuple[FloatArray, float]:
        assert not isinstance(self.hypotheses, FiniteClass)
        if len(agents) == 0:
            raise InvalidInputError("agents must not be empty")
        wrong = np.zeros(self.hypotheses.n, dtype=np.float64)
        for block in agents.blocks(max(1, 4_000_000 // self.hypotheses.n)):
            wrong += self._mistakes(block).sum(axis=0)
        return wrong, float(len(agents))

    def _mistakes(self, agents: Agents) -> BoolArray:
        assert not isinstance(self.hypotheses, FiniteClass)
        if self.strategic:
            return agents.losses(self.hypotheses)
        agents.match(self.hypotheses)
        return np.not_equal(self.hypotheses.predict(agents.X), agents.y[:, None] > 0)

    def _on_nodes(
        self,
        nodes: Any,
        y: ArrayLike | None,
        graph: ManipulationGraph | None,
        sample_weight: ArrayLike | None,
    ) -> tuple[FloatArray, float]:
        assert isinstance(self.hypotheses, FiniteClass)
        if isinstance(nodes, Agents) or y is None or (graph is None and self.strategic):
            raise InvalidInputError("rules on nodes are fitted to nodes, labels and graph=")
        x = check_nodes(nodes, self.hypotheses.n_points)
        labels = check_labels01(y).astype(np.bool_)
        if x.ndim != 1 or labels.shape != x.shape:
            raise InvalidInputError(f"there are {x.size} nodes but labels of shape {labels.shape}")
        weights = _weights(sample_weight, x.size)
        distinct, inverse = np.unique(x, return_inverse=True)
        positive = np.bincount(inverse, weights=weights * labels, minlength=distinct.size)
        negative = np.bincount(inverse, weights=weights * ~labels, minlength=distinct.size)
        table = self.hypotheses.labels
        if self.strategic:
            assert graph is not None
            table = graph.induced(table)
        accepted = table[:, distinct]
        wrong = np.asarray(accepted @ negative + (~accepted) @ positive, dtype=np.float64)
        return wrong, float(weights.sum())


def _weights(sample_weight: ArrayLike | None, n: int) -> FloatArray:
    if sample_weight is None:
        return np.ones(n)
    weights = check_float_array(sample_weight, "sample_weight", ndim=1)
    if weights.shape != (n,) or (weights < 0).any():
        raise InvalidInputError(f"sample_weight must be {n} non-negative numbers")
    return weights
