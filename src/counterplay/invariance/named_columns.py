"""Interchangeable columns by name: they become a group once the table is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from counterplay.core.validation import shorten
from counterplay.errors import InvalidInputError
from counterplay.invariance.errors import ShapeError
from counterplay.tables.cells import shown


@dataclass(frozen=True)
class ColumnsByName:
    """Blocks of column names that are interchangeable as a whole.

    Examples
    --------
    >>> ColumnsByName.of(["left", "right"]).places(("right", "age", "left"))
    [[2], [0]]
    """

    blocks: tuple[tuple[str, ...], ...]

    @staticmethod
    def of(columns: Any) -> ColumnsByName:
        """Read a list of names, or of lists of names of equal length; refuse anything else."""
        listed = isinstance(columns, (list, tuple)) and len(columns) > 0
        parts = [[part] if isinstance(part, str) else part for part in columns] if listed else []
        good = all(
            isinstance(part, (list, tuple)) and part and all(isinstance(name, str) for name in part)
            for part in parts
        )
        if not parts or not good:
            raise ShapeError(
                "columns must be a list of names, or of lists of names (blocks), got "
                f"{shorten(columns, 80)}"
            )
        names = [name for part in parts for name in part]
        if len({len(part) for part in parts}) != 1 or len(set(names)) != len(names):
            raise ShapeError("columns must be blocks of equal length without common names")
        return ColumnsByName(tuple(tuple(part) for part in parts))

    def places(self, names: Sequence[str] | None) -> list[list[int]]:
        """Numbers of the columns in a table with these names."""
        if names is None:
            raise InvalidInputError(
                "the group names its columns, and X has no names; pass a frame, or use "
                "column_permutations(n_features, blocks) with column numbers"
            )
        for name in (name for block in self.blocks for name in block):
            if name not in names:
                raise InvalidInputError(f"X has no column {shown(name, 40)}; the group names it")
        return [[list(names).index(name) for name in block] for block in self.blocks]
