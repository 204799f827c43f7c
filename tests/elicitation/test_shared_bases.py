"""Bases shared by many users."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.elicitation import (
    LinearPreferenceUser,
    PreferenceElicitor,
    answered_by,
    bounds,
    elicit_many,
    instances,
)
from counterplay.elicitation.lab import SharedBases


@pytest.mark.claim("08.24")
def test_hundred_users_share_bases() -> None:
    rng = np.random.default_rng(0)
    mdp = instances.random_mdp(0)
    weights = rng.dirichlet(np.ones(4), size=100)
    users = [LinearPreferenceUser(w / np.linalg.norm(w), 0.01) for w in weights]
    shared = SharedBases(mdp, kind="thesis")
    results, _ = elicit_many(shared, users)
    certificates = 2 * 3 * len(shared._coefficients)  # 2(d-1) directions once per benchmark
    assert shared.oracle.n_calls - certificates <= bounds.shared_oracle_calls(4, 4, 100)
    alone = answered_by(PreferenceElicitor(mdp, basis="thesis"), users[7])
    assert alone.estimate.w_hat.tolist() == results[7].estimate.w_hat.tolist()


@pytest.mark.claim("08.24")
def test_oracle_calls_per_extra_user_are_one() -> None:
    mdp = instances.random_mdp(0)
    shared = SharedBases(mdp)
    user = LinearPreferenceUser([0.9, 0.5, 0.3, 0.2], 0.01)
    answered_by(PreferenceElicitor(shared), user)
    before = shared.oracle.n_calls
    answered_by(PreferenceElicitor(shared), user)
    assert shared.oracle.n_calls == before + 1
