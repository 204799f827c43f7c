"""The watchdog: both kinds, both granularities, resets, nobody left."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from counterplay.errors import AssumptionWarning, InvalidInputError, ProtocolError
from counterplay.tradeoff import CusumOracle
from counterplay.tradeoff.lab import burst_threshold, cusum


def by_definition(
    l2: np.ndarray, c: float, thr: float, resets: list[int], B: int, epoch: bool
) -> np.ndarray:
    """Activity straight from the text: first hitting times within every segment."""
    T, K = l2.shape
    active = np.ones((T, K), dtype=bool)
    for start, end in zip(resets, [*resets[1:], T]):
        levels = cusum(l2[start:end], c) > thr + 1e-9 * max(1, thr)
        for h in range(K):
            hits = np.flatnonzero(levels[:, h])
            if hits.size:
                off = start + int(hits[0]) + 1
                off = -(-off // B) * B if epoch else off
                active[off:end, h] = False
    return active


@pytest.mark.claim("09.05")
@pytest.mark.parametrize("epoch", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_judge_and_stream_follow_the_definition(seed: int, epoch: bool) -> None:
    rng = np.random.default_rng(seed)
    T, K, c, B = 240, 5, 0.4, 10
    l2 = rng.random((T, K))
    l2[:, 0] = np.minimum(l2[:, 0], c)  # somebody always behaves
    resets = [0, 60, 150] if seed % 3 else [0]
    oracle = CusumOracle(
        c, 4.0 + seed, resets=resets, granularity="epoch" if epoch else "round",
        on_empty="least_bad",
    )  # fmt: skip
    expected = by_definition(l2, c, 4.0 + seed, resets, B, epoch)
    run = oracle.judge(l2, B=B)
    assert np.array_equal(run.active, expected)
    assert run.resets == tuple(resets)
    streaming = oracle.clone().start(K, T, B=B)
    for t in range(T):
        assert np.array_equal(streaming.active, expected[t])
        streaming.observe(l2[t])
    assert [tuple(vars(e).values()) for e in run.events] == streaming.events


def test_events_name_expert_interval_and_excess() -> None:
    l2 = np.full((100, 2), 0.1)
    l2[40:60, 1] = 0.6
    (event,) = CusumOracle(0.1, 3.9).judge(l2).events
    assert (event.round, event.expert, event.start, event.off_from) == (47, 1, 40, 48)
    assert event.excess == pytest.approx(4.0)
    frame = CusumOracle(0.1, 3.9).judge(l2).to_frame()
    assert frame.loc[0, "off_from"] == 48


def test_violation_right_before_a_reset_has_no_effect() -> None:
    l2 = np.full((20, 2), 0.5)
    l2[5:10, 0] = 1.0  # exceeds 2.4 in round 9, the last one before the reset
    run = CusumOracle(0.5, 2.4, resets=[0, 10]).judge(l2)
    assert run.active.all()
    assert run.events == ()
    never = CusumOracle(0.5, 2.4).judge(l2)
    assert never.active[:, 0].sum() == 10


def test_interval_does_not_reach_back_behind_a_reset() -> None:
    l2 = np.full((40, 2), 0.5)
    l2[15:25, 0] = 1.0
    assert CusumOracle(0.5, 3.0, resets=[0, 20]).judge(l2).active.all()
    assert not CusumOracle(0.5, 3.0).judge(l2).active.all()


def test_nobody_left() -> None:
    l2 = np.ones((30, 3))
    l2[:, 1] = 0.9
    with pytest.raises(InvalidInputError, match="round 5: every expert is deactivated; raise"):
        CusumOracle(0.5, 1.7).judge(l2)
    with pytest.warns(AssumptionWarning, match="least bad"):
        run = CusumOracle(0.5, 1.7, on_empty="least_bad").judge(l2)
    assert run.active[10:].tolist() == [[False, True, False]] * 20
    stream = CusumOracle(0.5, 1.7, on_empty="least_bad").start(3, 30)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for t, row in enumerate(l2):
            assert np.array_equal(stream.active, run.active[t])
            stream.observe(row)
    assert len(caught) == 1


def test_last_round_may_switch_everybody_off() -> None:
    l2 = np.full((4, 1), 1.0)
    run = CusumOracle(0.5, 1.9).judge(l2)
    assert run.active.all()
    assert run.events[0].off_from == 4


def test_named_and_periodic_resets() -> None:
    assert CusumOracle(0.1, 1, resets="weekly").judge(np.zeros((20, 1))).resets == (0, 7, 14)
    assert CusumOracle(0.1, 1, resets=8).judge(np.zeros((20, 1))).resets == (0, 8, 16)
    quarterly = CusumOracle(0.1, 1, resets="quarterly").judge(np.zeros((200, 1)))
    assert quarterly.resets == (0, 91, 182)


def test_resets_are_rounded_up_to_epochs_with_a_warning() -> None:
    oracle = CusumOracle(0.1, 1, resets=[0, 11, 20])
    with pytest.warns(AssumptionWarning, match="11 to 15"):
        assert oracle.judge(np.zeros((40, 1)), B=5).resets == (0, 15, 20)


def test_state_of_a_running_watchdog_survives() -> None:
    rng = np.random.default_rng(0)
    l2 = rng.random((100, 4))
    l2[:, 0] = 0.3
    first = CusumOracle(0.4, 3.0, resets=50).start(4, 100)
    for row in l2[:30]:
        first.observe(row)
    second = CusumOracle.from_json(first.to_json())
    for row in l2[30:]:
        assert np.array_equal(first.observe(row), second.observe(row))
    assert first.events == second.events


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"c": 1.2, "threshold": 1}, "c must be in"),
        ({"c": 0.1, "threshold": -1}, "threshold"),
        ({"c": 0.1, "threshold": 1, "resets": [1, 5]}, "start with round 0"),
        ({"c": 0.1, "threshold": 1, "resets": [0, 9, 5]}, "strictly increasing"),
        ({"c": 0.1, "threshold": 1, "resets": [0, 5, 5]}, "strictly increasing"),
        ({"c": 0.1, "threshold": 1, "resets": "daily"}, "resets"),
        ({"c": 0.1, "threshold": 1, "resets": 0}, "resets"),
        ({"c": 0.1, "threshold": 1, "granularity": "year"}, "granularity"),
        ({"c": 0.1, "threshold": 1, "on_empty": "ignore"}, "on_empty"),
    ],
)
def test_bad_parameters_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        CusumOracle(**arguments)  # type: ignore[arg-type]  # deliberately wrong


def test_bad_streams_are_refused() -> None:
    oracle = CusumOracle(0.1, 1)
    with pytest.raises(ProtocolError, match="call start"):
        oracle.observe([0.1])
    oracle.start(1, 1)
    with pytest.raises(InvalidInputError, match="shape"):
        oracle.observe([0.1, 0.2])
    with pytest.raises(InvalidInputError, match=r"is 1\.20"):
        oracle.observe([1.2])
    oracle.observe([0.0])
    with pytest.raises(ProtocolError, match="rounds are over"):
        oracle.observe([0.0])


def test_threshold_from_the_assumption() -> None:
    assert burst_threshold(400, 0.5, 0.5) == 10.0
