"""Is there a symmetry in my labels, what should I do with it, and give me the model.

Rotated images, mirrored boards, permuted columns: common practice trains on all transformed copies.
That helps when some hypothesis fits the copies too, is never optimal in the worst case, and plants
wrong labels when the symmetry is only approximate. ``check_symmetry`` and ``find_symmetries`` ask
the labels; ``symmetry_advisor`` tries every way to use a group, and the same models without it, and
returns the fitted winner with an honest error; ``SymmetryClassifier`` is the advisor as an
estimator. The wrappers (``AugmentedClassifier``, ``OrbitVoteClassifier``, ``CanonicalClassifier``,
``OrbitKernelClassifier``, ``ErmInvClassifier``, ...) can be used alone; ``augmented_blocks``
augments without copies in memory; ``groups`` has the symmetries, ``counterplay.invariance.torch``
the networks. ``lab``, ``instances`` and ``bounds`` are the theory.
"""

from counterplay.invariance import bounds, groups, instances, lab
from counterplay.invariance.advisor import symmetry_advisor
from counterplay.invariance.canonical import CanonicalClassifier
from counterplay.invariance.discovery import find_symmetries
from counterplay.invariance.estimators import (
    AugmentedClassifier,
    ErmInvClassifier,
    OrbitVoteClassifier,
)
from counterplay.invariance.images import augmented_sample
from counterplay.invariance.lazy import augmented_blocks
from counterplay.invariance.orbit_features import Canonicalizer, OrbitFeatures
from counterplay.invariance.orbit_kernel import OrbitKernelClassifier
from counterplay.invariance.regressors import AugmentedRegressor, OrbitMeanRegressor
from counterplay.invariance.symmetry import check_symmetry
from counterplay.invariance.symmetry_estimators import SymmetryClassifier, SymmetryRegressor

__all__ = [
    "AugmentedClassifier",
    "AugmentedRegressor",
    "CanonicalClassifier",
    "Canonicalizer",
    "ErmInvClassifier",
    "OrbitFeatures",
    "OrbitKernelClassifier",
    "OrbitMeanRegressor",
    "OrbitVoteClassifier",
    "SymmetryClassifier",
    "SymmetryRegressor",
    "augmented_blocks",
    "augmented_sample",
    "bounds",
    "check_symmetry",
    "find_symmetries",
    "groups",
    "instances",
    "lab",
    "symmetry_advisor",
]
