"""The sections of the audit, one file each, in the order of the page."""

from __future__ import annotations

from counterplay.auditing.sections.gaming import GamingSection
from counterplay.auditing.sections.honest import HonestSection
from counterplay.auditing.sections.planted import PlantedSection

SECTIONS = (HonestSection, GamingSection, PlantedSection)

__all__ = ["SECTIONS", "GamingSection", "HonestSection", "PlantedSection"]
