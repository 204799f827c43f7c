"""Training rows with their hashes, dealt to blocks and kept block by block.

A block's rows stand in the order of their hashes, then labels, so that what its model receives is a
function of the block's rows alone. Source: docs/theory/21-sources.md, "Rows".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from counterplay.core.validation import BoolArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.poisoning.training_rows import Accepted, Rows
from counterplay.poisoning.units import Dealer, Digests
from counterplay.tables.cells import listed
from counterplay.tables.encoding import check_key, encode_cell, row_digests


@dataclass(frozen=True, eq=False)
class Held:
    """Rows of one block, or rows that are about to be dealt.

    Parameters
    ----------
    rows
        The rows.
    labels
        Their labels.
    marks
        Hash of each row's content.
    owners
        Keyed hash of each row's source (zeros where there is none), if there are sources.
    ids
        Keyed hash of each row's id, if there are ids.
    """

    rows: Rows
    labels: NDArray[Any]
    marks: Digests
    owners: Digests | None = None
    ids: Digests | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, places: IntArray | BoolArray) -> Held:
        """Return some of the rows, in the given order."""
        chosen = np.flatnonzero(places) if places.dtype == bool else places
        return Held(
            self.rows.part(chosen), self.labels[chosen], self.marks[chosen],
            None if self.owners is None else self.owners[chosen],
            None if self.ids is None else self.ids[chosen],
        )  # fmt: skip

    def order(self, first: IntArray | None = None) -> IntArray:
        """Return the places by ``first``, then hash, label, source and id."""
        marks = [self.marks, *(m for m in (self.owners, self.ids) if m is not None)]
        return in_order(self.labels, marks, first)

    def sorted(self) -> Held:
        """Return the rows in order."""
        return self.take(self.order())

    def signature(self) -> bytes:
        """Return a hash of the rows in order with their labels: what a model depends on."""
        state = hashlib.blake2b(self.marks.tobytes(), digest_size=16)
        _hash_labels(state, self.labels)
        return state.digest()

    def digest(self, key: bytes | str | None) -> str:
        """Return a keyed hash of all that is kept of the rows in order."""
        state = hashlib.blake2b(key=check_key(key), digest_size=16, person=b"counterplay-rows")
        for marks in (self.marks, self.owners, self.ids):
            state.update(b"-" if marks is None else b"+" + marks.tobytes())
        _hash_labels(state, self.labels)
        return state.hexdigest()


class BlockRows(Protocol):
    """The rows of all blocks, in memory or in files."""

    def __len__(self) -> int: ...

    def __getitem__(self, block: int) -> Held: ...


@dataclass(frozen=True, eq=False)
class ChangedRows:
    """The rows of all blocks, some of them new.

    Parameters
    ----------
    before
        The rows as they were.
    now
        The blocks that changed.
    """

    before: BlockRows
    now: Mapping[int, Held]

    def __len__(self) -> int:
        return len(self.before)

    def __getitem__(self, block: int) -> Held:
        found = self.now.get(block)
        return self.before[block] if found is None else found


def deal(
    accepted: Accepted, dealer: Dealer, sources: list[bytes | None] | None,
    ids: list[bytes] | None,
) -> tuple[Held, IntArray]:  # fmt: skip
    """Hash the accepted rows and give each its block; rows that have none are gone."""
    marks = accepted.rows.digests(dealer.key)
    owners = id_marks = None
    block = dealer.by_identity(marks)
    if ids is not None:
        mine = [ids[i] for i in accepted.places.tolist()]
        id_marks = row_digests(mine, key=dealer.key, domain="id")
        block = dealer.by_identity(id_marks)
    if sources is not None:
        own = [sources[i] for i in accepted.places.tolist()]
        block = dealer.by_source(own, marks)
        owners = owner_marks(own, dealer)
    held = Held(accepted.rows, accepted.labels, marks, owners, id_marks)
    dealt = block >= 0
    return (held, block) if dealt.all() else (held.take(dealt), block[dealt])


def split_blocks(held: Held, block: IntArray) -> Iterator[tuple[int, Held]]:
    """Yield each block that got rows, with its rows in order."""
    order = held.order(block)
    ranked = block[order].astype(np.int32)
    starts = np.flatnonzero(np.diff(ranked, prepend=-1))
    for a, b in zip(starts, [*starts[1:], len(order)]):
        yield int(ranked[a]), held.take(order[a:b])


def members(held: Held, block: IntArray, n_blocks: int) -> list[IntArray]:
    """Return the places of the rows of each block, in order."""
    order = held.order(block)
    ends = np.searchsorted(block[order], np.arange(n_blocks + 1))
    return [order[a:b] for a, b in zip(ends[:-1], ends[1:])]


def joined(parts: Sequence[Held]) -> Held:
    """Return the rows of several blocks, one block after the other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    return Held(
        first.rows.stack([part.rows for part in parts[1:]]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.marks for part in parts]),
        _stacked([part.owners for part in parts]),
        _stacked([part.ids for part in parts]),
    )


