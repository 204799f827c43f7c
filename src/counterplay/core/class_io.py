"""Reading and writing finite classes without pickle: plain JSON values, or an ``.npz`` file."""

from __future__ import annotations

import base64
import io
import math
import os
import re
import zlib
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal
from zipfile import BadZipFile, ZipFile

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from counterplay.core.bits import pack_rows, unpack_rows
from counterplay.core.files import read_limited, write_atomic
from counterplay.core.finite_class import FiniteClass
from counterplay.core.records import (
    Count,
    Name,
    Record,
    float_array,
    refusal,
    require_state,
    to_record,
)
from counterplay.core.validation import FloatArray
from counterplay.core.weights import Weights, check_weights
from counterplay.errors import InvalidInputError, InvalidStateError

_FORMAT = "counterplay.FiniteClass/1"
_ARRAYS = ("point_weights", "points", "params")
_WHAT = "the stored FiniteClass"
_LARGEST = 2**30
_MOST = 2**26
_FRACTION = re.compile(r"[0-9]{1,4000}(/0*[1-9][0-9]{0,3999})?")
_Size = Annotated[int, Meta(ge=0, le=_MOST)]
_Floats = Annotated[tuple[float | str, ...], Meta(max_length=_MOST)]


class _StoredArray(Record, frozen=True):
    shape: Annotated[tuple[Count, ...], Meta(max_length=4)]
    values: _Floats


class _StoredClass(Record, frozen=True):
    format: Literal["counterplay.FiniteClass/1"]
    shape: tuple[_Size, _Size]
    labels: str
    exact: bool | None = None
    weights: _Floats | None = None
    names: Annotated[tuple[Name, ...], Meta(max_length=_MOST)] | None = None
    point_weights: _StoredArray | None = None
    points: _StoredArray | None = None
    params: _StoredArray | None = None


def to_dict(cls: FiniteClass) -> dict[str, Any]:
    """Return the class as values that ``json.dumps`` accepts."""
    raw = np.packbits(cls.labels, axis=1, bitorder="little").tobytes()
    data: dict[str, Any] = {
        "format": _FORMAT,
        "shape": list(cls.shape),
        "labels": base64.b64encode(raw).decode("ascii"),
    }
    if cls.weights is not None:
        data["exact"] = cls.is_exact
        data["weights"] = [str(w) for w in cls.weights] if cls.is_exact else _floats(cls.weights)
    if cls.names is not None:
        data["names"] = list(cls.names)
    for name in _ARRAYS:
        array = getattr(cls, name)
        if array is not None:
            data[name] = {"shape": list(array.shape), "values": _floats(array.reshape(-1))}
    return data


def from_dict(data: Any) -> FiniteClass:
    """Undo :func:`to_dict`; whatever is wrong is an ``InvalidStateError``."""
    stored = to_record(data, _StoredClass, what=_WHAT)
    n, p = stored.shape
    width = -(-p // 8)
    raw = _bytes(stored.labels)
    require_state(len(raw) == n * width, _WHAT, "labels", f"must hold {n} rows of {p} labels")
    packed = np.frombuffer(raw, dtype=np.uint8).reshape(n, width)
    rows = np.unpackbits(packed, axis=1, count=p, bitorder="little") if p else np.zeros((n, 0))
    arrays = {name: _array(getattr(stored, name), name) for name in _ARRAYS}
    weights: Weights | None = None
    if stored.weights is not None:
        require_state(stored.exact is not None, _WHAT, "exact", "must say what the weights are")
        weights = _exact(stored.weights) if stored.exact else _numbers(stored.weights, "weights")
    names = None if stored.names is None else tuple(stored.names)
    given = {name: array for name, array in arrays.items() if array is not None}
    return _built(pack_rows(rows.astype(bool)), p, weights=weights, names=names, **given)


def save(cls: FiniteClass, path: str | os.PathLike[str]) -> Path:
    """Write the class to an ``.npz`` file; return the path."""
    arrays: dict[str, NDArray[Any]] = {
        "format": np.array(_FORMAT),
        "packed": np.ascontiguousarray(cls.packed, dtype=np.dtype("<u8")),
        "n_points": np.array(cls.n_points),
    }
    if cls.weights is not None:
        key = "weights_exact" if cls.is_exact else "weights"
        arrays[key] = np.array([str(w) for w in cls.weights]) if cls.is_exact else cls.weights
    if cls.names is not None:
        arrays["names"] = np.array(cls.names, dtype=np.str_)
    arrays.update({k: getattr(cls, k) for k in _ARRAYS if getattr(cls, k) is not None})
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]  # the stub knows one keyword
    return write_atomic(path, buffer.getvalue())


