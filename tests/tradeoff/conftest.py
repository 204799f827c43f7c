"""Helpers shared by the tests of the tradeoff area."""

from __future__ import annotations

from collections.abc import Callable
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
)
from counterplay.tradeoff import (
    CusumOracle,
    DeactivationLearner,
    EpochLearner,
    LazyHedge,
    ReactivationLearner,
)
from counterplay.tradeoff.lab import (
    AdaNormalHedge,
    BicriteriaLearner,
    CumulativeLossLearner,
    RestartAtReset,
    RestartOnDeactivation,
    ScalarizedLearner,
    anytime,
)


def softmin(L1: np.ndarray, L2: np.ndarray) -> np.ndarray:
    """A rule that looks at both cumulative losses."""
    total = L1 + 0.5 * L2
    weights = np.exp(-0.02 * (total - total.min()))
    return np.asarray(weights / weights.sum())


def _by_round(oracle: CusumOracle) -> CusumOracle:
    copy = oracle.clone()
    copy.granularity = "round"
    return copy


def shipped(T: int, K: int, B: int, oracle: CusumOracle) -> dict[str, BicriteriaLearner]:
    """Every learner of the area, by name, for an instance with the given watchdog."""
    again = oracle.clone()
    again.resets = int(-(-T // (4 * B)) * B)
    common: dict[str, Any] = {"horizon": T, "K": K, "B": B, "random_state": 1}
    per_round: dict[str, Any] = {"horizon": T, "K": K, "B": 1, "random_state": 1}
    return {
        "hedge": EpochLearner(**per_round, learner=Hedge()),
        "hedge-epochs": EpochLearner(**common, learner=Hedge()),
        "ftl": EpochLearner(**per_round, learner=FollowTheLeader()),
        "fpl": EpochLearner(**common, learner=FollowPerturbedLeader()),
        "commit": EpochLearner(**per_round, learner=ExploreThenCommit(20)),
        "epoch-sd": EpochLearner(**common),
        "epoch-fll": EpochLearner(**common, learner=FollowLazyLeader()),
        "epoch-grid": EpochLearner(**common, learner=FollowLazyLeader(variant="grid")),
        "epoch-coupled": EpochLearner(**common, learner=MaximalCouplingSampler(Hedge())),
        "epoch-doubling": EpochLearner(**common, learner=Doubling()),
        "epoch-decreasing": EpochLearner(**common, learner=anytime("decreasing")),
        "lazy-hedge": LazyHedge(T, K, threshold=oracle.threshold, random_state=1),
        "scalarized": ScalarizedLearner(lam=0.5, **per_round),
        "cumulative": CumulativeLossLearner(softmin, T, K, random_state=1),
        "deactivation": DeactivationLearner(**common, oracle=oracle),
        "deactivation-decreasing": DeactivationLearner(
            **common, oracle=oracle, anytime="decreasing", fallback="min_cusum"
        ),
        "deactivation-fixed": DeactivationLearner(
            **common, oracle=oracle, anytime=None, fallback="first"
        ),
        "restart": RestartOnDeactivation(**common, oracle=oracle),
        "restart-doubling": RestartOnDeactivation(**common, oracle=oracle, anytime="doubling"),
        "restart-at-reset": RestartAtReset(**common, oracle=again),
        "reactivation": ReactivationLearner(**common, oracle=again),
        "reactivation-coupled": ReactivationLearner(**common, oracle=again, sampling="coupling"),
        "reactivation-round": ReactivationLearner(**common, oracle=_by_round(again)),
        "adanormalhedge": AdaNormalHedge(**common, oracle=again),
        "adanormalhedge-round": AdaNormalHedge(**per_round, oracle=again),
    }


NAMES = tuple(shipped(4096, 2, 8, CusumOracle(0.5, 100.0)))


@pytest.fixture
def learners() -> Callable[..., dict[str, BicriteriaLearner]]:
    return shipped


@pytest.fixture(params=NAMES)
def learner_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def misbehaving() -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """Random losses with bursts of the secondary loss; the last expert behaves."""

    def make(T: int, K: int, c: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        l1 = rng.random((T, K)) * rng.random(K)
        l2 = np.clip(c + rng.normal(0, 0.05, (T, K)), 0, 1)
        for h in range(K - 1):
            for start in rng.integers(0, T, 3):
                l2[start : start + int(rng.integers(T // 20, T // 6)), h] = rng.uniform(c, 1)
        l2[:, -1] = np.minimum(l2[:, -1], c)
        return l1, l2

    return make
