"""Batched NumPy networks."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from counterplay.contribution.training import (
    MLP,
    FedAvg,
    noisy_digits,
    run_keys,
)

KEYS = run_keys(3, 4)


COHORT = noisy_digits(KEYS, size=300, train=200)


NET = MLP()


def test_gradients_by_finite_differences() -> None:
    params = [p.astype(np.float64) for p in NET.init(KEYS[:1])]
    net = MLP()
    x, y = COHORT.X[None, :5].astype(np.float64), COHORT.y[None, :5]
    weight = np.array([[0.4, 0.3, 0.2, 0.1, 0.0]])
    _, grads = net.gradients(params, x, y, weight, KEYS)
    rng = np.random.default_rng(0)
    for layer in range(4):
        for _ in range(4):
            where = tuple(int(rng.integers(n)) for n in params[layer].shape)
            losses = []
            for sign in (1, -1):
                moved = [p.copy() for p in params]
                moved[layer][where] += sign * 1e-6
                losses.append(net.gradients(moved, x, y, weight, KEYS)[0][0])
            slope = (losses[0] - losses[1]) / 2e-6
            assert slope == pytest.approx(float(grads[layer][where]), abs=1e-6)


@pytest.mark.claim("04.41")
def test_runs_together_are_faster_than_one_by_one() -> None:
    keys = run_keys(0, 40)
    cohort, params = noisy_digits(keys, size=120, train=80), NET.init(keys)
    protocol = FedAvg(rounds=20, batch_size=8)

    def seconds(groups: list[list[int]]) -> float:
        best = np.inf
        for _ in range(3):
            began = time.perf_counter()
            for group in groups:
                protocol.fit(NET, cohort.take(group), [p[group] for p in params])
            best = min(best, (time.perf_counter() - began) / sum(map(len, groups)))
        return best

    together, alone = seconds([list(range(40))]), seconds([[r] for r in range(4)])
    assert alone > 2 * together


def test_engine_imports_with_numpy_alone(tmp_path: Path) -> None:
    """The training package must load on a machine that has NumPy (and torch) only."""
    source = Path(__file__).parents[3] / "src"
    script = f"""
import sys, types
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {{"scipy", "sklearn", "pandas", "numba", "networkx"}}:
            raise ImportError(name)
sys.meta_path.insert(0, Block())
sys.path.insert(0, {str(source)!r})
package = types.ModuleType("counterplay.contribution")
package.__path__ = [{str(source / "counterplay" / "contribution")!r}]
sys.modules["counterplay.contribution"] = package
import counterplay.contribution.training as t
print(t.MWFed(rounds=2).c)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "4.0", done.stderr
