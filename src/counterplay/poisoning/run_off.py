"""Run-off election: the two classes with most votes meet again, every model chooses between them.

A plurality vote throws away what a model thinks of the classes it did not vote for. In the second
round a model that voted for a third class says which of the two finalists it prefers. To change the
outcome an attacker must either push the winner out of the first round, which takes two classes that
both overtake it, or bring one class into the final and let it win there. Source: Rezaei,
Banihashem, Chegini and Feizi (2023), "Run-off election: improved provable defense against data
poisoning attacks"; the certificates are ours: they know unseen labels and models without an
opinion, and count the way into the final exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.validation import FloatArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.poisoning.certificates import part_table, surviving_parts

_NEVER = np.iinfo(np.int64).max // 4


@dataclass(frozen=True)
class RunOff:
    """Both rounds of the election at each point.

    Attributes
    ----------
    winner:
        Position of the finalist that wins. Ties go to the first class, in both rounds.
    rival:
        Position of the other finalist.
    counts:
        Votes of the first round, shape (points, classes).
    lead:
        Second round: models that prefer the winner minus models that prefer the rival.
    ahead:
        For every class, models that prefer the winner to it minus models that prefer it.
    """

    winner: IntArray
    rival: IntArray
    counts: IntArray
    lead: IntArray
    ahead: IntArray

    def shares(self) -> FloatArray:
        """Vote shares in which the finalists share their votes as the second round decided."""
        shares = self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1)
        if shares.shape[1] == 1:
            return np.asarray(shares, dtype=np.float64)
        at = np.arange(len(shares))
        both = shares[at, self.winner] + shares[at, self.rival]
        part = 0.5 + 0.5 * self.lead / np.maximum(self.counts.sum(axis=1), self.lead)
        shares[at, self.winner], shares[at, self.rival] = both * part, both * (1 - part)
        return np.asarray(shares, dtype=np.float64)


def run_off(votes: ArrayLike, scores: ArrayLike) -> RunOff:
    """Hold the election.

    Parameters
    ----------
    votes:
        Class positions of the first round, shape (models, points); -1 abstains.
    scores:
        Score of every class, shape (models, points, classes); ``-inf`` where a model does not know
        the class.

    In the second round a model stays with a finalist it has voted for. If it has voted for a third
    class it chooses by score, and abstains if it does not know both finalists: a small block often
    misses a class, and such a model would speak against it from ignorance.

    Examples
    --------
    Three models vote 0, 1, 2. The third prefers 1 to 0, so 1 wins the second round.

    >>> scores = np.array([[[3, 2, 1]], [[1, 3, 2]], [[0, 2, 3]]])
    >>> run_off([[0], [1], [2]], scores).winner
    array([1])
    """
    table, value = np.asarray(votes), np.asarray(scores)
    if value.ndim != 3 or value.shape[:2] != table.shape:
        raise InvalidInputError(f"scores must be {table.shape} by classes, got {value.shape}")
    n, k = value.shape[1:]
    counts = np.stack([(table == c).sum(axis=0) for c in range(k)], axis=1).astype(np.int64)
    at = np.arange(n)
    first = counts.argmax(axis=1)
    others = counts.copy()
    others[at, first] = -1
    second = others.argmax(axis=1) if k > 1 else first
    lead = _prefers(table, value, first, second).sum(axis=0)
    stays = (lead > 0) | ((lead == 0) & (first <= second))
    winner, rival = np.where(stays, first, second), np.where(stays, second, first)
    ahead = [_prefers(table, value, winner, np.full(n, c)).sum(axis=0) for c in range(k)]
    return RunOff(winner, rival, counts, np.abs(lead), np.stack(ahead, axis=1))


def _prefers(table: IntArray, value: FloatArray, a: IntArray, b: IntArray) -> IntArray:
    """What each model says between the classes a and b of each point: 1, -1, or 0 for nothing."""
    at = np.arange(len(a))
    one, two = value[:, at, a], value[:, at, b]
    both = (one > -np.inf) & (two > -np.inf)
    by_score = np.where(both, (one > two).astype(np.int64) - (one < two), 0)
    choice: IntArray = np.where(table == a, 1, np.where(table == b, -1, by_score))
    return np.where(a == b, 0, choice)


def run_off_radius(election: RunOff) -> IntArray:
    """Rows that may be inserted or removed without changing the winner; one model per row.

    Notes
    -----
    Write N for the votes of the first round, p for the winner, [a < b] for "a wins ties against b",
    and let t models change in any way. A change moves one vote, so it takes at most 2 from the lead
    of one class over another.

    *p is out of the final* only if two classes a and b overtake it. Their leads over p must grow by
    x = N_p - N_a - [a < p] + 1 and y = N_p - N_b - [b < p] + 1. One change gives at most 2 to one
    of them, and 3 to both together, so t >= max(x/2, y/2, (x + y)/3).

    *p meets c in the final and loses* only if the lead of p over c in the second round, minus one
    if c wins ties, becomes negative: 2 t exceeds it. And c is in the final only if it beats every
    other class c': it gains at most t votes, and the others lose at most t together, so the sum
    over c' of max(0, N_c' + [c' < c] - N_c - t) is at most t.

    Two labels that nobody has seen yet may be inserted; they start without votes and win ties, and
    only the models that vote for p speak against them.

    Examples
    --------
    Five models vote for class 0, four for class 1, and three for class 2 with class 0 as second
    choice. One row can turn the plurality vote; the run-off survives it.

    >>> votes = np.repeat([0, 1, 2], [5, 4, 3])[:, None]
    >>> scores = np.array([[3, 1, 2], [2, 3, 1], [2, 1, 3]])[votes]
    >>> run_off_radius(run_off(votes, scores))
    array([1])
    """
    n, k = election.counts.shape
    at, p = np.arange(n), election.winner
    counts = np.column_stack([election.counts, np.zeros((n, 2), dtype=np.int64)])
    own = counts[at, p][:, None]
    ahead = np.column_stack([election.ahead, own, own])
    rank = np.concatenate([np.arange(k), [-1, -1]])
    wins_ties = rank[None, :] < p[:, None]
    missing = own - counts - wins_ties + 1
    missing[at, p] = _NEVER
    x, y = np.partition(missing, 1, axis=1)[:, :2].T
    out = np.maximum(np.maximum(-(-x // 2), -(-y // 2)), -(-(x + y) // 3))
    lost = np.maximum((ahead - wins_ties) // 2 + 1, 0)
    lost[at, p] = _NEVER
    reach = np.stack([_steps_into_the_final(counts, rank, c, p) for c in range(k + 2)], axis=1)
    need = np.minimum(np.maximum(lost, reach).min(axis=1), np.maximum(out, 0))
    radius: IntArray = np.maximum(need - 1, 0).astype(np.int64)
    return radius


def _steps_into_the_final(counts: IntArray, rank: IntArray, c: int, p: IntArray) -> IntArray:
    """Least t with sum over c' of max(0, N_c' + [c' < c] - N_c - t) <= t, c' other than c and p."""
    n, k = counts.shape
    gap = counts + (rank < rank[c]) - counts[:, c : c + 1]
    gap[np.arange(n), p] = 0
    gap[:, c] = 0
    order = -np.sort(-np.maximum(gap, 0), axis=1)
    # With the j largest gaps still open: their sum - j t <= t, so t >= sum / (j + 1).
    total = np.cumsum(order, axis=1)
    steps: IntArray = (-(-total // np.arange(2, k + 2))).max(axis=1)
    return steps


def run_off_spread_radius(
    votes: ArrayLike, scores: ArrayLike, spread: ArrayLike, election: RunOff
) -> IntArray:
    """The same for finite aggregation: a row touches one part, which several models use.

    Every condition of :func:`run_off_radius` is checked with the damage that the worst t parts can
    do, counted per part. ``spread`` lists the models that use each part, shape (parts, d).

    Examples
    --------
    >>> votes = np.zeros((6, 1), int)
    >>> scores = np.ones((6, 1, 2)) * [1, 0]
    >>> design = np.arange(6)[:, None]
    >>> run_off_spread_radius(votes, scores, design, run_off(votes, scores))
    array([2])
    """
    table, value, design = np.asarray(votes), np.asarray(scores), np.asarray(spread)
    uses = part_table(design, len(table))
    k, p, n = value.shape[2], election.winner, table.shape[1]
    at = np.arange(n)
    counts = np.column_stack([election.counts, np.zeros((n, 2), dtype=np.int64)])
    ahead = np.column_stack([election.ahead, counts[at, p], counts[at, p]])
    rank = np.concatenate([np.arange(k), [-1, -1]])
    radius = np.full(n, len(design), dtype=np.int64)

    def survives(damage: IntArray, slack: IntArray) -> IntArray:
        return surviving_parts(uses, damage, slack)

    mine = (table == p[None, :]).astype(np.int64)
    ahead_of = [_voters(table, c, k) for c in range(k + 2)]
    overtakes = {}
    for c in range(k + 2):
        slack = counts[at, p] - counts[:, c] - (rank[c] < p)
        overtakes[c] = survives((1 + mine - ahead_of[c]) * (1 - ahead_of[c]), slack)
        prefers = _prefers(table, value, p, np.full(n, c)) if c < k else mine
        final = survives(1 + prefers, ahead[:, c] - (rank[c] < p))
        for d in range(k + 2):  # the way into the final: c beats every other class
            if d == c:
                continue
            lead = counts[:, d] - counts[:, c] + (rank[d] < rank[c]) - 1
            enters = survives((1 + ahead_of[d] - ahead_of[c]) * (1 - ahead_of[c]), lead)
            final = np.where((d == p) | (lead < 0), final, np.maximum(final, enters))
        radius = np.where(c == p, radius, np.minimum(radius, final))
    for a in range(k + 2):
        for b in range(a + 1, k + 2):
            slack = 2 * counts[at, p] - counts[:, a] - counts[:, b]
            slack = slack - (rank[a] < p) - (rank[b] < p) + 1  # both: one more than either
            taken = (1 + 2 * mine) * (1 - ahead_of[a]) * (1 - ahead_of[b])
            both = np.maximum(np.maximum(overtakes[a], overtakes[b]), survives(taken, slack))
            radius = np.where((a == p) | (b == p), radius, np.minimum(radius, both))
    return radius


def _voters(table: IntArray, c: int, k: int) -> IntArray:
    """Which models vote for class c; nobody for the two labels that have not been seen."""
    found: IntArray = (table == c).astype(np.int64) if c < k else np.zeros_like(table)
    return found
