"""Claims 05.41 and 05.43 to 05.46: the strategies run the rules, and end when they should."""

from __future__ import annotations

import logging
import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Message

from counterplay.defection import (
    FederationGame,
    Server,
    instances,
    play,
)
from counterplay.defection.flower import RationalClient
from counterplay.errors import InvalidInputError
from counterplay.federated import ADAGD, FedAvg, LocalWork, SafeStep
from counterplay.federated.flower import InProcessGrid, RuleStrategy, report
from counterplay.federated.flower.exchange import POLL_SECONDS, exchange
from federated.flower.flower_world import Trajectory, problem_app, problem_grid, start_from

M, DELTA = 4, 0.05


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logging.getLogger("flwr").setLevel(logging.ERROR)


@pytest.fixture(scope="module")
def world() -> Any:
    return instances.random_overparameterised(M=M, n=2, d=10, random_state=3)


def pair(name: str, step_size: float, local_steps: int) -> tuple[Any, RuleStrategy]:
    """The same rule for the NumPy protocol and for Flower."""
    options: dict[str, Any] = {"step_size": step_size, "work": LocalWork(local_steps)}
    if name == "safe step":
        return SafeStep(DELTA), RuleStrategy(SafeStep(DELTA), **options)
    if name == "ada-gd":
        return ADAGD(DELTA), RuleStrategy(ADAGD(DELTA), **options)
    return FedAvg(), RuleStrategy(FedAvg(), **options)


@pytest.mark.claim("05.41")
@pytest.mark.parametrize("local_steps", [1, 5])
@pytest.mark.parametrize(
    ("name", "step_size"), [("safe step", 1.0), ("ada-gd", 0.03), ("fedavg", 1.0)]
)
def test_flower_gives_the_trajectory_of_the_protocol(
    world: Any, name: str, step_size: float, local_steps: int
) -> None:
    rounds = 60
    rule, strategy = pair(name, step_size, local_steps)
    work = LocalWork(local_steps) if local_steps > 1 else None
    run = play(
        Server(rule, world.w0, step_size=step_size),
        FederationGame(world.problem, world.eps, local_work=work, keep_every=1),
        rounds=rounds,
        random_state=0,
    )
    seen, eps = Trajectory(), np.broadcast_to(world.eps, (M,))
    grid = problem_grid(world.problem, eps)
    result = strategy.start(grid, start_from(world.w0), num_rounds=rounds, evaluate_fn=seen)
    ours = run
    assert strategy.status_ == ours.status
    assert ours.models is not None
    assert np.abs(np.array(seen.models[: len(ours.models)]) - ours.models).max() <= 1e-12
    assert np.abs(result.arrays["0"].numpy() - run.w).max() <= 1e-12
    left = {f"site {m}": int(r) for m, r in enumerate(ours.defect_round) if r >= 0}
    assert strategy.history_.left == left
    if name == "fedavg":
        assert left  # averaging loses somebody, so the comparison covers departures


@pytest.mark.slow
@pytest.mark.claim("05.41")
def test_flower_simulation_gives_the_same_model(world: Any) -> None:
    pytest.importorskip("ray")
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    out: dict[str, Any] = {}
    server = ServerApp()

    @server.main()
    def main(grid: Any, context: Any) -> None:
        for name, step_size in (("safe step", 1.0), ("ada-gd", 0.03)):
            strategy = pair(name, step_size, 1)[1]
            strategy.threshold = 0.1
            strategy.min_available_nodes = M
            result = strategy.start(grid, start_from(world.w0), num_rounds=12)
            out[name] = result.arrays["0"].numpy(), strategy.history_

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 2}}
    client = problem_app(world.problem, RationalClient(0.1))
    run_simulation(server, client, num_supernodes=M, backend_config=resources)  # type: ignore[arg-type]
    for name, step_size in (("safe step", 1.0), ("ada-gd", 0.03)):
        rule = pair(name, step_size, 1)[0]
        run = play(
            Server(rule, world.w0, step_size=step_size),
            FederationGame(world.problem, 0.1),
            rounds=12,
        )
        w, history = out[name]
        assert np.abs(w - run.w).max() <= 1e-6
        assert history.left == {}
        assert len(history.rounds[-1].present) == M


