"""Claims 04.27 to 04.31, 04.34 and 04.35: federated training."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from counterplay.contribution.training import (
    MLP,
    Cohort,
    FedAvg,
    IndividualTraining,
    MWFed,
    defection_curve,
    difficulty_scores,
    hard_and_easy,
    ideal_loads,
    kept_points,
    mixture_agents,
    noisy_digits,
    pretrain,
    rounded_loads,
    run_keys,
    split_indices,
)
from counterplay.contribution.training.difficulty import _subsets
from counterplay.contribution.training.draws import fold, normals, uniforms
from counterplay.contribution.training.rounds import agent_draw, minibatch
from counterplay.errors import InvalidInputError

KEYS = run_keys(3, 4)
COHORT = noisy_digits(KEYS, size=300, train=200)
NET = MLP()


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
    """Two local batches per agent, written as a plain loop over one run."""
    start = NET.init(KEYS)
    engine = FedAvg(rounds=1, local_batches=2, batch_size=8, optimizer="client_sgd", lr=0.1)
    after = engine.fit(NET, COHORT, start)
    r, results = 2, []
    for agent in range(4):
        params = [p[[r]] for p in start]
        points = agent_draw(COHORT, agent, 0, 16)[r].reshape(2, 8)
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
    # put the threshold exactly on an accuracy that occurs: that agent must not be up-weighted
    exact = float(history.accuracy[0, 1, 0])
    again = MWFed(rounds=1, threshold=exact).fit(NET, COHORT, start)
    assert again.accuracy[0, 1, 0] == exact
    assert again.log_weights[0, 1, 0] == 0.0
    assert again.satisfied[0, 1, 0]
    above = MWFed(rounds=1, threshold=exact + 1e-9).fit(NET, COHORT, start)
    assert above.log_weights[0, 1, 0] == pytest.approx(np.log(4.0))


@pytest.mark.claim("04.31")
def test_defector_data_are_fixed_nested_and_bounded() -> None:
    cohort = noisy_digits(KEYS, size=2000, train=1600)
    who = np.array([0, 3, 1, 2])
    used: dict[float, list[set[int]]] = {}
    for fraction in (0.01, 0.05, 0.25, 1.0):
        reduced = cohort.defect(who, fraction)
        assert (reduced.sizes[np.arange(4), who] == max(1, round(1600 * fraction))).all()
        others = np.ones((4, 4), dtype=bool)
        others[np.arange(4), who] = False
        assert (reduced.sizes[others] == 1600).all()
        points: list[set[int]] = [set() for _ in range(4)]
        for t in range(40):
            for r in range(4):
                points[r] |= set(agent_draw(reduced, int(who[r]), t, 64)[r].tolist())
        used[fraction] = points
        allowed = [
            set(cohort.train[r, who[r], : round(1600 * fraction)].tolist()) for r in range(4)
        ]
        assert all(p <= a for p, a in zip(points, allowed))
    assert kept_points(1600, 0.01) == 16
    assert all(len(p) == 16 for p in used[0.01])  # 2560 draws see all 16 points
    assert all(a <= b for a, b in zip(used[0.01], used[0.05]))
    assert (cohort.sizes == 1600).all()
    with pytest.raises(InvalidInputError, match="between 0 and 3"):
        cohort.defect(7, 0.5)


@pytest.mark.claim("04.34")
def test_split_and_mixture_sizes() -> None:
    parts = split_indices(131_600)
    assert [len(part) for part in parts] == [60_000, 30_000, 41_600]
    assert len(set(np.concatenate(parts).tolist())) == 131_600
    hard, easy = hard_and_easy(np.random.default_rng(0).random(60_000))
    assert len(hard) == len(easy) == 6000
    assert not set(hard.tolist()) & set(easy.tolist())
    keys = run_keys(0, 3)
    for disjoint in (True, False):
        train, val = mixture_agents(hard, easy, keys=keys, disjoint=disjoint)
        assert train.shape == (3, 4, 1600)
        assert val.shape == (3, 4, 400)
        both = np.concatenate([train, val], axis=2)
        assert np.isin(both, hard).sum(axis=2).tolist() == [[2000, 1800, 200, 0]] * 3
        for run in both:
            assert all(len(set(agent.tolist())) == 2000 for agent in run)
        if disjoint:
            assert all(len(set(run.ravel().tolist())) == 8000 for run in both)
    with pytest.raises(InvalidInputError, match="4000 hard points are needed"):
        mixture_agents(hard[:3999], easy, disjoint=True)


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


@pytest.mark.claim("04.35")
def test_numpy_and_torch_train_the_same_networks() -> None:
    pytest.importorskip("torch")
    from counterplay.contribution.training.torch_networks import TorchMLP

    twin = TorchMLP()
    for protocol in (MWFed(rounds=10), FedAvg(rounds=3, optimizer="client_sgd", lr=0.1)):
        ours = protocol.fit(NET, COHORT, NET.init(KEYS))
        theirs = protocol.fit(twin, COHORT, twin.init(KEYS))
        assert (ours.drawn == theirs.drawn).all()
        params = [twin.fetch(p) for p in theirs.params]
        assert largest_difference(ours.params, params) <= 1e-5
    index = COHORT.val[:, 0, :9]
    losses = NET.losses(ours.params, COHORT.X, index, COHORT.y[index])
    pool = twin.put(COHORT.X)
    other = twin.losses(theirs.params, pool, twin.put(index), twin.put(COHORT.y[index]))
    assert losses == pytest.approx(other, abs=1e-4)


@pytest.mark.claim("04.35")
def test_convolutional_network_is_batch_independent() -> None:
    torch = pytest.importorskip("torch")
    from counterplay.contribution.training.torch_networks import TorchCNN

    keys = run_keys(1, 3)
    patches = TorchCNN(12, 5, channels=(3, 4), hidden=6, conv="patches")
    params = patches.init(keys)
    rng = np.random.default_rng(0)
    x = patches.put(rng.random((3, 7, 144)))
    y = patches.put(rng.integers(0, 5, (3, 7)))
    w = patches.put(np.full((3, 7), 1 / 7))
    loss, grads = patches.gradients(params, x, y, w, keys)
    for conv in ("grouped", "each"):
        other = TorchCNN(12, 5, channels=(3, 4), hidden=6, conv=conv)
        same, theirs = other.gradients(params, x, y, w, keys)
        assert float((loss - same).abs().max()) <= 1e-6
        assert max(float((a - b).abs().max()) for a, b in zip(grads, theirs)) <= 1e-6
    alone, single = patches.gradients([p[1:2] for p in params], x[1:2], y[1:2], w[1:2], keys[1:2])
    assert float(alone[0] - loss[1]) == pytest.approx(0.0, abs=1e-6)
    assert max(float((a[0] - b[1]).abs().max()) for a, b in zip(single, grads)) <= 1e-6
    # the same network written with torch's own layers, without dropout
    plain = TorchCNN(12, 5, channels=(3, 4), hidden=6, dropout=(0.0, 0.0))
    logits = plain.forward(params, x, keys)
    for r in range(3):
        k1 = params[0][r].reshape(3, 3, 1, 3).permute(3, 2, 0, 1)
        k2 = params[2][r].reshape(3, 3, 3, 4).permute(3, 2, 0, 1)
        image = x[r].reshape(7, 1, 12, 12)
        image = torch.nn.functional.conv2d(image, k1, params[1][r, 0]).relu()
        image = torch.nn.functional.conv2d(image, k2, params[3][r, 0]).relu()
        image = torch.nn.functional.max_pool2d(image, 2).permute(0, 2, 3, 1).reshape(7, -1)
        hidden = (image @ params[4][r] + params[5][r]).relu()
        expected = hidden @ params[6][r] + params[7][r]
        assert torch.allclose(logits[r], expected, atol=1e-5)
    correct = patches.correct(params, x, y)
    assert (correct == (plain.forward(params, x, None).argmax(-1) == y)).all()


def test_dropout_masks_have_the_right_rate_and_differ_between_runs() -> None:
    torch = pytest.importorskip("torch")
    from counterplay.contribution.training.torch_layers import dropped

    ones, keys = torch.ones(3, 200, 501), run_keys(0, 3)
    mask, factor = dropped(ones, 0.25, keys, 1)
    assert factor == pytest.approx(1 / 0.75)
    assert torch.unique(mask).tolist() == [0.0, 1.0]
    kept = mask.mean(dim=(1, 2)).numpy()
    assert abs(kept - 0.75).max() <= 5 * np.sqrt(0.25 * 0.75 / 100_200)
    for a, b in [(mask[0], mask[1]), (mask[0, :, 1:], mask[0, :, :-1]), (mask[0], mask[0].flip(0))]:
        agree = (a == b).float().mean()
        assert float(agree) == pytest.approx(0.75**2 + 0.25**2, abs=0.01)
    alone, _ = dropped(ones[1:2], 0.25, keys[1:2], 1)
    assert (alone[0] == mask[1]).all()
    other, _ = dropped(ones, 0.25, keys, 2)
    assert (other != mask).any()
    assert dropped(ones, 0.25, None, 1) == (ones, 1.0)


def test_gradients_by_finite_differences() -> None:
    params = [p.astype(np.float64) for p in NET.init(KEYS[:1])]
    net = MLP()
    x, y = COHORT.X[None, :5].astype(np.float64), COHORT.y[None, :5]
    weight = np.array([[0.4, 0.3, 0.2, 0.1, 0.0]])
    _, grads = net.gradients(params, x, y, weight, KEYS)
    rng = np.random.default_rng(0)
    for layer in range(4):
        for _ in range(4):
            where = tuple(int(rng.integers(n)) for n in params[layer].shape)
            losses = []
            for sign in (1, -1):
                moved = [p.copy() for p in params]
                moved[layer][where] += sign * 1e-6
                losses.append(net.gradients(moved, x, y, weight, KEYS)[0][0])
            slope = (losses[0] - losses[1]) / 2e-6
            assert slope == pytest.approx(float(grads[layer][where]), abs=1e-6)


def test_individual_training_uses_own_data_only() -> None:
    start = NET.init(KEYS)
    other = replace(COHORT, y=COHORT.y.copy())
    other.y[COHORT.train[:, 1].ravel()] = 0  # spoil the training labels of agent 1
    honest = IndividualTraining(rounds=5).fit(NET, COHORT, start).accuracy.reshape(4, 4, 6)
    spoiled = IndividualTraining(rounds=5).fit(NET, other, start).accuracy.reshape(4, 4, 6)
    assert (honest[:, [0, 2, 3]] == spoiled[:, [0, 2, 3]]).all()
    assert (honest[:, 1] != spoiled[:, 1]).any()


def test_pretraining_stops_at_its_target() -> None:
    X, y = COHORT.X[:1200], COHORT.y[:1200]
    holdout = (COHORT.X[1200:1600], COHORT.y[1200:1600])
    early = pretrain(NET, X, y, KEYS, steps=300, target=0.4, holdout=holdout)
    late = pretrain(NET, X, y, KEYS, steps=300)
    scores = [
        NET.correct(
            p,
            np.broadcast_to(holdout[0], (4, *holdout[0].shape)),
            np.broadcast_to(holdout[1], (4, 400)),
        ).mean(axis=1)
        for p in (early, late)
    ]
    assert (scores[0] >= 0.4).all()
    assert (scores[0] < scores[1]).all()


def test_difficulty_finds_corrupted_points() -> None:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X, y = X / 16.0, y.astype(np.int64)
    rng = np.random.default_rng(0)
    bad = rng.choice(1200, 120, replace=False)
    wrong = y[:1200].copy()
    wrong[bad] = (wrong[bad] + rng.integers(1, 10, 120)) % 10
    margin = difficulty_scores(
        NET, X[:1200], wrong, method="margin", n_trials=10, batch_size=32, max_steps=200
    )
    hard, _ = hard_and_easy(margin.scores)
    assert np.isin(hard, bad).mean() > 0.8
    options = {"n_trials": 30, "subset_size": 150, "max_steps": 150, "target": 0.5, "chunk": 30}
    holdout = (X[1200:1500], y[1200:1500])
    for method in ("trials", "ridge"):
        timed = difficulty_scores(NET, X[:1200], wrong, holdout, method=method, **options)  # type: ignore[arg-type]
        assert timed.censored < 0.5
        assert 5 <= timed.counts.min() <= timed.counts.max() <= 150
        member = np.zeros((30, 1200))
        np.put_along_axis(member, _subsets(run_keys(0, 30), 1200, 150), 1.0, axis=1)
        seen = member.sum(axis=0) > 0
        if method == "trials":
            expected = timed.counts @ member[:, seen] / member[:, seen].sum(axis=0)
        else:
            centred, counts = member - 150 / 1200, timed.counts - timed.counts.mean()
            system = centred.T @ centred + 150 * np.eye(1200)
            expected = timed.counts.mean() + np.linalg.solve(system, centred.T @ counts)[seen]
        assert timed.scores[seen] == pytest.approx(expected, abs=1e-3)
    with pytest.raises(InvalidInputError, match="holdout"):
        difficulty_scores(NET, X[:1200], wrong)


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
    with pytest.raises(InvalidInputError, match="one agent for each"):
        defection_curve(FedAvg(rounds=1), NET, COHORT, NET.init(KEYS), defector=[0])
    assert isinstance(COHORT, Cohort)


def test_engine_imports_with_numpy_alone(tmp_path: Path) -> None:
    """The training package must load on a machine that has NumPy (and torch) only."""
    source = Path(__file__).parents[2] / "src"
    script = f"""
import sys, types
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {{"scipy", "sklearn", "pandas", "numba", "networkx"}}:
            raise ImportError(name)
sys.meta_path.insert(0, Block())
sys.path.insert(0, {str(source)!r})
package = types.ModuleType("counterplay.contribution")
package.__path__ = [{str(source / "counterplay" / "contribution")!r}]
sys.modules["counterplay.contribution"] = package
import counterplay.contribution.training as t
print(t.MWFed(rounds=2).c)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "4.0", done.stderr
