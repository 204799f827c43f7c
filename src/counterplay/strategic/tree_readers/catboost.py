"""CatBoost: symmetric trees of its own JSON.

What a split on a category asks (one value, or a statistic of the target) is not taken apart. The
model says for every row which leaf of a tree it falls into, and so how each split was answered:
that answer is one more column of zeros and ones. Statistics of several categories together depend
on more than one column; such models are not read.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from counterplay.core.validation import FloatArray, IntArray
from counterplay.strategic.tree_readers.tree import Reading, Tree, as_numbers


def read(final: Any) -> Reading | None:
    """Return the trees of a fitted CatBoostClassifier, None if a split asks about two columns."""
    if type(final).__name__ != "CatBoostClassifier":
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        final.save_model(str(path), format="json")
        content = json.loads(path.read_text())
    features = content["features_info"]
    if "oblivious_trees" not in content or not _single_columns(content):
        return None
    columns = _Columns(features, content["oblivious_trees"])
    scale = float(content.get("scale_and_bias", [1.0])[0])
    trees = [_tree(tree, columns) for tree in content["oblivious_trees"]]

    def raw(rows: Any) -> FloatArray:
        return np.asarray(final.predict(rows, prediction_type="RawFormulaVal"), dtype=np.float64)

    def encode(rows: Any) -> FloatArray:
        if not columns.asked:
            return as_numbers(rows, narrow=True)
        return columns.encode(rows, np.asarray(final.calc_leaf_indexes(rows), dtype=np.int64))

    return Reading(trees, raw, encode, narrow=True, scale=scale)


def _single_columns(content: dict[str, Any]) -> bool:
    """Whether every split asks about one number or one category."""
    kinds = {s["split_type"] for t in content["oblivious_trees"] for s in t["splits"] or ()}
    alone = all(
        [e.get("combination_element") for e in ctr["elements"]] == ["cat_feature_value"]
        for ctr in content["features_info"].get("ctrs", ())
    )
    return alone and kinds <= {"FloatFeature", "OneHotFeature", "OnlineCtr"}


class _Columns:
    """Encoded columns: the model's own numbers, then one per distinct split on a category."""

    def __init__(self, features: dict[str, Any], trees: list[dict[str, Any]]) -> None:
        numbers = features.get("float_features", [])
        self.number = [int(f["flat_feature_index"]) for f in numbers]
        # a missing value is below all borders, unless the model says that it is above
        self.above = [f.get("nan_value_treatment") == "AsTrue" for f in numbers]
        self.category = [int(f["flat_feature_index"])
                         for f in features.get("categorical_features", [])]  # fmt: skip
        self.width = 1 + max([*self.number, *self.category], default=-1)
        # where each distinct split on a category is answered: tree and level
        self.asked: dict[int, tuple[int, int]] = {}
        for t, tree in enumerate(trees):
            for level, split in enumerate(tree["splits"] or ()):
                if split["split_type"] != "FloatFeature":
                    self.asked.setdefault(int(split["split_index"]), (t, level))
        self.place = {index: self.width + k for k, index in enumerate(self.asked)}

    def encode(self, rows: Any, leaves: IntArray) -> FloatArray:
        """Return the numbers, and the answers to the splits on categories."""
        encoded = np.full((len(rows), self.width + len(self.asked)), np.nan)
        encoded[:, self.number] = as_numbers(_only(rows, self.number), narrow=True)
        for index, (t, level) in self.asked.items():
            encoded[:, self.place[index]] = leaves[:, t] >> level & 1
        return encoded


def _only(rows: Any, columns: list[int]) -> Any:
    return rows.iloc[:, columns] if hasattr(rows, "iloc") else np.asarray(rows)[:, columns]


def _tree(tree: dict[str, Any], columns: _Columns) -> Tree:
    """Return a symmetric tree as a binary one: level i asks split i, leaves are counted in bits."""
    splits = tree["splits"] or []
    depth = len(splits)
    inner = 2**depth - 1
    left = np.full(2 ** (depth + 1) - 1, -1, dtype=np.int64)
    right, feature = left.copy(), left.copy()
    threshold, value = np.zeros(left.size), np.zeros(left.size)
    missing_left = np.zeros(left.size, dtype=bool)
    for level, split in enumerate(splits):
        nodes = np.arange(2**level - 1, 2 ** (level + 1) - 1)
        left[nodes], right[nodes] = 2 * nodes + 1, 2 * nodes + 2
        if split["split_type"] == "FloatFeature":
            k = int(split["float_feature_index"])
            feature[nodes] = columns.number[k]
            threshold[nodes] = np.float32(split["border"])  # above the border goes right
            missing_left[nodes] = not columns.above[k]
        else:
            feature[nodes] = columns.place[int(split["split_index"])]
            threshold[nodes] = 0.5  # yes goes right
    for k in range(2**depth):
        # the path to leaf k: bit i of the leaf's number is the answer to split i
        place = sum(1 << i for i in range(depth) if k >> (depth - 1 - i) & 1)
        value[inner + k] = tree["leaf_values"][place]
    return Tree(left, right, feature, threshold, missing_left, {}, value)
