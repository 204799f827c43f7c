"""Check the assumptions of the theory on random pairs of points and show the worst violation.

Source: Assumptions 5.1, 5.2, 5.3, Definition 5.3; docs/theory/05-defection.md, "Setting".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    check_float_array,
    check_positive_int,
    check_real,
)
from counterplay.defection.heterogeneity import heterogeneity_margin
from counterplay.defection.problem import FederatedProblem
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class Assumption:
    """One assumption: whether it held everywhere, the worst value and where."""

    name: str
    holds: bool | None
    """None when it could not be checked."""
    worst: float
    """Largest violation (positive: violated), or the margin for heterogeneity."""
    agent: int | None
    witness: FloatArray | None
    note: str


@checked
@dataclass(frozen=True, eq=False)
class AssumptionReport(Report):
    """The assumptions of the theory, checked on samples.

    Examples
    --------
    See :func:`check_assumptions`.

    >>> AssumptionReport(()).holds
    True
    """

    assumptions: tuple[Assumption, ...]

    @property
    def holds(self) -> bool:
        """Whether no checked assumption was violated."""
        return all(a.holds is not False for a in self.assumptions)

    def __getitem__(self, name: str) -> Assumption:
        for assumption in self.assumptions:
            if assumption.name == name:
                return assumption
        raise InvalidInputError(f"no assumption is named {name!r}")

    def summary(self) -> str:
        """Return one line per assumption."""
        word = {True: "holds", False: "VIOLATED", None: "not checked"}
        lines = [f"{a.name}: {word[a.holds]} ({a.note})" for a in self.assumptions]
        return "\n".join(lines) or "nothing was checked"

    def to_frame(self) -> pd.DataFrame:
        """Return one row per assumption."""
        import pandas as pd

        return pd.DataFrame(
            [
                {"assumption": a.name, "holds": a.holds, "worst": a.worst, "agent": a.agent}
                for a in self.assumptions
            ]
        )


@checked
def check_assumptions(
    problem: FederatedProblem,
    points: ArrayLike,
    random_state: RandomState = None,
    *,
    pairs: int = 200,
    tol: float = 1e-9,
) -> AssumptionReport:
    """Check convexity, smoothness, Lipschitz continuity, common optimum and heterogeneity.

    Use it before trusting a guarantee on losses of your own.

    Parameters
    ----------
    problem : FederatedProblem
        Losses, gradients, and the constants ``H``, ``L``, ``w_star`` to check (where given).
    points : array of shape (N, d)
        Where to look; pairs are drawn from them.
    random_state : int, Generator or None
        Seed of the pairs.
    pairs : int
        Number of pairs.
    tol : float
        Violation that counts as rounding.

    Guarantees
    ----------
    A violation comes with the agent and the point that show it. Nothing found is no proof.

    Examples
    --------
    >>> from counterplay.defection import instances
    >>> c = instances.random_overparameterised(M=3, n=2, d=6, random_state=0)
    >>> points = np.random.default_rng(0).normal(size=(20, 6))
    >>> check_assumptions(c.problem, points, 0).holds
    True

    References
    ----------
    "Setting", see docs/theory/05-defection.md.
    """
    array = np.atleast_2d(check_float_array(points, "points"))
    if array.shape[1:] != (problem.dimension,) or len(array) < 2:
        raise InvalidInputError(f"points must be at least two, shape (N, {problem.dimension})")
    rng = generator(random_state)
    first = rng.integers(len(array), size=check_positive_int(pairs, "pairs"))
    second = (first + rng.integers(1, len(array), size=pairs)) % len(array)
    values = [(problem.losses(w), problem.gradients(w)) for w in array]
    F, G = np.array([v[0] for v in values]), np.array([v[1] for v in values])
    move = array[second] - array[first]
    gap = F[second] - F[first] - np.einsum("pmd,pd->pm", G[first], move)
    half = 0.5 * (move * move).sum(axis=1)[:, None]
    scale = 1.0 + np.abs(F).max()
    found = [_worst("convex", -gap, array[first], tol * scale, "F(u) >= F(v) + <g, u-v>")]
    if problem.H is None:
        found.append(_unchecked("smooth", "H is not given"))
    else:
        excess = gap - problem.H * half
        found.append(_worst("smooth", excess, array[first], tol * scale, f"H = {problem.H:g}"))
    norms = np.linalg.norm(G, axis=2)
    if problem.L is None:
        found.append(_unchecked("Lipschitz", "L is not given"))
    else:
        found.append(_worst("Lipschitz", norms - problem.L, array, tol, f"L = {problem.L:g}"))
    found.append(_common_optimum(problem, tol))
    found.append(_heterogeneous(problem, array))
    return AssumptionReport(tuple(found))


def _worst(name: str, excess: FloatArray, at: FloatArray, tol: float, note: str) -> Assumption:
    i, m = np.unravel_index(int(excess.argmax()), excess.shape)
    worst = float(excess[i, m])
    return Assumption(name, worst <= tol, worst, int(m), at[i], note)


def _unchecked(name: str, note: str) -> Assumption:
    return Assumption(name, None, float("nan"), None, None, note)


def _common_optimum(problem: FederatedProblem, tol: float) -> Assumption:
    name = "simultaneously optimal"
    if problem.w_star is None:
        return _unchecked(name, "w_star is not given")
    loss = problem.losses(problem.w_star)
    m = int(loss.argmax())
    worst = float(loss[m])
    return Assumption(name, worst <= tol, worst, m, problem.w_star, "F_m(w_star) = min F_m")


def _heterogeneous(problem: FederatedProblem, points: FloatArray) -> Assumption:
    name = "minimally heterogeneous"
    if problem.n_agents > problem.dimension:
        note = f"{problem.n_agents} agents in {problem.dimension} dimensions"
        return Assumption(name, False, 0.0, None, None, note)
    result = heterogeneity_margin(problem, points)
    agent = int(np.abs(result.combination).argmax())
    note = f"smallest margin {result.margin:.3g}"
    return Assumption(name, result.margin > 1e-8, result.margin, agent, result.witness, note)


@checked
def estimate_smoothness(
    problem: FederatedProblem,
    points: ArrayLike,
    iterations: int = 20,
    random_state: RandomState = None,
    *,
    width: float = 1e-4,
) -> float:
    """Return the largest curvature of any agent's loss found near the given points.

    Use it to choose ``eta = 1 / H`` for ``SafeStep`` when ``H`` is unknown; take the points from a
    short trial run.

    Parameters
    ----------
    problem : FederatedProblem
        Losses and gradients.
    points : array of shape (N, d)
        Where to look.
    iterations : int
        Power iterations per point.
    random_state : int, Generator or None
        Seed of the first directions.
    width : float
        Distance of the gradient differences that replace Hessian-vector products.

    Guarantees
    ----------
    A lower bound of the true constant, exact in the limit for quadratic losses.

    Examples
    --------
    >>> from counterplay.defection import LinearModelProblem
    >>> rows = [[[1.0, 0.0]], [[0.0, 2.0]]]
    >>> problem = LinearModelProblem(rows, w_star=[0.0, 0.0], loss="squared")
    >>> round(estimate_smoothness(problem, [[1.0, 1.0]], random_state=0), 6)
    4.0

    References
    ----------
    "Setting", see docs/theory/05-defection.md.
    """
    array = np.atleast_2d(check_float_array(points, "points"))
    if array.shape[1:] != (problem.dimension,):
        raise InvalidInputError(f"points must have shape (N, {problem.dimension})")
    steps = check_positive_int(iterations, "iterations")
    h = check_real(width, "width", low=0.0, open_low=True)
    rng, ids, largest = generator(random_state), np.arange(problem.n_agents), 0.0
    for w in array:
        v = rng.normal(size=(problem.n_agents, problem.dimension))
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        for _ in range(steps):  # every agent follows its own direction, all at once
            ahead, behind = (problem.local_gradients(w + s * h * v, ids) for s in (1.0, -1.0))
            product = (ahead - behind) / (2.0 * h)
            curvature = np.linalg.norm(product, axis=1)
            v = np.where(curvature[:, None] > 0.0, product, v)
            v /= np.linalg.norm(v, axis=1, keepdims=True)
        largest = max(largest, float(curvature.max()))
    return largest