def load(path: str | os.PathLike[str]) -> FiniteClass:
    """Read a class written by :func:`save`; whatever is wrong is an ``InvalidStateError``."""
    what = f"{Path(path).name[:80]}, a stored FiniteClass,"
    data = read_limited(path, what="the stored FiniteClass", limit=_LARGEST)
    try:
        with ZipFile(io.BytesIO(data)) as members:
            unpacked = sum(member.file_size for member in members.infolist())
        require_state(unpacked <= _LARGEST, what, "", f"it unpacks to over {_LARGEST:,} bytes")
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (BadZipFile, ValueError, EOFError, KeyError, OSError, NotImplementedError, zlib.error):
        raise refusal(what, "", "it is not an .npz file of arrays") from None
    require_state(str(arrays.get("format")) == _FORMAT, what, "format", f"must be {_FORMAT!r}")
    packed, count = arrays.get("packed"), arrays.get("n_points")
    whole = count is not None and count.shape == () and count.dtype.kind in "iu" and count >= 0
    require_state(whole, what, "n_points", "must be a whole number")
    n_points = int(count)  # type: ignore[arg-type]  # checked in the line above
    rows = packed is not None and packed.dtype.kind == "u" and packed.ndim == 2
    fits = rows and packed is not None and packed.shape[1] == -(-n_points // 64)
    require_state(fits, what, "packed", f"must be words for {n_points} points")
    assert packed is not None  # checked in the line above
    weights: Weights | None = None
    if "weights_exact" in arrays:
        weights = _exact([str(value) for value in arrays["weights_exact"].ravel()[:_MOST]])
    elif "weights" in arrays:
        weights = float_array(arrays["weights"], "weights", what=what, shape=(None,))
    names = tuple(map(str, arrays["names"].ravel())) if "names" in arrays else None
    rest = {name: _real(arrays[name], name, what) for name in _ARRAYS if name in arrays}
    labels = unpack_rows(packed.astype(np.uint64), n_points)
    return _built(pack_rows(labels), n_points, weights=weights, names=names, **rest)


def _built(packed: Any, n_points: int, **parts: Any) -> FiniteClass:
    """The class, after the checks of sizes and weights; they speak of a stored one here."""
    try:
        for name in ("weights", "point_weights"):
            if parts.get(name) is not None:
                exact = parts[name].dtype == object
                parts[name] = check_weights(parts[name], name, exact=exact)
        return FiniteClass(packed, n_points, **parts)
    except InvalidStateError:
        raise
    except (InvalidInputError, ValueError, TypeError) as error:
        raise refusal(_WHAT, "", str(error)) from None


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError:
        raise refusal(_WHAT, "labels", "must be base64 text") from None


def _array(stored: _StoredArray | None, name: str) -> FloatArray | None:
    if stored is None:
        return None
    values = _numbers(stored.values, name)
    told = f"{len(values)} numbers do not have the shape {stored.shape}"
    require_state(math.prod(stored.shape) == len(values), _WHAT, name, told)
    return values.reshape(stored.shape)


def _numbers(values: Sequence[float | str], name: str) -> FloatArray:
    """Numbers, of which three are words in JSON."""
    for value in values:
        known = not isinstance(value, str) or value in ("nan", "inf", "-inf")
        require_state(known, _WHAT, name, f"must be numbers, got {value!r:.40}")
    return np.array([float(value) for value in values], dtype=np.float64)


def _real(array: NDArray[Any], name: str, what: str) -> NDArray[Any]:
    require_state(array.dtype.kind in "biuf", what, name, "must be numbers")
    return array


def _floats(array: NDArray[Any]) -> list[float | str]:
    """Floats as JSON numbers; the three values JSON does not know as strings."""
    return [value if np.isfinite(value) else str(value) for value in array.tolist()]


def _exact(values: Sequence[float | str]) -> Weights:
    """Integers and fractions from their text."""
    for value in values:
        fits = isinstance(value, str) and _FRACTION.fullmatch(value) is not None
        require_state(fits, _WHAT, "weights", f"must be whole numbers or fractions: {value!r:.40}")
    weights: Weights = np.empty(len(values), dtype=object)
    texts = [str(value) for value in values]
    weights[:] = [int(text) if "/" not in text else Fraction(text) for text in texts]
    return weights
