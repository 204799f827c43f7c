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
from counterplay.tradeoff.live_weights import BanditWeights, Epoch, HedgeWeights

Mode = Literal["epoch", "stand-in", "safe"]
Missing = Literal["ignore", "worst"]


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
    interleaved: bool = False
    """Whether delays are met by several learners that take turns."""
    acceptance: float | None = None
    """Least probability with which a round can be judged; None: live feedback."""

    @property
    def epoch(self) -> int:
        """Rounds of an epoch."""
        return max(1, round(math.cbrt(self.horizon)))

    @property
    def copies(self) -> int:
        """How many learners take turns, so that each has heard of its last epoch."""
        return math.ceil(self.max_delay / self.epoch) + 1 if self.interleaved else 1

    def weights(self) -> list[BanditWeights]:
        """Return the learners before the first round."""
        K, N = self.n_models, math.ceil(self.horizon / self.epoch / self.copies)
        prior = np.full(K, 1.0 / K)
        if self.champion is not None and K > 1:
            prior = np.full(K, 0.5 / (K - 1))
            prior[self.champion] = 0.5
        if self.acceptance is not None:
            return [HedgeWeights(prior, N, self.acceptance) for _ in range(self.copies)]
        return [BanditWeights(prior, N, self.adaptive) for _ in range(self.copies)]


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
        self.length, self.rest = settings.epoch, max(1, settings.horizon // 16)
        self.copies = settings.weights()
        self.level, self.until = [0.0] * K, [-1] * K  # fuse; first round after the rest
        self.removed: set[int] = set()  # taken down by hand, for good
        self.drawn: tuple[float, FloatArray] | None = None  # the draw in force: number, chances
        self.resting, self.downs = [False] * K, [0] * K
        self.free: FloatArray | None = None  # who may be drawn; None: somebody came or went
        self.next_return = settings.horizon
        self.returns, self.rounds, self.missing = 0, 0, 0
        self.delay = settings.max_delay
        self.excess, self.in_safe, self.safe_rounds = 0.0, False, 0
        self.void_since: int | None = None
        self.epoch: Epoch | None = None
        self.turn = -1
        self.standin: int | None = None
        self.unsettled: deque[Epoch] = deque()
        self.open: dict[int, tuple[int, Epoch]] = {}  # model and epoch, until the outcome arrives
        self.live_rounds = [0] * K
        self.harm, self.primary, self.judged = [0.0] * K, [0.0] * K, [0] * K
        self.switches: list[tuple[int, int]] = []
        self.alarms: list[Alarm] = []
        self.evidence = Evidence(K, settings.rate)
        self.queues: list[deque[int]] = [deque() for _ in range(K)]  # decisions not yet weighed
        self.heard: dict[int, float] = {}  # harm of those that wait for an earlier one

    @property
    def threshold(self) -> float:
        """Where the purse hands over to the safe model."""
        purse, rate = self.settings.purse, self.settings.rate
        return math.inf if purse is None else max(0.0, purse - (1 - rate) * self.delay)

    def act(self) -> tuple[int, int, float, Mode]:
        """Return id, model, probability and mode of the next decision."""
        t, epoch = self.rounds, self.epoch
        if t >= self.next_return:
            self._wake(t)
        over = epoch is None or t - epoch.start >= self.length
        if over or len(self.unsettled) > 1:
            self._settle(t)
        if self.in_safe and self.excess <= self.threshold / 2:
            self.in_safe, self.epoch, over = False, None, True
        if epoch is None or over:
            epoch = self._new_epoch(t)
        mode: Mode = "epoch"
        model, chance, safe = epoch.model, epoch.probability, self.settings.safe
        if self.in_safe and safe is not None:
            model, chance, mode = safe, 1.0, "safe"
            self.safe_rounds += 1
            if not self.allowed()[safe]:  # its own fuse has blown, and it is live all the same
                self._void(t)
        elif self.standin is not None:
            model, mode = self.standin, "stand-in"
        if not self.switches or self.switches[-1][1] != model:
            self.switches.append((t, model))
        self.live_rounds[model] += 1
        epoch.waiting += 1
        self.open[t] = model, epoch
        self.queues[model].append(t)
        self.rounds = t + 1
        return t, model, chance, mode

    def adopt(self, model: int, mode: Mode, chances: FloatArray) -> None:
        """The last decision was made by another rule: go on from what that one chose."""
        t, epoch = self.rounds - 1, self.epoch
        before, _ = self.open[t]
        assert epoch is not None  # the decision has one
        if mode == "stand-in":
            self.standin = model
        elif mode == "epoch":
            epoch.model, epoch.chances, self.standin = model, chances, None
            epoch.probability = float(chances[model])
        self.queues[before].pop()
        self.queues[model].append(t)
        self.live_rounds[before] -= 1
        self.live_rounds[model] += 1
        self.open[t] = model, epoch
        if self.switches[-1][0] == t:
            self.switches.pop()
        if not self.switches or self.switches[-1][1] != model:
            self.switches.append((t, model))

    def judge(self, number: int, primary: FloatArray, secondary: float, chance: float) -> int:
        """Take the losses of all models in a round that could be judged with this probability."""
        model, epoch = self.open[number]
        if epoch.weighted is None:
            epoch.weighted = np.zeros(self.settings.n_models)
        epoch.weighted += primary / chance
        return self.observe(number, float(primary[model]), secondary)

    def observe(self, number: int, primary: float, secondary: float) -> int:
        """Take the outcome of a decision; return by how many rounds it is late."""
        model, epoch = self.open.pop(number)
        late = self.rounds - 1 - number
        if late > self.delay:
            self.delay = late
        self.harm[model] += secondary
        self.primary[model] += primary
        self.judged[model] += 1
        # a stand-in's loss is not the drawn model's: the epoch is cut and counts as 1
        if model == epoch.model:
            epoch.total += primary
            epoch.seen += 1
        epoch.waiting -= 1
        self._weigh(model, number, secondary)
        self._fuse(model, secondary)
        return late

    def forget(self, number: int) -> None:
        """An outcome will never come."""
        model, epoch = self.open.pop(number)
        self.missing += 1
        epoch.waiting -= 1
        queue = self.queues[model]
        if queue and number >= queue[0]:  # otherwise it was given up as overdue
            queue.remove(number)
        if self.settings.missing == "worst":
            self._fuse(model, 1.0)

    def allowed(self) -> FloatArray:
        """Return 1 for every model that may be drawn; nobody may change the array."""
        if self.free is None:
            self.free = 1.0 - np.array(self.resting, dtype=np.float64)
            self.free[list(self.removed)] = 0.0
        return self.free

    def remove(self, model: int, told: str) -> None:
        """Take a model out for good; if it is live, another stands in."""
        t = self.rounds
        self.removed.add(model)
        self.free = None
        self.alarms.append(Alarm(t, model, "taken down", self.level[model], told))
        live = self.standin if self.standin is not None else (self.epoch and self.epoch.model)
        if live == model and not self.in_safe:
            self._cut(t)

    def _new_epoch(self, t: int) -> Epoch:
        """Close the old epoch and draw a model; nobody allowed voids the guarantees."""
        if self.epoch is not None:
            self.epoch.closed = t - 1
        self.standin = None
        allowed, copy = self.allowed(), self._rested()
        anybody = bool(allowed.any())
        if not anybody:
            model, p = self._last_resort(t), np.ones(len(allowed))
            self.drawn = None
        else:
            p = self.copies[copy or 0].chances(allowed)
            self.drawn = self.rng.random(), p
            sums = p.cumsum()
            model = min(int(sums.searchsorted(self.drawn[0] * sums[-1])), len(p) - 1)
        teaches = not self.in_safe and anybody and copy is not None
        self.epoch = epoch = Epoch(t, model, p, allowed, teaches, copy or 0)
        self.unsettled.append(epoch)
        return epoch

    def _rested(self) -> int | None:
        """The next learner in turn that has heard of its last epoch; None if there is none."""
        m = len(self.copies)
        if m == 1:
            return 0  # a single one learns when it can, and promises nothing under delay
        busy = {epoch.copy for epoch in self.unsettled if epoch.teaches}
        for step in range(1, m + 1):
            if (self.turn + step) % m not in busy:
                self.turn = (self.turn + step) % m
                return self.turn
        return None

    def _last_resort(self, t: int) -> int:
        self._void(t)
        if self.settings.safe is not None:
            return self.settings.safe
        downs = [math.inf if j in self.removed else d for j, d in enumerate(self.downs)]
        return int(np.argmin(downs))

    def _void(self, t: int) -> None:
        """A model is live that is not allowed: no bound holds from here on."""
        if self.void_since is None:
            self.void_since = t

    def _settle(self, t: int) -> None:
        """Learn from epochs that are over and whose outcomes are in, or overdue."""
        while self.unsettled:
            epoch = self.unsettled[0]
            over = epoch.closed >= 0 or t - epoch.start >= self.length
            last = epoch.closed if epoch.closed >= 0 else epoch.start + self.length - 1
            if not over or (epoch.waiting > 0 and t <= last + self.settings.max_delay):
                return
            epoch.closed = last
            self.unsettled.popleft()
            if epoch.teaches:
                self.copies[epoch.copy].learn(epoch)

    def _fuse(self, model: int, harm: float) -> None:
        """Move the fuse of the model and the purse, in order of arrival."""
        settings, level = self.settings, self.level[model]
        self.level[model] = level = (level if level > 0.0 else 0.0) + harm - settings.rate
        if settings.purse is not None:
            self.excess = max(0.0, self.excess) + harm - settings.rate
            if not self.in_safe and self.excess > self.threshold:
                self.in_safe = True
                self._cut(self.rounds)
        if level > settings.burst and not self.resting[model]:
            self._take_down(model, self.rounds)

    def _take_down(self, model: int, t: int) -> None:
        rest = self.rest * 2 ** self.downs[model]
        self.resting[model], self.until[model] = True, t + rest
        self.next_return, self.free = min(self.next_return, t + rest), None
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
            self.standin, self.drawn = self._last_resort(t), None
            return
        p = self.copies[epoch.copy].chances(allowed)
        self.drawn = self.rng.random(), p
        self.standin = min(int(np.searchsorted(np.cumsum(p), self.drawn[0])), len(p) - 1)

    def _wake(self, t: int) -> None:
        """Models whose rest is over return with a fuse at 0."""
        for model in range(len(self.resting)):
            if self.resting[model] and self.until[model] <= t:
                self.resting[model], self.level[model] = False, 0.0
                self.returns += 1
        self.free = None
        waiting = [u for u, resting in zip(self.until, self.resting) if resting]
        self.next_return = min(waiting, default=self.settings.horizon)

    def _weigh(self, model: int, number: int, harm: float) -> None:
        """Evidence goes by the order of decisions: early outcomes wait for the ones before."""
        queue = self.queues[model]
        if len(queue) == 1 and queue[0] == number:  # nobody else waits
            queue.popleft()
            self._bet(model, number, harm)
            return
        if queue and number >= queue[0]:  # otherwise it was given up as overdue
            self.heard[number] = harm
        while queue and (queue[0] in self.heard or self.rounds - 1 - queue[0] > self.delay):
            first = queue.popleft()
            if first in self.heard:
                self._bet(model, first, self.heard.pop(first))

    def _bet(self, model: int, number: int, harm: float) -> None:
        """Raise the alarms of one outcome."""
        for kind in self.evidence.observe(model, harm):
            told = f"model {model}: {kind}, by its outcomes up to round {number}"
            value = self.evidence.restarting if kind == "change" else self.evidence.steady
            e_value = math.exp(min(700.0, value[model]))
            self.alarms.append(Alarm(self.rounds, model, kind, e_value, told))
