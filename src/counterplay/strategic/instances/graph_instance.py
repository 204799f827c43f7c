"""What an instance on a manipulation graph is, and the games its adversaries play."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.finite_class import FiniteClass
from counterplay.core.play import Learner
from counterplay.core.setting import Setting
from counterplay.core.validation import BoolArray
from counterplay.errors import InvalidInputError
from counterplay.strategic.graphs.graph_classes import ExplicitGraphClass, ProductGraphClass
from counterplay.strategic.graphs.graph_game import GraphApplicants, GraphGame
from counterplay.strategic.graphs.manipulation_graph import ManipulationGraph
from counterplay.strategic.learner import StrategicLearner
from counterplay.strategic.settings import FEATURES_AFTER_GRAPH, Seen


@checked
@dataclass(frozen=True, eq=False)
class GraphInstance:
    """A class of rules on a graph, and what theory says about it.

    Attributes
    ----------
    hypotheses:
        Rules on the nodes.
    graph:
        The (true) graph.
    expected:
        Numbers the theory gives for this instance.
    make_adversary:
        The adversary's game, made of the instance and a setting.
    setting:
        What the theorem lets a learner see.
    graphs:
        Candidate graphs, where the graph is unknown.
    nodes:
        A fixed sequence of agents, where the instance has one.
    labels:
        Their labels.
    """

    hypotheses: FiniteClass
    graph: ManipulationGraph
    expected: dict[str, Any]
    make_adversary: Callable[[GraphInstance, Setting], GraphAdversary] | None = None
    setting: Setting = FEATURES_AFTER_GRAPH
    graphs: ExplicitGraphClass | ProductGraphClass | None = None
    nodes: tuple[int, ...] = ()
    labels: tuple[int, ...] = ()

    def adversary(self, setting: Setting | None = None) -> GraphAdversary:
        """A fresh adversary: a game to play; default: in the setting of the theorem."""
        if self.make_adversary is None:
            raise InvalidInputError("this instance has no adversary")
        return self.make_adversary(self, self.setting if setting is None else setting)

    def people(self, setting: Setting | None = None) -> GraphApplicants:
        """The fixed sequence of agents as a game."""
        if not self.nodes:
            raise InvalidInputError("this instance has no fixed sequence; play its adversary")
        chosen = self.setting if setting is None else setting
        return GraphApplicants(self.graph, self.nodes, self.labels, setting=chosen)


class GraphAdversary(GraphGame):
    """Chooses agents and labels while looking at the rule; realizable in the end."""

    def __init__(self, instance: GraphInstance, setting: Setting) -> None:
        self.instance = instance
        super().__init__(instance.graph, setting)


class LazyAdversary(GraphAdversary):
    """Chooses the agent after the rule is published, so that her features cannot be seen first."""

    def __init__(self, instance: GraphInstance, setting: Setting) -> None:
        super().__init__(instance, setting)
        if "x" in self.setting.before:
            raise InvalidInputError(
                "this adversary chooses the agent after the rule; use a setting in which features "
                f"are not seen first, not {self.setting.name!r}"
            )

    def next_rule(self, learner: Learner) -> BoolArray:
        """The rule that a deterministic learner is about to publish."""
        assert isinstance(learner, StrategicLearner)
        return np.asarray(learner.copy().act(Seen(self.graph.n)), dtype=np.bool_)

    def answer(self, rule: BoolArray) -> tuple[int, int, int]:
        """Let the agent move whom the rule is wrong about."""
        x, y = self.pick(rule)
        return x, self.moved(rule, x), y

    @abstractmethod
    def pick(self, rule: BoolArray) -> tuple[int, int]:
        """The agent and her label."""
