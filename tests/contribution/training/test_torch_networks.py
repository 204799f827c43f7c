"""Batched torch networks."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.contribution.training import (
    MLP,
    FedAvg,
    MWFed,
    noisy_digits,
    pretrain,
    run_keys,
)
from counterplay.contribution.training.pretraining import accuracy_on

NET = MLP()


KEYS = run_keys(3, 4)


COHORT = noisy_digits(KEYS, size=300, train=200)


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
    network = TorchCNN(12, 5, channels=(3, 4), hidden=6)
    params = network.init(keys)
    rng = np.random.default_rng(0)
    x = network.put(rng.random((3, 7, 144)))
    y = network.put(rng.integers(0, 5, (3, 7)))
    w = network.put(np.full((3, 7), 1 / 7))
    loss, grads = network.gradients(params, x, y, w, keys)
    alone, single = network.gradients([p[1:2] for p in params], x[1:2], y[1:2], w[1:2], keys[1:2])
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
    correct = network.correct(params, x, y)
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
