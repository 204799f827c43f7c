"""What a learner will play on a fixed loss sequence, as a probability law.

A learner chooses an expert per epoch (its law is known exactly) and may play a stand-in for an
expert that is switched off (a map that changes a few times). Expected losses follow without
simulation, and thousands of paths can be drawn at once.
Source: docs/theory/09-tradeoff.md, "Proposition 9.H: laziness is invisible to fixed losses".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.online import ScalarLearner
from counterplay.core.online.chain import Int32Array
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_float_array,
    check_positive_int,
    check_size,
    shorten,
)
from counterplay.errors import InvalidInputError
from counterplay.tradeoff.model import MOST_CELLS, check_path


class ChoiceSampler(Protocol):
    """Anything that draws choices per epoch, such as a ``LazyChain``."""

    @property
    def expected_switches(self) -> float | None:
        """Exact expected number of changes of the choice, where it is known."""

    def sample(self, replicates: int, random_state: RandomState) -> Int32Array:
        """Return ``replicates`` sequences of choices, shape ``(replicates, E)``."""


@checked(arrays=True)
@dataclass(frozen=True)
class Plan:
    """The law of a learner's play on a fixed loss sequence.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.tradeoff import EpochLearner
    >>> l1 = np.tile([[0.0, 1.0]], (100, 1))
    >>> plan = EpochLearner(horizon=100, K=2, B=10).plan(l1)
    >>> round(float(plan.expected(l1).sum()), 2)  # expected primary loss, exactly
    23.51
    """

    rounds: int
    starts: IntArray = field(repr=False)
    """First round of every epoch."""
    marginals: FloatArray = field(repr=False)
    """Probability of every choice in every epoch, shape ``(E, K)``."""
    sampler: ChoiceSampler = field(repr=False)
    map_starts: IntArray = field(repr=False)
    """Rounds from which each stand-in map is valid; the first is 0."""
    maps: Int32Array = field(repr=False)
    """Expert played for every choice, one row per map, shape ``(J, K)``."""

    def __post_init__(self) -> None:
        check_positive_int(self.rounds, "rounds")
        check_float_array(self.marginals, "marginals", ndim=2)
        for name, starts, rows in (
            ("starts", self.starts, self.marginals),
            ("map_starts", self.map_starts, self.maps),
        ):
            _check_starts(name, starts, len(rows) if np.ndim(rows) else 0, self.rounds)
        K = self.marginals.shape[1]
        if self.maps.ndim != 2 or self.maps.shape[1] != K or self.maps.dtype.kind not in "iu":
            raise InvalidInputError(
                f"maps must be expert numbers of shape (J, {K}), got shape {self.maps.shape}"
            )
        if self.maps.size and not 0 <= self.maps.min() <= self.maps.max() < K:
            raise InvalidInputError(f"maps must contain expert numbers 0..{K - 1}")

    @property
    def K(self) -> int:
        """Number of experts."""
        return int(self.marginals.shape[1])

    @property
    def expected_switches(self) -> float | None:
        """Exact expected number of changes of the choice, where it is known."""
        return self.sampler.expected_switches

    def expected(self, losses: ArrayLike) -> FloatArray:
        """Return the learner's expected loss in every round, for losses of shape ``(T, K)``."""
        matrix = check_float_array(losses, "losses")
        if matrix.shape != (self.rounds, self.K):
            raise InvalidInputError(
                f"losses must have shape ({self.rounds}, {self.K}), got {matrix.shape}"
            )
        out = np.empty(self.rounds)
        _expected(matrix, self.starts, self.marginals, self.map_starts, self.maps, out)
        return out

    def round_marginals(self) -> FloatArray:
        """Return the probability of every expert in every round, stand-ins included."""
        out = np.zeros((self.rounds, self.K))
        _push_forward(self.starts, self.marginals, self.map_starts, self.maps, out)
        return out

    def sample_choices(self, replicates: int = 1, random_state: RandomState = None) -> Int32Array:
        """Draw the choices of ``replicates`` runs, one per epoch, shape ``(replicates, E)``."""
        n = check_positive_int(replicates, "replicates")
        check_size(n * self.rounds, MOST_CELLS, "choices")
        return self.sampler.sample(n, generator(random_state))

    def play(self, choices: Int32Array) -> Int32Array:
        """Return the experts played in every round for given choices per epoch."""
        choices = check_path(choices, self.K).astype(np.int32, copy=False)
        if choices.ndim != 2 or choices.shape[1] != len(self.starts):
            raise InvalidInputError(
                f"choices must have shape (replicates, {len(self.starts)}), got {choices.shape}"
            )
        lengths = np.diff(np.append(self.starts, self.rounds))
        paths = np.repeat(choices, lengths, axis=1)
        ends = np.append(self.map_starts[1:], self.rounds)
        identity = np.arange(self.K)
        for start, end, standin in zip(self.map_starts, ends, self.maps):
            if not np.array_equal(standin, identity):
                paths[:, start:end] = standin[paths[:, start:end]]
        return paths

    def sample(self, replicates: int = 1, random_state: RandomState = None) -> Int32Array:
        """Draw ``replicates`` complete paths, shape ``(replicates, T)``."""
        return self.play(self.sample_choices(replicates, random_state))


