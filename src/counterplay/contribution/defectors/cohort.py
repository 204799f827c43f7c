"""The data of an experiment: points shared by all runs, and who holds which of them.

A cohort says for every run and party which points it trains on and which it is judged by. A
defector keeps the first share of its (already shuffled) training points, chosen before training and
nested across shares.
Source: "The experiment of the chapter", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.draws import Keys, check_keys, fold, normals, run_keys, uniforms
from counterplay.core.validation import (
    array_fault,
    check_float_array,
    check_int,
    check_positive_int,
    check_real,
    check_size,
)
from counterplay.errors import InvalidInputError

MOST_POINTS = 20_000_000
MOST_DIGITS = 1_000_000  # of 64 pixels: a quarter of a GiB
_DATA, _NOISE, _SPLIT, _BATCH = 201, 202, 203, 301


@checked(arrays=True)
@dataclass(frozen=True, repr=False)
class Cohort:
    """Parties' data for ``R`` runs with ``k`` parties each.

    Parameters
    ----------
    X:
        All points.
    y:
        Their labels.
    train:
        ``(R, k, n)`` indices of training points, in random order.
    sizes:
        ``(R, k)``: how many of them each party really uses.
    val:
        ``(R, k, v)`` indices of validation points.
    keys:
        ``(R,)`` random keys of the runs.
    """

    X: NDArray[Any]
    y: NDArray[np.int64]
    train: NDArray[np.int64]
    sizes: NDArray[np.int64]
    val: NDArray[np.int64]
    keys: Keys

    def __post_init__(self) -> None:
        runs = check_keys(self.keys).size
        if self.X.ndim < 2 or self.y.shape != (len(self.X),):
            raise InvalidInputError(
                f"X must have one point per label, got shapes {self.X.shape} and {self.y.shape}"
            )
        for name, index in (("train", self.train), ("val", self.val)):
            if index.ndim != 3 or len(index) != runs or not index.size:
                raise InvalidInputError(
                    f"{name} must be ({runs} runs, parties, points), got shape {index.shape}"
                )
            if index.min() < 0 or index.max() >= len(self.X):
                raise InvalidInputError(f"{name} must be points from 0 to {len(self.X) - 1}")
        if not self.sizes.shape == self.train.shape[:2] == self.val.shape[:2]:
            raise InvalidInputError("train, sizes and val must be of the same runs and parties")
        if self.sizes.min() < 1 or self.sizes.max() > self.train.shape[2]:
            raise InvalidInputError(f"sizes must be between 1 and {self.train.shape[2]}")

    def __repr__(self) -> str:
        return f"Cohort({self.runs} runs, {self.parties} parties, {len(self.y)} points)"

    @property
    def runs(self) -> int:
        """Number of runs."""
        return int(self.train.shape[0])

    @property
    def parties(self) -> int:
        """Number of parties per run."""
        return int(self.train.shape[1])

    def defect(self, parties: ArrayLike, fraction: float) -> Cohort:
        """Return the cohort in which party ``parties[r]`` of run r keeps only a share."""
        chosen = check_float_array(parties, "parties").astype(np.int64)
        if chosen.shape not in ((), (self.runs,)):
            raise InvalidInputError(f"parties must be one, or one for each of {self.runs} runs")
        who = np.broadcast_to(chosen, (self.runs,))
        if ((who < 0) | (who >= self.parties)).any():
            raise InvalidInputError(f"parties must be between 0 and {self.parties - 1}")
        sizes = self.sizes.copy()
        rows = np.arange(self.runs)
        sizes[rows, who] = [kept_points(int(n), fraction) for n in sizes[rows, who]]
        return replace(self, sizes=sizes)

    def take(self, runs: ArrayLike) -> Cohort:
        """Return some of the runs only."""
        index = np.asarray(runs)
        return replace(
            self,
            train=self.train[index],
            sizes=self.sizes[index],
            val=self.val[index],
            keys=self.keys[index],
        )

    def draw(self, party: int, round: int, n: int) -> NDArray[np.int64]:
        """Return ``(R, n)`` points that a party draws, with replacement, in one round.

        They depend on the key of the run, the party and the round only.
        """
        u = uniforms(fold(self.keys, _BATCH, party, round), n)
        position = (u * self.sizes[:, party, None]).astype(np.int64)
        return np.take_along_axis(self.train[:, party], position, axis=1)

    def pooled(
        self, counts: NDArray[np.int64], round: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return ``(R, b)`` points drawn in a round, ``counts[r, i]`` of each party, and weights.

        Parties come in order; runs with fewer points are padded with weight zero.
        """
        width = int(counts.sum(axis=1).max())
        index = np.zeros((self.runs, width), dtype=np.int64)
        weight = np.zeros((self.runs, width))
        start = np.zeros(self.runs, dtype=np.int64)
        rows = np.arange(self.runs)[:, None]
        for party in range(self.parties):
            most = int(counts[:, party].max())
            if most == 0:
                continue
            drawn = self.draw(party, round, most)
            inside = np.arange(most) < counts[:, party, None]
            place = (start[:, None] + np.arange(most)).clip(max=width - 1)
            row = np.broadcast_to(rows, inside.shape)[inside]
            index[row, place[inside]] = drawn[inside]
            weight[row, place[inside]] = 1.0
            start += counts[:, party]
        return index, weight / weight.sum(axis=1, keepdims=True)

    def alone(self) -> Cohort:
        """Return single-party runs: run ``r * k + i`` trains party i of run r alone."""
        runs, k = self.runs, self.parties
        keys = np.stack([fold(self.keys, _SPLIT, i) for i in range(k)], axis=1)
        return replace(
            self,
            train=self.train.reshape(runs * k, 1, -1),
            sizes=self.sizes.reshape(runs * k, 1),
            val=self.val.reshape(runs * k, 1, -1),
            keys=keys.reshape(-1),
        )


