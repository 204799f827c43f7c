"""Should I augment? Measure it on your own data, and say which theorem is at work.

Five candidates are cross-validated, with orbits kept together (no look-up possible) and ungrouped
(natural use); the difference is what the look-up gains. Source: docs/theory/11-invariance.md,
"Dimensions and advice".
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.utils.multiclass import type_of_target

from counterplay.core.figures import PALETTE, axes_or_new, figure_style
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator
from counterplay.core.stats import binomial_p_value, clopper_pearson
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    check_choice,
    check_float_array,
    check_int,
    check_open_fraction,
)
from counterplay.errors import InvalidInputError
from counterplay.invariance.comparison import MODELS, Comparison
from counterplay.invariance.groups import ValidityReport, check_validity
from counterplay.invariance.orbit_sample import as_group

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VerdictName = Literal["augment", "do not augment", "use invariant learner", "no difference"]


@dataclass(frozen=True)
class Advice(Report):
    """The answer to "should I augment?" with the evidence.

    Attributes
    ----------
    verdict:
        "augment", "do not augment", "use invariant learner" or "no difference".
    reason:
        Why, with the theorem behind it.
    best:
        The candidate with the smallest natural error.
    errors:
        Table: natural and orbit-grouped cross-validated error of every candidate with intervals,
        and the exact p-value of the paired comparison with ERM.
    invariance_levels:
        Share of points whose predictions vary over the orbit, for ERM and DA.
    fit_natural:
        Training error of ERM on natural data.
    fit_augmented:
        Training error of DA on augmented data.
    validity:
        Group laws, orbits and label conflicts in the data.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from counterplay.invariance import groups
    >>> from counterplay.invariance.lab import tic_tac_toe_endgames
    >>> X, y = tic_tac_toe_endgames()
    >>> pick = np.random.default_rng(0).permutation(len(X))[:150]
    >>> advice = augmentation_advisor(
    ...     DecisionTreeClassifier(random_state=0), X[pick], y[pick], groups.d4((3, 3)),
    ...     random_state=0)
    >>> advice.verdict
    'augment'
    """

    verdict: VerdictName
    reason: str
    best: str
    errors: tuple[tuple[str, float, float, float, float, float], ...]
    invariance_levels: tuple[tuple[str, float], ...]
    fit_natural: float
    fit_augmented: float
    validity: ValidityReport

    def to_frame(self) -> pd.DataFrame:
        """One row per candidate."""
        columns = ["model", "error", "low", "high", "grouped_error", "p_value"]
        return pd.DataFrame(list(self.errors), columns=columns)

    def summary(self) -> str:
        """The verdict, the reason and the table."""
        levels = ", ".join(f"{name} {level:.2f}" for name, level in self.invariance_levels)
        return "\n".join(
            [
                f"Verdict: {self.verdict}.",
                self.reason,
                self.validity.summary(),
                f"Share of points whose prediction varies over the orbit: {levels}.",
                f"Training error: {self.fit_natural:.3f} on natural data (ERM), "
                f"{self.fit_augmented:.3f} on augmented data (DA).",
                self.to_frame().to_string(index=False, float_format=lambda v: f"{v:.3f}"),
            ]
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Errors of the candidates, natural and with orbits kept together."""
        with figure_style():
            axes = axes_or_new(ax)
            frame = self.to_frame()
            place = np.arange(len(frame))
            spread = np.abs(frame[["low", "high"]].to_numpy().T - frame["error"].to_numpy())
            axes.bar(
                place - 0.2, frame["error"], 0.38, yerr=spread, capsize=3, color=PALETTE[0],
                label="natural folds",
            )  # fmt: skip
            axes.bar(
                place + 0.2, frame["grouped_error"], 0.38, color=PALETTE[5],
                label="orbits kept together",
            )  # fmt: skip
            axes.set_xticks(place, frame["model"])
            axes.set(ylabel="cross-validated error", title=f"Verdict: {self.verdict}")
            axes.legend()
        return axes


