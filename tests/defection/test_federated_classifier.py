"""The classifier is an estimator like any other."""

from __future__ import annotations

import pytest
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.utils.estimator_checks import check_estimator

from counterplay.defection import FederatedClassifier
from counterplay.errors import InvalidInputError
from defection.problems import table


def test_classifier_follows_the_contract() -> None:
    check_estimator(
        FederatedClassifier(rounds=60, random_state=0),
        expected_failed_checks={"check_dtype_object": "refused with an error of ours"},
    )


def test_classifier_in_a_search_with_groups() -> None:
    frame = table()
    X, y = frame[list("abcd")], frame["label"]
    model = FederatedClassifier(rounds=50, random_state=0).fit(X, y, groups=frame["site"])
    assert model.score(X, y) > 0.8
    assert model.defect_round_ == {}
    plain = FederatedClassifier(rule="fedavg", step_size=1.0, threshold=0.3, random_state=0)
    assert plain.fit(X, y, groups=frame["site"]).defect_round_
    search = GridSearchCV(plain, {"threshold": [0.3, 0.5]}, cv=GroupKFold(2))
    search.fit(X, y, groups=frame["site"])
    assert set(search.predict(X)) <= {"sick", "well"}


def test_columns_are_matched_by_name_and_text_is_refused_at_once() -> None:
    frame = table()
    X, y = frame[list("abcd")], frame["label"]
    model = FederatedClassifier(rounds=20, random_state=0).fit(X, y, groups=frame["site"])
    assert (model.decision_function(X[list("dbca")]) == model.decision_function(X)).all()
    with pytest.raises(InvalidInputError, match="X has no column 'b'"):
        model.predict(X.rename(columns={"b": "blood"}))
    with pytest.raises(InvalidInputError, match="column 'site' of X holds text"):
        model.fit(frame.drop(columns="label"), y)
    with pytest.raises(InvalidInputError, match="scale the columns"):
        model.fit(X * 1e150, y)
    with pytest.raises(InvalidInputError, match="rule must be text, got 3"):
        FederatedClassifier(rule=3).fit(X, y)  # type: ignore[arg-type]
