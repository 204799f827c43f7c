"""Writes the tests of every claim into a wheel, which has no tests: `counterplay claims 2.1`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ClaimTests(BuildHookInterface):  # type: ignore[type-arg]
    """Adds ``counterplay/claim_tests.json``; an editable install reads the tests themselves."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file beside the wheel and name it."""
        if version == "editable":
            return
        root = Path(self.root)
        sys.path.insert(0, str(root / "src"))
        from counterplay.claims import claim_tests

        made = root / "build" / "claim_tests.json"
        made.parent.mkdir(exist_ok=True)
        made.write_text(json.dumps(claim_tests(root / "tests"), indent=0), encoding="utf-8")
        build_data["force_include"][str(made)] = "counterplay/claim_tests.json"
