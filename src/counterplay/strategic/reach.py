"""How far is everybody from being accepted by a fitted model, and where would they go?

Exact for linear models and decision trees (also behind scalers), certified from below and above
for tree ensembles, nearest neighbours, Gaussian kernels and neural nets, and from above for any
other model with ``predict``: copy an accepted person, then undo what is not needed. Every move
found is checked with the model, so its cost is certified, but it need not be the cheapest.

Source: "Setting", "Distances that are exact", "The gaming report", see
docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import BoolArray, FloatArray, IntArray, check_real
from counterplay.errors import InvalidInputError
from counterplay.strategic.box_classes import RuleSetClass
from counterplay.strategic.features import Features, named, read_costs
from counterplay.strategic.linear_class import LinearClass
from counterplay.strategic.metrics import NormMetric
from counterplay.strategic.reach_certificates import certified_lower_bound, lipschitz_lower_bound
from counterplay.strategic.reach_linear import diagonal_steps, find_affine_rule, unwrap
from counterplay.strategic.trees import positive_leaf_boxes
from counterplay.tables import FittedModel, Labels, Table

Accepts = Callable[[FloatArray], BoolArray]
NOBODY = object()


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class Reach:
    """Distances to acceptance by a fitted model, from below and from above.

    Parameters
    ----------
    lower:
        Certified lower bounds; 0 for who is accepted already.
    upper:
        Cost of a move that works; infinite if none was found.
    goals:
        Where that move leads.
    exact:
        Whether both agree for everybody.
    attained:
        Whether the distance itself suffices (closed acceptance region) or must be exceeded by an
        arbitrarily small amount (open region, as for linear models that accept scores above 0).
    method:
        How it was obtained.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> model = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> reach = acceptance_distance(model, [[0.0], [2.0]])
    >>> reach.upper.round(3), reach.exact
    (array([1.5, 0. ]), True)
    """

    lower: FloatArray
    upper: FloatArray
    goals: FloatArray
    exact: bool
    attained: bool
    method: str

    def __repr__(self) -> str:
        how = "exact" if self.exact else "lower and upper bounds"
        return f"Reach({self.upper.size} applicants, {self.method}, {how})"

    def surely(self, radius: FloatArray) -> BoolArray:
        """Return who is certainly accepted when able to spend ``radius``."""
        if self.attained:
            return np.less_equal(self.upper, radius)
        near: BoolArray = np.logical_or(self.upper < radius, self.upper == 0)
        return near

    def possibly(self, radius: FloatArray) -> BoolArray:
        """Return who may be accepted when able to spend ``radius``; the others certainly not."""
        if self.exact:
            return self.surely(radius)
        able: BoolArray = np.logical_or(radius > 0, self.upper == 0)  # without effort nobody moves
        return able & np.less_equal(self.lower, radius)


class BinaryModel:
    """A fitted binary classifier with a wanted class, and the people it decides on as numbers."""

    def __init__(self, model: Any, positive: Any = None, X: Any = NOBODY, y: Any = None) -> None:
        fitted = FittedModel.of(model)
        if not fitted.classes:  # a model that does not say is taken to answer 0 and 1
            fitted = replace(fitted, classes=(0, 1))
        self.model, self.fitted = model, fitted
        self.people = None if X is NOBODY else Features.of(fitted, X, y)
        self.labels: Labels | None = None if self.people is None else self.people.table.labels
        if positive is None:
            positive = getattr(unwrap(model)[1], "positive_", None)  # our own classifiers say it
        self.positive = fitted.positive(positive, self.labels)

    @property
    def wanted(self) -> int:
        """Position of the positive class."""
        return self.fitted.classes.index(self.positive)

    @property
    def sign(self) -> float:
        """1 if larger scores are wanted, else -1."""
        return 1.0 if self.wanted == 1 else -1.0

    @property
    def rows(self) -> FloatArray:
        """The people as numbers, columns in the order the model was fitted with."""
        assert self.people is not None
        return self.people.rows

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, x0, x1, ... where there are none."""
        assert self.people is not None
        return self.people.names or tuple(f"x{j}" for j in range(self.rows.shape[1]))

    @property
    def index(self) -> Any:
        """Identity of the people's rows."""
        assert self.people is not None
        return self.people.table.index

    @property
    def held(self) -> Mapping[str, str]:
        """Columns that are held fixed because they are no numbers, and why."""
        return {} if self.people is None else self.people.held

    @property
    def qualified(self) -> BoolArray:
        """Which people have the wanted label."""
        if self.labels is None:
            raise InvalidInputError("y is needed: the true label of every row of X")
        wanted = [label == self.positive for label in self.labels.classes]
        return np.array(wanted, dtype=np.bool_)[self.labels.codes]

    def metric(self, norm: float, costs: ArrayLike | None) -> NormMetric:
        """Return what a move costs; columns that are no numbers cannot be moved."""
        names = self.fitted.names if self.people is None else self.people.names
        prices = read_costs(costs, names)
        metric = NormMetric(norm, prices)
        if self.people is None:
            return metric
        metric.check_width(self.rows.shape[1])
        movable = self.people.movable
        if movable.all():
            return metric
        return NormMetric(norm, np.where(movable, 1.0 if prices is None else prices, np.inf))

    def accepts(self, rows: FloatArray) -> BoolArray:
        """Return which rows the model accepts."""
        return self.fitted.accepts(Table.of(self.as_input(rows)), self.positive)

    def scores(self, rows: FloatArray) -> FloatArray:
        """Return the decision function, larger where acceptance is nearer."""
        if not hasattr(self.model, "decision_function"):
            raise InvalidInputError(
                f"lipschitz bounds decision_function, which {type(self.model).__name__} has not"
            )
        return self.fitted.scores(Table.of(self.as_input(rows)), self.positive)

    def as_input(self, rows: FloatArray) -> Any:
        """Return rows, in the model's order of columns, in the form it was fitted with."""
        if self.people is None:
            return named(rows, self.fitted.names)
        return self.people.as_input(rows)

    def pool(self, X: Any) -> FloatArray:
        """Return the rows of a pool that the model accepts."""
        other = Features.of(self.fitted, X, what="pool")
        assert self.people is not None
        if other.movable.size != self.rows.shape[1] or (other.movable < self.people.movable).any():
            raise InvalidInputError("pool must have numbers in every column that has them in X")
        return other.rows[self.fitted.accepts(other.table, self.positive)]


