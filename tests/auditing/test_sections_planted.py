"""Section planted rows: attacks are real, certificates hold, the constant rule takes part."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB
from sklearn.pipeline import make_pipeline

from auditing.bench_tables import boosted, context_of, linear, people, real_data, run
from auditing.bench_tables import table as real_table
from counterplay.auditing.context import Context
from counterplay.auditing.sections import PlantedSection
from counterplay.auditing.sections.planted import BLOCKS, _bench, partition, stacked
from counterplay.tables import Table


def messages(n: int = 300, seed: int = 0):
    rng = np.random.default_rng(seed)
    good = ["hello", "lunch", "home", "love", "today", "work"]
    bad = ["win", "prize", "free", "cash", "call", "now"]
    both = ["the", "you", "and", "to", "a", "of", "is", "it"]
    y = np.where(rng.random(n) < 0.35, "spam", "ham")
    texts = [
        " ".join(rng.choice(bad if label == "spam" else good, 2)) + " "
        + " ".join(rng.choice([*both, *good, *bad], 4)) + f" {i % 50}"
        for i, label in enumerate(y)
    ]  # fmt: skip
    return texts, y


def text_context(**more) -> Context:
    texts, y = messages()
    model = make_pipeline(TfidfVectorizer(), BernoulliNB())
    return Context(
        table=Table.of(texts), labels=y, positive="ham", estimator=model.fit(texts, y),
        template=model, frame=pd.DataFrame({"text": texts, "label": y}), rows="training", **more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def linear_run():
    frame, y = people(300)
    settings = {"planted": {"rows": [1, 2, 5]}}
    context = context_of(frame[["income", "debt"]], y, LogisticRegression(), rows="training",
                         settings=settings)  # fmt: skip
    return context, run(context, PlantedSection()).results["planted"]


def test_attacks_are_real_and_smallest(linear_run) -> None:
    context, result = linear_run
    bench, model = _bench(context, 0)
    assert len(result.attack) == 12
    assert not bench.decide(model, result.attack["row"].to_numpy()).any()
    row, copies = result.attack[result.attack["copies"] > 1].iloc[0]
    one = np.array([row])
    assert bench.decide(bench.fit(int(row), int(copies)), one).all()
    assert not bench.decide(bench.fit(int(row), int(copies) - 1), one).any()
    assert result.quantities["copies_to_flip"].basis == "found"
    said = next(f.sentence for f in result.findings if f.name == "copies_flip")
    rows = len(result.attack)
    assert re.fullmatch(
        rf"Found: \d+ to \d+ planted copies of a rejected row \(median [\d.]+\) make the model "
        rf"accept it, for \d+ of {rows} rows tried\.",
        said,
    ), said


@pytest.mark.claim("27.13")
def test_recall_of_both_outcomes_is_certified_and_shown_before_accuracy(linear_run) -> None:
    context, result = linear_run
    curve = result.curve
    assert set(curve["blocks"]) == {b for b in BLOCKS if 240 / b >= 20}
    for _, part in curve.groupby("blocks"):
        for name in ("recall_accepted", "recall_rejected", "accuracy"):
            assert (part.sort_values("rows")[name].diff().dropna() <= 1e-12).all()
        assert (part.sort_values("rows")["money"].diff().dropna() >= -1e-9).all()
    share = context.wanted.mean()
    mixed = share * curve["recall_accepted"] + (1 - share) * curve["recall_rejected"]
    assert curve["accuracy"].to_numpy() == pytest.approx(mixed.to_numpy())
    names = [column.name for column in result.tables[0].columns]
    assert names.index("recall of rejected") < names.index("accuracy")


@pytest.mark.claim("27.11")
def test_a_certificate_that_is_a_constant_rule_is_useless() -> None:
    frame, y = people(250)
    context = context_of(frame, y, boosted(min_samples_leaf=20), rows="training")
    result = run(context, PlantedSection()).results["planted"]
    assert result.chosen is None
    finding = next(f for f in result.findings if f.name == "no_certificate")
    assert "no useful certificate at this size" in finding.sentence
    assert result.variants == ()
    assert result.best_plain.value == max(y.mean(), 1 - y.mean())


@pytest.mark.claim("27.11")
def test_an_ensemble_that_beats_the_constant_rule_is_chosen() -> None:
    frame, y = people(900, seed=3)
    settings = {"costs": {}, "planted": {"rows": [1]}}
    context = context_of(frame[["income", "debt"]], y, LogisticRegression(), settings=settings,
                         rows="training")  # fmt: skip
    result = run(context, PlantedSection()).results["planted"]
    assert result.chosen in BLOCKS
    accuracy = result.quantities["certified_accuracy at rows=1"]
    assert accuracy.basis == "certified"
    assert accuracy.value > result.best_plain.value


@pytest.mark.claim("27.11")
@real_data
def test_boosted_blocks_of_german_rows_say_yes_to_everybody() -> None:
    frame = real_table("german_credit").sample(700, random_state=0).reset_index(drop=True)
    X, y = frame.drop(columns="class"), frame["class"]
    context = context_of(X, y, boosted(max_iter=20), rows="training")
    result = run(context, PlantedSection(), plan={"planted.blocks": 2}).results["planted"]
    assert result.chosen is None
    last = result.curve.query("blocks == 25 and rows == 10").iloc[0]
    assert last["recall_accepted"] == 1.0
    assert last["recall_rejected"] == 0.0


@pytest.mark.claim("27.12")
def test_one_inserted_message_flips_no_certified_decision() -> None:
    context = text_context()
    texts, y = context.table.rows, context.labels
    train, test = context.folds.train[0], context.folds.test[0]
    guard = partition(context, 11)
    rows = [texts[i] for i in train]
    guard.fit(rows, y[train])
    judged = [texts[i] for i in test]
    before, radius = guard.predict_certified(judged)
    assert (before == guard.predict(judged)).all()
    assert (radius == guard.certify(judged)).all()
    safe = radius >= 1
    assert 10 < safe.sum() < len(test)
    rng = np.random.default_rng(0)
    changed = 0
    for k in range(16):
        if k % 2:  # a copy of a judged message with the other label
            i = int(rng.integers(len(test)))
            text, label = judged[i], "ham" if y[test[i]] == "spam" else "spam"
        else:
            text = " ".join(rng.choice(["free", "lunch", "the", "win", "you", "prize", "zebra"], 4))
            label = str(rng.choice(["ham", "spam"]))
        again = partition(context, 11).fit(stacked(rows, [text]), np.append(y[train], label))
        after = again.predict(judged)
        changed += int((after != before).any())
        assert (after[safe] == before[safe]).all()
    assert changed  # insertions do something where nothing is certified


def test_text_goes_through_the_whole_section() -> None:
    result = run(text_context(), PlantedSection(), plan={
        "planted.blocks": 1, "planted.attack": 3, "planted.profiles": 5
    }).results["planted"]  # fmt: skip
    assert len(result.attack) == 3
    assert {"changed_by_one_row", "certified_accuracy at blocks=11, rows=5"} <= set(
        result.quantities
    )


def test_sources_have_a_curve_of_their_own() -> None:
    frame, y = people(300)
    whole = frame.assign(account=np.arange(300) // 3)
    settings = {"columns": {"source": "account"}}
    context = context_of(
        frame[["income", "debt"]], y, LogisticRegression(), rows="training", settings=settings,
        whole=whole,
    )  # fmt: skip
    result = run(context, PlantedSection(), plan={"planted.blocks": 2}).results["planted"]
    assert set(result.curve["unit"]) == {"rows", "sources"}


def test_a_model_that_cannot_be_fitted_again_is_said() -> None:
    frame, y = people(120)
    context = context_of(frame, y, linear(), template=None, no_refit="not possible for ONNX")
    (missing,) = PlantedSection().needs(context)
    assert "not possible for ONNX" in missing.sentence
