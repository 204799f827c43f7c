"""Input checks and the common behaviour of all games."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from counterplay.contribution import (
    CollabGame,
    CoverageGame,
    LinearGame,
    TabularGame,
    bounds,
    envy_report,
    equal_allocation,
    instances,
    stability_report,
)
from counterplay.contribution.lab import (
    CyclePACGame,
    FiniteClassPACGame,
    Tolerances,
    is_feasible,
    price_ratio,
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


class Plain(CollabGame):
    """The linear game without its exact methods: everything from the base class."""

    def _utilities(self, theta: np.ndarray) -> np.ndarray:
        return theta @ np.array([[1.0, 0.5], [0.25, 2.0]]).T


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


def test_reports_by_hand() -> None:
    game = LinearGame([[1, 0.5], [0.5, 1]], 1.0)
    assert is_feasible(game, [1, 1])
    assert not is_feasible(game, [1, 0])
    report = stability_report(game, [1.0, 0.75])
    assert report.gap == pytest.approx([0.375, 0.25])
    assert report.worst_party == 0
    assert not report.is_stable
    assert report.withdrawable_share == pytest.approx(0.625 / 1.75)
    assert report.reducible_fraction == pytest.approx([0.625, 2 / 3])
    assert "party 0" in report.summary()
    assert report.to_frame().shape == (2, 4)
    assert "misses" in stability_report(game, [0.1, 0.1]).summary()
    stable = stability_report(game, [2 / 3, 2 / 3])
    assert stable.is_stable
    assert "nobody" in stable.summary()
    envy = envy_report(instances.identical_linear_pair(), [0.7, 0.3])
    assert envy.margin[0, 1] == pytest.approx(0)
    assert envy.borderline == ((0, 1),)
    assert list(envy.graph(["a", "b"]).edges) == [("a", "b")]
    assert envy.to_frame(["a", "b"]).iloc[0].tolist()[:2] == ["a", "b"]
    assert "party 0" in envy.summary()
    assert envy.plot() is not None
    strict = Tolerances(u=1e-9, theta=0.5)  # a difference of 0.4 counts as equal
    assert envy_report(instances.identical_linear_pair(), [0.7, 0.3], strict).is_envy_free


def test_prices() -> None:
    assert price_ratio(0.0, 0.0) == 1.0
    assert price_ratio(2.0, 1.0) == 2.0
    with pytest.raises(InvalidInputError):
        price_ratio(-1.0, 1.0)


def test_equal_allocation_variants() -> None:
    game = instances.flower(3).linear()
    best = equal_allocation(game)
    raised = equal_allocation(game, [3.0, *([0.0] * 9)])
    assert best.total == pytest.approx(bounds.flower_linear_envy_free(3))
    assert raised.theta.tolist() == [3.0] * 10
    for plan in (best, raised):
        assert envy_report(game, plan.theta).is_envy_free
    with pytest.raises(InvalidInputError, match="feasible"):
        equal_allocation(game, np.zeros(10))
    whole = CoverageGame([[0.5, 0.5], [0.1, 0.9]], 0.9, integral=True)
    level = equal_allocation(whole).theta[0]
    assert is_feasible(whole, [level] * 2)
    assert not is_feasible(whole, [level - 1] * 2)


def test_tabular_game_by_hand() -> None:
    game = TabularGame.from_game(instances.simple_cycle())
    assert game.best_response(0, [1, 0, 0]) == 1.0
    assert game.best_response(1, [1, 0, 0]) == 0.0
    with pytest.raises(InvalidInputError, match="not one of the levels"):
        game.utilities([0.5, 0, 0])
    with pytest.raises(InvalidInputError, match="strictly increasing"):
        TabularGame([[0, 0]], [[1, 2]], 1.0)
    with pytest.raises(InvalidInputError, match="shape"):
        TabularGame([[0, 1]], [[1, 2, 3]], 1.0)
    # different grids: a swap that does not exist on the grid creates no envy
    odd = TabularGame([[0, 1], [0, 2]], np.ones((2, 2, 2)), 0.5)
    assert np.isnan(odd.swap_utilities([1, 0])[0, 0]) == np.False_
    assert np.isnan(odd.swap_utilities([0, 2])[1, 0])
    assert bool(odd.envy_free[0, 0])


@pytest.mark.parametrize("seed", range(3))
def test_tabular_audits_equal_definitions(seed: int) -> None:
    game = instances.random_coverage_game(3, 5, seed, integral=True, mu=(0.6, 0.75))
    table = TabularGame.from_game(game, [np.arange(int(game.box.max()) + 1)] * 3)
    points = table.points
    stable = [stability_report(game, t).is_stable for t in points]
    free = [envy_report(game, t).is_envy_free for t in points]
    assert table.stable.ravel().tolist() == stable
    assert table.envy_free.ravel().tolist() == free
