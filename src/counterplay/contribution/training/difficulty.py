"""Which points are hard? Scores that create parties who learn at different speeds.

``trials`` is the source's method: train many networks on small random subsets and average, over the
subsets that contain a point, how long the network took. ``ridge`` estimates the same attribution by
regression. Cheap substitutes: ``margin`` is the held-out loss of cross-validated networks,
``forgetting`` how often a point is unlearned. (The source also tried the entropy of the output and
found it weaker.)
Source: "The experiment of the chapter", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterplay.contribution.training.networks import Adam, Network
from counterplay.core.draws import Keys, fold, run_keys, uniforms
from counterplay.core.validation import check_choice, check_positive_int, check_real
from counterplay.errors import InvalidInputError

_SUBSET, _STEP, _FOLD, _DROP = 501, 502, 503, 504
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class Difficulty:
    """Scores (larger is harder) and, for trials, the counts behind them.

    ``counts`` are steps until the hold-out accuracy was reached, capped; ``censored`` is the share
    of trials that hit the cap.
    """

    scores: Floats
    method: str
    counts: Floats
    censored: float

    def __repr__(self) -> str:
        return f"Difficulty({self.method!r}, {len(self.scores)} points)"


def difficulty_scores(
    network: Network,
    X: NDArray[Any],
    y: Ints,
    holdout: tuple[NDArray[Any], Ints] | None = None,
    *,
    method: Literal["trials", "ridge", "margin", "forgetting"] = "trials",
    n_trials: int = 10_000,
    subset_size: int = 1000,
    batch_size: int = 16,
    target: float = 0.6,
    max_steps: int = 1000,
    check_every: int = 5,
    lr: float = 0.002,
    chunk: int = 200,
    seed: int = 0,
) -> Difficulty:
    """Score how hard each point of a pool is to learn from.

    Parameters
    ----------
    network:
        Fresh copies of it are trained.
    X, y:
        The pool.
    holdout:
        Points and labels for the stopping accuracy (methods ``trials`` and ``ridge``).
    method:
        ``"trials"``: mean number of steps over the trials that contain the point. ``"ridge"``:
        ridge regression of that number on membership. ``"margin"``: mean held-out loss over the
        course of cross-validated training (``n_trials`` networks, each on a random half).
        ``"forgetting"``: how often ``n_trials`` networks, checked every ``check_every`` steps, get
        a point wrong that they had right; a point never learned counts as always forgotten.
    n_trials, subset_size, batch_size, target, max_steps:
        As in the source: 10,000 subsets of 1000 points, batches of 16, until 60 % accuracy. Trials
        that do not get there count with ``max_steps``.
    chunk:
        Networks trained together.

    Notes
    -----
    The source stops at a cross-entropy of 0.5 but records the time to 60 % accuracy, so that some
    trials may stop without a record; here every trial runs until the accuracy or the cap.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from counterplay.contribution.training import MLP
    >>> X, y = load_digits(return_X_y=True)
    >>> result = difficulty_scores(MLP(), X / 16.0, y, method="margin", n_trials=4, max_steps=60)
    >>> result.scores.shape
    (1797,)
    """
    check_choice(method, "method", ("trials", "ridge", "margin", "forgetting"))
    for name, value in (("n_trials", n_trials), ("max_steps", max_steps), ("chunk", chunk)):
        check_positive_int(value, name)
    check = check_positive_int(check_every, "check_every")
    keys = run_keys(seed, n_trials)
    if method == "margin":
        scores = _margin(network, X, y, keys, batch_size, max_steps, lr, chunk)
        return Difficulty(scores, method, np.empty(0), 0.0)
    if method == "forgetting":
        parts = [
            _forgotten(network, X, y, keys[start : start + chunk], batch_size, max_steps, lr, check)
            for start in range(0, n_trials, chunk)
        ]
        return Difficulty(np.sum(parts, axis=0) / n_trials, method, np.empty(0), 0.0)
    if holdout is None:
        raise InvalidInputError(f"method {method!r} needs holdout=(X, y) for its stopping accuracy")
    if not 1 <= subset_size <= len(y):
        raise InvalidInputError(f"subset_size must be between 1 and {len(y)}, got {subset_size}")
    members, counts = [], []
    for start in range(0, n_trials, chunk):
        part = keys[start : start + chunk]
        subset = _subsets(part, len(y), subset_size)
        members.append(subset)
        counts.append(
            _times(
                network, X, y, holdout, part, subset, batch_size, target, max_steps, check_every, lr
            )
        )
    subset, count = np.concatenate(members), np.concatenate(counts)
    censored = float((count >= max_steps).mean())
    attribute = _mean_attribution if method == "trials" else _ridge_attribution
    return Difficulty(attribute(subset, count, len(y)), method, count, censored)


def hard_and_easy(scores: Floats, share: float = 0.1, skip: float = 0.0) -> tuple[Ints, Ints]:
    """Return the indices of the hardest and the easiest ``share`` of the points.

    ``skip`` leaves out that share at both ends first: with held-out losses the very hardest points
    are mislabelled or illegible, and nobody can learn them.

    Examples
    --------
    >>> hard, easy = hard_and_easy(np.arange(10.0), share=0.2, skip=0.1)
    >>> sorted(hard.tolist()), sorted(easy.tolist())
    ([7, 8], [1, 2])
    """
    check_real(share, "share", low=0.0, high=0.5, open_low=True)
    check_real(skip, "skip", low=0.0, high=0.5)
    order = np.argsort(scores, kind="stable")
    n, left_out = round(share * len(order)), round(skip * len(order))
    if n == 0 or 2 * (n + left_out) > len(order):
        raise InvalidInputError("share and skip leave too few points for two separate pools")
    return order[len(order) - left_out - n : len(order) - left_out], order[left_out : left_out + n]


def _subsets(keys: Keys, n: int, size: int) -> Ints:
    draw = uniforms(fold(keys, _SUBSET), n)
    return np.argpartition(draw, size - 1, axis=1)[:, :size].astype(np.int64)


def _times(
    network: Network,
    X: NDArray[Any],
    y: Ints,
    holdout: tuple[NDArray[Any], Ints],
    keys: Keys,
    subset: Ints,
    batch_size: int,
    target: float,
    max_steps: int,
    check_every: int,
    lr: float,
) -> Floats:
    """Steps until each trial reaches the target accuracy on the hold-out points."""
    runs = len(keys)
    count = np.full(runs, float(max_steps))
    params, adam = network.init(keys), Adam(lr)
    pool = network.put(X)
    test_x = network.put(np.broadcast_to(holdout[0], (runs, *holdout[0].shape)))
    test_y = network.put(np.broadcast_to(holdout[1], (runs, len(holdout[1]))))
    weight = network.put(np.full((runs, batch_size), 1.0 / batch_size))
    for step in range(max_steps):
        u = uniforms(fold(keys, _STEP, step), batch_size)
        pick = np.take_along_axis(subset, (u * subset.shape[1]).astype(np.int64), axis=1)
        drop = fold(keys, _DROP, step)
        x, labels = pool[network.put(pick)], network.put(y[pick])
        _, grads = network.gradients(params, x, labels, weight, drop)
        params = adam.step(params, grads)
        if (step + 1) % check_every == 0:
            right = network.fetch(network.correct(params, test_x, test_y))
            reached = right.mean(axis=1) >= target
            count = np.where(reached & (count >= max_steps), step + 1.0, count)
            if (count < max_steps).all():
                break
    return count


def _mean_attribution(subset: Ints, count: Floats, n: int) -> Floats:
    total, seen = np.zeros(n), np.zeros(n)
    np.add.at(total, subset.ravel(), np.repeat(count, subset.shape[1]))
    np.add.at(seen, subset.ravel(), 1.0)
    return np.where(seen > 0, total / np.maximum(seen, 1.0), count.mean())


def _ridge_attribution(subset: Ints, count: Floats, n: int, strength: float = 1.0) -> Floats:
    """Ridge regression in its dual form: one equation per trial instead of one per point."""
    member = np.zeros((len(count), n), dtype=np.float32)
    np.put_along_axis(member, subset, 1.0, axis=1)
    member -= subset.shape[1] / n
    gram = (member @ member.T).astype(np.float64)
    gram[np.diag_indices_from(gram)] += strength * subset.shape[1]
    dual = np.linalg.solve(gram, count - count.mean())
    return np.asarray(count.mean() + dual @ member, dtype=np.float64)


def _margin(
    network: Network,
    X: NDArray[Any],
    y: Ints,
    keys: Keys,
    batch_size: int,
    steps: int,
    lr: float,
    chunk: int,
) -> Floats:
    """Held-out loss, averaged over networks and over ten checkpoints of the training."""
    total, seen = np.zeros(len(y)), np.zeros(len(y))
    pool = network.put(X)
    checkpoints = set(np.linspace(steps / 10, steps, 10).round().astype(int).tolist())
    for start in range(0, len(keys), chunk):
        part = keys[start : start + chunk]
        halves = _subsets(part, len(y), len(y))
        cut = len(y) // 2
        params, adam = network.init(part), Adam(lr)
        for step in range(1, steps + 1):
            u = uniforms(fold(part, _FOLD, step), batch_size)
            pick = np.take_along_axis(halves, (u * cut).astype(np.int64), axis=1)
            weight = network.put(np.full(pick.shape, 1.0 / batch_size))
            x, labels = pool[network.put(pick)], network.put(y[pick])
            _, grads = network.gradients(params, x, labels, weight, fold(part, _DROP, step))
            params = adam.step(params, grads)
            if step in checkpoints:
                out = halves[:, cut:]
                loss = network.losses(params, pool, network.put(out), network.put(y[out]))
                np.add.at(total, out.ravel(), loss.ravel())
                np.add.at(seen, out.ravel(), 1.0)
    mean = float(total.sum() / max(seen.sum(), 1.0))
    return np.where(seen > 0, total / np.maximum(seen, 1.0), mean)


def _forgotten(
    network: Network,
    X: NDArray[Any],
    y: Ints,
    keys: Keys,
    batch_size: int,
    steps: int,
    lr: float,
    every: int,
) -> Floats:
    """Count, over some networks, how often each point is unlearned (or never learned)."""
    params, adam = network.init(keys), Adam(lr)
    pool, labels = network.put(X), network.put(y)
    everything = network.put(np.tile(np.arange(len(y)), (len(keys), 1)))
    weight = network.put(np.full((len(keys), batch_size), 1.0 / batch_size))
    before = np.zeros((len(keys), len(y)), dtype=bool)
    ever, events = before.copy(), np.zeros(before.shape)
    for step in range(1, steps + 1):
        u = uniforms(fold(keys, _STEP, step), batch_size)
        place = network.put((u * len(y)).astype(np.int64))
        drop = fold(keys, _DROP, step)
        _, grads = network.gradients(params, pool[place], labels[place], weight, drop)
        params = adam.step(params, grads)
        if step % every == 0:
            right = network.fetch(network.correct(params, pool[everything], labels[everything]))
            events += before & ~right
            ever |= right
            before = right
    worst = float(steps // every)  # as many events as there were checks
    return np.asarray(np.where(ever, events, worst).sum(axis=0), dtype=np.float64)
