"""Weighted copies of an online learner, the state behind the reductions.

Copies are made on mistakes, dropped when they contradict every hypothesis or have erred more often
than their mistake bound allows, and merged when they will behave alike from now on. Weights are
exact fractions on request; in floating point they are kept normalised.

Source: docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from counterplay.core.online.copyable import OnlineLearner
from counterplay.errors import NotRealizableError

TOLERANCE = 1e-12  # relative, towards positive
Copy: TypeAlias = tuple[OnlineLearner, Any, int]
"""A learner, its weight, and how many mistakes it has made (or has just made)."""


class Experts:
    """A weighted set of learners with distinct keys.

    Parameters
    ----------
    learner:
        The first expert.
    exact:
        Keep weights as fractions.
    merge:
        Merge equal experts; changes no prediction.
    prune:
        Drop those that contradict every hypothesis or have made more mistakes than
        ``learner.mistake_bound``, whose votes then do not count. Keeps the guarantee: weights only
        fall, and the expert that follows the truth is never dropped.
    max_experts:
        Keep only the heaviest ones; gives up the guarantee and records the dropped weight.
    """

    def __init__(
        self,
        learner: OnlineLearner,
        *,
        exact: bool = False,
        merge: bool = True,
        prune: bool = True,
        max_experts: int | None = None,
    ) -> None:
        self.exact, self.merge, self.prune, self.max_experts = exact, merge, prune, max_experts
        one: Any = Fraction(1) if exact else 1.0
        self.entries: list[tuple[OnlineLearner, Any]] = [(learner, one)]
        self.mistakes: list[int] = [0]
        self.most_mistakes = float(learner.mistake_bound)
        self.dropped: Any = one * 0
        self._log_scale = 0.0  # of the factor that floating-point weights were divided by

    def copy(self) -> Experts:
        """An independent copy; learners never change, so they are shared."""
        twin = copy.copy(self)
        twin.entries, twin.mistakes = list(self.entries), list(self.mistakes)
        return twin

    def __repr__(self) -> str:
        return f"Experts({len(self)} learners)"

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def total(self) -> Any:
        """Sum of all weights."""
        return sum(weight for _, weight in self.entries)

    @property
    def log_total(self) -> float:
        """Natural logarithm of the total weight of the proof, which starts at 1 and only falls."""
        total = Fraction(self.total)
        return self._log_scale + math.log(total.numerator) - math.log(total.denominator)

    def mass(self, accepts: Callable[[OnlineLearner], bool]) -> Any:
        """Weight of the experts for which ``accepts`` holds."""
        return sum((weight for learner, weight in self.entries if accepts(learner)), start=0)

    def at_least(self, mass: Any, share: Fraction) -> bool:
        """Whether ``mass`` is at least ``share`` of the total; ties count as yes."""
        if self.exact:
            return bool(mass >= share * self.total)
        return bool(mass >= float(share) * float(self.total) * (1 - TOLERANCE))

    def replace(
        self, change: Callable[[OnlineLearner, Any], Iterable[Copy] | None], round: int
    ) -> None:
        """Replace every expert by what ``change`` returns; None keeps it."""
        fresh: list[Copy] = []
        for (learner, weight), made in zip(self.entries, self.mistakes):
            result = change(learner, weight)
            if result is None:
                fresh.append((learner, weight, made))
            else:
                fresh.extend((a, w, made + more) for a, w, more in result)
        if self.prune:
            fresh = [copy for copy in fresh if self._may_be_right(copy)]
        if self.merge:
            fresh = _merged(fresh)
        if not any(self._may_be_right(copy) for copy in fresh):
            raise NotRealizableError(
                f"round {round}: no hypothesis agrees with what was seen; the data are not "
                "realizable by the class on this graph",
                round=round,
            )
        if self.max_experts is not None and len(fresh) > self.max_experts:
            fresh.sort(key=lambda copy: copy[1], reverse=True)
            self.dropped += sum(weight for _, weight, _ in fresh[self.max_experts :])
            fresh = fresh[: self.max_experts]
        scale = 1 if self.exact else sum(weight for _, weight, _ in fresh)
        self._log_scale += math.log(scale)
        self.entries = [(learner, weight / scale) for learner, weight, _ in fresh]
        self.mistakes = [made for _, _, made in fresh]

    def _may_be_right(self, copy: Copy) -> bool:
        return copy[2] <= self.most_mistakes and not copy[0].is_dead()


def _merged(copies: list[Copy]) -> list[Copy]:
    """Add the weights of equal learners; the fewest mistakes that lead to a state count."""
    found: dict[Hashable, Copy] = {}
    for learner, weight, made in copies:
        key = learner.key()
        if key in found:
            twin, other, fewest = found[key]
            learner, weight, made = twin, other + weight, min(made, fewest)
        found[key] = learner, weight, made
    return list(found.values())


def positives(learner: OnlineLearner, bag: Any) -> Any:
    """Which points of a bag the learner accepts."""
    return np.asarray(learner.predict(bag), dtype=np.bool_)
