"""Baselines: what one tries first, and what throws away what was learned.

Mixing both losses forgets about the constraint (Theorem 9.1). A rule of the cumulative losses alone
cannot keep both regrets small, whatever it does with them (Theorem 9.5). Restarting whenever the
set of active experts changes is simple, and worse than the learners with stand-ins.
Source: docs/theory/09-tradeoff.md, "Learners of cumulative losses" and "Deactivation learner
(Algorithm 9.1)".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.online import ScalarLearner
from counterplay.core.online.chain import independent_chain, pick
from counterplay.core.online.follow_lazy_leader import cumulative_before
from counterplay.core.online.stored import require, same_kinds
from counterplay.core.seeds import RandomState
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_probabilities,
    check_real,
)
from counterplay.errors import InvalidInputError, ProtocolError
from counterplay.tradeoff.deactivation import DeactivationLearner
from counterplay.tradeoff.epoch_learner import Anytime, EpochLearner, epoch_plan
from counterplay.tradeoff.learner import BicriteriaLearner
from counterplay.tradeoff.model import EpochRule
from counterplay.tradeoff.oracle import CusumOracle, OracleRun
from counterplay.tradeoff.plan import Plan, join_plans, plain_plan

Rule = Callable[[FloatArray, FloatArray], ArrayLike]
_PROBES = 64  # rounds whose answer is asked for a second time


@checked
class ScalarizedLearner(EpochLearner):
    """Run a learner on ``(l1 + lam * l2) / (1 + lam)``.

    Use it as the baseline most people try first.

    Parameters
    ----------
    horizon:
        Number of rounds.
    K:
        Number of experts.
    lam:
        Price of one unit of secondary loss, in units of primary loss.
    alpha:
        As for ``EpochLearner``.
    B:
        As for ``EpochLearner``; by default one choice per round.
    learner:
        As for ``EpochLearner``.
    random_state:
        None, an int or a ``numpy.random.Generator``.

    Examples
    --------
    >>> from counterplay.core.online import FollowTheLeader
    >>> from counterplay.tradeoff import LossStream, play
    >>> from counterplay.tradeoff.instances import impossibility_worlds
    >>> world_1, world_2 = impossibility_worlds(rounds=9600)
    >>> learner = ScalarizedLearner(horizon=9600, K=2, lam=1.0, learner=FollowTheLeader())
    >>> result = play(learner, LossStream(world_2.l1, world_2.l2, c=world_2.c), fast=True)
    >>> round(result.primary_regret()), round(result.secondary_regret())  # mean of both: >= 66.7
    (400, 1)

    References
    ----------
    A. Blum, H. Shao, Online learning with primary and secondary losses, NeurIPS 2020.
    """

    uses_secondary: ClassVar[bool] = True

    def __init__(
        self,
        horizon: int,
        K: int,
        lam: float,
        alpha: float | None = None,
        *,
        B: EpochRule = 1,
        learner: ScalarLearner | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.lam = check_real(lam, "lam", low=0.0)
        super().__init__(horizon, K, alpha, B=B, learner=learner, random_state=random_state)

    def _combine(self, l1: FloatArray, l2: FloatArray) -> FloatArray:
        mixed: FloatArray = (l1 + self.lam * l2) / (1 + self.lam)
        return mixed

    def guarantees(self, activity: OracleRun | None = None) -> dict[str, float]:
        """Return nothing: mixing the losses promises nothing about either of them."""
        return {}


@checked
class CumulativeLossLearner(BicriteriaLearner):
    """Play from a distribution that is a function of both cumulative loss vectors.

    Use it to try any rule of this kind on the instances of Theorem 9.5. A rule that uses
    anything else, such as the number of the round, is rejected.

    Parameters
    ----------
    rule:
        ``rule(L1, L2)`` returns the probabilities of the experts; ``L1`` and ``L2`` are the vectors
        of cumulative losses so far. It must take exactly these two arguments and give the same
        answer for the same arguments.
    horizon:
        Number of rounds.
    K:
        Number of experts.
    random_state:
        None, an int or a ``numpy.random.Generator``.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.tradeoff import LossStream, play
    >>> def softmin(L1, L2):
    ...     w = np.exp(-0.05 * (L1 - L1.min()))
    ...     return w / w.sum()
    >>> learner = CumulativeLossLearner(softmin, horizon=500, K=2)
    >>> l1 = np.tile([[0.0, 1.0]], (500, 1))
    >>> round(play(learner, LossStream(l1, l1, c=0.5), fast=True).primary_regret(), 2)
    14.11

    References
    ----------
    A. Blum, H. Shao, Online learning with primary and secondary losses, NeurIPS 2020, Thm. 5.
    """

    _state: ClassVar[tuple[str, ...]] = (*BicriteriaLearner._state, "_sums")
    uses_secondary: ClassVar[bool] = True
    _sums: FloatArray  # cumulative losses, shape (2, K)

    def __init__(
        self, rule: Rule, horizon: int, K: int, *, random_state: RandomState = None
    ) -> None:
        self._init(horizon, K, random_state)
        self.rule = _check_rule(rule)
        self.reset()

    def _stored_params(self) -> dict[str, Any]:
        return {name: value for name, value in self.get_params().items() if name != "rule"}

    @classmethod
    def _revive(cls, params: dict[str, Any]) -> Self:
        return cls(_no_rule, **params)

    @classmethod
    def from_json(cls, text: str, rule: Rule | None = None) -> Self:
        """Restore a stored learner; pass its rule again, a function cannot be stored."""
        restored = super().from_json(text)
        restored.rule = _no_rule if rule is None else _check_rule(rule)
        return restored

    def _start(self) -> None:
        self._sums = np.zeros((2, self.K))

    def _ask(self, L1: FloatArray, L2: FloatArray) -> FloatArray:
        answer = check_probabilities(self.rule(L1, L2), "the answer of rule")
        if answer.shape != (self.K,):
            raise InvalidInputError(f"rule must return {self.K} probabilities, got {answer.shape}")
        return answer

    def _choose(self) -> int:
        return pick(self._ask(self._sums[0].copy(), self._sums[1].copy()), self._rng.random(2)[1])

    def _learn(self, l1: FloatArray, l2: FloatArray, active_next: BoolArray | None) -> None:
        if active_next is not None:
            self._see_activity(active_next)
        self._sums += (l1, l2)

    def _plan(self, l1: FloatArray, l2: FloatArray, activity: OracleRun | None) -> Plan:
        first, second = cumulative_before(l1), cumulative_before(l2)
        marginals = np.array([self._ask(a, b) for a, b in zip(first, second)])
        probes = np.unique(np.linspace(0, len(l1) - 1, _PROBES).astype(int))
        for t in probes[::-1]:  # backwards: a rule that counts its calls cannot agree
            if not np.allclose(self._ask(first[t], second[t]), marginals[t], rtol=0, atol=1e-12):
                raise InvalidInputError(
                    f"rule gave two different answers for the cumulative losses of round {t}; it "
                    f"must depend on the cumulative losses only"
                )
        chain = independent_chain(marginals)
        return plain_plan(len(l1), np.arange(len(l1)), marginals, chain)


@checked
class RestartOnDeactivation(DeactivationLearner):
    """Start a fresh learner on the active experts whenever somebody is switched off (or on).

    Use it as a baseline for ``DeactivationLearner``: its sleeping regret grows with the number of
    deactivations: linearly for a learner tuned for all rounds, like a square root for an anytime
    one.

    Parameters
    ----------
    horizon:
        Number of rounds.
    K:
        Number of experts.
    alpha:
        As for ``DeactivationLearner``.
    B:
        As for ``DeactivationLearner``.
    oracle:
        The watchdog.
    learner:
        As for ``DeactivationLearner``.
    anytime:
        ``"doubling"`` or ``"decreasing"``; None: the learner stays tuned for the whole horizon.
    random_state:
        None, an int or a ``numpy.random.Generator``.

    Examples
    --------
    >>> from counterplay.tradeoff import LossStream, play
    >>> from counterplay.tradeoff import CusumOracle, DeactivationLearner
    >>> from counterplay.tradeoff.instances import staggered
    >>> game = staggered(rounds=4096, alpha=0.3, K=8)
    >>> watchdog = CusumOracle(game.c, game.threshold)
    >>> stream = LossStream(game.l1, game.l2, replicates=0)
    >>> learners = [kind(horizon=4096, K=8, alpha=0.3, oracle=watchdog, anytime=None)
    ...             for kind in (DeactivationLearner, RestartOnDeactivation)]
    >>> [round(float(play(a, stream, fast=True).sleeping_regret()[-1])) for a in learners]
    [308, 1633]

    References
    ----------
    A. Blum, H. Shao, Online learning with primary and secondary losses, NeurIPS 2020.
    """

    _state: ClassVar[tuple[str, ...]] = (*DeactivationLearner._state, "_experts")
    _varying: ClassVar[tuple[str, ...]] = ("_engine", "_experts", "_sum")
    _allows_resets: ClassVar[bool] = True
    _experts: IntArray  # active experts, in the engine's order

    def __init__(
        self,
        horizon: int,
        K: int,
        alpha: float | None = None,
        *,
        B: EpochRule = "thesis",
        oracle: CusumOracle | None = None,
        learner: ScalarLearner | None = None,
        anytime: Anytime | None = None,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(
            horizon, K, alpha, B=B, oracle=oracle, learner=learner, anytime=anytime,
            fallback="first", random_state=random_state,
        )  # fmt: skip

    def _check_state(self) -> None:
        super()._check_state()
        experts = np.flatnonzero(self._active)
        same = np.array_equal(self._experts, experts)
        require(same, self, "_experts", "must be the active experts")
        self._experts = experts
        engine = self._prototype().clone().reset(experts.size, self.grid.E, 0)
        kind = type(self._engine) is type(engine)
        require(kind, self, "_engine", f"must be a {type(engine).__name__}")
        same_kinds(self._engine, engine)
        total = np.asarray(self._sum)
        shape = total.dtype == np.float64 and total.shape == experts.shape
        require(shape, self, "_sum", "must have a number for every active expert")

    def _begin_block(self, t: int) -> None:
        self._experts, self._since = np.flatnonzero(self._active), t
        K = self._experts.size
        self._engine = self._prototype().clone().reset(K, self.grid.E, self._rng)
        self._current, self._sum = -1, np.zeros(K)

    def _see_activity(self, active: BoolArray) -> None:
        before = self._active
        super()._see_activity(active)
        if self._active is not before:
            self._begin_block(0)

    def _choose(self) -> int:
        if (self.rounds - self._since) % self.grid.B == 0:
            self._current = int(self._experts[self._engine.act()])
        return self._current

    def _learn(self, l1: FloatArray, l2: FloatArray, active_next: BoolArray | None) -> None:
        before = self._active
        self._move(l1, l2, active_next)
        self._sum += l1[self._experts]
        if not np.array_equal(self._active, before):
            self._begin_block(self.rounds + 1)
        elif (self.rounds + 1 - self._since) % self.grid.B == 0:
            self._engine.observe(self._sum / self.grid.B)
            self._sum[:] = 0.0

    def _plan(self, l1: FloatArray, l2: FloatArray, activity: OracleRun | None) -> Plan:
        assert activity is not None  # a watched learner always knows who is active
        active = activity.active
        changes = np.flatnonzero((active[1:] != active[:-1]).any(axis=1)) + 1
        edges = [0, *changes.tolist(), len(l1)]
        return _restarted(self, l1, edges, [np.flatnonzero(active[start]) for start in edges[:-1]])

    def guarantees(self, activity: OracleRun | None = None) -> dict[str, float]:
        """Return nothing: the price of the restarts is what the comparison shows."""
        return {}


@checked
class RestartAtReset(DeactivationLearner):
    """Start a fresh ``DeactivationLearner`` at every reset of the watchdog.

    Use it as a baseline for ``ReactivationLearner``.

    Parameters are those of ``DeactivationLearner``; the oracle has reset times.

    Notes
    -----
    Sleeping regret at most the sum of the bounds of ``DeactivationLearner`` over the segments.

    Examples
    --------
    >>> from counterplay.tradeoff import LossStream, play
    >>> from counterplay.tradeoff import CusumOracle
    >>> from counterplay.tradeoff.instances import burst
    >>> game = burst(rounds=8192, alpha=0.4, K=4, N=3)
    >>> watchdog = CusumOracle(game.c, game.threshold, resets=game.meta["resets"])
    >>> stream = LossStream(game.l1, game.l2, replicates=0)
    >>> learner = RestartAtReset(horizon=8192, K=4, alpha=0.4, oracle=watchdog)
    >>> round(float(play(learner, stream, fast=True).sleeping_regret().max()))
    1492

    References
    ----------
    A. Blum, H. Shao, Online learning with primary and secondary losses, NeurIPS 2020.
    """

    _allows_resets: ClassVar[bool] = True

    def guarantees(self, activity: OracleRun | None = None) -> dict[str, float]:
        """Return nothing in advance; see ``bounds.restart_sleeping`` for given segments."""
        return {}

    def _learn(self, l1: FloatArray, l2: FloatArray, active_next: BoolArray | None) -> None:
        super()._learn(l1, l2, active_next)
        if self._watchdog is not None and self._watchdog.is_reset(self.rounds + 1):
            self._begin_block(self.rounds + 1)

    def _plan(self, l1: FloatArray, l2: FloatArray, activity: OracleRun | None) -> Plan:
        assert activity is not None  # a watched learner always knows who is active
        edges, everybody = [*activity.resets, len(l1)], np.arange(self.K)
        blocks = [everybody] * len(activity.resets)
        plan = _restarted(self, l1, edges, blocks, activity.active)
        return self._with_standins(plan, l1, l2, activity)


def _restarted(
    learner: DeactivationLearner,
    l1: FloatArray,
    edges: Sequence[int],
    experts: Sequence[IntArray],
    active: BoolArray | None = None,
) -> Plan:
    """The law of a learner that starts afresh at every edge, among the experts of the block."""
    plans = []
    for start, end, ids in zip(edges, edges[1:], experts):
        block = np.ascontiguousarray(l1[start:end, ids])
        starts = np.arange(0, end - start, learner.grid.B)
        mask = None if active is None else active[start:end]
        plans.append(epoch_plan(learner._prototype(), block, starts, learner.grid, mask))
    return join_plans(plans, experts, learner.K)


def _no_rule(L1: FloatArray, L2: FloatArray) -> FloatArray:
    raise ProtocolError("the rule was not stored; pass it to from_json")


def _check_rule(rule: Rule) -> Rule:
    """Return ``rule`` if it is a function of two arguments."""
    if isinstance(rule, type) or not callable(rule):
        raise InvalidInputError(
            f"rule must be a function of the cumulative losses (L1, L2), got {rule!r}"
        )
    parameters = inspect.signature(rule).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) != 2 or len(positional) != len(list(parameters)):
        names = ", ".join(p.name for p in parameters)
        raise InvalidInputError(
            f"rule must take exactly the cumulative losses (L1, L2), not ({names}); a learner that "
            f"uses time or single losses is not of this class"
        )
    return rule
