"""The guard under bandit feedback: one fuse per model that counts only its own live rounds.

Rounds are grouped into epochs; at the start of each a model is drawn from exponential weights over
the allowed models. An outcome moves the fuse of the model that was live at its decision. A model
whose fuse blows rests, longer each time; a purse may hand over to a safe model. The state is a
function of the seed and of the events, so that a stored guard is a log.
Source: docs/theory/26-people.md, "The live guard".
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Literal

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.tradeoff.evidence import Alarm, Evidence

Mode = Literal["epoch", "stand-in", "safe"]
Missing = Literal["ignore", "worst"]
_FLOOR = 1e-300


@dataclass(frozen=True)
class GuardSettings:
    """Parameters of the guard, checked."""

    n_models: int
    horizon: int
    rate: float
    burst: float
    champion: int | None
    safe: int | None
    purse: float | None
    max_delay: int
    missing: Missing
    adaptive: bool

    @property
    def epoch(self) -> int:
        """Rounds of an epoch."""
        return max(1, round(math.cbrt(self.horizon)))

    @property
    def least_rate(self) -> float:
        """The fixed learning rate."""
        K, N = self.n_models, math.ceil(self.horizon / self.epoch)
        return math.sqrt(math.log(K) / ((K - 1) * N)) if K > 1 else 1.0


@dataclass
class Epoch:
    """Rounds with one drawn model."""

    start: int
    model: int
    probability: float
    allowed: FloatArray
    teaches: bool
    cut: bool = False
    waiting: int = 0
    total: float = 0.0
    seen: int = 0
    closed: int = -1
    """Last round, once it is over."""


@dataclass
class Open:
    """A decision whose outcome has not arrived."""

    round: int
    model: int
    epoch: Epoch


class LiveGuard:
    """Decides who is live and learns from late outcomes of whoever was live.

    Parameters
    ----------
    settings:
        Parameters.
    seed:
        Of the draws.
    """

    def __init__(self, settings: GuardSettings, seed: int) -> None:
        K = settings.n_models
        self.settings, self.rng = settings, np.random.default_rng(seed)
        self.prior = np.full(K, 1.0 / K)
        if settings.champion is not None and K > 1:
            self.prior = np.full(K, 0.5 / (K - 1))
            self.prior[settings.champion] = 0.5
        self.rest = max(1, settings.horizon // 16)
        self.regret, self.variance = np.zeros(K), 0.0
        self.eta = settings.least_rate
        if settings.adaptive:
            self.eta = max(self.eta, min(1.0, math.sqrt(math.log(max(K, 2)))))
        self.spent = 0.0  # sum of eta v
        self.level, self.until = [0.0] * K, [-1] * K  # fuse; first round after the rest
        self.resting, self.downs = [False] * K, [0] * K
        self.next_return = settings.horizon
        self.returns, self.rounds, self.missing = 0, 0, 0
        self.delay = settings.max_delay
        self.excess, self.in_safe, self.safe_rounds = 0.0, False, 0
        self.void_since: int | None = None
        self.epoch: Epoch | None = None
        self.standin: int | None = None
        self.unsettled: deque[Epoch] = deque()
        self.open: dict[int, Open] = {}
        self.live_rounds = [0] * K
        self.harm, self.primary, self.judged = [0.0] * K, [0.0] * K, [0] * K
        self.switches: list[tuple[int, int]] = []
        self.alarms: list[Alarm] = []
        self.evidence = Evidence(K, settings.rate)
        self.queues: list[deque[list[float | int | None]]] = [deque() for _ in range(K)]

    @property
    def threshold(self) -> float:
        """Where the purse hands over to the safe model."""
        purse, rate = self.settings.purse, self.settings.rate
        return math.inf if purse is None else max(0.0, purse - (1 - rate) * self.delay)

    def act(self) -> tuple[int, int, float, Mode]:
        """Return id, model, probability and mode of the next decision."""
        settings, t = self.settings, self.rounds
        if t >= self.next_return:
            self._wake(t)
        self._settle(t)
        if self.in_safe and self.excess <= self.threshold / 2:
            self.in_safe, self.epoch = False, None
        if self.epoch is None or t - self.epoch.start >= settings.epoch:
            self._new_epoch(t)
        epoch = self.epoch
        assert epoch is not None  # just made
        if self.in_safe and settings.safe is not None:
            model, chance, mode = settings.safe, 1.0, "safe"
            self.safe_rounds += 1
        elif self.standin is not None:
            model, chance, mode = self.standin, epoch.probability, "stand-in"
        else:
            model, chance, mode = epoch.model, epoch.probability, "epoch"
        if not self.switches or self.switches[-1][1] != model:
            self.switches.append((t, model))
        self.live_rounds[model] += 1
        epoch.waiting += 1
        self.open[t] = Open(t, model, epoch)
        self.queues[model].append([t, None])
        self.rounds += 1
        return t, model, chance, mode  # type: ignore[return-value]  # one of the three modes

    def observe(self, number: int, primary: float, secondary: float) -> int:
        """Take the outcome of a decision; return by how many rounds it is late."""
        decision = self.open.pop(number)
        late = self.rounds - 1 - decision.round
        self.delay = max(self.delay, late)
        model, epoch = decision.model, decision.epoch
        self.harm[model] += secondary
        self.primary[model] += primary
        self.judged[model] += 1
        # a stand-in's loss is not the drawn model's: the epoch is cut and counts as 1
        if model == epoch.model:
            epoch.total += primary
            epoch.seen += 1
        epoch.waiting -= 1
        for entry in self.queues[model]:
            if entry[0] == number:
                entry[1] = secondary
                break
        self._advance(model)
        self._fuse(model, secondary)
        return late

    def forget(self, number: int) -> None:
        """An outcome will never come."""
        decision = self.open.pop(number)
        self.missing += 1
        decision.epoch.waiting -= 1
        self.queues[decision.model] = deque(
            e for e in self.queues[decision.model] if e[0] != number
        )
        if self.settings.missing == "worst":
            self._fuse(decision.model, 1.0)

    def allowed(self) -> FloatArray:
        """Return 1 for every model that may be drawn."""
        return 1.0 - np.array(self.resting, dtype=np.float64)

    def chances(self, allowed: FloatArray) -> FloatArray:
        """Return the distribution of the draw over the allowed models."""
        logs = np.where(allowed > 0, np.log(self.prior + _FLOOR) + self.eta * self.regret, -np.inf)
        parts = np.exp(logs - logs.max())
        return np.asarray(parts / parts.sum())

    def _new_epoch(self, t: int) -> None:
        """Close the old epoch and draw a model; nobody allowed voids the guarantees."""
        if self.epoch is not None:
            self.epoch.closed = t - 1
        self.standin = None
        allowed = self.allowed()
        if not allowed.any():
            model, chance = self._last_resort(t), 1.0
        else:
            p = self.chances(allowed)
            model = int(np.searchsorted(np.cumsum(p), self.rng.random() * p.sum()))
            model = min(model, len(p) - 1)
            chance = float(p[model])
        self.epoch = Epoch(t, model, chance, allowed, not self.in_safe and bool(allowed.any()))
        self.unsettled.append(self.epoch)

    def _last_resort(self, t: int) -> int:
        if self.void_since is None:
            self.void_since = t
        if self.settings.safe is not None:
            return self.settings.safe
        return int(np.argmin(self.downs))

    def _settle(self, t: int) -> None:
        """Learn from epochs that are over and whose outcomes are in, or overdue."""
        while self.unsettled:
            epoch = self.unsettled[0]
            over = epoch.closed >= 0 or t - epoch.start >= self.settings.epoch
            last = epoch.closed if epoch.closed >= 0 else epoch.start + self.settings.epoch - 1
            if not over or (epoch.waiting > 0 and t <= last + self.settings.max_delay):
                return
            self.unsettled.popleft()
            if epoch.teaches and (epoch.cut or epoch.seen):
                self._learn(epoch)

    def _learn(self, epoch: Epoch) -> None:
        """``R_j += loss - est_j`` for the allowed models; sleeping ones keep theirs."""
        loss = 1.0 if epoch.cut else epoch.total / epoch.seen
        estimate = np.zeros(len(self.regret))
        estimate[epoch.model] = loss / epoch.probability
        v = loss**2 * (1.0 / epoch.probability - 1.0)
        self.regret += epoch.allowed * (loss - estimate)
        self.spent += self.eta * v
        self.variance += v
        if self.settings.adaptive:
            K = self.settings.n_models
            wanted = min(1.0, math.sqrt(math.log(max(K, 2)) / (1 + self.variance)))
            self.eta = min(self.eta, max(self.settings.least_rate, wanted))  # may only fall

    def _fuse(self, model: int, harm: float) -> None:
        """Move the fuse of the model and the purse, in order of arrival."""
        settings, t = self.settings, self.rounds
        self.level[model] = max(0.0, self.level[model]) + harm - settings.rate
        if settings.purse is not None:
            self.excess = max(0.0, self.excess) + harm - settings.rate
            if not self.in_safe and self.excess > self.threshold:
                self.in_safe = True
                self._cut(t)
        if self.level[model] > settings.burst and not self.resting[model]:
            self._take_down(model, t)

    def _take_down(self, model: int, t: int) -> None:
        rest = self.rest * 2 ** self.downs[model]
        self.resting[model], self.until[model] = True, t + rest
        self.next_return = min(self.next_return, t + rest)
        self.downs[model] += 1
        told = f"model {model} exceeded the burst in round {t} and rests for {rest} rounds"
        self.alarms.append(Alarm(t, model, "taken down", self.level[model], told))
        live = self.standin if self.standin is not None else (self.epoch and self.epoch.model)
        if live == model and not self.in_safe:
            self._cut(t)

    def _cut(self, t: int) -> None:
        """The epoch's model is replaced: draw a stand-in from the others that are allowed."""
        epoch = self.epoch
        if epoch is None:
            return
        epoch.cut = True
        if self.in_safe:
            return
        allowed = self.allowed()
        if not allowed.any():
            self.standin = self._last_resort(t)
            return
        p = self.chances(allowed)
        self.standin = min(int(np.searchsorted(np.cumsum(p), self.rng.random())), len(p) - 1)

    def _wake(self, t: int) -> None:
        """Models whose rest is over return with a fuse at 0."""
        for model in range(len(self.resting)):
            if self.resting[model] and self.until[model] <= t:
                self.resting[model], self.level[model] = False, 0.0
                self.returns += 1
        waiting = [u for u, resting in zip(self.until, self.resting) if resting]
        self.next_return = min(waiting, default=self.settings.horizon)

    def _advance(self, model: int) -> None:
        """Evidence goes by the order of decisions: early outcomes wait for the ones before."""
        queue = self.queues[model]
        while queue and (
            queue[0][1] is not None or self.rounds - 1 - (queue[0][0] or 0) > self.delay
        ):
            number, harm = queue.popleft()
            if harm is None:
                continue
            for kind in self.evidence.observe(model, float(harm)):
                told = f"model {model}: {kind}, by its outcomes up to round {number}"
                value = self.evidence.restarting if kind == "change" else self.evidence.steady
                e_value = math.exp(min(700.0, value[model]))
                self.alarms.append(Alarm(self.rounds, model, kind, e_value, told))
