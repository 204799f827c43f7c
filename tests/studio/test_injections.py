"""Texts of strangers in campaigns, guards and audits are shown as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from counterplay.studio.kinds.campaign import KIND
from studio.guards import guard_config
from studio.studio_campaigns import HIDDEN, Labeller, pool
from studio.test_audit_uploads import CONFIG, table
from studio.test_threats import INJECTIONS
from studio.web_house import Web


def is_text(pages: list[Any], text: str) -> None:
    """Every page answers, none has the markup of the text, and some page says it."""
    for page in pages:
        assert page.status_code == 200, page.text[:300]
        assert "<script>alert" not in page.text
        assert "<img src=x" not in page.text
    assert any(str(escape(text)) in page.text for page in pages)


def csrf_of(page: Any) -> str:
    """The token of a form."""
    return dict(HIDDEN.findall(page.text))["csrf"]


@pytest.mark.parametrize("text", INJECTIONS)
def test_cells_classes_parties_and_notes_of_a_campaign(web: Web, tmp_path: Path, text: str) -> None:
    frame, _ = pool(60, parties=2)
    frame["case"] = [f"{text} {i}" for i in range(60)]
    frame["site"] = frame["site"].replace("clinic 0", text)
    frame[text] = text
    frame.to_csv(tmp_path / "cases.csv", index=False)
    raw = {"kind": "campaign", "name": text, "table": "cases.csv", "owner": "site", "id": "case",
           "classes": [text, "other"], "features": ["size", "shape"], "max_error": 0.2,
           "title": text, "intro": text, "who": text, "consent": text,
           "names_open": True}  # fmt: skip
    config = KIND.read_config(raw, tmp_path)
    study = web.store.new_study("campaign", text, config, actor="admin", open_now=True)
    clinic, admin = Labeller(web, study, text), web.admin()
    home, pages = f"/admin/studies/{study.public_id}", [clinic.look()]
    _, card = clinic.cards[0]
    pages += [clinic.answer(card, 0), clinic.client.get(f"{clinic.home}/answers")]
    out = {"csrf": csrf_of(admin.get(home)), "key": "withdraw-1", "act": "withdraw",
           "item": f"{text} 59", "reason": text}  # fmt: skip
    pages += [admin.post(f"{home}/change", data=out), clinic.client.get(f"{clinic.home}/ledger")]
    is_text([*pages, admin.get("/admin")], text)
    rows = admin.get(f"{home}/labels.csv").text.splitlines()
    assert len(rows) > 50
    assert not any(row.startswith(("=", '"=')) for row in rows)


@pytest.mark.parametrize("text", INJECTIONS)
def test_models_and_reasons_of_a_guard(web: Web, text: str) -> None:
    config = guard_config(models=[text, "v2", "v3"], safe="v3")
    study = web.store.new_study("guard", text, config, actor="admin", open_now=True)
    admin, home = web.admin(), f"/admin/studies/{study.public_id}"
    page = admin.get(home)
    form = {"csrf": csrf_of(page), "model": "0", "reason": text, "key": "k" * 16}
    down = admin.post(f"{home}/take-down", data=form)
    is_text([page, down, admin.get(home)], text)
    assert any(event.kind == "guard.taken_down" for event in web.store.events(study.public_id))


@pytest.mark.parametrize("text", INJECTIONS)
def test_names_of_an_audit_and_of_its_files(web: Web, text: str) -> None:
    admin = web.admin()
    name = text.replace("/", " ")
    files = {"table": (f"{name}.csv", table()), "config": (f"{name}.toml", CONFIG)}
    given = {"csrf": csrf_of(admin.get("/admin/audits")), "name": text, "sections": "honest"}
    made = admin.post("/admin/audits", data=given, files=files)
    again = admin.post("/admin/audits", data={**given, "name": ""}, files=files)
    wrong = admin.post("/admin/audits", data={**given, "sections": text}, files=files)
    assert wrong.status_code == 422
    assert "<script>alert" not in wrong.text
    assert "<img src=x" not in wrong.text
    is_text([made, again, admin.get("/admin/audits"), admin.get("/admin")], text)
    bad = admin.post(
        "/admin/audits", data=given, files={**files, "table": (f"{name}.csv", b"PK\x03\x04")}
    )
    assert bad.status_code == 422
    assert "<script>alert" not in bad.text
    assert "<img src=x" not in bad.text
