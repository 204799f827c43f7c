"""The protocol with parties that leave, for many seeds at once.

In every round the server sends the model, each party evaluates it on all its rows and leaves for
good if it is satisfied, and the others report losses, local updates and, where the rule wants
them, full gradients. One batched pass computes the reports of all parties of all seeds; the rule
then decides seed by seed from inner products.
Source: Algorithms 5.1 and D.1, see docs/theory/05-defection.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.draws import Keys, check_keys
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_float_array,
    check_int,
    check_positive_int,
    check_size,
)
from counterplay.errors import InvalidInputError
from counterplay.federated.arrays import Array
from counterplay.federated.objective import Objective
from counterplay.federated.reports import Reports, Rule, RuleState
from counterplay.federated.rules.ada_gd import ADAGD
from counterplay.federated.rules.fed_avg import FedAvg
from counterplay.federated.rules.mw_fed import MWFed
from counterplay.federated.sites import SiteArrays, Sites, minibatches, party_rows
from counterplay.federated.stack import Spans
from counterplay.federated.work import MOST_DRAWS, ONE_STEP, LocalWork, batch_updates

TestSet = tuple[NDArray[Any], NDArray[Any]]
MOST_CELLS = 1 << 25  # of the record: a quarter of a GiB per column


@checked(arrays=True)
@dataclass(frozen=True, repr=False)
class TrainingRecord:
    """Everything that happened, with a leading axis for the ``S`` seeds.

    ``loss`` and ``accuracy`` ``(S, R+1, M)`` are those of all agents, also of those who left;
    ``population`` ``(S, R+1)`` is the accuracy on the test set, nan where it was not measured;
    ``active`` and ``predicted`` ``(S, R, M)``; ``defect_round`` ``(S, M)`` is -1 for agents that
    stayed, and ``r`` for agents that left on receiving ``w_{r-1}``; ``workload`` ``(S, M)`` counts
    the rounds in which an agent reported; ``rounds`` ``(S,)`` the updates of the model; ``w``
    ``(S, d)`` the final models. After a run has stopped its last values are repeated.

    Parameters
    ----------
    loss:
        Losses of all agents, also of those who left, ``(S, R+1, M)``.
    accuracy:
        Their accuracies, ``(S, R+1, M)``.
    population:
        Accuracy on the test set, ``(S, R+1)``; nan where it was not measured.
    active:
        Who took part in each round, ``(S, R, M)``.
    predicted:
        Who was predicted to leave, ``(S, R, M)``.
    defect_round:
        Round in which an agent left on receiving the model before it, -1 if it stayed, ``(S,
        M)``.
    workload:
        Rounds in which an agent reported, ``(S, M)``.
    rounds:
        Number of updates of the model, ``(S,)``.
    status:
        How each run ended.
    w:
        Final models, ``(S, d)``.
    eps:
        Targets of the agents.

    Examples
    --------
    >>> from counterplay.core.draws import run_keys
    >>> from counterplay.federated import FedAvg, LayeredObjective
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.2], [0.1, -1.0]])
    >>> sites = Sites.from_agents(X, [1, 1, 0, 0], [0, 1, 0, 1])
    >>> federation = Federation(LayeredObjective([2, 2]), sites, eps=0.2)
    >>> record = federation.train(FedAvg(), run_keys(0, 1), step_size=1.0, rounds=50)
    >>> record.loss.shape  # seeds, models, agents
    (1, 51, 2)

    References
    ----------
    "FedAvg with local steps (Algorithm D.1)", see docs/theory/05-defection.md.
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


def needs_gradients(rule: Rule) -> bool:
    """Whether the rule wants full-batch gradients beside local updates."""
    if isinstance(rule, ADAGD):
        return rule.variant != "naive"
    return not isinstance(rule, FedAvg | MWFed)


