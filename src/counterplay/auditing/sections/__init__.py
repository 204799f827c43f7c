"""The sections of the audit, one file each, in the order of the page."""

from __future__ import annotations

from counterplay.auditing.sections.champion import ChampionSection
from counterplay.auditing.sections.gaming import GamingSection
from counterplay.auditing.sections.honest import HonestSection
from counterplay.auditing.sections.offers import OffersSection
from counterplay.auditing.sections.planted import PlantedSection
from counterplay.auditing.sections.sites import SitesSection
from counterplay.auditing.sections.symmetry import SymmetrySection

SECTIONS = (
    HonestSection,
    GamingSection,
    PlantedSection,
    SymmetrySection,
    SitesSection,
    ChampionSection,
    OffersSection,
)

__all__ = [
    "SECTIONS",
    "ChampionSection",
    "GamingSection",
    "HonestSection",
    "OffersSection",
    "PlantedSection",
    "SitesSection",
    "SymmetrySection",
]
