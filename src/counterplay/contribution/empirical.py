"""Utilities measured with any scikit-learn classifier: train on what the parties bring, score.

Subsamples are nested and common to all questions (the first ``m_j`` rows of one permutation per
repeat), so that estimates hardly ever fall when somebody contributes more. Every number has a
standard error, and "undecided" is an answer. Learning curves of every party on every party's data
give two numbers more: how many own rows does i need for its target, and how many own rows is one
row of j worth? That is a linear game in effective rows.
Source: "PAC games" and "Planning for a consortium", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from counterplay.contribution.game import CollabGame
from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, spawn
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_float_array,
    check_int,
    check_open_fraction,
    check_size,
    shorten,
)
from counterplay.errors import InfeasibleError, InvalidInputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

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
        random_state: RandomState = 0,
    ) -> None:
        from counterplay.tables.labels import as_labels

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
            self._cache[key] = self._score(self._splits[repeat], key[1:])
        return self._cache[key]

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


@checked(arrays=True)
@dataclass(frozen=True)
class LearningCurves(Report):
    """Measured accuracies: ``accuracy[i, j, l]`` on party i after ``sizes[l]`` rows of party j."""

    sizes: FloatArray
    accuracy: FloatArray
    standard_error: FloatArray

    def __post_init__(self) -> None:
        sizes, k = self.sizes, self.accuracy.shape[0] if self.accuracy.ndim == 3 else 0
        if not k or self.accuracy.shape != (k, k, sizes.size) or sizes.ndim != 1:
            raise InvalidInputError(
                f"accuracy must have shape (parties, parties, {sizes.size}), "
                f"got {self.accuracy.shape}"
            )
        if self.standard_error.shape != self.accuracy.shape:
            raise InvalidInputError("standard_error must have the shape of accuracy")
        if not sizes.size or not (sizes[0] > 0 and (np.diff(sizes) > 0).all()):
            raise InvalidInputError("sizes must be positive and rising")

    def monotone(self) -> FloatArray:
        """Return the curves with noise removed by isotonic regression: more rows never hurt."""
        from sklearn.isotonic import IsotonicRegression

        flat = self.accuracy.reshape(-1, self.sizes.size)
        fitted = [IsotonicRegression().fit_transform(self.sizes, row) for row in flat]
        return np.array(fitted).reshape(self.accuracy.shape)

    def rows_needed(self, mu: ArrayLike) -> FloatArray:
        """Return ``(k, k)``: rows of j that bring i to its target; infinite if no size does."""
        k = self.accuracy.shape[0]
        given = check_float_array(mu, "mu")
        if given.shape not in ((), (1,), (k,)):
            raise InvalidInputError(f"mu must be one target or one per party ({k})")
        targets = np.broadcast_to(given, (k,))
        smooth, log_size = self.monotone(), np.log(self.sizes)
        needed = np.full((k, k), np.inf)
        for i in range(k):
            for j in range(k):
                curve = smooth[i, j]
                if curve[-1] < targets[i]:
                    continue
                first = int(np.argmax(curve >= targets[i]))
                if first == 0:
                    needed[i, j] = self.sizes[0]
                    continue
                rise = (targets[i] - curve[first - 1]) / (curve[first] - curve[first - 1])
                step = log_size[first] - log_size[first - 1]
                needed[i, j] = np.exp(log_size[first - 1] + rise * step)
        return needed

    def exchange_rates(self, mu: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return ``(W, needed)``: own rows one row of j is worth to i, and own rows i needs."""
        needed = self.rows_needed(mu)
        own = np.diagonal(needed).copy()
        for i in np.flatnonzero(~np.isfinite(own)):
            raise InfeasibleError(
                f"party {i} cannot reach its target alone: its own curve ends at "
                f"{self.monotone()[i, i, -1]:.3g} with {int(self.sizes[-1])} rows; lower the target"
            )
        return own[:, None] / needed, own

    def summary(self) -> str:
        """Return how well each party does with its own rows."""
        own = np.diagonal(self.monotone()[:, :, -1])
        parts = [f"party {i} reaches {value:.1%}" for i, value in enumerate(own)]
        return f"with {int(self.sizes[-1])} own rows " + ", ".join(parts)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per (party scored, party trained on, size)."""
        import pandas as pd

        k = self.accuracy.shape[0]
        scored, trained, size = np.meshgrid(range(k), range(k), self.sizes, indexing="ij")
        return pd.DataFrame(
            {
                "party": scored.ravel(),
                "trained_on": trained.ravel(),
                "rows": size.ravel().astype(int),
                "accuracy": self.accuracy.ravel(),
                "standard_error": self.standard_error.ravel(),
            }
        )

    def plot(self, ax: Axes | None = None, party: int = 0) -> Axes:
        """Draw how one party learns from everybody's data."""
        axes, errors = axes_or_new(ax), self.standard_error
        check_int(party, "party", low=0, high=len(self.accuracy) - 1)
        for j in range(self.accuracy.shape[1]):
            mean = self.accuracy[party, j]
            error = 1.96 * np.where(np.isfinite(errors[party, j]), errors[party, j], 0.0)
            label = "own data" if j == party else f"data of party {j}"
            axes.plot(self.sizes, mean, marker=".", color=PALETTE[j % 7], label=label)
            axes.fill_between(
                self.sizes, mean - error, mean + error, color=PALETTE[j % 7], alpha=0.15
            )
        axes.set(xscale="log", xlabel="training rows", ylabel=f"accuracy of party {party}")
        axes.legend()
        return axes


