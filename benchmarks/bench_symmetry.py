"""Symmetries: ratios against what one would write instead, in one run.

Names of parts as arguments run only these: models blocks canonical million check network peers.
Errors are compared within one model only: a ratio across models says nothing about a symmetry.
"""

from __future__ import annotations

import importlib.util
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from counterplay.invariance import (
    AugmentedClassifier,
    CanonicalClassifier,
    OrbitKernelClassifier,
    augmented_blocks,
    check_symmetry,
    groups,
)


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def peak(function: Callable[[], Any]) -> float:
    tracemalloc.start()
    function()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found / 2**20


def turned_digits(seed: int, n: int = 400) -> tuple[Any, ...]:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    X, y = X[order] / 16, y[order]
    turned = np.array([np.rot90(x.reshape(8, 8), i % 4).ravel() for i, x in enumerate(X[n:])])
    return X[:n], y[:n], turned, y[n:]


def models() -> None:
    """Within one model: canonical against stacked LR, orbit kernel against stacked SVC."""
    turns = groups.image_rotations((8, 8))
    pairs = {
        "logistic regression": (
            AugmentedClassifier(LogisticRegression(max_iter=200), turns),
            CanonicalClassifier(LogisticRegression(max_iter=200), turns),
        ),
        "support vectors": (
            AugmentedClassifier(OrbitKernelClassifier(), turns),
            OrbitKernelClassifier(group=turns),
        ),
    }
    for name, candidates in pairs.items():
        errors = np.array(
            [
                [1 - model.fit(X, y).score(Z, z) for model in candidates]
                for X, y, Z, z in map(turned_digits, range(4))
            ]
        ).mean(axis=0)
        print(f"turned digits, {name}: copies {errors[0]:.3f}, canonical or orbit kernel "
              f"{errors[1]:.3f}, ratio {errors[1] / errors[0]:.2f}")  # fmt: skip


def blocks() -> None:
    """Lazy blocks against stacked copies: memory and time."""
    images = np.random.default_rng(0).random((400, 48, 48, 3))
    group, y = groups.d4((48, 48, 3)), np.arange(400) % 2

    def lazy() -> None:
        for rows, _, _ in augmented_blocks(images, y, group, block_rows=64, random_state=0):
            rows.sum()

    def stacked() -> None:
        flat = images.reshape(len(images), -1)
        np.concatenate([flat[:, perm] for perm in group.perms]).sum()

    lazy()
    memory, seconds = peak(lazy) / peak(stacked), timed(lazy)[1] / timed(stacked)[1]
    print(f"augmented_blocks / np.concatenate: memory {memory:.3f}, time {seconds:.2f}")


def canonical() -> None:
    """Compiled canonical form against a loop over transformations."""
    X = np.random.default_rng(0).integers(0, 256, size=(50_000, 64), dtype=np.uint8)
    group = groups.d4((8, 8))

    def loop() -> Any:
        best = X.copy()
        for perm in group.perms[1:]:
            other = X[:, perm]
            place = (other != best).argmax(axis=1)
            rows = np.arange(len(X))
            better = other[rows, place] < best[rows, place]
            best[better] = other[better]
        return best

    group.canonical(X[:10])
    (fast, seconds), (slow, by_hand) = timed(lambda: group.canonical(X)), timed(loop)
    assert (fast == slow).all()
    print(f"canonical form, 50,000 x 64: {by_hand / seconds:.1f} times faster than a NumPy loop")


def million() -> None:
    """A million pictures of 64 bytes: canonical form, orbit numbers, blocks."""
    X = np.random.default_rng(0).integers(0, 4, size=(1_000_000, 64), dtype=np.uint8)
    group, y = groups.d4((8, 8)), np.zeros(1_000_000, dtype=np.int64)
    group.canonical(X[:10])
    form, seconds = timed(lambda: group.canonical(X))
    memory = peak(lambda: group.canonical(X))
    rows = np.ascontiguousarray(form).view(np.dtype((np.void, 64))).reshape(-1)
    numbers = timed(lambda: np.unique(rows, return_inverse=True))[1]
    count = 0
    start = time.perf_counter()
    for block, _, _ in augmented_blocks(X, y, group, block_rows=65_536, random_state=0):
        count += len(block)
        if count > 2_000_000:
            break
    rate = count / (time.perf_counter() - start) / 1e6
    print(f"10^6 x 64 bytes, D4: canonical {seconds:.2f} s and {memory:.0f} MiB, orbit numbers "
          f"{seconds + numbers:.2f} s, blocks {rate:.2f} million rows per second")  # fmt: skip


def check() -> None:
    """The label test on 4,000 x 784."""
    rng = np.random.default_rng(0)
    X, y = rng.random((4000, 784)), rng.integers(0, 10, size=4000)
    seconds = timed(
        lambda: check_symmetry(X, y, groups.image_flips((28, 28), ["vertical"]), random_state=0)
    )[1]
    print(f"check_symmetry, 4,000 x 784, five repeats: {seconds:.1f} s")


def network() -> None:
    """The mean over the orbit in training against a loader that turns, at equal epochs."""
    import torch
    from torch import nn

    from counterplay.invariance.torch import AugmentCollate, InvariantModule, TorchClassifier

    turns = groups.image_rotations((8, 8))

    def net() -> Any:
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3),
            nn.ReLU(), nn.Flatten(), nn.Linear(512, 10),
        )  # fmt: skip

    X, y, Z, z = turned_digits(0, 500)
    for name, module, collate in (
        ("plain", net(), None),
        ("turning loader", net(), AugmentCollate(turns, random_state=0)),
        ("InvariantModule", InvariantModule(net(), turns), None),
    ):
        model = TorchClassifier(module, epochs=20, random_state=0, collate=collate)
        fitted, seconds = timed(lambda model=model: model.fit(X.astype(np.float32), y))
        error = 1 - fitted.score(Z.astype(np.float32), z)
        print(f"{name}: error {error:.3f}, {seconds:.1f} s")


def peers() -> None:
    """Packages with invariant networks; none of them has a test, an advisor or estimators."""
    for name in ("escnn", "emlp", "e2cnn"):
        there = importlib.util.find_spec(name) is not None
        print(f"{name}: {'installed, no comparable task' if there else 'not installed here'}")


PARTS = {
    "models": models, "blocks": blocks, "canonical": canonical, "million": million,
    "check": check, "network": network, "peers": peers,
}  # fmt: skip


def main(names: Sequence[str] = ()) -> None:
    for name in names or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
