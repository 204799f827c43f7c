"""Rows and class numbers of a party are read once, through the door."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from counterplay.errors import InvalidInputError
from counterplay.federated import FedAvg, LayeredObjective, LocalParties, Sites, local_work, train
from counterplay.federated.sites import class_numbers, party_rows

NET = LayeredObjective([2, 2])
X = pd.DataFrame({"age": [1.0, 2.0, -1.0], "pulse": [0.5, 0.0, 1.0]}, index=["ann", "bob", "cy"])
Y = [0, 1, 1]


def test_frames_of_other_parties_are_matched_by_name() -> None:
    ends = []
    for other in (X, X[["pulse", "age"]]):
        parties = LocalParties(NET, {"north": (X, Y), "south": (other, Y[::-1])}, threshold=0.0)
        ends.append(train(parties, FedAvg(), step_size=0.1, rounds=5).w.tolist())
    assert ends[0] == ends[1]
    wrong = {"north": (X, Y), "south": (X.rename(columns={"age": "years"}), Y)}
    with pytest.raises(InvalidInputError, match="X of 'south' has no column 'age'"):
        train(LocalParties(NET, wrong, threshold=0.0), FedAvg(), step_size=0.1)


def test_containers_give_the_same_report() -> None:
    reports = [
        local_work(NET, (rows, Y), np.ones(6), step_size=0.1)
        for rows in (X, X.to_numpy(), X.to_numpy().tolist(), X.astype("float32"))
    ]
    assert len({report.loss for report in reports}) == 1
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(X.to_numpy(), requires_grad=True)
    told = local_work(NET, (tensor, torch.tensor(Y)), np.ones(6), step_size=0.1)
    assert told.loss == reports[0].loss


@pytest.mark.parametrize(
    ("y", "text"),
    [
        (["a", "b", "a"], "class numbers .* it contains text; use sklearn's LabelEncoder"),
        ([0, 1, 2], "from 0 to 1, got 2"),
        ([0, 1, -1], "got -1"),
        ([0, 1, 0.5], "got 0.5"),
        ([0, 1, np.nan], "got nan"),
        ([0, 1], r"each of 3 rows, got shape \(2,\)"),
        (None, "class numbers"),
        (pd.Categorical(["a", "b", "a"]), "class numbers"),
        ([0, 1, 10**400], "too large"),
    ],
)
def test_labels_that_are_no_class_numbers_are_refused(y: Any, text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        party_rows(NET, X, y)


def test_class_numbers_in_any_whole_coding() -> None:
    for y in ([0.0, 1.0], [False, True], pd.array([0, 1], dtype="Int64"), [[0], [1]]):
        assert class_numbers(y, 2, 2).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"index": np.array([[[5]]])}, "rows between 0 and 2"),
        ({"index": np.array([[[-1]]])}, "rows between 0 and 2"),
        ({"sizes": np.array([[2]])}, "sizes must be between 1 and 1"),
        ({"sizes": np.array([1])}, "got shapes"),
        ({"y": np.array([0])}, "one class number for each"),
    ],
)
def test_sites_are_checked_before_they_reach_the_engine(change: dict[str, Any], text: str) -> None:
    fields = {
        "X": X.to_numpy(), "y": np.array(Y), "index": np.array([[[0]]]), "sizes": np.array([[1]])
    }  # fmt: skip
    with pytest.raises(InvalidInputError, match=text):
        Sites(**(fields | change))


def test_batches_are_row_numbers() -> None:
    for batches, text in (([[0, 3]], "between 0 and 2"), ([[0], [1]], "each of 1 local steps")):
        with pytest.raises(InvalidInputError, match=text):
            local_work(NET, (X, Y), np.zeros(6), step_size=0.1, batches=batches)
