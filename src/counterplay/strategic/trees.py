"""Trees and tree ensembles: exact distances for one tree, certified ones for many.

A tree accepts a union of boxes, its positive leaves. For an ensemble the best score reachable with
effort r is at most the sum of every tree's best leaf within r, a step function of r; where it first
passes the decision threshold is a certified lower bound on the distance.

Source: "Distances that are exact" (union of boxes), "The gaming report", see
docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from counterplay.core.validation import FloatArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.strategic.metrics import NormMetric


@dataclass(frozen=True)
class LeafBoxes:
    """The leaves of one or more trees, each with the bounds on the features along its path.

    Bounds are closed; entry k of a leaf says ``low[k] <= x[feature[k]] <= high[k]``.
    """

    tree_start: IntArray
    leaf_start: IntArray
    feature: IntArray
    low: FloatArray
    high: FloatArray
    value: FloatArray

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return int(self.tree_start.size - 1)


def positive_leaf_boxes(tree: Any, positive: Any | None = None) -> tuple[FloatArray, FloatArray]:
    """Return closed boxes (lower, upper) whose union is what a fitted decision tree accepts.

    scikit-learn trees round features to 32 bits first; the boxes end exactly where that rounding
    changes the side, so every point of a box is accepted by the tree itself, and no other.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tree = DecisionTreeClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 0])
    >>> lower, upper = positive_leaf_boxes(tree)
    >>> lower.round(3), upper.round(3)
    (array([[1.5]]), array([[2.5]]))
    """
    if not hasattr(tree, "tree_") or len(getattr(tree, "classes_", ())) != 2:
        raise InvalidInputError(f"{type(tree).__name__} is no fitted binary decision tree")
    leaves = sklearn_leaves([tree.tree_], [_tree_scores(tree, positive)])
    chosen = np.flatnonzero(leaves.value > 0)
    d = int(tree.n_features_in_)
    lower, upper = np.full((chosen.size, d), -np.inf), np.full((chosen.size, d), np.inf)
    for row, leaf in enumerate(chosen):
        part = slice(leaves.leaf_start[leaf], leaves.leaf_start[leaf + 1])
        lower[row, leaves.feature[part]] = leaves.low[part]
        upper[row, leaves.feature[part]] = leaves.high[part]
    return lower, upper


def _tree_scores(tree: Any, positive: Any | None) -> FloatArray:
    """Return 1 for nodes at which the tree predicts the positive class, else 0."""
    classes = list(tree.classes_)
    wanted = 1 if positive is None else classes.index(positive)
    predicted = np.argmax(tree.tree_.value[:, 0, :], axis=1)
    return np.asarray(predicted == wanted, dtype=np.float64)


def sklearn_leaves(trees: list[Any], scores: list[FloatArray]) -> LeafBoxes:
    """Return the leaves of ``tree_`` objects with one score per node."""
    parts = []
    for tree, score in zip(trees, scores):
        high, low = _split_ends(tree.threshold)
        parts.append(_walk(tree.children_left, tree.children_right, tree.feature, high, low, score))
    return _stack(parts)


def _split_ends(split: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the last number that goes left at each split and the first that goes right.

    Trees round features to 32 bits before they compare, so the border lies half-way between two
    neighbouring 32-bit numbers.
    """
    with np.errstate(over="ignore"):
        nearest = split.astype(np.float32)
        left = np.where(nearest <= split, nearest, np.nextafter(nearest, np.float32(-np.inf)))
        left = left.astype(np.float32)
        right = np.nextafter(left, np.float32(np.inf))
        middle = (left.astype(np.float64) + right.astype(np.float64)) / 2
        goes_left = middle.astype(np.float32) <= left
    high = np.where(goes_left, middle, np.nextafter(middle, -np.inf))
    low = np.where(goes_left, np.nextafter(middle, np.inf), middle)
    return high, low


def histogram_leaves(model: Any, sign: float = 1.0) -> LeafBoxes | None:
    """Return the leaves of a fitted HistGradientBoostingClassifier, values times ``sign``.

    None if it has categorical splits.
    """
    parts = []
    for stage in model._predictors:
        nodes = stage[0].nodes
        if nodes["is_categorical"].any():
            return None
        leaf = nodes["is_leaf"].astype(bool)
        left = np.where(leaf, -1, nodes["left"].astype(np.int64))
        right = np.where(leaf, -1, nodes["right"].astype(np.int64))
        high = nodes["num_threshold"].astype(np.float64)
        low = np.nextafter(high, np.inf)
        feature = nodes["feature_idx"].astype(np.int64)
        value = sign * nodes["value"].astype(np.float64)
        parts.append(_walk(left, right, feature, high, low, value))
    return _stack(parts)


def _walk(
    left: Any, right: Any, feature: Any, high: FloatArray, low: FloatArray, score: FloatArray
) -> list[tuple[dict[int, tuple[float, float]], float]]:
    """Return the bounds along the path and the score of every leaf of one tree."""
    leaves = []
    stack: list[tuple[int, dict[int, tuple[float, float]]]] = [(0, {})]
    while stack:
        node, bounds = stack.pop()
        if left[node] < 0:
            leaves.append((bounds, float(score[node])))
            continue
        j = int(feature[node])
        lo, hi = bounds.get(j, (-np.inf, np.inf))
        stack.append((int(right[node]), {**bounds, j: (max(lo, float(low[node])), hi)}))
        stack.append((int(left[node]), {**bounds, j: (lo, min(hi, float(high[node])))}))
    return leaves


