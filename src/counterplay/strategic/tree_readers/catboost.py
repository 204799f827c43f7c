"""CatBoost: symmetric trees of its own JSON; categories inside the model are not read."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.strategic.tree_readers.tree import Reading, Tree, as_numbers


def read(final: Any) -> Reading | None:
    """Return the trees of a fitted CatBoostClassifier, None if they split on more than numbers."""
    if type(final).__name__ != "CatBoostClassifier":
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        final.save_model(str(path), format="json")
        content = json.loads(path.read_text())
    kinds = {s["split_type"] for t in content.get("oblivious_trees", ()) for s in t["splits"] or ()}
    if "oblivious_trees" not in content or kinds - {"FloatFeature"}:
        return None
    features = content["features_info"]["float_features"]
    column = [int(f["flat_feature_index"]) for f in features]
    # a missing value is below all borders, unless the model says that it is above
    above = [f.get("nan_value_treatment") == "AsTrue" for f in features]
    scale = float(content.get("scale_and_bias", [1.0])[0])
    trees = [_tree(tree, column, above) for tree in content["oblivious_trees"]]

    def raw(rows: Any) -> FloatArray:
        return np.asarray(final.predict(rows, prediction_type="RawFormulaVal"), dtype=np.float64)

    def encode(rows: Any) -> FloatArray:
        return as_numbers(rows, narrow=True)

    return Reading(trees, raw, encode, narrow=True, scale=scale)


def _tree(tree: dict[str, Any], column: list[int], above: list[bool]) -> Tree:
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
        k = int(split["float_feature_index"])
        feature[nodes] = column[k]
        threshold[nodes] = np.float32(split["border"])  # above the border goes right
        missing_left[nodes] = not above[k]
    for k in range(2**depth):
        # the path to leaf k: bit i of the leaf's number is the answer to split i
        place = sum(1 << i for i in range(depth) if k >> (depth - 1 - i) & 1)
        value[inner + k] = tree["leaf_values"][place]
    return Tree(left, right, feature, threshold, missing_left, {}, value)
