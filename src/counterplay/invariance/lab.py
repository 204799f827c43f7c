"""For researchers: the one-inclusion graph with its orientations, and shattered sets of orbits."""

from counterplay.invariance.inclusion import (
    FractionalOrientation,
    OneInclusionGraph,
    Orientation,
    Prediction,
    peel_orientation,
)
from counterplay.invariance.orbit_shattering import (
    OrbitShattering,
    group_vcao,
    group_vco,
    orbit_ids,
    orbit_labels,
)

__all__ = [
    "FractionalOrientation",
    "OneInclusionGraph",
    "OrbitShattering",
    "Orientation",
    "Prediction",
    "group_vcao",
    "group_vco",
    "orbit_ids",
    "orbit_labels",
    "peel_orientation",
]
