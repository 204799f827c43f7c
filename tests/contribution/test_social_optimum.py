"""Cheapest plans of linear games and their duals."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.contribution import (
    instances,
)
from counterplay.contribution.lab import (
    stable_linear_dynamics,
)
from counterplay.contribution.social_optimum import dual_bound


@pytest.mark.claim("04.03")
def test_price_of_stability_grows_like_half_the_root_of_k() -> None:
    ratios = []
    for s in range(3, 33):
        flower = instances.flower(s)
        game = flower.linear()
        core = np.zeros(game.k)
        core[0] = s
        assert game.utilities(core).min() >= 1 - 1e-12  # the core alone is feasible,
        petals = np.full(game.k, 1 / s)
        petals[0] = 0.0
        assert dual_bound(game, petals) == pytest.approx(s, abs=1e-9)  # and nothing is cheaper
        ratios.append(stable_linear_dynamics(game).total / s / np.sqrt(flower.k))
    assert min(ratios) > 0.5
    assert max(ratios) < 0.6
    assert (np.diff(ratios) < 0).all()
    assert ratios[-1] < 0.51
