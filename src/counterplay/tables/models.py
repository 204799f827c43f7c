"""A fitted model, called with what it was fitted on.

Columns are matched by name with those the model was fitted on. A frame stays a frame and a sparse
matrix stays sparse; an array becomes a frame when the model knows names.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.validation import BoolArray, FloatArray
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.tables.cells import listed, shown
from counterplay.tables.labels import Labels, label_values
from counterplay.tables.table import Table


@checked
@dataclass(frozen=True, eq=False)
class FittedModel:
    """A user's fitted model with its column names and classes.

    Parameters
    ----------
    model
        The model itself.
    names
        Columns it was fitted on; None if it was fitted on an array.
    classes
        Its classes; empty for a regressor or a model that does not say.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> train = pd.DataFrame({"income": [1.0, 2.0, 3.0, 4.0], "debt": [4.0, 1.0, 3.0, 2.0]})
    >>> model = FittedModel.of(LogisticRegression().fit(train, ["no", "no", "yes", "yes"]))
    >>> model.names, model.classes
    (('income', 'debt'), ('no', 'yes'))
    >>> table = model.table(train[["debt", "income"]])  # another order
    >>> model.predict(table).tolist()
    ['no', 'no', 'yes', 'yes']

    References
    ----------
    docs/tables.md.
    """

    model: Any
    names: tuple[str, ...] | None
    classes: tuple[Any, ...]

    @classmethod
    def of(cls, model: Any) -> FittedModel:
        """Read names and classes of a fitted model; refuse what has no ``predict``."""
        if isinstance(model, FittedModel):
            return model
        if isinstance(model, type) or not callable(getattr(model, "predict", None)):
            raise InvalidInputError(f"a fitted model with predict is needed, got {shown(model)}")
        classes = _first_attribute(model, "classes_")
        values = () if classes is None else tuple(label_values(list(classes), "classes_").tolist())
        return cls(model, model_names(model), values)

    def table(self, X: Any, y: Any = None, *, what: str = "X", **given: Any) -> Table:
        """Read data for this model: its columns, by name, in its order.

        Parameters
        ----------
        X
            The data, in any container.
        y
            Labels, if any.
        what
            How messages call the data.
        given
            ``sample_weight``, ``groups``, ``extra``: as in `Table.of`.
        """
        table = Table.of(X, y, what=what, **given)
        if self.names is not None:
            names = spelt(self.model, self.names, table.names)
            table = table.select(names, extra=given.get("extra", "refuse"))
        if self.names is not None and table.container in ("texts", "arrays"):
            raise InvalidInputError(
                f"the model was fitted on the columns {listed(self.names)}; "
                f"{what} holds {table.container}"
            )
        width = _first_attribute(self.model, "n_features_in_")
        if self.names is None and table.container in ("table", "matrix"):
            if width is not None and table.width != int(width):
                raise InvalidInputError(
                    f"{what} has {table.width} columns, the model was fitted on {int(width)}"
                )
            if width is not None and table.names is not None and table.width > 1:
                warnings.warn(
                    "the model was fitted without column names: columns are taken by position; "
                    "fit it on a frame to have them matched by name",
                    AssumptionWarning,
                    stacklevel=3,
                )
        return table

    def rows(self, table: Table) -> Any:
        """Return the rows of a table in the container the model was fitted on."""
        if not isinstance(table, Table):
            raise InvalidInputError(f"a table is needed, got {shown(table)}; read it by table(X)")
        if self.names is not None and isinstance(table.rows, np.ndarray):
            if table.width != len(self.names):
                raise InvalidInputError(
                    f"the table has {table.width} columns, the model was fitted on "
                    f"{len(self.names)}: {listed(self.names)}"
                )
            return pd.DataFrame(table.rows, columns=list(self.names), index=table.index)
        if self.names is None and table.names is not None and _all_numbers(table):
            return table.numbers(missing=True)
        return table.rows

    def predict(self, table: Table) -> NDArray[Any]:
        """Return the model's answer for each row."""
        return self._call("predict", self.rows(table), len(table))

    def accepts(self, table: Table, positive: Any) -> BoolArray:
        """Return which rows the model gives the wanted class."""
        answers = self.predict(table)
        return np.fromiter((answer == positive for answer in answers.tolist()), bool, len(answers))

    def positive(self, positive: Any = None, labels: Labels | None = None) -> Any:
        """Return the wanted one of the model's two classes; ask unless they are 0/1.

        Parameters
        ----------
        positive
            The wanted class, if the user gave one.
        labels
            Labels of the data, to show how common each class is when asking.
        """
        if not self.classes:
            raise InvalidInputError(
                f"{type(self.model).__name__[:60]!r} has no classes; a fitted classifier is needed"
            )
        if len(self.classes) != 2:
            raise InvalidInputError(
                f"the model has {len(self.classes)} classes ({listed(self.classes)}); "
                "exactly two are needed"
            )
        if labels is not None:
            odd = [label for label in labels.classes if label not in self.classes]
            if odd:
                raise InvalidInputError(
                    f"the model answers {listed(self.classes)}, the labels have {listed(odd)}; "
                    "use the same coding for both"
                )
            if len(labels.classes) == 2:
                return labels.positive_class(positive)
        own = Labels(self.classes, np.arange(2), "the model")
        if positive is None and not own.says_itself:  # it has classes, but no rows to count
            one, two = (shown(label, 40) for label in self.classes)
            raise InvalidInputError(
                f"which outcome do people want? the model answers {one} or {two}; "
                f"set positive={one} or positive={two}"
            )
        return own.positive_class(positive)

    def scores(self, table: Table, positive: Any) -> FloatArray:
        """Return a score of each row that grows with acceptance."""
        rows = self.rows(table)
        sign = 1.0 if positive == self.classes[-1] else -1.0
        if hasattr(self.model, "decision_function"):
            return sign * self._call("decision_function", rows, len(table)).astype(np.float64)
        if hasattr(self.model, "predict_proba"):
            column = self.classes.index(positive)
            chances = self._call("predict_proba", rows, len(table))
            return np.asarray(chances[:, column], dtype=np.float64)
        return self.accepts(table, positive).astype(np.float64)

    def _call(self, method: str, rows: Any, n: int) -> NDArray[Any]:
        """Call the model; its own complaint becomes one sentence."""
        try:
            answer = np.asarray(getattr(self.model, method)(rows))
        except Exception as error:
            raise InvalidInputError(
                f"the model could not {method.replace('_', ' ')}: {shown(error, 160)}"
            ) from error
        if len(answer) != n:
            raise InvalidInputError(f"the model gave {len(answer)} answers for {n} rows")
        return answer


