"""Fast simulation: the same game, a block of agents at a time.

Between two changes of the version space the published rules are independent draws, so a whole block
of rounds is decided at once: the rank of the published rule among the distances against the number
of distances within the agent's radius. Only rounds that change something are played one by one, by
the learner itself and with the feedback its setting allows.
Source: spec 02 section 3.5, "Simulation fast path".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.core.seeds import RandomState
from counterplay.core.validation import BoolArray, FloatArray, IntArray, check_int
from counterplay.errors import ProtocolError
from counterplay.strategic.agents import Agents
from counterplay.strategic.environments import ObliviousEnvironment, react
from counterplay.strategic.learner import VersionSpaceLearner
from counterplay.strategic.predictors import UnionPredictor
from counterplay.strategic.protocol import (
    Environment,
    Learner,
    StrategicTranscript,
    check_match,
    make_transcript,
    play_rounds,
)
from counterplay.strategic.settings import Feedback, Setting

_MAX_BLOCK = 4096
_MAX_CELLS = 4_000_000


def simulate(
    environment: Environment,
    learner: Learner,
    setting: Setting | str | None = None,
    T: int | None = None,
    *,
    random_state: RandomState = None,
) -> StrategicTranscript:
    """Play a game as :func:`play` does, in blocks where that is possible.

    Use it for long runs: for learners whose rules between two changes are independent draws
    (StrategicHalving, MWMR, union sampling, QuantileProbe, the elimination learners) and agents
    that do not depend on the learner, whole blocks of rounds are decided at once. The result has
    the same distribution as :func:`play`, not the same coins; for StrategicHalving and
    SequentialElimination it is identical.

    Parameters
    ----------
    environment:
        Supplies the agents.
    learner:
        Publishes the rules.
    setting:
        What the learner sees; default: the environment's setting.
    T:
        Number of rounds; default: until the environment ends.
    random_state:
        Seed of the environment's coins.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.strategic import Agents, Applicants, LinearClass, MWMR, simulate
    >>> rng = np.random.default_rng(0)
    >>> rules = LinearClass(rng.normal(size=(512, 5)), rng.normal(size=512))
    >>> X, r = rng.normal(size=(20_000, 5)), rng.exponential(0.5, size=20_000)
    >>> people = Agents.from_target(rules, X, radius=r, target=17)
    >>> learner = MWMR(rules, random_state=0)
    >>> game = simulate(Applicants(people, "bot_xdelta"), learner)
    >>> len(game), learner.alive
    (20000, array([17]))

    References
    ----------
    Spec 02 section 3.5.
    """
    chosen = check_match(learner, environment, setting)
    total = environment.length if T is None else check_int(T, "T", low=0)
    if total is None:
        raise ProtocolError("this environment has no end; say how many rounds to play")
    environment.start(random_state)
    return simulate_rounds(learner, environment, chosen, total)


def simulate_rounds(
    learner: Learner, environment: Environment, setting: Setting, rounds: int
) -> StrategicTranscript:
    """Play up to ``rounds`` rounds of a game that has started, in blocks where possible."""
    if not isinstance(environment, ObliviousEnvironment) or not _has_blocks(learner):
        return play_rounds(learner, environment, setting, rounds)
    assert isinstance(learner, VersionSpaceLearner)
    parts = []
    done, block = 0, 256
    while done < rounds:
        size = min(block, max(1, _MAX_CELLS // learner.remaining), rounds - done)
        agents = environment.next_agents(size)
        if len(agents) == 0:
            break
        parts.append(_Block(learner, environment, setting, agents).run())
        done += len(agents)
        block = min(2 * block, _MAX_BLOCK)
    log = np.concatenate(parts) if parts else np.empty((0, 5), dtype=np.int64)
    return make_transcript(learner, setting, log)


def _has_blocks(learner: Learner) -> bool:
    return isinstance(learner, VersionSpaceLearner) and (
        hasattr(learner, "block_ranks") or hasattr(learner, "block_positions")
    )


class _Block:
    """One block of agents, played with counts that are updated when rules go."""

    def __init__(
        self,
        learner: VersionSpaceLearner,
        environment: ObliviousEnvironment,
        setting: Setting,
        agents: Agents,
    ) -> None:
        self.learner = learner
        self.environment = environment
        self.setting = setting
        self.agents = agents
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
        reaction = react(agents, published, self.environment.tie, self.environment.coins, index)
        learner.resume(published)
        learner.observe(
            Feedback(
                y=reaction.y,
                yhat=reaction.yhat,
                x=agents.X[index] if "x" in self.setting.after else None,
                delta=reaction.delta if "delta" in self.setting.after else None,
            )
        )
