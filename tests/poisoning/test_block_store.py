"""Partitions on disk: saved ones come back, killed updates are whole, removed rows are gone."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import msgspec
import numpy as np
import pandas as pd
import pytest
import skops.io
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

from counterplay.errors import AssumptionWarning, InvalidInputError, InvalidStateError
from counterplay.poisoning import PartitionClassifier
from counterplay.poisoning import block_store as disk
from counterplay.poisoning.block_files import read_labels, write_labels
from counterplay.poisoning.errors import BlocksRefittedWarning

QUIET = pytest.mark.filterwarnings("ignore::counterplay.errors.CounterplayWarning")
TREE = DecisionTreeClassifier(max_depth=3)
KEY = "hush hush"


def problem(n: int = 120, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).round(3)
    return (
        X,
        np.where(X[:, 0] > 0, "yes", "no"),
        np.array([f"user-{i % 30}@mail" for i in range(n)]),
    )


def stored(folder: Path, base=TREE, blocks: int = 7, **settings):
    X, y, who = problem()
    guard = PartitionClassifier(base, blocks, key=KEY, check=False, store=folder, **settings)
    return guard.fit(X, y, sources=who), X, y, who


def contents(folder: Path) -> bytes:
    return b"\n".join(
        path.name.encode() + path.read_bytes() for path in folder.rglob("*") if path.is_file()
    )


def table() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    n = 60
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 9, n).round(1),
            "member": rng.random(n) < 0.5,
            "since": pd.date_range("2020-01-01", periods=n, freq="D"),
            "city": pd.Categorical(rng.choice(["Bonn", "Ulm"], n)),
            "code": pd.Categorical(rng.choice([3, 4], n)),
            "note": pd.Series([f"n\udc80é {i}" for i in range(n)], dtype=object),
            "size": pd.Categorical(rng.choice(["s", "l"], n), ["s", "m", "l"], ordered=True),
        }
    )
    frame.loc[3, "age"], frame.loc[4, "since"], frame.loc[5, "city"] = np.nan, pd.NaT, np.nan
    return frame


def only_age(rows):
    return rows[["age"]].to_numpy(float)


NUMBERS = np.random.default_rng(2).normal(size=(60, 2, 3))
CASES = {
    "table": (table(), make_pipeline(FunctionTransformer(only_age), SimpleImputer(), GaussianNB())),
    "matrix": (NUMBERS[:, 0], KNeighborsClassifier(1)),
    "float32": (NUMBERS[:, 0].astype(np.float32), TREE),
    "sparse": (sparse.csr_array(np.maximum(NUMBERS[:, 0], 0)), TREE),
    "arrays": (NUMBERS, None),
    "texts": ([f"win {i % 9} cash" if i % 2 else f"home {i % 7}" for i in range(60)],
              make_pipeline(CountVectorizer(), MultinomialNB())),
}  # fmt: skip


@QUIET
@pytest.mark.claim("21.24")
@pytest.mark.parametrize("name", CASES)
def test_every_container_comes_back_with_its_votes(name: str, tmp_path) -> None:
    rows, base = CASES[name]
    labels = np.array([0, 7, 10**9] if name == "matrix" else ["é", "b", "c"])[np.arange(60) % 3]
    guard = PartitionClassifier(base, 5, check=False).fit(rows, labels, row_ids=np.arange(60))
    guard.save(tmp_path / "a")
    given = {"estimator": base} if name == "table" else {}
    again = PartitionClassifier.load(tmp_path / "a", **given)
    assert np.array_equal(again.votes(rows), guard.votes(rows))
    assert np.array_equal(again.certify(rows), guard.certify(rows))
    assert again.classes_.tolist() == guard.classes_.tolist()
    assert again.schema_ == guard.schema_
    some = rows.iloc[:1] if name == "table" else rows[:1]
    assert again.update(some, labels[:1], row_ids=["new"]).blocks_refitted == 1


def test_labels_of_every_kind_are_written_and_read() -> None:
    labels = [True, 0, -(10**30), 2.5, "spam", "\udc80"]
    again = read_labels(json.loads(json.dumps(write_labels(labels))), "the file")
    assert [(type(a), a) for a in again] == [(type(a), a) for a in labels]
    for bad in (None, [3], [{"text": "xyz"}], [{"integer": "1", "flag": True}], [{"age": "1"}]):
        with pytest.raises(InvalidStateError):
            read_labels(bad, "the file")


@QUIET
@pytest.mark.claim("21.24")
def test_settings_come_back(tmp_path) -> None:
    X, y, who = problem()
    guard = PartitionClassifier(
        TREE, 6, classes=("yes", "no"), vote_threshold={"yes": 0.4}, key=KEY, committee=2,
        rows_per_source=3, split={"user-1@mail": 3, 77: 2}, unknown_source="pool", spread=2,
        random_state=5,
    ).fit(X, y, sources=[None, *who[1:]])  # fmt: skip
    guard.save(tmp_path)
    again = PartitionClassifier.load(tmp_path, key=KEY)
    mine, theirs = guard.get_params(deep=False), again.get_params(deep=False)
    assert {k: v for k, v in theirs.items() if k != "estimator"} == {
        k: v for k, v in mine.items() if k != "estimator"
    }
    assert np.array_equal(again.certify(X), guard.certify(X))
    assert np.array_equal(clone(again).fit(X, y, sources=[None, *who[1:]]).votes(X), guard.votes(X))


@pytest.mark.claim("21.24")
def test_a_store_is_updated_block_by_block(tmp_path) -> None:
    guard, X, y, who = stored(tmp_path)
    names = {path.name for path in tmp_path.rglob("*.npz")}
    done = guard.update(remove_sources=["user-3@mail"])
    assert done.blocks_refitted == 1
    assert len(names - {path.name for path in tmp_path.rglob("*.npz")}) == 1
    left = who != "user-3@mail"
    fresh = PartitionClassifier(TREE, 7, key=KEY, check=False).fit(
        X[left], y[left], sources=who[left]
    )
    assert np.array_equal(guard.votes(X), fresh.votes(X))
    again = PartitionClassifier.load(tmp_path, key=KEY)
    assert np.array_equal(again.votes(X), fresh.votes(X))
    again.update(X[:1], y[:1], sources=["new"])
    with pytest.raises(InvalidStateError, match="changed by somebody else; load it again"):
        guard.update(X[:1], y[:1], sources=["new"])
    assert np.array_equal(guard.votes(X), fresh.votes(X))  # as it was


def relabelled(folder: Path, key=KEY) -> None:
    """Change the label of one row: same content, same block."""
    X, y, who = problem()
    guard = PartitionClassifier.load(folder, key=key)
    other = "no" if y[0] == "yes" else "yes"
    guard.update(X[:1], [other], sources=who[:1], remove=(X[:1], y[:1]))


def killed_at(moment: int, folder: Path) -> bool:
    """Relabel in a child that kills itself at its n-th change of the folder; whether it did."""
    child = os.fork()
    if child == 0:
        left = moment

        def count(call):
            def counted(*args, **kwargs):
                nonlocal left
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*args, **kwargs)

            return counted

        os.replace, os.unlink = count(os.replace), count(os.unlink)
        relabelled(folder)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@QUIET
@pytest.mark.claim("21.24")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_update_is_done_or_not_done(tmp_path) -> None:
    _, X, y, who = stored(tmp_path / "start")
    y_new = y.copy()
    y_new[0] = "no" if y[0] == "yes" else "yes"
    wanted = [
        PartitionClassifier(TREE, 7, key=KEY, check=False).fit(X, labels, sources=who).votes(X)
        for labels in (y, y_new)
    ]
    seen = []
    for moment in range(20):  # row file, model file, manifest, two deletions
        folder = tmp_path / str(moment)
        shutil.copytree(tmp_path / "start", folder)
        if not killed_at(moment, folder):
            break
        guard = PartitionClassifier.load(folder, key=KEY)
        votes = guard.votes(X)
        assert any(np.array_equal(votes, other) for other in wanted)
        seen.append(np.array_equal(votes, wanted[1]))
        kept = {path.name for path in folder.rglob("*") if path.is_file()} - {".lock"}
        whole = disk.read_manifest(folder, KEY)
        assert len(kept) == 2 + len(whole.rows) + sum(m.file is not None for m in whole.models)
        guard.update(X[:1], ["yes"], sources=["somebody"])  # and it goes on
    assert seen == [False] * 3 + [True] * 2


@QUIET
@pytest.mark.claim("21.24")
def test_blocks_that_differ_from_the_manifest_are_fitted_again(tmp_path) -> None:
    guard, X, _, _ = stored(tmp_path)
    before = guard.votes(X)
    model = sorted((tmp_path / "models").glob("00*"))[2]
    other = sorted((tmp_path / "models").glob("00*"))[3]
    shutil.copy(other, model)  # a model of other rows
    with pytest.warns(BlocksRefittedWarning, match="block 2 differs from the manifest; refitted"):
        again = PartitionClassifier.load(tmp_path, key=KEY)
    assert np.array_equal(again.votes(X), before)
    model.unlink()
    with pytest.warns(BlocksRefittedWarning, match="block 2 differs"):
        again = PartitionClassifier.load(tmp_path, key=KEY)
    assert np.array_equal(again.votes(X), before)
    PartitionClassifier.load(tmp_path, key=KEY)  # mended on disk, too: no warning


@pytest.mark.claim("21.24")
def test_a_row_file_of_a_half_done_relabelling_is_seen(tmp_path) -> None:
    """Rows of the new state under a manifest and a model of the old one: the rows count."""
    _, X, y, who = stored(tmp_path)
    shutil.copytree(tmp_path, tmp_path.parent / "new")
    relabelled(tmp_path.parent / "new")
    old = disk.read_manifest(tmp_path, KEY)
    new = disk.read_manifest(tmp_path.parent / "new", KEY)
    (i,) = [j for j, (a, b) in enumerate(zip(old.rows, new.rows)) if a != b]
    schema = PartitionClassifier.load(tmp_path, key=KEY).schema_
    shutil.copy(
        disk.rows_path(tmp_path.parent / "new", i, new.rows[i], schema),
        disk.rows_path(tmp_path, i, old.rows[i], schema),
    )
    with pytest.warns(BlocksRefittedWarning, match=f"block {i} differs from the manifest"):
        guard = PartitionClassifier.load(tmp_path, key=KEY)
    y_new = np.append("no" if y[0] == "yes" else "yes", y[1:])
    fresh = PartitionClassifier(TREE, 7, key=KEY, check=False).fit(X, y_new, sources=who)
    assert np.array_equal(guard.votes(X), fresh.votes(X))


@pytest.mark.claim("21.25")
@pytest.mark.parametrize("texts", [False, True])
def test_removed_sources_leave_nothing_on_disk(texts: bool, tmp_path) -> None:
    X, y, who = problem()
    if texts:  # the vocabulary of a model holds words, a nearest neighbour would hold rows
        rows = [f"secret{i} {name} win" for i, name in enumerate(who)]
        base = make_pipeline(CountVectorizer(), MultinomialNB())
    else:
        rows, base = X, None
    guard = PartitionClassifier(base, 7, key=KEY, check=False, store=tmp_path)
    guard.fit(rows, y, sources=who)
    gone = np.flatnonzero(who == "user-3@mail")
    marks = [f"secret{i} ".encode() if texts else X[i].tobytes() for i in gone]
    whole = contents(tmp_path)
    assert all(mark in whole for mark in marks)
    assert texts or b"user-" not in whole  # sources are hashed
    assert guard.update(remove_sources=["user-3@mail"]).rows_removed == len(gone)
    whole = contents(tmp_path)
    assert not any(mark in whole for mark in marks)
    assert b"user-3@mail" not in whole
    assert b"user-3@mail" not in pickle.dumps(guard)
    kept = np.flatnonzero(who != "user-3@mail")
    assert all((f"secret{i} ".encode() if texts else X[i].tobytes()) in whole for i in kept)


@QUIET
@pytest.mark.claim("21.25")
def test_messages_about_removed_rows_are_gone_too(tmp_path) -> None:
    X, y, who = problem()
    odd = np.vstack([X, [[777.125, 0, 0], [777.125, 1, 0]]])
    guard = PartitionClassifier(Talkative(), 7, key=KEY, check=False, store=tmp_path)
    guard.fit(odd, [*y, "yes", "no"], sources=[*who, "odd", "odd"])
    assert "777.125" in str(guard.failures_)
    assert b"777.125" in contents(tmp_path)
    guard.update(remove_sources=["odd"])
    assert guard.failures_ == ()
    assert b"777.125" not in contents(tmp_path)


class Talkative(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        if (X > 700).any():
            raise ValueError(f"I do not like {X.max()}")
        self.model_ = GaussianNB().fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)


@pytest.mark.claim("21.36")
def test_the_key_is_in_no_file_and_another_one_is_refused(tmp_path) -> None:
    stored(tmp_path)
    assert KEY.encode() not in contents(tmp_path)
    for key in (None, "hush", b"x"):
        with pytest.raises(InvalidStateError, match="the key does not match this folder"):
            PartitionClassifier.load(tmp_path, key=key)


@pytest.mark.claim("21.24")
def test_foreign_types_and_pickles_are_not_opened_without_the_switch(tmp_path) -> None:
    X, y, who = problem()
    guard = PartitionClassifier(Talkative(), 7, key=KEY, check=False).fit(X, y, sources=who)
    guard.save(tmp_path / "a")
    with pytest.raises(InvalidStateError, match=r"not trusted.*Talkative.*give estimator="):
        PartitionClassifier.load(tmp_path / "a", key=KEY)
    for given in ({"estimator": Talkative()}, {"trust_pickle": True}):
        again = PartitionClassifier.load(tmp_path / "a", key=KEY, **given)
        assert np.array_equal(again.votes(X), guard.votes(X))
    nameless = make_pipeline(FunctionTransformer(lambda rows: rows), GaussianNB())
    PartitionClassifier(nameless, 3, check=False).fit(X, y).save(tmp_path / "b")
    with pytest.raises(InvalidInputError, match="could not be saved; give estimator="):
        PartitionClassifier.load(tmp_path / "b", trust_pickle=True)
    again = PartitionClassifier.load(tmp_path / "b", estimator=nameless)
    assert np.array_equal(again.votes(X), clone(again).fit(X, y).votes(X))


class Trap:
    """Says so when it is opened."""

    opened: ClassVar[list[str]] = []

    def __setstate__(self, state):
        Trap.opened.append("model")

    def __getstate__(self):
        return {"a": 1}


@QUIET
@pytest.mark.claim("21.24")
def test_a_forged_model_of_a_foreign_type_is_not_opened(tmp_path) -> None:
    """Without a key of one's own anybody can write a manifest; the types are still looked at."""
    X, y, _ = problem()
    guard = PartitionClassifier(TREE, 7, check=False).fit(X, y)
    guard.save(tmp_path)
    manifest = disk.read_manifest(tmp_path, None)
    data = skops.io.dumps(Trap())
    disk.model_path(tmp_path, "000002", manifest.models[2]).write_bytes(data)
    forged = {"rows": manifest.models[2].rows, "kind": "skops"}
    models = list(manifest.models)
    models[2] = disk.SavedModel(**forged, file=disk.keyed_hash(data, None, "model"))
    disk.write_manifest(tmp_path, msgspec.structs.replace(manifest, models=models), None)
    with pytest.warns(BlocksRefittedWarning, match="block 2 differs"):
        again = PartitionClassifier.load(tmp_path)
    assert Trap.opened == []
    assert np.array_equal(again.votes(X), guard.votes(X))


