"""AdaNormalHedge: a learner without parameters whose sleeping regret adapts to every expert.

Each expert's weight grows with its own regret while it is active; nothing is tuned. By itself it
switches without restraint; sampled by maximal coupling it is a strong competitor.
Source: Luo and Schapire 2015, named in the Discussion of the chapter; docs/theory/09-tradeoff.md,
"AdaNormalHedge".
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numba import njit

from counterplay.core.arguments import checked
from counterplay.core.online.coupling import maximal_coupling
from counterplay.core.online.stored import inside
from counterplay.core.seeds import RandomState
from counterplay.core.validation import BoolArray, FloatArray
from counterplay.tradeoff import bounds
from counterplay.tradeoff.model import EpochRule
from counterplay.tradeoff.oracle import CusumOracle, OracleRun
from counterplay.tradeoff.plan import Plan, plain_plan
from counterplay.tradeoff.watched import EpochWeights, Fallback


@checked
class AdaNormalHedge(EpochWeights):
    """Sleeping experts without parameters, made lazy by maximal coupling.

    Use it when no bound on the number of switches is needed but none should be wasted.

    Parameters
    ----------
    horizon:
        Number of rounds.
    K:
        Number of experts.
    alpha:
        As for ``ReactivationLearner``.
    B:
        As for ``ReactivationLearner``; with ``B=1`` it chooses in every round.
    oracle:
        As for ``ReactivationLearner``.
    fallback:
        As for ``ReactivationLearner``.
    random_state:
        None, an int or a ``numpy.random.Generator``.

    Notes
    -----
    Sleeping regret at most ``B sqrt(3 E_h ln(K (5/2 + 3/2 ln(1 + E))))`` for every expert, with E
    epochs of which ``E_h`` have the expert active. No bound on the switches is known.

    Examples
    --------
    >>> from counterplay.tradeoff import LossStream, play
    >>> from counterplay.tradeoff import CusumOracle
    >>> from counterplay.tradeoff.instances import burst
    >>> game = burst(rounds=8192, alpha=0.4, K=4, N=3)
    >>> watchdog = CusumOracle(game.c, game.threshold, resets=game.meta["resets"])
    >>> stream = LossStream(game.l1, game.l2, replicates=0)
    >>> learner = AdaNormalHedge(horizon=8192, K=4, alpha=0.4, oracle=watchdog)
    >>> round(float(play(learner, stream, fast=True).sleeping_regret().max()))
    40

    References
    ----------
    H. Luo, R. Schapire, Achieving all with no parameters: AdaNormalHedge, COLT 2015.
    """

    _state: ClassVar[tuple[str, ...]] = (*EpochWeights._state, "_regret", "_scale")
    _regret: FloatArray  # R: sum of instantaneous regrets
    _scale: FloatArray  # C: sum of their absolute values

    def __init__(
        self,
        horizon: int,
        K: int,
        alpha: float | None = None,
        *,
        B: EpochRule = "thesis",
        oracle: CusumOracle | None = None,
        fallback: Fallback = "best_primary",
        random_state: RandomState = None,
    ) -> None:
        self._init(horizon, K, random_state)
        self._init_watch(alpha, B, oracle, fallback)
        self.reset()

    def _start(self) -> None:
        super()._start()
        self._regret, self._scale = np.zeros(self.K), np.zeros(self.K)

    def _check_state(self) -> None:
        super()._check_state()
        running = self._check_epoch()
        epochs, tol = self.rounds // self.grid.B, 1e-6 * (1 + self.rounds)
        inside(self, "_scale", self._scale, 0.0, epochs, tol)
        inside(self, "_regret", self._regret, -self._scale, self._scale, tol)
        if running:  # nothing was charged since: the probabilities follow
            probs = np.zeros(self.K)
            _distribution(self._regret, self._scale, self._epoch_active, probs)
            inside(self, "_probs", self._probs, probs, probs, 1e-9)

    def _weigh(self) -> None:
        self._epoch_active = self._active.copy()
        _distribution(self._regret, self._scale, self._epoch_active, self._probs)

    def _charge(self, pseudo: FloatArray) -> None:
        _charge(pseudo, self._epoch_active, self._probs, self._regret, self._scale)

    def _plan(self, l1: FloatArray, l2: FloatArray, activity: OracleRun | None) -> Plan:
        assert activity is not None  # a watched learner always knows who is active
        starts, pseudo, active = self._epochs(l1, activity.active)
        marginals = np.empty_like(pseudo)
        _run_epochs(pseudo, active, marginals)
        plan = plain_plan(len(l1), starts, marginals, maximal_coupling(marginals))
        return self._with_standins(plan, l1, l2, activity)

    def guarantees(self, activity: OracleRun | None = None) -> dict[str, float]:
        """Return the sleeping regret bound for an expert that is always active."""
        late = self._late_segments()
        bound = bounds.adanormalhedge_sleeping(
            self.horizon, self.K, self.grid.B, self.horizon, late
        )
        return {"sleeping regret": bound}


@njit(cache=True)
def _distribution(
    regret: FloatArray, scale: FloatArray, active: BoolArray, probs: FloatArray
) -> None:
    """Half the difference of ``exp(R_+**2 / 3C)`` at R + 1 and R - 1, normalised over the active.

    The largest exponent is taken out first; if every weight is zero the active share equally.
    """
    # the largest exponent among the active
    most = 0.0
    for h in range(regret.size):
        if active[h]:
            most = max(most, max(0.0, regret[h] + 1) ** 2 / (3 * (scale[h] + 1)))
    # weights: zero while asleep
    total, count = 0.0, 0
    for h in range(regret.size):
        probs[h] = 0.0
        if active[h]:
            count += 1
            up = max(0.0, regret[h] + 1) ** 2 / (3 * (scale[h] + 1))
            down = max(0.0, regret[h] - 1) ** 2 / (3 * (scale[h] + 1))
            probs[h] = math.exp(up - most) - math.exp(down - most)
            total += probs[h]
    # normalise
    for h in range(regret.size):
        if total > 0.0:
            probs[h] /= total
        elif active[h]:
            probs[h] = 1.0 / count


@njit(cache=True)
def _charge(
    pseudo: FloatArray,
    active: BoolArray,
    probs: FloatArray,
    regret: FloatArray,
    scale: FloatArray,
) -> None:
    expected = 0.0  # no draw enters the weights
    for h in range(pseudo.size):
        expected += probs[h] * pseudo[h]
    # only active experts gain or lose regret
    for h in range(pseudo.size):
        if active[h]:
            regret[h] += expected - pseudo[h]
            scale[h] += abs(expected - pseudo[h])


@njit(cache=True)
def _run_epochs(pseudo: FloatArray, active: BoolArray, marginals: FloatArray) -> None:
    regret, scale = np.zeros(pseudo.shape[1]), np.zeros(pseudo.shape[1])
    for m in range(pseudo.shape[0]):  # play the epoch, then learn from it
        _distribution(regret, scale, active[m], marginals[m])
        _charge(pseudo[m], active[m], marginals[m], regret, scale)
