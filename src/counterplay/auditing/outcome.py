"""The outcome of each row, and which one people want: stated, never guessed.

Labels come as 0/1, as floats, as ``"0 "`` and ``"1 "``, as words; they are compared by what they
say. A model may answer in another coding than the table's: then the two are mapped by the config.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.auditing.config import Config
from counterplay.core.validation import BoolArray
from counterplay.errors import InvalidInputError
from counterplay.tables.cells import nearest, shown
from counterplay.tables.labels import cast_labels

FEWEST_ROWS = 100


@dataclass(frozen=True, eq=False)
class Outcome:
    """The label column of a table, read.

    Parameters
    ----------
    label
        Name of the column.
    values
        The outcome of each kept row, tidied: no spaces around words, whole numbers as integers.
    wanted
        Which kept rows have the wanted outcome.
    positive
        The wanted values.
    kept
        Which rows of the table have an outcome.
    """

    label: str
    values: NDArray[Any]
    wanted: BoolArray
    positive: tuple[Any, ...]
    kept: BoolArray

    @property
    def classes(self) -> tuple[Any, ...]:
        """The different outcomes, numbers before texts."""
        return distinct(self.values)


def read_outcome(frame: pd.DataFrame, config: Config) -> Outcome:
    """Return the outcomes of a table; ask for what the config does not say."""
    label = _label(frame, config)
    values, known = cast_labels(frame[label], what=shown(label, 60))
    tidy = tidied(values[known])
    classes = distinct(tidy)
    _check_size(tidy, classes)
    positive = _positive(label, tidy, classes, config.data.positive)
    wanted = np.fromiter((value in positive for value in tidy), bool, len(tidy))
    return Outcome(label, tidy, wanted, positive, known)


def tidied(values: NDArray[Any]) -> NDArray[Any]:
    """Return labels without spaces around words; texts that are all numbers become numbers.

    Examples
    --------
    >>> tidied(np.array(["0 ", "1 ", " 1"], dtype=object)).tolist()
    [0, 1, 1]
    """
    found = np.array([v.strip() if isinstance(v, str) else v for v in values], dtype=object)
    if all(isinstance(value, str) for value in found):
        numbers = [_number(value) for value in found]
        if all(number is not None for number in numbers):
            found[:] = numbers
    return found


def distinct(values: Sequence[Any] | NDArray[Any]) -> tuple[Any, ...]:
    """Return the different values, numbers before texts, each kind sorted."""
    return tuple(sorted(set(values), key=lambda v: (isinstance(v, str), v)))


def same_value(one: Any, two: Any) -> bool:
    """Whether two labels say the same, in whatever type they are stored.

    Examples
    --------
    >>> same_value("1", 1.0), same_value("true", True), same_value("false", True)
    (True, True, False)
    """
    if isinstance(one, str) != isinstance(two, str):
        text, other = (one, two) if isinstance(one, str) else (two, one)
        if isinstance(other, bool) and text.strip().lower() == str(other).lower():
            return True  # keys of a TOML table are texts
        one, two = (_number(v) if isinstance(v, str) else v for v in (one, two))
        return one is not None and two is not None and bool(one == two)
    return bool(one.strip() == two.strip()) if isinstance(one, str) else bool(one == two)


def model_classes(
    outcome: Outcome, answers: Sequence[Any], classes: dict[str, Any]
) -> dict[Any, Any]:
    """Return for each outcome of the table the answer of the model that means it.

    Parameters
    ----------
    outcome
        Outcomes of the table.
    answers
        The classes of the model.
    classes
        ``[data] classes`` of the config: outcome of the table to answer of the model.
    """
    mapping = {}
    for value in outcome.classes:
        stated = [answer for key, answer in classes.items() if same_value(key, value)]
        sought = stated[0] if stated else value
        found = [answer for answer in answers if same_value(answer, sought)]
        if not found:
            raise InvalidInputError(_mismatch(outcome, answers))
        mapping[value] = found[0]
    return mapping


def _mismatch(outcome: Outcome, answers: Sequence[Any]) -> str:
    model, table = tuple(answers)[:4], outcome.classes[:4]
    pairs = ", ".join(f"{_key(value)} = ..." for value in table)
    return (
        f"The model answers {'/'.join(shown(a, 30) for a in model)}, the table has "
        f"{'/'.join(shown(v, 30) for v in table)}. Say which "
        f"answer means which: [data] classes = {{{pairs}}}."
    )


def _key(value: Any) -> str:
    return str(value) if not isinstance(value, str) else f"'{value[:30]}'"


def _label(frame: pd.DataFrame, config: Config) -> str:
    label = config.data.label
    if label is None:
        from counterplay.auditing.guess import label_candidates

        told = ", ".join(
            f"{name} ({reason})" if k == 0 else name
            for k, (name, reason) in enumerate(label_candidates(frame)[:3])
        )
        raise InvalidInputError(
            f"Which column is the outcome? Set [data] label. Candidates: {told or 'none'}. "
            "'counterplay audit init' writes a file with all settings, for --config."
        )
    if label not in frame.columns:
        near = nearest(label, map(str, frame.columns)).replace("'", "")
        raise InvalidInputError(f"[data] label = {shown(label, 60)} names no column{near}.")
    return label


def _check_size(values: NDArray[Any], classes: tuple[Any, ...]) -> None:
    n = len(values)
    if len(classes) == 1:
        raise InvalidInputError(
            f"All {n:,} rows have outcome {_told(classes[0])}: nothing to measure."
        )
    if n < FEWEST_ROWS:
        raise InvalidInputError(
            f"{n} rows: every interval would be wider than 20 points. {FEWEST_ROWS} are needed."
        )


def _positive(
    label: str, values: NDArray[Any], classes: tuple[Any, ...], given: Any
) -> tuple[Any, ...]:
    if given is None and len(classes) == 2:
        counts = " and ".join(
            f"{_told(c)} ({sum(1 for v in values if v == c):,} rows)" for c in classes
        )
        raise InvalidInputError(
            f"Which outcome do people want? Values are {counts}. Set [data] positive."
        )
    if len(classes) > 2 and not isinstance(given, tuple | list):
        top = ", ".join(_told(c) for c in classes[-max(1, round(0.4 * len(classes))) :][:6])
        raise InvalidInputError(
            f"{shown(label, 60)} has {len(classes)} values. Say which are the wanted ones: "
            f"positive = [{top}]."
        )
    asked = tuple(given) if isinstance(given, tuple | list) else (given,)
    found = tuple(c for c in classes if any(same_value(c, value) for value in asked))
    odd = [v for v in asked if not any(same_value(c, v) for c in classes)]
    if odd or not 0 < len(found) < len(classes):
        known = ", ".join(_told(c) for c in classes[:6])
        raise InvalidInputError(
            f"[data] positive = {shown(given, 60)} must name some of the values of "
            f"{shown(label, 40)}, but not all: {known}."
        )
    return found


def _told(value: Any) -> str:
    return shown(value, 40) if isinstance(value, str) else f"{value}"


def _number(text: str) -> Any:
    try:
        number = float(text)
    except ValueError:
        return None
    if not np.isfinite(number):
        return None
    return int(number) if number.is_integer() else number
