"""How far could one party defect unnoticed? Success of a lone defector, by contribution level.

For every share of its data that a random party keeps, the whole federation is trained many times
and we record whether the defector still reaches its target. Under federated averaging it usually
does.
Source: "The experiment of the chapter", see docs/theory/04-contribution.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterplay.contribution.defectors.cohort import Cohort
from counterplay.contribution.defectors.rounds import PooledTraining, placed
from counterplay.core.arguments import checked
from counterplay.core.draws import fold, uniforms
from counterplay.core.report import Report
from counterplay.core.validation import check_positive_int
from counterplay.errors import InvalidInputError
from counterplay.federated.arrays import Array
from counterplay.federated.objective import Objective

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_WHO = 401
FRACTIONS = (1.0, 0.9, 0.75, 0.5, 0.25, 0.05, 0.01)


@checked(arrays=True)
@dataclass(frozen=True, repr=False)
class DefectionCurve(Report):
    """Fate of the defector in every run, share and round.

    ``at`` and ``by`` are ``(F, R, T+1)``: satisfied at a round, and at some round up to it;
    ``accuracy`` the defector's accuracy; ``defector`` ``(R,)`` who it was; ``drawn`` ``(F, R, k)``
    how many points every party contributed in total.
    """

    algorithm: str
    fractions: tuple[float, ...]
    defector: NDArray[np.int64]
    accuracy: NDArray[np.float64]
    at: NDArray[np.bool_]
    by: NDArray[np.bool_]
    drawn: NDArray[np.int64]

    def __repr__(self) -> str:
        shares = ", ".join(f"{f:g}" for f in self.fractions)
        return f"DefectionCurve({self.algorithm}, {len(self.defector)} runs, shares {shares})"

    def successes(
        self, horizon: int = -1, kind: Literal["at", "by"] = "at", parties: Sequence[int] = ()
    ) -> tuple[NDArray[np.int64], int]:
        """Return satisfied defectors per share at a round, and the number of runs counted."""
        table = self.at if kind == "at" else self.by
        chosen = (
            np.isin(self.defector, parties) if len(parties) else np.ones(len(self.defector), bool)
        )
        if not chosen.any():
            raise InvalidInputError(f"no run has a defector among {list(parties)}")
        return table[:, chosen, horizon].sum(axis=1), int(chosen.sum())

    def rate(
        self, horizon: int = -1, kind: Literal["at", "by"] = "at", parties: Sequence[int] = ()
    ) -> NDArray[np.float64]:
        """Return the success rate per share at a round."""
        count, n = self.successes(horizon, kind, parties)
        return count / n

    def summary(self) -> str:
        """Return the success rate of a defector at the last round, by share of its data."""
        rates = zip(self.fractions, self.rate())
        return f"{self.algorithm}: " + ", ".join(
            f"{rate:.0%} of defectors with {share:.0%} of their data succeed"
            for share, rate in rates
        )

    def to_frame(self, horizon: int = -1) -> pd.DataFrame:
        """Return one row per share: success rates with exact 95 % intervals."""
        import pandas as pd

        from counterplay.core.stats import clopper_pearson

        rows = []
        kinds: tuple[Literal["at", "by"], ...] = ("at", "by")
        for kind in kinds:
            count, n = self.successes(horizon, kind)
            for fraction, successes in zip(self.fractions, count):
                interval = clopper_pearson(int(successes), n)
                rows.append(
                    {
                        "algorithm": self.algorithm,
                        "fraction": fraction,
                        "kind": kind,
                        "rate": interval.estimate,
                        "low": interval.low,
                        "high": interval.high,
                        "runs": n,
                    }
                )
        return pd.DataFrame(rows)

    def free_riding_margin(
        self, level: float = 0.9, horizon: int = -1, parties: Sequence[int] = ()
    ) -> float:
        """Return the smallest measured share with at least this success rate (1 if none).

        With ``parties`` only runs with a defector among them count: ``parties=(2,)`` is the margin
        of party 2.
        """
        rates = self.rate(horizon, "at", parties)
        return min((f for f, rate in zip(self.fractions, rates) if rate >= level), default=1.0)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the share of satisfied defectors over the rounds, one line per contribution."""
        from counterplay.core.figures import PALETTE, axes_or_new

        axes = axes_or_new(ax)
        for f, fraction in enumerate(self.fractions):
            axes.plot(self.at[f].mean(axis=0), color=PALETTE[f % 7], label=f"{fraction:g}")
        axes.set(xlabel="round", ylabel="share of satisfied defectors", title=self.algorithm)
        axes.set_ylim(-0.02, 1.02)
        axes.legend(title="keeps")
        return axes


