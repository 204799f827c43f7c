"""Rows of a log with neighbouring offers as groups that can carry a confidence limit.

Distinct offers are groups; neighbours are merged until each has enough rows that differ. Rows of
one agent are dependent (variances from agents' totals), strata are averaged with common weights.
Source: Proposition 25.C, see docs/theory/25-offers.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from counterplay.core.validation import FloatArray, IntArray
from counterplay.errors import InvalidInputError

LEAST_ROWS = 15
LEAST_OFF = 5
"""Rows of a group that must differ from its commonest outcome."""
LEAST_AGENTS = 5
MOST_GROUPS = 40


@dataclass(frozen=True)
class Groups:
    """Groups of rows with neighbouring powers, weakest first.

    Attributes
    ----------
    low:
        Smallest power of each group.
    high:
        Largest power of each group.
    rows:
        Rows of each group.
    weight:
        Rows that count (those in strata with all groups).
    mean:
        Mean outcome, averaged over strata with common weights.
    cov:
        Covariance of the means.
    dof:
        Degrees of freedom of each variance.
    units:
        Independent units: rows, or agents.
    skew:
        Mean cubed standardised residual of all units.
    group:
        Group of every row, in the order given.
    is_binary:
        Whether outcomes are 0 or one amount.
    unit:
        That amount; 1 otherwise.
    dropped:
        Share of the rows in strata that lack a group.
    dominated:
        Groups in which one row makes more than a third of the sum.
    """

    low: FloatArray
    high: FloatArray
    rows: IntArray
    weight: FloatArray
    mean: FloatArray
    cov: FloatArray
    dof: FloatArray
    units: FloatArray
    skew: float
    group: IntArray
    is_binary: bool
    unit: float
    dropped: float
    dominated: IntArray

    def __len__(self) -> int:
        return int(self.low.size)

    @property
    def is_diagonal(self) -> bool:
        """Whether the means of different groups are independent."""
        return bool((self.cov == np.diag(np.diag(self.cov))).all())


def group_rows(
    power: FloatArray,
    outcome: FloatArray,
    *,
    agent: IntArray | None = None,
    stratum: IntArray | None = None,
    shaped: bool = True,
) -> Groups:
    """Form the groups and their statistics; nothing depends on the order of the rows."""
    keys = [np.zeros(0) if k is None else k for k in (stratum, agent)]
    order = np.lexsort([k for k in (*keys, outcome, power) if k.size])
    s, m = power[order], outcome[order]
    distinct = np.unique(m)
    binary = distinct.size <= 2 and bool((distinct >= 0).all()) and 0.0 in distinct
    members = None if agent is None else agent[order]
    if agent is not None and np.unique(agent).size < 2:
        raise InvalidInputError(
            "all rows are of one agent, so nothing shows how agents differ; without agent= rows "
            "are taken as independent"
        )
    exact = binary and agent is None and stratum is None  # else limits rest on the variance
    starts = _starts(s, m, members, exact=exact, shaped=shaped)
    group = np.searchsorted(starts, np.arange(s.size), side="right") - 1
    ends = np.append(starts[1:], s.size) - 1
    weight, mean, residual, kept = _means(m, group, starts.size, stratum, order)
    cov, dof, units, skew = _spread(m, residual, weight, group, kept, members, stratum, order)
    back = np.empty(order.size, dtype=np.int64)
    back[order] = group
    sums = np.bincount(group, weights=m)
    top = np.maximum.reduceat(m, starts)
    heavy = (top > sums / 3.0) & (sums > 0) & (not binary)
    return Groups(
        low=s[starts],
        high=s[ends],
        rows=np.bincount(group).astype(np.int64),
        weight=weight,
        mean=mean,
        cov=cov,
        dof=dof,
        units=units,
        skew=skew,
        group=back,
        is_binary=binary,
        unit=float(distinct[-1]) if binary and distinct[-1] > 0 else 1.0,
        dropped=float(1.0 - kept.mean()),
        dominated=np.flatnonzero(heavy),
    )


def _starts(
    s: FloatArray, m: FloatArray, agent: IntArray | None, *, exact: bool, shaped: bool
) -> IntArray:
    """First rows of the groups; rows are sorted by power."""
    edges = np.flatnonzero(np.diff(s)) + 1
    offers = np.concatenate([[0], edges, [s.size]])
    if not shaped:
        return offers[:-1].astype(np.int64)
    starts: list[int] = []
    begin, seen, people = 0, Counter[float](), set[int]()
    for first, last in zip(offers[:-1].tolist(), offers[1:].tolist()):
        if not exact:
            seen.update(m[first:last].tolist())
        if agent is not None:
            people.update(agent[first:last].tolist())
        rows = last - begin
        full = rows >= LEAST_ROWS and (agent is None or len(people) >= LEAST_AGENTS)
        if full and not exact:
            full = rows - max(seen.values()) >= LEAST_OFF
        if full:
            starts.append(begin)
            begin, seen, people = last, Counter(), set()
    if not starts:  # all rows together are one group
        return np.zeros(1, dtype=np.int64)
    return _fewer(np.array(starts, dtype=np.int64), s.size)


def _fewer(starts: IntArray, rows: int) -> IntArray:
    """Merge the smallest neighbours until there are at most forty groups."""
    sizes = np.diff(np.append(starts, rows)).astype(np.float64)
    while sizes.size > MOST_GROUPS:
        at = int(np.argmin(sizes[:-1] + sizes[1:]))
        sizes[at] += sizes[at + 1]
        sizes, starts = np.delete(sizes, at + 1), np.delete(starts, at + 1)
    return starts


def _means(
    m: FloatArray, group: IntArray, k: int, stratum: IntArray | None, order: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Weights, means (averaged over strata), residuals of rows, and which rows count."""
    if stratum is None:
        rows = np.asarray(np.bincount(group, minlength=k), dtype=np.float64)
        level = np.bincount(group, weights=m, minlength=k) / rows
        return rows, level, m - level[group], np.ones(m.size)
    h = stratum[order]
    count = np.zeros((int(h.max()) + 1, k))
    np.add.at(count, (h, group), 1.0)
    full = np.asarray((count >= 2).all(axis=1))  # one row in a cell has no variance
    if not full.any():
        raise _no_overlap(count)
    total = np.zeros_like(count)
    np.add.at(total, (h, group), m)
    cell = total / np.maximum(count, 1.0)
    share = count[full].sum(axis=1) / count[full].sum()
    mean = np.asarray(share @ cell[full])
    kept = full[h].astype(np.float64)
    n = np.asarray(np.bincount(group, weights=kept, minlength=k), dtype=np.float64)
    return n, mean, (m - cell[h, group]) * kept, kept


