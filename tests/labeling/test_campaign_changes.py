"""Comings, goings and shared items: the campaign ends, its log is read again, its proof holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from counterplay.errors import InvalidInputError
from counterplay.labeling import Campaign, TestFirstSolo
from counterplay.labeling.certificate import FrozenVector
from counterplay.verify import verify

CLASSES = ["yes", "no"]


def pool(n: int, seed: int = 0, noise: float = 0.4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(X[:, 0] + noise * rng.normal(size=n) > 0, "yes", "no")


def begin(X: np.ndarray, owners: Any, **settings: Any) -> Campaign:
    given = {"learner": GaussianNB(), "max_error": 0.1, "random_state": 1} | settings
    return Campaign(X, owners=owners, classes=CLASSES, **given)


def finish(campaign: Campaign, y: Any, skips: tuple[tuple[str, int], ...] = ()) -> Campaign:
    while questions := campaign.ask(500):
        for q in questions:
            campaign.tell(q, "skip" if (q.party, q.item) in skips else y[q.item])
    return campaign


def same_again(campaign: Campaign, X: Any, **given: Any) -> None:
    """The log gives the same campaign, and the proof is accepted."""
    again = Campaign.from_log(campaign.log(), X, **given)
    assert again.log() == campaign.log()
    assert again.digest() == campaign.digest()
    assert list(again.result().labels) == list(campaign.result().labels)
    checked = verify(campaign.export().encode())
    assert checked.holds, checked.summary()


@pytest.mark.parametrize("seed", [1, 4, 5, 6])
def test_a_party_that_leaves_in_the_middle_of_its_test_does_not_stop_the_others(seed: int) -> None:
    X, y = pool(120, seed)
    campaign = begin(X, ["a", "b"] * 60, random_state=seed)
    while not any(q.kind == "audit" and q.party == "a" for q in campaign.ask(500)):
        for q in campaign.ask(500):
            campaign.tell(q, y[q.item])
    campaign.remove_party("a")
    finish(campaign, y)
    assert list(campaign.result().certificates) == ["b"]
    assert campaign.status().state == {"a": "left", "b": campaign.status().state["b"]}
    same_again(campaign, X)


def test_labelers_may_be_numbers_and_the_log_is_read_again() -> None:
    X, y = pool(60)
    campaign = begin(X, ["a", "b"] * 30)
    workers = [7, np.int64(8), np.str_("nine"), "ten", None]
    for q, worker in zip(campaign.ask(5), workers):
        campaign.tell(q, y[q.item], labeler=worker)
    again = Campaign.from_log(campaign.log(), X)
    assert again.digest() == campaign.digest()
    assert list(again._answered.values()) == list(campaign._answered.values())
    assert [who for _, who in again._answered.values()] == ["7", "8", "nine", "ten", None]


@pytest.mark.parametrize("labeler", [float("nan"), pd.NA, "x" * 1001, "\ud800", True, ["w"]])
def test_what_the_log_cannot_hold_changes_nothing(labeler: Any) -> None:
    X, y = pool(60)
    campaign = begin(X, ["a", "b"] * 30)
    q = campaign.ask(1)[0]
    before = campaign.log(), campaign.digest()
    with pytest.raises(InvalidInputError, match=r"labeler|the log of the campaign cannot hold"):
        campaign.tell(q, y[q.item], labeler=labeler)
    with pytest.raises(InvalidInputError, match="reason must be text"):
        campaign.withdraw(3, None)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="shape"):
        campaign.add_party("c", np.ones((2, 5)))
    with pytest.raises(InvalidInputError, match="1 to 200 characters"):
        campaign.add_party("", X[:2])
    assert (campaign.log(), campaign.digest()) == before
    assert list(campaign.status().open) == ["a", "b"]
    campaign.tell(q, y[q.item])
    campaign.add_party("c", X[:2] + 1)  # nothing of the failed ones is left
    assert Campaign.from_log(campaign.log(), np.vstack([X, X[:2] + 1])).digest()


def test_a_full_disk_loses_no_answer(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = pool(60)
    campaign = begin(X, ["a", "b"] * 30, log=tmp_path / "camp.jsonl")
    q = campaign.ask(1)[0]
    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", _full)
        with pytest.raises(OSError, match="No space"):
            campaign.tell(q, y[q.item])
    assert campaign.status().answered == {"a": 0, "b": 0}


def test_two_who_write_to_one_log_do_not_spoil_it(tmp_path: Any) -> None:
    X, y = pool(60)
    path = tmp_path / "camp.jsonl"
    first = begin(X, ["a", "b"] * 30, log=path)
    q, r = first.ask(2)
    second = Campaign.from_log(path, X)
    first.tell(q, y[q.item])
    with pytest.raises(InvalidInputError, match=r"camp\.jsonl was changed by somebody else"):
        second.tell(q, y[q.item])
    first.tell(r, y[r.item])
    assert Campaign.from_log(path, X).digest() == first.digest()


def _full(_: int) -> None:
    raise OSError(28, "No space left on device")


def test_parameters_of_numpy_types_are_written_as_numbers() -> None:
    X, _ = pool(60)
    learner = LogisticRegression(C=np.logspace(-2, 2, 5)[3], max_iter=np.int64(500))
    solo = TestFirstSolo(spare=np.int64(0))  # type: ignore[arg-type]
    campaign = begin(X, ["a", "b"] * 30, learner=learner, solo=solo)
    again = Campaign.from_log(campaign.log(), X)
    assert again._state.settings.learner.get_params() == learner.get_params()
    assert again._state.settings.solo == solo


@pytest.mark.parametrize("owners", [{1: range(30), "1": range(30, 60)}, [1, "1"] * 30])
def test_parties_that_cannot_be_told_apart_are_refused(owners: Any) -> None:
    X, _ = pool(60)
    with pytest.raises(InvalidInputError, match="two parties are called '1'"):
        begin(X, owners)


@pytest.mark.parametrize("label", [pd.NA, np.array(CLASSES), None, {"yes"}, pd.NaT])
def test_an_answer_that_is_no_label_is_refused(label: Any) -> None:
    X, _ = pool(60)
    campaign = begin(X, ["a", "b"] * 30)
    with pytest.raises(InvalidInputError, match="is not a class of this campaign"):
        campaign.tell(campaign.ask(1)[0], label)


@pytest.mark.parametrize("owners", [
    {"west": range(40), "north": range(40, 80), "east": range(80, 120)},
    [i % 12 for i in range(120)],
])  # fmt: skip
def test_the_proof_holds_whatever_the_order_of_the_parties_names(owners: Any) -> None:
    X, y = pool(120)
    campaign = finish(begin(X, owners, scope="union"), y)
    same_again(campaign, X)


def test_an_answer_may_be_retracted_after_items_came_in() -> None:
    X, y = pool(80)
    more, labels = pool(10, seed=1)
    X, y = np.vstack([X, more]), np.concatenate([y, labels])
    campaign = begin(X[:80], ["a", "b"] * 40, scope="union", max_error=0.05)
    for q in campaign.ask(5):
        campaign.tell(q, y[q.item])
    rows = campaign.add_items(more, party="a")
    seen: list[str] = []
    while not seen and (questions := campaign.ask(500)):
        for q in questions:
            campaign.tell(q, y[q.item])
        seen += [q.id for q in questions if q.item in rows]
    campaign.retract(seen[0])
    finish(campaign, y)
    launched = campaign._state.joint.certified[0].vector  # type: ignore[union-attr]
    assert launched.n == 90  # the new items are covered, too
    same_again(campaign, X)


@pytest.mark.parametrize("seed", [31, 32])
def test_the_log_of_a_campaign_that_forgot_a_party_is_read_again(seed: int) -> None:
    X, y = pool(71, seed)
    rng = np.random.default_rng(seed)
    owners = {"a": range(40), "b": range(20, 60), "c": range(35, 71)}
    campaign = begin(X, owners, batch=1, random_state=seed, solo=TestFirstSolo(first=9))
    for _ in range(6):  # more are handed out than answered
        for q in campaign.ask(int(rng.integers(1, 20)))[: int(rng.integers(1, 9))]:
            campaign.tell(q, y[q.item])
    campaign.remove_party("b", forget=True)
    while questions := campaign.ask(3):
        for q in questions:
            campaign.tell(q, y[q.item])
    assert all(p.saved_at_least >= 0 for p in campaign.work().parties)
    same_again(campaign, X)


def test_a_party_that_left_keeps_its_account_when_another_answer_is_retracted() -> None:
    X, y = pool(90)
    campaign = begin(X, ["a", "b", "c"] * 30)
    questions = campaign.ask(500)
    for q in questions:
        campaign.tell(q, y[q.item])
    campaign.remove_party("a")
    before = campaign.work().parties[0]
    campaign.retract(next(q for q in questions if q.party == "b"))
    assert campaign.work().parties[0] == before
    assert before.asked == 20
    assert before.saved_at_least >= 0


def test_a_skip_of_one_owner_does_not_hide_the_label_of_another() -> None:
    X, y = pool(60, seed=3)
    shared = range(20, 40)
    owners = {"a": range(40), "b": range(20, 60)}
    skips = tuple(("a", item) for item in shared)
    campaign = finish(begin(X, owners, free="own"), y, skips)
    result = campaign.result()
    told = {q.item for q in campaign._questions.values() if q.party == "b"} & set(shared)
    assert told
    for item in told:
        assert (result.labels[item], result.source[item]) == (y[item], "person")
    assert not result.disputed
    same_again(campaign, X)


def test_checks_of_shared_items_by_several_parties_are_recounted() -> None:
    X, y = pool(60, seed=5)
    owners = {"a": range(45), "b": range(15, 60)}
    campaign = begin(X, owners, free="any", noise=0.05, random_state=5, batch=3)
    rng = np.random.default_rng(5)
    while questions := campaign.ask(500):
        for q in questions:
            campaign.tell(q, y[q.item] if rng.random() > 0.15 else "no")
    told: dict[int, set[int]] = {}
    for (item, kind, _), answers in campaign._state.given.items():
        told.setdefault(item, set()).update(answers if kind == "audit" else ())
    assert any(len(parties) == 2 for parties in told.values())
    same_again(campaign, X)


def test_labels_of_an_earlier_certificate_stay_and_count_as_wrong_in_the_later_one() -> None:
    items, labels = np.arange(40), np.zeros(40, dtype=np.int64)
    nobody = np.full(40, -1)
    free, bound = (FrozenVector(0, items, labels, n=40, max_error=0.1, alpha=0.05) for _ in "ab")
    for vector in (free, bound):
        vector.advance(lambda x: 0 if x < 35 else None)
    bound.note_settled(nobody, dict.fromkeys(range(36, 40), 1))
    assert free.is_certified()
    assert (free.overruled, bound.overruled) == (0, 4)
    assert bound.refutes == free.refutes - 4
    assert bound.certificate("a", 0.95).bound == free.certificate("a", 0.95).bound + 0.1
    bound.note_settled(nobody, dict.fromkeys(range(35, 40), 1))
    assert not bound.is_certified()  # 5 of 40 may be wrong, 4 are allowed
    people = np.full(40, 0)
    bound.note_settled(people, dict.fromkeys(range(35, 40), 1))
    assert bound.overruled == 0  # a person's answer stands above both


def test_a_certificate_of_a_party_that_joins_stands_beside_the_first() -> None:
    X, y = pool(120, noise=0.0)
    more, labels = pool(60, seed=1, noise=0.0)
    X, y = np.vstack([X, more]), np.concatenate([y, labels])
    campaign = begin(X[:120], ["a", "b"] * 60, scope="union")
    while campaign._state.joint is None or not campaign._state.joint.vectors:
        for q in campaign.ask(500)[:-1]:
            campaign.tell(q, y[q.item])
        for q in campaign.ask(1):
            campaign.tell(q, y[q.item])
        campaign.status()
    campaign.add_party("c", more)
    finish(campaign, y)
    found = campaign.result().certificates
    assert list(found) == ["remaining parties", "later parties"]
    same_again(campaign, X)


def test_items_that_came_too_late_are_named() -> None:
    X, y = pool(120, noise=0.0)
    campaign = begin(X, ["a", "b"] * 60, scope="union")
    while campaign._state.joint is None or not campaign._state.joint.vectors:
        for q in campaign.ask(500):
            campaign.tell(q, y[q.item])
        campaign.status()
    more, labels = pool(5, seed=1)
    rows = campaign.add_items(more, party="a")
    finish(campaign, np.concatenate([y, labels]))
    result = campaign.result()
    assert campaign.status().finished
    covered = campaign._state.joint.certified[0].vector.n  # type: ignore[union-attr]
    assert covered == 120
    assert f"5 items came when their party was just done (first: item {rows[0]})" in (
        result.summary()
    )


def test_when_everybody_has_left_the_summary_says_so() -> None:
    X, _ = pool(60)
    campaign = begin(X, ["a", "b"] * 30)
    campaign.ask(5)
    campaign.remove_party("a")
    campaign.remove_party("b")
    assert campaign.ask(5) == []
    assert "every party has left before anything was certified" in campaign.summary()
    assert "every question was asked" not in campaign.summary()


def test_nothing_is_left_of_the_account_of_a_forgotten_party() -> None:
    X, y = pool(120)
    campaign = begin(X, ["a", "b"] * 60)
    for question in campaign.ask(40):
        campaign.tell(question, y[question.item])
    mine = [name for name in campaign._answered if campaign._questions[name].party == "a"]
    campaign.retract(mine[0])
    campaign.remove_party("a", forget=True)
    gone = campaign.work().parties[0]
    assert (gone.party, gone.asked, gone.retracted, gone.finished_by) == ("a", 0, 0, "left")
