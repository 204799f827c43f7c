"""Contributors on real tables; skipped where the tables are not there."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

from counterplay.poisoning import PartitionClassifier
from counterplay.studies.poisoning.sources.cells import cell
from counterplay.studies.poisoning.sources.data import available, sent

pytestmark = [
    pytest.mark.skipif(not available(), reason="COUNTERPLAY_DATA does not name the SMS messages"),
    pytest.mark.filterwarnings("ignore::counterplay.errors.CounterplayWarning"),
]


@pytest.mark.claim("21.05")
def test_one_message_changes_one_block_of_the_spam_filter() -> None:
    data = sent("sms", 0)
    guard = PartitionClassifier(
        make_pipeline(TfidfVectorizer(), MultinomialNB(alpha=0.1)), 25, check=False
    )
    train, y = data.rows(data.train), data.y[data.train]
    test, truth = data.rows(data.test), data.y[data.test]
    guard.fit(train, y)
    assert guard.score(test, truth) > 0.94
    words = "win free prize cash call now urgent claim " * 40
    again = clone(guard).fit([*train, words], [*y, "ham"])
    assert (again.partition_sizes_ != guard.partition_sizes_).sum() == 1
    assert (again.votes(test) != guard.votes(test)).any(axis=1).sum() <= 1
    flipped = again.predict(test) != guard.predict(test)
    assert not (flipped & (guard.certify(test) >= 1)).any()


@pytest.mark.claim("21.10")
@pytest.mark.claim("21.18")
def test_accounts_and_thresholds_on_sms_spam() -> None:
    gains = []
    for split in (0, 1):
        record = cell({"part": "table", "data": "sms", "by": "source", "split": split}, 0)
        gains += [record[f"chosen_5_{j}"] - record[f"majority_5_{j}"] for j in (0, 1)]
        assert record["at_3"] >= 0.92
        curve = json.loads(record["curve"])
        assert (np.diff(curve) <= 0).all()
    rows = cell({"part": "table", "data": "sms", "by": "row", "split": 0}, 0)
    assert len(json.loads(rows["curve"])) <= 60  # nothing is certified at 60 rows
    assert min(gains) >= 0
    assert np.mean(gains) >= 0.06


@pytest.mark.slow
@pytest.mark.claim("21.04")
def test_one_odd_cell_in_adult() -> None:
    record = cell({"part": "leak", "data": "adult"}, 0)
    assert record["naive_flips"] >= 50
    assert record["coded_flips"] >= 10
    assert record["frozen_flips"] == record["blocks_changed"] == 0
    assert record["rejected"] == 1


@pytest.mark.slow
@pytest.mark.claim("21.26")
@pytest.mark.parametrize("name", ["sms", "spambase"])
def test_halving_on_real_messages(name: str) -> None:
    choice = cell({"part": "halving", "data": name, "metric": "accuracy"}, 0)
    near = cell({"part": "blocks", "data": name, "blocks": 51}, 0)
    assert choice["share_of_fits"] <= 0.5
    assert choice["share_of_blocks"] <= {"sms": 0.25, "spambase": 0.52}[name]
    assert choice["certified"] >= json.loads(near["certified_accuracy"])[10] - 0.01
