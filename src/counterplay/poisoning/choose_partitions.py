"""How many blocks? Successive halving over fitted blocks, then exact certificates for two.

A few blocks of each candidate already show the share of votes that the winner will have; the better
half of the candidates gets more blocks, the last two all of them.
Source: docs/theory/21-sources.md, "The number of blocks".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.progress import progress_bar
from counterplay.core.report import Report
from counterplay.core.seeds import derive_seed
from counterplay.core.validation import FloatArray, IntArray, check_int, check_positive_int
from counterplay.core.votes import Vote
from counterplay.errors import InvalidInputError
from counterplay.poisoning.block_fits import Failed, fit_blocks, report_failures
from counterplay.poisoning.block_votes import collect_votes, count_votes
from counterplay.poisoning.certificates import CertifiedAccuracy, partition_radius
from counterplay.poisoning.held_rows import deal, members
from counterplay.poisoning.model import BatchLearner
from counterplay.poisoning.nearest_row import NearestRow
from counterplay.poisoning.training_rows import (
    Accepted,
    accept,
    distinct,
    points_of,
    positions_of,
    warn_rejected,
)
from counterplay.poisoning.units import Dealer, encoded_sources
from counterplay.tables import Schema
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
    candidates: Sequence[int] | None = None,
    rungs: Sequence[int] = (8, 24),
    key: bytes | str | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: int | None = None,
) -> PartitionCurve:
    """Find the number of blocks with the best certified accuracy at a budget.

    A quarter of the rows (of the sources, if given), selected by hash, is held out. The rule looks
    at the data: run it on data you trust and fix its answer.

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
    candidates:
        Numbers of blocks to compare; default: up to eight with at least 20 rows a block.
    rungs:
        Blocks of each candidate that are fitted before the better half is kept.
    key:
        Secret of the hash.
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
    trial = _Trial.of(estimator, X, y, sources, key, n_jobs, random_state)
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
                values.append(trial.estimate(count, rung, t))
                bar.advance(task)
            estimates += [(count, rung, value) for count, value in zip(left, values)]
            order = np.argsort(-np.array(values), kind="stable")[: max(2, (len(left) + 1) // 2)]
            left = sorted(left[i] for i in order)
        curves = [trial.exact(count) for count in left]
    return PartitionCurve(
        np.array(left), np.array([c.at(0) for c in curves]), np.array([c.at(t) for c in curves]), t,
        "rows" if sources is None else "sources", tuple(estimates),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Trial:
    """Rows split into a training part and a held-out quarter."""

    base: Any
    found: Accepted
    owners: list[bytes | None] | None
    train: Any
    classes: Any
    key: bytes | str | None
    n_jobs: int | None

    @classmethod
    def of(
        cls, estimator: Any, X: Any, y: Any, sources: Any, key: Any, n_jobs: Any, seed: Any
    ) -> _Trial:
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
        return cls(base, found, owners, ~held, classes, key, n_jobs)

    def _fitted(self, count: int, most: int | None) -> Any:
        places = np.flatnonzero(self.train)
        part = Accepted(self.found.rows.part(places), self.found.labels[places], places, ())
        held, block = deal(part, Dealer(count, self.key), self.owners, None)
        blocks = members(held, block, count)[:most]
        seeds = [derive_seed("block", 0, i) % 2**31 for i in range(len(blocks))]
        models = fit_blocks(self.base, held.rows, held.labels, blocks, seeds, self.n_jobs)
        if most is None:
            report_failures(models)
        return models

    def _votes(self, models: Any) -> tuple[IntArray, IntArray]:
        test = np.flatnonzero(~self.train) if not self.train.all() else np.flatnonzero(self.train)
        truth = positions_of(as_labels(tuple(self.found.labels[test].tolist())), self.classes)
        rows = self.found.rows.part(test)
        if all(model is None or isinstance(model, Failed) for model in models):
            return np.full((len(models), len(test)), -1), truth
        return collect_votes(models, rows, self.classes, self.n_jobs), truth

    def estimate(self, count: int, rung: int, t: int) -> float:
        """Estimated certified accuracy from the first blocks."""
        from scipy.stats import norm

        votes, truth = self._votes(self._fitted(count, rung))
        m = len(votes)
        share = count_votes(votes, len(self.classes)) / m
        winner = share.argmax(axis=1)
        top = share.max(axis=1)
        second = np.partition(share, -2, axis=1)[:, -2] if share.shape[1] > 1 else 0 * top
        deviation = 2 * np.sqrt(np.maximum(top * (1 - top), 1 / (4 * m)) / m)
        chance = norm.cdf((top - second - (2 * t + 1) / count) / deviation)
        return float(np.mean((winner == truth) * chance))

    def exact(self, count: int) -> CertifiedAccuracy:
        """Certified accuracy of all blocks."""
        votes, truth = self._votes(self._fitted(count, None))
        counts = count_votes(votes, len(self.classes))
        vote = Vote(counts.argmax(axis=1).astype(np.int64), counts, self.classes)
        radius = partition_radius(vote)
        return CertifiedAccuracy(radius, (vote.winner == truth) & (radius >= 0))


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
        """Number of blocks with the best certified accuracy; ties: accuracy, then fewer."""
        order = np.lexsort((self.n_partitions, -self.accuracy, -self.certified))
        return int(self.n_partitions[order[0]])

    def summary(self) -> str:
        """The choice, and what it rests on."""
        i = int(np.flatnonzero(self.n_partitions == self.best)[0])
        return (
            f"{self.best} blocks: certified accuracy {self.certified[i]:.3f} against "
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
            label=f"certified against {self.budget} {self.unit}",
        )  # fmt: skip
        if self.estimated:
            counts, _, values = zip(*self.estimated)
            axes.scatter(counts, values, facecolors="none", edgecolors="grey", label="estimated")
        axes.set_xlabel("blocks")
        axes.set_ylabel("share of held-out rows")
        axes.legend()
        return axes
