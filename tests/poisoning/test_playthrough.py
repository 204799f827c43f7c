"""One attack after the other against two interval learners, as stored text."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from counterplay.core.transcript import Transcript
from counterplay.poisoning import attackable_rate
from counterplay.poisoning.instances import interval_example
from counterplay.poisoning.lab import MaxOpenInterval, MinClosedInterval

FOLDER = Path(__file__).parent.parent / "playthroughs"


def transcript() -> str:
    game = interval_example(m=8, n_test=6, random_state=4)
    parts = []
    for learner in (MinClosedInterval(), MaxOpenInterval()):
        report = attackable_rate(learner, game.target, game.S, game.X_test, [game.attacker], seed=0)
        columns = {
            "x0": game.X_test[:, 0].round(4),
            "clean_correct": report.clean_correct,
            "attacked": report.attacked,
            "certified": report.certified,
            "n_poison": report.n_poison,
            "attacker": np.array(report.attacker),
        }
        meta = {"learner": repr(learner), "rows": len(game.S), "target": repr(game.target)}
        parts.append(Transcript(columns, meta).text())
    return "\n\n".join(parts) + "\n"


def test_interval_game_is_played_as_stored() -> None:
    stored = (FOLDER / "poisoning_intervals.txt").read_text(encoding="utf-8")
    assert transcript() == stored
