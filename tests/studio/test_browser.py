"""The pages in a real Chromium: phone, keyboard, no JavaScript, narrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from counterplay.studio.kinds import kind_of
from studio.web_house import Web, catalogue, fields

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
SIX = ("comfort", "price", "range", "boot", "warranty", "speed")


@pytest.fixture
def tab(chromium: Any) -> Iterator[Any]:
    """Opens pages; whatever the console says against the policy of the page fails the test."""
    contexts, problems = [], []

    def open_page(**given: Any) -> Any:
        context = chromium.new_context(locale="en-GB", **given)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [told for told in problems if "status of 4" not in told] == []


def begin(web: Web, page: Any, study: Any = None) -> Any:
    """Open a fresh link and press Start; return the study."""
    study = study or web.study()
    page.goto(f"{web.url}/j/{web.link(study)[1]}")
    with page.expect_navigation():
        page.get_by_role("button", name="Start").click()
    return study


def finish(page: Any, press: Any) -> int:
    """Answer until the result, always for the one that stands first in the file."""
    count = 0
    while page.locator("main[data-page=question]").count():
        items = [int(card.get_attribute("data-item")) for card in page.locator("article").all()]
        with page.expect_navigation():
            press(page, items.index(min(items)))
        count += 1
        assert count < 80
    assert page.locator("main[data-page=result]").count() == 1
    return count


@pytest.mark.claim("28.10")
@pytest.mark.parametrize("script", [True, False])
def test_a_phone_reaches_the_result(web: Web, tab: Any, script: bool) -> None:
    page = tab(java_script_enabled=script, **PHONE)
    begin(web, page)
    count = finish(page, lambda p, i: p.get_by_role("button", name="This one").nth(i).tap())
    assert count >= 1
    assert "Your best match" in page.locator("h1").inner_text()
    assert page.locator("code").inner_text().count("-") == 3


@pytest.mark.claim("28.10")
def test_a_tap_anywhere_on_a_card_answers(web: Web, tab: Any) -> None:
    page = tab(**PHONE)
    study = begin(web, page)
    shown = page.locator("article").nth(1).get_attribute("data-item")
    box = page.locator("article h2").nth(1).bounding_box()
    with page.expect_navigation():
        page.touchscreen.tap(box["x"] + 5, box["y"] + 5)
    party = web.store.parties(study)[0]
    said = next(e for e in web.store.events(party.public_id) if e.kind == "elicit.answered")
    asked = web.store.events(party.public_id)[said.body["asked"] - 1]
    rows = web.config["columns"]["rows"]
    assert str(rows[asked.body["shown"][said.body["order"][0]]["id"]]) == shown
    assert said.body["ms"] > 0


@pytest.mark.claim("28.10")
def test_the_keyboard_alone_reaches_the_result(web: Web, tab: Any) -> None:
    page = tab(viewport={"width": 1000, "height": 800})
    begin(web, page)

    def press(p: Any, place: int) -> None:
        button = p.get_by_role("button", name="This one").nth(place)
        for _ in range(12):
            p.keyboard.press("Tab")
            if button.evaluate("b => b === document.activeElement"):
                break
        p.keyboard.press("Enter")

    assert finish(page, press) >= 1


@pytest.mark.claim("28.10")
def test_keys_choose_and_take_back(web: Web, tab: Any) -> None:
    page = tab(viewport={"width": 1000, "height": 800})
    study = begin(web, page)
    for key in ("1", "b", "0", "b", "?", "b", "2"):
        with page.expect_navigation():
            page.keyboard.press(key)
    party = web.store.parties(study)[0]
    kinds = [e.kind for e in web.store.events(party.public_id) if e.actor == party.public_id]
    told = [kind.removeprefix("elicit.") for kind in kinds if kind.startswith("elicit.")]
    assert told == [
        "answered",
        "undone",
        "cannot_say",
        "undone",
        "cannot_say",
        "undone",
        "answered",
    ]


@pytest.mark.claim("28.10")
@pytest.mark.parametrize("script", [True, False])
def test_back_shows_the_open_question_and_says_so(web: Web, tab: Any, script: bool) -> None:
    page = tab(java_script_enabled=script, **PHONE)
    begin(web, page, web.study(slow_config(web)))
    for _ in range(3):
        with page.expect_navigation():
            page.get_by_role("button", name="This one").first.tap()
    assert "Question 4" in page.locator(".progress").inner_text()
    page.go_back()
    assert "Question 4" in page.locator(".progress").inner_text()
    assert "is answered already" in page.locator(".note").inner_text()


def slow_config(web: Web) -> dict[str, Any]:
    """A study with more than a few questions."""
    raw = {**fields(("comfort", "price", "range"), target_regret=0.01)}
    table = catalogue(40, ("comfort", "price", "range"))
    return kind_of("elicitation").read_config({**raw, "table_bytes": table}, web.settings.data)


@pytest.mark.claim("28.10")
def test_two_windows_cannot_both_be_right(web: Web, tab: Any) -> None:
    page = tab(**PHONE)
    begin(web, page, web.study(slow_config(web)))
    second = page.context.new_page()
    second.goto(page.url)
    with page.expect_navigation():
        page.get_by_role("button", name="This one").first.tap()
    with second.expect_navigation() as moved:
        second.get_by_role("button", name="This one").nth(1).tap()
    assert moved.value.status == 409
    assert "in another window" in second.locator(".note").inner_text()
    assert "Question 2" in second.locator(".progress").inner_text()


@pytest.mark.claim("28.10")
def test_a_double_click_counts_once(web: Web, tab: Any) -> None:
    page = tab(viewport={"width": 1000, "height": 800})
    study = begin(web, page, web.study(slow_config(web)))
    with page.expect_navigation():
        page.get_by_role("button", name="This one").first.dblclick(no_wait_after=True)
    party = web.store.parties(study)[0]
    kinds = [e.kind for e in web.store.events(party.public_id)]
    assert kinds.count("elicit.answered") == 1


@pytest.mark.claim("28.10")
def test_six_rows_fit_a_phone_and_nothing_scrolls_sideways(web: Web, tab: Any) -> None:
    raw = {**fields(SIX), "units": {"price": "EUR", "range": "km"}}
    raw["table_bytes"] = catalogue(14, SIX)
    config = kind_of("elicitation").read_config(raw, web.settings.data)
    page = tab(**PHONE)
    study = begin(web, page, web.study(config))
    for button in page.get_by_role("button", name="This one").all():
        box = button.bounding_box()
        assert box["y"] + box["height"] <= 844
        assert box["height"] >= 44
    for name in ("Cannot say", "Stop here"):
        with page.expect_navigation():
            page.get_by_role("button", name=name).tap()
    result = page.url
    party = web.store.parties(study)[0]
    narrow = tab(viewport={"width": 320, "height": 640})
    narrow.context.add_cookies(page.context.cookies())
    begin(web, narrow, study)
    places = [f"{web.url}/j/{web.link(study)[1]}", narrow.url, result, f"{web.url}/admin/login"]
    for place in places:
        narrow.goto(place)
        wide = narrow.evaluate("document.documentElement.scrollWidth")
        assert wide <= 320, (place, wide, party.label)


@pytest.mark.claim("28.11")
def test_tab_walks_in_reading_order_and_the_focus_is_seen(web: Web, tab: Any) -> None:
    page = tab(viewport={"width": 1000, "height": 900})
    begin(web, page, web.study(slow_config(web)))
    with page.expect_navigation():
        page.get_by_role("button", name="This one").first.click()
    names = []
    for _ in range(12):
        page.keyboard.press("Tab")
        name, shown = page.evaluate(
            "(() => { const e = document.activeElement, card = e.closest('.option');"
            " const s = getComputedStyle(card || e);"
            " return [e.textContent.trim(), s.outlineStyle + s.outlineWidth]; })()"
        )
        names.append(name)
        assert shown == "solid3px", (name, shown)
        if name == "Deutsch":
            break
    assert names == ["Skip to the content", "This one", "This one", "About the same", "Cannot say",
                     "← Back", "Stop here", "Deutsch"]  # fmt: skip
