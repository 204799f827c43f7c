"""A walk through every screen of the studio in a browser, one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

from counterplay.studio.kinds import NewEvent
from counterplay.studio.kinds.audit import audit_config
from counterplay.studio.store.jobs import Watch
from counterplay.studio.worker import work
from studio.guards import Service, guard_config
from studio.studio_campaigns import PARTIES, Labeller, campaign_config
from studio.web_house import Web, catalogue

NAMES = re.compile(r"\{% block name %\}([a-z-]+)\{% endblock %\}")


def all_pages() -> set[str]:
    """The names of all pages, as the templates give them."""
    folder = resources.files("counterplay.studio").joinpath("templates")
    texts = [f.read_text("utf-8") for f in folder.iterdir() if f.name != "base.html"]
    return {"label", "label-wait"} | {name for text in texts for name in NAMES.findall(text)}


def screens(web: Web, page: Any, folder: Path) -> Iterator[str]:
    """Every screen, by what it is about; the page of the browser is there when it is named."""
    yield from of_a_person(web, page)
    yield from of_admins(web, page)
    yield from wizard(web, page)
    yield from of_parties(web, page, folder)
    yield from of_machines(web, page)


def press(page: Any, name: str) -> None:
    """Press a button and wait for the page after it."""
    with page.expect_navigation():
        page.get_by_role("button", name=name).first.click()


def of_a_person(web: Web, page: Any) -> Iterator[str]:
    """A participant from her link to the end of her data."""
    study = web.study()
    page.goto(f"{web.url}/j/{web.link(study, '<b>ann</b>')[1]}")
    yield "start"
    press(page, "Start")
    yield "question"
    press(page, "Cannot say")
    yield "second question"
    press(page, "Stop here")
    yield "result"
    home = f"{web.url}/p/{study.public_id}"
    page.goto(f"{home}/receipt")
    yield "receipt"
    page.goto(home)
    press(page, "Delete my data")
    yield "withdraw"
    press(page, "Delete everything")
    yield "gone"
    consent = {**web.config, "page": {**web.config["page"], "consent": "We keep it for a year."}}
    study = web.study(consent)
    page.goto(f"{web.url}/j/{web.link(study)[1]}")
    yield "consent"
    page.get_by_role("checkbox").check()
    press(page, "Start")
    web.store.set_state(study.public_id, "paused", actor="admin")
    page.goto(f"{web.url}/p/{study.public_id}")
    yield "paused"
    page.goto(f"{web.url}/j/nothing")
    yield "no link"


def of_admins(web: Web, page: Any) -> Iterator[str]:
    """Logging in, and the life of a study."""
    page.goto(f"{web.url}/admin/login")
    yield "login"
    row = web.store.new_admin(f"eve {len(web.store.admins())}", password=None, role="owner")
    page.goto(f"{web.url}/admin/link/{web.store.new_login(row)}")
    yield "login link"
    press(page, "Log in")
    yield "studies"
    study = web.study()
    for number in range(3):
        web.person(study, f"person {number}").finish()
    for place in ("", "/preview", "/edit"):
        page.goto(f"{web.url}/admin/studies/{study.public_id}{place}")
        yield f"study{place}"
    page.goto(f"{web.url}/admin/studies/import")
    yield "import"


def wizard(web: Web, page: Any) -> Iterator[str]:
    """The four steps of a new study."""
    page.goto(f"{web.url}/admin/studies/new")
    file = {"name": "t.csv", "mimeType": "text/csv", "buffer": b"a,b\n1\n"}
    page.set_input_files("#file", file)
    press(page, "Continue")
    assert "Line 2 has 1 fields, the header has 2." in page.locator("#wrong").inner_text()
    yield "file, refused"
    page.set_input_files("#file", {**file, "buffer": catalogue()})
    press(page, "Continue")
    yield "columns"
    page.select_option("#direction-1", "benefit")
    page.select_option("#direction-2", "cost")
    page.fill("#unit-2", "EUR")
    press(page, "Continue")
    yield "texts"
    page.fill("#name", "From the browser")
    press(page, "Continue")
    yield "preview of a new study"
    press(page, "Make and open it")
    assert "From the browser" in page.locator("h1").inner_text()
    press(page, "Make an open link")
    yield "open link"


def of_parties(web: Web, page: Any, folder: Path) -> Iterator[str]:
    """A campaign as a clinic and its coordinator see it."""
    config, truth = campaign_config(folder, n=92)
    study = web.store.new_study("campaign", "Scans", config, actor="admin", open_now=True)
    clinic = Labeller(web, study, PARTIES[0])
    page.context.add_cookies(
        [{"name": c.name, "value": c.value, "url": web.url} for c in clinic.client.cookies.jar]
    )
    home = f"{web.url}{clinic.home}"
    page.goto(home)
    yield "queue"
    for _ in range(40):
        if not clinic.cards:
            break
        item, fields = clinic.cards[0]
        clinic.answer(fields, int(truth[item]))
    page.goto(home)
    yield "waiting for others"
    for place in ("ledger", "answers"):
        page.goto(f"{home}/{place}")
        yield place
    page.goto(f"{web.url}/admin/studies/{study.public_id}")
    yield "coordinator"
    page.select_option("#party", PARTIES[1])
    page.get_by_label("Delete its answers as well").check()
    press(page, "Let it go")
    yield "letting a party go"
    page.goto(f"{web.url}/admin/studies/new/campaign")
    yield "new campaign"
    page.goto(home)
    press(page, "Leave")
    yield "leaving"
    page.locator("main form button").first.click()
    page.wait_for_selector("main[data-page=label-gone]")
    yield "left"


def of_machines(web: Web, page: Any) -> Iterator[str]:
    """A guard, audits that wait, fail and are finished, and reports."""
    guard = web.store.new_study("guard", "Loans", guard_config(), actor="admin", open_now=True)
    service, told = Service(guard_config()), []
    for number in range(60):
        for outcome in (batch := service.outcomes()):
            told.append(NewEvent("guard.outcome", outcome, f"o:{outcome['id']}", "service:1"))
        service.hear(batch)
        told.append(NewEvent("guard.ended", {"after": number}, f"e:{number}", "service:1"))
        service.next_round()
    web.store.append_all_now(guard.public_id, told, expected=None)
    page.goto(f"{web.url}/admin/studies/{guard.public_id}")
    yield "guard"
    press(page, "Make a token")
    yield "token of a guard"
    for state in ("waiting", "failed", "finished"):
        page.goto(f"{web.url}/admin/audits/{audit(web, state)}")
        yield f"audit, {state}"
    page.goto(f"{web.url}/admin/audits")
    yield "audits"
    reports = web.settings.data / "reports"
    reports.mkdir(exist_ok=True)
    (reports / "study.html").write_text("<!doctype html><title>Study</title><h1>Study</h1>")
    page.goto(f"{web.url}/admin/reports?report=study.html")
    yield "report"


def audit(web: Web, state: str) -> str:
    """An audit that waits, failed or is finished; return its study."""
    rows = "\n".join(f"{i % 7},{i % 5},{'yes' if i % 7 > 3 else 'no'}" for i in range(120))
    settings = b'[data]\nlabel = "paid"\npositive = "yes"\n[gates]\nrequire = ["accuracy >= 0.5"]\n'
    files = {"table": ("loans.csv", f"income,debt,paid\n{rows}\n".encode()),
             "config": ("audit.toml", settings)}  # fmt: skip
    config = audit_config(files, sections=["honest"])
    study = web.store.new_study("audit", f"Loans, {state}", config, actor="admin", open_now=True)
    number = next(j.id for j in web.store.jobs() if j.args.get("study") == study.public_id)
    if state == "waiting":
        stages = [{"name": "honest", "done": 2, "of": 7, "used": 1.5, "planned": 5.0}]
        job = mine(web, number)
        web.store.beat(job, {"stages": stages})
    elif state == "failed":
        for _ in range(4):
            web.store.fail(mine(web, number), "Traceback\n" + "a long line " * 30)
    else:
        job = mine(web, number)
        assert web.store.finish(job, work(web.store, job))
    return study.public_id


def mine(web: Web, number: int) -> Any:
    """Claim jobs until this one comes."""
    while (job := web.store.claim("here", Watch())) is not None:
        if job.id == number:
            return job
    raise AssertionError("the job is not there")
