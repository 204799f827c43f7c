"""Trees, forests and boosted trees of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.strategic.tree_readers.tree import Reading, Tree, as_numbers

FORESTS = ("RandomForestClassifier", "ExtraTreesClassifier")
TREES = ("DecisionTreeClassifier", "ExtraTreeClassifier")


def read(final: Any) -> Reading | None:
    """Return the trees of a model of scikit-learn, None if it has none."""
    name = type(final).__name__

    def narrow(rows: Any) -> FloatArray:
        return as_numbers(rows, narrow=True)

    def chance(rows: Any) -> FloatArray:
        return np.asarray(final.predict_proba(rows)[:, 1], dtype=np.float64)

    def margin(rows: Any) -> FloatArray:
        return np.asarray(final.decision_function(rows), dtype=np.float64).reshape(-1)

    if name in TREES:
        return Reading([_tree(final.tree_, _chance(final.tree_))], chance, narrow)
    if name in FORESTS:
        trees = [_tree(t.tree_, _chance(t.tree_)) for t in final.estimators_]
        return Reading(trees, chance, narrow, scale=1.0 / len(trees))
    if name == "GradientBoostingClassifier":
        stages = [stage[0].tree_ for stage in final.estimators_]
        trees = [_tree(t, final.learning_rate * t.value[:, 0, 0]) for t in stages]
        return Reading(trees, margin, narrow)
    if name == "HistGradientBoostingClassifier":
        trees = [_histogram_tree(stage[0]) for stage in final._predictors]

        def encode(rows: Any) -> FloatArray:
            return np.asarray(final._preprocess_X(rows, reset=False), dtype=np.float64)

        return Reading(trees, margin, encode, narrow=False)
    return None


def _chance(tree: Any) -> FloatArray:
    value = np.asarray(tree.value[:, 0, :], dtype=np.float64)
    return np.asarray(value[:, 1] / value.sum(axis=1), dtype=np.float64)


def _tree(tree: Any, value: FloatArray) -> Tree:
    split = np.asarray(tree.threshold, dtype=np.float64)
    with np.errstate(over="ignore"):
        near = split.astype(np.float32)
    below = np.nextafter(near, np.float32(-np.inf))
    last = np.where(near <= split, near, below).astype(np.float64)  # the last float32 on the left
    missing = getattr(tree, "missing_go_to_left", np.zeros(split.size))
    return Tree(
        np.asarray(tree.children_left, dtype=np.int64),
        np.asarray(tree.children_right, dtype=np.int64),
        np.asarray(tree.feature, dtype=np.int64),
        last,
        np.asarray(missing).astype(bool),
        {},
        np.asarray(value, dtype=np.float64),
    )


def _histogram_tree(predictor: Any) -> Tree:
    nodes = predictor.nodes
    leaf = nodes["is_leaf"].astype(bool)
    codes = {
        int(i): _codes(predictor.raw_left_cat_bitsets[nodes["bitset_idx"][i]])
        for i in np.flatnonzero(nodes["is_categorical"].astype(bool) & ~leaf)
    }
    return Tree(
        np.where(leaf, -1, nodes["left"].astype(np.int64)),
        np.where(leaf, -1, nodes["right"].astype(np.int64)),
        nodes["feature_idx"].astype(np.int64),
        nodes["num_threshold"].astype(np.float64),
        nodes["missing_go_to_left"].astype(bool),
        codes,
        nodes["value"].astype(np.float64),
    )


def _codes(words: Any) -> frozenset[int]:
    bits = np.unpackbits(np.asarray(words, dtype="<u4").view(np.uint8), bitorder="little")
    return frozenset(np.flatnonzero(bits).tolist())
