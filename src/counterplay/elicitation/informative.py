"""The most informative comparison: which two options to show next.

Preferences are drawn from the consistent set. Each candidate pair splits them by the answer they
would give; the pair is chosen that leaves the smallest expected regret and splits evenly.
Source: spec 08 (adaptive elicitation); value of information, Chajewska, Koller, Parr (2000).
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from counterplay.core.validation import FloatArray, IntArray
from counterplay.elicitation.option_pool import Certificate, OptionPool
from counterplay.elicitation.tolerant_set import TolerantSet

_SAMPLES = 256
_CANDIDATES = 32
_CORNERS = 64


@dataclass(frozen=True)
class Choice:
    """Two options of the pool and what the answer is expected to bring."""

    first: int
    second: int
    share_first: float
    """Share of the consistent preferences that would answer "first"."""
    share_second: float
    regret_before: float
    """Expected relative regret now, and after the answer."""
    regret_after: float


def most_informative(
    pool: OptionPool,
    consistent: TolerantSet,
    certificate: Certificate,
    asked: AbstractSet[tuple[int, int]],
    balance: float,
    rng: np.random.Generator,
) -> Choice | None:
    """Return the best pair that was not asked before, or None if no pair tells anything.

    ``balance`` is what an uneven split costs, in units of relative regret.
    """
    weights, precision = _spread(consistent, rng)
    candidates = _candidates(pool, consistent, certificate, weights)
    left, right = np.triu_indices(candidates.size, 1)
    fresh = np.array(
        [(int(a), int(b)) not in asked for a, b in zip(candidates[left], candidates[right])],
        dtype=bool,
    )
    left, right = left[fresh], right[fresh]
    if not left.size:
        return None
    worth = weights @ pool.values[candidates].T
    best = (weights @ pool.values.T).max(axis=1, keepdims=True)
    regret = 1.0 - worth / best
    difference = (worth[:, left] - worth[:, right]).T
    first = (difference > precision).astype(np.float64)
    second = (difference < -precision).astype(np.float64)
    score, after, informative = _expected(first, second, regret, balance)
    if not informative.any():
        return None
    chosen = int(np.where(informative, score, np.inf).argmin())
    return Choice(
        int(candidates[left[chosen]]),
        int(candidates[right[chosen]]),
        float(first[chosen].mean()),
        float(second[chosen].mean()),
        float(regret.mean(axis=0).min()),
        float(after[chosen]),
    )


def _spread(consistent: TolerantSet, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Random preferences and some vertices, so that no corner of the set is overlooked."""
    weights, precision = consistent.sample(_SAMPLES, rng)
    corners = consistent.vertices
    if len(corners) > _CORNERS:
        corners = corners[np.sort(rng.permutation(len(corners))[:_CORNERS])]
    return np.vstack([weights, corners]), np.append(precision, np.zeros(len(corners)))


def _candidates(
    pool: OptionPool, consistent: TolerantSet, certificate: Certificate, weights: FloatArray
) -> IntArray:
    """Options that are best for some consistent preference, the most frequent ones first."""
    winners = np.concatenate(
        [(weights @ pool.values.T).argmax(axis=1), pool.best(consistent.vertices)]
    )
    options, counts = np.unique(winners, return_counts=True)
    frequent = options[np.argsort(-counts, kind="stable")][:_CANDIDATES]
    return np.unique(np.concatenate([frequent, [certificate.option, certificate.rival]]))


def _expected(
    first: FloatArray, second: FloatArray, regret: FloatArray, balance: float
) -> tuple[FloatArray, FloatArray, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
    """Score of each pair, its expected regret afterwards, and whether it splits at all."""
    n = len(regret)
    total = regret.sum(axis=0)
    after_first, after_second = first @ regret, second @ regret
    rest = np.maximum(total - after_first - after_second, 0.0)
    after = (after_first.min(axis=1) + after_second.min(axis=1) + rest.min(axis=1)) / n
    shares = np.stack([first.mean(axis=1), second.mean(axis=1)])
    largest = np.maximum(shares.max(axis=0), 1.0 - shares.sum(axis=0))
    return after + balance * np.abs(largest - 0.5), after, largest < 1.0 - 0.5 / n
