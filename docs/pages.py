"""The generated pages as text, without anything of MkDocs, so that tests can look at them."""

from __future__ import annotations

import ast
import html
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from counterplay.claims import Claim, claim_tests, parse_claims

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "counterplay"
BOOK = ROOT / "docs" / "theory"
SHOWN = ROOT / "docs" / "examples"  # what the examples print and draw (docs/render_examples.py)
_HEADING = re.compile(r"^#+ (?P<title>.*?) *(?:\{ *#(?P<anchor>[\w-]+) *\})?$", re.MULTILINE)

# In the order of the book; the sentence is what a visitor has in mind.
SITUATIONS = {
    "strategic": "People adapt their features to be accepted by your classifier.",
    "contribution": "Several parties must agree on how much data each of them brings.",
    "defection": "Parties leave federated training once their own model is good enough.",
    "labeling": "Several teams label one pool, and none should do more work than it would alone.",
    "principal": "You make offers or disclose information to somebody who learns.",
    "elicitation": "You want to find out what a person prefers from a few comparisons.",
    "tradeoff": "You want the best model live without exceeding a harm budget.",
    "poisoning": "An attacker plants correctly labelled rows to flip one prediction.",
    "invariance": "You wonder whether data augmentation helps or hurts.",
}


def present_areas() -> list[str]:
    """Return the areas whose package exists."""
    return [name for name in SITUATIONS if (PACKAGE / name / "__init__.py").exists()]


def generated() -> dict[str, str]:
    """Return every generated page by its path in the site."""
    import reference  # it needs the names of this module

    found = reference.generated()
    found |= example_pages()
    found |= claims_pages()
    found["gallery.md"] = gallery_page()
    found["contributing.md"] = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found["security.md"] = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    found["changelog.md"] = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return found


def fill(markdown: str) -> str:
    """Fill the generated tables of a written page and drop sections of absent areas."""
    areas = present_areas()

    def keep(match: re.Match[str]) -> str:
        return match[2] if match[1] in areas else ""

    markdown = re.sub(
        r"<!-- only: (\w+) -->\n(.*?)<!-- end -->\n?", keep, markdown, flags=re.DOTALL
    )
    tables = {
        "areas": areas_table, "chapters": chapters_table, "data": data_table,
        "studies": studies_table,
    }  # fmt: skip
    for name, table in tables.items():
        marker = f"<!-- generated: {name} -->"
        if marker in markdown:
            markdown = markdown.replace(marker, table())
    return markdown


def areas_table() -> str:
    """Return the table of situations with links to the areas."""
    lines = ["| your situation | package |", "|---|---|"]
    for name in present_areas():
        page = (ROOT / "docs" / "areas" / f"{name}.md").exists()
        target = f"areas/{name}.md" if page else f"api/{name}/index.md"
        lines.append(f"| {SITUATIONS[name]} | [`counterplay.{name}`]({target}) |")
    return "\n".join(lines) if len(lines) > 2 else "No area is part of this build yet."


def chapters() -> list[Path]:
    """Return the chapters of the book of the theory, in order."""
    return sorted(BOOK.glob("[0-9]*.md"), key=lambda path: int(path.name.split("-")[0]))


def chapter_title(path: Path) -> str:
    """Return the first heading of a chapter, such as ``8. Preference elicitation``."""
    match = _HEADING.search(path.read_text(encoding="utf-8"))
    assert match is not None, f"{path.name} has no heading"
    return match["title"]


@cache
def anchors(path: Path) -> dict[str, str]:
    """Return the headings of a chapter that have an anchor, by anchor."""
    headings = _HEADING.finditer(path.read_text(encoding="utf-8"))
    return {match["anchor"]: match["title"] for match in headings if match["anchor"]}


def chapters_table() -> str:
    """Return the contents of the book, with the claims and the corrections of each chapter."""
    lines = ["| chapter | what we corrected |", "|---|---|"]
    for path in chapters():
        errata = f"[errata]({path.name}#errata)" if "errata" in anchors(path) else ""
        lines.append(f"| [{chapter_title(path)}]({path.name}) | {errata} |")
    return "\n".join(lines)


def data_table() -> str:
    """Return the table of data sets that can be fetched or loaded."""
    from counterplay.datasets.bundled import BUNDLED
    from counterplay.datasets.catalogue import CATALOGUE

    lines = ["| name | what | files in the local folder |", "|---|---|---|"]
    for name, entry in CATALOGUE.items():
        files = "<br>or ".join(
            f"`{name + '/' if form.only_subfolder else ''}{form.files[0]}`{_more(form.files)}"
            for form in entry.forms
        )
        network = "<br>or a download" if entry.remotes else ""
        lines.append(f"| `{name}` | {entry.title}{_meaning(entry.label_1)} | {files}{network} |")
    for name, bundled in BUNDLED.items():
        what = f"{bundled.description}{_meaning(bundled.label_1)}"
        lines.append(f"| `{name}` | {what} | none: `load` |")
    return "\n".join(lines)


