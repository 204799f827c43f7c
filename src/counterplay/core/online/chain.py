"""The law of a lazy path of choices: marginals, chance to keep, distribution of fresh draws.

On losses that are fixed in advance, every learner built on exponential weights has deterministic
probabilities; only the draws are random. Keeping the law apart from the draws gives expectations
without simulation, and thousands of replicates that share one weight path.
Source: docs/theory/09-tradeoff.md, "Proposition 9.C: Shrinking Dartboard".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, check_positive_int, check_size
from counterplay.errors import InvalidInputError

Int32Array = NDArray[np.int32]
_UNIFORMS_AT_ONCE = 1 << 22  # 32 MiB of random numbers


@checked(arrays=True)
@dataclass(frozen=True)
class LazyChain:
    """How a learner moves from expert to expert on a fixed loss sequence.

    In round ``i`` the learner keeps its expert ``h`` with probability ``keep[i, h]``; otherwise
    it draws a new one (possibly the same) from ``redraw[i]``. The first round always draws.

    Parameters
    ----------
    marginals:
        Probability of every expert in every round, shape ``(E, K)``.
    keep:
        Probability to keep each expert, shape ``(E, K)``; the first row is zero.
    redraw:
        Distribution of a fresh draw, shape ``(E, K)``.

    Examples
    --------
    Two experts, the second one gets worse; the learner leaves it with probability 1/2:

    >>> import numpy as np
    >>> chain = LazyChain(np.array([[0.5, 0.5], [0.75, 0.25]]),
    ...                   np.array([[0.0, 0.0], [1.0, 0.5]]),
    ...                   np.array([[0.5, 0.5], [1.0, 0.0]]))
    >>> chain.expected_switches
    0.25
    >>> chain.sample(4, random_state=0).shape
    (4, 2)
    """

    marginals: FloatArray
    keep: FloatArray
    redraw: FloatArray

    def __post_init__(self) -> None:
        shape = self.marginals.shape
        for name in ("marginals", "keep", "redraw"):
            array = getattr(self, name)
            if array.ndim != 2 or array.shape != shape:
                raise InvalidInputError(
                    f"{name} must be a matrix (rounds, experts) like the others, got {array.shape}"
                )
            object.__setattr__(self, name, np.asarray(array, dtype=np.float64))

    @property
    def redraw_probability(self) -> FloatArray:
        """Chance of a fresh draw in every round; the first round counts as one."""
        fresh = np.ones(len(self.marginals))
        fresh[1:] = np.einsum("ih,ih->i", self.marginals[:-1], 1.0 - self.keep[1:])
        return fresh

    @property
    def switch_probability(self) -> FloatArray:
        """Chance that the expert of a round differs from the one before; zero in the first."""
        change = np.zeros(len(self.marginals))
        leave = self.marginals[:-1] * (1.0 - self.keep[1:])
        change[1:] = np.einsum("ih,ih->i", leave, 1.0 - self.redraw[1:])
        return change

    @property
    def expected_redraws(self) -> float:
        """Expected number of fresh draws after the first one."""
        return float(self.redraw_probability[1:].sum())

    @property
    def expected_switches(self) -> float:
        """Expected number of rounds in which the expert changes."""
        return float(self.switch_probability.sum())

    def sample(self, replicates: int = 1, random_state: RandomState = None) -> Int32Array:
        """Draw ``replicates`` independent paths at once, shape ``(replicates, E)``.

        Two uniform numbers are used per round and replicate (keep or not, and whom to draw), so
        one path agrees draw for draw with a learner that acts round by round.
        """
        n = check_positive_int(replicates, "replicates")
        check_size(n * len(self.marginals), 10**8, "choices")
        rng = generator(random_state)
        paths = np.empty((n, len(self.marginals)), dtype=np.int32)
        current = np.zeros(n, dtype=np.int32)
        for rows in _blocks(len(self.marginals), n):
            uniforms = rng.random((rows.stop - rows.start, n, 2))
            cumulative = np.cumsum(self.redraw[rows], axis=1)
            _walk(self.keep[rows], cumulative, uniforms, current, paths[:, rows])
        return paths


def concatenate(chains: Sequence[LazyChain]) -> LazyChain:
    """Join chains one after the other; each starts with a fresh draw."""
    if not chains:
        raise InvalidInputError("chains must contain at least one chain")
    return LazyChain(
        np.concatenate([chain.marginals for chain in chains]),
        np.concatenate([chain.keep for chain in chains]),
        np.concatenate([chain.redraw for chain in chains]),
    )


def independent_chain(marginals: FloatArray) -> LazyChain:
    """Return the chain that draws afresh in every round."""
    return LazyChain(marginals, np.broadcast_to(0.0, marginals.shape), marginals)


def normalise(weights: FloatArray) -> FloatArray:
    """Return the weights divided by their sum."""
    result: FloatArray = weights / weights.sum()
    return result


def point_mass(K: int, expert: int) -> FloatArray:
    """Return the distribution that plays ``expert`` for sure."""
    result = np.zeros(K)
    result[expert] = 1.0
    return result


@njit(cache=True)
def pick(weights: FloatArray, uniform: float) -> int:
    """Return an index drawn from unnormalised ``weights`` by the uniform number."""
    total = 0.0
    for h in range(weights.size):
        total += weights[h]
    target, reached, last = uniform * total, 0.0, 0
    for h in range(weights.size):
        if weights[h] > 0.0:
            reached += weights[h]
            last = h
            if reached > target:
                return h
    return last


@njit(cache=True)
def _walk(
    keep: FloatArray,
    cumulative: FloatArray,
    uniforms: FloatArray,
    current: Int32Array,
    paths: Int32Array,
) -> None:
    rounds, replicates, _ = uniforms.shape
    for i in range(rounds):
        row = cumulative[i]
        for r in range(replicates):
            if uniforms[i, r, 0] >= keep[i, current[r]]:
                current[r] = _first_above(row, uniforms[i, r, 1] * row[-1])
            paths[r, i] = current[r]


@njit(cache=True)
def _first_above(cumulative: FloatArray, target: float) -> int:
    low, high = 0, cumulative.size - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > target:
            high = middle
        else:
            low = middle + 1
    while low > 0 and cumulative[low] == cumulative[low - 1]:  # never an expert of weight zero
        low -= 1
    return low


def _blocks(rounds: int, replicates: int) -> Iterator[slice]:
    size = max(1, _UNIFORMS_AT_ONCE // (2 * replicates))
    for start in range(0, rounds, size):
        yield slice(start, min(start + size, rounds))
