"""Does the log deserve belief? Drift, carry-over, and offers that followed the calendar.

Permutation tests: residuals against time and against the offer before (within groups of equal
offers), offers against time. Beyond some thousand rows the permutation distribution is normal and
its exact moments are used. Source: docs/theory/25-offers.md, "Checks".
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from counterplay.core.seeds import RandomState, spawn
from counterplay.core.validation import FloatArray, IntArray
from counterplay.principal.offer_groups import Groups
from counterplay.principal.offer_log import OfferLog

DRAWS = 999
MOST_PERMUTED = 5000
_CELLS = 200_000  # sorted at once
NEEDS_TIME = "not checked: give time="


def time_checks(
    log: OfferLog, groups: Groups, level: float, random_state: RandomState
) -> list[tuple[str, float, float, str]]:
    """Return check, statistic (a correlation), p-value and verdict."""
    names = ("drift", "carry-over", "offers follow time")
    if log.time is None:
        return [(name, float("nan"), float("nan"), NEEDS_TIME) for name in names]
    residual = log.values - groups.mean[groups.group]
    for g in range(len(groups)):  # post-stratified means are not the means of the rows
        own = groups.group == g
        residual[own] -= residual[own].mean()
    streams = spawn(random_state, 3)
    before, known = previous_power(log)
    found = []
    for name, x, y, strata, rng in (
        ("drift", residual, log.time, groups.group, streams[0]),
        ("carry-over", residual[known], before[known], groups.group[known], streams[1]),
        ("offers follow time", log.power, log.time, np.zeros(len(log), np.int64), streams[2]),
    ):
        if name == "offers follow time" and not log.terms.ordered:
            found.append((name, float("nan"), float("nan"), "not checked: arms have no order"))
            continue
        statistic, p = permutation_test(x, y, strata, rng)
        verdict = "found" if p <= 1.0 - level else "not found"
        found.append((name, statistic, p, verdict))
    return found


def previous_power(log: OfferLog) -> tuple[FloatArray, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Power of the same agent's offer before (of the row before without agents), and if known."""
    assert log.time is not None
    agent = np.zeros(len(log), np.int64) if log.agent is None else log.agent
    order = np.lexsort((np.arange(len(log)), log.time, agent))
    before, known = np.zeros(len(log)), np.zeros(len(log), dtype=bool)
    same = agent[order][1:] == agent[order][:-1]
    later = order[1:][same]
    before[later], known[later] = log.power[order[:-1][same]], True
    return before, known


def permutation_test(
    x: FloatArray, y: FloatArray, strata: IntArray, rng: np.random.Generator
) -> tuple[float, float]:
    """Correlation of x and y within strata, and its two-sided permutation p-value."""
    if x.size < 3:
        return float("nan"), float("nan")
    a, b = _centred(x, strata), _centred(y, strata)
    size = np.sqrt((a @ a) * (b @ b))
    if size <= 0.0:
        return 0.0, 1.0
    observed = float(a @ b)
    if x.size > MOST_PERMUTED:
        count = np.bincount(strata)
        own = np.bincount(strata, weights=a**2) * np.bincount(strata, weights=b**2)
        variance = (own / np.maximum(count - 1, 1)).sum()
        p = 2.0 * float(ndtr(-abs(observed) / np.sqrt(variance)))
        return observed / float(size), p
    order = np.argsort(strata, kind="stable")
    a, b, ids = a[order], b[order], strata[order].astype(np.float64)
    reached, some = 0, max(1, _CELLS // a.size)
    for begin in range(0, DRAWS, some):
        # code of the stratum plus a uniform number: sorting permutes within every stratum
        keys = ids + rng.random((min(some, DRAWS - begin), a.size))
        drawn = a[np.argsort(keys, axis=1)] @ b
        reached += int((np.abs(drawn) >= abs(observed) * (1 - 1e-12)).sum())
    return observed / float(size), (1 + reached) / (1 + DRAWS)


def _centred(values: FloatArray, strata: IntArray) -> FloatArray:
    count = np.maximum(np.bincount(strata), 1)
    return np.asarray(values - (np.bincount(strata, weights=values) / count)[strata])
