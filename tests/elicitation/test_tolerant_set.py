"""Certificates that hold although some answers are wrong."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.elicitation import LinearPreferenceUser, PolytopeElicitor, answered_by
from counterplay.elicitation.comparisons import Answer

IGNORE_NORM = "ignore::counterplay.errors.AssumptionWarning"  # users whose weights sum to 1


class Slipping(LinearPreferenceUser):
    """Gives the wrong answer at some questions."""

    def __init__(self, w: np.ndarray, eps: float, slips: list[int]) -> None:
        super().__init__(w, eps)
        self.slips, self.count = set(slips), 0

    def compare(self, first: object, second: object) -> Answer:
        answer = super().compare(first, second)
        self.count += 1
        return answer.swapped() if self.count - 1 in self.slips else answer


@pytest.mark.claim("08.37")
@pytest.mark.filterwarnings(IGNORE_NORM)
@pytest.mark.parametrize("wrong", [1, 2])
def test_certificate_holds_although_some_answers_are_wrong(wrong: int) -> None:
    detected = 0
    for seed in range(12 // wrong):
        rng = np.random.default_rng(seed)
        items = rng.random((300, 3))
        w = rng.dirichlet(np.ones(3))
        slips = rng.choice(6, size=wrong, replace=False).tolist()
        elicitor = PolytopeElicitor(
            items, wrong_answers=wrong, target_regret=0.02, random_state=seed
        )
        result = answered_by(elicitor, Slipping(w, 1e-3, slips))
        worth = items @ w
        assert 1 - worth[result.index] / worth.max() <= result.regret_certificate + 1e-9
        assert result.regret_certificate <= 0.02
        detected += any("not all answers can be right" in note for note in result.notes)
        for suspects in elicitor._state.consistent.suspects():
            assert len(suspects) <= wrong
    assert detected >= 2


@pytest.mark.claim("08.37")
def test_without_tolerance_a_slip_can_spoil_the_certificate() -> None:
    """The reason for wrong_answers: informative questions never contradict each other."""
    spoiled = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        items = rng.random((300, 3))
        w = rng.dirichlet(np.ones(3)) + 0.5
        elicitor = PolytopeElicitor(items, random_state=seed)
        result = answered_by(elicitor, Slipping(w, 1e-3, [0]))
        worth = items @ w
        spoiled += 1 - worth[result.index] / worth.max() > result.regret_certificate + 1e-9
    assert spoiled >= 5
