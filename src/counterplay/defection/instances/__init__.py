"""Worked examples and hard instances of chapter 5, each with what must come out."""

from counterplay.defection.instances.construction import Construction
from counterplay.defection.instances.kinks import (
    bad_init_example,
    uniform_fails_family,
    uniform_fails_repaired,
)
from counterplay.defection.instances.overparameterised import random_overparameterised
from counterplay.defection.instances.planes import (
    non_heterogeneous_example,
    nonterminating_example,
)
from counterplay.defection.instances.quadratics import benign_example, identical_agents
from counterplay.defection.instances.silos import TwoSilos, two_silo_cartoon

__all__ = [
    "Construction",
    "TwoSilos",
    "bad_init_example",
    "benign_example",
    "identical_agents",
    "non_heterogeneous_example",
    "nonterminating_example",
    "random_overparameterised",
    "two_silo_cartoon",
    "uniform_fails_family",
    "uniform_fails_repaired",
]
