"""The objects of the game: training sets, targets, learners and attackers.

An attacker sees the training set, the target and one test point, and adds *correctly labelled*
rows so that the retrained model errs at that point. The base class checks that every poison row
is clean and that the budget is kept, so no attack can win by cheating. Source:
docs/theory/10-poisoning.md, "Setting".
"""

from __future__ import annotations

import copy
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    BoolArray,
    array_fault,
    check_float_array,
    check_int,
    check_labels01,
    shorten,
)
from counterplay.errors import InvalidInputError, NotRealizableError
from counterplay.poisoning.errors import BudgetError, NotCleanError

Labels: TypeAlias = NDArray[np.uint8]
Points: TypeAlias = NDArray[Any]
Target: TypeAlias = Callable[[Any], Any]
"""A labelling function: ``h_star(X)`` returns 0/1 labels of the rows of X."""


@checked
@dataclass(frozen=True)
class LabelledSet:
    """A multiset of labelled points.

    Use it for training sets and for poison. ``X`` is a float matrix, one row per point, or an
    integer vector of positions in a finite domain. ``is_poison`` is for evaluation only.

    Parameters
    ----------
    X:
        Points, stored as a read-only array; a plain vector of floats becomes one column.
    y:
        Labels 0 and 1, stored as uint8.
    is_poison:
        Which rows an attacker added; never shown to learners.

    Examples
    --------
    >>> S = LabelledSet([[0.1], [0.9]], [0, 1])
    >>> len(S + LabelledSet([[0.5]], [0]))
    3

    References
    ----------
    "Setting", see docs/theory/10-poisoning.md.
    """

    X: Any
    y: Any
    is_poison: Any = None

    def __post_init__(self) -> None:
        X = as_points(self.X)
        y = check_labels01(self.y, "y").astype(np.uint8)
        if y.ndim != 1 or len(y) != len(X):
            raise InvalidInputError(f"X has {len(X)} rows but y has shape {y.shape}")
        poison = np.zeros(len(y), np.bool_) if self.is_poison is None else self.is_poison
        poison = np.array(poison, dtype=np.bool_)
        if poison.shape != y.shape:
            raise InvalidInputError(f"is_poison must have length {len(y)}, got {poison.shape}")
        for name, array in (("X", X), ("y", y), ("is_poison", poison)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.y)

    def __add__(self, other: LabelledSet) -> LabelledSet:
        """Union of multisets; rows of ``other`` come last."""
        if len(other) == 0:
            return self
        if len(self) == 0:
            return other
        if self.X.shape[1:] != other.X.shape[1:]:
            raise InvalidInputError(f"cannot join points {self.X.shape} and {other.X.shape}")
        poison = np.concatenate([_mask(self), _mask(other)])
        return LabelledSet(
            np.concatenate([self.X, other.X]), np.concatenate([self.y, other.y]), poison
        )

    def poison(self) -> LabelledSet:
        """Return the same rows, all marked as poison."""
        return LabelledSet(self.X, self.y, np.ones(len(self), np.bool_))

    @classmethod
    def empty(cls, like: Points | None = None) -> LabelledSet:
        """Return the set without rows, with the columns of ``like``."""
        points = np.zeros((0, 1)) if like is None else np.asarray(like)[:0]
        return cls(points, np.zeros(0, np.uint8))


def as_points(X: ArrayLike) -> Points:
    """Return a copy of X as a float matrix, or as an int64 vector of positions."""
    if fault := array_fault(X, kinds="biuf"):
        raise InvalidInputError(f"X must be an array of numbers: {fault}")
    array = np.asarray(X)
    if array.ndim == 1 and array.dtype.kind in "iub" and array.size:
        if array.min() < 0:
            raise InvalidInputError("positions in a finite domain must not be negative")
        return array.astype(np.int64)
    if array.ndim == 1 and array.size == 0 and array.dtype.kind in "iub":
        return array.astype(np.int64)
    checked = check_float_array(array, "X")
    if checked.ndim == 1:
        checked = checked[:, None]
    if checked.ndim != 2:
        raise InvalidInputError(f"X must have two axes, got shape {checked.shape}")
    return checked.copy()


def _mask(sample: LabelledSet) -> BoolArray:
    return np.asarray(sample.is_poison, dtype=np.bool_)