def test_damaged_folders_are_refused_in_one_sentence(tmp_path) -> None:
    with pytest.raises(InvalidInputError, match="there is no partition in"):
        PartitionClassifier.load(tmp_path / "nowhere")
    _, X, y, _ = stored(tmp_path)
    with pytest.raises(InvalidInputError, match="holds a partition already; load it"):
        PartitionClassifier(TREE, 7, store=tmp_path).fit(X, y)
    with pytest.raises(InvalidInputError, match="holds a partition already"):
        PartitionClassifier(TREE, 7).fit(X, y).save(tmp_path)
    text = (tmp_path / "manifest.json").read_text()
    for forged in (text.replace('"committee":1', '"committee":2'), text[:-9], "[]", "{}"):
        (tmp_path / "manifest.json").write_text(forged)
        with pytest.raises(InvalidStateError):
            PartitionClassifier.load(tmp_path, key=KEY)
    (tmp_path / "manifest.json").write_text(text)
    rows = sorted((tmp_path / "rows").iterdir())
    shutil.copy(rows[0], tmp_path / "kept")
    for data in (b"", rows[0].read_bytes()[:-30], b"PK" * 40):
        rows[0].write_bytes(data)
        with pytest.raises(InvalidStateError, match="block 0"):
            PartitionClassifier.load(tmp_path, key=KEY)
    shutil.copy(rows[1], rows[0])
    with pytest.raises(InvalidStateError, match="block 0 holds rows of other blocks"):
        PartitionClassifier.load(tmp_path, key=KEY)
    shutil.copy(tmp_path / "kept", rows[0])
    PartitionClassifier.load(tmp_path, key=KEY)


