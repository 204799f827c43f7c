"""Applicants: a list in a given order, or an endless stream from a population.

Both are oblivious: the agents do not depend on the learner's coins, so that ``play(...,
fast=True)`` can decide many rounds at once.

Source: "Setting", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp

from counterplay.core.arguments import checked
from counterplay.core.play import Learner
from counterplay.core.seeds import RandomState, generator, spawn
from counterplay.core.setting import Setting
from counterplay.core.validation import check_choice, check_int, check_positive_int, check_size
from counterplay.errors import InvalidInputError, ProtocolError
from counterplay.strategic.agents import Agents
from counterplay.strategic.blocks import has_blocks, play_blocks, react
from counterplay.strategic.game import CatalogueGame, Reaction, catalogue_transcript
from counterplay.strategic.learner import StrategicLearner
from counterplay.strategic.predictors import TIES, Predictor, Tie
from counterplay.strategic.settings import FEATURES_FIRST, applicant_setting
from counterplay.strategic.transcript import StrategicTranscript

MOST_DRAWS = 50_000_000


class Population(ABC):
    """A distribution of agents."""

    has_balls: bool = True

    @abstractmethod
    def sample(self, m: int, random_state: RandomState = None) -> Agents:
        """Draw ``m`` agents independently."""


@checked
class EmpiricalPopulation(Population):
    """Agents drawn with replacement from a list.

    Parameters
    ----------
    agents:
        The list.

    Examples
    --------
    >>> people = Agents(X=[[0.0], [1.0]], y=[0, 1], radius=0.1)
    >>> len(EmpiricalPopulation(people).sample(1000, random_state=0))
    1000
    """

    def __init__(self, agents: Agents) -> None:
        if len(agents) == 0:
            raise InvalidInputError("agents must not be empty")
        self.agents = agents
        self.has_balls = agents.radius is not None

    def __repr__(self) -> str:
        return f"EmpiricalPopulation({self.agents!r})"

    def sample(self, m: int, random_state: RandomState = None) -> Agents:
        """Draw ``m`` agents with replacement."""
        count = check_draws(m)
        return self.agents.take(generator(random_state).integers(len(self.agents), size=count))


class ObliviousGame(CatalogueGame):
    """Agents that do not depend on the learner, handed out one by one or in blocks.

    With ``fast=True`` blocks of rounds are decided at once, for learners whose rules between two
    changes are independent draws (StrategicHalving, MWMR, union sampling, QuantileProbe, the
    elimination learners). The result has the same distribution as a game round by round, not the
    same coins; for StrategicHalving and SequentialElimination it is identical.
    """

    def __init__(self, setting: Setting | str, tie: Tie) -> None:
        self.setting = applicant_setting(setting)
        self.tie: Tie = check_choice(tie, "tie", TIES)
        self.used = 0
        self._coins = generator(0)
        self._current: tuple[Agents, int] | None = None
        self.forget()

    def check(self, learner: Learner) -> None:
        """Refuse learners that need to see more, and rules on other columns."""
        super().check(learner)
        source = getattr(self, "population", self)
        people, rules = getattr(source, "agents", None), getattr(learner, "hypotheses", None)
        if people is not None and rules is not None:
            people.match(rules)

    @property
    def coins(self) -> np.random.Generator:
        """Source of random ties."""
        return self._coins

    @abstractmethod
    def next_agents(self, count: int) -> Agents:
        """Hand out the next ``count`` agents, fewer only if there are no more."""

    @abstractmethod
    def _advance(self) -> tuple[Agents, int] | None:
        """Hand out one agent as a list and her number in it."""

    def next_agent(self, learner: StrategicLearner) -> Any | None:
        """Return the features of the next agent."""
        self._current = self._advance()
        return None if self._current is None else self._current[0].X[self._current[1]]

    def react(self, predictor: Predictor) -> Reaction:
        """Let the agent move if that turns a no into a yes."""
        if self._current is None:
            raise ProtocolError("no agent has arrived yet; call arrive first")
        agents, index = self._current
        return react(agents, predictor, self.tie, self._coins, index)

    def play_fast(
        self, learner: Learner, rounds: int, random_state: RandomState
    ) -> StrategicTranscript | None:
        """Play from the start in blocks; None for learners that cannot."""
        assert isinstance(learner, StrategicLearner)
        if not has_blocks(learner):
            return None
        self.restart(random_state)
        return self.play_on(learner, rounds)

    def play_on(self, learner: StrategicLearner, rounds: int) -> StrategicTranscript:
        """Play on with fresh agents, in blocks where the learner can."""
        if not has_blocks(learner):
            return super().play_on(learner, rounds)
        log = play_blocks(learner, self, rounds)
        return catalogue_transcript(learner, self.setting, log)


@checked
class Applicants(ObliviousGame):
    """A list of agents who apply one after the other.

    Parameters
    ----------
    agents:
        The list, in the order of arrival.
    setting:
        What the learner sees: ``"features_first"``, ``"features_after"``, ``"report_only"`` or
        ``"blind"``, see :mod:`counterplay.strategic.settings`.
    tie:
        Which of several accepted points of her set an agent without radius reports.
    shuffle:
        Whether every game plays the list in a new random order.
    random_state:
        Seed of the shuffle and of random ties.

    Examples
    --------
    >>> people = Agents(X=[[0.0], [1.0]], y=[0, 1], radius=0.1)
    >>> Applicants(people, setting="features_after")
    Applicants(2 agents, setting='features_after')

    References
    ----------
    "Setting", see docs/theory/02-strategic-finite.md.
    """

    def __init__(
        self,
        agents: Agents,
        setting: Setting | str = FEATURES_FIRST,
        *,
        tie: Tie = "first",
        shuffle: bool = False,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(setting, tie)
        if len(agents) == 0:
            raise InvalidInputError("agents must not be empty")
        self.agents = agents
        self.shuffle = bool(shuffle)
        self._order, self._coins = spawn(random_state, 2)
        self._queue = np.arange(len(agents))

    def __repr__(self) -> str:
        return f"Applicants({len(self.agents)} agents, setting={self.setting.name!r})"

    @property
    def rounds(self) -> int:
        """Number of applicants."""
        return len(self.agents)

    @property
    def has_balls(self) -> bool:
        """Whether the applicants have radii."""
        return self.agents.radius is not None

    def restart(self, random_state: RandomState = None) -> None:
        """Begin with the first applicant, reshuffled if asked for."""
        self.used = 0
        order = self._order if random_state is None else generator(random_state)
        if self.shuffle:
            self._queue = order.permutation(len(self.agents))

    def next_agents(self, count: int) -> Agents:
        """Hand out the next applicants in the queue."""
        count = check_int(count, "count", low=0)
        index = self._queue[self.used : self.used + count]
        self.used += index.size
        return self.agents.take(index)

    def _advance(self) -> tuple[Agents, int] | None:
        if self.used >= len(self.agents):
            return None
        self.used += 1
        return self.agents, int(self._queue[self.used - 1])


@checked
class ApplicantStream(ObliviousGame):
    """An endless stream of independent agents from a population.

    Parameters
    ----------
    population:
        Where the agents come from; a list of agents is sampled with replacement.
    setting:
        What the learner sees, see :mod:`counterplay.strategic.settings`.
    tie:
        Which of several accepted points of her set an agent without radius reports.
    random_state:
        Seed of the draws.
    block:
        How many agents are drawn at once; the stream depends on it.

    Examples
    --------
    >>> people = Agents(X=[[0.0], [1.0]], y=[0, 1], radius=0.1)
    >>> stream = ApplicantStream(people, setting="blind", random_state=0)
    >>> len(stream.next_agents(10_000)), stream.used
    (10000, 10000)

    References
    ----------
    "Setting", see docs/theory/02-strategic-finite.md.
    """

    def __init__(
        self,
        population: Population | Agents,
        setting: Setting | str = FEATURES_FIRST,
        *,
        tie: Tie = "first",
        random_state: RandomState = None,
        block: int = 4096,
    ) -> None:
        super().__init__(setting, tie)
        self.population = (
            EmpiricalPopulation(population) if isinstance(population, Agents) else population
        )
        self.block = check_positive_int(block, "block")
        self._draws, self._coins = spawn(random_state, 2)
        self._buffer: Agents | None = None
        self._position = 0

    def __repr__(self) -> str:
        return f"ApplicantStream({self.population!r}, setting={self.setting.name!r})"

    @property
    def has_balls(self) -> bool:
        """Whether the agents have radii."""
        return self.population.has_balls

    def next_agents(self, count: int) -> Agents:
        """Hand out ``count`` fresh agents."""
        count = check_draws(count, "count")
        parts = []
        missing = count
        while missing:
            if self._left == 0 and missing >= self.block:
                parts.append(self.population.sample(self.block, self._draws))
                missing -= self.block
                continue
            buffer = self._refilled()
            take = min(missing, self._left)
            parts.append(buffer.take(np.arange(self._position, self._position + take)))
            self._position += take
            missing -= take
        self.used += count
        return parts[0] if len(parts) == 1 else concatenate(parts)

    def _advance(self) -> tuple[Agents, int] | None:
        buffer = self._refilled()
        self._position += 1
        self.used += 1
        return buffer, self._position - 1

    def _refilled(self) -> Agents:
        if self._buffer is None or self._left == 0:
            self._buffer = self.population.sample(self.block, self._draws)
            self._position = 0
        return self._buffer

    @property
    def _left(self) -> int:
        return 0 if self._buffer is None else len(self._buffer) - self._position


def check_draws(count: Any, name: str = "m", width: int = 1) -> int:
    """Return a number of agents to draw, each of ``width`` numbers, that fits into memory."""
    number = check_int(count, name, low=0)
    check_size(number * width, MOST_DRAWS, "numbers to draw")
    return number


def concatenate(parts: list[Agents]) -> Agents:
    """Return all agents of several lists, in order."""
    ball = parts[0].radius is not None
    return Agents(
        X=np.concatenate([part.X for part in parts]),
        y=np.concatenate([part.y for part in parts]),
        radius=np.concatenate([part.reach for part in parts]) if ball else None,
        sets=None if ball else sp.vstack([part.sets for part in parts]),
    )
