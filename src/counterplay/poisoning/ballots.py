"""Votes on labelled test rows, and what an attacker who touches blocks can do to them.

A touched model helps a rival of the winner by 0, 1 or 2 votes; a decision changes once the help
reaches what the rival needs. Metrics are counted from the decisions that are lost.
Source: docs/theory/21-sources.md, "Certified metrics".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.validation import BoolArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.poisoning.block_votes import count_votes
from counterplay.poisoning.certificates import part_table, surviving_parts

METRICS = ("accuracy", "precision", "recall", "f1")
NEVER = 1 << 30
UNSEEN = -1
"""Rival that stands for a label nobody has seen."""


@dataclass(frozen=True, eq=False)
class Ballots:
    """Votes on test rows, and what touching blocks can do to them.

    Parameters
    ----------
    votes
        Class positions, shape (models, rows); -1 abstains.
    truth
        Class position of each row; -1 for a label the classifier does not know.
    winner
        Predicted class position.
    needed
        For each class: blocks' gain that a flip to it needs; shape (rows, classes).
    least
        Threshold class and votes it needs, or None.
    uses
        Which model (row) uses which part (column).
    closed
        Whether a label that nobody has seen is excluded.
    """

    votes: IntArray
    truth: IntArray
    winner: IntArray
    needed: IntArray
    least: tuple[int, int] | None
    uses: NDArray[np.float32]
    closed: bool = True

    @property
    def rivals(self) -> list[int]:
        """Classes that may win, and a label that nobody has seen unless that is excluded."""
        return [*range(self.needed.shape[1]), *([] if self.closed else [UNSEEN])]

    @property
    def parts(self) -> int:
        """Number of parts (blocks, unless models share parts)."""
        return int(self.uses.shape[1])

    def need(self, c: int) -> IntArray:
        """Help that a flip of each row to class ``c`` needs; never, if it is the winner."""
        if c == UNSEEN:
            own: IntArray = (self.votes == self.winner[None, :]).sum(axis=0)
            return own
        return np.where(self.winner == c, NEVER, self.needed[:, c]).astype(np.int64)

    def gain(self, c: int) -> NDArray[np.float32]:
        """What each touched model can do for class ``c``, shape (models, rows)."""
        if self.least is not None:  # a touched model moves the count of one class by one
            hits = self.votes == self.least[0]
            return np.asarray(~hits if c == self.least[0] else hits, dtype=np.float32)
        own = (self.votes == self.winner[None, :]).astype(np.float32)
        return np.where((self.votes == c) & (c >= 0), 0, own + 1).astype(np.float32)

    def radius(self, c: int) -> IntArray:
        """Parts that may be touched before class ``c`` can win."""
        need = self.need(c)
        radius = surviving_parts(self.uses, self.gain(c).astype(np.int64), need - 1)
        return np.where(need == NEVER, NEVER, radius).astype(np.int64)

    def touched(self, chosen: BoolArray) -> NDArray[np.float32]:
        """Which models use one of these parts."""
        return np.asarray(self.uses[:, chosen].any(axis=1), dtype=np.float32)

    def duels(self, c: int) -> list[tuple[NDArray[np.float32], IntArray]]:
        """What class ``c`` needs to win: help against every other class, and how much of it.

        To replace the winner by anything, one of the rivals must beat it; to become ``c``, class
        ``c`` must beat all of them.
        """
        if self.least is not None:
            return [(self.gain(c), self.need(c))]
        counts = count_votes(self.votes, self.needed.shape[1])
        moved = (self.votes != c).astype(np.float32)
        return [
            (moved + (self.votes == k), counts[:, k] - counts[:, c] + int(k < c))
            for k in range(counts.shape[1])
            if k != c
        ]

    def flips(self, chosen: BoolArray) -> BoolArray:
        """Which rows become which known class if touching these parts is used for it."""
        models = self.touched(chosen)
        hit: BoolArray = np.ones(self.needed.shape, dtype=bool)
        for c in range(self.needed.shape[1]):
            for gain, need in self.duels(c):
                hit[:, c] &= models @ gain >= need
        hit[np.arange(len(hit)), self.winner] = False
        return hit

    def answered(self) -> IntArray:
        """Parts that may be touched while some model still answers at each row; at least 0."""
        models = (self.votes >= 0).sum(axis=0)
        users = int(self.uses.sum(axis=0).max())
        left: IntArray = np.maximum((models - 1) // users, 0).astype(np.int64)
        return left

    def reachable(self, blocks: int, most: int) -> BoolArray:
        """Which rows so many touched parts can flip to which rival; all beyond ``most`` parts.

        One column per rival, in the order of :attr:`rivals`, and one for no answer at all. Other
        parts for every row.
        """
        nothing = np.zeros(len(self.truth), dtype=bool)
        hit = np.stack([*(self.radius(c) < blocks for c in self.rivals), nothing])
        silent = blocks > np.minimum(self.answered(), most)
        hit[:, silent] = True
        hit[self.winner[silent], silent] = False
        table: BoolArray = hit.T
        return table

    def part(self, inside: BoolArray) -> Ballots:
        """The same for some of the rows."""
        return Ballots(
            self.votes[:, inside], self.truth[inside], self.winner[inside], self.needed[inside],
            self.least, self.uses, self.closed,
        )  # fmt: skip

    def with_threshold(self, code: int, least: int) -> Ballots:
        """The same votes under the rule: the class wins with at least so many votes."""
        count = (self.votes == code).sum(axis=0)
        winner = np.where(count >= least, code, 1 - code).astype(np.int64)
        needed = np.empty((len(count), 2), dtype=np.int64)
        needed[:, code] = least - count
        needed[:, 1 - code] = count - least + 1
        return Ballots(self.votes, self.truth, winner, needed, (code, least), self.uses)


def ballots_of(model: Any, rows: Any, truth: IntArray) -> Ballots:
    """Return the votes of a fitted classifier with what a flip to each class needs."""
    if model.aggregation == "runoff":
        raise InvalidInputError("certified metrics go with plurality; use certified_accuracy")
    votes = model._votes_of(rows)
    closed = model.classes is not None
    plain = plurality_ballots(votes, truth, len(model.classes_), model.design_, closed=closed)
    if model._least is None:
        return plain
    return plain.with_threshold(model._least[0], model._votes_needed())


def plurality_ballots(
    votes: IntArray, truth: IntArray, n_classes: int, design: IntArray | None = None,
    *, closed: bool = False,
) -> Ballots:  # fmt: skip
    """Return votes under the rule that most votes win and ties go to the first class."""
    spread = np.arange(len(votes))[:, None] if design is None else design
    counts = count_votes(votes, n_classes)
    winner = counts.argmax(axis=1).astype(np.int64)
    top = counts[np.arange(len(winner)), winner]
    ties = np.arange(n_classes)[None, :] < winner[:, None]
    needed = (top[:, None] - counts - ties + 1).astype(np.int64)
    uses = part_table(spread, len(votes))
    return Ballots(votes, truth, winner, needed, None, uses, closed)


def lost(b: Ballots, code: int, hit: BoolArray) -> tuple[int, int]:
    """Right decisions that are lost: of the class, and of others that become the class.

    ``hit`` says which rows flip to which rival.
    """
    own = (b.truth == code) & (b.winner == code) & hit.any(axis=1)
    other = (b.truth != code) & (b.winner != code) & hit[:, code]
    return int(own.sum()), int(other.sum())


def won(b: Ballots, code: int, hit: BoolArray) -> tuple[int, int]:
    """Wrong decisions that an attacker could mend: of the class, and of others said to be it."""
    own = (b.truth == code) & (b.winner != code) & hit[:, code]
    other = (b.truth != code) & (b.winner == code) & hit.any(axis=1)
    return int(own.sum()), int(other.sum())


def metric_value(
    metric: str, b: Ballots, code: int, hit: BoolArray, *, best: bool = False
) -> float:
    """A metric after the rows that can flip have flipped to its harm (or benefit); 0/0 is 0."""
    if metric == "accuracy":
        right = b.truth == b.winner
        if not best:
            return int((right & ~hit.any(axis=1)).sum()) / max(1, len(right))
        known = np.clip(b.truth, 0, None)
        mended = ~right & (b.truth >= 0) & hit[np.arange(len(right)), known]
        return int((right | mended).sum()) / max(1, len(right))
    own, other = won(b, code, hit) if best else lost(b, code, hit)
    sign = -1 if best else 1
    numerator, denominator = ratio(metric, b, code, sign * own, sign * other)
    return numerator / denominator if denominator else 0.0


def mean_after(metric: str, b: Ballots, hit: BoolArray) -> float:
    """Mean of a metric over the classes after each right decision that can flip has done so.

    ``hit`` says which rows can flip to which known class; each goes to the first of them.
    """
    gone = (b.truth == b.winner) & hit.any(axis=1)
    after = replace(b, winner=np.where(gone, hit.argmax(axis=1), b.winner))
    pairs = [ratio(metric, after, code, 0, 0) for code in range(b.needed.shape[1])]
    return float(np.mean([top / below if below else 0.0 for top, below in pairs]))


def ratio(metric: str, b: Ballots, code: int, own: int, other: int) -> tuple[int, int]:
    """Numerator and denominator of a metric of a class after so many decisions were lost."""
    hit, said = b.truth == code, b.winner == code
    tp, fp, fn = int((hit & said).sum()), int((~hit & said).sum()), int((hit & ~said).sum())
    left = tp - own
    if metric == "recall":
        return left, tp + fn
    if metric == "precision":
        return left, left + fp + other
    return 2 * left, 2 * tp - own + fp + fn + other


def best_threshold(metric: str, b: Ballots, code: int, blocks: int, most: int) -> float:
    """Return the share of blocks with the best certified metric of a class, of two classes."""
    total, values = len(b.votes), []
    for least in range(1, total + 1):
        other = b.with_threshold(code, least)
        values.append(metric_value(metric, other, code, other.reachable(blocks, most)))
    return (int(np.argmax(values)) + 1) / total
