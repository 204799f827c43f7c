"""The tutorials as notebooks: made from their pages, and a real kernel prints what they show."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))

import page_code

from scripts import words

TUTORIALS = page_code.tutorials()
MOST_BYTES = 1_000_000


def test_there_is_one_per_reader() -> None:
    readers = {"coordinator", "data-scientist", "flower-engineer", "researcher"}
    assert {path.stem for path in TUTORIALS} == readers
    assert {path.stem for path in TUTORIALS[0].parent.glob("*.ipynb")} == readers


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda path: path.stem)
def test_the_notebook_in_the_repository_is_that_of_its_page(page: Path) -> None:
    """If this fails: `python docs/page_code.py docs/tutorials/NAME.md` makes it again."""
    made = page_code.notebook(page_code.pages.fill(page.read_text(encoding="utf-8")))
    kept = page.with_suffix(".ipynb")
    text = kept.read_text(encoding="utf-8")
    assert "site-packages" not in text  # a warning with a path of the machine that made it
    book = json.loads(text)
    assert sources(book) == sources(made)
    assert kept.stat().st_size < MOST_BYTES
    shown = [o for cell in book["cells"] for o in cell.get("outputs", ())]
    assert any("image/png" in output.get("data", {}) for output in shown)
    assert any("text/html" in output.get("data", {}) for output in shown)
    assert not [o for o in shown if o["output_type"] == "error" or o.get("name") == "stderr"]


def sources(book: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what the cells of a notebook say and run."""
    return [(cell["cell_type"], "".join(cell["source"])) for cell in book["cells"]]


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda path: path.stem)
def test_a_notebook_runs(page: Path, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    text = page.read_text(encoding="utf-8")
    book = page_code.executed(page_code.notebook(page_code.pages.fill(text)), str(tmp_path))
    nbformat.validate(book)
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    for cell, block in zip(cells, page_code.blocks(text), strict=True):
        assert not any(output.output_type == "error" for output in cell.outputs)
        printed = "".join(o.text for o in cell.outputs if o.get("name") == "stdout")
        assert words(printed) == words(block.shown or "")  # what the page shows
    pictures = {path.name for path in tmp_path.glob("*.png")}
    assert pictures
    shown = [o for c in cells for o in c.outputs if "image/png" in o.get("data", {})]
    assert len(shown) == len(pictures)  # a reader of the notebook sees them, too
    for picture in pictures:
        assert (page.parent / picture).exists(), picture
        assert f"]({picture})" in text
