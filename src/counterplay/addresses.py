"""Where a reader finds the pages and files of the library: in a copy of it, or at an address.

A release names its addresses in its metadata (``[tool.hatch.metadata.hooks.custom]`` in
pyproject.toml). An installed package has neither docs nor tests, so what it points to is an address
there, or a file of the source archive.
"""

from __future__ import annotations

import importlib.metadata
from functools import cache
from pathlib import Path, PurePosixPath
from urllib.parse import urljoin

_CHECKOUT = Path(__file__).resolve().parents[2]


def where(path: str) -> str:
    """Return what leads to a file: its path in a copy, its address or the source archive."""
    if (_CHECKOUT / path.partition("#")[0]).exists():
        return path
    return address(path, named()) or f"{path} in the source archive"


@cache
def named() -> dict[str, str]:
    """Return the addresses that the installed release names, by their label."""
    try:
        lines = importlib.metadata.metadata("counterplay").get_all("Project-URL") or []
    except importlib.metadata.PackageNotFoundError:
        lines = []
    return dict(line.split(", ", 1) for line in lines)


def release(repository: str, documentation: str, version: str) -> dict[str, str]:
    """Return the addresses that a release names, by their label.

    Parameters
    ----------
    repository : str
        Address of the repository, or nothing. The release is its tag ``v`` + version.
    documentation : str
        Address of the site, or nothing. It has the pages of every version in a folder of its own.
    version : str
        The version that is released.

    Examples
    --------
    >>> release("", "https://example.org/docs", "1.2")
    {'Homepage': 'https://example.org/docs', 'Documentation': 'https://example.org/docs/1.2/'}
    """
    found = {}
    if repository:
        files = f"{repository}/blob/v{version}"
        found = {
            "Homepage": repository,
            "Source": f"{repository}/tree/v{version}",
            "Documentation": f"{files}/docs/index.md",
            "Changes": f"{files}/CHANGELOG.md",
            "Issues": f"{repository}/issues",
        }
    if documentation:
        found.setdefault("Homepage", documentation)
        found["Documentation"] = f"{documentation}/{version}/"
    return found


def address(path: str, urls: dict[str, str]) -> str:
    """Return the address of a file of the library, or nothing where ``urls`` has none for it.

    What is in docs is on the site, if there is one; its address ends with a slash.

    Examples
    --------
    >>> urls = release("https://example.org/counterplay", "https://example.org/docs", "1.2")
    >>> address("docs/theory/index.md#thm-2-1", urls)
    'https://example.org/docs/1.2/theory/#thm-2-1'
    >>> address("CITATION.cff", urls)
    'https://example.org/counterplay/blob/v1.2/CITATION.cff'
    """
    site = urls.get("Documentation", "")
    if site.endswith("/") and path.startswith("docs/"):
        file, sharp, anchor = path.removeprefix("docs/").partition("#")
        if file.endswith(".md"):  # a page is a folder on the site
            page = PurePosixPath(file).with_suffix("")
            page = page.parent if page.name == "index" else page
            file = "" if page == PurePosixPath() else f"{page}/"
        return urljoin(site, file) + sharp + anchor
    return urljoin(urls["Changes"], path) if "Changes" in urls else ""
