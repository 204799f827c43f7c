"""What was learned about an unknown graph: the graph, the rule, and how all candidates compare."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.report import Report
from counterplay.strategic.graphs.manipulation_graph import ManipulationGraph
from counterplay.strategic.graphs.moves import Ranking

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, kw_only=True)
class UnknownGraphFit(Report):
    """A learned graph and rule.

    Attributes
    ----------
    graph:
        The learned graph.
    choice:
        Its index (or one index per block of a product class).
    hypothesis:
        Index of the chosen rule, or the fitted estimator.
    loss:
        Strategic error rate of the rule under the learned graph on its sample.
    misses:
        Share of moves that the graph does not contain.
    degree:
        Mean out-degree on the sample.
    certificate:
        With probability ``1 - delta`` the empirical graph loss is at most this (realizable only).
    used_labels:
        Whether the labels took part in choosing the graph.
    ranking:
        Missed moves and degree of every candidate; see :meth:`to_frame`.
    slack:
        Agnostic only: with probability ``1 - delta`` the error is at most
        ``6 k Delta_G + Delta_H + slack`` (worst-case constants; above 1 it says nothing).

    Examples
    --------
    >>> from counterplay.core.finite_class import FiniteClass
    >>> from counterplay.strategic.lab import ExplicitGraphClass, UnknownGraphPACAgnostic
    >>> graphs = ExplicitGraphClass.from_graphs([ManipulationGraph.from_lists([[1], []])])
    >>> rules = FiniteClass.from_matrix([[0, 1], [0, 0]])
    >>> print(UnknownGraphPACAgnostic(rules, graphs).fit([0], [1], [0, 1], [1, 1]).summary()[:41])
    graph 0: misses 0.000 of the moves, mean
    """

    graph: ManipulationGraph
    choice: Any
    hypothesis: Any
    loss: float
    misses: float
    degree: float
    certificate: float
    used_labels: bool
    ranking: Ranking
    slack: float = math.nan

    def summary(self) -> str:
        """The fit as text."""
        text = (
            f"graph {self.choice}: misses {self.misses:.3f} of the moves, mean degree "
            f"{self.degree:.2f}; rule {self.hypothesis} with error {self.loss:.3f}"
        )
        if math.isfinite(self.certificate):
            return text + f"; graph certificate {self.certificate:.3f}"
        k = self.ranking.k
        if math.isfinite(self.slack):
            text += f"; error at most {6 * k} Delta_G + Delta_H + {self.slack:.2f}"
        return text

    def to_frame(self) -> pd.DataFrame:
        """One row per candidate, best score first: share of missed moves, mean degree, score.

        The score is the proxy loss up to a constant that is the same for all candidates.
        """
        import pandas as pd

        r = self.ranking
        order = np.lexsort((r.candidate, r.degree, r.score, r.block))
        frame = pd.DataFrame(
            {
                "block": r.block,
                "candidate": r.candidate,
                "misses": r.misses / r.total,
                "degree": r.degree / r.total,
                "score": r.score / (r.k * r.total),
                "chosen": self._chosen(),
            }
        )
        return frame.iloc[order].reset_index(drop=True)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Missed moves against mean degree: supersets lie low and right, the choice at the knee."""
        from counterplay.core.figures import PALETTE, axes_or_new, figure_style

        frame = self.to_frame()
        others, chosen = frame[~frame["chosen"]], frame[frame["chosen"]]
        with figure_style():
            ax = axes_or_new(ax)
            ax.plot(others["degree"], others["misses"], "o", color=PALETTE[0], ms=4,
                    label="other candidates")  # fmt: skip
            ax.plot(chosen["degree"], chosen["misses"], "s", color=PALETTE[1], ms=8, label="chosen")
            ax.set(xlabel="mean number of moves per person", ylabel="share of moves it misses",
                   title="Which graph explains the moves?")  # fmt: skip
            ax.legend()
        return ax

    def _chosen(self) -> np.ndarray:
        choice = np.atleast_1d(np.asarray(self.choice))
        return np.asarray(choice[self.ranking.block] == self.ranking.candidate)
