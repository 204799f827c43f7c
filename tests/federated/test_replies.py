"""What parties send is checked before anything is averaged."""

from __future__ import annotations

from typing import Any

import pytest

from counterplay.errors import InvalidInputError
from counterplay.federated.replies import check_rows_sent, common_metrics


@pytest.mark.parametrize("rows", [1, 20, 20.0, 2**53])
def test_whole_numbers_of_rows_are_accepted(rows: float) -> None:
    assert check_rows_sent({"n": rows}, "n") == rows


@pytest.mark.parametrize("rows", [0, -1, 1.5, float("nan"), float("inf"), [3], "3", None, True])
def test_other_numbers_of_rows_are_refused_by_name(rows: Any) -> None:
    with pytest.raises(InvalidInputError, match="rows sent"):
        check_rows_sent({"rows sent": rows}, "rows sent")
    with pytest.raises(InvalidInputError, match="no metric 'rows'"):
        check_rows_sent({}, "rows")


def test_only_metrics_of_one_form_are_common() -> None:
    records: list[dict[str, Any]] = [
        {"a": 1.0, "b": [1.0, 2.0], "c": 1.0, "d": [1.0]},
        {"d": [1.0, 2.0], "c": [1.0], "b": [3.0, 4.0], "a": 2.0, "e": 0.0},
    ]
    assert common_metrics(records) == ["a", "b"]
    assert common_metrics(records[:1]) == ["a", "b", "c", "d"]
    assert common_metrics([]) == []