def _check_starts(name: str, starts: IntArray, rows: int, rounds: int) -> None:
    """Refuse first rounds that do not start at 0, do not rise, or are not one per row."""
    valid = starts.ndim == 1 and starts.dtype.kind in "iu" and starts.size == rows > 0
    if not valid or starts[0] != 0 or (np.diff(starts) <= 0).any() or starts[-1] >= rounds:
        raise InvalidInputError(
            f"{name} must be {rows} rising rounds from 0 to less than {shorten(rounds, 40)}"
        )


def plain_plan(
    rounds: int, starts: IntArray, marginals: FloatArray, sampler: ChoiceSampler
) -> Plan:
    """Return a plan without stand-ins: every choice is played itself."""
    K = marginals.shape[1]
    identity = np.arange(K, dtype=np.int32)[None, :]
    first = np.zeros(1, dtype=np.int64)
    return Plan(rounds, starts, marginals, sampler, first, identity)


@dataclass(frozen=True)
class LearnerSampler:
    """Draws the choices of a scalar learner on given losses."""

    learner: ScalarLearner
    losses: FloatArray = field(repr=False)
    horizon: int | None

    @property
    def expected_switches(self) -> float | None:
        """Exact expected number of switches, for learners that know it."""
        try:
            return self.learner.expected_switches(self.losses, horizon=self.horizon)
        except InvalidInputError:  # such as the grid variant of FollowLazyLeader
            return None

    def sample(self, replicates: int, random_state: RandomState) -> Int32Array:
        """Return ``replicates`` sequences of choices."""
        return self.learner.sample(
            self.losses, replicates, horizon=self.horizon, random_state=random_state
        )


@dataclass(frozen=True)
class JoinedSampler:
    """Draws the choices of several plans one after the other, renumbered by ``experts``."""

    parts: tuple[ChoiceSampler, ...]
    experts: tuple[IntArray, ...] = field(repr=False)
    between: float
    """Expected switches from one part to the next, where the draws are independent."""

    @property
    def expected_switches(self) -> float | None:
        """Switches inside the parts plus those between them."""
        inside = [part.expected_switches for part in self.parts]
        known = [value for value in inside if value is not None]
        return sum(known) + self.between if len(known) == len(inside) else None

    def sample(self, replicates: int, random_state: RandomState) -> Int32Array:
        """Return ``replicates`` sequences of choices."""
        rng = generator(random_state)
        drawn = [
            ids[part.sample(replicates, rng)].astype(np.int32)
            for part, ids in zip(self.parts, self.experts)
        ]
        return np.concatenate(drawn, axis=1)


