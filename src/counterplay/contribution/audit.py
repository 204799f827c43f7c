"""A plan and what can be said about it: feasible, stable, envy-free, and what these cost.

Solvers return an :class:`Allocation`; the audits work on any plan.
Source: "Setting" and Proposition 4.I, see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.contribution.game import CollabGame, Tolerances
from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new
from counterplay.core.report import Report
from counterplay.core.validation import BoolArray, FloatArray, check_real
from counterplay.errors import ConvergenceError

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from matplotlib.axes import Axes

DEFAULT = Tolerances()


@checked(arrays=True)
@dataclass(frozen=True)
class Allocation(Report):
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
        columns = {"theta": self.theta, "utility": self.utilities, "slack": self.slack}
        return party_frame(columns, names)

    def plot(self, ax: Axes | None = None, names: Sequence[str] | None = None) -> Axes:
        """Draw the contributions."""
        return party_bars(axes_or_new(ax), {f"{self.concept} plan": self.theta}, names)


@checked(arrays=True)
@dataclass(frozen=True)
class StabilityReport(Report):
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
        columns = {
            "theta": self.theta,
            "best_response": self.best_response,
            "gap": self.gap,
            "kept_fraction": self.reducible_fraction,
        }
        return party_frame(columns, names)

    def plot(self, ax: Axes | None = None, names: Sequence[str] | None = None) -> Axes:
        """Draw contributions beside best responses: what is higher could be withdrawn."""
        bars = {"contribution": self.theta, "enough for its target": self.best_response}
        return party_bars(axes_or_new(ax), bars, names)


@checked(arrays=True)
@dataclass(frozen=True)
class EnvyReport(Report):
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


@checked
def is_feasible(game: CollabGame, theta: ArrayLike, tol: Tolerances = DEFAULT) -> bool:
    """Return whether every party reaches its target.

    Examples
    --------
    >>> from counterplay.contribution import LinearGame
    >>> is_feasible(LinearGame([[1, 0.5], [0.5, 1]], mu=1.0), [1.0, 0.5])
    True
    """
    return bool((game.utilities(theta) >= game.mu - tol.u).all())


@checked
def stability_report(
    game: CollabGame, theta: ArrayLike, tol: Tolerances = DEFAULT
) -> StabilityReport:
    """Say who could contribute less and by how much, and whether the plan is stable.

    A plan is stable if it is feasible and equals the best-response map: every smaller contribution
    counts, not only slightly smaller ones.

    Use it on any plan, whoever made it.

    Parameters
    ----------
    game:
        What the parties need and what their data are worth to each other.
    theta:
        The plan: how much each party brings.
    tol:
        Tolerances of the comparisons.

    Examples
    --------
    >>> from counterplay.contribution import LinearGame
    >>> game = LinearGame([[1, 0.5], [0.5, 1]], mu=1.0)
    >>> report = stability_report(game, [1.0, 1.0])
    >>> report.is_stable, report.gap.tolist()
    (False, [0.5, 0.5])

    References
    ----------
    "Setting", Proposition 4.I, see docs/theory/04-contribution.md.
    """
    vector = game._vector(theta)
    response = game.best_response_map(vector)
    gap = vector - response
    feasible = is_feasible(game, vector, tol)
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.where(vector > 0, response / vector, 1.0)
    return StabilityReport(
        theta=vector,
        best_response=response,
        gap=gap,
        reducible_fraction=kept,
        is_feasible=feasible,
        is_stable=feasible and bool((gap <= tol.theta).all()),
        worst_party=int(np.argmax(gap)),
    )


@checked
def envy_report(game: CollabGame, theta: ArrayLike, tol: Tolerances = DEFAULT) -> EnvyReport:
    """Say who would rather carry the load of a strictly lighter party, with margins.

    Use it on any plan, whoever made it.

    Parameters
    ----------
    game:
        What the parties need and what their data are worth to each other.
    theta:
        The plan: how much each party brings.
    tol:
        Tolerances of the comparisons.

    Examples
    --------
    >>> from counterplay.contribution import LinearGame
    >>> envy_report(LinearGame([[1, 1], [1, 1]], mu=1.0), [0.7, 0.3]).pairs
    [(0, 1)]

    References
    ----------
    "Setting", Proposition 4.I, see docs/theory/04-contribution.md.
    """
    vector = game._vector(theta)
    margin = game.swap_utilities(vector) - game.mu[:, None]
    lighter = vector[None, :] < vector[:, None] - tol.theta
    inside = vector[None, :] <= game.caps[:, None] + tol.theta
    lighter &= inside & inside.T & ~np.isnan(margin)  # the swap must stay below the caps of both
    envy = lighter & (margin >= -tol.u)
    near = lighter & (abs(margin) <= tol.u)
    feasible = is_feasible(game, vector, tol)
    return EnvyReport(
        margin=margin,
        envy=envy,
        borderline=tuple((int(i), int(j)) for i, j in np.argwhere(near)),
        is_feasible=feasible,
        is_envy_free=feasible and not bool(envy.any()),
    )


@checked
def price_ratio(total: float, optimal_total: float) -> float:
    """Return what a property costs: total of a plan that has it over the cheapest total.

    The price of stability for the cheapest stable plan, of anarchy for the dearest one, of fairness
    for the cheapest envy-free plan. 1 if nothing has to be paid in either plan.

    Examples
    --------
    >>> round(price_ratio(5.4, 3.0), 6)
    1.8
    """
    top = check_real(total, "total", low=0.0)
    bottom = check_real(optimal_total, "optimal_total", low=0.0)
    if bottom == 0.0:
        return 1.0 if top == 0.0 else np.inf
    return top / bottom


def allocation(
    game: CollabGame, theta: ArrayLike, concept: str, certificate: Mapping[str, Any] | None = None
) -> Allocation:
    """Wrap a contribution vector with everything a reader asks about it."""
    vector = game._vector(theta).copy()
    vector.setflags(write=False)
    utilities = game.utilities(vector)
    try:
        gap = vector - game.best_response_map(vector)
    except ConvergenceError:  # the limit of a measured game: nothing is known
        gap = np.full(game.k, np.nan)
    return Allocation(
        theta=vector,
        total=game.total(vector),
        utilities=utilities,
        slack=utilities - game.mu,
        concept=concept,
        best_response_gap=float(np.maximum(gap.max(), 0.0)),
        certificate=dict(certificate or {}),
    )


@checked
def natural_residual(game: CollabGame, theta: ArrayLike) -> float:
    """Return ``max_i |min(theta_i, u_i - mu_i)|``: zero exactly at stable plans of smooth games."""
    vector = game._vector(theta)
    slack = game.utilities(vector) - game.mu
    return float(abs(np.minimum(vector, slack)).max())


def party_bars(ax: Axes, bars: Mapping[str, ArrayLike], names: Sequence[str] | None = None) -> Axes:
    """Draw one group of bars per party, one colour per entry of ``bars``."""
    width = 0.8 / len(bars)
    heights = {label: np.asarray(values, dtype=np.float64) for label, values in bars.items()}
    place = np.arange(len(next(iter(heights.values()))))
    for number, (label, values) in enumerate(heights.items()):
        offset = (number - (len(bars) - 1) / 2) * width
        ax.bar(place + offset, values, width, color=PALETTE[number], label=label)
    many = place.size > 8
    labels = [str(i) for i in place] if names is None else list(names)
    ax.set_xticks(place, labels, rotation=60 if many else 0, fontsize=8 if many else 10)
    ax.set(xlabel="party", ylabel="contribution")
    ax.set_ylim(0, 1.35 * max(float(np.nanmax(values)) for values in heights.values()) + 1e-9)
    ax.legend(ncols=2, fontsize=8)
    return ax


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


def party_frame(
    columns: Mapping[str, NDArray[Any]], names: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return one row per party, by name if there are names."""
    import pandas as pd

    index = range(len(next(iter(columns.values())))) if names is None else list(names)
    return pd.DataFrame(dict(columns), index=pd.Index(index, name="party"))


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    return str(value)