def model_names(model: Any) -> tuple[str, ...] | None:
    """Return the names of the columns a model was fitted on, None if it was fitted on an array."""
    names = _first_attribute(model, "feature_names_in_")
    if names is None and type(model).__name__ == "CatBoostClassifier":
        given = list(map(str, model.feature_names_))  # the numbers of columns for an array
        names = None if given == [str(k) for k in range(len(given))] else given
    return None if names is None else tuple(map(str, names))


def spelt(model: Any, names: tuple[str, ...], given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of a model's columns as the user spells them.

    LightGBM writes ``income_k`` for a column that was called ``income k``.
    """
    if given is None or set(names) <= set(given) or not callable(getattr(model, "get_params", 0)):
        return names
    parts = [model, *model.get_params(deep=True).values()]
    if not any(type(part).__module__.split(".")[0] == "lightgbm" for part in parts):
        return names
    known = {name.replace(" ", "_"): name for name in given}
    return tuple(name if name in given else known.get(name, name) for name in names)


def _all_numbers(table: Table) -> bool:
    return all(kind in ("number", "integer", "flag") for kind in table.kinds)


def _first_attribute(model: Any, name: str, depth: int = 0) -> Any:
    """Return an attribute of a model, or of the step or model it wraps."""
    value = getattr(model, name, None)
    if value is not None or depth > 8:
        return value
    steps = getattr(model, "steps", None)
    if isinstance(steps, list) and steps:
        order = reversed(steps) if name == "classes_" else iter(steps)
        inner = next((step for _, step in order if not isinstance(step, str)), None)
    else:
        inner = next(
            (
                found
                for part in ("estimator_", "best_estimator_", "base_estimator_", "estimator")
                if (found := getattr(model, part, None)) is not None and not isinstance(found, str)
            ),
            None,
        )
    return None if inner is None else _first_attribute(inner, name, depth + 1)
