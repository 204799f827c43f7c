"""Applicants' features at the door: columns matched by name, as numbers; labels; prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from counterplay.core.validation import BoolArray, FloatArray, array_fault
from counterplay.errors import InvalidInputError
from counterplay.tables import FittedModel, Labels, Table
from counterplay.tables.cells import listed, shown
from counterplay.tables.models import model_names
from counterplay.tables.table import match_columns

Names = tuple[str, ...] | None
LARGEST = 1e120  # efforts are added up as squares


def numbers(table: Table) -> FloatArray:
    """Return the rows of a table as finite numbers that can be squared."""
    if table.container == "arrays":
        raise InvalidInputError(
            f"{table.what} has {table.rows.ndim} axes; one line of features per row is needed"
        )
    rows = table.numbers()
    check_scale(rows, table.what)
    return rows


def check_scale(rows: FloatArray, what: str = "X") -> None:
    """Raise if a number is too large to be squared."""
    largest = float(np.abs(rows).max(initial=0.0))
    if largest > LARGEST:
        raise InvalidInputError(
            f"{what} has numbers as large as {largest:.3g}, too large to be squared; "
            "use other units"
        )


def read_points(X: Any, names: Names = None, what: str = "X") -> FloatArray:
    """Return a user's rows as finite numbers, columns in the order of ``names``.

    Examples
    --------
    >>> import pandas as pd
    >>> read_points(pd.DataFrame({"debt": [1.0], "income": [2.0]}), ("income", "debt"))
    array([[2., 1.]])
    """
    return numbers(Table.of(X, columns=names, what=what))


def read_labels(y: Any, rows: int, positive: Any = None, what: str = "y") -> BoolArray:
    """Return which labels are the wanted one; all may be alike if it is clear which that is.

    Examples
    --------
    >>> read_labels([1, 1], 2), read_labels(["bad", "good"], 2, "good")
    (array([ True,  True]), array([False,  True]))
    """
    if positive is None and isinstance(y, np.ndarray) and y.shape == (rows,) and _is_plain(y):
        return y.astype(np.bool_)  # the usual case, without a look at each label
    return wanted_rows(Labels.of(y, rows=rows, what=what), positive)


def _is_plain(y: NDArray[Any]) -> bool:
    return y.dtype.kind == "b" or (y.dtype.kind in "iu" and bool(np.isin(y, (0, 1)).all()))


def wanted_rows(labels: Labels, positive: Any = None) -> BoolArray:
    """Return which labels are the wanted one; all may be alike if it is clear which that is."""
    if len(labels.classes) == 1:
        label = labels.classes[0]
        if positive is None and (isinstance(label, str) or label not in (0, 1)):
            labels.positive_class()  # asks
        same = label == (1 if positive is None else positive)
        return np.full(len(labels.codes), bool(same))
    return labels.wanted(positive) > 0


def read_costs(costs: ArrayLike | None, names: Names) -> FloatArray | None:
    """Return prices in the order of ``names``; a Series or dict of names is matched by name.

    Examples
    --------
    >>> import pandas as pd
    >>> read_costs(pd.Series({"debt": 3.0, "income": 1.0}), ("income", "debt"))
    array([1., 3.])
    """
    if costs is None:
        return None
    if isinstance(costs, Mapping):
        costs = pd.Series(dict(costs), dtype=object)
    keys = list(costs.index) if isinstance(costs, pd.Series) else []
    if fault := array_fault(costs, kinds="biuf"):
        raise InvalidInputError(f"costs must be one number per feature: {fault}")
    prices: FloatArray = np.asarray(costs, dtype=np.float64)
    if not any(isinstance(key, str) for key in keys):
        return prices
    if names is None:
        raise InvalidInputError(
            f"costs names its features ({listed(keys)}), but neither X nor the model has column "
            "names; pass X as a frame, or costs as an array in the order of the columns"
        )
    if len(set(keys)) < len(keys):
        raise InvalidInputError("costs names a feature more than once")
    return prices[match_columns([str(key) for key in keys], names, "costs")]


def named(rows: FloatArray, names: Names) -> Any:
    """Return the rows as a frame with these column names, as they are if there are none."""
    return rows if names is None else pd.DataFrame(rows, columns=list(names))


def common_names(models: Sequence[Any]) -> Names:
    """Return the names of the first model that has some."""
    return next((names for names in map(model_names, models) if names is not None), None)


def column_order(model: Any, names: Names) -> Any:
    """Return an index that puts a model's columns into the order of ``names``."""
    own = model_names(model)
    if own is None or names is None:
        return slice(None)
    return match_columns(own, names, type(model).__name__)


