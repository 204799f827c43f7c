"""Does everybody gain? Expected queries of each agent alone and in a protocol, side by side.

Individually rational (IR): nobody expects more queries than alone; strictly so (SIR): everybody
expects fewer. Read as a game with actions "join" and "stay out", IR means that all joining is a
Nash equilibrium, SIR that it is a strict one.
Source: docs/theory/06-labeling.md, "Setting", "Incentives".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new
from counterplay.core.report import Report
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    check_float_array,
    check_probabilities,
)
from counterplay.errors import InvalidInputError
from counterplay.labeling.algorithm import QueryAlgorithm, expected
from counterplay.labeling.model import PoolProblem

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_TOL = 1e-12  # relative tolerance of comparisons in floating point


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class IncentiveReport(Report):
    """Expected queries alone and in a protocol, and what follows from comparing them.

    Attributes
    ----------
    baseline_cost:
        Expected queries of each agent alone with its baseline.
    protocol_cost:
        Expected queries of each agent in the protocol.
    expost_worse:
        Probability of a target for which the agent makes more queries than alone. IR holds in
        expectation only, so this may be positive.
    names:
        Names of the agents.

    Examples
    --------
    >>> from counterplay.labeling import GBS, incentive_report, instances
    >>> report = incentive_report(GBS(), GBS(), instances.gbs_violation_7x6())
    >>> report.is_ir, report.violators
    (False, (0,))
    """

    baseline_cost: NDArray[Any]
    protocol_cost: NDArray[Any]
    expost_worse: NDArray[Any]
    names: tuple[str, ...]

    @property
    def slack(self) -> NDArray[Any]:
        """What each agent saves: baseline minus protocol."""
        slack: NDArray[Any] = self.baseline_cost - self.protocol_cost
        return slack

    @property
    def total(self) -> Any:
        """Expected queries of all agents together in the protocol."""
        return self.protocol_cost.sum()

    @property
    def violators(self) -> tuple[int, ...]:
        """Agents who would rather stay alone."""
        worse = greater(self.protocol_cost, self.baseline_cost)
        return tuple(int(i) for i in np.flatnonzero(worse))

    @property
    def is_ir(self) -> bool:
        """Nobody expects more queries than alone."""
        return not self.violators

    @property
    def is_sir(self) -> bool:
        """Everybody expects strictly fewer queries than alone."""
        return bool(greater(self.baseline_cost, self.protocol_cost).all())

    def summary(self) -> str:
        """The comparison as text."""
        verdict = (
            "everybody saves work (strictly individually rational)"
            if self.is_sir
            else "nobody does more work than alone (individually rational)"
            if self.is_ir
            else "NOT individually rational: "
            + ", ".join(self.names[i] for i in self.violators)
            + " would do better alone"
        )
        width = max(len(name) for name in self.names)
        lines = [
            f"  {name:<{width}}  alone {float(a):8.3f}   together {float(b):8.3f}   "
            f"saves {float(a - b):8.3f}"
            for name, a, b in zip(self.names, self.baseline_cost, self.protocol_cost)
        ]
        alone, together = float(self.baseline_cost.sum()), float(self.total)
        lines.append(
            f"  {'total':<{width}}  alone {alone:8.3f}   together {together:8.3f}   "
            f"saves {alone - together:8.3f}"
        )
        return "\n".join(["expected label queries:", *lines, verdict])

    def to_frame(self) -> pd.DataFrame:
        """One row per agent: alone, together, saving, chance of being worse for the target."""
        import pandas as pd

        return pd.DataFrame(
            {
                "alone": self.baseline_cost.astype(np.float64),
                "together": self.protocol_cost.astype(np.float64),
                "saving": self.slack.astype(np.float64),
                "worse_than_alone": self.expost_worse.astype(np.float64),
            },
            index=pd.Index(self.names, name="agent"),
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Bars per agent: alone against together."""
        ax = axes_or_new(ax)
        x = np.arange(len(self.names))
        ax.bar(x - 0.2, self.baseline_cost.astype(float), 0.4, label="alone", color=PALETTE[1])
        ax.bar(x + 0.2, self.protocol_cost.astype(float), 0.4, label="together", color=PALETTE[0])
        ax.set_xticks(x, self.names)
        ax.set_ylabel("expected label queries")
        ax.legend()
        return ax


