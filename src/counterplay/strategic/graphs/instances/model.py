"""What an instance on a manipulation graph is, and how an adversary plays against a learner."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from counterplay.core.finite_class import FiniteClass
from counterplay.core.validation import BoolArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.strategic.graphs.environment import (
    Before,
    GraphGame,
    GraphLearner,
    GraphTranscript,
)
from counterplay.strategic.graphs.graph_classes import ExplicitGraphClass, ProductGraphClass
from counterplay.strategic.graphs.manipulation_graph import ManipulationGraph
from counterplay.strategic.graphs.response import respond


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


class Opposite(GraphLearner):
    """Passes the rule through, then tells the learner that it was wrong."""

    def __init__(self, learner: GraphLearner) -> None:
        self.learner, self.mode, self.yhat = learner, learner.mode, 0

    def publish(self, before: Any, n: int) -> BoolArray:
        """The learner's rule."""
        return self.learner.publish(before, n)

    def observe(self, after: Any) -> None:
        """Reveal the opposite label."""
        self.yhat = after.yhat
        self.learner.observe(replace(after, y=1 - after.yhat))


class LazyRound:
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
        """Play the round; False when ``pick`` has no agent left."""
        rule = np.asarray(self.learner.publish(Before(), self.game.graph.n), dtype=np.bool_)
        chosen = self.pick(rule)
        if chosen is None:
            return False
        x, y = chosen
        v = respond(rule, x, self.game.graph, "first")
        self.learner.observe(self.game.reveal(x, v, int(rule[v]), y, self.learner.mode))
        self.row = (x, v, int(rule[v]), y)
        return True


def transcript(
    rows: list[tuple[int, int, int, int]], learner: GraphLearner, game: GraphGame
) -> GraphTranscript:
    """The rounds that were played, as a transcript."""
    table: IntArray = np.array(rows, dtype=np.int64).reshape(-1, 4)
    columns = {name: table[:, i] for i, name in enumerate(("x", "v", "yhat", "y"))}
    return GraphTranscript(columns, {"learner": type(learner).__name__, "mode": game.mode.name})
