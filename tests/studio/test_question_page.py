"""What the page of a question says: what was answered before, and what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplay.studio.kinds import elicitation_pages, kind_of
from studio.web_house import Person, Web, catalogue, fields

REPLACES = "That question is answered already"
COLUMNS = ("comfort", "price", "range")


def long_study(web: Web) -> Any:
    """Questions that do not end soon, and of which some come again."""
    raw = {**fields(COLUMNS, target_regret=0.001), "table_bytes": catalogue(30, COLUMNS)}
    return web.study(kind_of("elicitation").read_config(raw, Path()))


def contradict(web: Web) -> tuple[Person, int]:
    """Somebody of one taste until a question comes again, then of the other; and its number."""
    study = long_study(web)
    for _ in range(8):  # which questions come again is drawn for everybody anew
        person = web.person(study)
        while person.name == "question":
            asked = web.store.fold_now(person.party.public_id).state.open[1]
            worth = [np.dot(option.values, (0.5, 0.3, 0.2)) for option in asked.shown]
            best, again = int(np.argmax(worth)), asked.repeat_of
            person.answer(("first", "second")[best if again is None else 1 - best])
            if again is not None and person.name == "question":
                return person, int(again) + 1
    raise AssertionError("nothing was asked twice")


def test_back_after_one_answer_is_explained(web: Web) -> None:
    person = web.person()
    begun = str(person.page.url)
    assert REPLACES not in person.page.text
    assert REPLACES not in person.client.get(begun).text
    person.answer()
    assert "Question 2" in person.page.text
    assert REPLACES not in person.page.text
    assert REPLACES in person.client.get(begun).text  # what the browser asks for on Back


def test_a_longer_way_is_explained_whatever_else_there_is_to_say(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    person, plain = web.person(), elicitation_pages.question

    def asked(*arguments: Any) -> dict[str, Any]:
        return {**plain(*arguments), "opened": True, "again": 2, "contradicts": 1}

    monkeypatch.setattr(elicitation_pages, "question", asked)
    person.answer()
    for sentence in ("opened new possibilities", "question 2 once more", "does not fit with"):
        assert sentence in person.page.text


def test_a_contradiction_offers_to_go_back_or_to_keep_both(web: Web) -> None:
    person, number = contradict(web)
    count = len(web.store.fold_now(person.party.public_id).state.log)
    assert f"does not fit with question {number}," in person.page.text
    assert f"Go back to question {number}" in person.page.text
    kept = person.client.get(f"{person.home}?kept=1").text
    assert "Keep both" in person.page.text
    assert "Keep both" not in kept
    first = web.store.fold_now(person.party.public_id).state.log[number - 1]
    shown = [option.id for option in first.asked.shown]
    person.send("undo", to=str(number))
    sitting = web.store.fold_now(person.party.public_id).state
    assert len(sitting.log) == number - 1 < count - 1
    assert [option.id for option in sitting.open[1].shown] == shown
    assert f"You are back at question {number}." in person.page.text


def test_only_a_question_that_was_asked_can_be_gone_back_to(web: Web) -> None:
    person = web.person(long_study(web))
    for _ in range(3):
        person.answer()
    person.send("undo", to="99")
    assert len(web.store.fold_now(person.party.public_id).state.log) == 2
    person.send("undo", to="1")
    assert not web.store.fold_now(person.party.public_id).state.log
    assert "You are back at question 1." in person.page.text


def test_stopping_is_offered_from_the_first_answer_on(web: Web) -> None:
    person = web.person()
    assert "/stop" not in person.page.text
    assert "your link brings you back here" in person.page.text
    told = person.send("stop")
    assert told.status_code == 422
    assert "There is no answer yet" in told.text
    person.look()
    assert person.name == "question"
    person.answer()
    assert "/stop" in person.page.text
    assert "your link brings you back here" not in person.page.text
    person.send("stop")
    assert person.name == "result"
    person.send("undo")
    assert "Question 1" in person.page.text
    assert "/stop" not in person.page.text
