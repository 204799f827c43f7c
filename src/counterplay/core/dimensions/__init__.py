"""Combinatorial dimensions of finite classes, each with a certificate that can be checked.

Every function returns an object with ``value`` (the number), the set or tree behind it, and
``verify(cls)``, which re-checks the certificate against the class in a few lines of code.
"""

from counterplay.core.dimensions.littlestone import (
    LittlestoneSolver,
    MistakeTree,
    littlestone_dimension,
)
from counterplay.core.dimensions.orbits import (
    OrbitShattering,
    orbit_ids,
    orbit_labels,
    vcao,
    vco,
)
from counterplay.core.dimensions.star import (
    HollowStar,
    ProjectionNumber,
    StarSet,
    hollow_star_number,
    projection_number,
    projection_value,
    star_number,
)
from counterplay.core.dimensions.vc import Shattering, vc_dimension

__all__ = [
    "HollowStar",
    "LittlestoneSolver",
    "MistakeTree",
    "OrbitShattering",
    "ProjectionNumber",
    "Shattering",
    "StarSet",
    "hollow_star_number",
    "littlestone_dimension",
    "orbit_ids",
    "orbit_labels",
    "projection_number",
    "projection_value",
    "star_number",
    "vc_dimension",
    "vcao",
    "vco",
]
