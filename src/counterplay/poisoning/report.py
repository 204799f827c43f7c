"""poisoning_report: can somebody flip single decisions of your pipeline by adding rows?

Attacks are real: rows are added, the whole pipeline is refitted, the decision is looked at. Errors
are against your labels. What is found is a lower bound; only a certificate bounds from above, and
the report shows what the same pipeline inside a partition could promise.
Source: docs/theory/21-sources.md, "Attack estimates".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.progress import track
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator
from counterplay.core.stats import Interval, clopper_pearson
from counterplay.core.validation import BoolArray, IntArray, check_choice, check_int
from counterplay.errors import InvalidInputError
from counterplay.poisoning.attackers.proposals import Attack, Bench, seeded
from counterplay.poisoning.engine import rate_bars
from counterplay.poisoning.partition_classifier import PartitionClassifier
from counterplay.poisoning.training_rows import Rows, accept, block_labels
from counterplay.poisoning.units import encoded_sources
from counterplay.tables import Schema, Table
from counterplay.tables.cells import shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

ATTACKS: tuple[Attack, ...] = ("true_rows", "wrong_label")
_MOST_BUDGET = 1000


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
        For each test row and t the added rows (positions in the given data) and their labels.
    budget
        Most rows that were added.
    model
        Name of the pipeline.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.neighbors import KNeighborsClassifier
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

        ``row`` is the position of the test row in the given data.
        """
        place = np.flatnonzero(self.rows == check_int(row, "row"))
        if not len(place):
            raise InvalidInputError(f"row {shown(row)} is not a test row; see rows")
        i = int(place[0])
        hits = np.flatnonzero(self.margins[i] < 0)
        chosen, labels = self.poison[i][int(hits[0])] if len(hits) else ((), ())
        values = np.empty(len(labels), dtype=object)
        values[:] = labels
        return np.array(chosen, dtype=np.int64), values

    def exposed(self) -> IntArray:
        """Positions (in the given data) of the rows that are right, but flip under attack."""
        hit = (self.margins[:, -1] < 0) & (self.margins[:, 0] >= 0)
        return self.rows[hit]

    def summary(self) -> str:
        """What happened, what is certified, and what the same pipeline in a partition promises."""
        lines = [f"{self.model}: {len(self.rows)} test rows, errors against the given labels"]
        for t in sorted({0, 1, self.budget // 2, self.budget}):
            word = "wrong without poison" if t == 0 else f"wrong, best attack found, {t} rows"
            lines.append(f"{word:34} {self.interval(t)}")
        if self.has_certificate:
            lost = int((~self.certified[:, -1]).sum())
            lines.append(f"{'not certified':34} {clopper_pearson(lost, len(self.rows))}")
        else:
            lines.append("no certificate: a failed attack proves nothing")
        lost = int((~self.guarded[:, -1]).sum())
        lines.append(
            f"{'same in a partition, not certified':34} {clopper_pearson(lost, len(self.rows))}, "
            f"error {float((~self.guarded[:, 0]).mean()):.3f}"
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


@checked
def poisoning_report(
    pipeline: Any,
    X: Any,
    y: Any,
    *,
    sources: Any = None,
    budget: int = 3,
    effort: int = 24,
    n_test: int = 60,
    attacks: Sequence[str] = ATTACKS,
    n_partitions: int | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: RandomState = None,
) -> PoisoningReport:
    """Attack single decisions of a pipeline by adding rows, and report how exposed it is.

    Parameters
    ----------
    pipeline:
        Any scikit-learn classifier. It is refitted with every poison, with all its steps.
    X:
        The rows, in any container. A quarter is held out: test rows, and the pool of true rows
        that may be added.
    y:
        Their labels.
    sources:
        Who sent each row: whole sources are held out, and the partition is by source.
    budget:
        Most rows an attacker adds.
    effort:
        Most refits per test row and kind of attack. More effort never finds less.
    n_test:
        Test rows to attack.
    attacks:
        ``"true_rows"``: rows of the pool with their given labels; ``"wrong_label"``: copies of the
        test row with the label of its strongest rival.
    n_partitions:
        Blocks of the guarded version; default 10 budget + 1.
    n_jobs:
        Workers of joblib; the numbers do not depend on it.
    progress:
        Show a bar.
    random_state:
        Seed of the split.

    Notes
    -----
    ``attacked(t)`` is a lower bound with the poison kept (:meth:`PoisoningReport.poison_for`).
    It never falls with t, with effort or with more attacks. A failed attack proves nothing.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.svm import SVC
    >>> X, y = load_digits(n_class=2, return_X_y=True)
    >>> report = poisoning_report(SVC(kernel="linear"), X, y, budget=1, n_test=5, random_state=0)
    >>> report.has_certificate, report.attackable_upper
    (False, 1.0)
    """
    t = check_int(budget, "budget", low=1, high=_MOST_BUDGET)
    tries = check_int(effort, "effort", low=0)
    kinds: Any = tuple(check_choice(kind, "attacks", ATTACKS) for kind in attacks)
    if n_jobs == 0:
        raise InvalidInputError("n_jobs must be None, a number of workers, or -1 for all; got 0")
    if isinstance(pipeline, type) or not hasattr(pipeline, "fit"):
        raise InvalidInputError(f"pipeline must be a classifier with fit, got {shown(pipeline)}")
    rows, labels = _read(X, y)
    train, test, pool = _parts(labels, sources, check_int(n_test, "n_test", low=1), random_state)
    model = _fitted(pipeline, rows, labels, train)
    features = _features(model, rows)
    bench = Bench(pipeline, rows, labels, train, pool, features, t, tries)
    tasks = (delayed(bench.attack)(int(i), model, kinds) for i in test)
    if n_jobs is None or n_jobs == 1:
        places = track(test.tolist(), "test rows", enabled=progress)
        found = [bench.attack(int(i), model, kinds) for i in places]
    else:
        found = Parallel(n_jobs=n_jobs)(tasks)
    own = isinstance(pipeline, PartitionClassifier)
    guarded = _certified(pipeline, rows, labels, train, test, sources, n_partitions, t)
    return PoisoningReport(
        rows=test,
        index=tuple(Table.of(X).index[test].tolist()),
        margins=np.array([outcome.best for outcome in found], dtype=np.float64),
        certified=guarded if own else np.zeros_like(guarded),
        guarded=guarded,
        has_certificate=own,
        poison=tuple(tuple(outcome.poison) for outcome in found),
        budget=t,
        model=type(pipeline).__name__,
    )


def _read(X: Any, y: Any) -> tuple[Rows, NDArray[Any]]:
    """Cast all rows; they are the user's, so one that does not fit is an error."""
    found = accept(X, y, Schema.infer(X))
    if found.rejected:
        first = found.rejected[0]
        raise InvalidInputError(
            f"row {first.row} does not fit: column {shown(first.column, 40)} is "
            f"{first.value[:60]}; mend or drop it"
        )
    if len(set(found.labels.tolist())) < 2:
        raise InvalidInputError("all labels are equal; two classes are needed")
    return found.rows, found.labels


def _parts(
    labels: NDArray[Any], sources: Any, n_test: int, random_state: RandomState
) -> tuple[IntArray, IntArray, IntArray]:
    """Positions of training rows, test rows and pool; whole sources on one side."""
    rng = generator(random_state)
    n = len(labels)
    if n < 4:
        raise InvalidInputError(f"at least 4 rows are needed for a held-out quarter, got {n}")
    if sources is None:
        order = rng.permutation(n)
        held = order[: max(1, n // 4)]
    else:
        owners = encoded_sources(sources, n)
        named = sorted({owner for owner in owners if owner is not None})
        chosen = {named[i] for i in rng.permutation(len(named))[: max(1, len(named) // 4)]}
        held = rng.permutation(
            np.array([i for i in range(n) if owners[i] in chosen], dtype=np.int64)
        )
    test, pool = np.sort(held[:n_test]), np.sort(held[n_test:])
    train = np.setdiff1d(np.arange(n), held)
    if not len(train) or not len(test):
        raise InvalidInputError("too few sources to hold some out")
    return train.astype(np.int64), test.astype(np.int64), pool.astype(np.int64)


def _fitted(pipeline: Any, rows: Rows, labels: NDArray[Any], train: IntArray) -> Any:
    try:
        return seeded(pipeline).fit(rows.take(train), block_labels(labels[train]))
    except Exception as error:
        raise InvalidInputError(f"the pipeline cannot be fitted: {shown(error, 200)}") from error


def _features(model: Any, rows: Rows) -> Any:
    """Numbers in which near rows are near: the pipeline's own, else those of the table."""
    everything = rows.take()
    if hasattr(model, "steps") and len(model.steps) > 1:
        try:
            features = model[:-1].transform(everything)
            if hasattr(features, "shape") and features.ndim == 2:
                return features.tocsr() if hasattr(features, "tocsr") else np.asarray(features)
        except Exception:
            pass  # the steps do not transform: use the table
    if rows.cast.schema.container in ("matrix", "arrays"):
        dense = everything if hasattr(everything, "tocsr") else everything.reshape(len(rows), -1)
        return dense if hasattr(dense, "tocsr") else np.nan_to_num(dense)
    from sklearn.feature_extraction.text import HashingVectorizer

    if rows.cast.schema.container == "texts":
        return HashingVectorizer().transform(everything)
    words = [
        " ".join(f"{name}={value}".replace(" ", "_") for name, value in record.items())
        for record in everything.to_dict(orient="records")
    ]
    return HashingVectorizer(token_pattern=r"\S+", lowercase=False).transform(words)


def _certified(
    pipeline: Any, rows: Rows, labels: NDArray[Any], train: IntArray, test: IntArray,
    sources: Any, n_partitions: int | None, t: int,
) -> BoolArray:  # fmt: skip
    """Which test rows the pipeline inside a partition certifies against 0..t added rows."""
    schema = rows.cast.schema
    if isinstance(pipeline, PartitionClassifier):
        guard = seeded(pipeline).set_params(schema=schema)
    else:
        guard = PartitionClassifier(
            seeded(pipeline), n_partitions or 10 * t + 1, schema=schema, check=False
        )
    given = None if sources is None else np.array(list(sources), dtype=object)[train]
    guard.fit(rows.take(train), block_labels(labels[train]), sources=given)
    radius, answers = guard._certificate(Rows(schema.cast(rows.take(test))), "inserted", "rows")
    right = np.array([a == b for a, b in zip(answers.tolist(), labels[test].tolist())], bool)
    safe: BoolArray = right[:, None] & (radius[:, None] >= np.arange(t + 1)[None, :])
    return safe
