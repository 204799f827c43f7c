"""What people would do instead on a known manipulation graph.

Source: "Baselines", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.finite_class import FiniteClass
from counterplay.core.online import Hedge
from counterplay.core.seeds import RandomState
from counterplay.core.validation import BoolArray, FloatArray, check_int, check_positive_int
from counterplay.core.version_space import VersionSpace
from counterplay.errors import NotRealizableError, ProtocolError
from counterplay.strategic.graphs.finite_learners import OnlineLearner
from counterplay.strategic.learner import StrategicLearner
from counterplay.strategic.settings import FEATURES_FIRST_GRAPH, REPORT_ONLY_GRAPH, Feedback


@checked
class BiasedMajorityVote(StrategicLearner):
    """Accept a node when a 1/(k+2) share of the remaining hypotheses does; finite classes only.

    At most ln|H| / -ln(1 - 1/(k+2)) mistakes, which the reductions improve on.

    Examples
    --------
    >>> from counterplay.strategic import instances, play
    >>> instance = instances.halving_trap(5, 2)
    >>> play(BiasedMajorityVote(instance.hypotheses, k=2), instance.people()).mistakes
    5
    """

    on_graph = True
    needs = REPORT_ONLY_GRAPH

    def __init__(self, hypotheses: FiniteClass, k: int) -> None:
        self.hypotheses, self.k = hypotheses, check_int(k, "k", low=0)
        self.space = VersionSpace(hypotheses)
        self.round = 0

    def act(self, seen: Any = None) -> BoolArray:
        """Accept nodes with enough votes."""
        self.round += 1
        votes = self.hypotheses.labels[self.space.alive].sum(axis=0)
        return np.asarray(votes * (self.k + 2) >= len(self.space), dtype=np.bool_)

    def observe(self, feedback: Feedback) -> None:
        """Delete the hypotheses that are refuted by a mistake."""
        if feedback.yhat == feedback.y:
            return
        labels, keep = self.hypotheses.labels, np.zeros(len(self.hypotheses), dtype=np.bool_)
        if feedback.y == 0:
            keep |= ~labels[:, feedback.report]
        else:
            keep |= labels[:, feedback.neighbourhood].any(axis=1)
        if not keep[self.space.alive].any():
            raise NotRealizableError(f"round {self.round}: every hypothesis is refuted",
                                     round=self.round)  # fmt: skip
        self.space.observe_mask(keep)


@checked
class StrategyUnawareOnline(StrategicLearner):
    """Run a standard learner on what is reported, as if nobody moved.

    Examples
    --------
    >>> from counterplay.strategic.lab import SOA
    >>> from counterplay.strategic.lab import Seen
    >>> learner = StrategyUnawareOnline(SOA(FiniteClass.singletons(3)))
    >>> learner.act(Seen(3))
    array([False, False, False])
    """

    on_graph = True
    needs = REPORT_ONLY_GRAPH

    def __init__(self, learner: OnlineLearner) -> None:
        self.learner = learner

    def act(self, seen: Any = None) -> BoolArray:
        """The learner's own prediction at every node."""
        return np.asarray(self.learner.predict(np.arange(seen.n)), dtype=np.bool_)

    def observe(self, feedback: Feedback) -> None:
        """Feed the reported node with its label; contradictions are ignored."""
        if feedback.yhat != feedback.y:
            changed = self.learner.updated(feedback.report, feedback.y)
            if not changed.is_dead():
                self.learner = changed


@checked
class HedgeOverH(StrategicLearner):
    """Hedge over the induced labels of a finite class; fully informed, agnostic.

    Examples
    --------
    >>> from counterplay.strategic import GraphApplicants, ManipulationGraph, play
    >>> graph = ManipulationGraph.from_lists([[1], []])
    >>> rules = FiniteClass.from_matrix([[0, 0], [0, 1]])
    >>> learner = HedgeOverH(rules, horizon=50, random_state=0)
    >>> play(learner, GraphApplicants(graph, [0] * 50, [1] * 50)).mistakes < 10
    True
    """

    on_graph = True
    needs = FEATURES_FIRST_GRAPH

    def __init__(
        self, hypotheses: FiniteClass, horizon: int, random_state: RandomState = None
    ) -> None:
        self.hypotheses = hypotheses
        self.hedge = Hedge()
        self.hedge.reset(len(hypotheses), check_positive_int(horizon, "horizon"), random_state)
        self._induced: FloatArray = np.zeros(0)

    def act(self, seen: Any = None) -> BoolArray:
        """Follow a drawn hypothesis' decision about this agent; nobody moves."""
        if seen.neighbourhood is None or seen.x is None:
            raise ProtocolError("HedgeOverH must see the agent's neighbourhood first")
        labels = self.hypotheses.labels[:, seen.neighbourhood]
        self._induced = np.asarray(labels.any(axis=1), dtype=np.float64)
        rule = np.zeros(seen.n, dtype=np.bool_)
        rule[seen.x] = bool(self._induced[self.hedge.act()])
        return rule

    def observe(self, feedback: Feedback) -> None:
        """Charge every hypothesis its strategic loss."""
        self.hedge.observe(np.abs(self._induced - feedback.y))
