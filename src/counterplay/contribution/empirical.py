"""Utilities measured with any scikit-learn classifier: train on what the parties bring, score.

Subsamples are nested and common to all questions (the first ``m_j`` rows of one permutation per
repeat), so that estimates hardly ever fall when somebody contributes more. Every number has a
standard error, and "undecided" is an answer. Exact questions to measured utilities need many fits;
``plan_consortium`` answers a coordinator's questions with about 176.
Source: "PAC games" and "Planning for a consortium", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from counterplay.contribution.game import CollabGame
from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, spawn
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_int,
    check_open_fraction,
    check_size,
    shorten,
)
from counterplay.errors import ConvergenceError, InvalidInputError

if TYPE_CHECKING:
    from counterplay.tables import Labels, Table

MOST_REPEATS = 10_000
MOST_ROWS = 50_000_000


@checked
@dataclass(frozen=True)
class MeasuredResponse:
    """Best response of one party with its uncertainty.

    ``low`` is the largest contribution that surely fails plus one, ``high`` the smallest that
    surely reaches the target (None if no contribution surely does).
    """

    party: int
    estimate: int
    low: int
    high: int | None
    outcome: Literal["decided", "undecided"]


@checked
class EmpiricalGame(CollabGame):
    """A data-sharing game whose utilities are measured by training and scoring a classifier.

    Use it when you have the parties' data and a model. Contributions are numbers of training rows.

    Parameters
    ----------
    datasets:
        One ``(X, y)`` per party. Tables are frames, arrays, sparse matrices, texts or images, the
        same for all; the columns of frames are matched by name. Labels are of any kind.
    estimator:
        Any scikit-learn classifier or pipeline; cloned for each fit and trained on what was given.
    mu:
        Target accuracies on the parties' own hold-out rows.
    n_repeats:
        Independent splits and permutations that every utility is averaged over.
    test_size:
        Fraction of each party's rows held out.
    integral:
        Whether contributions are whole numbers. Otherwise a fraction is rounded at random, with
        the same draws for every question.
    budget:
        Most fits; the question that needs one more ends with a :class:`ConvergenceError`. None: as
        many as are needed.
    progress:
        Whether to show how many fits were made.
    random_state:
        Seed of splits, permutations and roundings.

    Notes
    -----
    Estimates are means over ``n_repeats``; ``standard_errors`` gives their uncertainty. No
    guarantee of the theory applies to a measured game beyond these intervals.

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), Sec. 2 (general utilities).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> game = EmpiricalGame([(X[::2], y[::2]), (X[1::2], y[1::2])], GaussianNB(), mu=0.9)
    >>> bool(game.utilities([40, 0])[0] > 0.9)
    True
    """

    expensive = True

    def __init__(
        self,
        datasets: Sequence[tuple[Any, Any]],
        estimator: Any,
        mu: ArrayLike,
        *,
        n_repeats: int = 20,
        test_size: float = 0.3,
        integral: bool = True,
        budget: int | None = None,
        progress: bool = False,
        random_state: RandomState = 0,
    ) -> None:
        from counterplay.tables.labels import as_labels

        self.budget = None if budget is None else check_int(budget, "budget", low=1)
        self._fits, self._stop = [0], np.inf  # fits are counted over all copies of the game
        self._progress = progress

        self.estimator = _check_classifier(estimator)
        self.n_repeats = check_int(n_repeats, "n_repeats", low=1, high=MOST_REPEATS)
        size = check_open_fraction(test_size, "test_size")
        self._pool, sizes, labels = _read(datasets)
        check_size(self.n_repeats * len(self._pool), MOST_ROWS, "rows x repeats")
        self.classes, self._labels = as_labels(labels.classes), labels.values
        streams = spawn(random_state, self.n_repeats)
        self._splits = [_split(sizes, size, rng) for rng in streams]
        self._draws = [rng.random(len(sizes)) for rng in streams]
        self._cache: dict[tuple[int, ...], FloatArray] = {}
        rows = [len(part) for part in self._splits[0].train]
        super().__init__(len(sizes), mu, integral=integral, upper=rows)

    @property
    def fits(self) -> int:
        """Number of fits so far."""
        return self._fits[0]

    def until(self, seconds: float) -> Self:
        """Return the same game (and its fits so far) that stops answering after some seconds."""
        game = copy.copy(self)
        game._stop = time.monotonic() + seconds
        return game

    def standard_errors(self, theta: ArrayLike) -> FloatArray:
        """Return the standard errors of ``utilities(theta)``; infinite with one repeat."""
        return _standard_errors(self.scores(self._vector(theta)))

    def scores(self, theta: ArrayLike) -> FloatArray:
        """Return the accuracies of every repeat, shape ``(n_repeats, k)``."""
        return self._scores(self._vector(theta))

    def _scores(self, vector: FloatArray) -> FloatArray:
        """Accuracies of every repeat; beyond its cap a party brings all its rows."""
        whole = np.floor(vector)
        rounded = [whole + (draw < vector - whole) for draw in self._draws]
        return np.stack([self._scored(r, counts) for r, counts in enumerate(rounded)])

    def decide(
        self, i: int, theta: ArrayLike, confidence: float = 0.95
    ) -> Literal["satisfied", "unsatisfied", "undecided"]:
        """Say whether party ``i`` reaches its target, or that the repeats cannot tell."""
        party = self.check_party(i)
        sample = self.scores(theta)[:, party]
        level = check_open_fraction(confidence, "confidence")
        if self.n_repeats == 1:
            return "undecided"
        half = stats.t.ppf(0.5 + level / 2, self.n_repeats - 1)
        half = half * max(sample.std(ddof=1), 1e-12) / np.sqrt(self.n_repeats)
        if sample.mean() - half >= self.mu[party]:
            return "satisfied"
        return "unsatisfied" if sample.mean() + half < self.mu[party] else "undecided"

    def measured_response(
        self, i: int, theta: ArrayLike, confidence: float = 0.95
    ) -> MeasuredResponse:
        """Return the best response of ``i`` and the range that the repeats cannot exclude."""
        party, vector = self.check_party(i), self._vector(theta)
        top = int(self.caps[party])

        def first(test: Any) -> int | None:
            low, high = -1, top + 1
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if test(middle) else (middle, high)
            return None if high > top else high

        def verdict(m: int) -> str:
            return self.decide(party, _replace(vector, party, m), confidence)

        high = first(lambda m: verdict(m) == "satisfied")
        low = first(lambda m: verdict(m) != "unsatisfied")
        decided = high is not None and low == high
        return MeasuredResponse(
            party,
            int(self.best_response(party, vector)),
            top + 1 if low is None else low,
            high,
            "decided" if decided else "undecided",
        )

    def _utilities(self, theta: FloatArray) -> FloatArray:
        return np.stack([self._scores(row).mean(axis=0) for row in theta])

    def _best_response(self, i: int, theta: FloatArray) -> float:
        low, high = -1, int(self.caps[i]) + 1
        while high - low > 1:
            middle = (low + high) // 2
            value = self.scores(_replace(theta, i, middle))[:, i].mean()
            low, high = (low, middle) if value >= self.mu[i] else (middle, high)
        return float(high) if high <= self.caps[i] else np.inf

    def _sup_alone(self, i: int) -> float:
        alone = np.zeros(self.k)
        alone[i] = self.caps[i]
        return float(self._utilities(alone[None, :])[0, i])

    def _scored(self, repeat: int, counts: FloatArray) -> FloatArray:
        key = (repeat, *(int(m) for m in counts))
        if key not in self._cache:
            self._check_limits()
            self._cache[key] = self._score(self._splits[repeat], key[1:])
            self._fits[0] += 1
            self._show()
        return self._cache[key]

    def _check_limits(self) -> None:
        over = self.budget is not None and self._fits[0] >= self.budget
        if over or time.monotonic() > self._stop:
            what = f"the budget of {self.budget} fits is spent" if over else "the time is over"
            raise ConvergenceError(
                f"{what} after {self._fits[0]} fits; raise it, or use plan_consortium, which "
                "measures with about 176 fits"
            )

    def _show(self) -> None:
        if self._progress:
            from rich.console import Console

            Console(stderr=True).print(f"{self.fits} fits", end="\r")

    def _score(self, split: _Split, counts: tuple[int, ...]) -> FloatArray:
        from sklearn.base import clone

        own = np.concatenate([part[:m] for part, m in zip(split.train, counts)])
        y = self._labels[own]
        if len(y) == 0:  # nothing to learn from: a guess
            return np.full(self.k, 1.0 / len(self.classes))
        if len(set(y.tolist())) == 1:
            return np.array([float((self._labels[part] == y[0]).mean()) for part in split.test])
        try:
            model = clone(self.estimator).fit(self._pool.take(own), y)
        except Exception as error:
            raise InvalidInputError(
                f"the classifier could not be fitted to {len(y)} rows: {shorten(str(error), 160)}"
            ) from error
        return np.array([self._accuracy(model, part) for part in split.test])

    def _accuracy(self, model: Any, rows: IntArray) -> float:
        try:
            answers = np.asarray(model.predict(self._pool.take(rows)))
        except Exception as error:
            raise InvalidInputError(
                f"the classifier could not predict: {shorten(str(error), 160)}"
            ) from error
        if answers.shape != rows.shape:
            raise InvalidInputError(
                f"the classifier gave answers of shape {answers.shape} for {len(rows)} rows"
            )
        return float((answers == self._labels[rows]).mean())


@dataclass(frozen=True)
class _Split:
    """Row numbers of every party, in random order."""

    train: list[IntArray]
    test: list[IntArray]


def _split(sizes: IntArray, test_size: float, rng: np.random.Generator) -> _Split:
    train, test, start = [], [], 0
    for n in sizes.tolist():
        order = start + rng.permutation(n)
        cut = min(max(1, round(test_size * n)), n - 1)
        test.append(order[:cut])
        train.append(order[cut:])
        start += n
    return _Split(train, test)


def _read(datasets: Sequence[tuple[Any, Any]]) -> tuple[Table, IntArray, Labels]:
    """Return all rows as one table, how many each party has, and all labels."""
    from counterplay.contribution.parties import read_parties
    from counterplay.tables import Labels
    from counterplay.tables.labels import label_values

    for i, pair in enumerate(datasets):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidInputError(f"datasets[{i}] must be (X, y), got {shorten(pair, 100)}")
    pool, sizes = read_parties([X for X, _ in datasets], "datasets")
    values = [label_values(y, f"y of datasets[{i}]") for i, (_, y) in enumerate(datasets)]
    for i, (own, n) in enumerate(zip(values, sizes)):
        if len(own) != n or n < 2:
            raise InvalidInputError(
                f"datasets[{i}] must be a table X and labels y of the same length, at least 2, "
                f"got {n} rows and {len(own)} labels"
            )
    return pool, sizes, Labels.of(np.concatenate(values))


def _check_classifier(estimator: Any) -> Any:
    from sklearn.base import clone

    try:
        fits = hasattr(clone(estimator), "fit") and hasattr(estimator, "predict")
    except Exception:
        fits = False
    if not fits or isinstance(estimator, type):
        raise InvalidInputError(
            f"estimator must be a scikit-learn classifier, got {shorten(estimator, 100)}"
        )
    return estimator


def _standard_errors(scores: FloatArray) -> FloatArray:
    """Return the standard errors over the first axis; infinite where there is one number only."""
    n = len(scores)
    if n == 1:
        return np.full(scores.shape[1:], np.inf)
    return np.asarray(scores.std(axis=0, ddof=1) / np.sqrt(n))


def _replace(theta: FloatArray, i: int, value: float) -> FloatArray:
    other = theta.copy()
    other[i] = value
    return other
