"""The log of a champion/challenger stream is recounted by other code."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from counterplay.errors import AssumptionWarning, ProtocolError
from counterplay.tradeoff import ChampionChallenger, HarmBudget
from counterplay.tradeoff.guard_log import GuardLog
from counterplay.verify import verify


def logged(rounds: int, harm: list[float], policy: str = "guaranteed", seed: int = 0) -> GuardLog:
    live = ChampionChallenger(
        n_models=3, horizon=300, budget=HarmBudget(0.1, 4.0), review_every=80,
        policy=policy, random_state=seed,  # type: ignore[arg-type]  # a literal
    )  # fmt: skip
    log, rng = GuardLog(live), np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        for _ in range(rounds):
            log.step(rng.random(3), (rng.random(3) < harm).astype(float))
    return log


@pytest.mark.parametrize("policy", ["guaranteed", "adaptive"])
@pytest.mark.parametrize("rounds", [0, 1, 79, 80, 81, 160, 299, 300])
def test_the_recount_agrees_at_every_length(policy: str, rounds: int) -> None:
    log = logged(rounds, [0.05, 0.12, 0.4], policy, seed=rounds)
    found = verify(log.export().encode())
    assert found.holds, found.summary()
    assert verify(log.export().encode()).holds  # exporting changes nothing


def test_a_void_guarantee_is_recounted_as_void() -> None:
    log = logged(150, [0.7, 0.8, 0.9])
    assert log.live.report().nobody_left
    found = verify(log.export().encode())
    assert found.holds, found.summary()
    assert "harm bound: none" in found.summary()


def test_a_stream_that_has_begun_cannot_be_logged() -> None:
    with pytest.raises(ProtocolError, match="starts with the first round"):
        GuardLog(logged(3, [0.1, 0.1, 0.1]).live)
