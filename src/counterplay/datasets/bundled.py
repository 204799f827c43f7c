"""The small data sets that come with scikit-learn, under the same interface as the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, overload

from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.datasets.dataset import Dataset, DatasetInfo
from counterplay.errors import UnknownNameError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Bundled:
    """What scikit-learn does not say about a data set it ships."""

    rows: int
    description: str
    label_1: str = ""


BUNDLED = {
    "breast_cancer": Bundled(
        569, "Wisconsin diagnostic breast cancer: cell nuclei of a tumour, 30 features.", "benign"
    ),
    "diabetes": Bundled(442, "Progression of diabetes after one year (regression), 10 features."),
    "digits": Bundled(1797, "Handwritten digits, 8 x 8 pixels with values 0 to 16, 10 classes."),
    "iris": Bundled(150, "Three species of iris, 4 features."),
    "linnerud": Bundled(20, "Three exercises and three body measurements (regression)."),
    "wine": Bundled(178, "Three cultivars of wine, 13 chemical features."),
}


@overload
def load(
    name: str, *, return_X_y: Literal[True], as_frame: Literal[False] = False
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def load(
    name: str, *, return_X_y: Literal[True], as_frame: Literal[True]
) -> tuple[pd.DataFrame, pd.Series[Any]]: ...
@overload
def load(name: str, *, return_X_y: Literal[False] = False, as_frame: bool = False) -> Dataset: ...
@checked
def load(
    name: str, *, return_X_y: bool = False, as_frame: bool = False
) -> Dataset | tuple[Any, Any]:
    """Return a data set that scikit-learn ships; needs no file and no network.

    Use it for examples and first experiments; ``fetch`` has the larger sets.

    Parameters
    ----------
    name:
        One of ``breast_cancer``, ``diabetes``, ``digits``, ``iris``, ``linnerud``, ``wine``.
    return_X_y:
        Return the pair ``(X, y)`` instead of a :class:`Dataset`.
    as_frame:
        Give ``X`` as a data frame and ``y`` as a series instead of arrays.

    Returns
    -------
    Dataset or tuple
        In ``breast_cancer``, the only two-class set, 1 means benign: the outcome people want.

    Examples
    --------
    >>> X, y = load("breast_cancer", return_X_y=True)
    >>> X.shape, int((y == 1).sum())
    ((569, 30), 357)

    References
    ----------
    docs/data.md.
    """
    if name not in BUNDLED:
        raise _unknown(name)
    data = _dataset(name, as_frame)
    return data.pair() if return_X_y else data


def bundled_infos() -> list[DatasetInfo]:
    """Return the catalogue lines of the bundled sets."""
    where = "bundled with scikit-learn"
    return [
        DatasetInfo(name, "table", entry.rows, entry.description, True, where)
        for name, entry in BUNDLED.items()
    ]


def _unknown(name: str) -> UnknownNameError:
    from counterplay.datasets.catalogue import CATALOGUE

    if name in CATALOGUE:
        return UnknownNameError(
            f"{name!r} does not come with scikit-learn; use datasets.fetch({name!r})"
        )
    return UnknownNameError.among("bundled data set", name, BUNDLED)


def _dataset(name: str, as_frame: bool) -> Dataset:
    import sklearn.datasets

    bunch = getattr(sklearn.datasets, f"load_{name}")(as_frame=as_frame)
    entry = BUNDLED[name]
    data = Dataset(
        name=name,
        kind="table",
        X=bunch.data,
        y=bunch.target,
        feature_names=tuple(str(column) for column in bunch.feature_names),
        target_names=tuple(str(label) for label in bunch.get("target_names", ())),
        label_1=entry.label_1,
        description=entry.description,
        source="scikit-learn",
        licence="redistributed by scikit-learn; see its documentation for the origin",
    )
    return replace(data, frame=bunch.frame) if as_frame else data
