"""Multiplicative weights on mistake rounds: publish a fresh random rule every round.

When features are seen only after the decision, a deterministic learner can be hit in every round.
Drawing a fresh rule uniformly from those still possible makes every mistake remove a random number
of them, at least one and on average half of the wrong ones.

Source: Algorithm A.1, Theorem 2.4, Proposition 2.D, see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numba
import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_int,
    check_positive_int,
    check_size,
)
from counterplay.strategic.bounds import mwmr_mistakes
from counterplay.strategic.learner import Marginals, VersionSpaceLearner
from counterplay.strategic.predictors import UnionPredictor
from counterplay.strategic.settings import FEATURES_AFTER


@checked
class MWMR(VersionSpaceLearner):
    """Publish a fresh random rule of the version space each round.

    Use it when features become known only after the decision (setting ``"features_after"``) and
    agents may come in any order.

    Parameters
    ----------
    hypotheses:
        The catalogue of n rules.
    filter:
        ``"mistake"`` removes rules after mistakes only, as in the theorems; ``"safe"`` uses all the
        information of every round.
    radius_range:
        What is known about all radii, for the safe filter.
    on_empty:
        What to do when no rule explains the data: ``"raise"`` an error, ``"stop"`` learning, or
        ``"restart"`` with the whole catalogue.
    random_state:
        Seed of the draws.

    Notes
    -----
    Guarantee: on realizable sequences the expected number of mistakes in T rounds is at most
    min(sqrt(4 T ln n), n - 1) (Theorem 2.4); the sharper sqrt(2 T ln n) also holds, and
    :func:`mwmr_worst_mistakes` gives the exact worst case. The rule must be drawn afresh every
    round: a rule that is kept until it errs can be hit each time (Algorithm A.1).

    Examples
    --------
    The adversary who fixes the perfect rule last forces n - 1 mistakes, but needs many rounds.

    >>> from counterplay.strategic import instances, play
    >>> instance = instances.online_lb_instance(16)
    >>> game = play(MWMR(instance.hypotheses, random_state=0), instance.adversary(), rounds=2000)
    >>> game.mistakes, int(game.mistake_rounds[-1]) > 60
    (15, True)

    References
    ----------
    Algorithm A.1, Theorem 2.4, Proposition 2.D, see docs/theory/02-strategic-finite.md.
    """

    needs = FEATURES_AFTER
    bound_in_expectation: ClassVar[bool] = True

    def mistake_bound(self, rounds: int | None = None) -> float:
        """Return n - 1, or min(sqrt(4 T ln n), n - 1) in expectation when T is given."""
        if not rounds:
            return float(self.hypotheses.n - 1)
        return mwmr_mistakes(self.hypotheses.n, rounds)

    def marginals(self) -> Marginals:
        """Return the law of the next rule: uniform on those left."""
        members = np.zeros(self.hypotheses.n)
        members[self.alive] = 1.0 / self.remaining
        return Marginals(members)

    def _choose(self, x: Any) -> UnionPredictor:
        member = self.alive[self._rng.integers(self.remaining)]
        return UnionPredictor(self.hypotheses, [member])

    def block_ranks(self, size: int, count: int) -> IntArray:
        """Return the rank of the published rule in each round: uniform."""
        return self._rng.integers(size, size=count)


@checked
def mwmr_worst_mistakes(n: int, rounds: int) -> FloatArray:
    """Return the exact worst case of MWMR: expected mistakes in 0, 1, .., ``rounds`` rounds.

    The worst case is over all ball instances and all adversaries who know the learner's law but not
    its coins. With m rules left such an adversary chooses how many of them, k, are wrong; a mistake
    then removes a uniform number of 1..k.

    Parameters
    ----------
    n:
        Number of rules.
    rounds:
        Number of rounds.

    Examples
    --------
    >>> mwmr_worst_mistakes(64, 64)[-1].round(2)  # the theorem allows 32.63
    np.float64(16.96)
    """
    values, _ = worst_case_table(n, rounds)
    return np.ascontiguousarray(values[:, check_positive_int(n, "n")])


def worst_case_table(n: int, rounds: int) -> tuple[FloatArray, IntArray]:
    """Return ``V[t, m]``, worst expected mistakes with t rounds and m rules left, and the best k.

    Examples
    --------
    >>> V, k = worst_case_table(16, 16)
    >>> V[16, 16].round(2), int(k[1, 16])  # in the last round, make all but one wrong
    (np.float64(6.3), 15)
    """
    check_positive_int(n, "n")
    check_int(rounds, "rounds", low=0)
    check_size((n + 1) * (rounds + 1), 5_000_000, "states of the game")
    values, choices = _worst_case(int(n), int(rounds))
    return values, choices


@numba.njit(cache=True)
def _worst_case(n: int, rounds: int) -> tuple[FloatArray, IntArray]:
    """Dynamic programme of Proposition 2.D with prefix sums over m."""
    V = np.zeros((rounds + 1, n + 1))  # no mistakes without rounds, nor with a single rule left
    best = np.zeros((rounds + 1, n + 1), dtype=np.int64)
    prefix = np.zeros(n + 2)
    for t in range(1, rounds + 1):
        # prefix[m] = V(t-1, 0) + .. + V(t-1, m-1)
        for m in range(1, n + 1):
            prefix[m + 1] = prefix[m] + V[t - 1, m]
        for m in range(2, n + 1):
            top = V[t - 1, m]  # k = 0: nobody is wrong, a round is wasted
            for k in range(1, m):
                # A wrong rule is drawn with probability k/m; it leaves m-1, .., m-k rules, each
                # equally likely: (k + V(t-1, m-1) + .. + V(t-1, m-k)) / m. Otherwise nothing goes.
                below = prefix[m] - prefix[m - k]
                value = (k + below) / m + (1.0 - k / m) * V[t - 1, m]
                if value > top:
                    top = value
                    best[t, m] = k
            V[t, m] = top
    return V, best
