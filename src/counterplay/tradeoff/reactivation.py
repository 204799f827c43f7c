"""Experts that are switched off and on again: one weight row per history of activity.

For every expert ``h*`` there is a row of weights that only learns while ``h*`` is active, so the
learner competes with each expert over exactly its own active time. Within a segment the weights
only shrink, and the choice is kept as in Shrinking Dartboard. Rows of experts with the same history
are identical and stored once.
Source: Algorithm 9.2, Theorem 9.8; docs/theory/09-tradeoff.md, "Reactivation learner (Algorithm
9.2, repaired)", with the reset of the stand-ins that is missing in the source.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.online.chain import LazyChain
from counterplay.core.online.coupling import maximal_coupling
from counterplay.core.online.stored import inside, require
from counterplay.core.seeds import RandomState
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_choice,
    check_real,
)
from counterplay.errors import InvalidInputError
from counterplay.tradeoff import bounds
from counterplay.tradeoff.model import EpochRule, check_losses
from counterplay.tradeoff.oracle import CusumOracle, OracleRun
from counterplay.tradeoff.plan import Plan, plain_plan
from counterplay.tradeoff.watched import EpochWeights, Fallback

Sampling = Literal["dartboard", "coupling"]


@checked
class ReactivationLearner(EpochWeights):
    """Compete with every expert over its active time, however often it goes and comes back.

    Use it with a watchdog that gives everybody a fresh start now and then.

    Parameters
    ----------
    horizon:
        Number of rounds.
    K:
        Number of experts.
    alpha:
        Gives the epoch length ``T**alpha``.
    B:
        Epoch length: ``"thesis"``, ``"balanced"`` (the oracle's threshold), or a number.
    oracle:
        The watchdog, with reset times; its default granularity here is ``"epoch"``. None: activity
        comes from outside and is read at the start of each epoch.
    eta:
        Base of the weights in [1/sqrt 2, 1]; None: ``1 - sqrt(2 ln K / E)``.
    sampling:
        ``"dartboard"``: keep the choice with the share of weight left, as in the source.
        ``"coupling"``: same probabilities with the fewest possible switches.
    fallback:
        Whom to play for an expert that is switched off; see ``DeactivationLearner``.
    restore:
        False leaves experts that come back with their stand-in, as in the source; the guarantee is
        then lost. Only for showing that.
    random_state:
        None, an int or a ``numpy.random.Generator``.

    Notes
    -----
    Theorem 9.8 with its constants, losses fixed in advance, E epochs: sleeping regret to an expert
    active in ``T_h`` rounds at most ``B (2 sqrt(E ln K) + 2 (T_h / B) sqrt(ln K / E))``; secondary
    regret at most ``4 threshold sqrt(E ln K) + (threshold + (1-c) B) (D + N + 1)`` with ``D``
    deactivating epochs and ``N`` resets.

    Examples
    --------
    >>> from counterplay.tradeoff import LossStream, play
    >>> from counterplay.tradeoff import CusumOracle
    >>> from counterplay.tradeoff.instances import burst
    >>> game = burst(rounds=8192, alpha=0.4, K=4, N=3)
    >>> watchdog = CusumOracle(game.c, game.threshold, resets=game.meta["resets"])
    >>> stream = LossStream(game.l1, game.l2, replicates=0)
    >>> learner = ReactivationLearner(horizon=8192, K=4, alpha=0.4, oracle=watchdog)
    >>> round(float(play(learner, stream, fast=True).sleeping_regret().max()))  # bound: 4119
    617

    References
    ----------
    A. Blum, Y. Mansour, From external to internal regret, 2007 (time selection functions).
    A. Blum, H. Shao, Online learning with primary and secondary losses, NeurIPS 2020.
    """

    _state: ClassVar[tuple[str, ...]] = (
        *EpochWeights._state, "_log_weight", "_group", "_size", "_shares", "_rows",
    )  # fmt: skip
    _varying: ClassVar[tuple[str, ...]] = ("_rows",)
    _log_weight: FloatArray
    _group: IntArray  # row of every expert
    _size: IntArray  # experts per row
    _shares: FloatArray  # per row: expected pseudo loss of the learner while active
    _table: FloatArray  # per row and expert: pseudo loss while active

    def __init__(
        self,
        horizon: int,
        K: int,
        alpha: float | None = None,
        *,
        B: EpochRule = "thesis",
        oracle: CusumOracle | None = None,
        eta: float | None = None,
        sampling: Sampling = "dartboard",
        fallback: Fallback = "best_primary",
        restore: bool = True,
        random_state: RandomState = None,
    ) -> None:
        self._init(horizon, K, random_state)
        self._init_watch(alpha, B, oracle, fallback)
        self.sampling: Sampling = check_choice(sampling, "sampling", ("dartboard", "coupling"))
        self.restore = restore
        self.eta = eta
        self.base = (
            reactivation_base(self.grid.E, self.K)
            if eta is None
            else check_real(eta, "eta", low=1 / math.sqrt(2) - 1e-12, high=1.0)
        )
        self.reset()

    def _restores(self) -> bool:
        return self.restore

    @property
    def _rows(self) -> FloatArray:
        """The rows of the table that are in use, for the stored state."""
        return self._table[: np.count_nonzero(self._size)]

    @_rows.setter
    def _rows(self, rows: FloatArray) -> None:
        self._table = np.zeros((self.K, self.K))
        self._table[: len(rows)] = rows

    def _start(self) -> None:
        super()._start()
        K = self.K
        self._table, self._shares = np.zeros((K, K)), np.zeros(K)
        self._group, self._size = np.zeros(K, dtype=np.int64), np.zeros(K, dtype=np.int64)
        self._size[0] = K
        self._log_weight = np.zeros(K)

    def _check_state(self) -> None:
        super()._check_state()
        B, K = self.grid.B, self.K
        running = self._check_epoch()
        inside(self, "_group", self._group, 0, K - 1, 0.0)  # before it counts anything
        rows = int(self._group.max()) + 1
        sizes = np.bincount(self._group, minlength=K)
        fits = np.array_equal(self._size, sizes) and bool((sizes[:rows] > 0).all())
        require(fits, self, "_size", "must count the experts of every row")
        epochs, tol = self.rounds // B, 1e-6 * (1 + self.rounds)
        for name, values in (("_rows", self._table), ("_shares", self._shares)):
            require(bool(np.isfinite(values).all()), self, name, "must be finite")
            inside(self, name, values, 0.0, epochs, tol)
            require(not values[rows:].any(), self, name, "has rows that nobody uses")
        if running:  # nothing was charged since: the weights are what they lead to
            weight, probs = np.zeros(K), np.zeros(K)
            _distribution(
                self._epoch_active, epochs, math.log(self.base), self.base, self._table.copy(),
                self._shares.copy(), self._group.copy(), self._size.copy(), weight, probs,
            )  # fmt: skip
            inside(self, "_probs", self._probs, probs, probs, 1e-9)
            inside(self, "_log_weight", self._log_weight, weight, weight, tol)

    def _weigh(self) -> float | None:
        before, fresh, last = self._log_weight.copy(), self._starts_segment(), self._current
        self._epoch_active = self._active.copy()
        _distribution(
            self._epoch_active, self.rounds // self.grid.B, math.log(self.base), self.base,
            self._table, self._shares, self._group, self._size, self._log_weight, self._probs,
        )  # fmt: skip
        if self.sampling == "coupling":
            return None
        if last < 0 or fresh:
            return 0.0
        return math.exp(self._log_weight[last] - before[last])

    def _starts_segment(self) -> bool:
        """Whether somebody has just been switched on."""
        if self._watchdog is not None:
            return self._watchdog.is_reset(self.rounds)
        return bool((self._active & ~self._epoch_active).any())

    def _charge(self, pseudo: FloatArray) -> None:
        _charge(
            self._epoch_active, pseudo, self._probs,
            self._table, self._shares, self._group, self._size,
        )  # fmt: skip

    def _plan(self, l1: FloatArray, l2: FloatArray, activity: OracleRun | None) -> Plan:
        assert activity is not None  # a watched learner always knows who is active
        starts, trace = self._trace(l1, activity)
        plan = plain_plan(len(l1), starts, trace.marginals, trace.chain(self.sampling))
        return self._with_standins(plan, l1, l2, activity)

    def trace(
        self, l1: ArrayLike, l2: ArrayLike, *, active: ArrayLike | None = None
    ) -> ReactivationTrace:
        """Return the learner's inner quantities in every epoch: what its proof talks about."""
        primary, secondary = check_losses(l1, l2)
        self._check_shape(primary)
        return self._trace(primary, self._activity(secondary, active))[1]

    def _trace(self, l1: FloatArray, activity: OracleRun) -> tuple[IntArray, ReactivationTrace]:
        starts, pseudo, active = self._epochs(l1, activity.active)
        fresh = np.isin(starts, activity.resets)
        if self.oracle is None:  # from outside: whoever comes back starts a new segment
            fresh[1:] = (active[1:] & ~active[:-1]).any(axis=1)
        marginals, keep = np.empty_like(pseudo), np.zeros_like(pseudo)
        potential = np.empty(len(pseudo))
        groups = _run_epochs(pseudo, active, fresh, self.base, marginals, keep, potential)
        return starts, ReactivationTrace(self.base, marginals, keep, potential, groups)

    def guarantees(self, activity: OracleRun | None = None) -> dict[str, float]:
        """Return the bounds of Theorem 9.8; the sleeping regret is for an always active expert."""
        if self.eta is not None or not self.restore:
            return {}
        late = self._late_segments()
        T, K, B = self.horizon, self.K, self.grid.B
        found = {"sleeping regret": bounds.reactivation_sleeping(T, K, B, T, late)}
        if activity is not None and self.oracle is not None:
            downs = len({event.off_from // B for event in activity.events})
            resets, oracle = len(activity.resets) - 1, self.oracle
            found["expected switches"] = bounds.reactivation_draws(self.grid.E, K, downs, resets)
            found["secondary regret"] = bounds.reactivation_secondary(
                T, K, B, oracle.threshold, oracle.c, downs, resets
            )
        return found


@checked(arrays=True)
@dataclass(frozen=True)
class ReactivationTrace:
    """Inner quantities of ``ReactivationLearner`` in every epoch.

    Examples
    --------
    >>> import numpy as np
    >>> learner = ReactivationLearner(horizon=600, K=3, B=10)
    >>> l1 = np.random.default_rng(0).random((600, 3))
    >>> trace = learner.trace(l1, l1)
    >>> bool((trace.potential <= trace.potential_bound + 1e-9).all()), trace.groups
    (True, 1)
    """

    base: float
    marginals: FloatArray = field(repr=False)
    keep: FloatArray = field(repr=False)
    """Probability to keep each choice; zero where a segment starts."""
    potential: FloatArray = field(repr=False)
    """Logarithm of the sum of all weights at the start of every epoch."""
    groups: int
    """Number of different activity histories at the end."""

    @property
    def potential_bound(self) -> FloatArray:
        """What the potential never exceeds: ``ln K + m ln eta`` at the start of epoch ``m``."""
        epochs, K = self.marginals.shape
        bound: FloatArray = math.log(K) + np.arange(epochs, dtype=np.float64) * math.log(self.base)
        return bound

    def chain(self, sampling: Sampling) -> LazyChain:
        """Return the law of the choices."""
        if sampling == "coupling":
            return maximal_coupling(self.marginals)
        return LazyChain(self.marginals, np.minimum(self.keep, 1.0), self.marginals)


def reactivation_base(E: int, K: int) -> float:
    """Default base of the weights: ``1 - sqrt(2 ln K / E)``, at least ``1 / sqrt 2``.

    Examples
    --------
    >>> round(reactivation_base(100, 10), 4)
    0.7854
    """
    need = bounds.reactivation_epochs(K)
    if need > E:
        raise InvalidInputError(
            f"horizon too short: need at least {need} epochs for K={K}, got {E} (lower alpha or B)"
        )
    return 1 - math.sqrt(2 * math.log(K) / E)


@njit(cache=True)
def _distribution(
    active: BoolArray,
    epoch: int,
    log_base: float,
    base: float,
    table: FloatArray,
    shares: FloatArray,
    group: IntArray,
    size: IntArray,
    log_weight: FloatArray,
    probs: FloatArray,
) -> None:
    """Split rows whose experts now differ in activity, then compute weights and probabilities."""
    K = active.size
    # rows in use, and how many experts of each are active
    on = np.zeros(K, dtype=np.int64)
    rows = 0
    for h in range(K):
        rows = max(rows, group[h] + 1)
        if active[h]:
            on[group[h]] += 1
    # a row with active and inactive experts splits: their histories differ from now on
    for g in range(rows):
        if 0 < on[g] < size[g]:
            new = rows
            rows += 1
            table[new], shares[new] = table[g], shares[g]
            size[new], size[g] = size[g] - on[g], on[g]
            for h in range(K):
                if group[h] == g and not active[h]:
                    group[h] = new
    # the weight of an expert: the sum over the rows of the active experts, in logarithms
    best = -np.inf
    for h in range(K):
        log_weight[h] = _log_row_sum(h, rows, on, log_base, base, table, shares)
        log_weight[h] += log_base * epoch - math.log(K)
        best = max(best, log_weight[h])
    # normalise with the largest taken out
    total = 0.0
    for h in range(K):
        probs[h] = math.exp(log_weight[h] - best)
        total += probs[h]
    for h in range(K):
        probs[h] /= total


@njit(cache=True)
def _log_row_sum(
    h: int,
    rows: int,
    count: IntArray,
    log_base: float,
    base: float,
    table: FloatArray,
    shares: FloatArray,
) -> float:
    """Log of the sum over rows, each taken ``count`` times, of the weight of expert ``h``."""
    most = -np.inf  # taken out of the sum against overflow
    for g in range(rows):
        if count[g] > 0:
            most = max(most, log_base * (table[g, h] - base * shares[g]))
    total = 0.0
    for g in range(rows):
        if count[g] > 0:
            total += count[g] * math.exp(log_base * (table[g, h] - base * shares[g]) - most)
    return most + math.log(total)


@njit(cache=True)
def _log_sum_exp(values: FloatArray) -> float:
    most = values.max()
    return float(most + math.log(np.exp(values - most).sum()))


@njit(cache=True)
def _charge(
    active: BoolArray,
    pseudo: FloatArray,
    probs: FloatArray,
    table: FloatArray,
    shares: FloatArray,
    group: IntArray,
    size: IntArray,
) -> None:
    """Add the pseudo losses of an epoch to the rows whose experts were active."""
    # what the learner lost in expectation: no draw enters the weights
    expected = 0.0
    for h in range(pseudo.size):
        expected += probs[h] * pseudo[h]
    # a row learns in the epochs in which its experts are active, once for all of them
    done = np.zeros(pseudo.size, dtype=np.bool_)
    for h in range(pseudo.size):
        g = group[h]
        if active[h] and not done[g]:
            done[g] = True
            shares[g] += expected
            for j in range(pseudo.size):
                table[g, j] += pseudo[j]


@njit(cache=True)
def _run_epochs(
    pseudo: FloatArray,
    active: BoolArray,
    fresh: BoolArray,
    base: float,
    marginals: FloatArray,
    keep: FloatArray,
    potential: FloatArray,
) -> int:
    """Fill in the law of all epochs and the potential; return the number of histories."""
    epochs, K = pseudo.shape
    log_base = math.log(base)
    table, shares = np.zeros((K, K)), np.zeros(K)
    group, size = np.zeros(K, dtype=np.int64), np.zeros(K, dtype=np.int64)
    size[0] = K
    log_weight, before = np.zeros(K), np.zeros(K)
    for m in range(epochs):
        before[:] = log_weight
        _distribution(
            active[m], m, log_base, base, table, shares, group, size, log_weight, marginals[m]
        )
        if m > 0 and not fresh[m]:  # weights only shrink inside a segment: keep what is left
            for h in range(K):
                keep[m, h] = math.exp(log_weight[h] - before[h])
        rows = group.max() + 1  # the potential counts all rows, active or not
        for h in range(K):
            before[h] = _log_row_sum(h, rows, size, log_base, base, table, shares)
        potential[m] = _log_sum_exp(before) + log_base * m - math.log(K)
        _charge(active[m], pseudo[m], marginals[m], table, shares, group, size)
    return int(group.max() + 1)
