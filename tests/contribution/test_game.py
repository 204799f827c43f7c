"""Games: best responses, swaps, validation."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from counterplay.contribution import (
    CollabGame,
    CoverageGame,
    LinearGame,
    instances,
    stability_report,
)
from counterplay.contribution.lab import (
    CyclePACGame,
    FiniteClassPACGame,
)
from counterplay.errors import AssumptionWarning, InfeasibleError, InvalidInputError

GAMES = {
    "linear": LinearGame([[1, 0.5], [0.5, 1]], 1.0),
    "coverage": CoverageGame([[0.5, 0.5, 0], [0, 0.3, 0.7]], 0.8),
    "whole coverage": CoverageGame([[0.5, 0.5, 0], [0, 0.3, 0.7]], 0.8, integral=True),
    "exponent": CoverageGame([[0.5, 0.5, 0], [0, 0.3, 0.7]], 0.8, extension="exponent"),
    "cycle": CyclePACGame(3, "4/5"),
    "pac": FiniteClassPACGame([[0, 0], [1, 1], [0, 1]], None, [[0.5, 0.5], [0.9, 0.1]], 0.8),
}


@pytest.mark.parametrize("name", GAMES)
def test_best_response_is_the_smallest_satisfying_level(name: str) -> None:
    game = GAMES[name]
    rng = np.random.default_rng(0)
    for _ in range(10):
        theta = rng.random(game.k) * game.box
        theta = np.floor(theta) if game.integral else theta
        for i in range(game.k):
            moved = theta.copy()
            moved[i] = game.best_response(i, theta)
            assert game.utility(i, moved) >= game.mu[i] - 1e-9
            step = 1.0 if game.integral else 1e-6
            if moved[i] >= step:
                moved[i] -= step
                assert game.utility(i, moved) < game.mu[i]


@pytest.mark.parametrize("name", GAMES)
def test_batches_pickles_and_repr(name: str) -> None:
    game = GAMES[name]
    grid = np.array([np.zeros(game.k), np.ones(game.k), np.full(game.k, 2.0)])
    assert game.utilities(grid) == pytest.approx(np.stack([game.utilities(t) for t in grid]))
    copy = pickle.loads(pickle.dumps(game))
    assert copy.utilities(grid) == pytest.approx(game.utilities(grid))
    assert type(game).__name__ in repr(game)


@pytest.mark.parametrize("name", GAMES)
def test_swap_utilities_by_definition(name: str) -> None:
    game = GAMES[name]
    theta = np.arange(game.k, dtype=float)
    swapped = game.swap_utilities(theta)
    for i in range(game.k):
        for j in range(game.k):
            other = theta.copy()
            other[[i, j]] = other[[j, i]]
            assert swapped[i, j] == pytest.approx(game.utility(i, other), abs=1e-12)


class Plain(CollabGame):
    """The linear game without its exact methods: everything from the base class."""

    def _utilities(self, theta: np.ndarray) -> np.ndarray:
        return theta @ np.array([[1.0, 0.5], [0.25, 2.0]]).T


def test_base_class_agrees_with_exact_game() -> None:
    plain, exact = (
        Plain(2, [1.0, 2.0]),
        LinearGame([[1, 0.5], [0.25, 2]], [1, 2], check_scale=False),
    )
    theta = np.array([0.2, 0.7])
    assert plain.best_response_map(theta) == pytest.approx(
        exact.best_response_map(theta), abs=1e-12
    )
    assert plain.standalone() == pytest.approx(exact.standalone(), abs=1e-12)
    assert plain.jacobian(theta) == pytest.approx(exact.jacobian(theta), abs=1e-6)
    assert plain.swap_utilities(theta) == pytest.approx(exact.swap_utilities(theta))
    estimated, true = plain.well_behaved_constants(), exact.well_behaved_constants()
    assert np.concatenate(estimated) == pytest.approx(np.concatenate(true), abs=1e-6)
    whole = Plain(2, [1.0, 2.5], integral=True)
    assert whole.best_response_map([1, 1]).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("theta", "message"),
    [
        ([1.0], "must have 2 entries"),
        ([-1.0, 0.0], r"theta\[0\]=-1 must not be negative"),
        ([np.nan, 0.0], "must be finite"),
        ([0.5, 0.0], "whole number"),
    ],
)
def test_bad_contributions(theta: list[float], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        GAMES["whole coverage"].utilities(theta)


def test_bad_games() -> None:
    with pytest.raises(InvalidInputError, match="square"):
        LinearGame([[1, 2, 3], [4, 5, 6]], 1.0)
    with pytest.raises(InvalidInputError, match=r"W\[1, 0\]=-0.1"):
        LinearGame([[1, 0], [-0.1, 1]], 1.0)
    with pytest.raises(InvalidInputError, match="party 1 cannot help itself"):
        LinearGame([[1, 0], [0.5, 0]], 1.0)
    with pytest.raises(InvalidInputError, match="mu must be finite"):
        LinearGame(np.eye(2), [1, np.nan])
    with pytest.raises(InvalidInputError, match="row 0 of Q must sum to 1"):
        CoverageGame([[0.5, 0.4]], 0.7)
    with pytest.raises(InfeasibleError, match=r"party 0 cannot reach mu=1 alone: sup of u_0 is 1"):
        CoverageGame([[0.5, 0.5]], 1.0)
    with pytest.raises(InfeasibleError, match=r"u_0 is 0\.7 there; raise the caps"):
        FiniteClassPACGame([[0, 0], [0, 1]], [0.3, 0.7], [[0.0, 1.0]], 0.99, upper=0)
    with pytest.warns(AssumptionWarning, match="not 1"):
        LinearGame([[1, 0], [0, 0.5]], 1.0)
    with pytest.warns(AssumptionWarning, match="entry of 3"):
        LinearGame([[1, 3], [0, 1]], 1.0)
    with pytest.raises(InvalidInputError, match="perfect square"):
        instances.flower(k=8)


def test_target_that_is_met_at_zero_is_legal() -> None:
    game = LinearGame(np.eye(2), [0.0, 1.0])
    assert game.standalone().tolist() == [0.0, 1.0]
    assert stability_report(game, [0.0, 1.0]).is_stable


def test_unreachable_target_names_the_supremum() -> None:
    class Saturating(CollabGame):
        def _utilities(self, theta: np.ndarray) -> np.ndarray:
            return 0.93 * (1 - np.exp(-theta))

    game = Saturating(4, [0.5, 0.5, 0.5, 1.0])
    with pytest.raises(
        InfeasibleError, match=r"party 3 cannot reach mu=1 alone: sup of u_3 is 0\.93"
    ):
        game.standalone()
