"""Curve points: how many rows of each site were in a fit, and how well one site was served.

Points are plain numbers. They are all that leaves a site in the private variant; what is read back
is checked strictly.
Source: "The private variant", see docs/theory/23-consortium.md.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from counterplay.contribution.sites.reading import LONGEST_NAME, MOST_SITES, check_name
from counterplay.contribution.sites.scoring import METRICS, Metric
from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new
from counterplay.core.files import read_limited, write_atomic
from counterplay.core.records import (
    LIMIT,
    Count,
    Record,
    read_json,
    refusal,
    require_state,
    to_record,
)
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState
from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.errors import InvalidInputError, InvalidStateError, UnknownNameError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from counterplay.contribution.sites.curves import SiteCurves

FORMAT = "counterplay-points/1"
MOST_POINTS = 500_000
Item = tuple[IntArray, int, float, float, bool]
"""Rows of every site in a fit, the site that is scored, score, rows it rests on, on the ray."""
Owned = Annotated[int, Meta(ge=1, le=10**9)]
LONGEST = 300


@dataclass(frozen=True)
class RayRows:
    """Errors of the held-out rows along the ray; they never leave the process.

    ``errors[i]`` is (levels, rows of site i), ``group`` and ``weight`` say how rows average
    (see ``scoring.strata``), ``sizes`` is the mean total of rows at each level.
    """

    sizes: FloatArray
    errors: tuple[FloatArray, ...]
    group: tuple[IntArray, ...]
    weight: tuple[FloatArray, ...]


class PointItem(Record, frozen=True):
    """One point of one site, as it is written."""

    rows: Annotated[dict[str, Count], Meta(min_length=1, max_length=MOST_SITES)]
    site: str
    score: Annotated[float, Meta(ge=-1e3, le=1.0)]
    test_rows: Annotated[float, Meta(gt=0.0, le=1e12)]
    ray: bool = False


class PointsFile(Record, frozen=True):
    """The file of points."""

    format: Literal["counterplay-points/1"]
    metric: Literal["accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc"]
    owned: Annotated[dict[str, Owned], Meta(min_length=1, max_length=MOST_SITES)]
    points: Annotated[list[PointItem], Meta(min_length=1, max_length=MOST_POINTS)]


@checked(arrays=True)
@dataclass(frozen=True)
class SitePoints(Report):
    """Measured points of a consortium; made by ``measure_sites`` or read from JSON.

    Parameters
    ----------
    names
        Names of the sites.
    owned
        Rows each site owns.
    metric
        What the scores are.
    rows
        ``(points, sites)``: rows of every site in the fit.
    site
        Which site was scored.
    score
        Its score on held-out rows.
    test_rows
        Rows that the score rests on; for other metrics than accuracy the number of rows that would
        make a share as certain.
    ray
        Whether everybody brought the same share.
    notes
        What happened while measuring.
    fits
        Number of fits; 0 if the points were read from files.
    held_out
        Errors of the held-out rows, where the rows are at hand; never written.
    guess
        Score of the most common label, where the rows are at hand.

    Examples
    --------
    >>> text = ('{"format": "counterplay-points/1", "metric": "accuracy", "owned": {"a": 40, '
    ...         '"b": 60}, "points": [{"rows": {"a": 30, "b": 0}, "site": "a", "score": 0.8, '
    ...         '"test_rows": 10}]}')
    >>> SitePoints.parse(text).to_frame()[["site", "score", "a", "b"]].values.tolist()
    [['a', 0.8, 30, 0]]

    References
    ----------
    "Measuring", "The private variant", see docs/theory/23-consortium.md.
    """

    names: tuple[str, ...]
    owned: IntArray
    metric: Metric
    rows: IntArray
    site: IntArray
    score: FloatArray
    test_rows: FloatArray
    ray: BoolArray
    notes: tuple[str, ...] = ()
    fits: int = 0
    held_out: RayRows | None = field(default=None, repr=False, compare=False)
    guess: FloatArray | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        k, n = len(self.names), self.site.size
        shapes = {
            "site": (self.site, (n,)),
            "owned": (self.owned, (k,)), "rows": (self.rows, (n, k)), "score": (self.score, (n,)),
            "test_rows": (self.test_rows, (n,)), "ray": (self.ray, (n,)),
        }  # fmt: skip
        for name, (array, shape) in shapes.items():
            if array.shape != shape:
                raise InvalidInputError(f"{name} must have shape {shape}, got {array.shape}")
        if self.metric not in METRICS:
            raise InvalidInputError(f"metric must be one of {', '.join(METRICS)}")
        if not k or not n or len(set(self.names)) != k:
            raise InvalidInputError("points need at least one point and different names of sites")
        if self.site.min() < 0 or self.site.max() >= k:
            raise InvalidInputError("site must be positions in names")
        if (self.rows < 0).any() or (self.rows > self.owned).any():
            raise InvalidInputError("rows must be between 0 and what the sites own")
        if not np.isfinite(self.score).all() or not (self.test_rows > 0).all():
            raise InvalidInputError("scores must be finite and rest on at least one row")

    def __repr__(self) -> str:
        return f"SitePoints({len(self.site)} points, {self.k} sites, {self.metric})"

    @property
    def k(self) -> int:
        """Number of sites."""
        return len(self.names)

    @property
    def scored(self) -> tuple[int, ...]:
        """Sites with points of their own."""
        return tuple(int(i) for i in np.unique(self.site))

    @property
    def axes_only(self) -> bool:
        """Whether no mixture was tried: every fit used the rows of one site only."""
        return bool(((self.rows > 0).sum(axis=1) <= 1).all())

    @classmethod
    def of_items(
        cls, names: Sequence[str], owned: Sequence[int], metric: str, items: Sequence[Item],
        **about: Any,
    ) -> SitePoints:  # fmt: skip
        """Gather points that were made one by one."""
        rows, site, score, test_rows, ray = zip(*items)
        return cls(
            names=tuple(names),
            owned=np.array(owned, dtype=np.int64),
            metric=next(known for known in METRICS if known == metric),
            rows=np.array(rows, dtype=np.int64),
            site=np.array(site, dtype=np.int64),
            score=np.array(score, dtype=np.float64),
            test_rows=np.array(test_rows, dtype=np.float64),
            ray=np.array(ray, dtype=bool),
            **about | {"notes": tuple(about.get("notes", ()))},
        )

    def largest(self) -> IntArray:
        """Most rows of each site in one fit."""
        return np.asarray(self.rows.max(axis=0))

    def joined(self, other: SitePoints) -> SitePoints:
        """These points and those of further fits of the same sites."""
        if (self.names, self.metric) != (other.names, other.metric):
            raise InvalidInputError("points of other sites or another metric cannot be added")
        return SitePoints(
            self.names, self.owned, self.metric,
            np.concatenate([self.rows, other.rows]), np.concatenate([self.site, other.site]),
            np.concatenate([self.score, other.score]),
            np.concatenate([self.test_rows, other.test_rows]),
            np.concatenate([self.ray, other.ray]),
            tuple(dict.fromkeys((*self.notes, *other.notes))), self.fits + other.fits,
            self.held_out, self.guess,
        )  # fmt: skip

    def curves(self, *, draws: int = 40, random_state: RandomState = 0) -> SiteCurves:
        """Fit learning curves in effective rows, with ``draws`` randomised refits for bands."""
        from counterplay.contribution.sites.curves import fit_curves

        return fit_curves(self, draws=draws, random_state=random_state)

    def summary(self) -> str:
        """Return what was measured, and the best score of each site."""
        made = f"{self.fits} fits" if self.fits else "points from files"
        lines = [f"{made}, {len(self.site)} points of {self.k} sites ({self.metric})"]
        for i in self.scored:
            own = self.score[self.site == i]
            lines.append(
                f"{self.names[i]}: owns {self.owned[i]} rows, {len(own)} points, score "
                f"{own.min():.3f} to {own.max():.3f}"
            )
        return "\n".join([*lines, *self.notes])

    def to_frame(self) -> pd.DataFrame:
        """Return one row per point: site, score, rows it rests on, rows of every site."""
        import pandas as pd

        columns = {
            "site": [self.names[i] for i in self.site],
            "score": self.score,
            "test_rows": self.test_rows,
            "ray": self.ray,
        }
        frame = pd.DataFrame(columns)
        rows = pd.DataFrame(self.rows, columns=list(self.names))
        return pd.concat([frame, rows], axis=1)

    def plot(self, ax: Axes | None = None, site: str | None = None) -> Axes:
        """Draw the points of a site against effective rows, with the fitted curve and its band."""
        return self.curves().plot(ax, site=site)

    def plot_raw(self, ax: Axes | None = None) -> Axes:
        """Draw scores against the total of rows, without any curve."""
        axes = axes_or_new(ax)
        for i in self.scored:
            own = self.site == i
            axes.plot(
                self.rows[own].sum(axis=1), self.score[own], ".",
                color=PALETTE[i % len(PALETTE)], label=self.names[i],
            )  # fmt: skip
        axes.set(xscale="log", xlabel="rows in the fit", ylabel=self.metric.replace("_", " "))
        axes.legend()
        return axes

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the points as JSON, and write them to ``path``; only sizes and scores."""
        import json

        content = {
            "format": FORMAT,
            "metric": self.metric,
            "owned": {name: int(n) for name, n in zip(self.names, self.owned)},
            "points": [
                {
                    "rows": {name: int(n) for name, n in zip(self.names, rows)},
                    "site": self.names[i],
                    "score": float(score),
                    "test_rows": float(t),
                    "ray": bool(ray),
                }
                for rows, i, score, t, ray in zip(
                    self.rows, self.site, self.score, self.test_rows, self.ray
                )
            ],
        }
        text = json.dumps(content, ensure_ascii=False, indent=1)
        if path is not None:
            write_atomic(path, text + "\n")
        return text

    @classmethod
    def from_json(cls, *paths: str | os.PathLike[str]) -> SitePoints:
        """Read points from the files of one or several sites.

        A file may hold points of its own site only; together they must say how many rows every
        site owns.
        """
        if not paths:
            raise InvalidInputError("name at least one file of points")
        texts: list[tuple[str, str | bytes]] = []
        for path in paths:
            if not isinstance(path, str | os.PathLike):
                raise InvalidInputError(f"a path must be a text or a path, got {str(path)[:60]!r}")
            name = Path(path).name[:60]
            texts.append((name, read_limited(path, what=name, limit=LIMIT)))
        return _assembled(texts)

    @classmethod
    def parse(cls, text: str | bytes, what: str = "the points") -> SitePoints:
        """Read points from a text."""
        return _assembled([(what, text)])

    def index(self, name: str) -> int:
        """Position of a site."""
        if name not in self.names:
            raise UnknownNameError.among("site", name, self.names)
        return self.names.index(name)


