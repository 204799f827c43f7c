"""The campaign as a study: events are its log, folds are its replay, pages hide the checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest

from counterplay.core.exports import Event
from counterplay.labeling import Campaign
from counterplay.studio.errors import Refused
from counterplay.studio.kinds.campaign import KIND, log_text, lost_answers
from counterplay.studio.kinds.campaign_adding import addition
from counterplay.studio.kinds.campaign_config import pool
from counterplay.studio.kinds.campaign_uploads import answers_of
from counterplay.studio.kinds.campaign_views import (
    certificates,
    coordinator,
    ledger,
    own_answers,
    queue,
    standing,
)
from counterplay.studio.web.coordinator import _imported, label_studio
from counterplay.verify import verify
from studio.kind_driver import Stream
from studio.studio_campaigns import CLASSES, PARTIES, campaign_config, label_all

Made = tuple[Stream, np.ndarray]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A campaign that ran to its end, with one answer changed on the way."""
    config, truth = campaign_config(tmp_path_factory.mktemp("campaign"), n=160)
    stream = Stream(KIND, config)
    stream.add("study.opened", {})
    label_all(stream, truth, 30)
    first = next(iter(stream.state.answers))
    stream.add("label.retract", {"id": first, "blind": True}, actor="clinic 0")
    label_all(stream, truth)
    return stream, truth


def fresh(folder: Path, **more: object) -> Made:
    """A campaign that was opened."""
    config, truth = campaign_config(folder, **more)
    stream = Stream(KIND, config)
    stream.add("study.opened", {})
    return stream, truth


def test_events_are_the_log_and_replay_is_the_state(finished: Made) -> None:
    stream, _ = finished
    assert stream.state.state.finished
    assert stream.events[-1].kind == "label.result"
    again = stream.replayed()
    assert again.campaign.digest() == stream.state.campaign.digest()
    assert again.tests == stream.state.tests
    rebuilt = Campaign.from_log(log_text(stream.state), pool(stream.config["page"]))
    assert rebuilt.digest() == stream.state.campaign.digest()
    assert rebuilt.work() == stream.state.campaign.work()


@pytest.mark.claim("28.12")
def test_the_ledger_is_the_areas_report_and_nobody_works_more(finished: Made) -> None:
    stream, _ = finished
    report = {p.party: p for p in stream.state.campaign.work().parties}
    rows = ledger(stream.state, None)["rows"]
    assert [r["party"] for r in rows] == list(PARTIES)
    for row in rows:
        known = report[row["party"]]
        assert row["asked"] == known.asked
        assert row["alone_at_least"] == known.alone_at_least
        assert row["saved_at_least"] == known.saved_at_least
        assert row["asked"] <= row["alone_at_least"] + row["retracted"]
    assert ledger(stream.state, None)["nobody_more"]
    own = ledger(stream.state, "clinic 2")
    assert [r["party"] for r in own["rows"]] == ["clinic 2"]
    assert own["total"]["asked"] == sum(p.asked for p in report.values())
    assert own["certificates"][0]["scope"] == "all parties"


@pytest.mark.claim("28.12")
def test_more_work_after_a_change_is_said(tmp_path: Path) -> None:
    """Answers that were taken back are work, too: then nobody is told that he works no more."""
    stream, truth = fresh(tmp_path, parties=2, max_error=0.2)
    label_all(stream, truth, 60)
    for _ in range(12):
        answer = next(a for a in stream.state.answers.values() if a.party == "clinic 0")
        stream.add("label.retract", {"id": answer.question, "party": "clinic 0"}, actor="clinic 0")
        label_all(stream, truth, 1)
    label_all(stream, truth)
    told = ledger(stream.state, None)
    row = told["rows"][0]
    assert row["asked"] > row["alone_at_least"]
    assert row["asked"] <= row["alone_at_least"] + row["retracted"]
    assert (told["nobody_more"], told["nobody_more_but"]) == (False, True)


@pytest.mark.claim("28.12")
def test_a_certificate_says_of_how_many_labels_it_speaks(tmp_path: Path) -> None:
    """Items that come later, and items that were taken out, are not what was signed."""
    stream, truth = fresh(tmp_path, parties=2, max_error=0.2, scope="party", noise=0.05)
    while not stream.state.certified:
        label_all(stream, truth, 1)
    before = certificates(stream.state)[0]
    pool_size = len(stream.config["parties"][before["scope"]])
    assert (before["items"], before["withdrawn"], before["first_to"]) == (pool_size, 0, 2)
    late = pd.DataFrame({"case": ["n1", "n2"], "size": [0.1, 0.2], "shape": [0.3, 0.4]})
    at_work = [p for p in stream.config["parties"] if standing(stream.state, p) == "open"]
    stream.add("label.add", addition(stream.state, at_work[0], late.to_numpy().tolist()))
    assert certificates(stream.state)[0] == before
    assert stream.state.config["items"] == 134


