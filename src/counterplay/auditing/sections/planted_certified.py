"""What the records of planted rows say: certificates per number of blocks, attacks, the choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from counterplay.auditing.context import Context
from counterplay.auditing.intervals import difference_of, share
from counterplay.auditing.quantity import Quantity
from counterplay.auditing.sections.honest import best_plain, plain_cost
from counterplay.core.validation import BoolArray, FloatArray, IntArray

LEVELS = (1, 2, 5, 10)
CURVE = ("unit", "blocks", "rows", "recall_accepted", "recall_rejected", "accuracy", "money")


@dataclass(frozen=True, eq=False)
class Certified:
    """Certificates of one number of blocks on judged rows."""

    context: Context
    blocks: int
    unit: str
    rows: IntArray
    part: IntArray
    accepted: BoolArray
    radius: IntArray

    def kept(self, t: int) -> BoolArray:
        """Return which decisions are right and stay so whatever t rows are added."""
        right = self.accepted == self.context.wanted[self.rows]
        return np.asarray(right & (self.radius >= t), dtype=bool)

    def cost(self, t: int) -> FloatArray:
        """Return the cost of each row if every decision that can be turned is turned."""
        y = self.context.wanted[self.rows]
        return self.context.decided(np.where(self.kept(t), y, ~y), rows=self.rows).money

    def recall(self, t: int, wanted: bool) -> Quantity | None:
        """Return the share of one outcome that is decided rightly and stays so."""
        own = self.context.wanted[self.rows] == wanted
        return (
            _certified(share(int((self.kept(t) & own).sum()), int(own.sum())))
            if own.any()
            else None
        )

    def accuracy(self, t: int) -> Quantity:
        """Return the certified accuracy."""
        return _certified(share(int(self.kept(t).sum()), len(self.rows)))


def _certified(found: Quantity) -> Quantity:
    """Return a share with its sampling interval as a certified number."""
    return Quantity(
        value=found.value, low=found.low, high=found.high, unit=found.unit, basis="certified",
        n=found.n, assumes=("an attacker adds rows and changes nothing else",),
    )  # fmt: skip


class Planted:
    """What the records say."""

    def __init__(
        self, context: Context, parts: Mapping[str, pd.DataFrame], counts: tuple[int, ...]
    ) -> None:
        self.context, self.counts = context, counts
        self.attack = parts["attack"]
        self.profiles = parts["profiles"]
        self.stable = not len(parts["blocks"]) or bool(parts["blocks"]["stable"].all())
        self.ensembles = _ensembles(context, parts["blocks"])

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """Numbers of planted rows: usual ones, those of the config, 1 % of the rows."""
        given = self.context.setting("planted", "rows", ())
        return tuple(sorted({*LEVELS, *map(int, given), max(1, self.context.n // 100)}))

    @property
    def declared(self) -> int:
        """The middle number of the config."""
        given = sorted(map(int, self.context.setting("planted", "rows", (1, 5, 10))))
        return given[len(given) // 2]

    @cached_property
    def of_rows(self) -> list[Certified]:
        """Ensembles against planted rows."""
        return [found for found in self.ensembles if found.unit == "rows"]

    @property
    def untried(self) -> str:
        """Numbers of blocks that there was no time for, in words."""
        tried = {found.blocks for found in self.of_rows}
        return " or ".join(str(blocks) for blocks in self.counts if blocks not in tried)

    @cached_property
    def rows(self) -> IntArray:
        """The rows that all ensembles judged."""
        return self.of_rows[0].rows if self.of_rows else np.arange(self.context.n)

    @cached_property
    def plain(self) -> tuple[str, Quantity]:
        """The best constant rule and its cost."""
        return best_plain(self.context, self.rows, self.context.bootstrap(len(self.rows)))

    @cached_property
    def gain(self) -> tuple[int, Quantity] | None:
        """Blocks of least certified cost, and what they save against the constant rule.

        The number of blocks is chosen for each part on the rows of the others.
        """
        if not self.of_rows or not self.stable:
            return None
        t = self.declared
        costs = np.column_stack([found.cost(t) for found in self.of_rows])
        part = self.of_rows[0].part
        if len(np.unique(part)) == 1:
            part = np.arange(len(part)) % 2
        mine = np.empty(len(costs))
        for k in np.unique(part):
            here = part == k
            mine[here] = costs[here, int(np.argmin(costs[~here].mean(axis=0)))]
        best = self.of_rows[int(np.argmin(costs.mean(axis=0)))].blocks
        plain = plain_cost(self.context, self.plain[0], self.rows)
        found = difference_of(
            (plain, plain, plain), (mine, mine, mine), self.context.bootstrap(len(mine)),
            unit=self.context.money_unit, basis="measured", assumes=self.context.money_assumes,
        )  # fmt: skip
        return best, found

    @property
    def chosen(self) -> Certified | None:
        """The ensemble that is worth it; None if none beats the constant rule."""
        if self.gain is None or self.gain[1].low <= 0:
            return None
        return next(found for found in self.of_rows if found.blocks == self.gain[0])

    def curve(self) -> pd.DataFrame:
        """Return one line per unit, number of blocks and of planted rows."""
        lines = []
        for found in self.ensembles:
            for t in (0, *self.levels):
                cells = [found.recall(t, True), found.recall(t, False), found.accuracy(t)]
                values = [None if cell is None else cell.value for cell in cells]
                money = 1000 * float(found.cost(t).mean())
                lines.append((found.unit, found.blocks, t, *values, money))
        return pd.DataFrame(lines, columns=list(CURVE))


def _ensembles(context: Context, records: pd.DataFrame) -> list[Certified]:
    """Return the ensembles on the rows that all of one unit judged."""
    if not len(records):
        return []
    found = []
    for unit, some in records.groupby("unit", sort=True):
        counts = some.groupby("row").size()
        rows = np.sort(counts.index[counts == some["blocks"].nunique()].to_numpy(dtype=np.int64))
        for blocks, own in some.groupby("blocks", sort=True):
            mine = own.set_index("row").loc[rows]
            found.append(
                Certified(
                    context, int(blocks), str(unit), rows, mine["part"].to_numpy(dtype=np.int64),
                    mine["accepted"].to_numpy(dtype=bool),
                    mine["radius"].to_numpy(dtype=np.int64),
                )
            )  # fmt: skip
    return found
