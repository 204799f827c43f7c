"""Golden transcripts: a change of behaviour shows up as a readable difference.

Set COUNTERPLAY_REWRITE=1 to write the files anew after an intended change.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from counterplay.strategic import (
    MWMR,
    Agents,
    Applicants,
    LinearClass,
    StrategicHalving,
    instances,
    play,
)
from counterplay.strategic.lab import (
    DeltaOnlyElimination,
    SequentialElimination,
    StrategicTranscript,
    UnionSamplingLearner,
)

FOLDER = Path(__file__).parents[1] / "playthroughs"


def people() -> tuple[LinearClass, Agents]:
    rng = np.random.default_rng(17)
    weights = rng.integers(-3, 4, size=(16, 3)).astype(float)
    rules = LinearClass(weights, rng.integers(-2, 3, size=16).astype(float))
    X = rng.integers(-4, 5, size=(40, 3)).astype(float)
    radius = rng.integers(0, 3, size=40).astype(float)
    return rules, Agents.from_target(rules, X, radius=radius, target=11)


def halving() -> StrategicTranscript:
    rules, agents = people()
    return play(StrategicHalving(rules), Applicants(agents, "features_first"))


def mwmr() -> StrategicTranscript:
    rules, agents = people()
    return play(MWMR(rules, random_state=0), Applicants(agents, "features_after"))


def union_sampling() -> StrategicTranscript:
    rules, agents = people()
    return play(UnionSamplingLearner(rules, random_state=0), Applicants(agents, "features_after"))


def delta_only() -> StrategicTranscript:
    rules, agents = people()
    return play(DeltaOnlyElimination(rules, random_state=0), Applicants(agents, "report_only"))


def star() -> StrategicTranscript:
    instance = instances.star_instance(8)
    return play(SequentialElimination(instance.hypotheses), instance.adversary(), rounds=10)


def lazy_adversary() -> StrategicTranscript:
    instance = instances.online_lb_instance(5)
    learner = MWMR(instance.hypotheses, random_state=1)
    return play(learner, instance.adversary(mode="lazy"), rounds=30)


@pytest.mark.parametrize("game", [halving, mwmr, union_sampling, delta_only, star, lazy_adversary])
def test_game_is_played_as_before(game: Callable[[], StrategicTranscript]) -> None:
    path = FOLDER / f"strategic_{game.__name__}.txt"
    text = game().text() + "\n"
    if os.environ.get("COUNTERPLAY_REWRITE"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
