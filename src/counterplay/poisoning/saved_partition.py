"""A fitted partition into a folder and back.

Loading recomputes what it can: hashes of rows and blocks, votes, certificates. A block whose rows,
model and manifest do not name one hash is fitted again, which gives the same model. Models are
skops files; what skops cannot hold is written as a pickle, which is opened on request only.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import pickle
import platform
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from counterplay import __version__
from counterplay.core.files import read_limited, write_atomic
from counterplay.errors import AssumptionWarning, InvalidInputError, InvalidStateError
from counterplay.poisoning.block_files import empty_rows, read_labels, write_labels
from counterplay.poisoning.block_fits import Constant, Failed
from counterplay.poisoning.block_store import (
    MANIFEST,
    Manifest,
    SavedModel,
    StoredRows,
    alone,
    flush,
    get_rows,
    key_fingerprint,
    keyed_hash,
    left_over,
    model_path,
    put_rows,
    read_manifest,
    sweep,
    write_manifest,
)
from counterplay.poisoning.errors import BlocksRefittedWarning
from counterplay.poisoning.held_rows import BlockRows, ChangedRows, Held
from counterplay.poisoning.model import BatchLearner
from counterplay.poisoning.model_rows import ModelRows
from counterplay.poisoning.saved_settings import settings_of, take_settings
from counterplay.tables import Schema
from counterplay.tables.cells import listed, shown
from counterplay.tables.model_files import foreign_types, model_bytes, read_model

if TYPE_CHECKING:
    from counterplay.poisoning.partition_training import PartitionTraining

_PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas")
_NO_ROWS = "0" * 32
_LARGEST = 2**31


def check_store(guard: PartitionTraining) -> Path | None:
    """Return the folder of the store; refuse one that holds somebody else's partition."""
    if guard.store is None:
        return None
    if isinstance(guard.estimator, BatchLearner):
        raise InvalidInputError("only partitions of scikit-learn estimators can be stored")
    return check_folder(guard.store, getattr(guard, "_manifest", None))


def check_folder(folder: str | Path, mine: Manifest | None = None) -> Path:
    """Return a folder that may be written; one with another partition is refused."""
    path = made_folder(folder)
    text = path / MANIFEST
    if text.exists() and (mine is None or f'"seal":"{mine.seal}"' not in text.read_text("utf-8")):
        raise InvalidInputError(
            f"{shown(str(path), 120)} holds a partition already; load it with "
            "PartitionClassifier.load, or take another folder"
        )
    return path


