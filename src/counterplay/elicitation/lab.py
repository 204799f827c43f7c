"""For researchers: the steps of the guaranteed procedure, exact sets, oracles, baselines.

What the theorems are made of and measured against: benchmark, bases, ratios, estimators, precision
and refinement one by one; the polytope of consistent preferences and its conflicts; policies,
flows and the compression behind trajectory sets; oracles; what people do without this library.
"""

from counterplay.elicitation.baselines import (
    BaselineResult,
    bradley_terry,
    enumerate_support,
    equal_weights,
    logistic_weights,
    pareto_scan,
    random_comparisons,
    sampled_trajectory_set,
)
from counterplay.elicitation.basis import (
    barycentric_basis,
    basis_policies,
    spanner_coefficients,
)
from counterplay.elicitation.benchmark_policy import find_benchmark
from counterplay.elicitation.catalogue import undominated
from counterplay.elicitation.choice_log import ChoiceAnswer, ChoiceQuery
from counterplay.elicitation.choice_population import PanelScore, Population
from counterplay.elicitation.comparisons import Option, Query
from counterplay.elicitation.compress import c4_compress
from counterplay.elicitation.consistent_set import ConsistentSet
from counterplay.elicitation.contradictions import fewest_to_set_aside, smallest_conflict
from counterplay.elicitation.estimators import (
    PreferenceEstimate,
    nonnegative_preference,
    ratio_matrix,
    solve_preference,
    truncated_preference,
    truncation_delta,
    truncation_dimension,
)
from counterplay.elicitation.flow_decomposition import flow_decomposition, policy_flow
from counterplay.elicitation.oracles import (
    LinearOracle,
    MDPOracle,
    PointSetOracle,
    PolytopeOracle,
)
from counterplay.elicitation.policies import (
    PolicyMixture,
    do_nothing_policy,
    occupancy,
    policy_value,
    value_to_go,
)
from counterplay.elicitation.precision import estimate_precision
from counterplay.elicitation.ratios import estimate_ratios, refine_ratios, zone_ratio
from counterplay.elicitation.reliable_result import ErrorsTested, ReliableResult
from counterplay.elicitation.results import ElicitationResult
from counterplay.elicitation.shared_bases import SharedBases
from counterplay.elicitation.slips import bet_factor
from counterplay.elicitation.trajectories import WeightedTrajectorySet

__all__ = [
    "BaselineResult",
    "ChoiceAnswer",
    "ChoiceQuery",
    "ConsistentSet",
    "ElicitationResult",
    "ErrorsTested",
    "LinearOracle",
    "MDPOracle",
    "Option",
    "PanelScore",
    "PointSetOracle",
    "PolicyMixture",
    "PolytopeOracle",
    "Population",
    "PreferenceEstimate",
    "Query",
    "ReliableResult",
    "SharedBases",
    "WeightedTrajectorySet",
    "barycentric_basis",
    "basis_policies",
    "bet_factor",
    "bradley_terry",
    "c4_compress",
    "do_nothing_policy",
    "enumerate_support",
    "equal_weights",
    "estimate_precision",
    "estimate_ratios",
    "fewest_to_set_aside",
    "find_benchmark",
    "flow_decomposition",
    "logistic_weights",
    "nonnegative_preference",
    "occupancy",
    "pareto_scan",
    "policy_flow",
    "policy_value",
    "random_comparisons",
    "ratio_matrix",
    "refine_ratios",
    "sampled_trajectory_set",
    "smallest_conflict",
    "solve_preference",
    "spanner_coefficients",
    "truncated_preference",
    "truncation_delta",
    "truncation_dimension",
    "undominated",
    "value_to_go",
    "zone_ratio",
]
