"""Strictly better for everybody: when that is possible, and the mixtures that reach it.

An IR protocol is mixed rarely with protocols that favour one agent. Lemma 6.2 draws them with tiny
fixed probabilities; since all costs are known exactly, a linear program finds the weights with the
largest smallest gain. Two checkable conditions say beforehand who can gain.
Source: Lemma 6.2, Assumptions 6.1 and 6.2, see docs/theory/06-labeling.md, "Mixtures".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.programs import Status, minimize_linear
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    check_choice,
    check_positive_int,
    check_real,
    shorten,
)
from counterplay.errors import InfeasibleError, InvalidInputError
from counterplay.labeling.algorithm import QueryAlgorithm, State, TreeAlgorithm, expected
from counterplay.labeling.b2ir import B2IR
from counterplay.labeling.model import Members, PoolProblem, merge_rows
from counterplay.labeling.optimal_tree import OptimalTree
from counterplay.labeling.partial_sir import OptPartialSIR, PrunedPartialSIR
from counterplay.labeling.report import alone_costs


class NotStrictlyImprovable(InfeasibleError):
    """Some agents cannot gain strictly; ``agents`` lists them."""

    def __init__(self, message: str, agents: Sequence[int]) -> None:
        super().__init__(message)
        self.agents = tuple(agents)


@checked
class ProtocolMixture(QueryAlgorithm):
    """Draw one protocol before the first query, then follow it.

    Parameters
    ----------
    components:
        The protocols.
    weights:
        Their probabilities (Fractions keep exact costs exact).

    Examples
    --------
    >>> from counterplay.labeling import GBS, instances
    >>> from counterplay.labeling.lab import FixedOrderScan
    >>> half = ProtocolMixture([GBS(), FixedOrderScan()], [Fraction(1, 2), Fraction(1, 2)])
    >>> print(half.expected_costs(instances.identical_pools(k=1))[0])
    59/16
    """

    deterministic: ClassVar[bool] = False

    def __init__(self, components: Sequence[QueryAlgorithm], weights: Sequence[float]) -> None:
        if len(components) != len(weights) or not components:
            raise InvalidInputError("a mixture needs one weight per component")
        if any(weight < 0 for weight in weights) or abs(float(sum(weights)) - 1.0) > 1e-9:
            raise InvalidInputError("mixture weights must be non-negative and sum to 1")
        self.components = tuple(components)
        self.weights = tuple(weights)

    def draw(self, random_state: RandomState = None, size: int | None = None) -> Any:
        """Draw the index of a component (or ``size`` of them)."""
        probabilities = np.array([float(weight) for weight in self.weights])
        rng = generator(random_state)
        return rng.choice(len(self.components), size=size, p=probabilities / probabilities.sum())

    @checked
    def start(
        self, problem: PoolProblem, coalition: Members = None, random_state: RandomState = None
    ) -> State:
        """Commit to a component before any label is seen, then begin its run."""
        rng = generator(random_state)
        return self.components[int(self.draw(rng))].start(problem, coalition, rng)

    @checked
    def cost_matrix(self, problem: PoolProblem, coalition: Members = None) -> NDArray[Any]:
        """Weighted sum of the components' cost matrices."""
        kind = object if problem.is_exact else np.float64
        total = np.zeros((problem.N, problem.k), dtype=kind)
        for component, weight in zip(self.components, self.weights):
            exact = Fraction(weight) if problem.is_exact else float(weight)
            if weight:
                total = total + exact * component.cost_matrix(problem, coalition).astype(kind)
        return total

    def __repr__(self) -> str:
        parts = ", ".join(f"{float(w):.3g} {c!r}" for c, w in zip(self.components, self.weights))
        return f"{type(self).__name__}({parts})"


