"""All ways to use a symmetry with a model, and the same models without it.

A family is fitted once and gives one or two candidates: a fitted model and its vote over the orbit.
The twins are the same models without the invariant part, so that the symmetry is not credited for a
change of model. Source: docs/theory/22-symmetry.md, "Ways to use a symmetry".
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import has_fit_parameter

from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError
from counterplay.invariance.canonical import CanonicalClassifier
from counterplay.invariance.estimators import (
    AugmentedClassifier,
    ErmInvClassifier,
    OrbitVoteClassifier,
)
from counterplay.invariance.images import Form, Rows
from counterplay.invariance.orbit_estimator import ask
from counterplay.invariance.orbit_features import Canonicalizer, OrbitFeatures
from counterplay.invariance.orbit_kernel import OrbitKernelClassifier
from counterplay.invariance.regressors import AugmentedRegressor, OrbitMeanRegressor
from counterplay.invariance.transformations import MOST_NUMBERS, TransformationSet

FAMILIES: dict[str, tuple[str, ...]] = {
    "plain": ("plain", "vote"),
    "augment": ("augment", "augment+vote"),
    "augment, by points": ("augment, by points",),
    "canonical": ("canonical",),
    "smallest": ("smallest",),
    "features": ("features",),
    "kernel": ("kernel",),
    "kernel, no symmetry": ("kernel, no symmetry",),
    "kernel, augmented": ("kernel, augmented",),
    "features, no symmetry": ("features, no symmetry",),
}
CANDIDATES: tuple[str, ...] = tuple(name for names in FAMILIES.values() for name in names)
# Copies with weight one each, or with the weight of their row shared among them.
COPIES = ("augment", "augment, by points")
# Which candidates use the symmetry, and what the same model does without it and on stacked copies.
TWINS: dict[str, tuple[str, ...]] = {
    "vote": ("plain", *COPIES),
    "augment+vote": ("plain", *COPIES),
    "canonical": ("plain", *COPIES),
    "smallest": ("plain", *COPIES),
    "features": ("features, no symmetry",),
    "kernel": ("kernel, no symmetry", "kernel, augmented"),
}
# All that see transformed rows, in training or in prediction.
SYMMETRIC = (*TWINS, *COPIES, "kernel, augmented")
# Parameters that weigh a penalty against the losses: copies then weaken it, unless they share.
_PENALTIES = {"C", "alpha", "penalty", "l2_regularization", "reg_alpha", "reg_lambda"}
MOST_KERNEL_ROWS = 6000


@dataclass(frozen=True)
class Maker:
    """Fits families of candidates for one estimator and one group."""

    estimator: Any
    group: TransformationSet
    form: Form
    seed: int
    n_images: int = 8

    @property
    def regression(self) -> bool:
        """Whether the estimator predicts numbers."""
        return bool(is_regressor(self.estimator))

    def fit(self, family: str, rows: Rows, y: Any, weights: FloatArray | None) -> dict[str, Any]:
        """Fitted models of the candidates of a family."""
        model = self.unfitted(family)
        given = self.form.give(rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            more = _weighted(model, weights)
            ask(model, "be fitted", model.fit, given, y, **more)
            fitted = {FAMILIES[family][0]: model}
            if len(FAMILIES[family]) > 1:
                fitted[FAMILIES[family][1]] = self.vote(FrozenEstimator(model)).fit(given, y)
        return fitted

    def deployed(self, name: str, rows: Rows, y: Any, weights: FloatArray | None) -> Any:
        """The candidate fitted on all rows."""
        family = next(family for family, names in FAMILIES.items() if name in names)
        return self.fit(family, rows, y, weights)[name]

    def look_up(self, model: Any, rows: Rows, y: Any) -> Any:
        """The label of a known orbit, else the model."""
        known = ErmInvClassifier(FrozenEstimator(model), self.group, on_conflict="majority")
        return known.fit(self.form.give(rows), y)

    def vote(self, model: Any) -> Any:
        """The model averaged over the orbit."""
        kind = OrbitMeanRegressor if self.regression else OrbitVoteClassifier
        return kind(model, self.group, n_images=self.n_images, random_state=self.seed)

    def unfitted(self, family: str) -> Any:
        """The model of a family."""
        base = clone(self.estimator)
        group: Any = None if family.endswith("no symmetry") else self.group
        augmented = AugmentedRegressor if self.regression else AugmentedClassifier
        more: Any = {"n_images": self.n_images, "random_state": self.seed}
        if family == "plain":
            return base
        if family in COPIES:
            weighting: Any = "copies" if family == "augment" else "points"
            return augmented(base, group, weighting, **more)
        if family in ("canonical", "smallest"):
            form: Any = "aligned" if family == "canonical" else "smallest"
            if self.regression:
                return make_pipeline(Canonicalizer(group, form), base)
            return CanonicalClassifier(base, group, form)
        if family.startswith("features"):
            return make_pipeline(OrbitFeatures(group, **more), base)
        if family == "kernel, augmented":
            return augmented(OrbitKernelClassifier(), group, **more)
        return OrbitKernelClassifier(group=group)

    def possible(self, n: int, rows: Rows, orbits: bool) -> tuple[list[str], list[str]]:
        """Families that can be fitted here, and one line for each that cannot."""
        listed = math.isfinite(self.group.order)
        order = int(self.group.order) if listed else self.n_images + 1
        whole = not sparse.issparse(rows) and not np.isnan(rows).any()
        reasons = {
            "augment, by points": "" if self._penalised() else "no penalty",
            "canonical": _why(orbits, listed, whole),
            "smallest": _why(orbits or self.group.approximate_form, True, True),
            "features": _why(orbits, True, whole),
            "features, no symmetry": _why(orbits, True, whole),
            "kernel": self._no_kernel(n, 1, order) or _why(orbits, listed, whole),
            "kernel, no symmetry": self._no_kernel(n, 1, 1) or _why(orbits, listed, whole),
            "kernel, augmented": self._no_kernel(n, order, 1) or _why(orbits, listed, whole),
        }
        kept = [family for family in FAMILIES if not reasons.get(family)]
        told = {name: why for name, why in reasons.items() if why and name not in COPIES}
        return kept, [f"{name}: {why}" for name, why in told.items()]

    def _penalised(self) -> bool:
        """Whether the weight of copies matters: a penalty, and a fit that takes weights."""
        return has_fit_parameter(self.estimator, "sample_weight") and bool(
            _PENALTIES & set(self.estimator.get_params())
        )

    def _no_kernel(self, n: int, copies: int, images: int) -> str:
        if self.regression:
            return "there is no orbit kernel for regression"
        if n * copies > MOST_KERNEL_ROWS or images * n * self.form.width > MOST_NUMBERS:
            return f"more than {MOST_KERNEL_ROWS} rows of a kernel matrix"
        return ""


def _why(orbits: bool, listed: bool, whole: bool) -> str:
    if not orbits:
        return "the transformations are not a group on these rows"
    if not listed:
        return "the group is too large to list"
    return "" if whole else "rows are sparse or have missing values"


def _weighted(model: Any, weights: FloatArray | None) -> dict[str, Any]:
    if weights is None:
        return {}
    if isinstance(model, Pipeline):
        return {f"{model.steps[-1][0]}__sample_weight": weights}
    return {"sample_weight": weights}


def check_candidates(candidates: Any) -> tuple[str, ...]:
    """Families that were asked for; "plain" is always among them.

    Examples
    --------
    >>> check_candidates(["vote", "kernel"])
    ('plain', 'vote', 'kernel')
    """
    if isinstance(candidates, str) and candidates == "all":
        return CANDIDATES
    if isinstance(candidates, str) or not all(name in CANDIDATES for name in candidates):
        raise InvalidInputError(
            f'candidates must be "all" or a list of some of: {", ".join(map(repr, CANDIDATES))}'
        )
    return tuple(name for name in CANDIDATES if name in {"plain", *candidates})
