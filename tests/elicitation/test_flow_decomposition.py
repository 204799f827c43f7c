"""A policy as a flow, split into paths."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.elicitation import (
    bounds,
    instances,
    plan,
)
from counterplay.elicitation.lab import (
    flow_decomposition,
    policy_flow,
    policy_value,
)
from elicitation.problems import random_policy


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