def augmentation_advisor(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    group: Any,
    *,
    n_splits: int = 5,
    evaluate_on: Literal["natural", "transformed"] = "natural",
    alpha: float = 0.05,
    n_images: int = 8,
    random_state: RandomState = None,
) -> Advice:
    """Should I augment my data with these transformations, and what do I do at test time?

    Parameters
    ----------
    estimator:
        Any scikit-learn classifier.
    X:
        Natural rows.
    y:
        Their labels.
    group:
        A group from :mod:`counterplay.invariance.groups`.
    n_splits:
        Folds.
    evaluate_on:
        "natural": future points look like X. "transformed": they are random images of such
        points (rotated pictures will come in).
    alpha:
        Level of the paired tests behind the verdict (exact sign tests on discordant points).
    n_images:
        Random images per point for groups too large to list.
    random_state:
        Seed of the folds and of the random images.

    Returns
    -------
    Advice
        With ``verdict``, ``summary()``, ``to_frame()`` and ``plot()``.

    Examples
    --------
    Labels that depend on which half is larger do not survive a reversal; the advisor says so.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from counterplay.invariance import groups
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> y = (X[:, 0] > X[:, 3]).astype(int)
    >>> advice = augmentation_advisor(
    ...     LogisticRegression(), X, y, groups.sequence_reversal(4), random_state=0)
    >>> advice.verdict
    'do not augment'
    """
    check_choice(evaluate_on, "evaluate_on", ("natural", "transformed"))
    level = check_open_fraction(alpha, "alpha")
    folds = check_int(n_splits, "n_splits", low=2)
    rows, labels = _checked(estimator, X, y, folds)
    transformations = as_group(group, rows.shape[1])
    rows = np.asarray(transformations.check_points(rows))
    validity = check_validity(transformations, rows, labels)
    rng = generator(random_state)
    split_seed, image_seed = (int(s) for s in rng.integers(2**31, size=2))
    orbits = transformations.is_group and validity.is_group
    run = Comparison(estimator, transformations, orbits, n_images, image_seed, evaluate_on)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        natural = run.wrong(
            rows, labels, StratifiedKFold(folds, shuffle=True, random_state=split_seed)
        )
        grouped = run.wrong(
            rows, labels, StratifiedGroupKFold(folds, shuffle=True, random_state=split_seed)
        )
        fit_natural, fit_augmented = run.training_errors(rows, labels)
    verdict, reason = _decide(natural, level, fit_natural, fit_augmented, validity)
    table = tuple(_row(name, natural, grouped) for name in MODELS)
    best = min(MODELS, key=lambda name: (natural[name].mean(), MODELS.index(name)))
    levels = tuple((name, run.levels[name]) for name in ("ERM", "DA"))
    return Advice(verdict, reason, best, table, levels, fit_natural, fit_augmented, validity)


def _checked(
    estimator: Any, X: ArrayLike, y: ArrayLike, folds: int
) -> tuple[FloatArray, NDArray[Any]]:
    """Data that cross-validation of a classifier can work with."""
    if not all(hasattr(estimator, name) for name in ("get_params", "fit", "predict")):
        raise InvalidInputError(f"estimator must be a scikit-learn classifier, got {estimator!r}")
    rows, labels = check_float_array(X, "X", ndim=2), np.asarray(y)
    if labels.shape != (len(rows),):
        raise InvalidInputError("X must be a matrix and y a list of labels of the same length")
    if type_of_target(labels) not in ("binary", "multiclass"):
        raise InvalidInputError(f"y must be class labels, got {type_of_target(labels)} values")
    if len(np.unique(labels)) < 2:
        raise InvalidInputError("y has one class only; there is nothing to tell apart")
    if folds > len(rows):
        raise InvalidInputError(f"n_splits must be at most the number of rows {len(rows)}")
    return rows, labels


