"""Every example runs as it is, and prints what its page shows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from scripts import ROOT, run_script, words

LIMIT_SECONDS = 120  # an example takes less than 20 s on an idle machine
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COUNTERPLAY_DATA", raising=False)  # the pages show bundled data
    output = run_script(script, tmp_path, LIMIT_SECONDS)
    shown = ROOT / "docs" / "examples"
    assert words(output) == words((shown / f"{script.stem}.txt").read_text(encoding="utf-8"))
    drawn = {path.name for path in tmp_path.glob("*.png")}
    assert drawn == {path.name for path in shown.glob(f"{script.stem}*.png")}
    assert drawn, f"{script.name} draws nothing"


def test_words_leave_out_numbers_only() -> None:
    assert words("a  1.5 b\n-2e-3 %") == ["a", "#", "b", "#", "%"]
    assert words("saves 3 rows") != words("saves no rows")