def join_plans(plans: Sequence[Plan], experts: Sequence[IntArray], K: int) -> Plan:
    """Put plans one after the other; plan ``j`` knows only the experts ``experts[j]``."""
    offsets = np.cumsum([0, *(plan.rounds for plan in plans)])
    marginals, maps = [], []
    for plan, ids in zip(plans, experts):
        wide = np.zeros((len(plan.marginals), K))
        wide[:, ids] = plan.marginals
        marginals.append(wide)
        standins = np.tile(np.arange(K, dtype=np.int32), (len(plan.maps), 1))
        standins[:, ids] = ids[plan.maps]
        maps.append(standins)
    between = sum(1.0 - float(a[-1] @ b[0]) for a, b in zip(marginals, marginals[1:]))
    shifted = [(plan.starts + at, plan.map_starts + at) for plan, at in zip(plans, offsets)]
    return Plan(
        int(offsets[-1]),
        np.concatenate([starts for starts, _ in shifted]),
        np.concatenate(marginals),
        JoinedSampler(tuple(plan.sampler for plan in plans), tuple(experts), between),
        np.concatenate([rounds for _, rounds in shifted]),
        np.concatenate(maps),
    )


def epoch_averages(
    losses: FloatArray, starts: IntArray, B: int, active: BoolArray | None = None
) -> FloatArray:
    """Return the sum over every epoch divided by ``B``; inactive experts count with loss 1."""
    out = np.zeros((starts.size, losses.shape[1]))
    if active is None:
        _epoch_sums(losses, starts, out)
    else:
        _pseudo_epoch_sums(losses, active, starts, out)
    out /= B
    return out


@njit(cache=True)
def _epoch_sums(losses: FloatArray, starts: IntArray, out: FloatArray) -> None:
    """Add up the losses of every epoch; the last one may be shorter."""
    T, K = losses.shape
    for e in range(starts.size):
        end = starts[e + 1] if e + 1 < starts.size else T
        for t in range(starts[e], end):
            for h in range(K):
                out[e, h] += losses[t, h]


@njit(cache=True)
def _pseudo_epoch_sums(
    losses: FloatArray, active: BoolArray, starts: IntArray, out: FloatArray
) -> None:
    """The same with the pseudo loss 1 for inactive experts."""
    T, K = losses.shape
    for e in range(starts.size):
        end = starts[e + 1] if e + 1 < starts.size else T
        for t in range(starts[e], end):
            for h in range(K):
                out[e, h] += losses[t, h] if active[t, h] else 1.0


@njit(cache=True, fastmath={"reassoc", "contract"})
def _expected(
    losses: FloatArray,
    starts: IntArray,
    marginals: FloatArray,
    map_starts: IntArray,
    maps: Int32Array,
    out: FloatArray,
) -> None:
    T, K = losses.shape
    epoch, row, plain = -1, -1, True
    for t in range(T):  # move to the epoch and the stand-in map of the round
        while epoch + 1 < starts.size and starts[epoch + 1] <= t:
            epoch += 1
        while row + 1 < map_starts.size and map_starts[row + 1] <= t:
            row += 1
            plain = True
            for h in range(K):
                plain = plain and maps[row, h] == h
        total = 0.0  # expected loss: the choice, or its stand-in
        if plain:
            for h in range(K):
                total += marginals[epoch, h] * losses[t, h]
        else:
            for h in range(K):
                total += marginals[epoch, h] * losses[t, maps[row, h]]
        out[t] = total


@njit(cache=True)
def _push_forward(
    starts: IntArray,
    marginals: FloatArray,
    map_starts: IntArray,
    maps: Int32Array,
    out: FloatArray,
) -> None:
    epoch, row = -1, -1
    for t in range(out.shape[0]):  # the mass of every choice goes to its stand-in
        while epoch + 1 < starts.size and starts[epoch + 1] <= t:
            epoch += 1
        while row + 1 < map_starts.size and map_starts[row + 1] <= t:
            row += 1
        for h in range(out.shape[1]):
            out[t, maps[row, h]] += marginals[epoch, h]
