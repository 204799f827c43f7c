"""Pre-training: all runs start from a network that has seen some data of everybody.
Source: "The experiment of the chapter", see docs/theory/04-contribution.md (stop by accuracy, not
by "epochs").
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.contribution.training.networks import Adam, Network, Params, along
from counterplay.core.draws import Keys, fold, uniforms

_BATCH, _DROP = 301, 303


def pretrain(
    network: Network,
    X: NDArray[Any],
    y: NDArray[np.int64],
    keys: Keys,
    *,
    steps: int = 40,
    batch_size: int = 64,
    lr: float | NDArray[np.float64] = 0.002,
    target: float | None = None,
    holdout: tuple[NDArray[Any], NDArray[np.int64]] | None = None,
    check_every: int = 5,
) -> Params:
    """Return parameters trained on ``X, y`` with Adam, one set per key.

    ``lr`` is one learning rate, or one per run. With ``target`` every run stops as soon as its
    accuracy on ``holdout`` reaches it; ``steps`` is then the most it may take.
    """
    params = network.init(keys)
    adam = Adam(network.put(lr) if isinstance(lr, np.ndarray) else lr)
    done = np.zeros(len(keys), dtype=bool)
    pool, labels = network.put(X), network.put(y)
    for step in range(steps):
        pick = (uniforms(fold(keys, _BATCH, step), batch_size) * len(y)).astype(np.int64)
        weight = network.put(np.full(pick.shape, 1.0 / batch_size))
        place = network.put(pick)
        _, grads = network.gradients(
            params, pool[place], labels[place], weight, fold(keys, _DROP, step)
        )
        moved = adam.step(params, grads)
        params = _select(network, done, params, moved) if done.any() else moved
        if target is not None and holdout is not None and (step + 1) % check_every == 0:
            done |= accuracy_on(network, params, *holdout) >= target
            if done.all():
                break
    return params


def accuracy_on(
    network: Network, params: Params, X: NDArray[Any], y: NDArray[np.int64]
) -> NDArray[Any]:
    """Return the accuracy of every run on the same points."""
    runs = params[0].shape[0]
    x = network.put(np.broadcast_to(X, (runs, *X.shape)))
    labels = network.put(np.broadcast_to(y, (runs, len(y))))
    return np.asarray(network.fetch(network.correct(params, x, labels)).mean(axis=1))


def _select(network: Network, done: NDArray[np.bool_], old: Params, new: Params) -> Params:
    keep = network.put(done.astype(np.float64))
    return [along(keep, o) * o + (1.0 - along(keep, n)) * n for o, n in zip(old, new)]