@pytest.mark.claim("28.12")
def test_a_change_keeps_every_other_answer(tmp_path: Path) -> None:
    stream, truth = fresh(tmp_path)
    label_all(stream, truth, 8)
    before = dict(stream.state.answers)
    second = list(before)[1]
    stream.add("label.retract", {"id": second, "blind": True}, actor="x")
    assert set(before) - set(stream.state.answers) == {second}  # seven of eight are kept
    asked = stream.state.campaign._questions[second]
    waiting = stream.state.waiting(asked.party)
    assert any(q.id == second for q in waiting)  # it is asked again, at once
    told = {"id": second, "label": 1 - before[second].code, "party": asked.party}
    stream.add("label.tell", told, actor=asked.party)
    assert stream.state.answers[second].code != before[second].code
    assert {k: a.code for k, a in stream.state.answers.items() if k != second} == {
        k: a.code for k, a in before.items() if k != second
    }


@pytest.mark.claim("28.12")
def test_known_labels_cost_nothing_and_are_marked(tmp_path: Path) -> None:
    stream, truth = fresh(tmp_path)
    known = [[i, int(truth[i])] for i in range(0, 40, 2)]
    stream.add("label.imported", {"source": "last year.csv", "known": known})
    assert stream.state.begun
    assert all(stream.state.campaign.work().parties[i].asked <= 10 + 10 for i in range(4))
    label_all(stream, truth)
    items = {a.item for a in stream.state.answers.values()}
    assert not items & {i for i, _ in known}  # never asked, together or alone
    result = stream.state.campaign.result()
    assert {result.source[i] for i, _ in known} == {"known"}
    alone = Campaign(pool(stream.config["page"]), owners=stream.config["parties"], classes=CLASSES,
                     known={i: CLASSES[c] for i, c in known}, random_state=5, scope="union",
                     max_error=0.1)  # fmt: skip
    assert alone._state.commitment() == stream.config["commit"]
    assert verify(stream.export()).holds
    with pytest.raises(Refused, match="before the first answer"):
        stream.add("label.imported", {"source": "late.csv", "known": [[1, 0]]})


def test_skips_count_as_work_and_items_can_be_taken_out(tmp_path: Path) -> None:
    stream, _ = fresh(tmp_path)
    first = stream.state.waiting("clinic 1")[0]
    stream.add("label.skip", {"id": first.id, "party": "clinic 1"}, actor="clinic 1")
    assert stream.state.answers[first.id].code == -1
    assert queue(stream.state, "clinic 1")["answered"] == 1
    other = stream.state.waiting("clinic 1")[0]
    stream.add("label.withdraw", {"item": other.item, "reason": "broken scan"})
    assert other.item in stream.state.state.withdrawn
    assert other.id not in {q.id for q in stream.state.waiting("clinic 1")}
    told = coordinator(stream.state)
    assert told["withdrawn"] == [{"name": f"c{other.item}", "reason": "broken scan"}]
    with pytest.raises(Refused, match="Say why"):
        stream.add("label.withdraw", {"item": 3, "reason": " "})
    assert stream.replayed().campaign.digest() == stream.state.campaign.digest()


def test_what_is_not_legal_is_refused_and_appends_nothing(tmp_path: Path) -> None:
    stream, _ = fresh(tmp_path)
    mine = stream.state.waiting("clinic 0")[0]
    count = len(stream.events)
    for kind, body in (
        ("label.tell", {"id": mine.id, "label": 7, "party": "clinic 0"}),
        ("label.tell", {"id": mine.id, "label": True, "party": "clinic 0"}),
        ("label.tell", {"id": mine.id, "label": 0, "party": "clinic 1"}),
        ("label.tell", {"id": "q9999", "label": 0, "party": "clinic 0"}),
        ("label.tell", {}),
        ("label.retract", {"id": mine.id}),
        ("label.certify", {"vector": 0}),
        ("label.imported", {"source": "x", "known": [[99999, 0]]}),
        ("label.imported", {"source": "x", "known": [[1, 7]]}),
        ("label.party", {"party": "nobody", "forget": False}),
    ):
        with pytest.raises(Refused):
            stream.add(kind, body, actor="clinic 0")
    assert len(stream.events) == count


