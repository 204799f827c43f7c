"""How many blocks? Successive halving over fitted blocks, then exact certificates for two.

A few blocks of each candidate already show the share of votes that the winner will have; the better
half of the candidates gets more blocks, the last two all of them.
Source: docs/theory/21-sources.md, "The number of blocks".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.progress import progress_bar
from counterplay.core.report import Report
from counterplay.core.seeds import derive_seed
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_choice,
    check_int,
    check_positive_int,
)
from counterplay.errors import InvalidInputError
from counterplay.poisoning.ballots import METRICS, Ballots, metric_value, plurality_ballots
from counterplay.poisoning.block_fits import Failed, fit_blocks, report_failures
from counterplay.poisoning.block_votes import collect_votes, count_votes
from counterplay.poisoning.model import BatchLearner
from counterplay.poisoning.nearest_row import NearestRow
from counterplay.poisoning.training_rows import (
    Accepted,
    accept,
    deal,
    distinct,
    points_of,
    positions_of,
    warn_rejected,
)
from counterplay.poisoning.units import Dealer, encoded_sources
from counterplay.tables import Schema
from counterplay.tables.cells import listed, shown
from counterplay.tables.encoding import blocks_of, row_digests
from counterplay.tables.labels import as_labels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_FACTORS = (1, 1.7, 2.5, 3.5, 5, 7, 10, 15)
_MOST_CANDIDATES, _MOST_BLOCKS = 100, 100_000


@checked
def choose_n_partitions(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    sources: Any = None,
    budget: int = 3,
    metric: str | tuple[str, Any] = "accuracy",
    candidates: Sequence[int] | None = None,
    rungs: Sequence[int] = (8, 24),
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: int | None = None,
) -> PartitionCurve:
    """Find the number of blocks with the best certified accuracy, or other metric, at a budget.

    A quarter of the rows (of the sources, if given), selected by hash, is held out. The rule looks
    at the data: run it on data you trust and fix its answer. It fits a few blocks of every
    candidate and all blocks of two, usually less than half of what trying all of them costs.

    Parameters
    ----------
    estimator:
        The pipeline of a block; None for one nearest neighbour.
    X:
        Rows in any container.
    y:
        Their labels.
    sources:
        Who sent each row; then the budget counts sources.
    budget:
        Rows or sources that an attacker may control.
    metric:
        ``"accuracy"``, or ``"precision"``, ``"recall"``, ``"f1"`` as a mean over the classes; a
        pair such as ``("f1", "spam")`` for one class.
    candidates:
        Numbers of blocks to compare; default: up to eight with at least 20 rows a block.
    rungs:
        Blocks of each candidate that are fitted before the better half is kept.
    n_jobs:
        Workers of joblib.
    progress:
        Show a bar.
    random_state:
        Seed of the held-out quarter; an integer, None means 0.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> curve = choose_n_partitions(None, X[:600], y[:600], budget=2, candidates=(5, 15, 45))
    >>> curve.best in (5, 15, 45)
    True
    """
    t = check_int(budget, "budget", low=0, high=10**6)
    trial = _Trial.of(estimator, X, y, sources, n_jobs, random_state)
    goal = _Goal.of(metric, trial.classes)
    tried = _candidates(candidates, int(trial.train.sum()), t)
    steps = [check_positive_int(rung, "rungs") for rung in rungs]
    estimates: list[tuple[int, int, float]] = []
    left = tried
    with progress_bar(progress) as bar:
        task = bar.add_task("candidates", total=len(tried) * len(steps) + 2)
        for rung in steps:
            if len(left) <= 2:
                break
            values = []
            for count in left:
                values.append(trial.estimate(count, rung, t, goal))
                bar.advance(task)
            estimates += [(count, rung, value) for count, value in zip(left, values)]
            order = np.argsort(-np.array(values), kind="stable")[: max(2, (len(left) + 1) // 2)]
            left = sorted(left[i] for i in order)
        found = []
        for count in left:
            found.append(trial.exact(count, t, goal))
            bar.advance(task)
    return PartitionCurve(
        np.array(left), np.array([own for own, _ in found]), np.array([kept for _, kept in found]),
        t, "rows" if sources is None else "sources", tuple(estimates), goal.name,
        trial.n_fitted, sum(tried),
    )  # fmt: skip


@dataclass(frozen=True)
class _Goal:
    """The metric to be certified, and the classes over which its mean is taken."""

    metric: str
    codes: tuple[int, ...]
    name: str

    @classmethod
    def of(cls, metric: Any, classes: Any) -> _Goal:
        word, label = metric if isinstance(metric, tuple) and len(metric) == 2 else (metric, None)
        check_choice(word if isinstance(word, str) else type(word).__name__, "metric", METRICS)
        known = classes.tolist()
        if label is None:
            codes = (0,) if word == "accuracy" else tuple(range(len(known)))
            return cls(word, codes, word)
        if word == "accuracy" or label not in known:
            raise InvalidInputError(
                f"metric={shown(metric)} names no class of {listed(known)} with precision, recall "
                "or f1"
            )
        return cls(word, (known.index(label),), f"{word} of {shown(label, 40)}")

    def expected(self, truth: IntArray, winner: IntArray, kept: FloatArray) -> float:
        """The metric if every decision survives with its own probability, in expectation."""
        if self.metric == "accuracy":
            return float(np.mean((winner == truth) * kept))
        values = []
        for code in self.codes:
            own, said = truth == code, winner == code
            hits = float((kept * (own & said)).sum())
            wrong = float((said & ~own).sum() + ((1 - kept) * (~own & ~said)).sum())
            missed = float(own.sum()) - hits
            top, below = {
                "precision": (hits, hits + wrong),
                "recall": (hits, hits + missed),
                "f1": (2 * hits, 2 * hits + wrong + missed),
            }[self.metric]
            values.append(top / below if below else 0.0)
        return float(np.mean(values))

    def certified(self, b: Ballots, t: int, most: int) -> float:
        """The certified metric."""
        hit = b.reachable(t, most)
        return float(np.mean([metric_value(self.metric, b, c, hit) for c in self.codes]))


@dataclass(frozen=True, eq=False)
class _Trial:
    """Rows split into a training part and a held-out quarter."""

    base: Any
    found: Accepted
    owners: list[bytes | None] | None
    train: Any
    classes: Any
    n_jobs: int | None
    fitted: dict[int, list[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, estimator: Any, X: Any, y: Any, sources: Any, n_jobs: Any, seed: Any) -> _Trial:
        if n_jobs == 0:
            raise InvalidInputError("n_jobs must be None, a number of workers, or -1 for all")
        if isinstance(estimator, BatchLearner):
            rows = points_of(X)
            labels = np.array(np.asarray(y).tolist(), dtype=object)
            found = Accepted(rows, labels, np.arange(len(labels)), ())
        else:
            found = accept(X, y, Schema.infer(X))
            n = len(found.places) + len(found.rejected)
            warn_rejected(found.rejected, n)
        owners = None
        if sources is not None:
            every = encoded_sources(sources, len(found.places) + len(found.rejected))
            owners = [every[i] for i in found.places.tolist()]
        number = 0 if seed is None else check_int(seed, "random_state", low=0)
        held = _held_out(found, owners, number)
        base = NearestRow() if estimator is None else estimator
        classes = as_labels(distinct(found.labels))
        return cls(base, found, owners, ~held, classes, n_jobs)

    @property
    def n_fitted(self) -> int:
        """Blocks that were fitted so far."""
        return sum(len(models) for models in self.fitted.values())

    def _models(self, count: int, most: int | None) -> list[Any]:
        """The first blocks of a candidate; those fitted before are not fitted again."""
        places = np.flatnonzero(self.train)
        part = Accepted(self.found.rows.part(places), self.found.labels[places], places, ())
        held = deal(part, Dealer(count), self.owners, None)
        known = self.fitted.setdefault(count, [])
        blocks = held.members(count, None)[len(known) : most]
        seeds = [derive_seed("block", 0, len(known) + i) % 2**31 for i in range(len(blocks))]
        known += fit_blocks(self.base, held.rows, held.labels, blocks, seeds, self.n_jobs)
        return known[:most]

    def _votes(self, models: Any) -> tuple[IntArray, IntArray]:
        test = np.flatnonzero(~self.train) if not self.train.all() else np.flatnonzero(self.train)
        truth = positions_of(as_labels(tuple(self.found.labels[test].tolist())), self.classes)
        rows = self.found.rows.part(test)
        if all(model is None or isinstance(model, Failed) for model in models):
            return np.full((len(models), len(test)), -1), truth
        return collect_votes(models, rows, self.classes, self.n_jobs), truth

    def estimate(self, count: int, rung: int, t: int, goal: _Goal) -> float:
        """Estimated certified metric from the first blocks."""
        from scipy.stats import norm

        votes, truth = self._votes(self._models(count, rung))
        m = len(votes)
        share = count_votes(votes, len(self.classes)) / m
        top = share.max(axis=1)
        second = np.partition(share, -2, axis=1)[:, -2] if share.shape[1] > 1 else 0 * top
        deviation = 2 * np.sqrt(np.maximum(top * (1 - top), 1 / (4 * m)) / m)
        kept = norm.cdf((top - second - (2 * t + 1) / count) / deviation)
        return goal.expected(truth, share.argmax(axis=1), kept)

    def exact(self, count: int, t: int, goal: _Goal) -> tuple[float, float]:
        """Accuracy, and the certified metric of all blocks."""
        models = self._models(count, None)
        report_failures(models)
        votes, truth = self._votes(models)
        ballots = plurality_ballots(votes, truth, len(self.classes))
        alive = sum(model is not None and not isinstance(model, Failed) for model in models)
        accuracy = float((ballots.winner == truth).mean())
        return accuracy, goal.certified(ballots, t, alive - 1)


def _held_out(found: Accepted, owners: list[bytes | None] | None, seed: int) -> Any:
    """A quarter of the rows or sources, by hash; nothing if there is one row."""
    key = f"held out {seed}"
    marks = found.rows.digests(key)
    block = blocks_of(marks, 4)
    if owners is not None:
        named = row_digests([o or b"" for o in owners], key=key, domain="source")
        own = np.array([o is not None for o in owners])
        block = np.where(own, blocks_of(named, 4), block)
    held = block == 0
    if len(held) < 2:
        held[:] = False
    elif held.all() or not held.any():
        held = np.arange(len(held)) % 4 == 0
    return held


def _candidates(given: Sequence[int] | None, rows: int, budget: int) -> list[int]:
    if given is not None:
        found = [check_int(count, "candidates", low=1, high=_MOST_BLOCKS) for count in given]
        if not 0 < len(found) <= _MOST_CANDIDATES:
            raise InvalidInputError(f"candidates must be 1 to {_MOST_CANDIDATES} numbers of blocks")
        return sorted(set(found))
    least = 2 * budget + 1
    sizes = {int(least * factor) | 1 for factor in _FACTORS}
    fitting = sorted(size for size in sizes if size <= rows // 20)
    return fitting or [min(least, _MOST_BLOCKS)]


@checked
@dataclass(frozen=True)
class PartitionCurve(Report):
    """Accuracy and certified accuracy for the numbers of blocks that were fitted in full.

    Parameters
    ----------
    n_partitions
        Numbers of blocks with all blocks fitted.
    accuracy
        Accuracy on the held-out rows.
    certified
        Certified accuracy at the budget.
    budget
        Rows or sources.
    unit
        What the budget counts.
    estimated
        Number of blocks, blocks fitted, and estimated certified accuracy of every candidate tried
        in part: estimates, not certificates.
    metric
        What ``certified`` is the certified value of.
    blocks_fitted
        Blocks that were fitted for this curve.
    blocks_of_grid
        Blocks that fitting every candidate in full would take.

    Examples
    --------
    >>> PartitionCurve(np.array([5, 25]), np.array([0.9, 0.8]), np.array([0.1, 0.6]), 3).best
    25
    """

    n_partitions: IntArray
    accuracy: FloatArray
    certified: FloatArray
    budget: int
    unit: str = "rows"
    estimated: tuple[tuple[int, int, float], ...] = ()
    metric: str = "accuracy"
    blocks_fitted: int = 0
    blocks_of_grid: int = 0

    def __post_init__(self) -> None:
        sizes = set()
        for name in ("n_partitions", "accuracy", "certified"):
            array = np.array(getattr(self, name))
            if array.ndim != 1 or not array.size or array.dtype.kind not in "iuf":
                raise InvalidInputError(f"{name} must be a list of numbers, one per candidate")
            if not np.isfinite(array).all():
                raise InvalidInputError(f"{name} must be finite")
            sizes.add(array.size)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if len(sizes) > 1:
            raise InvalidInputError("n_partitions, accuracy and certified must have one length")

    @property
    def best(self) -> int:
        """Number of blocks with the best certified metric; ties: accuracy, then fewer."""
        order = np.lexsort((self.n_partitions, -self.accuracy, -self.certified))
        return int(self.n_partitions[order[0]])

    def summary(self) -> str:
        """The choice, and what it rests on."""
        i = int(np.flatnonzero(self.n_partitions == self.best)[0])
        return (
            f"{self.best} blocks: certified {self.metric} {self.certified[i]:.3f} against "
            f"{self.budget} planted {self.unit}, accuracy {self.accuracy[i]:.3f}; chosen on these "
            "rows, fix n_partitions on data you trust"
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per number of blocks that was fitted in full."""
        import pandas as pd

        return pd.DataFrame(
            {
                "n_partitions": self.n_partitions,
                "accuracy": self.accuracy,
                "certified": self.certified,
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw both curves, and the estimates as open circles."""
        from counterplay.core.figures import axes_or_new

        axes = axes_or_new(ax)
        axes.plot(self.n_partitions, self.accuracy, marker="o", label="accuracy")
        axes.plot(
            self.n_partitions, self.certified, marker="o",
            label=f"certified {self.metric} against {self.budget} {self.unit}",
        )  # fmt: skip
        if self.estimated:
            counts, _, values = zip(*self.estimated)
            axes.scatter(counts, values, facecolors="none", edgecolors="grey", label="estimated")
        axes.set_xlabel("blocks")
        axes.set_ylabel("share of held-out rows")
        axes.legend()
        return axes
