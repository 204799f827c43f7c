"""The studio's data in Python, without a server: studies, events, results, exports."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.exports import Event, receipt
from counterplay.core.report import Report
from counterplay.studio.errors import Missing, Refused
from counterplay.studio.exports import export_lines, import_study
from counterplay.studio.kinds import NewEvent, kind_of
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store
from counterplay.studio.store.base import StudyRow

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_RESULTS = ("elicit.result", "label.result", "guard.result", "audit.finished")


@dataclass(frozen=True)
class StudyList(Report):
    """The studies of a studio, newest first."""

    rows: tuple[StudyRow, ...]

    def __iter__(self) -> Iterator[StudyRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def summary(self) -> str:
        """Return one line per study."""
        lines = [f"{row.public_id} {row.kind}, {row.state}: {row.name}" for row in self.rows]
        return "\n".join(lines) or "no studies yet"

    def to_frame(self) -> pd.DataFrame:
        """Return one row per study."""
        import pandas as pd

        names = ("public_id", "kind", "name", "state", "version", "created_at", "closed_at")
        return pd.DataFrame([{name: getattr(row, name) for name in names} for row in self.rows],
                            columns=list(names))  # fmt: skip


@dataclass(frozen=True)
class StatedResult(Report):
    """What a study last stated about a party, as it stands in the log."""

    stream: str
    kind: str
    at: str
    stated: dict[str, Any]
    receipt: str
    """The code of the event: who notes it can prove that it was in the log."""
    names: tuple[str, ...] = ()
    """Names of the items, where the study has items."""

    def summary(self) -> str:
        """Return what was stated, one line per number, with the receipt."""
        lines = [f"{self.kind} of {self.stream}, {self.at}"]
        item = self.stated.get("item")
        if isinstance(item, int) and item < len(self.names):
            lines.append(f"best match: {self.names[item]}")
        lines += [f"{name}: {value:g}" for name, value in self._numbers().items()]
        return "\n".join([*lines, f"receipt: {self.receipt}"])

    def to_frame(self) -> pd.DataFrame:
        """Return one row per number that was stated."""
        import pandas as pd

        numbers = self._numbers()
        return pd.DataFrame({"name": list(numbers), "value": list(numbers.values())})

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the recommended item against the next ones, or else the numbers as bars."""
        import matplotlib.pyplot as plt

        axes = plt.subplots()[1] if ax is None else ax
        compared = self.stated.get("compared")
        if isinstance(compared, list) and compared:
            shown = [self._name(one) for one in compared]
            values = [float(one["mean"]) for one in compared]
            ends = [[v - one["low"] for v, one in zip(values, compared)],
                    [one["high"] - v for v, one in zip(values, compared)]]  # fmt: skip
            axes.errorbar(values[::-1], range(len(values)), fmt="none", ecolor="black",
                          xerr=[side[::-1] for side in ends])  # fmt: skip
            axes.set_xlabel("worth to the person: posterior mean and 90 % band, an estimate")
        else:
            numbers = self._numbers()
            shown, values = list(numbers), list(numbers.values())
            axes.set_xlabel("stated value")
        axes.barh(shown[::-1], values[::-1], color="#0072B2")
        return axes

    def _name(self, one: dict[str, Any]) -> str:
        item = one.get("item", -1)
        return self.names[item] if 0 <= item < len(self.names) else str(item)

    def _numbers(self) -> dict[str, float]:
        return {
            name: float(value)
            for name, value in self.stated.items()
            if isinstance(value, int | float)
        }


class Studio:
    """The data of a studio, opened beside a server or without one.

    Parameters
    ----------
    path:
        The folder that ``counterplay studio --data`` uses.
    database:
        URL of a PostgreSQL database; the SQLite file in the folder by default.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Studio(folder) as studio:
    ...     print(studio.studies().summary())
    no studies yet

    References
    ----------
    docs/studio.md; "Setting", see docs/theory/28-studio.md.
    """

    def __init__(self, path: str | os.PathLike[str], *, database: str | None = None) -> None:
        self.store = Store.open(Settings(data=Path(path), database=database))

    def __enter__(self) -> Studio:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self.store.close()

    def studies(self) -> StudyList:
        """Return the studies, newest first."""
        return StudyList(tuple(self.store.studies()))

    def events(self, study: str) -> list[Event]:
        """Return all events of a study: its own stream first, then those of its parties."""
        row = self.store.study(study)
        streams = [row.public_id]
        streams += [self.store.stream_of(row, party) for party in self.store.parties(row)]
        return [e for stream in dict.fromkeys(streams) for e in self.store.events(stream)]

    def result(self, party: str) -> StatedResult:
        """Return what was last stated about a party, or about a study whose parties share a log.

        Raises
        ------
        Missing
            There is no such party, or it has no result yet.
        """
        stated = [
            event
            for event in self.store.events(party)
            if event.kind in _RESULTS and event.body is not None
        ]
        if not stated:
            raise Missing(f"There is no result of {party[:40]!r} (yet).")
        last = stated[-1]
        study = self.store.study_by_id(self.store.fold_now(party).study)
        page = self.store.config(study).get("page") or {}
        names = page.get("names", ()) if isinstance(page, dict) else ()
        return StatedResult(
            stream=party,
            kind=last.kind,
            at=last.at,
            stated=last.body or {},
            receipt=receipt(last.hash),
            names=tuple(map(str, names)),
        )

    def volunteer(
        self,
        party: str,
        better: Mapping[str, float],
        worse: Mapping[str, float],
        *,
        actor: str = "operator",
    ) -> None:
        """Add a comparison that a participant made without being asked, such as on the telephone.

        It counts for her result as an answer does; her open question stays open.

        Parameters
        ----------
        party:
            Her public id, as in the list of links.
        better:
            What she would rather have: a number for every column that is compared, in the units of
            the table. It need not be an item of it.
        worse:
            The other option, likewise.
        actor:
            Who writes it down.

        Raises
        ------
        Refused
            The study is not open, she has no open question, or a column is missing or unknown.
        """
        folded = self.store.fold_now(party)
        study = self.store.study_by_id(folded.study)
        if study.kind != "elicitation":
            raise Refused("Only participants of an elicitation compare things.", "party")
        config = self.store.config(study, folded.version)
        names = [column["name"] for column in config["page"]["columns"]]
        if set(better) != set(names) or set(worse) != set(names):
            raise Refused(f"Give a number for each of the columns {', '.join(names)}.", "columns")
        pair = ([float(better[name]) for name in names], [float(worse[name]) for name in names])
        if not np.isfinite(pair).all():
            raise Refused("The numbers must be finite.", "columns")
        kind: Any = kind_of("elicitation")
        body = kind.volunteered(config, folded.state, party, pair, (0,))
        event = NewEvent("elicit.volunteered", body, f"volunteered:{secrets.token_hex(8)}", actor)
        self.store.append_now(party, event, expected=folded.seq)

    def export(self, study: str, version: int | None = None) -> str:
        """Return all events of a study as text that ``counterplay verify`` recomputes."""
        return "".join(export_lines(self.store, self.store.study(study), version))

    def load(self, export: bytes, *, actor: str = "operator") -> StudyRow:
        """Store the study of an export, if every hash and result of it holds."""
        return import_study(self.store, export, actor=actor)
