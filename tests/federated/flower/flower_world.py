"""Flower parties that hold one agent of a NumPy problem each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message
from flwr.clientapp import ClientApp

from counterplay.defection import LocalWork
from counterplay.defection.flower import RationalClient
from counterplay.defection.lab import FederatedProblem, local_updates
from counterplay.federated.flower import InProcessGrid, report


def problem_app(problem: FederatedProblem, mod: RationalClient | None = None) -> ClientApp:
    """A ClientApp: party ``i`` is agent ``i`` of the problem, its target is in its node config."""
    app = ClientApp(mods=[mod if mod is not None else RationalClient("threshold")])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        m, w = np.array([context.node_config["partition-id"]]), model(message)
        config: Any = message.content["config"]
        steps, eta = int(config["local-steps"]), float(config["step-size"])
        update = None
        if steps > 1:
            update = [local_updates(problem, w, m, eta, LocalWork(steps))[0]]
        loss, gradient = problem.losses(w)[m[0]], [problem.gradients(w, m)[0]]
        name = f"site {m[0]}"
        return report(message, loss=float(loss), gradient=gradient, update=update, name=name)

    return app


def problem_grid(
    problem: FederatedProblem, eps: Sequence[float], mod: RationalClient | None = None
) -> InProcessGrid:
    nodes = [{"threshold": float(e)} for e in eps]
    return InProcessGrid(problem_app(problem, mod), len(nodes), node_config=nodes)


def model(message: Message) -> np.ndarray:
    return message.content["arrays"]["0"].numpy()  # type: ignore[union-attr]


def start_from(w: Any) -> ArrayRecord:
    return ArrayRecord([np.asarray(w, dtype=np.float64)])


class Trajectory:
    """An ``evaluate_fn`` that keeps the model of every round."""

    def __init__(self) -> None:
        self.models: list[np.ndarray] = []

    def __call__(self, server_round: int, arrays: ArrayRecord) -> None:
        self.models.append(arrays["0"].numpy())
