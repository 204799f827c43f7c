"""The network of benchmarks/gpu_contribution.py."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplay.contribution.defectors.pretraining import accuracy_on
from counterplay.contribution.lab import pretrain
from counterplay.core.draws import run_keys

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from emnist_network import EmnistNetwork, dropped  # noqa: E402  # needs torch

SMALL: dict[str, Any] = {"side": 12, "classes": 5, "channels": (3, 4), "hidden": 6}


def test_size_of_the_network_of_the_experiment() -> None:
    assert EmnistNetwork().size == 1_204_655


@pytest.mark.claim("04.35")
def test_convolutional_network_is_batch_independent() -> None:
    keys = run_keys(1, 3)
    network = EmnistNetwork(**SMALL)
    put = network.backend.put
    w = put(network.start(keys))
    rng = np.random.default_rng(0)
    x, y = put(rng.random((3, 7, 144))), put(rng.integers(0, 5, (3, 7)))
    weight = put(np.full((3, 7), 1 / 7))
    slopes = network.step_gradient(w, x, y, weight, keys)
    single = network.step_gradient(w[1:2], x[1:2], y[1:2], weight[1:2], keys[1:2])
    assert float((single[0] - slopes[1]).abs().max()) <= 1e-6
    # the same network written with torch's own layers, without dropout
    params, logits = network.arrays(w), network.outputs(w, x)
    for r in range(3):
        k1 = params[0][r].reshape(3, 3, 1, 3).permute(3, 2, 0, 1)
        k2 = params[2][r].reshape(3, 3, 3, 4).permute(3, 2, 0, 1)
        image = x[r].reshape(7, 1, 12, 12)
        image = torch.nn.functional.conv2d(image, k1, params[1][r, 0]).relu()
        image = torch.nn.functional.conv2d(image, k2, params[3][r, 0]).relu()
        image = torch.nn.functional.max_pool2d(image, 2).permute(0, 2, 3, 1).reshape(7, -1)
        hidden = (image @ params[4][r] + params[5][r]).relu()
        assert torch.allclose(logits[r], hidden @ params[6][r] + params[7][r], atol=1e-5)
    loss, accuracy, plain = network.gradients(w, x, y, weight)
    again = network.evaluate(w, x, y, weight)
    assert torch.allclose(loss, again[0], atol=1e-6)
    assert torch.equal(accuracy, again[1])
    assert float((plain - slopes).abs().max()) > 1e-3  # dropout


def test_dropout_masks_have_the_right_rate_and_differ_between_runs() -> None:
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
    keys = run_keys(1, 2)
    options: dict[str, Any] = {**SMALL, "channels": (8, 8), "hidden": 16}
    full, half = EmnistNetwork(**options), EmnistNetwork(**options, half=True)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, 400)
    X = (rng.random((400, 144)) + np.eye(5)[labels] @ rng.random((5, 144))).astype(np.float32)
    w = pretrain(full, X[:300], labels[:300], keys, steps=60)
    accuracies = [accuracy_on(net, w, X[300:], labels[300:]) for net in (full, half)]
    assert accuracies[0].min() > 0.5
    assert accuracies[0] == pytest.approx(accuracies[1], abs=0.02)
