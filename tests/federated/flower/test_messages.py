"""No reply stops a federation: what cannot be used is refused, with a reason."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict

from counterplay.defection import instances
from counterplay.errors import InvalidInputError
from counterplay.federated import ADAGD, FedAvg, LocalWork, SafeStep, Trust
from counterplay.federated.flower import InProcessGrid, RuleStrategy, report
from federated.flower.flower_world import model, problem_app, start_from

D, PARTIES, EPS, DELTA = 10, 4, 0.1, 0.05


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logging.getLogger("flwr").setLevel(logging.ERROR)


def metric(**changes: Any) -> Callable[[Message], Message]:
    """A good reply with other metrics; None leaves one out."""

    def answer(message: Message) -> Message:
        values = {"loss": 1.0, "num-examples": 5, "threshold": EPS, "loss-se": 0.0}
        values |= {key.replace("_", "-"): value for key, value in changes.items()}
        good = {key: value for key, value in values.items() if value is not None}
        return reply(message, Array(np.ones(D)), metrics=MetricRecord(good))

    return answer


def reply(message: Message, gradient: Any, update: Any = None, metrics: Any = None) -> Message:
    good = MetricRecord({"loss": 1.0, "num-examples": 5, "threshold": EPS})
    content = RecordDict({"anchor": ArrayRecord({"0": gradient}), "metrics": metrics or good})
    if update is not None:
        content["update"] = ArrayRecord({"0": update})
    return Message(content, reply_to=message)


def arrays(gradient: Any, update: Any = None) -> Callable[[Message], Message]:
    return lambda message: reply(message, gradient, update)


def raw(data: bytes, stype: str = "numpy.ndarray", shape: tuple[int, ...] = (D,)) -> Array:
    return Array(dtype="float64", shape=shape, stype=stype, data=data)


def one(value: float) -> Array:
    """Ones, but for one entry."""
    return Array(np.concatenate([[value], np.ones(D - 1)]))


def record(**content: Any) -> Callable[[Message], Message]:
    return lambda message: Message(RecordDict(content), reply_to=message)


GOOD = ArrayRecord({"0": Array(np.ones(D))})
MALFORMED: dict[str, tuple[Callable[[Message], Message], str]] = {
    "loss list": (metric(loss=[1.0, 2.0]), "loss must be a number"),
    "loss nan": (metric(loss=float("nan")), "loss"),
    "loss inf": (metric(loss=float("inf")), "loss"),
    "loss negative": (metric(loss=-1e9), "loss"),
    "loss huge": (metric(loss=1e300), "loss"),
    "loss missing": (metric(loss=None), "loss"),
    "rows nan": (metric(num_examples=float("nan")), "num-examples"),
    "rows list": (metric(num_examples=[5, 5]), "num-examples"),
    "rows negative": (metric(num_examples=-5), "num-examples"),
    "rows zero": (metric(num_examples=0), "num-examples"),
    "rows half": (metric(num_examples=0.5), "num-examples"),
    "rows huge": (metric(num_examples=10**400), "num-examples|OverflowError"),
    "target nan": (metric(threshold=float("nan")), "threshold"),
    "target list": (metric(threshold=[0.1]), "threshold"),
    "target negative": (metric(threshold=-1.0), "threshold"),
    "target huge": (metric(threshold=1e200), "threshold"),
    "error nan": (metric(loss_se=float("nan")), "loss-se"),
    "error huge": (metric(loss_se=1e200), "loss-se"),
    "gradient text": (arrays(Array(np.array(["a"] * D))), "'0' holds <U1"),
    "gradient complex": (arrays(Array(np.full(D, 1j))), "'0' holds complex128"),
    "gradient bool": (arrays(Array(np.ones(D, dtype=bool))), "'0' holds bool"),
    "gradient nan": (arrays(one(np.nan)), "not finite"),
    "gradient shape": (arrays(Array(np.ones((2, D)))), "shape"),
    "gradient empty": (arrays(Array(np.ones(0))), "shape"),
    "gradient number": (arrays(Array(np.array(1.0))), "shape"),
    "gradient bytes": (arrays(raw(b"garbage")), "ValueError"),
    "gradient no bytes": (arrays(raw(b"")), "EOFError"),
    "gradient stype": (arrays(raw(b"xx", "pickle")), "stype|serialization|TypeError"),
    "gradient long": (arrays(one(1e160)), "beyond 1e\\+100"),
    "gradient longer": (arrays(one(-1e308)), "beyond 1e\\+100"),
    "gradient far": (arrays(one(1e20)), "its gradient is 1e\\+20 long"),
    "update long": (arrays(one(1.0), one(1e308)), "beyond 1e\\+100"),
    "update far": (arrays(one(1.0), one(1e20)), "its update is 1e\\+20 long"),
    "update nan": (arrays(one(1.0), one(np.nan)), "update has a value that is not finite"),
    "update complex": (arrays(one(1.0), Array(np.full(D, 1j))), "complex128"),
    "update shape": (arrays(one(1.0), Array(np.ones(3))), "shape"),
    "no record": (record(), "needs a metric 'loss'"),
    "no gradient": (record(metrics=MetricRecord({"loss": 1.0})), "needs a metric 'loss'"),
    "no metrics": (record(anchor=GOOD), "needs a metric 'loss'"),
    "config for metrics": (record(anchor=GOOD, metrics=ConfigRecord({"loss": 1.0})), "needs"),
}


def with_liar(answer: Callable[[Message], Message]) -> Any:
    """Four honest parties, and a fifth one that always answers like this."""
    c = instances.random_overparameterised(M=PARTIES, n=2, d=D, eps=EPS, random_state=3)
    honest = problem_app(c.problem)

    def client(message: Message, context: Context) -> Message:
        return answer(message) if context.node_id == 1 else honest(message, context)

    grid = InProcessGrid(
        client,
        PARTIES + 1,
        node_config=[{"partition-id": i - 1, "threshold": EPS} for i in range(PARTIES + 1)],
    )
    return c, grid


@pytest.mark.parametrize("kind", MALFORMED)
def test_a_malformed_reply_is_refused_and_the_others_go_on(kind: str) -> None:
    answer, words = MALFORMED[kind]
    c, grid = with_liar(answer)
    update = kind.startswith("update")
    strategy = RuleStrategy(
        SafeStep(DELTA), step_size=1.0 / c.problem.H, work=LocalWork(2 if update else 1)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = strategy.start(grid, start_from(c.w0), num_rounds=400)
    assert strategy.status_ == "converged"
    assert (c.problem.losses(result.arrays["0"].numpy()) <= EPS + 2 * DELTA + 1e-12).all()
    frame = strategy.history_.to_frame()
    refused = frame.loc[frame["node"] == 1, "event"]
    assert refused.str.match(f"unusable reply: .*({words})").all(), refused.iloc[0]
    assert refused.str.len().max() <= 220
    assert (frame.loc[frame["node"] > 1, "event"] == "").all()
    assert len(strategy.history_.dropped) == 1
    assert strategy.history_.left == {}


@pytest.mark.parametrize("rule", [SafeStep(0.01, cap="step_size"), ADAGD(0.01), FedAvg()])
@pytest.mark.parametrize("size", [1e7, 1e20, 1e160])
def test_one_of_two_parties_cannot_outshout_the_other(rule: Any, size: float) -> None:
    """The honest party ends where it ends alone, whatever the other one shouts."""

    def honest(message: Message) -> Message:
        w = model(message)
        return report(message, loss=float(w @ w) / 2, gradient=[w], threshold=0.01)

    def client(message: Message, context: Context) -> Message:
        if context.node_id == 1:
            return honest(message)
        return report(message, loss=1.0, gradient=[np.full(2, size)], threshold=0.01)

    ends = []
    for parties, app in ((2, client), (1, lambda message, context: honest(message))):
        strategy = RuleStrategy(rule, step_size=0.3, min_available_nodes=1)
        grid = InProcessGrid(app, parties)
        result = strategy.start(grid, start_from([3.0, 1.0]), num_rounds=12)
        ends.append(result.arrays["0"].numpy().tolist())
    assert ends[0] == ends[1]
    assert np.linalg.norm(ends[0]) < 2.5  # from 3.2


def test_long_gradients_of_everybody_are_believed() -> None:
    """The measure is what the others send, so large losses are no lies."""
    scale = 1e9

    def client(message: Message, context: Context) -> Message:
        w = model(message)
        return report(message, loss=scale * float(w @ w), gradient=[2 * scale * w], threshold=1.0)

    strategy = RuleStrategy(FedAvg(), step_size=0.25 / scale, trust=Trust(loss_range=(0.0, 1e12)))
    result = strategy.start(InProcessGrid(client, 3), start_from([4.0, 0.0]), num_rounds=2)
    assert result.arrays["0"].numpy().tolist() == [1.0, 0.0]  # halved twice
    assert strategy.history_.dropped == {}
    strict = RuleStrategy(FedAvg(), step_size=0.25 / scale)
    strict.start(InProcessGrid(client, 3), start_from([4.0, 0.0]), num_rounds=2)
    assert "loss must be in [0,1e+06]" in strict.history_.to_frame()["event"][0]
    with pytest.raises(InvalidInputError, match="loss_range must rise"):
        RuleStrategy(FedAvg(), step_size=1.0, trust=Trust(loss_range=(1.0, 1.0)))


@pytest.mark.parametrize(
    "metrics",
    [
        {"loss": 9.0},
        {"loss": 9.0, "num-examples": [1, 2]},
        {"loss": 9.0, "num-examples": float("nan")},
        {"loss": 9.0, "num-examples": -1},
        {"loss": float("nan"), "num-examples": 2},
        {"num-examples": 2, "recall": [1.0, float("inf")]},
        None,
    ],
)
def test_a_malformed_evaluation_is_left_out(metrics: dict[str, Any] | None) -> None:
    c, grid = with_liar(lambda message: Message(RecordDict(), reply_to=message))
    honest = grid.client

    def client(message: Message, context: Context) -> Message:
        if message.metadata.message_type == "train":
            return honest(message, context)
        party = context.node_id - 1
        good = {"loss": float(party), "num-examples": party, "recall": [1.0] * party}
        own = metrics if party == 0 else good
        records = {} if own is None else {"metrics": MetricRecord(own)}
        return Message(RecordDict(records), reply_to=message)  # type: ignore[arg-type]

    grid.client = client
    strategy = RuleStrategy(SafeStep(DELTA, cap="step_size"), step_size=0.1, fraction_evaluate=1.0)
    result = strategy.start(grid, start_from(c.w0), num_rounds=2)
    told = result.evaluate_metrics_clientapp[2]
    assert told["loss"] == pytest.approx((1 + 4 + 9 + 16) / 10)  # weighted by the number of rows
    assert "recall" not in told  # lists of different lengths have no average


def test_a_first_answer_about_other_arrays_does_not_shut_the_others_out() -> None:
    """Party 1 alone answers first, with a gradient of an array that is not trained."""

    def client(message: Message, context: Context) -> Message:
        w = model(message)
        if context.node_id == 1:
            return report(message, loss=1.0, gradient={"1": np.zeros(1)}, threshold=0.01)
        return report(message, loss=float(w @ w) / 2, gradient={"0": w}, threshold=0.01)

    grid = InProcessGrid(client, 3)
    grid.offline = {2, 3}
    strategy = RuleStrategy(SafeStep(0.01), step_size=0.5)

    def back(server_round: int, arrays: ArrayRecord) -> None:
        grid.offline = set() if server_round else {2, 3}

    start = ArrayRecord([np.array([2.0]), np.zeros(1)])
    result = strategy.start(grid, start, num_rounds=30, evaluate_fn=back)
    assert strategy.status_ == "converged"
    assert result.arrays["0"].numpy()[0] ** 2 / 2 <= 0.03 + 1e-12
    events = strategy.history_.to_frame().query("node == 1")["event"].tolist()
    assert events[0] == ""
    assert all("'1' is not wanted" in event for event in events[1:])


def linear(message: Message, context: Context, *, ordinary: bool) -> Message:
    """A party with a quadratic loss of two arrays, which answers with gradients or its model."""
    arrays: Any = message.content["arrays"]
    own = {key: arrays[key].numpy() for key in arrays}
    gaps = {key: value - 0.1 * context.node_id for key, value in own.items()}
    loss = float(sum((gap @ gap) / 2 for gap in gaps.values()))
    if message.metadata.message_type == "evaluate":
        told = MetricRecord({"loss": loss, "num-examples": 5})
        return Message(RecordDict({"metrics": told}), reply_to=message)
    if not ordinary:
        return report(message, loss=loss, gradient=gaps, threshold=0.001)
    trained = ArrayRecord({key: Array(own[key] - 0.2 * gap) for key, gap in gaps.items()})
    told = MetricRecord({"num-examples": 5})
    return Message(RecordDict({"arrays": trained, "metrics": told}), reply_to=message)


def test_an_answer_without_a_loss_does_not_stop_a_rule_that_looks_at_losses() -> None:
    def client(message: Message, context: Context) -> Message:
        return linear(message, context, ordinary=context.node_id == 3)

    start = ArrayRecord({"a": Array(np.full(3, 2.0)), "b": Array(np.full(1, 2.0))})
    strategy = RuleStrategy(FedAvg("polyak"), step_size=1.0)
    result = strategy.start(InProcessGrid(client, 3), start, num_rounds=5)
    assert np.abs(result.arrays["a"].numpy() - 0.15).max() < 0.1  # the optimum of the other two
    assert all("FedAvg needs the loss" in why for why in strategy.history_.refused["node 3"])


def test_averaging_is_flowers_own_where_rows_are_equal() -> None:
    from flwr.serverapp.strategy import FedAvg as FlowersOwn

    def client(message: Message, context: Context) -> Message:
        return linear(message, context, ordinary=True)

    start = ArrayRecord({"a": Array(np.full(3, 2.0)), "b": Array(np.full(1, 2.0))})
    strategies = FlowersOwn(fraction_evaluate=0.0), RuleStrategy(FedAvg(), step_size=0.7)
    models = [s.start(InProcessGrid(client, 4), start, num_rounds=5).arrays for s in strategies]
    for key in start:
        gap = models[0][key].numpy() - models[1][key].numpy()
        assert np.abs(gap).max() <= 1e-15


@pytest.mark.parametrize("rule", [SafeStep(0.05, cap="step_size"), ADAGD(0.05), FedAvg()])
@pytest.mark.parametrize(("ordinary", "first", "share"), [
    (True, 1, 1.0), (True, 3, 1.0), (False, 2, 0.25),
])  # fmt: skip
def test_one_party_does_not_decide_what_is_trained(
    rule: Any, ordinary: bool, first: int, share: float
) -> None:
    """Party 4 sends a gradient of the small array only; it may be the only one asked."""

    def client(message: Message, context: Context) -> Message:
        config: Any = message.content["config"]
        if context.node_id == 4 and config["server-round"] >= first:
            return report(message, loss=9.0, gradient={"b": np.ones(1)}, threshold=0.001)
        return linear(message, context, ordinary=ordinary)

    start = ArrayRecord({"a": Array(np.full(3, 2.0)), "b": Array(np.full(1, 2.0))})
    strategy = RuleStrategy(
        rule, step_size=0.2, threshold=0.001, fraction_train=share, min_train_nodes=1
    )
    result = strategy.start(InProcessGrid(client, 4), start, num_rounds=12)
    assert all(np.abs(result.arrays[key].numpy() - 2.0).max() > 0.1 for key in start)
    (reasons,) = strategy.history_.refused.values()
    assert all("there is no array 'a'" in why for why in reasons)


@pytest.mark.parametrize("name", ["[/x]", "$x_{$", "_site", "a\nb\x1b[31m", "", "\x00", "x" * 300])
def test_a_name_steers_neither_the_terminal_nor_the_picture(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def client(message: Message, context: Context) -> Message:
        w = model(message)
        own = name if context.node_id == 1 else None
        if context.node_id == 2:
            raise ValueError(f"no rows {name}")
        return report(message, loss=float(w @ w) / 2, gradient=[w], threshold=0.01, name=own)

    strategy = RuleStrategy(SafeStep(0.01), step_size=0.5, verbose=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        strategy.start(InProcessGrid(client, 3), start_from([2.0]), num_rounds=3)
        strategy.history_.plot().figure.savefig(io.BytesIO())  # type: ignore[union-attr]
    assert "above target" in capsys.readouterr().out
    assert strategy.history_.summary().replace("\n", "").isprintable()
    assert set(strategy.history_.to_frame()["party"].str.len()) <= set(range(1, 101))


def test_a_party_that_tells_its_name_later_is_one_party() -> None:
    def client(message: Message, context: Context) -> Message:
        w, r = model(message), message.content["config"]["server-round"]  # type: ignore[call-overload]
        if context.node_id == 1 and r == 1:
            raise ValueError("not ready")
        name = f"site {context.node_id}" + ("" if r < 3 else " again")
        return report(message, loss=float(w @ w) / 2, gradient=[w], threshold=0.01, name=name)

    strategy = RuleStrategy(FedAvg(), step_size=0.1)
    strategy.start(InProcessGrid(client, 2), start_from([2.0]), num_rounds=5)
    assert set(strategy.history_.to_frame()["party"]) == {"site 1", "site 2"}
    text = strategy.history_.summary()
    assert "Dropped: site 1 (1 round)" in text
    assert "Never protected" not in text
    assert "Unknown" not in text
