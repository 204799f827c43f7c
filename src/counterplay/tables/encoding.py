"""The canonical bytes of a row, its keyed hash, and the fingerprint of a table.

A row's bytes depend on the row alone: not on its position, on the other rows, on the type of the
container, the sign of a zero or the payload of a NaN. No two different rows share bytes: every cell
carries a tag and its length.
"""

from __future__ import annotations

import hashlib
import json
import math
import numbers
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterplay.core.validation import IntArray, check_int
from counterplay.core.votes import Partition
from counterplay.errors import InvalidInputError
from counterplay.tables.cells import is_missing, shown
from counterplay.tables.schema import Cast, Schema
from counterplay.tables.table import Table

Domain = Literal["row", "id", "source", "committee"]

PUBLIC_KEY = b"counterplay"
_PERSON = b"counterplay-21"
_MISSING, _NUMBER, _TEXT, _BYTES, _TIME, _IDENTITY = 0, 1, 2, 3, 6, 7
_MISSING_CELL = bytes([_MISSING]) + (0).to_bytes(8, "little")


def encode_cell(value: Any) -> bytes:
    """Return the bytes of one cell: a tag, the length of the payload, the payload.

    Examples
    --------
    >>> encode_cell(5) == encode_cell(5.0) == encode_cell(True * 5), encode_cell(-0.0)[9:].hex()
    (True, '0000000000000000')
    >>> encode_cell("5") == encode_cell(5)
    False
    """
    if is_missing(value):
        return _MISSING_CELL
    if isinstance(value, str):
        text = unicodedata.normalize("NFC", value).encode("utf-8", "surrogatepass")
        return _cell(_TEXT, text)
    if isinstance(value, bytes):
        return _cell(_BYTES, value)
    if isinstance(value, np.datetime64):
        stamp = int(value.astype("datetime64[ns]").astype(np.int64))
        return _cell(_TIME, stamp.to_bytes(8, "little", signed=True))
    if isinstance(value, numbers.Real | np.bool_):
        try:
            number = float(value) + 0.0
        except OverflowError:
            raise InvalidInputError(f"{shown(value)} is beyond the range of numbers") from None
        return _cell(_NUMBER, np.float64(number).astype("<f8").tobytes())
    raise InvalidInputError(f"{shown(value)} is not a number, text, time or missing value")


def encode_identity(value: Any, what: str = "source ids") -> bytes:
    """Return the bytes of a source id or row id; numbers are never rounded.

    Examples
    --------
    >>> encode_identity(2**60) == encode_identity(2**60 + 1)
    False
    >>> encode_identity(3.0) == encode_identity(3)
    True
    """
    if isinstance(value, str | bytes):
        return encode_cell(value)
    if isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{what} are texts or whole numbers, got {value}")
    if isinstance(value, numbers.Integral):
        return _cell(_IDENTITY, str(int(value)).encode())
    if isinstance(value, numbers.Real) and math.isfinite(value) and float(value).is_integer():
        if abs(float(value)) >= 2**53:
            raise InvalidInputError(f"{what} beyond 2^53 were read as floats; read them as text")
        return _cell(_IDENTITY, str(int(float(value))).encode())
    raise InvalidInputError(f"{what} are texts or whole numbers, got {shown(value)}")


def encode_rows(cast: Cast) -> list[bytes]:
    """Return the canonical bytes of each row that was cast."""
    if cast.schema.container == "texts":
        return [encode_cell(text) for text in cast.cells["text"]]
    if cast.schema.container != "table":
        return _encode_matrix(cast.cells["rows"], cast.schema)
    parts = []
    for name in sorted(cast.schema.names):
        head = encode_cell(name)
        parts.append([head + cell for cell in _encode_column(cast.cells[name])])
    return [b"".join(cells) for cells in zip(*parts)]


