"""Stable plans against CP 1 through cvxpy, and batched training against one run after the other.

    python benchmarks/bench_contribution.py

Prints ratios from one run. cvxpy and torch are skipped where they are not installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

from counterplay.contribution import LinearGame, instances
from counterplay.contribution.lab import (
    DigitsNetwork,
    PooledTraining,
    noisy_digits,
    optimal_stable_linear,
)
from counterplay.core.draws import run_keys
from counterplay.federated import TorchArrays


def seconds(call: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Best of some repeats, and the last result."""
    best, result = np.inf, None
    for _ in range(repeats):
        began = time.perf_counter()
        result = call()
        best = min(best, time.perf_counter() - began)
    return best, result


def fresh(k: int, form: str) -> LinearGame:
    """A game whose structure has not been analysed yet."""
    matrix = instances.random_linear_game(k, 2 * k, 8 / k, 0).W
    return LinearGame(sparse.csr_array(matrix) if form == "sparse" else matrix, 1.0)


def stable_plans(largest_cp: int = 600) -> None:
    print("cheapest stable plan, symmetric games, equal targets")
    heads = ("parties", "form", "two-stage s", "CP 1 s", "ratio", "totals differ")
    print("{:>8} {:>7} {:>12} {:>9} {:>7} {:>14}".format(*heads))
    optimal_stable_linear(fresh(20, "dense"))  # compile
    optimal_stable_linear(fresh(20, "sparse"))
    for k in (100, 300, largest_cp, 2000):
        for form in ("dense", "sparse"):
            game = fresh(k, form)
            ours, plan = seconds(lambda game=game: optimal_stable_linear(game))
            line = f"{k:>8} {form:>7} {ours:>12.3f}"
            if form == "dense" and k <= largest_cp and find_spec("cvxpy"):
                from counterplay.contribution.lab import optimal_stable_linear_cp

                theirs, other = seconds(lambda game=game: optimal_stable_linear_cp(game))
                gap = abs(plan.total - other.total)
                line += f" {theirs:>9.2f} {theirs / ours:>7.0f} {gap:>14.1e}"
            print(line, flush=True)
    if not find_spec("cvxpy"):
        print("cvxpy is not installed: CP 1 skipped")


def plain_torch_run(cohort: Any, rounds: int) -> None:
    """What one would write for a single run: nn.Module, Adam, one federation after the other."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    adam = torch.optim.Adam(model.parameters(), lr=0.002)
    loss = torch.nn.CrossEntropyLoss()
    X, y = torch.from_numpy(cohort.X), torch.from_numpy(cohort.y)
    train, val = torch.from_numpy(cohort.train[0]), torch.from_numpy(cohort.val[0])
    for _ in range(rounds):
        pick = torch.cat([t[torch.randint(len(t), (64,))] for t in train])
        adam.zero_grad()
        loss(model(X[pick]), y[pick]).backward()
        adam.step()
        with torch.no_grad():
            for v in val:
                float((model(X[v]).argmax(-1) == y[v]).float().mean())


def training(runs: int = 100, rounds: int = 20) -> None:
    print(f"\nfederated averaging on digits, {rounds} rounds, seconds per run on this CPU")
    cohort = noisy_digits(run_keys(0, runs), size=500, train=400)
    networks: dict[str, Any] = {"NumPy": DigitsNetwork()}
    if find_spec("torch"):
        import torch

        torch.set_num_threads(1)
        networks["torch"] = DigitsNetwork(TorchArrays())
    protocol = PooledTraining(rounds=rounds)
    print(f"{'':>34} {'per run s':>10} {'ratio':>7}")
    reference = None
    if "torch" in networks:
        plain_torch_run(cohort.take([0]), 3)
        total, _ = seconds(lambda: [plain_torch_run(cohort.take([r]), rounds) for r in range(10)])
        reference = total / 10
        print(f"{'plain torch module, one by one':>34} {reference:>10.4f} {1.0:>7.1f}")
    for name, network in networks.items():
        params = network.start(cohort.keys)

        def fit(group: list[int], net: Any = network, start: Any = params) -> Any:
            return protocol.fit(net, cohort.take(group), start[group])

        fit([0])
        single = seconds(lambda fit=fit: [fit([r]) for r in range(10)])[0] / 10
        batch = seconds(lambda fit=fit: fit(list(range(runs))))[0] / runs
        base = reference or single
        print(f"{name + ' engine, one by one':>34} {single:>10.4f} {base / single:>7.1f}")
        print(f"{name + f' engine, {runs} runs together':>34} {batch:>10.4f} {base / batch:>7.1f}")
    if "torch" not in networks:
        print("torch is not installed: its rows are skipped")


def main() -> None:
    stable_plans()
    training()


if __name__ == "__main__":
    main()
