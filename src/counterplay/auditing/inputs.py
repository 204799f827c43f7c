"""From what a user gives to what the sections work on, with every defect named before the run."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from counterplay.auditing.config import Config
from counterplay.auditing.context import Context
from counterplay.auditing.default_model import default_model
from counterplay.auditing.described import (
    first_findings,
    notes_of,
    prints_of,
    roles_of,
    subject_of,
)
from counterplay.auditing.findings import Finding
from counterplay.auditing.models import AuditModel, as_audit_model, check_columns, load_model
from counterplay.auditing.outcome import Outcome, read_outcome
from counterplay.auditing.record import ColumnRole, Subject
from counterplay.auditing.roles import check_moves, check_roles
from counterplay.auditing.settings import settings_of
from counterplay.errors import InvalidInputError
from counterplay.tables import Table, read_table
from counterplay.tables.cells import listed, shown

MOST_ROWS = 500_000


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
    out = len(given.frame) - len(frame)
    notes = (*given.notes, *notes_of(out, outcome, frame, audited, config), *audited.notes)
    return Inputs(
        context=context,
        config=config,
        model=audited,
        subject=subject_of(given.name, outcome, audited),
        findings=first_findings(frame, outcome, audited, config),
        notes=notes,
        columns=roles_of(frame, outcome, audited, config),
        prints=prints_of(frame, outcome, audited, training),
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
    check_moves(config, frame, None if training is None else training[0])
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
