"""Questions to people as a study: rows of the file, signs, undo, replay, and the proof."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from counterplay.core import export_bodies as lines
from counterplay.core.exports import EventChain, write_export
from counterplay.errors import InvalidInputError, InvalidStateError
from counterplay.studio import Studio
from counterplay.studio.errors import Refused
from counterplay.studio.kinds import NewEvent
from counterplay.studio.kinds.elicitation import KIND, Sitting, values_of
from counterplay.studio.kinds.elicitation_config import item_names, read_catalogue
from counterplay.studio.kinds.elicitation_engine import Engine, Problem, Recent
from counterplay.studio.kinds.elicitation_pages import (
    announced,
    contradicted,
    promise,
    question,
    reasons,
    result,
)
from counterplay.studio.web.texts import language
from counterplay.verify import verify
from studio.web_house import Web, catalogue, fields

HERE = Path()


def study(table: bytes | None = None, **more: Any) -> dict[str, Any]:
    return KIND.read_config({**fields(**more), "table_bytes": table or catalogue()}, HERE)


class Stream:
    """A stream without a store."""

    def __init__(self, config: dict[str, Any], name: str = "ann") -> None:
        self.config, self.chain = config, EventChain(name)
        self.state: Sitting = KIND.begin(config)
        self.add("party.joined", {"role": "participant", "locale": "en"})

    def add(self, kind: str, body: dict[str, Any]) -> None:
        KIND.check(self.config, self.state, NewEvent(kind, body, "key", "ann"))
        self._take(kind, body)

    def _take(self, kind: str, body: dict[str, Any]) -> None:
        event = self.chain.add(kind, body, actor="ann")
        self.state = KIND.apply(self.config, self.state, event)
        for new in KIND.follow(self.config, self.state, event):
            self._take(new.kind, new.body)

    def choose(self, place: int) -> None:
        assert self.state.open is not None
        word = ("first", "second")[place]
        self.add("elicit.answered", {"asked": self.state.open[0], "order": [place], "answer": word})

    def finish(self, taste: np.ndarray) -> None:
        while self.state.open is not None:
            worth = [np.dot(option.values, taste) for option in self.state.open[1].shown]
            self.choose(int(np.argmax(worth)))


@pytest.mark.claim("28.23")
def test_rows_without_numbers_keep_the_rows_of_the_file() -> None:
    """An incomplete row does not shift the others."""
    lines = catalogue().decode().splitlines()
    lines.insert(1, "first,,200")  # row 1 of the file lacks its comfort
    config = study("\n".join(lines).encode())
    assert config["page"]["missing"] == [[1, "comfort"]]
    assert config["columns"]["rows"] == list(range(1, 13))
    stream = Stream(config)
    stream.finish(np.array([0.95, 0.05]))
    assert stream.state.result is not None
    row = config["columns"]["rows"][stream.state.result.item]
    best = max(range(1, 13), key=lambda i: float(lines[i + 1].split(",")[1]))
    assert row == best
    assert lines[row + 1].split(",")[0] == config["page"]["names"][stream.state.result.item]


@pytest.mark.claim("28.23")
def test_names_that_occur_twice_get_their_row() -> None:
    """Nobody compares "Golf" with "Golf"."""
    frame = read_catalogue(b"name,x\nGolf,1\nPolo,2\nGolf,3\n,4\n")
    assert item_names(frame, "name", [0, 1, 2, 3]) == [
        "Golf (row 1)",
        "Polo",
        "Golf (row 3)",
        "(row 4)",
    ]
    assert item_names(frame, None, [2]) == ["#3"]


@pytest.mark.claim("28.23")
def test_volunteered_numbers_are_in_the_units_of_the_file_with_its_signs() -> None:
    """Of two equally good items the cheaper one is better."""
    rows = b"".join(b"t%d,%d,%d\n" % (i, 2 + i, 10 + 5 * i) for i in range(6))
    config = study(b"name,quality,price\n" + rows, columns=("quality", "price"))
    cheap, dear = values_of(config, [2.0, 10.0]), values_of(config, [2.0, 20.0])
    assert cheap[0] == dear[0]
    assert cheap[1] > dear[1]
    stream = Stream(config)
    body = KIND.volunteered(config, stream.state, "ann", ([2.0, 10.0], [2.0, 20.0]), (0,))
    stream.add("elicit.volunteered", body)
    engine = KIND._engine(KIND.problems.of(config), stream.state, "ann")
    solvent = engine.regions[0].evidence(np.array([[0.5, 0.5]]))
    assert solvent[0] <= 0.0  # nobody is contradicted by taking the cheaper one
    stream.finish(np.array([0.2, 0.8]))
    export = write_export("s", "elicitation", config, [stream.chain])
    assert verify(export.encode()).holds


@pytest.mark.claim("28.23")
def test_a_comparison_on_the_telephone_counts_and_its_question_stays_open(tmp_path: Path) -> None:
    with Studio(tmp_path) as studio:
        store = studio.store
        row = store.new_study("elicitation", "Things", study(), actor="admin", open_now=True)
        party = store.new_party(row, role="participant", label="Ann")
        ann, dear = party.public_id, {"comfort": 500.0, "price": 500.0}
        with pytest.raises(Refused, match="no open question"):
            studio.volunteer(ann, {**dear, "price": 400.0}, dear)
        store.join(party)
        before = store.fold_now(ann).state.open
        studio.volunteer(ann, {**dear, "price": 400.0}, dear)
        told = studio.events(row.public_id)[-1]
        assert told.kind == "elicit.volunteered"
        first, second = (option["values"] for option in (told.body or {})["shown"])
        assert first[0] == second[0]
        assert first[1] > second[1]  # less of a cost is better
        state = store.fold_now(ann).state
        assert state.open == before
        assert [said.entry.kind for said in state.log] == ["volunteered"]
        assert question(store.config(row), state, language("en"))
        for better, told_so in (({"price": 1.0}, "each of the columns comfort, price"),
                                ({**dear, "price": float("nan")}, "must be finite")):  # fmt: skip
            with pytest.raises(Refused, match=told_so):
                studio.volunteer(ann, better, dear)
        assert verify(studio.export(row.public_id).encode()).holds


@pytest.mark.claim("28.23")
def test_the_result_states_its_condition() -> None:
    """People err, and the certificate says how much of that it allows for."""
    config = study()
    stream = Stream(config)
    stream.finish(np.array([0.7, 0.3]))
    assert stream.state.result is not None
    told = promise(config, stream.state.result, language("en"))
    assert "one in ten of your answers is wrong (95\N{NO-BREAK SPACE}% confidence)" in told
    assert reasons(config, stream.state, language("en"))
    assert stream.state.result.rate == 0.1


def test_what_is_best_for_everybody_is_no_guess() -> None:
    """One item is better in every column: nothing has to be asked."""
    table = b"name,comfort,price\na,3,1\nb,2,2\nc,1,3\n"
    stream = Stream(study(table, columns=("comfort", "price")))
    assert stream.state.open is None
    told = result(stream.config, stream.state, language("en"))
    assert told["name"] == "a"
    assert told["promise"].startswith("Whatever you prefer, nothing else in the list can be better")


def test_nobody_can_stop_before_the_first_answer() -> None:
    """It would end with a guess that no answer can be taken back from."""
    stream = Stream(study())
    with pytest.raises(Refused, match="There is no answer yet"):
        stream.add("elicit.stopped", {})
    asked, _ = stream.state.open
    stream.add("elicit.cannot_say", {"asked": asked, "said": "cannot say"})
    stream.add("elicit.stopped", {})
    told = result(stream.config, stream.state, language("en"))
    assert told["promise"] == "You have not decided anything yet: this is only a guess."
    assert told["can_undo"]


def test_what_is_not_reached_is_no_promise_in_ranges_either() -> None:
    """Nobody promises that nothing is better by more than all of the way."""
    config = study(either=("comfort",), columns=("price",))
    assert config["unknown"] == [1]
    stream = Stream(config)
    while stream.state.open is not None:
        stream.add("elicit.cannot_say", {"asked": stream.state.open[0], "said": "cannot say"})
    stated = stream.state.result
    assert stated is not None
    assert (stated.regret_certificate or 0.0) > config["target"]
    told = promise(config, stated, language("en"))
    assert told.startswith("After the answers so far, something else in the list could be better")
    assert "of the way from worst to best" in told


def test_bars_where_less_is_wanted() -> None:
    """Whoever wants the least of a column gets it, and its bar is the longest."""
    config = study(either=("comfort",), columns=("price",), target_regret=0.2)
    stream = Stream(config)
    stream.finish(np.array([0.1, -0.9]))
    assert stream.state.result is not None
    bars = result(config, stream.state, language("en"))["bars"]
    assert bars[0]["mean"] == max(bar["mean"] for bar in bars) > 50
    assert len({bar["mean"] for bar in bars}) > 1
    assert all(0 <= bar["low"] <= bar["high"] <= 100 for bar in bars)
    worst = config["items"][stream.state.result.item][1]
    assert worst <= 0.2  # it has little of what is not wanted


@pytest.mark.parametrize(
    "numbers", [("1e300", "2e300"), ("-1e308", "1e308"), ("1e15", "3"), ("1e-9", "2e-9")]
)
def test_numbers_that_no_card_can_show_are_refused(numbers: tuple[str, str]) -> None:
    table = f"name,x,y\na,{numbers[0]},1\nb,{numbers[1]},0\n".encode()
    with pytest.raises(InvalidInputError, match="column 'x' are too large or too close"):
        study(table, benefits=["x", "y"], costs=[])


def test_a_card_shows_what_tells_two_items_apart() -> None:
    """In a column from 0 to 900 whole numbers do, but not for 10.2 against 10.4."""
    table = b"name,x,y\na,10.2,1\nb,10.4,0.5\nc,900,0\n"
    config = study(table, benefits=["x", "y"], costs=[])
    sitting = Stream(config).state
    assert sitting.open is not None
    seq, asked = sitting.open
    shown = tuple(lines.Shown(id=i, values=tuple(config["items"][i])) for i in (0, 1))
    sitting.open = seq, msgspec.structs.replace(asked, shown=shown)
    cards = question(config, sitting, language("en"))["cards"]
    assert [card["rows"][0]["value"] for card in cards] == ["10.2", "10.4"]
    assert [card["rows"][0]["better"] for card in cards] == [False, True]


@pytest.mark.parametrize(
    ("kind", "change", "told"),
    [
        ("elicit.asked", lambda b: b["shown"].append(b["shown"][0]), "two items of the list"),
        ("elicit.asked", lambda b: b["shown"][0].update(id=None), "two items of the list"),
        ("elicit.asked", lambda b: b["shown"][0].update(id=99), "two items of the list"),
        ("elicit.result", lambda b: b.update(item=99), "not in the list"),
        ("elicit.result", lambda b: b["compared"][0].update(item=99), "not in the list"),
    ],
)
def test_what_no_page_can_show_is_not_taken(kind: str, change: Any, told: str) -> None:
    """A log from outside may hold anything; a page may not fail on it."""
    config = study()
    stream = Stream(config)
    stream.finish(np.array([0.7, 0.3]))
    events = stream.chain.events
    at = next(place for place, event in enumerate(events) if event.kind == kind)
    state = KIND.begin(config)
    for event in events[:at]:
        state = KIND.apply(config, state, event)
    body = json.loads(json.dumps(events[at].body))
    change(body)
    with pytest.raises(InvalidStateError, match=told):
        KIND.apply(config, state, msgspec.structs.replace(events[at], body=body))


@pytest.mark.parametrize("seed", range(3))
def test_what_is_stated_is_what_verify_recomputes(seed: int) -> None:
    columns = ("comfort", "price", "range")
    config = study(catalogue(25, columns, seed), columns=columns, target_regret=0.1, seed=seed)
    stream = Stream(config, f"person {seed}")
    rng = np.random.default_rng(seed)
    taste = rng.dirichlet(np.ones(3))
    stream.choose(0)
    stream.add("elicit.undone", {"seq": stream.state.log[-1].seq})
    assert stream.state.open is not None
    stream.add("elicit.cannot_say", {"asked": stream.state.open[0], "said": "same"})
    stream.finish(taste)
    found = verify(write_export("s", "elicitation", config, [stream.chain]).encode())
    assert found.holds, found.summary()
    assert stream.state.result is not None
    assert stream.state.result.regret_certificate is not None
    lowered = {**stream.chain.events[-1].body, "regret_certificate": 0.0}  # type: ignore[dict-item]
    forged = EventChain(stream.chain.stream)
    for event in stream.chain.events[:-1]:
        forged.add(event.kind, event.body or {}, actor=event.actor, key=event.key)
    forged.add("elicit.result", lowered, actor="counterplay")
    true = stream.state.result.regret_certificate
    assert (
        true == 0.0 or not verify(write_export("s", "elicitation", config, [forged]).encode()).holds
    )


@pytest.mark.claim("28.23")
def test_replay_needs_no_question_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    config = study()
    stream = Stream(config)
    stream.finish(np.array([0.6, 0.4]))

    def never(*_: Any) -> Any:
        raise AssertionError("a question was chosen")

    monkeypatch.setattr(Engine, "question", never)
    again = KIND.begin(config)
    for event in stream.chain.events:
        again = KIND.apply(config, again, event)
    assert again.result == stream.state.result
    assert [said.entry.order for said in again.log] == [
        said.entry.order for said in stream.state.log
    ]


def test_an_engine_that_was_forgotten_asks_the_same() -> None:
    config = study()
    first, second = Stream(config), Stream(config)
    while first.state.open is not None:
        KIND._engines.drop(second.state)
        assert second.state.open is not None
        assert first.state.open[1].shown == second.state.open[1].shown
        np.testing.assert_allclose(first.state.open[1].forecast, second.state.open[1].forecast)
        first.choose(0)
        second.choose(0)
    assert second.state.result is not None
    assert first.state.result is not None
    assert second.state.result.item == first.state.result.item


def test_a_pair_that_could_not_be_decided_is_not_asked_again() -> None:
    config = study(catalogue(30))
    stream, seen = Stream(config), []
    while stream.state.open is not None and len(seen) < 6:
        seq, asked = stream.state.open
        seen.append(frozenset(option.id for option in asked.shown))
        stream.add("elicit.cannot_say", {"asked": seq, "said": "cannot say"})
    assert len(set(seen)) == len(seen)
    shown = question(config, stream.state, language("en"))
    assert shown["offer_stop"]
    assert shown["can_undo"]
    stream.add("elicit.stopped", {})
    assert stream.state.result is not None
    told = promise(config, stream.state.result, language("en"))
    assert "could be better" in told or "best guess" in told


def test_the_first_question_counts_as_the_start_page_does() -> None:
    config = study()
    stream = Stream(config)
    shown = question(config, stream.state, language("en"))
    assert (shown["number"], shown["of"]) == (1, announced(config)[0])


def test_a_page_counts_the_questions_after_this_one(web: Web) -> None:
    person = web.person(web.study(study()))
    assert "Question 1, about 7 more" in person.page.text  # eight, as the start page says


def test_the_page_says_when_an_answer_does_not_fit() -> None:
    columns = ("comfort", "price", "range")
    stream = Stream(study(catalogue(30, columns), columns=columns, target_regret=0.001))
    for _ in range(40):
        if stream.state.open is None:
            break
        _, asked = stream.state.open
        values = [np.dot(option.values, (0.5, 0.3, 0.2)) for option in asked.shown]
        best = int(np.argmax(values))
        stream.choose(best if asked.repeat_of is None else 1 - best)
        if asked.repeat_of is not None:
            assert contradicted(stream.state) == asked.repeat_of + 1
            return
    pytest.fail("nothing was asked twice")


@pytest.mark.claim("28.23")
@pytest.mark.parametrize(
    ("table", "more", "told"),
    [
        (b"name,comfort,price\na,1,2\n", {}, "two rows are needed"),
        (b"name,comfort,price\na,1,2\nb,1,3\n", {}, "'comfort' is the same for all items"),
        (b"name,comfort,price\na,1,2\nb,soft,3\n", {}, "row 2 has 'soft' in column 'comfort'"),
        (None, {"benefits": ["speed"]}, "There is no column 'speed'"),
        (None, {"benefits": [], "costs": []}, "whether more or less of it is better"),
        (None, {"target_regret": 0.0}, "target_regret must be from 0.001"),
        (None, {"colour": "red"}, "colour"),
        (None, {"name": " "}, "Give the study a name"),
    ],
)
def test_bad_catalogues_are_named(table: bytes | None, more: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        KIND.read_config({**fields(), "table_bytes": table or catalogue(), **more}, HERE)


def test_seven_columns_are_too_many() -> None:
    columns = ("comfort", "price", "a", "b", "c", "d", "e")
    with pytest.raises(InvalidInputError, match="7 columns are compared"):
        study(catalogue(12, columns), columns=columns)


def test_an_undo_by_hand_must_name_the_last_answer() -> None:
    stream = Stream(study(catalogue(30), target_regret=0.001))
    stream.choose(0)
    with pytest.raises(Refused, match="no answer to take back"):
        stream.add("elicit.undone", {"seq": 1})


def test_pages_of_a_whole_visit(web: Web) -> None:
    person = web.person()
    data = person.client.get(f"{person.home}/data.json").json()
    assert [event["kind"] for event in data["events"]] == ["party.joined", "elicit.asked"]
    person.finish()
    assert person.name == "result"
    assert "Your receipt" in person.page.text
    code = person.client.get(f"{person.home}/receipt").text
    person.send("undo")
    assert person.name == "question"
    assert "Your receipt" in code
    person.finish()
    again = other_device(web, person)
    assert 'data-page="result"' in again
    web.store.set_state(person.study.public_id, "closed", actor="admin")
    person.look()
    assert "This study closed on" in person.page.text
    person.send("withdraw")
    assert person.name == "withdraw"
    person.send("withdraw", sure="yes")
    assert person.name == "gone"
    assert all(
        e.body is None
        for e in web.store.events(person.party.public_id)
        if e.kind.startswith("elicit.")
    )


def other_device(web: Web, person: Any) -> str:
    """The same link on another device continues."""
    with web.client() as other:
        start = other.get(f"/j/{person.token}")
        assert "Continue where you stopped" in start.text
        from studio.web_house import FORM, HIDDEN

        form = FORM.search(start.text)
        assert form is not None
        return other.post(form[1], data=dict(HIDDEN.findall(start.text))).text


def test_answers_to_a_closed_study_are_kept_and_said(web: Web) -> None:
    person = web.person(web.study(study(catalogue(40), target_regret=0.001)))
    person.answer()
    assert person.name == "question"
    web.store.set_state(person.study.public_id, "closed", actor="admin")
    before = len(web.store.events(person.party.public_id))
    late = person.answer()
    assert late.status_code == 409
    assert "Your 1 answer is kept; here is your result so far." in late.text
    assert person.name == "result"
    shown = re.search(r"<h1.*?</h1>", late.text, re.S)
    assert shown is not None
    twin = web.person(web.study(study(catalogue(40), target_regret=0.001)))
    sitting = web.store.fold_now(person.party.public_id).state
    stated = KIND.so_far(web.store.config(person.study), sitting, person.party.public_id).result
    assert stated is not None
    assert f"thing {stated.item}<" in shown[0]
    person.look()
    assert shown[0] in person.page.text
    assert sitting.result is None  # it is worked out for the page; the log says nothing of it
    assert len(web.store.events(person.party.public_id)) == before
    web.store.set_state(twin.study.public_id, "paused", actor="admin")
    twin.look()
    for one, name in ((person, "result"), (twin, "waiting")):
        assert one.name == name
        one.send("withdraw")
        one.send("withdraw", sure="yes")
        assert one.name == "gone"  # whoever wants to leave may do so at any time


def test_the_same_button_with_another_answer(web: Web) -> None:
    person = web.person(web.study(study(catalogue(40), target_regret=0.001)))
    form = person.hidden
    path = f"{person.home}/answer"
    assert person.client.post(path, data={**form, "answer": "first"}).status_code == 200
    repeated = person.client.post(path, data={**form, "answer": "first"})
    assert repeated.status_code == 200
    other = person.client.post(path, data={**form, "answer": "second"})
    assert other.status_code == 422
    assert "already used for another answer" in other.text
    kinds = [event.kind for event in web.store.events(person.party.public_id)]
    assert kinds.count("elicit.answered") == 1


def test_consent_comes_before_the_first_question(web: Web) -> None:
    config = study(consent="We keep your answers for a year.")
    room = web.study(config)
    party, token = web.link(room)
    with web.client() as client:
        start = client.get(f"/j/{token}")
        from studio.web_house import HIDDEN

        form = dict(HIDDEN.findall(start.text))
        refused = client.post(f"/j/{token}", data=form)
        assert refused.status_code == 422
        assert "without it nothing is asked" in refused.text
        assert web.store.events(party.public_id) == []
        client.post(f"/j/{token}", data={**form, "consent": "yes"})
    kinds = [event.kind for event in web.store.events(party.public_id)]
    assert kinds == ["party.joined", "consent", "elicit.asked"]


def test_engines_are_forgotten_when_they_are_of_no_use() -> None:
    problem, kept = Problem.of(study()), Recent(most=2)
    people = [Sitting() for _ in range(3)]
    for place, person in enumerate(people):
        kept.put(person, Engine.fresh(problem, f"p{place}"))
    assert kept.get(people[0]) is None
    assert kept.get(people[2]) is not None
    assert len(kept) == 2
    kept.idle = 0.0
    kept.sweep()  # nobody came for longer than the time that is allowed
    assert len(kept) == 0


def test_a_result_needs_no_engine_any_more() -> None:
    stream = Stream(study())
    assert KIND._engines.get(stream.state) is not None
    stream.finish(np.array([0.6, 0.4]))
    assert stream.state.result is not None
    assert KIND._engines.get(stream.state) is None