def row_digests(
    payloads: Iterable[bytes], *, key: bytes | str | None = None, domain: Domain = "row"
) -> NDArray[np.uint8]:
    """Return a keyed 128-bit hash of each payload, one line of 16 bytes each.

    Parameters
    ----------
    payloads
        Canonical bytes of rows, ids or sources.
    key
        1 to 64 bytes, or a text; None for a fixed public key.
    domain
        What the payloads are; equal bytes of different domains have different hashes.

    Examples
    --------
    >>> row_digests([b"a", b"a", b"b"]).shape
    (3, 16)
    """
    start = hashlib.blake2b(key=check_key(key), digest_size=16, person=_PERSON)
    start.update(domain.encode())
    out = bytearray()
    for payload in payloads:
        state = start.copy()
        state.update(payload)
        out += state.digest()
    return np.frombuffer(bytes(out), dtype=np.uint8).reshape(-1, 16)


def blocks_of(digests: NDArray[np.uint8], n_blocks: int) -> IntArray:
    """Return the block of each digest: the 128-bit little-endian number modulo ``n_blocks``."""
    count = check_int(n_blocks, "n_blocks", low=1, high=2**31 - 1)
    low, high = np.ascontiguousarray(digests).view("<u8").T.astype(np.uint64)
    modulus = np.uint64(count)
    shift = np.uint64(pow(2, 64, count))
    block = ((high % modulus) * shift + low % modulus) % modulus
    chosen: IntArray = block.astype(np.int64)
    return chosen


def hash_blocks(
    X: Any, n_blocks: int, *, schema: Schema | None = None, key: bytes | str | None = None
) -> Partition:
    """Assign each row to a block by its content alone.

    Parameters
    ----------
    X
        Rows in any container.
    n_blocks
        Number of blocks.
    schema
        Frozen schema of the rows; inferred from them by default.
    key
        Secret that makes the blocks unpredictable; None for a fixed public key.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(12.0).reshape(6, 2)
    >>> part = hash_blocks(X, 4)
    >>> bool((hash_blocks(X[::-1], 4).block[::-1] == part.block).all())
    True

    References
    ----------
    docs/tables.md; "Rows", see docs/theory/21-sources.md.
    """
    frozen = Schema.infer(X) if schema is None else schema
    cast = frozen.cast(X)
    cast.raise_rejected("row")
    return Partition(blocks_of(row_digests(encode_rows(cast), key=key), n_blocks), n_blocks)


def check_key(key: bytes | str | None) -> bytes:
    """Return a key of 1 to 64 bytes; its value appears in no message."""
    if key is None:
        return PUBLIC_KEY
    secret = key.encode() if isinstance(key, str) else key
    if not isinstance(secret, bytes) or not 1 <= len(secret) <= 64:
        raise InvalidInputError("key must be a text or bytes of length 1 to 64")
    return secret


@dataclass(frozen=True)
class Fingerprint:
    """What identifies a table: its columns, its rows, and their order.

    Parameters
    ----------
    rows
        Number of rows.
    columns
        Names of the columns, sorted; empty where there are none.
    contents
        Hash of the rows, whatever their order.
    ordered
        Hash of schema and rows in order: the fingerprint itself.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"debt": [1, 2], "city": ["Bonn", None]})
    >>> mark = fingerprint(frame)
    >>> mark == fingerprint(frame[["city", "debt"]].astype(object)), len(mark.ordered)
    (True, 32)
    >>> mark.difference(fingerprint(frame[::-1]))
    'the rows are the same, but in another order'

    References
    ----------
    docs/tables.md.
    """

    rows: int
    columns: tuple[str, ...]
    contents: str
    ordered: str

    def difference(self, other: Fingerprint) -> str | None:
        """Name the first difference to another table; None if there is none."""
        if self == other:
            return None
        if self.rows != other.rows:
            return f"it has {self.rows} rows, here are {other.rows}"
        if self.columns != other.columns:
            odd = sorted(set(self.columns) ^ set(other.columns))
            return f"the columns differ: {shown(odd[0], 40)}" if odd else "the columns differ"
        if self.contents == other.contents:
            return "the rows are the same, but in another order"
        return "at least one row differs"


