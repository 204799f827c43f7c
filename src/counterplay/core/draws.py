"""Random numbers by position instead of by order: any draw of any run can be computed on its own.

A key and a counter go in, a uniform number comes out (SplitMix64). A run therefore draws the same
minibatches whether it is trained alone, in a batch of a hundred, on a GPU, or in a Flower client.
Reference: Steele, Lea, Flood (2014), *Fast Splittable Pseudorandom Number Generators*.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from counterplay.core.validation import shorten
from counterplay.errors import InvalidInputError

Keys = NDArray[np.uint64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def mix(x: Keys) -> Keys:
    """Return the SplitMix64 finaliser of each entry (arithmetic modulo 2^64 is intended)."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)), dtype=np.uint64)


def run_keys(seed: int, runs: int, first: int = 0) -> Keys:
    """Return one key per run, from the children of ``SeedSequence(seed)``.

    Examples
    --------
    >>> bool((run_keys(0, 5)[3:] == run_keys(0, 2, first=3)).all())
    True
    """
    children = (
        np.random.SeedSequence(seed, spawn_key=(first + r,)).generate_state(1, np.uint64)[0]
        for r in range(runs)
    )
    return np.fromiter(children, dtype=np.uint64, count=runs)


def check_keys(keys: Keys) -> Keys:
    """Return one key per run, as :func:`run_keys` makes them; raise if they are something else.

    Examples
    --------
    >>> check_keys([1, 2])
    Traceback (most recent call last):
        ...
    counterplay.errors.InvalidInputError: keys must be those of run_keys(seed, runs), got [1, 2]
    """
    array = np.asarray(keys) if isinstance(keys, np.ndarray) else np.empty(0)
    if array.ndim != 1 or array.dtype != np.uint64 or not array.size:
        raise InvalidInputError(
            f"keys must be those of run_keys(seed, runs), got {shorten(keys, 100)}"
        )
    return array


def fold(keys: Keys, *parts: int) -> Keys:
    """Return sub-keys for a path of small integers such as (purpose, agent, round)."""
    folded = np.asarray(keys, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for part in parts:
            folded = mix(folded + _GAMMA * np.uint64(part + 1))
    return folded


def uniforms(keys: Keys, n: int) -> NDArray[np.float64]:
    """Return ``n`` uniform numbers in [0, 1) per key, as a new last axis.

    Examples
    --------
    >>> uniforms(run_keys(0, 2), 3).shape
    (2, 3)
    """
    counter = np.arange(1, n + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        bits = mix(np.asarray(keys)[..., None] + _GAMMA * counter)
    return np.asarray((bits >> np.uint64(11)) * 2.0**-53, dtype=np.float64)


def normals(keys: Keys, n: int) -> NDArray[np.float64]:
    """Return ``n`` standard normal numbers per key (Box-Muller)."""
    half = (n + 1) // 2
    u = uniforms(keys, 2 * half)
    radius = np.sqrt(-2.0 * np.log1p(-u[..., :half]))
    angle = 2.0 * np.pi * u[..., half:]
    both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    return np.asarray(both[..., :n])
