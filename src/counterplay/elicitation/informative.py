"""The most informative comparison: which two options to show next.

Preferences that explain the answers are drawn from a population in which people who care about
everything and people who care about one thing are equally likely. Each candidate pair splits them
by the answer they would give; the pair is chosen that leaves the smallest expected regret and
splits evenly.
Source: docs/theory/08-elicitation.md, "The adaptive questionnaire"; value of information,
Chajewska, Koller, Parr (2000).
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numba import njit
from numpy.typing import NDArray

from counterplay.core.validation import FloatArray, IntArray
from counterplay.elicitation.consistent_set import ConsistentSet
from counterplay.elicitation.option_pool import Certificate, OptionPool, best_among
from counterplay.elicitation.population import ENOUGH, prior_shares

_PEOPLE = 512
_SAMPLES = 192
_CANDIDATES = 20
_PAIRS = 64  # pairs whose expected regret is computed
_CORNERS = 64
_CORNER_SHARE = 0.3  # what all vertices count at most, as a share of everything
_EVEN = 3.0  # what an uneven split costs, in targets, besides the smallest expected regret


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
    consistent: ConsistentSet,
    certificate: Certificate,
    asked: AbstractSet[tuple[int, int]],
    target: float,
    rng: np.random.Generator,
) -> Choice | None:
    """Return the best pair that was not asked before, or None if no pair tells anything.

    ``target`` is the relative regret with which people are satisfied.
    """
    people, corners = _spread(consistent, rng)
    contenders = certificate.contenders
    everybody = np.vstack([people.weights, corners])
    places, best = best_among(everybody, pool.values[contenders])
    winners = contenders[places]
    kept = people.weights @ pool.values[certificate.option] / best[: len(people.weights)]
    satisfied = float(people.shares[kept >= 1.0 - target].sum())
    sample = _with_corners(people, everybody, satisfied)
    likely = _candidates(winners, sample.shares, certificate)
    choice = _best_pair(pool, likely, sample, best, asked, target)
    if choice is None and len(pool) > likely.size:  # any two options may still cut the set
        others = rng.permutation(len(pool))[: 2 * _CANDIDATES]
        choice = _best_pair(pool, np.sort(others), sample, best, asked, target)
    return choice


@dataclass(frozen=True, eq=False)
class _Sample:
    """Consistent preferences, their precisions, and how much each counts."""

    weights: FloatArray
    precision: FloatArray
    shares: FloatArray


def _best_pair(
    pool: OptionPool,
    candidates: IntArray,
    sample: _Sample,
    best: FloatArray,
    asked: AbstractSet[tuple[int, int]],
    target: float,
) -> Choice | None:
    """The pair of candidates that leaves the smallest expected regret, or None.

    Only the pairs that split the preferences most evenly are looked at.
    """
    worth = pool.values[candidates] @ sample.weights.T
    first, second = _answer_shares(worth, sample.precision, sample.shares)
    left, right = _all_pairs(candidates.size)
    largest = np.maximum(np.maximum(first, second), 1.0 - first - second)
    largest[_places(candidates, asked)] = 1.0
    looked = np.flatnonzero(largest < 1.0 - 1e-6)
    if not looked.size:
        return None
    if looked.size > _PAIRS:
        looked = np.sort(looked[np.argpartition(largest[looked], _PAIRS)[:_PAIRS]])
    one, other = _split(worth, sample.precision, left[looked], right[looked])
    regret = (sample.shares * (1.0 - worth / best)).T.astype(np.float32)
    after = _expected_regret(one, other, regret)
    uneven = (after.min() + _EVEN * target) * np.abs(largest[looked] - 0.5)
    best_pair = int((after + uneven).argmin())
    chosen = looked[best_pair]
    return Choice(
        int(candidates[left[chosen]]),
        int(candidates[right[chosen]]),
        float(first[chosen]),
        float(second[chosen]),
        float(regret.sum(axis=0).min()),
        float(after[best_pair]),
    )


def _spread(consistent: ConsistentSet, rng: np.random.Generator) -> tuple[_Sample, FloatArray]:
    """Preferences that explain the answers, and some vertices of the consistent set."""
    weights = consistent.people(_PEOPLE, rng)
    precision, shares = np.zeros(len(weights)), np.full(len(weights), 1.0 / max(len(weights), 1))
    if len(weights) < ENOUGH:
        weights, precision = consistent.sample(_SAMPLES, rng)
        shares = prior_shares(weights)
    corners = consistent.vertices
    if len(corners) > _CORNERS:
        corners = corners[np.sort(rng.permutation(len(corners))[:_CORNERS])]
    return _Sample(weights, precision, shares), corners


def _with_corners(people: _Sample, everybody: FloatArray, satisfied: float) -> _Sample:
    """Let the vertices count the more, the more people the recommended option satisfies already.

    People decide what to recommend; vertices decide the certificate.
    """
    share, corners = _CORNER_SHARE * satisfied, len(everybody) - len(people.weights)
    return _Sample(
        everybody,
        np.append(people.precision, np.zeros(corners)),
        np.append((1.0 - share) * people.shares, np.full(corners, share / corners)),
    )


def _candidates(winners: IntArray, shares: FloatArray, certificate: Certificate) -> IntArray:
    """Options that are best for some consistent preference, the most likely ones first.

    The vertices together count as much as a tenth of the sampled preferences: they decide the
    certificate.
    """
    at_vertices = certificate.champions
    options = np.concatenate([winners, at_vertices])
    counts = np.append(shares, np.full(len(at_vertices), 0.1 / len(at_vertices)))
    mass = np.bincount(options, counts)
    found = np.flatnonzero(mass)
    likely = found[np.argsort(-mass[found], kind="stable")[:_CANDIDATES]]
    chosen = {*likely.tolist(), certificate.option, certificate.rival}
    return np.array(sorted(chosen))


def _places(candidates: IntArray, asked: AbstractSet[tuple[int, int]]) -> list[int]:
    """Where the pairs that were asked before are among all pairs of candidates."""
    n = candidates.size
    place = {option: i for i, option in enumerate(candidates.tolist())}
    known = [(place[a], place[b]) for a, b in asked if a in place and b in place]
    return [i * (2 * n - i - 1) // 2 + j - i - 1 for i, j in known]


@lru_cache(maxsize=128)
def _all_pairs(n: int) -> tuple[IntArray, IntArray]:
    left, right = np.triu_indices(n, 1)
    return left, right


def _expected_regret(
    first: NDArray[np.float32], second: NDArray[np.float32], regret: NDArray[np.float32]
) -> FloatArray:
    """Expected regret of the best candidate after the answer to each pair."""
    total, after_first = regret.sum(axis=0), first @ regret
    if not second.size:  # nobody answers "same"
        least = after_first.min(axis=1) + (total - after_first).min(axis=1)
        return np.asarray(least, dtype=np.float64)
    after_second = second @ regret
    rest = np.maximum(total - after_first - after_second, 0.0)
    least = after_first.min(axis=1) + after_second.min(axis=1) + rest.min(axis=1)
    return np.asarray(least, dtype=np.float64)


@njit(cache=True, fastmath=True)
def _answer_shares(worth, precision, shares):  # type: ignore[no-untyped-def]  # compiled by numba
    """Share of the preferences that answer "first" and "second" to each pair of candidates."""
    candidates, n = worth.shape
    pairs = candidates * (candidates - 1) // 2
    first, second = np.empty(pairs), np.empty(pairs)
    ties = precision.max() > 0.0
    pair = 0
    for one in range(candidates):
        for other in range(one + 1, candidates):
            above = below = 0.0
            for i in range(n):
                above += shares[i] if worth[one, i] - worth[other, i] > precision[i] else 0.0
            for i in range(n if ties else 0):
                below += shares[i] if worth[other, i] - worth[one, i] > precision[i] else 0.0
            first[pair] = above
            second[pair] = below if ties else 1.0 - above
            pair += 1
    return first, second


@njit(cache=True, fastmath=True)
def _split(worth, precision, left, right):  # type: ignore[no-untyped-def]  # compiled by numba
    """Who answers "first" and "second" to each of these pairs.

    Without precision everybody answers one or the other, and ``second`` stays empty.
    """
    pairs, n = left.size, precision.size
    ties = precision.max() > 0.0
    first = np.empty((pairs, n), np.float32)
    second = np.empty((pairs if ties else 0, n), np.float32)
    for pair in range(pairs):
        one, other = left[pair], right[pair]
        for i in range(n):
            first[pair, i] = 1.0 if worth[one, i] - worth[other, i] > precision[i] else 0.0
        for i in range(n if ties else 0):
            second[pair, i] = 1.0 if worth[other, i] - worth[one, i] > precision[i] else 0.0
    return first, second
