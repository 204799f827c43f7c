"""The door: people's tables and labels come in here, are checked once, keep their names and rows.

`Table.of` reads a frame, an array, a sparse matrix, texts or images and changes nothing: columns
are matched by name, rows keep their index, models are called with what they were fitted on
(`FittedModel`). `Labels` reads any coding and asks which outcome is wanted unless it is 0/1.
`Schema` freezes the kinds of columns so that one odd row changes no other; `hash_blocks` and
`fingerprint` rest on its canonical encoding. `read_table` reads CSV and Parquet files and names
their defects.
"""

from __future__ import annotations

from counterplay.tables.casting import Column
from counterplay.tables.encoding import (
    Fingerprint,
    blocks_of,
    encode_cell,
    encode_identity,
    encode_rows,
    fingerprint,
    hash_blocks,
    row_digests,
)
from counterplay.tables.files import TableFile, read_table
from counterplay.tables.labels import Labels, as_labels
from counterplay.tables.models import FittedModel, model_names
from counterplay.tables.schema import Cast, Rejected, Schema
from counterplay.tables.table import Table, check_groups, check_weights, column_kind, match_columns

__all__ = [
    "Cast",
    "Column",
    "Fingerprint",
    "FittedModel",
    "Labels",
    "Rejected",
    "Schema",
    "Table",
    "TableFile",
    "as_labels",
    "blocks_of",
    "check_groups",
    "check_weights",
    "column_kind",
    "encode_cell",
    "encode_identity",
    "encode_rows",
    "fingerprint",
    "hash_blocks",
    "match_columns",
    "model_names",
    "read_table",
    "row_digests",
]