def fingerprint(X: Any, *, schema: Schema | None = None) -> Fingerprint:
    """Return the fingerprint of a table: of its schema and its rows in order.

    Parameters
    ----------
    X
        The table, in any container.
    schema
        Frozen schema; inferred by default.

    Examples
    --------
    >>> import numpy as np
    >>> fingerprint(np.eye(2)) == fingerprint(np.eye(2, dtype=np.int8))
    True

    References
    ----------
    docs/tables.md.
    """
    frozen = Schema.infer(X) if schema is None else schema
    cast = frozen.cast(Table.of(X).rows)
    digests = row_digests(encode_rows(cast))
    marks = np.sort(digests.copy().view("V16").ravel()) if len(digests) else digests
    kinds = sorted(
        ([column["name"], column["kind"]] for column in frozen.to_dict()["columns"]), key=str
    )
    head = json.dumps([frozen.container, kinds, list(frozen.shape)]).encode()
    rejected = json.dumps([[item.row, item.column, item.value] for item in cast.rejected]).encode()
    columns = tuple(sorted(frozen.names))
    contents = _hex(head, marks.tobytes())
    return Fingerprint(len(Table.of(X)), columns, contents, _hex(head, digests.tobytes(), rejected))


def _hex(*parts: bytes) -> str:
    state = hashlib.blake2b(digest_size=16, person=_PERSON)
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.hexdigest()


def _cell(tag: int, payload: bytes) -> bytes:
    return bytes([tag]) + len(payload).to_bytes(8, "little") + payload


def _encode_column(values: NDArray[Any]) -> list[bytes]:
    """Return the bytes of each cell of a column; numbers and times at once."""
    if values.dtype == object:
        return [encode_cell(value) for value in values.tolist()]
    if values.dtype.kind == "M":
        tag, missing = _TIME, np.isnat(values)
        payload = values.astype("datetime64[ns]").astype("<i8").tobytes()
    else:
        tag, missing = _NUMBER, np.isnan(values)
        payload = (values.astype(np.float64) + 0.0).astype("<f8").tobytes()
    head = bytes([tag]) + (8).to_bytes(8, "little")
    return [
        _MISSING_CELL if gone else head + payload[8 * i : 8 * i + 8]
        for i, gone in enumerate(missing.tolist())
    ]


def _encode_matrix(rows: Any, schema: Schema) -> list[bytes]:
    """Return the size, then position and value of each entry that is not zero, row by row."""
    from scipy.sparse import csr_array, issparse

    if issparse(rows):
        matrix = csr_array(rows, dtype=np.float64, copy=True)
        matrix.sum_duplicates()
    else:
        flat = rows.reshape(len(rows), -1).astype(np.float64)
        flat = np.where(np.isnan(flat), np.nan, flat)  # one payload for every NaN
        where = np.nonzero(flat)
        counts = np.bincount(where[0], minlength=len(flat))
        matrix = csr_array(
            (flat[where], where[1], np.concatenate([[0], np.cumsum(counts)])), shape=flat.shape
        )
    matrix.eliminate_zeros()
    entries = np.empty(matrix.nnz, dtype=[("column", "<i8"), ("value", "<f8")])
    entries["column"] = matrix.indices
    entries["value"] = np.where(np.isnan(matrix.data), np.nan, matrix.data)
    payload = entries.tobytes()
    size = schema.shape if schema.container == "matrix" else (len(schema.shape), *schema.shape)
    head = np.asarray(size, dtype="<i8").tobytes()
    ends = (matrix.indptr.astype(np.int64) * 16).tolist()
    return [head + payload[a:b] for a, b in zip(ends[:-1], ends[1:])]
