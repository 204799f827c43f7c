"""From stored cells to what people read: a frame, verdicts, figures and their numbers."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from counterplay.core.figures import figure_style
from counterplay.core.files import write_atomic
from counterplay.studies.plan import Cell, plan_cells
from counterplay.studies.provenance import Provenance
from counterplay.studies.registry import RegisteredStudy
from counterplay.studies.store import Store, StoredCell
from counterplay.studies.study import Scale, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

DrawFigure: TypeAlias = "Callable[[pd.DataFrame], Figure]"
_WORTH_WORKERS = 8  # figures; fewer are drawn before a worker has started


@dataclass(frozen=True)
class StudyResult:
    """All cells of one study at one scale, with the verdicts they lead to."""

    entry: RegisteredStudy
    scale: Scale
    seed: int
    frame: pd.DataFrame
    """One row per cell in the order of the grid: parameters, then the record."""
    verdicts: tuple[Verdict, ...]
    wall_time: float
    """Seconds of computing, summed over the cells."""
    provenance: tuple[Provenance, ...]
    """The different origins of the cells; usually one."""

    @property
    def id(self) -> str:
        """Study id, ``AREA/NAME``."""
        return self.entry.id

    @property
    def holds(self) -> bool:
        """Whether no verdict fails."""
        return all(verdict.holds is not False for verdict in self.verdicts)

    @property
    def command(self) -> str:
        """The command that reproduces the result."""
        seed = f" --seed {self.seed}" if self.seed else ""
        scale = "" if self.scale == "quick" else f" --scale {self.scale}"
        return f"counterplay run {self.id}{scale}{seed}"

    def write_numbers(self, folder: Path) -> Path:
        """Write the numbers behind the figures into ``folder`` as ``NAME.json``; return the path.

        Floats are exact; nan, for which JSON has no word, is null, an infinity ``"inf"`` or
        ``"-inf"``. The same cells give the same bytes.
        """
        rows = [json.dumps(_plain(row)) for row in self.frame.to_dict("records")]
        head = {"study": self.id, "scale": self.scale, "seed": self.seed, "command": self.command}
        parts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
        verdicts = [json.dumps(_plain(vars(verdict))) for verdict in self.verdicts]
        parts += [_json_lines("verdicts", verdicts), _json_lines("cells", rows)]
        return write_atomic(
            folder / f"{self.entry.study.name}.json", "{" + ",\n".join(parts) + "}\n"
        )


@dataclass(frozen=True)
class FigureFiles:
    """One figure of a study, rendered twice."""

    name: str
    png: bytes
    svg: bytes

    def write(self, folder: Path, stem: str) -> tuple[Path, Path]:
        """Write ``STEM-NAME.png`` and ``.svg`` into ``folder``; return both paths."""
        base = folder / f"{stem}-{self.name}"
        png = write_atomic(base.with_name(base.name + ".png"), self.png)
        return png, write_atomic(base.with_name(base.name + ".svg"), self.svg)


@dataclass(frozen=True)
class Incomplete:
    """A study that cannot be shown yet, and why."""

    entry: RegisteredStudy
    scale: Scale
    missing: int
    stale: tuple[StoredCell, ...]


def load_result(
    entry: RegisteredStudy, store: Store, *, scale: Scale = "quick", seed: int = 0
) -> StudyResult | Incomplete:
    """Read the cells of a study from ``store``; incomplete or stale ones are said to be so."""
    cells = plan_cells(entry, scale, seed)
    known = store.lookup(cells)
    if known.missing or known.stale:
        return Incomplete(entry, scale, len(known.missing), tuple(known.stale))
    rows = [known.found[cell.key] for cell in cells]
    frame = _frame(cells, rows)
    return StudyResult(
        entry=entry,
        scale=scale,
        seed=seed,
        frame=frame,
        verdicts=tuple(entry.study.verdicts(frame)),
        wall_time=sum(row.wall_time for row in rows),
        provenance=tuple(dict.fromkeys(row.provenance for row in rows)),
    )


def render_figures(results: Sequence[StudyResult], jobs: int = 1) -> Iterator[list[FigureFiles]]:
    """Draw the figures of each study, in order; the same bytes for the same frame."""
    from joblib import Parallel, delayed

    drawings = [(result.entry.study.figures, result.frame) for result in results]
    few = sum(len(figures) for figures, _ in drawings) < _WORTH_WORKERS
    workers = Parallel(n_jobs=1 if few else jobs, return_as="generator")
    return iter(workers(delayed(_render_all)(*drawing) for drawing in drawings))


def figure_folder(entry: RegisteredStudy, out: Path) -> Path:
    """Return the folder for the figures of a study: ``OUT/figures/AREA``."""
    return out / "figures" / entry.area.name


def _frame(cells: Sequence[Cell], rows: Sequence[StoredCell]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame([{**cell.params, **row.values()} for cell, row in zip(cells, rows)])


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): _json_value(value) for key, value in row.items()}


def _json_value(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)


def _json_lines(key: str, items: Sequence[str]) -> str:
    """A list with one item per line."""
    return f"{json.dumps(key)}: [\n" + ",\n".join(items) + "\n]"


def _render_all(figures: Mapping[str, DrawFigure], frame: pd.DataFrame) -> list[FigureFiles]:
    return [_render(name, draw, frame) for name, draw in figures.items()]


def _render(name: str, draw: DrawFigure, frame: pd.DataFrame) -> FigureFiles:
    with figure_style():
        figure = draw(frame.copy())
        png, svg = io.BytesIO(), io.BytesIO()
        figure.savefig(png, format="png", metadata={"Software": None})
        figure.set_layout_engine("none")  # keep the layout that was just found
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    return FigureFiles(name, png.getvalue(), svg.getvalue())
