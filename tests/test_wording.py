"""The words of the repository: references can be opened, parameters have an entry of their own."""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOOKED_AT = (
    "src", "tests", "docs", "benchmarks", "examples", "README.md", "CONTRIBUTING.md",
    "conftest.py", "mkdocs.yml", "pyproject.toml", "Makefile",
)  # fmt: skip
TEXT = {".py", ".md", ".toml", ".txt", ".yml", ".html", ".j2", ".css", ".js", ""}
THIRD_PARTY = "docs/assets/katex/"

# What a reader of the repository cannot open: documents outside it, labels of a LaTeX source.
UNOPENABLE = {
    "a specification": re.compile(
        r"\b[Ss]pecs? (?:\d\d\b|[A-Z]\d)|\b(?:in|of) the spec(?:ification)?\b"
    ),
    "an acceptance check": re.compile(r"\b[Aa]cceptance checks?\b"),
    "a page that is gone": re.compile(r"\berrata/\d\d\.md"),
    "a list of traps": re.compile(r"\b[Tt]raps? T\d"),
    "an issue": re.compile(r"\b[Ii]ssue \""),
    "a numbered finding": re.compile(
        r"\btest_[a-z]{1,2}\d{1,2}[a-z]?_|\b[Ff]indings? [A-Z]\d"
        r"|(?:\"\"\"|= \"|# )[EFGIKLPRS]\d{1,2}(?:, [A-Z]\d{1,2})*: | \([LPS]\d{1,2}\)"
    ),
    "work that is not here": re.compile(r"\bfirst edition\b|\b[Pp]rototypes?\b"),
    "a LaTeX label": re.compile(
        r"(?<![\w./-])(?:thm|lem|lmm|alg|prop|cor|crl|def|asp|obs|eg|clm|eq|eqn|sec|subsec|fig|app)"
        r":[A-Za-z]"
    ),
}


def texts() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of every file that is looked at."""
    for top in (ROOT / name for name in LOOKED_AT):
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            name = path.relative_to(ROOT).as_posix()
            if path == Path(__file__) or "__pycache__" in name or name.startswith(THIRD_PARTY):
                continue
            if path.is_file() and path.suffix in TEXT:
                yield name, path.read_text(encoding="utf-8")


def unopenable(name: str, text: str) -> list[str]:
    """Return the lines of a file that cite what nobody can open."""
    return [
        f"{name}:{number}: {kind}: {line.strip()[:100]}"
        for number, line in enumerate(text.splitlines(), 1)
        for kind, pattern in UNOPENABLE.items()
        if pattern.search(line)
    ]


def grouped_parameters(name: str, text: str) -> list[str]:
    """Return the entries of numpydoc sections that name several parameters at once."""
    return [
        f"{name}: {where}: {entry.strip()}"
        for where, docstring in docstrings(text)
        for entry in entries(docstring)
        if re.match(r"\*{0,2}\w+(?:, ?\*{0,2}\w+)+ *(?::|$)", entry)
    ]


@functools.cache
def docstrings(text: str) -> list[tuple[str, str]]:
    """Return what is documented in a file, by name, and its docstring."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    return [(getattr(node, "name", "module"), ast.get_docstring(node) or "") for node in nodes]


def entries(docstring: str) -> Iterator[str]:
    """Yield the lines that open an entry of a parameter or attribute."""
    section = None
    for line, following in itertools.pairwise([*docstring.splitlines(), ""]):
        if following and set(following) == {"-"}:
            section = line
        elif section in ("Parameters", "Other Parameters", "Attributes") and line[:1].strip("- "):
            yield line


def listing(offenders: list[str]) -> str:
    return f"{len(offenders)} offenders:\n" + "\n".join(offenders)


def test_everything_that_is_cited_can_be_opened() -> None:
    found = [line for name, text in texts() for line in unopenable(name, text)]
    assert not found, listing(found)


def test_every_parameter_has_its_own_entry() -> None:
    found = [
        entry
        for name, text in texts()
        if name.startswith("src/") and name.endswith(".py")
        for entry in grouped_parameters(name, text)
    ]
    assert not found, listing(found)


@pytest.mark.parametrize(
    "line",
    [
        "see spec 02",
        "the formula of the spec",
        "trap T3",
        'issue "gaming"',
        "(thm:upper)",
        "def test_f10_a_reply() -> None:",
        '"""S3: far points."""',
        "x = 1  # E11, L4: kept",
        "repaired (P1)",
        "finding P2",
        "the first edition",
        "an independent prototype",
    ],
)
def test_offenders_are_recognised(line: str) -> None:
    assert len(unopenable("x.py", line)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "docs/theory/02-x.md#thm-2-1",
        "a spec: OracleSpec",
        "x[lo:hi]",
        "len(P0)",
        "of (L1, L2)",
        "overlap (F1)",
        '"""C4: compress',
        "test_links_at_an_address_of_version_6",
        "self._prototype().clone()",
    ],
)
def test_good_lines_pass(line: str) -> None:
    assert not unopenable("x.py", line)


def test_grouped_parameters_are_recognised() -> None:
    code = (
        'def f(a, b, c):\n    """Do it.\n\n    Parameters\n    ----------\n'
        "    a, b:\n        Two.\n    c:\n        One, alone.\n\n"
        '    Returns\n    -------\n    x, y : float\n    """\n'
    )
    assert grouped_parameters("x.py", code) == ["x.py: f: a, b:"]


def without_heading(name: str, text: str) -> list[str]:
    """Return the docstrings whose examples the site would show as quotations."""
    found = []
    for where, docstring in docstrings(text):
        before, prompt, _ = docstring.partition(">>>")
        if prompt and not re.search(r"^Examples\n-+$", before, re.M):
            found.append(f"{name}: {where}")
    return found


def test_examples_have_their_heading() -> None:
    found = [
        entry
        for name, text in texts()
        if name.startswith("src/") and name.endswith(".py")
        for entry in without_heading(name, text)
    ]
    assert not found, listing(found)
    assert without_heading("x.py", '"""Text.\n\n>>> 1 + 1\n2\n"""') == ["x.py: module"]
