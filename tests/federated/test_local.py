"""A federation in this process: the same server as on Flower, and parties that lie."""

from __future__ import annotations

import math
import random
import warnings
from typing import Any

import numpy as np
import pytest

from counterplay.errors import InvalidInputError, UnknownNameError
from counterplay.federated import (
    ADAGD,
    FedAvg,
    LayeredObjective,
    LocalParties,
    LocalWork,
    MWFed,
    SafeStep,
    Trust,
    train,
)

EPS, DELTA, D = 0.3, 0.02, 30
SIZE = 2 * D + 2


def data(parties: int = 5) -> dict[str, Any]:
    """Few rows, many features: everybody can be served at once."""
    rng = np.random.default_rng(3)
    return {f"p{m}": (rng.normal(size=(4, D)), rng.integers(0, 2, 4)) for m in range(parties)}


def parties(n: int = 5, **more: Any) -> LocalParties:
    return LocalParties(LayeredObjective([D, 2]), data(n), threshold=EPS, **more)


def test_safe_step_keeps_everybody_and_fed_avg_does_not() -> None:
    kept = train(parties(), SafeStep(DELTA), step_size=0.5, rounds=200)
    assert kept.status == "converged"
    assert kept.left == {}
    assert kept.final_losses.max() <= EPS + 2 * DELTA + 1e-12
    plain = train(parties(), FedAvg(), step_size=0.5, rounds=200)
    assert plain.left
    assert plain.status == "everybody_left"


def own_loss(rows: Any, w: Any) -> tuple[float, Any]:
    """Cross-entropy of a linear model and its gradient, written down once more."""
    X, y = rows
    scores = X @ w[: 2 * D].reshape(D, 2) + w[2 * D :]
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    slope = (p - np.eye(2)[y]) / len(y)
    return -np.log(p[np.arange(len(y)), y]).mean(), np.r_[(X.T @ slope).ravel(), slope.sum(axis=0)]


@pytest.mark.parametrize("work", [LocalWork(), LocalWork(3)])
def test_every_party_answers_for_its_own_rows_whatever_it_is_called(work: LocalWork) -> None:
    rows = dict(zip(["west", "p10", "p9", "east"], data(4).values()))
    crowd = LocalParties(LayeredObjective([D, 2]), rows, threshold=0.0, work=work)
    history = train(crowd, FedAvg(), step_size=0.3, rounds=2)
    w, start = np.zeros(SIZE), np.zeros(SIZE)
    ends = []
    for own in rows.values():
        w = start
        for _ in range(work.steps):  # type: ignore[arg-type]  # one number
            w = w - 0.3 / work.steps * own_loss(own, w)[1]  # type: ignore[operator]
        ends.append(w)
    second = np.mean(ends, axis=0)
    frame = history.to_frame().query("round == 2").set_index("party")["loss"]
    for name, own in rows.items():
        assert frame[name] == pytest.approx(own_loss(own, second)[0], abs=1e-12)


@pytest.mark.parametrize("work", [LocalWork(), LocalWork(3), LocalWork(2, 8)])
def test_the_seed_decides_and_nothing_else(work: LocalWork) -> None:
    options: dict[str, Any] = {"step_size": 0.3, "rounds": 15, "fraction": 0.5}
    runs = []
    for seed, noise in ((0, 1), (0, 2), (1, 1)):
        random.seed(noise)
        np.random.seed(noise)  # noqa: NPY002  # must not matter
        runs.append(train(parties(work=work), SafeStep(DELTA), random_state=seed, **options).w)
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_a_sampled_run_converges_only_when_everybody_has_answered_there() -> None:
    for seed in range(6):
        run = train(
            parties(), SafeStep(DELTA), step_size=0.2, rounds=300, fraction=0.4, random_state=seed
        )
        if run.status != "converged":
            continue
        stayed = [name for name in run.final if name not in run.left]
        assert {p.party for p in run.rounds[-1].present} == set(stayed)
        assert max((run.final[name] for name in stayed), default=0.0) <= EPS + 2 * DELTA + 1e-12


