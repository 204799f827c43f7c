"""Was a departure harmful? Run again with that agent forced to stay and compare.

Source: section on benign and harmful defections, spec 05 section 3.9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from counterplay.defection.history import FLResult
from counterplay.defection.icfo import RunSetting, rerun
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Defection:
    """One departure and what would have happened without it."""

    agent: int
    round: int
    mean_loss_change: float
    """Final mean loss minus what it would have been had the agent stayed."""
    own_loss_change: float
    """The same for the leaver's own loss."""
    harmful: bool
    """Whether some target is missed at the end, and either the mean loss is worse than with the
    agent or the agent's own target is among those missed."""


@dataclass(frozen=True)
class DefectionReport:
    """All departures of a run, each compared with staying.

    Examples
    --------
    See :func:`classify_defections`.

    >>> DefectionReport(()).summary()
    'nobody left'
    """

    defections: tuple[Defection, ...]

    def summary(self) -> str:
        """Return one line per departure."""
        lines = [
            f"agent {d.agent} left in round {d.round}: "
            f"{'harmful' if d.harmful else 'benign'}, mean loss {d.mean_loss_change:+.4g}, "
            f"own loss {d.own_loss_change:+.4g} against staying"
            for d in self.defections
        ]
        return "\n".join(lines) or "nobody left"

    def to_frame(self) -> pd.DataFrame:
        """Return one row per departure."""
        import pandas as pd

        return pd.DataFrame([vars(d) for d in self.defections])


def classify_defections(result: FLResult, tol: float = 1e-9) -> DefectionReport:
    """Say for every departure of a run whether it harmed the final model.

    Use it after ``run_icfo`` to see whose departure mattered.

    Parameters
    ----------
    result : FLResult
        A run of :func:`run_icfo`.
    tol : float
        Change of the mean loss that counts as none.

    Guarantees
    ----------
    The counterfactual is the same run with the same random numbers in which only that agent is
    forced to stay; it agrees with the original up to the departure.

    Examples
    --------
    >>> from counterplay.defection import UniformAggregation, instances, run_icfo
    >>> c = instances.uniform_fails_family(alpha=0.0, eps=0.05)
    >>> run = run_icfo(c.problem, UniformAggregation(), c.w0, c.eps, eta=0.01, rounds=1000)
    >>> [d.harmful for d in classify_defections(run).defections]
    [False, True]

    References
    ----------
    Spec 05 section 3.9.
    """
    if not isinstance(result.setting, RunSetting):
        raise InvalidInputError("classify_defections needs a result of run_icfo")
    found = []
    for agent in np.flatnonzero(result.history.defect_round >= 0).tolist():
        forced = (*result.setting.forced_to_stay, agent)
        other = rerun(result.setting, forced_to_stay=forced)
        change = float(result.loss.mean() - other.loss.mean())
        own_missed = bool(result.loss[agent] > result.history.eps[agent])
        found.append(
            Defection(
                agent,
                int(result.history.defect_round[agent]),
                change,
                float(result.loss[agent] - other.loss[agent]),
                bool((change > tol and result.harmful) or own_missed),
            )
        )
    return DefectionReport(tuple(found))
