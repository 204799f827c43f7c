"""The graph studies: enough seeds behind every point, and the lender's pictures tell the truth."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from counterplay.core.stats import Interval
from counterplay.strategic import bounds
from counterplay.studies.strategic import AREA, sample_complexity
from counterplay.studies.strategic.constants import CONSTANTS
from counterplay.studies.strategic.graphs.lender import LENDER, applicants

GRAPH_STUDIES = [study for study in AREA.studies if study.name.startswith("graph-")]


@pytest.mark.parametrize("study", GRAPH_STUDIES, ids=lambda study: study.name)
def test_random_points_have_twenty_seeds_at_full_scale(study) -> None:
    rows = study.grid("full")
    points = Counter(
        tuple(value for key, value in row.items() if key != "replicate") for row in rows
    )
    assert rows
    assert all(count == 1 or count >= 20 for count in points.values())
    # one replicate: adversaries without chance, so that the seed must not matter
    single = [
        row
        for row in rows
        if points[tuple(v for k, v in row.items() if k != "replicate")] == 1
        and int(row.get("r") or 0) <= 8
        and int(row.get("size") or 0) <= 16
        and int(row.get("blocks") or 0) <= 100
    ]
    for row in single[:: max(1, len(single) // 6)]:
        assert study.cell(row, 1) == study.cell(row, 2), row


def test_arrows_are_the_people_who_move_by_affordable_actions() -> None:
    record = LENDER.cell({"data": "breast_cancer", "replicate": 0}, 7)
    people = applicants("breast_cancer")
    size = round(0.4 * len(people.y))
    steps = {(0, 0), (-1, 0), (-2, 0), (0, -2), (0, -4), (-1, -2)}  # radius and texture, budget 2
    for name in ("naive", "strategic"):
        moves = np.array(json.loads(str(record[f"{name}_arrows"]))).reshape(-1, 5)
        assert len(moves) / size == pytest.approx(record[f"{name}_movers"])
        taken = {tuple(step) for step in (moves[:, 2:4] - moves[:, :2]).round().tolist()}
        assert taken <= steps
        assert len(taken) > 2
    assert LENDER.cell({"data": "breast_cancer", "replicate": 1}, 7)["naive_arrows"] == ""


@pytest.mark.claim("03.05")
def test_four_moves_need_few_more_labels_than_one() -> None:
    records = [LENDER.cell({"data": "breast_cancer", "replicate": i}, i) for i in range(3)]
    frame = pd.DataFrame(records).assign(data="breast_cancer", replicate=range(3))
    trained, labels = LENDER.verdicts(frame)
    assert trained.holds
    assert labels.holds
    few, many = (bounds.pac_T_agnostic(6, k, 0.1, 0.05) for k in (1, 4))
    assert f"{many - few:,} more" in labels.measured
    names = [ax.get_title() for ax in LENDER.figures["movers"](frame).axes]
    assert names == [
        "Accepted by moving, logistic regression",
        "Accepted by moving, StrategicLinearClassifier",
    ]


def test_breaking_a_constant_means_to_exceed_it() -> None:
    five = bounds.union_sampling_constant("refined")
    rows = [("powers", 1.0), ("one", five)]
    frame = pd.DataFrame(rows, columns=["levels", "constant"])
    frame = frame.assign(population="sparse 1 %, negative")
    assert not CONSTANTS.verdicts(frame)[1].holds
    frame.loc[1, "constant"] = np.nextafter(five, 9)
    assert CONSTANTS.verdicts(frame)[1].holds


def test_a_small_power_is_smaller_than_the_limit(monkeypatch) -> None:
    for exponent, holds in ((0.6, False), (np.nextafter(0.6, 0), True)):
        found = Interval(exponent, exponent, exponent)
        monkeypatch.setattr(sample_complexity, "_slope", lambda *_, found=found: found)
        monkeypatch.setattr(sample_complexity, "needed", lambda *_: ([1.0, 2.0], [1.0, 2.0]))
        assert sample_complexity._verdicts(pd.DataFrame())[0].holds == holds