@pytest.mark.claim("05.43")
def test_parties_that_leave_are_never_asked_again(world: Any) -> None:
    eps = np.array([0.1, 0.1, 0.1, 1e9])  # the last one is satisfied at once
    grid, asked = problem_grid(world.problem, eps), []

    class Spy(InProcessGrid):
        def push_messages(self, messages: Any) -> list[str]:
            sent = list(messages)
            asked.append([m.metadata.dst_node_id for m in sent])
            assert {m.metadata.group_id for m in sent} == {str(len(asked))}
            assert {m.metadata.ttl for m in sent} == {77.0}  # messages expire with the round
            return super().push_messages(sent)

    grid.__class__ = Spy
    strategy = RuleStrategy(SafeStep(DELTA), step_size=1.0)
    strategy.start(grid, start_from(world.w0), num_rounds=8, timeout=77.0)
    assert asked[0] == [1, 2, 3, 4]
    assert all(nodes == [1, 2, 3] for nodes in asked[1:])
    assert len(asked) >= 3
    assert strategy.history_.left == {"node 4": 1}  # it never told its name


@pytest.mark.claim("05.43")
def test_everybody_left_ends_the_run_and_keeps_the_model(world: Any) -> None:
    grid = problem_grid(world.problem, np.full(M, 1e9))
    strategy = RuleStrategy(FedAvg(), step_size=1.0)
    result = strategy.start(grid, start_from(world.w0), num_rounds=1000)
    assert strategy.status_ == "everybody_left"
    assert len(strategy.history_.rounds) == 1
    assert np.array_equal(result.arrays["0"].numpy(), world.w0)


@pytest.mark.claim("05.43")
def test_converged_and_stalled_runs_stop_early() -> None:
    c = instances.identical_agents()
    strategy = RuleStrategy(ADAGD(0.05), step_size=0.01, verbose=False)
    strategy.start(problem_grid(c.problem, c.eps), start_from(c.w0), num_rounds=5000)
    assert strategy.status_ == "stalled"
    reference = play(Server(ADAGD(0.05), c.w0, step_size=0.01), FederationGame(c.problem, c.eps))
    assert len(strategy.history_.rounds) == len(reference) + 1
    assert strategy.history_.rounds[-1].parallel == ("site 0", "site 1", 0.0)
    assert "site 0 and site 1" in strategy.history_.summary()
    assert "site 0 and site 1" in str(strategy.panel().caption)
    assert strategy.aggregate_train(1, []) == (None, None)  # also for callers of the hooks


@pytest.mark.claim("05.44")
@pytest.mark.parametrize("how", ["silent", "error", "garbage"])
def test_a_dropped_party_costs_one_round_and_may_come_back(world: Any, how: str) -> None:
    grid = problem_grid(world.problem, np.broadcast_to(world.eps, (M,)))
    app, fault = grid.client, {2, 3}

    def client(message: Message, context: Any) -> Message:
        r = int(message.content["config"]["server-round"])  # type: ignore[call-overload, arg-type]
        if context.node_id != 2 or r not in fault or how == "silent":
            return app(message, context)
        if how == "error":
            raise OSError("disk full")
        return report(message, loss=float("nan"), gradient=[np.zeros(10)], threshold=0.1)

    grid.client = client
    strategy = RuleStrategy(SafeStep(DELTA), step_size=0.2)

    def cut(server_round: int, arrays: Any) -> None:
        grid.offline = {2} if how == "silent" and server_round + 1 in fault else set()

    strategy.start(grid, start_from(world.w0), num_rounds=8, evaluate_fn=cut)
    frame = strategy.history_.to_frame()
    events = frame[frame["node"] == 2].set_index("round")["event"].to_dict()
    if how == "silent":
        assert events == {1: "", 2: "no reply", 4: "", 5: "", 6: "", 7: "", 8: ""}  # 3 is spared
    else:
        words = {"error": "error: OSError: disk full", "garbage": "unusable reply"}
        assert all(events[r].startswith(words[how]) for r in fault)
        assert events[4] == ""
    assert strategy.history_.rounds_frame()["present"].tolist()[0] == M
    assert strategy.history_.left == {}
    assert "site 1" in strategy.history_.dropped


@pytest.mark.claim("05.44")
@pytest.mark.parametrize("back", [True, False])
def test_a_run_does_not_converge_without_a_party_that_may_come_back(world: Any, back: bool) -> None:
    eps = np.broadcast_to(world.eps, (M,))
    whole = RuleStrategy(SafeStep(DELTA), step_size=1.0)
    whole.start(problem_grid(world.problem, eps), start_from(world.w0), num_rounds=200)
    last = len(whole.history_.rounds)
    grid = problem_grid(world.problem, eps)
    strategy = RuleStrategy(SafeStep(DELTA), step_size=1.0)

    def cut(server_round: int, arrays: Any) -> None:
        gone = server_round + 1 == last or (not back and server_round + 1 >= last)
        grid.offline = {3} if gone else set()

    strategy.start(grid, start_from(world.w0), num_rounds=200, evaluate_fn=cut)
    assert strategy.status_ == "converged"
    events = strategy.history_.to_frame().query("node == 3 and round >= @last")["event"].tolist()
    if back:
        assert events == ["no reply", ""]  # asked again at once, and within its target too
    else:
        assert events == ["no reply"] * 3  # then the others are not kept waiting any longer
    assert len(strategy.history_.rounds) == last + len(events) - 1