def test_other_versions_and_public_keys_are_told(tmp_path) -> None:
    X, y, who = problem()
    guard = PartitionClassifier(TREE, 3, check=False).fit(X, y, sources=who)
    with pytest.warns(AssumptionWarning, match="without key= anybody can look them up"):
        guard.save(tmp_path)
    record = disk.read_manifest(tmp_path, None)
    other = msgspec.structs.replace(record, versions={**record.versions, "numpy": "1.0"})
    disk.write_manifest(tmp_path, other, None)
    with pytest.warns(AssumptionWarning, match="saved with numpy 1.0"):
        PartitionClassifier.load(tmp_path)


def test_a_store_survives_fit_clone_and_pickle(tmp_path) -> None:
    guard, X, y, who = stored(tmp_path)
    again = pickle.loads(pickle.dumps(guard))
    assert np.array_equal(again.votes(X), guard.votes(X))
    guard.fit(X[:60], y[:60], sources=who[:60])  # its own folder may be written again
    loaded = PartitionClassifier.load(tmp_path, key=KEY)
    assert np.array_equal(loaded.votes(X), guard.votes(X))
    assert loaded.store == str(tmp_path)
    assert json.loads((tmp_path / "manifest.json").read_text())["live"]


@QUIET
@pytest.mark.claim("21.24")
def test_a_second_writer_is_refused_in_one_sentence(tmp_path, monkeypatch) -> None:
    """While another process holds the folder nobody writes; readers share it."""
    monkeypatch.setattr(disk, "_WAIT", 0.05)
    guard, X, y, who = stored(tmp_path / "store")
    with holding(tmp_path / "store"):
        for call in (
            lambda: guard.update(remove_sources=[who[0]]),
            lambda: clone(guard).fit(X, y, sources=who),
            lambda: guard.save(tmp_path / "store"),
            lambda: PartitionClassifier.load(tmp_path / "store", KEY),
        ):
            with pytest.raises(InvalidStateError, match=r"another process is at work in .*store"):
                call()
    # the other process was killed, which lifts its lock
    with disk.alone(tmp_path / "store", shared=True):
        again = PartitionClassifier.load(tmp_path / "store", KEY)
        with pytest.raises(InvalidStateError, match="another process"):
            guard.update(remove_sources=[who[0]])
    assert guard.update(remove_sources=[who[0]]).rows_removed == 4
    with pytest.raises(InvalidStateError, match="changed by somebody else; load it again"):
        again.update(remove_sources=[who[0]])
    with pytest.raises(InvalidInputError, match="holds a partition already"):
        clone(guard).fit(X, y, sources=who)


@contextlib.contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Another process has the lock of a folder; in the end it is killed."""
    text = f"""if True:
        import sqlite3, sys
        lock = sqlite3.connect({str(folder / ".lock")!r}, isolation_level=None)
        lock.execute("BEGIN EXCLUSIVE")
        print("held", flush=True)
        sys.stdin.read()
    """
    other = subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with other:
        assert other.stdout.readline() == b"held\n"
        yield
        other.kill()
