"""What can be chosen from, whatever it came from: values from 0 to 1, signs, names and rows.

Source: docs/theory/26-people.md, "Setting".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterplay.core.records import fingerprint
from counterplay.core.validation import FloatArray, IntArray, check_float_array
from counterplay.elicitation.catalogue import Catalogue, undominated
from counterplay.elicitation.comparisons import Option
from counterplay.elicitation.oracles import PointSetOracle, as_oracle
from counterplay.errors import InvalidInputError

MOST_ITEMS = 200_000


@dataclass(frozen=True, eq=False)
class ItemTable:
    """Items with values in which more is better, except where the sign is unknown."""

    values: FloatArray
    """Values (n, k), at most 1."""
    unknown: IntArray
    """Positions of the values of unknown sign."""
    pool: IntArray
    """Rows that somebody may want most: the undominated ones if all signs are known."""
    rows: IntArray
    """Position of each item in the caller's table."""
    labels: Sequence[str]
    names: tuple[str, ...]
    catalogue: Catalogue | None
    scale: float
    """What the values of a plain table were divided by."""
    index: Any

    @classmethod
    def of(cls, source: Any) -> ItemTable:
        """Return the items of a catalogue, a table of values or its oracle."""
        if isinstance(source, Catalogue):
            values, scale = np.asarray(source.values), 1.0
            unknown = np.arange(values.shape[1] - len(source.either), values.shape[1])
            names, labels = source.objective_names, source.names
            rows, index = source.rows, source.index
        else:
            oracle = as_oracle(source)
            if not isinstance(oracle, PointSetOracle):
                raise InvalidInputError(
                    "a reliable certificate needs a finite list of items: a Catalogue or a table "
                    "of values; PolytopeElicitor works with policies and planners"
                )
            scale = float(oracle.X.max())
            values, unknown = oracle.X / scale, np.zeros(0, dtype=np.int64)
            k = values.shape[1]
            names = tuple(map(str, getattr(oracle, "objective_names", range(k))))
            index, rows = oracle.index, np.arange(len(values))
            labels = oracle.names or [str(label) for label in index]
        if not 2 <= len(values) <= MOST_ITEMS:
            raise InvalidInputError(f"there must be 2 to {MOST_ITEMS} items, got {len(values)}")
        pool = undominated(values) if not unknown.size else _distinct(values)
        return cls(
            values, unknown, pool, rows, labels, names,
            source if isinstance(source, Catalogue) else None, scale, index,
        )  # fmt: skip

    @property
    def k(self) -> int:
        """Number of values."""
        return int(self.values.shape[1])

    @property
    def ranged(self) -> bool:
        """Whether regret is measured against the range of worths: signs are unknown."""
        return bool(self.unknown.size)

    def option(self, row: int) -> Option:
        """Return an item as it is shown."""
        return Option(self.values[row], item=row, label=self.describe(row))

    def describe(self, row: int) -> str:
        """Return an item in words."""
        if self.catalogue is not None:
            return self.catalogue.describe(row)
        told = ", ".join(
            f"{name} {number:.4g}"
            for name, number in zip(self.names, self.scale * self.values[row])
        )
        return f"{self.labels[row]}: {told}"

    def vector(self, option: Any, units: str) -> FloatArray:
        """Return the values of something that is not in the table."""
        given = check_float_array(option, "option", ndim=1)
        if self.catalogue is not None and units == "raw":
            return self.catalogue.normalise(given)
        if given.shape != (self.k,):
            raise InvalidInputError(f"the option must have {self.k} values, got {given.size}")
        return given / self.scale

    def fingerprint(self) -> dict[str, str]:
        """Return what identifies the items."""
        return fingerprint(
            {
                "objectives": self.k,
                "options": len(self.values),
                "unknown signs": self.unknown.tolist(),
                "values": np.round(self.values, 10) + 0.0,
            }
        )


def _distinct(values: FloatArray) -> IntArray:
    return np.sort(np.unique(values, axis=0, return_index=True)[1])