def first_conflict(X: ArrayLike, y: ArrayLike) -> tuple[int, int] | None:
    """Return two rows with equal points and different labels, or None."""
    points, labels = np.asarray(X), np.asarray(y)
    if not labels.size or (labels == labels[0]).all():
        return None
    rows = points.reshape(len(points), -1)
    _, group = np.unique(rows, axis=0, return_inverse=True)
    group = group.reshape(-1)
    ones = np.bincount(group, weights=labels, minlength=1)
    mixed = np.flatnonzero((ones > 0) & (ones < np.bincount(group, minlength=1)))
    if mixed.size == 0:
        return None
    here = np.flatnonzero(group == mixed[0])
    return int(here[labels[here] == 0][0]), int(here[labels[here] == 1][0])


class BatchLearner(ABC):
    """What every learner of this area can do: ``fit(X, y)``, then ``predict(X)``.

    ``randomised`` learners have a ``random_state`` parameter; :meth:`with_coins` gives a copy
    with other coins. Learners are invariant under permutations of the training rows.
    """

    randomised: bool = False

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Let every learner read its rows at its entry."""
        super().__init_subclass__(**keywords)
        if "fit" in vars(cls):
            cls.fit = _reading_fit(vars(cls)["fit"])  # type: ignore[method-assign]
        if "predict" in vars(cls):
            cls.predict = _reading_predict(vars(cls)["predict"])  # type: ignore[method-assign]

    @abstractmethod
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from labelled points; an empty set is allowed."""

    @abstractmethod
    def predict(self, X: ArrayLike) -> Labels:
        """Return a 0/1 label per point."""

    def with_coins(self, seed: int) -> Self:
        """Return an unfitted copy with other random coins."""
        other = copy.copy(self)
        if hasattr(other, "random_state"):
            other.random_state = seed
        return other

    def __repr__(self) -> str:
        return _representation(self)


