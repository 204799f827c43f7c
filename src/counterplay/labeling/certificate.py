"""What a coordinator can sign: at most so many labels are wrong, with this confidence.

A frozen vector of labels is tested along a random order of its items. Wrong labels that are found
are replaced by the answers; the certificate speaks of those that remain.
Source: docs/theory/24-campaign.md, "The audit".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.audit import allowed_wrong, is_rejected, most_wrong
from counterplay.core.report import at_least, at_most
from counterplay.core.validation import IntArray

SKIPPED = -1
"""Result of a question that was answered by "don't know"."""
WITHDRAWN = -2
"""Result of a question about an item that was taken out."""


@checked
@dataclass(frozen=True)
class LabelCertificate:
    """A bound on the share of wrong labels, valid however often it was looked at.

    Attributes
    ----------
    holds:
        Whether at most ``max_error`` of the labels are wrong, with this confidence.
    bound:
        Largest share of wrong labels that is not refuted.
    max_error:
        The share that was to be shown.
    confidence:
        One minus the probability that such a certificate is wrong, over the random order of checks.
    checked:
        Labels that were checked.
    wrong:
        Wrong ones among these (skipped ones count as wrong); they are corrected.
    scope:
        Whose labels: a party's name, "all parties", "remaining parties", or "later parties" that
        joined after those were done.
    withdrawn:
        Checked items that were withdrawn; the bound speaks of items that would not be.

    Examples
    --------
    >>> print(LabelCertificate(True, 0.04, 0.05, 0.95, 94, 1, "north"))
    north: at most 4 % wrong labels with 95 % confidence (94 checked, 1 wrong and corrected)
    """

    holds: bool
    bound: float
    max_error: float
    confidence: float
    checked: int
    wrong: int
    scope: str
    withdrawn: int = 0

    def __str__(self) -> str:
        sure = f"{at_most(self.bound)} wrong labels with {at_least(self.confidence)} confidence"
        text = f"{self.scope}: at most {sure} ({self.checked} checked, {self.wrong} wrong and "
        text += "corrected)"
        if self.withdrawn:
            total = self.checked + self.withdrawn
            text += (
                f"; {self.withdrawn} of {total} checked items withdrawn: the bound speaks of items "
                "that would not be withdrawn when looked at"
            )
        return text


class FrozenVector:
    """Labels fixed at some time for the items that no person labelled, and how their test goes.

    Parameters
    ----------
    number:
        Number of the vector in its campaign.
    items:
        The population in audit order.
    labels:
        Their labels.
    n:
        Size of the pool that the certificate speaks of.
    max_error:
        Share of wrong labels to be shown.
    alpha:
        Probability of a false certificate that was set aside for this vector.
    lost:
        Items of the pool outside of the population that no person labelled: each counts as wrong.
    """

    def __init__(
        self,
        number: int,
        items: IntArray,
        labels: IntArray,
        *,
        n: int,
        max_error: float,
        alpha: float,
        lost: int = 0,
    ) -> None:
        self.number, self.items, self.labels = number, items, labels
        self.n, self.max_error, self.alpha, self.lost = n, max_error, alpha, lost
        self.checked = self.wrong = self.withdrawn = self.known_wrong = 0
        self.overruled = 0
        self.dead = False
        self._place = 0
        self._skipped = 0
        self._left = n

    @property
    def population(self) -> int:
        """Number of items, without those that were withdrawn when they were checked."""
        return len(self.items) - self.withdrawn

    def advance(self, result: Callable[[int], int | None]) -> None:
        """Check along the order as far as results are known."""
        while self._place < len(self.items):
            found = result(int(self.items[self._place]))
            if found is None:
                return
            if found == WITHDRAWN:
                self.withdrawn += 1
            else:
                self.checked += 1
                self.wrong += int(found != self.labels[self._place])
                self._skipped += int(found == SKIPPED)
            self._place += 1

    def begin_again(self) -> None:
        """Count from the start of the order, after a checked item was withdrawn."""
        self.checked = self.wrong = self.withdrawn = self._place = self._skipped = 0

    def note_answers(self, fixed: IntArray) -> None:
        """Count the wrong labels that answers have corrected; ``fixed`` is -1 where there is none.

        Skips correct nothing and are not counted.
        """
        there = fixed[self.items]
        self.known_wrong = int(((there >= 0) & (there != self.labels)).sum())

    def note_settled(self, fixed: IntArray, settled: Mapping[int, int]) -> None:
        """Count the labels that differ from those of an earlier certificate about shared items.

        The earlier ones stay, and may be wrong; where a person answered neither counts.
        """
        there = zip(self.items.tolist(), self.labels.tolist())
        taken = (settled.get(x, code) != code and fixed[x] < 0 for x, code in there)
        self.overruled = sum(map(bool, taken))

    @property
    def refutes(self) -> int:
        """The number of wrong labels that must be refuted: one more than may remain."""
        allowed = allowed_wrong(self.n, self.max_error)
        return allowed - self.lost - self.overruled + self.known_wrong + 1

    def is_certified(self) -> bool:
        """Whether more wrong labels than allowed are refuted."""
        possible = self.lost + self.overruled <= allowed_wrong(self.n, self.max_error)
        return not self.dead and possible and self._rejects(self.checked)

    def is_hopeless(self) -> bool:
        """Whether the sample has three wrong labels and a larger share of them than allowed."""
        share = allowed_wrong(self.n, self.max_error) * self.checked
        return self.wrong >= 3 and self.wrong * self.population > share

    def to_check(self) -> IntArray:
        """The next items along the order that are needed if all of them are right."""
        left = len(self.items) - self._place
        low, high = 0, left
        while low < high:  # more right labels are more evidence
            middle = (low + high) // 2
            if self._rejects(self.checked + middle):
                high = middle
            else:
                low = middle + 1
        return self.items[self._place : self._place + low]

    def certificate(self, scope: str, confidence: float) -> LabelCertificate:
        """What has been shown so far."""
        # the running minimum of valid bounds is valid
        most = most_wrong(self.population, self.checked, self.wrong, self.max_error, self.alpha)
        self._left = min(self._left, max(0, most - self.known_wrong))
        bound = min(1.0, (self._left + self.lost + self.overruled) / max(1, self.n))
        return LabelCertificate(
            self.is_certified(), bound, self.max_error, confidence, self.checked, self.wrong,
            scope, self.withdrawn,
        )  # fmt: skip

    def _rejects(self, count: int) -> bool:
        return is_rejected(
            self.refutes, self.population, count, self.wrong, self.max_error, self.alpha
        )


def by_order(items: IntArray, keys: np.ndarray) -> IntArray:
    """Sort items by their random keys."""
    return items[np.argsort(keys[items], kind="stable")]
