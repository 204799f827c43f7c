"""Rules made of axis-parallel boxes: thresholds, boxes, rule lists and decision trees.

The distance to a box is the price of clipping to it; the distance to a union of boxes is the
smallest one. A decision tree accepts the union of its positive leaves, a rule list the union of its
accepting rules minus the rejecting rules before them, so both are exact.

Source: "Distances that are exact", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numba
import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import FloatArray, IntArray, array_fault, check_choice, check_int
from counterplay.errors import InvalidInputError
from counterplay.strategic.classes import HypothesisClass, Members, check_features
from counterplay.strategic.features import accepted_class, column_order, common_names, read_costs
from counterplay.strategic.metrics import NormMetric, Points
from counterplay.strategic.trees import add_price, positive_leaf_boxes

Box: TypeAlias = "tuple[FloatArray, FloatArray]"
Conditions: TypeAlias = "Mapping[int, tuple[float | None, float | None]]"


@checked
class RuleSetClass(HypothesisClass):
    """A catalogue of rules, each accepting a union of closed boxes.

    Use :meth:`from_trees` for fitted decision trees and :meth:`from_rule_lists` for ordered lists
    of if-then rules.

    Parameters
    ----------
    rules:
        One pair ``(lower, upper)`` per rule, both ``(k, d)`` arrays: the rule accepts ``x`` if
        ``lower[j] <= x <= upper[j]`` for some j. A rule without boxes accepts nobody.
    norm:
        How effort adds up over features: 1, 2 or ``numpy.inf``.
    costs:
        Price of each feature (see :class:`NormMetric`).

    Examples
    --------
    One rule accepts the unit square or anything above 3 in the first feature.

    >>> import numpy as np
    >>> rule = (np.array([[0, 0], [3, -np.inf]]), np.array([[1, 1], [np.inf, np.inf]]))
    >>> catalogue = RuleSetClass([rule])
    >>> catalogue.distances([[2.5, 0.5], [-3.0, 5.0]])
    array([[0.5],
           [5. ]])
    """

    def __init__(
        self,
        rules: Sequence[tuple[ArrayLike, ArrayLike]],
        norm: float = 2,
        costs: ArrayLike | None = None,
    ) -> None:
        if len(rules) == 0:
            raise InvalidInputError("rules must contain at least one rule")
        boxes = [_check_boxes(lower, upper, i) for i, (lower, upper) in enumerate(rules)]
        widths = {lower.shape[1] for lower, _ in boxes}
        if len(widths) > 1:
            raise InvalidInputError(f"rules have different numbers of features: {sorted(widths)}")
        self.lower = np.concatenate([lower for lower, _ in boxes])
        self.upper = np.concatenate([upper for _, upper in boxes])
        self.start = np.cumsum([0, *(lower.shape[0] for lower, _ in boxes)]).astype(np.int64)
        self.n = len(boxes)
        self.metric: NormMetric = NormMetric(norm, costs)
        self.metric.check_width(self.lower.shape[1])
        for array in (self.lower, self.upper, self.start):
            array.setflags(write=False)

    @classmethod
    def from_trees(
        cls,
        trees: Sequence[Any],
        norm: float = 2,
        costs: ArrayLike | None = None,
        *,
        positive: Any = None,
    ) -> RuleSetClass:
        """Build the catalogue from fitted binary ``DecisionTreeClassifier`` objects.

        Trees fitted on frames are matched by the names of their columns. ``positive`` is the class
        that counts as accepted; it may be left out when the classes are 0 and 1.
        """
        wanted = accepted_class(trees, positive)
        names = common_names(trees)
        rules = []
        for tree in trees:
            lower, upper = positive_leaf_boxes(tree, wanted)
            order = column_order(tree, names)
            rules.append((lower[:, order], upper[:, order]))
        catalogue = cls(rules, norm=norm, costs=read_costs(costs, names))
        catalogue.names = names
        return catalogue

    @classmethod
    def from_rule_lists(
        cls,
        rule_lists: Sequence[Sequence[tuple[Conditions, bool]]],
        n_features: int,
        norm: float = 2,
        costs: ArrayLike | None = None,
    ) -> RuleSetClass:
        """Build the catalogue from ordered rules ``({column: (low, high)}, accept)``.

        The first rule whose closed conditions hold decides; None leaves a side open. Who matches no
        rule is rejected; end the list with ``({}, True)`` to accept the rest.

        Examples
        --------
        >>> reject_debt = ({1: (2.0, None)}, False)
        >>> accept_income = ({0: (3.0, None)}, True)
        >>> lists = RuleSetClass.from_rule_lists([[reject_debt, accept_income]], n_features=2)
        >>> lists.distances([[3.0, 4.0]]).round(6)  # debt must go below 2
        array([[2.]])
        """
        rules = [boxes_of_rule_list(rules, n_features) for rules in rule_lists]
        return cls(rules, norm=norm, costs=costs)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n={self.n}, features={self.lower.shape[1]}, "
            f"boxes={self.lower.shape[0]}, {self.metric!r})"
        )

    def check_points(self, points: Points) -> Points:
        """Return rows of finite features."""
        return check_features(points, self.lower.shape[1], self.names)

    def distances(self, points: Points, members: Members = None) -> FloatArray:
        """Return the cost of moving into the nearest box of each rule."""
        return self._search(points, members)[0]

    def nearest(self, points: Points, members: ArrayLike) -> Points:
        """Return each point clipped to the nearest box of its member."""
        rows, chosen = self.check_points(points), self.check_members(members)
        box = self._search(rows, None)[1][np.arange(rows.shape[0]), chosen]
        clipped = np.clip(rows, self.lower[box], self.upper[box])
        return np.where((box >= 0)[:, None], clipped, np.nan)

    def _search(self, points: Points, members: Members) -> tuple[FloatArray, IntArray]:
        rows = self.check_points(points)
        chosen = np.arange(self.n) if members is None else self.check_members(members)
        metric = self.metric
        costs = np.ones(rows.shape[1]) if metric.costs is None else metric.costs
        return _box_distances(rows, self.lower, self.upper, self.start, chosen, costs, metric.norm)


@checked
class BoxClass(RuleSetClass):
    """A catalogue of closed boxes, one per rule.

    Parameters
    ----------
    lower:
        ``(n, d)`` lower ends, ``-inf`` where a side is open.
    upper:
        ``(n, d)`` upper ends, ``inf`` where a side is open.
    norm:
        How effort adds up over features: 1, 2 or ``numpy.inf``.
    costs:
        Price of each feature (see :class:`NormMetric`).

    Examples
    --------
    >>> catalogue = BoxClass(lower=[[0.0, 0.0]], upper=[[1.0, 2.0]], norm=1)
    >>> catalogue.distances([[2.0, 3.0]])
    array([[2.]])
    """

    def __init__(
        self,
        lower: ArrayLike,
        upper: ArrayLike,
        norm: float = 2,
        costs: ArrayLike | None = None,
    ) -> None:
        low, high = _check_boxes(lower, upper, 0)
        super().__init__(
            [(low[i : i + 1], high[i : i + 1]) for i in range(low.shape[0])], norm, costs
        )


@checked
class ThresholdClass(BoxClass):
    """A catalogue of thresholds: "accept if feature >= t" (or <= t).

    Parameters
    ----------
    thresholds:
        One number per rule.
    column:
        The feature each rule looks at: one number for all, or one per rule.
    direction:
        ``"up"`` accepts ``x >= t``, ``"down"`` accepts ``x <= t``; one for all, or one per rule.
    n_features:
        Number of features of the points; default: just enough.
    costs:
        Price of one unit of each feature, see :class:`NormMetric`.

    Examples
    --------
    >>> ThresholdClass([1.0, 2.0, 3.0]).distances([[1.5]])
    array([[0. , 0.5, 1.5]])
    """

    def __init__(
        self,
        thresholds: ArrayLike,
        column: int | Sequence[int] = 0,
        direction: Literal["up", "down"] | Sequence[str] = "up",
        n_features: int | None = None,
        costs: ArrayLike | None = None,
    ) -> None:
        if fault := array_fault(thresholds, kinds="biuf"):
            raise InvalidInputError(f"thresholds must be numbers: {fault}")
        t = np.atleast_1d(np.asarray(thresholds, dtype=np.float64))
        if t.ndim != 1 or t.size == 0 or np.isnan(t).any():
            raise InvalidInputError("thresholds must be a list of at least one number, no NaN")
        columns = np.broadcast_to(np.asarray(column, dtype=np.int64), t.shape)
        ways = np.broadcast_to(np.asarray(direction, dtype=object), t.shape)
        for way in ways:
            check_choice(way, "direction", ("up", "down"))
        width = (
            int(columns.max()) + 1 if n_features is None else check_int(n_features, "n_features")
        )
        if (columns < 0).any() or (columns >= width).any():
            raise InvalidInputError(f"column must be between 0 and {width - 1}")
        lower, upper = np.full((t.size, width), -np.inf), np.full((t.size, width), np.inf)
        rows = np.arange(t.size)
        up = ways == "up"
        lower[rows[up], columns[up]] = t[up]
        upper[rows[~up], columns[~up]] = t[~up]
        super().__init__(lower, upper, 2, costs)


def boxes_of_rule_list(rules: Sequence[tuple[Conditions, bool]], n_features: int) -> Box:
    """Return closed boxes whose union is what an ordered list of rules accepts.

    Examples
    --------
    >>> low, high = boxes_of_rule_list([({0: (None, 1.0)}, False), ({}, True)], 1)
    >>> bool(low[0, 0] > 1.0), high.tolist()
    (True, [[inf]])
    """
    rejected: list[Box] = []
    accepted: list[Box] = []
    for conditions, accept in rules:
        box = _box_of(conditions, n_features)
        if not accept:
            rejected.append(box)
            continue
        pieces = [box]
        for hole in rejected:
            pieces = [rest for piece in pieces for rest in _subtract(piece, hole)]
        accepted.extend(pieces)
    if not accepted:
        return np.empty((0, n_features)), np.empty((0, n_features))
    return np.array([low for low, _ in accepted]), np.array([high for _, high in accepted])


def _box_of(conditions: Conditions, n_features: int) -> Box:
    lower, upper = np.full(n_features, -np.inf), np.full(n_features, np.inf)
    for column, (low, high) in conditions.items():
        if not 0 <= column < n_features:
            raise InvalidInputError(f"column {column} does not exist; there are {n_features}")
        lower[column] = -np.inf if low is None else low
        upper[column] = np.inf if high is None else high
    return lower, upper


def _subtract(box: Box, hole: Box) -> list[Box]:
    """Return closed boxes that cover ``box`` without the closed ``hole``."""
    (low, high), (hole_low, hole_high) = box, hole
    if (hole_low > high).any() or (hole_high < low).any():
        return [box]
    pieces = []
    low, high = low.copy(), high.copy()
    for j in range(low.size):
        if low[j] < hole_low[j]:
            top = high.copy()
            top[j] = np.nextafter(hole_low[j], -np.inf)
            pieces.append((low.copy(), top))
            low[j] = hole_low[j]
        if high[j] > hole_high[j]:
            bottom = low.copy()
            bottom[j] = np.nextafter(hole_high[j], np.inf)
            pieces.append((bottom, high.copy()))
            high[j] = hole_high[j]
    return pieces


def _check_boxes(lower: ArrayLike, upper: ArrayLike, rule: int) -> Box:
    for side, values in (("lower", lower), ("upper", upper)):
        if fault := array_fault(values, kinds="biuf"):
            raise InvalidInputError(f"{side} of rule {rule} must be numbers: {fault}")
    low, high = (np.array(a, dtype=np.float64, ndmin=2) for a in (lower, upper))
    if low.shape != high.shape or low.ndim != 2:
        raise InvalidInputError(
            f"lower and upper of rule {rule} must have the same shape, got {low.shape} and "
            f"{high.shape}"
        )
    if np.isnan(low).any() or np.isnan(high).any():
        raise InvalidInputError(f"the boxes of rule {rule} must not contain NaN")
    if (low > high).any():
        i, j = (int(v) for v in np.argwhere(low > high)[0])
        raise InvalidInputError(
            f"box {i} of rule {rule} is empty: lower {low[i, j]:g} is above upper {high[i, j]:g} "
            f"in feature {j}"
        )
    return low, high


@numba.njit(cache=True)
def _box_distances(
    rows: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    start: IntArray,
    members: IntArray,
    costs: FloatArray,
    norm: float,
) -> tuple[FloatArray, IntArray]:
    """Return the distance to the nearest box of each member and the number of that box."""
    m, d = rows.shape
    best = np.full((m, members.size), np.inf)
    which = np.full((m, members.size), -1, dtype=np.int64)
    for i in range(m):
        for k in range(members.size):
            h = members[k]
            limit = np.inf  # of the nearest box so far; squared for the Euclidean norm
            for box in range(start[h], start[h + 1]):
                total = 0.0
                for j in range(d):
                    x = rows[i, j]
                    # Clipping to the box moves feature j by its excess, if there is one.
                    excess = max(lower[box, j] - x, x - upper[box, j])
                    if excess > 0.0:
                        total = add_price(total, excess * costs[j], norm)
                        # Outside stays outside, also where the square of a tiny excess vanishes.
                        total = max(total, 5e-324)
                        if total >= limit:  # another box is nearer already
                            break
                if total < limit:
                    limit = total
                    which[i, k] = box
            best[i, k] = np.sqrt(limit) if norm == 2.0 else limit
    return best, which
