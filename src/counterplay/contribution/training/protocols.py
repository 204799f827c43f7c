"""Federated averaging, MW-FED and training alone: all runs of an experiment in one batch.

Each round the server decides how much every party contributes, the parties draw that many points
from their own data, and the model moves. MW-FED then raises the weight of parties that miss their
target; with factor 1 it is federated averaging, bit for bit. Draws depend on the run's key, the
party and the round only, so a run is the same alone, in a batch, or on Flower.
Source: Algorithms C.1 and C.2, see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from counterplay.contribution.training.cohort import Cohort
from counterplay.contribution.training.networks import SGD, Adam, Network, Params, along
from counterplay.core.draws import Keys, fold, uniforms
from counterplay.core.validation import check_choice, check_positive_int, check_real
from counterplay.errors import InvalidInputError
from counterplay.federated.loads import (
    ROUNDINGS,
    Floats,
    Ints,
    Rounding,
    ideal_loads,
    rounded_loads,
)

Optimizer = Literal["server_adam_pooled", "server_sgd_pooled", "client_sgd"]
OPTIMIZERS = ("server_adam_pooled", "server_sgd_pooled", "client_sgd")
_BATCH, _SIGMA, _DROP, _EVAL = 301, 302, 303, 304


@dataclass(frozen=True, repr=False)
class TrainingHistory:
    """What happened in every run: accuracies, loads and weights, round by round.

    ``accuracy`` is ``(R, T+1, k)`` with the state before the first round first; ``drawn`` is
    ``(R, T, k)`` points drawn; ``log_weights`` is ``(R, T+1, k)``.
    """

    accuracy: Floats
    drawn: Ints
    log_weights: Floats
    threshold: Floats
    params: Params

    def __repr__(self) -> str:
        runs, rounds, k = self.drawn.shape
        return f"TrainingHistory({runs} runs, {rounds} rounds, {k} parties)"

    @property
    def satisfied(self) -> NDArray[np.bool_]:
        """``(R, T+1, k)``: who has reached the threshold at each round (equality counts)."""
        return np.asarray(self.accuracy >= self.threshold)

    def satisfied_by(self) -> NDArray[np.bool_]:
        """``(R, T+1, k)``: who has reached it at some round up to then (it may be lost later)."""
        return np.asarray(np.logical_or.accumulate(self.satisfied, axis=1))

    def shares(self) -> Floats:
        """``(R, k)``: share of all drawn points that came from each party."""
        total = self.drawn.sum(axis=1)
        return np.asarray(total / total.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class FedAvg:
    """Federated averaging: everybody contributes the same number of points in every round.

    Parameters
    ----------
    rounds:
        Number of rounds.
    batch_size:
        Points per minibatch (m).
    local_batches:
        Minibatches per party and round (B).
    lr:
        Learning rate.
    optimizer:
        ``"server_adam_pooled"`` and ``"server_sgd_pooled"`` take one step on the pooled points of
        a round; ``"client_sgd"`` lets every party take its own steps from the server's weights and
        averages the results, as in the algorithm's text.
    threshold:
        Accuracy every party wants; one number, or one per party.
    eval_points:
        Validation points per party and round (a fresh random part); None for all.

    Notes
    -----
    The server takes the plain mean of the parties' weights; the printed ``1/(Bk)`` would shrink the
    model by B.

    References
    ----------
    McMahan, Moore, Ramage, Hampson, Aguera y Arcas (2017); Blum, Haghtalab, Phillips, Shao (2021).

    Examples
    --------
    >>> from counterplay.contribution.training import FedAvg, MLP, noisy_digits, run_keys
    >>> cohort = noisy_digits(run_keys(0, 2), size=300, train=200)
    >>> net = MLP()
    >>> history = FedAvg(rounds=30).fit(net, cohort, net.init(cohort.keys))
    >>> history.shares().round(3).tolist()
    [[0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25]]
    """

    rounds: int = 50
    batch_size: int = 64
    local_batches: int = 1
    lr: float = 0.002
    optimizer: Optimizer = "server_adam_pooled"
    threshold: float | tuple[float, ...] = 0.7
    eval_points: int | None = None

    def __post_init__(self) -> None:
        check_positive_int(self.rounds, "rounds")
        check_positive_int(self.batch_size, "batch_size")
        check_positive_int(self.local_batches, "local_batches")
        check_real(self.lr, "lr", low=0.0)
        check_choice(self.optimizer, "optimizer", OPTIMIZERS)

    @classmethod
    def of_epochs(cls, epochs: int, *, rounds_per_epoch: int = 25, **options: Any) -> Self:
        """Return the protocol with its horizon in epochs.

        25 rounds are one pass over 1600 points in batches of 64. What the source calls an epoch is
        not clear, so everything else counts rounds.

        Examples
        --------
        >>> MWFed.of_epochs(10).rounds
        250
        """
        check_positive_int(epochs, "epochs")
        check_positive_int(rounds_per_epoch, "rounds_per_epoch")
        return cls(rounds=epochs * rounds_per_epoch, **options)

    @property
    def factor(self) -> float:
        """What the weights of unsatisfied parties are multiplied by: 1 here."""
        return 1.0

    def loads(self, log_weights: Floats, keys: Keys) -> Ints:
        """Return ``(R, k)``: points each party draws this round."""
        return np.full(log_weights.shape, self.batch_size * self.local_batches, dtype=np.int64)

    def fit(self, network: Network, cohort: Cohort, params: Params) -> TrainingHistory:
        """Train all runs of the cohort from ``params`` and return their history."""
        return _run(self, network, cohort, params)


@dataclass(frozen=True)
class MWFed(FedAvg):
    """MW-FED: parties that miss their target get more weight, satisfied ones less work.

    Parameters
    ----------
    c:
        Factor for the weights of unsatisfied parties; 1 is federated averaging. The source leaves
        it open; its public code uses 4.
    allocation:
        ``"samples"`` splits single points (as the public code does); ``"batches"`` splits whole
        minibatches (as the text does), and is what ``optimizer="client_sgd"`` needs.
    rounding:
        See ``counterplay.federated.loads``; ``largest_remainder`` keeps the total of every round.
    min_share:
        Share of an equal load that nobody falls below.

    Notes
    -----
    Weights are kept as logarithms: they neither overflow nor vanish. A party exactly at its
    threshold is satisfied.

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), Sec. 5 and App. (MW-FED); Blum, Haghtalab, Procaccia,
    Qiao (2017).

    Examples
    --------
    >>> from counterplay.contribution.training import MLP, MWFed, noisy_digits, run_keys
    >>> cohort = noisy_digits(run_keys(0, 2), noise=(0.6, 0.1), size=300, train=200)
    >>> net = MLP()
    >>> shares = MWFed(rounds=60).fit(net, cohort, net.init(cohort.keys)).shares()
    >>> bool((shares[:, 0] > 0.6).all())  # the noisy party does most of the work
    True
    """

    c: float = 4.0
    allocation: Literal["samples", "batches"] = "samples"
    rounding: Rounding = "largest_remainder"
    min_share: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_real(self.c, "c", low=1.0)
        check_choice(self.allocation, "allocation", ("samples", "batches"))
        check_choice(self.rounding, "rounding", ROUNDINGS)
        check_real(self.min_share, "min_share", low=0.0, high=1.0)
        if self.optimizer == "client_sgd" and self.allocation == "samples":
            raise InvalidInputError("optimizer='client_sgd' needs allocation='batches'")

    @property
    def factor(self) -> float:
        """What the weights of unsatisfied parties are multiplied by."""
        return self.c

    def loads(self, log_weights: Floats, keys: Keys) -> Ints:
        """Return ``(R, k)``: points each party draws this round."""
        unit = self.batch_size if self.allocation == "batches" else 1
        total = self.batch_size * self.local_batches * log_weights.shape[-1] / unit
        ideal = ideal_loads(log_weights, total, self.min_share)
        return rounded_loads(ideal, self.rounding, keys) * unit


@dataclass(frozen=True)
class IndividualTraining(FedAvg):
    """Everybody alone: same model and optimiser, own data only, larger batches.

    ``fit`` expects a cohort of several parties and trains each of them separately; the history then
    has one single-party run per (run, party), in that order.

    Examples
    --------
    >>> from counterplay.contribution.training import IndividualTraining, MLP
    >>> from counterplay.contribution.training import noisy_digits, run_keys
    >>> cohort = noisy_digits(run_keys(0, 1), size=300, train=200)
    >>> net = MLP()
    >>> IndividualTraining(rounds=5).fit(net, cohort, net.init(cohort.keys)).accuracy.shape
    (4, 6, 1)
    """

    batch_size: int = 256

    def fit(self, network: Network, cohort: Cohort, params: Params) -> TrainingHistory:
        """Train every party of every run alone, from the parameters of its run."""
        k = cohort.parties
        copied = [network.repeat(p, k) for p in params]
        return _run(self, network, cohort.alone(), copied)


def _run(protocol: FedAvg, network: Network, cohort: Cohort, params: Params) -> TrainingHistory:
    runs, k, T = cohort.runs, cohort.parties, protocol.rounds
    threshold = np.broadcast_to(np.asarray(protocol.threshold, dtype=np.float64), (k,))
    accuracy, drawn = np.empty((runs, T + 1, k)), np.empty((runs, T, k), dtype=np.int64)
    log_weights = np.zeros((runs, T + 1, k))
    pool, labels = network.share(cohort.X), network.share(cohort.y)
    client = protocol.optimizer == "client_sgd"
    server = Adam(protocol.lr) if protocol.optimizer == "server_adam_pooled" else SGD(protocol.lr)
    judge = Judge(protocol.eval_points, network, cohort, pool, labels)
    accuracy[:, 0] = judge.accuracy(params, 0)
    for t in range(T):
        loads = protocol.loads(log_weights[:, t], fold(cohort.keys, _SIGMA, t))
        drawn[:, t] = loads
        if client:
            params = _client_round(protocol, network, cohort, params, loads, t)
        else:
            index, weight = minibatch(cohort, loads, t)
            place, keys = network.put(index), fold(cohort.keys, _DROP, t)
            _, grads = network.gradients(
                params, pool[place], labels[place], network.put(weight), keys
            )
            params = server.step(params, grads)
        accuracy[:, t + 1] = judge.accuracy(params, t + 1)
        missing = accuracy[:, t + 1] < threshold
        log_weights[:, t + 1] = log_weights[:, t] + np.log(protocol.factor) * missing
    return TrainingHistory(accuracy, drawn, log_weights, threshold, params)


def _client_round(
    protocol: FedAvg,
    network: Network,
    cohort: Cohort,
    params: Params,
    loads: Ints,
    t: int,
) -> Params:
    """Local SGD of every party from the server's weights, then the weighted mean of the results."""
    runs, k, m = cohort.runs, cohort.parties, protocol.batch_size
    batches = loads // m
    pool, labels = network.share(cohort.X), network.share(cohort.y)
    local = [network.repeat(p, k) for p in params]
    keys = np.stack([fold(cohort.keys, _DROP, t, i) for i in range(k)], axis=1).reshape(-1)
    most = int(batches.max())
    draws = np.stack([party_draw(cohort, i, t, most * m) for i in range(k)], axis=1)
    draws = draws.reshape(runs * k, most, m)
    even = network.put(np.full((runs * k, m), 1.0 / m))
    for step in range(most):
        place = network.put(draws[:, step])
        _, grads = network.gradients(local, pool[place], labels[place], even, fold(keys, step))
        active = network.put((batches.reshape(-1) > step).astype(np.float64) * protocol.lr)
        local = [p - along(active, p) * g for p, g in zip(local, grads)]
    share = network.put((batches / batches.sum(axis=1, keepdims=True)).reshape(-1))
    return [_mean_over_parties(p, share, runs, k) for p in local]


