"""The settings of a partition as a record of its manifest, and back."""

from __future__ import annotations

import numbers
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from counterplay.errors import InvalidInputError
from counterplay.poisoning.block_files import read_labels, write_labels
from counterplay.poisoning.block_store import Manifest, SavedSettings
from counterplay.poisoning.certificates import spread_parts
from counterplay.poisoning.partition_settings import check_settings, checked_threshold, dealer_of
from counterplay.poisoning.training_rows import check_classes, in_class_order
from counterplay.tables import Schema
from counterplay.tables.labels import as_labels, cast_labels

if TYPE_CHECKING:
    from counterplay.poisoning.partition_training import PartitionTraining

_PLAIN = (
    "n_partitions", "committee", "rows_per_source", "unknown_source", "spread", "aggregation",
    "min_lead", "budget", "check", "random_state", "block_timeout",
)  # fmt: skip
_WHAT = "the manifest"


def settings_of(guard: PartitionTraining) -> SavedSettings:
    """Return the parameters that predictions and certificates depend on."""
    threshold = None
    for label, share in (guard.vote_threshold or {}).items():
        (plain,), _ = cast_labels([label])
        threshold = (write_labels([plain])[0], None if share is None else float(share))
    classes = None if guard.classes is None else write_labels(check_classes(guard.classes))
    split = [(_name(name), int(slots)) for name, slots in (guard.split or {}).items()]
    plain_values = {name: getattr(guard, name) for name in _PLAIN}
    return SavedSettings(
        classes=classes,
        vote_threshold=threshold,
        given_schema=guard.schema is not None,
        default_estimator=guard.estimator is None,
        split=split,
        **{name: _number(value) for name, value in plain_values.items()},
    )


def take_settings(guard: PartitionTraining, manifest: Manifest, schema: Schema) -> None:
    """Give a classifier the settings of a manifest, checked as those of a user."""
    saved = manifest.settings
    for name in _PLAIN:
        setattr(guard, name, getattr(saved, name))
    guard.classes = None if saved.classes is None else tuple(read_labels(saved.classes, _WHAT))
    guard.vote_threshold = None
    if saved.vote_threshold is not None:
        record, share = saved.vote_threshold
        guard.vote_threshold = {read_labels([record], _WHAT)[0]: share}
    guard.split = {_given(name): slots for name, slots in saved.split} or None
    guard.schema = replace(schema, margin=None) if saved.given_schema else None
    check_settings(guard)
    guard.n_partitions_, guard._fitted = manifest.n_partitions, manifest.fitted
    guard.unit_ = "sources" if manifest.fitted == "sources" else "rows"
    guard.schema_, guard.schema_margin_ = schema, manifest.margin
    guard._flat = False
    guard._note_columns()
    guard._dealer = dealer_of(guard, guard.n_partitions_ * guard.spread)
    guard.design_ = spread_parts(guard.n_partitions_, guard.spread) if guard.spread > 1 else None
    guard.rows_rejected_ = manifest.rows_rejected
    if guard.classes is not None:
        guard.classes_ = as_labels(in_class_order(guard.classes))
    checked_threshold(guard)  # refused here, if at all


def _number(value: Any) -> Any:
    """Return NumPy numbers as Python's."""
    return value.item() if hasattr(value, "item") else value


def _name(name: Any) -> str | int:
    """Return a source of ``split`` as JSON holds it."""
    if isinstance(name, str):
        return f"text:{name}"
    if isinstance(name, numbers.Integral):
        return int(name)
    raise InvalidInputError("split names sources by texts or integers, if it is to be saved")


def _given(name: str | int) -> str | int:
    return name.removeprefix("text:") if isinstance(name, str) else name