def test_cards_do_not_tell_what_a_question_is_for(finished: Made) -> None:
    stream, _ = finished
    state = stream.state
    names = {state.secret(q): q for q in state.questions}
    assert len(names) == len(state.questions)
    assert all(len(name) == 16 and int(name, 16) >= 0 for name in names)
    kinds = {state.campaign._questions[q].kind for q in names.values()}
    assert kinds == {"learn", "audit"}
    first = [int(name, 16) / 16**16 for name, q in names.items()
             if state.campaign._questions[q].kind == "audit"]  # fmt: skip
    assert 0.2 < float(np.mean(first)) < 0.8
    told = str(own_answers(state, "clinic 0")) + str(queue(state, "clinic 0"))
    assert "audit" not in told
    assert "learn" not in told


def leave(stream: Stream, party: str, *, named: bool = True) -> None:
    """A party goes and has its answers erased; older logs did not name who it was."""
    body = {"party": party, "forget": True, "lost": lost_answers(stream.state, party)}
    stream.add("label.party", {**body, "who": party} if named else body, actor="studio")
    stream.add("party.withdrawn", {"party": party}, actor=party)


def erased(stream: Stream, *parties: str) -> list[Event]:
    """The events without what these parties wrote."""
    gone = {seq for p in parties for seq in KIND.erases(stream.config, stream.events, p)}
    assert gone
    return [
        msgspec.structs.replace(e, body=None, salt=None) if e.seq in gone else e
        for e in stream.events
    ]


