"""What decisions reveal about the one who takes them."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from counterplay.errors import InvalidInputError
from counterplay.principal import decision_audit


def logged(seed, tau, n=600):
    rng = np.random.default_rng(seed)
    risk = rng.beta(1, 2, n)
    done = np.where(risk >= tau, "act", "wait")
    return pd.DataFrame({"risk": risk, "done": done, "event": (rng.random(n) < risk) * 1})


def audited(log, **options):
    return decision_audit(log, decision="done", outcome="event", **options)


@pytest.mark.claim("25.27")
def test_the_interval_covers_the_threshold():
    hits = 0
    for seed in range(80):
        tau = float(np.random.default_rng([seed, 1]).uniform(0.15, 0.6))
        low, high = audited(logged(seed, tau)).threshold
        hits += low <= tau <= high
    assert hits >= 76


def test_bias_and_cost_are_per_decision():
    log = logged(0, 0.3)
    log["risk"] = np.clip(log["risk"] + np.where(log["done"] == "act", 0.2, 0.0), 0, 1)
    money = {"act": [-1.0, 4.0], "wait": [0.0, -5.0]}
    report = audited(log, forecast="risk", utilities=money)
    frame = report.to_frame().set_index("decision")
    assert frame.loc["act", "bias_low"] > 0.0
    assert frame.loc["wait", "bias_low"] < 0.02 < 0.1
    event = log["event"] == 1
    acted = log["done"] == "act"
    assert frame.loc["act", "cost"] == pytest.approx((acted & ~event).sum() / acted.sum())
    assert "a miss costs between" in report.summary()
    assert report.plot().get_xlabel() == "share of the event"


def test_rows_of_one_time_are_one_observation():
    log = pd.concat([logged(1, 0.3, 100).assign(day=np.arange(100))] * 8)
    alone = audited(log, forecast="risk").to_frame()
    days = audited(log, forecast="risk", time="day").to_frame()
    widths = [(f["bias_high"] - f["bias_low"]).to_numpy() for f in (alone, days)]
    assert (widths[1] > 2 * widths[0]).all()


def test_one_observation_gives_no_interval_and_says_so():
    log = logged(1, 0.3, 100).assign(day=7)
    one_day = audited(log, forecast="risk", time="day")
    assert one_day.summary().count("(no interval can be given from one time)") == 2
    first = log.drop(index=log.index[log["done"] == "act"][1:])
    one_row = audited(first, forecast="risk")
    assert one_row.summary().count("(no interval can be given from one row)") == 1
    for report in (one_day, one_row):
        assert "nan" not in report.summary()
        json.dumps(report.to_dict(), allow_nan=False)
    assert [row["bias_low"] for row in one_day.to_dict()["rows"]] == [None, None]
    for row in one_day.to_dict()["rows"]:
        own = log[log["done"] == row["decision"]]
        assert row["bias"] == pytest.approx((own["risk"] - own["event"]).mean())


def test_decisions_against_the_risk_have_no_threshold():
    log = logged(2, 0.4)
    log["done"] = np.where(log["risk"] < 0.4, "act", "wait")
    backwards = audited(log, acting="act")
    assert not backwards.explained
    assert "no threshold explains" in backwards.summary()
    with pytest.raises(InvalidInputError, match="threshold explains"):
        backwards.propose({"act": 1.0, "wait": 0.0})


def test_the_proposal_is_obeyed_at_both_ends():
    report = audited(logged(3, 0.35))
    low, high = report.threshold
    proposal = report.propose({"act": 1.0, "wait": 0.0})
    assert proposal.threshold == high
    posteriors = proposal.scheme.posteriors([1 - proposal.prior, proposal.prior])[:, 1]
    acting = posteriors >= high - 1e-9
    for tau in (low, high):
        assert (posteriors[acting] >= tau - 1e-9).all()
    assert proposal.value > float(np.mean(logged(3, 0.35)["event"]))
    assert "the other side obeys" in proposal.summary()
    with pytest.raises(InvalidInputError, match="our value"):
        report.propose({"act": 1.0})


def test_recommendations_and_three_decisions():
    log = logged(4, 0.3)
    log["advice"] = np.where(log["risk"] >= 0.5, "act", "wait")
    followed = audited(log, recommendation="advice").to_frame().set_index("decision")["followed"]
    assert followed["wait"] == 1.0
    assert followed["act"] < 0.9
    three = audited(log.assign(done=np.where(log["risk"] > 0.7, "call", log["done"])))
    assert three.acting is None
    assert three.threshold is None


@pytest.mark.parametrize(
    ("column", "value", "sentence"),
    [
        ("event", 0.5, "event of row 3 is 0.5: expected 1 if the event happened"),
        ("event", np.nan, "event of row 3 is missing"),
        ("risk", 1.5, "risk of row 3 is 1.5: expected a probability"),
        ("done", None, "done of row 3 is missing"),
    ],
)
def test_bad_rows_are_named(column, value, sentence):
    log = logged(5, 0.3).astype({"event": float, "done": object})
    log.loc[3, column] = value
    with pytest.raises(InvalidInputError, match=sentence):
        audited(log, forecast="risk")
