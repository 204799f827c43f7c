"""Sections symmetry, champion, offers and sites: on small data, and what they say they need."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from auditing.bench_tables import context_of, people, run
from counterplay.auditing.context import Context
from counterplay.auditing.plan import run_plan
from counterplay.auditing.sections import (
    ChampionSection,
    OffersSection,
    SitesSection,
    SymmetrySection,
)
from counterplay.auditing.sections.symmetry import _changed, candidates, numbered_families
from counterplay.tables import Table

TAIWAN = [
    "LIMIT_BAL", "SEX", "AGE", "PAY_0", *(f"PAY_{k}" for k in range(2, 7)),
    *(f"BILL_AMT{k}" for k in range(1, 7)), *(f"PAY_AMT{k}" for k in range(1, 7)),
]  # fmt: skip


def test_months_are_found_by_their_names() -> None:
    families = numbered_families(TAIWAN)
    assert [len(family) for family in families] == [6, 6, 6]
    assert families[0] == ("PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5", "PAY_6")


def months(n: int = 240):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 4)).round(2), columns=["age", "m1", "m2", "m3"])
    y = (frame[["m1", "m2", "m3"]].sum(axis=1) + rng.normal(0, 0.3, n) > 0).to_numpy().astype(int)
    return frame, y


def test_columns_that_may_be_swapped_are_raced_and_suggested() -> None:
    frame, y = months()
    model = DecisionTreeClassifier(max_depth=4, random_state=0)
    context = context_of(frame, y, model, rows="training")
    (one,) = candidates(context)
    assert one.blocks == ((1,), (2,), (3,))
    result = run(context, SymmetrySection()).results["symmetry"]
    name, changed, verdict, _, declared = result.tables[0].rows[0]
    assert changed.value > 0.02  # a tree does not know that months may be swapped
    assert verdict in ("use it", "no difference")
    assert declared == "suggested"
    assert f"symmetry_changed at symmetry={name}" in result.quantities


def test_a_symmetry_that_holds_already_is_one_line() -> None:
    frame, y = months(150)
    model = LogisticRegression().fit(frame, y)
    model.coef_[:, 1:] = 1.0
    result = run(context_of(frame, y, fitted=model, template=None), SymmetrySection())
    (line,) = result.results["symmetry"].tables[0].rows
    assert line[2] == "holds already"
    assert result.results["symmetry"].figures == ()


def test_changes_of_texts_that_a_vectoriser_ignores_hold_already() -> None:
    rng = np.random.default_rng(0)
    words = ["WIN", "prize", "Lunch,", "home", "call", "7", "now!"]
    texts = [" ".join(rng.choice(words, 5)) for _ in range(120)]
    y = np.array(["spam" if "WIN" in t else "ham" for t in texts])
    model = make_pipeline(CountVectorizer(), MultinomialNB())
    context = Context(
        table=Table.of(texts), labels=y, positive="ham", estimator=model.fit(texts, y),
        template=model, frame=pd.DataFrame({"text": texts}), rows="training",
    )  # fmt: skip
    result = run(context, SymmetrySection()).results["symmetry"]
    verdicts = {line[0]: line[2] for line in result.tables[0].rows}
    for name in ("case", "white space", "punctuation", "order of the words"):
        assert verdicts[name] == "holds already"


def test_a_guard_is_replayed_on_a_log(tmp_path) -> None:
    rng = np.random.default_rng(0)
    rows = [
        {"time": t, "model": m, "primary": p * rng.random(), "harm": h}
        for t in range(200)
        for m, p, h in (("old", 0.6, 0.05), ("new", 0.4, 0.4))
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "log.csv", index=False)
    frame, y = people(120)
    settings = {"champion": {"file": str(tmp_path / "log.csv"), "budget": 0.1}}
    context = context_of(frame, y, settings=settings)
    result = run(context, ChampionSection()).results["champion"]
    table = result.to_frame().set_index("model")
    assert table.loc["new", "primary loss"] < table.loc["old", "primary loss"]
    assert table.loc["new", "harm"] == pytest.approx(0.4)
    assert 0.05 < result.quantities["guard_harm"].value < 0.39  # the harmful one is taken down
    assert ChampionSection().needs(context_of(frame, y))[0].key == "[champion] file"


def test_a_log_with_another_column_is_said(tmp_path) -> None:
    pd.DataFrame({"tme": [1], "model": ["a"]}).to_csv(tmp_path / "log.csv", index=False)
    frame, y = people(120)
    settings = {"champion": {"file": str(tmp_path / "log.csv")}}
    found = run_plan(context_of(frame, y, settings=settings), sections=[ChampionSection()])
    assert "no column 'time' (nearest: 'tme')" in found.failed["champion"]


def test_the_next_offer_comes_with_its_promise(tmp_path) -> None:
    rng = np.random.default_rng(25)
    share = np.repeat([0.1, 0.25, 0.4, 0.6], 40)
    level = np.select([share < 0.2, share < 0.5], [100.0, 400.0], 700.0)
    log = pd.DataFrame({"offer": share, "outcome": level * rng.lognormal(-0.05, 0.3, share.size)})
    log.to_csv(tmp_path / "offers.csv", index=False)
    frame, y = people(120)
    settings = {"offers": {"file": str(tmp_path / "offers.csv")}}
    result = run(context_of(frame, y, settings=settings), OffersSection()).results["offers"]
    assert result.findings[0].name == "next_offer"
    assert 0 < result.quantities["next_offer_promise"].value < 320
    assert len(result.tables[0].rows) == 4


def test_sections_without_inputs_say_what_they_need() -> None:
    frame, y = people(120)
    context = context_of(frame.drop(columns="debt"), y)
    for section in (SymmetrySection(), SitesSection(), ChampionSection(), OffersSection()):
        (missing,) = section.needs(context)
        assert missing.sentence.endswith(".")
    small = frame.assign(home=[f"site {i}" for i in range(len(frame))])
    named = context_of(small, y, settings={"sites": {"column": "home"}})
    (missing,) = SitesSection().needs(named)
    assert "Fewer than two sites" in missing.sentence


def test_sites_are_planned_with_the_model_itself() -> None:
    frame, y = people(300)
    home = np.where(np.arange(300) < 180, "north", np.where(np.arange(300) < 290, "south", "tiny"))
    context = context_of(frame.assign(home=home), y, settings={"sites": {"column": "home"}})
    result = run(context, SitesSection()).results["sites"]
    (table,) = result.tables
    rows = {row[0]: row for row in table.rows}
    assert set(rows) == {"north", "south"}  # ten rows cannot be held out
    assert [rows[name][1] for name in ("north", "south")] == [180, 110]
    assert all(0 <= row[2] <= row[1] for row in table.rows)
    assert any("10 rows" in line for line in result.lead)
    assert result.quantities["rows_against_interest"].value >= 0
    assert result.findings[0].name == "site_plan"


@pytest.mark.parametrize("scale_free", [True, False])
def test_the_unit_of_columns_is_a_candidate(scale_free: bool) -> None:
    rng = np.random.default_rng(0)
    size = np.exp(rng.normal(0, 2, 400))
    share = rng.random(400)
    frame = pd.DataFrame({"loan_amount": size, "income": size * share, "age": rng.normal(size=400)})
    score = share - 0.5 if scale_free else np.log(size)
    y = (score + 0.1 * rng.normal(size=400) > 0).astype(int)
    model = DecisionTreeClassifier(max_depth=3, random_state=0)
    context = context_of(frame, y, model, rows="training", settings={"data": {}})
    (found,) = candidates(context)
    assert found.unit == ("loan_amount", "income")
    assert not found.declared
    result = run(context, SymmetrySection()).results["symmetry"]
    line = result.tables[0].rows[0]
    assert line[0] == "the unit of loan_amount, income"
    assert line[1].value > 0.05  # decisions depend on the unit, whatever the truth
    assert line[2] == ("use it" if scale_free else "do not use it")


def test_special_codes_have_no_unit() -> None:
    frame = pd.DataFrame({"debt": [-9.0, 2.0] * 60, "income": [4.0, -8.0] * 60})
    y = np.arange(120) % 3 % 2
    settings = {
        "data": {"special_codes": {"*": [-9, -8]}}, "symmetry": {"units": [["debt", "income"]]}
    }  # fmt: skip
    context = context_of(frame, y, DecisionTreeClassifier(), settings=settings)
    (found,) = candidates(context)
    assert found.declared
    half, twice = (table.frame() for table in _changed(context, found))
    assert half.iloc[0].tolist() == [-9.0, 2.0]
    assert twice.iloc[1].tolist() == [4.0, -8.0]
