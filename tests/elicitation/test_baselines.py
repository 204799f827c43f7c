"""What people do without this library."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.core.stats import clopper_pearson
from counterplay.elicitation import (
    LinearPreferenceUser,
    PolytopeElicitor,
    bounds,
    instances,
    plan,
)
from counterplay.elicitation.lab import (
    PointSetOracle,
    bradley_terry,
    equal_weights,
    pareto_scan,
    policy_value,
    random_comparisons,
    sampled_trajectory_set,
    undominated,
)


@pytest.mark.filterwarnings("ignore::counterplay.errors.AssumptionWarning")
def test_baselines_recommend_but_lose_more_than_the_questionnaire() -> None:
    losses: dict[str, list[float]] = {name: [] for name in ("equal", "random", "logistic", "ours")}
    for seed in range(15):
        rng = np.random.default_rng(seed)
        items = np.abs(rng.normal(size=(500, 4)))
        items /= np.linalg.norm(items, axis=1, keepdims=True)
        w = rng.dirichlet(np.ones(4))
        oracle, user = PointSetOracle(items), LinearPreferenceUser(w, 1e-3)
        elicitor = PolytopeElicitor(items, random_state=0)
        for _ in range(6):
            query = elicitor.ask()
            elicitor.tell(user.compare(query.first, query.second))
        values = {
            "equal": equal_weights(oracle).value,
            "random": random_comparisons(oracle, user, 6, seed).value,
            "logistic": bradley_terry(oracle, user, 6, random_state=seed).value,
            "ours": items[elicitor.best_guess()],
        }
        best = (items @ w).max()
        for name, value in values.items():
            losses[name].append(1 - value @ w / best)
    means = {name: np.mean(values) for name, values in losses.items()}
    assert means["ours"] < min(means["equal"], means["random"], means["logistic"])


def test_pareto_scan_finds_the_best_with_one_question_per_rival() -> None:
    items = np.random.default_rng(0).random((200, 3))
    user = LinearPreferenceUser([1.0, 0.5, 0.2], 0.0)
    found = pareto_scan(items, user)
    assert found.n_queries == len(undominated(items)) - 1
    assert found.value @ user.w == pytest.approx((items @ user.w).max())


@pytest.mark.claim("08.18")
def test_sampling_misses_the_crash() -> None:
    assert bounds.sample_size(3, 0.05, 0.05) == 958
    for probability, expected in ((0.05**4, 0.994), (0.05**2, 0.091)):
        assert (1 - probability) ** 958 == pytest.approx(expected, abs=1e-3)
    mdp = instances.rare_crash(n_states=6, horizon=5, crash_probability=0.05**4)
    policy = plan(mdp, [[1.0, 1.0, 1.0, 0.0]]).policies[0]
    missed = sum(
        sampled_trajectory_set(mdp, policy, 200, seed).value[-1] == 0 for seed in range(200)
    )
    exact = (1 - policy_value(mdp, policy)[-1]) ** 200
    assert exact in clopper_pearson(missed, 200, confidence=0.999)
