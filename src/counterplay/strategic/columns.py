"""Columns are matched by name: a frame in another order is put right, a renamed column is refused.

Positions count only where one of the two sides has no names (arrays, models fitted on arrays).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.validation import BoolArray, FloatArray, check_float_array
from counterplay.errors import InvalidInputError
from counterplay.strategic.reach_linear import unwrap

Names = tuple[str, ...] | None


def column_names(X: Any) -> Names:
    """Return the names of a frame's columns; None for arrays and for frames without names."""
    labels = list(getattr(X, "columns", ()))
    return tuple(map(str, labels)) if any(isinstance(label, str) for label in labels) else None


def model_names(model: Any) -> Names:
    """Return the names of the columns a model was fitted on, None if it was fitted on an array."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:  # a pipeline that begins with "passthrough" has none of its own
        steps, final = unwrap(model)
        names = getattr([*steps, final][0], "feature_names_in_", None)
    return None if names is None else tuple(map(str, names))


def common_names(models: Sequence[Any]) -> Names:
    """Return the names of the first model that has some."""
    return next((names for names in map(model_names, models) if names is not None), None)


def column_order(model: Any, names: Names) -> Any:
    """Return an index that puts a model's columns into the order of ``names``."""
    own = model_names(model)
    if own is None or names is None:
        return slice(None)
    return positions(own, names, type(model).__name__)


class ByName:
    """A fitted classifier that takes arrays with columns in the order of ``names``."""

    def __init__(self, model: Any, names: Names) -> None:
        self.model, self.names, self.own = model, names, model_names(model)
        self.classes_ = getattr(model, "classes_", ())

    def predict(self, rows: FloatArray) -> Any:
        """Decide on rows of an array."""
        if self.own is None:
            return self.model.predict(rows)
        return self.model.predict(named(aligned_rows(named(rows, self.names), self.own), self.own))


def aligned_rows(X: ArrayLike, names: Names, what: str = "X") -> FloatArray:
    """Return the rows of ``X`` as finite floats, columns in the order of ``names``.

    Examples
    --------
    >>> import pandas as pd
    >>> aligned_rows(pd.DataFrame({"debt": [1.0], "income": [2.0]}), ("income", "debt"))
    array([[2., 1.]])
    """
    given = column_names(X)
    rows = check_float_array(X, what, ndim=2)
    if names is None:
        return rows
    if given is not None:
        return np.ascontiguousarray(rows[:, positions(given, names, what)])
    if rows.shape[1] != len(names):
        raise InvalidInputError(
            f"{what} has {rows.shape[1]} columns, but there are {len(names)} features: "
            f"{_listed(names)}"
        )
    return rows


def named(rows: FloatArray, names: Names) -> Any:
    """Return the rows as a frame with these column names, as they are if there are none."""
    if names is None:
        return rows
    import pandas as pd

    return pd.DataFrame(rows, columns=list(names))


def binary_data(
    estimator: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[FloatArray, BoolArray, FloatArray]:
    """Return rows, whether each label is the larger class, and weights; set ``classes_``.

    The checks of a scikit-learn classifier with two classes, for its ``fit``.
    """
    from sklearn.utils.multiclass import type_of_target
    from sklearn.utils.validation import _check_sample_weight, validate_data

    rows, labels = validate_data(estimator, X, y, dtype=np.float64)
    kind = type_of_target(labels, input_name="y", raise_unknown=True)
    estimator.classes_, codes = np.unique(labels, return_inverse=True)
    if kind != "binary" or estimator.classes_.size > 2:
        raise InvalidInputError(
            f"Only binary classification is supported. The type of the target is {kind}."
        )
    if estimator.classes_.size < 2:
        raise InvalidInputError("y contains only one class; two are needed")
    weights = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
    return rows, codes == 1, weights


def aligned_costs(costs: ArrayLike | None, names: Names) -> ArrayLike | None:
    """Return ``costs`` in the order of ``names``; a Series with a named index is matched by name.

    Examples
    --------
    >>> import pandas as pd
    >>> aligned_costs(pd.Series({"debt": 3.0, "income": 1.0}), ("income", "debt"))
    array([1., 3.])
    """
    index = getattr(costs, "index", None)
    if costs is None or callable(index) or index is None:  # lists have a method of that name
        return costs
    labels = list(index)
    if not any(isinstance(label, str) for label in labels):
        return costs
    if names is None:
        raise InvalidInputError(
            f"costs names its features ({_listed(labels)}), but neither X nor the model has column "
            "names; pass X as a frame, or costs as an array in the order of the columns"
        )
    order = positions(tuple(map(str, labels)), names, "costs")
    return np.asarray(costs, dtype=np.float64)[order]


def positions(given: Sequence[str], wanted: Sequence[str], what: str) -> list[int]:
    """Return where each wanted name stands among the given ones; raise if they differ."""
    place = {name: j for j, name in enumerate(given)}
    missing = [name for name in wanted if name not in place]
    extra = [name for name in given if name not in set(wanted)]
    if missing and extra:
        problem = f"lacks {_listed(missing)} and has {_listed(extra)} instead"
    elif missing:
        problem = f"lacks {_listed(missing)}"
    elif extra:
        problem = f"has {_listed(extra)}, which the others do not know"
    elif len(place) < len(given):
        twice = [name for j, name in enumerate(given) if place[name] != j]
        problem = f"names {_listed(twice)} more than once"
    else:
        return [place[name] for name in wanted]
    raise InvalidInputError(f"{what} {problem}; expected are the columns {_listed(wanted)}")


def _listed(names: Sequence[Any]) -> str:
    """Return up to six names, quoted."""
    shown = ", ".join(repr(name)[:30] for name in names[:6])
    return shown if len(names) <= 6 else f"{shown} and {len(names) - 6} more"
