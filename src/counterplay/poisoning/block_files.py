"""The rows of one block as a file, and back: Parquet for tables and texts, npz for numbers.

Nothing is compressed, so that what was removed can be looked for. Sources and ids are there as
keyed hashes only. Reading trusts nothing: columns, types, shapes and lengths are compared with the
schema, each row is cast again, and its hash is computed, never read.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.core.records import read_json, refusal, require_state
from counterplay.errors import InvalidInputError, InvalidStateError, MissingDependencyError
from counterplay.poisoning.held_rows import Held
from counterplay.poisoning.training_rows import Rows
from counterplay.poisoning.units import Digests
from counterplay.tables import Schema
from counterplay.tables.cells import is_missing, shown
from counterplay.tables.schema import Cast

_LABELS = b"labels"


def suffix(schema: Schema) -> str:
    """Return how the names of the files end."""
    return ".parquet" if schema.container in ("table", "texts") else ".npz"


def part_bytes(held: Held) -> bytes:
    """Return the rows of a block as the content of a file."""
    names, codes = _label_codes(held.labels)
    extra: dict[str, NDArray[Any]] = {"label": codes}
    if held.owners is not None:
        extra["source"] = held.owners
    if held.ids is not None:
        extra["id"] = held.ids
    schema = held.rows.cast.schema
    if suffix(schema) == ".npz":
        return _npz(held.rows.cast.cells["rows"], extra, names)
    return _parquet(held.rows.cast.cells, schema, extra, names)


def read_part(data: bytes, schema: Schema, key: bytes | str | None, *, what: str) -> Held:
    """Return the rows in the content of a file, in order."""
    try:
        found = _read_npz if suffix(schema) == ".npz" else _read_parquet
        rows, extra, names = found(data, schema, what)
        labels = read_labels(names, what)
        codes = extra["label"]
        n = len(codes)
        require_state(_n_rows(rows) == n, what, "rows", f"there are {n} labels")
        require_state(not n or 0 <= codes.min() <= codes.max() < len(labels), what, "label",
                      "a code has no label")  # fmt: skip
        table = np.empty(len(labels), dtype=object)
        table[:] = labels
        held = Rows(_cast(rows, schema, n, what))
        return Held(
            held, table[codes] if n else table[:0], held.digests(key),
            _digests(extra.get("source"), n, what), _digests(extra.get("id"), n, what),
        ).sorted()  # fmt: skip
    except (InvalidStateError, MissingDependencyError):
        raise
    except InvalidInputError as error:
        raise refusal(what, "", str(error)) from None


def empty_rows(schema: Schema) -> Rows:
    """Return no rows of a schema."""
    cells: dict[str, Any] = {}
    for column in schema.columns:
        kind = "f8" if column.values == "numbers" or column.kind in ("number", "flag") else "O"
        cells[column.name] = np.zeros(0, dtype="M8[ns]" if column.kind == "time" else kind)
    if schema.container == "texts":
        cells["text"] = np.empty(0, dtype=object)
    elif schema.container != "table":
        cells["rows"] = np.zeros((0, *schema.shape), dtype=schema.dtype)
    return Rows(Cast(schema, np.zeros(0, dtype=np.int64), (), cells, pd.RangeIndex(0)))


def write_labels(labels: Any) -> list[dict[str, Any]]:
    """Return labels as plain JSON values that say what they are."""
    return [_label_record(label) for label in labels]


def read_labels(records: Any, what: str) -> list[Any]:
    """Return the labels that `write_labels` wrote."""
    require_state(isinstance(records, list), what, "labels", "expected a list")
    return [_label_of(record, what) for record in records]


def _label_record(label: Any) -> dict[str, Any]:
    if isinstance(label, bool):
        return {"flag": label}
    if isinstance(label, int):
        return {"integer": str(label)}
    if isinstance(label, float):
        return {"number": label.hex()}
    return {"text": label.encode("utf-8", "surrogatepass").hex()}


def _label_of(record: Any, what: str) -> Any:
    try:
        ((kind, value),) = record.items()
        if kind == "flag" and isinstance(value, bool):
            return value
        if kind == "integer" and len(value) < 1000:
            return int(value)
        if kind == "number":
            return float.fromhex(value)
        if kind == "text":
            return bytes.fromhex(value).decode("utf-8", "surrogatepass")
    except (AttributeError, TypeError, ValueError):
        pass
    raise refusal(what, "labels", f"{shown(record)} is no label")


def _label_codes(labels: NDArray[Any]) -> tuple[bytes, NDArray[np.int32]]:
    """Return the labels that occur as JSON, and the position of each row's."""
    place: dict[Any, int] = {}
    codes = [place.setdefault((type(label), label), len(place)) for label in labels.tolist()]
    names = write_labels(label for _, label in place)
    return json.dumps(names).encode(), np.array(codes, dtype=np.int32)


def _npz(rows: Any, extra: dict[str, NDArray[Any]], names: bytes) -> bytes:
    arrays = dict(extra, labels=np.frombuffer(names, dtype=np.uint8))
    if isinstance(rows, np.ndarray):
        arrays["rows"] = rows
    else:
        arrays |= {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **arrays)
    return out.getvalue()


