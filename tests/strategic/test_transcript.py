"""Transcripts of strategic games."""

from __future__ import annotations

import numpy as np

from counterplay.strategic.lab import (
    StrategicTranscript,
)


def test_transcripts_count_both_kinds_of_mistakes() -> None:
    columns = {"x": [0, 0, 1], "report": [0, 0, 1], "yhat": [1, 0, 1], "y": [0, 1, 1]}
    game = StrategicTranscript({name: np.array(values) for name, values in columns.items()}, {})
    assert (game.mistakes, game.false_positives, game.false_negatives) == (2, 1, 1)
    assert "2 mistakes" in game.summary()
