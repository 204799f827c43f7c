"""The last broadcast: one certified step into everybody's target at once.

A rule that loses nobody ends with every loss above its target, because an agent that is satisfied
leaves. If all targets are reached in the same step, everybody leaves satisfied and nothing is lost.
Source: Proposition 5.G in docs/theory/05-defection.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.validation import FloatArray, check_real
from counterplay.defection.agents import check_eps
from counterplay.defection.problem import FederatedProblem
from counterplay.errors import InvalidInputError
from counterplay.federated.landing import landing_step
from counterplay.federated.reports import Reports
from counterplay.federated.stack import NumpyStack

if TYPE_CHECKING:
    import pandas as pd


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class Landing(Report):
    """Outcome of an attempt to land.

    Attributes
    ----------
    certified : bool
        Whether smoothness guarantees ``F_m(w) <= eps_m`` for every agent.
    w : array of shape (d,)
        The landed model, or the model given when landing was refused.
    loss : array of shape (M,)
        Losses at ``w``.
    eps : array of shape (M,)
        Targets.
    reason : str
        Why landing was refused, or the size of the step.

    Examples
    --------
    See :func:`land`.

    >>> Landing(False, np.zeros(1), np.ones(1), np.zeros(1), "no root").certified
    False
    """

    certified: bool
    w: FloatArray
    loss: FloatArray
    eps: FloatArray
    reason: str

    def summary(self) -> str:
        """Return the outcome in one line."""
        worst = float((self.loss - self.eps).max())
        word = "landed" if self.certified else "not landed"
        return f"{word}: {self.reason}; worst excess over a target {worst:.3g}"

    def to_frame(self) -> pd.DataFrame:
        """Return one row per agent."""
        import pandas as pd

        return pd.DataFrame({"agent": np.arange(len(self.eps)), "eps": self.eps, "loss": self.loss})


@checked
def land(
    problem: FederatedProblem, w: ArrayLike, eps: ArrayLike, H: float | None = None
) -> Landing:
    """Take one last step to every party's target, if that can be certified.

    Use it after ``ADAGD`` or ``SafeStep`` to hand everybody a model within its target.

    Parameters
    ----------
    problem : FederatedProblem
        Losses and gradients.
    w : array of shape (d,)
        Final model of a protected run.
    eps : float or array of shape (M,)
        Targets.
    H : float, optional
        Smoothness constant; default ``problem.H``.

    Guarantees
    ----------
    When ``certified``, every loss is at most its target. Always certified if every excess is at
    most ``2 delta`` with ``delta <= bounds.landing_margin(M, H, sigma)``. Otherwise the model is
    returned unchanged.

    Examples
    --------
    >>> from counterplay.defection import FederationGame, SafeStep, Server, instances, play
    >>> c = instances.random_overparameterised(delta=1e-3, random_state=0)
    >>> server = Server(SafeStep(1e-3), c.w0, step_size=1 / c.problem.H)
    >>> run = play(server, FederationGame(c.problem, c.eps))
    >>> landing = land(c.problem, run.w, c.eps)
    >>> landing.certified, bool((landing.loss <= c.eps).all())
    (True, True)

    References
    ----------
    Proposition 5.G in docs/theory/05-defection.md.
    """
    point = problem.check_point(w)
    targets = check_eps(eps, problem.n_agents)
    smooth = problem.H if H is None else check_real(H, "H", low=0.0, open_low=True)
    if smooth is None:
        raise InvalidInputError("land needs the smoothness constant H of the losses")
    F, G = problem.losses(point), problem.gradients(point)
    step, reason = landing_step(Reports(F, NumpyStack(G), targets), smooth)
    if step is None:
        return Landing(False, point, F, targets, reason)
    landed = point + step
    return Landing(True, landed, problem.losses(landed), targets, reason)
