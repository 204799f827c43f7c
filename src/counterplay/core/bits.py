"""Bit-packed label rows: 64 labels in one word, and the few operations that need to know it.

Bit ``j`` of a row is bit ``j % 64`` of word ``j // 64``; unused bits of the last word are zero.
A set of rows or points is also written as a Python int (bit ``j`` set: item ``j`` is in), which is
hashable, exact and cheap to intersect.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.validation import BoolArray, IntArray, array_fault
from counterplay.errors import InvalidInputError

Words = NDArray[np.uint64]
_BYTE_COUNTS = (
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(1).astype(np.uint8)
)


def pack_rows(rows: ArrayLike) -> Words:
    """Pack a boolean array along its last axis into 64-bit words.

    Examples
    --------
    >>> pack_rows([[1, 0, 1, 1]])
    array([[13]], dtype=uint64)
    """
    array = np.asarray(rows, dtype=np.bool_)
    packed = np.packbits(array, axis=-1, bitorder="little")
    missing = -packed.shape[-1] % 8
    if missing:
        packed = np.pad(packed, [(0, 0)] * (packed.ndim - 1) + [(0, missing)])
    words: Words = np.ascontiguousarray(packed).view(np.dtype("<u8")).astype(np.uint64, copy=False)
    return words


def transpose_words(words: Words, length: int) -> Words:
    """Transpose a packed bit matrix with ``length`` columns; rows of the result are packed, too.

    Examples
    --------
    >>> transpose_words(pack_rows([[1, 0], [1, 1]]), 2)
    array([[3],
           [2]], dtype=uint64)
    """
    n = words.shape[0]
    raw = np.ascontiguousarray(words, dtype=np.dtype("<u8")).view(np.uint8)
    by_byte = np.ascontiguousarray(raw[:, : (length + 7) // 8].T)
    columns = np.zeros((by_byte.shape[0] * 8, (n + 63) // 64 * 8), dtype=np.uint8)
    for bit in range(8):  # byte row b holds columns 8b to 8b + 7
        packed = np.packbits((by_byte >> bit) & 1, axis=1, bitorder="little")
        columns[bit::8, : packed.shape[1]] = packed
    result: Words = columns[:length].view(np.dtype("<u8")).astype(np.uint64, copy=False)
    return result


def pack_columns(rows: ArrayLike) -> Words:
    """Pack the columns of a boolean matrix."""
    array = np.asarray(rows, dtype=np.bool_)
    return transpose_words(pack_rows(array), array.shape[1])


def unpack_rows(words: Words, length: int) -> BoolArray:
    """Undo :func:`pack_rows` for rows of ``length`` labels."""
    raw = np.ascontiguousarray(words, dtype=np.dtype("<u8")).view(np.uint8)
    if length == 0:
        return np.zeros((*words.shape[:-1], 0), dtype=np.bool_)
    return np.unpackbits(raw, axis=-1, count=length, bitorder="little").view(np.bool_)


def popcount(words: Words) -> IntArray:
    """Count the set bits along the last axis."""
    if hasattr(np, "bitwise_count"):
        counts: IntArray = np.bitwise_count(words).sum(axis=-1, dtype=np.int64)
        return counts
    raw = np.ascontiguousarray(words).view(np.uint8)  # NumPy 1.26
    result: IntArray = _BYTE_COUNTS[raw].sum(axis=-1, dtype=np.int64)
    return result


def unique_rows(words: NDArray[Any]) -> tuple[IntArray, IntArray, IntArray]:
    """Return first index, map from old to new row, and counts of the distinct rows.

    Distinct rows are numbered in the order in which they occur first.
    """
    n, width = words.shape
    if n == 0:
        empty = np.zeros(0, dtype=np.int64)
        return empty, empty, empty
    if width == 0:
        zeros = np.zeros(n, dtype=np.int64)
        return zeros[:1], zeros, np.array([n], dtype=np.int64)
    order = np.lexsort(words.T) if width > 1 else np.argsort(words[:, 0], kind="stable")
    ordered = words[order]
    new = np.concatenate(([True], (ordered[1:] != ordered[:-1]).any(axis=1)))
    group = np.cumsum(new) - 1
    first_sorted = order[new]  # both sorts are stable: the first of a group has the least index
    by_occurrence = np.argsort(first_sorted, kind="stable")
    rank = np.empty(by_occurrence.size, dtype=np.int64)
    rank[by_occurrence] = np.arange(by_occurrence.size)
    inverse = np.empty(n, dtype=np.int64)
    inverse[order] = rank[group]
    counts = np.bincount(inverse, minlength=rank.size).astype(np.int64)
    return first_sorted[by_occurrence].astype(np.int64), inverse, counts


def mask_to_int(mask: ArrayLike) -> int:
    """Return the set given by a boolean mask as a Python int.

    Examples
    --------
    >>> mask_to_int([True, False, True])
    5
    """
    packed = np.packbits(np.asarray(mask, dtype=np.bool_), bitorder="little")
    return int.from_bytes(packed.tobytes(), "little")


def int_to_mask(value: int, size: int) -> BoolArray:
    """Return the boolean mask of length ``size`` of a set given as a Python int."""
    raw = np.frombuffer(value.to_bytes((size + 7) // 8, "little"), dtype=np.uint8)
    if size == 0:
        return np.zeros(0, dtype=np.bool_)
    return np.unpackbits(raw, count=size, bitorder="little").view(np.bool_)


def words_to_int(words: Words) -> int:
    """Return one packed row as a Python int."""
    return int.from_bytes(np.ascontiguousarray(words, dtype=np.dtype("<u8")).tobytes(), "little")


def int_to_words(value: int, size: int) -> Words:
    """Return a set over ``size`` items, given as a Python int, as one packed row."""
    width = (size + 63) // 64
    raw = value.to_bytes(8 * width, "little")
    return np.frombuffer(raw, dtype=np.dtype("<u8")).astype(np.uint64, copy=False)


def as_indices(selector: Any, size: int, name: str) -> IntArray:
    """Return ``selector`` (mask, slice, int or ints) as indices into ``size`` items."""
    if isinstance(selector, slice):
        return np.arange(size, dtype=np.int64)[selector]
    if fault := array_fault(selector):
        raise InvalidInputError(f"{name} must be indices or a boolean mask: {fault}")
    array = np.atleast_1d(np.asarray(selector))
    if array.ndim != 1:
        raise InvalidInputError(f"{name} must be one-dimensional, got shape {array.shape}")
    if array.dtype == np.bool_:
        if array.size != size:
            raise InvalidInputError(f"{name} is a mask of length {array.size}, expected {size}")
        return np.flatnonzero(array).astype(np.int64)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if not np.issubdtype(array.dtype, np.integer):
        raise InvalidInputError(f"{name} must be indices or a boolean mask, got {array.dtype}")
    bad = (array < 0) | (array >= size)
    if bad.any():
        raise InvalidInputError(f"{name} must be between 0 and {size - 1}, got {array[bad][0]}")
    return array.astype(np.int64)
