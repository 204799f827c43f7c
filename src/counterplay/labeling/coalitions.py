"""Which coalitions would form? Costs of all coalitions, stable ones, and the core.

For few agents every coalition's protocol can be evaluated. A coalition is stable when no member
would rather be alone and no outsider would rather come in.
Source: docs/theory/06-labeling.md, "Setting", "Incentives".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.programs import minimize_linear
from counterplay.core.report import Report
from counterplay.core.validation import FloatArray
from counterplay.errors import InvalidInputError
from counterplay.labeling.algorithm import QueryAlgorithm
from counterplay.labeling.b2ir import B2IR
from counterplay.labeling.model import Coalition, PoolProblem
from counterplay.labeling.report import greater

if TYPE_CHECKING:
    import pandas as pd

_MOST_AGENTS = 12


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class CoalitionTable(Report):
    """Expected costs in every coalition, and what follows.

    Attributes
    ----------
    costs:
        For each coalition the expected queries of its members (others: 0).
    alone:
        Expected queries of each agent alone.
    names:
        Names of the agents.

    Examples
    --------
    >>> from counterplay.labeling import GBS, instances
    >>> table = compute_equilibria(instances.threshold_example(), GBS(tie_break=[1, 3, 6]))
    >>> table.stable, table.core_is_empty
    (((0, 1),), False)
    """

    costs: dict[Coalition, NDArray[Any]]
    alone: NDArray[Any]
    names: tuple[str, ...]

    def total(self, coalition: Coalition) -> float:
        """Expected queries of a coalition together."""
        return float(self.costs[coalition].sum())

    @property
    def stable(self) -> tuple[Coalition, ...]:
        """Coalitions from which nobody leaves and into which nobody wants to come."""
        return tuple(c for c in self.costs if len(c) > 1 and self._is_stable(c))

    def _is_stable(self, coalition: Coalition) -> bool:
        members = list(coalition)
        if greater(self.costs[coalition][members], self.alone[members]).any():
            return False
        for j in set(range(len(self.names))) - set(coalition):
            larger = tuple(sorted((*coalition, j)))
            if greater(self.alone[[j]], self.costs[larger][[j]]).any():
                return False
        return True

    @property
    def least_core(self) -> tuple[float, FloatArray]:
        """Smallest e such that costs can be shared with no coalition over its total by more than e.

        Returns e (the core is empty iff e > 0) and such a sharing of the grand total. An agent
        without others has e = 0.
        """
        k = len(self.names)
        grand = tuple(range(k))
        proper = [c for c in self.costs if c != grand]
        if not proper:
            return 0.0, np.array([self.total(grand)])
        A = np.zeros((len(proper), k + 1))
        for r, coalition in enumerate(proper):
            A[r, list(coalition)], A[r, -1] = 1.0, -1.0
        solved = minimize_linear(
            [*np.zeros(k), 1.0],
            A_ub=A,
            b_ub=[self.total(coalition) for coalition in proper],
            A_eq=np.array([[*np.ones(k), 0.0]]),
            b_eq=[self.total(grand)],
            bounds=(None, None),
            what="the least core",
        )
        return float(solved.point[-1]), solved.point[:-1]

    @property
    def core_is_empty(self) -> bool:
        """Whether every sharing of the grand total gives some coalition a reason to leave."""
        return self.least_core[0] > 1e-9

    def summary(self) -> str:
        """Totals, stable coalitions and the core as text."""

        def named(coalition: Coalition) -> str:
            return "{" + ", ".join(self.names[i] for i in coalition) + "}"

        lines = [f"  {named(c)}: {self.total(c):.3f} queries together" for c in self.costs]
        stable = ", ".join(named(c) for c in self.stable) or "none"
        core = "empty" if self.core_is_empty else "not empty"
        return "\n".join(["coalitions:", *lines, f"stable: {stable}", f"core: {core}"])

    def to_frame(self) -> pd.DataFrame:
        """One row per coalition: costs of the members, total, stability."""
        import pandas as pd

        stable = self.stable
        rows = [
            {
                "coalition": coalition,
                **{self.names[i]: float(costs[i]) for i in coalition},
                "total": self.total(coalition),
                "stable": coalition in stable,
            }
            for coalition, costs in self.costs.items()
        ]
        return pd.DataFrame(rows).set_index("coalition")


@checked
def compute_equilibria(
    problem: PoolProblem,
    baseline: QueryAlgorithm,
    protocol: Callable[[QueryAlgorithm], QueryAlgorithm] = B2IR,
) -> CoalitionTable:
    """Evaluate ``protocol(baseline)`` on all coalitions of at most 12 agents.

    Examples
    --------
    >>> from counterplay.labeling import GBS, instances
    >>> table = compute_equilibria(instances.independent_points(3), GBS())
    >>> table.total((0, 1, 2))
    3.0
    """
    if problem.k > _MOST_AGENTS:
        raise InvalidInputError(
            f"{problem.k} agents have {2**problem.k - 1} coalitions; at most {_MOST_AGENTS} agents"
        )
    rule = protocol(baseline)
    costs = {
        coalition: rule.expected_costs(problem, coalition)
        for size in range(1, problem.k + 1)
        for coalition in combinations(range(problem.k), size)
    }
    alone = np.array([costs[(i,)][i] for i in range(problem.k)])
    return CoalitionTable(costs, alone, tuple(problem.name(i) for i in range(problem.k)))
