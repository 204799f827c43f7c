"""When can everybody gain strictly? Two checkable conditions, with numbers and witnesses.

Source: Asp. asp:clb-help, asp:clb-help-efficient, spec 06, section 3.10.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterplay.labeling.algorithm import expected
from counterplay.labeling.model import PoolProblem, merge_rows
from counterplay.labeling.optimal_tree import OptimalTree
from counterplay.labeling.partial_sir import OptPartialSIR


@dataclass(frozen=True)
class AssumptionCheck:
    """Whether a condition holds, per agent.

    Attributes
    ----------
    holds:
        One truth value per agent.
    evidence:
        Assumption 1: the gap in expected queries. Assumption 2: a labeling (row) that proves it, or
        None.
    """

    holds: tuple[bool, ...]
    evidence: tuple[Any, ...]

    def __bool__(self) -> bool:
        return all(self.holds)

    @property
    def failing(self) -> tuple[int, ...]:
        """Agents for whom the condition fails."""
        return tuple(i for i, holds in enumerate(self.holds) if not holds)


def check_assumption1(problem: PoolProblem, optimal: OptimalTree | None = None) -> AssumptionCheck:
    """Do the others' labels lower the *optimal* number of queries of each agent? Small instances.

    Examples
    --------
    >>> from counterplay.labeling import instances
    >>> [str(gap) for gap in check_assumption1(instances.correlated_pairs()).evidence]
    ['1/6', '1/6']
    """
    solver = OptimalTree() if optimal is None else optimal
    gaps = []
    for i in range(problem.k):
        alone = solver.expected_costs(problem, (i,))[i]
        after = expected(problem, OptPartialSIR(i, solver).cost_matrix(problem))[i]
        gaps.append(alone - after)
    tolerance = 0 if problem.is_exact else 1e-12
    return AssumptionCheck(tuple(bool(gap > tolerance) for gap in gaps), tuple(gaps))


def check_assumption2(problem: PoolProblem) -> AssumptionCheck:
    """Does some labeling of the others rule out a labeling of each agent's pool? Any prior.

    Fast test: it fails for agent i iff the class is a full product across the cut.

    Examples
    --------
    >>> from counterplay.labeling import instances
    >>> check_assumption2(instances.weak_pruning_trap()).holds
    (True, True)
    >>> check_assumption2(instances.correlated_pairs()).holds
    (False, False)
    """
    holds, witnesses = [], []
    for i in range(problem.k):
        witness = _witness(problem, i)
        holds.append(witness is not None)
        witnesses.append(witness)
    return AssumptionCheck(tuple(holds), tuple(witnesses))


def _witness(problem: PoolProblem, agent: int) -> int | None:
    own = problem.n_labelings(problem.agents[agent])
    others = [j for j in problem.everybody if j != agent]
    if not others:
        return None
    groups = merge_rows(problem.H[:, problem.union(others)], problem.weights)[2]
    mine = merge_rows(problem.H[:, problem.agents[agent]], problem.weights)[2]
    pairs = np.unique(np.stack([groups, mine]), axis=1)  # own labelings seen with each group
    sizes = np.bincount(pairs[0])
    small = np.flatnonzero(sizes < own)
    return None if small.size == 0 else int(np.flatnonzero(groups == small[0])[0])
