"""Federated averaging, MW-FED and training alone: all runs of an experiment in one batch.

Each round the server decides how much every agent contributes, the agents draw that many points
from their own data, and the model moves. MW-FED then raises the weight of agents that miss their
target; with factor 1 it is federated averaging, bit for bit.
Source: Alg. alg:FED and alg:MW, spec 04 sections 3.18 to 3.20.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterplay.contribution.training.cohort import Cohort
from counterplay.contribution.training.draws import Keys, fold, uniforms
from counterplay.contribution.training.loads import (
    ROUNDINGS,
    Floats,
    Ints,
    Rounding,
    ideal_loads,
    rounded_loads,
)
from counterplay.contribution.training.networks import SGD, Adam, Network, Params
from counterplay.core.errors import InvalidInputError
from counterplay.core.validation import check_choice, check_positive_int, check_real

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
        return f"TrainingHistory({runs} runs, {rounds} rounds, {k} agents)"

    @property
    def satisfied(self) -> NDArray[np.bool_]:
        """``(R, T+1, k)``: who has reached the threshold at each round (equality counts)."""
        return np.asarray(self.accuracy >= self.threshold)

    def satisfied_by(self) -> NDArray[np.bool_]:
        """``(R, T+1, k)``: who has reached it at some round up to then (it may be lost later)."""
        return np.asarray(np.logical_or.accumulate(self.satisfied, axis=1))

    def shares(self) -> Floats:
        """``(R, k)``: share of all drawn points that came from each agent."""
        total = self.drawn.sum(axis=1)
        return np.asarray(total / total.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class FedAvg:
    """Federated averaging: everybody contributes the same number of points in every round.

    Parameters
    ----------
    rounds:
        Number of rounds.
    batch_size, local_batches:
        Points per minibatch (m) and minibatches per agent and round (B).
    lr:
        Learning rate.
    optimizer:
        ``"server_adam_pooled"`` and ``"server_sgd_pooled"`` take one step on the pooled points of
        a round; ``"client_sgd"`` lets every agent take its own steps from the server's weights and
        averages the results, as in the algorithm's text.
    threshold:
        Accuracy every agent wants; one number, or one per agent.
    eval_points:
        Validation points per agent and round (a fresh random part); None for all.

    Notes
    -----
    The server takes the plain mean of the agents' weights; the printed ``1/(Bk)`` would shrink the
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

    @property
    def factor(self) -> float:
        """What the weights of unsatisfied agents are multiplied by: 1 here."""
        return 1.0

    def loads(self, log_weights: Floats, keys: Keys) -> Ints:
        """Return ``(R, k)``: points each agent draws this round."""
        return np.full(log_weights.shape, self.batch_size * self.local_batches, dtype=np.int64)

    def fit(self, network: Network, cohort: Cohort, params: Params) -> TrainingHistory:
        """Train all runs of the cohort from ``params`` and return their history."""
        return _run(self, network, cohort, params)


@dataclass(frozen=True)
class MWFed(FedAvg):
    """MW-FED: agents that miss their target get more weight, satisfied ones less work.

    Parameters
    ----------
    c:
        Factor for the weights of unsatisfied agents; 1 is federated averaging. The source leaves
        it open; its public code uses 4.
    allocation:
        ``"samples"`` splits single points (as the public code does); ``"batches"`` splits whole
        minibatches (as the text does), and is what ``optimizer="client_sgd"`` needs.
    rounding:
        See :func:`rounded_loads`; ``largest_remainder`` keeps the promised total of every round.
    min_share:
        Share of an equal load that nobody falls below.

    Notes
    -----
    Weights are kept as logarithms: they neither overflow nor vanish. An agent exactly at its
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
    >>> bool((shares[:, 0] > 0.6).all())  # the noisy agent does most of the work
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
        """What the weights of unsatisfied agents are multiplied by."""
        return self.c

    def loads(self, log_weights: Floats, keys: Keys) -> Ints:
        """Return ``(R, k)``: points each agent draws this round."""
        unit = self.batch_size if self.allocation == "batches" else 1
        total = self.batch_size * self.local_batches * log_weights.shape[-1] / unit
        ideal = ideal_loads(log_weights, total, self.min_share)
        return rounded_loads(ideal, self.rounding, keys) * unit


@dataclass(frozen=True)
class IndividualTraining(FedAvg):
    """Everybody alone: same model and optimiser, own data only, larger batches.

    ``fit`` expects a cohort of several agents and trains each of them separately; the history then
    has one single-agent run per (run, agent), in that order.

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
        """Train every agent of every run alone, from the parameters of its run."""
        k = cohort.agents
        copied = [network.repeat(p, k) for p in params]
        return _run(self, network, cohort.alone(), copied)


