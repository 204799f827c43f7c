"""The server: SafeStep in place of FedAvg, and a record of who stood where."""

from typing import Any

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp

from counterplay.defection import FedAvg
from counterplay.federated.flower import AdaGD, RuleStrategy, SafeStep
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
    """The one line that changes: SafeStep(...) instead of Flower's FedAvg(...)."""
    common = {
        "step_size": float(config["step-size"]),
        "local_steps": int(config["local-steps"]),
        "batch_size": int(config["batch-size"]) or None,
        "min_available_nodes": int(config["min-available-nodes"]),
        "straggler_seconds": float(config["straggler-seconds"]),
        "verbose": True,
    }
    delta = float(config["delta"])
    if config["rule"] == "safe-step":
        return SafeStep(delta=delta, **common)
    if config["rule"] == "ada-gd":
        return AdaGD(delta=delta, **common)
    return RuleStrategy(FedAvg(), **common)