@checked
class Federation:
    """Parties with data, trained for many seeds at once on the CPU or a GPU.

    Use it where one rule is run for several seeds, or for speed; ``federated.train`` runs one
    federation party by party.

    Parameters
    ----------
    objective:
        The model: :class:`LayeredObjective`, ``torch_objective(module)`` or your own.
    sites:
        Who holds which rows.
    eps:
        Loss at which a party is satisfied, one for all or one per party; with 0 it never leaves.
    reported:
        What parties tell the server instead, if they do not tell the truth.
    test:
        Rows and class numbers for the population accuracy.
    evaluate_every:
        How often the population accuracy is measured, in rounds.

    Guarantees
    ----------
    A seed gives the same run alone and in company, in this process and on Flower.

    Examples
    --------
    >>> from counterplay.core.draws import run_keys
    >>> from counterplay.federated import FedAvg, LayeredObjective
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.2], [0.1, -1.0]])
    >>> sites = Sites.from_agents(X, [1, 1, 0, 0], [0, 1, 0, 1])
    >>> federation = Federation(LayeredObjective([2, 2]), sites, eps=0.2)
    >>> record = federation.train(FedAvg(), run_keys(0, 1), step_size=1.0, rounds=50)
    >>> record.defect_round[0].tolist(), record.status
    ([7, 7], ('everybody_left',))

    References
    ----------
    "FedAvg with local steps (Algorithm D.1)", see docs/theory/05-defection.md.
    """

    def __init__(
        self,
        objective: Objective,
        sites: Sites,
        *,
        eps: float | ArrayLike,
        reported: float | ArrayLike | None = None,
        test: TestSet | None = None,
        evaluate_every: int = 1,
    ) -> None:
        self.objective, self.sites = objective, sites
        self.eps = _per_party(eps, sites.agents, "eps")
        told = self.eps if reported is None else _per_party(reported, sites.agents, "reported")
        self.reported = told
        self.test = test if test is None else party_rows(objective, *test, "test")
        self.evaluate_every = check_positive_int(evaluate_every, "evaluate_every")

    def __repr__(self) -> str:
        return f"Federation({self.sites!r})"

    @checked
    def train(
        self,
        rule: Rule,
        keys: Keys,
        *,
        step_size: float | ArrayLike,
        rounds: int,
        work: LocalWork = ONE_STEP,
        start: NDArray[np.float64] | None = None,
        tick: Callable[[int], None] | None = None,
    ) -> TrainingRecord:
        """Train with parties that leave once satisfied, for all seeds at once.

        Parameters
        ----------
        rule:
            Server rule; its memory is kept apart for every seed.
        keys:
            One key per seed: initial parameters and minibatches.
        step_size:
            Server step, or one per round.
        rounds:
            At most this many rounds.
        work:
            Local work of a round.
        start:
            Initial parameters ``(d,)`` or ``(S, d)`` instead of the objective's own.
        tick:
            Called with the number of finished rounds.
        """
        if not isinstance(work.steps, int):
            raise InvalidInputError("steps must be one number for all parties here")
        total, runs = check_int(rounds, "rounds", low=0), check_keys(keys)
        check_size(
            len(runs) * (total + 1) * self.sites.agents, MOST_CELLS, "seeds x rounds x parties"
        )
        drawn = len(runs) * self.sites.agents * work.steps * (work.batch_size or 0)
        check_size(drawn, MOST_DRAWS, "rows drawn per round")
        run = _Run(self, rule, runs, _steps(step_size, total), work)
        size = float(len(keys)) * float(self.sites.sizes[0].sum()) * self.objective.size
        with self.objective.backend.fast_floats(size):
            return run.go(start, tick)


class _Run:
    """One call of :meth:`Federation.train`: the record so far, and the seeds that still run."""

    def __init__(
        self, federation: Federation, rule: Rule, keys: Keys, etas: FloatArray, work: LocalWork
    ) -> None:
        objective, sites = federation.objective, federation.sites
        self.objective, self.rule, self.keys = objective, rule, np.asarray(keys)
        self.etas, self.work = etas, work
        self.eps, self.reported = federation.eps, federation.reported
        self.test, self.every = federation.test, federation.evaluate_every
        self.S, self.R, self.M = len(self.keys), len(etas), sites.agents
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
        if r <= self.R and (not self.work.moves or needs_gradients(self.rule)):
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
        eta, work = float(self.etas[r - 1]), self.work
        blocks = [gradient]
        if work.moves:
            order = None
            if work.batch_size is not None:
                assert isinstance(work.steps, int)  # checked by the caller
                keys, sizes = self.keys[self.running], self.data.sizes
                order = minibatches(keys, r, sizes, work.steps, work.batch_size)
            spread = self.backend.repeat(self.w, self.M)
            moved = batch_updates(self.objective, self.data, spread, eta, work, order)
            moved = moved.reshape(len(self.running), self.M, -1)
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
            updates=spans.stack(position, ids) if self.work.moves else None,
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
    array = check_float_array(step_size, "step_size")
    if array.ndim > 1 or (array.ndim == 1 and len(array) != rounds):
        raise InvalidInputError(
            f"step_size must be one number or one per round ({rounds}), got shape {array.shape}"
        )
    etas = np.broadcast_to(array, (rounds,))
    if (etas <= 0).any():
        raise InvalidInputError("step_size must be positive")
    return etas


def _per_party(value: float | ArrayLike, agents: int, name: str) -> FloatArray:
    """Return one non-negative number per party."""
    array = check_float_array(value, name)
    if array.ndim > 1 or (array.ndim == 1 and len(array) != agents):
        raise InvalidInputError(
            f"{name} must be one number or one per party ({agents}), got shape {array.shape}"
        )
    if (array < 0).any():
        raise InvalidInputError(f"{name} must not be negative")
    return np.broadcast_to(array, (agents,)).copy()
