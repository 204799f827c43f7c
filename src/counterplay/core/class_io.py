"""Reading and writing finite classes without pickle: plain JSON values, or an ``.npz`` file."""

from __future__ import annotations

import base64
import io
import os
from fractions import Fraction
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from counterplay.core.bits import pack_rows, unpack_rows
from counterplay.core.files import write_atomic
from counterplay.core.finite_class import FiniteClass
from counterplay.core.weights import Weights
from counterplay.errors import InvalidInputError

_FORMAT = "counterplay.FiniteClass/1"
_ARRAYS = ("point_weights", "points", "params")


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


def from_dict(data: dict[str, Any]) -> FiniteClass:
    """Undo :func:`to_dict`."""
    if data.get("format") != _FORMAT:
        raise InvalidInputError(f"not a stored FiniteClass: format is {data.get('format')!r}")
    n, p = (int(value) for value in data["shape"])
    raw = np.frombuffer(base64.b64decode(data["labels"]), dtype=np.uint8).reshape(n, -1)
    rows = np.unpackbits(raw, axis=1, count=p, bitorder="little") if p else np.zeros((n, 0), bool)
    arrays = {
        name: np.array([float(v) for v in data[name]["values"]]).reshape(data[name]["shape"])
        for name in _ARRAYS
        if name in data
    }
    weights: Weights | None = None
    if "weights" in data:
        weights = _exact(data["weights"]) if data["exact"] else np.array(data["weights"], float)
    names = tuple(data["names"]) if "names" in data else None
    return FiniteClass(pack_rows(rows), p, weights=weights, names=names, **arrays)


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
    """Read a class written by :func:`save`."""
    try:
        with np.load(Path(path), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (BadZipFile, ValueError, EOFError):
        raise InvalidInputError(f"{path} is not a stored FiniteClass") from None
    if str(arrays.get("format")) != _FORMAT:
        raise InvalidInputError(f"{path} is not a stored FiniteClass")
    weights = arrays.get("weights")
    if "weights_exact" in arrays:
        weights = _exact(arrays["weights_exact"].tolist())
    n_points = int(arrays["n_points"])
    packed = pack_rows(unpack_rows(arrays["packed"].astype(np.uint64), n_points))
    names = tuple(arrays["names"].tolist()) if "names" in arrays else None
    rest = {name: arrays[name] for name in _ARRAYS if name in arrays}
    return FiniteClass(packed, n_points, weights=weights, names=names, **rest)


def _floats(array: NDArray[Any]) -> list[float | str]:
    """Floats as JSON numbers; the three values JSON does not know as strings."""
    return [value if np.isfinite(value) else str(value) for value in array.tolist()]


def _exact(values: list[str]) -> Weights:
    weights: Weights = np.empty(len(values), dtype=object)
    weights[:] = [int(v) if "/" not in v else Fraction(v) for v in values]
    return weights
