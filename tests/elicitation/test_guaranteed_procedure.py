"""The guaranteed procedure as a whole."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.elicitation import (
    LinearPreferenceUser,
    PreferenceElicitor,
    answered_by,
    instances,
    plan,
)
from counterplay.elicitation.comparisons import Answer
from counterplay.elicitation.lab import (
    estimate_ratios,
)
from elicitation.problems import unit


def test_every_question_is_counted() -> None:
    class Counting(LinearPreferenceUser):
        asked = 0

        def compare(self, first: object, second: object) -> Answer:
            self.asked += 1
            return super().compare(first, second)  # type: ignore[arg-type]  # passed on

    thin = instances.thin_direction(0.1)
    user = Counting(thin.w, thin.eps)
    found = estimate_ratios(thin.values, user)
    assert user.asked == found.n_queries == sum(ratio.n_queries for ratio in found.ratios)


def test_cap_on_questions_asks_the_widest_bracket_first() -> None:
    values = np.array([[1.0, 0.2, 0.1], [0.3, 0.9, 0.2], [0.2, 0.1, 0.8]])
    user = LinearPreferenceUser([1.0, 0.5, 0.4], 1e-6)
    for cap in range(12):
        found = estimate_ratios(values, user, max_queries=cap)
        assert found.n_queries <= cap
        widths = [ratio.high - ratio.low for ratio in found.ratios]
        assert max(widths) <= 2 * min(widths) + 1e-12
        truth = values[1:] @ user.w / (values[0] @ user.w)
        assert (np.abs(found.alpha_hat - truth) <= found.errors + 1e-12).all()


@pytest.mark.claim("08.16")
def test_refined_procedure_has_no_regret_at_coarse_precision() -> None:
    rng = np.random.default_rng(9)
    for seed in range(8):
        mdp = instances.random_mdp(seed)
        w = unit(rng, 4)
        result = answered_by(
            PreferenceElicitor(mdp, refine=40, precision=True), LinearPreferenceUser(w, 0.1)
        )
        assert plan(mdp, w).scalar_values[0] - result.value @ w == pytest.approx(0.0, abs=1e-9)


def test_truncated_elicitor_with_auto_delta_runs_and_its_certificate_holds() -> None:
    rng = np.random.default_rng(12)
    for seed in range(5):
        mdp = instances.random_mdp(seed)
        w = unit(rng, 4)
        result = answered_by(
            PreferenceElicitor(mdp, estimator="truncated"), LinearPreferenceUser(w, 1e-3)
        )
        best = plan(mdp, w).scalar_values[0]
        assert best - result.value @ w <= result.regret_certificate * best + 1e-9
