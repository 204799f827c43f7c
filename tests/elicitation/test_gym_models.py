"""Processes from mo-gymnasium and the error of sampled processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplay.core.stats import clopper_pearson
from counterplay.elicitation import (
    LinearPreferenceUser,
    MultiObjectiveMDP,
    PolytopeElicitor,
    PreferenceElicitor,
    answered_by,
    expand_and_compress,
    instances,
    plan,
)
from counterplay.elicitation.lab import SharedBases, policy_value
from counterplay.errors import InvalidInputError

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of gymnasium, about spaces


class RandomWalk:
    """Four cells; going right succeeds with probability 0.7. One prize, one penalty."""

    action_space = type("Discrete", (), {"n": 2})
    chance = 0.7

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        self._np_random = np.random.default_rng(seed)
        self.cell = 0
        return np.array([self.cell]), {}

    def step(self, action: int) -> tuple[np.ndarray, list[float], bool, bool, dict[str, Any]]:
        if action == 1 and self._np_random.random() < self.chance:
            self.cell += 1
        over = self.cell == 3
        return np.array([self.cell]), [float(over), -1.0], over, False, {}


def exact_walk(horizon: int) -> MultiObjectiveMDP:
    """The same process written down."""
    transitions = np.zeros((4, 2, 4))
    rewards = np.zeros((4, 2, 2))
    for s in range(3):
        transitions[s, 0, s] = 1.0
        transitions[s, 1, s], transitions[s, 1, s + 1] = 0.3, 0.7
        rewards[s, :, 1] = -1.0
    rewards[2, 1, 0] = 0.7
    transitions[3, :, 3] = 1.0
    return MultiObjectiveMDP(transitions, rewards, H=horizon, costs=[1], rescale=True)


@pytest.mark.claim("08.34")
def test_sampled_error_covers_every_policy_with_the_stated_confidence() -> None:
    horizon, covered, trials = 6, 0, 40
    truth = exact_walk(horizon)
    for seed in range(trials):
        mdp = MultiObjectiveMDP.from_gymnasium(
            RandomWalk(),
            horizon,
            costs=[1],
            samples=400,
            confidence=0.9,
            random_state=seed,
        )
        assert mdp.value_error > 0
        order = [
            next(i for i, n in enumerate(mdp.state_names) if n.startswith(f"({s})"))
            for s in range(4)
        ]
        good = True
        rng = np.random.default_rng(seed)
        for _ in range(40):
            actions = rng.integers(2, size=(horizon, 4))
            actions[:, 3] = 0
            estimated = np.zeros((horizon, 4), dtype=int)
            estimated[:, order] = actions
            a = policy_value(mdp, estimated) * mdp.scales
            b = policy_value(truth, actions) * truth.scales
            good &= bool((np.abs(a - b) / truth.scales <= mdp.value_error + 1e-12).all())
        covered += good
    assert clopper_pearson(covered, trials, 0.99).high >= 0.9
    assert covered >= 30


@pytest.mark.claim("08.34")
def test_error_shrinks_with_the_square_root_of_the_samples() -> None:
    errors = [
        MultiObjectiveMDP.from_gymnasium(
            RandomWalk(), 5, costs=[1], samples=n, random_state=0
        ).value_error
        for n in (400, 6400)
    ]
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.1)


def test_randomness_is_noticed() -> None:
    with pytest.raises(InvalidInputError, match="uses randomness"):
        MultiObjectiveMDP.from_gymnasium(RandomWalk(), 5, costs=[1])


@pytest.mark.claim("08.34")
def test_a_result_from_samples_states_the_error_and_its_proviso() -> None:
    mdp = MultiObjectiveMDP.from_gymnasium(RandomWalk(), 5, costs=[1], samples=2000, random_state=0)
    result = answered_by(PreferenceElicitor(mdp), LinearPreferenceUser([1.0, 0.2], 0.01))
    (note,) = [note for note in result.notes if "estimated from samples" in note]
    assert f"{mdp.value_error:.3g}" in note
    assert "something rarer was missed" in note


def test_deep_sea_treasure() -> None:
    pytest.importorskip("mo_gymnasium")
    mdp = MultiObjectiveMDP.from_gymnasium("deep-sea-treasure-v0", horizon=20, costs=["time"])
    assert mdp.objective_names == ("treasure", "time")
    _, values = mdp.scales, plan(mdp, np.eye(2)).values
    deepest = mdp.original_value(values[0])
    assert deepest[0] == pytest.approx(23.7, abs=1e-3)
    nearest = mdp.original_value(values[1])
    assert nearest.tolist() == pytest.approx([0.7, 1.0], abs=1e-3)
    # every corner of the convex front is best for some weights (20.3 lies on an edge)
    angles = np.linspace(0, np.pi / 2, 400)
    found = plan(mdp, np.stack([np.cos(angles), np.sin(angles)], axis=1)).values
    treasures = {round(float(v[0]), 1) for v in mdp.original_value(found)}
    assert {0.7, 8.2, 11.5, 14.0, 15.1, 16.1, 19.6, 22.4, 23.7} <= treasures
    user = LinearPreferenceUser([1.0, 0.4], 0.01)
    for elicitor in (PreferenceElicitor(mdp), PolytopeElicitor(mdp, random_state=0)):
        result = answered_by(elicitor, user)
        best = float(plan(mdp, user.w).scalar_values[0])
        assert best - result.value @ user.w <= result.regret_certificate * best + 1e-9
        expand_and_compress(mdp, result.policy).check(result.policy)


def fruit_tree(slip: float = 0.0) -> MultiObjectiveMDP:
    """Depth 6, six objectives, leaf rewards divided by 10, optional slip to the other branch."""
    mdp = MultiObjectiveMDP.from_gymnasium("fruit-tree-v0", horizon=6, depth=6)
    rewards = np.array(mdp.R[:, :2] * mdp.scales / 10.0)
    mask = np.array(mdp.action_mask[:, :2])
    matrix = mdp.P.toarray().reshape(mdp.n_states, 3, mdp.n_states)[:, :2]
    inner = mask.all(axis=1)
    matrix[inner] = (1 - slip) * matrix[inner] + slip * matrix[inner][:, ::-1]
    rewards[inner] = (1 - slip) * rewards[inner] + slip * rewards[inner][:, ::-1]
    from counterplay.elicitation import add_do_nothing

    return add_do_nothing(MultiObjectiveMDP(matrix, rewards, H=6, action_mask=mask))


@pytest.mark.claim("08.26")
@pytest.mark.parametrize("slip", [0.0, 0.1])
@pytest.mark.parametrize("origin", ["mo-gymnasium", "our own"])
def test_fruit_tree_numbers(slip: float, origin: str) -> None:
    if origin == "mo-gymnasium":
        pytest.importorskip("mo_gymnasium")
        mdp = fruit_tree(slip)
    else:
        mdp = instances.harvest_tree(slip=slip)
    rng = np.random.default_rng(0)
    shared = SharedBases(mdp)
    regrets, questions = [], []
    for _ in range(50):
        w = rng.dirichlet(np.ones(6))
        w /= np.linalg.norm(w)
        result = answered_by(PreferenceElicitor(shared), LinearPreferenceUser(w, 0.01))
        assert len(result.estimate.basis_values) == 6
        best = float(plan(mdp, w).scalar_values[0])
        regrets.append(best - float(result.value @ w))
        questions.append(result.n_queries)
    assert np.mean(regrets) < 0.001
    assert 45 <= np.mean(questions) <= 56
    shown = expand_and_compress(mdp, result.policy)
    assert len(shown) == (1 if slip == 0 else 7)
    shown.check(result.policy)


def test_adaptive_questionnaire_needs_fewer_questions_on_the_fruit_tree() -> None:
    pytest.importorskip("mo_gymnasium")
    mdp = fruit_tree()
    rng = np.random.default_rng(1)
    counts = []
    for seed in range(5):
        w = rng.dirichlet(np.ones(6))
        w /= np.linalg.norm(w)
        user = LinearPreferenceUser(w, 0.001)
        result = answered_by(PolytopeElicitor(mdp, random_state=seed), user)
        best = float(plan(mdp, w).scalar_values[0])
        assert best - result.value @ w <= result.regret_certificate * best + 1e-9
        counts.append(result.n_queries)
    assert np.median(counts) <= 25


def test_resource_gathering_from_samples() -> None:
    pytest.importorskip("mo_gymnasium")
    mdp = MultiObjectiveMDP.from_gymnasium(
        "resource-gathering-v0", horizon=14, costs=["enemy"], samples=300
    )
    assert mdp.objective_names == ("enemy", "gold", "gem")
    assert mdp.value_error > 0
    best = mdp.original_value(plan(mdp, np.eye(3)).values)
    assert best[1, 1] == pytest.approx(1.0, abs=0.05)  # the gold comes home
    assert 0.75 <= best[2, 2] <= 1.0  # the gem may cost a fight
    assert best[0, 0] == pytest.approx(0.0, abs=1e-9)  # no enemy is met if one avoids them


def test_unfinished_environments_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="discrete action space"):
        MultiObjectiveMDP.from_gymnasium(object(), 5)


@pytest.mark.claim("26.21")
def test_only_states_within_the_horizon_are_visited() -> None:
    class Corridor:
        """Never ends."""

        action_space = type("Discrete", (), {"n": 2})

        def reset(self, seed: int | None = None) -> tuple[int, dict[str, object]]:
            self.cell = 0
            return self.cell, {}

        def step(self, action: int) -> tuple[int, list[float], bool, bool, dict[str, object]]:
            self.cell += action
            return self.cell, [float(self.cell == 3), -1.0], False, False, {}

    mdp = MultiObjectiveMDP.from_gymnasium(Corridor(), 5, costs=[1], max_states=6)
    assert mdp.n_states == 6
    wider = MultiObjectiveMDP.from_gymnasium(Corridor(), 9, costs=[1])
    assert mdp.original_value(plan(mdp, [[1.0, 0.0]]).values[0])[0] == 3.0  # waits at the prize
    assert wider.n_states == 10
