"""What one poisoned training set can do to all test rows together.

A certificate per decision lets the attacker choose other blocks for every test row. A deployed
model faces one set of blocks. The most harm it can do is an integer program: upper bounds for it
(linear relaxation, branch and bound, a count of pairs) certify metrics, and sets of blocks that are
found greedily show what is attained.
Source: docs/theory/21-sources.md, "One set of blocks for all rows".
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from counterplay.core.programs import minimize_integer, minimize_linear
from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.poisoning.ballots import NEVER, Ballots, ratio

_PRECISION = 1e-6  # of ratio metrics
_STEPS = 40
_SWAPS = 3  # rounds of exchanging one part for another
Method = Literal["linear", "pairs", "integer"]
Duel = tuple[NDArray[np.float32], IntArray]
Kind = tuple[BoolArray, list[list[Duel]]]
"""Rows that count alike, and for each flip that counts the duels it needs."""


@dataclass(frozen=True, eq=False)
class Harm:
    """Which rows can be flipped by touching some parts, and what touching a model contributes.

    A row is lost if one of its flips happens, a flip happens if all its conditions hold.

    Parameters
    ----------
    gains
        Help of each model for each condition, clipped at what is needed; shape (models,
        conditions).
    needs
        Help that each condition needs.
    flip
        Flip of each condition, ascending, counted from 0 without gaps.
    row
        Row of each flip, likewise.
    weights
        Rows that are alike, by kind: their numbers, shape (rows, kinds). What a row is worth is a
        combination of the kinds.
    uses
        Which model uses which part.
    parts
        Parts that may be touched.
    """

    gains: NDArray[np.float32]
    needs: IntArray
    flip: IntArray
    row: IntArray
    weights: FloatArray
    uses: NDArray[np.float32]
    parts: int

    @classmethod
    def of(cls, b: Ballots, kinds: list[Kind], parts: int) -> Harm:
        """Flips within reach of so many parts, for rows of each kind.

        Rows with the same votes and winner are one row with more weight.
        """
        parts = min(parts, b.parts)
        place: dict[tuple[bytes, int, int], int] = {}
        columns: list[NDArray[np.float32]] = []
        needs: list[int] = []
        flip: list[int] = []
        row: list[int] = []
        weights: list[FloatArray] = []
        for k, (rows, flips) in enumerate(kinds):
            near = [
                np.all([_within(b, gain, need, parts) for gain, need in duels], axis=0) & rows
                for duels in flips
            ]
            for j in np.flatnonzero(np.any(near, axis=0)).tolist():
                alike = (b.votes[:, j].tobytes(), int(b.winner[j]), k)
                if alike not in place:
                    place[alike] = len(weights)
                    weights.append(np.zeros(len(kinds)))
                    for duels in (flips[i] for i in range(len(flips)) if near[i][j]):
                        open_ = [(gain[:, j], need[j]) for gain, need in duels if need[j] > 0]
                        columns += [np.minimum(gain, need) for gain, need in open_]
                        needs += [int(need) for _, need in open_]
                        flip += [len(row)] * len(open_)
                        row.append(place[alike])
                weights[place[alike]][k] += 1
        return cls(
            np.array(columns, dtype=np.float32).reshape(len(columns), len(b.votes)).T,
            np.array(needs, dtype=np.int64), np.array(flip, dtype=np.int64),
            np.array(row, dtype=np.int64),
            np.array(weights).reshape(len(weights), len(kinds)), b.uses, parts,
        )  # fmt: skip

    def value(self, chosen: BoolArray, worth: FloatArray) -> float:
        """Worth of the rows that touching these parts flips."""
        return float(self.hits(chosen[None, :])[0] @ worth) if len(worth) else 0.0

    def hits(self, sets: BoolArray) -> BoolArray:
        """Which rows (columns) are flipped by which set of parts (row)."""
        models = (sets.astype(np.float32) @ self.uses.T > 0).astype(np.float32)
        met = models @ self.gains >= self.needs[None, :]
        if not met.size:
            return np.zeros((len(sets), len(self.weights)), dtype=bool)
        flips = np.logical_and.reduceat(met, _starts(self.flip), axis=1)
        hit: BoolArray = np.logical_or.reduceat(flips, _starts(self.row), axis=1)
        return hit

    def bound(self, worth: FloatArray, method: Method, seconds: float = 30.0) -> Bound:
        """Upper bound for the worth that any set of so many parts can flip."""
        if not len(worth) or worth.sum() <= 0 or self.parts == 0:
            return Bound(0.0, None)
        if method == "pairs":
            return Bound(self._pairs(worth), None)
        cost, rows, high = self._program(worth)
        if method == "integer":
            return self._integer(cost, rows, high, seconds)
        found = minimize_linear(cost, A_ub=rows, b_ub=high, bounds=(0, 1))
        assert found.upper_duals is not None
        duals = np.maximum(-found.upper_duals, 0)
        # Weak duality: sound for any multipliers, however the solver rounded.
        value = float(duals @ high + np.maximum(-cost - rows.T @ duals, 0).sum())
        return Bound(min(value, float(worth.sum())), found.x)

    def _integer(self, cost: FloatArray, rows: Any, high: FloatArray, seconds: float) -> Bound:
        whole = np.zeros(len(cost))
        whole[: self.uses.shape[1]] = 1  # parts; flips follow from them
        whole[-len(self.row) - len(self.weights) : -len(self.weights)] = 1
        found = minimize_integer(
            cost, rows=rows, high=high, integers=whole, time_limit=max(0.05, seconds), gap=0.0,
            allow=("limit",),
        )  # fmt: skip
        value = float("inf") if found.bound is None or np.isnan(found.bound) else -found.bound
        most = float(-cost.sum())
        return Bound(min(value + 1e-7 * max(1.0, most), most), found.x)

    def _program(self, worth: FloatArray) -> tuple[FloatArray, Any, FloatArray]:
        """Minimise -worth of rows over parts, models, flips and rows between 0 and 1."""
        models, parts = self.uses.shape
        flips, rows, duels = len(self.row), len(worth), len(self.needs)
        eye = sparse.identity
        needs = sparse.csr_array(
            (self.needs.astype(float), (np.arange(duels), self.flip)), shape=(duels, flips)
        )
        owner = sparse.csr_array(
            (np.ones(flips), (self.row, np.arange(flips))), shape=(rows, flips)
        )
        blank = sparse.csr_array
        table = sparse.block_array(
            [
                [np.ones((1, parts)), blank((1, models)), blank((1, flips)), blank((1, rows))],
                [-self.uses, eye(models), blank((models, flips)), blank((models, rows))],
                [blank((duels, parts)), -self.gains.T, needs, blank((duels, rows))],
                [blank((rows, parts)), blank((rows, models)), -owner, eye(rows)],
            ],
            format="csr",
        )  # fmt: skip
        high = np.zeros(table.shape[0])
        high[0] = self.parts
        return np.concatenate([np.zeros(parts + models + flips), -worth]), table, high

    def _pairs(self, worth: FloatArray) -> float:
        """Bound by pairs of parts: a sum of help G >= m has C(G, 2) >= C(m, 2).

        C(G, 2) is a sum over parts and pairs of parts. Rows that one vote flips count in full.
        """
        first = _starts(self.flip)  # one condition of each flip is enough for a bound
        needs = self.needs[first]
        per_part = self.gains.T[first] @ self.uses
        left_out = np.bincount(self.row, needs < 2, len(worth)) > 0
        scale = worth[self.row] / np.maximum(1, needs * (needs - 1) / 2)
        scale = np.where(left_out[self.row], 0, scale)
        alone = (per_part * (per_part - 1) / 2).T @ scale
        both = (per_part * scale[:, None]).T @ per_part
        np.fill_diagonal(both, 0)
        t = self.parts
        top = -np.sort(-both, axis=1)[:, : t - 1].sum(axis=1) if t > 1 else 0 * alone
        bound = float(np.sort(alone + top / 2)[::-1][:t].sum()) + float(worth[left_out].sum())
        return min(bound, float(worth.sum()))

    def greedy(self, worth: FloatArray) -> BoolArray:
        """A set of parts found greedily, then improved by exchanging single parts."""
        count = self.uses.shape[1]
        chosen = np.zeros(count, dtype=bool)
        for _ in range(self.parts):
            models = (self.uses @ chosen > 0).astype(np.float32)
            left = self.needs - models @ self.gains
            done = self.hits(chosen[None, :])[0]
            owner = self.row[self.flip]
            value = np.where(done[owner], 0, worth[owner] / np.maximum(left, 1) ** 2)
            score = self.uses.T @ ((self.gains * (1 - models)[:, None]) @ value)
            score[chosen] = -1
            chosen[int(np.argmax(score))] = True
        return self._swapped(chosen, worth)

    def _swapped(self, chosen: BoolArray, worth: FloatArray) -> BoolArray:
        if not len(worth) or chosen.all() or not chosen.any():
            return chosen
        best = self.value(chosen, worth)
        for _ in range(_SWAPS):
            before = best
            for out in np.flatnonzero(chosen).tolist():
                inn = np.flatnonzero(~chosen)
                sets = np.repeat(chosen[None, :], len(inn), axis=0)
                sets[:, out] = False
                sets[np.arange(len(inn)), inn] = True
                values = self.hits(sets) @ worth
                if values.max() > best + 1e-12:
                    best, chosen = float(values.max()), sets[int(np.argmax(values))]
            if best <= before + 1e-12:
                break
        return chosen


@dataclass(frozen=True, eq=False)
class Bound:
    """An upper bound, and the point of the program that it was found at."""

    value: float
    point: FloatArray | None


def _starts(group: IntArray) -> IntArray:
    """First position of each group of an ascending numbering."""
    return np.flatnonzero(np.diff(group, prepend=-1))


def _within(b: Ballots, gain: NDArray[np.float32], need: IntArray, parts: int) -> BoolArray:
    """Rows that so many parts can flip, each with parts of its own."""
    per_part = gain.T @ b.uses
    most = -np.partition(-per_part, parts - 1, axis=1)[:, :parts] if parts else per_part[:, :0]
    return np.asarray((most.sum(axis=1) >= need) & (need < NEVER), dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class Collective:
    """One metric of a class against one set of parts.

    Parameters
    ----------
    harm
        Flips that count.
    numerator
        What losing a row of each kind takes from the numerator.
    denominator
        What it adds to the denominator.
    start
        Numerator and denominator without attack.
    """

    harm: Harm
    numerator: FloatArray
    denominator: FloatArray
    start: tuple[int, int]

    @classmethod
    def of(cls, metric: str, b: Ballots, code: int, parts: int) -> Collective:
        """Rows and rivals that count for a metric of class ``code``."""
        away = [[(b.gain(c), b.need(c))] for c in b.rivals]  # one rival beats the winner
        if metric == "accuracy":
            right = b.truth == b.winner
            harm = Harm.of(b, [(right, away)], parts)
            return cls(harm, np.ones(1), np.zeros(1), (int(right.sum()), max(1, len(right))))
        own = (b.truth == code) & (b.winner == code)
        if metric == "recall":
            harm = Harm.of(b, [(own, away)], parts)
            return cls(harm, np.ones(1), np.zeros(1), ratio(metric, b, code, 0, 0))
        other = (b.truth != code) & (b.winner != code)  # counts only if it becomes the class
        harm = Harm.of(b, [(own, away), (other, [b.duels(code)])], parts)
        first = 1.0 if metric == "precision" else 2.0
        start = ratio(metric, b, code, 0, 0)
        return cls(harm, np.array([first, 0.0]), np.array([-1.0, 1.0]), start)

    @property
    def linear(self) -> bool:
        """Whether the denominator stays as it is, so that losses are counted in whole rows."""
        return not self.denominator.any()

    def worth(self, q: float) -> FloatArray:
        """What each row weighs in the question whether the metric can fall to ``q``."""
        return self.harm.weights @ (self.numerator + q * self.denominator)

    def at(self, lost: FloatArray) -> float:
        """The metric after a share of each row was lost; 0/0 is 0."""
        taken = lost @ (self.harm.weights @ self.numerator)
        added = lost @ (self.harm.weights @ self.denominator)
        below = self.start[1] + added
        return float((self.start[0] - taken) / below) if below > 1e-9 else 0.0

    def attained(self, guess: float) -> float:
        """The metric after a set found greedily, weighed at a value near the answer."""
        if not len(self.harm.weights) or self.harm.parts == 0:
            return self.at(np.zeros(len(self.harm.weights)))
        chosen = self.harm.greedy(self.worth(guess))
        return self.at(self.harm.hits(chosen[None, :])[0].astype(np.float64))

    def certified(
        self, low: float, high: float, method: Method, seconds: float = 30.0
    ) -> tuple[float, float]:
        """Raise a certified value as far as a bound allows; lower what is attained on the way.

        ``low`` is certified already, ``high`` is attained. The metric cannot fall to q if no set of
        parts has the worth that this needs; a relaxed or an integer solution says where to ask
        next.
        """
        until = time.monotonic() + seconds
        if self.linear:
            found = self.harm.bound(self.worth(0.0), method, seconds)
            high = min(high, self._point(found, method))
            count = np.floor(found.value + 1e-6)
            return max(low, (self.start[0] - count) / max(1, self.start[1])), high
        ask = high - _PRECISION / 2
        for _ in range(_STEPS):
            if high - low <= _PRECISION or ask <= low or time.monotonic() >= until:
                break
            found = self.harm.bound(self.worth(ask), method, until - time.monotonic())
            if found.value < self.start[0] - ask * self.start[1] - 1e-9:
                low = ask
                ask = (low + high) / 2 if method == "integer" else high
                if method != "integer":
                    break
                continue
            reached = self._relaxed(found)
            high = min(high, self._point(found, method))
            ask = reached - _PRECISION / 2 if reached < ask else (low + ask) / 2
        return low, max(low, high)

    def _relaxed(self, found: Bound) -> float:
        if found.point is None:
            return float("inf")
        return self.at(np.clip(found.point[-len(self.harm.weights) :], 0, 1))

    def _point(self, found: Bound, method: Method) -> float:
        """What the parts of an integer solution attain."""
        if method != "integer" or found.point is None:
            return float("inf")
        chosen = found.point[: self.harm.uses.shape[1]] > 0.5
        if chosen.sum() > self.harm.parts:
            return float("inf")
        return self.at(self.harm.hits(chosen[None, :])[0].astype(np.float64))
