"""Sampled training: a round against the batched engine and Flower's FedAvg, answers, false claims.

    python benchmarks/bench_sampling.py [--replicates 10]

Prints ratios from one run. Flower is skipped where it is not installed.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from bench_defection import AGENTS, digits
from ledger import Times, compare, median_gain, skipped, timed

from counterplay.core.draws import run_keys
from counterplay.federated import (
    FedAvg,
    Federation,
    LayeredObjective,
    LocalParties,
    SafeStep,
    Sites,
    train,
)
from counterplay.studies.defection.sampling import HuberWorld, SampleOnly

ROUNDS = 100


def median_time(call: Callable[[], Any], repeats: int = 5) -> Times:
    """Median seconds of a call, after a first one that does not count."""
    call()
    return timed(call, repeats, how="median")


def a_round() -> None:
    """One round of ten parties: party by party server against the batched engine."""
    X, y, owner = digits()
    model = LayeredObjective([64, 32, 10])
    data = {f"p{m}": (X[owner == m], y[owner == m]) for m in range(AGENTS)}
    parties = LocalParties(model, data, threshold=0.0)
    federation = Federation(model, Sites.from_agents(X, y, owner), eps=0.0)
    options: dict[str, Any] = {"step_size": 0.1, "rounds": ROUNDS}
    for name, rule in {"FedAvg": FedAvg(), "SafeStep": SafeStep(0.02, cap=0.2)}.items():
        ours = median_time(lambda rule=rule: train(parties, rule, random_state=0, **options))
        engine = median_time(lambda rule=rule: federation.train(rule, run_keys(0, 1), **options))
        compare("defection", f"a round of {AGENTS} parties asked one by one, {name}",
                ours.each(ROUNDS), engine.each(ROUNDS), against="our batched engine",
                package="counterplay",                 bar=1 / 2)  # fmt: skip


def against_flower(rounds: int = 20) -> None:
    """The same clients and rounds under Flower's FedAvg and under our strategy."""
    what = f"a round of our Flower strategy, the same {AGENTS} clients on one grid"
    if not find_spec("flwr"):
        skipped("defection", what, "flwr is not installed")
        return
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.serverapp.strategy import FedAvg as FlowerFedAvg

    from counterplay.federated.flower import InProcessGrid, RuleStrategy

    logging.getLogger("flwr").setLevel(logging.ERROR)
    X, y, owner = digits()
    model = LayeredObjective([64, 32, 10])
    rows = [(X[owner == m][None], y[owner == m][None]) for m in range(AGENTS)]
    start = model.start(run_keys(0, 1))[0]

    def client(message: Message, context: Any) -> Message:
        x, labels = rows[context.node_config["partition-id"]]
        (record,) = message.content.array_records.values()
        w = record["0"].numpy()[None]
        even = np.full(labels.shape, 1.0 / labels.shape[1])
        for _ in range(5):
            w = w - 0.1 * model.gradient(w, x, labels, even)
        metrics = MetricRecord({"num-examples": labels.shape[1]})
        content = {"arrays": ArrayRecord([w[0]]), "metrics": metrics}
        return Message(RecordDict(content), reply_to=message)

    def run(make: Callable[[], Any]) -> Times:
        grid = InProcessGrid(client, AGENTS)
        first = ArrayRecord([start])
        return median_time(lambda: make().start(grid, first, num_rounds=rounds)).each(rounds)

    theirs = run(lambda: FlowerFedAvg(fraction_evaluate=0.0, min_available_nodes=AGENTS))
    ours = run(lambda: RuleStrategy(FedAvg(), step_size=0.5, min_available_nodes=AGENTS))
    compare("defection", what, ours, theirs, against="Flower's FedAvg", package="flwr",
            bar=1 / 1.2)  # fmt: skip


def verdicts(replicates: int) -> None:
    """Answers until truly converged, and false claims, on convex problems at step 1/H."""
    used: dict[float, list[int]] = {0.25: [], 0.5: [], 1.0: []}
    claims = {"cuts": 0, "sample alone": 0}
    false = dict.fromkeys(claims, 0)
    for seed in range(replicates):
        world = HuberWorld(seed)
        rules = {"cuts": SafeStep(world.delta), "sample alone": SampleOnly(SafeStep(world.delta))}
        for name, rule in rules.items():
            for fraction in used:
                if name == "sample alone" and fraction == 1.0:
                    continue
                run = train(
                    world.parties(), rule, step_size=1.0 / world.H, fraction=fraction, convex=True,
                    random_state=seed,
                )  # fmt: skip
                if name == "cuts":
                    used[fraction].append(run.answers)
                if fraction < 1.0 and run.status == "converged":
                    stayed = [run.final[p] for p in run.final if p not in run.left]
                    claims[name] += 1
                    false[name] += max(stayed, default=0.0) > world.eps + 2 * world.delta + 1e-9
    for fraction, bar in ((0.25, 0.4), (0.5, 0.65)):
        compare("defection", f"answers until truly converged, a share of {fraction} asked",
                float(np.median(used[fraction])), float(np.median(used[1.0])), unit="answers",
                against="asking everybody", package="counterplay", bar=1 / bar,
                gain=median_gain(used[fraction], used[1.0]))  # fmt: skip
    share = {name: false[name] / max(claims[name], 1) for name in claims}
    compare("defection", "claims of convergence that are false, with cuts", share["cuts"],
            share["sample alone"], against="a verdict from the sample alone",
            package="counterplay", unit="of the claims",
            note=f"{claims['cuts']} and {claims['sample alone']} claims")  # fmt: skip


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=int, default=10)
    chosen = parser.parse_args()
    a_round()
    against_flower()
    verdicts(chosen.replicates)


if __name__ == "__main__":
    main()