@checked(nonfinite=["norm"])
def acceptance_distance(
    model: Any,
    X: Any,
    *,
    positive: Any | None = None,
    norm: float = 2,
    costs: Any = None,
    pool: Any = None,
    lipschitz: float | None = None,
) -> Reach:
    """Return how far each row of ``X`` is from being accepted by a fitted binary classifier.

    Parameters
    ----------
    model:
        Fitted scikit-learn classifier, pipeline or search.
    X:
        ``(m, d)`` features; the columns of a frame are matched by name with those the model was
        fitted on. Columns of words, categories or times, or with missing values, are held fixed.
    positive:
        The class people want; may be left out when the classes are 0 and 1.
    norm:
        How effort adds up over features: 1, 2 or ``numpy.inf``.
    costs:
        Price of each feature (see :class:`NormMetric`); a Series is matched by name.
    pool:
        Points that may be copied by the search for moves; default: ``X`` itself.
    lipschitz:
        For models without a certificate of their own: a bound on the Euclidean slope of
        ``decision_function``.

    Notes
    -----
    Exact for linear models behind affine steps and for decision trees behind scalers. Certified
    lower bounds for random forests, extra trees, gradient boosting, k nearest neighbours, Gaussian
    SVMs and multi-layer perceptrons. For all others the lower bound is 0 and only the upper one,
    from moves that were tried, is informative.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 4))
    >>> forest = RandomForestClassifier(30, random_state=0).fit(X, X[:, 0] + X[:, 1] > 0)
    >>> reach = acceptance_distance(forest, X)
    >>> reach.method, bool((reach.lower <= reach.upper).all())
    ('tree ensemble', True)
    """
    wrapped = BinaryModel(model, positive, X)
    return reach_of(wrapped, wrapped.metric(norm, costs), pool, lipschitz)


