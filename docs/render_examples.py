"""Runs the examples and keeps what they print and draw, for their pages of the site.

`python docs/render_examples.py [NAME ...]` writes docs/examples/NAME.txt (what is printed) and
docs/examples/NAME*.png (what is saved). tests/test_examples.py fails when an example prints
something else than its page shows, numbers aside.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHOWN = ROOT / "docs" / "examples"


def render(script: Path) -> None:
    """Run one example in an empty folder and store its output and its pictures."""
    environment = {key: value for key, value in os.environ.items() if key != "COUNTERPLAY_DATA"}
    environment["MPLBACKEND"] = "Agg"
    environment["PYTHONPATH"] = str(ROOT / "src")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(script)],
            cwd=folder, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        SHOWN.mkdir(exist_ok=True)
        for old in SHOWN.glob(f"{script.stem}*.png"):
            old.unlink()
        (SHOWN / f"{script.stem}.txt").write_text(done.stdout, encoding="utf-8")
        for picture in sorted(Path(folder).glob("*.png")):
            shutil.copy(picture, SHOWN / picture.name)


def main() -> None:
    """Render the examples that are named, or all."""
    names = sys.argv[1:] or sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
    for name in names:
        print(name, flush=True)
        render(ROOT / "examples" / f"{name}.py")


if __name__ == "__main__":
    main()