@checked
def incentive_report(
    protocol: QueryAlgorithm | NDArray[Any],
    baseline: QueryAlgorithm | list[QueryAlgorithm],
    problem: PoolProblem,
    *,
    true_prior: NDArray[Any] | None = None,
) -> IncentiveReport:
    """Compare a protocol (or its cost matrix) with every agent's baseline alone.

    Use it to see who gains from a protocol and who would rather work alone.

    Parameters
    ----------
    protocol:
        The joint protocol, or its cost matrix: queries of each agent for each labeling.
    baseline:
        What each agent would run alone: one for all, or one per agent.
    problem:
        The pool, its owners and the possible labelings.
    true_prior:
        Evaluate a plan made under the problem's prior with this one instead.

    Examples
    --------
    >>> from counterplay.labeling import B2IR, GBS, instances
    >>> problem = instances.gbs_violation_7x6()
    >>> incentive_report(B2IR(GBS()), GBS(), problem).is_ir
    True

    References
    ----------
    "Setting", see docs/theory/06-labeling.md.
    """
    joint = _joint_costs(protocol, problem)
    alone = alone_costs(baseline, problem)
    prior = problem.prior if true_prior is None else _prior(true_prior, problem)
    worse = greater(joint, alone)
    if true_prior is None:
        together, by_itself = expected(problem, joint), expected(problem, alone)
    else:
        together, by_itself = prior @ joint, prior @ alone
    chance = np.array([prior[worse[:, i]].sum() for i in range(problem.k)])
    names = tuple(problem.name(i) for i in range(problem.k))
    return IncentiveReport(by_itself, together, chance, names)


def _joint_costs(protocol: Any, problem: PoolProblem) -> NDArray[Any]:
    if isinstance(protocol, QueryAlgorithm):
        return protocol.cost_matrix(problem)
    exact = isinstance(protocol, np.ndarray) and protocol.dtype == object
    costs = check_float_array(protocol, "protocol", ndim=2)
    if costs.shape != (problem.N, problem.k):
        raise InvalidInputError(
            f"protocol must be an algorithm or a matrix of costs, {problem.N} labelings x "
            f"{problem.k} agents, got shape {costs.shape}"
        )
    return protocol if exact else costs


def _prior(true_prior: Any, problem: PoolProblem) -> NDArray[Any]:
    exact = isinstance(true_prior, np.ndarray) and true_prior.dtype == object
    prior = check_probabilities(true_prior, "true_prior")
    if prior.shape != (problem.N,):
        raise InvalidInputError(
            f"true_prior must have {problem.N} probabilities, got shape {prior.shape}"
        )
    return np.asarray(true_prior) if exact else prior


def alone_costs(
    baseline: QueryAlgorithm | list[QueryAlgorithm], problem: PoolProblem
) -> NDArray[Any]:
    """Cost of every target to every agent when it labels its own pool alone, ``(N, k)``."""
    own = [baseline] * problem.k if isinstance(baseline, QueryAlgorithm) else baseline
    if len(own) != problem.k:
        raise InvalidInputError(
            f"baseline must be one algorithm, or one for each of {problem.k} agents, got {len(own)}"
        )
    columns = [own[i].cost_matrix(problem, (i,))[:, i] for i in range(problem.k)]
    return np.stack(columns, axis=1)


def greater(a: NDArray[Any], b: NDArray[Any]) -> BoolArray:
    """Elementwise ``a > b``: exact for exact numbers, beyond rounding for floats."""
    if a.dtype == object or b.dtype == object:
        return np.asarray(a > b, dtype=np.bool_)
    x: FloatArray = np.asarray(a, dtype=np.float64)
    y: FloatArray = np.asarray(b, dtype=np.float64)
    beyond: BoolArray = x > y + _TOL * np.maximum(1.0, np.maximum(x, y))
    return beyond
