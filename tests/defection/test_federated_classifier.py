"""The classifier is an estimator like any other."""

from __future__ import annotations

from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.utils.estimator_checks import check_estimator

from counterplay.defection import FederatedClassifier
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
