"""For researchers: combinatorial numbers that decide whether proper learners can be robust."""

from counterplay.poisoning.stars import (
    HollowStar,
    ProjectionNumber,
    StarSet,
    hollow_star_number,
    projection_number,
    projection_value,
    star_number,
)

__all__ = [
    "HollowStar",
    "ProjectionNumber",
    "StarSet",
    "hollow_star_number",
    "projection_number",
    "projection_value",
    "star_number",
]