def made_folder(folder: str | Path) -> Path:
    """Return a folder with the places for rows and models, made if need be."""
    path = Path(folder)
    try:
        for name in ("rows", "models"):
            (path / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(f"{shown(str(path), 120)} cannot be written: {error}") from None
    return path


def store_alone(guard: PartitionTraining) -> contextlib.AbstractContextManager[None]:
    """Keep others out of the store of a classifier, if it has one."""
    if guard.store is None or isinstance(guard.estimator, BatchLearner):
        return contextlib.nullcontext()
    return alone(made_folder(guard.store))


def save_partition(guard: PartitionTraining, folder: Path, *, live: bool) -> Manifest:
    """Write everything; ``live``: updates of the classifier go into this folder."""
    if isinstance(guard.estimator, BatchLearner):
        raise InvalidInputError("only partitions of scikit-learn estimators can be saved")
    if guard.key is None and guard._fitted != "rows":
        warnings.warn(
            "the folder holds hashed ids of sources or rows; without key= anybody can look them up",
            AssumptionWarning,
            stacklevel=4,
        )
    parts = guard._parts
    rows = [put_rows(folder, i, parts[i], guard.key) for i in range(len(parts))]
    models = _put_models(guard, folder, range(len(parts)))
    manifest = Manifest(
        kind="partition",
        version=1,
        live=live,
        key=key_fingerprint(guard.key),
        frozen=guard.schema_.to_dict(),
        margin=guard.schema_margin_,
        fitted=guard._fitted,
        with_ids=parts[0].ids is not None,
        n_partitions=guard.n_partitions_,
        rows_rejected=guard.rows_rejected_,
        settings=settings_of(guard),
        estimator=_put(folder, "estimator", guard._base(), _NO_ROWS, guard.key),
        versions=_versions(),
        rows=rows,
        models=[models[i] for i in range(len(parts))],
    )
    return _commit(folder, manifest, guard)


def check_unchanged(guard: PartitionTraining, folder: Path, before: Manifest) -> None:
    """Refuse to go on if somebody else wrote into the folder."""
    if read_manifest(folder, guard.key).seal != before.seal:
        raise InvalidStateError(
            f"{shown(str(folder), 120)} was changed by somebody else; load it again"
        )


def save_changed(
    guard: PartitionTraining, folder: Path, before: Manifest, changed: Mapping[int, Held]
) -> Manifest:
    """Write the blocks that an update changed, then the manifest; delete what was before."""
    check_unchanged(guard, folder, before)
    rows = list(before.rows)
    for i, held in changed.items():
        rows[i] = put_rows(folder, i, held, guard.key)
    models = list(before.models)
    stale = [i for i, mark in enumerate(guard._marks) if mark.hex() != models[i].rows]
    for i, model in _put_models(guard, folder, stale).items():
        models[i] = model
    manifest = msgspec.structs.replace(
        before, rows=rows, models=models, rows_rejected=guard.rows_rejected_
    )
    return _commit(folder, manifest, guard)


def load_partition(
    guard: PartitionTraining, folder: Path, *, estimator: Any, trust_pickle: bool
) -> None:
    """Fill a classifier that has nothing but its key from a folder; mend the folder."""
    with alone(folder, shared=True):
        odd = _load(guard, folder, estimator=estimator, trust_pickle=trust_pickle)
    manifest = guard._manifest
    if manifest.live and odd:
        with alone(folder):
            check_unchanged(guard, folder, manifest)
            guard._manifest = save_partition(guard, folder, live=True)
            guard._parts = stored_rows(guard, folder, guard._manifest)
    elif left_over(folder, manifest, guard.schema_):  # an update was killed, or is just made
        with contextlib.suppress(InvalidStateError), alone(folder, wait=0.0):
            sweep(folder, read_manifest(folder, guard.key), guard.schema_)


def _load(guard: PartitionTraining, folder: Path, *, estimator: Any, trust_pickle: bool) -> bool:
    """Fill a classifier from a folder; return whether the folder differs from it."""
    manifest = read_manifest(folder, guard.key)
    _check_versions(manifest)
    schema = replace(Schema.from_dict(manifest.frozen), margin=manifest.margin)
    take_settings(guard, manifest, schema)
    guard.estimator = (
        _estimator(folder, manifest, guard.key, trust_pickle) if estimator is None else estimator
    )
    guard.store = str(folder) if manifest.live else None
    guard._parts, odd = _read_parts(guard, folder, manifest, schema)
    rows, n = ModelRows(guard._parts, guard._dealer, guard.design_), len(guard._parts)
    guard.models_, guard._marks, guard._facts = [None] * n, [b""] * n, []
    stale = set(odd)
    for i in range(n):
        guard._facts.append(rows.facts(i))
        mark = rows[i].signature()
        found: Any = _UNUSABLE
        if estimator is None and mark.hex() == manifest.models[i].rows:
            found = _get_model(folder, i, manifest.models[i], guard.key, trust_pickle)
        if found is not _UNUSABLE:
            guard.models_[i], guard._marks[i] = found, mark
        elif estimator is None:
            stale.add(i)
    guard._fit_models(guard._parts, range(n))
    if stale:
        verb = "block {} differs" if len(stale) == 1 else "blocks {} differ"
        warnings.warn(
            f"{verb.format(listed(sorted(stale)))} from the manifest; refitted",
            BlocksRefittedWarning,
            stacklevel=4,
        )
    guard._manifest = manifest
    return bool(stale) or estimator is not None


def stored_rows(guard: PartitionTraining, folder: Path, manifest: Manifest) -> StoredRows:
    """Return the rows of a folder, read when they are asked for."""
    marks = np.zeros((0, 16), dtype=np.uint8)
    nothing = Held(
        empty_rows(guard.schema_),
        np.empty(0, dtype=object),
        marks,
        marks if manifest.fitted == "sources" else None,
        marks if manifest.with_ids else None,
    )
    return StoredRows(folder, guard.schema_, guard.key, list(manifest.rows), nothing)


def _read_parts(
    guard: PartitionTraining, folder: Path, manifest: Manifest, schema: Schema
) -> tuple[BlockRows, list[int]]:
    """Return the rows of all blocks, and which differ from the manifest."""
    stored = stored_rows(guard, folder, manifest)
    parts: list[Held] = [stored.nothing] * len(stored)
    odd = []
    for i, saved in enumerate(manifest.rows):
        if saved is None:
            continue
        held = get_rows(folder, i, saved, schema, guard.key)
        _check_dealt(guard, i, held)
        if held.digest(guard.key) != saved.digest:
            odd.append(i)
        parts[i] = held if not manifest.live or odd else stored.nothing
    if manifest.live and not odd:
        return stored, odd
    if manifest.live:  # the rows that were right are read again, the odd ones are here
        return ChangedRows(stored, {i: parts[i] for i in odd}), odd
    return parts, odd


def _check_dealt(guard: PartitionTraining, block: int, held: Held) -> None:
    """Refuse rows that belong into another block, as far as hashes tell."""
    dealer, marks = guard._dealer, held.marks
    if guard._fitted == "ids" and held.ids is not None:
        marks = held.ids
    elif guard._fitted == "sources":
        if dealer.several or held.owners is None:
            return
        known = np.asarray(held.owners.any(axis=1, keepdims=True))
        marks = np.where(known, held.owners, held.marks)
    if (dealer.by_identity(marks) != block).any():
        raise InvalidStateError(
            f"block {block} holds rows of other blocks; restore the folder from a backup"
        )


def _commit(folder: Path, manifest: Manifest, guard: PartitionTraining) -> Manifest:
    flush(folder)
    sealed = write_manifest(folder, manifest, guard.key)
    sweep(folder, sealed, guard.schema_)
    return sealed


def _put_models(
    guard: PartitionTraining, folder: Path, blocks: Iterable[int]
) -> dict[int, SavedModel]:
    return {
        i: _put(folder, f"{i:06}", guard.models_[i], guard._marks[i].hex(), guard.key)
        for i in blocks
    }


def _put(folder: Path, name: str, model: Any, rows: str, key: bytes | str | None) -> SavedModel:
    """Write a model if it is one; return what the manifest says of it."""
    if model is None:
        return SavedModel(rows=rows, kind="empty")
    if isinstance(model, Constant):
        return SavedModel(rows=rows, kind="constant", label=write_labels([model.label])[0])
    if isinstance(model, Failed):
        return SavedModel(rows=rows, kind="failed", error=model.kind, message=model.message)
    kind, data = _dumped(model)
    if data is None:
        return SavedModel(rows=rows, kind="none")
    saved = SavedModel(rows=rows, kind=kind, file=keyed_hash(data, key, "model"))
    write_atomic(model_path(folder, name, saved), data, flush=False)
    return saved


def _dumped(model: Any) -> tuple[Literal["skops", "pickle"], bytes | None]:
    try:
        return "skops", model_bytes(model)
    except InvalidInputError:
        pass
    try:
        return "pickle", pickle.dumps(model)
    except Exception:  # functions without a name: the rows are there to fit it again
        return "pickle", None


_UNUSABLE: Any = object()


def _get_model(
    folder: Path, block: int, saved: SavedModel, key: bytes | str | None, trust_pickle: bool
) -> Any:
    """Return the model of a block; unusable if its file is not what the manifest says."""
    what = f"the model of block {block}"
    if saved.kind == "empty":
        return None
    if saved.kind == "constant":
        return Constant(read_labels([saved.label], what)[0])
    if saved.kind == "failed":
        return Failed(saved.error, saved.message)
    data = _file(folder, f"{block:06}", saved, key)
    if data is None:
        return _UNUSABLE
    try:
        return _opened(data, saved, what, trust_pickle)
    except InvalidStateError:
        return _UNUSABLE


def _file(folder: Path, name: str, saved: SavedModel, key: bytes | str | None) -> bytes | None:
    """Return the content of a model's file if it is the one that was written."""
    if saved.kind not in ("skops", "pickle"):
        return None
    try:
        data = read_limited(model_path(folder, name, saved), what="the model in", limit=_LARGEST)
    except InvalidInputError:
        return None
    return data if keyed_hash(data, key, "model") == saved.file else None


def _opened(data: bytes, saved: SavedModel, what: str, trust_pickle: bool) -> Any:
    if saved.kind == "skops":
        trust = foreign_types(data, what=what) if trust_pickle else ()
        return read_model(data, what=what, trust=trust)
    if not trust_pickle:
        raise InvalidStateError(f"{what} is a pickle, which can run any code, and was not opened")
    try:
        return pickle.loads(data)
    except Exception as error:
        raise InvalidStateError(f"{what} cannot be read: {shown(error, 120)}") from None


def _estimator(
    folder: Path, manifest: Manifest, key: bytes | str | None, trust_pickle: bool
) -> Any:
    remedy = "give estimator=, or trust_pickle=True if you trust whoever wrote the folder"
    if manifest.estimator.kind == "none":
        raise InvalidInputError("the estimator could not be saved; give estimator=")
    data = _file(folder, "estimator", manifest.estimator, key)
    if data is None:
        raise InvalidStateError("the estimator differs from the manifest; give estimator=")
    try:
        found = _opened(data, manifest.estimator, "the estimator", trust_pickle)
    except InvalidStateError as error:
        raise InvalidStateError(f"{error}; {remedy}") from None
    return None if manifest.settings.default_estimator else found


def _versions() -> dict[str, str]:
    found = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {"counterplay": __version__, "python": platform.python_version(), **found}


def _check_versions(manifest: Manifest) -> None:
    now = _versions()
    other = [name for name, version in now.items() if manifest.versions.get(name) != version]
    if other:
        was = ", ".join(f"{name} {manifest.versions.get(name, '?')}" for name in other)
        here = ", ".join(f"{name} {now[name]}" for name in other)
        warnings.warn(
            f"saved with {was}, here is {here}: a block that is fitted again may differ; give "
            "estimator= to fit all of them here",
            AssumptionWarning,
            stacklevel=4,
        )
