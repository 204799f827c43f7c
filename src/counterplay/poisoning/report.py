"""poisoning_report: can somebody flip single decisions of your pipeline by adding true examples?

Attacks are real: rows labelled by a teacher or taken from held-out data are added, the whole
pipeline is refitted, and the decision is looked at. The upper bound is what a certificate excludes;
a model without a certificate has upper bound 1, and the report shows what a guarded version of the
same model could promise. Source: docs/theory/10-poisoning.md, "Setting".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator
from counterplay.core.stats import Interval, clopper_pearson
from counterplay.core.validation import BoolArray, IntArray, check_int, check_real
from counterplay.errors import InvalidInputError
from counterplay.poisoning.attackers.practical import PipelineAttack
from counterplay.poisoning.engine import rate_bars
from counterplay.poisoning.partition_classifier import PartitionClassifier

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class PoisoningReport(Report):
    """How exposed a pipeline is to correctly labelled extra rows.

    Attributes
    ----------
    rows:
        Positions of the test rows in the given data.
    clean_correct:
        Which test rows are right without poison.
    flipped:
        Which test rows a real attack makes wrong, or that are wrong already.
    certified:
        Which test rows are certified safe.
    poison:
        The rows that flip each test row; empty if none were found.
    poison_labels:
        Their labels.
    guarded:
        Upper bound for the same model inside a PartitionClassifier.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> report = poisoning_report(KNeighborsClassifier(1), X[:200], y[:200], n_test=15,
    ...                           random_state=0)
    >>> 0 <= report.error <= report.attackable_lower <= report.attackable_upper <= 1
    True
    """

    rows: IntArray
    clean_correct: BoolArray
    flipped: BoolArray
    certified: BoolArray
    poison: tuple[NDArray[Any], ...]
    poison_labels: tuple[NDArray[Any], ...]
    budget: int
    model: str
    guarded: Interval
    guarded_accuracy: float
    teacher_agreement: float

    @property
    def error(self) -> float:
        """Error rate without poison."""
        return float((~self.clean_correct).mean())

    @property
    def attackable_lower(self) -> float:
        """Fraction of test rows that a real attack makes (or leaves) wrong."""
        return float(self.flipped.mean())

    @property
    def attackable_upper(self) -> float:
        """Fraction of test rows without a certificate."""
        return float((~self.certified).mean())

    def interval(self, name: str) -> Interval:
        """Exact 95 % interval of ``"error"``, ``"attackable_lower"`` or ``"attackable_upper"``."""
        chosen = {
            "error": ~self.clean_correct,
            "attackable_lower": self.flipped,
            "attackable_upper": ~self.certified,
        }
        if name not in chosen:
            raise InvalidInputError(f"name must be one of {', '.join(chosen)}, got {name!r}")
        return clopper_pearson(int(chosen[name].sum()), chosen[name].size)

    def exposed(self) -> IntArray:
        """Positions (in the given data) of the rows that poison flips."""
        hit = self.flipped & self.clean_correct
        return self.rows[hit]

    def summary(self) -> str:
        """What can happen, what cannot, and what a guarded model would promise."""
        lines = [
            f"{self.model}: {len(self.rows)} test rows, at most {self.budget} added true rows",
            f"wrong without poison          {self.interval('error')}",
            f"wrong under a real attack     {self.interval('attackable_lower')}",
            f"not certified safe            {self.interval('attackable_upper')}",
            f"same model in a partition     at most {self.guarded} attackable, "
            f"accuracy {self.guarded_accuracy:.3f}",
        ]
        if self.teacher_agreement < 1:
            lines.append(
                f"the teacher agrees with {self.teacher_agreement:.3f} of the given labels"
            )
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """One row per test row, the exposed ones first."""
        import pandas as pd

        frame = pd.DataFrame(
            {
                "row": self.rows,
                "clean_correct": self.clean_correct,
                "flipped": self.flipped,
                "certified": self.certified,
                "n_poison": [len(p) for p in self.poison],
            }
        )
        exposed = frame.flipped & frame.clean_correct
        return frame.iloc[np.argsort(~exposed.to_numpy(), kind="stable")].reset_index(drop=True)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Bars: error, attacked, not certified, with exact intervals."""
        return rate_bars(
            ax,
            {
                "wrong without\npoison": self.interval("error"),
                "wrong under\nattack": self.interval("attackable_lower"),
                "not certified": self.interval("attackable_upper"),
                "not certified,\nguarded": self.guarded,
            },
        )


