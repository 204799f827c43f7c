"""For researchers: problems on finite pools, learners with certificates, dimensions, exact answers.

The finite problems in which the theorems are sharp: hypothesis classes, transformation sets on
pools of points, the learners that are optimal (one-inclusion graphs) and those that are not (plain
augmentation), the dimensions that decide how much data is needed, and small boards to try it on.
"""

from counterplay.invariance.adaptive import (
    AdaptiveAgnostic,
    AdaptiveRelaxed,
    ConfidenceBooster,
    KnownEta,
)
from counterplay.invariance.advice import SymmetryAdvice
from counterplay.invariance.baselines import DA, ERM, ErmInv
from counterplay.invariance.boards import one_hot_boards, tic_tac_toe_endgames
from counterplay.invariance.classes import ExplicitClass, HypothesisClass, TieRule, WeightedSample
from counterplay.invariance.compression import AgnosticCompression, AlphaBoostCompression
from counterplay.invariance.dimensions import (
    OrbitCube,
    OrbitShattering,
    dim,
    vcao,
    vcdim,
    vco,
    vco_eta,
    vco_eta_sup,
)
from counterplay.invariance.discovery import SymmetrySearch
from counterplay.invariance.errors import (
    ConflictingOrbitLabelsError,
    DenseRowsError,
    IdentityMissingError,
    InfiniteOrbitError,
    NotAGroupError,
    SampleTooSmallError,
    ShapeError,
)
from counterplay.invariance.explanation import OneInclusionView
from counterplay.invariance.implicit_classes import (
    AllLabelings,
    BalancedSubsets,
    BlockConstants,
    FittedCommittee,
    Halfspaces2D,
    Intervals1D,
    Thresholds1D,
)
from counterplay.invariance.inclusion import (
    FractionalOrientation,
    OneInclusionGraph,
    Orientation,
    Prediction,
    peel_orientation,
)
from counterplay.invariance.linear_theory import TheoryView, invariance_floor
from counterplay.invariance.model import (
    FiniteDistribution,
    FiniteProblem,
    Regime,
    check_sample_invariant,
    classify_regime,
    orbit_ids,
    orbit_labels,
)
from counterplay.invariance.naturalness import Naturalness
from counterplay.invariance.one_inclusion import (
    CertifiedPredictions,
    OneInclusionEta,
    OneInclusionInvariant,
    OneInclusionRelaxed,
)
from counterplay.invariance.orbit_only import MuResult, OrbitOnlyOptimal, mu, mu_of
from counterplay.invariance.permutation_groups import CoordinatePermutationGroup
from counterplay.invariance.symmetric_group import SymmetricGroup
from counterplay.invariance.symmetry_check import SymmetryCheck
from counterplay.invariance.theory_lab import TheoryReport, theory_lab
from counterplay.invariance.transformations import (
    AbstractOrbits,
    MapSet,
    TransformationSet,
    TrivialGroup,
)
from counterplay.invariance.vector_groups import MatrixGroup, SignFlipGroup

__all__ = [
    "DA",
    "ERM",
    "AbstractOrbits",
    "AdaptiveAgnostic",
    "AdaptiveRelaxed",
    "AgnosticCompression",
    "AllLabelings",
    "AlphaBoostCompression",
    "BalancedSubsets",
    "BlockConstants",
    "CertifiedPredictions",
    "ConfidenceBooster",
    "ConflictingOrbitLabelsError",
    "CoordinatePermutationGroup",
    "DenseRowsError",
    "ErmInv",
    "ExplicitClass",
    "FiniteDistribution",
    "FiniteProblem",
    "FittedCommittee",
    "FractionalOrientation",
    "Halfspaces2D",
    "HypothesisClass",
    "IdentityMissingError",
    "InfiniteOrbitError",
    "Intervals1D",
    "KnownEta",
    "MapSet",
    "MatrixGroup",
    "MuResult",
    "Naturalness",
    "NotAGroupError",
    "OneInclusionEta",
    "OneInclusionGraph",
    "OneInclusionInvariant",
    "OneInclusionRelaxed",
    "OneInclusionView",
    "OrbitCube",
    "OrbitOnlyOptimal",
    "OrbitShattering",
    "Orientation",
    "Prediction",
    "Regime",
    "SampleTooSmallError",
    "ShapeError",
    "SignFlipGroup",
    "SymmetricGroup",
    "SymmetryAdvice",
    "SymmetryCheck",
    "SymmetrySearch",
    "TheoryReport",
    "TheoryView",
    "Thresholds1D",
    "TieRule",
    "TransformationSet",
    "TrivialGroup",
    "WeightedSample",
    "check_sample_invariant",
    "classify_regime",
    "dim",
    "invariance_floor",
    "mu",
    "mu_of",
    "one_hot_boards",
    "orbit_ids",
    "orbit_labels",
    "peel_orientation",
    "theory_lab",
    "tic_tac_toe_endgames",
    "vcao",
    "vcdim",
    "vco",
    "vco_eta",
    "vco_eta_sup",
]  # fmt: skip
