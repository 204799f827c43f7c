"""Writes the addresses of a release into its metadata, and a README whose links lead there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "docs")]

from release_readme import setting, standing_alone  # noqa: E402

from counterplay import __version__  # noqa: E402
from counterplay.addresses import release  # noqa: E402


class Release(MetadataHookInterface):
    """Fills in the README and the addresses."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add what depends on the addresses of the project."""
        repository, documentation = (
            setting(name, self.config) for name in ("repository", "documentation")
        )
        urls = release(repository, documentation, __version__)
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": standing_alone(text, urls)}
        metadata["urls"] = urls
