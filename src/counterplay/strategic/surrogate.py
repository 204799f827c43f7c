"""A tree ensemble that imitates a model: where it leads is a start for a search.

Nothing about the imitation is claimed; only destinations that the model itself accepts count.

Source: "Everything else", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from counterplay.core.validation import FloatArray, IntArray
from counterplay.strategic.asking import Changes
from counterplay.strategic.cell_prices import price_cells, values_at
from counterplay.strategic.columns import frame_of
from counterplay.strategic.fold import Asked, open_model
from counterplay.strategic.moves import Moves
from counterplay.strategic.tree_cells import Cells, build_cells
from counterplay.strategic.tree_search import best_scores, search_people

MARGINS = (0.0, 1.0, 2.5)  # how clearly the imitation must say yes
NODES = 200
MOST_CATEGORIES = 250


@dataclass(frozen=True, eq=False)
class Surrogate:
    """An imitation of a model on the people of a table, in cells."""

    asked: Asked
    cells: Cells
    moves: Moves

    def accepted(self, who: IntArray, budget: float) -> list[Changes]:
        """Return destinations that the imitation accepts, more and more clearly."""
        power = self.moves.power
        cap = (budget**2 if power == 2 else budget) * (1 + 1e-9)
        prices = price_cells(self.cells, who, power)
        own, found = self.cells.own[who], []
        for margin in MARGINS:
            target = margin - self.cells.base
            _, _, points = search_people(self.cells, prices, own, target, cap, power, NODES)
            found.append(values_at(self.cells, prices, points, own))
        _, _, points = best_scores(self.cells, prices, own, np.array([cap]), power, NODES)
        return [*found, values_at(self.cells, prices, points[:, 0], own)]

    def best(self, budgets: FloatArray) -> list[Changes]:
        """Return where the imitation scores best within each budget."""
        who, power = np.arange(len(self.asked.frame)), self.moves.power
        caps = (budgets**2 if power == 2 else budgets) * (1 + 1e-9)
        prices = price_cells(self.cells, who, power)
        own = self.cells.own
        _, _, points = best_scores(self.cells, prices, own, caps, power, NODES)
        return [values_at(self.cells, prices, points[:, k], own) for k in range(budgets.size)]


def imitate(asked: Asked, moves: Moves, budget: float) -> Surrogate | None:
    """Fit boosted trees to the model's own decisions; None if there is nothing to learn."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    frame = asked.frame
    rows = [frame]
    if moves.reference is not None:
        other = frame_of(moves.reference)
        if set(other.columns) >= set(frame.columns):
            rows.append(other[list(frame.columns)].iloc[:5000])
    said = np.concatenate([asked.accepts(part) for part in rows])
    whole = _plain(pd.concat(rows, ignore_index=True))
    if said.all() or not said.any() or whole is None:
        return None
    trees = HistGradientBoostingClassifier(
        max_iter=60, max_depth=4, early_stopping=False, categorical_features="from_dtype"
    ).fit(whole, said.astype(int))
    people = whole.iloc[: len(frame)].set_axis(frame.index, axis=0)
    imitated = Asked(trees, people, 1)
    opened = open_model(imitated)
    cells = None if opened is None else build_cells(imitated, opened, moves, budget)
    return None if cells is None else Surrogate(imitated, cells, moves)


def _plain(frame: pd.DataFrame) -> pd.DataFrame | None:
    """Return numbers as floats and everything else as categories; None if there are too many."""
    columns = {}
    for name in frame.columns:
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column):
            columns[name] = pd.Series(column.to_numpy(dtype=np.float64, na_value=np.nan))
        else:
            columns[name] = column.astype(object).astype("category").reset_index(drop=True)
            if columns[name].nunique() > MOST_CATEGORIES:
                return None
    return pd.DataFrame(columns)
