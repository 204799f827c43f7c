"""The best any learner can do, computed: a small linear program over phases and worlds.

A world is a sequence of phases with constant losses. Phases with the same name in several worlds
cannot be told apart, so the learner plays the same mixture there. The smallest possible
``max(R1, R2)`` is then a linear program.
Source: docs/theory/09-tradeoff.md, "Proposition 9.B: the exact values".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.programs import minimize_linear
from counterplay.core.report import Report
from counterplay.core.validation import (
    FloatArray,
    check_choice,
    check_float_array,
    check_fraction,
)
from counterplay.errors import InvalidInputError
from counterplay.tradeoff.instances.lower_bounds import PHASES, classification_losses

if TYPE_CHECKING:
    import pandas as pd


@checked
@dataclass(frozen=True)
class Phase:
    """A stretch of time with constant losses; the name is what the learner can see.

    Examples
    --------
    >>> Phase("start", 0.5, l1=(0.25, 0.75), l2=(0.0, 0.1)).l1
    (0.25, 0.75)
    """

    name: str
    length: float
    l1: tuple[float, ...]
    l2: tuple[float, ...]


World = tuple[Phase, ...]


@checked
@dataclass(frozen=True)
class Minimax(Report):
    """The least ``max(R1, R2)`` and a way to play it.

    Examples
    --------
    >>> result = minimax(impossibility_phases(), c=1 / 16)
    >>> round(1 / result.value, 6)
    144.0
    """

    value: float
    play: dict[str, tuple[float, ...]] = field(repr=False)
    """Mixture over the experts in every phase, by name."""

    def summary(self) -> str:
        """Return the value and the mixtures."""
        lines = [f"least max(R1, R2): {self.value:.6g}"]
        for name, mixture in self.play.items():
            lines.append(f"{name}: {', '.join(f'{p:.4f}' for p in mixture)}")
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per phase, one column per expert."""
        import pandas as pd

        return pd.DataFrame.from_dict(self.play, orient="index").rename_axis("phase")


@checked
def minimax(
    worlds: Sequence[World], c: float, objective: Literal["average", "worst"] = "average"
) -> Minimax:
    """Return the least possible average (or worst) ``max(R1, R2)`` over the worlds.

    Parameters
    ----------
    worlds:
        Sequences of phases; the learner does not know which world it is in.
    c:
        Tolerated secondary loss per unit of time.
    objective:
        ``"average"`` over equally likely worlds, or ``"worst"``.

    Examples
    --------
    >>> round(1 / minimax(impossibility_phases(), c=1 / 16, objective="worst").value, 6)
    120.0
    """
    check_choice(objective, "objective", ("average", "worst"))
    program = _Program(worlds, check_fraction(c, "c"))
    goals = len(worlds) if objective == "average" else 1
    costs = np.concatenate([np.zeros(program.size), np.full(goals, 1 / goals)])
    rows, limits = [], []
    for w in range(len(worlds)):
        goal = np.zeros(goals)
        goal[w if goals > 1 else 0] = -1.0
        for coefficients, constant in program.regrets(w):
            rows.append(np.concatenate([coefficients, goal]))
            limits.append(-constant)
    solution = program.solve(costs, rows, limits, goals)
    return Minimax(float(costs @ solution), program.mixtures(solution))


@checked
def frontier(worlds: Sequence[World], c: float, secondary: ArrayLike) -> FloatArray:
    """Return the least primary regret in all worlds, given a limit on the secondary regret.

    Parameters
    ----------
    worlds:
        As in ``minimax``.
    c:
        As in ``minimax``.
    secondary:
        Limits on the secondary regret, in every world.

    Examples
    --------
    >>> (frontier(impossibility_phases(), 1 / 16, [0.0, 1 / 48]) * 96).round(6).tolist()
    [1.333333, 0.0]
    """
    limits = check_float_array(secondary, "secondary", ndim=1)
    program = _Program(worlds, check_fraction(c, "c"))
    costs = np.concatenate([np.zeros(program.size), [1.0]])
    found = []
    for limit in limits:
        rows, bounds = [], []
        for w in range(len(worlds)):
            (first, start), (second, base) = program.regrets(w)
            rows += [np.append(first, -1.0), np.append(second, 0.0)]
            bounds += [-start, limit - base]
        found.append(float(costs @ program.solve(costs, rows, bounds, 1)))
    return np.array(found)


