"""Stable policies from a finite list, or the proof that there is none.

Source: Definition 7.4, Proposition F.1, "Programs for other games", see
docs/theory/07-principal.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, check_real
from counterplay.errors import InfeasibleError
from counterplay.principal.games import FiniteGame, PrincipalAgentGame
from counterplay.principal.kernels import TOL, expectation, finite_oracle
from counterplay.principal.responses import OracleSpec
from counterplay.principal.rules import PolicyRule


class NoStablePolicy(InfeasibleError):
    """No policy of the list is stable and close enough to optimal.

    Attributes
    ----------
    best_c:
        Loss of the best stable policy; infinity if no policy is stable.
    witness:
        That policy, or None.
    """

    def __init__(self, message: str, *, best_c: float, witness: Any) -> None:
        super().__init__(message)
        self.best_c = best_c
        self.witness = witness


@checked
class FiniteStableOracle(PolicyRule):
    """The best stable policy of a finite list, for any game.

    Use it when the policies you could really offer are few: price plans, disclosure formats. It
    reports the loss c that stability costs under every forecast, and refuses when it is too large.

    Parameters
    ----------
    game:
        Any game; for a :class:`FiniteGame` the list defaults to all its policies and the benchmark
        to its ``p0_idx``.
    eps:
        Optimistic ball of the benchmark.
    beta:
        Utility margin of the Agent.
    gamma:
        Tolerated loss of the Principal.
    c:
        Largest accepted loss; None accepts any, then regret bounds use the measured loss.
    policies:
        The list of policies.
    P0:
        The benchmark set.

    Examples
    --------
    >>> from counterplay.principal.instances import no_stable_policy_instance
    >>> from counterplay.principal.lab import FiniteStableOracle
    >>> game = no_stable_policy_instance()
    >>> FiniteStableOracle(game, eps=0.0, beta=0.1, gamma=0.0, c=0.25).loss([1.0])
    0.25
    >>> FiniteStableOracle(game, eps=0.0, beta=0.1, gamma=0.0, c=0.2)([1.0])
    Traceback (most recent call last):
        ...
    counterplay.principal.finite_oracle.NoStablePolicy: the best stable policy loses 0.25, more...
    """

    def __init__(
        self,
        game: PrincipalAgentGame,
        *,
        eps: float,
        beta: float,
        gamma: float,
        c: float | None = None,
        policies: Any = None,
        P0: Any = None,
    ) -> None:
        if isinstance(game, FiniteGame):
            policies = range(game.n_policies) if policies is None else policies
            P0 = game.p0_idx if P0 is None else P0
        self.policies = game.check_policies(() if policies is None else policies, "policies")
        super().__init__(game, self.policies if P0 is None else P0)
        self.eps = check_real(eps, "eps", low=0.0)
        self.beta = check_real(beta, "beta", low=0.0, open_low=True)
        self.gamma = check_real(gamma, "gamma", low=0.0)
        self.c = None if c is None else check_real(c, "c", low=0.0)
        self.n_policies = len(self.policies)
        self._U, self._V = game.tables(self.policies)
        self._policy_sizes = np.array([game.n_actions(p) for p in self.policies], dtype=np.int64)
        self.max_actions = int(self._policy_sizes.max())
        self.spec = OracleSpec(self.c, self.eps, self.beta, self.gamma, self.n_policies)

    def decide(self, forecast: FloatArray) -> tuple[int, int]:
        """Return the best stable policy and the best response to it; raises if there is none."""
        self._check_length(forecast)
        index, action = finite_oracle(
            self._U, self._V, self._policy_sizes, forecast, self.beta, self.gamma, TOL
        )
        if index < 0:
            raise NoStablePolicy(
                f"no policy is ({self.beta:g}, {self.gamma:g})-stable under this forecast; allow a "
                "larger gamma, a smaller beta, or more policies",
                best_c=float("inf"),
                witness=None,
            )
        if self.c is not None:
            loss = self._loss(forecast, int(index), int(action))
            if loss > self.c + TOL:
                raise NoStablePolicy(
                    f"the best stable policy loses {loss:g}, more than the allowed c = {self.c:g}",
                    best_c=loss,
                    witness=self.policies[int(index)],
                )
        return int(index), int(action)

    def loss(self, forecast: ArrayLike) -> float:
        """Return c: the optimistic benchmark value minus the value of the chosen policy."""
        pi = self._check(forecast)
        return self._loss(pi, *self.decide(pi))

    def _loss(self, forecast: FloatArray, index: int, action: int) -> float:
        _, init, hopeful, _ = self.benchmark_decisions(forecast)
        hoped = expectation(self._V0[init : init + 1], forecast[None])[0, 0, hopeful]
        got = expectation(self._V[index : index + 1], forecast[None])[0, 0, action]
        return float(hoped - got)

    def __repr__(self) -> str:
        return (
            f"FiniteStableOracle(policies={self.n_policies}, eps={self.eps:g}, "
            f"beta={self.beta:g}, gamma={self.gamma:g})"
        )
