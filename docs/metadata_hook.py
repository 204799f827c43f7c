"""Makes the README of a release stand alone: no link of it leads nowhere on a package index.

The address of the project is given when a release is built: COUNTERPLAY_URL=https://... Links and
pictures of the README become absolute, and the address, documentation, changes and issues are named
in the metadata. Without it there is no address to lead to, so links become plain text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|`[^`]*`)*)\]\((?!https?:)([^)\s]+)\)")


def standing_alone(text: str, address: str) -> str:
    """Return Markdown whose relative links lead below ``address``, or are text without one."""

    def replaced(match: re.Match[str]) -> str:
        picture, words, target = match.groups()
        if address:
            return f"{picture}[{words}]({address}/{target})"
        return "" if picture else words

    return _LINK.sub(replaced, text)


class Release(MetadataHookInterface):
    """Fills in the README and the addresses."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add what depends on the address of the project."""
        address = os.environ.get("COUNTERPLAY_URL", "").rstrip("/")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": standing_alone(text, address),
        }
        names = {"Documentation": "docs", "Changes": "CHANGELOG.md", "Issues": "issues"}
        links = {name: f"{address}/{path}" for name, path in names.items()}
        metadata["urls"] = {"Homepage": address, **links} if address else {}
