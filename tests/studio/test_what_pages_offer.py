"""What the pages of those who run studies show and take: heads, reports, columns, pictures."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from counterplay.studio import reading
from counterplay.studio.exports import export_lines
from counterplay.studio.kinds import kind_of
from counterplay.studio.store.base import StudyRow
from counterplay.studio.web.new_campaign import MOST_PICTURES
from counterplay.studio.web.texts import language
from counterplay.verify import verify
from studio.studio_campaigns import CLASSES, HIDDEN, pool
from studio.web_house import Web, catalogue, fields

HEAD = re.compile(r'data-live="head">Entry (\d+): ([0-9A-Z-]{19})<')


def shown_head(web: Web, study: StudyRow) -> tuple[int, str]:
    """Number and code on the page of a study."""
    page = web.admin().get(f"/admin/studies/{study.public_id}").text
    found = HEAD.search(page)
    assert found is not None
    assert "Publish this" in page
    assert "counterplay verify --receipt" in page
    return int(found[1]), found[2]


def test_a_published_head_fails_when_the_past_was_written_anew(web: Web) -> None:
    study, other = web.study(name="Things"), web.study(name="Other things")
    number, code = shown_head(web, study)
    assert number == 2  # created, opened
    web.store.set_state(study.public_id, "paused", actor="admin")
    assert shown_head(web, study)[0] == 3
    kept = "".join(export_lines(web.store, study)).encode()
    anew = "".join(export_lines(web.store, other)).encode()
    assert verify(kept, receipts=[code]).holds
    assert not verify(anew, receipts=[code]).holds


def test_pages_say_what_a_receipt_is_for(web: Web) -> None:
    person = web.person()
    page = person.client.get(f"{person.home}/receipt").text
    assert "when whoever runs the studio writes the whole log anew" in page
    assert "proves itself" not in page


def test_reports_are_not_for_the_coordinator_of_one_study(web: Web) -> None:
    folder = web.settings.data / "reports"
    folder.mkdir(exist_ok=True)
    (folder / "all.html").write_text("<p>everything</p>")
    coordinator = web.admin("coordinator", web.study())
    for path in ("/admin/reports", "/admin/reports/all.html"):
        assert web.admin("viewer").get(path).status_code == 200
        assert coordinator.get(path).status_code == 404


@pytest.mark.parametrize(("columns", "said"), [(60, False), (75, True)])
def test_columns_that_are_not_shown_are_said(web: Web, columns: int, said: bool) -> None:
    admin, path = web.admin(), "/admin/studies/new"
    lines = catalogue().decode().splitlines()
    more = range(columns - 3)
    wide = [f"{line},{','.join(f'c{j}' if not i else str(i + j) for j in more)}"
            for i, line in enumerate(lines)]  # fmt: skip
    csrf = dict(HIDDEN.findall(admin.get(path).text))["csrf"]
    page = admin.post(path, data={"csrf": csrf}, files={"file": ("t.csv", "\n".join(wide))}).text
    assert page.count("<fieldset") == 60
    assert ("The table has 75 columns; the first 60 are here" in page) == said


def picture(color: str) -> bytes:
    """A small PNG."""
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (8, 8), color).save(out, "PNG")
    return out.getvalue()


def new_campaign(web: Web, files: list[tuple[str, bytes]], **more: str) -> Any:
    """Send the form of a new campaign, with pictures."""
    admin, path = web.admin(), "/admin/studies/new/campaign"
    frame, _ = pool(80)
    frame["picture"] = ["red.png" if i % 2 else "blue.png" for i in range(80)]
    given = {
        "csrf": dict(HIDDEN.findall(admin.get(path).text))["csrf"], "name": "Pictures",
        "owner": "site", "classes": ", ".join(CLASSES), "id": "case", "image": "picture",
        "scope": "union", "max_error": "20", "confidence": "90", "noise": "0", **more,
    }  # fmt: skip
    sent = [("file", ("items.csv", frame.to_csv(index=False).encode()))]
    sent += [("pictures", file) for file in files]
    return admin.post(path, data=given, files=sent)


@pytest.mark.parametrize("small", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_campaign_of_pictures_is_made_in_the_browser(
    web: Web, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large tables and their pictures are read by another process."""
    monkeypatch.setattr(reading, "SMALL", reading.SMALL if small else 100)
    both = [("red.png", picture("red")), ("blue.png", picture("blue"))]
    made = new_campaign(web, both, features="size", noise="5", first_to="2")
    assert made.status_code == 200
    config = web.store.config(web.store.studies()[0])
    assert len(config["page"]["images"]) == 80
    assert len(set(config["page"]["images"])) == 2
    assert config["page"]["features"] == ["size"]
    assert config["page"]["settings"] == {"scope": "union", "noise": 0.05, "first_to": 2}


