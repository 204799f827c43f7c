"""Learners that look at the cumulative losses only, and nothing else.

Exponential weights, Follow the Leader and many others are of this kind, and Thm. thm:subopt shows
that none of them can do better than ``T**((1+alpha)/2)``. Source: spec 09, section 3.11.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.online.chain import independent_chain, pick
from counterplay.core.online.follow_lazy_leader import cumulative_before
from counterplay.core.seeds import RandomState
from counterplay.core.validation import BoolArray, FloatArray, check_probabilities
from counterplay.errors import InvalidInputError, ProtocolError
from counterplay.tradeoff.learner import BicriteriaLearner
from counterplay.tradeoff.oracle import OracleRun
from counterplay.tradeoff.plan import Plan, plain_plan

Rule = Callable[[FloatArray, FloatArray], ArrayLike]
_PROBES = 64  # rounds whose answer is asked for a second time


class CumulativeLossLearner(BicriteriaLearner):
    """Play from a distribution that is a function of both cumulative loss vectors.

    Use it to try any rule of this kind on the instances of ``thm:subopt``. A rule that uses
    anything else, such as the number of the round, is rejected.

    Parameters
    ----------
    rule:
        ``rule(L1, L2)`` returns the probabilities of the experts; ``L1`` and ``L2`` are the vectors
        of cumulative losses so far. It must take exactly these two arguments and give the same
        answer for the same arguments.
    T, K:
        Number of rounds and of experts.
    random_state:
        None, an int or a ``numpy.random.Generator``.

    Examples
    --------
    >>> import numpy as np
    >>> def softmin(L1, L2):
    ...     w = np.exp(-0.05 * (L1 - L1.min()))
    ...     return w / w.sum()
    >>> learner = CumulativeLossLearner(softmin, T=500, K=2)
    >>> l1 = np.tile([[0.0, 1.0]], (500, 1))
    >>> round(learner.run(l1, l1, c=0.5).R1, 2)
    14.11

    References
    ----------
    A. Blum, H. Shao, Online learning with primary and secondary losses, NeurIPS 2020, Thm. 5.
    """

    _state: ClassVar[tuple[str, ...]] = (*BicriteriaLearner._state, "_sums")
    uses_secondary: ClassVar[bool] = True
    _sums: FloatArray  # cumulative losses, shape (2, K)

    def __init__(self, rule: Rule, T: int, K: int, *, random_state: RandomState = None) -> None:
        self._init(T, K, random_state)
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
