"""Who owns a training row, and which block it goes to: rows, row ids, sources, committees.

The block of a row is a function of the row (its id, its source) and the key alone, never of other
rows: this is what a certificate rests on. Source: docs/theory/21-sources.md, "What a change costs".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.core.validation import BoolArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.tables.cells import is_missing, shown
from counterplay.tables.encoding import blocks_of, encode_identity, row_digests

Unit = Literal["rows", "sources"]
Fitted = Literal["rows", "ids", "sources"]
Unknown = Literal["row", "pool", "drop"]
Changes = Literal["inserted", "inserted_or_removed", "relabelled", "replaced", "moved"]
CHANGES: tuple[Changes, ...] = (
    "inserted", "inserted_or_removed", "relabelled", "replaced", "moved",
)  # fmt: skip
Digests = NDArray[np.uint8]
_NOBODY = b"\x00" + bytes(8)  # encoding of a missing cell


@dataclass(frozen=True)
class Dealer:
    """Deals rows to blocks.

    Parameters
    ----------
    n_blocks
        Number of blocks.
    key
        Key of the hash; it appears in no representation.
    committee
        Slots of a source.
    cap
        Rows that are kept of each source; None for all.
    split
        Slots of the sources that are listed, by their encoded ids.
    unknown
        What becomes of rows without a source.
    """

    n_blocks: int
    key: bytes | str | None = field(default=None, repr=False)
    committee: int = 1
    cap: int | None = None
    split: Mapping[bytes, int] = field(default_factory=dict, repr=False)
    unknown: Unknown = "row"

    @property
    def several(self) -> bool:
        """Whether a source may have rows in several blocks."""
        return self.committee > 1 or any(slots > 1 for slots in self.split.values())

    def blocks_of_source(self, source: bytes | None) -> list[int]:
        """Return the blocks that hold the rows of a source; None: of the pool."""
        if source is None:
            return [self._slot(_NOBODY, 0, 1)] if self.unknown == "pool" else []
        slots = self.split.get(source, self.committee)
        return sorted({self._slot(source, slot, slots) for slot in range(slots)})

    def by_identity(self, marks: Digests) -> IntArray:
        """Return the block of each row by the hash of its content or of its id."""
        return blocks_of(marks, self.n_blocks)

    def by_source(self, sources: Sequence[bytes | None], rows: Digests) -> IntArray:
        """Return the block of each row by its source; -1 for a row that is dropped."""
        alone = blocks_of(rows, self.n_blocks)
        low = np.ascontiguousarray(rows).view("<u8").reshape(-1, 2)
        block = np.empty(len(sources), dtype=np.int64)
        known: dict[tuple[bytes, int], int] = {}
        for i, source in enumerate(sources):
            if source is None and self.unknown != "pool":
                block[i] = alone[i] if self.unknown == "row" else -1
                continue
            owner = _NOBODY if source is None else source
            slots = self.split.get(owner, self.committee) if source is not None else 1
            slot = 0 if slots == 1 else int(_modulo(low[i], slots))
            place = (owner, slot if slots > 1 else -1)
            if place not in known:
                known[place] = self._slot(owner, slot, slots)
            block[i] = known[place]
        return block

    def _slot(self, owner: bytes, slot: int, slots: int) -> int:
        if slots == 1:
            marks = row_digests([owner], key=self.key, domain="source")
        else:
            payload = owner + slot.to_bytes(8, "little", signed=True)
            marks = row_digests([payload], key=self.key, domain="committee")
        return int(blocks_of(marks, self.n_blocks)[0])

    def cost(self, unit: Unit, changes: Changes, fitted: Fitted, *, unknown: bool = False) -> int:
        """Blocks that one change can touch at most; ``unknown``: some rows have no source."""
        if unit == "sources":
            if self.cap is None:
                return self.committee
            new = changes in ("inserted", "inserted_or_removed")
            return min(self.committee, self.cap if new else 2 * self.cap)
        if fitted != "sources":
            return {"replaced": 2 if fitted == "rows" else 1, "moved": 0}.get(changes, 1)
        several = self.several
        pushed = 2 if several and self.cap is not None else 1  # a row that another one displaces
        table = {
            "relabelled": 1,
            "replaced": 2 if several or (unknown and self.unknown == "row") else 1,
            "moved": 2 * pushed,
        }
        return table.get(changes, pushed)


def encoded_sources(sources: Any, n: int) -> list[bytes | None]:
    """Return the canonical bytes of each row's source; None where it is missing."""
    found: list[bytes | None] = []
    known: dict[Any, bytes] = {}
    for value in listed_values(sources, n, "sources"):
        if is_missing(value):
            found.append(None)
            continue
        tag = (type(value), value) if isinstance(value, str | int) else None
        if tag is None or tag not in known:
            mark = encode_identity(value, "source ids")
            if tag is not None:
                known[tag] = mark
        else:
            mark = known[tag]
        found.append(mark)
    return found


def encoded_ids(row_ids: Any, n: int) -> list[bytes]:
    """Return the canonical bytes of each row's id; a missing id is an error."""
    values = listed_values(row_ids, n, "row_ids")
    gone = next((i for i, value in enumerate(values) if is_missing(value)), None)
    if gone is not None:
        raise InvalidInputError(f"row_ids has no id for row {gone}; every row needs one")
    return [encode_identity(value, "row ids") for value in values]


def listed_values(values: Any, n: int, what: str) -> list[Any]:
    """Return one value per row as a list; raise if there are more or fewer."""
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__len__"):
        raise InvalidInputError(f"{what} must have one entry per row, got {shown(values)}")
    if isinstance(values, pd.DataFrame):
        raise InvalidInputError(f"{what} must be one column, got a frame")
    array = values.tolist() if hasattr(values, "tolist") else list(values)
    if not isinstance(array, list) or len(array) != n:
        size = len(array) if isinstance(array, list) else 1
        raise InvalidInputError(f"X has {n} rows, {what} {size}")
    return array


def within_cap(owners: Digests, known: BoolArray, order: IntArray, cap: int) -> BoolArray:
    """Return which rows are among the first ``cap`` of their source, in the given order.

    The choice for one source depends on the rows of that source alone.

    Examples
    --------
    >>> owners = np.repeat(np.arange(2, dtype=np.uint8), [3, 1])[:, None] * np.ones(16, np.uint8)
    >>> within_cap(owners, np.ones(4, bool), np.array([2, 0, 1, 3]), 2).tolist()
    [True, False, True, True]
    """
    kept = np.ones(len(owners), dtype=bool)
    if not known.any():
        return kept
    _, group = np.unique(np.ascontiguousarray(owners).view("V16").ravel(), return_inverse=True)
    ranked = order[known[order]]
    ranked = ranked[np.argsort(group[ranked], kind="stable")]
    starts = np.flatnonzero(np.diff(group[ranked], prepend=-1))
    place = np.arange(len(ranked)) - np.repeat(starts, np.diff([*starts, len(ranked)]))
    kept[ranked[place >= cap]] = False
    return kept


def _modulo(words: NDArray[Any], count: int) -> int:
    return (int(words[1]) << 64 | int(words[0])) % count
