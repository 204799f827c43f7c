"""One rule at a time: play it until it errs, then drop it.

The slow but universal learners. They need no features, work for any manipulation and any feedback,
and pay for it: up to n - 1 mistakes, which is unavoidable when nothing is seen.

Source: "Results", Theorem 2.8, "Sequential elimination", "Safe filter, exact solver, baselines",
see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState
from counterplay.core.validation import IntArray, check_choice
from counterplay.errors import InformationError, InvalidInputError
from counterplay.strategic.bounds import sequential_mistakes
from counterplay.strategic.classes import HypothesisClass
from counterplay.strategic.filters import mistake_filter
from counterplay.strategic.learner import Marginals, OnEmpty, VersionSpaceLearner
from counterplay.strategic.predictors import UnionPredictor
from counterplay.strategic.settings import BLIND, REPORT_ONLY, Feedback
from counterplay.strategic.union_sampling import draw_level, draw_ranks, inclusion_probability


@checked
class SequentialElimination(VersionSpaceLearner):
    """Keep publishing the same rule until it errs, then drop it; at most n - 1 mistakes.

    Use it when you are told nothing but whether the decision was right (setting ``"blind"``), or
    when agents move in unknown ways that are no balls.

    Parameters
    ----------
    hypotheses:
        The catalogue of n rules.
    order:
        ``"index"``, ``"random"`` (a secret random order), or a permutation of 0..n-1.
    on_empty:
        What to do when no rule explains the data: ``"raise"`` an error, ``"stop"`` learning, or
        ``"restart"`` with the whole catalogue.
    random_state:
        Seed of the random order.

    Notes
    -----
    Guarantee: at most as many mistakes as the position (from 0) of the perfect rule in the order,
    hence at most n - 1. With a secret random order the expectation is at most (n - 1)/2 on every
    sequence fixed in advance (Proposition 2.B).

    Examples
    --------
    >>> from counterplay.strategic import instances, play
    >>> instance = instances.star_instance(10)
    >>> play(SequentialElimination(instance.hypotheses), instance.adversary(), rounds=50).mistakes
    9

    References
    ----------
    "Results", "Sequential elimination", see docs/theory/02-strategic-finite.md.
    """

    needs = BLIND
    deterministic: ClassVar[bool] = True  # given its order
    conservative: ClassVar[bool] = True
    ball_only = False

    def __init__(
        self,
        hypotheses: HypothesisClass,
        *,
        order: Literal["index", "random"] | Sequence[int] = "index",
        on_empty: OnEmpty = "raise",
        random_state: RandomState = None,
    ) -> None:
        self.order = order
        super().__init__(hypotheses, on_empty=on_empty, random_state=random_state)

    def reset(self) -> None:
        """Forget everything; a random order is drawn anew."""
        super().reset()
        n = self.hypotheses.n
        if isinstance(self.order, str):
            check_choice(self.order, "order", ("index", "random"))
            self._order = self._rng.permutation(n) if self.order == "random" else np.arange(n)
        else:
            self._order = self.hypotheses.check_members(np.asarray(self.order))
            if not np.array_equal(np.sort(self._order), np.arange(n)):
                raise InvalidInputError(f"order must be a permutation of 0..{n - 1}")
        self._position = 0

    @property
    def current(self) -> int:
        """Number of the rule that is being tried."""
        return int(self._order[self._position])

    def mistake_bound(self, rounds: int | None = None) -> float:
        """Return n - 1."""
        return float(sequential_mistakes(self.hypotheses.n))

    def frozen(self) -> UnionPredictor:
        """Return the rule that is being tried."""
        return UnionPredictor(self.hypotheses, [self.current])

    def _choose(self, x: Any) -> UnionPredictor:
        return self.frozen()

    def _learn(self, feedback: Feedback) -> None:
        before = self.restarts
        self.remove(self.alive != self.current, feedback)
        if self.restarts > before:
            self._position = 0
        elif not self.stopped:
            self._position += 1

    def block_positions(self, size: int, count: int) -> IntArray:
        """Return the position of the published rule among the alive ones, in each round."""
        return np.full(count, np.searchsorted(self.alive, self.current))


@checked
class DeltaOnlyElimination(VersionSpaceLearner):
    """Learn from reported features only: drop what would have accepted a gamer.

    Use it in the setting ``"report_only"``: applicants are seen only after they have moved.

    Parameters
    ----------
    hypotheses:
        The catalogue.
    choice:
        ``"next"`` publishes the first rule left, ``"random"`` a fresh random one each round,
        ``"union"`` a union of randomly many, as in :class:`UnionSamplingLearner`.
    manipulation:
        ``"ball"`` for agents with a radius, ``"any"`` for unknown sets (then a false negative
        removes only the published rules).
    on_empty:
        What to do when no rule explains the data: ``"raise"`` an error, ``"stop"`` learning, or
        ``"restart"`` with the whole catalogue.
    random_state:
        Seed of the learner's coins.

    Notes
    -----
    A false positive shows a point the agent can reach and must not be accepted at. A false negative
    did not move, so her features are known after all. The perfect rule is never removed.

    Examples
    --------
    >>> from counterplay.strategic import ApplicantStream, instances, play
    >>> instance = instances.ConservativeInstance(8, eps=0.05, target=3)
    >>> learner = DeltaOnlyElimination(instance.hypotheses, random_state=0)
    >>> stream = ApplicantStream(instance, "report_only", random_state=1)
    >>> _ = play(learner, stream, rounds=3000, fast=True)
    >>> learner.alive
    array([3])

    References
    ----------
    Theorem 2.7, "Safe filter, exact solver, baselines", see docs/theory/02-strategic-finite.md.
    """

    needs = REPORT_ONLY
    ball_only = False

    def __init__(
        self,
        hypotheses: HypothesisClass,
        *,
        choice: Literal["next", "random", "union"] = "random",
        manipulation: Literal["ball", "any"] = "ball",
        on_empty: OnEmpty = "raise",
        random_state: RandomState = None,
    ) -> None:
        self.choice = check_choice(choice, "choice", ("next", "random", "union"))
        self.manipulation = check_choice(manipulation, "manipulation", ("ball", "any"))
        super().__init__(hypotheses, on_empty=on_empty, random_state=random_state)

    def mistake_bound(self, rounds: int | None = None) -> float:
        """Return n - 1: every mistake removes a rule."""
        return float(sequential_mistakes(self.hypotheses.n))

    def marginals(self) -> Marginals:
        """Return the law of the next published rule."""
        m = self.remaining
        members = np.zeros(self.hypotheses.n)
        if self.choice == "next":
            members[self.alive[0]] = 1.0
        else:
            members[self.alive] = 1.0 / m if self.choice == "random" else inclusion_probability(m)
        return Marginals(members)

    def _choose(self, x: Any) -> UnionPredictor:
        if self.choice == "next":
            members = self.alive[:1]
        else:
            count = 1 if self.choice == "random" else draw_level(self.remaining, self._rng)
            members = self._rng.choice(self.alive, size=count)
        return UnionPredictor(self.hypotheses, members)

    def _learn(self, feedback: Feedback) -> None:
        assert isinstance(self._published, UnionPredictor)
        if feedback.report is None:
            raise InformationError("DeltaOnlyElimination needs the reported features")
        reported = np.asarray(feedback.report)[None]
        mine = np.isin(self.alive, self._published.members)
        if feedback.y == 0:
            keep = ~self.hypotheses.accepts(reported, self.alive)[0]
            if keep[mine].all():  # rounding put delta just outside the rule that accepted it
                d = self.hypotheses.reported_distances(reported, self.alive)[0]
                d = np.where(mine, d, np.inf)
                keep[np.argmin(d)] = False
        elif self.manipulation == "ball":
            row = self.hypotheses.reported_distances(reported, self.alive)[0]
            keep = mistake_filter(row, float(row[mine].min()), feedback.y, feedback.yhat)
        else:
            keep = ~mine
        self.remove(keep, feedback)

    def block_positions(self, size: int, count: int) -> IntArray | None:
        """Return the position of the published rule in each round, if it is a single one."""
        if self.choice == "next":
            return np.zeros(count, dtype=np.int64)
        if self.choice == "random":
            return self._rng.integers(size, size=count)
        return None

    def block_ranks(self, size: int, count: int) -> IntArray:
        """Return the rank of the nearest member of the published union in each round."""
        return draw_ranks(size, count, self._rng)
