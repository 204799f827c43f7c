"""The coordinator's page: what it says of a draft, and what it asks before something is lost."""

from __future__ import annotations

from pathlib import Path

from studio.studio_campaigns import campaign_config
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