@checked
class SIRMixture(ProtocolMixture):
    """The mixture of Lemma 6.2: IR with probability 1 - eps/m, favour agent i with eps/(k m) each.

    Use it when every party must gain strictly and a little more work in total is acceptable.

    Parameters
    ----------
    ir:
        An individually rational protocol, such as ``B2IR(GBS())`` or ``OptimalTree()``.
    partial:
        One partially SIR protocol per agent.
    eps:
        Allowed extra queries in expectation, in (0, m].
    m:
        Number of points of the pool.

    Notes
    -----
    Guarantee (Lemma 6.2): SIR, and the total is at most that of ``ir`` plus ``eps``.

    Examples
    --------
    >>> from counterplay.labeling import GBS, incentive_report, instances
    >>> problem = instances.gbs_counterexample(6)
    >>> gbs = GBS(tie_break=[8])
    >>> mixture = sir_mixture(gbs, problem, eps=Fraction(1, 10))
    >>> report = incentive_report(mixture, gbs, problem)
    >>> report.is_sir, [str(slack) for slack in report.slack]
    (True, ['1/360', '1/480'])
    """

    def __init__(
        self, ir: QueryAlgorithm, partial: Sequence[QueryAlgorithm], eps: Fraction | float, m: int
    ) -> None:
        m = check_positive_int(m, "m")
        if not 0 < eps <= m:
            raise InvalidInputError(
                f"eps must be in (0, {m}], the size of the pool; got {shorten(eps)}"
            )
        if not partial:
            raise InvalidInputError("partial must have one protocol per agent")
        step = Fraction(eps) / m if isinstance(eps, Fraction | int) else float(eps) / m
        one: Any = Fraction(1) if isinstance(step, Fraction) else 1.0
        share: Any = step / len(partial)
        super().__init__([ir, *partial], [one - step, *[share] * len(partial)])
        self.eps = eps


@checked
def sir_mixture(
    baseline: TreeAlgorithm,
    problem: PoolProblem,
    eps: Fraction | float,
    *,
    allow_weak: bool = False,
) -> SIRMixture:
    """Build the efficient SIR mixture for ``baseline``: B2IR and the pruned protocols.

    ``OptimalTree`` as baseline gives the mixture for optimal baselines. Raises
    ``NotStrictlyImprovable`` when an agent cannot gain, unless ``allow_weak``.

    Use it when everybody must be strictly better off than alone.

    Parameters
    ----------
    baseline:
        The protocol that each agent would run alone.
    problem:
        The pool, its owners and the possible labelings.
    eps:
        How much more than the individually rational protocol it may cost in total.
    allow_weak:
        Accept agents who cannot gain strictly.

    Examples
    --------
    >>> from counterplay.labeling import GBS, instances
    >>> sir_mixture(GBS(), instances.independent_points(2), eps=1)
    Traceback (most recent call last):
    ...
    counterplay.labeling.mixture.NotStrictlyImprovable: agent 1, agent 2 cannot gain strictly ...

    References
    ----------
    "Mixtures", Lemma 6.2, see docs/theory/06-labeling.md.
    """
    if isinstance(baseline, OptimalTree):
        check = check_assumption1(problem, baseline)
        ir: QueryAlgorithm = baseline
        partial: list[QueryAlgorithm] = [OptPartialSIR(i, baseline) for i in range(problem.k)]
    else:
        check = check_assumption2(problem)
        ir, partial = B2IR(baseline), [PrunedPartialSIR(baseline, i) for i in range(problem.k)]
    if not check and not allow_weak:
        names = ", ".join(problem.name(i) for i in check.failing)
        raise NotStrictlyImprovable(
            f"{names} cannot gain strictly from the others' labels; use an IR protocol or "
            "allow_weak=True",
            check.failing,
        )
    return SIRMixture(ir, partial, eps, problem.m)


@checked
@dataclass(frozen=True)
class OptimalMixture:
    """Mixture weights found by linear programming.

    Attributes
    ----------
    mixture:
        The protocol.
    smallest_slack:
        The gain of the agent who gains least (relative to its cost alone if ``relative``).
    total:
        Expected queries of everybody.
    """

    mixture: ProtocolMixture
    smallest_slack: float
    total: float


