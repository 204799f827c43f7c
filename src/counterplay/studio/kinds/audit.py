"""An audit as a study: a table and its settings are handed in, a worker runs it, the page is kept.

The inputs are part of the configuration, so their hashes are in the log and the audit can be run
again from an export. The work is that of ``counterplay audit``: finished batches are stored, so
that a worker that takes over goes on where the other was killed, and the content has the same hash.
Source: docs/theory/28-studio.md, "Durable jobs".
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import importlib
import json
import shutil
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from counterplay.core.exports import Event
from counterplay.core.files import read_limited
from counterplay.errors import InvalidInputError
from counterplay.studio.errors import KeyReuse, Refused
from counterplay.studio.kinds import FileName, NewEvent, typed
from counterplay.studio.kinds.audit_sections import announced

if TYPE_CHECKING:
    from counterplay.studio.store import Store
    from counterplay.studio.store.base import JobRow

SERVER = "studio"
MOST_BYTES = 20 * 2**20
MOST_ROWS, MOST_COLUMNS = 200_000, 500
MODELS = (".onnx", ".skops")
_MAGIC = {
    b"PK": "a zip archive", b"\x80\x02": "a pickle", b"\x80\x03": "a pickle",
    b"\x80\x04": "a pickle", b"\x80\x05": "a pickle", b"\x1f\x8b": "a compressed file",
    b"PAR1": "a Parquet file", b"\xd0\xcf": "an old Office file",
}  # fmt: skip
_ONLY = (
    "Only tables (.csv) and configs (.toml) can be uploaded. Models can run code: the operator "
    "puts them into DATA/models."
)
_ONLY_MODELS = "Only .skops and .onnx files can be uploaded as models: a pickle runs code."


class Fields(msgspec.Struct, frozen=True):
    """What an audit's TOML file may say."""

    kind: str | None = None
    name: str | None = None
    table: FileName | None = None
    config: FileName | None = None
    model: FileName | None = None
    sections: list[str] | None = None
    locale: str | None = None


@dataclass
class AuditState:
    """What happened to an audit."""

    requested: bool = False
    finished: dict[str, Any] | None = None


