"""Order of search, downloads with checksums, messages, and the list of what there is."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from counterplay import datasets
from counterplay.datasets import catalogue, fetching
from counterplay.datasets.sources import Entry, Extract, Form, Remote
from counterplay.errors import DataUnavailableError, InvalidInputError


class Server(BaseHTTPRequestHandler):
    files: ClassVar[dict[str, bytes]] = {}
    hits: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        type(self).hits.append(self.path)
        content = self.files.get(self.path)
        self.send_response(200 if content is not None else 404)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *args: object) -> None: ...


@pytest.fixture
def server() -> Iterator[str]:
    Server.files, Server.hits = {}, []
    http = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{http.server_port}"
    http.shutdown()
    http.server_close()


def entry_for(remote: Remote, target: str) -> Entry:
    def read(paths: object) -> dict[str, object]:
        (path,) = paths
        text = Path(path).read_text()
        return {"X": np.array([text]), "y": np.array([len(text)])}

    return Entry(
        "toy", "table", "A toy.", (Form((target,), read, 1),), "here", "none", remotes=(remote,)
    )


def fetch_toy(monkeypatch: pytest.MonkeyPatch, entry: Entry, **options: object) -> str:
    monkeypatch.setitem(catalogue.CATALOGUE, "toy", entry)
    return datasets.fetch("toy", return_X_y=True, **options)[0][0]


def test_download_once_then_cache(
    server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Server.files["/a.txt"] = b"hello"
    digest = hashlib.sha256(b"hello").hexdigest()
    entry = entry_for(Remote((f"{server}/a.txt",), digest, "a.txt"), "a.txt")
    assert fetch_toy(monkeypatch, entry) == "hello"
    assert fetch_toy(monkeypatch, entry) == "hello"
    assert Server.hits == ["/a.txt"]
    (tmp_path / "a.txt").write_text("local")
    assert fetch_toy(monkeypatch, entry, folder=tmp_path) == "local"
    monkeypatch.setenv("COUNTERPLAY_DATA", str(tmp_path))
    assert fetch_toy(monkeypatch, entry) == "local"


def test_wrong_checksum_leaves_nothing(
    server: str, monkeypatch: pytest.MonkeyPatch, empty_cache: Path
) -> None:
    Server.files["/a.txt"] = b"tampered"
    entry = entry_for(Remote((f"{server}/a.txt",), "0" * 64, "a.txt"), "a.txt")
    with pytest.raises(DataUnavailableError, match="download failed"):
        fetch_toy(monkeypatch, entry)
    assert not list(empty_cache.rglob("a.txt"))


def test_second_address_is_tried(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Server.files["/b.txt"] = b"hello"
    urls = (f"{server}/gone.txt", f"{server}/b.txt")
    entry = entry_for(Remote(urls, None, "a.txt"), "a.txt")
    assert fetch_toy(monkeypatch, entry) == "hello"


def test_nested_archive_is_unpacked_and_checked(
    server: str, monkeypatch: pytest.MonkeyPatch, empty_cache: Path
) -> None:
    inner, outer = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(inner, "w") as z:
        z.writestr("data.csv", "hello")
    with zipfile.ZipFile(outer, "w") as z:
        z.writestr("deep/inner.zip", inner.getvalue())
    Server.files["/w.whl"] = outer.getvalue()
    digest = hashlib.sha256(b"hello").hexdigest()
    member = Extract(("deep/inner.zip", "data.csv"), "a.txt", digest)
    remote = Remote((f"{server}/w.whl",), None, "w.whl", (member,))
    assert fetch_toy(monkeypatch, entry_for(remote, "a.txt")) == "hello"
    assert [path.name for path in empty_cache.rglob("*") if path.is_file()] == ["a.txt"]


@pytest.mark.parametrize("steps", [("data.csv",), ("missing.csv",)])
def test_unexpected_member(
    server: str, monkeypatch: pytest.MonkeyPatch, empty_cache: Path, steps: tuple[str]
) -> None:
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w") as z:
        z.writestr("data.csv", "hello")
    Server.files["/w.zip"] = outer.getvalue()
    remote = Remote((f"{server}/w.zip",), None, "w.zip", (Extract(steps, "a.txt", "0" * 64),))
    with pytest.raises(DataUnavailableError, match=r"not the expected file|damaged"):
        fetch_toy(monkeypatch, entry_for(remote, "a.txt"))
    assert not [path for path in empty_cache.rglob("*") if path.is_file()]


def test_offline_message_shows_the_layout(
    monkeypatch: pytest.MonkeyPatch, empty_cache: Path
) -> None:
    monkeypatch.delenv("COUNTERPLAY_DATA", raising=False)
    entry = catalogue.CATALOGUE["cifar10"]
    broken = tuple(
        dataclasses.replace(remote, urls=("http://127.0.0.1:9/cifar",)) for remote in entry.remotes
    )
    monkeypatch.setitem(catalogue.CATALOGUE, "cifar10", dataclasses.replace(entry, remotes=broken))
    with pytest.raises(DataUnavailableError) as caught:
        datasets.fetch("cifar10")
    message = str(caught.value)
    assert "COUNTERPLAY_DATA is not set" in message
    assert "127.0.0.1 cannot be reached" in message
    assert str(empty_cache) in message
    for line in ("cifar-10-binary.tar.gz", "cifar10_jpegq90.npz   (lossy copy"):
        assert line in message


def test_without_download(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(DataUnavailableError, match="downloading was not allowed"):
        datasets.fetch("adult", folder=tmp_path, download=False)
    with pytest.raises(DataUnavailableError, match="no address to download"):
        datasets.fetch("heloc", folder=tmp_path)


def test_as_frame_needs_a_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    entry = Entry("toy", "images", "A toy.", (Form(("a",), lambda paths: {}, 1),), "", "")
    (tmp_path / "a").write_text("")
    monkeypatch.setitem(catalogue.CATALOGUE, "toy", entry)
    with pytest.raises(InvalidInputError, match="needs a table"):
        datasets.fetch("toy", folder=tmp_path, as_frame=True)
    with pytest.raises(InvalidInputError, match=r"use fetch\('toy'\).frame"):
        datasets.fetch("toy", folder=tmp_path, return_X_y=True)
    with pytest.raises(InvalidInputError, match="no table form"):
        datasets.fetch("toy", folder=tmp_path).to_frame()


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("german_credit", "german_credit.parquet"),
        ("mnist", "mnist.npz"),
        ("cifar10", "cifar-10-binary.tar.gz"),
    ],
)
@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04" + bytes(99)])
def test_a_damaged_file_is_one_sentence(
    name: str, file: str, content: bytes, tmp_path: Path
) -> None:
    if file.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / file).write_bytes(content)
    with pytest.raises(DataUnavailableError, match=file) as caught:
        datasets.fetch(name, folder=tmp_path)
    assert "\n" not in str(caught.value)


def test_list_says_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COUNTERPLAY_DATA", raising=False)
    (tmp_path / "german.data").write_text("")
    listed = {entry.name: entry for entry in datasets.list_datasets(tmp_path)}
    assert listed["german_credit"].available
    assert listed["german_credit"].where == str(tmp_path / "german.data")
    assert not listed["cifar10"].available
    assert listed["cifar10"].where.startswith("https://www.cs.toronto.edu/")
    assert listed["heloc"].where == "missing: COUNTERPLAY_DATA/heloc_fico.parquet"
    assert len(listed) == len(fetching.BUNDLED) + len(catalogue.CATALOGUE) == 32
