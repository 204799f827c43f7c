"""What a learner publishes: a rule, a union of rules, an arbitrary set, or a map from x to a rule.

All are immutable and answer the same questions: how far is a point from being accepted, is it
accepted as it stands, and where does an agent go who wants a yes.

Source: "Distances that are exact", "Setting", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import BoolArray, FloatArray, IntArray, check_choice
from counterplay.errors import InvalidInputError
from counterplay.strategic.agents import Agents
from counterplay.strategic.classes import HypothesisClass
from counterplay.strategic.metrics import Metric, Points

Tie = Literal["first", "random"]
TIES: tuple[Tie, ...] = ("first", "random")


class Predictor(ABC):
    """A published rule; subclasses say how far each point is from acceptance."""

    @abstractmethod
    def distance(self, points: Points) -> FloatArray:
        """Return the distance of each point to the nearest accepted one."""

    @abstractmethod
    def nearest(self, points: Points) -> Points:
        """Return, for each point, a nearest accepted point."""

    def predict(self, points: Points) -> NDArray[np.int8]:
        """Return the decision, 0 or 1, on points as they are reported."""
        return np.asarray(self.distance(points) == 0, dtype=np.int8)

    def accepted(self, agents: Agents) -> BoolArray:
        """Return which agents are accepted after their move."""
        if (hypotheses := getattr(self, "hypotheses", None)) is not None:
            agents.match(hypotheses)
        if agents.radius is None:
            return np.asarray(agents.sets @ self.accepted_points().astype(np.int64)) > 0
        within: BoolArray = self.distance(agents.X) <= agents.reach
        return within

    @checked
    def loss(self, agents: Agents) -> float:
        """Return the share of agents on whom the decision after the move is wrong."""
        return float(np.mean(self.accepted(agents) != (agents.y > 0)))

    def accepted_points(self) -> BoolArray:
        """Return which points of a finite space are accepted."""
        raise InvalidInputError(
            f"{type(self).__name__} is not defined over a finite list of points, which "
            "manipulation sets need"
        )

    def respond(
        self, agents: Agents, *, tie: Tie = "first", random_state: RandomState = None
    ) -> tuple[Points, BoolArray]:
        """Return what the agents report and whether they are accepted.

        Ball agents go to a nearest accepted point; agents with manipulation sets to the lowest or a
        uniformly random accepted point of their set. Whoever is accepted where she stands, or
        nowhere in reach, stays.
        """
        check_choice(tie, "tie", TIES)
        accepted = self.accepted(agents)
        moves = accepted & (self.predict(agents.X) == 0)
        where = np.flatnonzero(moves)
        if agents.radius is not None:
            return self._ball_moves(agents, where), accepted
        reported = np.array(agents.X)
        rng = generator(random_state) if tie == "random" else None
        positive = self.accepted_points()
        for i in where:
            options = agents.sets.indices[agents.sets.indptr[i] : agents.sets.indptr[i + 1]]
            options = options[positive[options]]
            reported[i] = options[0] if rng is None else rng.choice(options)
        return reported, accepted

    def shown(self, points: Points) -> Points:
        """Return the points as they look when they are reported without a move."""
        return points

    def _ball_moves(self, agents: Agents, where: IntArray) -> Points:
        stay = self.shown(agents.X)
        if where.size == 0:
            return stay
        goals = self.nearest(agents.X[where])
        reported = np.array(stay, dtype=np.result_type(stay, goals))
        reported[where] = goals
        return reported


@checked
class UnionPredictor(Predictor):
    """Accept what at least one of some rules of the catalogue accepts.

    With one member it is that rule. The distance to the union is the smallest of the distances.

    Parameters
    ----------
    hypotheses:
        The catalogue.
    members:
        Numbers of the rules, at least one; repetitions are allowed and change nothing.

    Examples
    --------
    >>> from counterplay.strategic.lab import ThresholdClass
    >>> union = UnionPredictor(ThresholdClass([1.0, 2.0, 3.0]), [2, 1])
    >>> union.distance([[0.5]])
    array([1.5])
    """

    def __init__(self, hypotheses: HypothesisClass, members: ArrayLike) -> None:
        self.hypotheses = hypotheses
        self.members = hypotheses.check_members(members)
        if self.members.size == 0:
            raise InvalidInputError("members must name at least one rule; use AllNegative for none")

    def __repr__(self) -> str:
        return f"UnionPredictor(members={self.members.tolist()})"

    def distance(self, points: Points) -> FloatArray:
        """Return the distance to the nearest member."""
        d: FloatArray = self.hypotheses.distances(points, self.members).min(axis=1)
        return d

    def nearest(self, points: Points) -> Points:
        """Return a nearest point accepted by a nearest member."""
        best = np.argmin(self.hypotheses.distances(points, self.members), axis=1)
        return self.hypotheses.nearest(points, self.members[best])

    def shown(self, points: Points) -> Points:
        """Return the points as they look when they are reported without a move."""
        return self.hypotheses.shown(points)

    def predict(self, points: Points) -> NDArray[np.int8]:
        """Return the decision on points as they stand."""
        accepted = self.hypotheses.predict(points, self.members)
        return np.asarray(accepted.any(axis=1), dtype=np.int8)

    def accepted_points(self) -> BoolArray:
        """Return the points of a finite space that some member accepts."""
        return np.asarray(self.hypotheses.positive_sets()[self.members].any(axis=0))


@checked
class AllNegative(Predictor):
    """Accept nobody, whatever they do.

    Parameters
    ----------
    size:
        Number of points of the space, needed only for agents with manipulation sets.

    Examples
    --------
    >>> AllNegative().distance([[0.0], [1.0]])
    array([inf, inf])
    """

    def __init__(self, size: int | None = None) -> None:
        self.size = size

    def __repr__(self) -> str:
        return "AllNegative()"

    def distance(self, points: Points) -> FloatArray:
        """Return infinity."""
        return np.full(len(points), np.inf)

    def nearest(self, points: Points) -> Points:
        """Return the points themselves: there is nowhere to go."""
        return np.asarray(points)

    def accepted_points(self) -> BoolArray:
        """Return no point."""
        if self.size is None:
            raise InvalidInputError("pass size=, the number of points, to AllNegative")
        return np.zeros(self.size, dtype=np.bool_)


@checked
class PositiveSet(Predictor):
    """Accept exactly the given points: an arbitrary rule over a finite set of points.

    Parameters
    ----------
    metric:
        What a move costs, for example ``hypotheses.metric``.
    points:
        The accepted points, at least one.
    size:
        Number of points of the space, needed only for agents with manipulation sets.

    Examples
    --------
    >>> from counterplay.strategic.lab import TableMetric
    >>> line = TableMetric([[0, 1, 2], [1, 0, 1], [2, 1, 0]])
    >>> PositiveSet(line, [0, 2]).distance([0, 1])
    array([0., 1.])
    """

    def __init__(self, metric: Metric, points: Points, size: int | None = None) -> None:
        self.metric = metric
        self.points = np.asarray(points)
        self.size = size
        if self.points.shape[0] == 0:
            raise InvalidInputError("points must not be empty; use AllNegative for no points")

    def __repr__(self) -> str:
        return f"PositiveSet({self.points.shape[0]} points, {self.metric!r})"

    def distance(self, points: Points) -> FloatArray:
        """Return the distance to the nearest accepted point."""
        d: FloatArray = self.metric.pairwise(np.asarray(points), self.points).min(axis=1)
        return d

    def nearest(self, points: Points) -> Points:
        """Return the nearest accepted point, the first in the list among equals."""
        best = np.argmin(self.metric.pairwise(np.asarray(points), self.points), axis=1)
        return np.asarray(self.points[best])

    def accepted_points(self) -> BoolArray:
        """Return the mask of the accepted points."""
        if self.size is None:
            raise InvalidInputError("pass size=, the number of points, to PositiveSet")
        mask = np.zeros(self.size, dtype=np.bool_)
        mask[self.points] = True
        return mask


@checked
class MedianMapPredictor(Predictor):
    """Show each agent the rule that is the median of a version space for her.

    The rule depends on the agent's features ``x``, so it can be deployed only where ``x`` is known
    before the rule is shown to her. This map, not the rule of any single round, is what survives in
    :class:`LongestSurvivor` with :class:`StrategicHalving`: on some populations the map never errs
    although every single rule but one does (Theorem 2.2).

    Parameters
    ----------
    hypotheses:
        The catalogue.
    members:
        Numbers of the rules in the version space.
    median:
        ``"lower"`` or ``"upper"`` median.

    Examples
    --------
    >>> from counterplay.strategic.lab import ThresholdClass
    >>> MedianMapPredictor(ThresholdClass([1.0, 2.0, 5.0]), [0, 1, 2]).distance([[0.0]])
    array([2.])

    References
    ----------
    Theorem 2.2, Lemma A.2, see docs/theory/02-strategic-finite.md.
    """

    def __init__(
        self,
        hypotheses: HypothesisClass,
        members: ArrayLike,
        median: Literal["lower", "upper"] = "lower",
    ) -> None:
        self.hypotheses = hypotheses
        self.members = hypotheses.check_members(members)
        self.median = check_choice(median, "median", ("lower", "upper"))
        if self.members.size == 0:
            raise InvalidInputError("members must name at least one rule")

    def __repr__(self) -> str:
        return f"MedianMapPredictor({self.members.size} members, median={self.median!r})"

    def members_for(self, points: Points) -> IntArray:
        """Return the number of the rule shown to an agent at each point."""
        rows = self.hypotheses.distances(points, self.members)
        return self.members[median_positions(rows, self.median)]

    def distance(self, points: Points) -> FloatArray:
        """Return the median distance."""
        rows = self.hypotheses.distances(points, self.members)
        d: FloatArray = np.partition(rows, median_rank(self.members.size, self.median), axis=1)[
            :, median_rank(self.members.size, self.median)
        ]
        return d

    def shown(self, points: Points) -> Points:
        """Return the points as they look when they are reported without a move."""
        return self.hypotheses.shown(points)

    def nearest(self, points: Points) -> Points:
        """Return a nearest point accepted by the rule shown to each agent."""
        return self.hypotheses.nearest(points, self.members_for(points))


def median_rank(size: int, median: str) -> int:
    """Return the position of the lower or upper median among ``size`` sorted values."""
    return (size - 1) // 2 if median == "lower" else size // 2


def median_positions(rows: FloatArray, median: str) -> IntArray:
    """Return, per row, the position of a median entry: an entry, never an average of two."""
    k = median_rank(rows.shape[1], median)
    found: IntArray = np.argpartition(rows, k, axis=1)[:, k]
    return found
