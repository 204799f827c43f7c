"""Which points are hard? Scores that create parties who learn at different speeds.

``trials`` is the source's method: train many networks on small random subsets and average, over the
subsets that contain a point, how long the network took. ``margin`` is a cheap substitute, the
held-out loss of cross-validated networks. (The source also tried the entropy of the output and
found it weaker.)
Source: "The experiment of the chapter", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterplay.contribution.defectors.pretraining import accuracy_on
from counterplay.contribution.defectors.rounds import Adam
from counterplay.core.arguments import checked
from counterplay.core.draws import Keys, fold, run_keys, uniforms
from counterplay.core.validation import check_choice, check_float_array, check_int, check_real
from counterplay.errors import InvalidInputError
from counterplay.federated.arrays import Array
from counterplay.federated.losses import cross_entropy
from counterplay.federated.objective import Objective
from counterplay.federated.sites import party_rows

MOST = 1_000_000
_SUBSET, _STEP, _FOLD, _DROP = 501, 502, 503, 504
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@checked
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


@checked
@dataclass(frozen=True)
class Trials:
    """How networks are trained to score points; the numbers of the source are the defaults.

    Parameters
    ----------
    count:
        Number of networks.
    subset_size:
        Points per network (method ``trials``).
    batch_size:
        Points per step.
    target:
        Hold-out accuracy at which a trial stops.
    max_steps:
        Steps at most; trials that do not reach the target count with this number.
    check_every:
        Steps between two looks at the accuracy.
    step_size:
        Learning rate of Adam.
    chunk:
        Networks trained together.

    Examples
    --------
    >>> Trials(count=4, max_steps=60).batch_size
    16
    """

    count: int = 10_000
    subset_size: int = 1000
    batch_size: int = 16
    target: float = 0.6
    max_steps: int = 1000
    check_every: int = 5
    step_size: float = 0.002
    chunk: int = 200

    def __post_init__(self) -> None:
        for name in ("count", "subset_size", "batch_size", "max_steps", "check_every", "chunk"):
            check_int(getattr(self, name), name, low=1, high=MOST)
        check_real(self.step_size, "step_size", low=0.0, open_low=True)
        check_real(self.target, "target", low=0.0)

    def parts(self, seed: int) -> Iterator[Keys]:
        """Keys of the networks, ``chunk`` at a time."""
        keys = run_keys(seed, self.count)
        return (keys[start : start + self.chunk] for start in range(0, self.count, self.chunk))


@checked
def difficulty_scores(
    objective: Objective,
    X: Any,
    y: Any,
    holdout: tuple[Any, Any] | None = None,
    *,
    method: Literal["trials", "margin"] = "trials",
    trials: Trials | None = None,
    seed: int = 0,
) -> Difficulty:
    """Score how hard each point of a pool is to learn from.

    Parameters
    ----------
    objective:
        The model; fresh copies of it are trained.
    X:
        Points of the pool: an array, images or a frame of numbers.
    y:
        Their class numbers.
    holdout:
        Points and labels for the stopping accuracy (method ``trials``).
    method:
        ``"trials"``: mean number of steps over the trials that contain the point. ``"margin"``:
        mean held-out loss over the course of cross-validated training (each network on a random
        half).
    trials:
        How many networks are trained, and how; the source's numbers by default.
    seed:
        Seed of subsets, initial weights and minibatches.

    Notes
    -----
    The source stops at a cross-entropy of 0.5 but records the time to 60 % accuracy, so that some
    trials may stop without a record; here every trial runs until the accuracy or the cap.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from counterplay.contribution.lab import DigitsNetwork
    >>> X, y = load_digits(return_X_y=True)
    >>> few = Trials(count=4, max_steps=60)
    >>> difficulty_scores(DigitsNetwork(), X / 16.0, y, method="margin", trials=few).scores.shape
    (1797,)
    """
    check_choice(method, "method", ("trials", "margin"))
    t = trials or Trials()
    check_int(seed, "seed", low=0)
    X, y = party_rows(objective, X, y)
    if len(y) < 2:
        raise InvalidInputError("a pool of one point has no harder and easier ones")
    if method == "margin":
        return Difficulty(_margin(objective, X, y, t, seed), method, np.empty(0), 0.0)
    if holdout is None:
        raise InvalidInputError("method 'trials' needs holdout=(X, y) for its stopping accuracy")
    holdout = party_rows(objective, *holdout, "holdout")
    if t.subset_size > len(y):
        raise InvalidInputError(f"subset_size must be between 1 and {len(y)}, got {t.subset_size}")
    members, counts = [], []
    for keys in t.parts(seed):
        members.append(_subsets(keys, len(y), t.subset_size))
        counts.append(_times(objective, X, y, holdout, t, keys, members[-1]))
    subset, count = np.concatenate(members), np.concatenate(counts)
    censored = float((count >= t.max_steps).mean())
    return Difficulty(_mean_attribution(subset, count, len(y)), method, count, censored)


@checked
def hard_and_easy(scores: Floats, share: float = 0.1) -> tuple[Ints, Ints]:
    """Return the indices of the hardest and the easiest ``share`` of the points.

    Examples
    --------
    >>> hard, easy = hard_and_easy(np.arange(10.0), share=0.2)
    >>> sorted(hard.tolist()), sorted(easy.tolist())
    ([8, 9], [0, 1])
    """
    check_real(share, "share", low=0.0, high=0.5, open_low=True)
    order = np.argsort(check_float_array(scores, "scores", ndim=1), kind="stable")
    n = round(share * len(order))
    if n == 0:
        raise InvalidInputError(f"a share of {share:g} of {len(order)} points is no point")
    return order[len(order) - n :], order[:n]


def _subsets(keys: Keys, n: int, size: int) -> Ints:
    draw = uniforms(fold(keys, _SUBSET), n)
    return np.argpartition(draw, size - 1, axis=1)[:, :size].astype(np.int64)


def _training(
    objective: Objective,
    X: NDArray[Any],
    y: Ints,
    trials: Trials,
    keys: Keys,
    subset: Ints,
    stream: int,
) -> Iterator[Array]:
    """Train one network per key on its row of ``subset``; yield the parameters after each step."""
    put, size = objective.backend.put, trials.batch_size
    w, adam, pool = put(objective.start(keys)), Adam(trials.step_size), put(X)
    weight = objective.backend.full((len(keys), size), 1.0 / size)
    first = int(stream == _FOLD)
    for step in range(first, first + trials.max_steps):
        u = uniforms(fold(keys, stream, step), size)
        pick = np.take_along_axis(subset, (u * subset.shape[1]).astype(np.int64), axis=1)
        x, labels = pool[put(pick)], put(y[pick])
        slope = objective.step_gradient(w, x, labels, weight, fold(keys, _DROP, step))
        w = adam.step(w, slope)
        yield w


def _times(
    objective: Objective,
    X: NDArray[Any],
    y: Ints,
    holdout: tuple[NDArray[Any], Ints],
    trials: Trials,
    keys: Keys,
    subset: Ints,
) -> Floats:
    """Steps until each trial reaches the target accuracy on the hold-out points."""
    count = np.full(len(keys), float(trials.max_steps))
    run = _training(objective, X, y, trials, keys, subset, _STEP)
    for step, w in enumerate(run, start=1):
        if step % trials.check_every == 0:
            reached = accuracy_on(objective, w, *holdout) >= trials.target
            count = np.where(reached & (count >= trials.max_steps), float(step), count)
            if (count < trials.max_steps).all():
                break
    return count


def _mean_attribution(subset: Ints, count: Floats, n: int) -> Floats:
    total, seen = np.zeros(n), np.zeros(n)
    np.add.at(total, subset.ravel(), np.repeat(count, subset.shape[1]))
    np.add.at(seen, subset.ravel(), 1.0)
    return np.where(seen > 0, total / np.maximum(seen, 1.0), count.mean())


def _margin(objective: Objective, X: NDArray[Any], y: Ints, trials: Trials, seed: int) -> Floats:
    """Held-out loss, averaged over networks and over ten checkpoints of the training."""
    total, seen = np.zeros(len(y)), np.zeros(len(y))
    put, steps, cut = objective.backend.put, trials.max_steps, len(y) // 2
    pool = put(X)
    checkpoints = set(np.linspace(steps / 10, steps, 10).round().astype(int).tolist())
    for keys in trials.parts(seed):
        halves = _subsets(keys, len(y), len(y))
        own, out = halves[:, :cut], halves[:, cut:]
        run = _training(objective, X, y, trials, keys, own, _FOLD)
        for step, w in enumerate(run, start=1):
            if step in checkpoints:
                scores = objective.outputs(w, pool[put(out)])
                loss = cross_entropy(objective.backend, scores, put(y[out]))[0]
                np.add.at(total, out.ravel(), objective.backend.fetch(loss).ravel())
                np.add.at(seen, out.ravel(), 1.0)
    mean = float(total.sum() / max(seen.sum(), 1.0))
    return np.where(seen > 0, total / np.maximum(seen, 1.0), mean)
