"""Section honest: rows that were seen, twins, plain rules, any coding of outcomes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from auditing.bench_tables import boosted, context_of, linear, people, real_data, run
from auditing.bench_tables import table as real_table
from counterplay.auditing.context import Context
from counterplay.auditing.sections import HonestSection
from counterplay.auditing.sections.honest import auc_of
from counterplay.auditing.sections.seen import SeenTest
from counterplay.tables import Table


def honest(context):
    return run(context, HonestSection()).results["honest"]


@pytest.mark.claim("27.08")
def test_boosted_trees_that_saw_the_rows_are_found_and_unseen_rows_are_not() -> None:
    frame, y = people(300)
    model = boosted(max_iter=60, min_samples_leaf=5)
    seen = honest(context_of(frame, y, model))
    assert seen.seen.verdict == "seen"
    assert seen.cross_fitted
    finding = seen.findings[0]
    assert finding.severity == "blocking"
    assert "look as if the model was trained on them" in finding.sentence
    assert seen.accuracy.value < 0.85  # the headline is that of clones
    other = model.fit(*people(300, seed=4))
    unseen = honest(context_of(frame, y, model, fitted=other))
    assert unseen.seen.verdict == "not seen"
    assert not unseen.cross_fitted
    assert "no proof, linear models often pass" in " ".join(unseen.lead)
    assert "had not been fitted on" not in " ".join(unseen.lead)  # nobody knows
    assert "Clones fitted on the other folds reach" in unseen.lead[0]


@pytest.mark.claim("27.08")
@pytest.mark.parametrize(
    ("model_only", "clone_only", "learned", "verdict"),
    [
        (60, 5, 0.12, "seen"),
        (60, 5, 0.4, "question"),  # trained on more rows: the clone is the weaker model
        (30, 22, 0.02, "not seen"),  # p is large
        (12, 0, 0.5, "not seen"),  # the gap is small
        (15, 0, 0.02, "question"),  # small, but as large as that of a clone that has seen them
        (0, 0, 0.0, "not seen"),
    ],
)
def test_the_three_numbers_of_the_test(model_only, clone_only, learned, verdict) -> None:
    n = 500 if model_only > 50 else 1000
    assert SeenTest.of(model_only, clone_only, n, learned).verdict == verdict


@pytest.mark.claim("27.08")
@real_data
def test_german_rows_seen_by_trees_are_flagged() -> None:
    frame = real_table("german_credit").sample(500, random_state=1).reset_index(drop=True)
    X, y = frame.drop(columns="class"), frame["class"]
    result = honest(context_of(X, y, boosted()))
    assert result.seen.verdict == "seen"
    assert result.seen.p_value < 1e-10


def test_heldout_rows_show_the_given_model_itself() -> None:
    frame, y = people(200, seed=1)
    model = linear().fit(*people(300))
    result = honest(context_of(frame, y, fitted=model, rows="heldout"))
    assert result.accuracy.value == model.score(frame, y)
    assert result.accuracy.basis == "measured"
    assert result.seen is None
    wrong = model.predict(frame) != y
    cost = np.where(y == 1, 1.0, 5.0) * wrong
    assert result.money.value == pytest.approx(1000 * cost.mean())
    assert result.best_plain.value == max(y.mean(), 1 - y.mean())
    assert result.auc.value == pytest.approx(roc_auc_score(y, model.decision_function(frame)))


def test_a_model_that_cannot_be_fitted_again_is_not_checked() -> None:
    frame, y = people(150)
    context = context_of(frame, y, template=None, no_refit="an ONNX model cannot be fitted again")
    result = honest(context)
    assert result.seen is None
    assert "cannot be checked: an ONNX model" in " ".join(result.lead)


@pytest.mark.parametrize("refit", [True, False])
def test_rows_of_the_training_without_clones_are_called_in_sample(refit: bool) -> None:
    frame, y = people(150)
    more = {} if refit else {"template": None, "no_refit": "an ONNX model cannot be fitted again"}
    context = context_of(frame, y, rows="training", **more)
    found = run(context, HonestSection(), plan={"honest.rows": 150, "honest.twins": 1})
    result = found.results["honest"]
    finding = next(f for f in result.findings if f.severity == "blocking")
    why = "there was no time for clones" if refit else "an ONNX model cannot be fitted again"
    assert why in finding.sentence
    assert "in sample, too good" in result.lead[0]
    assert "had not been fitted on" not in " ".join(result.lead)
    assert not result.cross_fitted


def test_words_as_outcomes_and_missing_values() -> None:
    frame, y = people(200)
    frame.loc[::7, "home"] = None
    words = np.where(y == 1, "good", "bad")
    result = honest(context_of(frame, words, positive="good", rows="training"))
    assert 0.6 < result.accuracy.value < 1
    assert "29 cells in 1 columns are missing (most in home" in " ".join(result.lead)


@pytest.mark.claim("27.27")
def test_rows_that_occur_twice_are_counted_and_left_out() -> None:
    frame, y = people(200)
    twice = pd.concat([frame, frame.iloc[:30]], ignore_index=True)
    labels = np.r_[y, y[:30]]
    result = honest(context_of(twice, labels, boosted(max_iter=30), rows="training"))
    finding = next(f for f in result.findings if f.name == "duplicates")
    assert finding.quantity.value == 30
    assert "30 rows repeat an earlier one" in finding.sentence
    assert "Without them accuracy is" in finding.sentence
    train = Table.of(frame.iloc[:100]), y[:100]
    test = context_of(
        frame.iloc[60:].reset_index(drop=True), y[60:], rows="heldout", train=train,
        fitted=linear().fit(frame.iloc[:100], y[:100]),
    )  # fmt: skip
    finding = next(f for f in honest(test).findings if f.name == "duplicates")
    assert "40 rows also occur among the rows that their judge was fitted on" in finding.sentence


@pytest.mark.claim("27.27")
@real_data
def test_messages_repeat_403_times() -> None:
    frame = real_table("sms_spam")
    y = frame["label"].to_numpy()
    model = make_pipeline(TfidfVectorizer(), LogisticRegression())
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[1000:], order[:1000]
    texts = frame["text"].tolist()
    model.fit([texts[i] for i in train], y[train])

    def context(some, **more) -> Context:
        return Context(
            table=Table.of([texts[i] for i in some]), labels=y[some], positive="ham",
            estimator=model, template=model, frame=frame.iloc[some].reset_index(drop=True), **more
        )  # fmt: skip

    whole = context(np.arange(len(y)), rows="heldout")
    records = HonestSection().stages(whole)[1].run(whole, np.array([0]))
    assert sum(record["twice"] for record in records) == 403
    part = context(test, rows="heldout", train=(Table.of([texts[i] for i in train]), y[train]))
    finding = next(f for f in honest(part).findings if f.name == "duplicates")
    assert "rows also occur among the rows that their judge was fitted on" in finding.sentence


def test_the_area_under_the_curve_has_the_interval_of_delong() -> None:
    rng = np.random.default_rng(0)
    wanted = rng.random(400) < 0.4
    scores = rng.normal(wanted, 1.0)
    found = auc_of(scores, wanted)
    assert found.value == pytest.approx(roc_auc_score(wanted, scores))
    draws = []
    for _ in range(300):
        rows = rng.integers(0, 400, 400)
        draws.append(roc_auc_score(wanted[rows], scores[rows]))
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * np.std(draws), rel=0.15)
    assert auc_of(np.ones(10), np.arange(10) < 5) is None
