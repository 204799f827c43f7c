"""What a play leaves behind: regrets, rows, details, pictures."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from counterplay.tradeoff import (
    CusumOracle,
    EpochLearner,
    LossStream,
    ReactivationLearner,
    instances,
    play,
    required_budget,
)
from counterplay.tradeoff.lab import (
    LossTranscript,
)


@pytest.fixture(scope="module")
def run() -> LossTranscript:
    game = instances.burst(4096, 0.4, 4, 3)
    oracle = CusumOracle(game.c, game.threshold, resets=game.meta["resets"])
    return play(
        ReactivationLearner(4096, 4, 0.4, oracle=oracle, random_state=0),
        LossStream(game.l1, game.l2),
        fast=True,
    )


def test_report_names_every_deactivation_and_the_bound(run: LossTranscript) -> None:
    text = run.details()
    assert text.count("switched off") == 4
    assert "guaranteed: sleeping regret at most" in text
    assert "expected switches" in text
    assert "sleeping_regret" in text
    frame = run.experts()
    assert frame["played"].sum() == pytest.approx(1.0)
    assert frame["active"].tolist() == run.active.sum(axis=0).tolist()


def test_user_story_with_calibration_runs_as_written() -> None:
    rng = np.random.default_rng(0)
    l1 = rng.random((900, 12)) * np.linspace(0.2, 0.4, 12)
    l2 = np.clip(rng.normal(0.08, 0.05, (900, 12)), 0, 1)
    l2[:, 0] = np.minimum(l2[:, 0], 0.08)
    budget = required_budget(l2[:180], c=0.08)
    watchdog = CusumOracle(c=0.08, threshold=budget.quantile(0.8), resets="quarterly")
    learner = ReactivationLearner(horizon=720, K=12, B="balanced", oracle=watchdog)
    if 91 % learner.grid.B:
        with pytest.warns(match="multiples of the epoch length"):
            result = play(learner, LossStream(l1[180:], l2[180:]), fast=True)
    else:
        result = play(learner, LossStream(l1[180:], l2[180:]), fast=True)
    assert "720 rounds, 12 experts" in result.details()


def test_stand_in_history_and_pickle(run: LossTranscript) -> None:
    first, *rest = run.f_history
    assert first == (0, (0, 1, 2, 3))
    assert len(rest) == 7  # four times off, three times back
    copy = pickle.loads(pickle.dumps(run))
    assert np.array_equal(copy.path, run.path)
    assert copy.primary_regret() == run.primary_regret()


def test_pictures(run: LossTranscript, tmp_path: Path) -> None:
    figure = run.dashboard()
    assert figure.axes[0].get_ylabel() == "expert played"
    figure.savefig(tmp_path / "run.png")
    assert run.plot().get_xlabel() == "round"
    game = instances.adaptive_switch_tax(256, 0.5, 3, 0.2, 0.5, random_state=0)
    adaptive = play(
        EpochLearner(256, 3, 0.5, threshold=8.0, random_state=0),
        LossStream(game.l1, game.l2, c=0.2, replicates=5),
        fast=True,
    )
    assert len(adaptive.dashboard().axes) == 2
    assert "mean of 5 paths" in adaptive.summary()
    assert adaptive.experts()["secondary"].isna().all()


def test_transcript_has_one_row_per_round(run: LossTranscript) -> None:
    assert len(run) == len(run.to_frame()) == 4096
    assert set(run.columns) == {"played", "l1", "l2", "active"}
