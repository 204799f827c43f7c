"""Find the option one person wants, from comparisons alone.

A decision has several objectives and the person's weights are hidden. One may only show two
options and hear "first", "second" or "cannot tell". For people choosing from a catalogue or among
policies, :class:`PolytopeElicitor` keeps every preference that explains the answers and stops with
a certificate: the largest regret over all of them. :class:`PreferenceElicitor` is the guaranteed
procedure of the theory, O(k log(k/eps)) questions in the worst case. Options can be rows of a data
frame (:class:`Catalogue`), policies of a :class:`MultiObjectiveMDP` (a mo-gymnasium environment, a
road network), or anything with a linear oracle. :func:`expand_and_compress` explains any policy by
at most k+1 real trajectories whose weighted return is exactly its value, rare events included.
"""

from counterplay.elicitation import baselines, bounds, instances
from counterplay.elicitation.basis import (
    barycentric_basis,
    basis_policies,
    spanner_coefficients,
)
from counterplay.elicitation.benchmark_policy import find_benchmark
from counterplay.elicitation.catalogue import Catalogue, undominated
from counterplay.elicitation.comparisons import (
    Answer,
    InconsistentAnswers,
    Option,
    Query,
)
from counterplay.elicitation.compress import c4_compress
from counterplay.elicitation.consistent_set import ConsistentSet
from counterplay.elicitation.contradictions import fewest_to_set_aside, smallest_conflict
from counterplay.elicitation.elicitor import PreferenceElicitor, elicit_many
from counterplay.elicitation.estimators import (
    PreferenceEstimate,
    nonnegative_preference,
    ratio_matrix,
    solve_preference,
    truncated_preference,
    truncation_delta,
    truncation_dimension,
)
from counterplay.elicitation.expand_and_compress import expand_and_compress
from counterplay.elicitation.flow_decomposition import (
    flow_decomposition,
    policy_flow,
)
from counterplay.elicitation.gym_models import from_gymnasium
from counterplay.elicitation.mdp import MultiObjectiveMDP, add_do_nothing
from counterplay.elicitation.oracles import (
    CallableOracle,
    LinearOracle,
    MDPOracle,
    PointSetOracle,
    PolytopeOracle,
)
from counterplay.elicitation.planner import plan
from counterplay.elicitation.policies import (
    PolicyMixture,
    do_nothing_policy,
    occupancy,
    policy_value,
    value_to_go,
)
from counterplay.elicitation.polytope_elicitor import PolytopeElicitor
from counterplay.elicitation.precision import estimate_precision
from counterplay.elicitation.ratios import estimate_ratios
from counterplay.elicitation.refinement import refine_ratios, zone_ratio
from counterplay.elicitation.results import ElicitationResult
from counterplay.elicitation.road_networks import city, from_road_graph
from counterplay.elicitation.shared_bases import SharedBases
from counterplay.elicitation.street_maps import read_street_map
from counterplay.elicitation.trajectories import WeightedTrajectorySet
from counterplay.elicitation.users import LinearPreferenceUser, NoisyUser

__all__ = [
    "Answer",
    "CallableOracle",
    "Catalogue",
    "ConsistentSet",
    "ElicitationResult",
    "InconsistentAnswers",
    "LinearOracle",
    "LinearPreferenceUser",
    "MDPOracle",
    "MultiObjectiveMDP",
    "NoisyUser",
    "Option",
    "PointSetOracle",
    "PolicyMixture",
    "PolytopeElicitor",
    "PolytopeOracle",
    "PreferenceElicitor",
    "PreferenceEstimate",
    "Query",
    "SharedBases",
    "WeightedTrajectorySet",
    "add_do_nothing",
    "barycentric_basis",
    "baselines",
    "basis_policies",
    "bounds",
    "c4_compress",
    "city",
    "do_nothing_policy",
    "elicit_many",
    "estimate_precision",
    "estimate_ratios",
    "expand_and_compress",
    "fewest_to_set_aside",
    "find_benchmark",
    "flow_decomposition",
    "from_gymnasium",
    "from_road_graph",
    "instances",
    "nonnegative_preference",
    "occupancy",
    "plan",
    "policy_flow",
    "policy_value",
    "ratio_matrix",
    "read_street_map",
    "refine_ratios",
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
