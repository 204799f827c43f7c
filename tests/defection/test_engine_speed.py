"""What a protecting rule costs beyond plain averaging, as a ratio in one run."""

from __future__ import annotations

import time

import numpy as np
import pytest

from counterplay.core.draws import run_keys
from counterplay.defection import FedAvg, SafeStep, heterogeneous_split
from counterplay.defection.engine import LayeredObjective, Sites, TorchArrays, train


@pytest.mark.claim("05.48")
def test_safe_step_costs_less_than_a_fifth_of_a_round() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 500)), rng.integers(0, 10, size=2000)
    X[np.arange(len(y)), y] += 3.0
    owner = heterogeneous_split(X, y, 10, 0.9, random_state=0).agent_of_row
    sites = Sites.from_agents(X, y, owner)
    model = LayeredObjective([500, 195, 10], backend=TorchArrays())
    assert 95_000 < model.size < 105_000

    def seconds(rule: FedAvg | SafeStep) -> float:
        """Processor time of this process per round, so that other programs do not count."""
        began = time.process_time()
        record = train(model, sites, rule, run_keys(0, 1), step_size=0.1, rounds=4, eps=0.01)
        assert record.rounds.tolist() == [4]
        return (time.process_time() - began) / 4

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # threads that wait for each other burn processor time
    try:
        seconds(FedAvg())  # warm up
        pairs = [(seconds(FedAvg()), seconds(SafeStep(0.001, cap="eta"))) for _ in range(5)]
    finally:
        torch.set_num_threads(threads)
    plain, safe = np.array(pairs).min(axis=0)
    assert safe / plain < 1.2
