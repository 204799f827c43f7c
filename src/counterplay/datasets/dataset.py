"""What a loader returns: the numbers, their names, what they mean and where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

Kind: TypeAlias = Literal["table", "images", "text", "catalogue", "forecasts"]


@checked(arrays=True)
@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """One data set, ready for an estimator, with the raw table where there is one.

    Parameters
    ----------
    name:
        Name used by ``load`` or ``fetch``.
    kind:
        ``"table"``, ``"images"``, ``"text"``, ``"catalogue"`` (items to choose from) or
        ``"forecasts"`` (predictions by people or models).
    X:
        Features: the training part of image sets, everything otherwise. None for catalogues and
        forecasts, which have no natural label; use ``frame`` there.
    y:
        Labels of ``X``.
    X_test:
        Test part of image sets.
    y_test:
        Labels of ``X_test``.
    frame:
        The raw table, nothing encoded or filled in.
    feature_names:
        Names of the columns of ``X``.
    target_names:
        Names of the classes 0, 1, ...
    label_1:
        What label 1 means, for two-class data: the outcome people want.
    description:
        What it is and what to watch out for.
    source:
        Who made it and where it can be found.
    licence:
        What is known of its terms.
    variant:
        The file that was read, and whether it is a sample or a lossy copy.

    Examples
    --------
    >>> from counterplay.datasets import load
    >>> cancer = load("breast_cancer")
    >>> cancer
    Dataset('breast_cancer', table, X (569, 30), 1 = benign)
    >>> cancer.y.mean().round(3)
    np.float64(0.627)

    References
    ----------
    docs/data.md.
    """

    name: str
    kind: Kind
    X: NDArray[Any] | pd.DataFrame | None = None
    y: NDArray[Any] | pd.Series[Any] | pd.DataFrame | None = None
    X_test: NDArray[Any] | None = None
    y_test: NDArray[Any] | None = None
    frame: pd.DataFrame | None = None
    feature_names: tuple[str, ...] = ()
    target_names: tuple[str, ...] = ()
    label_1: str = ""
    description: str = ""
    source: str = ""
    licence: str = ""
    variant: str = ""

    def __repr__(self) -> str:
        shape = getattr(self.frame if self.X is None else self.X, "shape", None)
        what = "frame" if self.X is None else "X"
        test = "" if self.X_test is None else f", X_test {self.X_test.shape}"
        meaning = f", 1 = {self.label_1}" if self.label_1 else ""
        return f"Dataset({self.name!r}, {self.kind}, {what} {shape}{test}{meaning})"

    def summary(self) -> str:
        """Return what a person wants to know before using the data."""
        lines = [repr(self), self.description]
        lines += [f"{key}: {text}" for key, text in self._notes() if text]
        return "\n".join(lines)

    def _notes(self) -> list[tuple[str, str]]:
        return [("read", self.variant), ("source", self.source), ("licence", self.licence)]

    def to_frame(self) -> pd.DataFrame:
        """Return the raw table, or the features with a column ``target`` where there is none."""
        import pandas as pd

        if self.frame is not None:
            return self.frame
        if self.X is None or self.X.ndim != 2:
            raise InvalidInputError(f"{self.name} has no table form; use its arrays X and y")
        frame = pd.DataFrame(self.X, columns=list(self.feature_names))
        return frame if self.y is None or self.y.ndim != 1 else frame.assign(target=self.y)

    def pair(self) -> tuple[Any, Any]:
        """Return ``(X, y)``; raises for data without labels."""
        if self.X is None or self.y is None:
            raise InvalidInputError(
                f"{self.name} has no features and labels; use fetch({self.name!r}).frame"
            )
        return self.X, self.y


@checked
@dataclass(frozen=True)
class DatasetInfo:
    """One line of :func:`list_datasets`.

    Parameters
    ----------
    name:
        Name to load it by.
    kind:
        ``"table"``, ``"images"``, ``"text"``, ``"catalogue"`` or ``"forecasts"``.
    rows:
        Number of rows.
    description:
        What it is, in one line.
    available:
        Whether it can be read now, without a network.
    where:
        Where it is, or what is missing.

    Examples
    --------
    >>> from counterplay.datasets import list_datasets
    >>> info = {entry.name: entry for entry in list_datasets()}
    >>> info["digits"].rows, info["digits"].where
    (1797, 'bundled with scikit-learn')

    References
    ----------
    docs/data.md.
    """

    name: str
    kind: Kind
    rows: int
    description: str
    available: bool
    """Whether it can be read now, without a network."""
    where: str
    """The file or folder, the address it can be downloaded from, or the file that is missing."""
