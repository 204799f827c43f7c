"""Online learners of finite classes that can be copied: SOA and Halving.

Reductions keep many copies of one learner and feed them different examples, so learners must be
cheap to copy, hashable by what they will do next, and must change only when they err.

Source: "Standard learners as experts", see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol, Self, overload, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.bits import Words, as_indices, pack_rows, popcount, unpack_rows, words_to_int
from counterplay.core.finite_class import FiniteClass
from counterplay.core.validation import BoolArray, check_int
from counterplay.strategic.graphs.littlestone import LittlestoneSolver

Labels = NDArray[np.uint8]
_FEW = 32  # rows up to which predictions are added up instead of counted as bits


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


class FiniteLearner:
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

    def updated(self, point: int, label: int) -> Self:
        """Return the learner after one example: a new one on a mistake, otherwise itself."""
        label = check_int(label, "label", low=0, high=1)
        if self.predict(point) == label:
            return self
        return self._after(self.hypotheses.columns[point], label)

    def update(self, point: int, label: int) -> bool:
        """Learn one example in place; return whether it was a mistake."""
        after = self.updated(point, label)
        if after is self:
            return False
        self._alive, self._key, self._mistakes = after._alive, after._key, after._mistakes
        self._forget()
        return True

    def copy(self) -> Self:
        """An independent copy; shares the class and whatever it has computed about it."""
        other = object.__new__(type(self))
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

    def _after(self, words: Words, label: int) -> Self:
        other = self.copy()
        other._alive = self._alive & (words if label else ~words)
        other._key = None
        other._mistakes = self._mistakes + 1
        other._forget()
        return other

    def _forget(self) -> None:
        """Drop what was computed for the old state."""

    def _decide_point(self, point: int) -> int:
        return self._decide(self.hypotheses.columns[point])

    def _decide_points(self, points: NDArray[np.int64]) -> Labels:
        return np.array([self._decide_point(int(x)) for x in points], dtype=np.uint8)

    def _decide(self, words: Words) -> int:
        raise NotImplementedError


@checked
class SOA(FiniteLearner):
    """Standard optimal algorithm of a finite class; fewest worst-case mistakes of all learners.

    Use it on classes with small Littlestone dimension, also very large ones when the dimension is
    small; otherwise :class:`Halving` is cheaper. Copies share one solver, so that questions about
    the same version space are answered once.

    Parameters
    ----------
    hypotheses:
        The class.
    tie:
        Label predicted when both labels leave the same Littlestone dimension.
    solver:
        A solver of the same class to share; default: a new one.

    Notes
    -----
    Makes at most Ldim(H) mistakes on every sequence realised by a member of the class, and no
    deterministic learner has a smaller guarantee.

    Examples
    --------
    Twelve singletons: Halving may err log2(12) times, SOA once.

    >>> learner = SOA(FiniteClass.singletons(12))
    >>> truth = FiniteClass.singletons(12).labels[7]
    >>> sum(learner.update(x, int(truth[x])) for x in range(12)), learner.mistake_bound
    (1, 1)

    References
    ----------
    Littlestone (1988), "Learning quickly when irrelevant attributes abound".
    """

    __slots__ = ("_answers", "_solver")

    def __init__(
        self,
        hypotheses: FiniteClass,
        *,
        tie: int = 0,
        solver: LittlestoneSolver | None = None,
    ) -> None:
        super().__init__(hypotheses, tie=tie)
        self._solver = LittlestoneSolver(hypotheses) if solver is None else solver
        self._answers: dict[int, int] = {}

    @property
    def mistake_bound(self) -> int:
        """Ldim(H)."""
        return self._solver.dimension()

    def dimension(self) -> int:
        """Littlestone dimension of the remaining hypotheses; -1 when dead."""
        return self._solver.dimension(self._alive)

    def _decide(self, words: Words) -> int:
        one = self._solver.dimension(self._alive & words)
        zero = self._solver.dimension(self._alive & ~words)
        return self.tie if one == zero else int(one > zero)

    def _decide_point(self, point: int) -> int:
        if point not in self._answers:
            self._answers[point] = self._decide(self.hypotheses.columns[point])
        return self._answers[point]

    def _forget(self) -> None:
        self._answers = {}


@checked
class Halving(FiniteLearner):
    """Majority vote of the version space; every mistake removes at least half of it.

    Use it when the class is finite and large, or when the Littlestone dimension is too expensive
    to compute for :class:`SOA`. Duplicated rows count twice; deduplicate the class first if that
    is not meant.

    Parameters
    ----------
    hypotheses:
        The class.
    tie:
        Label predicted when both labels have the same number of hypotheses.

    Notes
    -----
    Makes at most floor(log2 |H|) mistakes on every sequence realised by a member of the class.

    Examples
    --------
    >>> learner = Halving(FiniteClass.thresholds(range(127)))
    >>> truth = FiniteClass.thresholds(range(127)).labels[100]
    >>> sum(learner.update(x, int(truth[x])) for x in range(127)), learner.mistake_bound
    (3, 7)
    >>> first = Halving(FiniteClass.singletons(8))
    >>> second = first.updated(3, 1)      # a new learner; the first one is unchanged
    >>> first.predict(3), second.predict(3)
    (0, 1)

    References
    ----------
    Littlestone (1988), "Learning quickly when irrelevant attributes abound".
    """

    __slots__ = ("_size", "_table")

    def __init__(self, hypotheses: FiniteClass, *, tie: int = 0) -> None:
        super().__init__(hypotheses, tie=tie)
        self._table: Labels | None = None
        self._size: int = len(hypotheses)

    @property
    def mistake_bound(self) -> int:
        """floor(log2 |H|)."""
        return len(self.hypotheses).bit_length() - 1

    def table(self) -> Labels:
        """Predictions at all points of the class, computed once per state."""
        if self._table is None:
            if self._size <= _FEW:  # add up the rows that are left instead of counting bits
                rows = self.hypotheses.labels[np.flatnonzero(self.alive)]
                twice = 2 * rows.sum(axis=0, dtype=np.int64)
            else:
                twice = 2 * popcount(self.hypotheses.columns & self._alive)
            self._table = np.where(twice == self._size, self.tie, twice > self._size).astype(
                np.uint8
            )
            self._table.setflags(write=False)
        return self._table

    def _decide(self, words: Words) -> int:
        twice = 2 * int(popcount(words & self._alive))
        return self.tie if twice == self._size else int(twice > self._size)

    def _decide_point(self, point: int) -> int:
        if self._table is not None:
            return int(self._table[point])
        return self._decide(self.hypotheses.columns[point])

    def _decide_points(self, points: NDArray[np.int64]) -> Labels:
        labels: Labels = self.table()[points]
        return labels

    def _forget(self) -> None:
        self._table = None
        self._size = len(self)
