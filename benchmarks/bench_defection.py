"""The in-process engine against Flower's simulation, and what SafeStep costs beyond FedAvg.

    python benchmarks/bench_defection.py [--rounds 8]

Prints ratios from one run. Flower with Ray is skipped where it is not installed.
"""

from __future__ import annotations

import argparse
import time
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from counterplay.core.draws import run_keys
from counterplay.defection import FedAvg, SafeStep, heterogeneous_split
from counterplay.federated import (
    Federation,
    LayeredObjective,
    LocalWork,
    Sites,
    TorchArrays,
    local_work,
)

AGENTS, STEPS, BATCH = 10, 5, 32


def digits() -> tuple[Any, Any, Any]:
    """Rows, labels and the agent of every row."""
    X, y = load_digits(return_X_y=True)
    owner = heterogeneous_split(X, y, AGENTS, 0.9, random_state=0).agent_of_row
    return X / 16.0, y, owner


def engine_round(model: LayeredObjective, rounds: int = 200, seeds: int = 1) -> float:
    """Seconds per round of the engine, everything included, per seed."""
    federation = Federation(model, Sites.from_agents(*digits()), eps=0.0)
    options: dict[str, Any] = {"step_size": 0.1, "work": LocalWork(STEPS, BATCH)}
    federation.train(FedAvg(), run_keys(0, seeds), rounds=3, **options)  # warm up
    began = time.perf_counter()
    federation.train(FedAvg(), run_keys(0, seeds), rounds=rounds, **options)
    return (time.perf_counter() - began) / rounds / seeds


def flower_round(rounds: int) -> float:
    """Median seconds per round of Flower's simulation after its first two rounds."""
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg as FlowerFedAvg
    from flwr.simulation import run_simulation

    client, server, times = ClientApp(), ServerApp(), []

    @client.train()
    def work(message: Message, context: Context) -> Message:
        X, y, owner = digits()
        model = LayeredObjective([64, 32, 10])
        rows = owner == int(context.node_config["partition-id"])
        w = message.content["arrays"]["0"].numpy()
        order = np.random.default_rng(0).integers(0, rows.sum(), size=(STEPS, BATCH))
        done = local_work(
            model,
            (X[rows], y[rows]),
            w,
            step_size=0.1,
            work=LocalWork(STEPS),
            batches=order,
            anchor=False,
        )
        metrics = MetricRecord({"loss": done.loss, "num-examples": int(rows.sum())})
        moved = ArrayRecord([w - 0.1 * done.update])
        return Message(RecordDict({"arrays": moved, "metrics": metrics}), reply_to=message)

    class Timed(FlowerFedAvg):
        def configure_train(self, *args: Any, **kwargs: Any) -> Any:
            times.append(time.perf_counter())
            return super().configure_train(*args, **kwargs)

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        start = LayeredObjective([64, 32, 10]).start(run_keys(0, 1))[0]
        strategy = Timed(fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=AGENTS)
        strategy.start(grid=grid, initial_arrays=ArrayRecord([start]), num_rounds=rounds)

    resources: Any = {
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        "init_args": {"num_cpus": 2},
    }
    run_simulation(server, client, num_supernodes=AGENTS, backend_config=resources)
    return float(np.median(np.diff(times)[2:]))


def against_flower(rounds: int) -> None:
    """Rounds per second of both engines, same work: ten agents, five steps of 32 rows."""
    print(f"{AGENTS} agents, network 64-32-10, {STEPS} local steps of {BATCH} rows, digits")
    times = {"engine, NumPy": engine_round(LayeredObjective([64, 32, 10]))}
    if find_spec("torch"):
        model = LayeredObjective([64, 32, 10], backend=TorchArrays())
        times["engine, torch"] = engine_round(model)
        times["engine, torch, 10 seeds together"] = engine_round(model, 60, seeds=10)
    if find_spec("flwr") and find_spec("ray"):
        times["Flower simulation, after start-up"] = flower_round(rounds)
    else:
        print("flwr with ray is not installed: Flower's simulation skipped")
    fastest = min(times.values())
    slowest = max(times.values())
    for name, seconds in times.items():
        print(
            f"{name:<36} {1e3 * seconds:>9.2f} ms per round  {slowest / seconds:>7.1f} x faster "
            f"than the slowest, {seconds / fastest:>6.1f} x the fastest",
            flush=True,
        )


def overhead(rounds: int = 10, repeats: int = 5) -> float:
    """Share by which a SafeStep round is longer than a FedAvg round, 100,000 parameters.

    Both rules take one full-batch step, so they see the same gradients; the rest is the inner
    products, the quadratic program and one more combination. Medians of alternating repeats.
    """
    rng = np.random.default_rng(0)
    n, p, hidden = 2000, 500, 195
    X, y = rng.normal(size=(n, p)), rng.integers(0, 10, size=n)
    X[np.arange(n), y] += 3.0
    sites = Sites.from_agents(X, y, heterogeneous_split(X, y, AGENTS, 0.9).agent_of_row)
    backend = TorchArrays() if find_spec("torch") else None
    model = LayeredObjective([p, hidden, 10], backend=backend)
    times: dict[str, list[float]] = {"fedavg": [], "safe_step": []}
    federation = Federation(model, sites, eps=1.2)
    federation.train(FedAvg(), run_keys(0, 1), step_size=0.1, rounds=2)  # warm up
    for _ in range(repeats):
        for name, rule in (("fedavg", FedAvg()), ("safe_step", SafeStep(0.02, cap="step_size"))):
            began = time.perf_counter()
            record = federation.train(rule, run_keys(0, 1), step_size=0.1, rounds=rounds)
            times[name].append((time.perf_counter() - began) / max(1, int(record.rounds[0])))
    plain, safe = (float(np.median(times[name])) for name in ("fedavg", "safe_step"))
    print(
        f"{model.size} parameters, {AGENTS} agents, {n} rows: FedAvg {1e3 * plain:.1f} ms, "
        f"SafeStep {1e3 * safe:.1f} ms per round, overhead {safe / plain - 1:.1%}",
        flush=True,
    )
    return safe / plain - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=8, help="rounds of Flower's simulation")
    options = parser.parse_args()
    overhead()
    against_flower(options.rounds)


if __name__ == "__main__":
    main()
