"""Reductions that turn any mistake-bounded online learner into a strategic one.

With everything known, one copy of the learner is fed one point of the bag per mistake; when the
original feature is hidden, nodes are accepted as soon as a small share of the copies accepts them.

Copies are made on mistakes, dropped when they contradict every hypothesis or have erred more often
than their mistake bound allows, and merged when they will behave alike from now on. Weights are
exact fractions on request; in floating point they are kept normalised.

Source: Algorithm B.1, Algorithm 3.1, Theorem B.3, Theorem 3.4, see
docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from typing import Any, Self, TypeAlias

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import BoolArray, check_int
from counterplay.errors import NotRealizableError, ProtocolError
from counterplay.strategic.graphs.finite_learners import OnlineLearner
from counterplay.strategic.learner import StrategicLearner
from counterplay.strategic.settings import (
    FEATURES_AFTER_GRAPH,
    FEATURES_FIRST_GRAPH,
    REPORT_ONLY_GRAPH,
    Feedback,
)

TOLERANCE = 1e-12  # relative, towards positive
Copy: TypeAlias = tuple[OnlineLearner, Any, int]
"""A learner, its weight, and how many mistakes it has made (or has just made)."""


class _Reduction(StrategicLearner):
    """Common part of the reductions: weighted copies of a learner that change on mistakes."""

    on_graph = True

    def __init__(
        self,
        learner: OnlineLearner,
        *,
        aggressive: bool = False,
        exact: bool = False,
        merge: bool = True,
        prune: bool = True,
        max_experts: int | None = None,
    ) -> None:
        self.learner = learner
        self.aggressive = aggressive
        self.experts = Experts(
            learner, exact=exact, merge=merge, prune=prune, max_experts=max_experts
        )
        self.round = 0

    def copy(self) -> Self:
        """An independent copy in the same state."""
        twin = copy.copy(self)
        twin.experts = self.experts.copy()
        return twin

    @property
    def guarantee_lost(self) -> bool:
        """Whether experts were dropped to stay below ``max_experts``."""
        return bool(self.experts.dropped > 0)


@checked
class Red2OnlineFI(_Reduction):
    """Strategic learner for known graphs from any copyable online learner.

    Use it when feature and neighbourhood are seen before the decision.

    Parameters
    ----------
    learner:
        A copyable learner such as ``SOA``, ``Halving`` or ``PerceptronLearner``.
    aggressive:
        On a false positive feed every positive point of the bag, not only the first.
    exact:
        Keep weights as fractions.
    merge:
        Merge equal experts; changes no prediction.
    prune:
        Drop experts that are refuted or have erred more than their mistake bound; keeps the
        guarantee.
    max_experts:
        Keep at most so many; gives the guarantee up.

    Notes
    -----
    With a learner of mistake bound M and out-degree k: at most ``M ln(2(k+1)) / ln(4/3)`` mistakes
    on realizable data (Theorem B.3).

    Examples
    --------
    >>> from counterplay.strategic.lab import SOA
    >>> from counterplay.strategic import instances, play
    >>> instance = instances.binary_code_instance(4, 1)
    >>> play(Red2OnlineFI(SOA(instance.hypotheses)), instance.adversary()).mistakes
    2
    """

    needs = FEATURES_FIRST_GRAPH
    _bag: Any = None

    def decide(self, bag: Any) -> bool:
        """Accept the agent with this closed neighbourhood?"""
        mass = self.experts.mass(lambda learner: bool(positives(learner, bag).any()))
        return self.experts.at_least(mass, Fraction(1, 2))

    def act(self, seen: Any = None) -> BoolArray:
        """Accept exactly the agent's own node, or nothing: nobody moves."""
        if seen.neighbourhood is None or seen.x is None:
            raise ProtocolError("Red2OnlineFI must see the agent's neighbourhood first")
        self.round += 1
        self._bag = seen.neighbourhood
        rule = np.zeros(seen.n, dtype=np.bool_)
        rule[seen.x] = self.decide(seen.neighbourhood)
        return rule

    def observe(self, feedback: Feedback) -> None:
        """Update on a mistake."""
        if feedback.yhat != feedback.y:
            self.update(self._bag, feedback.y)

    def update(self, bag: Any, y: int) -> None:
        """Learn that the agent with this bag has label ``y`` (call it after a mistake only)."""
        if y == 0:
            self.experts.replace(lambda a, w: self._wrong_yes(a, w, bag), self.round)
        else:
            self.experts.replace(lambda a, w: split_on(a, w, bag), self.round)

    def _wrong_yes(self, learner: OnlineLearner, weight: Any, bag: Any) -> Iterable[Copy] | None:
        if not positives(learner, bag).any():
            return None
        return [feed_zeros(learner, weight / 2, bag, all_of_them=self.aggressive)]


