"""Work together is at most work alone, whatever the solo protocols are."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from black_boxes import Tally, play

from counterplay.errors import ProtocolError
from counterplay.labeling.shadow import Answers, Shadow
from counterplay.labeling.solo import Step


@pytest.mark.claim("24.01")
@pytest.mark.parametrize("part", range(5))
def test_nobody_does_more_work_than_alone(part: int) -> None:
    tally = Tally()
    for seed in range(300 * part, 300 * part + 300):
        play(seed, tally)
    assert len(tally.alone) == 900
    assert tally.worse == 0
    assert np.mean(tally.together) < np.mean(tally.alone) - 0.5  # free answers do save work


@pytest.mark.claim("24.02")
def test_predictions_would_break_the_guarantee() -> None:
    tally = Tally()
    for seed in range(200):
        play(seed, tally, predicted=0.1)
    assert tally.worse > 0


@pytest.mark.claim("24.03")
def test_equal_noise_saves_on_average_and_own_answers_surely() -> None:
    tally = Tally()
    for seed in range(600):
        play(seed, tally, independent=0.15)
    gain = np.array(tally.together) - np.array(tally.alone)
    error = gain.std(ddof=1) / len(gain) ** 0.5
    assert gain.mean() < -10 * error
    assert 0.04 <= tally.worse / len(gain) <= 0.12
    own = Tally()
    for seed in range(200):
        play(seed, own, independent=0.15, free="own")
    assert own.worse == 0


class Script:
    """A solo run that asks what it was told to ask."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)

    def ask(self) -> Step | None:
        return self.steps[0] if self.steps else None

    def tell(self, results: Mapping[int, int]) -> None:
        self.steps.pop(0)


def test_a_run_that_leaves_its_pool_or_repeats_itself_is_refused() -> None:
    answers = Answers(1, False, "any", {})
    with pytest.raises(ProtocolError, match="Script asks about item 7, which is not in its pool"):
        Shadow(0, [1, 2], Script(Step("learn", (7,))), answers)
    shadow = Shadow(0, [1, 2], Script(Step("learn", (1,)), Step("learn", (1,))), answers)
    answers.given[1, "label", 0] = {0: 1}
    with pytest.raises(ProtocolError, match="Script asks about item 1 twice"):
        shadow.feed()


def test_adjudication_needs_first_to_answers_and_counts_skips() -> None:
    answers = Answers(2, True, "own", {})
    assert answers.missing(0, 5, "audit") == [(5, "audit", 0), (5, "audit", 1)]
    answers.given[5, "audit", 0] = {0: 1}
    answers.given[5, "audit", 1] = {0: 0}
    assert answers.result(0, 5, "audit") is None
    assert answers.missing(0, 5, "audit") == [(5, "audit", 2)]
    answers.given[5, "audit", 2] = {0: 1}
    assert answers.result(0, 5, "audit") == 1
    assert answers.missing(0, 5, "audit") == []
    assert answers.result(1, 5, "audit") is None  # another party's answers are not its own
    for repeat in range(2):
        answers.given[6, "audit", repeat] = {0: -1}
    assert answers.result(0, 6, "audit") == -1


def test_open_questions_count_in_the_account() -> None:
    # an open question that a free answer passed is still work to come: it leaves no slack
    answers = Answers(1, False, "any", {})
    shadow = Shadow(0, [1, 2, 3], Script(Step("learn", (1,)), Step("learn", (2,))), answers)
    shadow.put.add((1, "label", 0))
    answers.given[1, "label", 0] = {1: 0}
    shadow.feed()
    assert shadow.slack == 0
    assert not shadow.may_put((3, "label", 0))
    assert shadow.may_put((2, "label", 0))
