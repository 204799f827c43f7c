"""What theory says about half-spaces under a group, and the floor of every invariant predictor.

Half-spaces in R^p with a finite linear group whose fixed points have dimension f: VC dimension and
VCao are p + 1, VCo is f + 1. Source: docs/theory/22-symmetry.md, "Proposition 22.A: half-spaces"
and "Proposition 22.B: the floor".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import check_float_array
from counterplay.errors import InvalidInputError
from counterplay.invariance import bounds
from counterplay.invariance.embedding import column_orbits
from counterplay.invariance.permutation_groups import CoordinatePermutationGroup
from counterplay.invariance.symmetric_group import SymmetricGroup
from counterplay.invariance.transformations import TransformationSet, TrivialGroup
from counterplay.invariance.vector_groups import MatrixGroup, SignFlipGroup

_LINEAR = {
    "LogisticRegression", "LogisticRegressionCV", "LinearSVC", "RidgeClassifier",
    "RidgeClassifierCV", "SGDClassifier", "Perceptron", "PassiveAggressiveClassifier",
    "LinearDiscriminantAnalysis",
}  # fmt: skip
_SCALERS = {"StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler"}


@dataclass(frozen=True)
class TheoryView:
    """Dimensions that decide how much data the worst case needs; None where they are not known.

    Attributes
    ----------
    vcdim:
        Of the class: the sample size of plain learning.
    vcao:
        Across orbits: what augmentation and look-up need.
    vco:
        Of orbits: what the best learner that knows the group needs.
    """

    vcdim: int | None
    vcao: int | None
    vco: int | None

    def n_for(self, eps: float, delta: float) -> dict[str, int]:
        """Rows that suffice for error eps with probability 1 - delta (far from tight).

        "augmentation" by VCao, "best invariant learner" by VCo, both in the realizable setting.
        """
        if self.vcao is None or self.vco is None:
            raise InvalidInputError("the dimensions are not known for this model")
        return {
            "augmentation": bounds.m_da(self.vcao, eps, delta),
            "best invariant learner": bounds.m_oig(float(self.vco), eps, delta),
        }

    def sentence(self) -> str:
        """One line for a summary."""
        if self.vcdim is None:
            return "Theory: not known for this model."
        return (
            f"Theory (half-spaces, per class against the rest): VC dimension {self.vcdim}, across "
            f"orbits {self.vcao} (the worst case of augmentation), of orbits {self.vco} (of the "
            "best learner that knows the group)."
        )


def theory_view(estimator: Any, group: TransformationSet, width: int) -> TheoryView:
    """Dimensions for linear classifiers (after a scaler, too) under a linear group.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from counterplay.invariance import groups
    >>> theory_view(LogisticRegression(), groups.image_rotations((8, 8)), 64).vco
    17
    """
    fixed = fixed_dimension(group, width)
    if fixed is None or not _is_linear(estimator):
        return TheoryView(None, None, None)
    return TheoryView(width + 1, width + 1, fixed + 1)


def fixed_dimension(group: TransformationSet, width: int) -> int | None:
    """Dimension of the rows that the group leaves as they are; None where it is not linear.

    Examples
    --------
    >>> from counterplay.invariance import groups
    >>> fixed_dimension(groups.plane_rotations(4), 2), fixed_dimension(groups.sign_flips(3), 3)
    (0, 0)
    """
    if isinstance(group, TrivialGroup):
        return width
    if isinstance(group, CoordinatePermutationGroup | SymmetricGroup):
        return int(column_orbits(group, width).max()) + 1
    if isinstance(group, SignFlipGroup):
        return int((group.signs > 0).all(axis=0).sum())
    if isinstance(group, MatrixGroup):  # the trace of the mean, which projects onto fixed points
        return round(float(np.trace(group.mats.mean(axis=0))))
    return None


def _is_linear(estimator: Any) -> bool:
    steps = getattr(estimator, "steps", None)
    if steps:
        scaled = all(type(step).__name__ in _SCALERS for _, step in steps[:-1])
        return scaled and _is_linear(steps[-1][1])
    kernel = getattr(estimator, "kernel", None) == "linear"
    return type(estimator).__name__ in _LINEAR or (type(estimator).__name__ == "SVC" and kernel)


@checked
def invariance_floor(mass: ArrayLike) -> float:
    """Smallest natural error of any predictor that is constant on orbits.

    Parameters
    ----------
    mass:
        Probability (or count) of every orbit and label, shape (orbits, labels).

    Examples
    --------
    >>> invariance_floor([[3, 1], [0, 4]])
    0.125
    """
    table = check_float_array(mass, "mass", ndim=2)
    total = float(table.sum())
    if table.size == 0 or (table < 0).any() or not 0 < total < np.inf:
        raise InvalidInputError("mass must be a table of numbers that are not negative, not all 0")
    return float((table.sum(axis=1) - table.max(axis=1)).sum() / total)