class AuditKind:
    """Rules of an audit; see :class:`counterplay.studio.kinds.Kind`."""

    name = "audit"
    fold_version = 1

    def read_config(self, raw: dict[str, Any], folder: Path) -> dict[str, Any]:
        """Read the table and the settings beside a TOML file."""
        raw = typed(raw, Fields, "an audit")
        if not raw.get("table"):
            raise InvalidInputError("an audit needs table = ...")
        files = {"table": (Path(str(raw["table"])).name, _read(folder / str(raw["table"])))}
        if raw.get("config"):
            files["config"] = (Path(str(raw["config"])).name, _read(folder / str(raw["config"])))
        return audit_config(files, model=raw.get("model"), sections=raw.get("sections"))

    def begin(self, config: dict[str, Any]) -> AuditState:
        """Return the state of an empty stream."""
        return AuditState()

    def apply(self, config: dict[str, Any], state: AuditState, event: Event) -> AuditState:
        """Take an event."""
        if event.kind == "audit.requested":
            state.requested = True
        elif event.kind == "audit.finished" and event.body is not None:
            state.finished = event.body
        return state

    def check(self, config: dict[str, Any], state: AuditState, event: NewEvent) -> None:
        """Refuse what only the server writes."""
        if event.kind.startswith("audit.") and event.actor != SERVER:
            raise Refused("An audit takes no events from outside.")

    def follow(self, config: dict[str, Any], state: AuditState, event: Event) -> Sequence[NewEvent]:
        """Note what was handed in when the study opens."""
        if event.kind != "study.opened" or state.requested:
            return []
        text = config["files"].get("config", {"text": ""})["text"]
        body = {"inputs": config["inputs"], "config": text}
        return [NewEvent("audit.requested", body, "requested", SERVER)]

    def export(self, config: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return what line 1 of an export states."""
        return "audit", config

    def work(
        self, store: Store, job: JobRow, beat: Callable[[dict[str, Any]], bool]
    ) -> dict[str, Any]:
        """Run an audit; called by a worker, again if the worker before was killed."""
        study = store.study(str(job.args["study"]))
        config = store.config(study)
        home = store.settings.data / "work" / f"audit-{study.public_id}"
        with batches_on(store.settings.ray) as jobs:
            done = run(
                config, home, store.settings.data / "models", beat, jobs=jobs,
                uploads=store.settings.allow_model_upload,
            )  # fmt: skip
        artifacts = {}
        for path in sorted(done.iterdir()):
            if path.suffix in (".html", ".json", ".skops", ".onnx", ".joblib"):
                row = store.add_artifact(
                    path.name, _MEDIA.get(path.suffix, "application/octet-stream"),
                    path.read_bytes(), study=study, job=job.id,
                )  # fmt: skip
                artifacts[path.name] = row.sha256
        record = json.loads((done / "audit.json").read_text(encoding="utf-8"))
        record.pop("making", None)
        body = {"content_sha256": record["content_sha256"], "record": record,
                "gates": record.get("gates", []), "artifacts": _stable(artifacts)}  # fmt: skip
        event = NewEvent("audit.finished", body, "finished", SERVER)
        with contextlib.suppress(KeyReuse):  # another worker told it already
            store.append_now(store.stream_of(study), event, expected=None)
        shutil.rmtree(home, ignore_errors=True)
        return {"content_sha256": record["content_sha256"], "study": study.public_id}


_MEDIA = {".html": "text/html; charset=utf-8", ".json": "application/json"}


def audit_config(
    files: dict[str, tuple[str, bytes]],
    *,
    model: str | None = None,
    sections: Sequence[str] | None = None,
    uploads: bool = False,
) -> dict[str, Any]:
    """Return the configuration of an audit; files that are not plain tables are refused.

    Parameters
    ----------
    files:
        ``table``, ``config`` and ``model``, each with its name and content.
    model:
        Name of a model in the operator's folder, None for a default that is trained.
    sections:
        Sections to run; all that have their inputs by default.
    uploads:
        Whether ``files`` may hold a model.
    """
    from counterplay.auditing.api import check_sections

    try:
        check_sections(sections)
    except InvalidInputError as error:
        raise Refused(str(error), "sections") from None
    told: dict[str, Any] = {
        "inputs": {name: hashlib.sha256(data).hexdigest() for name, (_, data) in files.items()},
        "files": {
            name: {"name": given, "text": checked_text(given, data, name)}
            for name, (given, data) in files.items()
            if name != "model"
        },
        "model": model,
        "sections": None if sections is None else list(sections),
    }
    if "config" in files:
        _check_settings(told["files"]["config"]["text"])
    _check_model(model)
    if "model" in files:
        given, data = files["model"]
        if not uploads:
            raise Refused(_ONLY, "model_file")
        check_model_file(given, data)
        told["files"]["model"] = {"name": given, "base64": base64.b64encode(data).decode()}
    return told


def check_model_file(given: str, data: bytes) -> None:
    """Refuse an upload that is no model, or names a type or an operator that is not trusted."""
    suffix = Path(given).suffix
    if suffix not in MODELS:
        raise Refused(_ONLY_MODELS, "model_file")
    if len(data) > MOST_BYTES:
        raise Refused("The file has more than 20 MB.", "model_file")
    try:
        if suffix == ".onnx":
            from counterplay.auditing.onnx_files import check_onnx

            check_onnx(data, given[:80])
            return
        from counterplay.tables.model_files import foreign_types

        foreign = foreign_types(data, what=given[:80])
    except InvalidInputError as error:
        raise Refused(str(error), "model_file") from None
    if foreign:
        raise Refused(
            f"{given[:80]} contains {foreign[0][:120]}, which is not on the trusted list.",
            "model_file",
        )


def checked_text(given: str, data: bytes, what: str) -> str:
    """The text of an upload: looked at by its content, not by its name."""
    if not given.lower().endswith(".csv" if what == "table" else ".toml"):
        raise Refused(_ONLY, what)
    for magic, name in _MAGIC.items():
        if data.startswith(magic):
            raise Refused(f"{given[:80]} is {name}. {_ONLY}", what)
    if len(data) > MOST_BYTES:
        raise Refused("The file has more than 20 MB.", what)
    if b"\0" in data:
        raise Refused(f"{given[:80]} is not a text file. {_ONLY}", what)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Refused(f"Line {line} of {given[:80]} is not UTF-8.", what) from None
    if what == "table":
        _check_table(text)
    else:
        try:
            tomllib.loads(text) if len(data) <= 2**20 else _too_long(what)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise Refused(f"{given[:80]} cannot be read: {str(error)[:200]}", what) from None
    return text


def _check_table(text: str) -> None:
    head = text[: 2**20].split("\n", 1)[0]
    columns = 1 + max(head.count(","), head.count(";"), head.count("\t"))
    if columns > MOST_COLUMNS or len(head) >= 2**20:
        raise Refused(f"The table has more than {MOST_COLUMNS} columns.", "table")
    if text.count("\n") > MOST_ROWS + 1:
        raise Refused(f"The table has more than {MOST_ROWS:,} rows.", "table")


def _check_model(model: str | None) -> None:
    if model is not None and (Path(model).name != model or Path(model).suffix not in MODELS):
        raise InvalidInputError("a model is the name of a .skops or .onnx file in DATA/models")


def _check_settings(text: str) -> None:
    """Refuse settings that are wrong, or that would make the worker read files of the server."""
    from counterplay.auditing.config import Config

    try:
        named = Config.of(tomllib.loads(text)).named_files
    except InvalidInputError as error:
        raise Refused(str(error), "config") from None
    if named:
        raise Refused(
            f"A config that is handed in cannot name files ({named[0]}): only the table comes "
            "with it.",
            "config",
        )


def _too_long(what: str) -> None:
    raise Refused("The config has more than 1 MB.", what)


@contextlib.contextmanager
def batches_on(address: str | None) -> Iterator[int]:
    """Send batches of audits inside the block to a Ray cluster; yield how many jobs to ask for."""
    if address is None:
        yield 1
        return
    from joblib import parallel_config

    from counterplay.core.clusters import connected

    with connected(address):
        register: Any = importlib.import_module("ray.util.joblib").register_ray
        register()
        with parallel_config(backend="ray"):
            yield -1


def run(
    config: dict[str, Any],
    home: Path,
    models: Path,
    beat: Callable[[dict[str, Any]], bool],
    *,
    jobs: int = 1,
    uploads: bool = False,
) -> Path:
    """Run the audit of a configuration in a folder; what is stored there already is kept."""
    from counterplay.auditing.api import run_audit
    from counterplay.auditing.config import Config
    from counterplay.auditing.inputs import read_inputs

    _check_model(config["model"])  # an imported study was not checked when it was made
    if "config" in config["files"]:
        _check_settings(config["files"]["config"]["text"])
    home.mkdir(parents=True, exist_ok=True)
    paths = {}
    for name, file in config["files"].items():
        paths[name] = home / Path(file["name"]).name
        if name == "model":
            paths[name].write_bytes(_uploaded(file, uploads))
        else:
            paths[name].write_bytes(file["text"].encode())
    settings = Config.of(paths.get("config"))
    model = paths.get("model")
    if config["model"] is not None:
        model = models / config["model"]
    inputs = read_inputs(model, paths["table"], settings, jobs=jobs)
    stages: dict[str, dict[str, Any]] = {}
    found_so_far: list[dict[str, Any]] = []
    begun: dict[str, float] = {}
    last = time.monotonic()

    def progress(text: str, done: int, of: int) -> None:
        nonlocal last
        name, now = text[:200], time.monotonic()
        used = now - begun.setdefault(name, last)  # its first batch ran since the last word
        last = now
        stages[name] = {"done": int(done), "of": int(of), "used": round(used, 1)}
        if done:
            stages[name]["planned"] = round(used * of / done, 1)
        tell()

    def tell() -> None:
        listed = [{"name": k, **v} for k, v in stages.items()]
        if not beat({"stages": listed[-40:], "findings": found_so_far}):
            raise Lost

    def finished(title: str, sentences: list[str]) -> None:
        found_so_far.append({"title": title[:200], "sentences": sentences[:5]})
        tell()

    found = run_audit(
        inputs,
        sections=announced(config["sections"], finished),
        progress=progress,
        store=home / "audit.sqlite",
        judge_gates=settings.confirmed,
    )
    return _written(found, home / "out")


def _uploaded(file: dict[str, Any], uploads: bool) -> bytes:
    """The content of a model that came with an audit, looked at again: it may be imported."""
    if not uploads:
        raise InvalidInputError(
            "this audit brings its model; start the studio with --allow-model-upload"
        )
    try:
        data = base64.b64decode(str(file["base64"]), validate=True)
    except binascii.Error:
        raise InvalidInputError("the model of this audit is not base64") from None
    check_model_file(str(file["name"]), data)
    return data


class Lost(BaseException):
    """Another worker has the job; sections may not catch this."""


def _written(found: Any, folder: Path) -> Path:
    found.write(folder)
    return folder


def _stable(artifacts: dict[str, str]) -> dict[str, str]:
    """Artifacts by name; pages and records hold times, so only models have a stable hash."""
    return {k: v for k, v in artifacts.items() if not k.endswith((".html", ".json"))}


def _read(path: Path) -> bytes:
    return read_limited(path, what=path.name[:80], limit=MOST_BYTES)


KIND = AuditKind()
