"""Correct labels, bad intent: clean-label attacks, and learners that withstand them.

An attacker sees your training data and one test point, and adds rows that are all *correctly
labelled*, so that the retrained model errs at that point. The error rate hardly moves; the damage
is targeted. Some learners cannot be steered at all (closures, tree orders, dyadic directions), some
can be steered anywhere (the longest interval, the SVM, any half-space learner without a margin).

With data and a model, start with :func:`poisoning_report` (how exposed am I?) and
:class:`PartitionClassifier` (every prediction with a certificate). With a situation, take a
learner, a target and an attacker and measure with :func:`attackable_rate`: real attacks below,
certificates above. Hard instances are in :mod:`counterplay.poisoning.instances`, guarantees as
numbers in :mod:`counterplay.poisoning.bounds`.
"""

from counterplay.poisoning import bounds, instances, lab
from counterplay.poisoning.attackers import (
    AcrossBoundaryAttacker,
    ChainReflectionAttacker,
    CircleReflectionAttacker,
    DyadicPathAttacker,
    EmptyAttacker,
    GapCuttingAttacker,
    HollowStarAttacker,
    MarginReflectionAttacker,
    OnePointSVMAttacker,
    PoolGreedyAttacker,
    SphereReflectionAttacker,
    SqueezePairAttacker,
)
from counterplay.poisoning.batched_mlp import BatchedMLPClassifier
from counterplay.poisoning.block_majority import (
    BlockMajority,
    HashPartitionAggregation,
    SubsampleERM,
)
from counterplay.poisoning.block_majority_classifier import BlockMajorityClassifier
from counterplay.poisoning.bounds import expectation_to_tail, optimal_pac_constant, star_sample_size
from counterplay.poisoning.brute_force import brute_force_region
from counterplay.poisoning.certificates import CertifiedAccuracy
from counterplay.poisoning.circle_erm import CircleERM, CircleTarget
from counterplay.poisoning.closure import ClosureLearner
from counterplay.poisoning.cover import CoverLearner
from counterplay.poisoning.disagreement import disagreement_rate, disagreement_region
from counterplay.poisoning.dyadic import DyadicDirectionLearner, UnitDiscScaler
from counterplay.poisoning.engine import AttackReport, attackable_rate
from counterplay.poisoning.errors import (
    BlockFailureWarning,
    BudgetError,
    GlobalFeaturesWarning,
    NotCleanError,
    NotRealizableError,
    NumericallyDegenerateError,
    OutOfDomainError,
    ProjectionFailed,
    TooFewSamplesError,
)
from counterplay.poisoning.hard_margin import HardMarginSVM
from counterplay.poisoning.intervals import (
    MaxOpenInterval,
    MinClosedInterval,
    gap_costs,
    open_interval_rate,
)
from counterplay.poisoning.line_region import LineRegion, line_region
from counterplay.poisoning.model import (
    Attacker,
    IntervalTarget,
    LabelledSet,
    Learner,
    LinearTarget,
    TableTarget,
)
from counterplay.poisoning.ordered_erm import OrderedERM, worst_case_region
from counterplay.poisoning.partition_classifier import PartitionClassifier, choose_n_partitions
from counterplay.poisoning.partition_curve import PartitionCurve
from counterplay.poisoning.projected_majority import (
    FiniteProjector,
    HalfspaceProjector,
    IntervalProjector,
    ProjectedMajority,
    ThresholdProjector,
)
from counterplay.poisoning.report import PoisoningReport, poisoning_report
from counterplay.poisoning.separation import separable
from counterplay.poisoning.tree_order import CallableTreeOrderLearner, TreeOrderLearner
from counterplay.poisoning.union_of_intervals import UnionOfIntervals
from counterplay.poisoning.upper_rate import certified_upper_rate

__all__ = [
    "AcrossBoundaryAttacker",
    "AttackReport",
    "Attacker",
    "BatchedMLPClassifier",
    "BlockFailureWarning",
    "BlockMajority",
    "BlockMajorityClassifier",
    "BudgetError",
    "CallableTreeOrderLearner",
    "CertifiedAccuracy",
    "ChainReflectionAttacker",
    "CircleERM",
    "CircleReflectionAttacker",
    "CircleTarget",
    "ClosureLearner",
    "CoverLearner",
    "DyadicDirectionLearner",
    "DyadicPathAttacker",
    "EmptyAttacker",
    "FiniteProjector",
    "GapCuttingAttacker",
    "GlobalFeaturesWarning",
    "HalfspaceProjector",
    "HardMarginSVM",
    "HashPartitionAggregation",
    "HollowStarAttacker",
    "IntervalProjector",
    "IntervalTarget",
    "LabelledSet",
    "Learner",
    "LineRegion",
    "LinearTarget",
    "MarginReflectionAttacker",
    "MaxOpenInterval",
    "MinClosedInterval",
    "NotCleanError",
    "NotRealizableError",
    "NumericallyDegenerateError",
    "OnePointSVMAttacker",
    "OrderedERM",
    "OutOfDomainError",
    "PartitionClassifier",
    "PartitionCurve",
    "PoisoningReport",
    "PoolGreedyAttacker",
    "ProjectedMajority",
    "ProjectionFailed",
    "SphereReflectionAttacker",
    "SqueezePairAttacker",
    "SubsampleERM",
    "TableTarget",
    "ThresholdProjector",
    "TooFewSamplesError",
    "TreeOrderLearner",
    "UnionOfIntervals",
    "UnitDiscScaler",
    "attackable_rate",
    "bounds",
    "brute_force_region",
    "certified_upper_rate",
    "choose_n_partitions",
    "disagreement_rate",
    "disagreement_region",
    "expectation_to_tail",
    "gap_costs",
    "instances",
    "lab",
    "line_region",
    "open_interval_rate",
    "optimal_pac_constant",
    "poisoning_report",
    "separable",
    "star_sample_size",
    "worst_case_region",
]
