"""Rows from several sites: who could leave. Runs when the area ``contribution`` has the plan."""

from __future__ import annotations

import pandas as pd

from counterplay import contribution
from counterplay.auditing.context import Context
from counterplay.auditing.findings import Missing, SectionResult
from counterplay.auditing.section import Stage


class SitesSection:
    """Who can leave?"""

    name, title, order, version = "sites", "Who can leave?", 50, 1
    reads = ("sites", "columns")

    def needs(self, context: Context) -> list[Missing]:
        """Return what is missing: the sites, and the plan of a consortium."""
        if context.setting("sites", "column") is None and not context.setting("sites", "files"):
            return [Missing(sentence="No sites were given.", key="[sites] column")]
        if not hasattr(contribution, "plan_consortium"):
            return [Missing(sentence="The plan of a consortium is not available in this version.")]
        return [Missing(sentence="Sites are planned by counterplay consortium, from their files.")]

    def stages(self, context: Context) -> list[Stage]:
        """Return nothing: the plan is made from files of the sites."""
        return []

    def result(self, context: Context, records: pd.DataFrame) -> SectionResult:
        """Return an empty result."""
        return SectionResult(name=self.name, title=self.title)
