"""Audits of a given plan: is it feasible, stable, envy-free, and what do these cost?
Source: Setting and Proposition 4.I, see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.contribution.game import CollabGame, Tolerances
from counterplay.contribution.reports import Allocation, EnvyReport, StabilityReport
from counterplay.core.validation import FloatArray, check_real

DEFAULT = Tolerances()


def is_feasible(game: CollabGame, theta: ArrayLike, tol: Tolerances = DEFAULT) -> bool:
    """Return whether every party reaches its target.

    Examples
    --------
    >>> from counterplay.contribution import LinearGame
    >>> is_feasible(LinearGame([[1, 0.5], [0.5, 1]], mu=1.0), [1.0, 0.5])
    True
    """
    return bool((game.utilities(theta) >= game.mu - tol.u).all())


def stability_report(
    game: CollabGame, theta: ArrayLike, tol: Tolerances = DEFAULT
) -> StabilityReport:
    """Say who could contribute less and by how much, and whether the plan is stable.

    A plan is stable if it is feasible and equals the best-response map: every smaller contribution
    counts, not only slightly smaller ones.

    Examples
    --------
    >>> from counterplay.contribution import LinearGame
    >>> game = LinearGame([[1, 0.5], [0.5, 1]], mu=1.0)
    >>> report = stability_report(game, [1.0, 1.0])
    >>> report.is_stable, report.gap.tolist()
    (False, [0.5, 0.5])
    """
    vector = game._vector(theta)
    response = game.best_response_map(vector)
    gap = vector - response
    feasible = is_feasible(game, vector, tol)
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.where(vector > 0, response / vector, 1.0)
    return StabilityReport(
        theta=vector,
        best_response=response,
        gap=gap,
        reducible_fraction=kept,
        is_feasible=feasible,
        is_stable=feasible and bool((gap <= tol.theta).all()),
        worst_party=int(np.argmax(gap)),
    )


def envy_report(game: CollabGame, theta: ArrayLike, tol: Tolerances = DEFAULT) -> EnvyReport:
    """Say who would rather carry the load of a strictly lighter party, with margins.

    Examples
    --------
    >>> from counterplay.contribution import LinearGame
    >>> envy_report(LinearGame([[1, 1], [1, 1]], mu=1.0), [0.7, 0.3]).pairs
    [(0, 1)]
    """
    vector = game._vector(theta)
    margin = game.swap_utilities(vector) - game.mu[:, None]
    lighter = vector[None, :] < vector[:, None] - tol.theta
    if game.upper is not None:  # the swap must stay inside the caps of both
        lighter &= (vector[None, :] <= game.upper[:, None] + tol.theta) & (
            vector[:, None] <= game.upper[None, :] + tol.theta
        )
    lighter &= ~np.isnan(margin)
    envy = lighter & (margin >= -tol.u)
    near = lighter & (abs(margin) <= tol.u)
    feasible = is_feasible(game, vector, tol)
    return EnvyReport(
        margin=margin,
        envy=envy,
        borderline=tuple((int(i), int(j)) for i, j in np.argwhere(near)),
        is_feasible=feasible,
        is_envy_free=feasible and not bool(envy.any()),
    )


def price_of_stability(stable_total: float, optimal_total: float) -> float:
    """Return what stability costs: cheapest stable total over cheapest total.

    Examples
    --------
    >>> round(price_of_stability(5.4, 3.0), 6)
    1.8
    """
    return _ratio(stable_total, optimal_total)


def price_of_fairness(envy_free_total: float, optimal_total: float) -> float:
    """Return what envy-freeness costs: cheapest envy-free total over cheapest total.

    Examples
    --------
    >>> round(price_of_fairness(5.0, 3.0), 6)
    1.666667
    """
    return _ratio(envy_free_total, optimal_total)


def price_of_anarchy(worst_stable_total: float, optimal_total: float) -> float:
    """Return how bad stability can get: most expensive stable total over cheapest total."""
    return _ratio(worst_stable_total, optimal_total)


def allocation(
    game: CollabGame, theta: ArrayLike, concept: str, certificate: Mapping[str, Any] | None = None
) -> Allocation:
    """Wrap a contribution vector with everything a reader asks about it."""
    vector = game._vector(theta).copy()
    vector.setflags(write=False)
    utilities = game.utilities(vector)
    gap = vector - game.best_response_map(vector)
    return Allocation(
        theta=vector,
        total=game.total(vector),
        utilities=utilities,
        slack=utilities - game.mu,
        concept=concept,
        best_response_gap=float(max(gap.max(), 0.0)),
        certificate=dict(certificate or {}),
    )


def natural_residual(game: CollabGame, theta: ArrayLike) -> float:
    """Return ``max_i |min(theta_i, u_i - mu_i)|``: zero exactly at stable plans of smooth games."""
    vector = game._vector(theta)
    slack = game.utilities(vector) - game.mu
    return float(abs(np.minimum(vector, slack)).max())


def potential(W: FloatArray, mu: FloatArray, theta: FloatArray) -> float:
    """Return ``1/2 theta' W theta - mu' theta``, which best responses decrease for symmetric W."""
    return float(0.5 * theta @ (W @ theta) - mu @ theta)


def _ratio(numerator: float, denominator: float) -> float:
    top = check_real(numerator, "total", low=0.0)
    bottom = check_real(denominator, "optimal_total", low=0.0)
    if bottom == 0.0:  # nothing to pay for in either plan
        return 1.0 if top == 0.0 else np.inf
    return top / bottom
