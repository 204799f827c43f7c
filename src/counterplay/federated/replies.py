"""Metrics that parties of a federation send: what can be averaged, whatever they sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from counterplay.core.validation import check_real
from counterplay.errors import InvalidInputError


def check_rows_sent(metrics: Mapping[str, Any], key: str) -> int:
    """Return the number of rows behind a reply, a whole number from 1.

    Examples
    --------
    >>> check_rows_sent({"num-examples": 20}, "num-examples")
    20
    """
    if key not in metrics:
        raise InvalidInputError(f"the reply has no metric {key!r}")
    rows = check_real(metrics[key], key, low=1.0, high=2.0**53)
    if not rows.is_integer():
        raise InvalidInputError(f"{key} must be a whole number, got {rows:g}")
    return int(rows)


def common_metrics(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the metrics that all records hold in the same form.

    Examples
    --------
    >>> common_metrics([{"loss": 1.0, "recall": [0.5, 0.5]}, {"recall": [1.0], "loss": 2.0}])
    ['loss']
    """

    def form(value: Any) -> int:
        return len(value) if isinstance(value, list) else -1

    return [
        key
        for key in (records[0] if records else ())
        if all(key in r and form(r[key]) == form(records[0][key]) for r in records)
    ]
