"""Links and tokens that a form makes: loading their page again makes no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from counterplay.studio.store import tables as t
from studio.guards import guard_config
from studio.studio_campaigns import HIDDEN, PARTIES, Labeller, campaign_config
from studio.web_house import Web

SECRET = re.compile(r'<input[^>]*class="secret"[^>]* value="([^"]+)"')


def made(web: Web) -> int:
    """How many secrets of links and services there are, revoked ones included."""
    with web.store.engine.connect() as connection:
        tables = (t.link, t.api_token)
        return sum(connection.scalar(sa.select(sa.func.count()).select_from(x)) for x in tables)


def form(page: str, action: str) -> dict[str, str]:
    """The hidden fields of a form."""
    found = re.search(rf'<form[^>]* action="{re.escape(action)}".*?</form>', page, re.S)
    assert found is not None
    return dict(HIDDEN.findall(found[0]))


def shown(page: httpx.Response) -> list[str]:
    """The secrets on a page."""
    return SECRET.findall(page.text)


@pytest.fixture(params=["open link", "party of a study", "party of a campaign", "service"])
def button(request: Any, web: Web, tmp_path: Path) -> tuple[str, str, dict[str, str]]:
    """A page of the admin, where its form goes to, and what is entered."""
    if request.param == "service":
        study = web.store.new_study("guard", "Loans", guard_config(), actor="a", open_now=True)
        home = f"/admin/studies/{study.public_id}"
        return home, f"{home}/token", {"serve": "yes"}
    if request.param == "party of a campaign":
        config, _ = campaign_config(tmp_path, n=92)
        study = web.store.new_study("campaign", "Scans", config, actor="a", open_now=True)
        Labeller(web, study, PARTIES[0])
        home = f"/admin/studies/{study.public_id}"
        return home, f"{home}/party-links", {}
    study = web.study()
    home = f"/admin/studies/{study.public_id}"
    if request.param == "open link":
        return home, f"{home}/open-link", {"cap": "5"}
    return home, f"{home}/parties/{web.link(study)[0].public_id}/reissue", {}


def test_loading_the_page_of_a_new_secret_again_makes_no_other(
    web: Web, button: tuple[str, str, dict[str, str]]
) -> None:
    home, action, given = button
    admin = web.admin()
    fields = {**form(admin.get(home).text, action), **given}
    before, log = made(web), len(web.store.audit_log())
    first = admin.post(action, data=fields)
    assert first.status_code == 200
    assert len(shown(first)) == 1
    assert made(web) == before + 1
    again = admin.post(action, data=fields)  # F5
    assert shown(again) == shown(first)
    assert made(web) == before + 1
    assert len(web.store.audit_log()) == log + 1
    secret = shown(first)[0].rpartition("/")[2]
    assert len(secret) == 43
    assert secret not in admin.get(home).text
    assert secret not in str(first.url)
    other = admin.post(action, data={**form(first.text, action), **given})  # the button again
    assert shown(other) != shown(first)
    assert made(web) == before + 2
    stranger = web.admin()
    token = form(stranger.get(home).text, action)["csrf"]
    theirs = stranger.post(action, data={**fields, "csrf": token})  # the same key, not the same
    assert shown(theirs) not in (shown(first), shown(other))


def test_a_revoked_link_is_not_shown_again(web: Web) -> None:
    study, admin = web.study(), web.admin()
    home = f"/admin/studies/{study.public_id}"
    action = f"{home}/open-link"
    fields = {**form(admin.get(home).text, action), "cap": "5"}
    assert len(shown(admin.post(action, data=fields))) == 1
    assert web.store.revoke_open_links(study) == 1
    again = admin.post(action, data=fields)
    assert again.status_code == 422
    assert "does not work any more" in again.text
    assert shown(again) == []
    assert admin.post(action, data={**fields, "key": "short"}).status_code == 403
