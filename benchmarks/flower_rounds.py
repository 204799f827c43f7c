"""How long a round of Flower's simulation engine takes: 10 clients, a small MLP on digits.

    python benchmarks/flower_rounds.py

Federated averaging with five local SGD steps per client and round, client code in NumPy, so that
what is timed is the engine and not a framework inside the clients. Needs ``flwr`` and ``ray``.
"""

from __future__ import annotations

import logging
import os
import time
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

LAYERS = (64, 32, 10)


@dataclass(frozen=True)
class FlowerTiming:
    """Seconds until the first round began, of the first round, and the median of the others."""

    startup: float
    first_round: float
    round: float
    rounds: int
    clients: int
    mean_loss: float

    def summary(self) -> str:
        return (
            f"Flower simulation, {self.clients} clients: start {self.startup:.2f} s, "
            f"first round {self.first_round:.2f} s, then {self.round * 1e3:.0f} ms per round "
            f"(median of {self.rounds - 1}); mean loss after the last round {self.mean_loss:.3f}"
        )


def can_run() -> bool:
    """Whether Flower's simulation engine is installed."""
    return find_spec("flwr") is not None and find_spec("ray") is not None


def digits_of(client: int, clients: int) -> tuple[np.ndarray, np.ndarray]:
    """Every ``clients``-th row of the digits, scaled to [0, 1]."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X[client::clients] / 16.0, y[client::clients]


def initial_arrays(random_state: int = 0) -> list[np.ndarray]:
    """Weights and biases of the MLP, He initialisation."""
    rng = np.random.default_rng(random_state)
    arrays: list[np.ndarray] = []
    for fan_in, fan_out in zip(LAYERS, LAYERS[1:]):
        arrays.append(rng.normal(0.0, np.sqrt(2.0 / fan_in), (fan_in, fan_out)))
        arrays.append(np.zeros(fan_out))
    return arrays


def loss_and_gradient(
    arrays: list[np.ndarray], X: np.ndarray, y: np.ndarray
) -> tuple[float, list[np.ndarray]]:
    """Mean cross-entropy of the MLP and its gradient."""
    w1, b1, w2, b2 = arrays
    hidden = np.maximum(X @ w1 + b1, 0.0)
    logits = hidden @ w2 + b2
    logits -= logits.max(axis=1, keepdims=True)
    probability = np.exp(logits)
    probability /= probability.sum(axis=1, keepdims=True)
    rows = np.arange(len(y))
    loss = -float(np.log(probability[rows, y]).mean())
    probability[rows, y] -= 1.0
    probability /= len(y)
    back = (probability @ w2.T) * (hidden > 0.0)
    return loss, [X.T @ back, back.sum(0), hidden.T @ probability, probability.sum(0)]


def local_sgd(
    arrays: list[np.ndarray],
    X: np.ndarray,
    y: np.ndarray,
    *,
    step_size: float = 0.1,
    local_steps: int = 5,
    batch_size: int = 32,
    seed: int = 0,
) -> list[np.ndarray]:
    """What a client does in a round."""
    rng = np.random.default_rng(seed)
    for _ in range(local_steps):
        batch = rng.choice(len(y), batch_size, replace=False)
        _, gradient = loss_and_gradient(arrays, X[batch], y[batch])
        arrays = [a - step_size / local_steps * g for a, g in zip(arrays, gradient)]
    return arrays


def _client_app(clients: int) -> Any:
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.train()
    def train(message: Any, context: Any) -> Any:
        me = int(context.node_config["partition-id"])
        X, y = digits_of(me, clients)
        arrays = message.content["arrays"].to_numpy_ndarrays()
        loss, _ = loss_and_gradient(arrays, X, y)
        seed = 1000 * int(message.content["config"]["server-round"]) + me
        trained = ArrayRecord(local_sgd(arrays, X, y, seed=seed))
        metrics = MetricRecord({"num-examples": len(y), "loss": loss})
        return Message(RecordDict({"arrays": trained, "metrics": metrics}), reply_to=message)

    return app


def time_flower_rounds(rounds: int = 20, clients: int = 10, num_cpus: int = 2) -> FlowerTiming:
    """Run ``rounds`` rounds of FedAvg in Flower's simulation engine and time each."""
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    from flwr.app import ArrayRecord
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.ERROR)
    began = time.perf_counter()
    ticks: list[float] = []
    losses: list[float] = []
    server = ServerApp()

    @server.main()
    def main(grid: Any, context: Any) -> None:
        def tick(server_round: int, arrays: Any) -> None:
            ticks.append(time.perf_counter())

        strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=clients)
        start = ArrayRecord(initial_arrays())
        result = strategy.start(grid, start, num_rounds=rounds, evaluate_fn=tick)
        losses.append(float(result.train_metrics_clientapp[rounds]["loss"]))

    resources = {
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        "init_args": {"num_cpus": num_cpus, "log_to_driver": False},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_simulation(server, _client_app(clients), clients, backend_config=resources)
    durations = np.diff(ticks)
    return FlowerTiming(
        startup=ticks[0] - began,
        first_round=float(durations[0]),
        round=float(np.median(durations[1:])),
        rounds=rounds,
        clients=clients,
        mean_loss=losses[0],
    )


def main() -> None:
    if not can_run():
        print("flwr or ray is not installed: skipped")
        return
    print(time_flower_rounds().summary())


if __name__ == "__main__":
    main()
