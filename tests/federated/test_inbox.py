"""What one party can do to the others: nothing by garbage, little by shouting or blocking."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

from counterplay.federated import FedAvg, SafeStep, Trust, train
from counterplay.federated.buffers import Buffers
from counterplay.federated.replies import Answer, averaged_buffers, read_answer
from federated.worlds import HuberWorld

D = 36
GOOD = np.ones(D)
NUMBERS: dict[str, Any] = {
    "list": [1.0, 2.0],
    "text": "small",
    "nan": math.nan,
    "infinite": math.inf,
    "complex": 1j,
    "none": None,
    "negative": -1e9,
    "huge": 1e300,
}
VECTORS: dict[str, Any] = {
    "text": np.array(["a"] * D),
    "nan": np.full(D, np.nan),
    "infinite": np.full(D, -np.inf),
    "complex": GOOD * 1j,
    "short": np.ones(D - 1),
    "long": np.ones(D + 1),
    "square": np.ones((D, D)),
    "objects": np.array([object()] * D),
    "huge": GOOD * 1e160,
    "loud": GOOD * 1e9,
    "list of text": ["x"] * D,
}
LIES: list[tuple[str, str, Any]] = [
    *(("loss", kind, value) for kind, value in NUMBERS.items()),
    *(("num_examples", kind, value) for kind, value in NUMBERS.items()),
    ("num_examples", "half", 0.5),
    ("num_examples", "zero", 0),
    *(("gradient", kind, value) for kind, value in VECTORS.items()),
    *(("update", kind, value) for kind, value in VECTORS.items()),
    *(("threshold", kind, NUMBERS[kind]) for kind in ("list", "text", "infinite", "complex")),
    ("buffers", "list", [1.0]),
    ("buffers", "complex", {"mean": GOOD * 1j}),
    ("buffers", "negative", {"0.running_var": -GOOD}),
]


@pytest.mark.claim("23.24")
def test_every_malformed_reply_is_refused_by_name_and_stops_nobody() -> None:
    assert len(LIES) >= 40
    world = HuberWorld(1, parties=5)
    for name, kind, value in LIES:
        lie = world.parties().replace("p2", answer=lambda a, n=name, v=value: a | {n: v})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run = train(
                lie, SafeStep(world.delta), step_size=5.0 / world.H, fraction=0.5, convex=True,
                rounds=200, random_state=0,
            )  # fmt: skip
        why = run.refused["p2"][0]
        assert name.replace("_", "-").rstrip("s") in why, (name, kind, why)
        assert len(why) <= 300
        assert run.status == "converged", (name, kind)
        assert run.left == {}
        assert list(run.set_aside) == ["p2"]
        assert "p2 is set aside since round" in run.summary()
        assert run.final_losses.drop("p2").max() <= world.eps + 2 * world.delta


@pytest.mark.claim("23.25")
def test_one_loud_party_does_little() -> None:
    world = HuberWorld(4)
    for size in (1e160, 1e4):
        loud = world.parties().replace("p3", answer=lambda a, s=size: a | {"gradient": GOOD * s})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run = train(
                loud, SafeStep(world.delta), step_size=5.0 / world.H, fraction=0.5, convex=True,
                random_state=0,
            )  # fmt: skip
        assert run.status == "converged"
        assert (run.final_losses.drop("p3") - world.eps).max() <= 2.0 * world.delta
        assert run.left == {}


@pytest.mark.claim("23.25")
def test_a_liar_that_blocks_is_named_and_loses_its_veto() -> None:
    """It claims to stand at its margin, with the gradient that everybody else wants to follow."""
    world = HuberWorld(4)

    def blocked(veto: int | None) -> Any:
        parties, now = world.parties(), [world.w0]
        function = parties.model.function

        def watch(w: Any, *rest: Any) -> Any:
            now[0] = w
            return function(w, *rest)

        def at_its_margin(answer: dict[str, Any]) -> dict[str, Any]:
            others = np.delete(world.rows, 5, axis=0)
            pull = sum(a.T @ np.clip(a @ now[0], -1, 1) for a in others) / 32
            return answer | {"loss": world.eps + world.delta, "gradient": pull}

        parties.model.function = watch
        return train(
            parties.replace("p5", answer=at_its_margin), SafeStep(world.delta),
            step_size=5.0 / world.H, convex=True, rounds=400, trust=Trust(veto=veto),
        )  # fmt: skip

    freed, kept = blocked(20), blocked(None)
    assert "p5 blocked 20 rounds; it is no longer protected." in freed.summary()
    assert freed.guarantee == "proved (convex), except p5"
    assert len(freed.rounds) <= 60
    assert (freed.final_losses.drop("p5") - world.eps).max() <= 2.0 * world.delta
    assert (kept.final_losses.drop("p5") - world.eps).max() > 10.0 * world.delta


@pytest.mark.claim("23.25")
def test_a_negative_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="loss"):
        read_answer({"loss": -1e9, "gradient": GOOD}, GOOD, 0.1, Trust())


@pytest.mark.claim("23.28")
def test_answers_that_cannot_be_used_are_not_silence() -> None:
    world = HuberWorld(0, parties=3)
    parties = world.parties()
    for name in parties.data:
        parties = parties.replace(name, answer=lambda a: a | {"loss": "no"})
    run = train(parties, SafeStep(world.delta), step_size=1.0, convex=True)
    assert run.status == "no_usable_answer"
    assert all("loss must be a number" in reasons[0] for reasons in run.refused.values())
    assert "p1: round 3: unusable reply: loss must be a number" in run.summary()
    silent = world.parties()
    for name in silent.data:
        silent = silent.replace(name, answer=lambda a: "no reply")  # type: ignore[arg-type]
    gone = train(silent, SafeStep(world.delta), step_size=1.0, convex=True, max_silent_rounds=4)
    assert gone.status == "unreachable"
    assert len(gone.rounds) == 4


def test_statistics_are_averaged_by_rows_and_nobody_counts_without_bound() -> None:
    def sent(rows: int, value: float, count: int) -> Answer:
        buffers = {"mean": np.full(2, value), "count": np.array(count)}
        return Answer(1.0, GOOD, rows=rows, buffers=buffers)

    found = averaged_buffers([sent(1, 1.0, 3), sent(3, 5.0, 2)])
    assert found["mean"].tolist() == [4.0, 4.0]
    assert found["count"] == 3
    some = [sent(10, 0.0, 1), sent(10, 0.0, 1), sent(2**50, 7.0, 1)]
    assert averaged_buffers(some, clip=5.0)["mean"].tolist() == [5.0, 5.0]  # 50 of 70 rows
    odd = Answer(1.0, GOOD, buffers={"mean": np.ones(3), "other": np.ones(1)})
    assert averaged_buffers([*some, odd], clip=5.0).keys() == {"mean", "count"}
    assert averaged_buffers([]) == {}


def test_statistics_stay_near_what_honest_parties_see() -> None:
    """Momentum 0.1, a mean of 1, from 0: honest parties balance the liar at a fixed distance."""
    for parties in (3, 4, 8):
        buffers = Buffers(clip=5.0, now={"mean": np.zeros(2), "count": np.array(0)})
        worst = 0.0
        for _ in range(300):
            own = 0.9 * buffers.now["mean"] + 0.1
            true = {"mean": own, "count": buffers.now["count"] + 1}
            lie = {"mean": np.full(2, 1e99), "count": np.array(2**62)}
            sent = [lie] + [true] * (parties - 1)
            buffers.take([Answer(1.0, GOOD, rows=10, buffers=b) for b in sent])
            worst = max(worst, float(np.abs(buffers.now["mean"] - 1.0).max()))
        limit = 5.0 / (parties - 1)  # clip * first change / (momentum * honest parties)
        assert worst <= max(1.0, limit) + 1e-9
        assert np.abs(buffers.now["mean"] - 1.0).max() <= limit + 1e-9
        assert buffers.now["count"] == 5 * 300


def test_honest_statistics_are_the_mean_by_rows_to_the_last_digit() -> None:
    rng = np.random.default_rng(0)
    buffers = Buffers(clip=5.0, now={"mean": np.zeros(3)})
    for _ in range(20):
        sent = [rng.normal(size=3) for _ in range(4)]
        rows = [5, 7, 11, 20]
        buffers.take([Answer(1.0, GOOD, rows=r, buffers={"mean": b}) for r, b in zip(rows, sent)])
        assert np.array_equal(buffers.now["mean"], np.average(sent, axis=0, weights=rows))


@pytest.mark.claim("23.26")
def test_the_largest_distance_is_that_of_a_party_that_left() -> None:
    """The construction on which averaging fails: the last loss of the one who left is 15/16."""
    from counterplay.defection import instances
    from counterplay.federated import CallableObjective, LocalParties

    c = instances.uniform_fails_family(alpha=4.0, eps=1 / 16)

    def own(w: Any, rows: Any, labels: Any, weights: Any) -> tuple[float, Any]:
        m = int(rows[0, 0])
        return float(c.problem.losses(w)[m]), c.problem.gradients(w, np.array([m]))[0]

    data = {f"p{m}": (np.array([[float(m)]]), [0]) for m in range(2)}
    parties = LocalParties(CallableObjective(2, own, start=c.w0), data, threshold=1 / 16)
    run = train(parties, FedAvg(), step_size=0.125, rounds=400)
    worst = run.final_losses.idxmax()
    assert run.final_losses[worst] > 0.5
    assert worst in run.left
    gap = run.final_losses[worst] - 1 / 16
    told = f"Largest distance to a target: {gap:.4g} ({worst}, who left in round"
    assert told in run.summary()
