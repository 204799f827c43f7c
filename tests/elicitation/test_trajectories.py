"""Trajectory sets and flow decomposition."""

from __future__ import annotations

import time

import numpy as np
import pytest

from counterplay.core.stats import clopper_pearson
from counterplay.elicitation import (
    LinearPreferenceUser,
    bounds,
    expand_and_compress,
    instances,
    plan,
)
from counterplay.elicitation.lab import (
    PolicyMixture,
    WeightedTrajectorySet,
    c4_compress,
    do_nothing_policy,
    enumerate_support,
    flow_decomposition,
    policy_flow,
    policy_value,
    sampled_trajectory_set,
)
from counterplay.elicitation.trajectories import support
from counterplay.errors import InvalidInputError


def random_policy(mdp: object, seed: int) -> np.ndarray:
    mask = mdp.action_mask  # type: ignore[attr-defined]  # a MultiObjectiveMDP
    shape = (mdp.H, *mask.shape)  # type: ignore[attr-defined]  # a MultiObjectiveMDP
    policy = np.random.default_rng(seed).random(shape) ** 3 * mask
    return policy / policy.sum(axis=2, keepdims=True)


def relative_error(trajectories: WeightedTrajectorySet, value: np.ndarray) -> float:
    scale = np.where(value > 0, value, 1.0)
    return float((np.abs(trajectories.weights @ trajectories.returns - value) / scale).max())


@pytest.mark.claim("08.18")
@pytest.mark.parametrize("p", [1e-3, 1e-6, 1e-9, 1e-12])
def test_crash_of_tiny_probability_is_shown_with_its_exact_weight(p: float) -> None:
    mdp = instances.rare_crash(crash_probability=p)
    policy = plan(mdp, [[1.0, 1.0, 1.0, 0.0]]).policies[0]
    value = policy_value(mdp, policy)
    shown = expand_and_compress(mdp, policy)
    crash = shown.returns[:, -1] > 0
    assert crash.any()
    assert abs(shown.value[-1] / value[-1] - 1) <= 1e-10
    assert value[-1] == pytest.approx(1 - (1 - p) ** 19, rel=1e-3)
    assert shown.weights[crash].sum() == pytest.approx(value[-1], rel=1e-10)


@pytest.mark.claim("08.18")
def test_unscaled_compression_loses_the_crash() -> None:
    """Regression guard: the variant without relative weights must stay visibly worse."""
    mdp = instances.rare_crash(crash_probability=1e-12)
    policy = plan(mdp, [[1.0, 1.0, 1.0, 0.0]]).policies[0]
    value = policy_value(mdp, policy)
    shown = expand_and_compress(mdp, policy, method="unscaled")
    assert abs(shown.value[-1] / value[-1] - 1) > 1e-8


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


@pytest.mark.claim("08.19")
@pytest.mark.parametrize("seed", range(6))
def test_any_policy_is_k_plus_1_possible_trajectories(seed: int) -> None:
    k = 1 + seed
    mdp = instances.random_mdp(seed, k=k)
    best = plan(mdp, np.ones((1, k))).policies[0]
    nothing = do_nothing_policy(mdp)
    mixture = PolicyMixture([0.3, 0.5, 0.2], [best, nothing, random_policy(mdp, seed)])
    for policy in (best, random_policy(mdp, seed), nothing, mixture):
        steps: list[float] = []
        value = policy_value(mdp, policy)

        def on_step(t: int, weights: np.ndarray, total: np.ndarray, value=value, steps=steps):
            assert len(weights) <= k + 1
            steps.append(float(np.abs(weights @ total - value).max()))

        if isinstance(policy, PolicyMixture):
            shown = expand_and_compress(mdp, policy)
        else:
            shown = expand_and_compress(mdp, policy, on_step=on_step)
            assert len(steps) == mdp.H
            assert max(steps) <= 1e-12
        shown.check(policy)
        assert len(shown) <= bounds.trajectory_set_size(k)
        assert relative_error(shown, value) <= 1e-10


@pytest.mark.claim("08.19")
def test_all_methods_and_the_enumerated_support_agree() -> None:
    mdp = instances.random_mdp(3, n_states=4, k=2, horizon=4)
    policy = random_policy(mdp, 0)
    value = policy_value(mdp, policy)
    sets = [
        expand_and_compress(mdp, policy),
        expand_and_compress(mdp, policy, method="literal"),
        flow_decomposition(policy_flow(mdp, policy)).compressed(),
    ]
    every = enumerate_support(mdp, policy)
    kept, weights = c4_compress(every.returns, every.weights)
    returns = every.returns[kept]
    sets.append(
        WeightedTrajectorySet(every.states[kept], every.actions[kept], weights, returns, mdp)
    )
    for shown in sets:
        shown.check(policy)
        assert relative_error(shown, value) <= 1e-10
    known = {(tuple(s), tuple(a)) for s, a in zip(every.states.tolist(), every.actions.tolist())}
    for shown in sets:
        rows = zip(shown.states.tolist(), shown.actions.tolist())
        assert {(tuple(s), tuple(a)) for s, a in rows} <= known


