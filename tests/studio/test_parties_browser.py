"""Four clinics in four browsers, and the pages of guards and audits as people see them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from counterplay.studio.kinds import NewEvent
from studio.guards import Service, guard_config
from studio.studio_campaigns import PARTIES, Labeller, campaign_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from counterplay.studio.store.base import StudyRow
    from studio.web_house import Web

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
SMALL = {"viewport": {"width": 320, "height": 700}, "is_mobile": True, "has_touch": True}


def context(chromium: Any, client: Any, url: str, **more: Any) -> Any:
    """A browser of somebody who is logged in already."""
    made = chromium.new_context(**more)
    made.add_cookies([{"name": c.name, "value": c.value, "url": url} for c in client.cookies.jar])
    return made


def answer_all(web: Web, study: StudyRow, truth: Any, parties: Sequence[str]) -> None:
    """These parties answer whatever waits for them, until the round is over."""
    for party in parties:
        while asked := web.store.fold_now(study.public_id).state.waiting(party)[:10]:
            told = [
                NewEvent("label.tell", {"id": q.id, "label": int(truth[q.item]), "party": party},
                         f"t:{q.id}", party)
                for q in asked
            ]  # fmt: skip
            web.store.append_all_now(study.public_id, told, expected=None)


@pytest.mark.claim("28.12")
def test_four_clinics_in_four_browsers(web: Web, chromium: Any, tmp_path: Path) -> None:
    config, truth = campaign_config(tmp_path)
    study = web.store.new_study("campaign", "Scans", config, actor="admin", open_now=True)
    clinics = [Labeller(web, study, name) for name in PARTIES]
    ways = [PHONE, {**PHONE, "java_script_enabled": False}, {}, {"color_scheme": "dark"}]
    contexts = [context(chromium, c.client, web.url, **way) for c, way in zip(clinics, ways)]
    pages = [made.new_page() for made in contexts]
    said: list[str] = []
    for page, clinic in zip(pages, clinics):
        page.on("console", lambda message: said.append(message.text))
        page.goto(f"{web.url}{clinic.home}")
        assert page.get_by_role("heading", level=1).inner_text() == "Which label fits?"
        assert page.locator("form.task").count() == 10
    first = pages[0]
    item = int(first.locator("[data-item]").first.get_attribute("data-item"))
    with first.expect_navigation():
        first.locator("form.task").first.get_by_role("button").nth(int(truth[item])).tap()
    keys = pages[2]
    item = int(keys.locator("[data-item]").first.get_attribute("data-item"))
    with keys.expect_navigation():
        keys.keyboard.press(str(1 + int(truth[item])))
    with keys.expect_navigation():
        keys.keyboard.press("u")  # taken back: the card comes again
    plain = pages[1]
    with plain.expect_navigation():
        plain.get_by_role("button", name="Cannot tell").first.tap()
    assert plain.locator("form.task").count() == 9  # the next ten come when these are answered
    # The others are quick; the first finds out by itself that its next cards are there.
    answer_all(web, study, truth, ["clinic 0"])
    first.reload()
    assert first.locator("main").get_attribute("data-page") == "label-wait"
    assert "of others decide what comes next" in first.locator("main").inner_text()
    answer_all(web, study, truth, PARTIES[1:])
    assert web.store.fold_now(study.public_id).state.waiting("clinic 0")
    first.wait_for_selector("form.task", timeout=20_000)
    with keys.expect_navigation():
        keys.get_by_role("link", name="Ledger").click()
    assert "Nobody works more than alone." in keys.locator("main").inner_text()
    cells = keys.locator("main table tbody tr").first.locator("th, td").all_inner_texts()
    account = web.store.fold_now(study.public_id).state.campaign.work().parties[2]
    shown = [account.asked, account.alone_at_least, account.saved_at_least, account.free]
    assert cells[1 : 1 + len(shown)] == list(map(str, shown))
    assert said == []
    for made in contexts:
        made.close()


@pytest.mark.slow
@pytest.mark.claim("28.12")
def test_a_clinic_that_waits_has_its_next_card_within_a_second(
    web: Web, chromium: Any, tmp_path: Path
) -> None:
    config, truth = campaign_config(tmp_path)
    study = web.store.new_study("campaign", "Scans", config, actor="admin", open_now=True)
    made = context(chromium, Labeller(web, study, "clinic 0").client, web.url)
    page = made.new_page()
    answer_all(web, study, truth, ["clinic 0"])
    page.goto(f"{web.url}/l/{study.public_id}")
    assert page.locator("main").get_attribute("data-page") == "label-wait"
    answer_all(web, study, truth, PARTIES[1:])
    page.wait_for_selector("form.task", timeout=1_000)
    made.close()


def test_guard_audit_and_coordinator_pages_fit_a_phone(
    web: Web, chromium: Any, tmp_path: Path
) -> None:
    config, _ = campaign_config(tmp_path, n=92)
    study = web.store.new_study("campaign", "Scans", config, actor="admin", open_now=True)
    guard = web.store.new_study("guard", "Loans", guard_config(), actor="admin", open_now=True)
    service, told = Service(guard_config()), []
    for number in range(40):
        for outcome in (batch := service.outcomes()):
            told.append(NewEvent("guard.outcome", outcome, f"o:{outcome['id']}", "service:1"))
        service.hear(batch)
        told.append(NewEvent("guard.ended", {"after": number}, f"e:{number}", "service:1"))
        service.next_round()
    web.store.append_all_now(guard.public_id, told, expected=None)
    admin, said = web.admin(), []
    made = context(chromium, admin, web.url, **SMALL)
    page = made.new_page()
    page.on("console", lambda message: said.append(message.text))
    for path in (f"/admin/studies/{study.public_id}", f"/admin/studies/{guard.public_id}",
                 "/admin/audits", "/admin/reports"):  # fmt: skip
        page.goto(f"{web.url}{path}")
        assert page.get_by_role("heading", level=1).count() == 1
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.goto(f"{web.url}/admin/studies/{guard.public_id}")
    assert page.locator("figure svg polyline.curve").count() == 1
    page.get_by_label("Model", exact=True).select_option(label="v2")
    page.get_by_label("Reason").fill("<b>wrong units</b>")
    with page.expect_navigation():
        page.get_by_role("button", name="Take down model").click()
    assert "wrong units" in page.locator("main").inner_text()
    assert page.locator("main b").count() == 0  # shown as text
    assert 1 in web.store.fold_now(guard.public_id).state.removed
    assert said == []
    made.close()


def test_a_long_label_stays_on_a_small_screen(web: Web, chromium: Any, tmp_path: Path) -> None:
    classes = ["ja", "Donaudampfschifffahrtsgesellschaftskapitänspatentinhaber" * 3]
    config, _ = campaign_config(tmp_path, classes=classes)
    study = web.store.new_study("campaign", "Scans", config, actor="admin", open_now=True)
    clinic = Labeller(web, study, PARTIES[0])
    made = context(chromium, clinic.client, web.url, **SMALL)
    page = made.new_page()
    page.goto(f"{web.url}{clinic.home}")
    assert page.get_by_role("button", name=classes[1]).count() == 10
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    made.close()
