"""The reference as text: an index per package, a page per public name, links into the book."""

from __future__ import annotations

import ast
import html
import re
from functools import cache
from pathlib import Path

from pages import BOOK, PACKAGE, anchors, present_areas, sentence

MODULES = ("bounds", "instances", "lab")


def api_packages() -> list[str]:
    """Return the packages and modules that get a reference page."""
    shared = ("auditing", "studio", "tables", "federated", "datasets", "studies", "testing", "core")
    return [*present_areas(), *(name for name in shared if _is_module(PACKAGE, name))]


def generated() -> dict[str, str]:
    """Return every page of the reference by its path in the site."""
    found = {uri: page for name in api_packages() for uri, page in api_pages(name).items()}
    return {**found, "api/index.md": reference_page()}


def reference_page() -> str:
    """Return the front page of the reference: every package with the first line of its story."""
    lines = ["# Reference", "", "| package | what it is |", "|---|---|"]
    for name in api_packages():
        story = ast.get_docstring(_parse(_module_file(f"counterplay.{name}"))) or ""
        lines.append(
            f"| [`counterplay.{name}`]({name}/index.md) | {sentence(story.split(chr(10))[0])} |"
        )
    return "\n".join(lines) + "\n"


def api_pages(package: str) -> dict[str, str]:
    """Return the reference of a package: an index with one line per name, and a page per name."""
    file = _module_file(f"counterplay.{package}")
    tree = _parse(file)
    parts = [f"# counterplay.{package}", _story(ast.get_docstring(tree) or "")]
    found = {}
    for part, members in _listed(package, tree, file).items():
        module = f"counterplay.{package}.{part}".rstrip(".")
        prefix = f"{part}." if part else ""
        if part:
            story = ast.get_docstring(_parse(_module_file(module))) or ""
            parts += [f"## {package}.{part} {{ #{part} }}", _story(story)]
        lines = ["| name | what it is |", "|---|---|"]
        for name in members:
            page = f"{prefix}{name}.md"
            lines.append(f"| [`{name}`]({page}) | {sentence(summary_line(module, name))} |")
            found[f"api/{package}/{page}"] = _object_page(package, f"{prefix}{name}")
        if members:
            parts.append("\n".join(lines))
    found[f"api/{package}/index.md"] = "\n\n".join(parts) + "\n"
    return found


def _listed(package: str, tree: ast.Module, file: Path) -> dict[str, list[str]]:
    """Return the names that get a page, by the module they are found in; "" is the package."""
    folder = file.parent
    if file.stem != "__init__":  # a single module
        return {"": _public(file)}
    if package in ("core", "studies"):  # every module; studies of an area are no interface
        paths = [path for path in folder.iterdir() if _is_module(folder, path.stem)]
        paths = [path for path in paths if package == "core" or path.suffix == ".py"]
        modules = sorted(path.stem for path in paths if not path.stem.startswith("_"))
    else:
        objects = _names_from_modules(tree, f"counterplay.{package}")
        names = public_names(tree)
        modules = [name for name in names if _is_module(folder, name) and name not in objects]
        modules += [part for part in MODULES if part not in modules and _is_module(folder, part)]
    own = [name for name in public_names(tree) if name not in modules]
    return {"": own} | {
        part: _public(_module_file(f"counterplay.{package}.{part}")) for part in modules
    }


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
    return public_names(tree) or list(dict.fromkeys(defined))  # an overload is defined twice


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


def _directive(name: str, **options: object) -> str:
    """Return the block that mkdocstrings replaces by the documentation of an object."""
    lines = [f"::: counterplay.{name}", "    options:"]
    lines += [f"      {key}: {str(value).lower()}" for key, value in options.items()]
    return "\n".join(lines)


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


def public_signature(page: str) -> str:
    """Return a page of the reference without the private fields in its signatures."""
    private = re.compile(r'^<a [^>]*></a> *<span class="n">_\w+</span>.*\n', re.MULTILINE)
    return re.sub(
        r'<div class="[^"]*doc-signature.*?</div>',
        lambda match: private.sub("", match[0]),
        page,
        flags=re.DOTALL,
    )


_CITED = re.compile(r"docs/([\w/-]+)\.md")
_NUMBERED = re.compile(r"(?:([A-Z][a-z]+|[a-z]+?)s? )?\b([A-Z\d]+\.[A-Z\d]+)\b")


def linked(page: str, root: str) -> str:
    """Return a page whose citations of the documentation are links, to the theorem if one is named.

    ``root`` leads from the page to the front of the site. What is cited stands in the paragraph of
    its chapter: ``Theorem 2.1, "Setting", see docs/theory/02-strategic-finite.md``.
    """

    def paragraph(match: re.Match[str]) -> str:
        text = match[0]
        for name in dict.fromkeys(_CITED.findall(text)):
            address = f"{root}{name}/"
            book = BOOK / f"{name.removeprefix('theory/')}.md"
            for anchor, title in anchors(book).items() if name.startswith("theory/") else ():
                place = f'<a href="{address}#{anchor}">\\g<0></a>'
                for shown in cited_as(title):
                    text = re.sub(rf"{shown}(?![^<]*</a>)", place, text)
            path = f"docs/{name}.md"
            text = text.replace(path, f'<a href="{address}">{path}</a>')
        return text

    return re.sub(r"<p>.*?</p>", paragraph, page, flags=re.DOTALL)


def cited_as(title: str) -> list[str]:
    """Return patterns of what a text may call a heading: it in quotation marks, or its numbers."""
    found = [rf'(?<="){re.escape(html.escape(title, quote=False))}(?=")']
    kind = ""
    for named, number in _NUMBERED.findall(title):
        kind = named or kind
        found.append(rf"\b{kind.capitalize()}s? {re.escape(number)}\b(?!\.\w)")
    return found
