"""Games of the instances."""

from __future__ import annotations

import numpy as np

from counterplay.poisoning import attackable_rate, instances
from counterplay.poisoning.lab import (
    MaxOpenInterval,
)


def test_interval_example_is_a_game() -> None:
    game = instances.interval_example(m=40, random_state=0)
    report = attackable_rate(
        MaxOpenInterval(), game.target, game.S, game.X_test, [game.attacker], 5
    )
    # with a budget the certificate is exact: attacked and certified complement each other
    assert np.array_equal(report.attacked == 1, ~report.certified)