class ByName:
    """A fitted classifier that takes arrays with columns in the order of ``names``."""

    def __init__(self, model: Any, names: Names) -> None:
        self.fitted = FittedModel.of(model)
        self.names = None if self.fitted.names is None else names
        self.classes_ = self.fitted.classes

    def predict(self, rows: FloatArray) -> NDArray[Any]:
        """Decide on rows of an array."""
        return self.fitted.predict(self.fitted.table(named(rows, self.names)))


def accepted_class(models: Sequence[Any], positive: Any = None) -> Any:
    """Return the wanted class of classifiers that share their classes; ask unless it is clear."""
    if not isinstance(models, list | tuple):
        raise InvalidInputError(f"a list of fitted classifiers is needed, got {shown(models)}")
    known = [fitted for fitted in map(FittedModel.of, models) if fitted.classes]
    if not known:
        return 1 if positive is None else positive
    wanted = {shown(fitted.positive(positive)): fitted.positive(positive) for fitted in known}
    if len(wanted) > 1:
        raise InvalidInputError(f"the classifiers have different classes: {listed(list(wanted))}")
    return next(iter(wanted.values()))


def read_sample(
    estimator: Any, X: Any, y: Any, sample_weight: Any = None
) -> tuple[FloatArray, BoolArray, FloatArray]:
    """Return rows, which labels are the wanted one, and weights, for the ``fit`` of a classifier.

    Sets ``classes_`` (the wanted class last) and ``positive_``.
    """
    from sklearn.utils.multiclass import type_of_target
    from sklearn.utils.validation import _check_sample_weight

    if isinstance(y, pd.Series | pd.Index | pd.DataFrame | pd.api.extensions.ExtensionArray):
        y = Labels.of(y).values
    rows, labels = validated(estimator, _frame_of_numbers(X), y)
    kind = translated(type_of_target, labels, input_name="y", raise_unknown=True)
    classes = np.unique(labels)
    if kind != "binary" or classes.size > 2:
        raise InvalidInputError(
            f"Only binary classification is supported. The type of the target is {kind}."
        )
    if classes.size < 2:
        raise InvalidInputError("y contains only one class; two are needed")
    known = Labels.of(labels)
    positive = known.position(known.positive_class(estimator.positive))
    estimator.classes_ = classes[[1 - positive, positive]]
    estimator.positive_ = known.classes[positive]
    weights = translated(
        _check_sample_weight, sample_weight, rows, dtype=np.float64, ensure_non_negative=True
    )
    if not weights.sum() > 0:
        raise InvalidInputError("sample_weight is zero for every row")
    return rows, known.codes == positive, weights


def read_rows(estimator: Any, X: Any) -> FloatArray:
    """Return the rows of ``X`` for a fitted classifier, its columns by name."""
    rows: FloatArray = validated(
        estimator, _frame_of_numbers(X, model_names(estimator)), reset=False
    )
    return rows


def validated(estimator: Any, *data: Any, dtype: Any = np.float64, reset: bool = True) -> Any:
    """Run scikit-learn's checks of an estimator's data; its complaints are ours."""
    from sklearn.utils.validation import validate_data

    return translated(validate_data, estimator, *data, dtype=dtype, reset=reset)


def translated(function: Any, *arguments: Any, **options: Any) -> Any:
    """Call a function of scikit-learn; its complaint becomes one sentence of ours."""
    try:
        return function(*arguments, **options)
    except InvalidInputError:
        raise
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        message = " ".join(str(error).split())
        raise InvalidInputError(message if len(message) <= 300 else message[:297] + "...") from None


def _frame_of_numbers(X: Any, names: Names = None) -> Any:
    """Return a frame as numbers with its columns in order; arrays and matrices as they are."""
    if X is None or isinstance(X, np.ndarray) or hasattr(X, "tocsr"):
        return X
    table = Table.of(X, columns=names)
    if isinstance(X, list | tuple) or table.container != "table":
        return X
    return named(table.numbers(), table.names)
