"""Measure the attackable rate from both sides: real attacks below, certificates above.

A failed attack proves nothing and a certificate may be loose, so a report always carries both. For
learners with hidden coins the attacker commits before the coins fall: the rate is the maximum over
attackers of a mean over coins, never a mean of maxima. Source: docs/theory/10-poisoning.md,
"Setting" (Definition 10.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.seeds import derive_seed
from counterplay.core.stats import Interval, clopper_pearson
from counterplay.core.validation import BoolArray, FloatArray, IntArray, check_int
from counterplay.errors import InvalidInputError
from counterplay.poisoning.clean_rate import chernoff_interval
from counterplay.poisoning.model import (
    Attacker,
    EmptyAttacker,
    LabelledSet,
    Target,
    as_points,
    check_learner,
    fresh,
    is_randomised,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Certificate = Callable[[Any, Target, LabelledSet, Any, "int | None"], ArrayLike]


@checked(arrays=True)
@dataclass(frozen=True)
class AttackReport(Report):
    """What attacks achieved and what certificates exclude, per test point.

    Attributes
    ----------
    clean_correct:
        Probability (over the learner's coins) of being right without poison; 0 or 1 if there are
        no coins.
    attacked:
        Probability of being wrong under the best attack found: a lower bound (with coins: an
        unbiased estimate of one, from coins that did not choose the attack).
    certified:
        Whether no poison within the budget can make the point wrong: an upper bound.
    n_poison:
        Rows of the best poison; 0 where no poison was needed or none was found.
    attacker:
        Name of the best attacker.
    poison:
        The best poison set, or None.

    Examples
    --------
    >>> from counterplay.poisoning import IntervalTarget
    >>> from counterplay.poisoning.lab import GapCuttingAttacker, MaxOpenInterval
    >>> S = LabelledSet(np.linspace(0, 1, 9), np.zeros(9, int))
    >>> report = attackable_rate(MaxOpenInterval(), IntervalTarget(), S, [[0.35], [0.62]],
    ...                          [GapCuttingAttacker()])
    >>> report.atk_lower, report.n_poison.tolist()
    (1.0, [2, 4])
    """

    clean_correct: FloatArray
    attacked: FloatArray
    certified: BoolArray
    n_poison: IntArray
    attacker: tuple[str, ...]
    poison: tuple[LabelledSet | None, ...]
    budget: int | None
    seed: int | None

    def __post_init__(self) -> None:
        if self.attacked.shape != self.certified.shape:
            raise InvalidInputError("attacked and certified must have one entry per test point")
        both = np.flatnonzero((self.attacked > 0) & self.certified)
        if both.size:
            raise InvalidInputError(
                f"test point {int(both[0])} is certified but an attack succeeded there; the "
                "certificate does not hold for this learner and target"
            )

    @property
    def err(self) -> float:
        """Error rate without poison."""
        return float((1 - self.clean_correct).mean())

    @property
    def atk_lower(self) -> float:
        """Rate of points at which a real attack succeeded."""
        return float(self.attacked.mean())

    @property
    def atk_upper(self) -> float:
        """Rate of points without a certificate."""
        return float((~self.certified).mean())

    def interval(self, name: str, confidence: float = 0.95) -> Interval:
        """Valid interval for ``"err"``, ``"atk_lower"`` or ``"atk_upper"`` over test points."""
        values = {
            "err": 1 - self.clean_correct,
            "atk_lower": self.attacked,
            "atk_upper": ~self.certified,
        }
        if name not in values:
            raise InvalidInputError(f"name must be one of {', '.join(values)}, got {name!r}")
        chosen = np.asarray(values[name], dtype=np.float64)
        if np.isin(chosen, (0.0, 1.0)).all():
            return clopper_pearson(int(chosen.sum()), chosen.size, confidence)
        return chernoff_interval(float(chosen.mean()), chosen.size, confidence)

    def exposed(self) -> IntArray:
        """Positions of the points some poison flips, cheapest poison first."""
        hit = np.flatnonzero((self.attacked > 0) & (self.n_poison > 0))
        return hit[np.argsort(self.n_poison[hit], kind="stable")].astype(np.int64)

    def summary(self) -> str:
        """Three lines: error, attacked, certified."""
        budget = "unlimited" if self.budget is None else str(self.budget)
        return "\n".join(
            [
                f"{len(self.attacked)} test points, poison budget {budget}",
                f"error without poison    {self.interval('err')}",
                f"attackable, at least    {self.interval('atk_lower')}",
                f"attackable, at most     {self.interval('atk_upper')}",
            ]
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per test point."""
        import pandas as pd

        return pd.DataFrame(
            {
                "clean_correct": self.clean_correct,
                "attacked": self.attacked,
                "certified": self.certified,
                "n_poison": self.n_poison,
                "attacker": list(self.attacker),
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Bars: error, attacked, not certified, with exact intervals."""
        labels = ["wrong without\npoison", "flipped by\na real attack", "not certified\nsafe"]
        spans = [self.interval(name) for name in ("err", "atk_lower", "atk_upper")]
        return rate_bars(ax, dict(zip(labels, spans)))

    def plot_exposure(self, distance: ArrayLike, ax: Axes | None = None) -> Axes:
        """Scatter of the poison needed over the distance of each point to the boundary.

        ``distance`` has one number per test point, such as ``abs(target.decision_function(X))``.
        Points that no attack flipped are drawn as crosses at zero.
        """
        from counterplay.core.figures import PALETTE, axes_or_new

        far = np.asarray(distance, dtype=np.float64)
        if far.shape != self.attacked.shape:
            raise InvalidInputError(f"distance must have length {self.attacked.size}")
        axes, hit = axes_or_new(ax), (self.attacked > 0) & (self.n_poison > 0)
        wrong = (self.attacked > 0) & (self.n_poison == 0)
        safe = ~hit & ~wrong
        axes.plot(far[hit], self.n_poison[hit], "o", color=PALETTE[1], label="flipped")
        axes.plot(far[wrong], 0 * far[wrong], "s", color=PALETTE[0], label="wrong already")
        axes.plot(far[safe], 0 * far[safe], "x", color="#888888", label="not flipped")
        axes.set(xlabel="distance to the boundary", ylabel="rows of the winning poison")
        axes.legend(fontsize=8)
        return axes


def rate_bars(ax: Axes | None, spans: dict[str, Interval]) -> Axes:
    """Draw named rates as bars with their intervals; bars beyond the third repeat its colour."""
    from counterplay.core.figures import PALETTE, axes_or_new

    axes, values = axes_or_new(ax), spans.values()
    bars = [[s.estimate - s.low for s in values], [s.high - s.estimate for s in values]]
    colors = [PALETTE[min(i, 2)] for i in range(len(spans))]
    axes.bar(list(spans), [s.estimate for s in values], yerr=bars, color=colors, capsize=4)
    axes.set(ylabel="fraction of test rows", ylim=(0, 1))
    return axes


@checked
def attackable_rate(
    learner: Any,
    h_star: Target,
    S: LabelledSet,
    X_test: ArrayLike,
    attackers: Sequence[Attacker] = (),
    budget: int | None = None,
    n_coins: int = 1,
    seed: int | None = None,
    *,
    certificate: Certificate | None = None,
    n_jobs: int | None = None,
) -> AttackReport:
    """Attack every test point for real and compare with the learner's certificate.

    Parameters
    ----------
    learner:
        A learner of this package or any scikit-learn classifier with 0/1 labels. It is refitted on
        the training set plus the poison, with everything inside it (scaling, search, ...).
    h_star:
        The true labelling function; poison must agree with it.
    S:
        Clean training set.
    X_test:
        Test points.
    attackers:
        Tried in order; without coins the first success ends the search.
    budget:
        Most poison rows per test point; None is unlimited.
    n_coins:
        Fits per poison for learners with coins: the same coins for every attacker, new ones for
        every test point. The best attacker is then scored with as many fresh coins, so that a
        lucky one is not rewarded for its luck.
    seed:
        Seed of the coins.
    certificate:
        Function ``(fitted, h_star, S, X_test, budget)`` that returns True where no poison can
        succeed. Default: the learner's own ``certified`` or ``certify`` method, or
        no certificate.
    n_jobs:
        Workers of joblib over test points.

    Examples
    --------
    >>> from counterplay.poisoning import IntervalTarget
    >>> from counterplay.poisoning.lab import MinClosedInterval
    >>> S = LabelledSet(np.linspace(0.05, 0.95, 10), np.repeat([0, 1, 0], [3, 4, 3]))
    >>> report = attackable_rate(MinClosedInterval(), IntervalTarget([0.3, 0.7]), S,
    ...                          np.linspace(0, 1, 101))
    >>> report.err == report.atk_upper  # the closure learner is never worse under attack
    True

    References
    ----------
    "Setting" (Definition 10.1), see docs/theory/10-poisoning.md.
    """
    check_learner(learner)
    if n_jobs == 0:
        raise InvalidInputError("n_jobs must be None, a number of workers, or -1 for all; got 0")
    points = as_points(X_test)
    count = check_int(n_coins, "n_coins", low=1)
    has_coins = is_randomised(learner) or count > 1
    team = tuple(a for a in attackers if not isinstance(a, EmptyAttacker))
    truth = np.asarray(h_star(points)).astype(np.uint8)
    model = _fit(learner, S, derive_seed("coins", seed, 0) if has_coins else None)
    search = _Search(learner, h_star, S, team, budget, model, count if has_coins else 0, seed)
    if n_jobs is None or n_jobs == 1:
        found = [search(i, points[i : i + 1], int(truth[i])) for i in range(len(points))]
    else:
        from joblib import Parallel, delayed

        found = Parallel(n_jobs=n_jobs)(
            delayed(search)(i, points[i : i + 1], int(truth[i])) for i in range(len(points))
        )
    return AttackReport(
        clean_correct=1.0 - np.array([f.clean for f in found], dtype=np.float64),
        attacked=np.array([f.rate for f in found], dtype=np.float64),
        certified=_certified(certificate, model, h_star, S, points, budget),
        n_poison=np.array([0 if f.poison is None else len(f.poison) for f in found], np.int64),
        attacker=tuple(f.attacker for f in found),
        poison=tuple(f.poison for f in found),
        budget=budget,
        seed=seed,
    )


@dataclass(frozen=True)
class _Found:
    """The best attack on one test point."""

    clean: float
    rate: float
    attacker: str
    poison: LabelledSet | None


@dataclass(frozen=True)
class _Search:
    """Finds the best attack on one test point; ``n_coins`` is 0 for learners without coins."""

    learner: Any
    h_star: Target
    S: LabelledSet
    attackers: Sequence[Attacker]
    budget: int | None
    model: Any
    n_coins: int
    seed: int | None

    def __call__(self, index: int, x0: Any, truth: int) -> _Found:
        coins = self._coins("coins", index)
        clean = self._error(coins, None, x0, truth)
        best = _Found(clean, clean, "EmptyAttacker", None)
        for attacker in self.attackers:
            if best.rate >= 1.0:
                break
            if not attacker.is_applicable(self.h_star, self.S, x0[0]):
                continue
            poison = attacker.attack(self.h_star, self.S, x0[0], self.budget)
            if len(poison) == 0:
                continue
            rate = self._error(coins, poison, x0, truth)
            if rate > best.rate:
                best = _Found(clean, rate, type(attacker).__name__, poison)
        if self.n_coins == 0 or not self.attackers:
            return best
        fresh_rate = self._error(self._coins("score", index), best.poison, x0, truth)
        return _Found(clean, fresh_rate, best.attacker, best.poison)

    def _coins(self, purpose: str, index: int) -> list[int]:
        return [derive_seed(purpose, self.seed, index, i) for i in range(self.n_coins)]

    def _error(self, coins: list[int], poison: LabelledSet | None, x0: Any, truth: int) -> float:
        """Share of the coins with which the point is wrong; without coins 0 or 1."""
        if self.n_coins == 0:
            models = [self.model if poison is None else self._refit(poison)]
        else:
            data = self.S if poison is None else self.S + poison
            models = [_fit(self.learner, data, coin) for coin in coins]
        return float(np.mean([int(_labels(model, x0)[0]) != truth for model in models]))

    def _refit(self, poison: LabelledSet) -> Any:
        if hasattr(self.model, "partial_refit"):
            return self.model.partial_refit(poison)
        return _fit(self.learner, self.S + poison, None)


def _fit(learner: Any, S: LabelledSet, coin: int | None) -> Any:
    return fresh(learner, coin).fit(S.X, S.y)


def _labels(model: Any, X: Any) -> Any:
    return np.asarray(model.predict(X)).astype(np.uint8)


def _certified(
    certificate: Certificate | None,
    fitted: Any,
    h_star: Target,
    S: LabelledSet,
    points: Any,
    budget: int | None,
) -> BoolArray:
    if certificate is not None:
        safe = certificate(fitted, h_star, S, points, budget)
    elif hasattr(fitted, "certified"):
        safe = fitted.certified(h_star, S, points, budget)
    elif hasattr(fitted, "certify") and budget is not None:
        right = _labels(fitted, points) == np.asarray(h_star(points))
        safe = right & (fitted.certify(points) >= budget)
    else:
        safe = np.zeros(len(points))
    return np.asarray(safe, dtype=np.bool_)
