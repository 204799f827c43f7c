"""B2IR: make any query algorithm individually rational without extra queries in total.

Agents who would lose by joining first label their own pool alone; then the joint algorithm runs and
their answers are fed to it for free. Everybody pays the smaller of two numbers: what joining costs
and what staying alone costs. Who would lose is computed exactly or, where trees cannot be built,
from sampled targets: putting an agent into the set by mistake keeps everybody's guarantee and only
raises the total, leaving one out breaks it, so that test is one-sided.
Source: Algorithm 6.1, Theorem 6.3 and Proposition 6.C, see docs/theory/06-labeling.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator, spawn
from counterplay.core.validation import (
    FloatArray,
    check_choice,
    check_open_fraction,
    check_positive_int,
    check_size,
)
from counterplay.errors import InvalidInputError
from counterplay.labeling import bounds
from counterplay.labeling.algorithm import QueryAlgorithm, StagedState, State, run_costs
from counterplay.labeling.model import Coalition, Members, PoolProblem
from counterplay.labeling.report import greater

if TYPE_CHECKING:
    import pandas as pd


@checked
class B2IR(QueryAlgorithm):
    """Wrap a baseline so that no party expects more queries than it would make alone.

    Use it whenever parties may walk away: it costs never more in total than running the baseline
    jointly, and strictly less when somebody would have lost.

    Parameters
    ----------
    baseline:
        The query algorithm everybody would run alone, or one per agent. On unions the one with the
        smallest total is used.
    infer:
        Also feed labels for free that all answers so far imply. Never more queries, for any agent
        and target, but planning replays every target. Off by default: the literal Algorithm 6.1.
    violators:
        The agents who label alone first, when they are known (for example from
        ``safe_violators_mc``); None: computed exactly.

    Notes
    -----
    Guarantee (Theorem 6.3): agent i expects ``min(joint_i, alone_i)`` queries, and the total is
    at most the joint baseline's.

    Examples
    --------
    >>> from counterplay.labeling import GBS, instances
    >>> problem = instances.gbs_violation_7x6()
    >>> print(GBS().expected_costs(problem).sum(), B2IR(GBS()).expected_costs(problem).sum())
    2053/527 1597/527
    >>> print(B2IR(GBS(), infer=True).expected_costs(problem).sum())
    1097/527

    References
    ----------
    Algorithm 6.1, Theorem 6.3, see docs/theory/06-labeling.md.
    """

    def __init__(
        self,
        baseline: QueryAlgorithm | Sequence[QueryAlgorithm],
        *,
        infer: bool = False,
        violators: Iterable[int] | None = None,
    ) -> None:
        self.baseline = baseline
        self.infer = infer
        self.violators = None if violators is None else tuple(sorted(violators))

    def own_baseline(self, agent: int) -> QueryAlgorithm:
        """What ``agent`` would run alone."""
        if isinstance(self.baseline, QueryAlgorithm):
            return self.baseline
        if agent >= len(self.baseline):
            raise InvalidInputError(f"agent {agent} has no baseline; pass one per agent")
        return self.baseline[agent]

    def joint_baseline(self, problem: PoolProblem, coalition: Coalition) -> QueryAlgorithm:
        """What runs on the union: the baseline with the smallest expected total."""
        if isinstance(self.baseline, QueryAlgorithm):
            return self.baseline
        options = [self.own_baseline(i) for i in range(problem.k)]
        return min(options, key=lambda option: option.expected_costs(problem, coalition).sum())

    def must_stay_alone(self, problem: PoolProblem, coalition: Members = None) -> tuple[int, ...]:
        """The set S: agents whose joint cost exceeds their cost alone."""
        members = problem.check_coalition(coalition)
        if self.violators is not None:
            return tuple(i for i in self.violators if i in members)
        joint = self.joint_baseline(problem, members).expected_costs(problem, members)
        alone = joint.copy()
        for i in members:
            alone[i] = self.own_baseline(i).expected_costs(problem, (i,))[i]
        return tuple(int(i) for i in np.flatnonzero(greater(joint, alone)))

    @checked
    def cost_matrix(self, problem: PoolProblem, coalition: Members = None) -> NDArray[Any]:
        """Joint costs, with the columns of S replaced by their costs alone."""
        members = problem.check_coalition(coalition)
        if self.infer:
            return _replayed_costs(self, problem, members)
        costs = self.joint_baseline(problem, members).cost_matrix(problem, members)
        alone = {
            i: self.own_baseline(i).cost_matrix(problem, (i,))[:, i]
            for i in self.must_stay_alone(problem, members)
        }
        if any(column.dtype != costs.dtype for column in alone.values()):
            costs = costs.astype(object if problem.is_exact else np.float64)
        for i, column in alone.items():
            costs[:, i] = column
        return costs

    @checked
    def start(
        self, problem: PoolProblem, coalition: Members = None, random_state: RandomState = None
    ) -> B2IRState:
        """Begin a run: first the agents of S alone, then everybody."""
        members = problem.check_coalition(coalition)
        first = self.must_stay_alone(problem, members)
        streams = spawn(random_state, len(first) + 1)
        solo = [
            (i, self.own_baseline(i).start(problem, (i,), streams[n + 1]))
            for n, i in enumerate(first)
        ]
        joint = self.joint_baseline(problem, members).start(problem, members, streams[0])
        return B2IRState(problem, solo, joint, infer=self.infer)

    def __repr__(self) -> str:
        return f"B2IR({self.baseline!r}, infer={self.infer})"


class B2IRState(StagedState):
    """A step-by-step run of B2IR, fit to drive human labelers."""

    def __init__(
        self,
        problem: PoolProblem,
        solo: list[tuple[int, State]],
        joint: State,
        *,
        infer: bool,
    ) -> None:
        super().__init__(problem)
        self._solo, self._joint, self._infer = solo, joint, infer
        self._own: dict[tuple[int, int], int] = {}  # labels that agents of S found alone
        self._alone = {agent for agent, _ in solo}
        self._advance()

    def _note(self, agent: int, x: int, y: int) -> None:
        if self._solo:
            self._own[agent, x] = y

    def _current(self) -> State:
        return self._solo[0][1] if self._solo else self._joint

    def _advance(self) -> None:
        """Feed free labels until somebody must be asked or the run is over."""
        while True:
            while self._solo and self._solo[0][1].next_query() is None:
                agent, state = self._solo.pop(0)
                self._remember_pool(agent, state)
            query = self.next_query()
            if query is None:
                return
            known = self._known(*query)
            if known is None:
                return
            self._current().update(query[1], known)

    def _remember_pool(self, agent: int, state: State) -> None:
        row = self.problem.H[state.rows[0]]
        for x in self.problem.agents[agent]:
            self._own[agent, int(x)] = int(row[x])

    def _known(self, agent: int, x: int) -> int | None:
        if not self._solo and agent in self._alone:
            return self._own[agent, x]
        return self._implied(x) if self._infer else None


def _replayed_costs(algorithm: B2IR, problem: PoolProblem, members: Coalition) -> NDArray[Any]:
    """Cost matrix by replaying the run for every target (deterministic baselines only)."""
    options = [algorithm.own_baseline(i) for i in members]
    if not all(option.deterministic for option in options) or any(
        getattr(option, "assignment", "first") == "uniform" for option in options
    ):
        raise InvalidInputError(
            "infer=True needs deterministic baselines with a fixed owner rule for exact costs; "
            "use infer=False or assignment='first'"
        )
    rows = [run_costs(algorithm, problem, h, members) for h in range(problem.N)]
    return np.array(rows)


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class SafeViolators(Report):
    """Agents who label alone first, with the evidence.

    Attributes
    ----------
    violators:
        The set S for ``B2IR(baseline, violators=...)``.
    mean:
        Estimated joint-minus-alone cost of each agent.
    width:
        Width of its one-sided bound.
    delta:
        Allowed probability that somebody who loses by joining is left out.
    """

    violators: tuple[int, ...]
    mean: FloatArray
    width: FloatArray
    delta: float

    def summary(self) -> str:
        """The decision per agent as text."""
        lines = [
            f"  agent {i + 1}: joining changes the cost by {mean:+.3f} (<= {mean + width:+.3f})"
            f" -> {'labels alone first' if i in self.violators else 'joins at once'}"
            for i, (mean, width) in enumerate(zip(self.mean, self.width))
        ]
        return "\n".join([f"with confidence {1 - self.delta:g}:", *lines])

    def to_frame(self) -> pd.DataFrame:
        """One row per agent."""
        import pandas as pd

        alone = [i in self.violators for i in range(self.mean.size)]
        return pd.DataFrame({"mean": self.mean, "width": self.width, "alone_first": alone})


@checked
def safe_violators_mc(
    problem: PoolProblem,
    baseline: QueryAlgorithm,
    *,
    n_targets: int = 500,
    delta: float = 0.05,
    bound: Literal["hoeffding", "bernstein"] = "hoeffding",
    random_state: RandomState = None,
) -> SafeViolators:
    """Estimate B2IR's set S from ``n_targets`` targets drawn from the prior.

    With probability at least ``1 - delta`` nobody who would lose is left out, so ``B2IR`` with the
    returned set is individually rational.

    Use it where the query trees are too large to build, and pass ``violators`` to :class:`B2IR`.

    Parameters
    ----------
    problem:
        The pool, its owners and the possible labelings.
    baseline:
        The protocol that each agent would run alone.
    n_targets:
        Number of labelings drawn from the prior.
    delta:
        Probability with which the result may be wrong.
    bound:
        Which confidence bound is used.
    random_state:
        Seed of the draws.

    Examples
    --------
    >>> from counterplay.labeling import GBS, instances
    >>> problem = instances.gbs_violation_7x6()
    >>> safe_violators_mc(problem, GBS(), n_targets=200, random_state=0).violators
    (0, 1)

    References
    ----------
    "The set S from samples", Proposition 6.C, see docs/theory/06-labeling.md.
    """
    M = check_positive_int(n_targets, "n_targets")
    check_size(M, 10**6 if baseline.deterministic else 10**5, "targets")
    delta = check_open_fraction(delta, "delta")
    check_choice(bound, "bound", ("hoeffding", "bernstein"))
    rng = generator(random_state)
    prior = problem.prior.astype(np.float64)
    targets = rng.choice(problem.N, size=M, p=prior / prior.sum())
    D = _differences(problem, baseline, targets, rng)
    sizes = [int(pool.size) for pool in problem.agents]
    if bound == "hoeffding":
        widths = [bounds.monte_carlo_width(n, problem.k, M, delta) for n in sizes]
    else:
        spread = D.var(axis=0, ddof=1) if M > 1 else np.zeros(problem.k)
        widths = [
            bounds.empirical_bernstein_width(n, problem.k, M, delta, float(v))
            for n, v in zip(sizes, spread)
        ]
    mean, width = D.mean(axis=0), np.array(widths)
    out = np.flatnonzero(mean + width > 0)
    return SafeViolators(tuple(int(i) for i in out), mean, width, delta)


def _differences(
    problem: PoolProblem, baseline: QueryAlgorithm, targets: np.ndarray, rng: np.random.Generator
) -> FloatArray:
    """Joint minus alone cost of each agent for each sampled target, by running the protocol."""
    unique, inverse = np.unique(targets, return_inverse=True)
    if not baseline.deterministic:
        unique, inverse = targets, np.arange(targets.size)
    rows = np.empty((unique.size, problem.k))
    for r, (target, stream) in enumerate(zip(unique, spawn(rng, unique.size))):
        rows[r] = run_costs(baseline, problem, int(target), None, stream)
        for i in range(problem.k):
            rows[r, i] -= run_costs(baseline, problem, int(target), (i,), stream)[i]
    return rows[inverse]
