"""The protocol with rational agents, for many seeds at once.

In every round the server sends the model, each agent evaluates it on all its rows and leaves for
good if it is satisfied, and the others report losses, local updates and, where the rule wants
them, full gradients. One batched pass computes the reports of all agents of all seeds; the rule
then decides seed by seed from inner products.
Source: Alg. alg:icfo and alg:fedavg, spec 05 sections 3.1, 3.3 and 3.6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.draws import Keys
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_float_array,
    check_int,
    check_positive_int,
)
from counterplay.defection.engine.arrays import Array
from counterplay.defection.engine.local import local_updates
from counterplay.defection.engine.objective import Objective
from counterplay.defection.engine.sites import SiteArrays, Sites, minibatches
from counterplay.defection.engine.spans import Spans
from counterplay.defection.reports import Aggregator, Reports, RuleState
from counterplay.defection.rules.ada_gd import ADAGD
from counterplay.defection.rules.mw_fed import MWFed
from counterplay.defection.rules.uniform import FedAvg
from counterplay.errors import InvalidInputError

TestSet = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True, repr=False)
class TrainingRecord:
    """Everything that happened, with a leading axis for the ``S`` seeds.

    ``loss`` and ``accuracy`` ``(S, R+1, M)`` are those of all agents, also of those who left;
    ``population`` ``(S, R+1)`` is the accuracy on the test set, nan where it was not measured;
    ``active`` and ``predicted`` ``(S, R, M)``; ``defect_round`` ``(S, M)`` is -1 for agents that
    stayed, and ``r`` for agents that left on receiving ``w_{r-1}``; ``workload`` ``(S, M)`` counts
    the rounds in which an agent reported; ``rounds`` ``(S,)`` the updates of the model; ``w``
    ``(S, d)`` the final models. After a run has stopped its last values are repeated.
    """

    loss: FloatArray
    accuracy: FloatArray
    population: FloatArray
    active: BoolArray
    predicted: BoolArray
    defect_round: IntArray
    workload: IntArray
    rounds: IntArray
    status: tuple[str, ...]
    w: FloatArray
    eps: FloatArray

    def __repr__(self) -> str:
        seeds, rounds, agents = self.active.shape
        return f"TrainingRecord({seeds} seeds, {agents} agents, at most {rounds} rounds)"

    @property
    def defections(self) -> IntArray:
        """Number of agents that left, per seed."""
        return np.asarray((self.defect_round >= 0).sum(axis=1))

    @classmethod
    def joined(cls, parts: Sequence[TrainingRecord]) -> TrainingRecord:
        """Put the seeds of several records behind each other."""
        joined: dict[str, Any] = {}
        for field in fields(cls):
            values = [getattr(part, field.name) for part in parts]
            if field.name == "status":
                joined["status"] = tuple(s for value in values for s in value)
            else:
                joined[field.name] = values[0] if field.name == "eps" else np.concatenate(values)
        return cls(**joined)


def needs_gradients(rule: Aggregator) -> bool:
    """Whether the rule wants full-batch gradients beside local updates."""
    if isinstance(rule, ADAGD):
        return rule.variant != "naive"
    return not isinstance(rule, FedAvg | MWFed)


def train(
    objective: Objective,
    sites: Sites,
    rule: Aggregator,
    keys: Keys,
    *,
    step_size: float | ArrayLike,
    rounds: int,
    eps: float | ArrayLike,
    reported: float | ArrayLike | None = None,
    local_steps: int = 1,
    batch_size: int | None = None,
    rescale_local_lr: bool = True,
    start: NDArray[np.float64] | None = None,
    test: TestSet | None = None,
    evaluate_every: int = 1,
    tick: Callable[[int], None] | None = None,
) -> TrainingRecord:
    """Train with agents that leave once satisfied, for all seeds at once.

    Parameters
    ----------
    objective, sites:
        Model and data.
    rule:
        Server rule; its memory is kept apart for every seed.
    keys:
        One key per seed: initial parameters and minibatches.
    step_size:
        Server step ``eta``, or one per round.
    rounds:
        At most this many rounds.
    eps:
        Loss at which an agent is satisfied, one for all or one per agent; with 0 it never leaves.
    reported:
        What agents tell the server instead, if they do not tell the truth.
    local_steps, batch_size, rescale_local_lr:
        Local work of a round; ``batch_size=None`` takes all rows in each step.
    start:
        Initial parameters ``(d,)`` or ``(S, d)`` instead of the objective's own.
    test, evaluate_every:
        Test set for the population accuracy, and how often it is measured.
    tick:
        Called with the number of finished rounds.

    Guarantees
    ----------
    A seed gives the same run alone and in company. With one full-batch local step the run is that
    of ``run_icfo`` with the same rule.

    Examples
    --------
    >>> from counterplay.core.draws import run_keys
    >>> from counterplay.defection.engine import LayeredObjective
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.2], [0.1, -1.0]])
    >>> sites = Sites.from_agents(X, [1, 1, 0, 0], [0, 1, 0, 1])
    >>> record = train(LayeredObjective([2, 2]), sites, FedAvg(), run_keys(0, 1),
    ...                step_size=1.0, rounds=50, eps=0.2)
    >>> record.defect_round[0].tolist(), record.status
    ([7, 7], ('everybody_left',))
    """
    run = _Run(objective, sites, rule, keys, check_int(rounds, "rounds", low=0))
    run.etas = _steps(step_size, run.R)
    run.eps = _per_agent(eps, sites.agents, "eps")
    run.reported = run.eps if reported is None else _per_agent(reported, sites.agents, "reported")
    run.local_steps = check_positive_int(local_steps, "local_steps")
    run.batch_size = None if batch_size is None else check_positive_int(batch_size, "batch_size")
    run.rescale = rescale_local_lr
    run.steps_locally = run.local_steps > 1 or run.batch_size is not None
    run.test, run.every = test, check_positive_int(evaluate_every, "evaluate_every")
    work = float(len(keys)) * float(sites.sizes[0].sum()) * objective.size
    with objective.backend.fast_floats(work):
        return run.go(start, tick)


class _Run:
    """One call of :func:`train`: the arrays of the record, and the seeds that still run."""

    etas: FloatArray
    eps: FloatArray
    reported: FloatArray
    local_steps: int
    batch_size: int | None
    rescale: bool
    steps_locally: bool
    test: TestSet | None
    every: int

    def __init__(
        self, objective: Objective, sites: Sites, rule: Aggregator, keys: Keys, rounds: int
    ) -> None:
        self.objective, self.rule, self.keys = objective, rule, np.asarray(keys)
        self.S, self.R, self.M = len(self.keys), rounds, sites.agents
        if self.S == 0:
            raise InvalidInputError("at least one seed is needed")
        if sites.splits not in (1, self.S):
            raise InvalidInputError(f"{sites.splits} splits were given for {self.S} seeds")
        self.backend = objective.backend
        self.running = np.arange(self.S)
        self.data = SiteArrays(sites, self.backend, self.running)
        self.states = [RuleState() for _ in range(self.S)]
        S, R, M = self.S, self.R, self.M
        self.loss, self.accuracy = np.zeros((S, R + 1, M)), np.zeros((S, R + 1, M))
        self.population = np.full((S, R + 1), np.nan)
        self.active, self.predicted = np.zeros((S, R, M), bool), np.zeros((S, R, M), bool)
        self.present = np.ones((S, M), bool)
        self.defect_round = np.full((S, M), -1, dtype=np.int64)
        self.stopped = np.full(S, R, dtype=np.int64)
        self.status = ["max_rounds"] * S
        self.final = np.zeros((S, objective.size))

    def go(
        self, start: NDArray[np.float64] | None, tick: Callable[[int], None] | None
    ) -> TrainingRecord:
        """Run all rounds and return the record."""
        self._place(start)
        for r in range(1, self.R + 1):
            gradient = self._evaluate(r)
            ended = self._leave(r)
            if not all(ended):
                self._step(r, gradient, ended)
            self._drop(ended, r - 1)
            if tick is not None:
                tick(r)
            if not len(self.running):
                return self._record()
        self._evaluate(self.R + 1)
        lost = ~np.isfinite(self.loss[self.running, self.R]).all(axis=1)
        self._drop(["diverged" if x else "max_rounds" for x in lost], self.R)
        return self._record()

    def _place(self, start: NDArray[np.float64] | None) -> None:
        """Put the initial models and the test set on the device."""
        first = self.objective.start(self.keys) if start is None else np.asarray(start, float)
        if first.shape[-1] != self.objective.size or first.ndim > 2:
            raise InvalidInputError(
                f"start must have {self.objective.size} parameters, got shape {first.shape}"
            )
        first = np.broadcast_to(first, (self.S, self.objective.size)).copy()
        self.w = self.backend.put(first)
        self.previous = self.w
        if self.test is not None:
            put = self.backend.put
            self.test_rows, self.test_labels = put(self.test[0])[None], put(self.test[1])[None]

    def _evaluate(self, r: int) -> Array | None:
        """Measure the model of round ``r`` on all data; return full gradients if needed."""
        spread, data = self.backend.repeat(self.w, self.M), self.data
        runs, gradient = len(self.running), None
        if r <= self.R and (not self.steps_locally or needs_gradients(self.rule)):
            loss, accuracy, flat = self.objective.gradients(spread, data.x, data.y, data.weight)
            gradient = flat.reshape(runs, self.M, -1)
        else:
            loss, accuracy = self.objective.evaluate(spread, data.x, data.y, data.weight)
        both = self.backend.fetch(self.backend.xp.stack([loss, accuracy])).astype(np.float64)
        self.loss[self.running, r - 1] = both[0].reshape(runs, self.M)
        self.accuracy[self.running, r - 1] = both[1].reshape(runs, self.M)
        if (r - 1) % self.every == 0:
            self._measure_population(range(runs), r - 1)
        return gradient

    def _measure_population(self, positions: Iterable[int], r: int) -> None:
        """Accuracy of some of the running models on the test set."""
        if self.test is None:
            return
        for p in positions:
            out = self.objective.outputs(self.w[p : p + 1], self.test_rows)
            right = self.objective.predict(out) == self.test_labels
            self.population[self.running[p], r] = self.backend.fetch(right).mean()

    def _leave(self, r: int) -> list[str | None]:
        """Satisfied agents leave for good; say which runs end before anybody reports."""
        runs = self.running
        loss = self.loss[runs, r - 1]
        lost = ~np.isfinite(loss).all(axis=1)
        if r == 1 and lost.any():
            agent = int(np.argwhere(~np.isfinite(loss))[0][1])
            raise InvalidInputError(
                f"the loss of agent {agent} is not finite at the initial model; check its rows"
            )
        leavers = self.present[runs] & (loss <= self.eps) & (self.eps > 0)
        position, agents = np.nonzero(leavers)
        self.defect_round[runs[position], agents] = r
        self.present[runs] &= ~leavers
        self.active[runs, r - 1] = self.present[runs]
        empty = np.asarray(~self.present[runs].any(axis=1))
        return [
            "diverged" if x else "everybody_left" if nobody else None
            for x, nobody in zip(lost, empty)
        ]

    def _step(self, r: int, gradient: Array | None, ended: list[str | None]) -> None:
        """Collect the reports, let the rule decide, move the models."""
        eta, steps, size = float(self.etas[r - 1]), self.local_steps, self.batch_size
        blocks = [gradient]
        if self.steps_locally:
            order = None
            if size is not None:
                order = minibatches(self.keys[self.running], r, self.data.sizes, steps, size)
            spread = self.backend.repeat(self.w, self.M)
            moved = local_updates(
                self.objective, self.data, spread, eta, steps, order, self.rescale
            ).reshape(len(self.running), self.M, -1)
            blocks = [moved] if gradient is None else [moved, gradient]
        spans = Spans(self.backend, blocks)
        coefficients = np.zeros((len(self.running), spans.count))
        for p, s in enumerate(self.running):
            if ended[p] is None:
                decision = self.rule.decide(self._reports(spans, p, r), eta, self.states[s])
                self.predicted[s, r - 1, self.present[s]] = decision.predicted
                if decision.status == "running":
                    coefficients[p] = decision.step
                else:
                    ended[p] = decision.status
        self.previous, self.w = self.w, self.w + spans.combine(coefficients)

    def _reports(self, spans: Spans, position: int, r: int) -> Reports:
        """What the agents of one seed that are still there send."""
        s = self.running[position]
        ids = np.flatnonzero(self.present[s])
        return Reports(
            loss=self.loss[s, r - 1, ids],
            gradients=spans.stack(position, ids, len(spans.blocks) - 1),
            eps=self.reported[ids],
            ids=ids,
            updates=spans.stack(position, ids) if self.steps_locally else None,
        )

    def _drop(self, ended: list[str | None], updates: int) -> None:
        """End runs after this many updates: keep their model, repeat their last values.

        A run that diverged goes back to its last model with finite losses.
        """
        mask = np.array([status is not None for status in ended])
        if not mask.any():
            return
        for p in np.flatnonzero(mask):
            s, at = self.running[p], updates
            if ended[p] == "diverged":
                at -= 1
                self.w[p] = self.previous[p]
            self.status[s], self.stopped[s] = str(ended[p]), at
            if np.isnan(self.population[s, at]):
                self._measure_population([int(p)], at)
            self.final[s] = self.backend.fetch(self.w[p])
            for table in (self.loss, self.accuracy, self.population):
                table[s, at + 1 :] = table[s, at]
        self.running = self.running[~mask]
        keep = self.backend.put(np.flatnonzero(~mask))
        self.w, self.previous = self.w[keep], self.previous[keep]
        if len(self.running):
            self.data.choose(self.running)

    def _record(self) -> TrainingRecord:
        return TrainingRecord(
            loss=self.loss,
            accuracy=self.accuracy,
            population=self.population,
            active=self.active,
            predicted=self.predicted,
            defect_round=self.defect_round,
            workload=self.active.sum(axis=1),
            rounds=self.stopped,
            status=tuple(self.status),
            w=self.final,
            eps=self.eps,
        )


def _steps(step_size: float | ArrayLike, rounds: int) -> FloatArray:
    """Return one positive step per round."""
    etas = np.broadcast_to(check_float_array(step_size, "step_size"), (rounds,))
    if (etas <= 0).any():
        raise InvalidInputError("step_size must be positive")
    return etas


def _per_agent(value: float | ArrayLike, agents: int, name: str) -> FloatArray:
    """Return one non-negative number per agent."""
    array = check_float_array(value, name)
    if array.ndim > 1 or (array.ndim == 1 and len(array) != agents):
        raise InvalidInputError(
            f"{name} must be one number or one per agent ({agents}), got shape {array.shape}"
        )
    if (array < 0).any():
        raise InvalidInputError(f"{name} must not be negative")
    return np.broadcast_to(array, (agents,)).copy()