@checked
def kept_points(n: int, fraction: float) -> int:
    """Return how many of ``n`` points a defector keeps: ``max(1, round(fraction * n))``.

    Examples
    --------
    >>> kept_points(1600, 0.01)
    16
    """
    check_int(n, "n", low=1, high=2**53)
    share = check_real(fraction, "fraction", low=0.0, high=1.0, open_low=True)
    return max(1, round(share * n))


def _indices(points: ArrayLike, name: str) -> NDArray[np.int64]:
    """Return numbers of points."""
    if fault := array_fault(points, kinds="iu"):
        raise InvalidInputError(f"{name} must be numbers of points: {fault}")
    index = np.asarray(points)
    if index.ndim != 1 or (index.size and (index.min() < 0 or index.max() >= 2**53)):
        raise InvalidInputError(f"{name} must be a list of numbers of points")
    return index.astype(np.int64)


def shuffled(keys: Keys, n: int) -> NDArray[np.int64]:
    """Return one random permutation of ``range(n)`` per key."""
    return np.argsort(uniforms(keys, n), axis=-1, kind="stable").astype(np.int64)


@checked
def mixture_parties(
    hard: ArrayLike,
    easy: ArrayLike,
    fractions: tuple[float, ...] = (1.0, 0.9, 0.1, 0.0),
    size: int = 2000,
    train: int = 1600,
    *,
    keys: Keys | None = None,
    disjoint: bool = False,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Deal hard and easy points to parties: ``(R, k, train)`` and ``(R, k, size - train)`` indices.

    Parameters
    ----------
    hard:
        Indices of the hard points.
    easy:
        Indices of the easy points.
    fractions:
        Share of hard points per party.
    size:
        Points per party.
    train:
        How many of them are for training.
    keys:
        One key per run.
    disjoint:
        Whether parties of a run share no point; otherwise each party draws on its own (without
        repeating a point).

    Examples
    --------
    >>> tr, va = mixture_parties(range(4000), range(4000, 8000), disjoint=True)
    >>> ((tr[0] < 4000).sum(axis=1) + (va[0] < 4000).sum(axis=1)).tolist()
    [2000, 1800, 200, 0]
    """
    pools = [_indices(hard, "hard"), _indices(easy, "easy")]
    run = run_keys(0, 1) if keys is None else check_keys(keys)
    check_positive_int(size, "size")
    check_size(len(run) * len(fractions) * max(size, *map(len, pools)), MOST_POINTS, "points")
    check_positive_int(train, "train")
    if train >= size:
        raise InvalidInputError(f"train={train} must be smaller than size={size}")
    shares = [check_real(f, "fractions", low=0.0, high=1.0) for f in fractions]
    counts = [[round(f * size), size - round(f * size)] for f in shares]
    for which, pool in enumerate(pools):
        needed = [count[which] for count in counts]
        required = sum(needed) if disjoint else max(needed)
        if required > len(pool):
            name = ("hard", "easy")[which]
            raise InvalidInputError(f"{required} {name} points are needed, only {len(pool)} given")
    parties = []
    offsets = [0, 0]
    for party, count in enumerate(counts):
        parts = []
        for which, pool in enumerate(pools):
            stream = fold(run, _DATA, which) if disjoint else fold(run, _DATA, which, party)
            start = offsets[which] if disjoint else 0
            parts.append(pool[shuffled(stream, len(pool))[:, start : start + count[which]]])
            offsets[which] += count[which]
        points = np.concatenate(parts, axis=1)
        order = shuffled(fold(run, _SPLIT, party), size)
        parties.append(np.take_along_axis(points, order, axis=1))
    dealt = np.stack(parties, axis=1)
    return dealt[:, :, :train], dealt[:, :, train:]


@checked
def split_indices(
    n: int, pool: int = 60_000, pretrain: int = 30_000, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Split ``range(n)`` at random into party pool, pre-training part and the rest for validation.

    Examples
    --------
    >>> [len(part) for part in split_indices(131_600)]
    [60000, 30000, 41600]
    """
    check_int(n, "n", low=1, high=MOST_POINTS)
    check_int(pool, "pool", low=0)
    check_int(pretrain, "pretrain", low=0)
    check_int(seed, "seed", low=0)
    if pool + pretrain > n:
        raise InvalidInputError(f"pool + pretrain = {pool + pretrain} exceeds the {n} points")
    order = np.random.default_rng(np.random.SeedSequence(seed)).permutation(n)
    return order[:pool], order[pool : pool + pretrain], order[pool + pretrain :]


DIGIT_NOISE = (0.42, 0.40, 0.22, 0.20)
"""Noise of the four parties of the digits experiment: two hard, two easy."""


@checked
def noisy_digits(
    keys: Keys, noise: tuple[float, ...] = DIGIT_NOISE, size: int = 2000, train: int = 1600
) -> Cohort:
    """Return parties that see scikit-learn's digits through different amounts of noise.

    Each party of each run draws ``size`` digits with replacement, scaled to [0, 1], and adds
    Gaussian noise with its own standard deviation.
    """
    from sklearn.datasets import load_digits

    runs, k = len(check_keys(keys)), len(noise)
    check_int(size, "size", low=2)
    check_int(train, "train", low=1, high=size - 1)
    if not noise:
        raise InvalidInputError("noise needs one standard deviation per party")
    for sd in noise:
        check_real(sd, "noise", low=0.0, high=1e6)
    check_size(runs * k * size, MOST_DIGITS, "noisy digits")
    images, labels = load_digits(return_X_y=True)
    base = np.asarray(images, dtype=np.float32) / 16.0
    pixels = base.shape[1]
    X = np.empty((runs, k, size, pixels), dtype=np.float32)
    y = np.empty((runs, k, size), dtype=np.int64)
    for party, sd in enumerate(noise):
        pick = (uniforms(fold(keys, _DATA, party), size) * len(base)).astype(np.int64)
        extra = normals(fold(keys, _NOISE, party), size * pixels).reshape(runs, size, pixels)
        X[:, party] = base[pick] + sd * extra.astype(np.float32)
        y[:, party] = labels[pick]
    index = np.arange(runs * k * size, dtype=np.int64).reshape(runs, k, size)
    return Cohort(
        X=X.reshape(-1, pixels),
        y=y.reshape(-1),
        train=index[:, :, :train],
        sizes=np.full((runs, k), train, dtype=np.int64),
        val=index[:, :, train:],
        keys=np.asarray(keys),
    )


@checked
def pretraining_digits(
    seed: int = 0, sd: float = 0.35, size: int = 4000
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the noisy digits on which all runs are pre-trained."""
    cohort = noisy_digits(fold(run_keys(seed, 1), _SPLIT), (sd,), size, size - 1)
    return cohort.X, cohort.y
