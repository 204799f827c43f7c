"""Who must label alone first, from sampled targets: safe when exact trees cannot be built.

Putting an agent into the set by mistake keeps everybody's guarantee and only raises the total;
leaving one out by mistake breaks it. So the test is one-sided.
Source: Proposition 6.C, see docs/theory/06-labeling.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator, spawn
from counterplay.core.validation import (
    FloatArray,
    check_choice,
    check_open_fraction,
    check_positive_int,
)
from counterplay.labeling.algorithm import QueryAlgorithm, run_costs
from counterplay.labeling.bounds import monte_carlo_width
from counterplay.labeling.model import PoolProblem

if TYPE_CHECKING:
    import pandas as pd


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

    Examples
    --------
    >>> from counterplay.labeling import GBS, instances
    >>> problem = instances.gbs_violation_7x6()
    >>> safe_violators_mc(problem, GBS(), n_targets=200, random_state=0).violators
    (0, 1)
    """
    M = check_positive_int(n_targets, "n_targets")
    delta = check_open_fraction(delta, "delta")
    check_choice(bound, "bound", ("hoeffding", "bernstein"))
    rng = generator(random_state)
    prior = problem.prior.astype(np.float64)
    targets = rng.choice(problem.N, size=M, p=prior / prior.sum())
    D = _differences(problem, baseline, targets, rng)
    sizes = np.array([pool.size for pool in problem.agents], dtype=np.float64)
    if bound == "hoeffding":
        width = np.array([monte_carlo_width(int(n), problem.k, M, delta) for n in sizes])
    else:  # Maurer and Pontil (2009), for values in an interval of length 2 |X_i|
        log_term = math.log(2 * problem.k / delta)
        spread = D.var(axis=0, ddof=1) if M > 1 else np.full(problem.k, np.inf)
        width = np.sqrt(2 * spread * log_term / M) + 14 * sizes * log_term / (3 * max(1, M - 1))
    mean = D.mean(axis=0)
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
