"""Was a departure harmful? Play again with that agent forced to stay and compare.

Source: Proposition 5.1, see docs/theory/05-defection.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.defection.transcript import FederationTranscript
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd


@checked
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


@checked
@dataclass(frozen=True)
class DefectionReport(Report):
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


@checked
def classify_defections(transcript: FederationTranscript, tol: float = 1e-9) -> DefectionReport:
    """Say for every departure of a run whether it harmed the final model.

    Use it after ``play`` to see whose departure mattered.

    Parameters
    ----------
    transcript : FederationTranscript
        Of a :class:`FederationGame`.
    tol : float
        Change of the mean loss that counts as none.

    Guarantees
    ----------
    The counterfactual is the same run with the same random numbers in which only that agent is
    forced to stay; it agrees with the original up to the departure.

    Examples
    --------
    >>> from counterplay.defection import FedAvg, FederationGame, Server, instances, play
    >>> c = instances.uniform_fails_family(alpha=0.0, eps=0.05)
    >>> server, game = Server(FedAvg(), c.w0, step_size=0.01), FederationGame(c.problem, c.eps)
    >>> run = play(server, game, rounds=1000)
    >>> [d.harmful for d in classify_defections(run).defections]
    [False, True]

    References
    ----------
    Proposition 5.1, see docs/theory/05-defection.md.
    """
    if transcript.repeat is None:
        raise InvalidInputError("classify_defections needs a transcript of play")
    found = []
    for agent in np.flatnonzero(transcript.defect_round >= 0).tolist():
        other = transcript.repeat([agent])
        change = float(transcript.loss.mean() - other.loss.mean())
        own_missed = bool(transcript.loss[agent] > transcript.eps[agent])
        found.append(
            Defection(
                agent,
                int(transcript.defect_round[agent]),
                change,
                float(transcript.loss[agent] - other.loss[agent]),
                bool((change > tol and transcript.harmful) or own_missed),
            )
        )
    return DefectionReport(tuple(found))