def reach_of(
    model: BinaryModel, metric: NormMetric, pool: Any = None, lipschitz: float | None = None
) -> Reach:
    """Return how far the people of a model are from acceptance."""
    slope = None if lipschitz is None else check_real(lipschitz, "lipschitz", low=0.0)
    rows = model.rows
    accepted = model.accepts(rows)
    if not model.held:
        found = _linear(model, rows, metric, accepted) or _tree(model, rows, metric, accepted)
        if found is not None:
            return found
    others = rows[accepted] if pool is None else model.pool(pool)
    return _searched(model, rows, metric, accepted, others, slope)


def _positive_if_rejected(distances: FloatArray, accepted: BoolArray) -> FloatArray:
    """Return 0 exactly for who is accepted: who stands on the border is not accepted unmoved."""
    return np.where(accepted, 0.0, np.maximum(distances, np.nextafter(0.0, 1.0)))


def _linear(
    model: BinaryModel, rows: FloatArray, metric: NormMetric, accepted: BoolArray
) -> Reach | None:
    rule = find_affine_rule(model.model)
    if rule is None or rule[0].size != rows.shape[1]:
        return None
    w, b = rule if model.wanted == 1 else (-rule[0], -rule[1])
    scores = rows @ w + b
    clear = np.abs(scores) > 1e-9 * (1.0 + np.abs(rows) @ np.abs(w) + abs(b))
    if ((scores > 0) != accepted)[clear].any():
        return None  # coef_ does not tell how the model decides
    catalogue = LinearClass(w[None], [-b], norm=metric.norm, costs=metric.costs)
    d = _positive_if_rejected(catalogue.distances(rows)[:, 0], accepted)
    goals = rows.copy()
    move = ~accepted & np.isfinite(d)
    if move.any():
        away = catalogue.nearest(rows[move], np.zeros(int(move.sum()), dtype=np.int64)) - rows[move]
        # A hair beyond the boundary, because scores must be positive.
        goals[move] += away * (1 + 1e-9) + 1e-12 * np.sign(away)
    return Reach(d, d, goals, True, model.wanted == 0, "linear model")


def _tree(
    model: BinaryModel, rows: FloatArray, metric: NormMetric, accepted: BoolArray
) -> Reach | None:
    steps, final = unwrap(model.model)
    scaling = diagonal_steps(steps, rows.shape[1])
    single = type(final).__name__ in ("DecisionTreeClassifier", "ExtraTreeClassifier")
    if not single or scaling is None:
        return None
    a, c = scaling
    lower, upper = positive_leaf_boxes(final, model.positive)
    boxes = RuleSetClass([((lower - c) / a, (upper - c) / a)], metric.norm, metric.costs)
    d = _positive_if_rejected(boxes.distances(rows)[:, 0], accepted)
    goals = rows.copy()
    move = ~accepted & np.isfinite(d)
    if move.any():
        goals[move] = boxes.nearest(rows[move], np.zeros(int(move.sum()), dtype=np.int64))
        inside = goals[move] + 1e-6 * (goals[move] - rows[move])  # a hair beyond the border
        works = model.accepts(inside)
        goals[np.flatnonzero(move)[works]] = inside[works]
    return Reach(d, d, goals, True, True, "decision tree")


