"""The poisoning report on real pipelines: honest errors, attacks that are monotone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from counterplay.errors import InvalidInputError
from counterplay.poisoning import PartitionClassifier, poisoning_report
from counterplay.poisoning.lab import PoisoningReport


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return X[:160], y[:160]


PIPE = make_pipeline(StandardScaler(), LogisticRegression())
FAST = make_pipeline(StandardScaler(), GaussianNB())


@pytest.mark.claim("10.41")
@pytest.mark.claim("21.33")
def test_the_poison_flips_and_errors_are_against_the_given_labels() -> None:
    X, y = cancer()
    report = poisoning_report(PIPE, X, y, budget=3, effort=8, n_test=10, random_state=1)
    train = np.setdiff1d(np.arange(160), _held(160, 1))
    model = PIPE.fit(X[train], y[train])
    wrong = model.predict(X[report.rows]) != y[report.rows]
    assert report.error == wrong.mean()
    assert report.attacked(3) > report.error  # wrong labels do flip decisions here
    for row in report.exposed():
        places, labels = report.poison_for(int(row))
        assert 0 < len(places) <= 3
        again = PIPE.fit(X[[*train, *places]], [*y[train], *labels])
        assert again.predict(X[[row]])[0] != y[row]


def _held(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(n)[: n // 4]


@pytest.mark.claim("21.33")
def test_attacks_are_monotone_in_budget_effort_and_kinds() -> None:
    X, y = cancer()

    def rates(**given):
        report = poisoning_report(FAST, X, y, budget=2, n_test=6, random_state=0, **given)
        return [report.attacked(t) for t in range(3)]

    one = rates(effort=6, attacks=("true_rows",))
    both = rates(effort=6)
    more, most = rates(effort=12), rates(effort=24)
    for found in (one, both, more, most):
        assert found == sorted(found)
    assert all(a <= b <= c <= d for a, b, c, d in zip(one, both, more, most))
    assert most[2] > most[0]
    assert rates(effort=6, n_jobs=2) == both


@pytest.mark.claim("21.33")
def test_no_bar_for_a_certificate_that_is_not_there() -> None:
    X, y = cancer()
    report = poisoning_report(PIPE, X, y, budget=1, effort=2, n_test=4, random_state=0)
    assert "no certificate" in report.summary()
    assert "wrong, best found, 1 row added" in report.summary()
    assert "1 row added; error" in report.summary().splitlines()[-1]
    words = [tick.get_text() for tick in report.plot().get_xticklabels()]
    assert "not certified" not in words


@pytest.mark.claim("10.41")
def test_report_certifies_a_guarded_model_with_many_classes() -> None:
    X, y = load_digits(return_X_y=True)
    guard = PartitionClassifier(KNeighborsClassifier(1), 15)
    report = poisoning_report(guard, X[:300], y[:300], budget=2, effort=2, n_test=6, random_state=0)
    assert report.has_certificate
    assert not (report.certified & (report.margins < 0)).any()
    assert report.attackable_upper < 1


@pytest.mark.claim("21.32")
def test_a_report_that_contradicts_itself_is_refused() -> None:
    yes, no = np.ones((1, 2), bool), np.zeros((1, 2), bool)
    with pytest.raises(InvalidInputError, match="does not hold"):
        PoisoningReport(
            np.array([0]), (0,), np.array([[0.5, -1.0]]), yes, no, True, ((((), ()),) * 2,), 1, "x"
        )


def test_a_frame_with_words_keeps_its_row_names() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.iloc[:80, :3].set_axis([f"patient {i}" for i in range(80)])
    words = np.where(y[:80] == 1, "benign", "malignant")
    report = poisoning_report(PIPE, X, words, budget=1, effort=1, n_test=5, random_state=0)
    assert set(report.to_frame().index) <= set(X.index)
    with pytest.raises(InvalidInputError, match="all labels are equal"):
        poisoning_report(PIPE, X, ["benign"] * 80, n_test=5)


def test_sources_are_held_out_whole() -> None:
    X, y = cancer()
    owners = np.arange(160) // 4
    report = poisoning_report(
        PIPE, X, y, sources=owners, budget=1, effort=1, n_test=40, random_state=0
    )
    held = np.unique(owners[report.rows])
    assert np.isin(owners, held).sum() == len(report.rows) == 40


def test_a_labeler_adds_rows_across_its_boundary_and_they_flip() -> None:
    X, y = cancer()
    teacher, near = PIPE.fit(X, y), make_pipeline(StandardScaler(), KNeighborsClassifier(1))
    given = {"budget": 2, "effort": 4, "n_test": 12, "random_state": 0, "attacks": ("true_rows",)}
    plain = poisoning_report(near, X, y, **given)
    more = poisoning_report(near, X, y, labeler=teacher.predict, **given)
    assert all(plain.attacked(t) <= more.attacked(t) for t in range(3))
    train = np.setdiff1d(np.arange(160), _held(160, 0))
    made = 0
    for row in more.exposed():
        rows = more.made_for(int(row))
        places, labels = more.poison_for(int(row))
        assert (places == -1).sum() == len(rows)
        if not len(rows):
            continue
        made += len(rows)
        assert (labels == teacher.predict(rows)).all()
        again = clone(near)
        again.fit(np.vstack([X[train], rows]), [*y[train], *labels])
        assert again.predict(X[[row]])[0] != y[row]
    assert made > 0
    frame = pd.DataFrame({"a": ["x", "y"] * 20})
    with pytest.raises(InvalidInputError, match="table of numbers"):
        poisoning_report(near, frame, np.arange(40) % 2, labeler=teacher.predict)


def test_a_time_limit_leaves_rows_out_and_says_so() -> None:
    X, y = cancer()
    given = {"budget": 2, "effort": 4, "n_test": 8, "random_state": 0}
    short = poisoning_report(PIPE, X, y, time_limit=0, **given)
    whole = poisoning_report(PIPE, X, y, time_limit=None, **given)
    assert len(short.rows) == 1
    assert short.skipped == 7
    assert "7 more rows were not attacked" in short.summary()
    assert set(short.rows) <= set(whole.rows)
    assert whole.skipped == 0


def test_a_guarded_pipeline_is_attacked_with_its_sources() -> None:
    X, y = cancer()
    guard = PartitionClassifier(KNeighborsClassifier(1), 9)
    report = poisoning_report(
        guard, X, y, sources=np.arange(160) // 4, budget=2, effort=4, n_test=6, random_state=0
    )
    assert report.has_certificate
    assert not (report.certified & (report.margins < 0)).any()
