"""Minimal heterogeneity: at every non-optimal model the non-zero gradients are independent.

This is what lets a server improve some agents without touching others. The exact test is for
losses of linear models; for others there is a margin over given points and a search for a witness.
Source: Definition 5.3, docs/theory/05-defection.md, "Setting".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, check_float_array, check_positive_int
from counterplay.defection.problem import FederatedProblem
from counterplay.errors import InvalidInputError


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class LinearHeterogeneity:
    """Outcome of the exact test; true if minimal heterogeneity holds.

    Attributes
    ----------
    holds : bool
        Whether the row spaces of the agents form a direct sum.
    rank : int
        Rank of all rows together.
    rank_sum : int
        Sum of the agents' ranks; equal to ``rank`` exactly when it holds.
    reason : str
        Why it fails.
    witness : array of shape (d,), optional
        A displacement ``w - w*`` at which non-zero gradients are dependent.
    """

    holds: bool
    rank: int
    rank_sum: int
    reason: str = ""
    witness: FloatArray | None = None

    def __bool__(self) -> bool:
        return self.holds


@checked
def minimal_heterogeneity_linear(A_list: Sequence[ArrayLike]) -> LinearHeterogeneity:
    """Test exactly whether losses ``phi_m(A_m w)`` are minimally heterogeneous.

    Use it before trusting ADA-GD or SafeStep on linear models.

    Parameters
    ----------
    A_list : sequence of arrays of shape (n_m, d)
        Rows of every agent.

    Guarantees
    ----------
    Holds exactly when ``rank([A_1; ...; A_M]) = sum_m rank(A_m)``. If it fails, ``witness`` is a
    displacement from the optimum at which the gradients of squared losses are dependent; scaled
    down it is one for Huber losses, too.

    Examples
    --------
    >>> bool(minimal_heterogeneity_linear([[[1.0, 0.0]], [[0.0, 1.0]]]))
    True
    >>> shared = minimal_heterogeneity_linear([[[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]])
    >>> shared.rank, shared.rank_sum
    (2, 3)

    References
    ----------
    Definition 5.3; docs/theory/05-defection.md, "Setting".
    """
    parts = [check_float_array(a, f"A[{m}]", ndim=2) for m, a in enumerate(A_list)]
    if not parts or len({a.shape[1] for a in parts}) > 1:
        raise InvalidInputError("A_list needs rows of one common length for every agent")
    ranks = [int(np.linalg.matrix_rank(a)) for a in parts]
    rank = int(np.linalg.matrix_rank(np.vstack(parts)))
    if rank == sum(ranks):
        return LinearHeterogeneity(True, rank, rank)
    reason = f"the agents' row spaces overlap in {sum(ranks) - rank} directions"
    obstacle = bounded_agent(parts)
    if obstacle is not None:
        reason = f"agent {obstacle} alone determines the model, so no other can be independent"
    return LinearHeterogeneity(False, rank, sum(ranks), reason, _witness(parts))


@checked
def bounded_agent(A_list: Sequence[ArrayLike]) -> int | None:
    """Return an agent whose sublevel sets are bounded although others care too, or None.

    Such an agent excludes minimal heterogeneity at once: where another loss is largest on its
    sublevel set the two gradients are parallel. For linear models the agent's rows span the space.

    Examples
    --------
    >>> bounded_agent([np.eye(2), [[1.0, 1.0]]])
    0

    References
    ----------
    Proposition 5.H.
    """
    parts = [check_float_array(a, f"A[{m}]", ndim=2) for m, a in enumerate(A_list)]
    interested = [m for m, a in enumerate(parts) if np.abs(a).max(initial=0.0) > 0.0]
    for m in interested:
        if len(interested) > 1 and np.linalg.matrix_rank(parts[m]) == parts[m].shape[1]:
            return m
    return None


def _witness(parts: list[FloatArray]) -> FloatArray:
    """A vector ``v`` with ``P_m v`` parallel to the sum of the other ``P_l v``, ``P = A^T A``."""
    quadratic = [a.T @ a for a in parts]
    total = np.sum(quadratic, axis=0)
    values, basis = np.linalg.eigh(total)
    keep = values > 1e-12 * values[-1]
    whiten = basis[:, keep] / np.sqrt(values[keep])
    best, best_distance = np.zeros(len(total)), np.inf
    for P in quadratic:
        shares, vectors = np.linalg.eigh(whiten.T @ P @ whiten)
        j = int(np.abs(shares - 0.5).argmin())
        if abs(shares[j] - 0.5) < best_distance:
            best, best_distance = whiten @ vectors[:, j], abs(shares[j] - 0.5)
    return np.asarray(best / np.linalg.norm(best))


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class HeterogeneityMargin:
    """The smallest singular value of the row-normalised gradients over some points.

    Attributes
    ----------
    margin : float
        The value; 0 means dependent gradients, 1 orthogonal ones.
    witness : array of shape (d,)
        The point where it is attained.
    combination : array of shape (M,)
        Unit coefficients of the normalised gradients that nearly cancel there.
    """

    margin: float
    witness: FloatArray
    combination: FloatArray


@checked
def heterogeneity_margin(problem: FederatedProblem, points: ArrayLike) -> HeterogeneityMargin:
    """Return how far the gradients are from being dependent, over the given points.

    Use it along a trajectory: small values announce slow progress or a stall.

    Parameters
    ----------
    problem : FederatedProblem
        Losses and gradients.
    points : array of shape (N, d)
        Where to look; points at which all gradients vanish are skipped.

    Examples
    --------
    >>> from counterplay.defection import instances
    >>> c = instances.identical_agents()
    >>> heterogeneity_margin(c.problem, [[3.0, 1.0]]).margin
    0.0

    References
    ----------
    Definition 5.3; docs/theory/05-defection.md, "Setting".
    """
    array = np.atleast_2d(check_float_array(points, "points"))
    if array.shape[1:] != (problem.dimension,):
        raise InvalidInputError(f"points must have shape (N, {problem.dimension})")
    found = [(*_margin(problem.gradients(w)), w) for w in array]
    found = [item for item in found if np.isfinite(item[0])]
    if not found:
        raise InvalidInputError("all gradients vanish at all points; give other points")
    value, combination, witness = min(found, key=lambda item: item[0])
    return HeterogeneityMargin(value, witness, combination)


@checked
def search_dependence(
    problem: FederatedProblem,
    points: ArrayLike,
    iterations: int = 500,
    random_state: RandomState = None,
) -> HeterogeneityMargin:
    """Search near the given points for a model where gradients are dependent.

    A random local search that adapts its step; a margin near zero refutes minimal heterogeneity,
    a large one proves nothing.

    Parameters
    ----------
    problem : FederatedProblem
        Losses and gradients.
    points : array of shape (N, d)
        Starts.
    iterations : int
        Steps per start.
    random_state : int, Generator or None
        Seed.

    Examples
    --------
    >>> from counterplay.defection import instances
    >>> c = instances.non_heterogeneous_example()
    >>> bool(search_dependence(c.problem, [[-2.0, 1.0]], random_state=0).margin < 1e-6)
    True

    References
    ----------
    Definition 5.3; docs/theory/05-defection.md, "Proposition 5.H: tests of minimal heterogeneity".
    """
    steps = check_positive_int(iterations, "iterations")
    rng = generator(random_state)
    best = heterogeneity_margin(problem, points)
    for start in np.atleast_2d(check_float_array(points, "points")):
        here, (value, combination) = start, _margin(problem.gradients(start))
        size = 1.0
        for _ in range(steps):
            step = here + size * rng.normal(size=here.shape)
            new, coefficients = _margin(problem.gradients(step))
            if new < value:
                here, value, combination, size = step, new, coefficients, size * 1.8
            else:
                size = max(size * 0.88, 1e-12)
        if value < best.margin:
            best = HeterogeneityMargin(value, here, combination)
    return best


def _margin(G: FloatArray) -> tuple[float, FloatArray]:
    norms = np.linalg.norm(G, axis=1)
    rows = np.flatnonzero(norms > 0.0)
    coefficients = np.zeros(len(G))
    if not len(rows):
        return np.inf, coefficients
    if len(rows) > G.shape[1]:
        u = np.linalg.svd((G[rows] / norms[rows, None]).T)[2][-1]
        value = 0.0
    else:
        left, values, _ = np.linalg.svd(G[rows] / norms[rows, None], full_matrices=False)
        u, value = left[:, -1], float(values[-1])
    coefficients[rows] = u
    return value, coefficients
