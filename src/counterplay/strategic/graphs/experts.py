"""Weighted copies of an online learner, the state behind the reductions.

Copies are made on mistakes, dropped when they contradict every hypothesis, and merged when they
will behave alike from now on. Weights are exact fractions on request; in floating point they are
kept normalised. Source: spec 03, sections 3.3 and 3.4.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from counterplay.core.errors import NotRealizableError
from counterplay.core.online.copyable import OnlineLearner

TOLERANCE = 1e-12  # relative, towards positive


class RealizabilityError(NotRealizableError):
    """No hypothesis of the class agrees with what was seen."""


class Experts:
    """A weighted set of learners with distinct keys.

    Parameters
    ----------
    learner:
        The first expert.
    exact:
        Keep weights as fractions.
    merge, prune:
        Merge equal experts (changes no prediction); drop dead ones, whose votes then do not count
        (keeps the guarantee: weights only fall).
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
        self.dropped: Any = one * 0

    def copy(self) -> Experts:
        """An independent copy; learners never change, so they are shared."""
        twin = copy.copy(self)
        twin.entries = list(self.entries)
        return twin

    def __repr__(self) -> str:
        return f"Experts({len(self)} learners)"

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def total(self) -> Any:
        """Sum of all weights."""
        return sum(weight for _, weight in self.entries)

    def mass(self, accepts: Callable[[OnlineLearner], bool]) -> Any:
        """Weight of the experts for which ``accepts`` holds."""
        return sum((weight for learner, weight in self.entries if accepts(learner)), start=0)

    def at_least(self, mass: Any, share: Fraction) -> bool:
        """Whether ``mass`` is at least ``share`` of the total; ties count as yes."""
        if self.exact:
            return bool(mass >= share * self.total)
        return bool(mass >= float(share) * float(self.total) * (1 - TOLERANCE))

    def replace(
        self,
        change: Callable[[OnlineLearner, Any], Iterable[tuple[OnlineLearner, Any]] | None],
        round: int,
    ) -> None:
        """Replace every expert by what ``change`` returns; None keeps it."""
        fresh: list[tuple[OnlineLearner, Any]] = []
        for learner, weight in self.entries:
            result = change(learner, weight)
            fresh.extend([(learner, weight)] if result is None else result)
        if self.prune:
            fresh = [(learner, weight) for learner, weight in fresh if not learner.is_dead()]
        if self.merge:
            fresh = _merged(fresh)
        if not fresh or not any(not learner.is_dead() for learner, _ in fresh):
            raise RealizabilityError(
                f"round {round}: no hypothesis agrees with what was seen; the data are not "
                "realizable by the class on this graph",
                round=round,
            )
        if self.max_experts is not None and len(fresh) > self.max_experts:
            fresh.sort(key=lambda entry: entry[1], reverse=True)
            self.dropped += sum(weight for _, weight in fresh[self.max_experts :])
            fresh = fresh[: self.max_experts]
        if not self.exact:
            total = sum(weight for _, weight in fresh)
            fresh = [(learner, weight / total) for learner, weight in fresh]
        self.entries = fresh


def _merged(
    entries: list[tuple[OnlineLearner, Any]],
) -> list[tuple[OnlineLearner, Any]]:
    found: dict[Hashable, tuple[OnlineLearner, Any]] = {}
    for learner, weight in entries:
        key = learner.key()
        if key in found:
            weight = found[key][1] + weight
            learner = found[key][0]
        found[key] = learner, weight
    return list(found.values())


def positives(learner: OnlineLearner, bag: Any) -> Any:
    """Which points of a bag the learner accepts."""
    return np.asarray(learner.predict(bag), dtype=np.bool_)
