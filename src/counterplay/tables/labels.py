"""Labels in any coding: which classes there are, which one people want, nothing guessed.

0/1 and True/False say themselves which outcome is wanted. Every other coding is asked about,
because the two answers give different numbers: many credit files code the default as 1.
"""

from __future__ import annotations

import numbers
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.validation import BoolArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.tables.cells import first_missing, is_missing, listed, shown

MOST_CLASSES = 1000


@checked
@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of rows: the classes in order, and the position of each row's class.

    Parameters
    ----------
    classes
        The different labels, numbers before texts, each kind sorted.
    codes
        For each row the position of its label in ``classes``.
    what
        How messages call the labels.

    Examples
    --------
    >>> labels = Labels.of(["good", "bad", "good"])
    >>> labels.classes, labels.codes.tolist()
    (('bad', 'good'), [1, 0, 1])
    >>> labels.wanted("good").tolist()
    [1, 0, 1]
    >>> labels.wanted()
    Traceback (most recent call last):
    ...
    counterplay.errors.InvalidInputError: which outcome do people want? y has 'bad' (1 row, 33 %) \
and 'good' (2 rows, 67 %); set positive='bad' or positive='good'

    References
    ----------
    docs/tables.md.
    """

    classes: tuple[Any, ...]
    codes: IntArray
    what: str = "y"

    def __post_init__(self) -> None:
        """Refuse codes that stand for no class."""
        if self.codes.ndim != 1 or self.codes.dtype.kind not in "iu":
            raise InvalidInputError("codes must be one number per row; use Labels.of(y)")
        if any(not isinstance(label, str | numbers.Real) for label in self.classes):
            raise InvalidInputError("classes must be numbers or texts; use Labels.of(y)")
        if self.codes.size and not 0 <= self.codes.min() <= self.codes.max() < len(self.classes):
            raise InvalidInputError("codes must be positions in classes; use Labels.of(y)")

    @classmethod
    def of(cls, y: Any, *, rows: int | None = None, what: str = "y") -> Labels:
        """Read labels from a list, array or series of numbers, booleans, texts or categories.

        Parameters
        ----------
        y
            One label for each row.
        rows
            Number of rows there must be, if known.
        what
            How messages call the labels.
        """
        values = label_values(y, what)
        if rows is not None and len(values) != rows:
            raise InvalidInputError(f"{what} has {len(values)} labels for {rows} rows")
        if not len(values):
            raise InvalidInputError(f"{what} has no labels")
        classes, codes = _distinct(values, what)
        return cls(classes, codes, what)

    @cached_property
    def counts(self) -> IntArray:
        """Number of rows of each class."""
        return np.bincount(self.codes, minlength=len(self.classes)).astype(np.int64)

    @property
    def values(self) -> NDArray[Any]:
        """The labels themselves, one per row."""
        return as_labels(self.classes)[self.codes]

    @property
    def says_itself(self) -> bool:
        """Whether the coding is 0/1 or False/True, so that the wanted class is clear."""
        classes = self.classes
        if any(isinstance(c, str) for c in classes):
            return False
        return tuple(map(float, classes)) == (0.0, 1.0)

    def positive_class(self, positive: Any = None) -> Any:
        """Return the wanted one of two classes; ask for it unless the coding says it."""
        if len(self.classes) < 2:
            raise InvalidInputError(
                f"all {len(self.codes)} labels of {self.what} are {shown(self.classes[0])}; "
                "two classes are needed"
            )
        if len(self.classes) > 2:
            raise InvalidInputError(
                f"{self.what} has {len(self.classes)} classes ({listed(self.classes)}); this needs "
                "exactly two: say which are wanted, positive=[...]"
            )
        if positive is not None:
            return self.classes[self.position(positive)]
        if self.says_itself:
            return self.classes[1]
        raise InvalidInputError(self._question())

    def position(self, label: Any) -> int:
        """Return where a class stands; raise if no row has it."""
        for place, known in enumerate(self.classes):
            if _same(known, label):
                return place
        raise InvalidInputError(
            f"positive={shown(label)} is not a class of {self.what}; "
            f"the classes are {listed(self.classes)}"
        )

    def wanted(self, positive: Any = None) -> NDArray[np.int8]:
        """Return 1 for rows with the wanted outcome, else 0.

        ``positive`` is one class, or a collection of classes that are wanted alike; it may be left
        out when the labels are 0/1 or True/False.
        """
        if isinstance(positive, Collection) and not isinstance(positive, str | bytes):
            places = sorted({self.position(label) for label in positive})
            if not 0 < len(places) < len(self.classes):
                raise InvalidInputError(
                    f"positive must name some of the classes, but not all: {listed(self.classes)}"
                )
            chosen: NDArray[np.int8] = np.isin(self.codes, places).astype(np.int8)
            return chosen
        place = self.position(self.positive_class(positive))
        hits: NDArray[np.int8] = (self.codes == place).astype(np.int8)
        return hits

    def take(self, rows: Any) -> Labels:
        """Return the labels of some rows; classes stay, also those that are left without a row."""
        return Labels(self.classes, self.codes[rows], self.what)

    def _question(self) -> str:
        shares = [
            f"{shown(label, 40)} ({n} {'row' if n == 1 else 'rows'}, {n / len(self.codes):.0%})"
            for label, n in zip(self.classes, self.counts.tolist())
        ]
        options = " or ".join(f"positive={shown(label, 40)}" for label in self.classes)
        share = " and ".join(part.replace("%", " %") for part in shares)
        return f"which outcome do people want? {self.what} has {share}; set {options}"


def label_values(y: Any, what: str = "y") -> NDArray[Any]:
    """Return labels as a one-axis object array of plain values; refuse what is not a label."""
    values = _series(y, what)
    missing = first_missing(values)
    if missing is not None:
        raise InvalidInputError(f"{what} has no label in row {missing}; drop such rows first")
    return np.array([_plain(value, what) for value in values.tolist()], dtype=object)


def cast_labels(y: Any, what: str = "y") -> tuple[NDArray[Any], BoolArray]:
    """Return labels as plain values, each read alone, and which of them are labels.

    A missing or strange label is marked, not raised: it concerns its own row only.

    Examples
    --------
    >>> values, known = cast_labels([0, 1.0, None, "spam"])
    >>> values[known].tolist(), known.tolist()
    ([0, 1, 'spam'], [True, True, False, True])
    """
    cells = _series(y, what).tolist()
    values = np.empty(len(cells), dtype=object)
    known = np.ones(len(cells), dtype=bool)
    if getattr(getattr(y, "dtype", None), "kind", "") in "biu" and isinstance(y, np.ndarray):
        values[:] = cells  # whole numbers and flags are what they are
        return values, known
    for i, cell in enumerate(cells):
        try:
            values[i] = None if is_missing(cell) else _plain(cell, what)
        except InvalidInputError:
            values[i] = None
        known[i] = values[i] is not None
    return values, known


def as_labels(classes: Sequence[Any]) -> NDArray[Any]:
    """Return classes as an array: of numbers, booleans or texts if all are alike, else objects.

    Examples
    --------
    >>> as_labels(("no", "yes")).dtype.kind, as_labels((0, "a")).dtype
    ('U', dtype('O'))
    """
    kinds = {bool if isinstance(c, bool) else str if isinstance(c, str) else float for c in classes}
    if len(kinds) == 1:
        return np.array(classes)
    array = np.empty(len(classes), dtype=object)
    array[:] = classes
    return array


def _series(y: Any, what: str) -> pd.Series:
    """Return labels of any container as a series; one thing alone is no list of labels."""
    if isinstance(y, str | bytes | dict | set | frozenset) or y is None or callable(y):
        raise InvalidInputError(f"{what} must be one label per row, got {shown(y)}")
    if isinstance(y, pd.DataFrame) and y.shape[1] == 1:
        y = y.iloc[:, 0]
    try:
        return y if isinstance(y, pd.Series) else pd.Series(_flat(y, what))
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{what} must be one label per row: {shown(error)}") from None


def _flat(y: Any, what: str) -> Any:
    if hasattr(y, "to_list") and not isinstance(y, np.ndarray):  # polars and other series
        return y.to_list()
    if hasattr(y, "to_pylist"):  # Arrow
        return y.to_pylist()
    if isinstance(y, np.ndarray):
        array = y
    elif hasattr(y, "__array__") and not hasattr(y, "__iter__"):
        array = np.asarray(y)
    else:
        values = list(y)
        array = np.empty(len(values), dtype=object)
        array[:] = values
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidInputError(f"{what} must have one label per row, got shape {array.shape}")
    if array.dtype.kind == "c":
        raise InvalidInputError(f"{what} holds complex numbers; labels are classes")
    return array


def _plain(value: Any, what: str) -> Any:
    """Return one label as bool, int, float or str; integral floats become ints."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        if not np.isfinite(number):
            raise InvalidInputError(f"{what} has the label {number}; labels are classes")
        return int(number) if number.is_integer() else number
    if isinstance(value, str):
        return str(value)
    raise InvalidInputError(f"{what} has the label {shown(value)}; use numbers or texts")


def _distinct(values: NDArray[Any], what: str) -> tuple[tuple[Any, ...], IntArray]:
    found = set(values.tolist())
    if len(found) > MOST_CLASSES:
        raise InvalidInputError(
            f"{what} has {len(found)} different labels, at most {MOST_CLASSES} are classes; "
            "it looks like a measurement"
        )
    classes = tuple(sorted(found, key=lambda c: (isinstance(c, str), c)))
    place = {label: j for j, label in enumerate(classes)}
    return classes, np.array([place[value] for value in values.tolist()], dtype=np.int64)


def _same(known: Any, label: Any) -> bool:
    """Whether two labels are one: a text equals only a text, a number any equal number."""
    if isinstance(known, str) or isinstance(label, str):
        return isinstance(known, str) and isinstance(label, str) and known == label
    try:
        return bool(known == label)
    except (TypeError, ValueError):
        return False
