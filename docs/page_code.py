"""The Python of a written page: what of it runs, what it prints, and the notebook made of it.

`python docs/page_code.py docs/tutorials/*.md` runs the blocks of each page in order and writes what
a block prints below it, between the fences of an `output` block; pictures that a block saves are
kept beside the page. A tutorial is also run as a notebook, which is kept beside it with what it
shows. Tests run every page again and compare, numbers aside.
"""

from __future__ import annotations

import ast
import builtins
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import pages

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(
    r"(?P<skip><!-- not run -->\n+)?^```python[^\n]*\n(?P<code>.*?)^```\n"
    r"(?:\n```output\n(?P<shown>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
_OWN_SETTINGS = ("COUNTERPLAY_DATA", "MPLBACKEND")  # a reader has others
_MARK = "\x1e"  # printed between blocks; no page prints it


@dataclass(frozen=True)
class Block:
    """One Python block of a page."""

    code: str
    """As it is written."""
    runs: str
    """What of it runs: all; of a sketch, which uses names that nobody defined, its imports."""
    shown: str | None
    """The output that the page shows; None if it shows none."""
    end: int
    """Where in the page the block ends, without its output."""
    stop: int
    """Where its output ends."""


def blocks(text: str) -> list[Block]:
    """Return the Python blocks of a page that can run."""
    known = set(dir(builtins)) | {"__name__"}
    found = []
    for match in _BLOCK.finditer(text):
        code = match["code"]
        tree = ast.parse(code)
        if match["skip"]:
            continue
        bound, used = names_of(tree)
        if used - bound - known:
            tree.body = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
            bound = names_of(tree)[0]
            code_that_runs = ast.unparse(tree)
        else:
            code_that_runs = code
        known |= bound
        end = match.start() + match[0].index("```\n", match[0].index(code) + len(code)) + 4
        found.append(Block(code, code_that_runs, match["shown"], end, match.end()))
    return found


def names_of(tree: ast.Module) -> tuple[set[str], set[str]]:
    """Return the names a piece of code binds and the names it reads."""
    bound: set[str] = set()
    used: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name.partition(".")[0])
    return bound, used


def program(page: list[Block]) -> str:
    """Return one script that runs the blocks and marks where the output of each begins."""
    return "".join(f"print({_MARK!r}, end='', flush=True)\n{block.runs}\n" for block in page)


def outputs(printed: str) -> list[str]:
    """Return what each block of :func:`program` printed."""
    return printed.split(_MARK)[1:]


def with_outputs(text: str, printed: list[str]) -> str:
    """Return the page with each block followed by what it printed."""
    for block, output in reversed(list(zip(blocks(text), printed, strict=True))):
        body = output.strip("\n")
        fence = f"\n```output\n{body}\n```\n" if body else ""
        text = text[: block.end] + fence + text[block.stop :]
    return text


def notebook(text: str) -> dict[str, Any]:
    """Return a page as a Jupyter notebook without outputs: its prose and its Python blocks."""
    cells: list[dict[str, Any]] = []
    place = 0

    def prose(part: str) -> None:
        part = re.sub(r"^```output\n.*?^```\n", "", part, flags=re.MULTILINE | re.DOTALL).strip()
        part = re.sub(r"!\[[^\]]*\]\([^)]*\)\n?", "", part).strip()  # a notebook draws its own
        part = re.sub(r", or \[[^\]]*\]\([^)]*\.ipynb\)", "", part)  # it is that notebook
        part = re.sub(r"\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", part)  # no page lies beside it
        if part:
            cells.append({"cell_type": "markdown", "metadata": {}, "source": part})

    for match in _BLOCK.finditer(text):
        prose(text[place : match.start()])
        code = match["code"].rstrip("\n")
        cells.append(
            {"cell_type": "code", "metadata": {}, "source": code, "outputs": []}
            | {"execution_count": None}
        )
        place = match.end()
    prose(text[place:])
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}


def render(path: Path) -> None:
    """Run a page in an empty folder; write its outputs into it and its pictures beside it."""
    text = path.read_text(encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if key not in _OWN_SETTINGS}
    environment |= {"MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT / "src")}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "page.py").write_text(program(blocks(text)), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "page.py"],
            cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        for picture in Path(folder).glob("*.png"):
            shutil.copy(picture, path.parent / picture.name)
    path.write_text(with_outputs(text, outputs(done.stdout)), encoding="utf-8")


def tutorials() -> list[Path]:
    """Return the pages that are also notebooks."""
    return sorted((ROOT / "docs" / "tutorials").glob("*.md"))


def executed(book: dict[str, Any], folder: str) -> Any:
    """Return a notebook with what its cells show when a kernel runs them in a folder."""
    import nbclient
    import nbformat

    made = nbformat.from_dict(book)
    environment = {key: value for key, value in os.environ.items() if key not in _OWN_SETTINGS}
    nbclient.NotebookClient(made, timeout=600, resources={"metadata": {"path": folder}}).execute(
        env=environment | {"PYTHONPATH": str(ROOT / "src")}
    )
    return made


def keep_notebook(path: Path) -> None:
    """Run a tutorial as a notebook and keep it beside the page, without times and warnings."""
    with tempfile.TemporaryDirectory() as folder:
        book = executed(notebook(pages.fill(path.read_text(encoding="utf-8"))), folder)
    book["metadata"] = {"kernelspec": book["metadata"]["kernelspec"]}
    for cell in book["cells"]:
        cell["metadata"] = {}
        if cell["cell_type"] == "code":
            cell["outputs"] = [o for o in cell["outputs"] if o.get("name") != "stderr"]
    text = json.dumps(book, indent=1, ensure_ascii=False) + "\n"
    path.with_suffix(".ipynb").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, flush=True)
        render(Path(name))
        if Path(name).resolve() in tutorials():
            keep_notebook(Path(name))
