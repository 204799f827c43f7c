"""Worlds in which it is known whether labels are invariant: rows, labels and maps."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from counterplay.invariance import groups
from counterplay.invariance.lab import CoordinatePermutationGroup

UPSIDE_DOWN = groups.image_flips((8, 8), axes=["vertical"])
TURNS = groups.image_rotations((8, 8))


def turned_digits(
    rng: np.random.Generator, n: int, share: float, noise: float = 0.0, violating: int = 0
) -> tuple[np.ndarray, np.ndarray, float]:
    """Digits without 6 and 9, some of them turned; labels of some classes change with odd turns.

    Returns rows, labels and the true violation rate over random turns other than the identity.
    """
    X, y = load_digits(return_X_y=True)
    X, y = X[(y != 6) & (y != 9)], y[(y != 6) & (y != 9)]
    pick = rng.permutation(len(X))[:n]
    rows, labels = X[pick], np.unique(y, return_inverse=True)[1][pick]
    turn = np.where(rng.random(n) < share, rng.integers(1, 4, size=n), 0)
    rows = np.array([np.rot90(x.reshape(8, 8), k).ravel() for x, k in zip(rows, turn)])
    eta = 2 / 3 * float(np.isin(labels, range(violating)).mean())
    odd = np.isin(labels, range(violating)) & (turn % 2 == 1)
    labels = np.where(odd, labels + 8, labels)
    flip = rng.random(n) < noise
    return rows, np.where(flip, rng.integers(0, 8, size=n), labels), eta


def swap(p: int, a: int, b: int) -> CoordinatePermutationGroup:
    """Two columns exchanged."""
    perm = np.arange(p)
    perm[[a, b]] = b, a
    return CoordinatePermutationGroup(np.array([np.arange(p), perm]))


def invariant_table(rng: np.random.Generator, n: int, noise: float = 0.0):
    """Two interchangeable columns: labels depend on their sum and on their distance."""
    X = rng.normal(size=(n, 2))
    y = (X.sum(axis=1) > 0).astype(int) + 2 * (np.abs(X[:, 0] - X[:, 1]) > 1)
    flip = rng.random(n) < noise
    return X, np.where(flip, rng.integers(0, 4, size=n), y)
