"""Golden transcripts: a change in behaviour shows up as a readable difference.

To accept a change on purpose, run this file as a script: it rewrites the stored texts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from counterplay.tradeoff import (
    ChampionChallenger,
    CusumOracle,
    EpochLearner,
    HarmBudget,
    LossStream,
    ReactivationLearner,
    instances,
    play,
)

FOLDER = Path(__file__).parents[1] / "playthroughs"


def switch_tax() -> str:
    game = instances.adaptive_switch_tax(64, 0.5, 3, 0.2, 0.5, random_state=4)
    run = play(
        EpochLearner(64, 3, 0.5, random_state=4), LossStream(game.l1, game.l2, c=game.c), fast=True
    )
    return f"{run.text()}\n{run.summary()}"


def reactivation() -> str:
    rng = np.random.default_rng(1)
    l1 = rng.integers(0, 11, (120, 3)) / 10 * np.array([0.4, 0.7, 1.0])
    l2 = np.full((120, 3), 0.2)
    l2[20:32, 0] = 0.7
    l2[80:92, 0] = 0.7
    oracle = CusumOracle(0.2, 3.0, resets=[0, 60], granularity="round")
    learner = ReactivationLearner(120, 3, B=3, oracle=oracle, random_state=1)
    run = play(learner, LossStream(l1, l2), fast=True)
    return f"{run.text()}\n{run.details()}"


def champion() -> str:
    rng = np.random.default_rng(2)
    live = ChampionChallenger(n_models=3, horizon=200, budget=HarmBudget(0.1, 2.0), random_state=2)
    lines = []
    for t in range(200):
        error, harm = rng.integers(0, 11, 3) / 10, np.array([0.05, 0.1, 0.2 if t % 90 > 60 else 0])
        if t % 20 == 0:
            lines.append(f"round {t}: model {live.current} live, allowed {live.allowed}")
        live.step(error * [0.9, 0.6, 0.3], harm)
    return "\n".join([*lines, live.report().summary(), live.report().to_frame().to_string()])


GAMES = {
    "tradeoff_switch_tax": switch_tax,
    "tradeoff_reactivation": reactivation,
    "tradeoff_champion": champion,
}


@pytest.mark.parametrize("name", sorted(GAMES))
def test_game_is_played_as_stored(name: str) -> None:
    stored = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert GAMES[name]() + "\n" == stored


if __name__ == "__main__":
    for name, play in GAMES.items():
        (FOLDER / f"{name}.txt").write_text(play() + "\n", encoding="utf-8")
