"""The game: an agent arrives, a rule is published, she moves, and the learner is told its share.

The game owns the information: it passes on what its setting reveals and hides the rest, so that a
learner cannot see too much even by accident, and it refuses learners that need more.

Source: "Setting", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.play import Game, Learner
from counterplay.core.seeds import RandomState, spawn
from counterplay.core.setting import Setting
from counterplay.core.validation import IntArray
from counterplay.errors import InformationError, InvalidInputError, OpenProblemError
from counterplay.strategic.learner import StrategicLearner
from counterplay.strategic.predictors import Predictor
from counterplay.strategic.settings import Feedback
from counterplay.strategic.transcript import StrategicTranscript


@checked
@dataclass(frozen=True)
class Reaction:
    """What happened to the agent of a round; the setting decides what the learner sees of it.

    Parameters
    ----------
    y:
        True label, 0 or 1.
    yhat:
        Decision, 0 or 1.
    report:
        What the agent reported.
    moved:
        Whether she left her own point.

    Examples
    --------
    >>> Reaction(y=0, yhat=1, report=3, moved=True).yhat
    1
    """

    y: int
    yhat: int
    report: Any = None
    moved: bool = False


class StrategicGame(Game[StrategicTranscript]):
    """Agents who respond to a published rule, and a setting that says what the learner sees."""

    setting: Setting
    on_graph = False

    def check(self, learner: Learner) -> None:
        """Refuse learners of other games, and those that need more than the setting reveals."""
        name = type(learner).__name__
        if not isinstance(learner, StrategicLearner):
            raise InvalidInputError(f"{name} publishes no rules; subclass StrategicLearner")
        if learner.on_graph != self.on_graph:
            there = "manipulation graphs" if learner.on_graph else "catalogues of rules"
            raise InvalidInputError(f"{name} is a learner for {there}, not for this game")
        if learner.open_problem and not self.setting.offers(learner.needs):
            raise OpenProblemError(
                f"{name} needs the setting {learner.needs.name!r}, this game gives "
                f"{self.setting.name!r}; {learner.open_problem}"
            )
        self.setting.require(learner.needs, name)

    def play_on(self, learner: StrategicLearner, rounds: int) -> StrategicTranscript:
        """Play up to ``rounds`` rounds more of a game that has started; return only these."""
        self.forget()
        for _ in range(rounds):
            if not self.arrive(learner):
                break
            learner.observe(self.respond(learner.act(self.seen())))
        return self.transcript(learner)

    @abstractmethod
    def forget(self) -> None:
        """Forget the rounds played so far, but not where the game stands."""


class CatalogueGame(StrategicGame):
    """Where applicants come from: a list, a distribution, or an adversary.

    Subclasses say who comes next (:meth:`next_agent`) and how she reacts (:meth:`react`).
    """

    _x: Any = None

    @property
    def has_balls(self) -> bool:
        """Whether the agents have radii, not arbitrary manipulation sets."""
        return True

    def check(self, learner: Learner) -> None:
        """Refuse learners that need to see more, or radii where there are none."""
        super().check(learner)
        assert isinstance(learner, StrategicLearner)
        if learner.ball_only and not self.has_balls:
            raise InformationError(
                f"{type(learner).__name__} reasons with distances, but these agents have "
                "manipulation sets that are no balls; use SequentialElimination or "
                "DeltaOnlyElimination"
            )

    def start(self, rounds: int = 0, random_state: RandomState = None) -> None:
        """Begin a new game; ``random_state`` seeds the order of agents."""
        self.forget()
        self.restart(None if random_state is None else spawn(random_state, 1)[0])

    def restart(self, random_state: RandomState = None) -> None:
        """Begin with the first agent again; a hook of :meth:`start`."""

    def forget(self) -> None:
        """Forget the rounds played so far."""
        self._log: list[tuple[int, int, bool, bool]] = []
        self._alive: list[int] = []

    @abstractmethod
    def next_agent(self, learner: StrategicLearner) -> Any | None:
        """Return the features of the next agent, or None to end the game.

        Adversaries may look at the learner here (its law, never its coins to come).
        """

    @abstractmethod
    def react(self, predictor: Predictor) -> Reaction:
        """Let the agent respond to the published rule."""

    def arrive(self, learner: Learner) -> bool:
        """Bring the next agent; False if there is none."""
        assert isinstance(learner, StrategicLearner)
        self._count_rules(learner)
        self._x = self.next_agent(learner)
        return self._x is not None

    def seen(self) -> Any:
        """The agent's features, if the setting shows them first."""
        return self._x if "x" in self.setting.before else None

    def respond(self, action: Predictor) -> Feedback:
        """Let the agent respond, and return what the setting lets the learner see of it."""
        reaction = self.react(action)
        self._log.append((reaction.y, reaction.yhat, reaction.y != reaction.yhat, reaction.moved))
        return feedback_of(reaction, self._x, self.setting)

    def transcript(self, learner: Learner) -> StrategicTranscript:
        """The rounds since the start."""
        assert isinstance(learner, StrategicLearner)
        self._count_rules(learner)
        rows = [(*row, alive) for row, alive in zip(self._log, self._alive)]
        return catalogue_transcript(learner, self.setting, np.array(rows, dtype=np.int64))

    def _count_rules(self, learner: StrategicLearner) -> None:
        """Note how many rules the last round left."""
        if len(self._alive) < len(self._log):
            self._alive.append(-1 if learner.remaining is None else learner.remaining)


def feedback_of(reaction: Reaction, x: Any, setting: Setting) -> Feedback:
    """Return what ``setting`` lets a learner see of a reaction."""
    return Feedback(
        y=reaction.y,
        yhat=reaction.yhat,
        x=x if "x" in setting.after else None,
        report=reaction.report if "report" in setting.after else None,
    )


def catalogue_transcript(
    learner: StrategicLearner, setting: Setting, log: IntArray
) -> StrategicTranscript:
    """Return the transcript for rows of (y, yhat, mistake, moved, alive)."""
    rules = getattr(learner, "hypotheses", None)
    table = log.reshape(-1, 5)
    columns = {
        "y": table[:, 0].astype(np.int8),
        "yhat": table[:, 1].astype(np.int8),
        "mistake": table[:, 2].astype(np.bool_),
        "moved": table[:, 3].astype(np.bool_),
        "alive": table[:, 4].copy(),
    }
    meta = {
        "learner": type(learner).__name__,
        "setting": setting.name,
        "rules": None if rules is None else rules.n,
        "bound": learner.mistake_bound(len(table)),
        "bound_in_expectation": learner.bound_in_expectation,
    }
    return StrategicTranscript(columns, meta)
