"""Every data set that ``fetch`` knows, by name."""

from __future__ import annotations

from counterplay.datasets.catalogue_images import IMAGES
from counterplay.datasets.catalogue_tables import CREDIT_AND_CENSUS, FRAMES, LOCAL_TABLES

CATALOGUE = {entry.name: entry for entry in (*IMAGES, *CREDIT_AND_CENSUS, *LOCAL_TABLES, *FRAMES)}