def _meaning(label_1: str) -> str:
    return f"<br>*1 = {label_1}*" if label_1 else ""


def _more(files: tuple[str, ...]) -> str:
    return f" and {len(files) - 1} more" if len(files) > 1 else ""


def studies_table() -> str:
    """Return the table of studies."""
    from counterplay.studies.registry import load_areas

    lines = ["| study | what it shows | claims | full scale needs |", "|---|---|---|---|"]
    for area in load_areas():
        for study in area.studies:
            claims = ", ".join(study.claims)
            needs = study.full_needs or "-"
            lines.append(f"| `{area.name}/{study.name}` | {study.title} | {claims} | {needs} |")
    return "\n".join(lines) if len(lines) > 2 else "No study is part of this build yet."


def claims_pages() -> dict[str, str]:
    """Return the map from every claim to its tests and studies: one page per area, and a front."""
    claims = parse_claims((PACKAGE / "claims.toml").read_text(encoding="utf-8"))
    tests = claim_tests(ROOT / "tests")
    studies = _claim_studies()
    by_area: dict[str, list[Claim]] = defaultdict(list)
    for claim in claims:
        by_area[claim.area].append(claim)
    order = [*SITUATIONS, *(area for area in by_area if area not in SITUATIONS)]
    areas = [area for area in order if by_area[area]]
    lines = ["| area | claims |", "|---|---|"]
    lines += [f"| [{area}](claims/{area}.md) | {len(by_area[area])} |" for area in areas]
    front = [
        "# From theorem to code",
        f"Each of the {len(claims)} promises of the library is one entry of `claims.toml`, a "
        "*claim*, and at least one test carries its id. A claim without a test, or a test with an "
        "unknown id, fails the test run.",
        "\n".join(lines),
        "`counterplay claims` prints the same table in a terminal, `counterplay claims 02.01` one "
        "claim with its theorem, tests and study. To run the tests of a claim, give pytest the "
        "names in the last column.",
    ]
    found = {"claims.md": "\n\n".join(front) + "\n"}
    for area in areas:
        table = _claims_table(by_area[area], tests, studies).replace("](theory/", "](../theory/")
        found[f"claims/{area}.md"] = f"# Claims: {area}\n\n[All areas](../claims.md)\n\n{table}\n"
    return found


def _claims_table(
    claims: list[Claim], tests: dict[str, list[str]], studies: dict[str, list[str]]
) -> str:
    lines = [
        '<div class="claims" markdown>\n',
        "| id | promise and source | checked by, shown by |",
        "|---|---|---|",
    ]
    for claim in claims:
        shown = [f"counterplay run {study}" for study in studies.get(claim.id, [])]
        names = [*tests.get(claim.id, ["no test yet"]), *shown]
        evidence = "<br>".join(f"<code>{name}</code>" for name in names)
        anchor = f'<span id="claim-{claim.id}">{claim.id}</span>'
        promise = f"{sentence(claim.statement)}<br>{source_link(claim.source)}"
        lines.append(f"| {anchor} | {promise} | {evidence} |")
    return "\n".join([*lines, "\n</div>"])


def source_link(source: str) -> str:
    """Return a link to the place in the book, named by its heading.

    ``source`` is a path in the repository with an anchor: ``docs/theory/02-x.md#thm-2-1``.
    """
    name, _, anchor = source.partition("#")
    path = ROOT / name
    title = anchors(path)[anchor]
    number = path.name.split("-")[0].lstrip("0")
    if not re.search(
        r"\b[A-Z\d]+\.[A-Z\d]", title
    ):  # "Setting" alone does not say of which chapter
        title = f"{title} (chapter {number})"
    return f"[{title}]({path.relative_to(ROOT / 'docs').as_posix()}#{anchor})"


def wrapped(page: str) -> str:
    """Return a page whose printed sentences are wrapped; tables, whose lines are short, are not."""

    def marked(match: re.Match[str]) -> str:
        text = html.unescape(re.sub(r"<[^>]+>", "", match[0]))
        longest = max(map(len, text.splitlines()), default=0)
        return match[0].replace(match[1], f"{match[1]} sentences", 1) if longest > 100 else match[0]

    return re.sub(r'<div class="(language-output)\b.*?</pre>', marked, page, flags=re.DOTALL)


def below(page: str, root: str) -> str:
    """Return a page whose absolute addresses lead below ``root`` instead of ``/``."""
    page = re.sub(r'((?:href|src)=")/\.?(?!/)', rf"\1{root}", page)
    return re.sub(r'("(?:base|search)": "|new URL\(")/(?!/)', rf"\1{root}", page)


def breakable(page: str) -> str:
    """Return a page in which names in code may be broken after a separator, and nowhere else."""
    parts = re.split(r"(<pre.*?</pre>)", page, flags=re.DOTALL)
    parts[::2] = [
        re.sub(r"(?<=<code>)[^<]{16,}(?=</code>)", _break_name, part) for part in parts[::2]
    ]
    return "".join(parts)


