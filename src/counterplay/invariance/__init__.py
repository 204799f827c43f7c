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
from counterplay.invariance.adaptive import AdaptiveAgnostic, AdaptiveRelaxed, KnownEta
from counterplay.invariance.advisor import Advice, InvarianceAdvisor, augmentation_advisor
from counterplay.invariance.baselines import DA, ERM, ErmInv
from counterplay.invariance.boards import one_hot_boards, tic_tac_toe_endgames
from counterplay.invariance.booster import ConfidenceBooster
from counterplay.invariance.canonical import CanonicalClassifier
from counterplay.invariance.classes import ExplicitClass, HypothesisClass
from counterplay.invariance.compression import AgnosticCompression, AlphaBoostCompression
from counterplay.invariance.dimensions import OrbitCube, dim, vcao, vcdim, vco, vco_eta, vco_eta_sup
from counterplay.invariance.errors import (
    ConflictingOrbitLabelsError,
    IdentityMissingError,
    InfiniteOrbitError,
    NotAGroupError,
    SampleTooSmallError,
    ShapeError,
)
from counterplay.invariance.estimators import (
    AugmentedClassifier,
    ErmInvClassifier,
    OrbitVoteClassifier,
)
from counterplay.invariance.explanation import OneInclusionView
from counterplay.invariance.geometric_classes import (
    FittedCommittee,
    Halfspaces2D,
    Intervals1D,
    Thresholds1D,
)
from counterplay.invariance.implicit_classes import AllLabelings, BalancedSubsets, BlockConstants
from counterplay.invariance.model import (
    FiniteDistribution,
    FiniteProblem,
    Setting,
    check_sample_invariant,
    classify_setting,
)
from counterplay.invariance.one_inclusion import (
    CertifiedPredictions,
    OneInclusionEta,
    OneInclusionInvariant,
    OneInclusionRelaxed,
)
from counterplay.invariance.orbit_kernel import OrbitKernelClassifier
from counterplay.invariance.orbit_only import MuResult, OrbitOnlyOptimal, mu, mu_of
from counterplay.invariance.orbit_sample import augmented_sample
from counterplay.invariance.theory_lab import TheoryReport, theory_lab
from counterplay.invariance.tie_rules import TieRule, WeightedSample
from counterplay.invariance.transformations import (
    AbstractOrbits,
    CoordinatePermutationGroup,
    MapSet,
    MatrixGroup,
    SignFlipGroup,
    SymmetricGroup,
    TransformationSet,
    TrivialGroup,
)

__all__ = [
    "DA",
    "ERM",
    "AbstractOrbits",
    "AdaptiveAgnostic",
    "AdaptiveRelaxed",
    "Advice",
    "AgnosticCompression",
    "AllLabelings",
    "AlphaBoostCompression",
    "AugmentedClassifier",
    "BalancedSubsets",
    "BlockConstants",
    "CanonicalClassifier",
    "CertifiedPredictions",
    "ConfidenceBooster",
    "ConflictingOrbitLabelsError",
    "CoordinatePermutationGroup",
    "ErmInv",
    "ErmInvClassifier",
    "ExplicitClass",
    "FiniteDistribution",
    "FiniteProblem",
    "FittedCommittee",
    "Halfspaces2D",
    "HypothesisClass",
    "IdentityMissingError",
    "InfiniteOrbitError",
    "Intervals1D",
    "InvarianceAdvisor",
    "KnownEta",
    "MapSet",
    "MatrixGroup",
    "MuResult",
    "NotAGroupError",
    "OneInclusionEta",
    "OneInclusionInvariant",
    "OneInclusionRelaxed",
    "OneInclusionView",
    "OrbitCube",
    "OrbitKernelClassifier",
    "OrbitOnlyOptimal",
    "OrbitVoteClassifier",
    "SampleTooSmallError",
    "Setting",
    "ShapeError",
    "SignFlipGroup",
    "SymmetricGroup",
    "TheoryReport",
    "Thresholds1D",
    "TieRule",
    "TransformationSet",
    "TrivialGroup",
    "WeightedSample",
    "augmentation_advisor",
    "augmented_sample",
    "bounds",
    "check_sample_invariant",
    "classify_setting",
    "dim",
    "groups",
    "instances",
    "lab",
    "mu",
    "mu_of",
    "one_hot_boards",
    "theory_lab",
    "tic_tac_toe_endgames",
    "vcao",
    "vcdim",
    "vco",
    "vco_eta",
    "vco_eta_sup",
]
