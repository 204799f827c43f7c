"""The protocol as a game: broadcast, let the satisfied leave, collect reports, step.

The :class:`Server` is the learner: it acts by broadcasting a model and observes the reports of
those who stayed. The :class:`FederationGame` is the other side: agents on a NumPy problem who leave
for good once they are satisfied.
Source: Algorithm 5.1 and Figure 5.4, see docs/theory/05-defection.md.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.play import Game, Learner, play
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_float_array,
    check_real,
)
from counterplay.defection.agents import AgentPool, Agents, GroupPredictor
from counterplay.defection.problem import FederatedProblem, local_updates
from counterplay.defection.transcript import FederationTranscript, Status
from counterplay.errors import AssumptionWarning, InvalidInputError, ProtocolError
from counterplay.federated.history import RoundEvent
from counterplay.federated.reports import Reports, Rule, RuleState
from counterplay.federated.rules import ADAGD, MWFed, SafeStep
from counterplay.federated.stack import NumpyStack
from counterplay.federated.work import LocalWork

Watcher = Callable[[RoundEvent], object]


@checked
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


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class Broadcast:
    """What the server sends in a round: the model, the step size, and who shall do how much."""

    w: FloatArray
    step_size: float
    loads: Callable[[IntArray], IntArray | None]


@dataclass(frozen=True)
class Move:
    """What the log keeps of a decision."""

    case: int
    predicted: BoolArray
    length: float
    sigma_min: float


@checked
class Server(Learner):
    """The server of a federation: a rule, a model and a step size.

    Parameters
    ----------
    rule : Rule
        The server rule, such as ``FedAvg()``, ``ADAGD(delta)`` or ``SafeStep(delta)``.
    w0 : array of shape (d,)
        First model; it is checked by the agents in round 1.
    step_size : float or array of one per round
        Step size or schedule.
    watch : sequence of callables
        Called with a :class:`RoundEvent` after every decision (see ``HealthGauge``).
    log_sigma : bool
        Log the smallest singular value of the gradients (for rules that look at them).

    Attributes
    ----------
    w : array of shape (d,)
        The current model.
    status : {"running", "converged", "stalled"}
        Of the rule.

    Examples
    --------
    >>> from counterplay.defection import FedAvg
    >>> Server(FedAvg(), [0.0, 0.0], step_size=0.1)
    Server(FedAvg(nu=1.0), 2 parameters)

    References
    ----------
    "The protocol with rational agents (Algorithm 5.1)", see docs/theory/05-defection.md.
    """

    def __init__(
        self,
        rule: Rule,
        w0: ArrayLike,
        *,
        step_size: ArrayLike,
        watch: Sequence[Watcher] = (),
        log_sigma: bool = False,
    ) -> None:
        self.rule, self.w0 = rule, check_float_array(w0, "w0", ndim=1)
        self.step_size = check_float_array(step_size, "step_size")
        if (self.step_size <= 0.0).any():
            raise InvalidInputError(f"step_size must be positive, got {self.step_size.min():g}")
        self.watch, self.log_sigma = tuple(watch), log_sigma
        self.w = self.w0
        self.memory = RuleState()
        self.status: Status = "running"
        self.moves: list[Move] = []
        self._steps: FloatArray = np.zeros(0)
        self._round = 0

    def __repr__(self) -> str:
        return f"Server({self.rule!r}, {len(self.w)} parameters)"

    def begin(self, rounds: int) -> None:
        """Start a game from the current model."""
        steps = self.step_size
        if steps.ndim > 1 or (steps.ndim == 1 and len(steps) < rounds):
            raise InvalidInputError(
                f"step_size must be a number or one per round, shape ({rounds},), got {steps.shape}"
            )
        self._steps = np.broadcast_to(steps, (rounds,)) if steps.ndim == 0 else steps[:rounds]
        self.w0, self._round, self.moves, self.status = self.w, 0, [], "running"

    def act(self, seen: Any = None) -> Broadcast:
        """Broadcast the model."""
        self._round += 1
        return Broadcast(self.w, float(self._steps[self._round - 1]), self._loads)

    def _loads(self, ids: IntArray) -> IntArray | None:
        return self.rule.local_steps(ids, self.memory) if isinstance(self.rule, MWFed) else None

    def observe(self, feedback: Reports | None) -> None:
        """Let the rule decide on the reports of those who stayed, and move the model."""
        if feedback is None:  # everybody has left
            return
        decision = self.rule.decide(feedback, float(self._steps[self._round - 1]), self.memory)
        for watcher in self.watch:
            watcher(RoundEvent(self._round, self.w, feedback, decision))
        if decision.status != "running":
            self.status = decision.status
            return
        length = math.sqrt(float(decision.step @ decision.step))
        sigma = decision.sigma_min if self.log_sigma else math.nan
        self.moves.append(Move(decision.case, decision.predicted, length, sigma))
        self.w = np.asarray(self.w + decision.step)


@checked
class FederationGame(Game[FederationTranscript]):
    """Agents on a problem who leave when they are satisfied; play it with a :class:`Server`.

    Use it to see who leaves when under a server rule, and what it does to the model. The game ends
    when the rule stops or everybody has left, at the latest after 10,000 rounds.

    Parameters
    ----------
    problem : FederatedProblem
        Losses and gradients.
    agents : float, array of shape (M,) or list of RationalAgent
        Targets ``eps_m`` (0 means never satisfied), or full agents.
    local_work : LocalWork, optional
        Local steps between reports.
    noise : ReportNoise, optional
        Errors in the reports.
    groups : GroupPredictor, optional
        Marks members of a group as leaving after one of them has left.
    forced_to_stay : sequence of int
        Agents that never leave, for counterfactuals.
    keep_every : int, optional
        Keep every k-th model in ``transcript.models``.
    accuracy : callable, optional
        ``w -> (M,)`` accuracies of all agents, also of those who left; fills ``transcript.acc``.
    population_accuracy : callable, optional
        ``w -> float``, fills ``transcript.pop_acc``.

    Guarantees
    ----------
    Decisions are simultaneous within a round and permanent; gradients of leavers are never asked
    for again; the last model is judged but not shown to the agents. ``random_state`` of ``play``
    is the seed of minibatches and noise.

    Examples
    --------
    Equal weights lose agent 1, and with it the model; SafeStep loses nobody.

    >>> from counterplay.defection import FedAvg, SafeStep, instances, play
    >>> c = instances.uniform_fails_family(alpha=0.0, eps=1 / 16)
    >>> game = FederationGame(c.problem, c.eps)
    >>> play(Server(FedAvg(), c.w0, step_size=1 / 64), game).loss.tolist()
    [0.0625, 1.0]
    >>> play(Server(SafeStep(1 / 16), c.w0, step_size=0.5), game).loss.tolist()
    [0.1875, 0.125]

    References
    ----------
    Algorithm 5.1 in docs/theory/05-defection.md.
    """

    def __init__(
        self,
        problem: FederatedProblem,
        agents: Agents,
        *,
        local_work: LocalWork | None = None,
        noise: ReportNoise | None = None,
        groups: GroupPredictor | None = None,
        forced_to_stay: Sequence[int] = (),
        keep_every: int | None = None,
        accuracy: Callable[[FloatArray], FloatArray] | None = None,
        population_accuracy: Callable[[FloatArray], float] | None = None,
    ) -> None:
        self.problem, self.agents = problem, agents
        self.local_work, self.noise, self.groups = local_work, noise, groups
        self.forced_to_stay = tuple(forced_to_stay)
        self.keep_every = keep_every
        self.fixed_seed: int | None = None
        self.measures = {"acc": accuracy, "pop_acc": population_accuracy}
        AgentPool.of(agents, problem.n_agents)  # refuses bad agents before the first round

    def __repr__(self) -> str:
        return f"FederationGame({self.problem!r})"

    @property
    def rounds(self) -> int:
        """Most rounds that are played if ``play`` is not told otherwise."""
        return 10_000

    def with_forced(self, forced: Sequence[int]) -> FederationGame:
        """Return the game in which these agents never leave, without measures."""
        return FederationGame(
            self.problem,
            self.agents,
            local_work=self.local_work,
            noise=self.noise,
            groups=self.groups,
            forced_to_stay=forced,
        )

    def check(self, learner: Learner) -> None:
        """Refuse learners that are no server; warn where minimal heterogeneity cannot hold."""
        if not isinstance(learner, Server):
            raise InvalidInputError(f"FederationGame needs a Server, got {type(learner).__name__}")
        learner.w = self.problem.check_point(learner.w, "w0")
        M, d = self.problem.n_agents, self.problem.dimension
        if isinstance(learner.rule, ADAGD | SafeStep) and d < M:
            warnings.warn(
                f"{M} agents share {d} parameters: minimal heterogeneity is impossible, so the "
                f"rule may stall",
                AssumptionWarning,
                stacklevel=3,
            )

    def start(self, rounds: int, random_state: RandomState) -> None:
        """Everybody is there."""
        M = self.problem.n_agents
        seed = int(generator(random_state).integers(2**62))
        self.total, self.seed = rounds, seed if self.fixed_seed is None else self.fixed_seed
        self.pool = AgentPool.of(self.agents, M)
        self.can_leave = np.ones(M, dtype=bool)
        self.can_leave[list(self.forced_to_stay)] = False
        self.active = np.ones(M, dtype=bool)
        self.ids = np.arange(M)
        self.left = np.full(M, -1)
        self.workload = np.zeros(M, dtype=np.int64)
        self.losses: list[FloatArray] = []
        self.present: list[BoolArray] = []
        self.kept: list[tuple[int, FloatArray]] = []
        self.measured: dict[str, list[Any]] = {name: [] for name in self.measures}
        self.status: Status = "max_rounds"

    def arrive(self, learner: Learner) -> bool:
        """A round begins unless everybody has left or the rule has stopped."""
        return len(self.ids) > 0 and getattr(learner, "status", "running") == "running"

    def respond(self, action: Broadcast) -> Reports | None:
        """Judge the model, let the satisfied leave, collect the reports of the others."""
        r = len(self.losses) + 1
        self._keep(r - 1, action.w)
        loss = self._evaluate(action.w, r)
        self._let_leave(loss, r)
        if not len(self.ids):
            self.status = "everybody_left"
            return None
        reports = self._collect(action, loss, r)
        self.workload[self.ids] += 1
        self.present.append(self.active)
        return reports

    def _evaluate(self, w: FloatArray, r: int) -> FloatArray:
        loss = self.problem.losses(w)
        if not math.isfinite(float(loss.sum())):  # one bad entry spoils the sum
            m = int(np.isfinite(loss).argmin())
            raise InvalidInputError(
                f"the loss of agent {m} is {loss[m]} in round {r}; use a smaller step size"
            )
        self.losses.append(loss)
        for name, measure in self.measures.items():
            if measure is not None:
                self.measured[name].append(measure(w))
        return loss

    def _let_leave(self, loss: FloatArray, r: int) -> None:
        leave = self.pool.decide(loss, r) & self.can_leave
        if leave.any():
            self.can_leave = self.can_leave & ~leave
            self.left[leave] = r
            self.active = self.active & ~leave
            self.ids = np.flatnonzero(self.active)

    def _collect(self, action: Broadcast, loss: FloatArray, r: int) -> Reports:
        ids, noise, w = self.ids, self.noise, action.w
        everybody = len(ids) == len(loss)
        G = self.problem.gradients(w, None if everybody else ids)
        F = loss if everybody else loss[ids]
        if not math.isfinite(float(G.sum())):
            m = int(ids[np.isfinite(G).all(axis=1).argmin()])
            raise InvalidInputError(
                f"the gradient of agent {m} is not finite in round {r}; use a smaller step size"
            )
        rng, updates = None, None
        if noise is not None or self.local_work is not None:
            rng = np.random.default_rng([self.seed, r])
        if self.local_work is not None:
            work, counts = self.local_work, action.loads(ids)
            updates = local_updates(self.problem, w, ids, action.step_size, work, rng, counts)
        if noise is not None and rng is not None:
            F = F + noise.loss * rng.normal(size=len(ids))
            G = G + noise.gradient / math.sqrt(G.shape[1]) * rng.normal(size=G.shape)
        return Reports(
            F,
            NumpyStack(G),
            self.pool.reported if everybody else self.pool.reported[ids],
            ids,
            None if updates is None else NumpyStack(updates),
            None if noise is None else np.full(len(ids), noise.loss),
            None if self.groups is None else self.groups.leaving(ids, self.left),
        )

    def _keep(self, r: int, w: FloatArray) -> None:
        if self.keep_every is not None and r % self.keep_every == 0:
            self.kept.append((r, w))

    def transcript(self, learner: Learner) -> FederationTranscript:
        """What happened; the final model is judged, but nobody is shown it."""
        assert isinstance(learner, Server)  # checked before the first round
        if learner.status != "running":
            self.status = learner.status
        moves, M = learner.moves, self.problem.n_agents
        if len(self.losses) == len(moves):
            self._evaluate(learner.w, len(moves) + 1)
            self._keep(len(moves), learner.w)
        predicted = np.zeros((len(moves), M), dtype=bool)
        for row, active, move in zip(predicted, self.present, moves):
            row[active] = move.predicted
        losses = np.array(self.losses)
        measured: dict[str, Any] = {
            name: np.array(v, dtype=np.float64) for name, v in self.measured.items() if v
        }
        if self.kept:
            measured["models"] = np.array([w for _, w in self.kept])
            measured["model_rounds"] = np.array([r for r, _ in self.kept])
        return FederationTranscript(
            columns={
                "loss": losses[:-1],
                "active": np.array(self.present[: len(moves)], dtype=bool).reshape(-1, M),
                "predicted": predicted,
                "case": np.array([move.case for move in moves], dtype=np.int64),
                "step_length": np.array([move.length for move in moves], dtype=np.float64),
            },
            meta=self._facts(learner),
            w=learner.w,
            losses=losses,
            eps=self.pool.eps,
            defect_round=self.left,
            workload=self.workload,
            status=self.status,
            sigma_min=np.array([move.sigma_min for move in moves], dtype=np.float64),
            repeat=_Repeat(learner, self, self.total, self.seed),
            **measured,
        )

    def _facts(self, server: Server) -> dict[str, Any]:
        steps = server.step_size
        return {
            "problem": self.problem.name,
            "rule": server.rule,
            "step size": f"{float(steps):g}" if steps.ndim == 0 else "one per round",
            "status": self.status,
            "left in round": self.left.tolist(),
        }


@dataclass(frozen=True, eq=False)
class _Repeat:
    """Plays a game again with the same random numbers and some agents forced to stay."""

    server: Server
    game: FederationGame
    rounds: int
    seed: int

    def __call__(self, forced_to_stay: Sequence[int]) -> FederationTranscript:
        server = Server(self.server.rule, self.server.w0, step_size=self.server.step_size)
        game = self.game.with_forced((*self.game.forced_to_stay, *forced_to_stay))
        game.fixed_seed = self.seed
        return play(server, game, rounds=self.rounds)


@checked
def check_span(event: RoundEvent) -> None:
    """Raise unless the step of a round is a combination of the vectors that were sent.

    Examples
    --------
    >>> from counterplay.defection import FedAvg, instances, play
    >>> c = instances.benign_example()
    >>> server = Server(FedAvg(), c.w0, step_size=0.5, watch=[check_span])
    >>> play(server, FederationGame(c.problem, c.eps)).status
    'everybody_left'
    """
    reports, step = event.reports, event.decision.step
    parts = [reports.gradients] + ([reports.updates] if reports.updates is not None else [])
    sent = np.vstack([part.array for part in parts if isinstance(part, NumpyStack)])
    coefficients = np.linalg.lstsq(sent.T, step, rcond=None)[0]
    residual = float(np.linalg.norm(step - coefficients @ sent))
    if residual > 1e-8 * float(np.linalg.norm(step)):
        raise ProtocolError(
            f"the rule left the span of the reports (residual {residual:.2g}); "
            "a first-order protocol may only combine what agents sent"
        )
