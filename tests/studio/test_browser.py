"""The pages in a real Chromium: phone, keyboard, no JavaScript, dark, narrow, and axe-core."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
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
    with page.expect_navigation():
        page.get_by_role("button", name="Stop here").tap()
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


def screens(web: Web, page: Any) -> Iterator[str]:
    """Every screen of this house, one after the other."""
    from counterplay.studio.passwords import SHORTEST

    assert SHORTEST >= 8
    study = web.study()
    token = web.link(study, "<b>ann</b>")[1]
    page.goto(f"{web.url}/j/{token}")
    yield "start"
    with page.expect_navigation():
        page.get_by_role("button", name="Start").click()
    yield "question"
    with page.expect_navigation():
        page.get_by_role("button", name="Stop here").click()
    yield "result"
    home = f"{web.url}/p/{study.public_id}"
    page.goto(f"{home}/receipt")
    yield "receipt"
    page.goto(home)
    with page.expect_navigation():
        page.get_by_role("button", name="Delete my data").click()
    yield "withdraw"
    with page.expect_navigation():
        page.get_by_role("button", name="Delete everything").click()
    yield "gone"
    consent = {**web.config, "page": {**web.config["page"], "consent": "We keep it for a year."}}
    page.goto(f"{web.url}/j/{web.link(web.study(consent))[1]}")
    yield "consent"
    page.goto(f"{web.url}/j/nothing")
    yield "no link"
    page.goto(f"{web.url}/admin/login")
    yield "login"
    row = web.store.new_admin(f"axe {len(web.store.admins())}", password=None, role="owner")
    page.goto(f"{web.url}/admin/link/{web.store.new_login(row)}")
    yield "login link"
    with page.expect_navigation():
        page.get_by_role("button", name="Log in").click()
    yield "studies"
    page.goto(f"{web.url}/admin/studies/{study.public_id}")
    yield "study"
    page.goto(f"{web.url}/admin/studies/{study.public_id}/preview")
    yield "preview"
    page.goto(f"{web.url}/admin/studies/import")
    yield "import"
    yield from wizard(web, page)


def wizard(web: Web, page: Any) -> Iterator[str]:
    """The four steps of a new study."""
    page.goto(f"{web.url}/admin/studies/new")
    file = {"name": "t.csv", "mimeType": "text/csv", "buffer": b"a,b\n1\n"}
    page.set_input_files("#file", file)
    with page.expect_navigation():
        page.get_by_role("button", name="Continue").click()
    assert "Line 2 has 1 fields, the header has 2." in page.locator("#wrong").inner_text()
    yield "file, refused"
    page.set_input_files("#file", {**file, "buffer": catalogue()})
    with page.expect_navigation():
        page.get_by_role("button", name="Continue").click()
    yield "columns"
    page.select_option("#direction-1", "benefit")
    page.select_option("#direction-2", "cost")
    page.fill("#unit-2", "EUR")
    with page.expect_navigation():
        page.get_by_role("button", name="Continue").click()
    yield "texts"
    page.fill("#name", "From the browser")
    with page.expect_navigation():
        page.get_by_role("button", name="Continue").click()
    yield "preview of a new study"
    with page.expect_navigation():
        page.get_by_role("button", name="Make and open it").click()
    assert "From the browser" in page.locator("h1").inner_text()
    with page.expect_navigation():
        page.get_by_role("button", name="Make an open link").click()
    yield "open link"


@pytest.fixture(scope="session")
def axe() -> Any:
    """Checks the page of a tab in both colour schemes."""
    if find_spec("axe_playwright_python") is None:
        pytest.skip("axe-playwright-python is not installed")
    import axe_playwright_python

    source = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text("utf-8")

    def check(page: Any, name: str) -> None:
        page.evaluate(source)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found = page.evaluate(
                "async levels => (await axe.run(document, {runOnly: levels})).violations.map("
                "v => v.id + ': ' + v.nodes.map(n => n.html).join(' | '))",
                ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
            )
            assert found == [], (name, scheme, found)
        assert page.locator("h1").count() == 1, name
        assert page.locator("main").count() == 1, name

    return check


@pytest.mark.claim("28.11")
def test_axe_finds_nothing_on_any_screen(web: Web, tab: Any, axe: Any) -> None:
    page = tab(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    seen = []
    for name in screens(web, page):
        axe(page, name)
        seen.append(name)
    assert len(seen) == 19


@pytest.mark.claim("28.11")
def test_axe_finds_nothing_on_the_screens_of_parties(
    web: Web, tab: Any, axe: Any, tmp_path: Path
) -> None:
    from studio.guards import guard_config
    from studio.studio_campaigns import PARTIES, Labeller, campaign_config

    config, _ = campaign_config(tmp_path, n=92)
    study = web.store.new_study("campaign", "Scans", config, actor="admin", open_now=True)
    guard = web.store.new_study("guard", "Loans", guard_config(), actor="admin", open_now=True)
    clinic = Labeller(web, study, PARTIES[0])
    page = tab(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    for client in (clinic.client, web.admin()):
        page.context.add_cookies(
            [{"name": c.name, "value": c.value, "url": web.url} for c in client.cookies.jar]
        )
    rooms = (study.public_id, guard.public_id)
    for path in (clinic.home, f"{clinic.home}/ledger", *(f"/admin/studies/{r}" for r in rooms),
                 "/admin/audits", "/admin/reports", "/admin/studies/new/campaign"):  # fmt: skip
        page.goto(f"{web.url}{path}")
        axe(page, path)


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


@pytest.mark.claim("28.22")
def test_the_layout_holds_with_longer_texts(
    web: Web, tab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from counterplay.studio.web import texts

    english = texts.language("en")
    longer = {
        key: f"{text} {'x' * (1 + 4 * len(text) // 10)}" for key, text in english.texts.items()
    }
    page = tab(**PHONE)
    study = begin(web, page)
    monkeypatch.setattr(english, "texts", longer)
    page.reload()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    boxes = [b.bounding_box() for b in page.locator("form button").all()]
    for i, one in enumerate(boxes):
        for other in boxes[i + 1 :]:
            apart = (
                one["y"] + one["height"] <= other["y"] + 1
                or one["x"] + one["width"] <= other["x"] + 1
            )
            assert apart, (study.public_id, one, other)
