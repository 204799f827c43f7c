"""Any fitted classifiers as a catalogue: agents imitate people they have seen.

No formula gives the distance to the acceptance region of an arbitrary model, but people do not
solve optimisation problems either: they copy somebody who was accepted. The manipulation model is
"move to an accepted point of a known pool, or stay".

Source: "Distances that are exact", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.class_builders import from_estimators
from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.strategic.classes import HypothesisClass, Members, check_features, check_indices
from counterplay.strategic.features import ByName, accepted_class, common_names, numbers, read_costs
from counterplay.strategic.metrics import NormMetric, Points
from counterplay.tables import Table

_TREE_METRICS = {1: "manhattan", 2: "euclidean", np.inf: "chebyshev"}


@checked
class EstimatorClass(HypothesisClass):
    """A catalogue of fitted classifiers; agents move to accepted points of a pool.

    Use it for forests, boosting, nets or anything else with ``predict``. It is a model of
    manipulation **within the pool**: an agent is accepted where she stands, or she copies a pool
    point that the classifier accepts. With a larger pool the distances can only shrink.

    Parameters
    ----------
    estimators:
        Fitted binary classifiers.
    pool:
        ``(N, d)`` points that agents can move to, for example past applicants; the columns of a
        frame are matched by name with those the classifiers were fitted on.
    positive:
        The class that counts as accepted; may be left out when the classes are 0 and 1.
    norm:
        How effort adds up over features: 1, 2 or ``numpy.inf``.
    costs:
        Price of each feature (see :class:`NormMetric`).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> pool = np.arange(6.0)[:, None]
    >>> trees = [DecisionTreeClassifier().fit(pool, pool[:, 0] >= t) for t in (2, 4)]
    >>> EstimatorClass(trees, pool).distances([[0.5], [3.0]])
    array([[1.5, 3.5],
           [0. , 1. ]])

    References
    ----------
    "Distances that are exact", see docs/theory/02-strategic-finite.md.
    """

    def __init__(
        self,
        estimators: Sequence[Any],
        pool: Any,
        positive: Any | None = None,
        norm: float = 2,
        costs: Any = None,
    ) -> None:
        self.estimators = tuple(estimators)
        if not self.estimators:
            raise InvalidInputError("estimators must contain at least one fitted classifier")
        self.positive = accepted_class(self.estimators, positive)
        table = Table.of(pool, columns=common_names(self.estimators), what="pool")
        self.names = common_names(self.estimators) or table.names
        self.pool = numbers(table).copy()
        self.n = len(self.estimators)
        self.metric: NormMetric = NormMetric(norm, read_costs(costs, self.names))
        self._models = [ByName(estimator, self.names) for estimator in self.estimators]
        accepted = from_estimators(self._models, self.pool, positive)
        self._members = [np.flatnonzero(row) for row in accepted]
        self._trees = [self._tree(index) for index in self._members]
        self.pool.setflags(write=False)

    def __repr__(self) -> str:
        return f"EstimatorClass(n={self.n}, pool={self.pool.shape[0]}, {self.metric!r})"

    def check_points(self, points: Points) -> Points:
        """Return rows of finite features."""
        return check_features(points, self.pool.shape[1], self.names)

    def predict(self, points: Points, members: Members = None) -> BoolArray:
        """Return the decisions of the classifiers on the points as they stand."""
        chosen = range(self.n) if members is None else self.check_members(members)
        rows = self.check_points(points)
        return from_estimators([self._models[i] for i in chosen], rows, self.positive).T

    def distances(self, points: Points, members: Members = None) -> FloatArray:
        """Return 0 where accepted, else the distance to the nearest accepted pool point."""
        rows = self.check_points(points)
        chosen = np.arange(self.n) if members is None else self.check_members(members)
        out = np.column_stack([self._query(rows, int(i))[0] for i in chosen])
        out[self.predict(rows, chosen)] = 0.0
        return out

    def nearest(self, points: Points, members: ArrayLike) -> Points:
        """Return the nearest accepted pool point, or the point itself where it is accepted."""
        rows, chosen = self.check_points(points).copy(), self.check_members(members)
        for i in np.unique(chosen):
            here = np.flatnonzero(chosen == i)
            here = here[~self.predict(rows[here], [i])[:, 0]]
            if here.size and self._members[i].size:
                rows[here] = self.pool[self._query(rows[here], int(i))[1]]
        return rows

    def _scaled(self, rows: FloatArray) -> FloatArray:
        return rows if self.metric.costs is None else rows * self.metric.costs

    def _tree(self, index: IntArray) -> Any:
        from sklearn.neighbors import BallTree

        frozen = self.metric.costs is not None and np.isinf(self.metric.costs).any()
        if index.size == 0 or frozen:
            return None
        return BallTree(self._scaled(self.pool[index]), metric=_TREE_METRICS[self.metric.norm])

    def _query(self, rows: FloatArray, i: int) -> tuple[FloatArray, IntArray]:
        """Return distance and pool number of the nearest accepted pool point of classifier i."""
        index, tree = self._members[i], self._trees[i]
        if index.size == 0 or rows.shape[0] == 0:
            return np.full(rows.shape[0], np.inf), np.zeros(rows.shape[0], dtype=np.int64)
        if tree is not None:
            d, which = tree.query(self._scaled(rows), k=1)
            return d[:, 0], index[which[:, 0]]
        table = self.metric.pairwise(rows, self.pool[index])
        best = np.argmin(table, axis=1)
        return table[np.arange(rows.shape[0]), best], index[best]


@checked
class TabulatedClass(HypothesisClass):
    """A catalogue evaluated once on a fixed list of points; points are then row numbers.

    Use it when the same applicants are played many times: the distances are computed once.

    Parameters
    ----------
    hypotheses:
        Any catalogue.
    points:
        The points; afterwards point i of the new class is row i of them.

    Examples
    --------
    >>> from counterplay.strategic import LinearClass
    >>> table = TabulatedClass(LinearClass([[1.0], [2.0]], [1.0, 6.0]), [[0.0], [4.0]])
    >>> table.distances([1, 0])
    array([[0., 0.],
           [1., 3.]])
    """

    def __init__(self, hypotheses: HypothesisClass, points: Any) -> None:
        self.hypotheses, self.n = hypotheses, hypotheses.n
        self.points = hypotheses.check_points(points)
        self.table = hypotheses.distances(self.points)
        self.table.setflags(write=False)

    def __repr__(self) -> str:
        return f"TabulatedClass({self.hypotheses!r}, points={self.table.shape[0]})"

    def check_points(self, points: Points) -> Points:
        """Return row numbers."""
        return check_indices(points, self.table.shape[0])

    def distances(self, points: Points, members: Members = None) -> FloatArray:
        """Return the stored distances."""
        rows = self.table[self.check_points(points)]
        return rows if members is None else rows[:, self.check_members(members)]

    def shown(self, points: Points) -> Points:
        """Return the points in the original space."""
        return np.asarray(self.points[self.check_points(points)])

    def accepts(self, reported: Points, members: Members = None) -> BoolArray:
        """Return which members accept which points of the original space."""
        return self.hypotheses.accepts(reported, members)

    def reported_distances(self, reported: Points, members: Members = None) -> FloatArray:
        """Return the distances of points of the original space."""
        return self.hypotheses.reported_distances(reported, members)

    def nearest(self, points: Points, members: ArrayLike) -> Points:
        """Return the nearest accepted point in the original space."""
        return self.hypotheses.nearest(self.points[self.check_points(points)], members)
