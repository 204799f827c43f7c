"""Readers of image files: idx (MNIST family), CIFAR-10 binary, compressed arrays, JPEG sheets.

The python version of CIFAR-10 is not read on purpose: it is a pickle, which can run code.
"""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.errors import DataUnavailableError, MissingDependencyError

Images = NDArray[np.uint8]
_CIFAR_RECORD = 1 + 3 * 32 * 32
_CIFAR_FILES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")


def read_idx_split(paths: Sequence[Path]) -> dict[str, Any]:
    """Read training images, training labels, test images and test labels in idx format."""
    x, y, x_test, y_test = (read_idx(path) for path in paths)
    return _split(x, y, x_test, y_test)


def read_emnist_split(paths: Sequence[Path]) -> dict[str, Any]:
    """Read EMNIST idx files, whose images are stored with rows and columns exchanged."""
    fields = read_idx_split(paths)
    for key in ("X", "X_test"):
        fields[key] = np.ascontiguousarray(fields[key].transpose(0, 2, 1))
    return fields


def read_idx(path: Path) -> Images:
    """Read one idx file of bytes, compressed with gzip or not."""
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = gzip.decompress(raw)
        except (EOFError, OSError) as error:
            raise _damaged(path, str(error)) from None
    if len(raw) < 4 or raw[:3] != b"\x00\x00\x08":
        raise _damaged(path, "it is not an idx file of bytes")
    axes = raw[3]
    shape = tuple(int(n) for n in np.frombuffer(raw, ">u4", count=axes, offset=4))
    body = np.frombuffer(raw, np.uint8, offset=4 + 4 * axes)
    if body.size != np.prod(shape, dtype=np.int64):
        raise _damaged(path, f"it holds {body.size} bytes instead of {shape}")
    return body.reshape(shape).copy()


def read_npz_split(paths: Sequence[Path]) -> dict[str, Any]:
    """Read ``xtrain``, ``ytrain``, ``xtest``, ``ytest`` from one compressed NumPy file."""
    with np.load(paths[0], allow_pickle=False) as z:
        return _split(z["xtrain"], z["ytrain"], z["xtest"], z["ytest"])


def read_cifar_binary(paths: Sequence[Path]) -> dict[str, Any]:
    """Read the six files of the binary version of CIFAR-10, or the archive that holds them."""
    if len(paths) == 1:
        batches = _cifar_archive(paths[0])
    else:
        batches = [_cifar_batch(path.read_bytes(), path) for path in paths]
    x = np.concatenate([images for images, _ in batches[:5]])
    y = np.concatenate([labels for _, labels in batches[:5]])
    return _split(x, y, *batches[5])


def _cifar_archive(path: Path) -> list[tuple[Images, Images]]:
    found: dict[str, tuple[Images, Images]] = {}
    with tarfile.open(path) as archive:
        for member in archive:
            name = Path(member.name).name
            stream = archive.extractfile(member) if name in _CIFAR_FILES else None
            if stream is not None:
                found[name] = _cifar_batch(stream.read(), path)
    missing = [name for name in _CIFAR_FILES if name not in found]
    if missing:
        raise _damaged(path, f"it lacks {', '.join(missing)}")
    return [found[name] for name in _CIFAR_FILES]


def _cifar_batch(raw: bytes, path: Path) -> tuple[Images, Images]:
    if not raw or len(raw) % _CIFAR_RECORD:
        raise _damaged(path, f"a batch has {len(raw)} bytes, not a multiple of {_CIFAR_RECORD}")
    records = np.frombuffer(raw, np.uint8).reshape(-1, _CIFAR_RECORD)
    pixels = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(pixels), records[:, 0].copy()


def read_cifar_sheets(paths: Sequence[Path]) -> dict[str, Any]:
    """Read CIFAR-10 stored as six JPEG sheets of 100 x 100 images in one NumPy file."""
    with np.load(paths[0], allow_pickle=False) as z:
        x = np.concatenate([_sheet(z[f"jpg_train{i}"]) for i in range(5)])
        return _split(x, z["ytrain"], _sheet(z["jpg_test"]), z["ytest"])


def _sheet(encoded: Images) -> Images:
    import io

    try:
        from PIL import Image
    except ImportError:
        raise MissingDependencyError.for_extra("pillow", "data") from None
    pixels = np.asarray(Image.open(io.BytesIO(encoded.tobytes())).convert("RGB"))
    tiles = pixels.reshape(pixels.shape[0] // 32, 32, pixels.shape[1] // 32, 32, 3)
    return np.ascontiguousarray(tiles.swapaxes(1, 2)).reshape(-1, 32, 32, 3)


def _split(x: Images, y: Images, x_test: Images, y_test: Images) -> dict[str, Any]:
    for images, labels in ((x, y), (x_test, y_test)):
        if len(images) != len(labels):
            raise DataUnavailableError(f"{len(images)} images but {len(labels)} labels were read")
    return {
        "X": x,
        "y": y.astype(np.int64),
        "X_test": x_test,
        "y_test": y_test.astype(np.int64),
    }


def _damaged(path: Path, reason: str) -> DataUnavailableError:
    return DataUnavailableError(f"{path} is damaged: {reason}; remove it and fetch it again")
