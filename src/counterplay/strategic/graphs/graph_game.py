"""People on a manipulation graph, one after the other; the game hands out only what it may.

The game owns the graph, the agent and the label, so that a learner cannot cheat. A rule is one
label per node.

Source: "Who sees what", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.play import Learner
from counterplay.core.seeds import RandomState, generator
from counterplay.core.setting import Setting
from counterplay.core.validation import BoolArray, IntArray, check_labels01
from counterplay.errors import InvalidInputError
from counterplay.strategic.game import StrategicGame
from counterplay.strategic.graphs.manipulation_graph import ManipulationGraph, check_nodes
from counterplay.strategic.graphs.response import Tie, respond
from counterplay.strategic.learner import StrategicLearner
from counterplay.strategic.settings import (
    FEATURES_FIRST_GRAPH,
    Feedback,
    Seen,
    graph_setting,
)
from counterplay.strategic.transcript import StrategicTranscript


class GraphGame(StrategicGame):
    """Base of the games on a graph: subclasses say who comes and which label she has.

    Parameters
    ----------
    graph:
        The true graph.
    setting:
        What the learner sees, see :mod:`counterplay.strategic.settings`.
    tie:
        Where agents go when several accepted neighbours exist: ``"first"``, ``"uniform"`` or a
        function of them.
    random_state:
        Seed of ``tie="uniform"``.
    """

    on_graph = True

    def __init__(
        self,
        graph: ManipulationGraph,
        setting: Setting | str = FEATURES_FIRST_GRAPH,
        *,
        tie: Tie = "first",
        random_state: RandomState = None,
    ) -> None:
        self.graph, self.setting, self.tie = graph, graph_setting(setting), tie
        self._rng = generator(random_state)
        self._wanted = self.setting
        self.x = -1
        self.forget()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.graph!r}, setting={self.setting.name!r})"

    def check(self, learner: Learner) -> None:
        """Refuse learners that need more; the others are told what they need, not more."""
        super().check(learner)
        assert isinstance(learner, StrategicLearner)
        self._wanted = learner.needs

    def start(self, rounds: int = 0, random_state: RandomState = None) -> None:
        """Begin with the first agent; ``random_state`` seeds uniform ties anew."""
        if random_state is not None:
            self._rng = generator(random_state)
        self.forget()

    def forget(self) -> None:
        """Forget the rounds played so far."""
        self._rows: list[tuple[int, int, int, int]] = []

    def seen(self) -> Seen:
        """The agent and her neighbourhood, as far as they are shown first."""
        return self.announce(self.x)

    def announce(self, x: int) -> Seen:
        """What is told about an agent at ``x`` before the rule is published."""
        before = self.setting.before
        return Seen(
            self.graph.n,
            x if "x" in before else None,
            self.graph.closed(x) if "neighbourhood" in before else None,
        )

    def respond(self, action: ArrayLike) -> Feedback:
        """Let the agent move, and return what the learner may see of it."""
        rule = np.asarray(action, dtype=np.bool_)
        if rule.shape != (self.graph.n,):
            raise InvalidInputError(
                f"the rule must be one label per node ({self.graph.n}), got shape {rule.shape}"
            )
        x, report, y = self.answer(rule)
        yhat = int(rule[report])
        self._rows.append((x, report, yhat, y))
        return self.reveal(x, report, yhat, y, self._wanted)

    @abstractmethod
    def answer(self, rule: BoolArray) -> tuple[int, int, int]:
        """Who came, where she went and her label: (x, report, y)."""

    def moved(self, rule: BoolArray, x: int) -> int:
        """Where an agent at ``x`` goes."""
        return respond(rule, x, self.graph, self.tie, self._rng)

    def reveal(self, x: int, report: int, yhat: int, y: int, wanted: Setting) -> Feedback:
        """What a learner made for the setting ``wanted`` is told after the agent has moved."""
        shown = "x" in wanted.after
        bag = None
        if "neighbourhood" in wanted.after:
            bag = self.graph.closed(x if shown else report)
        return Feedback(y, yhat, x if shown else None, report, bag)

    def transcript(self, learner: Learner) -> StrategicTranscript:
        """The rounds since the start."""
        table: IntArray = np.array(self._rows, dtype=np.int64).reshape(-1, 4)
        columns = {name: table[:, i] for i, name in enumerate(("x", "report", "yhat", "y"))}
        meta = {"learner": type(learner).__name__, "setting": self.setting.name}
        return StrategicTranscript(columns, meta)


@checked
class GraphApplicants(GraphGame):
    """A list of people on a manipulation graph, one after the other.

    Parameters
    ----------
    graph:
        The true graph.
    nodes:
        Where each person is, in the order of arrival.
    y:
        True labels, 0 or 1.
    setting:
        What the learner sees; a learner that needs more is refused.
    tie:
        Where people go when several accepted neighbours exist.
    random_state:
        Seed of ``tie="uniform"``.

    Examples
    --------
    >>> from counterplay.core.finite_class import FiniteClass
    >>> from counterplay.strategic.lab import SOA
    >>> from counterplay.strategic import ManipulationGraph, play
    >>> from counterplay.strategic.lab import Red2OnlineFI
    >>> graph = ManipulationGraph.from_lists([[1], []])
    >>> learner = Red2OnlineFI(SOA(FiniteClass.from_matrix([[0, 0], [0, 1]])))
    >>> people = GraphApplicants(graph, [0, 0, 1], [1, 1, 1])
    >>> play(learner, people).summary()
    'Red2OnlineFI in setting features_first, graph known: 1 mistakes in 3 rounds (0 accepted, \
1 rejected wrongly)'

    References
    ----------
    "Who sees what", see docs/theory/03-strategic-infinite.md.
    """

    def __init__(
        self,
        graph: ManipulationGraph,
        nodes: ArrayLike | Iterable[int],
        y: ArrayLike,
        *,
        setting: Setting | str = FEATURES_FIRST_GRAPH,
        tie: Tie = "first",
        random_state: RandomState = None,
    ) -> None:
        super().__init__(graph, setting, tie=tie, random_state=random_state)
        listed = list(nodes) if isinstance(nodes, Iterable) and np.ndim(nodes) else nodes  # type: ignore[arg-type]  # any sequence
        self.nodes = check_nodes(listed, graph.n)  # type: ignore[arg-type]
        self.y = check_labels01(y)
        if self.nodes.shape != self.y.shape:
            raise InvalidInputError(
                f"there are {self.nodes.size} nodes but {self.y.size} labels; give one label each"
            )

    @property
    def rounds(self) -> int:
        """Number of people."""
        return int(self.nodes.size)

    def start(self, rounds: int = 0, random_state: RandomState = None) -> None:
        """Begin with the first person."""
        super().start(rounds, random_state)
        self._used = 0

    def arrive(self, learner: Learner) -> bool:
        """Bring the next person."""
        if self._used >= self.nodes.size:
            return False
        self.x, self._label = int(self.nodes[self._used]), int(self.y[self._used])
        self._used += 1
        return True

    def answer(self, rule: BoolArray) -> tuple[int, int, int]:
        """The person moves if that turns a no into a yes."""
        return self.x, self.moved(rule, self.x), self._label
