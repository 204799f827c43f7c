"""Equal plans."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.contribution import (
    CoverageGame,
    bounds,
    envy_report,
    equal_allocation,
    instances,
)
from counterplay.contribution.lab import (
    is_feasible,
)
from counterplay.errors import InvalidInputError


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