def _reading_fit(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``fit`` so that it refuses what is not points with labels."""

    @functools.wraps(fit)
    def read(self: Any, X: Any, y: Any) -> Any:
        shape = LabelledSet(X, y).X.shape
        fitted = fit(self, X, y)
        self._row_shape = shape[1:] if shape[0] else None
        return fitted

    return read


def _reading_predict(predict: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``predict`` so that it refuses points of another kind than those of ``fit``."""

    @functools.wraps(predict)
    def read(self: Any, X: Any) -> Any:
        shape, seen = as_points(X).shape[1:], getattr(self, "_row_shape", None)
        if seen is not None and shape != seen and (shape or (1,)) != (seen or (1,)):
            raise InvalidInputError(
                f"X has points of {_width(shape)}, the learner was fitted on {_width(seen)}"
            )
        return predict(self, X)

    return read


def _width(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} columns" if shape else "a finite domain"


def _representation(item: Any) -> str:
    """Class name with the parameters of its constructor."""
    parameters = inspect.signature(type(item).__init__).parameters.values()
    plain = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    names = [p.name for p in parameters if p.name != "self" and p.kind not in plain]
    values = ", ".join(f"{n}={_short(getattr(item, n, None))}" for n in names)
    return f"{type(item).__name__}({values})"


def _short(value: Any) -> str:
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    text = repr(value)
    return text if len(text) <= 60 else f"<{type(value).__name__}>"


def fresh(learner: Any, seed: int | None = None) -> Any:
    """Return an unfitted copy of a learner or scikit-learn estimator, with coins from ``seed``."""
    if isinstance(learner, BatchLearner):
        return learner.with_coins(seed) if seed is not None else copy.copy(learner)
    from sklearn.base import clone

    if isinstance(learner, type) or not hasattr(learner, "fit"):
        raise InvalidInputError(f"a learner with fit and predict is needed, got {shorten(learner)}")
    estimator = clone(learner)
    if seed is not None:
        coins = {
            name: seed if name == "random_state" and is_randomised(learner) else seed % 2**32
            for name in estimator.get_params()
            if name == "random_state" or name.endswith("__random_state")
        }
        estimator.set_params(**coins)
    return estimator


def check_learner(learner: Any, name: str = "learner") -> Any:
    """Return a learner; raise unless it has ``fit`` and ``predict``."""
    if isinstance(learner, type) or not (hasattr(learner, "fit") and hasattr(learner, "predict")):
        raise InvalidInputError(
            f"{name} must be a learner with fit and predict, got {shorten(learner)}"
        )
    return learner


def check_positions(X: Any, n: int, name: str = "X") -> NDArray[np.int64]:
    """Return positions in a domain of ``n`` points as a vector."""
    if fault := array_fault(X, kinds="biuf"):
        raise InvalidInputError(f"{name} must be positions: {fault}")
    array = np.atleast_1d(check_float_array(X, name))
    if array.ndim > 2 or (array.ndim == 2 and array.shape[1] != 1 and array.size):
        raise InvalidInputError(f"{name} must be a list of positions, got shape {array.shape}")
    places = array.reshape(-1)
    if places.size and not (places.min() >= 0 and places.max() < n and not (places % 1).any()):
        raise InvalidInputError(f"{name} must be positions from 0 to {n - 1}")
    return places.astype(np.int64)


def is_randomised(learner: Any) -> bool:
    """Whether the fit depends on coins the attacker does not know."""
    return bool(getattr(learner, "randomised", False))


def training_set(X: ArrayLike, y: ArrayLike) -> LabelledSet:
    """Validate training data and refuse equal points with different labels."""
    S = LabelledSet(np.asarray(X), np.asarray(y))
    if len(S) and (pair := first_conflict(S.X, S.y)) is not None:
        raise NotRealizableError(
            f"rows {pair[0]} and {pair[1]} are the same point with different labels", item=pair
        )
    return S


class Attacker(ABC):
    """Adds clean rows to a training set so that the learner errs at one test point.

    Subclasses implement ``_attack``; :meth:`attack` checks cleanliness and budget. An attacker
    that sees no way returns the empty set.
    """

    def is_applicable(self, h_star: Target, S: LabelledSet, x0: Points) -> bool:
        """Whether the attack is meant for this target and data; default yes."""
        return True

    @abstractmethod
    def _attack(
        self, h_star: Target, S: LabelledSet, x0: Points, budget: int | None
    ) -> LabelledSet:
        """Propose poison rows; they are checked by :meth:`attack`."""

    def attack(
        self, h_star: Target, S: LabelledSet, x0: ArrayLike, budget: int | None = None
    ) -> LabelledSet:
        """Return clean poison against the test point ``x0``, at most ``budget`` rows."""
        limit = None if budget is None else check_int(budget, "budget", low=0)
        if not callable(h_star):
            raise InvalidInputError(f"h_star must be a labelling function, got {shorten(h_star)}")
        if not isinstance(S, LabelledSet):
            raise InvalidInputError(f"S must be a LabelledSet, got {shorten(S)}")
        point = _test_point(x0, S)
        if limit == 0:
            return LabelledSet.empty(S.X)
        poison = self._attack(h_star, S, point, limit)
        if len(poison) == 0:
            return LabelledSet.empty(S.X)
        check_budget(poison, limit)
        self.check_clean(h_star, poison)
        return poison.poison()

    def check_clean(self, h_star: Target, poison: LabelledSet) -> None:
        """Raise :class:`NotCleanError` at the first row that contradicts the target."""
        check_clean(h_star, poison)

    def __repr__(self) -> str:
        return _representation(self)


def _test_point(x0: Any, S: LabelledSet) -> Points:
    """Return a test point; raise unless it is of the kind of the training points."""
    point = check_float_array(x0, "x0")
    width = 1 if S.X.ndim == 1 else S.X.shape[1]
    if point.size != width:
        raise InvalidInputError(f"x0 must be one point of {width} columns, got shape {point.shape}")
    return np.asarray(x0) if S.X.ndim == 1 else np.asarray(x0).reshape(-1)


def check_clean(h_star: Target, rows: LabelledSet, kind: str = "poison") -> None:
    """Raise :class:`NotCleanError` at the first row whose label is not the target's."""
    truth = np.asarray(h_star(rows.X)).astype(np.uint8)
    wrong = np.flatnonzero(truth != rows.y)
    if wrong.size:
        row = int(wrong[0])
        raise NotCleanError(
            f"{kind} row {row} has label {int(rows.y[row])} but the target says "
            f"{int(truth[row])}; only correctly labelled rows are allowed",
            row=row,
        )


def check_budget(poison: LabelledSet, budget: int | None) -> None:
    """Raise :class:`BudgetError` if there are more poison rows than allowed."""
    if budget is not None and len(poison) > budget:
        raise BudgetError(f"the poison has {len(poison)} rows, the budget is {budget}")


class EmptyAttacker(Attacker):
    """Adds nothing: its success rate is the error rate.

    Examples
    --------
    >>> S = LabelledSet([[0.0], [1.0]], [0, 1])
    >>> len(EmptyAttacker().attack(lambda X: X[:, 0] >= 0.5, S, [0.4]))
    0
    """

    def _attack(
        self, h_star: Target, S: LabelledSet, x0: Points, budget: int | None
    ) -> LabelledSet:
        return LabelledSet.empty(S.X)


@checked
class TableTarget:
    """A target on a finite domain, given by its label row.

    Examples
    --------
    >>> TableTarget([0, 1, 1])([2, 0])
    array([1, 0], dtype=uint8)
    """

    def __init__(self, labels: ArrayLike) -> None:
        self.labels = check_labels01(labels, "labels").astype(np.uint8)
        if self.labels.ndim != 1:
            raise InvalidInputError(f"labels must be one row, got shape {self.labels.shape}")

    def __call__(self, X: ArrayLike) -> Labels:
        """Label the rows of X."""
        places = as_points(X).reshape(-1)
        if places.size and not 0 <= places.min() <= places.max() < len(self.labels):
            raise InvalidInputError(f"X must be positions below {len(self.labels)}")
        row: Labels = self.labels[places.astype(np.int64)]
        return row

    def __repr__(self) -> str:
        return f"TableTarget({len(self.labels)} points, {int(self.labels.sum())} positive)"


@checked
class IntervalTarget:
    """A union of intervals on the line; without ends it is the empty set.

    Parameters
    ----------
    ends:
        Left and right ends of the intervals, sorted: ``[a1, b1, a2, b2, ...]``.
    closed:
        Whether the intervals contain their ends.

    Examples
    --------
    >>> IntervalTarget([0.2, 0.8])([[0.2], [0.5], [0.9]])
    array([1, 1, 0], dtype=uint8)

    References
    ----------
    "Setting", see docs/theory/10-poisoning.md.
    """

    def __init__(self, ends: ArrayLike = (), *, closed: bool = True) -> None:
        self.ends = check_float_array(np.asarray(ends, dtype=np.float64), "ends", ndim=1)
        if self.ends.size % 2 or (np.diff(self.ends) < 0).any():
            raise InvalidInputError("ends must be sorted pairs [a1, b1, a2, b2, ...]")
        self.closed = closed

    def __call__(self, X: ArrayLike) -> Labels:
        """Label the rows of X."""
        x = column(X)
        inside = np.searchsorted(self.ends, x, side="right") % 2 == 1
        on_end = np.isin(x, self.ends)
        return np.where(on_end, self.closed, inside).astype(np.uint8)

    def __repr__(self) -> str:
        return f"IntervalTarget({self.ends.tolist()}, closed={self.closed})"


@checked
class LinearTarget:
    """The half-space ``1[<w, x> + b >= 0]``; the boundary is positive.

    Labels are exact: they are those of the rational numbers that the floats are. Rounded labels of
    rows next to the boundary can contradict every half-space.

    Parameters
    ----------
    w:
        Normal.
    b:
        Offset.
    tolerance:
        Rows with ``|<w, x> + b|`` up to it count as boundary, that is positive.

    Examples
    --------
    >>> LinearTarget([1.0, 0.0], -0.5)([[0.5, 0.0], [0.4, 0.0]])
    array([1, 0], dtype=uint8)
    """

    def __init__(self, w: ArrayLike, b: float = 0.0, *, tolerance: float = 0.0) -> None:
        self.w = check_float_array(w, "w", ndim=1)
        self.b = float(b)
        self.tolerance = float(tolerance)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return ``<w, x> + b`` per row."""
        values: NDArray[np.float64] = self._rows(X) @ self.w + self.b
        return values

    def _rows(self, X: ArrayLike) -> NDArray[np.float64]:
        rows = np.atleast_2d(check_float_array(X, "X"))
        if rows.ndim != 2 or rows.shape[1] != self.w.size:
            raise InvalidInputError(
                f"X must have {self.w.size} columns as the normal has, got shape {rows.shape}"
            )
        return rows

    def __call__(self, X: ArrayLike) -> Labels:
        """Label the rows of X."""
        rows = self._rows(X)
        value = self.decision_function(rows) + self.tolerance
        size = np.abs(rows) @ np.abs(self.w) + abs(self.b) + abs(self.tolerance)
        labels = (value >= 0).astype(np.uint8)
        rounding = (self.w.size + 4) * 2.0**-52 * size + 1e-300
        for row in np.flatnonzero(np.abs(value) <= rounding):
            labels[row] = self._exact_value(rows[row]) >= 0
        return labels

    def _exact_value(self, x: NDArray[np.float64]) -> Fraction:
        terms = [Fraction(a) * Fraction(b) for a, b in zip(self.w.tolist(), x.tolist())]
        return sum(terms, Fraction(self.b) + Fraction(self.tolerance))

    def __repr__(self) -> str:
        return f"LinearTarget(w={_short(self.w.tolist())}, b={self.b:g})"


def column(X: ArrayLike) -> NDArray[np.float64]:
    """Return one-dimensional data as a vector."""
    x = check_float_array(X, "X")
    if x.ndim == 2 and x.shape[1] != 1 and x.size:
        raise InvalidInputError(f"one column expected, got {x.shape[1]}")
    return x.reshape(-1)
