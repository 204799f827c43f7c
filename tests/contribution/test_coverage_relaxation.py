"""The convex relaxation and its proven bound."""

from __future__ import annotations

import numpy as np
import pytest

from contribution.referees import FLOWER
from counterplay.contribution import (
    CoverageGame,
    bounds,
    instances,
)
from counterplay.contribution.coverage_relaxation import (
    _by_roles,
    _program,
    _solve,
    largest_useful,
    role_classes,
)
from counterplay.contribution.lab import (
    coverage_opt_integer,
    coverage_opt_relaxation,
)
from counterplay.contribution.local_search import descend


@pytest.mark.claim("04.16")
@pytest.mark.parametrize("s", [row[0] for row in FLOWER])
def test_relaxation_of_the_flower(s: int) -> None:
    game = instances.flower(s).coverage()
    relaxed = coverage_opt_relaxation(game)
    value = bounds.flower_coverage_relaxed_opt(s)
    assert relaxed.value == pytest.approx(value, abs=1e-4)
    assert value - 2e-4 <= relaxed.lower_bound <= value + 1e-9
    best = coverage_opt_integer(game)
    assert best.total == np.ceil(value)
    assert best.certificate["proved"]


def test_roles_share_a_variable_without_changing_the_value() -> None:
    for seed in range(4):
        game = instances.random_coverage_game(3, 6, seed)
        Q = np.vstack([game.Q, game.Q])  # every party twice
        twice = CoverageGame(Q, np.tile(game.mu, 2), game.multiplicity)
        program = _program(twice, np.zeros(6), largest_useful(twice))
        assert program is not None
        facts = np.column_stack([program.cost, program.low, program.high])
        roles = role_classes(program.log_keep, program.weights, facts, program.budget)
        assert roles.sizes[0] == 3
        together, (point, multipliers) = _by_roles(program), _solve(program)
        assert together.value == pytest.approx(program.cost @ point, abs=1e-6)
        assert together.lower_bound == pytest.approx(program.bound(point, multipliers), abs=1e-4)
        assert together.theta[:3] == pytest.approx(together.theta[3:])


def test_relaxation_agrees_with_a_general_solver() -> None:
    for seed in range(6):
        game = instances.random_coverage_game(3, 6, seed).with_extension("exponent")
        relaxed = coverage_opt_relaxation(game)
        assert relaxed.value == pytest.approx(game.total(descend(game, np.ones(3))), abs=1e-4)
        assert relaxed.lower_bound == pytest.approx(relaxed.value, abs=1e-6)
