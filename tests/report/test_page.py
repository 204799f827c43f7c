"""What is on the page, that it needs nothing else, and how it looks in a browser."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from html.parser import HTMLParser
from itertools import product
from pathlib import Path

import pytest

import counterplay.report
from counterplay.claims import Claim
from counterplay.report import Report, build_report, render_html
from counterplay.report.page import inline, prose
from counterplay.studies import registry
from counterplay.studies.runner import run_studies
from counterplay.studies.store import Store
from counterplay.studies.study import Verdict
from counterplay.studies.verdicts import seen

SAMPLE = Path(__file__).parents[1] / "studies" / "sample"
TEMPLATES = Path(counterplay.report.__file__).parent / "templates"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SAMPLE))
        patch.setattr(registry, "GROUP", "sample.studies")
        with Store(tmp_path_factory.mktemp("store") / "s.sqlite") as store:
            run_studies(registry.select(["sample/walk"]), store, jobs=1, progress=False)
            built = build_report(registry.select(["sample"]), store)
    (section,) = built.areas
    walk, fragile = section.studies
    failing = Verdict("00.02", "A <b>bold</b> promise", "7 [6, 8]", "<= 5", holds=False)
    result = dataclasses.replace(walk.result, verdicts=(*walk.result.verdicts, failing))
    claim = Claim("00.01", "sample", "A fair walk of `n` steps ends sqrt(n) away.", "Thm. 1")
    section = dataclasses.replace(
        section, claims=(claim,), studies=(dataclasses.replace(walk, result=result), fragile)
    )
    return dataclasses.replace(built, areas=(section,))


@pytest.fixture(scope="module")
def page(report: Report) -> str:
    return render_html(report)


def test_the_page_opens_with_harms_and_verdicts_are_folded(report: Report) -> None:
    (section,) = report.areas
    walk, fragile = section.studies
    name = walk.figures[0].files.name
    area = dataclasses.replace(
        section.area, harm="It drifts <off>.", remedy="Hold `it`.", start="hold(it)",
        picture=f"walk/{name}",
    )  # fmt: skip
    result = dataclasses.replace(walk.result, verdicts=[v for v in walk.result.verdicts if v.holds])
    held = dataclasses.replace(walk, result=result)
    sections = dataclasses.replace(section, area=area, studies=(held, fragile))
    page = render_html(dataclasses.replace(report, areas=(sections,)))
    assert "It drifts &lt;off&gt;." in page
    assert page.index("It drifts") < page.index("verdicts hold") < page.index('class="verdicts"')
    assert page.count(walk.figures[0].source) == 2  # beside the harm and in its study
    assert re.search(
        r'<details class="checks">\s*<summary>\d+ comparisons? with theory: all hold', page
    )
    assert "<strong>What goes wrong.</strong> It drifts" in page
    failing = render_html(report)
    assert '<details class="checks" open>' in failing  # what fails is not folded away


class Elements(HTMLParser):
    """Collects every start tag and checks that tags are closed in order."""

    VOID = frozenset({"meta", "link", "img", "br"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def test_it_loads_nothing(page: str):
    addresses = [
        value
        for _, attributes in Elements(page).found
        for name, value in attributes.items()
        if name in {"src", "href", "srcset", "data", "action"} and value is not None
    ]
    assert addresses
    assert all(value.startswith(("#", "data:")) for value in addresses)
    assert "@import" not in page
    assert "url(" not in page
    assert "default-src 'none'" in page


def test_links_lead_somewhere_and_identifiers_are_unique(page: str):
    elements = Elements(page)
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    for attributes in elements.of("a"):
        assert attributes["href"].removeprefix("#") in ids
    for _, attributes in elements.found:
        if label := attributes.get("aria-labelledby"):
            assert label in ids


def test_figures_have_words_and_sizes(page: str, report: Report):
    images = Elements(page).of("img")
    assert len(images) == 2
    assert all(image["alt"] and int(image["width"]) > 300 for image in images)
    captions = [figure.caption for figure in report.areas[0].studies[0].figures]
    assert captions == [
        "How far a fair walk gets: spread.",
        "Distance and number of returns; more steps lead `further` away.",
    ]
    assert "for readers of the code" not in page
    for figure in report.areas[0].studies[0].figures:
        assert len(figure.source) < 1.4 * min(len(figure.files.png), len(figure.files.svg)) + 100


def test_headings_do_not_skip_a_level(page: str):
    levels = [int(tag[1]) for tag, _ in Elements(page).found if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:]))


def test_verdicts_commands_and_origin_are_there(page: str, report: Report):
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page))
    for wanted in (
        "How far a fair walk gets",
        "holds",
        "fails",
        "A &lt;b&gt;bold&lt;/b&gt; promise",
        "7 [6, 8]",
        "&lt;= 5",
        "counterplay run sample/walk",
        "12 cells,",
        "quick scale, seed 0",
        f"Version {report.origin.library}",
        "3 cells are missing; this command computes them",
        "1 study has no complete result yet.",
        "counterplay run sample/fragile",
        "1 claim of this area",
    ):
        assert wanted in text, wanted
    assert "<b>bold</b>" not in page
    assert (report.holds, report.fails) == (3, 1)


def test_a_number_without_a_promise_neither_holds_nor_fails(report: Report) -> None:
    (section,) = report.areas
    walk, fragile = section.studies
    told = (*walk.result.verdicts, seen("00.01", "Longer walks", "12 of 40"))
    more = dataclasses.replace(walk, result=dataclasses.replace(walk.result, verdicts=told))
    sections = dataclasses.replace(section, studies=(more, fragile))
    found = dataclasses.replace(report, areas=(sections,))
    assert (found.holds, found.fails) == (report.holds, report.fails)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", render_html(found)))
    assert "1 fails; 1 number about which nothing is promised" in text
    assert "seen 00.01 Longer walks 12 of 40 no promise" in text


def test_the_contents_name_only_what_a_reader_should_look_at(report: Report) -> None:
    def contents(page: str) -> str:
        navigation = page[page.index("<nav") : page.index("</nav>")]
        return " ".join(re.sub(r"<[^>]*>|&nbsp;", " ", navigation).split())

    (section,) = report.areas
    walk, fragile = section.studies
    held = [verdict for verdict in walk.result.verdicts if verdict.holds]
    good = dataclasses.replace(walk, result=dataclasses.replace(walk.result, verdicts=held))
    for studies, told in (
        ((walk, fragile), "sample 1 fails"),
        ((good, fragile), "sample"),
        ((fragile,), "sample not run yet"),
    ):
        shown = dataclasses.replace(section, studies=studies)
        page = render_html(dataclasses.replace(report, areas=(shown,)))
        assert contents(page).endswith(f"Overview {told}")


def test_same_content_same_page(report: Report, page: str):
    assert render_html(report) == page


def test_an_empty_report_says_so(report: Report):
    page = render_html(dataclasses.replace(report, areas=()))
    assert "No area is installed" in page
    Elements(page)


def test_text_is_escaped_and_backticks_are_code():
    assert inline("a < `b & c`") == "a &lt; <code>b &amp; c</code>"
    assert prose("one\n  two\n\nthree") == "<p>one two</p>\n<p>three</p>"


def palettes() -> list[dict[str, str]]:
    style = (TEMPLATES / "report.css").read_text()
    blocks = re.findall(r":root[^{]*\{([^}]*--paper[^}]*)\}", style)
    assert len(blocks) == 3
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in blocks]


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_has_enough_contrast_in_both_looks():
    light, dark, chosen_dark = palettes()
    assert dark == chosen_dark
    for colours in (light, dark):
        pairs = [
            *product(("ink", "soft", "accent"), ("paper", "card", "tint")),
            *(("good", "paper"), ("good", "good-tint"), ("bad", "paper"), ("bad", "bad-tint")),
        ]
        for front, back in pairs:
            bright, dim = sorted((luminance(colours[front]), luminance(colours[back])))[::-1]
            assert (bright + 0.05) / (dim + 0.05) >= 4.5, (front, back)


def browse(*arguments: str, profile: Path) -> str:
    command = [
        *(str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        *("--hide-scrollbars", f"--user-data-dir={profile}", *arguments),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


PROBE = """<script>addEventListener("load", function () {
  var images = Array.from(document.images);
  var drawn = images.filter(function (image) { return image.complete && image.naturalWidth; });
  var width = document.documentElement.scrollWidth;
  parent.postMessage([width, innerWidth, images.length, drawn.length].join(" "), "*");
});</script></body>"""
FRAME = """<!DOCTYPE html><title>waiting</title><script>
addEventListener("message", function (event) { document.title = event.data; });
</script><iframe src="report.html" width="WIDTH" height="900" style="border: 0"></iframe>"""


@needs_browser
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_it_fits_the_screen_and_every_image_is_drawn(page: str, tmp_path: Path, width: int):
    (tmp_path / "report.html").write_text(page.replace("</body>", PROBE), encoding="utf-8")
    outer = tmp_path / "outer.html"
    outer.write_text(FRAME.replace("WIDTH", str(width)), encoding="utf-8")
    options = ("--window-size=1400,1000", "--virtual-time-budget=5000", "--dump-dom")
    dom = browse(*options, outer.as_uri(), profile=tmp_path / "profile")
    title = re.search(r"<title>([\d ]+)</title>", dom)
    assert title is not None, dom
    content, window, images, drawn = map(int, title[1].split())
    assert content <= window == width
    assert images == drawn == 2


@needs_browser
def test_it_has_a_light_and_a_dark_look(page: str, tmp_path: Path):
    from matplotlib.image import imread

    file = tmp_path / "report.html"
    file.write_text(page, encoding="utf-8")
    corner = {}
    for name, setting in (("light", "1"), ("dark", "0")):
        picture = tmp_path / f"{name}.png"
        browse(
            "--window-size=1280,900",
            f"--blink-settings=preferredColorScheme={setting}",
            f"--screenshot={picture}",
            file.as_uri(),
            profile=tmp_path / name,
        )
        corner[name] = imread(picture)[-5, -5, :3].mean()
    assert corner["light"] > 0.9
    assert corner["dark"] < 0.2


@needs_browser
def test_it_prints(page: str, tmp_path: Path):
    file = tmp_path / "report.html"
    file.write_text(page, encoding="utf-8")
    paper = tmp_path / "report.pdf"
    browse(f"--print-to-pdf={paper}", file.as_uri(), profile=tmp_path / "profile")
    assert paper.read_bytes().startswith(b"%PDF")
    assert paper.stat().st_size > 20_000
