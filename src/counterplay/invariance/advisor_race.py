"""Score all candidates on folds that keep orbits together, and drop those that have lost.

Candidates race at the full sample size, because the ranking of methods changes with it. The error
of the winner is corrected for the choice by a bootstrap over orbits.
Source: docs/theory/22-symmetry.md, "The race and the corrected error"; Tsamardinos, Greasidou and
Borboudakis (2018), "Bootstrapping the out-of-sample predictions for efficient and accurate
cross-validation".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse, stats
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from counterplay.core.progress import track
from counterplay.core.validation import FloatArray, IntArray, check_choice
from counterplay.errors import InvalidInputError
from counterplay.invariance.advisor_families import FAMILIES, Maker
from counterplay.invariance.images import Rows, augmented_sample
from counterplay.invariance.random_images import random_images

Fold = tuple[IntArray, IntArray]


@dataclass(frozen=True)
class RowLoss:
    """Loss of every row; an object rather than a closure, so that processes can share it."""

    kind: str
    own: Callable[[Any, Any], Any] | None = None

    def __call__(self, model: Any, given: Any, y: Any) -> FloatArray:
        """Loss of a fitted model on rows in their form, one number each."""
        if self.kind == "log_loss":
            chances = np.asarray(model.predict_proba(given), dtype=np.float64)
            place = np.searchsorted(model.classes_, y)
            place = np.minimum(place, chances.shape[1] - 1)
            hit = np.where(model.classes_[place] == y, chances[np.arange(len(y)), place], 0.0)
            return np.asarray(-np.log(np.maximum(hit, 1e-15)))
        answers = np.asarray(model.predict(given))
        if self.own is not None:
            losses = np.asarray(self.own(y, answers), dtype=np.float64)
            if losses.shape != (len(y),) or not np.isfinite(losses).all():
                raise InvalidInputError(
                    f"scoring must give one finite loss per row, got shape {losses.shape}"
                )
            return losses
        if self.kind == "squared error":
            return np.asarray((answers - y) ** 2, dtype=np.float64)
        return np.asarray(answers != y, dtype=np.float64)


def row_loss(scoring: Any, regression: bool) -> tuple[RowLoss, str]:
    """Loss per row for ``scoring``, and its name."""
    if callable(scoring):
        return RowLoss("own", scoring), "loss"
    names = ("error", "neg_mean_squared_error") if regression else ("error", "log_loss")
    check_choice(scoring, "scoring", names)
    kind = "squared error" if regression else str(scoring)
    return RowLoss(kind), kind.replace("_", " ")


@dataclass
class Race:
    """Losses of the candidates, row by row, and who is still in the race."""

    maker: Maker
    rows: Rows
    y: Any
    weights: FloatArray | None
    orbits: IntArray
    loss: RowLoss
    future: float  # share of future rows that are transformed
    candidates: tuple[str, ...]
    level: float | None
    losses: dict[str, FloatArray] = field(default_factory=dict)  # (repeats, n), NaN where unseen
    living: list[str] = field(default_factory=list)
    fits_used: int = 0
    fits_full: int = 0
    by_fold: list[list[str]] = field(default_factory=list)  # families fitted in each fold
    training: dict[str, float] = field(default_factory=dict)  # errors of plain and augment

    def run(self, folds: Sequence[Sequence[Fold]], n_jobs: int | None, progress: bool) -> None:
        """Fit and score fold by fold; after the second one losers are dropped."""
        shape = (len(folds), self.rows.shape[0])
        self.losses = {name: np.full(shape, np.nan) for name in self.candidates}
        self.living = list(self.candidates)
        asked = self._asked()
        steps = [(r, fold) for r, repeat in enumerate(folds) for fold in repeat]
        self.fits_full = len(steps) * len(self._families())
        with Parallel(n_jobs=n_jobs) as parallel:
            for place, (r, (train, test)) in enumerate(
                track(steps, "folds", total=len(steps), enabled=progress)
            ):
                self._check_apart(train, test)
                families = self._families()
                self.by_fold.append(families)
                self.fits_used += len(families)
                found = parallel(
                    delayed(_scored)(self, family, train, test, asked, place == 0)
                    for family in families
                )
                for scores, training in found:
                    self.training.update(training)
                    for name, values in scores.items():
                        self.losses[name][r, test] = values
                if place > 0 and self.level is not None:
                    self._drop()

    def _families(self) -> list[str]:
        return [f for f, names in FAMILIES.items() if any(name in self.living for name in names)]

    def _check_apart(self, train: IntArray, test: IntArray) -> None:
        both = np.intersect1d(self.orbits[train], self.orbits[test])
        if len(both):
            raise InvalidInputError(
                f"a splitter put rows of one orbit on both sides ({len(both)} orbits); use one "
                "that keeps groups together, such as StratifiedGroupKFold"
            )

    def _asked(self) -> Rows | None:
        """One random image of every row, the same for all candidates."""
        if self.future == 0:
            return None
        rng = np.random.default_rng(self.maker.seed)
        if not sparse.issparse(self.rows):
            return random_images(self.rows, self.maker.group, rng)[0]
        images = sparse.vstack(self.maker.group.sparse_images(self.rows), format="csr")
        n = self.rows.shape[0]
        return images[rng.integers(int(self.maker.group.order), size=n) * n + np.arange(n)]

    def _drop(self) -> None:
        best = min(self.living, key=self.mean)
        level = (self.level or 0.0) / len(self.candidates)
        self.living = [
            name for name in self.living if name == best or self.p_value(best, name) > level
        ]

    def mean(self, name: str) -> float:
        """Weighted mean loss of a candidate over the rows it has seen."""
        sums, counts = self.by_orbit(name)
        return float(sums.sum() / counts.sum()) if counts.sum() > 0 else np.inf

    def by_orbit(self, name: str) -> tuple[FloatArray, FloatArray]:
        """Sum of losses and of weights of every orbit."""
        weights = np.ones(self.rows.shape[0]) if self.weights is None else self.weights
        seen = ~np.isnan(self.losses[name])
        sums = (np.where(seen, self.losses[name], 0.0) * weights).sum(axis=0)
        counts = (seen * weights).sum(axis=0)
        n = int(self.orbits.max()) + 1
        lost = np.bincount(self.orbits, sums, n).astype(np.float64)
        return lost, np.bincount(self.orbits, counts, n).astype(np.float64)

    def p_value(self, better: str, worse: str) -> float:
        """Sign test over orbits that both have seen: is ``better`` better? Ties are dropped."""
        first, second = self.losses[better], self.losses[worse]
        gap = np.where(np.isnan(first) | np.isnan(second), 0.0, second - first).sum(axis=0)
        by_orbit = np.bincount(self.orbits, gap)
        wins, defeats = int((by_orbit > 1e-12).sum()), int((by_orbit < -1e-12).sum())
        return float(stats.binom.sf(wins - 1, wins + defeats, 0.5)) if wins + defeats else 1.0


def _scored(
    race: Race, family: str, train: IntArray, test: IntArray, asked: Rows | None, first: bool
) -> tuple[dict[str, FloatArray], dict[str, float]]:
    maker = race.maker
    weights = None if race.weights is None else race.weights[train]
    models = maker.fit(family, race.rows[train], race.y[train], weights)
    scores = {}
    for name, model in models.items():
        if name not in race.living:
            continue
        total = np.zeros(len(test))
        for share, rows in ((1 - race.future, race.rows), (race.future, asked)):
            if share > 0 and rows is not None:
                total += share * race.loss(model, maker.form.give(rows[test]), race.y[test])
        scores[name] = total
    training = _training_error(race, family, models, train) if first else {}
    return scores, training


def _training_error(
    race: Race, family: str, models: dict[str, Any], train: IntArray
) -> dict[str, float]:
    """Share of wrong answers on the data a model was fitted on, for plain and augment."""
    if race.maker.regression or family not in ("plain", "augment"):
        return {}
    given, y, model = race.maker.form.give(race.rows[train]), race.y[train], models[family]
    if family == "plain":
        return {family: float((model.predict(given) != y).mean())}
    maker = race.maker
    copies, labels, weights = augmented_sample(given, y, maker.group, maker.n_images, maker.seed)
    miss = np.asarray(model.predict(copies)) != labels
    return {family: float(weights[miss].sum() / weights.sum())}


def make_folds(
    y: Any, orbits: IntArray, n_splits: Any, repeats: int, seed: int, regression: bool
) -> list[list[Fold]]:
    """Folds that keep orbits together, stratified by class; or those of a splitter."""
    if hasattr(n_splits, "split"):
        return [list(_split(n_splits, y, orbits))]
    out = []
    for r in range(repeats):
        kind = GroupKFold if regression else StratifiedGroupKFold
        out.append(list(_split(kind(n_splits, shuffle=True, random_state=seed + r), y, orbits)))
    return out


def _split(splitter: Any, y: Any, orbits: IntArray) -> Iterator[Fold]:
    for train, test in splitter.split(np.zeros((len(y), 1)), y, orbits):
        if len(train) and len(test):
            yield np.asarray(train), np.asarray(test)


def corrected_error(
    race: Race, names: Sequence[str], n_boot: int, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Error of "choose the best, then use it": mean and 95 % interval over resampled orbits.

    In each draw the winner is chosen on the orbits drawn and scored on those left out.
    """
    parts = [race.by_orbit(name) for name in names]
    if not race.by_fold:
        return np.nan, np.nan, np.nan
    sums = np.array([part[0] for part in parts]).T
    counts = np.array([part[1] for part in parts]).T
    seen = counts.sum(axis=1) > 0
    sums, counts = sums[seen], counts[seen]
    n = len(sums)
    out = []
    for _ in range(n_boot):
        drawn = np.bincount(rng.integers(n, size=n), minlength=n)
        left = drawn == 0
        if not left.any():
            continue
        winner = int(np.argmin((drawn @ sums) / np.maximum(drawn @ counts, 1e-300)))
        weight = counts[left, winner].sum()
        if weight > 0:
            out.append(sums[left, winner].sum() / weight)
    if not out:
        return np.nan, np.nan, np.nan
    low, high = np.quantile(out, [0.025, 0.975])
    return float(np.mean(out)), float(low), float(high)
