"""What an instance is: a class with orbits, natural data, a target, and what theory says.

Source: docs/theory/11-invariance.md, "Dimensions of the constructions".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterplay.invariance.classes import HypothesisClass
from counterplay.invariance.model import FiniteDistribution, FiniteProblem
from counterplay.invariance.transformations import AbstractOrbits, MapSet


@dataclass(frozen=True, eq=False)
class Instance:
    """A class with orbits, a data distribution on it, and what theory says about them.

    Attributes
    ----------
    name:
        Which construction.
    problem:
        The finite problem; for large parameters the implicit class instead.
    group:
        The transformations of the pool.
    distribution:
        Natural data.
    target:
        True label of every pool point.
    facts:
        Pairs (quantity, value) that theory gives.

    Examples
    --------
    >>> from counterplay.invariance.instances import example_vco0
    >>> dict(example_vco0(2).facts)["VCao"]
    2
    """

    name: str
    problem: FiniteProblem | HypothesisClass
    group: AbstractOrbits | MapSet
    distribution: FiniteDistribution
    target: NDArray[np.int8]
    facts: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        self.target.setflags(write=False)

    def __repr__(self) -> str:
        return f"Instance({self.name}, {self.problem!r})"


def make_instance(
    name: str,
    problem: FiniteProblem | HypothesisClass,
    data: FiniteDistribution,
    target: NDArray[np.int8],
    facts: tuple[tuple[str, float], ...] = (),
) -> Instance:
    """An instance with the group of its problem."""
    group = problem.group  # type: ignore[union-attr]  # problems and BalancedSubsets have it
    return Instance(name, problem, group, data, target, facts)
