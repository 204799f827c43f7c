"""Candidates for the number of blocks on trial: fit some blocks, estimate; fit all, certify.

Source: docs/theory/21-sources.md, "The number of blocks".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from counterplay.core.seeds import derive_seed
from counterplay.core.validation import FloatArray, IntArray, check_choice, check_int
from counterplay.errors import InvalidInputError
from counterplay.poisoning.ballots import METRICS, Ballots, metric_value, plurality_ballots
from counterplay.poisoning.block_fits import Failed, fit_blocks, report_failures
from counterplay.poisoning.block_votes import collect_votes, count_votes
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
from counterplay.tables.cells import listed, shown
from counterplay.tables.encoding import blocks_of, row_digests
from counterplay.tables.labels import as_labels


@dataclass(frozen=True)
class Goal:
    """The metric to be certified, and the classes over which its mean is taken.

    Parameters
    ----------
    metric
        Name of the metric.
    codes
        Positions of the classes.
    name
        What a summary calls it.
    """

    metric: str
    codes: tuple[int, ...]
    name: str

    @classmethod
    def of(cls, metric: Any, classes: Any) -> Goal:
        """Read the name of a metric, or a pair of a name and a class."""
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
class Trial:
    """Rows split into a training part and a held-out quarter, and the blocks fitted so far.

    Parameters
    ----------
    base
        The pipeline of a block.
    found
        All rows.
    owners
        Their sources, or None.
    train
        Which rows are for training.
    classes
        The labels that occur.
    n_jobs
        Workers.
    fitted
        Models of the first blocks of each candidate.
    """

    base: Any
    found: Accepted
    owners: list[bytes | None] | None
    train: Any
    classes: Any
    n_jobs: int | None
    fitted: dict[int, list[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, estimator: Any, X: Any, y: Any, sources: Any, n_jobs: Any, seed: Any) -> Trial:
        """Cast the rows and hold out a quarter of them, or of the sources, by hash."""
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
    def ensembles(self) -> float:
        """What was fitted so far; half of the blocks of a candidate are half an ensemble."""
        return sum(len(models) / count for count, models in self.fitted.items())

    def _models(self, count: int, most: int | None) -> list[Any]:
        """The first blocks of a candidate; those fitted before are not fitted again."""
        places = np.flatnonzero(self.train)
        part = Accepted(self.found.rows.part(places), self.found.labels[places], places, ())
        held, block = deal(part, Dealer(count), self.owners, None)
        known = self.fitted.setdefault(count, [])
        blocks = members(held, block, count)[len(known) : most]
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

    def estimate(self, count: int, rung: int, t: int, goal: Goal) -> float:
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

    def exact(self, count: int, t: int, goal: Goal) -> tuple[float, float]:
        """Accuracy, and the certified metric of all blocks."""
        ballots, most = self.ballots(count)
        accuracy = float((ballots.winner == ballots.truth).mean())
        return accuracy, goal.certified(ballots, t, most)

    def ballots(self, count: int) -> tuple[Ballots, int]:
        """Votes of all blocks on the held-out rows, and how many of them may be touched."""
        models = self._models(count, None)
        report_failures(models)
        votes, truth = self._votes(models)
        alive = sum(model is not None and not isinstance(model, Failed) for model in models)
        return plurality_ballots(votes, truth, len(self.classes)), alive - 1


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
