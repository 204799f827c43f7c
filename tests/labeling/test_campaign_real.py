"""Campaigns on real tables, texts and images, where the folder COUNTERPLAY_DATA has them."""

from __future__ import annotations

import os

import pytest

from counterplay.studies.labeling.campaign import STUDY


@pytest.mark.claim("24.10")
@pytest.mark.claim("24.11")
@pytest.mark.skipif("COUNTERPLAY_DATA" not in os.environ, reason="needs the real tables")
@pytest.mark.parametrize(
    ("data", "max_error"), [("adult", 0.2), ("heloc", 0.33), ("sms_spam", 0.05), ("mnist", 0.1)]
)
def test_nobody_is_worse_off_on_real_data(data: str, max_error: float) -> None:
    params = {"data": data, "parties": 2, "items": 200, "max_error": max_error, "noise": 0.0,
              "spare": 1, "flips": 0.0, "replicate": 0}  # fmt: skip
    record = STUDY.cell(params, 0)
    assert record["party_worse"] == record["union_worse"] == 0
    assert sum(int(record[f"{way}_false"] or 0) for way in ("alone", "party", "union")) == 0
    assert int(record["union_certificates"] or 0) >= 1