class InvarianceAdvisor(BaseEstimator):
    """The advisor as an object: ``InvarianceAdvisor(base, group).fit(X, y).advice_``.

    Parameters as for :func:`augmentation_advisor`.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from counterplay.invariance import groups
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> y = (X[:, 0] > X[:, 3]).astype(int)
    >>> advisor = InvarianceAdvisor(LogisticRegression(), groups.sequence_reversal, random_state=0)
    >>> advisor.fit(X, y).verdict_
    'do not augment'
    """

    def __init__(
        self,
        base: Any,
        group: Any = None,
        n_splits: int = 5,
        evaluate_on: Literal["natural", "transformed"] = "natural",
        alpha: float = 0.05,
        n_images: int = 8,
        random_state: RandomState = None,
    ) -> None:
        self.base = base
        self.group = group
        self.n_splits = n_splits
        self.evaluate_on = evaluate_on
        self.alpha = alpha
        self.n_images = n_images
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> InvarianceAdvisor:
        """Run the comparison."""
        self.advice_ = augmentation_advisor(
            self.base, X, y, self.group, n_splits=self.n_splits, evaluate_on=self.evaluate_on,
            alpha=self.alpha, n_images=self.n_images, random_state=self.random_state,
        )  # fmt: skip
        self.verdict_ = self.advice_.verdict
        return self


def _decide(
    wrong: dict[str, BoolArray],
    alpha: float,
    fit_natural: float,
    fit_augmented: float,
    validity: ValidityReport,
) -> tuple[VerdictName, str]:
    invariant = min(("ERM-INV", "DA+INV", "DA+vote"), key=lambda name: wrong[name].mean())
    better = _beats(wrong["DA"], wrong["ERM"], alpha)
    worse = _beats(wrong["ERM"], wrong["DA"], alpha)
    setting = _setting(fit_natural, fit_augmented)
    conflict = (
        f" {len(validity.conflicts)} points share an orbit with a point of another label: the "
        "labels are not invariant."
        if validity.conflicts
        else ""
    )
    reference = "DA" if better else "ERM"
    if _beats(wrong[invariant], wrong[reference], alpha / 3):  # the best of three candidates
        why = (
            "it uses the orbit of the test point, which augmentation cannot (Thm. 11.4: VCo "
            "instead of VCao samples; Thm. 11.7 for the look-up)"
        )
        return "use invariant learner", f"{invariant} beats {reference}: {why}. {setting}{conflict}"
    if better:
        why = "the sample size is driven by VCao instead of the VC dimension (Thms. 11.1, 11.3)"
        return "augment", f"Augmentation lowers the error: {why}. {setting}{conflict}"
    if worse:
        why = "learners that only see orbits can need many more samples (Thm. 11.5)"
        return "do not augment", f"Augmentation raises the error: {why}. {setting}{conflict}"
    why = "Augmentation changes the error by less than these data can show."
    return "no difference", f"{why} {setting}{conflict}"


def _setting(fit_natural: float, fit_augmented: float) -> str:
    if fit_augmented <= 0.01:
        return "The model fits the augmented data: invariantly realizable, setting (i)."
    if fit_natural <= 0.01:
        return (
            "The model fits the natural but not the augmented data: relaxed realizable, setting "
            "(ii), where augmentation may hurt."
        )
    return "The model fits neither natural nor augmented data: agnostic, setting (iii)."


def _beats(first: BoolArray, second: BoolArray, alpha: float) -> bool:
    wins, losses = int((second & ~first).sum()), int((first & ~second).sum())
    if wins <= losses:
        return False
    return binomial_p_value(wins, wins + losses, 0.5, "greater") <= alpha


def _p_value(first: BoolArray, second: BoolArray) -> float:
    wins, losses = int((second & ~first).sum()), int((first & ~second).sum())
    return binomial_p_value(wins, wins + losses, 0.5) if wins + losses else 1.0


def _row(
    name: str, natural: dict[str, BoolArray], grouped: dict[str, BoolArray]
) -> tuple[str, float, float, float, float, float]:
    mistakes = natural[name]
    interval = clopper_pearson(int(mistakes.sum()), mistakes.size)
    return (
        name, float(mistakes.mean()), interval.low, interval.high, float(grouped[name].mean()),
        _p_value(mistakes, natural["ERM"]),
    )  # fmt: skip
