"""A picture of why a one-inclusion predictor answers as it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new
from counterplay.core.report import Report
from counterplay.core.validation import IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@checked(arrays=True)
@dataclass(frozen=True)
class OneInclusionView(Report):
    """The oriented one-inclusion graph of one test point.

    Attributes
    ----------
    vertices:
        Labelings of the orbits, one row each.
    edges:
        Rows (labeling with 0, labeling with 1, column).
    heads:
        The labeling each edge points to: a mistake if that labeling is true.
    known:
        Training label of each column, -1 for the test column.
    column:
        Column of the test point.
    answer:
        The prediction.
    kind:
        How it came about.

    Examples
    --------
    >>> from counterplay.invariance import instances
    >>> from counterplay.invariance.lab import OneInclusionRelaxed
    >>> hard = instances.da_lower_bound(3, 1 / 64, random_state=1)
    >>> view = OneInclusionRelaxed(hard.problem).fit([], []).explain(hard.distribution.points[1])
    >>> view.answer, view.kind, len(view.vertices)
    (1, 'oriented', 2)
    """

    vertices: NDArray[np.uint8]
    edges: IntArray
    heads: IntArray
    known: NDArray[np.int8]
    column: int
    answer: int
    kind: str

    @property
    def consistent(self) -> IntArray:
        """Labelings that agree with the training labels."""
        agree = self.vertices == self.known
        agree[:, self.column] = True
        return np.flatnonzero(agree.all(axis=1))

    def summary(self) -> str:
        """Two sentences."""
        worst = int(np.bincount(self.heads, minlength=len(self.vertices)).max(initial=0))
        return (
            f"The prediction is {self.answer} ({self.kind}). The graph has {len(self.vertices)} "
            f"labelings and {len(self.edges)} edges, {self.consistent.size} labelings agree with "
            f"the training labels, the largest in-degree is {worst}."
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per edge: tail, head and the column where they differ."""
        tails = self.edges[:, 0] + self.edges[:, 1] - self.heads
        names = ["".join(map(str, row)) for row in self.vertices.tolist()]
        return pd.DataFrame(
            {
                "tail": [names[i] for i in tails],
                "head": [names[i] for i in self.heads],
                "column": self.edges[:, 2],
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the graph: arrows point to mistakes, consistent labelings are filled."""
        import networkx as nx

        axes = axes_or_new(ax, width=6.5, height=5.0)
        graph = nx.DiGraph()
        graph.add_nodes_from(range(len(self.vertices)))
        tails = self.edges[:, 0] + self.edges[:, 1] - self.heads
        asked = self.edges[:, 2] == self.column
        arrows = list(zip(tails.tolist(), self.heads.tolist()))
        graph.add_edges_from(arrows)
        place = _layout(graph)
        consistent = set(self.consistent.tolist())
        colours = [PALETTE[1] if v in consistent else "#DDDDDD" for v in graph]
        small = len(self.vertices) > 40
        nx.draw_networkx_nodes(
            graph, place, ax=axes, node_color=colours, node_size=60 if small else 420,
            edgecolors="#444444",
        )  # fmt: skip
        for flag, colour, width in ((False, "#999999", 1.0), (True, PALETTE[0], 2.0)):
            chosen = [arrow for arrow, hit in zip(arrows, asked) if hit == flag]
            nx.draw_networkx_edges(
                graph, place, ax=axes, edgelist=chosen, edge_color=colour, width=width,
                node_size=60 if small else 420, arrowsize=11,
            )  # fmt: skip
        if not small:
            names = {v: "".join(map(str, row)) for v, row in enumerate(self.vertices.tolist())}
            nx.draw_networkx_labels(graph, place, names, ax=axes, font_size=7)
        axes.set_title(
            f"prediction {self.answer} ({self.kind}); orange: agrees with the training labels,\n"
            "blue: edges of the test point; arrows point to the mistake",
            fontsize=9,
        )
        axes.set_axis_off()
        return axes


def _layout(graph: object) -> dict[int, NDArray[np.float64]]:
    import networkx as nx

    place: dict[int, NDArray[np.float64]] = nx.kamada_kawai_layout(nx.Graph(graph))
    return place
