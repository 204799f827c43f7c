"""For researchers: learners of the theorems, attackers, targets, exact regions and results.

Learners that no clean row can steer (closures, tree orders, dyadic directions) and those that can
be steered anywhere; wrappers for a known budget with their projectors; one attacker per
construction; regions by brute force and in closed form; hollow star, star and projection numbers;
what the functions of the face return.
"""

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
from counterplay.poisoning.brute_force import brute_force_region
from counterplay.poisoning.choose_partitions import PartitionCurve
from counterplay.poisoning.circle_erm import CircleERM, CircleTarget
from counterplay.poisoning.closure import ClosureLearner
from counterplay.poisoning.cover import CoverLearner
from counterplay.poisoning.disagreement import disagreement_rate, disagreement_region
from counterplay.poisoning.dyadic import DyadicDirectionLearner, UnitDiscScaler
from counterplay.poisoning.engine import AttackReport
from counterplay.poisoning.errors import (
    BudgetError,
    NotCleanError,
    NumericallyDegenerateError,
    OutOfDomainError,
    ProjectionFailed,
    TooFewSamplesError,
)
from counterplay.poisoning.exposure import PoisoningReport
from counterplay.poisoning.hard_margin import HardMarginSVM
from counterplay.poisoning.intervals import (
    MaxOpenInterval,
    MinClosedInterval,
    gap_costs,
    open_interval_rate,
)
from counterplay.poisoning.line_region import LineRegion
from counterplay.poisoning.model import Attacker, BatchLearner, LinearTarget, TableTarget
from counterplay.poisoning.ordered_erm import OrderedERM, worst_case_region
from counterplay.poisoning.projected_majority import (
    FiniteProjector,
    HalfspaceProjector,
    IntervalProjector,
    ProjectedMajority,
    ThresholdProjector,
)
from counterplay.poisoning.separation import separable
from counterplay.poisoning.stars import (
    HollowStar,
    ProjectionNumber,
    StarSet,
    hollow_star_number,
    projection_number,
    projection_value,
    star_number,
)
from counterplay.poisoning.subsample import SubsampleERM
from counterplay.poisoning.tree_order import CallableTreeOrderLearner, TreeOrderLearner
from counterplay.poisoning.update_report import UpdateReport

__all__ = [
    "AcrossBoundaryAttacker",
    "AttackReport",
    "Attacker",
    "BatchLearner",
    "BudgetError",
    "CallableTreeOrderLearner",
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
    "HalfspaceProjector",
    "HardMarginSVM",
    "HollowStar",
    "HollowStarAttacker",
    "IntervalProjector",
    "LineRegion",
    "LinearTarget",
    "MarginReflectionAttacker",
    "MaxOpenInterval",
    "MinClosedInterval",
    "NotCleanError",
    "NumericallyDegenerateError",
    "OnePointSVMAttacker",
    "OrderedERM",
    "OutOfDomainError",
    "PartitionCurve",
    "PoisoningReport",
    "PoolGreedyAttacker",
    "ProjectedMajority",
    "ProjectionFailed",
    "ProjectionNumber",
    "SphereReflectionAttacker",
    "SqueezePairAttacker",
    "StarSet",
    "SubsampleERM",
    "TableTarget",
    "ThresholdProjector",
    "TooFewSamplesError",
    "TreeOrderLearner",
    "UnitDiscScaler",
    "UpdateReport",
    "brute_force_region",
    "disagreement_rate",
    "disagreement_region",
    "gap_costs",
    "hollow_star_number",
    "open_interval_rate",
    "projection_number",
    "projection_value",
    "separable",
    "star_number",
    "worst_case_region",
]