@checked
def defection_curve(
    training: PooledTraining,
    objective: Objective,
    cohort: Cohort,
    start: Array,
    *,
    fractions: Sequence[float] = FRACTIONS,
    defector: Sequence[int] | None = None,
    chunk: int = 50,
) -> DefectionCurve:
    """Train the federation once per run and share, with one defector per run.

    Parameters
    ----------
    training:
        How the parties train together; its ``rounds`` are the horizon.
    objective:
        The model: :class:`DigitsNetwork`, ``torch_objective(module)`` or your own.
    cohort:
        The parties' data; one run per entry.
    start:
        Initial parameters of every run, ``(R, d)``.
    fractions:
        Shares of its training points that the defector keeps; subsets are nested.
    defector:
        Which party defects in each run; drawn uniformly from the run's key by default, so that
        two rules on the same cohort are compared on the same defectors.
    chunk:
        Runs that are trained together; bounds the memory.

    Notes
    -----
    Everybody else keeps all data. Seeds are paired: the same run draws the same minibatches under
    every algorithm and share as long as loads agree.

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), Fig. 2.

    Examples
    --------
    >>> from counterplay.contribution.lab import DigitsNetwork, PooledTraining, noisy_digits
    >>> from counterplay.core.draws import run_keys
    >>> cohort, net = noisy_digits(run_keys(0, 4), size=300, train=200), DigitsNetwork()
    >>> training = PooledTraining(rounds=40, threshold=0.5)
    >>> start = net.start(cohort.keys)
    >>> defection_curve(training, net, cohort, start, fractions=(1.0, 0.05)).at.shape
    (2, 4, 41)
    """
    check_positive_int(chunk, "chunk")
    start = placed(objective, start, cohort.runs)
    who = default_defectors(cohort) if defector is None else np.asarray(defector)
    if who.dtype.kind not in "iu":
        raise InvalidInputError("defector must be numbers of parties")
    if who.shape != (cohort.runs,):
        raise InvalidInputError(f"defector must name one party for each of {cohort.runs} runs")
    shares = tuple(float(f) for f in fractions)
    if not shares:
        raise InvalidInputError("fractions needs at least one share")
    columns: list[list[NDArray[Any]]] = [[], [], [], []]
    for fraction in shares:
        changed = cohort.defect(who, fraction)
        parts = [
            _train_part(training, objective, changed, start, who, slice(first, first + chunk))
            for first in range(0, cohort.runs, chunk)
        ]
        for target, column in zip(columns, zip(*parts)):
            target.append(np.concatenate(column))
    accuracy, at, by, drawn = (np.stack(column) for column in columns)
    name = type(training.rule).__name__
    return DefectionCurve(name, shares, who, accuracy, at, by, drawn)


@checked
def default_defectors(cohort: Cohort) -> NDArray[np.int64]:
    """Return one uniformly random party per run, from the run's key."""
    draw = uniforms(fold(cohort.keys, _WHO), 1)[:, 0]
    return np.asarray(draw * cohort.parties, dtype=np.int64)


def _train_part(
    training: PooledTraining,
    objective: Objective,
    cohort: Cohort,
    start: Array,
    who: NDArray[np.int64],
    part: slice,
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], NDArray[np.int64]]:
    index = np.arange(cohort.runs)[part]
    history = training.fit(objective, cohort.take(index), start[part])
    rows = np.arange(len(index))
    mine = who[part]
    return (
        history.accuracy[rows, :, mine],
        history.satisfied[rows, :, mine],
        history.satisfied_by()[rows, :, mine],
        history.drawn.sum(axis=1),
    )
