"""Scorecards: linear rules with the exact distance to their acceptance region.

Halfspace ``w . x >= b``: an agent needs ``max(0, b - w . x)`` divided by the dual norm of ``w``
(per unit of cost). Loss tables are computed in blocks that stay in the cache, so that a table for
many agents and rules costs about as much as the matrix product in it.

Source: "Setting", "Distances that are exact", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.validation import BoolArray, FloatArray, IntArray, check_float_array
from counterplay.errors import InvalidInputError
from counterplay.strategic.classes import HypothesisClass, Members, check_features
from counterplay.strategic.features import (
    accepted_class,
    check_scale,
    column_order,
    common_names,
    read_costs,
)
from counterplay.strategic.metrics import NormMetric, Points
from counterplay.strategic.reach_linear import affine_rule
from counterplay.tables import FittedModel

_BLOCK_CELLS = 1 << 15  # a quarter of a megabyte of scores at a time: stays in the cache


@checked
class LinearClass(HypothesisClass):
    """A catalogue of linear rules "accept if w . x >= b".

    Use it for scorecards, and for any fitted linear classifiers (:meth:`from_estimators`).

    Parameters
    ----------
    weights:
        ``(n, d)`` array, one rule per row.
    thresholds:
        ``(n,)`` array; rule i accepts ``x`` if ``weights[i] . x >= thresholds[i]``.
    norm:
        How effort adds up over features: 1, 2 or ``numpy.inf``.
    costs:
        Price of one unit of each feature; ``numpy.inf`` for a feature that cannot be moved.

    Notes
    -----
    The distance is exact: ``max(0, b - w . x) / ||w / costs||_dual``. A rule without movable weight
    (for example ``w = 0``) is either accepted for free or out of reach.

    Examples
    --------
    >>> catalogue = LinearClass(weights=[[3.0, 4.0], [1.0, 0.0]], thresholds=[10.0, 1.0])
    >>> catalogue.distances([[0.0, 0.0], [2.0, 1.0]])
    array([[2., 1.],
           [0., 0.]])
    >>> LinearClass([[3.0, 4.0]], [10.0], costs=[1.0, float("inf")]).distances([[0.0, 1.0]])
    array([[2.]])

    References
    ----------
    equation 2.2, "Setting", "Distances that are exact", see docs/theory/02-strategic-finite.md.
    """

    def __init__(
        self,
        weights: ArrayLike,
        thresholds: ArrayLike,
        norm: float = 2,
        costs: ArrayLike | None = None,
    ) -> None:
        self.weights = check_float_array(weights, "weights", ndim=2).copy()
        self.thresholds = check_float_array(thresholds, "thresholds", ndim=1).copy()
        check_scale(self.weights, "weights")
        check_scale(self.thresholds, "thresholds")
        if self.weights.shape[0] == 0:
            raise InvalidInputError("weights must contain at least one rule")
        if self.thresholds.size != self.weights.shape[0]:
            raise InvalidInputError(
                f"there are {self.weights.shape[0]} rules but {self.thresholds.size} thresholds"
            )
        self.n = self.weights.shape[0]
        self.metric: NormMetric = NormMetric(norm, costs)
        self.metric.check_width(self.weights.shape[1])
        dual = self.metric.dual(self.weights)
        with np.errstate(divide="ignore"):
            self._inverse_dual = 1.0 / dual
        moves = self.metric.move(self.weights)
        self._moves = np.where(np.isnan(moves), 0.0, moves)  # who cannot get there stays
        for array in (self.weights, self.thresholds, self._inverse_dual, self._moves):
            array.setflags(write=False)
        self._recent: tuple[IntArray, FloatArray, FloatArray, FloatArray] | None = None

    @classmethod
    def from_estimators(
        cls,
        estimators: Sequence[Any],
        norm: float = 2,
        costs: ArrayLike | None = None,
        *,
        positive: Any = None,
    ) -> LinearClass:
        """Build the catalogue from fitted binary linear classifiers (``coef_``, ``intercept_``).

        ``positive`` is the class that counts as accepted; it may be left out when the classes are 0
        and 1. Pipelines with affine steps (scalers, PCA) are folded into weights on the original
        features. Estimators fitted on frames are matched by the names of their columns; points and
        costs with names are, too.
        """
        wanted = accepted_class(estimators, positive)
        rules = [_oriented(estimator, wanted) for estimator in estimators]
        if not rules:
            raise InvalidInputError("estimators must contain at least one fitted classifier")
        names = common_names(estimators)
        weights = [w[column_order(e, names)] for (w, _), e in zip(rules, estimators)]
        offsets = [-b for _, b in rules]
        catalogue = cls(np.array(weights), np.array(offsets), norm, read_costs(costs, names))
        catalogue.names = names
        return catalogue

    def __repr__(self) -> str:
        return f"LinearClass(n={self.n}, features={self.weights.shape[1]}, {self.metric!r})"

    def check_points(self, points: Points) -> Points:
        """Return rows of finite features."""
        return check_features(points, self.weights.shape[1], self.names)

    def distances(self, points: Points, members: Members = None) -> FloatArray:
        """Return the exact cost of being accepted."""
        gap, inverse = self._gaps(points, members)
        with np.errstate(invalid="ignore"):
            out = np.maximum(gap, 0.0) * inverse
        if np.isinf(inverse).any():
            out[:, np.isinf(inverse)] = np.where(gap[:, np.isinf(inverse)] <= 0, 0.0, np.inf)
        return out

    def predict(self, points: Points, members: Members = None) -> BoolArray:
        """Return ``w . x >= b`` for every point and member."""
        accepted: BoolArray = self._gaps(points, members)[0] <= 0
        return accepted

    def reaches(self, points: Points, radius: FloatArray, members: Members = None) -> BoolArray:
        """Return whether each agent is accepted by each member, without a table of distances."""
        return self._blockwise(points, radius, np.zeros(len(radius), dtype=np.bool_), members)

    def losses(
        self, points: Points, radius: FloatArray, y: BoolArray, members: Members = None
    ) -> BoolArray:
        """Return whether each member errs on each agent, without a table of distances."""
        return self._blockwise(points, radius, np.asarray(y, dtype=np.bool_), members)

    def _blockwise(
        self, points: Points, radius: FloatArray, y: BoolArray, members: Members
    ) -> BoolArray:
        rows, w, b, inverse = self._parts(points, members)
        r = np.ascontiguousarray(radius, dtype=np.float64)
        out = np.empty((rows.shape[0], w.shape[0]), dtype=np.bool_)
        block = max(1, _BLOCK_CELLS // w.shape[0])
        scores = np.empty((min(block, rows.shape[0]), w.shape[0]))
        columns = np.ascontiguousarray(w.T)
        for start in range(0, rows.shape[0], block):
            stop = min(start + block, rows.shape[0])
            part = scores[: stop - start]
            np.matmul(rows[start:stop], columns, out=part)
            _accepted_xor(part, b, inverse, r[start:stop], y[start:stop], out[start:stop])
        return out

    def nearest(self, points: Points, members: ArrayLike) -> Points:
        """Return the point on the boundary of the member that is cheapest to reach."""
        rows, chosen = self.check_points(points), self.check_members(members)
        gap = self.thresholds[chosen] - np.einsum("ij,ij->i", rows, self.weights[chosen])
        moves = np.where(gap[:, None] > 0, gap[:, None] * self._moves[chosen], 0.0)
        return np.asarray(rows + moves)

    def _parts(
        self, points: Points, members: Members
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        rows: FloatArray = self.check_points(points)
        if members is None:
            return rows, self.weights, self.thresholds, self._inverse_dual
        if self._recent is not None and members is self._recent[0]:
            return rows, *self._recent[1:]
        chosen = self.check_members(members)
        parts = self.weights[chosen], self.thresholds[chosen], self._inverse_dual[chosen]
        if members is chosen and not chosen.flags.writeable:
            self._recent = (chosen, *parts)  # the same version space is asked for every round
        return rows, *parts

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_recent": None}

    def _gaps(self, points: Points, members: Members) -> tuple[FloatArray, FloatArray]:
        rows, w, b, inverse = self._parts(points, members)
        gap = rows @ w.T
        np.subtract(b, gap, out=gap)
        return gap, inverse


def _oriented(estimator: Any, wanted: Any) -> tuple[FloatArray, float]:
    """Return the halfspace of a linear model that holds the wanted class."""
    w, b = affine_rule(estimator)
    classes = FittedModel.of(estimator).classes
    return (-w, -b) if classes and classes[0] == wanted else (w, b)


@numba.njit(cache=True)
def _accepted_xor(
    scores: FloatArray,
    b: FloatArray,
    inverse: FloatArray,
    radius: FloatArray,
    y: BoolArray,
    out: BoolArray,
) -> None:
    """Write ``(distance <= radius) != y`` for a block of scores ``w . x``."""
    for i in range(scores.shape[0]):
        r, label = radius[i], y[i]
        for j in range(scores.shape[1]):
            # What is missing to acceptance; effort buys 1 / inverse[j] of it per unit.
            gap = b[j] - scores[i, j]
            # Accepted as she stands (also where inverse is infinite), or within her radius.
            out[i, j] = ((gap <= 0.0) | (gap * inverse[j] <= r)) != label
