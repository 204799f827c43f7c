"""Blum-Mansour: play so that no action, wherever you used it, should have been another one.

One exponential-weights row per action; row i is fed the gains scaled by the probability of playing
i, and the learner plays the stationary distribution of the matrix of rows. Its swap regret is then
the sum of the rows' external regrets.
Source: Blum and Mansour (2007); Proposition 7.I, see docs/theory/07-principal.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.play import Learner
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_float_array,
    check_positive_int,
    check_real,
    check_size,
)
from counterplay.errors import InvalidInputError

# Smallest entry of a row: keeps the chain irreducible and every product of 20 entries above zero.
_FLOOR = 1e-14


@checked
class BlumMansour(Learner):
    """Learner without swap regret over a finite set of actions, with full information.

    Use it whenever a player should be rational action by action: "on the rounds where I played
    *work*, *shirk* would not have been better". That is stronger than having no external regret.

    Parameters
    ----------
    n_actions:
        Number of actions.
    width:
        Largest minus smallest possible gain of a round; 2 for gains in [-1, 1].
    random_state:
        None, an int or a numpy Generator; used by :meth:`act` only.

    Notes
    -----
    For gains chosen by any adversary, the swap regret of the probabilities played in T rounds is
    at most ``width * sqrt(n T ln n)``, see ``bounds.blum_mansour_bound``.

    Examples
    --------
    >>> import numpy as np
    >>> learner = BlumMansour(2, width=1.0)
    >>> for t in range(200):
    ...     learner.observe([0.0, 1.0])         # the second action is always better
    >>> round(float(learner.probs()[1]), 3)
    1.0

    References
    ----------
    A. Blum, Y. Mansour, "From external to internal regret", JMLR 8 (2007).
    """

    def __init__(
        self, n_actions: int, *, width: float = 2.0, random_state: RandomState = None
    ) -> None:
        self.n_actions = check_positive_int(n_actions, "n_actions")
        check_size(self.n_actions, 10_000, "actions")
        self.width = check_real(width, "width", low=0.0, open_low=True)
        self.rounds = 0
        self._rng = generator(random_state)
        self._choice = -1
        self._gains = np.zeros((self.n_actions, self.n_actions))
        self._mixed = np.full(self.n_actions, 1 / self.n_actions)

    def probs(self) -> FloatArray:
        """Return the probabilities of the coming round."""
        return self._mixed.copy()

    def act(self, seen: Any = None) -> int:
        """Return the action of this round; asking twice gives the same answer."""
        if self._choice < 0:
            self._choice = int(sample(self._mixed, self.n_actions, self._rng.random()))
        return self._choice

    def observe(self, feedback: ArrayLike) -> None:
        """Learn the gains of all actions in the round that was just played."""
        gain = check_float_array(feedback, "gains", ndim=1)
        if gain.size != self.n_actions:
            raise InvalidInputError(
                f"gains must have one entry per action ({self.n_actions}), got {gain.size}"
            )
        self._gains += np.outer(self._mixed, gain)
        self.rounds += 1
        self._choice = -1
        self._mixed = mixed_action(self._gains, self.n_actions, self.rounds, self.width)

    def __repr__(self) -> str:
        return f"BlumMansour(n_actions={self.n_actions}, width={self.width:g})"


@njit(cache=True)
def stationary(rows: FloatArray) -> FloatArray:
    """Return the stationary distribution of a stochastic matrix with positive entries.

    Grassmann-Taksar-Heyman elimination: no subtraction, so it is exact to rounding even when the
    matrix is nearly reducible.
    """
    n = rows.shape[0]
    a = rows.copy()
    # Take the states out of the chain from the last one down; what passed through k goes directly.
    for k in range(n - 1, 0, -1):
        leaving = 0.0  # chance to go from k to a state that is still there
        for j in range(k):
            leaving += a[k, j]
        for i in range(k):
            a[i, k] /= leaving
        for i in range(k):
            for j in range(k):
                a[i, j] += a[i, k] * a[k, j]
    # Put them back: the weight of k is what flows in from the states before it.
    q = np.empty(n)
    q[0] = 1.0
    total = 1.0
    for k in range(1, n):
        q[k] = 0.0
        for i in range(k):
            q[k] += q[i] * a[i, k]
        total += q[k]
    for k in range(n):
        q[k] /= total
    return q


@njit(cache=True)
def mixed_action(gains: FloatArray, n: int, rounds: int, width: float) -> FloatArray:
    """Return the mixed action after ``rounds`` rounds with the cumulative row ``gains``."""
    if n == 1:
        return np.ones(1)
    rate = 2.0 * math.sqrt(n * math.log(n) / (rounds + 1.0)) / width
    rows = np.empty((n, n))
    for i in range(n):
        # Row i: exponential weights on the gains of the rounds, weighted by playing i. The largest
        # exponent is made 0, so that nothing overflows.
        top = gains[i, 0]
        for j in range(1, n):
            top = max(top, gains[i, j])
        total = 0.0
        for j in range(n):
            rows[i, j] = math.exp(rate * (gains[i, j] - top)) + _FLOOR
            total += rows[i, j]
        for j in range(n):
            rows[i, j] /= total
    return stationary(rows)


@njit(cache=True)
def sample(probabilities: FloatArray, n: int, uniform: float) -> int:
    """Return the action at quantile ``uniform`` of the first ``n`` probabilities."""
    level = 0.0
    for a in range(n - 1):
        level += probabilities[a]
        if uniform < level:
            return a
    return n - 1


@njit(cache=True)
def contextual_probabilities(
    contexts: IntArray, n_actions: IntArray, gains: FloatArray, width: float
) -> FloatArray:
    """Mixed actions of one Blum-Mansour copy per context, for a whole sequence.

    ``contexts[t]`` is the context of round t (codes 0, 1, ...), ``n_actions[k]`` the number of
    actions in context k, ``gains[t, a]`` the gain of action a in round t. With full information
    the mixed actions do not depend on the actions drawn, so one pass serves every replicate.
    """
    rounds, n_max = gains.shape
    n_contexts = n_actions.shape[0]
    total = np.zeros((n_contexts, n_max, n_max))
    visits = np.zeros(n_contexts, dtype=np.int64)
    mixed = np.zeros((rounds, n_max))
    for t in range(rounds):
        k = contexts[t]
        n = n_actions[k]
        q = mixed_action(total[k], n, visits[k], width)
        for i in range(n):
            mixed[t, i] = q[i]
            # Row i of this context is charged with the share of the round in which i was played.
            for j in range(n):
                total[k, i, j] += q[i] * gains[t, j]
        visits[k] += 1
    return mixed
