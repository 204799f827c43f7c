"""One call for a consortium: who brings how much, what stability and fairness cost, who objects.

Picks the right solver for the game, checks every plan with the audits, and says in sentences what a
coordinator needs to know.
Source: "Planning for a consortium", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from counterplay.contribution.game import CollabGame
from counterplay.contribution.plan_report import GameReport
from counterplay.contribution.plan_solvers import Plans, solve_plans
from counterplay.core.seeds import RandomState
from counterplay.core.validation import check_real
from counterplay.errors import InvalidInputError


def plan_contributions(
    game: CollabGame,
    names: Sequence[str] | None = None,
    *,
    time_limit: float = 10.0,
    random_state: RandomState = 0,
) -> GameReport:
    """Plan who contributes how much: cheapest, stable, envy-free and equal plans side by side.

    Parameters
    ----------
    game:
        Any data-sharing game: :class:`LinearGame` from an overlap matrix,
        :class:`CoverageGame` from histograms, :class:`EmpiricalGame` from data and a model.
    names:
        Names of the parties, for tables, text and plots.
    time_limit:
        Seconds for each mixed-integer program; after that the best plan found is used.
    random_state:
        Seed of restarts, where a solver needs them.

    Returns
    -------
    GameReport
        ``summary()``, ``to_frame()``, ``plot()``, ``what_if(...)``; fields ``optimal``, ``stable``,
        ``envy_free``, ``equal``, and the prices of stability, fairness and anarchy.

    Notes
    -----
    Linear games: the cheapest plan is exact; the stable plan is exact for symmetric positive
    semidefinite overlaps and up to 40 parties otherwise; the envy-free plan is exact up to 12
    parties. Coverage games: lower bounds are proven, plans are best found unless marked proved.

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), *One for One, or All for All*, ICML.

    Examples
    --------
    >>> from counterplay.contribution import LinearGame
    >>> game = LinearGame([[1, 0.8, 0.8], [0.8, 1, 0.3], [0.8, 0.3, 1]], mu=1.0)
    >>> plan = plan_contributions(game, names=["hub", "east", "west"])
    >>> plan.to_frame().loc["hub", ["optimal", "stable"]].round(3).tolist()
    [1.25, 0.0]
    >>> round(plan.price_of_stability, 3)
    1.231
    """
    check_real(time_limit, "time_limit", low=0.0, open_low=True)
    labels = _check_names(game, names)
    plans: Plans = solve_plans(game, time_limit, random_state)
    return GameReport(
        game=game,
        names=labels,
        optimal=plans.optimal,
        stable=plans.stable,
        envy_free=plans.envy_free,
        equal=plans.equal,
        bounds=plans.bounds,
        flags=plans.flags,
    )


def analyse(game: CollabGame, names: Sequence[str] | None = None) -> GameReport:
    """Return the same report as :func:`plan_contributions`, with default settings."""
    return plan_contributions(game, names)


def _check_names(game: CollabGame, names: Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        return tuple(str(i) for i in range(game.k))
    labels = tuple(str(name) for name in names)
    if len(labels) != game.k or len(set(labels)) != game.k:
        raise InvalidInputError(f"names must be {game.k} different names, got {list(labels)}")
    return labels
