"""The record of a game: who was there, who left when, what it did to every loss.

Source: docs/theory/05-defection.md, "Setting".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.transcript import Transcript
from counterplay.core.validation import FloatArray, IntArray, check_choice, check_float_array
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Status = Literal["running", "converged", "stalled", "max_rounds", "everybody_left"]


@checked
def in_target(F: ArrayLike, eps: ArrayLike, slack: float = 0.0) -> bool:
    """Return whether every agent is satisfied: ``F_m <= eps_m + slack`` for all ``m``.

    Examples
    --------
    >>> in_target([0.1, 0.2], 0.1), in_target([0.1, 0.2], 0.1, slack=0.1)
    (False, True)
    """
    loss, targets = check_float_array(F, "F"), check_float_array(eps, "eps")
    if targets.ndim and targets.shape != loss.shape:
        raise InvalidInputError(
            f"eps must be one number or have the shape of F {loss.shape}, got {targets.shape}"
        )
    return bool((loss <= targets + slack).all())


@checked
@dataclass(frozen=True, eq=False, repr=False)
class FederationTranscript(Transcript):
    """What happened in a :class:`FederationGame` with ``R`` steps and ``M`` agents.

    Columns, one row per step: ``loss`` before it, ``active`` (who took part), ``predicted`` (whom
    the rule expected to leave), ``case`` (branch of the rule) and ``step_length``.

    Attributes
    ----------
    w : array of shape (d,)
        The final model.
    losses : array of shape (R + 1, M)
        ``F_m(w_r)`` of everybody, also of those who left; the last row is ``loss``.
    eps : array of shape (M,)
        True targets.
    defect_round : int array of shape (M,)
        The round ``r`` in which an agent left, on receiving ``w_{r-1}``; -1 for never.
    workload : int array of shape (M,)
        Rounds in which the agent sent an update.
    status : {"converged", "stalled", "max_rounds", "everybody_left"}
        Why the run ended.
    sigma_min : array of shape (R,)
        Smallest singular value of the active gradients; nan where not logged.
    acc : array of shape (R + 1, M), optional
        Accuracies of every agent, where measured.
    pop_acc : array of shape (R + 1,), optional
        Accuracy for the population, where measured.
    models : array of shape (K, d), optional
        Every k-th model, with ``model_rounds`` telling which.
    repeat : callable
        Plays the game again, with the same random numbers and some agents forced to stay.

    Examples
    --------
    >>> from counterplay.defection import FederationGame, SafeStep, Server, instances, play
    >>> c = instances.uniform_fails_family(alpha=0.0, eps=1 / 16)
    >>> server = Server(SafeStep(1 / 16), c.w0, step_size=0.5)
    >>> print(play(server, FederationGame(c.problem, c.eps)).summary())
    10 rounds, converged; 0 of 2 agents left
    final mean loss 0.1562; worst agent 0 at 0.1875 for a target of 0.0625

    References
    ----------
    Algorithm 5.1 in docs/theory/05-defection.md.
    """

    w: FloatArray = field(default_factory=lambda: np.zeros(0))
    losses: FloatArray = field(default_factory=lambda: np.zeros((1, 0)))
    eps: FloatArray = field(default_factory=lambda: np.zeros(0))
    defect_round: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    workload: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    status: Status = "max_rounds"
    sigma_min: FloatArray = field(default_factory=lambda: np.zeros(0))
    acc: FloatArray | None = None
    pop_acc: FloatArray | None = None
    models: FloatArray | None = None
    model_rounds: IntArray | None = None
    repeat: Callable[[Sequence[int]], FederationTranscript] | None = None

    def __repr__(self) -> str:
        return f"FederationTranscript({self.status}, {len(self)} rounds, {self.n_defections} left)"

    @property
    def loss(self) -> FloatArray:
        """Final loss of every agent."""
        return np.asarray(self.losses[-1])

    @property
    def n_defections(self) -> int:
        """Number of agents that left."""
        return int((self.defect_round >= 0).sum())

    @property
    def harmful(self) -> bool:
        """Whether the final model fails somebody's true target, ``w_R`` outside ``S*``."""
        return self.harmful_relaxed(0.0)

    def harmful_relaxed(self, slack: float) -> bool:
        """Whether the final model is outside the relaxed target ``S*(slack)``."""
        return not in_target(self.loss, self.eps, slack)

    @property
    def peak_vs_final(self) -> tuple[float, float]:
        """Best and final average over all agents: of accuracy, or of loss where not measured."""
        if self.acc is not None:
            means = self.acc.mean(axis=1)
            return float(means.max()), float(means[-1])
        means = self.losses.mean(axis=1)
        return float(means.min()), float(means[-1])

    @property
    def disparity(self) -> float:
        """Largest difference between two agents at the end, in accuracy or in loss."""
        final = self.loss if self.acc is None else self.acc[-1]
        return float(final.max() - final.min())

    @property
    def extra_workload(self) -> IntArray:
        """Rounds each agent worked more than the agent who worked least."""
        return np.asarray(self.workload - self.workload.min())

    def to_frame(self, by: Literal["round", "agent"] = "round") -> pd.DataFrame:
        """Return one row per round and agent, or one per agent with its final loss."""
        import pandas as pd

        check_choice(by, "by", ("round", "agent"))
        R, M = self.losses.shape
        if by == "agent":
            return pd.DataFrame(
                {
                    "agent": np.arange(M),
                    "eps": self.eps,
                    "loss": self.loss,
                    "excess": self.loss - self.eps,
                    "left_in_round": self.defect_round,
                    "workload": self.workload,
                }
            )
        nobody = np.zeros((R - len(self), M), dtype=bool)
        columns: dict[str, Any] = {
            "round": np.repeat(np.arange(R), M),
            "agent": np.tile(np.arange(M), R),
            "loss": self.losses.ravel(),
            "excess": (self.losses - self.eps).ravel(),
            "active": np.vstack([self["active"], nobody]).ravel(),
            "predicted": np.vstack([self["predicted"], nobody]).ravel(),
        }
        if self.acc is not None:
            columns["accuracy"] = self.acc.ravel()
        return pd.DataFrame(columns)

    def summary(self) -> str:
        """Return the outcome in a few lines."""
        leavers = [
            f"agent {m} in round {r}" for m, r in enumerate(self.defect_round.tolist()) if r >= 0
        ]
        worst = int((self.loss - self.eps).argmax())
        shown = ": " + ", ".join(leavers[:8]) + (" ..." if len(leavers) > 8 else "")
        return "\n".join(
            [
                f"{len(self)} rounds, {self.status}; {self.n_defections} of {len(self.eps)} agents "
                f"left" + (shown if leavers else ""),
                f"final mean loss {self.loss.mean():.4g}; worst agent {worst} at "
                f"{self.loss[worst]:.4g} for a target of {self.eps[worst]:.4g}",
            ]
        )

    def plot(self, ax: Axes | None = None, *, delta: float | None = None) -> Axes:
        """Draw the distance of every loss to its target; with ``delta``, the sandwich lines."""
        from counterplay.core.figures import PALETTE, THEORY, axes_or_new

        ax = axes_or_new(ax)
        for m in range(len(self.eps)):
            colour = PALETTE[m % len(PALETTE)]
            ax.plot(self.losses[:, m] - self.eps[m], color=colour, lw=1.3, label=f"agent {m}")
            left = int(self.defect_round[m])
            if left >= 0:
                ax.axvline(left - 1, color=colour, ls=":", lw=1.0)
        lines = (0.0,) if delta is None else (0.0, delta, 2.0 * delta)
        for height in lines:
            ax.axhline(height, **THEORY)
        ax.set_yscale("symlog", linthresh=0.1 if delta is None else 4.0 * delta)
        ax.set(xlabel="round", ylabel="loss minus target, F_m - eps_m")
        if len(self.eps) <= 8:
            ax.legend(fontsize=8)
        return ax
