"""Doors of counterplay.auditing."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from counterplay.auditing import Context, audit
from counterplay.auditing.config import Config
from counterplay.auditing.config_text import config_text
from counterplay.auditing.guess import guess_table
from counterplay.auditing.outcome import read_outcome
from counterplay.auditing.plan import run_plan
from counterplay.auditing.roles import check_moves, check_roles
from counterplay.auditing.sections import planted
from counterplay.tables import Labels, Table

from .animals import frame, labels

MODEL = LogisticRegression().fit(frame(), labels())
_TIMES = 6  # the zoo is small, an audit needs a hundred rows
MOVES = {
    "data": {"rows": "heldout"},
    "movable": {"income": {"direction": "up", "cost": 1.0, "per": "unit"}},
    "effort": {"budgets": [0.5]},
}


def _named(table: Table) -> pd.DataFrame:
    """The rows with the names of the columns, also those of an array."""
    held = table.frame()
    names = list(held.columns) if table.names or table.width != 3 else ["income", "debt", "age"]
    return held.set_axis([str(name) for name in names], axis=1)


def _rows(X: Any, y: Any) -> pd.DataFrame:
    """The table with its outcome, several times."""
    part = _named(Table.of(X, y)).assign(outcome=Labels.of(y).values)
    return pd.concat([part] * _TIMES, ignore_index=True)


def _audited(X: Any, y: Any, model: Any = MODEL, section: str = "honest", **more: Any) -> Any:
    rows = _rows(X, y)
    wanted = np.unique(Labels.of(y).values.astype(str))[-1]
    found = audit(model, rows, label="outcome", positive=wanted, sections=[section], **more)
    assert not any(part.failed for part in found.record.absent), found.record.absent
    return {name: (q.value, q.low, q.high) for name, q in found.quantities.items()}


def _planted(X: Any, y: Any) -> Any:
    """The attack on three people instead of twelve."""
    with patch.object(planted, "TARGETS", 3):
        return _audited(X, y, section="planted")


def _trained(X: Any, y: Any) -> Any:
    """Without a model a dozen are fitted: of thousands of columns a hundred are enough here."""
    wide = isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] > 1000
    return _audited(X[:, :100] if wide else X, y, model=None)


def _against(X: Any, y: Any) -> Any:
    """The table as the rows that the model was fitted on."""
    tame = _rows(frame(), labels())
    found = audit(MODEL, tame, label="outcome", positive=1, train=_rows(X, y), sections=["honest"])
    return {name: (q.value, q.low, q.high) for name, q in found.quantities.items()}


def _checked(X: Any, y: Any) -> Any:
    """What ``audit check`` does with a table."""
    rows = _rows(X, y)
    wanted = np.unique(Labels.of(y).values.astype(str))[-1]
    config = Config.of({**MOVES, "data": {"label": "outcome", "positive": wanted}})
    outcome = read_outcome(rows, config)
    check_roles(config, rows)
    check_moves(config, rows[outcome.kept])
    return int(outcome.wanted.sum())


def _context(X: Any, y: Any) -> Any:
    """A context made by hand, as a section of another package would in its tests."""
    held, given = _named(Table.of(X, y)), Labels.of(y)
    context = Context(
        table=Table.of(held, y), labels=given.values, positive=given.values[-1], estimator=MODEL,
        frame=held.reset_index(drop=True), rows="heldout",
    )  # fmt: skip
    found = run_plan(context, sections=["honest"])
    return {
        key: (q.value, q.low, q.high)
        for result in found.results.values()
        for key, q in result.quantities.items()
    }


DOORS = {
    "audit": _audited,
    "audit:gaming": lambda X, y: _audited(X, y, section="gaming", config=MOVES),
    "audit:planted": _planted,
    "audit:no model": _trained,
    "audit:train": _against,
    "audit:init": lambda X, y: config_text(_rows(X, y), guess_table(_rows(X, y))),
    "audit:check": _checked,
    "Context": _context,
}
NOT_TABLES: dict[str, str] = {}