@pytest.mark.claim("05.43")
def test_all_have_left_but_one_that_is_gone(world: Any) -> None:
    grid = problem_grid(world.problem, np.array([1e9, 1e9, 1e9, 0.1]))
    grid.offline = {4}

    def disconnect(server_round: int, arrays: Any) -> None:
        if server_round == 1:
            del grid.contexts[4]

    strategy = RuleStrategy(SafeStep(DELTA, cap="step_size"), step_size=1.0)
    strategy.start(grid, start_from(world.w0), num_rounds=50, evaluate_fn=disconnect)
    assert strategy.status_ == "everybody_left"  # and nobody waited an hour for the last one
    assert len(strategy.history_.rounds) == 1


@pytest.mark.claim("05.44")
def test_nobody_to_be_reached_ends_the_run(world: Any) -> None:
    grid = problem_grid(world.problem, np.broadcast_to(world.eps, (M,)))
    grid.offline = {1, 2, 3, 4}
    strategy = RuleStrategy(SafeStep(DELTA, cap="step_size"), step_size=1.0)
    result = strategy.start(grid, start_from(world.w0), num_rounds=1000)
    assert strategy.status_ == "unreachable"
    assert len(strategy.history_.rounds) == 3
    assert np.array_equal(result.arrays["0"].numpy(), world.w0)
    more = RuleStrategy(SafeStep(DELTA, cap="step_size"), step_size=1.0, min_available_nodes=5)
    more.start(grid, start_from(world.w0), num_rounds=5, timeout=0.05)
    assert more.status_ == "unreachable"
    assert more.history_.rounds == ()
    grid.offline = set()

    def vanish(server_round: int, arrays: Any) -> None:
        if server_round == 2:
            grid.contexts.clear()  # every SuperNode has disconnected

    late = RuleStrategy(SafeStep(DELTA, cap="step_size"), step_size=0.1)
    late.start(grid, start_from(world.w0), num_rounds=9, timeout=0.05, evaluate_fn=vanish)
    assert late.status_ == "unreachable"
    assert len(late.history_.rounds) == 2


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.claim("05.44")
@pytest.mark.parametrize(("offline", "seconds"), [({4}, 0.2), ({2, 3, 4}, 600.0)])
def test_stragglers_get_a_limited_time(
    world: Any, monkeypatch: pytest.MonkeyPatch, offline: set[int], seconds: float
) -> None:
    from counterplay.federated.flower import train_message

    clock = Clock()
    monkeypatch.setattr(sys.modules[exchange.__module__], "time", clock)
    grid = problem_grid(world.problem, np.broadcast_to(world.eps, (M,)))
    grid.offline = offline
    ask = [train_message([world.w0], node, step_size=1.0, local_steps=1) for node in (1, 2, 3, 4)]
    replies = exchange(grid, ask, timeout=600.0, straggler_seconds=0.2)
    assert seconds <= clock.now <= seconds + POLL_SECONDS[1]  # one more look at most
    assert {r.metadata.src_node_id for r in replies} == {1, 2, 3, 4} - offline
    assert exchange(grid, [], 600.0, 0.2) == []


@pytest.mark.claim("05.44")
def test_a_party_that_disconnects_does_not_hurry_the_others(world: Any) -> None:
    """Flower answers for it at once with an error, which is not the first of two answers."""
    import time

    from flwr.app import Error

    class SlowGrid(InProcessGrid):
        """Party 1 is gone; party 2 needs half a second."""

        def push_messages(self, messages: Any) -> list[str]:
            questions = list(messages)
            numbers = super().push_messages(questions)
            error = Message(Error(5, "node unavailable"), reply_to=questions[0])
            error.metadata.__dict__["_src_node_id"] = 999  # the SuperLink itself
            self._replies[numbers[0]] = error
            self.began = time.monotonic()
            return numbers

        def pull_messages(self, message_ids: Any) -> list[Message]:
            late = time.monotonic() > self.began + 0.5
            ready = [i for i in message_ids if i in self._replies]
            return super().pull_messages(i for i in ready if late or self._replies[i].has_error())

    grid = SlowGrid(problem_app(world.problem), 2, node_config=[{"threshold": 0.1}] * 2)
    strategy = RuleStrategy(SafeStep(DELTA, cap="step_size"), step_size=1.0, straggler_seconds=0.01)
    strategy.start(grid, start_from(world.w0), num_rounds=1)
    frame = strategy.history_.to_frame().set_index("node")
    assert frame.loc[2, "event"] == ""
    assert frame.loc[1, "event"] == "error: node unavailable"


