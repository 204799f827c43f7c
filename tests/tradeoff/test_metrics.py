"""Regret notions by hand and against their definition."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.tradeoff.lab import (
    count_switches,
    primary_regret,
    rounds_since_switch,
    secondary_regret,
    sleeping_regret,
    stints,
)


@pytest.fixture
def game() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 40)
    active = rng.random((40, 3)) < 0.6
    active[:, 2] |= ~active.any(axis=1)
    return rng.random((40, 3)), rng.random((40, 3)), P, active


def test_regrets_follow_their_definition(game: tuple[np.ndarray, ...]) -> None:
    l1, l2, P, active = game
    played = [float(p @ row) for p, row in zip(P, l1)]
    assert primary_regret(l1, P, clip=False) == pytest.approx(
        sum(played) - min(l1[:, h].sum() for h in range(3))
    )
    harm = sum(float(p @ row) for p, row in zip(P, l2))
    assert secondary_regret(l2, P, 0.3, clip=False) == pytest.approx(harm - 0.3 * 40)
    for h, value in enumerate(sleeping_regret(l1, P, active, clip=False)):
        expected = sum(played[t] - l1[t, h] for t in range(40) if active[t, h])
        assert value == pytest.approx(expected)


def test_regrets_are_clipped_at_one_by_definition() -> None:
    l1 = np.zeros((5, 2))
    path = np.zeros(5, dtype=int)
    assert primary_regret(l1, path) == 1.0
    assert primary_regret(l1, path, clip=False) == 0.0
    assert secondary_regret(l1, path, 0.5) == 1.0
    assert secondary_regret(l1, path, 0.5, clip=False) == -2.5
    assert sleeping_regret(l1, path, np.ones((5, 2), dtype=bool)).tolist() == [1.0, 1.0]


def test_a_path_is_a_point_mass(game: tuple[np.ndarray, ...]) -> None:
    l1, _, _, active = game
    path = np.random.default_rng(1).integers(0, 3, 40)
    P = np.eye(3)[path]
    assert primary_regret(l1, path, clip=False) == pytest.approx(primary_regret(l1, P, clip=False))
    assert np.allclose(
        sleeping_regret(l1, path, active, clip=False), sleeping_regret(l1, P, active, clip=False)
    )


def test_stints_and_switches() -> None:
    path = [1, 1, 0, 2, 2, 2]
    starts, lengths = stints(path)
    assert starts.tolist() == [0, 2, 3]
    assert lengths.tolist() == [2, 1, 3]
    assert count_switches(path) == 2
    assert count_switches([path, [0] * 6]).tolist() == [2, 0]
    assert rounds_since_switch([path, [0] * 6]).tolist() == [[0, 1, 0, 0, 1, 2], list(range(6))]


@pytest.mark.parametrize(
    ("P", "message"),
    [
        (np.zeros(39, dtype=int), "39 rounds"),
        (np.full(40, 3), r"0\.\.2, got 3"),
        (np.full(40, -1), "got -1"),
        (np.full((40, 3), 0.5), "sum to 1"),
        (np.full((40, 2), 0.5), r"shape \(40, 3\)"),
        (np.zeros(40), "integers"),
    ],
)
def test_bad_plays_are_refused(game: tuple[np.ndarray, ...], P: np.ndarray, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        primary_regret(game[0], P)