def _no_overlap(count: FloatArray) -> InvalidInputError:
    both = int((count > 0).sum(axis=1).max())
    if both < 2:
        return InvalidInputError("no stratum contains two offers: compare within a coarser column")
    return InvalidInputError(
        f"no stratum contains all {count.shape[1]} offers twice (the fullest has {both}): compare "
        "within a coarser column, or fewer offers"
    )


def _spread(
    m: FloatArray,
    residual: FloatArray,
    weight: FloatArray,
    group: IntArray,
    kept: FloatArray,
    agent: IntArray | None,
    stratum: IntArray | None,
    order: IntArray,
) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Covariance of the means, degrees of freedom and units of every group; common skewness."""
    k = weight.size
    size, share, strata = (
        weight[group],
        np.ones(m.size),
        1,
    )  # rows of the cell, weight of its stratum
    if stratum is not None:
        h = stratum[order]
        count = np.zeros((int(h.max()) + 1, k))
        np.add.at(count, (h, group), kept)
        size = np.maximum(count[h, group], 2.0)
        share = (count.sum(axis=1) / count.sum())[h]
        strata = int(np.count_nonzero(count.sum(axis=1)))
    pushed = kept * share / size * residual  # how far a row moves its group's mean
    if agent is not None:
        return _by_agent(pushed, group, agent, k)
    dof = np.maximum(weight - strata, 1.0)
    variance = np.bincount(group, weights=pushed**2 * size / (size - 1.0), minlength=k)
    spread = np.sqrt(np.maximum(np.bincount(group, weights=residual**2, minlength=k) / dof, 0.0))
    scaled = residual / np.where(spread > 0, spread, 1.0)[group]
    return np.diag(variance), dof, weight, float((scaled**3 * kept).sum() / kept.sum())


def _by_agent(
    pushed: FloatArray, group: IntArray, agent: IntArray, k: int
) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Cluster-robust: an agent's rows move the means together, also under different offers."""
    people, code = np.unique(agent, return_inverse=True)
    totals = np.zeros((people.size, k))
    np.add.at(totals, (code, group), pushed)
    present = np.zeros((people.size, k), dtype=bool)
    present[code, group] = True
    count = present.sum(axis=0).astype(np.float64)
    lift = np.sqrt(count / np.maximum(count - 1.0, 1.0))
    cov = (totals.T @ totals) * lift[:, None] * lift[None, :]
    spread = np.sqrt(np.maximum(np.diag(cov) / np.maximum(count, 1.0), 1e-300))
    cubed = float(np.where(present, (totals / spread) ** 3, 0.0).sum() / count.sum())
    return cov, np.maximum(count - 1.0, 1.0), count, cubed
