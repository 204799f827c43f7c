"""Hard instances on manipulation graphs, each with its adversary. Source: spec 03, section 4."""

from counterplay.strategic.graphs.instances.known_graph import (
    binary_code_instance,
    halving_trap,
    star_singletons,
)
from counterplay.strategic.graphs.instances.model import GraphAdversary, GraphInstance
from counterplay.strategic.graphs.instances.sampled_graph import SampledGroups, sampled_groups
from counterplay.strategic.graphs.instances.unknown_graph import (
    empty_neighborhoods,
    group_singletons,
    majority_graph_counterexample,
    path_AB_C,
    superset_trap,
)

__all__ = [
    "GraphAdversary",
    "GraphInstance",
    "SampledGroups",
    "binary_code_instance",
    "empty_neighborhoods",
    "group_singletons",
    "halving_trap",
    "majority_graph_counterexample",
    "path_AB_C",
    "sampled_groups",
    "star_singletons",
    "superset_trap",
]
