"""Stable plans against CP 1 through cvxpy, and batched training against one run after the other.

    python benchmarks/bench_contribution.py

Prints ratios from one run. cvxpy and torch are skipped where they are not installed.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from ledger import compare, growth, skipped, timed
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


def fresh(k: int, form: str) -> LinearGame:
    """A game whose structure has not been analysed yet."""
    matrix = instances.random_linear_game(k, 2 * k, 8 / k, 0).W
    return LinearGame(sparse.csr_array(matrix) if form == "sparse" else matrix, 1.0)


def stable_plans(largest_cp: int = 600) -> None:
    what = "cheapest stable plan of a symmetric game with equal targets"
    optimal_stable_linear(fresh(20, "dense"))  # compile
    optimal_stable_linear(fresh(20, "sparse"))
    for form in ("dense", "sparse"):
        curve = {}
        for k in (100, 300, largest_cp, 2000):
            games = iter([fresh(k, form) for _ in range(6)])
            curve[k] = ours = timed(lambda games=games: optimal_stable_linear(next(games)))
            if form == "dense" and k <= largest_cp and find_spec("cvxpy"):
                from counterplay.contribution.lab import optimal_stable_linear_cp

                theirs = timed(lambda games=games: optimal_stable_linear_cp(next(games)))
                gap = abs(ours.result.total - theirs.result.total)
                compare("contribution", f"{what}, {k} parties", ours, theirs,
                        against="convex program CP 1", package="cvxpy",
                        note=f"totals differ by {gap:.1e}")  # fmt: skip
        growth("contribution", f"{what}, {form}", curve, size="parties")
    if not find_spec("cvxpy"):
        skipped("contribution", what, "cvxpy is not installed")


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
    cohort = noisy_digits(run_keys(0, runs), size=500, train=400)
    networks: dict[str, Any] = {"NumPy": DigitsNetwork()}
    what = f"a run of federated averaging on digits, {rounds} rounds"
    reference = None
    if find_spec("torch"):
        import torch

        torch.set_num_threads(1)
        networks["torch"] = DigitsNetwork(TorchArrays())
        plain_torch_run(cohort.take([0]), 3)
        reference = timed(
            lambda: [plain_torch_run(cohort.take([r]), rounds) for r in range(10)]
        ).each(10)
    else:
        skipped("contribution", what, "torch is not installed")
    protocol = PooledTraining(rounds=rounds)
    for name, network in networks.items():
        params = network.start(cohort.keys)

        def fit(group: list[int], net: Any = network, start: Any = params) -> Any:
            return protocol.fit(net, cohort.take(group), start[group])

        fit([0])
        single = timed(lambda fit=fit: [fit([r]) for r in range(10)]).each(10)
        batch = timed(lambda fit=fit: fit(list(range(runs)))).each(runs)
        ways = {"one by one": single, f"{runs} runs together": batch}
        for way, ours in ways.items():
            if reference is not None:
                compare("contribution", f"{what}, {name} engine, {way}", ours, reference,
                        against="a plain torch module, one by one", package="torch")  # fmt: skip
            elif way != "one by one":
                compare("contribution", f"{what}, {name} engine, {way}", ours, single,
                        against="the same engine, one by one", package="counterplay")  # fmt: skip


def main() -> None:
    stable_plans()
    training()


if __name__ == "__main__":
    main()
