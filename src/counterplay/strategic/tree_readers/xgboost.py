"""XGBoost: the model as its own JSON; splits send ``x < t`` left, in 32 bits."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.strategic.tree_readers.tree import Reading, Tree, as_numbers


def read(final: Any) -> Reading | None:
    """Return the trees of a fitted XGBClassifier, None if it is no plain tree booster."""
    if type(final).__name__ not in ("XGBClassifier", "XGBRFClassifier"):
        return None
    booster = final.get_booster()
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    model = learner["gradient_booster"]
    logistic = learner["objective"]["name"] == "binary:logistic"
    if model["name"] != "gbtree" or not logistic or not np.isnan(final.missing):
        return None
    trees = [_tree(tree) for tree in model["model"]["trees"]]
    best = getattr(booster, "best_iteration", None) if _stopped(final) else None
    if best is not None:  # predict uses the trees up to the best round
        per_round = max(1, int(final.num_parallel_tree or 1))
        trees = trees[: (int(best) + 1) * per_round]

    def raw(rows: Any) -> FloatArray:
        return np.asarray(final.predict(rows, output_margin=True), dtype=np.float64)

    def encode(rows: Any) -> FloatArray:
        return as_numbers(rows, narrow=True)

    return Reading(trees, raw, encode, single=True, start=_start(learner))


def _start(learner: dict[str, Any]) -> float:
    """Return the margin before the first tree: the log odds of the base score, in 32 bits."""
    text = str(learner["learner_model_param"]["base_score"]).strip("[]")
    share = np.float32(text)
    return float(-np.log(np.float32(1) / share - np.float32(1)))


def _stopped(final: Any) -> bool:
    return getattr(final, "early_stopping_rounds", None) is not None


def _tree(tree: dict[str, Any]) -> Tree:
    left = np.array(tree["left_children"], dtype=np.int64)
    split = np.array(tree["split_conditions"], dtype=np.float32)
    start, size = tree["categories_segments"], tree["categories_sizes"]
    # categories that are listed go right; what goes left is everything else
    right = {
        int(node): frozenset(tree["categories"][a : a + n])
        for node, a, n in zip(tree["categories_nodes"], start, size)
    }
    return Tree(
        left,
        np.array(tree["right_children"], dtype=np.int64),
        np.array(tree["split_indices"], dtype=np.int64),
        np.nextafter(split, np.float32(-np.inf)).astype(np.float64),  # x < t is x <= t'
        np.array(tree["default_left"]).astype(bool),
        {},
        np.where(left < 0, split, 0).astype(np.float64),
        right,
    )
