"""The page: one file, in order, the same numbers everywhere, strangers' texts as text."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from counterplay.auditing.findings import (
    Action,
    Chart,
    Column,
    Finding,
    Grid,
    Series,
)
from counterplay.auditing.gates import Gate
from counterplay.auditing.page import render_page
from counterplay.auditing.quantity import Quantity
from counterplay.auditing.record import (
    AbsentSection,
    AuditRecord,
    ColumnRole,
    FigureRecord,
    Making,
    SectionRecord,
    StageTime,
    Subject,
    VariantRecord,
    read_audit,
    with_hash,
    write_audit,
)
from counterplay.cli import run
from counterplay.errors import InvalidStateError

EVIL = "<img src=x onerror=alert(1)>"
SCRIPT = "</script><script>alert(2)</script>"
MATHS = "$\\frac{1}{$ ${{7*7}} {% raw %}"


class Reader(HTMLParser):
    """Collects tags, headings and quantities; complains about tags that are not closed."""

    VOID = ("meta", "br", "img", "link", "hr", "input")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[int] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()
        self.handlers: list[str] = []
        self.named: dict[str, dict[str, Any]] = {}
        self.quantities: list[dict[str, Any]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        given = dict(attrs)
        self.handlers += [name for name in given if name.startswith("on")]
        if given.get("id"):
            self.ids.append(str(given["id"]))
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if "data-quantity" in given:
            parts = json.loads(str(given["data-quantity"]))
            self.quantities.append(parts)
            if "data-name" in given:
                self.named[str(given["data-name"])] = parts
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open[-1] == tag, (self.open[-3:], tag)
        self.open.pop()


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


def hostile_record(text: str) -> AuditRecord:
    """An audit in which every text is the same hostile one."""
    q = Quantity(value=1.5, low=1, high=2, unit=text, basis="found", assumes=(text,))
    grid = Grid(
        title=text, columns=(Column(name=text, unit=text),), rows=((text,), (q,)), note=text
    )
    lines = Series(label=text, x=(0.0, 1.0), y=(1.0, 2.0), low=(0.5, 1.0), high=(2.0, 3.0))
    bars = Series(label=text, x=(text, text + "2"), y=(1.0, 2.0), style="bars")
    mark = Series(label=text, x=(0.5,), y=(1.0,), style="mark")
    charts = [
        Chart(x_label=text, y_label=text, series=(lines, mark)),
        Chart(x_label=text, y_label=text, series=(bars,), horizontal=True),
    ]
    figures = tuple(FigureRecord(title=text, alt=text, chart=c, table=grid) for c in charts)
    finding = Finding(name=text, sentence=text, severity="blocking", quantity=q)
    section = SectionRecord(
        name=text, title=text, lead=(text,), findings=(finding,), tables=(grid,), figures=figures,
        quantities={text: q}, assumptions=(text,),
    )  # fmt: skip
    action = Action(name=text, title=text, how=text, gain=q, note=text, after=text, scenario=text)
    record = AuditRecord(
        kind="counterplay audit", version=1, unit=text, seed=0, confirmed=False, config=text,
        subject=Subject(model=text, table=text, label=text, wanted=text, n=9, good=4, bad=5),
        prints={text: text}, guesses=(text,), findings=(finding,), sections=(section,),
        absent=(AbsentSection(name=text, title=text, reason=text, key=text, failed=True),),
        actions=(action,), plan={text: 3},
        gates=(Gate(text=text, verdict="fail", reason=text, quantity=q, limit=3.0),),
        variants=(VariantRecord(name=text, sentence=text, accepted=1, file=text),),
        making=Making(
            command=text, library=text, versions={text: text}, notes=(text,), budget_s=1.0,
            columns=(ColumnRole(name=text, role=text, kind=text),),
            stages=(StageTime(section=text, stage=text, planned=1, done=1, wanted=1, note=text),),
        ),
    )  # fmt: skip
    return with_hash(record)


@pytest.mark.claim("27.17")
def test_the_page_is_one_ordered_file(audited: Any) -> None:
    page = audited.to_html()
    assert len(page.encode()) < 3_000_000
    reader = read(page)
    assert reader.headings[0] == 1
    assert reader.headings.count(1) == 1
    steps = [b - a for a, b in zip(reader.headings, reader.headings[1:])]
    assert max(steps) <= 1
    assert len(reader.ids) == len(set(reader.ids))
    assert not {"link", "iframe", "object", "embed", "img"} & reader.tags
    outside = re.findall(r"(?:src|href)=\"(?!#)([^\"]*)\"", page)
    assert outside == []
    assert "url(http" not in page
    assert "default-src &#39;none&#39;" in page


@pytest.mark.claim("27.18")
def test_numbers_are_the_same_everywhere(audited: Any) -> None:
    stored = json.loads(audited.to_json())
    in_json = {k: q for section in stored["sections"] for k, q in section["quantities"].items()}
    on_page = read(audited.to_html()).named
    frame = audited.to_frame().set_index("name")
    assert set(on_page) == set(in_json) == set(frame.index)
    assert len(on_page) > 10
    for name, parts in on_page.items():
        for key in ("value", "low", "high", "unit", "basis", "n"):
            assert parts[key] == in_json[name][key] == frame.loc[name, key], (name, key)


def test_every_number_has_its_basis(audited: Any) -> None:
    page = audited.to_html()
    for parts in read(page).quantities:
        assert parts["basis"] in ("exact", "certified", "measured", "found", "assumed")
    assert page.count("data-quantity=") == len(read(page).quantities) > 40


@pytest.mark.claim("27.22")
@pytest.mark.parametrize("text", [EVIL, SCRIPT, MATHS, "=cmd()", "\x00\u202e'\"`<b>`"])
def test_texts_of_strangers_stay_texts(text: str) -> None:
    record = hostile_record(text)
    page = render_page(record)
    reader = read(page)
    assert reader.handlers == []
    assert "img" not in reader.tags
    assert page.count("<script>") == page.count("</script>") == 1
    again = read_audit(write_audit(record), what="audit.json")
    assert again == record
    assert render_page(again) == page


def test_the_page_is_made_again_byte_for_byte(audited: Any, tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_text(audited.to_json())
    assert run(["audit", "show", str(tmp_path / "audit.json")]) == 0
    assert (tmp_path / "audit.html").read_text() == audited.to_html()


@pytest.mark.claim("27.22")
@pytest.mark.parametrize(
    "change",
    [
        {"sections": "no list"}, {"version": 2}, {"kind": "else"}, {"more": 1}, {"seed": -1},
        {"subject": {}}, {"rows": {"a": {"rows": 3}}}, {"content_sha256": "zz"}, {"gates": [{}]},
    ],
)  # fmt: skip
def test_an_edited_audit_is_refused_or_shown_as_text(
    audited: Any, change: dict[str, Any], tmp_path: Path, capsys: Any
) -> None:
    stored = json.loads(audited.to_json()) | change
    (tmp_path / "audit.json").write_text(json.dumps(stored))
    assert run(["audit", "show", str(tmp_path / "audit.json")]) == 2
    told = capsys.readouterr().err
    assert "audit.json cannot be used" in told
    assert len(told) < 330


@pytest.mark.claim("27.22")
@pytest.mark.parametrize("value", [[1.0], [1e308, -1e308], ["a", 1.0], [None, None], "x", [[]]])
@pytest.mark.parametrize("key", ["x", "y", "low", "high"])
def test_hostile_charts_are_refused_or_told_in_words(key: str, value: Any, tmp_path: Path) -> None:
    stored = json.loads(write_audit(hostile_record("a")))
    stored["sections"][0]["figures"][0]["chart"]["series"][0][key] = value
    (tmp_path / "audit.json").write_text(json.dumps(stored))
    assert run(["audit", "show", str(tmp_path / "audit.json")]) in (0, 2)


def test_an_edit_is_said(audited: Any, tmp_path: Path, capsys: Any) -> None:
    stored = json.loads(audited.to_json())
    stored["subject"]["model"] = EVIL
    (tmp_path / "audit.json").write_text(json.dumps(stored))
    assert run(["audit", "show", str(tmp_path / "audit.json")]) == 0
    assert "was changed after it was written" in capsys.readouterr().err
    assert "img" not in read((tmp_path / "audit.html").read_text()).tags


def test_rows_outside_of_the_table_are_refused(audited: Any) -> None:
    from counterplay.auditing.record import evidence_of

    small = msgspec.structs.replace(audited.record.subject, n=3)
    with pytest.raises(InvalidStateError, match="must be in"):
        evidence_of(msgspec.structs.replace(audited.record, subject=small), what="the last audit")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as engine:
        started = engine.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()


def opened(browser: Any, page: str, folder: Path, width: int, scheme: str) -> tuple[Any, list[str]]:
    """Open a page with every request but its own file blocked; collect what goes wrong."""
    (folder / "page.html").write_text(page, encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab, wrong = context.new_page(), []
    tab.on("console", lambda message: wrong.append(message.text))
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("dialog", lambda dialog: (wrong.append("a dialog"), dialog.dismiss()))
    own = (folder / "page.html").as_uri()

    def only_own(route: Any) -> None:
        if route.request.url == own:
            route.continue_()
        else:
            wrong.append(route.request.url)
            route.abort()

    tab.route("**/*", only_own)
    tab.goto(own)
    return tab, wrong


@pytest.mark.claim("27.17")
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_the_page(
    browser: Any, audited: Any, tmp_path: Path, width: int, scheme: str
) -> None:
    tab, wrong = opened(browser, audited.to_html(), tmp_path, width, scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.locator("h2").first.is_visible()
    assert wrong == []
    axe = Path(os.environ.get("AXE_CORE", "node_modules/axe-core/axe.min.js"))
    if axe.is_file():
        free = tab.context.browser.new_context(bypass_csp=True, color_scheme=scheme)
        again = free.new_page()
        again.goto((tmp_path / "page.html").as_uri())
        again.evaluate(axe.read_text(encoding="utf-8"))
        found = again.evaluate("axe.run()")["violations"]
        grave = [v for v in found if v["impact"] in ("serious", "critical")]
        assert [(v["id"], v["nodes"][0]["html"][:200]) for v in grave] == []


@pytest.mark.claim("27.17")
def test_everything_is_open_on_paper(browser: Any, audited: Any, tmp_path: Path) -> None:
    tab, _ = opened(browser, audited.to_html(), tmp_path, 690, "light")  # A4 without its margins
    assert tab.evaluate("document.querySelectorAll('details:not([open])').length") > 0
    assert len(tab.pdf(format="A4")) > 20_000
    assert tab.evaluate("document.querySelectorAll('details:not([open])').length") == 0
    tab.emulate_media(media="print")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 690


@pytest.mark.claim("27.22")
def test_a_browser_sees_no_dialog(browser: Any, tmp_path: Path) -> None:
    for text in (EVIL, SCRIPT):
        tab, wrong = opened(browser, render_page(hostile_record(text)), tmp_path, 1280, "light")
        assert wrong == []
        assert text in tab.locator("h1").inner_text()


@pytest.mark.claim("27.22")
def test_a_browser_sees_no_dialog_of_an_audit_edited_by_hand(
    browser: Any, audited: Any, tmp_path: Path
) -> None:
    stored = json.loads(audited.to_json())
    stored["subject"] |= {"model": EVIL, "table": SCRIPT, "label": "=cmd()"}
    stored["sections"][0]["title"] = EVIL
    stored["actions"][0]["title"] = SCRIPT
    (tmp_path / "audit.json").write_text(json.dumps(stored))
    assert run(["audit", "show", str(tmp_path / "audit.json")]) == 0
    page = (tmp_path / "audit.html").read_text()
    tab, wrong = opened(browser, page, tmp_path, 1280, "light")
    assert wrong == []
    assert EVIL in tab.locator("h1").inner_text()
    assert "=cmd()" in tab.locator("header").inner_text()
