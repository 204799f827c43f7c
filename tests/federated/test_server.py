"""The server of a federation: what it believes, whom it asks, when it stops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.federated import FedAvg, SafeStep, Trust
from counterplay.federated.replies import read_answer
from counterplay.federated.roster import Roster
from counterplay.federated.server import Coordinator

W = np.zeros(2)


def fields(gradient: Any, loss: float = 1.0) -> dict[str, Any]:
    return {"loss": loss, "gradient": gradient, "threshold": 0.1}


def step(server: Coordinator, gradients: dict[int, Any]) -> np.ndarray:
    """Move from 0 with step size 1: minus the mean of what is believed."""
    replies = {node: fields(gradient) for node, gradient in gradients.items()}
    return server.receive(1, W, replies, list(replies), list(replies), 1.0)


def test_an_ordinary_answer_is_a_trained_model() -> None:
    answer = read_answer({"model": [-0.2, 0.0]}, W, 0.1, Trust())
    assert answer.gradient.tolist() == [2.0, 0.0]
    assert np.isnan(answer.loss)
    with pytest.raises(InvalidInputError, match="needs a loss and a gradient"):
        read_answer({"loss": 1.0}, W, 0.1, Trust())


def test_influence_is_bounded_by_the_usual_length() -> None:
    quiet = {m: [1.0, 0.0] for m in range(4)}
    moved = step(Coordinator(FedAvg()), {**quiet, 4: [0.0, 500.0]})
    assert moved == pytest.approx([-0.8, -1.0])  # five times the median, a fifth of it each
    free = step(Coordinator(FedAvg(), trust=Trust(clip=None)), {**quiet, 4: [0.0, 500.0]})
    assert free == pytest.approx([-0.8, -100.0])
    tiny = step(Coordinator(FedAvg()), {0: [1.0, 0.0], 1: [1.0, 0.0], 2: [1e-30, 0.0]})
    assert tiny == pytest.approx([-2 / 3, 0.0])  # a small vector does not shrink the others


def test_a_late_gradient_is_measured_by_the_first_round_too() -> None:
    server = Coordinator(FedAvg())
    step(server, {m: [1.0, 0.0] for m in range(3)})
    late = {0: [1e-6, 0.0], 1: [1e-6, 0.0], 2: [3.0, 0.0]}
    assert step(server, late) == pytest.approx([-1.0, 0.0], abs=1e-5)


def test_a_start_without_a_measure_blocks_nobody() -> None:
    moved = step(Coordinator(FedAvg()), {0: [0.0, 0.0], 1: [0.0, 0.0], 2: [3.0, 0.0]})
    assert moved == pytest.approx([-1.0, 0.0])


def test_protection_is_not_clipped() -> None:
    """The constraint of a loud party uses what it sent; only its pull is shortened."""
    server = Coordinator(SafeStep(0.05))
    replies = {0: fields([1.0, 0.0]), 1: fields([1.0, 0.0]), 2: fields([-100.0, 0.0], loss=0.2)}
    moved = server.receive(1, W, replies, [0, 1, 2], [0, 1, 2], 1.0)
    assert 0.2 + float(moved @ [-100.0, 0.0]) >= 0.15 - 1e-12


def test_parties_are_drawn_from_the_seed() -> None:
    drawn = [
        [tuple(Coordinator(FedAvg(), seed=seed).ask(range(8), r, 0.5)) for r in range(1, 9)]
        for seed in (0, 0, 1)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert {len(nodes) for nodes in drawn[0]} == {4}
    assert len(set(drawn[0])) > 1
    assert Coordinator(FedAvg()).ask(range(8), 1, 0.1, least=3).__len__() == 3


def test_two_parties_cannot_have_one_name() -> None:
    roster = Roster()
    roster.introduce(7, "north")
    roster.introduce(9, "north")
    assert (roster.name(7), roster.name(9), roster.name(11)) == (
        "north", "north (node 9)", "node 11",
    )  # fmt: skip