def _stack(parts: list[list[tuple[dict[int, tuple[float, float]], float]]]) -> LeafBoxes:
    leaves = [leaf for part in parts for leaf in part]
    entries = [(j, *ends) for bounds, _ in leaves for j, ends in bounds.items()]
    table = np.array(entries, dtype=np.float64).reshape(-1, 3)
    return LeafBoxes(
        tree_start=np.cumsum([0, *map(len, parts)]).astype(np.int64),
        leaf_start=np.cumsum([0, *(len(bounds) for bounds, _ in leaves)]).astype(np.int64),
        feature=table[:, 0].astype(np.int64),
        low=np.ascontiguousarray(table[:, 1]),
        high=np.ascontiguousarray(table[:, 2]),
        value=np.array([value for _, value in leaves], dtype=np.float64),
    )


def unscale(leaves: LeafBoxes, a: FloatArray, c: FloatArray) -> LeafBoxes:
    """Return the same leaves in features x, where the trees see ``z = a x + c`` with a > 0."""
    return LeafBoxes(
        leaves.tree_start,
        leaves.leaf_start,
        leaves.feature,
        (leaves.low - c[leaves.feature]) / a[leaves.feature],
        (leaves.high - c[leaves.feature]) / a[leaves.feature],
        leaves.value,
    )


def ensemble_lower_bound(
    leaves: LeafBoxes, rows: FloatArray, metric: NormMetric, threshold: FloatArray
) -> FloatArray:
    """Return, per row, an effort below which the sum of leaf values stays below ``threshold``."""
    costs = np.ones(rows.shape[1]) if metric.costs is None else metric.costs
    return _first_crossing(
        rows,
        leaves.tree_start,
        leaves.leaf_start,
        leaves.feature,
        leaves.low,
        leaves.high,
        leaves.value,
        costs,
        float(metric.norm),
        threshold,
    )


@numba.njit(cache=True)
def add_price(total: float, price: float, norm: float) -> float:
    """Add the price of one feature to the effort so far (squared for the Euclidean norm)."""
    if norm == 1.0:
        return total + price
    if norm == 2.0:
        return total + price * price
    return max(total, price)


@numba.njit(cache=True)
def _leaf_distances(
    x: FloatArray,
    first: int,
    last: int,
    leaf_start: IntArray,
    feature: IntArray,
    low: FloatArray,
    high: FloatArray,
    costs: FloatArray,
    norm: float,
    out: FloatArray,
) -> None:
    """Write the price of moving x into each of the leaves ``first`` to ``last - 1``."""
    for leaf in range(first, last):
        total = 0.0
        for k in range(leaf_start[leaf], leaf_start[leaf + 1]):
            # Only features that occur on the path to the leaf have bounds to respect.
            excess = max(low[k] - x[feature[k]], x[feature[k]] - high[k])
            if excess > 0.0:
                total = add_price(total, excess * costs[feature[k]], norm)
        out[leaf - first] = np.sqrt(total) if norm == 2.0 else total


@numba.njit(cache=True)
def _first_crossing(
    rows: FloatArray,
    tree_start: IntArray,
    leaf_start: IntArray,
    feature: IntArray,
    low: FloatArray,
    high: FloatArray,
    value: FloatArray,
    costs: FloatArray,
    norm: float,
    threshold: FloatArray,
) -> FloatArray:
    """Merge the trees' step functions and find where their sum first reaches the threshold."""
    m, n_trees = rows.shape[0], tree_start.size - 1
    answer = np.zeros(m)
    n_leaves = tree_start[n_trees]
    distance = np.empty(n_leaves)
    when, gain = np.empty(n_leaves), np.empty(n_leaves)
    for i in range(m):
        events = 0
        score = 0.0  # best sum of leaf values without effort
        for t in range(n_trees):
            first, last = tree_start[t], tree_start[t + 1]
            part = distance[first:last]
            _leaf_distances(rows[i], first, last, leaf_start, feature, low, high, costs, norm, part)
            # Without effort: the best leaf at the smallest distance.
            order = np.argsort(part)
            best = value[first + order[0]]
            for k in order:  # several leaves may be at distance 0 after rounding
                if part[k] > part[order[0]]:
                    break
                best = max(best, value[first + k])
            score += best
            # With effort: wherever a farther leaf is better than all nearer ones, the tree gains.
            for k in order:
                if value[first + k] > best:
                    when[events] = part[k]
                    gain[events] = value[first + k] - best
                    best = value[first + k]
                    events += 1
        # Add the gains of all trees in the order of their effort until the threshold is reached.
        answer[i] = np.inf
        if score >= threshold[i]:
            answer[i] = 0.0
            continue
        for e in np.argsort(when[:events]):
            score += gain[e]
            if score >= threshold[i]:
                answer[i] = when[e]
                break
    return answer
