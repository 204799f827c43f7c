"""Many rounds at once: the same game, a block of agents at a time.

Between two changes of the version space the published rules are independent draws, so a whole block
of rounds is decided at once: the rank of the published rule among the distances against the number
of distances within the agent's radius. Only rounds that change something are played one by one, by
the learner itself and with the feedback its setting allows.

Source: Algorithm 2.2, see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from counterplay.core.setting import Setting
from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.strategic.agents import Agents
from counterplay.strategic.game import Reaction, feedback_of
from counterplay.strategic.learner import StrategicLearner, VersionSpaceLearner
from counterplay.strategic.metrics import Points
from counterplay.strategic.predictors import Predictor, Tie, UnionPredictor

_MAX_BLOCK = 4096
_MAX_CELLS = 4_000_000


class AgentSource(Protocol):
    """A game that can hand out many agents at once."""

    setting: Setting
    tie: Tie

    @property
    def coins(self) -> np.random.Generator: ...  # noqa: D102

    def next_agents(self, count: int) -> Agents: ...  # noqa: D102


def has_blocks(learner: StrategicLearner) -> bool:
    """Whether the rules of ``learner`` between two changes can be drawn at once."""
    return isinstance(learner, VersionSpaceLearner) and (
        hasattr(learner, "block_ranks") or hasattr(learner, "block_positions")
    )


def play_blocks(learner: StrategicLearner, game: AgentSource, rounds: int) -> IntArray:
    """Play up to ``rounds`` rounds; return rows of (y, yhat, mistake, moved, alive)."""
    assert isinstance(learner, VersionSpaceLearner)
    parts = []
    done, block = 0, 256
    while done < rounds:
        size = min(block, max(1, _MAX_CELLS // learner.remaining), rounds - done)
        agents = game.next_agents(size)
        if len(agents) == 0:
            break
        parts.append(_Block(learner, game, agents).run())
        done += len(agents)
        block = min(2 * block, _MAX_BLOCK)
    return np.concatenate(parts) if parts else np.empty((0, 5), dtype=np.int64)


def react(
    agents: Agents, predictor: Predictor, tie: Tie, coins: np.random.Generator, index: int = 0
) -> Reaction:
    """Return the reaction of one agent to a published rule."""
    X: Points = agents.X[index : index + 1]
    y = int(agents.y[index])
    if agents.radius is None:
        one = agents.take([index])
        reported, yes = predictor.respond(one, tie=tie, random_state=coins)
        moved = bool(reported[0] != one.X[0])
        return Reaction(y=y, yhat=int(yes[0]), report=reported[0], moved=moved)
    distance = float(predictor.distance(X)[0])
    accepted = distance <= agents.radius[index] + agents.atol
    moved = accepted and distance > 0
    report = predictor.nearest(X)[0] if moved else predictor.shown(X)[0]
    return Reaction(y=y, yhat=int(accepted), report=report, moved=bool(moved))


class _Block:
    """One block of agents, played with counts that are updated when rules go."""

    def __init__(
        self,
        learner: VersionSpaceLearner,
        game: AgentSource,
        agents: Agents,
    ) -> None:
        self.learner, self.game, self.agents = learner, game, agents
        self.y = agents.y > 0
        self.distances: FloatArray | None = None
        self._prepare()

    def _prepare(self) -> None:
        """Tabulate, for the rules alive now, whom each of them accepts."""
        learner, agents = self.learner, self.agents
        self.start_alive = self.alive = learner.alive
        if agents.radius is not None:
            self.distances = learner.hypotheses.distances(agents.X, self.start_alive)
            self.within = (self.distances <= agents.reach[:, None]).T
            self.at_home = (self.distances == 0).T
        else:
            self.within = agents.accepted(learner.hypotheses, self.start_alive).T
            self.at_home = learner.hypotheses.predict(agents.X, self.start_alive).T
        self.within = np.ascontiguousarray(self.within)
        self.at_home = np.ascontiguousarray(self.at_home)
        low, high = learner.radius_range
        self.safe = learner.filter == "safe"
        if self.safe and self.distances is not None:
            self.below = np.ascontiguousarray((self.distances <= low).T)
            beyond = (self.distances > high) | np.isinf(self.distances)
            self.beyond = np.ascontiguousarray(beyond.T)
        self.n_within = self.within.sum(axis=0, dtype=np.int64)
        self.n_home = self.at_home.sum(axis=0, dtype=np.int64)
        if self.safe:
            self.n_below = self.below.sum(axis=0, dtype=np.int64)
            self.n_beyond = self.beyond.sum(axis=0, dtype=np.int64)

    def _discount(self) -> None:
        """Subtract the rules that went in the last event."""
        now = self.learner.alive
        if now.size > self.alive.size:  # a restart brought rules back
            self._prepare()
            return
        gone = np.searchsorted(self.start_alive, np.setdiff1d(self.alive, now, assume_unique=True))
        if gone.size:
            self.n_within -= self.within[gone].sum(axis=0, dtype=np.int64)
            self.n_home -= self.at_home[gone].sum(axis=0, dtype=np.int64)
            if self.safe:
                self.n_below -= self.below[gone].sum(axis=0, dtype=np.int64)
                self.n_beyond -= self.beyond[gone].sum(axis=0, dtype=np.int64)
        self.alive = now

    def run(self) -> IntArray:
        """Play the block; return rows of (y, yhat, mistake, moved, alive)."""
        size = len(self.agents)
        log = np.empty((size, 5), dtype=np.int64)
        position = 0
        while position < size:
            yhat, home, ranks, columns = self._decide(position)
            event = self._events(position, yhat)
            hit = int(np.argmax(event)) if event.any() else event.size
            stop = min(position + hit + 1, size) if hit < event.size else size
            rows = slice(position, stop)
            count = stop - position
            log[rows, 0] = self.y[rows]
            log[rows, 1] = yhat[:count]
            log[rows, 2] = yhat[:count] != self.y[rows]
            log[rows, 3] = yhat[:count] & ~home[:count]
            log[rows, 4] = self.learner.remaining
            if hit < event.size:
                self.learner.version_space.tick(hit)
                self._play(position + hit, ranks, columns, hit)
                log[stop - 1, 4] = self.learner.remaining
                self._discount()
            else:
                self.learner.version_space.tick(count)
                self.learner.mistakes += int(log[rows, 2].sum())  # only a stopped learner has some
            position = stop
        return log

    def _decide(self, start: int) -> tuple[BoolArray, BoolArray, Any, Any]:
        """Decide all rounds from ``start`` on with the current version space."""
        m, count = self.learner.remaining, len(self.agents) - start
        positions = getattr(self.learner, "block_positions", lambda *_: None)(m, count)
        if positions is not None:
            columns = np.searchsorted(self.start_alive, self.learner.alive[positions])
            rows = np.arange(start, start + count)
            return self.within[columns, rows], self.at_home[columns, rows], None, columns
        ranks = self.learner.block_ranks(m, count)  # type: ignore[attr-defined]  # see _has_blocks
        return self.n_within[start:] > ranks, self.n_home[start:] > ranks, ranks, None

    def _events(self, start: int, yhat: BoolArray) -> BoolArray:
        """Return the rounds that change the learner."""
        y = self.y[start:]
        mistake: BoolArray = yhat != y
        if self.learner.stopped:
            mistake = mistake & False
        elif self.safe:
            mistake = mistake | np.where(y, self.n_beyond[start:] > 0, self.n_below[start:] > 0)
        return mistake

    def _play(self, index: int, ranks: Any, columns: Any, offset: int) -> None:
        """Play one round that changes something, through the learner's own observe."""
        learner, agents = self.learner, self.agents
        alive = learner.alive
        if columns is None:
            assert self.distances is not None
            row = self.distances[index, np.searchsorted(self.start_alive, alive)]
            member = alive[np.argpartition(row, ranks[offset])[ranks[offset]]]
        else:
            member = self.start_alive[columns[offset]]
        published = UnionPredictor(learner.hypotheses, [member])
        reaction = react(agents, published, self.game.tie, self.game.coins, index)
        learner.resume(published)
        learner.observe(feedback_of(reaction, agents.X[index], self.game.setting))
