"""Joint options of linked columns against a score that is a sum over columns.

The gain of a joint option is the sum of the gains of its columns; the model is asked for those of
columns on which it is not affine.

Source: "Additive scores", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from counterplay.core.validation import FloatArray, IntArray
from counterplay.strategic.asking import Asking
from counterplay.strategic.columns import as_floats
from counterplay.strategic.links import JointBlock
from counterplay.tables.cells import is_missing

if TYPE_CHECKING:
    from counterplay.strategic.additive import AdditiveScore

Joint = tuple[list[dict[Any, Any]], FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class JointMenu:
    """Options of one block of linked columns for some people: changed cells, prices, gains."""

    name: JointBlock
    people: list[Joint]

    @property
    def empty(self) -> bool:
        """Whether nobody has an option here."""
        return not any(len(values) for values, _, _ in self.people)

    def options(self, i: int, power: float) -> Joint:
        """Return the options of one person."""
        return self.people[i]


@dataclass
class JointTables:
    """Gains of single cells and joint options of rows, each asked for or enumerated once."""

    score: AdditiveScore
    gains: dict[tuple[Any, Any], float] = field(default_factory=dict)
    rows: dict[tuple[Any, ...], tuple[pd.DataFrame, FloatArray]] = field(default_factory=dict)

    def menu(self, joint: JointBlock, who: IntArray, budget: float) -> JointMenu:
        """Return the options of a block for the people ``who`` within a budget."""
        people = self.score.asked.frame[list(joint.columns)].iloc[who]
        found = [self._options(joint, row, budget) for row in people.itertuples(index=False)]
        self._ask(joint, [frame for frame, _ in found])
        return JointMenu(joint, [self._useful(joint, *options) for options in found])

    def _options(
        self, joint: JointBlock, row: tuple[Any, ...], budget: float
    ) -> tuple[pd.DataFrame, FloatArray]:
        key = (joint, budget, *("missing" if is_missing(v) else v for v in row))
        if key not in self.rows:
            self.rows[key] = joint.options(dict(zip(joint.columns, row)), budget)
        return self.rows[key]

    def _ask(self, joint: JointBlock, frames: list[pd.DataFrame]) -> None:
        """Ask for the gain of every value of the columns on which the score is not affine."""
        wanted: dict[Any, list[Any]] = {}
        for name in joint.columns:
            column = [v for frame in frames for v in dict.fromkeys(frame[name].tolist())]
            keys = list(dict.fromkeys("missing" if is_missing(v) else v for v in column))
            if name in self.score.slopes:  # only what an affine function does not say
                keys = [key for key in keys if key == "missing"]
            wanted[name] = [k for k in keys if (name, k) not in self.gains]
        values = {
            name: [np.nan if k == "missing" else k for k in keys] for name, keys in wanted.items()
        }
        asked = Asking(self.score.asked, self.score.opened)(values)
        for name, keys in wanted.items():
            self.gains.update(zip([(name, k) for k in keys], asked[name].tolist()))

    def _useful(self, joint: JointBlock, frame: pd.DataFrame, prices: FloatArray) -> Joint:
        """Return the options that gain something: changed cells, prices and gains."""
        gain = np.zeros(len(frame))
        for name in joint.columns:
            gain += self._gain(name, frame[name])
        gain -= gain[0]
        keep = np.flatnonzero((gain > 0) & (prices > 0))
        own = frame.iloc[0].to_dict()
        cells = [
            {name: v for name, v in row.items() if _differ(v, own[name])}
            for row in frame.iloc[keep].to_dict("records")
        ]
        return cells, prices[keep], gain[keep]

    def _gain(self, name: Any, column: pd.Series) -> FloatArray:
        slope = self.score.slopes.get(name)
        if slope is None:
            keys = ["missing" if is_missing(v) else v for v in column.tolist()]
            return np.array([self.gains[(name, k)] for k in keys])
        values = as_floats(column.to_numpy(), name)
        value, gain = self.score.anchors[name]
        hole = self.gains.get((name, "missing"), 0.0)
        return np.where(np.isnan(values), hole, gain + slope * (values - value))


def _differ(a: Any, b: Any) -> bool:
    return is_missing(a) != is_missing(b) or (not is_missing(a) and a != b)
