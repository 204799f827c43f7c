"""Readers of fitted tree ensembles: structure only, compared with the model's own raw score."""

from __future__ import annotations

from typing import Any

from counterplay.strategic.tree_readers import catboost, lightgbm, scikit_learn, xgboost
from counterplay.strategic.tree_readers.tree import Reading

_READERS = (scikit_learn.read, xgboost.read, lightgbm.read, catboost.read)


def read_ensemble(final: Any) -> Reading | None:
    """Return the trees of a fitted classifier with two classes, None if it has none we know."""
    if len(getattr(final, "classes_", ())) != 2:
        return None
    readings = (reader(final) for reader in _READERS)
    return next((reading for reading in readings if reading is not None), None)
