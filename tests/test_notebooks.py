"""The tutorials as notebooks: a real kernel runs them, and prints what their pages show."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))

import page_code

from scripts import words

NOTEBOOKS = page_code.notebooks()


def test_there_is_one_per_reader() -> None:
    readers = {Path(name).stem for name in NOTEBOOKS}
    assert readers == {"coordinator", "data-scientist", "flower-engineer", "researcher"}


@pytest.mark.parametrize("name", NOTEBOOKS, ids=lambda name: Path(name).stem)
def test_a_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    for variable in ("COUNTERPLAY_DATA", "MPLBACKEND"):
        monkeypatch.delenv(variable, raising=False)
    source = str(Path(page_code.ROOT) / "src")
    monkeypatch.setenv("PYTHONPATH", source)
    book = nbformat.reads(json.dumps(json.loads(NOTEBOOKS[name])), as_version=4)
    nbformat.validate(book)
    nbclient.NotebookClient(
        book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    page = Path(page_code.ROOT) / "docs" / Path(name).with_suffix(".md")
    text = page.read_text(encoding="utf-8")
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
