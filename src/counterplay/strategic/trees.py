"""The boxes that a decision tree accepts, and how prices add up over their sides.

Source: "Distances that are exact" (union of boxes), see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from counterplay.core.validation import BoolArray, FloatArray
from counterplay.errors import InvalidInputError


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
    accepted = _accepted_nodes(tree, positive)
    left, right, feature = tree.tree_.children_left, tree.tree_.children_right, tree.tree_.feature
    last, first = _split_ends(tree.tree_.threshold)
    d = int(tree.n_features_in_)
    boxes = []
    stack = [(0, np.full(d, -np.inf), np.full(d, np.inf))]
    while stack:
        node, low, high = stack.pop()
        if left[node] < 0:
            boxes += [(low, high)] if accepted[node] else []
            continue
        j = int(feature[node])
        above, below = low.copy(), high.copy()
        above[j], below[j] = max(low[j], first[node]), min(high[j], last[node])
        stack += [(int(right[node]), above, high), (int(left[node]), low, below)]
    lower, upper = (np.array([box[k] for box in boxes]).reshape(-1, d) for k in (0, 1))
    return lower, upper


def _accepted_nodes(tree: Any, positive: Any | None) -> BoolArray:
    """Return the nodes at which the tree predicts the positive class."""
    classes = list(tree.classes_)
    wanted = 1 if positive is None else classes.index(positive)
    predicted = np.argmax(tree.tree_.value[:, 0, :], axis=1)
    return np.asarray(predicted == wanted, dtype=bool)


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


@numba.njit(cache=True)
def add_price(total: float, price: float, norm: float) -> float:
    """Add the price of one feature to the effort so far (squared for the Euclidean norm)."""
    if norm == 1.0:
        return total + price
    if norm == 2.0:
        return total + price * price
    return max(total, price)