def pretrain(
    network: Network,
    X: NDArray[Any],
    y: NDArray[np.int64],
    keys: Keys,
    *,
    steps: int = 40,
    batch_size: int = 64,
    lr: float = 0.002,
    target: float | None = None,
    holdout: tuple[NDArray[Any], NDArray[np.int64]] | None = None,
    check_every: int = 5,
) -> Params:
    """Return parameters trained on ``X, y`` with Adam, one set per key.

    With ``target`` every run stops as soon as its accuracy on ``holdout`` reaches it; ``steps`` is
    then the most it may take.
    """
    params, adam = network.init(keys), Adam(lr)
    done = np.zeros(len(keys), dtype=bool)
    pool = network.put(X)
    for step in range(steps):
        pick = (uniforms(fold(keys, _BATCH, step), batch_size) * len(y)).astype(np.int64)
        weight = network.put(np.full(pick.shape, 1.0 / batch_size))
        x = pool[network.put(pick)]
        _, grads = network.gradients(
            params, x, network.put(y[pick]), weight, fold(keys, _DROP, step)
        )
        moved = adam.step(params, grads)
        params = _select(network, done, params, moved) if done.any() else moved
        if target is not None and holdout is not None and (step + 1) % check_every == 0:
            done |= _accuracy_on(network, params, *holdout) >= target
            if done.all():
                break
    return params


def minibatch(cohort: Cohort, counts: Ints, round_: int) -> tuple[Ints, NDArray[np.float64]]:
    """Return ``(R, b)`` indices of the points drawn with replacement this round, and weights.

    Agents come in order; runs with fewer points are padded with weight zero. The draw of an agent
    depends on the key of the run, the agent and the round only.
    """
    runs, k = counts.shape
    width = int(counts.sum(axis=1).max())
    index = np.zeros((runs, width), dtype=np.int64)
    weight = np.zeros((runs, width))
    start = np.zeros(runs, dtype=np.int64)
    rows = np.arange(runs)[:, None]
    for agent in range(k):
        most = int(counts[:, agent].max())
        if most == 0:
            continue
        draw = agent_draw(cohort, agent, round_, most)
        inside = np.arange(most) < counts[:, agent, None]
        place = (start[:, None] + np.arange(most)).clip(max=width - 1)
        row = np.broadcast_to(rows, inside.shape)[inside]
        index[row, place[inside]] = draw[inside]
        weight[row, place[inside]] = 1.0
        start += counts[:, agent]
    return index, weight / weight.sum(axis=1, keepdims=True)


def agent_draw(cohort: Cohort, agent: int, round_: int, n: int) -> Ints:
    """Return ``(R, n)`` points that an agent draws, with replacement, in one round."""
    u = uniforms(fold(cohort.keys, _BATCH, agent, round_), n)
    position = (u * cohort.sizes[:, agent, None]).astype(np.int64)
    return np.take_along_axis(cohort.train[:, agent], position, axis=1)


