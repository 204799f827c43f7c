"""What every learner over K experts with one loss per expert and round has in common.

Streaming: ``reset``, then in every round ``act`` (whom to play) and ``observe`` (all losses).
Batch, on losses fixed in advance: ``marginals`` (exact probabilities), ``chain`` (exact law of the
path) and ``sample`` (many paths at once). One path of ``sample`` agrees with streaming.
Source: docs/theory/09-tradeoff.md, "Algorithms".
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.online.chain import Int32Array, LazyChain
from counterplay.core.online.exponential import first_outside
from counterplay.core.online.state import Stateful
from counterplay.core.online.stored import index_in, inside, require, same_kinds
from counterplay.core.play import Learner
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    array_fault,
    check_positive_int,
    check_size,
)
from counterplay.errors import InvalidInputError, ProtocolError

_MOST_EXPERTS = 10_000_000


class ScalarLearner(Stateful, Learner):
    """Base class of learners that play one of K experts per round and then see all losses.

    Subclasses define ``probs`` and ``_learn`` for streaming, and ``marginals`` or ``chain`` for
    batches. Losses lie in [0, 1] unless the subclass says otherwise.
    """

    _state: ClassVar[tuple[str, ...]] = ("K", "horizon", "rounds", "_choice", "_rng")

    K: int = 0
    """Number of experts; zero before ``reset``."""
    horizon: int | None = None
    """Number of rounds the learner is tuned for, if it needs one."""
    rounds: int = 0
    """Rounds seen since ``reset``."""
    _choice: int = -1  # expert of the current round; -1 before it was drawn
    _rng: np.random.Generator
    _range: tuple[float, float] = (0.0, 1.0)

    def reset(self, K: int, horizon: int | None = None, random_state: RandomState = None) -> Self:
        """Start anew with ``K`` experts; returns the learner itself.

        Parameters
        ----------
        K:
            Number of experts.
        horizon:
            Number of rounds to come, for learners whose step depends on it.
        random_state:
            None, an int or a ``numpy.random.Generator``.
        """
        self.K = check_positive_int(K, "K")
        check_size(self.K, _MOST_EXPERTS, "experts")
        self.horizon = None if horizon is None else check_positive_int(horizon, "horizon")
        self.rounds = 0
        self._choice = -1
        self._rng = generator(random_state)
        self._start()
        return self

    @abstractmethod
    def _start(self) -> None:
        """Set up the state of a subclass after ``reset``."""

    @abstractmethod
    def probs(self) -> FloatArray | None:
        """Return the distribution of the coming choice, or None where it is not tracked."""

    def act(self, seen: Any = None) -> int:
        """Return the expert to play in this round; asking twice gives the same answer."""
        if self._choice < 0:
            self._check_started()
            self._choice = self._draw()
        return self._choice

    @abstractmethod
    def _draw(self) -> int:
        """Choose the expert of a new round."""

    def observe(self, feedback: ArrayLike) -> None:
        """Reveal the losses of all experts and end the round.

        Parameters
        ----------
        feedback:
            The losses: a vector of length ``K``, in [0, 1]; overshoots up to 1e-12 are tolerated.
        """
        vector = self._vector(feedback)
        self._learn(vector)
        self.rounds += 1
        self._choice = -1

    @abstractmethod
    def _learn(self, loss: FloatArray) -> None:
        """Take in a checked loss vector."""

    def marginals(
        self, losses: ArrayLike, *, horizon: int | None = None, out: FloatArray | None = None
    ) -> FloatArray:
        """Return the exact probability of every expert in every round of a fixed sequence.

        Parameters
        ----------
        losses:
            Array ``(E, K)``: one row per round.
        horizon:
            Horizon the learner is tuned for; the number of rows by default.
        out:
            Array to write into, for sequences that fill much of the memory.
        """
        result = self.chain(losses, horizon=horizon).marginals
        return result if out is None else _copy_into(out, result)

    @abstractmethod
    def chain(self, losses: ArrayLike, *, horizon: int | None = None) -> LazyChain:
        """Return the exact law of the learner's path on a fixed loss sequence."""

    def sample(
        self,
        losses: ArrayLike,
        replicates: int = 1,
        *,
        horizon: int | None = None,
        random_state: RandomState = None,
    ) -> Int32Array:
        """Draw ``replicates`` paths on a fixed loss sequence at once, shape ``(replicates, E)``."""
        return self.chain(losses, horizon=horizon).sample(replicates, random_state)

    def expected_switches(self, losses: ArrayLike, *, horizon: int | None = None) -> float:
        """Return the exact expected number of rounds in which the expert changes."""
        return self.chain(losses, horizon=horizon).expected_switches

    def _vector(self, loss: ArrayLike) -> FloatArray:
        """Return a checked loss vector; the clip of tiny overshoots never moves a good value."""
        self._check_started()
        vector = _floats(loss, "loss")
        if vector.shape != (self.K,):
            raise InvalidInputError(f"loss must have shape ({self.K},), got {vector.shape}")
        low, high = self._range
        bad = first_outside(vector, low, high)
        if bad >= 0:
            raise InvalidInputError(
                f"losses must lie in [{low:g},{high:g}]; expert {bad} is {_short(vector[bad])}"
            )
        return vector

    def _matrix(self, losses: ArrayLike) -> FloatArray:
        """Return a checked loss matrix."""
        matrix = self._raw_matrix(losses)
        self._check_values(matrix)
        return matrix

    def _raw_matrix(self, losses: ArrayLike) -> FloatArray:
        """Return a loss matrix of the right shape whose values are not yet checked."""
        matrix = _floats(losses, "losses")
        if matrix.ndim != 2 or matrix.size == 0:
            raise InvalidInputError(
                f"losses must not be empty and have two axes, got shape {matrix.shape}"
            )
        return matrix

    def _check_values(self, matrix: FloatArray) -> None:
        low, high = self._range
        bad = first_outside(matrix.reshape(-1), low, high)
        if bad >= 0:
            row, expert = divmod(bad, matrix.shape[1])
            raise InvalidInputError(
                f"losses must lie in [{low:g},{high:g}]; "
                f"row {row} expert {expert} is {_short(matrix[row, expert])}"
            )

    def _check_state(self) -> None:
        """Kinds and shapes as after ``reset``, ranges, and what follows from other parts."""
        K, horizon, rounds = self.K, self.horizon, self.rounds
        require(
            type(K) is int and 0 <= K <= _MOST_EXPERTS, self, "K", "must be a number of experts"
        )
        count = type(rounds) is int and 0 <= rounds <= 2**53
        require(count, self, "rounds", "must be a number of rounds")
        known = horizon is None or (type(horizon) is int and 1 <= horizon <= 2**53)
        require(known, self, "horizon", "must be a number of rounds, or null")
        for name in self._state:
            value = getattr(self, name, None)
            fits = not isinstance(value, np.ndarray) or value.shape == (K,)
            require(fits, self, name, f"must have {K} numbers")
        if K == 0:
            fresh = rounds == 0 and not hasattr(self, "_rng")
            require(fresh, self, "K", "is 0 although the learner was used")
            return
        twin = self.clone().reset(K, horizon, 0)
        same_kinds(self, twin)
        index_in(self, "_choice", self._choice, K)
        self._check_parts(twin)

    def _check_parts(self, fresh: Any) -> None:
        """Check the parts of a subclass; ``fresh`` is the same learner before its first round."""

    def _check_cumulative(self, cumulative: FloatArray, rounds: int | None = None) -> None:
        """Sums of losses lie between the smallest and the largest loss, times the rounds."""
        low, high = self._range
        n = self.rounds if rounds is None else rounds
        tol = 1e-9 * (1 + n) * max(1.0, abs(low), abs(high))
        inside(self, "_cumulative", cumulative, min(low, 0.0) * n, max(high, 0.0) * n, tol)

    def _check_started(self) -> None:
        if self.K == 0:
            raise ProtocolError(f"call reset(K, horizon) before using {type(self).__name__}")


def _floats(values: ArrayLike, name: str) -> FloatArray:
    """Return numbers as float64; arrays of that type, which come in every round, are not judged."""
    if not (isinstance(values, np.ndarray) and values.dtype == np.float64) and (
        fault := array_fault(values, kinds="biuf")
    ):
        raise InvalidInputError(f"{name} must be an array of numbers: {fault}")
    return np.ascontiguousarray(values, dtype=np.float64)


def _short(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 1e6 else f"{value:.4g}"


def _copy_into(out: FloatArray, result: FloatArray) -> FloatArray:
    np.copyto(out, result)
    return out
