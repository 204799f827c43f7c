"""Rounds of training on pooled points: all runs of an experiment in one batch.

Each round the rule says how much every party contributes, the parties draw that many points from
their own data, and the server takes one step of Adam on the pool. MW-FED then raises the weight of
parties that miss their target; with growth 1 it is federated averaging, bit for bit. Draws depend
on the run's key, the party and the round only, so a run is the same alone and in a batch.
Source: Algorithms C.1 and C.2, see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplay.contribution.defectors.cohort import Cohort
from counterplay.core.arguments import checked
from counterplay.core.draws import Keys, check_keys, fold, uniforms
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_float_array,
    check_int,
    check_positive_int,
    check_real,
    check_size,
)
from counterplay.errors import InvalidInputError
from counterplay.federated.arrays import Array, Backend, NumpyArrays
from counterplay.federated.layers import LayeredObjective
from counterplay.federated.objective import Objective
from counterplay.federated.rules.fed_avg import FedAvg
from counterplay.federated.rules.mw_fed import MWFed

_INIT, _SIGMA, _DROP, _EVAL = 101, 302, 303, 304
EVERYBODY_ALIKE = FedAvg()
MOST_ROUNDS, MOST_BATCH, MOST_CELLS = 100_000, 1_000_000, 1 << 25
LARGEST = 1e8  # squares of sums of such parameters are finite in single precision, too


@checked
class DigitsNetwork(LayeredObjective):
    """The network of the digits experiment: 64 pixels, 64 hidden units with ReLU, 10 classes.

    Parameters
    ----------
    backend:
        Where it computes; NumPy in single precision by default.

    Examples
    --------
    >>> from counterplay.core.draws import run_keys
    >>> DigitsNetwork().start(run_keys(0, 3)).shape
    (3, 4810)
    """

    def __init__(self, backend: Backend | None = None) -> None:
        super().__init__([64, 64, 10], backend=backend or NumpyArrays("float32"))

    def start(self, keys: Keys) -> NDArray[np.float64]:
        """Draw uniformly within ``1/sqrt(fan-in)``, every array from a sub-key of its own."""
        check_keys(keys)
        parts = []
        for layer, (fan_in, fan_out) in enumerate(zip(self.sizes, self.sizes[1:])):
            for array, rows in enumerate((fan_in, 1)):  # weights, then the bias
                draw = 2.0 * uniforms(fold(keys, _INIT, 2 * layer + array), rows * fan_out) - 1.0
                table = (draw / np.sqrt(fan_in)).reshape(len(keys), rows, fan_out)
                parts.append(table.swapaxes(1, 2).reshape(len(keys), -1))
        return np.concatenate(parts, axis=1)


class Adam:
    """Adam for the parameters of many runs ``(R, d)``, in NumPy or torch.

    ``step_size`` is one number, or one per run ``(R, 1)`` where the parameters are.
    """

    def __init__(self, step_size: Any, betas: tuple[float, float] = (0.9, 0.999)) -> None:
        self.step_size, self.betas, self.t = step_size, betas, 0
        self.first: Array = None
        self.second: Array = None

    def step(self, w: Array, gradient: Array) -> Array:
        """Return the moved parameters."""
        if self.t == 0:
            self.first, self.second = gradient * 0.0, gradient * 0.0
        self.t += 1
        a, b = self.betas
        self.first *= a
        self.first += (1 - a) * gradient
        self.second *= b
        self.second += (1 - b) * gradient * gradient
        unbiased = (1 - b**self.t) ** 0.5
        rate = self.step_size * unbiased / (1 - a**self.t)
        return w - rate * self.first / (self.second**0.5 + 1e-8 * unbiased)


@checked(arrays=True)
@dataclass(frozen=True, repr=False)
class TrainingHistory:
    """What happened in every run: accuracies, loads and weights, round by round.

    ``accuracy`` is ``(R, T+1, k)`` with the state before the first round first; ``drawn`` is
    ``(R, T, k)`` points drawn; ``log_weights`` is ``(R, T+1, k)``; ``w`` ``(R, d)`` are the final
    parameters, where the model computes.
    """

    accuracy: FloatArray
    drawn: IntArray
    log_weights: FloatArray
    threshold: FloatArray
    w: Array

    def __repr__(self) -> str:
        runs, rounds, k = self.drawn.shape
        return f"TrainingHistory({runs} runs, {rounds} rounds, {k} parties)"

    @property
    def satisfied(self) -> BoolArray:
        """``(R, T+1, k)``: who has reached the threshold at each round (equality counts)."""
        return np.asarray(self.accuracy >= self.threshold)

    def satisfied_by(self) -> BoolArray:
        """``(R, T+1, k)``: who has reached it at some round up to then (it may be lost later)."""
        return np.asarray(np.logical_or.accumulate(self.satisfied, axis=1))

    def shares(self) -> FloatArray:
        """``(R, k)``: share of all drawn points that came from each party."""
        total = self.drawn.sum(axis=1)
        return np.asarray(total / total.sum(axis=1, keepdims=True))


@checked
@dataclass(frozen=True)
class PooledTraining:
    """Federated training in which the server takes one step of Adam per round on pooled points.

    Use it to measure what a rule of ``counterplay.federated`` does to parties that want an
    accuracy and never leave; ``Federation`` trains parties that leave.

    Parameters
    ----------
    rule:
        ``FedAvg()`` takes the same number of points from everybody; ``MWFed(growth=4.0)`` takes
        more from parties that miss their target. The source leaves the growth open; its public
        code uses 4.
    rounds:
        Number of rounds.
    batch_size:
        Points per round, on average over the parties.
    step_size:
        Of Adam.
    threshold:
        Accuracy every party wants; one number, or one per party.
    eval_points:
        Validation points per party and round (a fresh random part); None for all.

    Notes
    -----
    A party exactly at its threshold is satisfied. Without Adam one round is one round of federated
    averaging with one local step, since the mean of the parties' gradients, weighted by their
    points, is the gradient of the pool.

    References
    ----------
    McMahan, Moore, Ramage, Hampson, Aguera y Arcas (2017); Blum, Haghtalab, Phillips, Shao (2021),
    Sec. 5 and App. (MW-FED).

    Examples
    --------
    >>> from counterplay.contribution.lab import DigitsNetwork, PooledTraining, noisy_digits
    >>> from counterplay.core.draws import run_keys
    >>> from counterplay.federated import MWFed
    >>> cohort = noisy_digits(run_keys(0, 2), noise=(0.6, 0.1), size=300, train=200)
    >>> net = DigitsNetwork()
    >>> plain, mw = PooledTraining(rounds=60), PooledTraining(MWFed(growth=4.0), rounds=60)
    >>> plain.fit(net, cohort, net.start(cohort.keys)).shares().tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    >>> shares = mw.fit(net, cohort, net.start(cohort.keys)).shares()
    >>> bool((shares[:, 0] > 0.6).all())  # the noisy party does most of the work
    True
    """

    rule: FedAvg | MWFed = EVERYBODY_ALIKE
    rounds: int = 50
    batch_size: int = 64
    step_size: float = 0.002
    threshold: float | tuple[float, ...] = 0.7
    eval_points: int | None = None

    def __post_init__(self) -> None:
        check_int(self.rounds, "rounds", low=1, high=MOST_ROUNDS)
        check_int(self.batch_size, "batch_size", low=1, high=MOST_BATCH)
        check_real(self.step_size, "step_size", low=0.0)
        many = isinstance(self.threshold, tuple)
        for accuracy in self.threshold if isinstance(self.threshold, tuple) else (self.threshold,):
            check_real(accuracy, "threshold", low=0.0)
        if many and not self.threshold:
            raise InvalidInputError("threshold needs one number per party")
        if self.eval_points is not None:
            check_positive_int(self.eval_points, "eval_points")

    @checked
    def fit(self, objective: Objective, cohort: Cohort, start: Array) -> TrainingHistory:
        """Train all runs of the cohort from the parameters ``start`` ``(R, d)``."""
        if isinstance(self.threshold, tuple) and len(self.threshold) not in (1, cohort.parties):
            raise InvalidInputError(f"threshold must be one number per party ({cohort.parties})")
        check_size(
            cohort.runs * (self.rounds + 1) * cohort.parties, MOST_CELLS, "runs x rounds x parties"
        )
        work = float(cohort.runs * cohort.parties * self.batch_size * objective.size)
        with objective.backend.fast_floats(work):
            return self._train(objective, cohort, placed(objective, start, cohort.runs))

    @checked
    def fit_alone(self, objective: Objective, cohort: Cohort, start: Array) -> TrainingHistory:
        """Train every party on its own data only, from the parameters of its run.

        The history has one single-party run per (run, party), in that order.
        """
        first = objective.backend.repeat(placed(objective, start, cohort.runs), cohort.parties)
        return self.fit(objective, cohort.alone(), first)

    def _train(self, objective: Objective, cohort: Cohort, w: Array) -> TrainingHistory:
        runs, k, rounds, put = cohort.runs, cohort.parties, self.rounds, objective.backend.put
        rule = self.rule if isinstance(self.rule, MWFed) else MWFed(growth=1.0)
        threshold = np.broadcast_to(np.asarray(self.threshold, dtype=np.float64), (k,))
        accuracy = np.empty((runs, rounds + 1, k))
        drawn = np.empty((runs, rounds, k), dtype=np.int64)
        log_weights = np.zeros((runs, rounds + 1, k))
        pool, labels, adam = put(cohort.X), put(cohort.y), Adam(self.step_size)
        judge = Judge(self.eval_points, objective, cohort, pool, labels)
        accuracy[:, 0] = judge.accuracy(w, 0)
        for t in range(rounds):
            sigma = fold(cohort.keys, _SIGMA, t)
            drawn[:, t] = rule.loads(log_weights[:, t], self.batch_size, sigma)
            index, weight = cohort.pooled(drawn[:, t], t)
            place, keys = put(index), fold(cohort.keys, _DROP, t)
            slope = objective.step_gradient(w, pool[place], labels[place], put(weight), keys)
            w = adam.step(w, slope)
            accuracy[:, t + 1] = judge.accuracy(w, t + 1)
            missing = accuracy[:, t + 1] < threshold
            log_weights[:, t + 1] = rule.raised(log_weights[:, t], missing)
        return TrainingHistory(accuracy, drawn, log_weights, threshold, w)


def placed(objective: Objective, w: Array, runs: int) -> Array:
    """Return parameters ``(R, d)`` where the model computes; they may be there already."""
    on_device = hasattr(w, "detach")
    first = w if on_device else check_float_array(w, "start")
    if tuple(first.shape) != (runs, objective.size):
        raise InvalidInputError(
            f"start must have one line of {objective.size} parameters for each of {runs} runs, "
            f"got shape {tuple(first.shape)}"
        )
    if not on_device and np.abs(first).max() > LARGEST:
        raise InvalidInputError(f"start has parameters beyond {LARGEST:g}")
    return first if on_device else objective.backend.put(first)


def correct(objective: Objective, w: Array, x: Array, y: Array) -> BoolArray:
    """Return ``(R, b)``: which points each run classifies correctly."""
    return objective.backend.fetch(objective.predict(objective.outputs(w, x)) == y)


class Judge:
    """Accuracy of the server model on every party's validation points, all or a fresh part."""

    def __init__(
        self, points: int | None, objective: Objective, cohort: Cohort, pool: Array, labels: Array
    ) -> None:
        self.objective, self.cohort, self.pool, self.labels = objective, cohort, pool, labels
        whole = cohort.val.shape[2]
        self.points = whole if points is None else min(points, whole)
        self.fixed = self._gather(cohort.val) if self.points == whole else None

    def accuracy(self, w: Array, t: int) -> FloatArray:
        """Return ``(R, k)`` accuracies at round ``t``."""
        x, y = self._gather(self._part(t)) if self.fixed is None else self.fixed
        right = correct(self.objective, w, x, y)
        shape = (self.cohort.runs, self.cohort.parties, self.points)
        return np.asarray(right.reshape(shape).mean(axis=2))

    def _part(self, t: int) -> IntArray:
        val = self.cohort.val
        order = uniforms(fold(self.cohort.keys, _EVAL, t), val.shape[2]).argsort(axis=1)
        chosen = np.broadcast_to(order[:, None, : self.points], (*val.shape[:2], self.points))
        return np.take_along_axis(val, chosen, axis=2)

    def _gather(self, val: IntArray) -> tuple[Array, Array]:
        place = self.objective.backend.put(val.reshape(self.cohort.runs, -1))
        return self.pool[place], self.labels[place]
