"""Agnostic online learning on a known graph: Hedge over all ways to flip a realizable learner.

An expert is a set of at most M rounds in which the realizable learner's decision is flipped. There
are about T^M of them, but experts whose learner is in the same state and that have used equally
many flips behave alike, so masses are kept per state and unseen rounds only multiply them.

Source: Proposition B.1, Algorithm B.3, see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import BoolArray, check_int, check_positive_int
from counterplay.errors import InvalidInputError, NotRealizableError, ProtocolError
from counterplay.strategic.bounds import log_sauer
from counterplay.strategic.graphs.finite_learners import OnlineLearner
from counterplay.strategic.graphs.red2online import Red2OnlineFI
from counterplay.strategic.learner import StrategicLearner
from counterplay.strategic.settings import FEATURES_FIRST_GRAPH, Feedback


@checked
class AgnosticCoverHedge(StrategicLearner):
    """Sublinear regret against the best rule of a class of finite Littlestone dimension.

    Use it with everything known (FI) when no rule is right about everybody.

    Parameters
    ----------
    learner:
        A copyable online learner; it is wrapped in ``Red2OnlineFI``.
    M:
        Flips an expert may make: a mistake bound of the wrapped learner on realizable data.
    horizon:
        Number of rounds T. None: unknown; epochs of 1, 2, 4, ... rounds, each started afresh.
    random_state:
        Seed of the draws.

    Notes
    -----
    Expected regret at most ``sqrt(T/2 ln N)`` with N = sum of C(T, L) over L <= M; see
    ``bounds.cover_hedge_regret``, and ``cover_hedge_doubling_regret`` when the horizon is
    unknown. Other information modes are open problems.

    Examples
    --------
    >>> from counterplay.core.finite_class import FiniteClass
    >>> from counterplay.strategic.lab import SOA
    >>> from counterplay.strategic import GraphApplicants, ManipulationGraph, play
    >>> graph = ManipulationGraph.from_lists([[1], []])
    >>> rules = FiniteClass.from_matrix([[0, 0], [0, 1]])
    >>> learner = AgnosticCoverHedge(SOA(rules), M=3, horizon=60, random_state=0)
    >>> play(learner, GraphApplicants(graph, [0] * 60, [1] * 60)).mistakes < 20
    True

    References
    ----------
    S. Ben-David, D. Pal, S. Shalev-Shwartz, Agnostic online learning, COLT 2009.
    """

    on_graph = True
    needs = FEATURES_FIRST_GRAPH
    open_problem = (
        "agnostic learning with hidden features or unknown graphs is an open problem, there is no "
        "algorithm to run"
    )

    def __init__(
        self,
        learner: OnlineLearner,
        M: int,
        horizon: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.learner = learner
        self.M = check_int(M, "M", low=0)
        self.doubling = horizon is None
        self._rng = generator(random_state)
        self._numbers: dict[Hashable, int] = {}  # of the states met so far
        self._decisions: dict[tuple[int, bytes], bool] = {}
        self._flips: dict[tuple[int, bytes], tuple[Red2OnlineFI | None, int]] = {}
        self.probability = 0.0
        self._bag: Any = None
        self._start(1 if horizon is None else check_positive_int(horizon, "horizon"))

    def _start(self, horizon: int) -> None:
        """Forget everything and play the next ``horizon`` rounds."""
        self.T, self.round = horizon, 0
        self.eta = math.sqrt(8 * _log_choices(self.T, self.M) / self.T)
        start = Red2OnlineFI(self.learner, exact=True)
        start.experts.most_mistakes = math.inf  # counts are no part of a state's key
        self._states: dict[tuple[int, int], tuple[Red2OnlineFI | None, int, float]] = {
            (self._number(start), 0): (start, 0, 0.0)
        }

    def _number(self, learner: Red2OnlineFI | None) -> int:
        return self._numbers.setdefault(_key(learner), len(self._numbers))

    @property
    def n_states(self) -> int:
        """How many merged states are kept."""
        return len(self._states)

    def act(self, seen: Any = None) -> BoolArray:
        """Accept exactly this agent with the experts' probability."""
        if seen.neighbourhood is None or seen.x is None:
            raise ProtocolError("AgnosticCoverHedge must see the agent's neighbourhood first")
        if self.round >= self.T and self.doubling:
            self._start(2 * self.T)
        if self.round >= self.T:
            raise InvalidInputError(
                f"the horizon of {self.T} rounds is over; use a larger one, or none"
            )
        self._bag = seen.neighbourhood
        self.probability = self._probability(seen.neighbourhood)
        rule = np.zeros(seen.n, dtype=np.bool_)
        rule[seen.x] = bool(self._rng.random() < self.probability)
        return rule

    def observe(self, feedback: Feedback) -> None:
        """Charge every expert its loss and move to the next round."""
        branches: dict[tuple[int, int], tuple[Red2OnlineFI | None, int, float]] = {}
        for (name, _), (learner, used, mass) in self._states.items():
            says = self._says(name, learner, self._bag)
            for flip in (False, True):
                if flip and used >= self.M:
                    continue
                said = says != flip
                loss = self.eta * float(said != bool(feedback.y))
                state, new = self._flip(name, learner, said) if flip else (learner, name)
                count = used + int(flip)
                key = (new, count)
                old = branches.get(key)
                value = mass - loss if old is None else float(np.logaddexp(old[2], mass - loss))
                branches[key] = (state, count, value)
        top = max(mass for _, _, mass in branches.values())
        self._states = {k: (a, c, mass - top) for k, (a, c, mass) in branches.items()}
        self.round += 1

    def _probability(self, bag: Any) -> float:
        left = self.T - self.round - 1
        yes, everything = [], []
        for (name, _), (learner, used, mass) in self._states.items():
            says = self._says(name, learner, bag)
            keep = mass + _log_choices(left, self.M - used)
            everything.append(keep)
            if says:
                yes.append(keep)
            if used < self.M:
                flip = mass + _log_choices(left, self.M - used - 1)
                everything.append(flip)
                if not says:
                    yes.append(flip)
        if not yes:
            return 0.0
        return float(np.exp(np.logaddexp.reduce(yes) - np.logaddexp.reduce(everything)))

    def _says(self, name: int, learner: Red2OnlineFI | None, bag: Any) -> bool:
        """The state's own decision; states are few, so each is asked once per bag."""
        where = (name, np.asarray(bag).tobytes())
        if where not in self._decisions:
            self._decisions[where] = learner is not None and learner.decide(bag)
        return self._decisions[where]

    def _flip(
        self, name: int, learner: Red2OnlineFI | None, said: bool
    ) -> tuple[Red2OnlineFI | None, int]:
        where = (name, np.asarray(self._bag).tobytes())
        if where not in self._flips:
            state = _flipped(learner, self._bag, int(said))
            self._flips[where] = state, self._number(state)
        return self._flips[where]


def _flipped(learner: Red2OnlineFI | None, bag: Any, label: int) -> Red2OnlineFI | None:
    """The realizable learner after it was told that its decision was wrong; None: it is dead."""
    if learner is None:
        return None
    twin = learner.copy()
    try:
        twin.update(bag, label)
    except NotRealizableError:
        return None
    return twin


def _key(learner: Red2OnlineFI | None) -> Hashable:
    if learner is None:
        return None
    total = learner.experts.total
    shares = [(repr(a.key()), Fraction(w) / Fraction(total)) for a, w in learner.experts.entries]
    return tuple(sorted(shares))


@lru_cache(maxsize=65536)
def _log_choices(n: int, most: int) -> float:
    """ln of the number of subsets of at most ``most`` of ``n`` rounds."""
    return -math.inf if most < 0 else log_sauer(min(most, n), n)
