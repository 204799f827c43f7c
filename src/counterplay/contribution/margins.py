"""How much of its contribution could each party withhold? Predicted, and measured in training.

A plan may be stable on paper while a running federation rewards free riding, or the reverse. The
margin of a party is the smallest share of its contribution with which it still reaches its target
while everybody else contributes in full: 1 means that it needs all of it, 0 that it needs nothing.
Source: "Planning for a consortium", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from counterplay.contribution.game import CollabGame
from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.validation import FloatArray, check_real
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from counterplay.contribution.defectors.curve import DefectionCurve


@checked
def predicted_margins(game: CollabGame, theta: ArrayLike) -> FloatArray:
    """Share of its contribution that each party needs to reach its target, others in full.

    Use it to see who could free-ride under a plan before anybody has trained anything.

    Parameters
    ----------
    game:
        Any game, for example a coverage game from the parties' histograms.
    theta:
        What everybody contributes now.

    Returns
    -------
    array of shape (k,)
        Best response over contribution. 0 where a party needs nothing, also when it contributes
        nothing; above 1 where even its whole contribution is not enough.

    Notes
    -----
    A plan is stable exactly when no margin is below 1 for a party that contributes anything
    (definition of a stable equilibrium, where all targets are reached).

    Examples
    --------
    >>> from counterplay.contribution import LinearGame
    >>> game = LinearGame([[1.0, 0.5], [0.5, 1.0]], mu=1.0)
    >>> predicted_margins(game, [1.0, 1.0])
    array([0.5, 0.5])

    References
    ----------
    Blum, Haghtalab, Phillips, Shao, One for One, or All for All: Equilibria and Optimality of
    Collaboration in Federated Learning, 2021.
    """
    plan = game.check_theta(theta)
    needed = game.best_response_map(plan)
    margins = np.zeros(plan.size)
    np.divide(needed, plan, out=margins, where=plan > 0)
    margins[(plan == 0) & (needed > 0)] = np.inf
    return margins


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class MarginAudit(Report):
    """Predicted and measured margins of every party, side by side.

    Attributes
    ----------
    predicted:
        Margins that the game predicts (k,).
    measured:
        For each training algorithm the margins found by training (k,); nan for parties that never
        defected in a run.
    level:
        Share of runs in which a defector has to reach its target.

    Examples
    --------
    >>> audit = MarginAudit(np.array([0.5, 0.0]), {"FedAvg": np.array([0.25, 0.05])}, 0.9)
    >>> print(audit.summary())
    FedAvg: party 0 needs 25 % of its data (predicted 50 %), party 1 needs 5 % (predicted 0 %)
    """

    predicted: FloatArray
    measured: dict[str, FloatArray]
    level: float

    def summary(self) -> str:
        """One line per algorithm."""
        lines = []
        for name, margins in self.measured.items():
            parts: list[str] = []
            for i, (found, expected) in enumerate(zip(margins, self.predicted)):
                of = " of its data" if not parts else ""
                if np.isfinite(found):
                    parts.append(
                        f"party {i} needs {found:.0%}{of} (predicted {expected:.0%})".replace(
                            "%", " %"
                        )
                    )
            lines.append(f"{name}: " + ", ".join(parts))
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """One row per party and algorithm."""
        import pandas as pd

        rows = [
            {"algorithm": name, "party": i, "predicted": self.predicted[i], "measured": found}
            for name, margins in self.measured.items()
            for i, found in enumerate(margins)
        ]
        return pd.DataFrame(rows)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Measured against predicted margins; points below the diagonal can withhold more."""
        from counterplay.core.figures import PALETTE, THEORY, axes_or_new

        axes = axes_or_new(ax)
        axes.plot([0, 1], [0, 1], label="as predicted", **THEORY)
        for n, (name, margins) in enumerate(self.measured.items()):
            predicted = np.minimum(self.predicted, 1.0)
            axes.plot(predicted, margins, "os^D"[n % 4], color=PALETTE[n % 7], label=name)
        for i, expected in enumerate(np.minimum(self.predicted, 1.0)):
            axes.annotate(str(i), (expected, -0.04), ha="center", va="top", fontsize=8)
        axes.set(xlabel="share of its data a party needs, predicted (numbers: parties)",
                 ylabel="share it needs in training", xlim=(-0.05, 1.05), ylim=(-0.12, 1.08),
                 title="Who could withhold how much")  # fmt: skip
        axes.legend()
        return axes


@checked
def audit_margins(
    game: CollabGame,
    theta: ArrayLike,
    curves: Sequence[DefectionCurve],
    *,
    level: float = 0.9,
    horizon: int = -1,
) -> MarginAudit:
    """Compare what a game predicts with what defectors get away with in training.

    Use it on a running federation: fit a game to the parties' histograms, measure
    ``defection_curve`` under the protocols you consider, and choose the one that leaves the least
    room, or distrust the game where the two disagree.

    Parameters
    ----------
    game:
        The model of the federation.
    theta:
        Its present contributions.
    curves:
        Results of ``defection_curve``, one per protocol.
    level:
        Share of the runs in which a defector has to reach its target.
    horizon:
        Round at which it counts; the last by default.

    Examples
    --------
    >>> from counterplay.contribution import LinearGame
    >>> from counterplay.contribution import lab
    >>> from counterplay.core.draws import run_keys
    >>> cohort = lab.noisy_digits(run_keys(0, 8), size=300, train=200)
    >>> net, fedavg = lab.DigitsNetwork(), lab.PooledTraining(rounds=30, threshold=0.4)
    >>> start = net.start(cohort.keys)
    >>> curve = lab.defection_curve(fedavg, net, cohort, start, fractions=(1.0, 0.05))
    >>> game = LinearGame(np.full((4, 4), 0.5) + 0.5 * np.eye(4), mu=1.0)
    >>> audit_margins(game, np.full(4, 0.4), [curve]).predicted
    array([1., 1., 1., 1.])

    References
    ----------
    "Planning for a consortium" in docs/theory/04-contribution.md.
    """
    check_real(level, "level", low=0.0, high=1.0)
    predicted = predicted_margins(game, theta)
    measured: dict[str, FloatArray] = {}
    for curve in curves:
        if int(curve.defector.max()) >= predicted.size:
            raise InvalidInputError(
                f"the curve has a defector {int(curve.defector.max())} but the game only "
                f"{predicted.size} parties"
            )
        margins = np.full(predicted.size, np.nan)
        for party in np.unique(curve.defector):
            margins[party] = curve.free_riding_margin(level, horizon, (int(party),))
        measured[curve.algorithm] = margins
    return MarginAudit(predicted, measured, level)
