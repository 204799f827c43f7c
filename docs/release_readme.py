"""The README of a release, which a package index shows alone: its links are absolute.

Two addresses are given when a release is built, in pyproject.toml or in the environment:
COUNTERPLAY_REPOSITORY=https://... of the repository, on a host with the paths of GitHub, where the
release is tagged v + version, and COUNTERPLAY_DOCUMENTATION=https://... of the site. Where there is
no address to lead to, links become plain text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from counterplay.addresses import address

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|`[^`]*`)*)\]\((?!https?:)([^)\s]+)\)")
_ADDRESS = re.compile(r"https://[^\s/?#]+(/[^\s?#]*)?")


def setting(name: str, configured: Mapping[str, str]) -> str:
    """Return the address of the repository or the documentation, or nothing."""
    found = os.environ.get(f"COUNTERPLAY_{name.upper()}", configured.get(name, "")).rstrip("/")
    if found and not _ADDRESS.fullmatch(found):
        raise ValueError(f"the {name} must be an address such as https://example.org: {found!r}")
    return found


def standing_alone(text: str, urls: dict[str, str]) -> str:
    """Return Markdown whose relative links lead to ``urls``, or are text where that has none."""

    def replaced(match: re.Match[str]) -> str:
        picture, words, target = match.groups()
        found = address(target, urls)
        if not found:
            return "" if picture else words
        if picture:
            found = found.replace("/blob/", "/raw/", 1)
        elif (ROOT / target).is_dir():
            found = found.replace("/blob/", "/tree/", 1)
        return f"{picture}[{words}]({found})"

    return _LINK.sub(replaced, text)
