"""Transcripts of repeated games: one row per round, columns as arrays.

A transcript is what ``play`` returns: a report with one row per round. Areas subclass it to add
the numbers people ask for (mistakes, regret) and the picture; the rows themselves, the frame and
the text used by golden tests live here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd


@checked
@dataclass(frozen=True)
class Transcript(Report):
    """Rounds of a repeated game.

    Parameters
    ----------
    columns:
        One array per column, all with the same length: the number of rounds.
    meta:
        What holds for the whole game: names of the players, setting, seed.

    Examples
    --------
    >>> game = Transcript({"played": [0, 0, 1], "loss": [0.0, 1.0, 0.5]}, {"learner": "Hedge"})
    >>> len(game)
    3
    >>> print(game.text())
    # learner: Hedge
    round played loss
    0     0      0
    1     0      1
    2     1      0.5
    """

    columns: Mapping[str, NDArray[Any]]
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        arrays = {name: np.array(column) for name, column in self.columns.items()}
        single = next((name for name, column in arrays.items() if column.ndim == 0), None)
        if single is not None:
            raise InvalidInputError(f"column {single!r} of a transcript needs one entry per round")
        lengths = {name: len(column) for name, column in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidInputError(f"transcript columns have different lengths: {lengths}")
        for column in arrays.values():
            column.setflags(write=False)
        object.__setattr__(self, "columns", arrays)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def summary(self) -> str:
        """Return one line: who played and for how long."""
        players = ", ".join(f"{key} {value}" for key, value in self.meta.items())
        return f"{len(self)} rounds" + (f": {players}" if players else "")

    def to_frame(self) -> pd.DataFrame:
        """Return the rounds as a data frame; columns with several values per round become lists."""
        import pandas as pd

        flat = {k: v if v.ndim == 1 else list(v) for k, v in self.columns.items()}
        frame = pd.DataFrame(flat)
        frame.index.name = "round"
        return frame

    def text(self, rounds: int | None = None) -> str:
        """Return a stable, readable text of the first ``rounds`` rounds, for golden tests."""
        head = [f"# {key}: {value}" for key, value in self.meta.items()]
        n = len(self) if rounds is None else min(rounds, len(self))
        table = [["round", *self.columns]]
        for t in range(n):
            table.append([str(t), *(_cell(column[t]) for column in self.columns.values())])
        widths = [max(len(row[j]) for row in table) for j in range(len(table[0]))]
        body = [" ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in table]
        return "\n".join(head + body)


def _cell(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return "[" + ",".join(_cell(item) for item in value) + "]"
    if isinstance(value, float | np.floating):
        return f"{float(value):.6g}"
    if isinstance(value, bool | np.bool_):
        return "1" if value else "0"
    return str(value)
