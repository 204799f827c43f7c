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

MODULES = ("bounds", "instances", "lab")

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


def api_packages() -> list[str]:
    """Return the packages and modules that get a reference page."""
    shared = ("auditing", "studio", "tables", "federated", "datasets", "studies", "testing", "core")
    return [*present_areas(), *(name for name in shared if _is_module(PACKAGE, name))]


def generated() -> dict[str, str]:
    """Return every generated page by its path in the site."""
    found = {uri: page for name in api_packages() for uri, page in api_pages(name).items()}
    found["api/index.md"] = reference_page()
    found |= example_pages()
    found["claims.md"] = claims_page()
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


def reference_page() -> str:
    """Return the front page of the reference: every package with the first line of its story."""
    lines = ["# Reference", "", "| package | what it is |", "|---|---|"]
    for name in api_packages():
        story = ast.get_docstring(_parse(_module_file(f"counterplay.{name}"))) or ""
        lines.append(
            f"| [`counterplay.{name}`]({name}/index.md) | {cell(story.split(chr(10))[0])} |"
        )
    return "\n".join(lines) + "\n"


def api_pages(package: str) -> dict[str, str]:
    """Return the reference of a package: an index with one line per name, and a page per name."""
    if package in ("core", "studies"):
        return {f"api/{package}/index.md": _api_of_modules(package)}
    folder = PACKAGE / package
    if not folder.is_dir():
        page = f"# counterplay.{package}\n\n{_module_directive(package, heading_level=2)}\n"
        return {f"api/{package}/index.md": page}
    tree = _parse(folder / "__init__.py")
    objects = _names_from_modules(tree, f"counterplay.{package}")
    names = public_names(tree)
    modules = [name for name in names if _is_module(folder, name) and name not in objects]
    modules += [part for part in MODULES if part not in modules and _is_module(folder, part)]
    found = {}
    parts = [f"# counterplay.{package}", _story(ast.get_docstring(tree) or "")]
    listed = {"": [name for name in names if name not in modules]}
    listed |= {part: _public(_module_file(f"counterplay.{package}.{part}")) for part in modules}
    for part, members in listed.items():
        module = f"counterplay.{package}.{part}".rstrip(".")
        prefix = f"{part}." if part else ""
        if part:
            story = ast.get_docstring(_parse(_module_file(module))) or ""
            parts += [f"## {package}.{part} {{ #{part} }}", _story(story)]
        lines = ["| name | what it is |", "|---|---|"]
        for name in members:
            page = f"{prefix}{name}.md"
            lines.append(f"| [`{name}`]({page}) | {cell(summary_line(module, name))} |")
            found[f"api/{package}/{page}"] = _object_page(package, f"{prefix}{name}")
        if members:
            parts.append("\n".join(lines))
    found[f"api/{package}/index.md"] = "\n\n".join(parts) + "\n"
    return found


def _object_page(package: str, name: str) -> str:
    title = name.rpartition(".")[2]
    module = f"counterplay.{package}.{name}".rpartition(".")[0]
    block = _directive(f"{package}.{name}", heading_level=1, inherited_members=True)
    where = f"[counterplay.{package}](index.md) · `from {module} import {title}`"
    return f"---\ntitle: {title}\n---\n\n{where}\n\n{block}\n"


def _public(path: Path) -> list[str]:
    """Return the names of a module: its ``__all__``, else what it defines itself."""
    tree = _parse(path)
    defined = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]
    return public_names(tree) or defined


