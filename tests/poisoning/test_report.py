"""The poisoning report on real pipelines."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from counterplay.poisoning import (
    PartitionClassifier,
    poisoning_report,
)


@pytest.mark.claim("10.41")
def test_report_on_real_pipelines() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[:160], y[:160]
    pipe = SVC(kernel="linear", C=1e4)
    report = poisoning_report(pipe, X, y, budget=1, n_test=30, random_state=1)
    assert report.error <= report.attackable_lower <= report.attackable_upper
    assert report.attackable_lower > report.error  # one true row does flip decisions here
    again = poisoning_report(pipe, X, y, budget=1, n_test=30, random_state=1)
    assert np.array_equal(again.flipped, report.flipped)
    teacher = clone(pipe).fit(X, y)
    for poison, labels in zip(report.poison, report.poison_labels):
        assert len(poison) <= 1
        if len(poison):
            assert np.array_equal(teacher.predict(poison), labels)
    assert "real attack" in report.summary()
    assert len(report.exposed()) == int((report.flipped & report.clean_correct).sum())


@pytest.mark.claim("10.41")
def test_report_certifies_a_guarded_model_with_many_classes() -> None:
    X, y = load_digits(return_X_y=True)
    guard = PartitionClassifier(KNeighborsClassifier(1), 15)
    report = poisoning_report(guard, X[:300], y[:300], budget=2, n_test=8, random_state=0,
                              labeler=KNeighborsClassifier(1).fit(X, y))  # fmt: skip
    assert not (report.certified & report.flipped).any()
    assert report.attackable_upper < 1
    assert report.teacher_agreement == 1
