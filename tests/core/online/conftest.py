"""Loss sequences that every learner over experts is tried on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplay.core.online import (
    Doubling,
    ExploreThenCommit,
    FollowLazyLeader,
    FollowPerturbedLeader,
    FollowTheLeader,
    Hedge,
    MaximalCouplingSampler,
    ShrinkingDartboard,
)

LEARNERS: dict[str, Any] = {
    "hedge": lambda: Hedge(),
    "hedge-large-step": lambda: Hedge(2.5),
    "hedge-decreasing": lambda: Hedge("decreasing"),
    "hedge-callable": lambda: Hedge(lambda i: 0.7 / i**0.5),
    "dartboard": lambda: ShrinkingDartboard(),
    "dartboard-fast": lambda: ShrinkingDartboard(0.9),
    "lazy-leader": lambda: FollowLazyLeader(),
    "lazy-leader-grid": lambda: FollowLazyLeader(variant="grid"),
    "leader": lambda: FollowTheLeader(),
    "perturbed-leader": lambda: FollowPerturbedLeader(),
    "commit": lambda: ExploreThenCommit(10),
    "coupled-hedge": lambda: MaximalCouplingSampler(Hedge()),
    "coupled-decreasing": lambda: MaximalCouplingSampler(Hedge("decreasing")),
    "doubling": lambda: Doubling(),
    "doubling-lazy-leader": lambda: Doubling(FollowLazyLeader()),
    "coupled-doubling": lambda: MaximalCouplingSampler(Doubling(Hedge())),
}


def leader_killing(E: int, K: int) -> np.ndarray:
    """Whoever leads loses 1 in the next round."""
    losses, sums = np.zeros((E, K)), np.zeros(K)
    for i in range(E):
        losses[i, int(sums.argmin())] = 1.0
        sums += losses[i]
    return losses


@pytest.fixture(params=sorted(LEARNERS))
def make_learner(request: pytest.FixtureRequest) -> Any:
    return LEARNERS[request.param]


@pytest.fixture(params=["uniform", "coins", "leader-killing", "ones", "zeros"])
def losses(request: pytest.FixtureRequest) -> np.ndarray:
    rng = np.random.default_rng(7)
    E, K = 300, 6
    return {
        "uniform": lambda: rng.random((E, K)),
        "coins": lambda: rng.integers(0, 2, (E, K)).astype(float),
        "leader-killing": lambda: leader_killing(E, K),
        "ones": lambda: np.ones((E, K)),
        "zeros": lambda: np.zeros((E, K)),
    }[request.param]()
