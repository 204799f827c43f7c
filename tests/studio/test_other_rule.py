"""A campaign whose questions another version chose: shown from the record, and how it goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from counterplay.labeling import campaign_state
from counterplay.studio.errors import Refused
from counterplay.studio.exports import export_lines
from counterplay.studio.kinds.campaign import KIND, cannot_go_on
from counterplay.studio.kinds.campaign_labels import labels
from counterplay.studio.kinds.campaign_reload import written_with
from counterplay.studio.kinds.campaign_views import coordinator, ledger, own_answers, queue
from counterplay.verify import verify
from studio.kind_driver import Stream
from studio.other_rules import another_rule
from studio.studio_campaigns import (
    CLASSES,
    HIDDEN,
    PARTIES,
    Labeller,
    campaign_config,
    label_all,
)

if TYPE_CHECKING:
    from counterplay.core.exports import Event
    from studio.web_house import Web

Made = tuple[Stream, np.ndarray]


def begun(folder: Path, answers: int, *, learnable: bool = False, **more: Any) -> Made:
    """A campaign with so many answers; where nothing can be learned the rule matters soon."""
    config, truth = campaign_config(folder, 160, **{"max_error": 0.05, **more})
    if not learnable:
        truth = np.random.default_rng(0).permutation(truth)
    stream = Stream(KIND, config)
    stream.add("study.opened", {})
    label_all(stream, truth, answers)
    return stream, truth


def folded_again(stream: Stream) -> Any:
    """The state as a server of today has it."""
    stream.folded.state = stream.replayed()
    return stream.state


def last_accounts(events: list[Event]) -> dict[str, int]:
    """What the newest question of each party says about its work alone."""
    found = {}
    for event in events:
        if event.kind == "label.ask" and event.body is not None:
            found[event.body["party"]] = event.body["passed"] + event.body["ahead"]
    return found


@pytest.mark.claim("28.09")
def test_what_was_recorded_is_shown_where_the_rule_departs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, _ = begun(tmp_path, 120)
    before, export = stream.state, stream.export()
    handed = {p: len(before.waiting(p)) for p in PARTIES}
    another_rule(monkeypatch)
    state = folded_again(stream)
    assert state.departed is not None
    assert state.answers == before.answers
    assert state.asked_at == before.asked_at
    assert stream.export() == export
    assert verify(export).holds
    alone = last_accounts(stream.events)
    for row in ledger(state, None)["rows"]:
        mine = [a for a in before.answers.values() if a.party == row["party"]]
        assert row["asked"] == len(mine) + handed[row["party"]]
        assert row["alone_at_least"] == alone[row["party"]]
        assert row["free"] is None  # the log does not say it
    assert own_answers(state, PARTIES[0]) == own_answers(before, PARTIES[0])
    said = {a.item: CLASSES[a.code] for a in before.answers.values()}
    assert {row["item"]: row["label"] for row in labels(state)} == {
        f"c{i}": said.get(i)
        for i in range(160)  # nothing is predicted
    }
    told = coordinator(state)["departed"]
    assert told["cannot"] is None
    assert queue(state, PARTIES[0])["cards"] == []


@pytest.mark.claim("28.09")
def test_nothing_is_taken_until_somebody_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, _ = begun(tmp_path, 120)
    asked, answered = stream.state.waiting(PARTIES[0])[0], next(iter(stream.state.answers))
    another_rule(monkeypatch)
    folded_again(stream)
    count = len(stream.events)
    for kind, body in (
        ("label.tell", {"id": asked.id, "label": 0, "party": PARTIES[0]}),
        ("label.retract", {"id": answered, "blind": True}),
        ("label.withdraw", {"item": 3, "reason": "x"}),
        ("label.imported", {"source": "x", "answers": [[asked.id, 0, None]]}),
        ("label.rule", {"library": "another"}),
    ):
        with pytest.raises(Refused):
            stream.add(kind, body, actor=PARTIES[0])
    assert len(stream.events) == count
    with pytest.raises(Refused, match="What was said is kept; the coordinator decides how it goes"):
        stream.add("label.skip", {"id": asked.id, "party": PARTIES[0]}, actor=PARTIES[0])


@pytest.mark.claim("28.09")
def test_a_finished_campaign_stands_as_it_was_stated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, truth = begun(tmp_path, 10_000, max_error=0.1)
    assert stream.state.over
    stated = stream.events[-1].body or {}
    passed = [e.body for e in stream.events if e.kind == "label.certify"]
    another_rule(monkeypatch)
    state = folded_again(stream)
    assert state.departed is not None
    assert state.over
    assert [row["label"] for row in labels(state)] == [
        None if code is None else CLASSES[code] for code in stated["labels"]
    ]
    shown = [
        (c["scope"], c["bound"], c["checked"], c["wrong"])
        for c in ledger(state, None)["certificates"]
    ]
    assert shown == [(c["scope"], c["bound"], c["checked"], c["wrong"]) for c in passed if c]
    assert cannot_go_on(state) == "This campaign is finished: nothing is left to ask."
    assert coordinator(state)["departed"]["finished"]
    assert verify(stream.export()).holds
    assert len(truth) == 160


@pytest.mark.claim("28.09")
@pytest.mark.parametrize("scope", ["union", "party"])
def test_it_goes_on_from_the_record_and_says_what_is_void(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    stream, truth = begun(tmp_path, 130, max_error=0.1, scope=scope)
    given = {name: a.code for name, a in stream.state.answers.items()}
    stood, done = dict(stream.state.certified), set(stream.state.finished)
    with monkeypatch.context() as patch:
        another_rule(patch)
        state = folded_again(stream)
        before = {row["party"]: row for row in ledger(state, None)["rows"]}
        stream.add("label.rule", written_with())
        assert stream.state.departed is None
        void = sum(row["retracted"] for row in ledger(stream.state, None)["rows"])
        assert void > 0  # answers that today's rule has not asked for
        assert {name: a.code for name, a in stream.state.answers.items()} == given
        assert stood.items() <= stream.state.certified.items()
        label_all(stream, truth)
        assert stream.state.over
        rows = {row["party"]: row for row in ledger(stream.state, None)["rows"]}
        assert all(rows[party] == before[party] for party in done)  # who was done stays done
        for row in rows.values():
            assert row["asked"] <= row["alone_at_least"] + row["retracted"]
        again = stream.replayed()
        assert again.campaign.digest() == stream.state.campaign.digest()
        assert again.certified == stream.state.certified
        stated = stream.events[-1].body or {}
        assert [row["label"] for row in labels(stream.state)] == [
            None if code is None else CLASSES[code] for code in stated["labels"]
        ]
    found = verify(stream.export())
    assert found.holds, found.summary()
    former = stream.replayed()  # back to the first version: its record is kept as well
    assert former.departed is not None
    assert {name: a.code for name, a in former.answers.items()} == {
        name: a.code for name, a in stream.state.answers.items()
    }
    assert former.stated is not None


@pytest.mark.claim("28.09")
def test_checks_after_the_change_follow_an_order_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The orders are the seed's, levels that are spent stay spent, and verify knows both."""
    config, truth = campaign_config(tmp_path, 240, max_error=0.05, scope="party")
    truth = np.where(np.random.default_rng(1).random(240) < 0.04, 1 - truth, truth)
    stream = Stream(KIND, config)
    stream.add("study.opened", {})
    label_all(stream, truth, 170)
    another_rule(monkeypatch)
    folded_again(stream)
    number = len(stream.events)
    stream.add("label.rule", written_with())
    label_all(stream, truth)
    launched = [e for e in stream.events if e.kind == "label.launch"]
    joint = [
        [e.body for e in launched if (e.seq > number) is late and not (e.body or {})["own"]]
        for late in (False, True)
    ]
    old, new = ({tuple(b["parties"]): b["alpha"] for b in half if b} for half in joint)
    assert set(old) == set(new) == {(0,), (1,), (2,), (3,)}
    assert all(new[party] == old[party] / 2 for party in old)
    state = stream.state.state
    for body in joint[1]:
        assert body is not None
        keys = state.keys(body["parties"][0], 1)
        assert body["items"] == sorted(body["items"], key=lambda item: keys[item])
        assert body["items"] != sorted(body["items"], key=lambda item: state.keys(0, 0)[item])
    assert state.commitment() == config["commit"]
    assert verify(stream.export()).holds
    certified = {(e.body or {})["vector"] for e in stream.events if e.kind == "label.certify"}
    place = next(
        e.seq - 1 for e in launched if e.seq > number and (e.body or {})["vector"] in certified
    )
    told = stream.events[place].body or {}
    turned = {**told, "items": told["items"][::-1], "labels": told["labels"][::-1]}
    stream.events = relinked(stream.events, place, turned)
    assert any(
        "not in the committed order" in check.detail for check in verify(stream.export()).checks
    )


