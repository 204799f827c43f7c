"""LightGBM: the model as it dumps itself; zeros and missing values as each split says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from counterplay.core.validation import FloatArray
from counterplay.strategic.tree_readers.tree import Reading, Tree, as_numbers

ZERO = float(np.float32(1e-35))  # what is not larger counts as 0


def read(final: Any) -> Reading | None:
    """Return the trees of a fitted LGBMClassifier, None if one of its splits is not a cut."""
    if type(final).__name__ != "LGBMClassifier":
        return None
    dump = final.booster_.dump_model(num_iteration=final.best_iteration_ or None)
    if dump["num_tree_per_iteration"] != 1 or dump["average_output"]:
        return None
    trees = [_tree(item["tree_structure"]) for item in dump["tree_info"]]
    if any(tree is None for tree in trees):
        return None
    known = dump.get("pandas_categorical") or []

    def raw(rows: Any) -> FloatArray:
        return np.asarray(final.predict(rows, raw_score=True), dtype=np.float64)

    def encode(rows: Any) -> FloatArray:
        return as_numbers(_recoded(rows, known), narrow=False)

    return Reading([t for t in trees if t is not None], raw, encode, narrow=False)


def _recoded(rows: Any, known: list[list[Any]]) -> Any:
    """Return categories coded as in the training data."""
    if not isinstance(rows, pd.DataFrame) or not known:
        return rows
    rows = rows.copy()
    names = [name for name in rows.columns if hasattr(rows[name], "cat")]
    for name, categories in zip(names, known):
        rows[name] = rows[name].cat.set_categories(categories)
    return rows


def _tree(root: dict[str, Any]) -> Tree | None:
    """Return a tree in arrays, None if it has more than cuts and numbers."""
    left: list[int] = []
    right: list[int] = []
    feature: list[int] = []
    threshold: list[float] = []
    missing_left: list[bool] = []
    value: list[float] = []
    codes: dict[int, frozenset[int]] = {}
    stack = [(root, -1, False)]
    while stack:
        node, parent, is_right = stack.pop()
        k = len(left)
        if parent >= 0:
            (right if is_right else left)[parent] = k
        left.append(-1)
        right.append(-1)
        leaf = "leaf_value" in node
        if "leaf_coeff" in node:
            return None  # a regression in every leaf
        value.append(float(node["leaf_value"]) if leaf else 0.0)
        feature.append(-1 if leaf else int(node["split_feature"]))
        cut, hole = 0.0, False
        if not leaf and node["decision_type"] == "==":
            codes[k] = frozenset(int(c) for c in str(node["threshold"]).split("||"))
            hole = node["missing_type"] != "NaN" and 0 in codes[k]  # else missing counts as 0
        elif not leaf:
            cut, hole = float(node["threshold"]), bool(node["default_left"])
            if node["missing_type"] == "None":
                hole = cut >= 0.0  # missing counts as 0
            elif node["missing_type"] == "Zero" and hole != (cut >= 0.0):
                return None
            if abs(cut) <= ZERO:  # what counts as 0 goes left, or right, as a whole
                cut = ZERO if cut >= 0 else float(np.nextafter(-ZERO, -np.inf))
        threshold.append(cut)
        missing_left.append(hole)
        if not leaf:
            stack.append((node["right_child"], k, True))
            stack.append((node["left_child"], k, False))
    return Tree(
        np.array(left),
        np.array(right),
        np.array(feature),
        np.array(threshold),
        np.array(missing_left),
        codes,
        np.array(value),
    )
