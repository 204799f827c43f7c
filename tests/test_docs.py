"""The site builds without a warning, needs no network, and its code runs."""

from __future__ import annotations

import ast
import contextlib
import fcntl
import functools
import html
import importlib
import inspect
import json
import os
import pkgutil
import re
import shlex
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from counterplay import cli
from counterplay.claims import Claim, load_claims
from counterplay.studies.registry import load_areas
from scripts import ROOT, run_python, run_script, words

sys.path.insert(0, str(ROOT / "docs"))

import page_code
import pages
import reference
import versions

WRITTEN = sorted(path for path in (ROOT / "docs").rglob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "examples").rglob("*.md")), *WRITTEN]


def code_of(path: Path) -> list[page_code.Block]:
    """Return the Python blocks of a page that can run, of the areas that exist."""
    return page_code.blocks(pages.fill(path.read_text(encoding="utf-8")))


# Tutorials run as notebooks, see test_notebooks.py.
WITH_CODE = [
    path
    for path in [ROOT / "README.md", *WRITTEN]
    if path.parent.name != "tutorials" and code_of(path)
]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda path: path.stem)
def test_code_in_pages_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COUNTERPLAY_DATA", raising=False)  # pages show bundled data
    found = code_of(page)
    (tmp_path / "page.py").write_text(page_code.program(found), encoding="utf-8")
    printed = page_code.outputs(run_script(tmp_path / "page.py", tmp_path, 240))
    for block, output in zip(found, printed, strict=True):
        if block.shown is not None:
            assert words(output) == words(block.shown)