def relinked(events: list[Event], place: int, body: dict[str, Any]) -> list[Event]:
    """The same stream with one body changed and all hashes made again."""
    from counterplay.core.exports import EventChain

    chain = EventChain("study")
    for number, event in enumerate(events):
        told = body if number == place else event.body or {}
        chain.add(event.kind, told, actor=event.actor, key=event.key)
    return chain.events


def test_other_frozen_labels_depart_although_the_questions_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels that were not frozen before their checks prove nothing."""
    from counterplay.labeling import joint

    stream, _ = begun(tmp_path, 10_000, learnable=True, max_error=0.1)
    before = stream.state
    right = joint.frozen_labels

    def turned(*arguments: Any) -> Any:
        found = right(*arguments).copy()
        found[-1] = 1 - found[-1]
        return found

    monkeypatch.setattr(joint, "frozen_labels", turned)
    state = folded_again(stream)
    launched = next(e for e in stream.events if e.kind == "label.launch")
    assert state.departed is not None
    assert state.departed.seq == launched.seq
    assert state.certified == before.certified
    assert state.stated == before.stated


@pytest.mark.claim("28.09")
def test_without_the_committed_orders_it_cannot_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, _ = begun(tmp_path, 60)
    given = dict(stream.state.answers)
    keys = campaign_state.CampaignState.keys
    monkeypatch.setattr(campaign_state.CampaignState, "keys", lambda *a: 1.0 - keys(*a))
    state = folded_again(stream)
    told = coordinator(state)["departed"]
    assert told["cannot"].startswith("This version does not give the orders of the checks")
    with pytest.raises(Refused, match="go on with counterplay"):
        stream.add("label.rule", written_with())
    assert state.answers == given
    monkeypatch.undo()
    assert folded_again(stream).departed is None


def test_a_version_that_cannot_begin_it_shows_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from counterplay.errors import InvalidInputError
    from counterplay.studio.kinds import campaign_fold

    stream, _ = begun(tmp_path, 60)
    given = dict(stream.state.answers)

    def refuses(*_: Any) -> Any:
        raise InvalidInputError("scope must be one of 'all'")

    monkeypatch.setattr(campaign_fold, "new_campaign", refuses)
    state = folded_again(stream)
    assert state.answers == given
    assert ledger(state, PARTIES[0])["rows"][0]["asked"] > 0
    assert coordinator(state)["departed"]["cannot"]
    assert verify(stream.export()).holds


def test_a_party_may_leave_while_it_has_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, truth = begun(tmp_path, 130, max_error=0.1)
    another_rule(monkeypatch)
    folded_again(stream)
    body = {"party": PARTIES[1], "forget": True, "lost": {}, "who": PARTIES[1]}
    stream.add("label.party", body, actor="studio")
    stream.add("party.withdrawn", {"party": PARTIES[1]}, actor=PARTIES[1])
    assert not any(a.party == PARTIES[1] for a in stream.state.answers.values())
    assert not stream.state.certified
    stream.add("label.rule", written_with())
    label_all(stream, truth, skip=PARTIES[1])
    assert stream.state.over
    assert stream.state.standing(PARTIES[1]) == "left"
    assert verify(stream.export()).holds


def opened(web: Web, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Labeller]:
    """A campaign in a server that was brought to another version."""
    config, truth = campaign_config(folder, 160, max_error=0.05)
    wrong = np.random.default_rng(0).permutation(truth)
    study = web.store.new_study("campaign", "Scans", config, actor="admin", open_now=True)
    clinic = Labeller(web, study, PARTIES[0])
    for _ in range(30):
        state = web.store.fold_now(study.public_id).state
        told = [q for p in PARTIES for q in state.waiting(p)]
        if len(state.answers) >= 120 or not told:
            break
        from counterplay.studio.kinds import NewEvent

        web.store.append_all_now(
            study.public_id,
            [NewEvent("label.tell", {"id": q.id, "label": int(wrong[q.item]), "party": q.party,
                                     "labeler": q.party}, f"t:{q.id}", q.party) for q in told],
            expected=None,
        )  # fmt: skip
    another_rule(monkeypatch)
    web.store._folds.drop(study.public_id)
    return study, clinic


@pytest.mark.claim("28.09")
def test_pages_say_so_and_a_button_goes_on(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, clinic = opened(web, tmp_path, monkeypatch)
    before = "".join(export_lines(web.store, study))
    admin, home = web.admin(), f"/admin/studies/{study.public_id}"
    page = admin.get(home)
    assert page.status_code == 200
    assert "Another version asked these questions" in page.text
    assert "From the record:" in page.text
    german = admin.get(home, headers={"accept-language": "de"}).text
    assert "Mit der Regel dieser Fassung weitermachen" in german
    queue_page = clinic.look().text
    assert "the coordinator decides how it goes on" in queue_page
    assert not clinic.cards
    assert "From the record" in clinic.client.get(f"{clinic.home}/ledger").text
    answers = clinic.client.get(f"{clinic.home}/answers").text
    assert "/correct" in answers
    assert "<select" not in answers
    assert admin.get(f"{home}/labels.csv").text.count("person") > 100
    assert json.loads(admin.get(f"{home}/tasks.json").text) == []
    assert admin.get(f"{home}/export").text == before
    assert web.admin("viewer").get(home).text.count("Go on under the rule of this version") == 0
    fields = {"csrf": dict(HIDDEN.findall(page.text))["csrf"], "key": "go-on-1234", "act": "rule"}
    done = admin.post(f"{home}/change", data=fields)
    assert done.status_code == 200
    assert "This campaign went on under another version" in done.text
    assert len(clinic.look().text) > 0
    assert any(web.store.fold_now(study.public_id).state.waiting(party) for party in PARTIES)
    assert verify("".join(export_lines(web.store, study)).encode()).holds
    assert web.store.audit_log()[0]["action"] == "label.rule"
