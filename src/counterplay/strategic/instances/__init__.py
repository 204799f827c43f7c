"""Hard instances and worked examples: populations and adversaries that make the bounds tight."""

from counterplay.strategic.instances.adversaries import (
    HalvingAdversary,
    MWMRAdversary,
    OnlineAdversary,
    StarAdversary,
)
from counterplay.strategic.instances.graph_instance import GraphAdversary, GraphInstance
from counterplay.strategic.instances.information import (
    LinearBanditEnv,
    bernoulli_kl,
    kl_divergence,
    kl_table,
)
from counterplay.strategic.instances.known_graph import (
    binary_code_instance,
    halving_trap,
    star_singletons,
)
from counterplay.strategic.instances.online import (
    OnlineInstance,
    mwmr_worst_case,
    online_lb_instance,
    star_instance,
    threshold_line,
)
from counterplay.strategic.instances.populations import (
    BlindInstance,
    ConservativeInstance,
    HardPopulation,
    NonBallInstance,
    ProperInstance,
    SparseWrong,
)
from counterplay.strategic.instances.unknown_graph import (
    SampledGroups,
    empty_neighborhoods,
    group_singletons,
    majority_graph_counterexample,
    path_AB_C,
    sampled_groups,
    superset_trap,
)

__all__ = [
    "BlindInstance",
    "ConservativeInstance",
    "GraphAdversary",
    "GraphInstance",
    "HalvingAdversary",
    "HardPopulation",
    "LinearBanditEnv",
    "MWMRAdversary",
    "NonBallInstance",
    "OnlineAdversary",
    "OnlineInstance",
    "ProperInstance",
    "SampledGroups",
    "SparseWrong",
    "StarAdversary",
    "bernoulli_kl",
    "binary_code_instance",
    "empty_neighborhoods",
    "group_singletons",
    "halving_trap",
    "kl_divergence",
    "kl_table",
    "majority_graph_counterexample",
    "mwmr_worst_case",
    "online_lb_instance",
    "path_AB_C",
    "sampled_groups",
    "star_instance",
    "star_singletons",
    "superset_trap",
    "threshold_line",
]
