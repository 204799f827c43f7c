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
from ledger import Times, compare, growth, skipped, timed
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


def engine_round(model: LayeredObjective, rounds: int = 200, seeds: int = 1) -> Times:
    """Seconds per round of the engine, everything included, per seed."""
    federation = Federation(model, Sites.from_agents(*digits()), eps=0.0)
    options: dict[str, Any] = {"step_size": 0.1, "work": LocalWork(STEPS, BATCH)}
    federation.train(FedAvg(), run_keys(0, seeds), rounds=3, **options)  # warm up
    spent = timed(lambda: federation.train(FedAvg(), run_keys(0, seeds), rounds=rounds, **options))
    return spent.each(rounds * seeds)


def flower_round(rounds: int) -> Times:
    """Seconds of each round of Flower's simulation after its first two rounds."""
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
    return Times(tuple(np.diff(times)[2:].tolist()), "median")


def against_flower(rounds: int) -> None:
    """Rounds per second of both engines, same work: ten agents, five steps of 32 rows."""
    what = f"a round of {AGENTS} agents on digits, network 64-32-10, {STEPS} steps of {BATCH} rows"
    times = {"NumPy": engine_round(LayeredObjective([64, 32, 10]))}
    if find_spec("torch"):
        model = LayeredObjective([64, 32, 10], backend=TorchArrays())
        times["torch"] = engine_round(model)
        times["torch, 10 seeds together"] = engine_round(model, 60, seeds=10)
    theirs = flower_round(rounds) if find_spec("flwr") and find_spec("ray") else None
    for name, ours in times.items():
        if theirs is None:
            growth("defection", f"{what}, engine with {name}", {AGENTS: ours}, size="agents")
        else:
            compare("defection", f"{what}, engine with {name}", ours, theirs,
                    against="Flower's simulation after start-up", package="flwr")  # fmt: skip
    if theirs is None:
        skipped("defection", what, "flwr with ray is not installed")


def overhead(rounds: int = 10, repeats: int = 5) -> None:
    """A SafeStep round against a FedAvg round, 100,000 parameters.

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
            spent = timed(
                lambda rule=rule: federation.train(
                    rule, run_keys(0, 1), step_size=0.1, rounds=rounds
                ),
                1,
            )
            times[name].append(spent.value / max(1, int(spent.result.rounds[0])))
    plain, safe = (Times(tuple(times[name]), "median") for name in ("fedavg", "safe_step"))
    compare("defection", f"a SafeStep round, {model.size} parameters, {AGENTS} agents, {n} rows",
            safe, plain, against="a FedAvg round of the same engine", package="counterplay",
            note=f"overhead {safe.value / plain.value - 1:.1%}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=8, help="rounds of Flower's simulation")
    options = parser.parse_args()
    overhead()
    against_flower(options.rounds)


if __name__ == "__main__":
    main()