def _run(protocol: FedAvg, network: Network, cohort: Cohort, params: Params) -> TrainingHistory:
    runs, k, T = cohort.runs, cohort.agents, protocol.rounds
    threshold = np.broadcast_to(np.asarray(protocol.threshold, dtype=np.float64), (k,))
    accuracy, drawn = np.empty((runs, T + 1, k)), np.empty((runs, T, k), dtype=np.int64)
    log_weights = np.zeros((runs, T + 1, k))
    pool, labels = network.put(cohort.X), cohort.y
    client = protocol.optimizer == "client_sgd"
    server = Adam(protocol.lr) if protocol.optimizer == "server_adam_pooled" else SGD(protocol.lr)
    judge = _Judge(protocol.eval_points, network, cohort, pool)
    accuracy[:, 0] = judge.accuracy(params, 0)
    for t in range(T):
        loads = protocol.loads(log_weights[:, t], fold(cohort.keys, _SIGMA, t))
        drawn[:, t] = loads
        if client:
            params = _client_round(protocol, network, cohort, params, pool, loads, t)
        else:
            index, weight = minibatch(cohort, loads, t)
            _, grads = network.gradients(
                params,
                pool[network.put(index)],
                network.put(labels[index]),
                network.put(weight),
                fold(cohort.keys, _DROP, t),
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
    pool: Any,
    loads: Ints,
    t: int,
) -> Params:
    """Local SGD of every agent from the server's weights, then the weighted mean of the results."""
    runs, k, m = cohort.runs, cohort.agents, protocol.batch_size
    batches = loads // m
    local = [network.repeat(p, k) for p in params]
    keys = np.stack([fold(cohort.keys, _DROP, t, i) for i in range(k)], axis=1).reshape(-1)
    most = int(batches.max())
    draws = np.stack([agent_draw(cohort, i, t, most * m) for i in range(k)], axis=1)
    draws = draws.reshape(runs * k, most, m)
    even = network.put(np.full((runs * k, m), 1.0 / m))
    for step in range(most):
        index = draws[:, step]
        _, grads = network.gradients(
            local, pool[network.put(index)], network.put(cohort.y[index]), even, fold(keys, step)
        )
        active = network.put((batches.reshape(-1) > step).astype(np.float64) * protocol.lr)
        local = [p - _along(active, p) * g for p, g in zip(local, grads)]
    share = network.put((batches / batches.sum(axis=1, keepdims=True)).reshape(-1))
    return [_mean_over_agents(p, share, runs, k) for p in local]


def _mean_over_agents(local: Any, share: Any, runs: int, k: int) -> Any:
    weighted = local * _along(share, local)
    return weighted.reshape(runs, k, *local.shape[1:]).sum(axis=1)


class _Judge:
    """Accuracy of the server model on every agent's validation points, all or a fresh part."""

    def __init__(self, points: int | None, network: Network, cohort: Cohort, pool: Any) -> None:
        self.network, self.cohort, self.pool = network, cohort, pool
        whole = cohort.val.shape[2]
        self.points = whole if points is None else min(points, whole)
        self.fixed = self._gather(cohort.val) if self.points == whole else None

    def accuracy(self, params: Params, t: int) -> Floats:
        """Return ``(R, k)`` accuracies at round ``t``."""
        x, y = self._gather(self._part(t)) if self.fixed is None else self.fixed
        right = self.network.correct(params, x, y)
        runs, k = self.cohort.runs, self.cohort.agents
        return np.asarray(right.reshape(runs, k, self.points).mean(axis=2))

    def _part(self, t: int) -> Ints:
        val = self.cohort.val
        order = uniforms(fold(self.cohort.keys, _EVAL, t), val.shape[2]).argsort(axis=1)
        chosen = np.broadcast_to(order[:, None, : self.points], (*val.shape[:2], self.points))
        return np.take_along_axis(val, chosen, axis=2)

    def _gather(self, val: Ints) -> tuple[Any, Any]:
        index = val.reshape(self.cohort.runs, -1)
        x = self.pool[self.network.put(index)]
        return x, self.network.put(self.cohort.y[index])


def _accuracy_on(network: Network, params: Params, X: NDArray[Any], y: NDArray[np.int64]) -> Floats:
    runs = params[0].shape[0]
    x = network.put(np.broadcast_to(X, (runs, *X.shape)))
    labels = network.put(np.broadcast_to(y, (runs, len(y))))
    return np.asarray(network.correct(params, x, labels).mean(axis=1))


def _select(network: Network, done: NDArray[np.bool_], old: Params, new: Params) -> Params:
    keep = network.put(done.astype(np.float64))
    return [_along(keep, o) * o + (1.0 - _along(keep, n)) * n for o, n in zip(old, new)]


def _along(vector: Any, like: Any) -> Any:
    """Reshape a per-run vector so that it multiplies along the first axis."""
    return vector.reshape(-1, *([1] * (like.ndim - 1)))
