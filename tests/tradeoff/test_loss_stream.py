"""The game of two losses: fast and round by round, in pieces, against losses that react."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from counterplay.core.online import (
    Hedge,
)
from counterplay.errors import AssumptionWarning, InvalidInputError, ProtocolError
from counterplay.tradeoff import (
    CusumOracle,
    DeactivationLearner,
    EpochLearner,
    LossStream,
    ReactivationLearner,
    instances,
    play,
)
from counterplay.tradeoff.lab import (
    CallableSecondary,
)

Maker = Callable[..., tuple[np.ndarray, np.ndarray]]


def test_round_by_round_is_the_fast_path_and_tells_the_same_story(misbehaving: Maker) -> None:
    l1, l2 = misbehaving(600, 4, 0.2, 3)
    learner = DeactivationLearner(600, 4, B=10, oracle=CusumOracle(0.2, 5.0), random_state=0)
    fast = play(learner, LossStream(l1, l2), fast=True)
    assert learner.rounds == 0
    slow = play(learner, LossStream(l1, l2))
    assert learner.rounds == 600
    assert slow.text() == fast.text()
    assert fast.activity is not None
    assert slow.activity is not None
    assert slow.activity.events == fast.activity.events
    assert slow.guarantees == fast.guarantees
    assert (fast.exact, slow.exact) == (True, False)


def test_a_game_can_be_played_in_pieces(misbehaving: Maker) -> None:
    l1, l2 = misbehaving(600, 4, 0.2, 3)
    oracle = CusumOracle(0.2, 5.0, resets=200)
    learner = ReactivationLearner(600, 4, B=5, oracle=oracle, random_state=0)
    whole = play(learner, LossStream(l1, l2), fast=True)
    first = play(learner, LossStream(l1, l2), rounds=250)
    second = play(learner, LossStream(l1[250:], l2[250:]), fast=True)  # goes on round by round
    assert np.array_equal(np.concatenate([first.path, second.path]), whole.path)
    assert np.array_equal(np.concatenate([first.active, second.active]), whole.active)
    assert whole.activity is not None
    assert second.activity is not None
    late = [event.off_from - 250 for event in whole.activity.events if event.off_from > 250]
    assert [event.off_from for event in second.activity.events] == late
    assert second.activity.resets == (0, 150)
    assert second.guarantees == {}


@pytest.mark.parametrize("rounds", [0, 31])
@pytest.mark.parametrize("fast", [True, False])
def test_rounds_must_fit_the_stream(rounds: int, fast: bool) -> None:
    with pytest.raises(InvalidInputError, match="between 1 and 30"):
        play(
            EpochLearner(100, 2, B=1),
            LossStream(np.zeros((30, 2)), np.zeros((30, 2))),
            rounds=rounds,
            fast=fast,
        )


def test_wrong_players_are_told_so() -> None:
    stream = LossStream(np.zeros((30, 2)), np.zeros((30, 2)), c=0.1, replicates=3)
    with pytest.raises(InvalidInputError, match="swapped"):
        play(stream, EpochLearner(30, 2, B=1))  # type: ignore[arg-type]  # deliberately wrong
    with pytest.raises(InvalidInputError, match="wrap a learner over experts"):
        play(Hedge().reset(2, 30), stream)
    with pytest.raises(InvalidInputError, match="replicates must be 1"):
        play(EpochLearner(30, 2, B=1), stream)
    with pytest.raises(InvalidInputError, match="observe takes Losses"):
        EpochLearner(30, 2, B=1).observe([0.0, 0.0])  # type: ignore[arg-type]  # deliberately wrong
    with pytest.raises(InvalidInputError, match="2 experts, expected 3"):
        LossStream(np.zeros((30, 3)), instances.SwitchTax(2, 0.1, 0.2, 5))
    with pytest.raises(ProtocolError, match="no round is open"):
        stream.respond(0)


def test_plain_functions_can_be_adaptive_losses() -> None:
    def tax(t: int, actions: np.ndarray) -> list[float]:
        moved = t > 0 and (t < 2 or actions[-1] != actions[-2])
        return [0.9 if moved else 0.1] * 3

    l1 = np.random.default_rng(0).random((60, 3))
    run = play(
        EpochLearner(60, 3, B=10, random_state=0),
        LossStream(l1, tax, c=0.1, replicates=3),
        fast=True,
    )
    direct = CallableSecondary(tax, 3)
    assert np.array_equal(run.suffered, direct.played(run.paths))
    assert direct.realise(run.paths[0]).shape == (60, 3)


def test_adaptive_losses_with_a_watchdog_warn_and_still_play() -> None:
    game = instances.adaptive_switch_tax(256, 0.5, 3, 0.2, 0.5, random_state=0)
    watchdog = CusumOracle(0.2, 200.0)
    learner = DeactivationLearner(256, 3, 0.5, oracle=watchdog, random_state=0)
    with pytest.warns(AssumptionWarning, match="adaptive"):
        run = play(learner, LossStream(game.l1, game.l2), fast=True)
    assert run.path.shape == (256,)
    assert run.plan is None
    assert run.secondary_regret(clip=False) == pytest.approx(
        game.l2.played(run.path).sum() - 0.2 * 256
    )
    with pytest.warns(AssumptionWarning), pytest.raises(InvalidInputError, match="replicates"):
        play(learner, LossStream(game.l1, game.l2, replicates=2), fast=True)