@pytest.mark.claim("05.45")
def test_the_last_step_is_certified_or_refused() -> None:
    small = instances.random_overparameterised(M=M, n=2, d=10, delta=1e-4, random_state=1)
    H = small.problem.H
    for delta, sure in ((1e-4, True), (0.3, False)):
        strategy = RuleStrategy(SafeStep(delta), step_size=1.0 / H, smoothness=H)
        grid = problem_grid(small.problem, np.broadcast_to(small.eps, (M,)))
        result = strategy.start(grid, start_from(small.w0), num_rounds=2000)
        assert strategy.status_ == "converged"
        assert strategy.history_.landed is sure
        loss = small.problem.losses(result.arrays["0"].numpy())
        assert bool((loss <= small.eps + 1e-12).all()) is sure
        assert strategy.history_.left == {}


def test_flowers_own_loop_drives_the_hooks(world: Any) -> None:
    from flwr.serverapp.strategy import FedAvg as FlowerFedAvg

    own, driven = (RuleStrategy(SafeStep(DELTA), step_size=1.0) for _ in range(2))
    eps = np.broadcast_to(world.eps, (M,))
    first = own.start(problem_grid(world.problem, eps), start_from(world.w0), num_rounds=200)
    grid = problem_grid(world.problem, eps)
    second = FlowerFedAvg.start(driven, grid, start_from(world.w0), num_rounds=200)
    assert driven.status_ == own.status_ == "converged"
    assert len(driven.history_.rounds) == len(own.history_.rounds)
    assert np.array_equal(first.arrays["0"].numpy(), second.arrays["0"].numpy())


def test_history_panel_and_figure(world: Any, capsys: pytest.CaptureFixture[str]) -> None:
    eps = np.array([0.1, 0.1, 0.1, 1e9])
    strategy = RuleStrategy(SafeStep(DELTA), step_size=1.0, verbose=True)
    result = strategy.start(problem_grid(world.problem, eps), start_from(world.w0), num_rounds=4)
    assert result.train_metrics_clientapp[1]["left"] == 1
    assert result.train_metrics_clientapp[4]["present"] == 3
    text = capsys.readouterr().out
    assert "site 0" in text
    assert "left" in text
    history = strategy.history_
    frame = history.to_frame()
    assert len(frame) == 4 + 3 * 3
    gaps = frame[frame["event"] == ""]
    assert (gaps["gap"] == gaps["loss"] - gaps["threshold"]).all()
    metrics = strategy.panel()
    assert metrics.row_count == 3
    assert history.plot().get_xlabel() == "round"
    assert list(history.rounds_frame()["left"]) == [1, 0, 0, 0]
    assert "Left: node 4 (round 1)" in history.summary()


def test_some_parties_per_round(world: Any) -> None:
    grid = problem_grid(world.problem, np.broadcast_to(world.eps, (M,)))
    strategy = RuleStrategy(
        SafeStep(DELTA, cap="step_size"), step_size=0.1, fraction_train=0.5, min_train_nodes=1
    )
    strategy.start(grid, start_from(world.w0), num_rounds=6)
    assert strategy.history_.rounds_frame()["present"].tolist() == [4, 2, 2, 2, 2, 2]