def test_diluting_with_nothing_scales_the_value() -> None:
    mdp = instances.random_mdp(0, k=3)
    policy = plan(mdp, np.ones((1, 3))).policies[0]
    shown = expand_and_compress(mdp, policy)
    for chance in (0.0, 0.37, 1.0):
        diluted = shown.diluted(chance)
        assert len(diluted) <= 4
        assert diluted.value == pytest.approx(chance * shown.value, abs=1e-12)


def test_check_finds_impossible_trajectories_and_wrong_values() -> None:
    mdp = instances.random_mdp(0, k=2)
    policy = plan(mdp, np.ones((1, 2))).policies[0]
    shown = expand_and_compress(mdp, policy)
    other = do_nothing_policy(mdp)
    assert not support(shown, other).any()
    with pytest.raises(InvalidInputError, match="misses the value"):
        shown.check(other)


def test_description_tells_probability_route_and_units() -> None:
    mdp = instances.good_bad_mediocre()
    text = expand_and_compress(mdp, np.zeros((2, 4), dtype=int)).describe(
        objective_names=["reward"]
    )
    assert text.splitlines() == [
        "50 %: start > good > nothing (reward 0.9)",
        "50 %: start > nothing (reward 0)",
    ]


@pytest.mark.claim("08.35")
def test_trajectory_sets_compare_a_gamble_with_a_sure_thing() -> None:
    mdp = instances.good_bad_mediocre()
    gamble, sure = (
        expand_and_compress(mdp, np.full((2, 4), action, dtype=int)) for action in (0, 1)
    )
    user = LinearPreferenceUser([1.0], 0.049)
    assert gamble.value[0] == pytest.approx(0.45)
    assert user.compare(gamble.value, sure.value).value == "first"
    assert LinearPreferenceUser([1.0], 0.0501).compare(gamble.value, sure.value).value == "same"
    single = [user.compare(row, sure.returns[0]).value for row in gamble.returns]
    assert gamble.weights[np.array(single) == "first"].sum() == pytest.approx(0.5)


@pytest.mark.claim("08.20")
@pytest.mark.parametrize("seed", range(5))
def test_flow_decomposition_adds_up_and_respects_the_path_bound(seed: int) -> None:
    mdp = instances.random_mdp(seed, k=3, n_states=12, horizon=8)
    for policy in (plan(mdp, np.ones((1, 3))).policies[0], random_policy(mdp, seed)):
        flow = policy_flow(mdp, policy)
        paths = flow_decomposition(flow)
        assert paths.amounts.sum() == pytest.approx(1.0, abs=1e-10)
        assert len(paths) <= bounds.flow_paths(flow.n_edges, flow.n_vertices)
        rebuilt = np.zeros(len(flow.flow))
        np.add.at(rebuilt, paths.edges.ravel(), np.repeat(paths.amounts, mdp.H))
        assert np.abs(rebuilt - flow.flow).max() <= 1e-10
        assert paths.amounts @ paths.returns == pytest.approx(policy_value(mdp, policy), abs=1e-10)
        assert paths.top(3).amounts.tolist() == sorted(paths.amounts.tolist())[::-1][:3]
        paths.compressed().check(policy)


@pytest.mark.claim("08.20")
def test_flow_of_the_spec_size_respects_the_bound() -> None:
    mdp = instances.sparse_mdp(n_states=50, horizon=20, successors=28)
    flow = policy_flow(mdp, plan(mdp, np.ones((1, 5))).policies[0])
    paths = flow_decomposition(flow)
    assert flow.n_edges > 20_000
    assert len(paths) <= bounds.flow_paths(flow.n_edges, flow.n_vertices)
    assert paths.amounts.sum() == pytest.approx(1.0, abs=1e-10)


def best_time(function: object, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()  # type: ignore[operator]  # a function without arguments
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.claim("08.21")
def test_the_time_of_expand_and_compress_grows_at_most_linearly_in_the_states() -> None:
    times = {}
    for n in (50, 100, 200, 400):
        mdp = instances.sparse_mdp(n_states=n, horizon=50, successors=30)
        policy = plan(mdp, np.ones((1, 5))).policies[0]
        expand_and_compress(mdp, policy)
        times[n] = best_time(lambda m=mdp, p=policy: expand_and_compress(m, p), 7)
    for n in (50, 100, 200):
        assert times[2 * n] / times[n] < 2.6


@pytest.mark.claim("08.21")
@pytest.mark.parametrize(
    ("successors", "least", "most"), [(5, 0.0, 3.0), (10, 0.0, 5.0), (30, 1.0, 10.0)]
)
def test_expanding_takes_a_few_plans_and_flows_fall_behind_on_dense_graphs_only(
    successors: int, least: float, most: float
) -> None:
    mdp = instances.sparse_mdp(n_states=200, horizon=50, successors=successors)
    directions = np.random.default_rng(0).random((12, 5))
    policy = plan(mdp, directions).policies[0]
    expand_and_compress(mdp, policy)
    flow_decomposition(policy_flow(mdp, policy)).compressed()
    planning = best_time(lambda: plan(mdp, directions), 7)
    expand = best_time(lambda: expand_and_compress(mdp, policy), 7)
    flow = best_time(lambda: flow_decomposition(policy_flow(mdp, policy)).compressed(), 5)
    assert expand < 12 * planning
    assert least < flow / expand < most
