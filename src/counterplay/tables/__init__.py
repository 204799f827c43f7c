"""Your tables and labels: checked once when they come in, with their names and rows kept.

`Table.of` reads a frame, an array, a sparse matrix, texts or images and changes nothing: columns
are matched by name, rows keep their index, models are called with what they were fitted on
(`FittedModel`). `Labels` reads any coding and asks which outcome is wanted unless it is 0/1.
`Schema` freezes the kinds of columns so that one odd row changes no other; `hash_blocks` and
`fingerprint` rest on its canonical encoding. `read_table` reads CSV and Parquet files and names
their defects.
"""

from __future__ import annotations

from counterplay.tables.encoding import Fingerprint, fingerprint, hash_blocks
from counterplay.tables.files import TableFile, read_table
from counterplay.tables.labels import Labels
from counterplay.tables.models import FittedModel
from counterplay.tables.schema import Schema
from counterplay.tables.table import Table

__all__ = [
    "Fingerprint",
    "FittedModel",
    "Labels",
    "Schema",
    "Table",
    "TableFile",
    "fingerprint",
    "hash_blocks",
    "read_table",
]