def test_step_size_schedule_and_threshold_default(world: Any) -> None:
    strategy = RuleStrategy(
        SafeStep(DELTA, cap="step_size"), step_size=lambda r: 1.0 / r, threshold=0.1
    )
    assert [strategy.eta(r) for r in (1, 2, 4)] == [1.0, 0.5, 0.25]
    mute = RationalClient(0.1, tell=False)
    grid = problem_grid(world.problem, np.full(M, 0.1), mute)
    strategy.start(grid, start_from(world.w0), num_rounds=2)
    assert set(strategy.history_.to_frame()["threshold"]) == {0.1}
    lost = RuleStrategy(SafeStep(DELTA, cap="step_size"), step_size=1.0)
    lost.start(grid, start_from(world.w0), num_rounds=2)
    assert "no threshold" in lost.history_.to_frame()["event"][0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: RuleStrategy(SafeStep(0.0, cap="step_size"), step_size=1.0),
        lambda: RuleStrategy(SafeStep(0.1, cap="step_size"), step_size=0.0),
        lambda: RuleStrategy(ADAGD(-0.1), step_size=1.0),
        lambda: RuleStrategy(ADAGD(0.1, variant="best"), step_size=1.0),  # type: ignore[arg-type]
        lambda: RuleStrategy("fedavg", step_size=1.0),  # type: ignore[arg-type]
        lambda: RuleStrategy(SafeStep(0.1, cap="step_size"), step_size=1.0, threshold=-1.0),
        lambda: RuleStrategy(SafeStep(0.1, cap="step_size"), step_size=1.0, work=LocalWork(0)),
        lambda: RuleStrategy(SafeStep(0.1, cap="step_size"), step_size=1.0, work=LocalWork(1, 0)),
        lambda: InProcessGrid(print, 0),  # type: ignore[arg-type]
        lambda: RationalClient(-1.0),
        lambda: RationalClient(1.0, behaviour="leave"),  # type: ignore[arg-type]
    ],
)
def test_bad_input(make: Any) -> None:
    with pytest.raises(InvalidInputError):
        make()


@pytest.mark.parametrize("fraction", [0.25, 0.5, 0.75])
def test_converged_means_everybody_was_asked(fraction: float) -> None:
    """Four convex parties, some asked per round: who is left in the end is within its target."""
    converged = 0
    for seed in range(8):
        c = instances.random_overparameterised(M=M, n=2, d=10, random_state=seed)
        eps = np.broadcast_to(c.eps, (M,))
        options: dict[str, Any] = {"fraction_train": fraction, "min_train_nodes": 1, "seed": seed}
        strategy = RuleStrategy(SafeStep(DELTA), step_size=1.0 / c.problem.H, **options)
        result = strategy.start(problem_grid(c.problem, eps), start_from(c.w0), num_rounds=400)
        if strategy.status_ != "converged":
            continue
        converged += 1
        history = strategy.history_
        left = {int(gone) - 1 for gone in history.to_frame().query("event == 'left'")["node"]}
        stayed = [m for m in range(M) if m not in left]
        excess = (c.problem.losses(result.arrays["0"].numpy()) - eps)[stayed]
        assert excess.max() <= 2 * DELTA + 1e-12
        assert {p.node - 1 for p in history.rounds[-1].present} == set(stayed)
    assert converged >= 6


def test_a_stall_is_said_only_where_everybody_has_answered() -> None:
    """Two of three parties pull in opposite directions, and the third one cannot be reached."""
    goals = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 3.0]])

    def client(message: Message, context: Any) -> Message:
        w = message.content["arrays"]["0"].numpy()  # type: ignore[union-attr]
        away = w - goals[context.node_config["partition-id"]]
        return report(message, loss=float(away @ away) / 2, gradient=[away], threshold=0.001)

    for seed in range(4):
        options: dict[str, Any] = {"fraction_train": 0.6, "min_train_nodes": 1, "seed": seed}
        strategy = RuleStrategy(SafeStep(0.001), step_size=0.5, convex=True, **options)
        result = strategy.start(InProcessGrid(client, 3), start_from([0.0, 0.0]), num_rounds=400)
        assert strategy.status_ == "stalled"
        assert len(strategy.history_.rounds[-1].present) == 3
        centre = goals.mean(axis=0)  # where the mean of the gradients vanishes
        assert result.arrays["0"].numpy() == pytest.approx(centre, abs=1e-6)


def test_who_is_asked_follows_from_the_seed(world: Any) -> None:
    import random

    def asked(seed: int, state: int) -> list[list[int]]:
        random.seed(state)
        np.random.seed(state)  # noqa: NPY002  # the global generator must not matter
        grid = problem_grid(world.problem, np.broadcast_to(world.eps, (M,)))
        options: dict[str, Any] = {"fraction_train": 0.5, "min_train_nodes": 1, "seed": seed}
        strategy = RuleStrategy(SafeStep(DELTA, cap="step_size"), step_size=0.05, **options)
        strategy.start(grid, start_from(world.w0), num_rounds=12)
        return [[p.node for p in gauge.parties] for gauge in strategy.history_.rounds]

    assert asked(7, 1) == asked(7, 2)
    assert asked(7, 1) != asked(8, 1)
    assert {node for nodes in asked(7, 1) for node in nodes} == {1, 2, 3, 4}
