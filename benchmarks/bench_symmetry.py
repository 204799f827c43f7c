"""Symmetries: ratios against what one would write instead, in one run.

Names of parts as arguments run only these: models advisor angles blocks canonical million check
network peers.
Errors are compared within one model only: a ratio across models says nothing about a symmetry.
"""

from __future__ import annotations

import importlib
import os
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from ledger import compare, growth, in_turns, skipped, timed
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from counterplay import datasets
from counterplay.invariance import (
    AugmentedClassifier,
    CanonicalClassifier,
    OrbitKernelClassifier,
    augmented_blocks,
    check_symmetry,
    groups,
    symmetry_advisor,
)
from counterplay.invariance.matched_neighbours import geometry, landing
from counterplay.invariance.random_images import random_images
from counterplay.invariance.transformations import number_keys
from counterplay.studies.invariance.symmetry_advice import fitted
from counterplay.studies.invariance.symmetry_settings import task


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
    logistic = LogisticRegression(max_iter=200)
    digits = [turned_digits(seed) for seed in range(4)]
    _same_model("turned digits, canonical logistic regression", digits,
                AugmentedClassifier(logistic, turns), CanonicalClassifier(logistic, turns),
                2.0)  # fmt: skip
    _same_model("turned digits, orbit kernel with support vectors", digits,
                AugmentedClassifier(OrbitKernelClassifier(), turns),
                OrbitKernelClassifier(group=turns), 1.0)  # fmt: skip
    if not os.environ.get("COUNTERPLAY_DATA"):
        skipped("invariance", "EMNIST, orbit kernel", "needs COUNTERPLAY_DATA")
        return
    tasks = [task("EMNIST A-L, quarter turns, LR", seed) for seed in range(3)]
    group = tasks[0].group
    _same_model("turned EMNIST letters, orbit kernel with support vectors",
                [(t.X, t.y, t.X_test, t.y_test) for t in tasks],
                AugmentedClassifier(OrbitKernelClassifier(), group),
                OrbitKernelClassifier(group=group), 1.0)  # fmt: skip


def _same_model(name: str, samples: Any, copies: Any, ours: Any, bar: float) -> None:
    errors = np.array([[1 - model.fit(X, y).score(Z, z) for model in (ours, copies)]
                       for X, y, Z, z in samples]).T  # fmt: skip
    compare("invariance", f"error on {name}", errors[0], errors[1],
            against="the same model on copies", package="counterplay", unit="error",
            bar=bar)  # fmt: skip


def advisor() -> None:
    """The advisor against stacked copies, and against the best of all candidates in hindsight."""
    found = []
    for name in ("digits, quarter turns, LR", "tic-tac-toe, D4, tree"):
        for seed in range(3):
            one = task(name, seed)
            advice = symmetry_advisor(one.model, one.X, one.y, one.group, future=one.future,
                                      check=False, random_state=seed)  # fmt: skip
            alone = fitted(one, set(advice.to_frame()["candidate"]), seed)
            errors = {k: 1 - m.score(one.X_test, one.y_test) for k, m in alone.items()}
            mine = 1 - advice.model.score(one.X_test, one.y_test)
            copies = [errors[k] for k in ("augment", "kernel, augmented")]
            found.append((mine, min(errors.values()), min(copies)))
    mine, best, stacked = np.transpose(found)
    what = "symmetry_advisor, error on turned digits and boards, three training sets each"
    compare("invariance", what, mine, stacked, package="counterplay", unit="error",
            against="the better of both models on stacked copies")  # fmt: skip
    compare("invariance", what, mine, best, against="the best candidate of each set in hindsight",
            package="counterplay", unit="error", note="nobody knows it beforehand")  # fmt: skip


def angles() -> None:
    """Pictures of any angle: the form by moments against eight turned copies, one model."""
    if not os.environ.get("COUNTERPLAY_DATA"):
        skipped("invariance", "MNIST of any angle", "needs COUNTERPLAY_DATA")
        return
    X, y = datasets.fetch("mnist", return_X_y=True)
    keep = np.flatnonzero((np.asarray(y) != 6) & (np.asarray(y) != 9))[:6000]
    rows, y = np.asarray(X)[keep].reshape(len(keep), -1) / 255, np.asarray(y)[keep]
    few, any_angle = groups.image_turns((28, 28), 8), groups.image_turns((28, 28), "any")
    logistic = LogisticRegression(max_iter=200)
    samples = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(rows))
        turned = random_images(rows[order[500:1500]], any_angle, rng)[0]
        samples.append((rows[order[:500]], y[order[:500]], turned, y[order[500:1500]]))
    _same_model("MNIST without 6 and 9 turned by any angle, logistic regression by moments",
                samples, AugmentedClassifier(logistic, few),
                CanonicalClassifier(logistic, any_angle), 1.0)  # fmt: skip


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
    """A million pictures of 64 bytes: canonical form, orbit numbers, blocks, advice; CPU."""
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

    labels = (X[:, :32].sum(axis=1) > X[:, 32:].sum(axis=1)).astype(int)
    advice = timed(lambda: symmetry_advisor(DecisionTreeClassifier(max_depth=3), X, labels, group,
                                            candidates=["smallest"], check=False,
                                            random_state=0), 1, cpu=True)  # fmt: skip
    list(augmented_blocks(X[:100], y[:100], group))
    drawn = timed(some_blocks, cpu=True)
    n = len(X)
    what = "64 bytes each under the eight turns"
    growth("invariance", f"canonical form, {what}", {n: form}, size="pictures", bar=3.0)
    growth("invariance", f"canonical form, {what}", {n: memory}, size="pictures", unit="MiB",
           bar=200.0)  # fmt: skip
    growth("invariance", f"orbit numbers, {what}", {n: numbers}, size="pictures", bar=10.0)
    growth("invariance", f"symmetry_advisor (a tree, searched on 20,000), {what}", {n: advice},
           size="pictures")  # fmt: skip
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
        3,
    )
    compare("invariance", "natural neighbours and landings of 4,000 x 784", ours, theirs,
            against="all distances by scipy", package="scipy")  # fmt: skip


