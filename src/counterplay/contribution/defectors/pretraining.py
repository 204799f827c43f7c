"""Pre-training, and the random search for its learning rate and batch size.

All runs of an experiment start from a network that has seen some data of everybody; it stops by
accuracy, not by "epochs". The search trains all draws together: 40 draws, learning rate log-uniform
between 1e-6 and 1e-2, batch size among 4, 8, 64, 128, 256 and 512, judged on held-out points.
Source: "The experiment of the chapter", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterplay.contribution.defectors.rounds import Adam, correct
from counterplay.core.arguments import checked
from counterplay.core.draws import Keys, check_keys, fold, run_keys, uniforms
from counterplay.core.report import Report
from counterplay.core.validation import check_float_array, check_int, check_real, check_size
from counterplay.errors import InvalidInputError
from counterplay.federated.arrays import Array
from counterplay.federated.objective import Objective
from counterplay.federated.sites import party_rows

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_BATCH, _DROP, _CHOICE = 301, 303, 601
BATCHES = (4, 8, 64, 128, 256, 512)
MOST_STEPS, MOST_BATCH, MOST_DRAWS = 1_000_000, 1_000_000, 10_000_000
CHECK_EVERY = 5  # steps between two looks at the accuracy


@checked
def pretrain(
    objective: Objective,
    X: Any,
    y: Any,
    keys: Keys,
    *,
    steps: int = 40,
    batch_size: int = 64,
    step_size: float | NDArray[np.float64] = 0.002,
    target: float | None = None,
    holdout: tuple[Any, Any] | None = None,
) -> Array:
    """Return parameters ``(R, d)`` trained on ``X, y`` with Adam, one row per key.

    ``step_size`` is one number, or one per run. With ``target`` every run stops as soon as its
    accuracy on ``holdout`` reaches it; ``steps`` is then the most it may take.
    """
    check_keys(keys)
    check_int(steps, "steps", low=0, high=MOST_STEPS)
    check_int(batch_size, "batch_size", low=1, high=MOST_BATCH)
    check_size(len(keys) * batch_size, MOST_DRAWS, "points per step")
    rates = check_float_array(step_size, "step_size")
    if rates.shape not in ((), (len(keys),)) or (rates < 0).any():
        raise InvalidInputError(f"step_size must be one number or one per run ({len(keys)})")
    X, y = party_rows(objective, X, y)
    if holdout is not None:
        holdout = party_rows(objective, *holdout, "holdout")
    backend = objective.backend
    with backend.fast_floats(float(len(keys) * batch_size * objective.size)):
        w, pool, labels = (backend.put(a) for a in (objective.start(keys), X, y))
        adam = Adam(backend.put(rates[:, None]) if rates.ndim else float(rates))
        weight = backend.full((len(keys), batch_size), 1.0 / batch_size)
        done = np.zeros(len(keys), dtype=bool)
        for step in range(steps):
            pick = (uniforms(fold(keys, _BATCH, step), batch_size) * len(y)).astype(np.int64)
            place = backend.put(pick)
            slope = objective.step_gradient(
                w, pool[place], labels[place], weight, fold(keys, _DROP, step)
            )
            moved, still = adam.step(w, slope), backend.put(done[:, None])
            w = backend.xp.where(still, w, moved) if done.any() else moved
            if target is not None and holdout is not None and (step + 1) % CHECK_EVERY == 0:
                done |= accuracy_on(objective, w, *holdout) >= target
                if done.all():
                    break
    return w


def accuracy_on(
    objective: Objective, w: Array, X: NDArray[Any], y: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the accuracy of every run on the same points."""
    x, labels = objective.backend.put(X), objective.backend.put(y)
    # every run sees the same memory: no copies
    same = objective.backend.xp.broadcast_to(x, (len(w), *x.shape))
    return np.asarray(correct(objective, w, same, labels[None]).mean(axis=1))