@checked
class Red2OnlinePMF(_Reduction):
    """Strategic learner when only the manipulated feature is seen, and only afterwards.

    Parameters
    ----------
    learner:
        A copyable online learner.
    k:
        Upper bound on the out-degree.
    aggressive:
        Needs the original feature afterwards (PMF_X): on a false positive feed every accepted point
        of its neighbourhood, not only the reported one.
    exact:
        As in ``Red2OnlineFI``.
    merge:
        As in ``Red2OnlineFI``.
    prune:
        As in ``Red2OnlineFI``.
    max_experts:
        As in ``Red2OnlineFI``.

    Notes
    -----
    At most ``M ln(2(k+1)) / -ln(1 - 1/(4(k+1)))`` mistakes on realizable data; the source prints
    ``4k`` where its proof gives ``4(k+1)`` (Theorem 3.4).

    Examples
    --------
    >>> from counterplay.strategic.lab import SOA
    >>> from counterplay.strategic import instances, play
    >>> instance = instances.star_singletons(4, 1)
    >>> play(Red2OnlinePMF(SOA(instance.hypotheses), k=4), instance.adversary()).mistakes
    4
    """

    needs = REPORT_ONLY_GRAPH
    _rule: BoolArray | None = None

    def __init__(
        self,
        learner: OnlineLearner,
        k: int,
        *,
        aggressive: bool = False,
        exact: bool = False,
        merge: bool = True,
        prune: bool = True,
        max_experts: int | None = None,
    ) -> None:
        super().__init__(
            learner,
            aggressive=aggressive,
            exact=exact,
            merge=merge,
            prune=prune,
            max_experts=max_experts,
        )
        self.k = check_int(k, "k", low=0)
        if aggressive:
            self.needs = FEATURES_AFTER_GRAPH

    def accepts(self, points: Any) -> BoolArray:
        """The rule on the given points; defined for every point, computed only where asked."""
        share = Fraction(1, 2 * (self.k + 1))
        entries = self.experts.entries
        table = np.stack([positives(learner, points) for learner, _ in entries])
        if self.experts.exact:
            masses = [
                sum((w for (_, w), yes in zip(entries, column) if yes), start=Fraction(0))
                for column in table.T
            ]
            return np.array([self.experts.at_least(mass, share) for mass in masses])
        weights = np.array([float(weight) for _, weight in entries])
        limit = float(share) * weights.sum() * (1 - TOLERANCE)
        result: BoolArray = weights @ table >= limit
        return result

    def act(self, seen: Any = None) -> BoolArray:
        """Accept every node to which enough weight says yes."""
        self.round += 1
        if self._rule is None or self._rule.size != seen.n:  # the rule changes on mistakes only
            self._rule = self.accepts(np.arange(seen.n))
        return self._rule.copy()

    def observe(self, feedback: Feedback) -> None:
        """Update on a mistake."""
        if feedback.yhat == feedback.y or feedback.report is None:
            return
        if feedback.y == 0:
            bag = feedback.neighbourhood if self.aggressive else None
            self.update_false_positive(feedback.report, bag)
        else:
            assert feedback.neighbourhood is not None
            self.update_false_negative(feedback.neighbourhood)

    def update_false_positive(self, v: Any, bag: Any = None) -> None:
        """An agent with label 0 and (if known) this closed neighbourhood was accepted at ``v``."""

        def change(learner: OnlineLearner, weight: Any) -> Iterable[Copy] | None:
            if not positives(learner, np.asarray([v]))[0]:
                return None
            if self.aggressive and bag is not None:
                return [feed_zeros(learner, weight / 2, bag, all_of_them=True)]
            return [(learner.updated(v, 0), weight / 2, 1)]

        self._rule = None
        self.experts.replace(change, self.round)

    def update_false_negative(self, bag: Any) -> None:
        """An agent with label 1 and this closed neighbourhood was rejected."""
        self._rule = None
        self.experts.replace(lambda a, w: split_on(a, w, bag), self.round)


