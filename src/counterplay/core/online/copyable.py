"""The protocol of an online learner that can be copied, and its version-space base.

Reductions in strategic classification keep many copies of one learner and feed them different
examples, so learners must be cheap to copy, hashable by what they will do next, and must change
only when they err.
Source: "Standard learners as experts", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol, TypeVar, overload, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.bits import Words, as_indices, pack_rows, popcount, unpack_rows, words_to_int
from counterplay.core.finite_class import FiniteClass
from counterplay.core.validation import BoolArray, check_int, check_labels01
from counterplay.errors import InvalidInputError

Labels = NDArray[np.uint8]
Learner = TypeVar("Learner", bound="VersionSpaceLearner")


@runtime_checkable
class OnlineLearner(Protocol):
    """What a reduction needs from a learner; ``Z`` are whatever points the learner understands."""

    @property
    def mistake_bound(self) -> float:
        """Most mistakes on any realizable sequence (``inf`` if there is no bound)."""

    def predict(self, Z: Any) -> Any:
        """Labels of points; does not change the learner."""

    def updated(self, z: Any, y: int) -> OnlineLearner:
        """Return the learner after one example; the same behaviour if it did not err there."""

    def key(self) -> Hashable:
        """Equal keys mean identical future behaviour."""

    def is_dead(self) -> bool:
        """Whether no hypothesis of the class is consistent with what was fed."""


class VersionSpaceLearner:
    """Base of learners whose state is a version space of a :class:`FiniteClass`.

    Subclasses implement ``_decide``. The learner is conservative: an example it predicts correctly
    changes nothing. :meth:`updated` leaves the learner alone and returns a new one that shares the
    class; :meth:`update` changes it in place.
    """

    __slots__ = ("_alive", "_key", "_mistakes", "hypotheses", "tie")

    def __init__(self, hypotheses: FiniteClass, *, tie: int = 0) -> None:
        self.hypotheses = hypotheses
        self.tie = check_int(tie, "tie", low=0, high=1)
        self._alive: Words = pack_rows(np.ones(len(hypotheses), dtype=np.bool_))
        self._key: int | None = None
        self._mistakes = 0

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}({len(self)} of {len(self.hypotheses)} hypotheses, {self.mistakes} mistakes)"

    def __len__(self) -> int:
        return int(popcount(self._alive))

    @property
    def mistakes(self) -> int:
        """How many mistakes led to this state."""
        return self._mistakes

    @property
    def alive(self) -> BoolArray:
        """Mask of the hypotheses consistent with all mistakes."""
        return unpack_rows(self._alive, len(self.hypotheses))

    @overload
    def predict(self, Z: int) -> int: ...
    @overload
    def predict(self, Z: ArrayLike) -> Any: ...
    def predict(self, Z: Any) -> Any:
        """Label of one point (an int), or labels of an array of points, as uint8."""
        if np.ndim(Z) == 0:
            point = check_int(Z, "point", low=0, high=self.hypotheses.n_points - 1)
            return self._decide_point(point)
        return self._decide_points(as_indices(Z, self.hypotheses.n_points, "points"))

    def predict_row(self, row: ArrayLike) -> int:
        """Label of a point outside the class's list, given each member's label there."""
        return self._decide(self._row(row))

    def updated(self: Learner, point: int, label: int) -> Learner:
        """Return the learner after one example: a new one on a mistake, otherwise itself."""
        label = check_int(label, "label", low=0, high=1)
        point = check_int(point, "point", low=0, high=self.hypotheses.n_points - 1)
        if self.predict(point) == label:
            return self
        return self._after(self.hypotheses.columns[point], label)

    def updated_row(self: Learner, row: ArrayLike, label: int) -> Learner:
        """Like :meth:`updated` for a point given by each member's label there."""
        label = check_int(label, "label", low=0, high=1)
        words = self._row(row)
        return self if self._decide(words) == label else self._after(words, label)

    def update(self, point: int, label: int) -> bool:
        """Learn one example in place; return whether it was a mistake."""
        after = self.updated(point, label)
        if after is self:
            return False
        self._alive, self._key, self._mistakes = after._alive, after._key, after._mistakes
        self._forget()
        return True

    def copy(self: Learner) -> Learner:
        """An independent copy; shares the class and whatever it has computed about it."""
        other: Learner = object.__new__(type(self))
        for kind in type(self).__mro__:
            for name in getattr(kind, "__slots__", ()):
                setattr(other, name, getattr(self, name))
        return other

    def key(self) -> int:
        """The remaining hypotheses as a Python int: equal keys, equal behaviour."""
        if self._key is None:
            self._key = words_to_int(self._alive)
        return self._key

    def is_dead(self) -> bool:
        """Whether every hypothesis was contradicted."""
        return not self._alive.any()

    def _after(self: Learner, words: Words, label: int) -> Learner:
        other = self.copy()
        other._alive = self._alive & (words if label else ~words)
        other._key = None
        other._mistakes = self._mistakes + 1
        other._forget()
        return other

    def _row(self, row: ArrayLike) -> Words:
        labels = check_labels01(row, "row")
        if labels.shape != (len(self.hypotheses),):
            raise InvalidInputError(
                f"row must have one label per member ({len(self.hypotheses)}), got {labels.shape}"
            )
        return pack_rows(labels)

    def _forget(self) -> None:
        """Drop what was computed for the old state."""

    def _decide_point(self, point: int) -> int:
        return self._decide(self.hypotheses.columns[point])

    def _decide_points(self, points: NDArray[np.int64]) -> Labels:
        return np.array([self._decide_point(int(x)) for x in points], dtype=np.uint8)

    def _decide(self, words: Words) -> int:
        raise NotImplementedError
