"""The audit on real tables at the size of the study; slow, and skipped without local copies."""

from __future__ import annotations

import json

import numpy as np
import pytest

from auditing.bench_tables import real_data
from counterplay.auditing.sections.planted import partition, stacked
from counterplay.studies.auditing import pages, seen
from counterplay.studies.auditing.people import context_of, split, table

pytestmark = [pytest.mark.slow, real_data]


def cell(study, **params):
    record = dict(study._cell({"salt": 0, "seed": 0, **params}, 0))
    print(json.dumps(params), json.dumps(record))
    return record


def test_german_credit_cross_fitted() -> None:
    found = cell(pages, part="cross", data="german_credit", model="LR")
    assert found["money"] > found["best_plain_money"] == 700
    assert found["honest b=0 money"] == pytest.approx(542, abs=60)
    assert found["gain honest calm"] == pytest.approx(368, abs=80)
    assert found["break_even"] == pytest.approx(0.16, abs=0.12)
    assert found["files"] == "cut,hardened"


def test_heloc_cross_fitted_beats_no_plain_rule() -> None:
    found = cell(pages, part="cross", data="heloc", model="LR")
    assert found["no_better"]
    assert found["files"] == ""
    assert found["honest b=0 money"] == pytest.approx(489, abs=40)


def test_heloc_blocks_are_worth_it() -> None:
    found = cell(pages, part="planted", data="heloc", model="LR")
    assert found["chosen"] is not None
    assert found[f"{found['chosen']}@5 accuracy"] >= 0.68


def test_german_boosted_blocks_are_not() -> None:
    found = cell(pages, part="planted", data="german_credit", model="HGB")
    assert found["chosen"] is None


@pytest.mark.parametrize(("blocks", "recall"), [(11, 0.66), (25, 0.66), (51, 0.46)])
def test_certified_recall_of_spam(blocks: int, recall: float) -> None:
    values = [
        cell(pages, part="recall", data="sms_spam", model=f"{blocks} blocks", salt=salt)["recall5"]
        for salt in range(5)
    ]
    assert np.mean(values) == pytest.approx(recall, abs=0.05)


def test_messages_on_one_split() -> None:
    found = cell(pages, part="split", data="sms_spam", model="text")
    assert found["accuracy"] > 0.97
    assert found["without_twins"] is not None


@pytest.mark.parametrize("name", ["german_credit", "heloc"])
def test_seen_trees_are_flagged_and_unseen_rows_are_not(name: str) -> None:
    for seed in range(3):
        for kind in ("HGB", "LR"):
            other = cell(seen, data=name, model=kind, trained="other", seed=seed)
            assert other["verdict"] != "seen"
            here = cell(seen, data=name, model=kind, trained="here", seed=seed)
            assert kind == "LR" or here["verdict"] == "seen"


def test_intervals_cover_on_taiwan() -> None:
    assert cell(seen, data="taiwan", model="LR", trained="coverage")["hits"] >= 185


def test_insertions_flip_no_certified_message() -> None:
    frame, labels = table("sms_spam")
    train, test = split("sms_spam", most=600)
    context = context_of("sms_spam", "text", test, train)
    texts = frame["text"].tolist()
    rows, judged = [texts[i] for i in train], [texts[i] for i in test[:300]]
    guard = partition(context, 11).fit(rows, labels[train])
    before, safe = guard.predict(judged), guard.certify(judged) >= 1
    rng = np.random.default_rng(0)
    for k in range(40):
        i = int(rng.integers(300))
        other = "ham" if labels[test[i]] == "spam" else "spam"
        text = (
            judged[i]
            if k % 2
            else " ".join(rng.permutation(texts[int(rng.integers(len(texts)))].split()))
        )
        again = partition(context, 11).fit(stacked(rows, [text]), np.append(labels[train], other))
        assert (again.predict(judged)[safe] == before[safe]).all()