@pytest.mark.claim("28.15")
def test_an_answer_costs_as_many_fits_whatever_its_round_was_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only rounds of learning change the models: the time of the answer must not tell so."""
    stream, truth = fresh(tmp_path, n=160, max_error=0.05)
    wrong = np.random.default_rng(3).random(160) < 0.1
    truth = np.where(wrong, 1 - truth, truth)  # checks find them: learning goes on
    model, fits = type(stream.state.state.joint.settings.model), [0]
    fit = model.fit

    def counted(self: Any, *given: Any) -> Any:
        fits[0] += 1
        return fit(self, *given)

    monkeypatch.setattr(model, "fit", counted)
    ending: dict[str, list[int]] = {"learn": [], "audit": []}
    while asked := [q for party in PARTIES for q in stream.state.waiting(party)]:
        for q in asked:
            before, wanted = fits[0], stream.state.wants
            body = {"id": q.id, "label": int(truth[q.item]), "party": q.party}
            stream.add("label.tell", body, actor=q.party)
            if stream.state.wants is not wanted:  # the protocol went on
                ending[q.kind].append(fits[0] - before)
            else:
                assert fits[0] == before
    assert len(ending["learn"]) >= 2
    assert len(ending["audit"]) >= 2
    assert set(ending["learn"]) == set(ending["audit"])
    assert len(set(ending["learn"])) == 1


@pytest.mark.parametrize("named", [True, False])
def test_a_party_that_leaves_is_forgotten_and_the_chain_holds(tmp_path: Path, named: bool) -> None:
    stream, truth = fresh(tmp_path)
    label_all(stream, truth, 70)
    leave(stream, "clinic 1", named=named)
    label_all(stream, truth, skip="clinic 1")
    assert stream.state.state.finished
    gone = set(KIND.erases(stream.config, stream.events, "clinic 1"))
    stream.events = erased(stream, "clinic 1")
    again = stream.replayed()
    assert again.campaign.digest() == stream.state.campaign.digest()
    assert again.campaign.work() == stream.state.campaign.work()
    found = verify(stream.export())
    assert found.holds
    assert any(f"{len(gone)} erased" in check.detail for check in found.checks)


def test_where_others_differ_is_erased_with_the_answers(tmp_path: Path) -> None:
    """A note of a disagreement holds the answers on both sides."""
    stream, truth = fresh(tmp_path, parties=2, max_error=0.2, noise=0.05)
    while not stream.state.disagreed:
        q = next(q for p in stream.config["parties"] for q in stream.state.waiting(p))
        said = int(truth[q.item]) if q.repeat == 0 else 1 - int(truth[q.item])
        stream.add("label.tell", {"id": q.id, "label": said, "party": q.party}, actor=q.party)
    noted = next(e for e in stream.events if e.kind == "label.disagreed")
    party = (noted.body or {})["answers"][0][0]
    other = next(p for p in stream.config["parties"] if p != party)
    leave(stream, party, named=True)
    assert noted.seq in set(KIND.erases(stream.config, stream.events, party))
    assert noted.seq not in set(KIND.erases(stream.config, stream.events, other))
    stream.events = erased(stream, party)
    assert not any(party in str(e.body) for e in stream.events if e.kind == "label.disagreed")
    assert verify(stream.export()).holds
    assert ledger(stream.replayed(), None)["rows"] == ledger(stream.state, None)["rows"]


def test_who_left_and_is_forgotten_later_saved_nothing(tmp_path: Path) -> None:
    """No answers, no account: neither now nor after a restart."""
    stream, truth = fresh(tmp_path)
    label_all(stream, truth, 70)
    stream.add("label.party", {"party": "clinic 1", "forget": False})
    before = {row["party"]: row for row in ledger(stream.state, None)["rows"]}
    assert before["clinic 1"]["alone_at_least"] >= before["clinic 1"]["asked"] > 0
    leave(stream, "clinic 1", named=True)
    stream.events = erased(stream, "clinic 1")
    rows = ledger(stream.state, None)["rows"]
    assert rows == ledger(stream.replayed(), None)["rows"]
    mine = next(row for row in rows if row["party"] == "clinic 1")
    assert (mine["asked"], mine["alone_at_least"], mine["saved_at_least"]) == (0, 0, 0)
    assert stream.state.account("clinic 1")["saved_at_least"] == 0


def _changed(events: list[Event], seq: int, **changes: object) -> list[Event]:
    """The same stream with one body changed and all hashes made again."""
    from counterplay.core.exports import EventChain

    chain = EventChain("study")
    for event in events:
        body = {**(event.body or {}), **(changes if event.seq == seq else {})}
        chain.add(event.kind, body, actor=event.actor, key=event.key)
    return chain.events


def test_the_largest_seed_that_a_campaign_draws_is_verified(tmp_path: Path) -> None:
    stream, truth = fresh(tmp_path, n=24, seed=2**62 - 1)
    label_all(stream, truth)
    found = verify(stream.export())
    assert found.holds
    assert "audit orders" in {check.name for check in found.checks}


@pytest.mark.parametrize("word", ["certify", "launch", "tell", "ask", "result"])
def test_verify_fails_a_campaign_whose_log_lies(finished: Made, word: str) -> None:
    stream, _ = finished
    assert verify(stream.export()).holds
    events = [e for e in stream.events if e.kind == f"label.{word}"]
    passed = next(e for e in stream.events if e.kind == "label.certify").body or {}
    event = next(
        (e for e in events if (e.body or {}).get("vector") == passed["vector"]), events[-1]
    )
    body = event.body or {}
    changes: dict[str, object] = {
        "certify": {"checked": body.get("checked", 0) + 9},
        "launch": {"items": list(reversed(body.get("items", [])))},
        "tell": {"label": 1 - body.get("label", 0)},
        "ask": {"passed": 0, "ahead": 0},
        "result": {"labels": [1 - (x or 0) for x in body.get("labels", [])]},
    }[word]  # type: ignore[assignment]
    kept, stream.events = stream.events, _changed(stream.events, event.seq, **changes)
    try:
        assert not verify(stream.export()).holds
    finally:
        stream.events = kept


def test_label_studio_round_trip(tmp_path: Path) -> None:
    stream, truth = fresh(tmp_path, n=1_200, parties=100)
    tasks = label_studio(stream.state)
    assert len(tasks) == 1_000  # ten for each of a hundred parties
    assert all(set(task["meta"]) == {"question"} for task in tasks)
    for task in tasks:
        value = {"choices": [CLASSES[truth[int(task["data"]["case"][1:])]]]}
        task["annotations"] = [{"completed_by": 3, "result": [{"value": value}]}]
    given = answers_of({}, msgspec.json.encode(tasks))
    body = _imported(stream.state, "answers", "label studio", given)
    stream.add("label.imported", body)
    assert len(stream.state.answers) == 1_000
    for answer in stream.state.answers.values():
        assert answer.code == truth[answer.item]
        assert answer.source == "label studio"
    with pytest.raises(Refused, match="Nothing was imported"):
        stream.add("label.imported", _imported(stream.state, "answers", "again", given))
    tasks[3]["data"]["question"] = "nothing"
    with pytest.raises(Refused, match="task 4: there is no question 'nothing'"):
        _imported(stream.state, "answers", "again", answers_of({}, msgspec.json.encode(tasks)))