@checked
def optimal_mixture(
    components: Sequence[QueryAlgorithm],
    baseline: QueryAlgorithm | list[QueryAlgorithm],
    problem: PoolProblem,
    *,
    eps: float = 0.0,
    measure: Literal["absolute", "relative"] = "absolute",
) -> OptimalMixture:
    """Weights that maximise the smallest gain, spending at most ``eps`` more than component 0.

    Among these, the total is smallest. The first component is the IR protocol.

    Use it when several protocols each favour somebody, to share the gain as evenly as possible.

    Parameters
    ----------
    components:
        The protocols to mix; the first must be individually rational.
    baseline:
        What each agent would run alone: one for all, or one per agent.
    problem:
        The pool, its owners and the possible labelings.
    eps:
        How much more than the first component the mixture may cost in total.
    measure:
        Whether gains count in queries or relative to the cost alone.

    Examples
    --------
    >>> from counterplay.labeling import B2IR, GBS, instances
    >>> from counterplay.labeling.lab import PrunedPartialSIR
    >>> problem, gbs = instances.gbs_counterexample(10), GBS(tie_break=[12])
    >>> parts = [B2IR(gbs), PrunedPartialSIR(gbs, 0), PrunedPartialSIR(gbs, 1)]
    >>> round(optimal_mixture(parts, gbs, problem).smallest_slack, 6)
    0.214286

    References
    ----------
    "Mixtures", Lemma 6.2, see docs/theory/06-labeling.md.
    """
    eps = check_real(eps, "eps", low=0.0)
    check_choice(measure, "measure", ("absolute", "relative"))
    if not components:
        raise InvalidInputError("a mixture needs at least one component")
    costs = [expected(problem, c.cost_matrix(problem)).astype(np.float64) for c in components]
    Q: FloatArray = np.stack(costs, axis=1)  # (k, components)
    alone = expected(problem, alone_costs(baseline, problem)).astype(np.float64)
    unit = np.ones(problem.k) if measure == "absolute" else np.maximum(alone, 1e-300)
    total = Q.sum(axis=0)
    n = Q.shape[1]
    solve = partial(
        minimize_linear,
        A_eq=np.array([[*np.ones(n), 0.0]]),
        b_eq=[1.0],
        bounds=[(0, None)] * n + [(None, None)],
        infeasible="no mixture of these protocols is within the allowed total",
    )
    # largest s such that everybody's weighted cost plus s units is at most the cost alone
    A = np.block([[Q, unit[:, None]], [total[None, :], np.zeros((1, 1))]])
    b = np.concatenate([alone, [total[0] + eps]])
    first = solve([*np.zeros(n), -1.0], A_ub=A, b_ub=b)
    best = -first.value
    # among these the smallest total; should rounding leave none, the first solution is as good
    allowed: tuple[Status, ...] = ("infeasible",)
    A, b = np.vstack([A, [*np.zeros(n), -1.0]]), np.append(b, -best + 1e-9)
    second = solve([*total, 0.0], A_ub=A, b_ub=b, allow=allowed)
    weights = (first if second.x is None else second).point[:n].clip(0)
    weights /= weights.sum()
    mixture = ProtocolMixture(components, weights.tolist())
    return OptimalMixture(mixture, best, float(total @ weights))


@checked
@dataclass(frozen=True)
class AssumptionCheck:
    """Whether a condition holds, per agent.

    Attributes
    ----------
    holds:
        One truth value per agent.
    evidence:
        Assumption 6.1: the gap in expected queries. Assumption 6.2: a labeling (row) that proves
        it, or None.
    """

    holds: tuple[bool, ...]
    evidence: tuple[Any, ...]

    def __bool__(self) -> bool:
        return all(self.holds)

    @property
    def failing(self) -> tuple[int, ...]:
        """Agents for whom the condition fails."""
        return tuple(i for i, holds in enumerate(self.holds) if not holds)


@checked
def check_assumption1(problem: PoolProblem, optimal: OptimalTree | None = None) -> AssumptionCheck:
    """Do the others' labels lower the *optimal* number of queries of each agent? Small instances.

    This is Assumption 6.1.

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


@checked
def check_assumption2(problem: PoolProblem) -> AssumptionCheck:
    """Does some labeling of the others rule out a labeling of each agent's pool? Any prior.

    This is Assumption 6.2. It fails for agent i iff the class is a full product across the cut.

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