@pytest.mark.parametrize(
    ("files", "more", "field", "told"),
    [
        ([], {}, "pictures", "Choose a file first."),
        ([("red.png", b"<svg onload=alert(1)>")], {}, "file", "is no image"),
        ([("red.png", b"%!PS-Adobe-3.0 EPSF-3.0\n")], {}, "file", "is no image"),
        ([("../red.png", b""), ("x" * 300, b"1"), ("..", b"2")], {}, "file", "is no image"),
        ([("red.png", b"x")], {"noise": "50"}, "noise", "between 0 and 50"),
        ([("red.png", b"x")], {"first_to": "99"}, "first_to", "from 1 to 20"),
        ([("red.png", b"x")], {"features": "size, nothing"}, "features", "no column"),
    ],
)
def test_pictures_and_numbers_are_refused_beside_their_field(
    web: Web, files: list[tuple[str, bytes]], more: dict[str, str], field: str, told: str
) -> None:
    before = len(web.store.studies())
    page = new_campaign(web, files, **more)
    assert page.status_code == 422
    wrong = re.search(rf'id="{field}-wrong"[^>]*>([^<]*)<', page.text)
    assert wrong is not None, json.dumps(re.findall(r'id="(\w+)-wrong"', page.text))
    assert told in wrong[1]
    assert len(web.store.studies()) == before


def test_a_picture_of_too_many_pixels_is_not_decoded(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    from counterplay.studio.kinds import campaign_config

    monkeypatch.setattr(campaign_config, "MOST_PIXELS", 63)
    both = [("red.png", picture("red")), ("blue.png", picture("blue"))]
    assert "is no image" in new_campaign(web, both).text


def test_where_nothing_is_asked_the_previews_show_what_participants_see(web: Web) -> None:
    """One item is better than the others in every column."""
    table = b"name,comfort,price\na,3,1\nb,2,2\nc,1,3\n"
    config = kind_of("elicitation").read_config({**fields(), "table_bytes": table}, Path())
    study, admin = web.study(config, name="Clear"), web.admin()
    _, token = web.link(study)
    start = web.client().get(f"/j/{token}").text
    assert "minutes." not in start
    person = web.person(study)
    assert person.name == "result"
    promise = re.search(r'<p class="lead">([^<]*)</p>', person.page.text)
    assert promise is not None
    assert promise[1].startswith("Whatever you prefer")
    path = "/admin/studies/new"
    csrf = dict(HIDDEN.findall(admin.get(path).text))["csrf"]
    sent = admin.post(path, data={"csrf": csrf}, files={"file": ("t.csv", table)})
    chosen = {"csrf": csrf, "direction-0": "name_of", "direction-1": "benefit",
              "direction-2": "cost"}  # fmt: skip
    sent = admin.post(str(sent.url), data=chosen)
    sent = admin.post(str(sent.url), data={"csrf": csrf, "name": "Clear", "target": "5"})
    assert 'data-page="new-preview"' in sent.text
    for page in (sent.text, admin.get(f"/admin/studies/{study.public_id}/preview").text):
        assert promise[1] in page
        assert "No question is needed" in page
        assert "Which would you rather have?" not in page
        assert "about" not in re.sub(r"<[^>]*>", "", page)


def test_the_guide_says_how_pictures_come_into_a_campaign() -> None:
    guide = Path(__file__).parents[2].joinpath("docs", "studio.md").read_text("utf-8")
    words = language("en")
    for label in ("image", "pictures"):
        assert f"*{words(f'label_new.{label}')}*" in guide
    assert f"at most {MOST_PICTURES:,}, and 20 MB together" in guide
