"""Should I augment? Measure it on your own data, and say which theorem is at work.

Five candidates are cross-validated: the plain classifier, augmentation, either with the orbit
look-up, and augmentation with a vote over the orbit. Orbits are kept together (no look-up possible)
or not (natural use); the difference is what the look-up gains.
Source: docs/theory/11-invariance.md, "Dimensions and advice".
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.utils.multiclass import type_of_target

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new, figure_style
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator
from counterplay.core.stats import binomial_p_value, clopper_pearson
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_choice,
    check_int,
    check_open_fraction,
    check_size,
    shorten,
)
from counterplay.core.votes import plurality
from counterplay.errors import InvalidInputError
from counterplay.invariance.estimators import AugmentedClassifier
from counterplay.invariance.groups import ValidityReport, check_validity
from counterplay.invariance.images import (
    Form,
    augmented_sample,
    group_for,
    numbers_for,
    orbit_images,
)
from counterplay.invariance.model import resolve_conflicts
from counterplay.invariance.transformations import MOST_NUMBERS, TransformationSet, number_keys
from counterplay.tables import Table
from counterplay.tables.labels import as_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VerdictName = Literal["augment", "do not augment", "use invariant learner", "no difference"]
MODELS = ("ERM", "DA", "ERM-INV", "DA+INV", "DA+vote")


@checked
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


@checked
def augmentation_advisor(
    estimator: Any,
    X: Any,
    y: Any,
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
        Natural rows: a frame with named columns of numbers, an array, or images. The classifier
        sees them as they were given.
    y:
        Their labels, in any coding.
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
    check_int(n_images, "n_images", low=1)
    given, labels = _checked(estimator, X, y, folds)
    form = Form.of(given)
    transformations = group_for(group, form)
    if given.is_sparse:
        raise InvalidInputError(
            "X is sparse and the advisor compares dense rows; pass X.toarray() if it fits"
        )
    rows = numbers_for(given, transformations)
    _check_work(transformations, rows, n_images)
    validity = check_validity(transformations, rows, labels)
    rng = generator(random_state)
    split_seed, image_seed = (int(s) for s in rng.integers(2**31, size=2))
    orbits = transformations.is_group and validity.is_group
    if validity.n_orbits < folds:
        raise InvalidInputError(
            f"X has {validity.n_orbits} different orbits; n_splits={folds} folds that keep orbits "
            "together need at least as many"
        )
    run = _Comparison(estimator, transformations, form, orbits, n_images, image_seed, evaluate_on)
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


def _checked(estimator: Any, X: Any, y: Any, folds: int) -> tuple[Table, NDArray[Any]]:
    """Data that cross-validation of a classifier can work with."""
    methods = ("get_params", "fit", "predict")
    if isinstance(estimator, type) or not all(hasattr(estimator, name) for name in methods):
        raise InvalidInputError(
            f"estimator must be a scikit-learn classifier, got {shorten(estimator, 80)}"
        )
    table = Table.of(X, _given(y))
    labels = table.labels
    assert labels is not None
    values: NDArray[Any] = as_labels(labels.classes)[labels.codes]
    if type_of_target(values) not in ("binary", "multiclass"):
        raise InvalidInputError(f"y must be class labels, got {type_of_target(values)} values")
    if len(labels.classes) < 2:
        raise InvalidInputError("y has one class only; there is nothing to tell apart")
    if folds > len(table):
        raise InvalidInputError(f"n_splits must be at most the number of rows {len(table)}")
    if folds > labels.counts.max():
        raise InvalidInputError(
            f"n_splits is {folds}, but no class has so many rows (at most {labels.counts.max()})"
        )
    return table, values


def _given(y: Any) -> Any:
    if y is None:
        raise InvalidInputError("y is None; one label per row is needed")
    return y


def _check_work(group: TransformationSet, rows: FloatArray, n_images: int) -> None:
    images = group.order if math.isfinite(group.order) else n_images + 1
    check_size(images * rows.size, MOST_NUMBERS, "numbers in all images")


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
    if validity.conflicts:
        setting += (
            f" {len(validity.conflicts)} points share an orbit with a point of another label: the "
            "labels are not invariant."
        )
    reference = "DA" if better else "ERM"
    if _beats(wrong[invariant], wrong[reference], alpha / 3):  # the best of three candidates
        why = (
            "it uses the orbit of the test point, which augmentation cannot (Thm. 11.4: VCo "
            "instead of VCao samples; Thm. 11.7 for the look-up)"
        )
        return "use invariant learner", f"{invariant} beats {reference}: {why}. {setting}"
    if better:
        why = "the sample size is driven by VCao instead of the VC dimension (Thms. 11.1, 11.3)"
        return "augment", f"Augmentation lowers the error: {why}. {setting}"
    if worse:
        why = "learners that only see orbits can need many more samples (Thm. 11.5)"
        return "do not augment", f"Augmentation raises the error: {why}. {setting}"
    why = "Augmentation changes the error by less than these data can show."
    return "no difference", f"{why} {setting}"


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


@dataclass
class _Comparison:
    """Out-of-fold mistakes of the five candidates, from two fits per fold."""

    estimator: Any
    group: TransformationSet
    form: Form  # what the estimator sees
    orbits: bool  # whether the group is one on the data
    n_images: int
    seed: int
    evaluate_on: str
    levels: dict[str, float] = field(default_factory=dict)

    def wrong(self, X: NDArray[Any], y: NDArray[Any], splitter: Any) -> dict[str, BoolArray]:
        """Whether each candidate is wrong at each point, out of fold."""
        ids = number_keys(self.group.orbit_key(X) if self.orbits else self.group.point_key(X))
        wrong = {name: np.zeros(len(X), dtype=np.bool_) for name in MODELS}
        self.levels = {"ERM": 0.0, "DA": 0.0}
        kept = ids if isinstance(splitter, StratifiedGroupKFold) else None
        for train, test in splitter.split(X, y, kept):
            for name, labels in self._fold(X, y, ids, train, test).items():
                wrong[name][test] = labels != y[test]
        self.levels = {name: count / len(X) for name, count in self.levels.items()}
        return wrong

    def _fold(
        self, X: NDArray[Any], y: NDArray[Any], ids: IntArray, train: IntArray, test: IntArray
    ) -> dict[str, NDArray[Any]]:
        images = orbit_images(X[test], self.group, self.n_images, self.seed)
        asked = self._asked(X[test], images)
        settled = resolve_conflicts(ids[train], y[train], "majority")
        table = dict(zip(ids[train].tolist(), settled.tolist()))
        seen = np.array([i in table for i in ids[test].tolist()])
        looked = np.array([table.get(i, y[0]) for i in ids[test].tolist()])
        plain, augmented = (
            self._fitted(None, X[train], y[train]),
            self._fitted(self.group, X[train], y[train]),
        )
        out: dict[str, NDArray[Any]] = {}
        for name, looks, model in (("ERM", "ERM-INV", plain), ("DA", "DA+INV", augmented)):
            votes = np.array([model.predict(self.form.give(image)) for image in images])
            self.levels[name] += int((votes != votes[0]).any(axis=0).sum())
            out[name] = np.asarray(model.predict(self.form.give(asked)))
            out[looks] = np.where(seen, looked, out[name])
        out["DA+vote"] = self._vote(augmented, images, votes)
        return out

    def _asked(self, points: NDArray[Any], images: NDArray[Any]) -> NDArray[Any]:
        if self.evaluate_on == "natural":
            return points
        pick = generator(self.seed).integers(len(images), size=len(points))
        return np.asarray(images[pick, np.arange(len(points))])

    def _fitted(
        self, group: TransformationSet | None, X: NDArray[Any], y: NDArray[Any]
    ) -> AugmentedClassifier:
        model = AugmentedClassifier(
            self.estimator, group, n_images=self.n_images, random_state=self.seed
        )
        return model.fit(self.form.give(X), y)

    def training_errors(self, X: NDArray[Any], y: NDArray[Any]) -> tuple[float, float]:
        """Error of ERM on its natural and of DA on its augmented training data."""
        plain, augmented = self._fitted(None, X, y), self._fitted(self.group, X, y)
        given = self.form.give(X)
        copies, labels, weights = augmented_sample(given, y, self.group, self.n_images, self.seed)
        miss = np.asarray(augmented.predict(copies)) != labels
        return float((plain.predict(given) != y).mean()), float(weights[miss].sum() / len(X))

    def _vote(self, model: Any, images: NDArray[Any], votes: NDArray[Any]) -> NDArray[Any]:
        if hasattr(model, "predict_proba"):
            chances = [model.predict_proba(self.form.give(image)) for image in images]
            return np.asarray(model.classes_[np.mean(chances, axis=0).argmax(axis=1)])
        return plurality(votes, model.classes_).labels
