"""Some starts are lost for every first-order protocol."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplay.defection import ADAGD, FedAvg, FederationGame, SafeStep, Server, instances, play
from counterplay.defection.lab import Decision, Reports, RuleState, bad_region_linear


class RandomSpan:
    """A legal protocol with arbitrary coefficients, also negative ones."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def decide(self, reports: Reports, eta: float, state: RuleState) -> Decision:
        M = len(reports.loss)
        step = reports.gradients.combine(eta * self.rng.normal(size=M) * 3.0)
        return Decision(step, "running", 0, np.zeros(M, dtype=bool))


def rules() -> list[Any]:
    fixed = [ADAGD(0.05), SafeStep(0.05), FedAvg(), FedAvg("polyak")]
    return fixed + [RandomSpan(seed) for seed in range(5)]


@pytest.mark.claim("05.01")
@pytest.mark.parametrize("schedule", range(20))
def test_no_protocol_leaves_the_line(schedule: int) -> None:
    c = instances.bad_init_example()
    rng = np.random.default_rng(schedule)
    etas = np.exp(rng.uniform(np.log(1e-3), np.log(10.0), size=60))
    for rule in rules():
        run = play(
            Server(rule, c.w0, step_size=etas),
            FederationGame(c.problem, c.eps, keep_every=1),
            rounds=60,
        )
        assert run.models is not None
        assert (run.models[:, 0] == 1.0).all()
        assert run.defect_round[1] == 1
        assert run.loss.mean() >= 0.5
        assert run.loss.max() >= 0.5
        assert run.harmful


@pytest.mark.claim("05.01")
@pytest.mark.parametrize("eta", [1.0, 0.25, 0.75])
def test_exact_values(eta: float) -> None:
    c = instances.bad_init_example()
    run = play(Server(FedAvg(), c.w0, step_size=eta), FederationGame(c.problem, c.eps), rounds=50)
    expected = c.expected["runs"][eta]
    assert run.w.tolist() == list(expected["w"])
    assert run.defect_round.tolist() == list(expected["defect_rounds"])
    if eta == 0.75:
        assert run.status == "max_rounds"
        assert run.loss.mean() == expected["mean_loss"]
    else:
        assert run.loss.tolist() == list(expected["loss"])


@pytest.mark.claim("05.02")
def test_bad_region_against_reachability() -> None:
    eps, h = 0.1, 1e-3
    rng = np.random.default_rng(0)
    w = rng.uniform(-1.0, 1.0, size=(20_000, 2))
    w[:6_000, 1] = rng.uniform(-1.5 * eps, 1.5 * eps, size=6_000)
    w[6_000:12_000, 0] = w[6_000:12_000, 1] + rng.uniform(-1.5 * eps, 1.5 * eps, size=6_000)
    formula = bad_region_linear(w, eps)
    t = np.arange(-3.0, 3.0, h)
    brute = np.zeros(len(w), dtype=bool)
    for i, (a, b) in enumerate(w):
        first, second = abs(b) <= eps, abs(a - b) <= eps
        if first == second:  # both satisfied, or nobody: the two gradients reach every point
            continue
        # the agent who stays can move along its own gradient only
        x, y = (a + t, b - t) if first else (a + 0.0 * t, b + t)
        brute[i] = not ((np.abs(y) <= eps) & (np.abs(x - y) <= eps)).any()
    differ = formula != brute
    edge = bad_region_linear(w, eps + 3 * h) != bad_region_linear(w, eps - 3 * h)
    assert formula.sum() > 3_000
    assert not (differ & ~edge).any()
    assert differ.sum() <= 20
