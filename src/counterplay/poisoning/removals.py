"""Which training rows an update removes: by content, by id, by source."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.validation import BoolArray
from counterplay.errors import InvalidInputError
from counterplay.poisoning.training_rows import Held, Rows, owner_marks
from counterplay.poisoning.units import Dealer, encoded_ids, encoded_sources
from counterplay.tables.encoding import row_digests
from counterplay.tables.labels import cast_labels


def removed(
    held: Held, dealer: Dealer, remove: Any, all_copies: bool, remove_ids: Any, remove_sources: Any
) -> BoolArray:
    """Return which of the held rows are to go."""
    gone = np.zeros(len(held), dtype=bool)
    if remove_sources is not None:
        if held.owners is None:
            raise InvalidInputError("this classifier was not fitted by sources")
        names = encoded_sources(remove_sources, len(remove_sources))
        gone |= _among(held.owners, owner_marks([n for n in names if n is not None], dealer))
    if remove_ids is not None:
        if held.ids is None:
            raise InvalidInputError("this classifier was not fitted with row ids")
        marks = row_digests(encoded_ids(remove_ids, len(remove_ids)), key=dealer.key, domain="id")
        gone |= _among(held.ids, marks)
    if remove is not None:
        rows, labels = remove if isinstance(remove, tuple) and len(remove) == 2 else (remove, None)
        _remove_content(held, dealer, gone, rows, labels, all_copies)
    return gone


def _remove_content(
    held: Held, dealer: Dealer, gone: BoolArray, X: Any, labels: Any, all_copies: bool
) -> None:
    cast = held.rows.cast.schema.cast(X)
    cast.raise_rejected("row")
    wanted = Rows(cast).digests(dealer.key)
    values = None if labels is None else cast_labels(labels)[0]
    if values is not None and len(values) != len(wanted):
        raise InvalidInputError(f"remove has {len(wanted)} rows, its labels {len(values)}")
    places: dict[bytes, list[int]] = {}
    for i in np.flatnonzero(~gone).tolist():
        places.setdefault(held.marks[i].tobytes(), []).append(i)
    for j, mark in enumerate(wanted):
        here = [i for i in places.get(mark.tobytes(), []) if not gone[i]]
        if values is not None:
            here = [i for i in here if held.labels[i] == values[j]]
        if not here:
            raise InvalidInputError(f"row {j} of remove is not among the training rows")
        if values is None and not all_copies and len({held.labels[i] for i in here}) > 1:
            raise InvalidInputError(
                f"row {j} of remove has copies with different labels; give remove=(X, y)"
            )
        gone[here if all_copies else here[:1]] = True


def _among(marks: NDArray[np.uint8], wanted: NDArray[np.uint8]) -> BoolArray:
    """Which digests are among the wanted ones."""
    chosen = {mark.tobytes() for mark in wanted}
    return np.fromiter((mark.tobytes() in chosen for mark in marks), bool, len(marks))
