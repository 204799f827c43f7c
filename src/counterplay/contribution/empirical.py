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
from counterplay.core.figures import PALETTE, axes_or_new
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, spawn
from counterplay.core.validation import (
    FloatArray,
    check_float_array,
    check_open_fraction,
    check_positive_int,
)
from counterplay.errors import InfeasibleError, InvalidInputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


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


class EmpiricalGame(CollabGame):
    """A data-sharing game whose utilities are measured by training and scoring a classifier.

    Use it when you have the parties' data and a model. Contributions are numbers of training rows.

    Parameters
    ----------
    datasets:
        One ``(X, y)`` per party.
    estimator:
        Any scikit-learn classifier; cloned for each fit.
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
        datasets: Sequence[tuple[ArrayLike, ArrayLike]],
        estimator: Any,
        mu: ArrayLike,
        *,
        n_repeats: int = 20,
        test_size: float = 0.3,
        integral: bool = True,
        random_state: RandomState = 0,
    ) -> None:
        parties = [_check_party(i, X, y) for i, (X, y) in enumerate(datasets)]
        if not parties:
            raise InvalidInputError("datasets must contain at least one party")
        if len({X.shape[1] for X, _ in parties}) > 1:
            raise InvalidInputError("all parties must have the same number of columns")
        self.estimator = estimator
        self.n_repeats = check_positive_int(n_repeats, "n_repeats")
        self.classes = np.unique(np.concatenate([y for _, y in parties]))
        size = check_open_fraction(test_size, "test_size")
        streams = spawn(random_state, self.n_repeats)
        self._splits = [_split(parties, size, rng) for rng in streams]
        self._draws = [rng.random(len(parties)) for rng in streams]
        self._cache: dict[tuple[int, ...], FloatArray] = {}
        rows = [len(X) for X, _ in self._splits[0].train]
        super().__init__(len(parties), mu, integral=integral, upper=rows)

    def standard_errors(self, theta: ArrayLike) -> FloatArray:
        """Return the standard errors of ``utilities(theta)`` over the repeats."""
        scores = self.scores(self._vector(theta))
        return np.asarray(scores.std(axis=0, ddof=1) / np.sqrt(self.n_repeats))

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
        half = (
            stats.t.ppf(0.5 + confidence / 2, self.n_repeats - 1) if self.n_repeats > 1 else np.inf
        )
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

        X = np.concatenate([a[:m] for (a, _), m in zip(split.train, counts)])
        y = np.concatenate([b[:m] for (_, b), m in zip(split.train, counts)])
        if len(y) == 0:  # nothing to learn from: a guess
            return np.full(self.k, 1.0 / len(self.classes))
        if len(np.unique(y)) == 1:
            return np.array([float((b == y[0]).mean()) for _, b in split.test])
        model = clone(self.estimator).fit(X, y)
        return np.array([float((model.predict(a) == b).mean()) for a, b in split.test])


@dataclass(frozen=True)
class LearningCurves(Report):
    """Measured accuracies: ``accuracy[i, j, l]`` on party i after ``sizes[l]`` rows of party j."""

    sizes: FloatArray
    accuracy: FloatArray
    standard_error: FloatArray

    def monotone(self) -> FloatArray:
        """Return the curves with noise removed by isotonic regression: more rows never hurt."""
        from sklearn.isotonic import IsotonicRegression

        flat = self.accuracy.reshape(-1, self.sizes.size)
        fitted = [IsotonicRegression().fit_transform(self.sizes, row) for row in flat]
        return np.array(fitted).reshape(self.accuracy.shape)

    def rows_needed(self, mu: ArrayLike) -> FloatArray:
        """Return ``(k, k)``: rows of j that bring i to its target; infinite if no size does."""
        k = self.accuracy.shape[0]
        targets = np.broadcast_to(check_float_array(mu, "mu"), (k,))
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
        axes = axes_or_new(ax)
        for j in range(self.accuracy.shape[1]):
            mean, error = self.accuracy[party, j], 1.96 * self.standard_error[party, j]
            label = "own data" if j == party else f"data of party {j}"
            axes.plot(self.sizes, mean, marker=".", color=PALETTE[j % 7], label=label)
            axes.fill_between(
                self.sizes, mean - error, mean + error, color=PALETTE[j % 7], alpha=0.15
            )
        axes.set(xscale="log", xlabel="training rows", ylabel=f"accuracy of party {party}")
        axes.legend()
        return axes


def measure_learning_curves(
    datasets: Sequence[tuple[ArrayLike, ArrayLike]],
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
        One ``(X, y)`` per party.
    estimator:
        Any scikit-learn classifier.
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
            errors[:, j, level] = sample.std(axis=0, ddof=1 if n_repeats > 1 else 0)
    return LearningCurves(grid, scores, errors / np.sqrt(n_repeats))


@dataclass(frozen=True)
class _Split:
    train: list[tuple[np.ndarray, np.ndarray]]
    test: list[tuple[np.ndarray, np.ndarray]]


def _split(
    parties: list[tuple[np.ndarray, np.ndarray]], test_size: float, rng: np.random.Generator
) -> _Split:
    train, test = [], []
    for X, y in parties:
        order = rng.permutation(len(y))
        cut = min(max(1, round(test_size * len(y))), len(y) - 1)
        test.append((X[order[:cut]], y[order[:cut]]))
        train.append((X[order[cut:]], y[order[cut:]]))
    return _Split(train, test)


def _check_party(i: int, X: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    rows, labels = np.asarray(X), np.asarray(y)
    if rows.ndim != 2 or labels.ndim != 1 or len(rows) != len(labels) or len(labels) < 2:
        raise InvalidInputError(
            f"datasets[{i}] must be a table X and labels y of the same length, at least 2, "
            f"got shapes {rows.shape} and {labels.shape}"
        )
    return rows, labels


def _replace(theta: FloatArray, i: int, value: float) -> FloatArray:
    other = theta.copy()
    other[i] = value
    return other