@checked
def impossibility_phases() -> tuple[World, World]:
    """The two worlds of ``impossibility_worlds``, with ``T = 1``.

    Examples
    --------
    >>> [phase.name for phase in impossibility_phases()[0]]
    ['first', 'second in world I']
    """
    phases = {}
    for name, ((p, q), *experts) in PHASES.items():
        losses = [classification_losses(p / q, b / d) for b, d in experts]
        l1, l2 = zip(*losses)
        phases[name] = Phase(name, 0.5, l1, l2)
    first = phases["first"]
    return (first, phases["second in world I"]), (first, phases["second in world II"])


@checked
def burst_pair_phases(m: float) -> tuple[World]:
    """The phases of ``burst_pair`` with bursts of length ``m`` (the quiet rest does not matter).

    Examples
    --------
    >>> round(minimax(burst_pair_phases(600), c=0.0).value, 6)
    100.0
    """
    quiet, loud = classification_losses(0.75, 0.0), classification_losses(0.75, 1.0)
    one = Phase("burst of expert 0", m, (loud[0], quiet[0]), (loud[1], quiet[1]))
    two = Phase("burst of expert 1", m, (quiet[0], loud[0]), (quiet[1], loud[1]))
    return ((one, two),)


class _Program:
    """The linear program: one mixture per distinguishable phase, then the goal variables."""

    def __init__(self, worlds: Sequence[World], c: float) -> None:
        phases = [phase for world in worlds for phase in world]
        if not phases or len({len(p.l1) for p in phases} | {len(p.l2) for p in phases}) != 1:
            raise InvalidInputError("worlds must be non-empty, with losses of the same K experts")
        self.worlds, self.c = worlds, c
        self.K = len(phases[0].l1)
        self.names = list(dict.fromkeys(phase.name for phase in phases))
        self.size = self.K * len(self.names)

    def regrets(self, w: int) -> list[tuple[FloatArray, float]]:
        """Both regrets in world ``w`` as affine functions of the mixtures."""
        first, second = np.zeros(self.size), np.zeros(self.size)
        totals, time = np.zeros(self.K), 0.0
        for phase in self.worlds[w]:
            at = self.K * self.names.index(phase.name)
            first[at : at + self.K] += phase.length * np.array(phase.l1)
            second[at : at + self.K] += phase.length * np.array(phase.l2)
            totals += phase.length * np.array(phase.l1)
            time += phase.length
        return [(first, -float(totals.min())), (second, -self.c * time)]

    def solve(
        self, costs: FloatArray, rows: list[FloatArray], limits: list[float], goals: int
    ) -> FloatArray:
        simplex = np.kron(np.eye(len(self.names)), np.ones(self.K))
        simplex = np.hstack([simplex, np.zeros((len(self.names), goals))])
        box = [(0.0, 1.0)] * self.size + [(None, None)] * goals
        return minimize_linear(
            costs, A_ub=np.array(rows), b_ub=np.array(limits),
            A_eq=simplex, b_eq=np.ones(len(self.names)), bounds=box,
            infeasible="no learner keeps this limit on the secondary regret in every world",
        ).point  # fmt: skip

    def mixtures(self, solution: FloatArray) -> dict[str, tuple[float, ...]]:
        rows = solution[: self.size].reshape(-1, self.K)
        return {name: tuple(row.tolist()) for name, row in zip(self.names, rows)}
