"""Builds the site of this version beside those of other versions: `make docs`.

site/VERSION holds the pages, site/versions.json the list that the version selector reads,
site/index.html leads to the newest, and site/404.html answers wrong addresses. Pages of other
versions stay as they are.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
_REDIRECT = (
    '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>counterplay</title>'
    '<meta http-equiv="refresh" content="0; url={0}/"><a href="{0}/">counterplay {0}</a></html>\n'
)


def current_version() -> str:
    """Return the version of the package without importing it."""
    text = (ROOT / "src" / "counterplay" / "__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "([^"]+)"', text, flags=re.MULTILINE)
    assert match is not None, "counterplay has no version"
    return match[1]


def order(version: str) -> tuple[tuple[int, ...], bool]:
    """Return what versions are sorted by: numbers first, and a development version before its end.

    Examples
    --------
    >>> sorted(["0.10.0", "0.2.0", "0.2.0.dev0"], key=order)
    ['0.2.0.dev0', '0.2.0', '0.10.0']
    """
    numbers = re.match(r"[\d.]*\d", version)
    parts = tuple(int(part) for part in numbers[0].split(".")) if numbers else ()
    return parts, "dev" not in version


def write_list(site: Path) -> list[str]:
    """Write the list of the versions that are there and the page that leads to the newest."""
    found = sorted((p.name for p in site.iterdir() if (p / "index.html").exists()), key=order)
    entries = [
        {"version": name, "title": name, "aliases": ["latest"] if name == found[-1] else []}
        for name in reversed(found)
    ]
    (site / "versions.json").write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    (site / "index.html").write_text(_REDIRECT.format(found[-1]), encoding="utf-8")
    wrong = site / found[-1] / "404.html"  # its addresses lead into that version
    if wrong.exists():
        shutil.copy(wrong, site / "404.html")
    return found


def main() -> None:
    """Build this version, then list all that are there."""
    site = ROOT / "site"
    target = site / current_version()
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(target)],
        cwd=ROOT,
        check=True,
    )
    print("versions:", ", ".join(write_list(site)))


if __name__ == "__main__":
    main()
