"""Which training rows an update removes: by content, by id, by source.

The block of what is to go is known from its hash where the blocks were dealt by it; otherwise all
blocks are looked through.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.validation import BoolArray
from counterplay.errors import InvalidInputError
from counterplay.poisoning.held_rows import BlockRows, Held, joined, owner_marks
from counterplay.poisoning.training_rows import Rows
from counterplay.poisoning.units import (
    Dealer,
    Digests,
    Fitted,
    encoded_ids,
    encoded_sources,
)
from counterplay.tables import Schema
from counterplay.tables.cells import shown
from counterplay.tables.encoding import row_digests
from counterplay.tables.labels import cast_labels


@dataclass
class Removal:
    """Rows that go, block by block.

    Parameters
    ----------
    parts
        The rows of the blocks.
    dealer
        What dealt them.
    fitted
        What they were dealt by.
    gone
        Which rows of the blocks looked at so far are to go.
    """

    parts: BlockRows
    dealer: Dealer
    fitted: Fitted
    gone: dict[int, BoolArray] = field(default_factory=dict)

    def sources(self, names: Any) -> None:
        """Remove all rows of these sources."""
        if self.fitted != "sources":
            raise InvalidInputError("this classifier was not fitted by sources")
        for name in encoded_sources(names, _count(names, "remove_sources")):
            mark = owner_marks([name], self.dealer)
            for block in self.dealer.blocks_of_source(name):
                self._mark(block, _among(self.parts[block].owners, mark))

    def ids(self, row_ids: Any) -> None:
        """Remove the rows with these ids."""
        wanted = encoded_ids(row_ids, _count(row_ids, "remove_ids"))
        marks = row_digests(wanted, key=self.dealer.key, domain="id")
        for block in self._candidates(marks, "ids"):
            part = self.parts[block]
            if part.ids is None:
                raise InvalidInputError("this classifier was not fitted with row ids")
            self._mark(block, _among(part.ids, marks))

    def content(self, schema: Schema, remove: Any, all_copies: bool) -> None:
        """Remove rows by content, or by content and label: one copy each, or all."""
        X, labels = remove if isinstance(remove, tuple) and len(remove) == 2 else (remove, None)
        cast = schema.cast(X)
        cast.raise_rejected("row")
        wanted = Rows(cast).digests(self.dealer.key)
        values = None if labels is None else cast_labels(labels)[0]
        if values is not None and len(values) != len(wanted):
            raise InvalidInputError(f"remove has {len(wanted)} rows, its labels {len(values)}")
        places = self._copies(wanted)
        for j, mark in enumerate(wanted):
            here = [at for at in places.get(mark.tobytes(), []) if not self._is_gone(at)]
            if values is not None:
                here = [at for at in here if at[2] == values[j]]
            if not here:
                raise InvalidInputError(f"row {j} of remove is not among the training rows")
            if values is None and not all_copies and len({label for _, _, label in here}) > 1:
                raise InvalidInputError(
                    f"row {j} of remove has copies with different labels; give remove=(X, y)"
                )
            for block, i, _ in here if all_copies else here[:1]:
                self._mark(block, np.arange(len(self.parts[block])) == i)

    def _candidates(self, marks: Digests, fitted: Fitted) -> Iterable[int]:
        """Blocks that may hold rows with these hashes."""
        if self.fitted != fitted:
            return range(len(self.parts))
        return sorted(set(self.dealer.by_identity(marks).tolist()))

    def _copies(self, wanted: Digests) -> dict[bytes, list[tuple[int, int, Any]]]:
        """Block, place and label of every copy of the wanted rows."""
        places: dict[bytes, list[tuple[int, int, Any]]] = {}
        for block in self._candidates(wanted, "rows"):
            part = self.parts[block]
            for i in np.flatnonzero(_among(part.marks, wanted)).tolist():
                found = places.setdefault(part.marks[i].tobytes(), [])
                found.append((block, i, part.labels[i]))
        return places

    def _is_gone(self, at: tuple[int, int, Any]) -> bool:
        block, i, _ = at
        return block in self.gone and bool(self.gone[block][i])

    def _mark(self, block: int, mask: BoolArray) -> None:
        if mask.any():
            before = self.gone.get(block)
            self.gone[block] = mask if before is None else before | mask


def _count(names: Any, what: str) -> int:
    """Return how many names are listed; one alone is no list."""
    if isinstance(names, str | bytes) or not hasattr(names, "__len__"):
        raise InvalidInputError(f"{what} must be a list, got {shown(names)}; put it into brackets")
    return len(names)


def changed_parts(
    parts: BlockRows, gone: dict[int, BoolArray], new: Sequence[tuple[int, Held]]
) -> dict[int, Held]:
    """Return the blocks whose rows change, with the rows they have then, in order."""
    changed = {block: parts[block].take(~mask) for block, mask in gone.items()}
    for block, more in new:
        part = changed.get(block, parts[block])
        changed[block] = joined([part, more]).sorted() if len(part) else more
    return changed


def _among(marks: Digests | None, wanted: NDArray[np.uint8]) -> BoolArray:
    """Which digests are among the wanted ones."""
    if marks is None or not len(marks):
        return np.zeros(0 if marks is None else len(marks), dtype=bool)
    mask: BoolArray = np.isin(_numbers(marks), _numbers(wanted))
    return mask


def _numbers(marks: Digests) -> NDArray[Any]:
    """Return digests as one sortable value each."""
    return np.ascontiguousarray(marks).view("S16").ravel()
