"""A policy as at most k+1 trajectories, rare events included."""

from __future__ import annotations

import time

import numpy as np
import pytest

from counterplay.elicitation import (
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
)
from elicitation.problems import random_policy


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


def best_time(function: object, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()  # type: ignore[operator]  # a function without arguments
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.slow
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


@pytest.mark.slow
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
