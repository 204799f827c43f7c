"""The log is the state: replay, damage, strangers' logs, retraction, comings and goings."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).parent))

from campaigns import breast_cancer, finish, three_clinics

from counterplay.errors import (
    AssumptionWarning,
    InvalidInputError,
    InvalidStateError,
    ProtocolError,
)
from counterplay.labeling import Campaign
from counterplay.labeling.campaign_log import owners_mark
from counterplay.labeling.campaign_state import CampaignSettings, CampaignState
from counterplay.labeling.certificate import FrozenVector, by_order
from counterplay.labeling.joint import Joint, JointSettings
from counterplay.labeling.shadow import Answers
from counterplay.tables import Table
from counterplay.verify import verify


@pytest.mark.claim("24.13")
@pytest.mark.parametrize("scope", ["party", "union"])
def test_killed_and_continued(scope: str) -> None:
    campaign, X, y = three_clinics(210, 0, scope=scope, max_error=0.07)
    finish(campaign, y, n=25)
    lines = campaign.log().splitlines(keepends=True)
    kinds = [json.loads(line)["type"] for line in lines]
    assert kinds.count("tell") >= 150
    whole = Campaign.from_log("".join(lines), X)
    assert whole._lines == lines
    # a few are continued to their end
    for cut in range(1, len(lines), len(lines) // 3):
        copy = Campaign.from_log("".join(lines[:cut]), X)
        finish(copy, y, n=25)
        assert copy.digest() == campaign.digest()
        assert copy.result().certificates == campaign.result().certificates
        asked = [(q.id, q.item, q.kind) for q in copy._questions.values()]
        assert asked == [(q.id, q.item, q.kind) for q in campaign._questions.values()]


@pytest.mark.claim("24.13")
@pytest.mark.parametrize("part", range(8))
def test_killed_after_every_event(part: int) -> None:
    campaign, X, y = three_clinics(195, 0, scope="union", max_error=0.07)
    finish(campaign, y, n=25)
    lines = campaign.log().splitlines(keepends=True)
    assert sum('"type":"tell"' in line for line in lines) >= 150
    for cut in range(1 + part, len(lines), 8):
        copy = Campaign.from_log("".join(lines[:cut]), X)
        # between two lines that follow from one answer the others follow at once
        assert cut <= len(copy._lines) <= cut + 5
        assert copy._lines == lines[: len(copy._lines)]
        if cut // 8 % 5 == 0:  # the others are continued in the slow test
            finish(copy, y, n=25)
            assert copy.digest() == campaign.digest()


@pytest.mark.slow
def test_killed_after_every_event_and_continued() -> None:
    campaign, X, y = three_clinics(210, 0, scope="union", max_error=0.07)
    finish(campaign, y, n=25)
    lines = campaign.log().splitlines(keepends=True)
    for cut in range(1, len(lines)):
        copy = Campaign.from_log("".join(lines[:cut]), X)
        finish(copy, y, n=25)
        assert copy.digest() == campaign.digest()


@pytest.mark.claim("24.14")
def test_damaged_and_foreign_logs() -> None:
    """Whatever is wrong is refused by name."""
    campaign, X, y = three_clinics(90, 0)
    for q in campaign.ask(1000):
        campaign.tell(q, y[q.item])
    log = campaign.log()
    with pytest.warns(AssumptionWarning, match="the last line of the log is not complete"):
        assert Campaign.from_log(log + '{"type":"tell","id"', X).digest() == campaign.digest()
    with pytest.raises(InvalidStateError, match=r"row 0 differs \(or the order of the rows\)"):
        Campaign.from_log(log, X[::-1])
    with pytest.raises(InvalidStateError, match="belongs to a pool of 90 rows, here are 89"):
        Campaign.from_log(log, X[:-1])
    changed = X.copy()
    changed[12, 0] += 1
    with pytest.raises(InvalidStateError, match="row 12 differs"):
        Campaign.from_log(log, changed)
    start = json.loads(log.splitlines()[0])
    owners = {"party 0": start["parties"]["party 1"], "party 1": start["parties"]["party 0"],
              "party 2": start["parties"]["party 2"]}  # fmt: skip
    other = json.dumps({**start, "parties": owners}) + "\n" + log.split("\n", 1)[1]
    with pytest.raises(InvalidStateError, match="the owners are not those of the campaign's fin"):
        Campaign.from_log(other, X)
    renewed = {**start, "parties": owners, "owners": owners_mark(owners)}
    with pytest.raises(InvalidStateError, match="line 2"):
        Campaign.from_log(json.dumps(renewed) + "\n" + log.split("\n", 1)[1], X)
    older = {**start, "versions": {**start["versions"], "scikit-learn": "0.1"}}
    with pytest.warns(AssumptionWarning, match=r"written with scikit-learn 0.1, this is"):
        Campaign.from_log(json.dumps(older) + "\n", X)

    def with_line(**event: object) -> str:
        return log + json.dumps(event) + "\n"

    bad = [
        (with_line(type="tell", id="q1", label=7), "there is no class 7|was answered"),
        (with_line(type="tell", id="q61", label=7), "there is no class 7"),
        (with_line(type="tell", id="q61", label=-1), "expected `int` >= 0"),
        (with_line(type="withdraw", item=-1, reason="x"), "expected `int` >= 0"),
        (with_line(type="withdraw", item=99, reason="x"), "item must be"),
        (with_line(type="party", party="party 99", forget=False), "there is no party 'party 99'"),
        (with_line(type="dance"), "there is no event 'dance'"),
        (with_line(type="certify", vector=0, scope="party 0", checked=50, wrong=0, known_wrong=0,
                   bound=0.01), "does not follow from the answers"),
    ]  # fmt: skip
    campaign.ask(1)
    for text, sentence in bad:
        with pytest.raises(InvalidStateError, match=sentence):
            Campaign.from_log(text, X)
    forged = {**start, "seed": start["seed"] + 1}
    with pytest.raises(InvalidStateError, match="audit orders are not those of the seed"):
        Campaign.from_log(json.dumps(forged) + "\n", X)


@pytest.mark.claim("24.14")
def test_owners_that_do_not_exist_are_refused() -> None:
    campaign, X, _ = three_clinics(90, 0)
    start = json.loads(campaign.log())
    start["parties"]["party 0"][0] = 90
    start["owners"] = owners_mark(start["parties"])
    with pytest.raises(InvalidStateError, match="rows must be different and below 90"):
        Campaign.from_log(json.dumps(start) + "\n", X)


@pytest.mark.claim("24.15")
def test_retraction_keeps_what_was_paid_and_refunds_nothing() -> None:
    """Of eight answers seven stay in use, and none is asked again."""
    X, y = breast_cancer(60, 0)
    campaign = Campaign(X, owners=np.arange(60) % 2, classes=[0, 1], learner=GaussianNB(),
                        max_error=0.1, random_state=0)  # fmt: skip
    told = campaign.ask(8)
    for q in told:
        campaign.tell(q, y[q.item])
    campaign.retract(told[1])
    open_now = {(q.party, q.item) for q in campaign.ask(1000)}
    kept = [q for q in told if q.id != told[1].id]
    assert not any((q.party, q.item) in open_now for q in kept)
    assert (told[1].party, told[1].item) in open_now
    finish(campaign, y)
    joint = campaign._state.joint
    assert joint is not None
    used = {item for _, item in joint.trained} | {
        x for s in joint.shadows.values() for x in s.run.audited
    }
    assert {q.item for q in kept} <= used
    ids = [q.id for q in campaign._questions.values()]
    assert len(ids) == len(set(ids))
    report = campaign.work()
    for account in report.parties:
        assert account.asked <= account.alone_at_least + account.retracted
    assert sum(p.retracted for p in report.parties) >= 1


@pytest.mark.claim("24.15")
@pytest.mark.parametrize("blind", [True, False])
def test_retraction_never_refunds_alpha(blind: bool) -> None:
    campaign, X, y = three_clinics(150, 4)
    for _ in range(4):
        for q in campaign.ask(1000):
            campaign.tell(q, y[q.item])
    campaign.status()
    joint = campaign._state.joint
    assert joint is not None
    assert joint.settings.alpha_left  # something was launched
    before = dict(joint.settings.alpha_left)
    own = {p: s.run.alpha_left for p, s in joint.shadows.items()}
    victim = next(q for q in campaign._questions.values() if q.kind == "learn")
    campaign.retract(victim, blind=blind)
    again, _ = campaign.status(), campaign._state
    assert again is not None
    after = campaign._state.joint
    assert after is not None
    for scope, left in before.items():
        assert after.settings.alpha_left.get(scope, left) <= left
    for party, left in own.items():
        assert after.shadows[party].run.alpha_left <= left
    finish(campaign, y)
    copy = Campaign.from_log(campaign.log(), X)
    assert copy.digest() == campaign.digest()
    if not blind:  # items checked before are in no population any more
        checked = campaign._state.outside
        assert checked
        for vectors in campaign._state.joint.vectors.values():  # type: ignore[union-attr]
            assert not any(set(v.items.tolist()) & checked for v in vectors)


def chi_square_of_places(places: np.ndarray, n: int) -> float:
    counts = np.bincount(places * 10 // n, minlength=10)
    expected = np.bincount(np.arange(n) * 10 // n, minlength=10) / n * len(places)
    return float(stats.chisquare(counts, expected).pvalue)


def joint_settings(*keys: np.ndarray) -> JointSettings:
    names = [f"party {i}" for i in range(len(keys))]
    return JointSettings(names, len(keys[0]), 2, 0.05, 0.05, "union", 0.0, 0,
                         dict(enumerate(keys)), None)  # fmt: skip


@pytest.mark.claim("24.29")
def test_new_items_take_uniform_places() -> None:
    table = Table.of(np.zeros((120, 1)))
    own, union = [], []
    shared = np.arange(40, 60)
    owned = [{*range(60), *range(100, 120)}, set(range(40, 100))]
    shadows: Any = {i: SimpleNamespace(items=items) for i, items in enumerate(owned)}
    for seed in range(2000):
        settings = CampaignSettings((0, 1), GaussianNB(), 0, 0.05, 0.95, "union", 0.0, 1, "any", 0,
                                    10, None, seed)  # fmt: skip
        rows = [np.arange(60), np.arange(40, 100)]
        state = CampaignState(settings, table.part(slice(0, 100)), ["a", "b"], rows, {})
        state.add(table, 0, np.arange(100, 120))
        first, second = state.keys(0), state.keys(1)
        mine = by_order(state.items_of(0), first)
        own.append(int(np.flatnonzero(mine == 100 + seed % 20)[0]))
        joint = Joint(shadows, Answers(1, False, "any", {}), joint_settings(first, second))
        everything = by_order(np.arange(120), joint._order_keys((0, 1)))
        union.append(int(np.flatnonzero(everything == shared[seed % 20])[0]))
    assert chi_square_of_places(np.array(own), 80) > 0.001
    assert chi_square_of_places(np.array(union), 120) > 0.001


@pytest.mark.claim("24.29")
def test_a_launched_vector_dies_when_items_come() -> None:
    campaign, X, y = three_clinics(240, 4, scope="union", max_error=0.05)
    joint = None
    while joint is None or not joint.vectors:
        for q in campaign.ask(1000):
            campaign.tell(q, y[q.item])
        campaign.ask(1)
        joint = campaign._state.joint
    extra, more = breast_cancer(30, 9)
    rows = campaign.add_items(extra, party="party 1")
    assert rows.tolist() == list(range(240, 270))
    before = [v.number for vectors in joint.vectors.values() for v in vectors]
    truth = np.concatenate([y, more])
    finish(campaign, truth)
    joint = campaign._state.joint
    assert joint is not None
    covering = [v for vectors in joint.vectors.values() for v in vectors if v.number in before]
    certified = {event.vector.number for event in joint.certified}
    # what was launched before the items came is dead, unless it was certified in that round
    assert all(v.dead for v in covering)
    if not certified & set(before):
        late = {int(x) for e in joint.certified for x in e.vector.items}
        assert late & set(rows.tolist()) or (campaign.result().answers[240:] > 0).any()
    copy = Campaign.from_log(campaign.log(), np.vstack([X, extra]))
    assert copy.digest() == campaign.digest()
    assert np.array_equal(copy.result().labels, campaign.result().labels)


def test_parties_come_and_go() -> None:
    campaign, X, y = three_clinics(150, 2, scope="union")
    for q in campaign.ask(1000):
        campaign.tell(q, y[q.item])
    extra, more = breast_cancer(50, 11)
    campaign.add_party("late", extra)
    with pytest.raises(InvalidInputError, match="there is a party 'late' already"):
        campaign.add_party("late", extra)
    for q in campaign.ask(1000):
        campaign.tell(q, np.concatenate([y, more])[q.item])
    campaign.remove_party("party 0")
    assert not any(q.party == "party 0" for q in campaign.ask(1000))
    with pytest.raises(ProtocolError, match="has left already"):
        campaign.remove_party("party 0")
    finish(campaign, np.concatenate([y, more]))
    assert campaign.status().state["party 0"] == "left"
    assert campaign.status().state["late"] in ("joint", "own")
    assert "all parties" not in campaign.result().certificates
    copy = Campaign.from_log(campaign.log(), np.vstack([X, extra]))
    assert copy.digest() == campaign.digest()


def test_a_party_can_be_forgotten() -> None:
    campaign, X, y = three_clinics(150, 2, scope="union")
    for _ in range(2):
        for q in campaign.ask(1000):
            campaign.tell(q, y[q.item])
    campaign.remove_party("party 2", forget=True)
    assert not any(2 in told for told in campaign._state.given.values())
    finish(campaign, y)
    for account in campaign.work().parties[:2]:
        assert account.asked <= account.alone_at_least + account.retracted
    assert Campaign.from_log(campaign.log(), X).digest() == campaign.digest()


def test_withdrawn_items_are_reported_apart() -> None:
    campaign, X, y = three_clinics(120, 0, scope="union")
    first = campaign.ask(5)
    campaign.withdraw(first[0].item, "not our patient")
    assert first[0].id not in {q.id for q in campaign.ask(1000)}
    with pytest.raises(InvalidInputError, match="was withdrawn already"):
        campaign.withdraw(first[0].item, "again")
    finish(campaign, y)
    result = campaign.result()
    assert result.withdrawn == {first[0].item: "not our patient"}
    assert "1 items were withdrawn" in result.summary()
    checked = next(q for q in campaign._questions.values() if q.kind == "audit")
    with pytest.raises(InvalidInputError, match="was answered and cannot be withdrawn"):
        campaign.withdraw(checked.item, "too late")
    assert Campaign.from_log(campaign.log(), X).digest() == campaign.digest()


@pytest.mark.parametrize("scope", ["party", "union"])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_withdrawn_skips_are_no_wrong_labels_and_the_certificate_says_so(
    scope: str, noise: float
) -> None:
    campaign, X, y = three_clinics(240, 3, scope=scope, noise=noise)
    withdrawn = 0
    while questions := campaign.ask(50):
        for place, q in enumerate(questions):
            if not campaign._state.is_open(*campaign._where(q)):
                continue  # its item has been withdrawn
            first = q.kind == "audit" and q.repeat == 0
            if first and place % 5 == 0 and withdrawn < 6:
                campaign.tell(q, "skip")
                campaign.withdraw(q.item, "blurred")
                withdrawn += 1
            else:
                campaign.tell(q, y[q.item])
        for account in campaign.work().parties:
            assert account.asked <= account.alone_at_least
    certificates = campaign.result().certificates
    assert withdrawn == 6
    assert sum(c.withdrawn for c in certificates.values()) >= 3
    told = "checked items withdrawn: the bound speaks of items that would not be withdrawn"
    assert told in campaign.result().summary()
    assert verify(campaign.export().encode()).holds
    assert Campaign.from_log(campaign.log(), X).digest() == campaign.digest()


def test_a_withdrawn_learning_item_is_in_no_later_population() -> None:
    campaign, X, y = three_clinics(180, 1, scope="union")
    for q in campaign.ask(1000):
        campaign.tell(q, y[q.item])
    learned = [q.item for q in campaign._questions.values() if q.item in campaign._state.rows[0]]
    for item in learned[:5]:
        campaign.withdraw(item, "not ours")
    finish(campaign, y)
    joint = campaign._state.joint
    assert joint is not None
    vectors = [v for group in joint.vectors.values() for v in group]
    vectors += [v for s in joint.shadows.values() for v in s.run.vectors]
    assert vectors
    assert not any(set(v.items.tolist()) & set(learned[:5]) for v in vectors)
    assert not any(v.withdrawn for v in vectors)
    assert verify(campaign.export().encode()).holds
    assert Campaign.from_log(campaign.log(), X).digest() == campaign.digest()


def test_skips_from_before_a_coordinators_retraction_count_as_wrong() -> None:
    vector = FrozenVector(0, np.arange(90), np.zeros(90, dtype=np.int64), n=100, max_error=0.05,
                          alpha=0.05, lost=3)  # fmt: skip
    plain = FrozenVector(0, np.arange(90), np.zeros(90, dtype=np.int64), n=100, max_error=0.05,
                         alpha=0.05)  # fmt: skip
    assert len(vector.to_check()) > len(plain.to_check())  # 2 may remain, not 5
    vector.advance(lambda _: 0)
    assert vector.certificate("", 0.95).bound == 0.03
    hopeless = FrozenVector(0, np.arange(90), np.zeros(90, dtype=np.int64), n=100, max_error=0.05,
                            alpha=0.05, lost=6)  # fmt: skip
    hopeless.advance(lambda _: 0)
    assert not hopeless.is_certified()
    campaign, X, y = three_clinics(150, 4)
    skipped = set()
    for _ in range(4):
        for q in campaign.ask(1000):
            if q.kind == "audit" and len(skipped) < 2:
                skipped.add(q.item)
                campaign.tell(q, "skip")
            else:
                campaign.tell(q, y[q.item])
    assert len(skipped) == 2
    victim = next(q for q in campaign._questions.values() if q.kind == "learn")
    campaign.retract(victim, blind=False)
    finish(campaign, y)
    joint = campaign._state.joint
    assert joint is not None
    runs = [v for s in joint.shadows.values() for v in s.run.vectors]
    assert any(v.lost for v in [*runs, *(v for g in joint.vectors.values() for v in g)])
    assert verify(campaign.export().encode()).holds
    assert Campaign.from_log(campaign.log(), X).digest() == campaign.digest()


def test_a_log_on_disk_grows_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "camp.jsonl"
    X, y = breast_cancer(90, 0)
    settings = {"owners": np.arange(90) % 3, "classes": [0, 1], "learner": GaussianNB(),
                "max_error": 0.1, "random_state": 0}  # fmt: skip
    campaign = Campaign(X, **settings, log=path)
    for q in campaign.ask(10):
        campaign.tell(q, y[q.item])
    assert path.read_text() == campaign.log()
    with pytest.raises(InvalidInputError, match="is there already"):
        Campaign(X, **settings, log=path)
    with path.open("a") as stream:
        stream.write('{"type":"te')
    with pytest.warns(AssumptionWarning, match="not complete"):
        again = Campaign.from_log(path, X)
    finish(again, y)
    assert path.read_text() == again.log()
    assert Campaign.from_log(path, X).result().certificates == again.result().certificates


def test_lines_that_follow_are_written_again(tmp_path: Path) -> None:
    campaign, X, y = three_clinics(195, 0, scope="union", max_error=0.07)
    lines = finish(campaign, y, n=25).log().splitlines(keepends=True)
    derived = ['"type":"certify"' in line or '"type":"launch"' in line for line in lines]
    cut = next(i for i in range(1, len(lines)) if derived[i - 1] and derived[i])
    path = tmp_path / "camp.jsonl"
    path.write_text("".join(lines[:cut]))  # killed between two of them
    copy = Campaign.from_log(path, X)
    assert len(copy.events) > cut
    assert path.read_text() == "".join(copy.events)


def test_what_a_log_cannot_name_must_be_given_again() -> None:
    learner = make_pipeline(StandardScaler(), GaussianNB())
    campaign, X, y = three_clinics(90, 0, learner=learner)
    for q in campaign.ask(10):
        campaign.tell(q, y[q.item])
    with pytest.raises(InvalidInputError, match="pass it again: learner="):
        Campaign.from_log(campaign.log(), X)
    assert Campaign.from_log(campaign.log(), X, learner=learner).digest() == campaign.digest()


def test_names_of_columns_and_rows_survive() -> None:
    X, y = breast_cancer(60, 0)
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    campaign = Campaign(frame, owners=np.arange(60) % 2, classes=["bad", "good"], max_error=0.2,
                        random_state=0)  # fmt: skip
    finish(campaign, np.where(y == 1, "good", "bad"))
    copy = Campaign.from_log(campaign.log(), frame)
    assert copy.result().to_frame().equals(campaign.result().to_frame())
    with pytest.raises(InvalidStateError, match="other columns"):
        Campaign.from_log(campaign.log(), frame.rename(columns={"c": "d"}))


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_an_export_is_verified_and_a_forged_one_is_not(noise: float) -> None:
    campaign, _, y = three_clinics(120, 1, noise=noise, scope="party" if noise else "union")
    finish(campaign, y)
    text = campaign.export()
    found = verify(text.encode())
    assert found.holds, found.summary()
    assert any(check.name.startswith("certificate of") for check in found.checks)
    joint = campaign._state.joint
    assert joint is not None
    tested = [v for vectors in joint.vectors.values() for v in vectors]
    tested += [v for shadow in joint.shadows.values() for v in shadow.run.vectors]
    for vector in tested:
        vector.labels = 1 - vector.labels  # what was tested was something else
    forged = verify(campaign.export().encode())
    assert not forged.holds
