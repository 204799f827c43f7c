"""FedAvg, MW-FED and training alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from counterplay.contribution.training import (
    MLP,
    Cohort,
    FedAvg,
    IndividualTraining,
    MWFed,
    defection_curve,
    noisy_digits,
    run_keys,
)
from counterplay.contribution.training.protocols import minibatch, party_draw
from counterplay.core.draws import fold, normals, uniforms
from counterplay.errors import InvalidInputError
from counterplay.federated.loads import ideal_loads, rounded_loads

KEYS = run_keys(3, 4)


NET = MLP()


COHORT = noisy_digits(KEYS, size=300, train=200)


def largest_difference(a: list[np.ndarray], b: list[np.ndarray]) -> float:
    return float(max(abs(np.asarray(x) - np.asarray(y)).max() for x, y in zip(a, b)))


@pytest.mark.claim("04.27")
def test_one_local_batch_equals_one_pooled_step() -> None:
    start = NET.init(KEYS)
    local = FedAvg(rounds=3, optimizer="client_sgd", lr=0.1).fit(NET, COHORT, start)
    pooled = FedAvg(rounds=3, optimizer="server_sgd_pooled", lr=0.1).fit(NET, COHORT, start)
    assert largest_difference(local.params, pooled.params) <= 1e-6
    assert largest_difference(local.params, start) > 1e-3


@pytest.mark.claim("04.27")
def test_zero_gradients_leave_the_server_weights_alone() -> None:
    cohort = replace(COHORT, y=np.zeros_like(COHORT.y))
    sure = NET.init(KEYS)
    sure[3][..., 0] = 300.0  # every point is class 0 with certainty: gradients vanish
    after = FedAvg(rounds=2, local_batches=3, optimizer="client_sgd", lr=0.1).fit(NET, cohort, sure)
    assert largest_difference(after.params, sure) <= 1e-6  # 1/(Bk) would divide by 3


@pytest.mark.claim("04.27")
def test_local_steps_by_hand() -> None:
    """Two local batches per party, written as a plain loop over one run."""
    start = NET.init(KEYS)
    engine = FedAvg(rounds=1, local_batches=2, batch_size=8, optimizer="client_sgd", lr=0.1)
    after = engine.fit(NET, COHORT, start)
    r, results = 2, []
    for party in range(4):
        params = [p[[r]] for p in start]
        points = party_draw(COHORT, party, 0, 16)[r].reshape(2, 8)
        for batch in points:
            weight = np.full((1, 8), 1 / 8, dtype=np.float32)
            _, grads = NET.gradients(
                params, COHORT.X[batch][None], COHORT.y[batch][None], weight, KEYS
            )
            params = [p - np.float32(0.1) * g for p, g in zip(params, grads)]
        results.append(params)
    mean = [np.mean([params[i] for params in results], axis=0) for i in range(4)]
    assert largest_difference([p[[r]] for p in after.params], mean) <= 1e-6


@pytest.mark.claim("04.28")
@pytest.mark.parametrize("optimizer", ["server_adam_pooled", "client_sgd"])
def test_factor_one_is_federated_averaging(optimizer: str) -> None:
    start = NET.init(KEYS)
    plain = FedAvg(rounds=8, optimizer=optimizer, local_batches=2).fit(NET, COHORT, start)  # type: ignore[arg-type]
    allocation = "batches" if optimizer == "client_sgd" else "samples"
    for rounding in ("floor", "nearest", "largest_remainder", "sigma"):
        mw = MWFed(
            rounds=8,
            optimizer=optimizer,
            local_batches=2,
            c=1.0,
            allocation=allocation,
            rounding=rounding,  # type: ignore[arg-type]
        ).fit(NET, COHORT, start)
        assert (mw.accuracy == plain.accuracy).all()
        assert (mw.drawn == plain.drawn).all()
        assert largest_difference(mw.params, plain.params) == 0.0


@pytest.mark.claim("04.29")
def test_equal_weights_give_equal_loads() -> None:
    naive = []
    for k in range(1, 301):
        for B in (1, 3):
            ideal = ideal_loads(np.zeros(k), float(B * k))
            for rounding in ("floor", "nearest", "largest_remainder"):
                assert (rounded_loads(ideal, rounding) == B).all()  # type: ignore[arg-type]
        weights = np.full(k, 1 / k)
        naive.append(bool((np.floor(k * weights / weights.sum()) == 1).all()))
    failing = [k for k, good in enumerate(naive, start=1) if not good]
    assert {20, 21, 45} <= set(failing)  # what the printed formula does


@pytest.mark.claim("04.29")
def test_largest_remainder_keeps_the_total() -> None:
    rng = np.random.default_rng(0)
    log_weights = rng.normal(0, 5, size=(500, 7))
    ideal = ideal_loads(log_weights, 21.0)
    assert ideal.sum(axis=1) == pytest.approx(21.0)
    kept = rounded_loads(ideal, "largest_remainder")
    assert (kept.sum(axis=1) == 21).all()
    assert (abs(kept - ideal) < 1).all()
    assert (rounded_loads(ideal, "floor").sum(axis=1) < 21).any()
    keys = run_keys(0, 500)
    sigma = np.stack([rounded_loads(ideal, "sigma", fold(keys, t)) for t in range(400)])
    error = 0.5 / np.sqrt(400)
    assert (abs(sigma.mean(axis=0) - ideal) <= 5 * error).all()
    with pytest.raises(InvalidInputError, match="keys"):
        rounded_loads(ideal, "sigma")


@pytest.mark.claim("04.29")
def test_every_round_draws_the_promised_number_of_points() -> None:
    history = MWFed(rounds=30).fit(NET, COHORT, NET.init(KEYS))
    assert (history.drawn.sum(axis=2) == 64 * 4).all()
    index, weight = minibatch(COHORT, history.drawn[:, 7], 7)
    assert index.shape == (4, 256)
    assert weight.sum(axis=1) == pytest.approx(1.0)
    for r in range(4):
        owners = [np.isin(index[r], COHORT.train[r, i]).sum() for i in range(4)]
        assert owners == history.drawn[r, 7].tolist()


@pytest.mark.claim("04.30")
def test_weights_over_many_rounds() -> None:
    log_weights = np.zeros((1, 3))
    for t in range(5000):
        loads = ideal_loads(log_weights, 192.0)
        assert np.isfinite(loads).all()
        assert loads.sum() == pytest.approx(192.0)
        log_weights = log_weights + np.log(4.0) * np.array([1.0, 0.0, 0.0])
        ratio = log_weights[0, 0] - log_weights[0, 1]
        assert ratio == pytest.approx((t + 1) * np.log(4.0), rel=1e-9)
    assert ideal_loads(log_weights, 192.0)[0] == pytest.approx([192.0, 0.0, 0.0], abs=1e-300)
    floored = ideal_loads(log_weights, 192.0, min_share=0.1)[0]
    assert floored == pytest.approx([0.9 * 192 + 6.4, 6.4, 6.4])


@pytest.mark.claim("04.30")
def test_weights_follow_accuracy_and_spare_the_threshold() -> None:
    start = NET.init(KEYS)
    history = MWFed(rounds=10, threshold=0.3, c=3.0).fit(NET, COHORT, start)
    growth = np.diff(history.log_weights, axis=1)
    assert growth == pytest.approx(np.log(3.0) * (history.accuracy[:, 1:] < 0.3))
    # put the threshold exactly on an accuracy that occurs: that party must not be up-weighted
    exact = float(history.accuracy[0, 1, 0])
    again = MWFed(rounds=1, threshold=exact).fit(NET, COHORT, start)
    assert again.accuracy[0, 1, 0] == exact
    assert again.log_weights[0, 1, 0] == 0.0
    assert again.satisfied[0, 1, 0]
    above = MWFed(rounds=1, threshold=exact + 1e-9).fit(NET, COHORT, start)
    assert above.log_weights[0, 1, 0] == pytest.approx(np.log(4.0))


@pytest.mark.claim("04.35")
@pytest.mark.parametrize(
    "protocol",
    [
        FedAvg(rounds=6),
        MWFed(rounds=6, eval_points=40),
        MWFed(rounds=6, rounding="sigma"),
        FedAvg(rounds=3, optimizer="client_sgd", local_batches=3, lr=0.1),
        MWFed(rounds=6, optimizer="client_sgd", allocation="batches", local_batches=2, lr=0.1),
    ],
    ids=lambda p: f"{type(p).__name__}-{p.optimizer}",
)
def test_batched_run_equals_single_run(protocol: FedAvg) -> None:
    start = NET.init(KEYS)
    together = protocol.fit(NET, COHORT, start)
    for r in (0, 3):
        alone = protocol.fit(NET, COHORT.take([r]), [p[[r]] for p in start])
        assert (alone.accuracy[0] == together.accuracy[r]).all()
        assert (alone.drawn[0] == together.drawn[r]).all()
        assert largest_difference(alone.params, [p[[r]] for p in together.params]) <= 1e-6


def test_individual_training_uses_own_data_only() -> None:
    start = NET.init(KEYS)
    other = replace(COHORT, y=COHORT.y.copy())
    other.y[COHORT.train[:, 1].ravel()] = 0  # spoil the training labels of party 1
    honest = IndividualTraining(rounds=5).fit(NET, COHORT, start).accuracy.reshape(4, 4, 6)
    spoiled = IndividualTraining(rounds=5).fit(NET, other, start).accuracy.reshape(4, 4, 6)
    assert (honest[:, [0, 2, 3]] == spoiled[:, [0, 2, 3]]).all()
    assert (honest[:, 1] != spoiled[:, 1]).any()


def test_random_numbers_by_position() -> None:
    keys = run_keys(0, 50)
    u = uniforms(keys, 2000)
    assert u.min() >= 0
    assert u.max() < 1
    assert abs(u.mean() - 0.5) <= 5 * np.sqrt(1 / 12 / u.size)
    assert abs(np.corrcoef(u[0], u[1])[0, 1]) < 0.1
    assert (uniforms(keys, 7) == u[:, :7]).all()
    z = normals(keys, 2000)
    assert abs(z.mean()) <= 5 / np.sqrt(z.size)
    assert abs(z.std() - 1) < 0.02
    assert len(np.unique(fold(keys, 1, 2))) == 50


def test_bad_protocols() -> None:
    with pytest.raises(InvalidInputError, match="allocation='batches'"):
        MWFed(optimizer="client_sgd")
    with pytest.raises(InvalidInputError, match="c must be"):
        MWFed(c=0.5)
    with pytest.raises(InvalidInputError, match="one party for each"):
        defection_curve(FedAvg(rounds=1), NET, COHORT, NET.init(KEYS), defector=[0])
    assert isinstance(COHORT, Cohort)
