"""Golden transcripts: one run per game with a fixed start, compared as text.

To accept a change on purpose, delete the file, run the tests once, and read the difference.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from counterplay.contribution import best_response_dynamics, instances
from counterplay.contribution.lab import (
    CyclePACGame,
    DigitsNetwork,
    PooledTraining,
    noisy_digits,
)
from counterplay.core.draws import run_keys
from counterplay.core.transcript import Transcript
from counterplay.federated import MWFed

FOLDER = Path(__file__).parents[1] / "playthroughs"


def mw_fed() -> str:
    cohort, network = noisy_digits(run_keys(1, 1), size=120, train=80), DigitsNetwork()
    training = PooledTraining(MWFed(growth=4.0), rounds=12, threshold=0.4, step_size=0.01)
    history = training.fit(network, cohort, network.start(cohort.keys))
    columns = {"points": history.drawn[0], "satisfied": history.satisfied[0, 1:].astype(int)}
    return Transcript(columns, {"protocol": "MW-FED", "factor": 4, "threshold": 0.4}).text()


def cycle() -> str:
    game = CyclePACGame(1, 0.9, integral=False, upper=1)
    return best_response_dynamics(game, "damped", theta0=[0.1, 0.7, 0.3]).text(12)


GAMES = {
    "contribution_linear": lambda: best_response_dynamics(instances.flower(2).linear()).text(12),
    "contribution_coverage": lambda: best_response_dynamics(instances.stable_but_envied()).text(12),
    "contribution_whole_coverage": lambda: best_response_dynamics(
        instances.random_coverage_game(4, 8, 0, integral=True)
    ).text(),
    "contribution_cycle": cycle,
    "contribution_mw_fed": mw_fed,
}


def rounded(text: str) -> str:
    """Numbers to five digits, so that other processors give the same text."""

    def shorten(cell: str) -> str:
        try:
            return f"{float(cell):.5g}" if np.isfinite(float(cell)) else cell
        except ValueError:
            return cell

    lines = []
    for line in text.splitlines():
        words = line.replace("[", "[ ").replace("]", " ]").replace(",", " , ").split()
        lines.append(" ".join(shorten(word) for word in words))
    return "\n".join(lines)


@pytest.mark.parametrize("name", GAMES)
def test_playthrough(name: str) -> None:
    path, text = FOLDER / f"{name}.txt", GAMES[name]()
    if not path.exists():
        path.write_text(text + "\n", encoding="utf-8")
        pytest.fail(f"{path.name} was missing and has been written; read it and run again")
    assert rounded(text) == rounded(path.read_text(encoding="utf-8").rstrip("\n"))