def check_duplicate_ids(held: Held, row_ids: Any = None, places: IntArray | None = None) -> None:
    """Refuse one id for rows of different content; say which if the given ids are there."""
    if held.ids is None:
        return
    seen: dict[bytes, int] = {}
    ids, marks = held.ids.tobytes(), held.marks.tobytes()
    for i in range(len(held)):
        at = slice(16 * i, 16 * i + 16)
        j = seen.setdefault(ids[at], i)
        if j == i or marks[at] == marks[16 * j : 16 * j + 16]:
            continue
        if row_ids is None or places is None or len(places) != len(held):
            raise InvalidInputError("a new row has the id of another row; ids must be unique")
        name = list(row_ids)[int(places[i])]
        raise InvalidInputError(
            f"row id {listed([name])} occurs twice (rows {int(places[j])} and {int(places[i])}); "
            "ids must be unique"
        )


def owner_marks(sources: Sequence[bytes | None], dealer: Dealer) -> Digests:
    """Return the keyed hash of each source; zeros for a row that is its own source."""
    pool = b"\x00" + bytes(8) if dealer.unknown == "pool" else None
    place: dict[bytes | None, int] = {None: 0}
    codes = [place.setdefault(pool if source is None else source, len(place)) for source in sources]
    names = [name for name in place if name is not None]
    marks = row_digests(names, key=dealer.key, domain="source")
    table = np.concatenate([np.zeros((1, 16), dtype=np.uint8), marks])
    return table[np.array(codes, dtype=np.int64)]


def _stacked(marks: Sequence[Digests | None]) -> Digests | None:
    known = [digests for digests in marks if digests is not None]
    return np.concatenate(known) if len(known) == len(marks) else None


def in_order(
    labels: NDArray[Any], marks: Sequence[Digests], first: IntArray | None = None
) -> IntArray:
    """Return places by ``first``, then the first hashes, the labels, the other hashes."""
    keys: list[NDArray[Any]] = []  # the least important first
    for place, digests in reversed(list(enumerate(marks))):
        if place == 0:
            keys.append(_ranks(labels))
        high, low = np.ascontiguousarray(digests).view(">u8").reshape(-1, 2).T
        keys += [low.astype(np.uint64), high.astype(np.uint64)]
    if first is not None:
        keys.append(first)
    return np.lexsort(keys).astype(np.int64)


def _ranks(labels: NDArray[Any]) -> IntArray:
    """Rank of each row's label among the encoded labels."""
    encoded = {label: encode_cell(label) for label in set(labels.tolist())}
    rank = {mark: j for j, mark in enumerate(sorted(set(encoded.values())))}
    place = {label: rank[mark] for label, mark in encoded.items()}
    return np.fromiter(map(place.__getitem__, labels.tolist()), np.int64, len(labels))


def _hash_labels(state: Any, labels: NDArray[Any]) -> None:
    encoded: Mapping[Any, bytes] = {label: encode_cell(label) for label in set(labels.tolist())}
    state.update(b"".join(map(encoded.__getitem__, labels.tolist())))
