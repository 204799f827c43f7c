"""Transcripts: equal columns, stable text, read-only data."""

import numpy as np
import pytest

from counterplay.core.transcript import Transcript
from counterplay.errors import InvalidInputError


def test_columns_and_frame() -> None:
    game = Transcript({"played": [0, 1], "loss": np.array([[0.5, 1], [0, 0.25]])}, {"seed": 7})
    assert len(game) == 2
    assert game["played"].tolist() == [0, 1]
    frame = game.to_frame()
    assert frame.index.name == "round"
    assert frame["played"].tolist() == [0, 1]
    assert frame["loss"][0].tolist() == [0.5, 1.0]
    assert len(Transcript({})) == 0


def test_text_is_stable() -> None:
    game = Transcript(
        {"x": [1 / 3, 1e-12], "ok": [True, False], "pair": np.array([[1, 2], [3, 4]])},
        {"learner": "Halving"},
    )
    assert game.text().splitlines() == [
        "# learner: Halving",
        "round x        ok pair",
        "0     0.333333 1  [1,2]",
        "1     1e-12    0  [3,4]",
    ]
    assert len(game.text(rounds=1).splitlines()) == 3
    assert len(game.text(rounds=9).splitlines()) == 4


def test_data_cannot_be_changed_and_the_callers_array_stays_writable() -> None:
    mine = np.array([1.0, 2.0])
    game = Transcript({"loss": mine})
    with pytest.raises(ValueError, match="read-only"):
        game["loss"][0] = 5.0
    mine[0] = 7.0
    assert game["loss"][0] == 1.0


def test_unequal_columns_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="different lengths"):
        Transcript({"a": [1, 2], "b": [1]})


def test_a_single_number_is_no_column() -> None:
    with pytest.raises(InvalidInputError, match="column 'a' of a transcript"):
        Transcript({"a": 1})
