"""Images against small files written by the test in the original formats."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest

from counterplay import datasets
from counterplay.datasets import images
from counterplay.errors import DataUnavailableError, MissingDependencyError

RNG = np.random.default_rng(0)


def idx_bytes(array: np.ndarray) -> bytes:
    head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return head + array.tobytes()


def write_idx(folder: Path, names: tuple[str, ...], side: int = 28) -> list[np.ndarray]:
    folder.mkdir(parents=True, exist_ok=True)
    arrays = []
    for rows in (7, 3):
        arrays += [
            RNG.integers(0, 256, size=(rows, side, side), dtype=np.uint8),
            RNG.integers(0, 10, size=rows, dtype=np.uint8),
        ]
    for name, array in zip(names, arrays):
        (folder / name).write_bytes(gzip.compress(idx_bytes(array)))
    return arrays


IDX = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
@pytest.mark.parametrize("dash", [False, True])
def test_idx_files_in_their_subfolder(tmp_path: Path, name: str, dash: bool) -> None:
    sub = name.replace("_", "-") if dash else name
    x, y, x_test, y_test = write_idx(tmp_path / sub, IDX)
    data = datasets.fetch(name, folder=tmp_path, download=False)
    assert np.array_equal(data.X, x)
    assert np.array_equal(data.y, y)
    assert np.array_equal(data.X_test, x_test)
    assert np.array_equal(data.y_test, y_test)
    assert data.y.dtype == np.int64
    assert data.X.flags.writeable


def test_idx_names_are_ambiguous_outside_the_subfolder(tmp_path: Path, empty_cache: Path) -> None:
    write_idx(tmp_path, IDX)
    with pytest.raises(DataUnavailableError, match="fashion_mnist/train-images"):
        datasets.fetch("fashion_mnist", folder=tmp_path, download=False)


def test_emnist_images_are_turned_upright(tmp_path: Path) -> None:
    names = tuple(
        f"emnist-balanced-{part}-{what}-ubyte.gz"
        for part in ("train", "test")
        for what in ("images-idx3", "labels-idx1")
    )
    x, _, x_test, _ = write_idx(tmp_path, names)
    data = datasets.fetch("emnist_balanced", folder=tmp_path, download=False)
    assert np.array_equal(data.X, x.transpose(0, 2, 1))
    assert np.array_equal(data.X_test, x_test.transpose(0, 2, 1))
    assert len(data.target_names) == 47


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"hello", "not an idx file"),
        (idx_bytes(np.zeros((4, 4), np.uint8))[:-1], "15 bytes instead of"),
        (gzip.compress(idx_bytes(np.zeros((4, 4), np.uint8)), mtime=0)[:-9], "damaged"),
    ],
    ids=["text", "short", "damaged-gzip"],
)
def test_damaged_idx_file(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file.gz"
    path.write_bytes(content)
    with pytest.raises(DataUnavailableError, match=message):
        images.read_idx(path)


def cifar_batches(rows: int = 4) -> tuple[dict[str, bytes], np.ndarray, np.ndarray]:
    x = RNG.integers(0, 256, size=(6 * rows, 32, 32, 3), dtype=np.uint8)
    y = RNG.integers(0, 10, size=6 * rows, dtype=np.uint8)
    records = np.concatenate([y[:, None], x.transpose(0, 3, 1, 2).reshape(6 * rows, -1)], axis=1)
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    parts = {name: records[i * rows : (i + 1) * rows].tobytes() for i, name in enumerate(names)}
    return parts, x, y


def test_cifar_binary_archive_and_folder(tmp_path: Path) -> None:
    parts, x, y = cifar_batches()
    (tmp_path / "packed").mkdir()
    (tmp_path / "open" / "cifar-10-batches-bin").mkdir(parents=True)
    with tarfile.open(tmp_path / "packed" / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for name, content in reversed(parts.items()):  # order in the archive must not matter
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    for name, content in parts.items():
        (tmp_path / "open" / "cifar-10-batches-bin" / name).write_bytes(content)
    for folder in ("packed", "open"):
        data = datasets.fetch("cifar10", folder=tmp_path / folder, download=False)
        assert np.array_equal(data.X, x[:20])
        assert np.array_equal(data.y, y[:20])
        assert np.array_equal(data.X_test, x[20:])
        assert data.target_names[3] == "cat"


def test_damaged_cifar(tmp_path: Path) -> None:
    parts, _, _ = cifar_batches()
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("cifar-10-batches-bin/test_batch.bin")
        content = parts["test_batch.bin"]
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    with pytest.raises(DataUnavailableError, match=r"lacks data_batch_1.bin"):
        datasets.fetch("cifar10", folder=tmp_path, download=False)
    with pytest.raises(DataUnavailableError, match="multiple of 3073"):
        images._cifar_batch(content[:-1], tmp_path)


def test_cifar_sheets(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    flat = np.zeros((3200, 3200, 3), np.uint8)
    flat[32:64, 64:96] = (255, 0, 0)  # row 1, column 2: image 102
    buffer = io.BytesIO()
    image.fromarray(flat).save(buffer, "JPEG", quality=90, subsampling=0)
    sheet = np.frombuffer(buffer.getvalue(), np.uint8)
    arrays = {f"jpg_train{i}": sheet for i in range(5)}
    labels = np.zeros(50_000, np.uint8)
    np.savez(
        tmp_path / "cifar10_jpegq90.npz", **arrays, jpg_test=sheet, ytrain=labels,
        ytest=labels[:10_000],
    )  # fmt: skip
    data = datasets.fetch("cifar10", folder=tmp_path, download=False)
    assert data.X.shape == (50_000, 32, 32, 3)
    bright = np.flatnonzero(data.X_test.reshape(10_000, -1).max(axis=1) > 50)
    assert bright.tolist() == [102]
    assert "lossy" in data.variant


def test_npz_with_a_pickle_is_refused(tmp_path: Path) -> None:
    bad = np.array([{"a": 1}], dtype=object)
    np.savez(tmp_path / "mnist.npz", xtrain=bad, ytrain=bad, xtest=bad, ytest=bad)
    with pytest.raises(DataUnavailableError, match="allow_pickle"):
        datasets.fetch("mnist", folder=tmp_path, download=False)


def test_jpeg_needs_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(MissingDependencyError, match=r"counterplay\[data\]"):
        images._sheet(np.zeros(4, np.uint8))
