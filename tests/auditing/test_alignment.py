"""The same people give the same numbers, however their table is written."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import counterplay
from auditing.toy_section import toy_context
from counterplay.auditing.workers import workers_of
from counterplay.errors import InvalidInputError

SMALL: dict[str, Any] = {"sections": ["honest", "gaming"], "time_budget": 3600.0}


@pytest.mark.claim("27.05")
def test_the_order_of_columns_and_extra_ones_change_nothing(
    loans: pd.DataFrame, loan_model: Any, settings: dict[str, Any]
) -> None:
    rng = np.random.default_rng(0)
    settings["effort"] = {"budgets": [1]}
    found = counterplay.audit(loan_model, loans, config=settings, **SMALL)
    other = loans[rng.permutation(loans.columns)].assign(colour="red", extra=range(len(loans)))
    again = counterplay.audit(loan_model, other, config=settings, **SMALL)
    assert again.record.content_sha256 == found.record.content_sha256
    assert any("colour" in note for note in again.record.making.notes)
    assert not any("left out" in note for note in found.record.making.notes)
    renamed = loans.rename(columns={"income": "incme"})
    with pytest.raises(InvalidInputError) as told:
        counterplay.audit(loan_model, renamed, config=settings, **SMALL)
    assert str(told.value) == (
        "The model needs 'income'; the table has no such column (nearest: 'incme')."
    )


@pytest.mark.claim("27.06")
def test_categories_nullable_numbers_and_holes_run_through_every_section(
    loans: pd.DataFrame, loan_model: Any, settings: dict[str, Any]
) -> None:
    loans, settings["effort"] = loans.iloc[:110], {"budgets": [1]}
    frame = loans.assign(
        purpose=loans["purpose"].astype("category"),
        late=loans["late"].astype("Int64").mask(loans.index % 17 == 0),
        sex=loans["sex"].astype(object).mask(loans.index % 23 == 0, None),
    )
    X = frame.drop(columns="outcome")
    model = clone(loan_model).fit(X, frame["outcome"])
    found = counterplay.audit(model, frame, config=settings, time_budget=3600.0)
    assert not any(section.failed for section in found.record.absent), found.summary()
    assert {"honest", "gaming", "planted"} <= set(found.sections)


REAL = {
    "german_credit": ("class", 1, {"duration_months": "down"}),
    "adult_census_train": ("income", ">50K", {"hours_per_week": "up"}),
    "give_me_some_credit_30k": ("SeriousDlqin2yrs", 0, {"MonthlyIncome": "up"}),
}


@pytest.mark.claim("27.06")
@pytest.mark.parametrize("name", REAL)
def test_real_tables_run_through_every_section(name: str, real: Any) -> None:
    label, positive, movable = REAL[name]
    frame = real(name).iloc[:300]
    config = {
        "movable": {
            column: {"direction": way, "step": 3.0, "cost": 0.5, "per": "step"}
            for column, way in movable.items()
        },
        "effort": {"budgets": [1]},
    }
    found = counterplay.audit(
        None, frame, label=label, positive=positive, config=config, time_budget=3600.0
    )
    assert not any(section.failed for section in found.record.absent), found.summary()
    assert {"honest", "gaming", "planted"} <= set(found.sections)
    if name == "adult_census_train":
        assert (frame == "?").to_numpy().any() or frame.isna().to_numpy().any()


def flipped(frame: pd.DataFrame, label: str) -> pd.DataFrame:
    return frame.assign(**{label: 1 - frame[label]})


def same_numbers(frame: pd.DataFrame, label: str, movable: str) -> None:
    """Audit a 0/1 label as it is and flipped; compare every number."""
    config = {
        "data": {"rows": "heldout"},
        "movable": {movable: {"direction": "down", "step": 1.0, "cost": 0.5, "per": "step"}},
        "effort": {"budgets": [1]},
        "costs": {"false_accept": 5, "false_reject": 1},
    }
    found = []
    half = len(frame) // 2
    for table, positive in ((frame, 0), (flipped(frame, label), 1)):
        train, test = table.iloc[:half], table.iloc[half:]
        model = make_pipeline(StandardScaler(), LogisticRegression())
        model.fit(train.drop(columns=label), train[label])
        audit = counterplay.audit(
            model, test, label=label, positive=positive, config=config, **SMALL
        )
        found.append(audit.to_frame())
    pd.testing.assert_frame_equal(found[0], found[1], rtol=1e-9)
    assert len(found[0]) > 10


@pytest.mark.claim("27.07")
def test_a_flipped_label_gives_the_same_numbers(loans: pd.DataFrame) -> None:
    numbers = loans[["debt", "late"]].assign(bad=(loans["outcome"] == "lost").astype(int))
    same_numbers(numbers, "bad", "debt")


@pytest.mark.claim("27.07")
def test_heloc_as_shipped_and_flipped(real: Any) -> None:
    frame = real("heloc_fico").sample(600, random_state=0).reset_index(drop=True)
    same_numbers(frame, "RiskPerformance", "NumInqLast6M")


@pytest.mark.parametrize("wanted", [np.array([1 + 1j, 2]), pd.DataFrame({"a": [1]}), [[1], 2], {}])
def test_the_wanted_outcome_is_a_value_or_several(wanted: Any, loans: pd.DataFrame) -> None:
    with pytest.raises(InvalidInputError, match="positive must be an outcome or a list of them"):
        counterplay.audit(None, loans, label="outcome", positive=wanted)


def test_no_more_workers_than_cores() -> None:
    cores = os.cpu_count()
    for asked, given in ((1, 1), (0, 1), (1000, cores), (-1, cores)):
        assert workers_of(toy_context(jobs=asked)) == given
