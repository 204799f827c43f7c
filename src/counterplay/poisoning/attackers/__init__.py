"""All attackers of the area; every one adds correctly labelled rows only."""

from counterplay.poisoning.attackers.dyadic_path import DyadicPathAttacker
from counterplay.poisoning.attackers.hollow_star import HollowStarAttacker
from counterplay.poisoning.attackers.practical import AcrossBoundaryAttacker, PoolGreedyAttacker
from counterplay.poisoning.attackers.reflection import (
    ChainReflectionAttacker,
    CircleReflectionAttacker,
    MarginReflectionAttacker,
    SphereReflectionAttacker,
)
from counterplay.poisoning.attackers.svm import OnePointSVMAttacker, SqueezePairAttacker
from counterplay.poisoning.intervals import GapCuttingAttacker
from counterplay.poisoning.model import EmptyAttacker

__all__ = [
    "AcrossBoundaryAttacker",
    "ChainReflectionAttacker",
    "CircleReflectionAttacker",
    "DyadicPathAttacker",
    "EmptyAttacker",
    "GapCuttingAttacker",
    "HollowStarAttacker",
    "MarginReflectionAttacker",
    "OnePointSVMAttacker",
    "PoolGreedyAttacker",
    "SphereReflectionAttacker",
    "SqueezePairAttacker",
]
