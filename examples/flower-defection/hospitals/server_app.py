"""The server: SafeStep in place of FedAvg, and a record of who stood where."""

from typing import Any

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp

from counterplay.federated import ADAGD, FedAvg, LocalWork, Rule, SafeStep
from counterplay.federated.flower import RuleStrategy
from hospitals.task import make_module

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train until every hospital is close to its target and still there."""
    config = context.run_config
    strategy = make_strategy(config)
    start = ArrayRecord(make_module().state_dict())
    rounds, seconds = int(config["num-rounds"]), float(config["timeout"])
    strategy.start(grid, start, num_rounds=rounds, timeout=seconds)
    print(strategy.history_.summary(), flush=True)
    if config["history"]:
        strategy.history_.to_frame().to_csv(str(config["history"]), index=False)


def make_strategy(config: Any) -> RuleStrategy:
    """The one line that changes: RuleStrategy(SafeStep(...), ...) instead of Flower's FedAvg()."""
    delta = float(config["delta"])
    rules: dict[str, Rule] = {
        "safe-step": SafeStep(delta, cap="step_size"),
        "ada-gd": ADAGD(delta),
        "fedavg": FedAvg(),
    }
    return RuleStrategy(
        rules[str(config["rule"])],
        step_size=float(config["step-size"]),
        work=LocalWork(int(config["local-steps"]), int(config["batch-size"]) or None),
        fraction_train=float(config["fraction-train"]),
        min_train_nodes=1,
        full_every=int(config["full-every"]),
        min_available_nodes=int(config["min-available-nodes"]),
        straggler_seconds=float(config["straggler-seconds"]),
        verbose=True,
    )
