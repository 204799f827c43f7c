"""The protocol: broadcast, let the satisfied leave, collect reports, step.

Intermittently communicating first-order protocols with rational agents, on NumPy problems.
Source: Alg. alg:icfo, fig:flowchart, spec 05 section 3.1.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_float_array,
    check_positive_int,
    check_real,
)
from counterplay.defection.agents import AgentPool, Agents
from counterplay.defection.group_predictor import GroupPredictor
from counterplay.defection.history import FLHistory, FLResult, Status
from counterplay.defection.local_steps import LocalWork, local_updates
from counterplay.defection.problem import FederatedProblem
from counterplay.defection.reports import Aggregator, Decision, Reports, RuleState
from counterplay.defection.rules.ada_gd import ADAGD
from counterplay.defection.rules.mw_fed import MWFed
from counterplay.defection.rules.safe_step import SafeStep
from counterplay.defection.stack import NumpyStack
from counterplay.errors import AssumptionWarning, InvalidInputError, ProtocolError


@dataclass(frozen=True)
class ReportNoise:
    """Noise in what agents report; their own decisions use the true loss.

    Parameters
    ----------
    loss : float
        Standard deviation of the error of a reported loss.
    gradient : float
        Typical length of the error of a reported gradient.

    Examples
    --------
    >>> ReportNoise(loss=0.01, gradient=0.2)
    ReportNoise(loss=0.01, gradient=0.2)
    """

    loss: float = 0.0
    gradient: float = 0.0

    def __post_init__(self) -> None:
        check_real(self.loss, "loss", low=0.0)
        check_real(self.gradient, "gradient", low=0.0)


@dataclass(frozen=True, eq=False)
class RoundEvent:
    """What a callback sees after the server has decided in a round."""

    round: int
    w: FloatArray
    reports: Reports
    decision: Decision


@dataclass(frozen=True, eq=False)
class RunSetting:
    """Everything that determines a run, so that it can be repeated with a change."""

    problem: FederatedProblem
    aggregator: Aggregator
    w0: FloatArray
    agents: Agents
    eta: FloatArray
    rounds: int
    local_work: LocalWork | None
    noise: ReportNoise | None
    groups: GroupPredictor | None
    seed: int
    forced_to_stay: tuple[int, ...]


def run_icfo(
    problem: FederatedProblem,
    aggregator: Aggregator,
    w0: ArrayLike,
    agents: Agents,
    *,
    eta: ArrayLike,
    rounds: int = 10_000,
    local_work: LocalWork | None = None,
    noise: ReportNoise | None = None,
    groups: GroupPredictor | None = None,
    callbacks: Sequence[Callable[[RoundEvent], None]] = (),
    keep_every: int | None = None,
    log_sigma: bool = False,
    check_span: bool = False,
    forced_to_stay: Sequence[int] = (),
    accuracy: Callable[[FloatArray], FloatArray] | None = None,
    population_accuracy: Callable[[FloatArray], float] | None = None,
    random_state: RandomState = 0,
) -> FLResult:
    """Train with agents who leave when they are satisfied.

    Use it to see who leaves when under a server rule, and what it does to the model.

    Parameters
    ----------
    problem : FederatedProblem
        Losses and gradients.
    aggregator : Aggregator
        The server rule, such as ``UniformAggregation()``, ``ADAGD(delta)`` or ``SafeStep(delta)``.
    w0 : array of shape (d,)
        First model; it is checked by the agents in round 1.
    agents : float, array of shape (M,) or list of RationalAgent
        Targets ``eps_m`` (0 means never satisfied), or full agents.
    eta : float or array of shape (rounds,)
        Step size or schedule.
    rounds : int
        Largest number of steps.
    local_work : LocalWork, optional
        Local steps between reports.
    noise : ReportNoise, optional
        Errors in the reports.
    groups : GroupPredictor, optional
        Marks members of a group as leaving after one of them has left.
    callbacks : sequence of callables
        Called with a :class:`RoundEvent` after every decision (see ``HealthGauge``).
    keep_every : int, optional
        Keep every k-th model in ``history.w``.
    log_sigma : bool
        Log the smallest singular value of the gradients (for rules that look at them).
    check_span : bool
        Raise when a step leaves the span of what the agents sent.
    forced_to_stay : sequence of int
        Agents that never leave, for counterfactuals.
    accuracy : callable, optional
        ``w -> (M,)`` accuracies of all agents, also of those who left; fills ``history.acc``.
    population_accuracy : callable, optional
        ``w -> float``, fills ``history.pop_acc``.
    random_state : int, Generator or None
        Seed of minibatches and noise.

    Returns
    -------
    FLResult
        Final model, history, and status ``converged`` (the rule stopped), ``stalled``,
        ``everybody_left`` or ``max_rounds``.

    Guarantees
    ----------
    Decisions are simultaneous within a round and permanent; gradients of leavers are never asked
    for again; the last model is judged but not shown to the agents.

    Examples
    --------
    Equal weights lose agent 1, and with it the model; SafeStep loses nobody.

    >>> from counterplay.defection import SafeStep, UniformAggregation, instances
    >>> c = instances.uniform_fails_family(alpha=0.0, eps=1 / 16)
    >>> run_icfo(c.problem, UniformAggregation(), c.w0, c.eps, eta=1 / 64).loss.tolist()
    [0.0625, 1.0]
    >>> run_icfo(c.problem, SafeStep(1 / 16), c.w0, c.eps, eta=0.5).loss.tolist()
    [0.1875, 0.125]

    References
    ----------
    Alg. alg:icfo; spec 05 section 3.1.
    """
    rounds = check_positive_int(rounds, "rounds")
    setting = RunSetting(
        problem,
        aggregator,
        problem.check_point(w0, "w0"),
        agents,
        check_steps(eta, rounds),
        rounds,
        local_work,
        noise,
        groups,
        int(generator(random_state).integers(2**62)),
        tuple(forced_to_stay),
    )
    if isinstance(aggregator, ADAGD | SafeStep) and problem.n_agents > problem.dimension:
        warnings.warn(
            f"{problem.n_agents} agents share {problem.dimension} parameters: minimal "
            f"heterogeneity is impossible, so the rule may stall",
            AssumptionWarning,
            stacklevel=2,
        )
    run = _Run(setting, callbacks, keep_every, log_sigma, check_span)
    run.measures = (accuracy, population_accuracy)
    return run.go()


def rerun(setting: RunSetting, **changes: Any) -> FLResult:
    """Repeat a run with some of its settings changed."""
    return _Run(replace(setting, **changes), (), None, False, False).go()


def check_steps(eta: ArrayLike, rounds: int) -> FloatArray:
    """Return the step size of every round, all positive."""
    values = check_float_array(eta, "eta")
    if values.ndim > 1 or (values.ndim == 1 and len(values) < rounds):
        raise InvalidInputError(
            f"eta must be a number or one per round, shape ({rounds},), got {values.shape}"
        )
    if (values <= 0.0).any():
        raise InvalidInputError(f"eta must be positive, got {values.min():g}")
    return np.broadcast_to(values, (rounds,)) if values.ndim == 0 else values[:rounds]


class _Run:
    """One run of the protocol: the loop and its log."""

    def __init__(
        self,
        setting: RunSetting,
        callbacks: Sequence[Callable[[RoundEvent], None]],
        keep_every: int | None,
        log_sigma: bool,
        check_span: bool,
    ) -> None:
        self.setting = setting
        self.problem, self.rule = setting.problem, setting.aggregator
        self.callbacks, self.keep_every = callbacks, keep_every
        self.log_sigma, self.check_span = log_sigma, check_span
        self.pool = AgentPool.of(setting.agents, self.problem.n_agents)
        self.state = RuleState()
        M = self.problem.n_agents
        self.can_leave = np.ones(M, dtype=bool)
        self.can_leave[list(setting.forced_to_stay)] = False
        self.active = np.ones(M, dtype=bool)
        self.ids = np.arange(M)
        self.left = np.full(M, -1)
        self.workload = np.zeros(M, dtype=np.int64)
        self.losses: list[FloatArray] = []
        self.log: list[tuple[BoolArray, int, BoolArray, float, float]] = []
        self.kept: list[tuple[int, FloatArray]] = []
        self.measures: tuple[Callable[[FloatArray], Any] | None, ...] = (None, None)
        self.measured: tuple[list[Any], list[Any]] = ([], [])

    def go(self) -> FLResult:
        """Run the protocol until the rule stops, everybody has left or the rounds are over."""
        w: FloatArray = self.setting.w0
        etas = self.setting.eta
        status: Status = "max_rounds"
        for r in range(1, self.setting.rounds + 1):
            self._keep(r - 1, w)
            loss = self._evaluate(w, r)
            self._let_leave(loss, r)
            if not len(self.ids):
                status = "everybody_left"
                break
            eta = float(etas[r - 1])
            reports = self._collect(w, loss, eta, r)
            decision = self.rule.decide(reports, eta, self.state)
            self.workload[self.ids] += 1
            for callback in self.callbacks:
                callback(RoundEvent(r, w, reports, decision))
            if decision.status != "running":
                status = decision.status
                break
            w = self._step(w, reports, decision)
        else:
            self._evaluate(w, self.setting.rounds + 1)
            self._keep(self.setting.rounds, w)
        return FLResult(w, self._history(status), self.setting)

    def _evaluate(self, w: FloatArray, r: int) -> FloatArray:
        loss = self.problem.losses(w)
        if not math.isfinite(float(loss.sum())):  # one bad entry spoils the sum
            m = int(np.isfinite(loss).argmin())
            raise InvalidInputError(
                f"the loss of agent {m} is {loss[m]} in round {r}; use a smaller step size"
            )
        self.losses.append(loss)
        for measure, values in zip(self.measures, self.measured):
            if measure is not None:
                values.append(measure(w))
        return loss

    def _let_leave(self, loss: FloatArray, r: int) -> None:
        leave = self.pool.decide(loss, r) & self.can_leave
        if leave.any():
            self.can_leave = self.can_leave & ~leave
            self.left[leave] = r
            self.active = self.active & ~leave
            self.ids = np.flatnonzero(self.active)

    def _collect(self, w: FloatArray, loss: FloatArray, eta: float, r: int) -> Reports:
        ids, setting = self.ids, self.setting
        everybody = len(ids) == len(loss)
        G = self.problem.gradients(w, None if everybody else ids)
        F = loss if everybody else loss[ids]
        if not math.isfinite(float(G.sum())):
            m = int(ids[np.isfinite(G).all(axis=1).argmin()])
            raise InvalidInputError(
                f"the gradient of agent {m} is not finite in round {r}; use a smaller step size"
            )
        rng = None
        if setting.noise is not None or setting.local_work is not None:
            rng = np.random.default_rng([setting.seed, r])
        updates = None
        if setting.local_work is not None:
            counts = self.rule.local_steps(ids, self.state) if _loads(self.rule) else None  # type: ignore[attr-defined]  # MWFed only
            updates = local_updates(self.problem, w, ids, eta, setting.local_work, rng, counts)
        if setting.noise is not None and rng is not None:
            F = F + setting.noise.loss * rng.normal(size=len(ids))
            G = G + setting.noise.gradient / math.sqrt(G.shape[1]) * rng.normal(size=G.shape)
        return Reports(
            F,
            NumpyStack(G),
            self.pool.reported if everybody else self.pool.reported[ids],
            ids,
            None if updates is None else NumpyStack(updates),
            None if setting.noise is None else np.full(len(ids), setting.noise.loss),
            None if setting.groups is None else setting.groups.leaving(ids, self.left),
        )

    def _step(self, w: FloatArray, reports: Reports, decision: Decision) -> FloatArray:
        if self.check_span:
            _assert_in_span(reports, decision.step)
        predicted = np.zeros(len(self.active), dtype=bool)
        predicted[self.ids] = decision.predicted
        length = math.sqrt(float(decision.step @ decision.step))
        sigma = decision.sigma_min if self.log_sigma else math.nan
        self.log.append((self.active, decision.case, predicted, length, sigma))
        return np.asarray(w + decision.step)

    def _keep(self, r: int, w: FloatArray) -> None:
        if self.keep_every is not None and r % self.keep_every == 0:
            self.kept.append((r, w))

    def _history(self, status: Status) -> FLHistory:
        M = self.problem.n_agents
        columns: list[Any] = list(zip(*self.log)) if self.log else [(), (), (), (), ()]
        flags = [np.array(columns[i], dtype=bool).reshape(-1, M) for i in (0, 2)]
        kept: dict[str, FloatArray | IntArray] = {
            name: np.array(values, dtype=np.float64)
            for name, values in zip(("acc", "pop_acc"), self.measured)
            if values
        }
        if self.kept:
            kept["w"] = np.array([w for _, w in self.kept])
            kept["w_rounds"] = np.array([r for r, _ in self.kept])
        return FLHistory(
            loss=np.array(self.losses),
            eps=self.pool.eps,
            active=flags[0],
            defect_round=self.left,
            case=np.array(columns[1], dtype=np.int64),
            D=flags[1],
            update_norm=np.array(columns[3], dtype=np.float64),
            workload=self.workload,
            status=status,
            sigma_min=np.array(columns[4], dtype=np.float64),
            **kept,  # type: ignore[arg-type]  # accuracies, models and their rounds
        )


def _loads(rule: Aggregator) -> bool:
    return isinstance(rule, MWFed) and rule.minibatches is not None


def _assert_in_span(reports: Reports, step: FloatArray) -> None:
    """Raise unless the step is a combination of the vectors that were sent."""
    parts = [reports.gradients] + ([reports.updates] if reports.updates is not None else [])
    sent = np.vstack([part.array for part in parts if isinstance(part, NumpyStack)])
    coefficients = np.linalg.lstsq(sent.T, step, rcond=None)[0]
    residual = float(np.linalg.norm(step - coefficients @ sent))
    if residual > 1e-8 * float(np.linalg.norm(step)):
        raise ProtocolError(
            f"the rule left the span of the reports (residual {residual:.2g}); "
            f"a first-order protocol may only combine what agents sent"
        )
