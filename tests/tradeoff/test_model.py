"""Bad input is refused with a sentence that names the item and says what to do."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest

from counterplay.errors import InvalidInputError, ProtocolError
from counterplay.tradeoff import (
    CusumOracle,
    DeactivationLearner,
    EpochLearner,
    LossStream,
    burst_check,
    instances,
    play,
    replay_losses,
    required_budget,
)
from counterplay.tradeoff.lab import (
    Instance,
    Losses,
    burst_threshold,
    primary_regret,
    sleeping_regret,
)
from counterplay.tradeoff.model import check_losses

GOOD = np.full((20, 4), 0.5)


def spoiled(row: int, expert: int, value: float) -> np.ndarray:
    losses = GOOD.copy()
    losses[row, expert] = value
    return losses


@pytest.mark.claim("09.28")
@pytest.mark.parametrize(
    ("l1", "l2", "message"),
    [
        (GOOD, GOOD[:, :3], "primary losses and secondary losses must have the same shape"),
        (
            GOOD,
            spoiled(17, 3, 1.3),
            r"secondary losses must lie in \[0,1\]; row 17 expert 3 is 1.30",
        ),
        (spoiled(2, 0, -0.5), GOOD, r"primary losses must lie in \[0,1\]; row 2 expert 0 is -0.50"),
        (spoiled(4, 1, np.nan), GOOD, r"primary losses must be finite; entry \(4, 1\) is nan"),
        (GOOD, spoiled(0, 0, np.inf), "secondary losses must be finite"),
        (GOOD[0], GOOD[0], "2 axes"),
        (np.zeros((0, 4)), np.zeros((0, 4)), "must not be empty"),
    ],
)
def test_losses(l1: np.ndarray, l2: np.ndarray, message: str) -> None:
    learner = EpochLearner(20, 4, B=5)
    with pytest.raises(InvalidInputError, match=message):
        play(learner, LossStream(l1, l2, c=0.5), fast=True)
    with pytest.raises(InvalidInputError, match=message):
        Instance(l1, l2, 0.5, 0.5, 0.5)


@pytest.mark.claim("09.28")
@pytest.mark.parametrize("name", ["c", "delta", "alpha"])
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), "x"])
def test_fractions(name: str, value: object) -> None:
    wrong: dict[str, Any] = {"c": 0.5, "delta": 0.5, "alpha": 0.5, name: value}
    with pytest.raises(InvalidInputError, match=f"{name} must be"):
        burst_check(GOOD, wrong["c"], burst_threshold(20, wrong["delta"], wrong["alpha"]))
    with pytest.raises(InvalidInputError, match=f"{name} must be"):
        Instance(GOOD, GOOD, **wrong)


@pytest.mark.claim("09.28")
def test_empty_active_set() -> None:
    active = np.ones((20, 4), dtype=bool)
    active[12] = False
    message = (
        "round 12: every expert is deactivated; raise delta, raise c, or pass on_empty='least_bad'"
    )
    with pytest.raises(InvalidInputError) as caught:
        sleeping_regret(GOOD, np.zeros(20, dtype=int), active)
    assert str(caught.value) == message
    with pytest.raises(InvalidInputError, match="round 12"):
        play(
            DeactivationLearner(20, 4, B=5), LossStream(GOOD, GOOD, active=active, c=0.5), fast=True
        )
    with pytest.raises(InvalidInputError, match="boolean array of shape"):
        sleeping_regret(GOOD, np.zeros(20, dtype=int), active.astype(int))


@pytest.mark.claim("09.28")
def test_unsorted_resets_and_too_large_tax() -> None:
    with pytest.raises(InvalidInputError, match="strictly increasing"):
        CusumOracle(0.5, 1.0, resets=[0, 10, 5])
    with pytest.raises(InvalidInputError, match=r"c \+ delta must be at most 1"):
        instances.adaptive_switch_tax(100, 0.5, 3, 0.7, 0.4)


@pytest.mark.claim("09.28")
def test_paths_and_streams() -> None:
    with pytest.raises(InvalidInputError, match=r"0\.\.3, got 7"):
        primary_regret(GOOD, np.full(20, 7))
    learner = EpochLearner(2, 4, B=1)
    with pytest.raises(InvalidInputError, match=r"shape \(4,\)"):
        learner.observe(Losses([0.1, 0.2], [0.1, 0.2]))
    with pytest.raises(InvalidInputError, match=r"secondary losses must lie in \[0,1\]; expert 3"):
        learner.observe(Losses(GOOD[0], spoiled(0, 3, 1.3)[0]))
    learner.observe(Losses(GOOD[0], GOOD[0]))
    learner.observe(Losses(GOOD[0], GOOD[0]))
    with pytest.raises(ProtocolError, match="all 2 rounds are over"):
        learner.act()


@pytest.mark.claim("09.28")
def test_an_error_in_a_stream_changes_nothing() -> None:
    learner = DeactivationLearner(50, 2, B=5, oracle=CusumOracle(0.1, 1.0), random_state=0)
    for _ in range(2):
        learner.observe(Losses([0.1, 0.2], [0.5, 0.5]))
    learner.act()
    before = learner.to_json()
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="round 3: every expert is deactivated"):
            learner.observe(Losses([0.1, 0.2], [0.5, 0.5]))
        assert learner.to_json() == before
    learner.observe(Losses([0.1, 0.2], [0.0, 0.5]))  # one of them behaves: go on
    assert learner.active.tolist() == [True, False]


@pytest.mark.claim("09.28")
def test_shapes_must_match_the_learner() -> None:
    with pytest.raises(InvalidInputError, match="10 rounds"):
        play(EpochLearner(10, 4, B=1), LossStream(GOOD, GOOD, c=0.5), fast=True)
    with pytest.raises(InvalidInputError, match="3 experts"):
        play(EpochLearner(20, 3, B=1), LossStream(GOOD, GOOD, c=0.5), fast=True)
    with pytest.raises(InvalidInputError, match="pass c"):
        _ = play(EpochLearner(20, 4, B=1), LossStream(GOOD, GOOD), fast=True).secondary_regret()
    with pytest.raises(InvalidInputError, match="secondary losses, too"):
        DeactivationLearner(20, 4, B=5).plan(GOOD)
    with pytest.raises(InvalidInputError, match="at least one pair"):
        replay_losses([_Model()], [])


class _Model:
    def predict(self, X: object) -> object:
        return X


def test_tiny_overshoots_are_clipped() -> None:
    game = Instance(spoiled(0, 0, 1 + 5e-13), spoiled(1, 1, -5e-13), 0.5, 0.5, 0.5)
    assert game.l1.max() == 1.0
    assert game.l2.min() == 0.0


def test_instances_are_read_only_and_travel() -> None:
    game = instances.burst_pair(100, 0.5)
    with pytest.raises(ValueError, match="read-only"):
        game.l1[0, 0] = 1.0
    copy = pickle.loads(pickle.dumps(game))
    assert np.array_equal(copy.l1, game.l1)
    assert dict(copy.meta) == dict(game.meta)


def test_columns_of_two_tables_of_losses_are_matched_by_name() -> None:
    l1 = pd.DataFrame({"old": [0.1, 0.2], "new": [0.3, 0.4]})
    l2 = pd.DataFrame({"new": [0.9, 0.9], "old": [0.0, 0.0]})
    first, second = check_losses(l1, l2)
    assert first.tolist() == [[0.1, 0.3], [0.2, 0.4]]
    assert second.tolist() == [[0.0, 0.9], [0.0, 0.9]]
    with pytest.raises(InvalidInputError, match="no column 'old'"):
        check_losses(l1, l2.rename(columns={"old": "older"}))
    assert required_budget(l2, 0.5).to_dict() == pytest.approx({"new": 0.8, "old": -0.5})
