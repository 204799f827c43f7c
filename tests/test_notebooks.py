"""The tutorials as notebooks: executed by a real kernel, as a reader would."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))

import page_code

NOTEBOOKS = page_code.notebooks()


def test_there_is_one_per_reader() -> None:
    readers = {Path(name).stem for name in NOTEBOOKS}
    assert readers == {"coordinator", "data-scientist", "flower-engineer", "researcher"}


@pytest.mark.parametrize("name", NOTEBOOKS, ids=lambda name: Path(name).stem)
def test_a_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.delenv("COUNTERPLAY_DATA", raising=False)
    source = str(Path(page_code.ROOT) / "src")
    monkeypatch.setenv("PYTHONPATH", source)
    book = nbformat.reads(json.dumps(json.loads(NOTEBOOKS[name])), as_version=4)
    nbformat.validate(book)
    nbclient.NotebookClient(
        book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    printed = [output for cell in book.cells for output in cell.get("outputs", [])]
    assert any(output.output_type == "stream" for output in printed)
    assert not any(output.output_type == "error" for output in printed)