def _assembled(texts: list[tuple[str, str | bytes]]) -> SitePoints:
    files = [(what, _read(what, text)) for what, text in texts]
    metric = files[0][1].metric
    owned: dict[str, int] = {}
    for what, content in files:
        require_state(
            content.metric == metric, what, "metric",
            f"it is {content.metric}, but {files[0][0]} has {metric}",
        )  # fmt: skip
        for name, n in content.owned.items():
            known = owned.setdefault(name, n)
            problem = f"{name[:60]} owns {n} rows here and {known} in another file"
            require_state(known == n, what, "owned", problem)
    names = tuple(owned)
    place = {name: j for j, name in enumerate(names)}
    items: list[Item] = []
    for what, content in files:
        for number, item in enumerate(content.points):
            used = np.zeros(len(names), dtype=np.int64)
            for name, n in item.rows.items():
                where = f"points[{number}].rows"
                known_site = f"{name[:60]!r} is not among the sites in owned"
                require_state(name in place, what, where, known_site)
                above = f"{n} rows of {name[:60]}, who owns {owned[name]}"
                require_state(n <= owned[name], what, where, above)
                used[place[name]] = n
            unknown = f"{item.site[:60]!r} is not among the sites in owned"
            require_state(item.site in place, what, f"points[{number}].site", unknown)
            require_state(used.any(), what, f"points[{number}].rows", "no row at all was used")
            items.append((used, place[item.site], item.score, item.test_rows, item.ray))
    return SitePoints.of_items(names, list(owned.values()), metric, items)


def _read(what: str, text: str | bytes) -> PointsFile:
    content = to_record(read_json(text, what=what), PointsFile, what=what)
    for name in content.owned:
        try:
            check_name(name)
        except InvalidInputError as error:
            raise refusal(what, "owned", str(error)) from None
    if len(content.owned) < 1:
        raise InvalidStateError(f"{what} names no site")
    require_state(
        content.metric == "neg_log_loss" or all(p.score >= 0.0 for p in content.points),
        what, "points", f"a score of {content.metric} is negative",
    )  # fmt: skip
    return content


__all__ = ["FORMAT", "LONGEST_NAME", "RayRows", "SitePoints"]
