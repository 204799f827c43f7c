"""Stand-ins: which active expert is played for one that is switched off.

The map ``f`` sends every expert to an active one and leaves active experts alone. It changes only
when somebody is switched off or on. Source: Alg. alg:orc1 and alg:orc2; spec 09, sections 3.7 and
3.10 (with the reset that is missing in the source).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numba import njit

from counterplay.core.online.chain import Int32Array
from counterplay.core.validation import BoolArray, FloatArray, IntArray

Fallback = Literal["best_primary", "min_cusum", "first"]
FALLBACKS: tuple[Fallback, ...] = ("best_primary", "min_cusum", "first")


def next_map(
    standin: Int32Array,
    active: BoolArray,
    scores: FloatArray,
    *,
    restore: bool = True,
) -> Int32Array:
    """Return the map after a change of activity.

    Everybody whose stand-in is gone gets the active expert with the smallest score (ties go to the
    lowest index). ``restore=False`` leaves experts that came back with their old stand-in, which
    is what the source does and what breaks its proof.
    """
    new = standin.copy()
    if restore:
        new[active] = np.flatnonzero(active)
    lost = ~active[new]
    if lost.any():
        new[lost] = np.where(active, scores, np.inf).argmin()
    return new


def map_history(
    active: BoolArray,
    l1: FloatArray,
    l2: FloatArray,
    fallback: Fallback,
    *,
    c: float = 0.0,
    resets: tuple[int, ...] = (0,),
    restore: bool = True,
) -> tuple[IntArray, Int32Array]:
    """Return all maps of a complete run and the rounds from which they are valid."""
    K = active.shape[1]
    changes = np.flatnonzero((active[1:] != active[:-1]).any(axis=1)) + 1
    scores = fallback_scores(changes, l1, l2, fallback, c, np.array(resets))
    standin = np.arange(K, dtype=np.int32)
    starts, maps = [0], [next_map(standin, active[0], np.zeros(K))]
    for t, score in zip(changes, scores):
        new = next_map(maps[-1], active[t], score, restore=restore)
        if not np.array_equal(new, maps[-1]):
            starts.append(int(t))
            maps.append(new)
    return np.array(starts), np.array(maps)


def fallback_scores(
    rounds: IntArray,
    l1: FloatArray,
    l2: FloatArray,
    fallback: Fallback,
    c: float,
    resets: IntArray,
) -> FloatArray:
    """Return what the fallback minimises, before each of the given rounds."""
    out = np.zeros((rounds.size, l1.shape[1]))
    if fallback == "best_primary":
        _sums_before(l1, rounds, out)
    elif fallback == "min_cusum":
        _levels_before(l2, c, resets, rounds, out)
    return out


@njit(cache=True)
def _sums_before(losses: FloatArray, rounds: IntArray, out: FloatArray) -> None:
    total, j = np.zeros(losses.shape[1]), 0
    for t in range(losses.shape[0]):
        while j < rounds.size and rounds[j] == t:
            out[j] = total
            j += 1
        if j == rounds.size:
            return
        for h in range(losses.shape[1]):
            total[h] += losses[t, h]


@njit(cache=True)
def _levels_before(
    l2: FloatArray, c: float, resets: IntArray, rounds: IntArray, out: FloatArray
) -> None:
    level, j, n = np.zeros(l2.shape[1]), 0, 0
    for t in range(l2.shape[0]):
        while n < resets.size and resets[n] <= t:
            if resets[n] == t:
                level[:] = 0.0
            n += 1
        while j < rounds.size and rounds[j] == t:
            out[j] = level
            j += 1
        if j == rounds.size:
            return
        for h in range(l2.shape[1]):
            level[h] = max(level[h], 0.0) + l2[t, h] - c
