"""The five information modes of learning on a manipulation graph, enforced by the environment.

The environment owns the graph, the agent and the label and hands out only what the mode allows, so
that a learner cannot cheat. Source: Sec. sec:model-uncertainty, spec 03, section 2.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from counterplay.core.seeds import RandomState, generator
from counterplay.core.transcript import Transcript
from counterplay.core.validation import BoolArray, IntArray, check_labels01
from counterplay.errors import InformationError, OpenProblemError
from counterplay.strategic.graphs.manipulation_graph import ManipulationGraph
from counterplay.strategic.graphs.response import Tie, respond


class Mode(Enum):
    """What the learner sees before and after it publishes its rule.

    FI: the agent and its neighbourhood before the decision. PMF_X: the agent afterwards. PMF_V:
    only where it went, afterwards. UG: the agent before, neighbourhoods never. UG_AFTER: the agent
    and its move afterwards, neighbourhoods never.

    Examples
    --------
    >>> [mode.name for mode in Mode]
    ['FI', 'PMF_X', 'PMF_V', 'UG', 'UG_AFTER']
    """

    FI = "fi"
    PMF_X = "pmf_x"
    PMF_V = "pmf_v"
    UG = "ug"
    UG_AFTER = "ug_after"


@dataclass(frozen=True)
class Before:
    """What is revealed before the rule is published."""

    x: int | None = None
    bag: IntArray | None = None


@dataclass(frozen=True)
class After:
    """What is revealed after the rule was published and the agent has moved."""

    y: int
    yhat: int
    v: int | None = None
    x: int | None = None
    bag: IntArray | None = None


class GraphLearner(ABC):
    """An online learner on a graph with nodes 0 to n-1; conservative: changes on mistakes only."""

    mode: Mode
    open_problem: str = ""
    """Why no version for other modes exists, where that is unknown to science."""

    def copy(self) -> GraphLearner:
        """An independent copy in the same state."""
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mode={self.mode.name})"

    @abstractmethod
    def publish(self, before: Before, n: int) -> BoolArray:
        """Return the rule of this round as a label per node."""

    @abstractmethod
    def observe(self, after: After) -> None:
        """Learn from what was revealed."""


_NEEDS = {  # modes whose feedback contains that of the key
    Mode.PMF_V: {Mode.PMF_V, Mode.PMF_X, Mode.FI},
    Mode.PMF_X: {Mode.PMF_X, Mode.FI},
    Mode.FI: {Mode.FI},
    Mode.UG: {Mode.UG, Mode.FI},
    Mode.UG_AFTER: {Mode.UG_AFTER, Mode.UG, Mode.PMF_X, Mode.FI},
}


@dataclass(frozen=True)
class GraphTranscript(Transcript):
    """Rounds on a manipulation graph: who came, where they went, what was decided.

    Examples
    --------
    >>> columns = {"x": [0, 1], "v": [1, 1], "yhat": [1, 0], "y": [0, 1]}
    >>> GraphTranscript({name: np.array(c) for name, c in columns.items()}, {}).mistakes
    2
    """

    @property
    def mistakes(self) -> int:
        """Number of wrong decisions."""
        return int(np.sum(self["yhat"] != self["y"]))

    @property
    def false_positives(self) -> int:
        """Accepted agents with label 0."""
        return int(np.sum((self["yhat"] == 1) & (self["y"] == 0)))

    @property
    def false_negatives(self) -> int:
        """Rejected agents with label 1."""
        return int(np.sum((self["yhat"] == 0) & (self["y"] == 1)))

    def summary(self) -> str:
        """Mistakes as text."""
        return (
            f"{len(self)} rounds, {self.mistakes} mistakes "
            f"({self.false_positives} false positives, {self.false_negatives} false negatives)"
        )


def _refusal(learner: GraphLearner, given: Mode) -> InformationError:
    needs = f"{type(learner).__name__} needs {learner.mode.name} feedback, this game gives"
    if learner.open_problem:
        return OpenProblemError(f"{needs} {given.name}; {learner.open_problem}")
    return InformationError(f"{needs} {given.name}")


class GraphGame:
    """One agent after the other on a manipulation graph.

    Parameters
    ----------
    graph:
        The true graph.
    mode:
        What the learner sees; a learner that needs more is refused.
    tie:
        Where agents go when several accepted neighbours exist.
    random_state:
        Seed of ``tie="uniform"``.

    Examples
    --------
    >>> from counterplay.core.finite_class import FiniteClass
    >>> from counterplay.core.online import SOA
    >>> from counterplay.strategic import ManipulationGraph, Red2OnlineFI
    >>> graph = ManipulationGraph.from_lists([[1], []])
    >>> learner = Red2OnlineFI(SOA(FiniteClass.from_matrix([[0, 0], [0, 1]])))
    >>> GraphGame(graph, Mode.FI).play(learner, [0, 0, 1], [1, 1, 1]).mistakes
    1
    """

    def __init__(
        self,
        graph: ManipulationGraph,
        mode: Mode,
        *,
        tie: Tie = "first",
        random_state: RandomState = None,
    ) -> None:
        self.graph, self.mode, self.tie = graph, mode, tie
        self._rng = generator(random_state)

    def __repr__(self) -> str:
        return f"GraphGame({self.graph!r}, {self.mode.name})"

    def round(self, learner: GraphLearner, x: int, y: int) -> tuple[BoolArray, After]:
        """Play one agent; return the published rule and what was revealed."""
        if self.mode not in _NEEDS[learner.mode]:
            raise _refusal(learner, self.mode)
        rule = np.asarray(learner.publish(self.announce(x), self.graph.n), dtype=np.bool_)
        v = respond(rule, x, self.graph, self.tie, self._rng)
        after = self.reveal(x, v, int(rule[v]), y, learner.mode)
        learner.observe(after)
        return rule, after

    def play(self, learner: GraphLearner, nodes: Iterable[int], y: Any) -> GraphTranscript:
        """Play a fixed sequence of agents."""
        rows = []
        labels = check_labels01(list(y))
        for x, label in zip(nodes, labels):
            rule, after = self.round(learner, int(x), int(label))
            v = respond(rule, int(x), self.graph, "first") if after.v is None else after.v
            rows.append((int(x), v, after.yhat, int(label)))
        table = np.array(rows, dtype=np.int64).reshape(-1, 4)
        names = ("x", "v", "yhat", "y")
        return GraphTranscript(
            {name: table[:, i] for i, name in enumerate(names)},
            {"learner": type(learner).__name__, "mode": self.mode.name},
        )

    def announce(self, x: int) -> Before:
        """What is told before the rule is published."""
        if self.mode is Mode.FI:
            return Before(x, self.graph.closed(x))
        if self.mode is Mode.UG:
            return Before(x)
        return Before()

    def reveal(self, x: int, v: int, yhat: int, y: int, wanted: Mode) -> After:
        """What a learner of mode ``wanted`` is told after the agent has moved."""
        if wanted in (Mode.UG, Mode.UG_AFTER):
            return After(y, yhat, v, x)
        if wanted is Mode.PMF_V:
            return After(y, yhat, v, None, self.graph.closed(v))
        return After(y, yhat, v, x, self.graph.closed(x))
