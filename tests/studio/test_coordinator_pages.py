"""The coordinator's page: what it says of a draft, and what it asks before something is lost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from studio.studio_campaigns import HIDDEN, PARTIES, Labeller, campaign_config
from studio.web_house import Web


def test_a_draft_says_that_nothing_was_asked(web: Web, tmp_path: Path) -> None:
    config, _ = campaign_config(tmp_path)
    study = web.store.new_study("campaign", "Scans", config, actor="admin")
    admin, home = web.admin(), f"/admin/studies/{study.public_id}"
    for path in (home, f"{home}?estimate=1"):
        page = admin.get(path).text
        assert "Nothing has been asked yet" in page
        for word in ("at work", "Saved at least", "Estimate the saving", "Nobody works more"):
            assert word not in page
    web.store.set_state(study.public_id, "open", actor="admin")
    page = admin.get(home).text
    assert "Nothing has been asked yet" not in page
    assert "at work" in page
    assert "Estimate the saving" in page


@pytest.mark.parametrize("forget", [False, True])
def test_a_party_leaves_after_a_second_look(web: Web, tmp_path: Path, forget: bool) -> None:
    config, truth = campaign_config(tmp_path, n=92)
    study = web.store.new_study("campaign", "Scans", config, actor="admin", open_now=True)
    clinic, admin = Labeller(web, study, PARTIES[0]), web.admin()
    for item, fields in clinic.cards[:3]:
        clinic.answer(fields, int(truth[item]))
    left_open = len(web.store.fold_now(study.public_id).state.waiting(PARTIES[0]))
    home = f"/admin/studies/{study.public_id}"
    form = re.search(r'<select id="party".*?</select>', page := admin.get(home).text, re.S)
    assert form is not None
    assert re.findall(r'<option(?: value="")?>', form[0])[0] == '<option value="">'
    assert " required" in form[0]
    assert " selected" not in form[0]
    given = {**dict(HIDDEN.findall(page)), "act": "leave", "forget": "yes" if forget else "no"}
    sent = admin.post(f"{home}/change", data={**given, "party": ""})
    assert sent.status_code == 422
    assert "Choose a party." in sent.text
    before = len(web.store.events(study.public_id))
    look = admin.post(f"{home}/change", data={**given, "party": PARTIES[0]})
    assert 'data-page="leaving"' in look.text
    assert f"Its {left_open} open questions are withdrawn." in look.text
    assert ("Its 3 answers are erased" in look.text) == forget
    assert ("Its 3 answers stay in use." in look.text) != forget
    assert len(web.store.events(study.public_id)) == before  # nothing has happened yet
    done = admin.post(f"{home}/change", data=dict(HIDDEN.findall(look.text)))
    told = "Its answers are deleted" if forget else "Its answers stay in use."
    assert told in done.text
    assert PARTIES[0].replace(" ", "") not in str(done.url).replace("%20", "").replace("+", "")
    state = web.store.fold_now(study.public_id).state
    assert state.standing(PARTIES[0]) == "left"
    assert any(a.party == PARTIES[0] for a in state.answers.values()) != forget
    again = admin.post(f"{home}/change", data={**given, "party": PARTIES[0]})
    if forget:
        assert "That party has left already." in again.text