def group_image(group: Any, X: Any) -> Any:
    """All rows under the second element."""
    return np.ascontiguousarray(group.act(1, X))


def network() -> None:
    """The mean over the orbit in training against a loader that turns, at equal epochs."""
    from counterplay.invariance.torch import AugmentCollate, InvariantModule, TorchClassifier

    turns = groups.image_rotations((8, 8))

    X, y, Z, z = turned_digits(0, 500)
    TorchClassifier(_small_network(), epochs=1, random_state=0).fit(X.astype(np.float32), y)  # warm
    found = {}
    for name, module, collate in (
        ("the plain network", _small_network(), None),
        ("a loader that turns", _small_network(), AugmentCollate(turns, random_state=0)),
        ("InvariantModule", InvariantModule(_small_network(), turns), None),
    ):
        model = TorchClassifier(module, epochs=20, random_state=0, collate=collate)
        spent = timed(lambda model=model: model.fit(X.astype(np.float32), y))
        found[name] = spent, spent.result.predict(Z.astype(np.float32)) != z
    seconds, error = found.pop("InvariantModule")
    what = "InvariantModule, small network on turned digits, 20 epochs"
    for name, (spent, wrong) in found.items():
        compare("invariance", f"{what}: fit", seconds, spent, against=name, package="torch")
        compare("invariance", f"{what}: error", error, wrong, against=name, package="torch",
                unit="error")  # fmt: skip


def peers() -> None:
    """Packages with invariant networks; none of them has a test, an advisor or estimators."""
    for name, make in (("escnn", _steerable), ("e2cnn", _steerable), ("emlp", _perceptron)):
        try:
            module = make(name)
        except ImportError as error:  # absent, or its compiled part does not fit this NumPy
            skipped("invariance", name, f"cannot be imported here ({str(error)[:80]})")
        else:
            _against(name, module)


def _against(name: str, theirs: Any) -> None:
    """An invariant network of theirs against the mean over the orbit of a plain one."""
    from counterplay.invariance.torch import InvariantModule, TorchClassifier

    X, y, Z, z = turned_digits(0, 500)
    turns = groups.image_rotations((8, 8))
    rows, tests = X.astype(np.float32), Z.astype(np.float32)
    found = []
    for module in (InvariantModule(_small_network(), turns), theirs):
        model = TorchClassifier(module, epochs=20, random_state=0)
        spent = timed(lambda model=model: model.fit(rows, y))
        found.append((spent, spent.result.predict(tests) != z))
    (seconds, error), (their_seconds, their_error) = found
    what = "InvariantModule, small network on turned digits, 20 epochs"
    compare("invariance", f"{what}: error", error, their_error, package=name, unit="error",
            against=f"an invariant network of {name}", note="other architectures")  # fmt: skip
    compare("invariance", f"{what}: fit", seconds, their_seconds, package=name,
            against=f"an invariant network of {name}", note="other architectures")  # fmt: skip


def _small_network() -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3),
        nn.ReLU(), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip


def _steerable(name: str) -> Any:
    """Two convolutions with regular features of C4, pooled over the group and the picture."""
    import torch

    spaces, nn = importlib.import_module(f"{name}.gspaces"), importlib.import_module(f"{name}.nn")
    torch.manual_seed(0)
    turns = getattr(spaces, "rot2dOnR2", None) or spaces.Rot2dOnR2
    act = turns(N=4)
    types = [nn.FieldType(act, count * [rep]) for count, rep in
             ((1, act.trivial_repr), (8, act.regular_repr), (32, act.regular_repr))]  # fmt: skip
    layers = []
    for first, second in zip(types, types[1:]):
        layers += [nn.R2Conv(first, second, kernel_size=3), nn.ReLU(second)]
    body = nn.SequentialModule(*layers, nn.GroupPooling(types[-1]))

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = body, torch.nn.Linear(32, 10)

        def forward(self, x: Any) -> Any:
            pictures = nn.GeometricTensor(x.reshape(-1, 1, 8, 8), types[0])
            return self.head(self.body(pictures).tensor.amax(dim=(2, 3)))

    return Network()


def _perceptron(name: str) -> Any:
    """A layer of all maps of 64 pixels that keep quarter turns, and invariant outputs."""
    groups_of, reps, layers = (
        importlib.import_module(f"{name}.{part}") for part in ("groups", "reps", "nn.pytorch")
    )
    turn = np.rot90(np.arange(64).reshape(8, 8)).reshape(-1)

    class Turns(groups_of.Group):
        def __init__(self) -> None:
            self.d, self.discrete_generators = 64, np.eye(64, dtype=np.float32)[turn][None]
            super().__init__()

    group = Turns()
    return layers.EMLP(reps.V(group), 10 * reps.T(0)(group), group=group, ch=64, num_layers=1)


PARTS = {
    "models": models, "advisor": advisor, "angles": angles, "blocks": blocks,
    "canonical": canonical,
    "million": million, "check": check, "network": network, "peers": peers,
}  # fmt: skip


def main(names: Sequence[str] = ()) -> None:
    for name in names or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