@checked
def measure_learning_curves(
    datasets: Sequence[tuple[Any, Any]],
    estimator: Any,
    *,
    sizes: Sequence[int] | None = None,
    n_repeats: int = 8,
    test_size: float = 0.3,
    random_state: RandomState = 0,
) -> LearningCurves:
    """Measure how well each party is served by growing samples of each party's data.

    Parameters
    ----------
    datasets:
        One ``(X, y)`` per party, as in :class:`EmpiricalGame`.
    estimator:
        Any scikit-learn classifier or pipeline.
    sizes:
        Training sizes; by default eight from 5 rows to the smallest party's training rows.
    n_repeats:
        Independent splits that every accuracy is averaged over.
    test_size:
        Fraction of each party's rows held out.
    random_state:
        Seed of splits and subsamples.

    Notes
    -----
    ``k`` times ``len(sizes)`` times ``n_repeats`` fits; each fit is scored on every party.

    References
    ----------
    "Planning for a consortium" in docs/theory/04-contribution.md; the exchange rate is the marginal
    rate of substitution at the target.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_digits(return_X_y=True)
    >>> parts = [(X[i::3], y[i::3]) for i in range(3)]
    >>> curves = measure_learning_curves(parts, GaussianNB(), sizes=[50, 200, 400], n_repeats=2)
    >>> bool((curves.rows_needed(0.6) < 400).all())
    True
    """
    game = EmpiricalGame(
        datasets,
        estimator,
        0.0,
        n_repeats=n_repeats,
        test_size=test_size,
        random_state=random_state,
    )
    rows = int(game.caps.min())
    if sizes is None:
        grid = np.unique(np.geomspace(min(5, rows), rows, 8).round())
    else:
        grid = np.unique(check_float_array(sizes, "sizes", ndim=1).round())
    if grid[0] < 1 or grid[-1] > rows:
        raise InvalidInputError(f"sizes must be between 1 and {rows}, the smallest training part")
    scores = np.empty((game.k, game.k, grid.size))
    errors = np.empty_like(scores)
    for j in range(game.k):
        for level, size in enumerate(grid):
            theta = np.zeros(game.k)
            theta[j] = size
            sample = game.scores(theta)
            scores[:, j, level] = sample.mean(axis=0)
            errors[:, j, level] = _standard_errors(sample)
    return LearningCurves(grid, scores, errors)


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