def _module_file(module: str) -> Path:
    path = PACKAGE.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def summary_line(module: str, name: str) -> str:
    """Return the first sentence of the documentation of a name, wherever it is defined."""
    if _is_module(_module_file(module).parent, name) and _module_file(module).name == "__init__.py":
        return _first_line(ast.get_docstring(_parse(_module_file(f"{module}.{name}"))))
    path = _module_file(module)
    body = list(_parse(path).body)
    body += [node for part in body if isinstance(part, ast.If) for node in part.body]
    for node, after in zip(body, [*body[1:], None], strict=True):
        is_it = isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
        if is_it and (line := _first_line(ast.get_docstring(node))):  # an overload has none
            return line
        if isinstance(node, ast.Assign | ast.AnnAssign) and name in _targets(node):
            return _constant_line(path, node, after)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("counterplay"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return summary_line(str(node.module), alias.name)
    return ""


def _targets(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _constant_line(path: Path, node: ast.stmt, after: ast.stmt | None) -> str:
    """Return what is said about a constant: the text below it, beside it, or above it."""
    if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
        return _first_line(str(after.value.value))
    lines = path.read_text(encoding="utf-8").splitlines()
    beside = lines[(node.end_lineno or node.lineno) - 1].partition("  # ")[2]
    above = lines[node.lineno - 2].strip() if node.lineno > 1 else ""
    return beside or (above.lstrip("#: ") if above.startswith("#") else "")


def _first_line(docstring: str | None) -> str:
    """Return the first paragraph of a docstring on one line, without roles."""
    first = (docstring or "").strip().split("\n\n")[0]
    return re.sub(r":\w+:`~?([^`]+)`", r"\1", " ".join(first.split())).replace("``", "")


def _api_of_modules(package: str) -> str:
    folder = PACKAGE / package
    story = ast.get_docstring(_parse(folder / "__init__.py")) or ""
    parts = [f"# counterplay.{package}", _story(story)]
    hidden = set(SITUATIONS) if package == "studies" else set()
    for path in sorted(folder.iterdir()):
        module = path.stem
        if module.startswith("_") or module in hidden or not _is_module(folder, module):
            continue
        parts += [f"## {package}.{module}", _module_directive(f"{package}.{module}")]
    return "\n\n".join(parts) + "\n"


def _directive(name: str, **options: object) -> str:
    """Return the block that mkdocstrings replaces by the documentation of an object."""
    lines = [f"::: counterplay.{name}", "    options:"]
    lines += [f"      {key}: {str(value).lower()}" for key, value in options.items()]
    return "\n".join(lines)


def _module_directive(name: str, heading_level: int = 3) -> str:
    options = {"show_root_heading": False, "show_root_toc_entry": False}
    return _directive(name, heading_level=heading_level, **options)


def _story(docstring: str) -> str:
    """Return a module docstring as Markdown."""
    text = re.sub(r":(?:class|func|meth|mod|attr|exc):`(?:~[\w.]*\.)?", "`", docstring)
    return re.sub(r"::(?=\n\n)", ":", text)


def public_names(tree: ast.Module) -> list[str]:
    """Return the names in ``__all__``."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets):
            assert isinstance(node, ast.Assign)
            return list(ast.literal_eval(node.value))
    return []


def _names_from_modules(tree: ast.Module, package: str) -> set[str]:
    """Return what is imported out of a module: ``audit`` may be a function in ``audit.py``."""
    return {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module != package
        for alias in node.names
    }


def _is_module(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists()


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def claims_page() -> str:
    """Return the map from every claim to the tests that check it and the studies that show it."""
    claims = parse_claims((PACKAGE / "claims.toml").read_text(encoding="utf-8"))
    tests = claim_tests(ROOT / "tests")
    studies = _claim_studies()
    parts = [
        "# From theorem to code",
        "Every promise of the library is one entry of `claims.toml`. Each is checked by at least "
        "one test that carries its id; a promise without a test, or a test with an unknown id, "
        "fails the test run. Run the tests of one promise with "
        "`python -m pytest -k NAME` or list all promises with `counterplay claims`.",
    ]
    by_area: dict[str, list[Claim]] = defaultdict(list)
    for claim in claims:
        by_area[claim.area].append(claim)
    order = [*SITUATIONS, *(area for area in by_area if area not in SITUATIONS)]
    for area in order:
        if by_area[area]:
            parts.append(f"## {area}")
            parts.append(_claims_table(by_area[area], tests, studies))
    if not claims:
        parts.append("No claim is part of this build yet.")
    return "\n\n".join(parts) + "\n"


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
        promise = f"{cell(claim.statement)}<br>{source_link(claim.source)}"
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
        parts = [f"# {title}", rest, f"`python examples/{script.name}`"]
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
        "what it prints and draws. All of them use data that come with scikit-learn."
    )
    grid = "\n".join(['<div class="cards">', *cards, "</div>"])
    return {"examples.md": f"{intro}\n\n{grid}\n", **found}


def figures() -> dict[str, Path]:
    """Return the study figures that were made by the last run, by their path in the site."""
    folder = ROOT / "build" / "figures"
    return {
        f"figures/{path.parent.name}/{path.name}": path for path in sorted(folder.glob("*/*.svg"))
    }


def gallery_page() -> str:
    """Return the page that shows every figure of every study."""
    from counterplay.studies.registry import load_areas

    shown = figures()
    parts = [
        "# Gallery",
        "Figures made by the studies. Theory is dashed; points are measured, with intervals where "
        "they were simulated.",
    ]
    for area in load_areas():
        blocks = []
        for study in area.studies:
            prefix = f"figures/{area.name}/{study.name}-"
            for uri in (uri for uri in shown if uri.startswith(prefix)):
                blocks.append(_figure(uri, study.title, f"{area.name}/{study.name}"))
        if blocks:
            parts += [f"## {area.title}", '<div class="gallery">', *blocks, "</div>"]
    if len(parts) == 2:
        parts.append(
            '!!! note "No figures in this build"\n'
            "    The gallery shows what the last run of the studies drew. Run `make demo`, "
            "then `make docs`."
        )
    return "\n\n".join(parts) + "\n"


def _figure(uri: str, title: str, study: str) -> str:
    caption = f"{title} <code>counterplay run {study}</code>"
    return f'<figure><img src="../{uri}" alt="{title}"><figcaption>{caption}</figcaption></figure>'
