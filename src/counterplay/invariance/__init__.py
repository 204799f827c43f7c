"""Augment, average, or neither? Learning when labels do not change under known transformations.

Rotated images, mirrored boards, permuted rows: common practice trains on all transformed copies.
That helps when some hypothesis fits the copies too, is never optimal in the worst case, and does
harm when no hypothesis fits them. ``augmentation_advisor`` measures on your data which case you
are in; ``AugmentedClassifier``, ``ErmInvClassifier``, ``OrbitVoteClassifier`` and
``CanonicalClassifier`` wrap any scikit-learn classifier; ``groups`` has the exact symmetries of
images, sequences, tables, sets and graphs. For the theory: problems, classes, the dimensions that
decide how much data is needed (``vcdim``, ``vcao``, ``vco``, ``dim``, ``mu``, ``vco_eta``), the
optimal one-inclusion learners with certificates, the hard ``instances`` and all ``bounds``.
"""

from counterplay.invariance import bounds, groups, instances, lab
from counterplay.invariance.advisor import augmentation_advisor
from counterplay.invariance.canonical import CanonicalClassifier
from counterplay.invariance.estimators import (
    AugmentedClassifier,
    ErmInvClassifier,
    OrbitVoteClassifier,
)
from counterplay.invariance.images import augmented_sample
from counterplay.invariance.model import check_sample_invariant
from counterplay.invariance.orbit_kernel import OrbitKernelClassifier
from counterplay.invariance.transformations import TransformationSet
from counterplay.invariance.vector_groups import MatrixGroup, SymmetricGroup

__all__ = [
    "AugmentedClassifier",
    "CanonicalClassifier",
    "ErmInvClassifier",
    "MatrixGroup",
    "OrbitKernelClassifier",
    "OrbitVoteClassifier",
    "SymmetricGroup",
    "TransformationSet",
    "augmentation_advisor",
    "augmented_sample",
    "bounds",
    "check_sample_invariant",
    "groups",
    "instances",
    "lab",
]
