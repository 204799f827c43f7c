"""Claims 04.35, 04.41 and 04.43: batched networks in NumPy and torch, and searches with them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from counterplay.contribution.training import (
    MLP,
    FedAvg,
    MWFed,
    Trials,
    difficulty_scores,
    hard_and_easy,
    noisy_digits,
    pretrain,
    random_search,
    run_keys,
)
from counterplay.contribution.training.difficulty import _subsets
from counterplay.contribution.training.pretraining import accuracy_on
from counterplay.errors import InvalidInputError

KEYS = run_keys(3, 4)
COHORT = noisy_digits(KEYS, size=300, train=200)
NET = MLP()


def largest_difference(a: list[np.ndarray], b: list[np.ndarray]) -> float:
    return float(max(abs(np.asarray(x) - np.asarray(y)).max() for x, y in zip(a, b)))


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
    from counterplay.contribution.training.torch_networks import dropped

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


def test_half_precision_predicts_the_same() -> None:
    pytest.importorskip("torch")
    from counterplay.contribution.training.torch_networks import TorchCNN

    keys = run_keys(1, 2)
    full, half = (TorchCNN(12, 5, channels=(8, 8), hidden=16, half=h) for h in (False, True))
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, 400)
    X = (rng.random((400, 144)) + np.eye(5)[labels] @ rng.random((5, 144))).astype(np.float32)
    params = pretrain(full, X[:300], labels[:300], keys, steps=60)
    accuracies = [accuracy_on(net, params, X[300:], labels[300:]) for net in (full, half)]
    assert accuracies[0].min() > 0.5
    assert accuracies[0] == pytest.approx(accuracies[1], abs=0.02)
    assert all(p.dtype == q.dtype for p, q in zip(params, full.evaluation_params(params)))


def test_shared_points_move_once() -> None:
    pytest.importorskip("torch")
    from counterplay.contribution.training.torch_networks import TorchMLP

    net = TorchMLP()
    pool, labels = net.share(COHORT.X), net.share(COHORT.y)
    assert net.share(COHORT.X) is pool
    assert net.share(COHORT.y) is labels
    other = net.share(COHORT.X[:5])
    assert other.shape == (5, 64)
    assert (net.fetch(net.share(COHORT.X)) == COHORT.X).all()


@pytest.mark.claim("04.41")
def test_runs_together_are_faster_than_one_by_one() -> None:
    keys = run_keys(0, 40)
    cohort, params = noisy_digits(keys, size=120, train=80), NET.init(keys)
    protocol = FedAvg(rounds=20, batch_size=8)

    def seconds(groups: list[list[int]]) -> float:
        best = np.inf
        for _ in range(3):
            began = time.perf_counter()
            for group in groups:
                protocol.fit(NET, cohort.take(group), [p[group] for p in params])
            best = min(best, (time.perf_counter() - began) / sum(map(len, groups)))
        return best

    together, alone = seconds([list(range(40))]), seconds([[r] for r in range(4)])
    assert alone > 2 * together


@pytest.mark.claim("04.43")
def test_search_trains_every_setting_as_if_alone() -> None:
    X, y = COHORT.X[:900], COHORT.y[:900]
    held = (COHORT.X[900:1200], COHORT.y[900:1200])
    found = random_search(NET, X, y, held, draws=12, steps=40, seed=5)
    assert (found.lr >= 1e-6).all()
    assert (found.lr <= 1e-2).all()
    assert set(found.batch_size.tolist()) <= {4, 8, 64, 128, 256, 512}
    keys = run_keys(5, 12)
    for draw in range(12):
        alone = pretrain(
            NET,
            X,
            y,
            keys[[draw]],
            steps=40,
            lr=float(found.lr[draw]),
            batch_size=int(found.batch_size[draw]),
        )
        assert accuracy_on(NET, alone, *held)[0] == pytest.approx(found.accuracy[draw], abs=0.01)
    assert found.to_frame()["accuracy"].is_monotonic_decreasing
    assert found.best[0] == found.to_frame()["lr"].iloc[0]
    assert "best of 12 draws" in found.summary()
    assert found.plot() is not None
    many = random_search(NET, X, y, held, draws=400, steps=1, batches=(4, 8), seed=6)
    logs = np.log10(many.lr)
    assert logs.mean() == pytest.approx(-4, abs=0.3)  # log-uniform between 1e-6 and 1e-2
    assert (many.batch_size == 4).mean() == pytest.approx(0.5, abs=0.12)
    with pytest.raises(InvalidInputError, match="low <= high"):
        random_search(NET, X, y, held, lr=(1e-2, 1e-6))


def test_difficulty_finds_corrupted_points() -> None:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X, y = X / 16.0, y.astype(np.int64)
    rng = np.random.default_rng(0)
    bad = rng.choice(1200, 120, replace=False)
    wrong = y[:1200].copy()
    wrong[bad] = (wrong[bad] + rng.integers(1, 10, 120)) % 10
    margin = difficulty_scores(
        NET, X[:1200], wrong, method="margin", trials=Trials(count=10, batch_size=32, max_steps=200)
    )
    hard, _ = hard_and_easy(margin.scores)
    assert np.isin(hard, bad).mean() > 0.8
    forgetting = difficulty_scores(
        NET,
        X[:1200],
        wrong,
        method="forgetting",
        trials=Trials(count=6, batch_size=32, max_steps=150),
    )
    assert np.isin(hard_and_easy(forgetting.scores)[0], bad).mean() > 0.5  # 0.1 by chance
    assert forgetting.scores.min() >= 0
    options = Trials(count=30, subset_size=150, max_steps=150, target=0.5, chunk=30)
    holdout = (X[1200:1500], y[1200:1500])
    for method in ("trials", "ridge"):
        timed = difficulty_scores(NET, X[:1200], wrong, holdout, method=method, trials=options)  # type: ignore[arg-type]
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