def _searched(
    model: BinaryModel,
    rows: FloatArray,
    metric: NormMetric,
    accepted: BoolArray,
    pool: FloatArray,
    lipschitz: float | None,
) -> Reach:
    lower, upper = np.zeros(rows.shape[0]), np.zeros(rows.shape[0])
    goals = rows.copy()
    method = "search only"
    rejected = np.flatnonzero(~accepted)
    if rejected.size:
        part = rows[rejected]
        upper[rejected], goals[rejected] = _search_moves(model.accepts, part, pool, metric)
        if lipschitz is not None:
            gap = np.maximum(-model.scores(part), 0.0)
            lower[rejected] = lipschitz_lower_bound(gap, lipschitz, metric, np.ones(rows.shape[1]))
            method = "Lipschitz constant"
        elif not model.held:  # certificates read columns of numbers
            certified = certified_lower_bound(model.model, part, metric, model.wanted)
            if certified is not None:
                lower[rejected], method = certified
                lower[rejected] *= 1 - 1e-9  # room for rounding in scalers and scores
        lower[rejected] = np.minimum(lower[rejected], upper[rejected])
    return Reach(lower, upper, goals, False, True, method)


def _search_moves(
    accepts: Accepts,
    rows: FloatArray,
    accepted: FloatArray,
    metric: NormMetric,
    neighbours: int = 5,
    steps: int = 25,
) -> tuple[FloatArray, FloatArray]:
    """Return the cost of a move to acceptance, and where it leads, for each rejected row.

    Starts from the ``neighbours`` nearest points of ``accepted``, walks back towards the row
    as far as possible, and resets single features. Infinite where nothing was found.
    """
    best = np.full(rows.shape[0], np.inf)
    goals = rows.copy()
    if accepted.shape[0] == 0 or rows.shape[0] == 0:
        return best, goals
    movable = np.ones(rows.shape[1], dtype=np.bool_)
    if metric.costs is not None:
        movable = np.isfinite(metric.costs)
    which, end = _candidates(rows, accepted, metric, movable, neighbours)
    works = accepts(end)
    which, end = which[works], end[works]
    if which.size == 0:
        return best, goals
    start = rows[which]
    end = _walk_back(accepts, start, end, steps)
    end = _reset_features(accepts, start, end)
    end = _walk_back(accepts, start, end, steps)
    cost = metric.length(end - start)
    order = np.lexsort((cost, which))  # by row, the cheapest move of each first
    first = order[np.unique(which[order], return_index=True)[1]]
    best[which[first]], goals[which[first]] = cost[first], end[first]
    return best, goals


def _candidates(
    rows: FloatArray, accepted: FloatArray, metric: NormMetric, movable: BoolArray, count: int
) -> tuple[IntArray, FloatArray]:
    """Return row numbers and the rows with the movable features of accepted points copied."""
    k = min(count, accepted.shape[0])
    nearest = np.empty((rows.shape[0], k), dtype=np.int64)
    free = NormMetric(metric.norm, None if metric.costs is None else metric.costs[movable])
    block = max(1, 2_000_000 // accepted.shape[0])
    for start in range(0, rows.shape[0], block):
        part = rows[start : start + block][:, movable]
        d = free.pairwise(part, accepted[:, movable])
        nearest[start : start + block] = np.argpartition(d, k - 1, axis=1)[:, :k]
    which = np.repeat(np.arange(rows.shape[0]), k)
    return which, np.where(movable, accepted[nearest.reshape(-1)], rows[which])


def _walk_back(accepts: Accepts, start: FloatArray, end: FloatArray, steps: int) -> FloatArray:
    """Bisect on the segment; the returned points are accepted."""
    low, high = np.zeros(start.shape[0]), np.ones(start.shape[0])
    for _ in range(steps):
        middle = (low + high) / 2
        works = accepts(start + middle[:, None] * (end - start))
        high = np.where(works, middle, high)
        low = np.where(works, low, middle)
    return np.where((high < 1)[:, None], start + high[:, None] * (end - start), end)


def _reset_features(accepts: Accepts, start: FloatArray, end: FloatArray) -> FloatArray:
    """Undo the change of every feature that is not needed, cheapest changes first."""
    end = end.copy()
    order = np.argsort(np.abs(end - start).mean(axis=0))
    for j in order:
        trial = end.copy()
        trial[:, j] = start[:, j]
        works = accepts(trial)
        end[works] = trial[works]
    return end
