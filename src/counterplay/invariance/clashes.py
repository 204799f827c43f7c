"""Rows whose transformed version lies among rows of another label, to be looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import axes_or_new, figure_style
from counterplay.core.validation import FloatArray
from counterplay.invariance.label_test import LabelTest
from counterplay.invariance.transformations import TransformationSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 4


@dataclass(frozen=True)
class Clash:
    """A row, its image, and the nearest natural row of the image, which has another label.

    Attributes
    ----------
    label:
        Label of the row.
    lands_among:
        Label of the nearest row.
    row:
        Number of the row.
    other:
        Number of the nearest row.
    given:
        The row, as numbers.
    moved:
        Its image, as numbers.
    nearest:
        The nearest row, as numbers.
    distance:
        Between the image and the nearest row, in the embedding.
    """

    label: Any
    lands_among: Any
    row: int
    other: int
    given: FloatArray
    moved: FloatArray
    nearest: FloatArray
    distance: float


def clashes_of(
    found: LabelTest, rows: FloatArray, group: TransformationSet, classes: Any
) -> tuple[Clash, ...]:
    """The strongest evidence: frequent kinds of clash first, of each kind the closest landing.

    Only comparisons count in which natural neighbours agree. Groups that cannot be listed give
    none, because their random elements have no number.
    """
    kinds = [kind for kind, _ in found.conflicts().most_common()]
    by_kind: dict[Any, list[tuple[float, int, int, int, int]]] = {kind: [] for kind in kinds}
    for number, repeat in enumerate(found.repeats):
        for t in np.flatnonzero((repeat.across > 0) & (repeat.natural == 0)).tolist():
            i, j = int(repeat.pick[repeat.far.i[t]]), int(repeat.pick[repeat.far.j[t]])
            kind = repeat.labels[t]
            if repeat.elements[t] >= 0:
                entry = (float(repeat.far.d[t]), number, i, j, int(repeat.elements[t]))
                by_kind.setdefault(kind, []).append(entry)
    out: list[Clash] = []
    seen: set[int] = set()
    depth = 0
    while len(out) < MOST and any(len(entries) > depth for entries in by_kind.values()):
        for (own, other), entries in by_kind.items():
            ranked = sorted(entries)
            if depth < len(ranked) and ranked[depth][2] not in seen and len(out) < MOST:
                d, _, i, j, g = ranked[depth]
                seen.add(i)
                moved = group.exact_image(g, rows[i : i + 1])[0]
                out.append(Clash(classes[own], classes[other], i, j, rows[i], moved, rows[j], d))
        depth += 1
    return tuple(out)


def draw_clashes(clashes: tuple[Clash, ...], shape: tuple[int, ...], ax: Axes | None) -> Axes:
    """Pictures side by side: every row, its image below, and the nearest row below that."""
    with figure_style():
        axes = axes_or_new(ax, width=1.6 * max(len(clashes), 2), height=4.6)
        height, width = shape[:2]
        gap = max(1, width // 8)
        sheet = np.full(
            (3 * height + 2 * gap, len(clashes) * (width + gap) - gap, *shape[2:]), np.nan
        )
        for place, clash in enumerate(clashes):
            left = place * (width + gap)
            for line, picture in enumerate((clash.given, clash.moved, clash.nearest)):
                top = line * (height + gap)
                low, high = float(np.min(picture)), float(np.max(picture))
                scaled = (picture - low) / (high - low if high > low else 1.0)
                sheet[top : top + height, left : left + width] = scaled.reshape(shape)
        shown = (
            sheet[..., :3]
            if sheet.ndim == 3 and shape[-1] >= 3
            else sheet.reshape(*sheet.shape[:2], -1)[..., 0]
        )
        axes.imshow(np.ma.masked_invalid(shown), cmap="gray_r", interpolation="nearest")
        middle = np.arange(len(clashes)) * (width + gap) + (width - 1) / 2
        axes.set_xticks(middle, [f"{c.label} → {c.lands_among}" for c in clashes])
        axes.set_yticks(np.arange(3) * (height + gap) + (height - 1) / 2,
                        ["row", "transformed", "nearest row"])  # fmt: skip
        axes.grid(visible=False)
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.set_title("Transformed rows that land among another label", fontsize=10)
    return axes
