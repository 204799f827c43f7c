"""Golden transcripts: a change in behaviour shows up as a readable difference.

To accept a change on purpose, run this file as a script: it rewrites the stored texts.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from counterplay.defection import (
    ADAGD,
    FedAvg,
    FederationGame,
    MWFed,
    SafeStep,
    Server,
    classify_defections,
    instances,
    land,
    play,
)
from counterplay.defection.instances import Construction
from counterplay.federated import Rule

FOLDER = Path(__file__).parents[1] / "playthroughs"


def played(c: Construction, rule: Rule, eta: float, rounds: int) -> str:
    run = play(Server(rule, c.w0, step_size=eta), FederationGame(c.problem, c.eps), rounds=rounds)
    return f"{run.text()}\n{run.summary()}\n{classify_defections(run).summary()}"


def kinks() -> str:
    c = instances.uniform_fails_family(0.5, 1 / 16)
    games = [(FedAvg(), 0.125), (ADAGD(1 / 16), 0.125), (SafeStep(1 / 16), 0.5)]
    return "\n\n".join(played(c, rule, eta, 60) for rule, eta in games)


def regressions() -> str:
    c = instances.random_overparameterised(
        M=3, n=2, d=8, eps=[0.3, 0.2, 0.1], delta=0.002, spread=1.5, random_state=7
    )
    parts = [played(c, rule, 0.8, 40) for rule in (MWFed(gap=0.05), SafeStep(0.002))]
    run = play(Server(SafeStep(0.002), c.w0, step_size=0.8), FederationGame(c.problem, c.eps))
    return "\n\n".join([*parts, land(c.problem, run.w, c.eps).summary()])


GAMES = {"defection_kinks": kinks, "defection_regressions": regressions}


@pytest.mark.parametrize("name", GAMES)
def test_playthrough(name: str) -> None:
    stored = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert GAMES[name]() + "\n" == stored


if __name__ == "__main__":
    for name, game in GAMES.items():
        (FOLDER / f"{name}.txt").write_text(game() + "\n", encoding="utf-8")