def _break_name(match: re.Match[str]) -> str:
    return re.sub(r"(?<=\w)(::|[./_-])(?=\w)", r"\1<wbr>", match[0])


def cell(text: str) -> str:
    """Return text that cannot break out of a Markdown table or be read as markup."""
    for sign in ("\\", "*", "_", "`", "<", "["):
        text = text.replace(sign, "\\" + sign)
    return " ".join(text.split()).replace("|", "\\|")


def sentence(text: str) -> str:
    """Return the same, but `names in code` stay code."""
    held: list[str] = []

    def hold(match: re.Match[str]) -> str:
        held.append(match[0].replace("|", "\\|"))
        return f"\0{len(held) - 1}\0"

    text = cell(re.sub(r"`[^`]+`", hold, text))
    return re.sub(r"\0(\d+)\0", lambda match: held[int(match[1])], text)


def _claim_studies() -> dict[str, list[str]]:
    from counterplay.studies.registry import load_areas

    found: dict[str, list[str]] = defaultdict(list)
    for area in load_areas():
        for study in area.studies:
            for claim in study.claims:
                found[claim].append(f"{area.name}/{study.name}")
    return found


def examples() -> list[Path]:
    """Return the example scripts, in the order of the areas."""
    order = {name: place for place, name in enumerate(SITUATIONS)}
    found = (ROOT / "examples").glob("*.py")
    return sorted(found, key=lambda path: (order.get(path.stem.split("_")[0], 99), path.stem))


def example_pages() -> dict[str, str]:
    """Return the gallery of examples and one page per script: its story, code, output, picture."""
    cards = []
    found = {}
    for script in examples():
        source = script.read_text(encoding="utf-8")
        tree = ast.parse(source)
        story = ast.get_docstring(tree) or ""
        title, _, rest = story.partition("\n\n")
        title = " ".join(title.split()).rstrip(".")
        code = "\n".join(source.splitlines()[tree.body[0].end_lineno or 0 :]).strip("\n")
        printed = SHOWN / f"{script.stem}.txt"  # absent until `make examples`; a test asks for it
        output = printed.read_text(encoding="utf-8").strip("\n") if printed.exists() else ""
        pictures = sorted(path.name for path in SHOWN.glob(f"{script.stem}*.png"))
        parts = [f"# {title}", "[All examples](../examples.md)", rest]
        parts += [f"`python examples/{script.name}`"]
        parts += [f"![{title}]({name})" for name in pictures]
        parts += ["## The script", f"```python\n{code}\n```"]
        parts += ["## What it prints", f"```text\n{output}\n```"]
        found[f"examples/{script.stem}.md"] = "\n\n".join(part for part in parts if part) + "\n"
        image = f'<img src="{pictures[0]}" alt="">' if pictures else ""
        cards.append(
            f'<a class="card" href="{script.stem}/">{image}<span>{html.escape(title)}</span></a>'
        )
    intro = (
        "# Examples\n\nEach page is a script of the folder `examples` that runs as it is, with "
        "what it prints and draws. The data come with scikit-learn or are made by the script."
    )
    grid = "\n".join(['<div class="cards">', *cards, "</div>"])
    return {"examples.md": f"{intro}\n\n{grid}\n", **found}


def figures() -> dict[str, Path]:
    """Return the figures of the studies by their path in the site.

    One of each area is kept in ``docs/figures``; the last run may have made more.
    """
    folders = (ROOT / "build" / "figures", ROOT / "docs" / "figures")
    found = {
        f"figures/{path.parent.name}/{path.name}": path
        for folder in folders
        for path in sorted(folder.glob("*/*.svg"))
    }
    return dict(sorted(found.items()))


def gallery_page() -> str:
    """Return the page that shows every figure of every study."""
    from counterplay.studies.registry import load_areas

    shown = figures()
    parts = [
        "# Gallery",
        "Figures made by the studies, at least one of each area. Theory is dashed; points are "
        "measured, with intervals where they were simulated. The command below a figure makes it "
        "and its neighbours again; after `counterplay run --all`, this page has all of them.",
    ]
    for area in load_areas():
        blocks = []
        for study in area.studies:
            prefix = f"figures/{area.name}/{study.name}-"
            for uri in (uri for uri in shown if uri.startswith(prefix)):
                blocks.append(_figure(uri, study.title, f"{area.name}/{study.name}"))
        if blocks:
            parts += [f"## {area.title}", '<div class="gallery">', *blocks, "</div>"]
    return "\n\n".join(parts) + "\n"


def _figure(uri: str, title: str, study: str) -> str:
    caption = f"{title} <code>counterplay run {study}</code>"
    return f'<figure><img src="../{uri}" alt="{title}"><figcaption>{caption}</figcaption></figure>'
