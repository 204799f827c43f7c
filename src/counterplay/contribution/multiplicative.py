"""Multiplicative weights: as a covering-LP solver, and as MW-FED without the learning.

Both put more weight on parties that still miss their target.
Source: Proposition 4.H, Algorithm C.2, see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.contribution.audit import Allocation, allocation
from counterplay.contribution.game import CollabGame
from counterplay.contribution.linear import as_linear_game
from counterplay.core.arguments import checked
from counterplay.core.validation import check_open_fraction, check_real
from counterplay.errors import ConvergenceError, InvalidInputError


@checked
def multiplicative_weights_lp(
    W: Any, mu: ArrayLike | None = None, eps: float = 0.1, *, max_steps: int = 200_000
) -> Allocation:
    """Approximate the cheapest plan of a linear game by multiplicative weights.

    A combinatorial baseline for :func:`socially_optimal_linear`: each step asks the party whose
    effort helps the weighted unsatisfied parties most.

    Parameters
    ----------
    W:
        A :class:`LinearGame`, or its matrix.
    mu:
        Targets, if ``W`` is a matrix; those that are not positive are ignored.
    eps:
        Wanted accuracy.
    max_steps:
        Give up after this many steps.

    Returns
    -------
    Allocation
        Total at most ``(1 + eps)`` times the optimum; ``certificate["lower_bound"]`` is proven by
        the weights.

    Notes
    -----
    At most ``(1 + eps) g OPT max(A) + 1`` steps, each linear in the size of the matrix. ``A`` is
    the matrix with rows divided by targets and columns by costs, and with ``m`` positive targets
    ``g = max(1, ln m) / (eps / 2.5)^2`` (Proposition 4.H in docs/theory/04-contribution.md).

    References
    ----------
    Garg, Koenemann (2007), *Faster and Simpler Algorithms for Multicommodity Flow and Other
    Fractional Packing Problems*; Arora, Hazan, Kale (2012).

    Examples
    --------
    >>> from counterplay.contribution import instances
    >>> 3.0 <= multiplicative_weights_lp(instances.flower(3).linear(), eps=0.1).total <= 3.3
    True
    """
    game = as_linear_game(W, mu)
    check_open_fraction(eps, "eps")
    if game.upper is not None:
        raise InvalidInputError("multiplicative_weights_lp does not support caps")
    active = game.mu > 0
    theta = np.zeros(game.k)
    if not active.any():
        return allocation(game, theta, "optimal", {"lower_bound": 0.0, "steps": 0})
    # price per unit goes into the columns, the target into the rows: cover 1 at least mass
    A = game.dense()[active] / game.mu[active][:, None] / np.maximum(game.cost, 1e-300)
    rate = eps / 2.5
    goal = max(1.0, np.log(len(A))) / rate**2
    cover, bound, steps = np.zeros(len(A)), 0.0, 0
    step_size = 1.0 / A.max(axis=0)  # the largest constraint of a column grows by one
    while cover.min() < goal:
        if steps >= max_steps:
            raise ConvergenceError(f"no {eps:g}-approximation after {max_steps} steps; raise eps")
        steps += 1
        weight = np.where(cover < goal, np.exp(-rate * (cover - cover.min())), 0.0)
        help_per_cost = weight @ A
        j = int(np.argmax(help_per_cost))
        bound = max(bound, float(weight.sum() / help_per_cost[j]))
        theta[j] += step_size[j]
        cover += A[:, j] * step_size[j]
    theta = theta / cover.min() / np.maximum(game.cost, 1e-300)
    return allocation(game, theta, "optimal", {"lower_bound": bound, "steps": steps})


@checked
def mw_game_allocation(
    game: CollabGame, c: float = 4.0, step: float | None = None, *, max_steps: int = 1_000_000
) -> Allocation:
    """Run MW-FED inside a game: add data in proportion to weights until everybody is satisfied.

    Each round adds ``step * k`` of data in total; the weights of unsatisfied parties are then
    multiplied by ``c``. ``c = 1`` is federated averaging: everybody brings the same.

    Parameters
    ----------
    game:
        Any game with real contributions.
    c:
        Factor for unsatisfied parties, at least 1.
    step:
        Data per party and round; a thousandth of the largest stand-alone level by default.
    max_steps:
        Give up after this many rounds.

    Returns
    -------
    Allocation
        Feasible. How close to stable it is, ``stability_report`` tells.

    Examples
    --------
    >>> from counterplay.contribution import instances, stability_report
    >>> game = instances.flower(3).linear()
    >>> shares = [stability_report(game, mw_game_allocation(game, c).theta).withdrawable_share
    ...           for c in (1.0, 4.0)]
    >>> shares[1] < shares[0]
    True
    """
    check_real(c, "c", low=1.0)
    if game.integral:
        raise InvalidInputError("mw_game_allocation needs real contributions")
    size = 1e-3 * max(1e-9, float(game.standalone().max())) if step is None else step
    check_real(size, "step", low=0.0, open_low=True)
    theta, log_weight = np.zeros(game.k), np.zeros(game.k)
    for rounds in range(max_steps):
        missing = game._utilities(theta[None, :])[0] < game.mu - 1e-12
        if not missing.any():
            return allocation(game, theta, "multiplicative weights", {"rounds": rounds, "c": c})
        if rounds:
            log_weight[missing] += np.log(c)
        weight = np.exp(log_weight - log_weight.max())
        theta = theta + size * game.k * weight / weight.sum()
        theta = np.minimum(theta, game.caps)
    raise ConvergenceError(f"somebody is unsatisfied after {max_steps} rounds; raise step")