def poisoning_report(
    pipeline: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    budget: int = 1,
    labeler: Any = None,
    n_test: int = 60,
    test_size: float = 0.25,
    n_partitions: int | None = None,
    random_state: RandomState = None,
) -> PoisoningReport:
    """Attack a pipeline with correctly labelled rows and report how exposed it is.

    Parameters
    ----------
    pipeline:
        Any scikit-learn classifier. It is refitted with every poison, with all its steps.
    X:
        The rows. A part is held out as test rows; the rest is for training.
    y:
        Their labels.
    budget:
        Rows an attacker may add.
    labeler:
        Who says what is correct: a fitted model or function on rows. Default: the pipeline fitted
        on all data; labels of all rows are then the teacher's, so that a perfect answer exists.
    n_test:
        Test rows to attack; each costs a few refits.
    test_size:
        Fraction of the data held out (also the pool of true rows the attacker may add).
    n_partitions:
        Blocks of the guarded version; default 10 budget + 1.
    random_state:
        Seed of the split.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.svm import SVC
    >>> X, y = load_digits(n_class=2, return_X_y=True)
    >>> report = poisoning_report(SVC(kernel="linear"), X, y, budget=1, n_test=10, random_state=0)
    >>> report.attackable_upper
    1.0
    """
    t = check_int(budget, "budget", low=1)
    points, given = np.asarray(X, dtype=np.float64), np.asarray(y)
    if points.ndim != 2 or given.shape != (len(points),) or not np.isfinite(points).all():
        raise InvalidInputError("X must be a finite matrix with one row per label of y")
    check_real(test_size, "test_size", low=0, high=1, open_low=True, open_high=True)
    teacher = _teacher(pipeline, labeler, points, given)
    truth = np.asarray(teacher(points))
    rng = generator(random_state)
    train, held = train_test_split(
        np.arange(len(given)), test_size=test_size, random_state=int(rng.integers(2**31))
    )
    test = np.sort(held[: check_int(n_test, "n_test", low=1)])
    pool = np.setdiff1d(held, test)
    model = clone(pipeline).fit(points[train], truth[train])
    right = np.asarray(model.predict(points[test])) == truth[test]
    attack = PipelineAttack(
        pipeline, teacher, points[train], truth[train], points[pool], truth[pool], t
    )
    found = [attack(points[i], truth[i]) if ok else None for i, ok in zip(test, right)]
    empty = (points[:0], truth[:0])
    guard = _guard(pipeline, model, n_partitions, t).fit(points[train], truth[train])
    safe = guard.certify(points[test]) >= t
    guard_right = guard.predict(points[test]) == truth[test]
    own = isinstance(pipeline, PartitionClassifier)
    certified = safe & guard_right if own else np.zeros(len(test), dtype=np.bool_)
    lost = int((~(safe & guard_right)).sum())
    return PoisoningReport(
        rows=test.astype(np.int64),
        clean_correct=right,
        flipped=~right | np.array([f is not None for f in found]),
        certified=np.asarray(certified, dtype=np.bool_),
        poison=tuple((f or empty)[0] for f in found),
        poison_labels=tuple((f or empty)[1] for f in found),
        budget=t,
        model=type(pipeline).__name__,
        guarded=clopper_pearson(lost, len(test)),
        guarded_accuracy=float(guard_right.mean()),
        teacher_agreement=float((truth == given).mean()),
    )


def _teacher(pipeline: Any, labeler: Any, X: NDArray[Any], y: NDArray[Any]) -> Any:
    if labeler is None:
        return clone(pipeline).fit(X, y).predict
    return labeler.predict if hasattr(labeler, "predict") else labeler


def _guard(pipeline: Any, model: Any, n_partitions: int | None, t: int) -> PartitionClassifier:
    if isinstance(pipeline, PartitionClassifier):
        guarded: PartitionClassifier = clone(pipeline)
        return guarded
    return PartitionClassifier(clone(pipeline), n_partitions or 10 * t + 1)