LIES = {
    "loss nan": {"loss": math.nan},
    "loss negative": {"loss": -1e9},
    "loss list": {"loss": [1.0]},
    "loss text": {"loss": "small"},
    "loss complex": {"loss": 1j},
    "rows half": {"num_examples": 0.5},
    "rows list": {"num_examples": [1]},
    "target nan": {"threshold": math.nan},
    "target text": {"threshold": "low"},
    "gradient huge": {"gradient": np.full(SIZE, 1e160)},
    "gradient far": {"gradient": np.full(SIZE, 1e12)},
    "gradient short": {"gradient": np.ones(3)},
    "gradient text": {"gradient": np.array(["a"] * SIZE)},
    "gradient none": {"gradient": None},
    "update nan": {"update": np.full(SIZE, np.nan)},
    "update object": {"update": [object()] * SIZE},
}


@pytest.mark.parametrize("kind", LIES)
def test_a_bad_answer_is_refused_with_its_name_and_stops_nobody(kind: str) -> None:
    liar = parties().replace("p2", answer=lambda answer: answer | LIES[kind])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = train(liar, SafeStep(DELTA), step_size=0.5, rounds=200, max_silent_rounds=3)
    assert run.status == "converged"
    assert run.left == {}
    field = kind.split()[0].replace("rows", "num-examples").replace("target", "threshold")
    assert field in run.refused["p2"][0]
    assert run.final_losses.drop("p2").max() <= EPS + 2 * DELTA + 1e-12


def test_a_party_that_fails_is_an_error_reply() -> None:
    broken = parties().replace("p0", answer=lambda answer: 1 / 0)
    run = train(broken, FedAvg(), step_size=0.5, rounds=2)
    assert "ZeroDivisionError" in run.refused["p0"][0]


def test_nobody_usable_is_not_the_same_as_nobody_there() -> None:
    bad = parties(1).replace("p0", answer=lambda answer: {})
    run = train(bad, FedAvg(), step_size=0.5, rounds=9, max_silent_rounds=2)
    assert run.status == "no_usable_answer"
    assert len(run.rounds) == 2
    assert "needs a loss and a gradient" in run.summary()


@pytest.mark.parametrize("rule", [FedAvg(), MWFed(), ADAGD(DELTA), SafeStep(DELTA)])
def test_a_loud_party_moves_the_model_by_a_bounded_amount(rule: Any) -> None:
    """One of five shouts a hundred thousand times: believed, but cut to five medians."""
    loud = parties().replace("p1", answer=lambda a: a | {"gradient": 500 * a["gradient"]})
    eta = 0.1
    steps = {}
    for clip in (5.0, None):
        run = train(loud, rule, step_size=eta, rounds=1, trust=Trust(clip=clip), random_state=0)
        assert run.refused == {}
        steps[clip] = float(np.linalg.norm(run.w))
    longest = max(np.linalg.norm(_gradient(*own)) for own in data().values())
    assert steps[5.0] <= eta * (4 * longest + 5 * longest) / 5 + 1e-12 or isinstance(rule, ADAGD)
    assert steps[5.0] <= steps[None] + 1e-12


def _gradient(X: Any, y: Any) -> Any:
    from counterplay.federated import local_work

    return local_work(LayeredObjective([D, 2]), (X, y), np.zeros(SIZE), step_size=1.0).gradient


def test_the_summary_covers_those_who_left() -> None:
    run = train(parties(), FedAvg(), step_size=0.05, rounds=400)
    assert run.left
    worst = run.final_losses.idxmax()
    assert f"({worst}" in run.summary()
    assert f"{run.final_losses.max() - EPS:.4g}" in run.summary()


def test_bad_input() -> None:
    with pytest.raises(InvalidInputError, match="at least one party"):
        LocalParties(LayeredObjective([D, 2]), {}, threshold=0.1)
    with pytest.raises(InvalidInputError, match="no entry for 'p1'"):
        LocalParties(LayeredObjective([D, 2]), data(2), threshold={"p0": 0.1})
    with pytest.raises(UnknownNameError):
        parties().replace("p9", answer=dict)
    with pytest.raises(InvalidInputError, match="rule must be a Rule"):
        train(parties(), "fedavg", step_size=0.1)  # type: ignore[arg-type]
