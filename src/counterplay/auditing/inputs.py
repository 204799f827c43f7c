"""From what a user gives to what the sections work on, with every defect named before the run."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from counterplay.auditing.config import Config
from counterplay.auditing.context import Context
from counterplay.auditing.default_model import default_model
from counterplay.auditing.findings import Finding
from counterplay.auditing.guess import single_auc
from counterplay.auditing.models import AuditModel, as_audit_model, check_columns, load_model
from counterplay.auditing.outcome import Outcome, read_outcome
from counterplay.auditing.quantity import Quantity
from counterplay.auditing.record import ColumnRole, Subject
from counterplay.errors import InvalidInputError
from counterplay.tables import Table, fingerprint, read_table
from counterplay.tables.cells import listed, nearest, shown
from counterplay.tables.table import column_kind

MOST_ROWS = 500_000
_LEAK = 0.99
_FILES = {"effort": ("before", "after"), "champion": ("file",), "offers": ("file",)}


@dataclass(frozen=True, eq=False)
class Given:
    """A table as it was given: rows, name, and what was noticed while reading."""

    frame: pd.DataFrame
    name: str
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Inputs:
    """Everything that was given, read and checked.

    Parameters
    ----------
    context
        What the sections work on.
    config
        The settings.
    model
        The model.
    subject
        What the page calls it.
    findings
        What the table and the model say before any section has run.
    notes
        What was noticed while reading.
    columns
        Every column with its role.
    prints
        Fingerprints.
    seconds
        Seconds that reading took.
    """

    context: Context
    config: Config
    model: AuditModel
    subject: Subject
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    columns: tuple[ColumnRole, ...]
    prints: dict[str, str]
    seconds: float = 0.0


def read_inputs(
    model: Any,
    table: Any,
    config: Config,
    *,
    train: Any = None,
    jobs: int = 1,
    trust: Sequence[str] = (),
    trust_pickle: bool = False,
) -> Inputs:
    """Read model, table and config; raise one sentence for what cannot be used.

    Parameters
    ----------
    model
        A fitted model, a file, an import path, or None.
    table
        The rows to audit on: a frame or a file.
    config
        The settings.
    train
        The rows that the model was fitted on, if they are known.
    jobs
        Workers.
    trust
        Further types of a skops file that the user knows.
    trust_pickle
        Whether a pickle may be opened.
    """
    started = time.monotonic()
    loaded = None if model is None else load_model(model, trust=trust, trust_pickle=trust_pickle)
    given = read_rows(table)
    outcome = read_outcome(given.frame, config)
    frame = given.frame[outcome.kept].reset_index(drop=True)
    check_roles(config, frame)
    training = _training(train, config)
    features = _features(frame, config, outcome.label)
    if loaded is None:
        audited = _default(features, outcome, training, config)
    else:
        whole = frame.drop(columns=outcome.label)
        names, texts = config.model.columns, config.columns.text
        audited = as_audit_model(loaded, whole, columns=names, texts=texts)
    audited = audited.for_outcome(outcome, config.data.classes)
    context = _context(audited, frame, outcome, config, training, jobs)
    notes = (*given.notes, *_notes(given, outcome, frame, audited, config), *audited.notes)
    return Inputs(
        context=context,
        config=config,
        model=audited,
        subject=_subject(given, outcome, audited),
        findings=_findings(frame, outcome, audited, config),
        notes=notes,
        columns=_columns(frame, outcome, audited, config),
        prints=_prints(frame, outcome, audited, training),
        seconds=time.monotonic() - started,
    )


def read_rows(table: Any) -> Given:
    """Return a table from a file or a frame; a very long one is sampled by a hash of its rows."""
    if isinstance(table, str | os.PathLike):
        file = read_table(Path(table))
        frame, name, notes = file.frame, Path(table).name, file.notes
    else:
        frame, name, notes = Table.of(table, what="table").frame(), "table", ()
    frame = frame.set_axis([str(column) for column in frame.columns], axis=1)
    if len(frame) > MOST_ROWS:
        order = pd.util.hash_pandas_object(frame, index=False).to_numpy()
        chosen = np.sort(np.argsort(order, kind="stable")[:MOST_ROWS])
        notes = (
            *notes,
            f"{len(frame):,} rows: {MOST_ROWS:,} were taken, chosen by a hash of the row.",
        )
        frame = frame.iloc[chosen]
    return Given(frame.reset_index(drop=True), name[:120], tuple(notes))


def check_roles(config: Config, frame: pd.DataFrame) -> None:
    """Refuse roles, moves and costs on columns that are not there."""
    known = [str(column) for column in frame.columns]
    for key, names in config.columns.named().items():
        for name in names:
            if name not in known:
                raise InvalidInputError(f"[columns] {key} names no column{_near(name, known)}.")
    for name in config.movable:
        where = f"[movable.{name[:60]}]"
        if name not in known:
            raise InvalidInputError(f"{where} names no column{_near(name, known)}.")
        if name == config.data.label:
            raise InvalidInputError(f"{where} is the outcome: nobody can move it.")
        if name in config.columns.text:
            raise InvalidInputError(f"{where} is free text: moves are for numbers and categories.")
        if name in (*config.columns.fixed, *config.columns.id):
            raise InvalidInputError(f"{where} is fixed or an id in [columns]: it is one or other.")
    for key in ("false_accept", "false_reject"):
        cost = getattr(config.costs, key)
        if isinstance(cost, str) and cost not in known:
            raise InvalidInputError(
                f"[costs] {key} = {shown(cost, 60)} is no number and names no "
                f"column{_near(cost, known)}."
            )


def check_moves(config: Config, frame: pd.DataFrame) -> None:
    """Read the moves once, so that a mistake in them is told before the run."""
    if config.movable:
        from counterplay.strategic import Moves

        Moves.from_toml(
            config.moves_content(), reference=frame, codes=config.data.special_codes or None
        )


def _near(name: str, known: Sequence[str]) -> str:
    return nearest(name[:200], known).replace("'", "")


def _training(train: Any, config: Config) -> tuple[pd.DataFrame, Outcome] | None:
    if train is None:
        return None
    given = read_rows(train)
    outcome = read_outcome(given.frame, config)
    return given.frame[outcome.kept].reset_index(drop=True), outcome


def _features(frame: pd.DataFrame, config: Config, label: str) -> pd.DataFrame:
    """The columns that a default model may use."""
    roles = config.columns
    out = {label, *roles.id, *roles.ignore, roles.time, roles.source, roles.group_by}
    return frame[[name for name in frame.columns if name not in out]]


def _default(
    features: pd.DataFrame,
    outcome: Outcome,
    training: tuple[pd.DataFrame, Outcome] | None,
    config: Config,
) -> AuditModel:
    if not features.shape[1]:
        raise InvalidInputError("There is no column to learn from beside the outcome.")
    texts = [name for name in config.columns.text if name in features.columns]
    seed = config.run.seed
    if training is None:
        return default_model(features, outcome.values, texts=texts, seed=seed)
    rows, known = training
    check_columns(rows, list(features.columns))
    return default_model(rows[list(features.columns)], known.values, texts=texts, seed=seed)


def _context(
    model: AuditModel,
    frame: pd.DataFrame,
    outcome: Outcome,
    config: Config,
    training: tuple[pd.DataFrame, Outcome] | None,
    jobs: int,
) -> Context:
    """Tie everything together in the coding of a two-class model."""
    check_moves(config, frame)
    two = len(model.classes) == 2 and len(model.positive) == 1
    estimator, why = model.estimator, model.why_not
    if not two:
        from counterplay.auditing.wrappers import TwoClasses

        estimator = TwoClasses(model.estimator, model.positive, model.columns)
        why = why or "the model has more than two classes"
    learned = training is not None or config.data.rows == "heldout"
    given = model.kind != "default" or training is not None
    return Context(
        table=_table(model, frame),
        labels=_labels(model, outcome, two),
        positive=model.positive[0] if two else 1,
        estimator=estimator,
        frame=frame,
        template=None if why else _template(estimator),
        no_refit=why,
        given=given,
        settings=settings_of(config),
        rows="heldout" if learned else config.data.rows if given else "training",
        train=None
        if training is None
        else (_table(model, training[0]), _labels(model, training[1], two)),
        model_key=model.digest,
        seed=config.run.seed,
        jobs=jobs,
    )


def _template(estimator: Any) -> Any:
    from sklearn.base import clone

    try:
        return clone(estimator)
    except (TypeError, RuntimeError) as error:
        raise InvalidInputError(f"The model cannot be cloned: {shown(error, 160)}") from None


def _table(model: AuditModel, frame: pd.DataFrame) -> Table:
    check_columns(frame, model.columns)
    if model.texts:
        return Table.of([str(text) for text in model.rows(frame)], what="table")
    return Table.of(frame[list(model.columns)], what="table")


def _labels(model: AuditModel, outcome: Outcome, two: bool) -> Any:
    if not two:
        return outcome.wanted.astype(np.int64)
    known = [value for value in outcome.classes if value not in model.answers]
    if known:
        raise InvalidInputError(
            f"The training rows have outcomes that the table lacks: {listed(known)}."
        )
    return np.array([model.answers[value] for value in outcome.values])


def settings_of(config: Config) -> dict[str, Any]:
    """Return the config as plain tables: unset values left out, files as they can be opened."""
    names = (
        "data", "columns", "moves", "movable", "effort", "costs", "planted", "symmetry", "sites",
        "champion", "offers", "section",
    )  # fmt: skip
    tables: dict[str, Any] = {}
    for name, values in config.part(names).items():
        found = {key: value for key, value in values.items() if value not in (None, "")}
        for key in _FILES.get(name, ()):
            if key in found:
                found[key] = str(config.path(found[key]))
        if name == "sites" and "files" in found:
            found["files"] = [str(config.path(file)) for file in found["files"]]
        tables[name] = found
    return tables


def _notes(
    given: Given, outcome: Outcome, frame: pd.DataFrame, model: AuditModel, config: Config
) -> list[str]:
    notes = []
    left_out = len(given.frame) - len(frame)
    if left_out:
        notes.append(f"{left_out:,} rows have no outcome and were left out.")
    named = {name for names in config.columns.named().values() for name in names}
    used = {outcome.label, *model.columns, *named, *config.movable}
    used |= {
        v for v in (config.costs.false_accept, config.costs.false_reject) if isinstance(v, str)
    }
    extra = [str(name) for name in frame.columns if name not in used]
    if extra:
        notes.append(f"Columns that the model does not use were left out: {listed(extra, 8)}.")
    holes = int(frame[list(model.columns)].isna().any(axis=1).sum())
    if holes:
        notes.append(
            f"{holes:,} rows have missing values; they are kept, the model deals with them itself."
        )
    return notes


def _findings(
    frame: pd.DataFrame, outcome: Outcome, model: AuditModel, config: Config
) -> tuple[Finding, ...]:
    """What makes other numbers untrustworthy before any section has run."""
    found = []
    if not config.confirmed and any(g.startswith("positive:") for g in config.guesses):
        wanted = ", ".join(map(str, outcome.positive))
        found.append(
            Finding(
                name="wanted_not_confirmed",
                severity="blocking",
                sentence=f"Nobody has confirmed that {outcome.label} = {wanted} is what people "
                "want: the other way round every number changes its meaning.",
            )
        )
    for name in () if model.texts else model.columns:
        area = single_auc(frame[name], outcome.wanted)
        if area > _LEAK:
            found.append(
                Finding(
                    name="leak",
                    severity="blocking",
                    sentence=f"{name} alone gives the outcome: is it known before the decision?",
                    quantity=Quantity.certain(area, unit="AUC", n=len(frame)),
                )
            )
    return tuple(found[:20])


def _subject(given: Given, outcome: Outcome, model: AuditModel) -> Subject:
    good = int(outcome.wanted.sum())
    return Subject(
        model=model.name,
        table=given.name,
        label=outcome.label[:400],
        wanted=", ".join(str(value)[:200] for value in outcome.positive[:20]),
        n=len(outcome.wanted),
        good=good,
        bad=len(outcome.wanted) - good,
        given=model.kind != "default",
    )


def _columns(
    frame: pd.DataFrame, outcome: Outcome, model: AuditModel, config: Config
) -> tuple[ColumnRole, ...]:
    roles = {name: key for key, names in config.columns.named().items() for name in names}
    roles |= dict.fromkeys(config.movable, "movable") | {outcome.label: "outcome"}
    found = []
    for name in list(frame.columns)[:9_000]:
        role = roles.get(name, "fixed" if name in model.columns else "not used")
        missing = int(frame[name].isna().sum())
        kind = column_kind(frame[name])
        found.append(ColumnRole(name=str(name)[:400], role=role, kind=kind, missing=missing))
    return tuple(found)


def _prints(
    frame: pd.DataFrame,
    outcome: Outcome,
    model: AuditModel,
    training: tuple[pd.DataFrame, Outcome] | None,
) -> dict[str, str]:
    def of(rows: pd.DataFrame) -> str:
        return fingerprint(rows[[*model.columns, outcome.label]]).ordered

    prints = {"model": model.digest, "table": of(frame)}
    return prints | ({} if training is None else {"training rows": of(training[0])})


def with_run(config: Config, *, seed: int | None = None, time: float | None = None) -> Config:
    """Return the config with another seed or time."""
    changes: dict[str, Any] = {}
    if seed is not None:
        changes["seed"] = int(seed)
    if time is not None:
        changes["time"] = float(time)
    return msgspec.structs.replace(config, run=msgspec.structs.replace(config.run, **changes))


def with_data(config: Config, *, label: str | None, positive: Any) -> Config:
    """Return the config with label and wanted class from the call."""
    changes: dict[str, Any] = {}
    if label is not None:
        changes["label"] = str(label)
    if positive is not None:
        wanted = tuple(positive) if isinstance(positive, list | tuple | set) else positive
        changes["positive"] = wanted.item() if isinstance(wanted, np.generic) else wanted
    return msgspec.structs.replace(config, data=msgspec.structs.replace(config.data, **changes))
