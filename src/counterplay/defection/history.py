"""The record of a run: who was there, who left when, what it did to every loss.

Source: spec 05 sections 2.2 and 2.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.transcript import Transcript
from counterplay.core.validation import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Status = Literal["converged", "stalled", "max_rounds", "everybody_left"]


def in_target(F: ArrayLike, eps: ArrayLike, slack: float = 0.0) -> bool:
    """Return whether every agent is satisfied: ``F_m <= eps_m + slack`` for all ``m``.

    Examples
    --------
    >>> in_target([0.1, 0.2], 0.1), in_target([0.1, 0.2], 0.1, slack=0.1)
    (False, True)

    References
    ----------
    Spec 05 section 2.2: the target set ``S*`` and its relaxation ``S*(slack)``.
    """
    return bool((np.asarray(F) <= np.asarray(eps) + slack).all())


@dataclass(frozen=True, eq=False, repr=False)
class FLHistory:
    """Round-by-round record of a run with ``R`` steps and ``M`` agents.

    Read it from ``result.history``; ``to_frame`` gives one row per round and agent.

    Attributes
    ----------
    loss : array of shape (R + 1, M)
        ``F_m(w_r)`` of everybody, also of those who left.
    eps : array of shape (M,)
        True targets.
    active : bool array of shape (R, M)
        Who took part in step ``r + 1``.
    defect_round : int array of shape (M,)
        The round ``r`` in which an agent left, on receiving ``w_{r-1}``; -1 for never.
    case : int array of shape (R,)
        Branch of the rule (ADA-GD: 1 or 2).
    D : bool array of shape (R, M)
        Agents predicted to leave.
    update_norm : array of shape (R,)
        Length of every step.
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
    w : array of shape (K, d), optional
        Every k-th model, with ``w_rounds`` telling which.

    Examples
    --------
    >>> from counterplay.defection import UniformAggregation, instances, run_icfo
    >>> c = instances.benign_example()
    >>> run = run_icfo(c.problem, UniformAggregation(), c.w0, c.eps, eta=0.5)
    >>> run.history.defect_round.tolist()
    [6, 4]

    References
    ----------
    Spec 05 section 2.4.
    """

    loss: FloatArray
    eps: FloatArray
    active: BoolArray
    defect_round: IntArray
    case: IntArray
    D: BoolArray
    update_norm: FloatArray
    workload: IntArray
    status: Status
    sigma_min: FloatArray
    acc: FloatArray | None = None
    pop_acc: FloatArray | None = None
    w: FloatArray | None = None
    w_rounds: IntArray | None = None

    @property
    def rounds(self) -> int:
        """Number of steps made."""
        return len(self.active)

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
        return not in_target(self.loss[-1], self.eps, slack)

    @property
    def peak_vs_final(self) -> tuple[float, float]:
        """Best and final average over all agents: of accuracy, or of loss where not measured."""
        if self.acc is not None:
            means = self.acc.mean(axis=1)
            return float(means.max()), float(means[-1])
        means = self.loss.mean(axis=1)
        return float(means.min()), float(means[-1])

    @property
    def disparity(self) -> float:
        """Largest difference between two agents at the end, in accuracy or in loss."""
        final = self.loss[-1] if self.acc is None else self.acc[-1]
        return float(final.max() - final.min())

    @property
    def extra_workload(self) -> IntArray:
        """Rounds each agent worked more than the agent who worked least."""
        return np.asarray(self.workload - self.workload.min())

    def to_frame(self) -> pd.DataFrame:
        """Return one row per round and agent: loss, distance to the target, active, predicted."""
        import pandas as pd

        R, M = self.loss.shape
        rounds = np.repeat(np.arange(R), M)
        columns: dict[str, Any] = {
            "round": rounds,
            "agent": np.tile(np.arange(M), R),
            "loss": self.loss.ravel(),
            "excess": (self.loss - self.eps).ravel(),
            "active": np.vstack([self.active, np.zeros((1, M), dtype=bool)]).ravel(),
            "predicted": np.vstack([self.D, np.zeros((1, M), dtype=bool)]).ravel(),
        }
        if self.acc is not None:
            columns["accuracy"] = self.acc.ravel()
        return pd.DataFrame(columns)

    to_dataframe = to_frame

    def transcript(self, **meta: Any) -> Transcript:
        """Return one row per step: losses before it, who took part, who was predicted to leave."""
        columns = {
            "loss": self.loss[:-1],
            "active": self.active,
            "predicted": self.D,
            "case": self.case,
            "step_length": self.update_norm,
        }
        facts = {"status": self.status, "left in round": self.defect_round.tolist()}
        return Transcript(columns, {**meta, **facts})

    def __repr__(self) -> str:
        return f"FLHistory({self.status}, rounds={self.rounds}, defections={self.n_defections})"

    def summary(self) -> str:
        """Return the outcome in a few lines."""
        leavers = [
            f"agent {m} in round {r}" for m, r in enumerate(self.defect_round.tolist()) if r >= 0
        ]
        worst = int((self.loss[-1] - self.eps).argmax())
        return "\n".join(
            [
                f"{self.rounds} rounds, {self.status}; "
                f"{self.n_defections} of {len(self.eps)} agents left"
                + (": " + ", ".join(leavers[:8]) + (" ..." if len(leavers) > 8 else ""))
                * bool(leavers),
                f"final mean loss {self.loss[-1].mean():.4g}; worst agent {worst} at "
                f"{self.loss[-1, worst]:.4g} for a target of {self.eps[worst]:.4g}",
            ]
        )

    def plot(self, ax: Axes | None = None, *, delta: float | None = None) -> Axes:
        """Draw the distance of every loss to its target; with ``delta``, the sandwich lines."""
        from counterplay.core.figures import PALETTE, THEORY, axes_or_new

        ax = axes_or_new(ax)
        for m in range(len(self.eps)):
            colour = PALETTE[m % len(PALETTE)]
            ax.plot(self.loss[:, m] - self.eps[m], color=colour, lw=1.3, label=f"agent {m}")
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


@dataclass(frozen=True, eq=False, repr=False)
class FLResult:
    """The final model of a run and its record.

    Attributes
    ----------
    w : array of shape (d,)
        The final model.
    history : FLHistory
        Who left when and what it did.
    setting : RunSetting, optional
        What is needed to run again, with changes (see ``classify_defections``).

    Examples
    --------
    >>> from counterplay.defection import SafeStep, instances, run_icfo
    >>> c = instances.uniform_fails_family(alpha=0.0, eps=1 / 16)
    >>> result = run_icfo(c.problem, SafeStep(1 / 16), c.w0, c.eps, eta=0.5)
    >>> print(result.summary())
    10 rounds, converged; 0 of 2 agents left
    final mean loss 0.1562; worst agent 0 at 0.1875 for a target of 0.0625

    References
    ----------
    Spec 05 sections 2.4 and 3.1.
    """

    w: FloatArray
    history: FLHistory
    setting: Any = None

    @property
    def status(self) -> Status:
        """Why the run ended."""
        return self.history.status

    @property
    def loss(self) -> FloatArray:
        """Final loss of every agent."""
        return np.asarray(self.history.loss[-1])

    @property
    def harmful(self) -> bool:
        """Whether somebody's true target is missed."""
        return self.history.harmful

    def summary(self) -> str:
        """Return the outcome in a few lines."""
        return self.history.summary()

    def to_frame(self) -> pd.DataFrame:
        """Return one row per agent: target, final loss, round of departure, workload."""
        import pandas as pd

        h = self.history
        return pd.DataFrame(
            {
                "agent": np.arange(len(h.eps)),
                "eps": h.eps,
                "loss": h.loss[-1],
                "excess": h.loss[-1] - h.eps,
                "left_in_round": h.defect_round,
                "workload": h.workload,
            }
        )

    def plot(self, ax: Axes | None = None, *, delta: float | None = None) -> Axes:
        """Draw the distance of every loss to its target over the rounds."""
        return self.history.plot(ax, delta=delta)

    def __repr__(self) -> str:
        h = self.history
        return f"FLResult({h.status}, rounds={h.rounds}, defections={h.n_defections})"