def _mean_over_parties(local: Any, share: Any, runs: int, k: int) -> Any:
    weighted = local * along(share, local)
    return weighted.reshape(runs, k, *local.shape[1:]).sum(axis=1)


def minibatch(cohort: Cohort, counts: Ints, round_: int) -> tuple[Ints, NDArray[np.float64]]:
    """Return ``(R, b)`` indices of the points drawn with replacement this round, and weights.

    Parties come in order; runs with fewer points are padded with weight zero. The draw of a party
    depends on the key of the run, the party and the round only.
    """
    runs, k = counts.shape
    width = int(counts.sum(axis=1).max())
    index = np.zeros((runs, width), dtype=np.int64)
    weight = np.zeros((runs, width))
    start = np.zeros(runs, dtype=np.int64)
    rows = np.arange(runs)[:, None]
    for party in range(k):
        most = int(counts[:, party].max())
        if most == 0:
            continue
        draw = party_draw(cohort, party, round_, most)
        inside = np.arange(most) < counts[:, party, None]
        place = (start[:, None] + np.arange(most)).clip(max=width - 1)
        row = np.broadcast_to(rows, inside.shape)[inside]
        index[row, place[inside]] = draw[inside]
        weight[row, place[inside]] = 1.0
        start += counts[:, party]
    return index, weight / weight.sum(axis=1, keepdims=True)