class Experts:
    """A weighted set of learners with distinct keys.

    Parameters
    ----------
    learner:
        The first expert.
    exact:
        Keep weights as fractions.
    merge:
        Merge equal experts; changes no prediction.
    prune:
        Drop those that contradict every hypothesis or have made more mistakes than
        ``learner.mistake_bound``, whose votes then do not count. Keeps the guarantee: weights only
        fall, and the expert that follows the truth is never dropped.
    max_experts:
        Keep only the heaviest ones; gives up the guarantee and records the dropped weight.
    """

    def __init__(
        self,
        learner: OnlineLearner,
        *,
        exact: bool = False,
        merge: bool = True,
        prune: bool = True,
        max_experts: int | None = None,
    ) -> None:
        self.exact, self.merge, self.prune, self.max_experts = exact, merge, prune, max_experts
        one: Any = Fraction(1) if exact else 1.0
        self.entries: list[tuple[OnlineLearner, Any]] = [(learner, one)]
        self.mistakes: list[int] = [0]
        self.most_mistakes = float(learner.mistake_bound)
        self.dropped: Any = one * 0
        self._log_scale = 0.0  # of the factor that floating-point weights were divided by

    def copy(self) -> Experts:
        """An independent copy; learners never change, so they are shared."""
        twin = copy.copy(self)
        twin.entries, twin.mistakes = list(self.entries), list(self.mistakes)
        return twin

    def __repr__(self) -> str:
        return f"Experts({len(self)} learners)"

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def total(self) -> Any:
        """Sum of all weights."""
        return sum(weight for _, weight in self.entries)

    @property
    def log_total(self) -> float:
        """Natural logarithm of the total weight of the proof, which starts at 1 and only falls."""
        total = Fraction(self.total)
        return self._log_scale + math.log(total.numerator) - math.log(total.denominator)

    def mass(self, accepts: Callable[[OnlineLearner], bool]) -> Any:
        """Weight of the experts for which ``accepts`` holds."""
        return sum((weight for learner, weight in self.entries if accepts(learner)), start=0)

    def at_least(self, mass: Any, share: Fraction) -> bool:
        """Whether ``mass`` is at least ``share`` of the total; ties count as yes."""
        if self.exact:
            return bool(mass >= share * self.total)
        return bool(mass >= float(share) * float(self.total) * (1 - TOLERANCE))

    def replace(
        self, change: Callable[[OnlineLearner, Any], Iterable[Copy] | None], round: int
    ) -> None:
        """Replace every expert by what ``change`` returns; None keeps it."""
        fresh: list[Copy] = []
        for (learner, weight), made in zip(self.entries, self.mistakes):
            result = change(learner, weight)
            if result is None:
                fresh.append((learner, weight, made))
            else:
                fresh.extend((a, w, made + more) for a, w, more in result)
        if self.prune:
            fresh = [copy for copy in fresh if self._may_be_right(copy)]
        if self.merge:
            fresh = _merged(fresh)
        if not any(self._may_be_right(copy) for copy in fresh):
            raise NotRealizableError(
                f"round {round}: no hypothesis agrees with what was seen; the data are not "
                "realizable by the class on this graph",
                round=round,
            )
        if self.max_experts is not None and len(fresh) > self.max_experts:
            fresh.sort(key=lambda copy: copy[1], reverse=True)
            self.dropped += sum(weight for _, weight, _ in fresh[self.max_experts :])
            fresh = fresh[: self.max_experts]
        scale = 1 if self.exact else sum(weight for _, weight, _ in fresh)
        self._log_scale += math.log(scale)
        self.entries = [(learner, weight / scale) for learner, weight, _ in fresh]
        self.mistakes = [made for _, _, made in fresh]

    def _may_be_right(self, copy: Copy) -> bool:
        return copy[2] <= self.most_mistakes and not copy[0].is_dead()


def _merged(copies: list[Copy]) -> list[Copy]:
    """Add the weights of equal learners; the fewest mistakes that lead to a state count."""
    found: dict[Hashable, Copy] = {}
    for learner, weight, made in copies:
        key = learner.key()
        if key in found:
            twin, other, fewest = found[key]
            learner, weight, made = twin, other + weight, min(made, fewest)
        found[key] = learner, weight, made
    return list(found.values())


def positives(learner: OnlineLearner, bag: Any) -> Any:
    """Which points of a bag the learner accepts."""
    return np.asarray(learner.predict(bag), dtype=np.bool_)


def split_on(learner: OnlineLearner, weight: Any, bag: Any) -> Iterable[Copy] | None:
    """Replace a learner that rejects the whole bag by one copy per point, fed that point as 1."""
    if positives(learner, bag).any():
        return None
    share = weight / (2 * len(bag))
    return [(learner.updated(z, 1), share, 1) for z in bag]


def feed_zeros(learner: OnlineLearner, weight: Any, bag: Any, *, all_of_them: bool) -> Copy:
    """Feed a learner that accepts some point of the bag its first one as 0, or one by one all."""
    fed = 0
    while True:
        accepted = np.flatnonzero(positives(learner, bag))
        if accepted.size == 0 or learner.is_dead():
            return learner, weight, fed
        learner, fed = learner.updated(bag[int(accepted[0])], 0), fed + 1
        if not all_of_them:
            return learner, weight, fed
