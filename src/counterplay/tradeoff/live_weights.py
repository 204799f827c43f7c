"""Weights over models that are judged epoch by epoch: from the live model alone, or from all.

Both keep estimated regrets ``R_j`` and draw from ``pi_j exp(eta R_j)`` on the allowed models;
models that are not allowed keep theirs. :class:`BanditWeights` sees the live model's loss,
:class:`HedgeWeights` the losses of everybody in the rounds in which the case was accepted.
Source: docs/theory/26-people.md, "The live guard" and "Selective feedback".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from counterplay.core.validation import FloatArray

_FLOOR = 1e-300


@dataclass(slots=True)
class Epoch:
    """Rounds with one drawn model."""

    start: int
    model: int
    chances: FloatArray
    """With which every model was drawn."""
    allowed: FloatArray
    teaches: bool
    copy: int = 0
    """Which of the interleaved learners drew."""
    cut: bool = False
    waiting: int = 0
    total: float = 0.0
    seen: int = 0
    closed: int = -1
    """Last round, once it is over."""
    weighted: FloatArray | None = None
    """Sum of all models' losses, each divided by the probability of being judged."""
    probability: float = field(init=False)
    """With which the model was drawn."""

    def __post_init__(self) -> None:
        self.probability = float(self.chances[self.model])


class BanditWeights:
    """Learns from the loss of the drawn model, divided by its probability.

    Parameters
    ----------
    prior:
        Shares of the models before the first epoch.
    epochs:
        Number of epochs to come, which fixes the learning rate.
    adaptive:
        Whether the rate starts higher and falls with what was seen.
    """

    def __init__(self, prior: FloatArray, epochs: int, adaptive: bool) -> None:
        K = len(prior)
        self.prior, self.regret, self.variance, self.spent = prior, np.zeros(K), 0.0, 0.0
        self.start = np.log(prior + _FLOOR)
        self.adaptive = adaptive
        self.least = math.sqrt(math.log(K) / ((K - 1) * max(1, epochs))) if K > 1 else 1.0
        self.eta = max(self.least, self._wanted()) if adaptive else self.least

    def chances(self, allowed: FloatArray) -> FloatArray:
        """Return the distribution of the draw over the allowed models."""
        logs = self.start + self.eta * self.regret
        if not allowed.all():
            logs[allowed == 0] = -np.inf
        parts = np.exp(logs - logs.max())
        return np.asarray(parts / parts.sum())

    def learn(self, epoch: Epoch) -> None:
        """``R_j += loss - est_j`` for the allowed models; an epoch that was cut has loss 1."""
        if not epoch.cut and not epoch.seen:
            return
        loss = 1.0 if epoch.cut else epoch.total / epoch.seen
        drawn, chance = epoch.model, epoch.probability
        v = loss**2 * (1.0 / chance - 1.0)
        own = self.regret[drawn] + epoch.allowed[drawn] * (loss - loss / chance)
        self.regret += epoch.allowed * loss  # the others' estimates are 0
        self.regret[drawn] = own
        self.spent += self.eta * v
        self.variance += v
        if self.adaptive:
            self.eta = min(self.eta, max(self.least, self._wanted()))  # may only fall

    def bound(self) -> float:
        """Return what the regret in epochs does not exceed in expectation, as realised."""
        return math.log(1.0 / self.prior.min()) / self.eta + self.spent

    def _wanted(self) -> float:
        return min(1.0, math.sqrt(math.log(max(len(self.prior), 2)) / (1 + self.variance)))


class HedgeWeights(BanditWeights):
    """Learns from everybody's losses in the rounds that could be judged, by their probability.

    Parameters
    ----------
    prior:
        Shares of the models before the first epoch.
    epochs:
        Number of epochs to come.
    acceptance:
        Least probability with which a round can be judged.
    """

    def __init__(self, prior: FloatArray, epochs: int, acceptance: float) -> None:
        super().__init__(prior, epochs, False)
        most = math.log(max(2.0, 1.0 / float(prior.min())))
        self.eta = math.sqrt(2.0 * acceptance * most / max(1, epochs))

    def learn(self, epoch: Epoch) -> None:
        """``R_j += mix - est_j``: the total weight of all models stays what it was."""
        if epoch.cut or epoch.weighted is None:
            return
        estimate = epoch.weighted / (epoch.closed - epoch.start + 1)
        p = epoch.chances
        mix = -math.log(float(p @ np.exp(-self.eta * estimate))) / self.eta
        self.regret += epoch.allowed * (mix - estimate)
        self.spent += 0.5 * self.eta * float(p @ estimate**2)