def party_draw(cohort: Cohort, party: int, round_: int, n: int) -> Ints:
    """Return ``(R, n)`` points that a party draws, with replacement, in one round."""
    u = uniforms(fold(cohort.keys, _BATCH, party, round_), n)
    position = (u * cohort.sizes[:, party, None]).astype(np.int64)
    return np.take_along_axis(cohort.train[:, party], position, axis=1)


class Judge:
    """Accuracy of the server model on every party's validation points, all or a fresh part."""

    def __init__(
        self, points: int | None, network: Network, cohort: Cohort, pool: Any, labels: Any
    ) -> None:
        self.network, self.cohort, self.pool, self.labels = network, cohort, pool, labels
        whole = cohort.val.shape[2]
        self.points = whole if points is None else min(points, whole)
        self.fixed = self._gather(cohort.val) if self.points == whole else None

    def accuracy(self, params: Params, t: int) -> Floats:
        """Return ``(R, k)`` accuracies at round ``t``."""
        x, y = self._gather(self._part(t)) if self.fixed is None else self.fixed
        right = self.network.fetch(self.network.correct(params, x, y))
        runs, k = self.cohort.runs, self.cohort.parties
        return np.asarray(right.reshape(runs, k, self.points).mean(axis=2))

    def _part(self, t: int) -> Ints:
        val = self.cohort.val
        order = uniforms(fold(self.cohort.keys, _EVAL, t), val.shape[2]).argsort(axis=1)
        chosen = np.broadcast_to(order[:, None, : self.points], (*val.shape[:2], self.points))
        return np.take_along_axis(val, chosen, axis=2)

    def _gather(self, val: Ints) -> tuple[Any, Any]:
        place = self.network.put(val.reshape(self.cohort.runs, -1))
        return self.pool[place], self.labels[place]
