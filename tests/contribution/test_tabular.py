"""Games given as a table are searched exhaustively."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.contribution import (
    TabularGame,
    envy_report,
    instances,
    stability_report,
)
from counterplay.errors import InvalidInputError


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
