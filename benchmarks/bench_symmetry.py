"""Symmetries: ratios against what one would write instead, in one run.

Names of parts as arguments run only these: models blocks canonical million check network peers.
Errors are compared within one model only: a ratio across models says nothing about a symmetry.
"""

from __future__ import annotations

import importlib.util
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from ledger import compare, growth, in_turns, skipped, timed
from scipy.spatial.distance import cdist
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
from counterplay.invariance.matched_neighbours import geometry, landing
from counterplay.invariance.transformations import number_keys


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
        "canonical logistic regression": (
            AugmentedClassifier(LogisticRegression(max_iter=200), turns),
            CanonicalClassifier(LogisticRegression(max_iter=200), turns),
        ),
        "orbit kernel with support vectors": (
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
        compare(
            "invariance",
            f"error on turned digits, {name}",
            errors[1],
            errors[0],
            against="the same model on copies",
            package="scikit-learn",
            unit="error",
            bar=2.0 if name.startswith("canonical") else 1.0,
        )


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
    memory, spent = [peak(lazy), peak(stacked)], in_turns(lazy, stacked, 3)
    what = "augmented_blocks, 400 pictures of 48 x 48 x 3, eight turns"
    compare("invariance", f"{what}: memory", *memory, against="np.concatenate", package="numpy",
            unit="MiB", bar=10.0)  # fmt: skip
    compare("invariance", f"{what}: time", *spent, against="np.concatenate", package="numpy",
            bar=1 / 1.5)  # fmt: skip


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
    fast, slow = in_turns(lambda: group.canonical(X), loop, 3)
    assert (fast.result == slow.result).all()
    compare(
        "invariance",
        "canonical form of 50,000 x 64 bytes",
        fast,
        slow,
        against="a NumPy loop over transformations",
        package="numpy",
        bar=5.0,
        note="same result",
    )


def million() -> None:
    """A million pictures of 64 bytes: canonical form, orbit numbers, blocks; processor seconds."""
    X = np.random.default_rng(0).integers(0, 4, size=(1_000_000, 64), dtype=np.uint8)
    group, y = groups.d4((8, 8)), np.zeros(1_000_000, dtype=np.int64)
    group.canonical(X[:10])
    form = timed(lambda: group.canonical(X), cpu=True)
    memory = peak(lambda: group.canonical(X))
    numbers = timed(lambda: number_keys(group.orbit_key(X)), cpu=True)

    def some_blocks() -> int:
        count = 0
        for block, _, _ in augmented_blocks(X, y, group, block_rows=65_536, random_state=0):
            count += len(block)
            if count > 2_000_000:
                break
        return count

    list(augmented_blocks(X[:100], y[:100], group))
    drawn = timed(some_blocks, cpu=True)
    n = len(X)
    what = "64 bytes each under the eight turns"
    growth("invariance", f"canonical form, {what}", {n: form}, size="pictures", bar=3.0)
    growth("invariance", f"canonical form, {what}", {n: memory}, size="pictures", unit="MiB",
           bar=200.0)  # fmt: skip
    growth("invariance", f"orbit numbers, {what}", {n: numbers}, size="pictures", bar=10.0)
    growth("invariance", f"augmented_blocks, {what}", {drawn.result: drawn}, size="rows",
           bar=drawn.result / 1e6)  # fmt: skip


def check() -> None:
    """The label test on 4,000 x 784: processor seconds, and against all distances at once."""
    rng = np.random.default_rng(0)
    X, y = rng.random((4000, 784)), rng.integers(0, 10, size=4000)
    flips = groups.image_flips((28, 28), ["vertical"])
    check_symmetry(X[:200], y[:200], flips, random_state=0)
    spent = timed(lambda: check_symmetry(X, y, flips, random_state=0), cpu=True)
    growth("invariance", "check_symmetry, 784 columns, five repeats", {4000: spent}, size="rows",
           bar=6.0)  # fmt: skip
    features, moved = X, group_image(flips, X)
    ours, theirs = in_turns(
        lambda: landing(geometry(features, 10), moved),
        lambda: (cdist(features, features), cdist(moved, features)),
        1,
    )
    compare("invariance", "natural neighbours and landings of 4,000 x 784", ours, theirs,
            against="all distances by scipy", package="scipy")  # fmt: skip


def group_image(group: Any, X: Any) -> Any:
    """All rows under the second element."""
    return np.ascontiguousarray(group.act(1, X))


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
    found = {}
    for name, module, collate in (
        ("the plain network", net(), None),
        ("a loader that turns", net(), AugmentCollate(turns, random_state=0)),
        ("InvariantModule", InvariantModule(net(), turns), None),
    ):
        model = TorchClassifier(module, epochs=20, random_state=0, collate=collate)
        spent = timed(lambda model=model: model.fit(X.astype(np.float32), y))
        found[name] = spent, 1 - spent.result.score(Z.astype(np.float32), z)
    seconds, error = found.pop("InvariantModule")
    what = "InvariantModule, small network on turned digits, 20 epochs"
    for name, (spent, wrong) in found.items():
        compare("invariance", f"{what}: fit", seconds, spent, against=name, package="torch")
        compare("invariance", f"{what}: error", error, wrong, against=name, package="torch",
                unit="error")  # fmt: skip


def peers() -> None:
    """Packages with invariant networks; none of them has a test, an advisor or estimators."""
    for name in ("escnn", "emlp", "e2cnn"):
        there = importlib.util.find_spec(name) is not None
        skipped("invariance", name, "no comparable task" if there else "not installed")


PARTS = {
    "models": models, "blocks": blocks, "canonical": canonical, "million": million,
    "check": check, "network": network, "peers": peers,
}  # fmt: skip


def main(names: Sequence[str] = ()) -> None:
    for name in names or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
