"""What every section of the audit works on: the model, the table, the settings, the folds.

Fits are made once and kept; everything else is a pure function of what is in here, so that a stage
gives the same records in any process and on any number of workers.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.auditing.folds import Folds, inner_folds, make_folds
from counterplay.auditing.intervals import Bootstrap, Decided
from counterplay.core.seeds import derive_seed
from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.errors import CounterplayWarning, InvalidInputError
from counterplay.tables import FittedModel, Table
from counterplay.tables.cells import nearest, shown

RowsAre = Literal["heldout", "training", "unknown"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Context:
    """A model, a table with known outcomes, and the settings of an audit.

    Parameters
    ----------
    table
        Features exactly as the model is called with.
    labels
        Outcome of each row in the coding of the model.
    positive
        The wanted outcome, in the coding of the model.
    estimator
        The fitted model: ``predict``, ``classes_``, and a score if it has one.
    frame
        The whole table, columns included that the model does not use, one line per row.
    template
        Estimator that may be cloned and fitted; None if the model cannot be fitted again.
    no_refit
        Why it cannot, as a clause.
    given
        Whether a model was given; otherwise a default was trained on these rows.
    settings
        The config as plain tables.
    rows
        Whether the model was fitted on these rows.
    train
        The rows it was fitted on, and their labels, if given.
    model_key
        Identity of the model, for the store.
    seed
        Seed of folds, order and draws.
    jobs
        Workers; no number depends on it.
    notes
        What earlier sections found and later ones need.
    fits
        Models that were fitted already, for sections that need the same ones.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> frame = pd.DataFrame({"income": [1.0, 2.0, 3.0, 4.0]})
    >>> paid = np.array([0, 0, 1, 1])
    >>> context = Context(
    ...     table=Table.of(frame), labels=paid, positive=1, frame=frame,
    ...     estimator=LogisticRegression().fit(frame, paid),
    ... )
    >>> context.accepted.tolist()
    [False, False, True, True]

    References
    ----------
    "Sections", see docs/theory/27-audit.md.
    """

    table: Table
    labels: NDArray[Any]
    positive: Any
    estimator: Any
    frame: pd.DataFrame
    template: Any = None
    no_refit: str = ""
    given: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    rows: RowsAre = "unknown"
    train: tuple[Table, NDArray[Any]] | None = None
    model_key: str = ""
    seed: int = 0
    jobs: int = 1
    notes: dict[str, Any] = field(default_factory=dict)
    fits: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Refuse parts of the wrong kind, and parts that do not belong together."""
        kinds = {"table": Table, "labels": np.ndarray, "frame": pd.DataFrame, "settings": Mapping}
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                what = shown(getattr(self, name), 80)
                raise InvalidInputError(f"{name} of an audit must be a {kind.__name__}, got {what}")
        if hasattr(self.positive, "__len__") and not isinstance(self.positive, str | bytes):
            told = shown(self.positive, 80)
            raise InvalidInputError(f"positive of an audit must be one outcome, got {told}")
        if self.labels.ndim != 1:
            raise InvalidInputError("labels of an audit are one per row")
        n = len(self.table)
        if not n == len(self.labels) == len(self.frame):
            raise InvalidInputError("table, labels and frame of an audit must have the same rows")

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.table)

    def setting(self, table: str, key: str, default: Any = None) -> Any:
        """Return one setting of the config."""
        found = self.settings.get(table) or {}
        value = found.get(key) if isinstance(found, Mapping) else None
        return default if value is None else value

    @cached_property
    def wanted(self) -> BoolArray:
        """Whether each row has the wanted outcome."""
        return same_label(self.labels, self.positive)

    @cached_property
    def classes(self) -> tuple[Any, Any]:
        """The unwanted outcome, then the wanted one."""
        other = self.labels[~self.wanted]
        if not len(other) or len(other) == self.n:
            raise InvalidInputError(
                f"all {self.n} rows have outcome {shown(self.labels[0])}: nothing to measure"
            )
        return plain(other[0]), plain(self.positive)

    @cached_property
    def accepted(self) -> BoolArray:
        """Decisions of the given model."""
        return self.accepts(self.estimator, self.table)

    def accepts(self, model: Any, table: Table) -> BoolArray:
        """Return which rows a model gives the wanted outcome."""
        with quiet():
            return FittedModel.of(model).accepts(table, self.positive)

    def scores(self, model: Any, table: Table) -> FloatArray:
        """Return a score of each row that grows with acceptance."""
        fitted = FittedModel.of(model)
        with quiet():
            return fitted.scores(table, _own(fitted.classes, self.positive))

    @cached_property
    def order(self) -> IntArray:
        """The order in which stages take rows: more time takes a superset of rows."""
        rng = np.random.default_rng(derive_seed("order of rows", int(self.seed)))
        return rng.permutation(self.n)

    @cached_property
    def folds(self) -> Folds:
        """Folds of the rows."""
        return make_folds(
            self.wanted, groups=self.column("group_by"), time=self.column("time"), seed=self.seed
        )

    def inside(self, k: int) -> Folds:
        """Return the folds inside the training rows of fold ``k``."""
        key = ("inner folds", k)
        if key not in self.fits:
            self.fits[key] = inner_folds(
                self.folds, k, self.wanted, self.column("group_by"), self.column("time"), self.seed
            )
        found: Folds = self.fits[key]
        return found

    def column(self, role: str) -> NDArray[Any] | None:
        """Return the column of the table that has a role, such as ``time``; None if none has."""
        name = self.setting("columns", role)
        if isinstance(name, list | tuple):
            name = name[0] if name else None
        return None if name is None else self.values(name, f"[columns] {role}")

    def values(self, name: Any, where: str) -> NDArray[Any]:
        """Return a column of the whole table by its name."""
        if name not in self.frame.columns:
            near = nearest(str(name), map(str, self.frame.columns))
            raise InvalidInputError(f"{where} names {shown(name, 40)}, which is no column{near}")
        found: NDArray[Any] = self.frame[name].to_numpy()
        return found

    @property
    def cross_fitted(self) -> bool:
        """Whether headlines are of clones that have not seen the row they judge."""
        if self.template is None:
            return False
        return not self.given or self.rows == "training" or bool(self.notes.get("seen"))

    def fit(self, rows: IntArray, table: Table | None = None, labels: Any = None) -> Any:
        """Return a fresh clone fitted on some rows; unset seeds are 0."""
        from counterplay.poisoning.attackers.proposals import seeded

        source = self.table if table is None else table
        answers = self.labels if labels is None else labels
        if self.template is None:
            raise InvalidInputError(f"the model cannot be fitted again: {self.no_refit}")
        with quiet():
            return seeded(self.template).fit(source.take(rows), answers[rows])

    def model_of(self, k: int, j: int | None = None) -> Any:
        """Return the clone that judges fold ``k``, or fold ``j`` inside its training rows."""
        key = ("model", k, j)
        if key not in self.fits:
            rows = self.folds.train[k] if j is None else self.inside(k).train[j]
            self.fits[key] = self.fit(rows)
        return self.fits[key]

    @cached_property
    def cost_accept(self) -> FloatArray:
        """What accepting each row costs if its outcome is bad."""
        return self._costs("false_accept")

    @cached_property
    def cost_reject(self) -> FloatArray:
        """What rejecting each row costs if its outcome is good."""
        return self._costs("false_reject")

    def _costs(self, key: str) -> FloatArray:
        value = self.setting("costs", key, 1.0)
        if isinstance(value, str):
            column = pd.to_numeric(pd.Series(self.values(value, f"[costs] {key}")), errors="coerce")
            costs: FloatArray = column.to_numpy(dtype=np.float64)
        else:
            costs = np.full(self.n, float(value))
        if not np.isfinite(costs).all() or (costs < 0).any():
            raise InvalidInputError(f"[costs] {key} must be a number of at least 0 in every row")
        return costs

    @property
    def priced(self) -> bool:
        """Whether the costs of errors were set."""
        costs = self.settings.get("costs") or {}
        return "false_accept" in costs or "false_reject" in costs

    @property
    def money_unit(self) -> str:
        """Unit of money: that of the config, else errors."""
        if not self.priced:
            return "errors per 1,000 decisions"
        return f"{self.setting('costs', 'unit', 'cost units')} per 1,000 decisions"

    @property
    def money_assumes(self) -> tuple[str, ...]:
        """The settings behind money."""
        if not self.priced:
            return ("every error counts the same: set [costs]",)
        return ("costs of errors",)

    @property
    def money_words(self) -> tuple[str, ...]:
        """The same as a sentence of the page."""
        if not self.priced:
            return ("Every error counts the same: set `[costs]`.",)
        return ("Costs of errors are those of the config.",)

    def decided(self, sure: BoolArray, maybe: BoolArray | None = None, rows: Any = None) -> Decided:
        """Return decisions on some rows with their outcomes and costs."""
        at = slice(None) if rows is None else rows
        both = sure if maybe is None else maybe
        return Decided(sure, both, self.wanted[at], self.cost_accept[at], self.cost_reject[at])

    def bootstrap(self, n: int | None = None) -> Bootstrap:
        """Return the draws of rows that all quantities on ``n`` rows share."""
        return Bootstrap(self.n if n is None else n, self.seed)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a worker needs; cached arrays are computed there again."""
        names = self.__dataclass_fields__
        return {name: value for name, value in self.__dict__.items() if name in names}


def same_label(labels: NDArray[Any], label: Any) -> BoolArray:
    """Return where labels are one label; a text equals only a text."""
    return np.fromiter((value == label for value in labels.tolist()), bool, len(labels))


def plain(value: Any) -> Any:
    """Return a NumPy scalar as the Python value it stands for."""
    return value.item() if isinstance(value, np.generic) else value


def _own(classes: tuple[Any, ...], positive: Any) -> Any:
    return next((label for label in classes if label == positive), positive)


class quiet(warnings.catch_warnings):
    """Silence warnings of fits and predictions that would be repeated for every fold."""

    def __enter__(self) -> Any:
        found = super().__enter__()
        for kind in (UserWarning, FutureWarning, RuntimeWarning, CounterplayWarning):
            warnings.simplefilter("ignore", kind)
        return found
