"""PoisoningReport: what attacks on single decisions found, and what is certified beside it.

Source: docs/theory/21-sources.md, "Attack estimates".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.stats import Interval, clopper_pearson
from counterplay.core.validation import BoolArray, IntArray, check_int
from counterplay.errors import InvalidInputError
from counterplay.poisoning.engine import rate_bars
from counterplay.tables.cells import shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class PoisoningReport(Report):
    """How exposed a pipeline is to added rows.

    Parameters
    ----------
    rows
        Positions of the test rows in the given data.
    index
        Their names in the given data.
    margins
        Smallest margin of the true class that at most t added rows reached, shape (rows, budget
        + 1); negative: the decision is wrong.
    certified
        Which test rows the pipeline itself certifies against t added rows, same shape.
    guarded
        The same for the pipeline inside a PartitionClassifier.
    has_certificate
        Whether the pipeline has a certificate of its own.
    poison
        For each test row and t the added rows (positions in the given data, or the numbers of a row
        that was made) and their labels.
    budget
        Most rows that were added.
    model
        Name of the pipeline.
    skipped
        Test rows that were not attacked because the time was over.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from counterplay.poisoning import poisoning_report
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> report = poisoning_report(KNeighborsClassifier(1), X[:200], y[:200], budget=1, n_test=15,
    ...                           random_state=0)
    >>> report.error == report.attacked(0) <= report.attacked(1) <= report.attackable_upper == 1
    True
    """

    rows: IntArray
    index: tuple[Any, ...]
    margins: NDArray[np.float64]
    certified: BoolArray
    guarded: BoolArray
    has_certificate: bool
    poison: tuple[Any, ...]
    budget: int
    model: str
    skipped: int = 0

    def __post_init__(self) -> None:
        shape = (len(self.rows), self.budget + 1)
        for name in ("margins", "certified", "guarded"):
            if getattr(self, name).shape != shape:
                raise InvalidInputError(f"{name} must have shape {shape}")
        if not isinstance(self.poison, tuple) or len(self.poison) != len(self.rows):
            raise InvalidInputError("poison must be a tuple with one entry per test row")
        if len(self.index) != len(self.rows):
            raise InvalidInputError("index must have one entry per test row")
        both = np.argwhere(self.certified & (self.margins < 0))
        if len(both):
            i, t = both[0].tolist()
            raise InvalidInputError(
                f"test row {int(self.rows[i])} is certified against {t} rows, but an attack "
                "succeeded there; the certificate does not hold for this pipeline"
            )

    @property
    def error(self) -> float:
        """Error rate without poison, against the given labels."""
        return self.attacked(0)

    def attacked(self, t: int) -> float:
        """Share of test rows that are wrong with at most ``t`` added rows that were found."""
        place = check_int(t, "t", low=0, high=self.budget)
        return float((self.margins[:, place] < 0).mean())

    @property
    def attackable_lower(self) -> float:
        """Share of test rows that a real attack within the budget makes (or leaves) wrong."""
        return self.attacked(self.budget)

    @property
    def attackable_upper(self) -> float:
        """Share of test rows without a certificate; 1 for a pipeline that has none."""
        return float((~self.certified[:, -1]).mean())

    def interval(self, t: int) -> Interval:
        """Exact 95 % interval of :meth:`attacked`."""
        place = check_int(t, "t", low=0, high=self.budget)
        return clopper_pearson(int((self.margins[:, place] < 0).sum()), len(self.rows))

    def poison_for(self, row: int) -> tuple[IntArray, NDArray[Any]]:
        """Added rows (positions in the given data) and labels that flip a test row; empty if none.

        ``row`` is the position of the test row in the given data. A row that was made for the
        attack has position -1, see :meth:`made_for`.
        """
        chosen, labels = self._poison(row)
        values = np.empty(len(labels), dtype=object)
        values[:] = labels
        places = [place if isinstance(place, int) else -1 for place in chosen]
        return np.array(places, dtype=np.int64), values

    def made_for(self, row: int) -> NDArray[np.float64]:
        """Rows that were made to flip a test row, as numbers; one line each."""
        made = [place for place in self._poison(row)[0] if not isinstance(place, int)]
        return np.array(made, dtype=np.float64).reshape(len(made), -1 if made else 0)

    def _poison(self, row: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        place = np.flatnonzero(self.rows == check_int(row, "row"))
        if not len(place):
            raise InvalidInputError(f"row {shown(row)} is not a test row; see rows")
        i = int(place[0])
        hits = np.flatnonzero(self.margins[i] < 0)
        found: tuple[tuple[Any, ...], tuple[Any, ...]] = ((), ())
        return self.poison[i][int(hits[0])] if len(hits) else found

    def exposed(self) -> IntArray:
        """Positions (in the given data) of the rows that are right, but flip under attack."""
        hit = (self.margins[:, -1] < 0) & (self.margins[:, 0] >= 0)
        return self.rows[hit]

    def summary(self) -> str:
        """What happened, what is certified, and what the same pipeline in a partition promises."""
        lines = [f"{self.model}: {len(self.rows)} test rows, errors against the given labels"]
        if self.skipped:
            lines.append(
                f"time limit: {self.skipped} more rows were not attacked, the last ones with less "
                "effort; raise time_limit= or scale the features"
            )
        for t in sorted({0, 1, self.budget // 2, self.budget}):
            word = f"wrong, best found, {_added(t)}" if t else "wrong without poison"
            lines.append(f"{word:34} {self.interval(t)}")
        if self.has_certificate:
            lost = int((~self.certified[:, -1]).sum())
            lines.append(f"{'not certified':34} {clopper_pearson(lost, len(self.rows))}")
        else:
            lines.append("no certificate: a failed attack proves nothing")
        lost = int((~self.guarded[:, -1]).sum())
        lines.append(
            f"{'same in a partition, not certified':34} {clopper_pearson(lost, len(self.rows))}, "
            f"{_added(self.budget)}; error {float((~self.guarded[:, 0]).mean()):.3f}"
        )
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """One row per test row, the exposed ones first; ``flips_with``: -1 if no attack did."""
        import pandas as pd

        wrong = self.margins < 0
        frame = pd.DataFrame(
            {
                "row": self.rows,
                "clean_correct": ~wrong[:, 0],
                "flips_with": np.where(wrong.any(axis=1), wrong.argmax(axis=1), -1),
                "certified": self.certified[:, -1],
                "guarded": self.guarded[:, -1],
            },
            index=pd.Index(self.index, tupleize_cols=False),
        )
        exposed = frame.clean_correct & (frame.flips_with > 0)
        return frame.iloc[np.argsort(~exposed.to_numpy(), kind="stable")]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Bars: error, attacked, and what is not certified where there is a certificate."""
        bars = {
            "wrong without\npoison": self.interval(0),
            f"wrong, best attack\nfound, {self.budget} rows": self.interval(self.budget),
        }
        if self.has_certificate:
            lost = int((~self.certified[:, -1]).sum())
            bars["not certified"] = clopper_pearson(lost, len(self.rows))
        lost = int((~self.guarded[:, -1]).sum())
        bars["in a partition,\nnot certified"] = clopper_pearson(lost, len(self.rows))
        return rate_bars(ax, bars)


def _added(t: int) -> str:
    return f"{t} row added" if t == 1 else f"{t} rows added"
