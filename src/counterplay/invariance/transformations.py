"""Sets of transformations: how they act, which points share an orbit, and whether they are a group.

Vectors, sets and finite pools have a module each; this one gathers them. Groups that are too large
to list (all permutations) have a canonical form without ever being listed.
Source: docs/theory/11-invariance.md, "Setting".
"""

from counterplay.invariance.pool_orbits import AbstractOrbits, MapSet
from counterplay.invariance.symmetric_group import SymmetricGroup
from counterplay.invariance.transformation_set import (
    TransformationSet,
    TrivialGroup,
    _byte_keys,
    finite_numbers,
    orbit_table,
)
from counterplay.invariance.vector_groups import (
    CoordinatePermutationGroup,
    MatrixGroup,
    SignFlipGroup,
    _VectorGroup,
)

__all__ = [
    "AbstractOrbits",
    "CoordinatePermutationGroup",
    "MapSet",
    "MatrixGroup",
    "SignFlipGroup",
    "SymmetricGroup",
    "TransformationSet",
    "TrivialGroup",
    "_VectorGroup",
    "_byte_keys",
    "finite_numbers",
    "orbit_table",
]