def _read_npz(data: bytes, schema: Schema, what: str) -> tuple[Any, dict[str, Any], Any]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            plain = all(item.compress_type == zipfile.ZIP_STORED for item in archive.infolist())
        require_state(plain, what, "", "it is compressed")
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        extra = {"label": _codes(arrays.pop("label"), what)}
        extra |= {name: arrays.pop(name) for name in ("source", "id") if name in arrays}
        names = read_json(arrays.pop("labels").tobytes(), what=what)
        if "rows" in arrays:
            rows: Any = arrays["rows"]
        else:
            rows = _sparse(arrays, len(extra["label"]), schema)
    except InvalidStateError:
        raise
    except Exception as error:
        raise refusal(what, "", f"it is damaged: {shown(error, 100)}") from None
    return rows, extra, names


def _sparse(arrays: dict[str, Any], n: int, schema: Schema) -> Any:
    from scipy.sparse import csr_array

    matrix = csr_array(
        (arrays["data"], arrays["indices"], arrays["indptr"]), shape=(n, schema.shape[0])
    )
    matrix.check_format(full_check=True)  # indices inside the matrix
    return matrix


def _parquet(
    cells: dict[str, Any], schema: Schema, extra: dict[str, NDArray[Any]], names: bytes
) -> bytes:
    pa = _arrow()
    import pyarrow.parquet as pq

    columns = [_arrow_column(cells[name]) for name in _columns(schema)]
    arrays = [*columns, *(_arrow_extra(values) for values in extra.values())]
    titles = [*(f"c{j}" for j in range(len(columns))), *extra]
    table = pa.table(dict(zip(titles, arrays))).replace_schema_metadata({_LABELS: names})
    out = io.BytesIO()
    pq.write_table(table, out, compression="none", use_dictionary=False, write_statistics=False)
    return out.getvalue()


def _columns(schema: Schema) -> tuple[str, ...]:
    return ("text",) if schema.container == "texts" else schema.names


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise MissingDependencyError.for_extra("pyarrow", "data") from None
    return pyarrow


def _arrow_column(values: NDArray[Any]) -> Any:
    pa = _arrow()
    if values.dtype.kind == "M":
        stamps = values.astype("datetime64[ns]")
        return pa.array(stamps.astype(np.int64), mask=np.isnat(stamps))
    if values.dtype != object:
        return pa.array(values.astype(np.float64))
    if any(isinstance(value, float | int) and not is_missing(value) for value in values.tolist()):
        return pa.array([None if is_missing(v) else float(v) for v in values.tolist()])
    cells = [
        None if is_missing(value) else value.encode("utf-8", "surrogatepass")
        for value in values.tolist()
    ]
    return pa.array(cells, type=pa.binary())


def _arrow_extra(values: NDArray[Any]) -> Any:
    pa = _arrow()
    if values.ndim == 1:
        return pa.array(values)
    return pa.array([mark.tobytes() for mark in values], type=pa.binary(16))


def _read_parquet(data: bytes, schema: Schema, what: str) -> tuple[Any, dict[str, Any], Any]:
    pa = _arrow()
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(io.BytesIO(data))
        names = read_json((table.schema.metadata or {}).get(_LABELS, b""), what=what)
        wanted = _columns(schema)
        given = [table.column(f"c{j}").combine_chunks() for j in range(len(wanted))]
        cells = [_cells(column, pa) for column in given]
        extra: dict[str, Any] = {"label": _codes(table.column("label").to_numpy(), what)}
        for name in ("source", "id"):
            if name in table.column_names:
                marks = b"".join(table.column(name).to_pylist())
                extra[name] = np.frombuffer(marks, dtype=np.uint8).reshape(-1, 16)
    except InvalidStateError:
        raise
    except Exception as error:
        raise refusal(what, "", f"it is damaged: {shown(error, 100)}") from None
    if schema.container == "texts":
        return cells[0], extra, names
    series = [pd.Series(values, dtype=values.dtype) for values in cells]
    return pd.DataFrame(dict(zip(wanted, series))), extra, names


def _cells(column: Any, pa: Any) -> NDArray[Any]:
    if pa.types.is_binary(column.type):
        found = np.empty(len(column), dtype=object)
        found[:] = [
            None if value is None else value.decode("utf-8", "surrogatepass")
            for value in column.to_pylist()
        ]
        return found
    if pa.types.is_int64(column.type):
        stamps = column.fill_null(np.iinfo(np.int64).min).to_numpy(zero_copy_only=False)
        times: NDArray[Any] = stamps.astype("datetime64[ns]")
        return times
    numbers: NDArray[Any] = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return numbers.astype(np.float64)


def _cast(rows: Any, schema: Schema, n: int, what: str) -> Any:
    """Cast the rows as if they came for the first time."""
    if n == 0:
        raise refusal(what, "", "it has no rows")
    if schema.container == "texts":
        rows = [text for text in rows if isinstance(text, str)]
    cast = schema.cast(rows, what=what)
    require_state(len(cast) == n, what, "rows", "some rows do not fit the schema")
    return cast


def _codes(values: Any, what: str) -> NDArray[np.int64]:
    array = np.asarray(values)
    require_state(array.ndim == 1 and array.dtype.kind == "i", what, "label", "expected codes")
    codes: NDArray[np.int64] = array.astype(np.int64)
    return codes


def _digests(marks: Any, n: int, what: str) -> Digests | None:
    if marks is None:
        return None
    array = np.asarray(marks)
    good = array.dtype == np.uint8 and array.shape == (n, 16)
    require_state(good, what, "source or id", f"expected {n} hashes")
    return array


def _n_rows(rows: Any) -> int:
    return int(rows.shape[0]) if hasattr(rows, "shape") else len(rows)
