"""Hostile replies of one party: the federation goes on without them, and says whose they were."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from .tally import ForgedError, Tried, in_child, judged

D, PARTIES, EPS, DELTA, ROUNDS = 6, 3, 0.1, 0.05, 4
LIAR = 1
_NUMBERS: tuple[Any, ...] = (
    float("nan"), float("inf"), -float("inf"), -1e9, 1e300, -1.0, 0, 1, -1, 10**400, 2**63, 0.5,
    True,
    [], [1.0], [1.0, 2.0], [float("nan")],
)  # fmt: skip


def run(n: int = 500, seed: int = 0) -> list[Tried]:
    """Let one of four parties answer ``n`` federations in a hostile way."""
    import flwr.app  # noqa: F401  # its logger is set up when it is imported

    logging.getLogger("flwr").setLevel(logging.CRITICAL)

    def one(number: int) -> Tried:
        rng = random.Random(f"{seed}/{number}")
        what, answer = hostile(rng)
        return judged("flower reply", what, lambda: _federation(answer, rng), _check)

    return in_child("flower reply", n, one)


def hostile(rng: random.Random) -> tuple[str, Callable[[Any], Any]]:
    """What is sent, and the function that sends it."""
    from flwr.app import ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict

    good = {"loss": 1.0, "num-examples": 5, "threshold": EPS, "loss-se": 0.0}
    kind = rng.choice(
        ["metric", "gradient", "update", "names", "records", "error", "party", "none"]
    )
    array, told = _array(rng)
    content: dict[str, Any] = {"anchor": {"0": _ones()}, "metrics": dict(good)}
    match kind:
        case "metric":
            key, value = rng.choice([*good, "accuracy"]), rng.choice(_NUMBERS)
            told = f"{key} = {value!r:.30}"
            content["metrics"][key] = value
            if rng.random() < 0.2:
                del content["metrics"][rng.choice(list(content["metrics"]))]
        case "gradient":
            content["anchor"] = {"0": array}
        case "update":
            content["update"] = {"0": array}
        case "names":
            told = rng.choice(["", "1", "0\u0000", "x" * 10_000, "ü"])
            content["anchor"] = {told: array}
            told = told[:20]
        case "records":
            told = rng.choice(["anchor", "metrics", "all"])
            content = {} if told == "all" else {k: v for k, v in content.items() if k != told}
        case "party":
            value = rng.choice([7, 1.5, True, ["a"], "x" * 100_000, "\u0000", b"\xff"])
            told = f"name {value!r:.20}"
            content["party"] = {"name": value, "tied": ["0", "9"], "tied-to": ["0"]}

    def answer(message: Any) -> Any:
        if kind == "error":
            return Message(Error(rng.choice([0, 1, 5, 999]), "x" * 50_000), reply_to=message)
        if kind == "none":
            raise RuntimeError("y" * 50_000)
        records: dict[str, Any] = {}
        for name, part in content.items():
            maker = {"metrics": MetricRecord, "party": ConfigRecord}.get(name, ArrayRecord)
            records[name] = maker(part)
        return Message(RecordDict(records), reply_to=message)

    return f"{kind}: {told}", answer


def _ones() -> Any:
    from flwr.app import Array

    return Array(np.ones(D))


def _array(rng: random.Random) -> tuple[Any, str]:
    from flwr.app import Array

    ones = np.ones(D)
    bad = ones.copy()
    bad[rng.randrange(D)] = rng.choice([np.nan, np.inf, -np.inf, 1e160, -1e308, 1e20, 1e-320])
    data = bytes(rng.randrange(256) for _ in range(rng.randrange(200)))
    choices: list[tuple[Any, str]] = [
        (Array(bad), f"entry {bad[bad != 1]}"),
        (Array(np.full(D, 1j)), "complex"),
        (Array(np.array(["a"] * D)), "text"),
        (Array(ones.astype(bool)), "bool"),
        (Array(ones.astype(np.float16) * np.float16(6e4)), "float16"),
        (Array(np.ones((2, D))), "two rows"),
        (Array(np.ones(0)), "empty"),
        (Array(np.array(1.0)), "one number"),
        (Array(np.ones(rng.randrange(1, 100_000))), "another length"),
        (Array(dtype="float64", shape=(D,), stype="numpy.ndarray", data=data), "random bytes"),
        (Array(dtype="float64", shape=(10**9,), stype="numpy.ndarray", data=b""), "no bytes"),
        (Array(dtype="object", shape=(D,), stype="numpy.ndarray", data=_pickled()), "pickle"),
        (Array(dtype="float64", shape=(D,), stype=rng.choice(["pickle", "", "torch"]), data=data),
         "another stype"),
    ]  # fmt: skip
    return rng.choice(choices)


def _pickled() -> bytes:
    import io

    stream = io.BytesIO()
    np.save(stream, np.array([print, print], dtype=object), allow_pickle=True)
    return stream.getvalue()


def _federation(answer: Callable[[Any], Any], rng: random.Random) -> Any:
    """Three honest parties and a liar, a few rounds with a random rule."""
    from counterplay.defection import instances
    from counterplay.federated import ADAGD, FedAvg, LocalWork, SafeStep
    from counterplay.federated.flower import InProcessGrid, RuleStrategy
    from federated.flower.flower_world import problem_app, start_from

    world = instances.random_overparameterised(M=PARTIES, n=2, d=D, eps=EPS, random_state=3)
    honest = problem_app(world.problem)

    def client(message: Any, context: Any) -> Any:
        return answer(message) if context.node_id == LIAR else honest(message, context)

    nodes: list[dict[str, Any]] = [{"partition-id": 0}]
    nodes += [{"partition-id": m, "threshold": EPS} for m in range(PARTIES)]
    grid = InProcessGrid(client, PARTIES + 1, node_config=nodes)
    rule, step = rng.choice([(SafeStep(DELTA), 0.5), (ADAGD(DELTA), 0.03), (FedAvg(), 0.5)])
    strategy = RuleStrategy(rule, step_size=step, work=LocalWork(rng.choice([1, 3])))
    result = strategy.start(grid, start_from(world.w0), num_rounds=ROUNDS)
    return strategy, result


def _check(found: Any) -> None:
    """The model is finite, the honest parties took part, and who was refused is named."""
    strategy, result = found
    model = result.arrays["0"].numpy()
    if not np.isfinite(model).all():
        raise ForgedError("the model is not finite")
    for gauge in strategy.history_.rounds:
        heard = {party.node for party in gauge.parties if not party.event}
        if not set(range(2, PARTIES + 2)) <= heard:
            raise ForgedError(f"round {gauge.round}: honest parties were not heard")
        for name, reason in gauge.dropped.items():
            if len(name) > 200 or len(reason) > 300:
                raise ForgedError(f"a reason has {len(name)} + {len(reason)} characters")
        said = {party.node: party.event for party in gauge.parties}
        aside = min(strategy.history_.set_aside.values(), default=ROUNDS)
        if LIAR not in heard and not said.get(LIAR) and gauge.round <= aside:
            raise ForgedError(f"round {gauge.round}: nothing says why node {LIAR} is missing")
    if len(strategy.history_.summary()) > 5_000:
        raise ForgedError("the summary is too long")