@checked(arrays=True)
@dataclass(frozen=True, repr=False)
class SearchResult(Report):
    """Accuracy of every draw of a random search, in the order they were drawn."""

    lr: NDArray[np.float64]
    batch_size: NDArray[np.int64]
    accuracy: NDArray[np.float64]
    steps: int

    def __repr__(self) -> str:
        return f"SearchResult({len(self.lr)} draws, best {self.accuracy.max():.3f})"

    @property
    def best(self) -> tuple[float, int]:
        """Learning rate and batch size of the most accurate draw."""
        top = int(self.accuracy.argmax())
        return float(self.lr[top]), int(self.batch_size[top])

    def summary(self) -> str:
        """Say which draw is best and how good it is."""
        lr, batch = self.best
        return (
            f"best of {len(self.lr)} draws after {self.steps} steps: learning rate {lr:.2g}, "
            f"batch size {batch}, accuracy {self.accuracy.max():.1%}"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per draw, best first."""
        import pandas as pd

        columns = {"lr": self.lr, "batch_size": self.batch_size, "accuracy": self.accuracy}
        frame = pd.DataFrame(columns).sort_values("accuracy", ascending=False, kind="stable")
        return frame.reset_index(drop=True)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw accuracy over the learning rate, one colour per batch size."""
        from counterplay.core.figures import PALETTE, axes_or_new

        axes = axes_or_new(ax)
        for number, batch in enumerate(np.unique(self.batch_size)):
            mine = self.batch_size == batch
            color = PALETTE[number % len(PALETTE)]
            axes.plot(self.lr[mine], self.accuracy[mine], "o", color=color, label=f"{batch}")
        axes.set(xscale="log", xlabel="learning rate", ylabel="held-out accuracy")
        axes.legend(title="batch size")
        return axes


@checked
def random_search(
    objective: Objective,
    X: Any,
    y: Any,
    holdout: tuple[Any, Any],
    *,
    draws: int = 40,
    step_size: tuple[float, float] = (1e-6, 1e-2),
    batches: Sequence[int] = BATCHES,
    steps: int = 200,
    seed: int = 0,
) -> SearchResult:
    """Train one fresh network per random setting with Adam and measure its held-out accuracy.

    Use it before a defection experiment, on data that no party holds.

    Parameters
    ----------
    objective:
        What is trained; draws with the same batch size share one batched training.
    X:
        Training points.
    y:
        Their labels.
    holdout:
        Points and labels that judge.
    draws:
        Number of random settings.
    step_size:
        Ends of the log-uniform distribution of the learning rate.
    batches:
        Batch sizes, drawn uniformly.
    steps:
        Minibatches per network: the unit in which the experiment counts rounds.
    seed:
        Seed of settings, initial weights and minibatches.

    References
    ----------
    Bergstra, Bengio (2012), *Random Search for Hyper-Parameter Optimization*.

    Examples
    --------
    >>> from counterplay.contribution.lab import DigitsNetwork, noisy_digits
    >>> data = noisy_digits(run_keys(0, 1), (0.2,), size=1000, train=600)
    >>> X, y = data.X, data.y
    >>> held = (X[600:], y[600:])
    >>> found = random_search(DigitsNetwork(), X[:600], y[:600], held, draws=8, steps=60)
    >>> bool(found.best[0] > 1e-4)  # tiny learning rates do not get anywhere
    True
    """
    low, high = (check_real(end, "step_size", low=0.0, open_low=True) for end in step_size)
    if low > high:
        raise InvalidInputError(f"step_size must be (low, high), low <= high, got {step_size}")
    sizes = [check_int(b, "batches", low=1, high=MOST_BATCH) for b in batches]
    if not sizes:
        raise InvalidInputError("batches needs at least one size")
    X, y = party_rows(objective, X, y)
    holdout = party_rows(objective, *holdout, "holdout")
    check_int(steps, "steps", low=0, high=MOST_STEPS)
    keys = run_keys(check_int(seed, "seed", low=0), check_int(draws, "draws", low=1, high=10_000))
    u = uniforms(fold(keys, _CHOICE), 2)
    rates = low * (high / low) ** u[:, 0]
    chosen = np.asarray(sizes, dtype=np.int64)[(u[:, 1] * len(sizes)).astype(np.int64)]
    accuracy = np.empty(draws)
    for size in np.unique(chosen):
        mine = np.flatnonzero(chosen == size)
        w = pretrain(
            objective, X, y, keys[mine], steps=steps, batch_size=int(size), step_size=rates[mine]
        )
        accuracy[mine] = accuracy_on(objective, w, *holdout)
    return SearchResult(rates, chosen, accuracy, steps)
