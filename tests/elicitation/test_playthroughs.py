"""Golden transcripts: two sessions with a fixed seed, stored as text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from counterplay.core.transcript import Transcript
from counterplay.elicitation import (
    LinearPreferenceUser,
    PolytopeElicitor,
    PreferenceElicitor,
    answered_by,
    instances,
)
from counterplay.elicitation.results import ElicitationResult

FOLDER = Path(__file__).parents[1] / "playthroughs"


def adaptive() -> ElicitationResult:
    items = np.random.default_rng(0).random((200, 3)).round(2)
    return answered_by(
        PolytopeElicitor(items, random_state=0), LinearPreferenceUser([1.0, 0.5, 0.25], 0.01)
    )


def guaranteed() -> ElicitationResult:
    bandit = instances.linear_dependence()
    return answered_by(
        PreferenceElicitor(bandit, basis="thesis"), LinearPreferenceUser([1.0, 1.0, 1.0], 1e-3)
    )


def text(result: ElicitationResult) -> str:
    columns = {
        "purpose": np.array([a.purpose for a in result.answers]),
        "first": np.array([a.first.round(4) for a in result.answers]),
        "second": np.array([a.second.round(4) for a in result.answers]),
        "answer": np.array([a.answer.value for a in result.answers]),
    }
    meta = {
        "method": result.method,
        "recommended": np.round(result.value, 4).tolist(),
        "certificate": f"{result.regret_certificate:.6f}",
    }
    return Transcript(columns, meta).text() + "\n"


@pytest.mark.parametrize(
    ("name", "play"),
    [("elicitation_adaptive", adaptive), ("elicitation_guaranteed", guaranteed)],
)
def test_playthrough(name: str, play: object) -> None:
    stored = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert text(play()) == stored  # type: ignore[operator]  # a function without arguments
