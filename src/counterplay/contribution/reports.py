"""What the solvers and audits return: plans, stability reports and envy reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, axes_or_new
from counterplay.core.validation import BoolArray, FloatArray

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Allocation:
    """One plan: who contributes how much, what everybody gets, and why it can be trusted.

    ``slack`` is utility minus target; ``best_response_gap`` the largest amount anybody could
    withdraw alone and stay satisfied (zero for a stable plan); ``certificate`` holds what the
    solver can prove: dual bounds, residuals, sweeps.
    """

    theta: FloatArray
    total: float
    utilities: FloatArray
    slack: FloatArray
    concept: str
    best_response_gap: float
    certificate: Mapping[str, Any] = field(default_factory=dict)

    def summary(self) -> str:
        """Return two or three lines of text."""
        lines = [
            f"{self.concept}: total {self.total:.6g}, smallest slack {self.slack.min():.3g}, "
            f"largest withdrawable amount {self.best_response_gap:.3g}"
        ]
        lines += [f"  {key}: {_short(value)}" for key, value in self.certificate.items()]
        return "\n".join(lines)

    def to_frame(self, names: Sequence[str] | None = None) -> pd.DataFrame:
        """Return one row per party."""
        import pandas as pd

        index = list(range(len(self.theta))) if names is None else list(names)
        columns = {"theta": self.theta, "utility": self.utilities, "slack": self.slack}
        return pd.DataFrame(columns, index=pd.Index(index, name="party"))


@dataclass(frozen=True)
class StabilityReport:
    """Who could hold data back: contribution minus best response, party by party.

    ``gap`` is what each party could withdraw alone; ``reducible_fraction`` the share of its
    contribution that it would keep.
    """

    theta: FloatArray
    best_response: FloatArray
    gap: FloatArray
    reducible_fraction: FloatArray
    is_feasible: bool
    is_stable: bool
    worst_party: int

    @property
    def withdrawable_share(self) -> float:
        """Share of the total contribution that could be withdrawn unilaterally."""
        total = float(self.theta.sum())
        return float(np.maximum(self.gap, 0.0).sum() / total) if total > 0 else 0.0

    def summary(self) -> str:
        """Return the verdict in one line."""
        if self.is_stable:
            return "stable: nobody can contribute less and still reach the target"
        if not self.is_feasible:
            return "not stable: somebody misses its target"
        return (
            f"not stable: party {self.worst_party} contributes {self.theta[self.worst_party]:.4g} "
            f"but {self.best_response[self.worst_party]:.4g} is enough"
        )

    def to_frame(self, names: Sequence[str] | None = None) -> pd.DataFrame:
        """Return one row per party."""
        import pandas as pd

        index = list(range(len(self.gap))) if names is None else list(names)
        return pd.DataFrame(
            {
                "theta": self.theta,
                "best_response": self.best_response,
                "gap": self.gap,
                "kept_fraction": self.reducible_fraction,
            },
            index=pd.Index(index, name="party"),
        )


@dataclass(frozen=True)
class EnvyReport:
    """Who would rather carry a lighter party's load.

    ``margin[i, j]`` is i's utility after swapping with j minus its target; ``envy[i, j]`` says that
    j carries strictly less and the swap would still satisfy i; ``borderline`` lists pairs whose
    margin is within the tolerance of zero.
    """

    margin: FloatArray
    envy: BoolArray
    borderline: tuple[tuple[int, int], ...]
    is_feasible: bool
    is_envy_free: bool

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Envious pairs ``(i, j)``: i would rather carry j's load."""
        return [(int(i), int(j)) for i, j in np.argwhere(self.envy)]

    def graph(self, names: Sequence[str] | None = None) -> nx.DiGraph:
        """Return the envy graph: an arrow from i to j means that i envies j."""
        import networkx as nx

        labels = list(range(len(self.envy))) if names is None else list(names)
        graph = nx.DiGraph()
        graph.add_nodes_from(labels)
        for i, j in self.pairs:
            graph.add_edge(labels[i], labels[j], margin=float(self.margin[i, j]))
        return graph

    def summary(self) -> str:
        """Return the verdict in one line."""
        if self.is_envy_free:
            return "envy-free: nobody would rather carry a lighter load"
        if not self.pairs:
            return "not envy-free: somebody misses its target"
        i, j = max(self.pairs, key=lambda pair: self.margin[pair])
        return (
            f"not envy-free: {len(self.pairs)} envious pairs; party {i} would reach its target "
            f"with {self.margin[i, j]:.3g} to spare on the load of party {j}"
        )

    def to_frame(self, names: Sequence[str] | None = None) -> pd.DataFrame:
        """Return one row per envious pair."""
        import pandas as pd

        label = (lambda i: i) if names is None else (lambda i: list(names)[i])
        rows = [
            {"party": label(i), "envies": label(j), "margin": float(self.margin[i, j])}
            for i, j in self.pairs
        ]
        return pd.DataFrame(rows, columns=["party", "envies", "margin"])

    def plot(self, ax: Axes | None = None, names: Sequence[str] | None = None) -> Axes:
        """Draw the envy graph on a circle."""
        axes = axes_or_new(ax, width=4.5, height=4.5)
        draw_envy_graph(axes, self.graph(names))
        return axes


def draw_envy_graph(ax: Axes, graph: nx.DiGraph) -> None:
    """Draw parties on a circle and an arrow from each envious party to the envied one."""
    nodes = list(graph.nodes)
    angle = np.pi / 2 - 2 * np.pi * np.arange(len(nodes)) / max(len(nodes), 1)
    place = {node: (np.cos(a), np.sin(a)) for node, a in zip(nodes, angle)}
    for source, target in graph.edges:
        ax.annotate(
            "",
            xy=place[target],
            xytext=place[source],
            arrowprops={
                "arrowstyle": "-|>",
                "color": PALETTE[1],
                "shrinkA": 16,
                "shrinkB": 16,
                "connectionstyle": "arc3,rad=0.12",
            },
        )
    for node, (x, y) in place.items():
        ax.text(
            x,
            y,
            str(node),
            ha="center",
            va="center",
            bbox={"boxstyle": "round", "facecolor": "white", "edgecolor": PALETTE[0]},
        )
    ax.set(xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), xticks=[], yticks=[])
    ax.grid(False)
    for side in ax.spines.values():
        side.set_visible(False)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    return str(value)