def test_sketches_only_import(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nimport math\nx = math.pi\n```\n"
        "```python\nfrom json import dumps\nprint(dumps(my_data))\n```\n"
        "```python\nprint([x * k for k in range(2)])\n```\n"
        "<!-- not run -->\n```python\nundefined()\n```\n"
    )
    assert [block.runs.strip() for block in code_of(page)] == [
        "import math\nx = math.pi",
        "from json import dumps",
        "print([x * k for k in range(2)])",
    ]


def test_outputs_stand_below_their_block_and_are_replaced() -> None:
    text = "a\n\n```python\nprint(1)\n```\n\nb\n\n```python\nx = 2\n```\n\n```output\nold\n```\n"
    once = page_code.with_outputs(text, ["1\n", ""])
    assert (
        once == "a\n\n```python\nprint(1)\n```\n\n```output\n1\n```\n\nb\n\n```python\nx = 2\n```\n"
    )
    assert page_code.with_outputs(once, ["1\n", ""]) == once
    assert [block.shown for block in page_code.blocks(once)] == ["1\n", None]


def test_a_notebook_holds_the_prose_and_the_code() -> None:
    text = "# T\n\n```python\nprint(1)\n```\n\n```output\n1\n```\n\n![p](p.png)\n\nend\n"
    cells = page_code.notebook(text)["cells"]
    assert [(cell["cell_type"], cell["source"]) for cell in cells] == [
        ("markdown", "# T"),
        ("code", "print(1)"),
        ("markdown", "end"),
    ]


def test_a_downloaded_notebook_leads_to_no_page_that_is_not_beside_it() -> None:
    text = "Run it, or [download the notebook](t.ipynb). See [`f`](../a.md#b) and [x](https://x.y)."
    source = page_code.notebook(text)["cells"][0]["source"]
    assert source == "Run it. See `f` and [x](https://x.y)."
    for page in page_code.tutorials():
        book = page_code.notebook(pages.fill(page.read_text(encoding="utf-8")))
        prose = [c["source"] for c in book["cells"] if c["cell_type"] == "markdown"]
        assert not re.findall(r"\]\((?!https?:)[^)]*\)|ipynb", "".join(prose)), page.name


def commands_of(text: str) -> list[list[str]]:
    """Return the command lines of a page, in blocks and in sentences; not those with blanks."""
    blocks = re.findall(r"^```.*?^```", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines += [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)]
    commands = [line for line in lines if re.match(r"counterplay (?!help)[a-z]", line)]
    return [
        shlex.split(command, comments=True)[1:]
        for command in commands
        if not re.search(r"[|\[]|\.\.\.", command)
    ]


def refused(commands: list[list[str]], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the command lines with a word or an option that the command line does not know."""
    found = [
        " ".join(words)
        for words in commands
        if cli.run([*words, "--help"]) != 0 and cli.run([*words, "VALUE", "--help"]) != 0
    ]
    capsys.readouterr()
    return found


@pytest.mark.parametrize(
    "page",
    [path for path in PAGES if commands_of(path.read_text(encoding="utf-8"))],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_commands_in_pages_exist(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not refused(commands_of(page.read_text(encoding="utf-8")), capsys)


def test_commands_that_do_not_exist_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    good = "`counterplay run\nAREA --jobs 4`\n```console\n$ counterplay claims 2.1  # it's one\n```"
    assert commands_of(good) == [["claims", "2.1"], ["run", "AREA", "--jobs", "4"]]
    assert not refused(commands_of(good), capsys)
    bad = [["run", "AREA", "--job", "4"], ["audit", "chekc"], ["studio", "linkz"], ["runn"]]
    assert len(refused(bad, capsys)) == len(bad)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once for all workers of the run: the first one builds, the others wait."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "site"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "site.done").exists():
            run_python(["-m", "mkdocs", "build", "--strict", "-d", str(folder)], ROOT, 600)
            (shared / "site.done").touch()
    return folder


@pytest.mark.long
def test_g2_strict_build_has_every_page(site: Path) -> None:
    for uri in (*pages.generated(), "index.md", "getting-started.md", "speed.md", "studies.md"):
        folder = uri.removesuffix(".md").removesuffix("index")
        assert (site / folder / "index.html").exists(), uri


class Resources(HTMLParser):
    """Collects what a browser loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.found.append(values.get("src") or "")
        if tag == "link" and values.get("rel") in ("stylesheet", "preconnect", "icon", "preload"):
            self.found.append(values.get("href") or "")


@pytest.mark.long
def test_pages_load_nothing_from_the_network(site: Path) -> None:
    for path in site.rglob("*.html"):
        parser = Resources()
        parser.feed(path.read_text(encoding="utf-8"))
        outside = [url for url in parser.found if url.startswith(("http:", "https:", "//"))]
        assert not outside, f"{path.name} loads {outside}"
    for path in site.rglob("*.css"):
        assert "fonts.googleapis" not in path.read_text(encoding="utf-8")


def dead_links(site: Path) -> list[str]:
    """Return the links of a site, within it, to pages, files or places that are not there."""
    found = {path: path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}
    places = {
        path: {html.unescape(name) for name in re.findall(r'\s(?:id|name)="([^"]+)"', text)}
        for path, text in found.items()
    }
    dead = set()
    for path, text in found.items():
        for target in re.findall(r'<(?:a|img|link|script)\b[^>]*?\s(?:href|src)="([^"]+)"', text):
            address, _, place = html.unescape(target).partition("#")
            if re.match(r"\w+:|//", address) or target == "#":
                continue
            address = address.replace(f"/{versions.current_version()}/", f"{site}/", 1)
            led = (path.parent / unquote(address.split("?")[0])).resolve() if address else path
            led = led / "index.html" if led.is_dir() else led
            if not led.exists() or (place and led in places and unquote(place) not in places[led]):
                dead.add(f"{path.relative_to(site)}: {target}")
    return sorted(dead)


@pytest.mark.long
def test_every_link_within_the_site_leads_somewhere(site: Path) -> None:
    assert not dead_links(site)


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "index.html").write_text('<p id="here"></p><a href="..">up</a>')
    good = '<a href="a/#here">1</a><a href="https://x.y/z">2</a><a href="#top">3</a><b id="top">'
    (tmp_path / "index.html").write_text(good + '<a href="a/#gone">4</a><img src="no.png">')
    assert dead_links(tmp_path) == ["index.html: a/#gone", "index.html: no.png"]


def test_the_page_of_a_wrong_address_leads_into_its_version() -> None:
    page = (
        '<a href="/."><link href="/a/b.css"><a href="https://x.y/">{"base": "/", "search": "/w.js"}'
    )
    assert pages.below(page, "/1.0/") == (
        '<a href="/1.0/"><link href="/1.0/a/b.css"><a href="https://x.y/">'
        '{"base": "/1.0/", "search": "/1.0/w.js"}'
    )


def test_signatures_show_no_private_fields() -> None:
    line = '<a id="{0}"></a>    <span class="n">{1}</span>: Any,\n'
    block = '<div class="x doc-signature"><code>\n{}</code></div>'
    whole = block.format(line.format(1, "shown") + line.format(2, "_held"))
    assert reference.public_signature(whole) == block.format(line.format(1, "shown"))
    assert reference.public_signature(line.format(1, "_else")) == line.format(1, "_else")


@pytest.mark.long
def test_g7_every_public_name_has_a_page_of_its_own(site: Path) -> None:
    index = (site / "api" / "datasets" / "index.html").read_text(encoding="utf-8")
    for name in ("Dataset", "fetch", "list_datasets", "load"):
        page = (site / "api" / "datasets" / name / "index.html").read_text(encoding="utf-8")
        assert f'id="counterplay.datasets.{name}"' in page
        assert ":class:" not in page
        assert f'href="{name}/"' in index
    assert (site / "api" / "tradeoff" / "bounds.hedge_regret" / "index.html").exists()


def test_g7_the_index_says_in_one_line_what_a_name_is() -> None:
    for package in reference.api_packages():
        made = reference.api_pages(package)
        index = made[f"api/{package}/index.md"]
        rows = re.findall(r"^\| \[`(\w+)`\]\(([^)]+)\) \| (.*) \|$", index, flags=re.MULTILINE)
        assert len(rows) == len(made) - 1
        for name, target, line in rows:
            assert line, f"{package}: {name} has no summary"
            assert f"api/{package}/{target}" in made, name


def test_the_gallery_shows_the_picture_of_every_area_in_a_fresh_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = {
        uri: path for uri, path in pages.figures().items() if (ROOT / "build") not in path.parents
    }
    monkeypatch.setattr(pages, "figures", lambda: kept)
    page = pages.gallery_page()
    for area in load_areas():
        picture = f"figures/{area.name}/{area.picture.replace('/', '-')}.svg"
        assert f'src="../{picture}"' in page
        assert 1_000 < kept[picture].stat().st_size < 300_000, picture


def test_claims_are_found_without_importing(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_a.py").write_text(
        "import pytest, no_such_module\n"
        'pytestmark = pytest.mark.claim("01.01")\n'
        '@pytest.mark.claim("01.02")\n'
        '@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.claim("01.03"))])\n'
        "def test_one(n): ...\n"
        "class TestTwo:\n"
        '    @pytest.mark.claim("01.02", "01.04")\n'
        "    def test_three(self): ...\n"
    )
    assert pages.claim_tests(folder) == {
        "01.01": ["tests/test_a.py"],
        "01.02": ["tests/test_a.py::test_one", "tests/test_a.py::TestTwo::test_three"],
        "01.03": ["tests/test_a.py::test_one"],
        "01.04": ["tests/test_a.py::TestTwo::test_three"],
    }


def test_sections_of_absent_areas_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "present_areas", lambda: ["tradeoff"])
    kept, dropped = "<!-- only: tradeoff -->\nb\n", "<!-- only: strategic -->\nc\n"
    text = f"a\n{kept}<!-- end -->\n{dropped}<!-- end -->\nd\n"
    assert pages.fill(text) == "a\nb\nd\n"


@pytest.mark.parametrize("claim", load_claims(), ids=lambda claim: claim.id)
def test_the_source_of_a_claim_is_a_heading_of_the_book(claim: Claim) -> None:
    name, _, anchor = claim.source.partition("#")
    chapter = ROOT / name
    assert chapter in pages.chapters(), f"{claim.id}: {name} is no chapter of docs/theory"
    assert anchor in pages.anchors(chapter), f"{claim.id}: {name} has no heading {{ #{anchor} }}"
    assert claim.id[:2] == chapter.name[:2], f"{claim.id} cites the chapter {chapter.name}"


@pytest.mark.parametrize("chapter", pages.chapters(), ids=lambda path: path.stem)
def test_anchors_of_a_chapter_are_used_once_and_lead_to_its_errata(chapter: Path) -> None:
    found = re.findall(r"\{ *#([\w-]+) *\}", chapter.read_text(encoding="utf-8"))
    assert len(found) == len(set(found)) == len(pages.anchors(chapter))
    assert {"setting", "errata", "claims"} <= set(found)
    number = int(chapter.name[:2])
    assert pages.chapter_title(chapter).startswith(f"{number}. ")


def untitled(text: str, listed: str) -> list[str]:
    """Return the publications that a chapter cites without a title and that are not listed."""
    cited = re.finditer(
        r"([A-Z][\w-]+)(?: et al\.)?,? \(?((?:19|20)\d\d)\b(\)?,[^.;)]{0,30}\*)?",
        " ".join(text.split()),
    )
    return [
        f"{name} {year}"
        for name, year, title in (match.groups() for match in cited)
        if not title and not re.search(rf"\b{name}\b.* \({year}\)", listed)
    ]


@pytest.mark.parametrize("chapter", pages.chapters(), ids=lambda path: path.stem)
def test_publications_are_cited_with_a_title_or_listed(chapter: Path) -> None:
    listed = (pages.BOOK / "literature.md").read_text(encoding="utf-8")
    assert not untitled(chapter.read_text(encoding="utf-8"), listed)


def test_publications_without_a_title_are_found() -> None:
    text = "Hall (1992), *On skewness*; (Wolfe, 1976); Ham et al. 2001; Hanneke (2016, *Refined*)"
    assert untitled(text, "- P. Wolfe (1976), *Finding*") == ["Ham 2001"]


@functools.cache
def words_of_the_code() -> frozenset[str]:
    """Return every identifier and short text in the sources."""
    found: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        found |= {path.stem, path.parent.name}
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for field in ("name", "arg", "attr", "id", "value"):
                word = getattr(node, field, None)
                if isinstance(word, str):
                    found.add(word)
    return frozenset(found)


def missing_names(text: str) -> list[str]:
    """Return the names in code marks that the library does not have."""
    found = []
    for code in re.findall(r"`([^`\n]+)`", text):
        match = re.match(r"([A-Za-z_]\w*(?:\.\w+)*)(?=[(=\[]|$)", code)
        if match is None:
            continue
        parts = match[1].split(".")
        if parts[0] == "counterplay":
            with contextlib.suppress(ImportError, AttributeError):
                pkgutil.resolve_name(match[1])
                continue
        elif words_of_the_code().issuperset(parts):
            continue
        found.append(code)
    return found


@pytest.mark.parametrize("chapter", pages.chapters(), ids=lambda path: path.stem)
def test_names_of_code_in_the_book_exist(chapter: Path) -> None:
    assert not missing_names(chapter.read_text(encoding="utf-8"))


def test_missing_names_are_found() -> None:
    good = "`counterplay.claims.Claim`, `load_claims()`, `x + y`, `Claim.area`"
    assert not missing_names(good)
    bad = "`counterplay.claims.Promise`, `NoSuchLearner(eta)`, `no_such_word`"
    assert len(missing_names(bad)) == 3


def test_a_source_is_named_by_its_heading() -> None:
    link = pages.source_link("docs/theory/02-strategic-finite.md#thm-2-1")
    assert link == "[Theorem 2.1: halving](theory/02-strategic-finite.md#thm-2-1)"
    link = pages.source_link("docs/theory/02-strategic-finite.md#setting")
    assert link == "[Setting (chapter 2)](theory/02-strategic-finite.md#setting)"


@pytest.mark.long
def test_every_formula_is_typeset(site: Path) -> None:
    """What is left of TeX outside of formulas and code would be shown to the reader as it is."""
    formulas = 0
    for path in (site / "theory").rglob("index.html"):
        html = path.read_text(encoding="utf-8")
        article = html[html.index("<article") : html.index("</article>")]
        article, count = re.subn(
            r'<(span|div) class="arithmatex">.*?</\1>', "", article, flags=re.S
        )
        formulas += count
        rest = re.sub(r"<(pre|code)\b.*?</\1>", "", article, flags=re.DOTALL)
        assert not re.findall(r"\$[^$<]*\$|\\[a-zA-Z(\[]+", rest), path.parent.name
    assert formulas > 1000


@pytest.mark.long
def test_the_site_has_what_typesets_formulas(site: Path) -> None:
    folder = site / "assets" / "katex"
    style = (folder / "katex.min.css").read_text(encoding="utf-8")
    wanted = set(re.findall(r"url\(([^)]+)\)", style)) | {"katex.min.js", "auto-render.min.js"}
    assert all((folder / name).exists() for name in wanted)
    assert "MIT" in (folder / "LICENSE").read_text(encoding="utf-8")


def test_what_a_docstring_cites_is_a_link_into_the_book() -> None:
    cited = '<p>Theorem 2.1, "Setting", see docs/theory/02-strategic-finite.md.</p>'
    place = "../../../theory/02-strategic-finite/"
    assert reference.linked(cited, "../../../") == (
        f'<p><a href="{place}#thm-2-1">Theorem 2.1</a>, "<a href="{place}#setting">Setting</a>", '
        f'see <a href="{place}">docs/theory/02-strategic-finite.md</a>.</p>'
    )
    page = reference.linked(
        "<p>docs/audit.md; Lemma 2.1, docs/theory/02-strategic-finite.md</p>", ""
    )
    assert '<a href="audit/">docs/audit.md</a>' in page
    assert '<a href="theory/02-strategic-finite/#lem-2-1">Lemma 2.1</a>' in page
    for kept in ("<p>Theorem 2.1 of somebody else.</p>", "<pre>docs/theory/02-x.md</pre>"):
        assert reference.linked(kept, "") == kept


def faces() -> dict[str, str]:
    """Return the docstrings of the classes and functions that the packages show, by name."""
    found = {}
    for package in reference.api_packages():
        module = importlib.import_module(f"counterplay.{package}")
        for name in getattr(module, "__all__", ()):
            held = getattr(module, name)
            kind = held if isinstance(held, type) else type(held)
            if callable(held) and not issubclass(kind, Exception):
                found[f"{package}.{name}"] = inspect.cleandoc(held.__doc__ or "")
    return found


def dead_citations(text: str) -> list[str]:
    """Return the pages that a text cites and nobody can open, and statements they do not have."""
    cited = re.findall(r"docs/[\w/-]+\.md", text)
    dead = [path for path in cited if not (ROOT / path).exists()]
    chapters = [
        ROOT / path for path in cited if path.startswith("docs/theory/") and path not in dead
    ]
    titles = " ".join(title for path in chapters for title in pages.anchors(path).values())
    stated = re.findall(r"(?:Theorem|Lemma|Proposition|Algorithm)s? ([A-Z\d]+\.[A-Z\d]+)\b", text)
    return dead + [number for number in stated if not re.search(rf"\b{number}\b", titles)]


def test_every_public_object_names_what_it_rests_on() -> None:
    lacking, dead = [], []
    for name, text in faces().items():
        section = text.partition("References\n----------\n")[2].partition("\n\n")[0]
        if not re.search(r"docs/[\w/-]+\.md|\b(?:19|20)\d\d\b", section):
            lacking.append(name)
        dead += [f"{name}: {what}" for what in dead_citations(section)]
    assert not lacking
    assert not dead
    assert dead_citations("Theorem 2.99, docs/theory/02-strategic-finite.md") == ["2.99"]


def test_long_names_break_at_their_separators_only() -> None:
    assert pages.breakable("<code>counterplay.core.online</code>") == (
        "<code>counterplay.<wbr>core.<wbr>online</code>"
    )
    for kept in ("<code>core.online</code>", "<pre><code>counterplay.core.online</code></pre>"):
        assert pages.breakable(kept) == kept


def test_printed_sentences_are_wrapped_and_tables_are_not() -> None:
    block = '<div class="language-output highlight"><pre><code>{}\n</code></pre></div>'
    table, sentence = block.format("a  b\n1  2"), block.format("<span>word &amp;</span> " * 20)
    assert pages.wrapped(table) == table
    assert pages.wrapped(table + sentence) == table + sentence.replace(
        "language-output", "language-output sentences"
    )


def test_every_claim_of_the_map_has_a_test() -> None:
    made = pages.claims_pages()
    assert not [uri for uri, page in made.items() if "no test yet" in page]
    shown = re.findall(r'id="claim-([\d.]+)"', "".join(made.values()))
    assert sorted(shown) == sorted(claim.id for claim in load_claims())


def test_markdown_in_a_claim_cannot_break_the_table() -> None:
    assert pages.cell("|x|_1 <= 2 * `n`") == r"\|x\|\_1 \<= 2 \* \`n\`"
    assert pages.sentence("`a|b` of _x_") == r"`a\|b` of \_x\_"


def test_versions_stand_side_by_side(tmp_path: Path) -> None:
    for name in ("0.1.0", "0.2.0.dev0", "0.10.0", "0.2.0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").touch()
    (tmp_path / "notes").mkdir()  # not a version
    assert versions.write_list(tmp_path) == ["0.1.0", "0.2.0.dev0", "0.2.0", "0.10.0"]
    listed = json.loads((tmp_path / "versions.json").read_text())
    assert listed[0]["version"] == "0.10.0"
    assert listed[0]["aliases"] == ["latest"]
    assert "url=0.10.0/" in (tmp_path / "index.html").read_text()
    assert not (tmp_path / "404.html").exists()
    (tmp_path / "0.10.0" / "404.html").write_text("no such page")
    versions.write_list(tmp_path)
    assert (tmp_path / "404.html").read_text() == "no such page"
    assert versions.order(versions.current_version())[0] >= (0, 2, 0)
