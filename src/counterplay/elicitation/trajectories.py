"""Weighted trajectory sets: a policy shown as a few real trajectories with exact weights.

At most k+1 trajectories, each possible under the policy, whose weighted return equals the value
of the policy in every objective. People can read them; nothing is lost.
Source: docs/theory/08-elicitation.md, "Theorem 8.3: expand and compress".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new, figure_style
from counterplay.core.report import Report
from counterplay.core.validation import FloatArray, check_fraction
from counterplay.elicitation.compress import compress
from counterplay.elicitation.mdp import MultiObjectiveMDP, require_do_nothing
from counterplay.elicitation.policies import PolicyMixture, check_policy, policy_value
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class WeightedTrajectorySet(Report):
    """Trajectories with weights whose mean return is the value of a policy.

    Parameters
    ----------
    states:
        Integers (kappa, H+1).
    actions:
        Integers (kappa, H).
    weights:
        Positive weights (kappa,) that sum to 1.
    returns:
        Return vectors (kappa, k): the sum of the rewards along each trajectory.
    mdp:
        The process, for names and units.

    Examples
    --------
    >>> from counterplay.elicitation import expand_and_compress, instances, plan
    >>> mdp = instances.rare_crash(crash_probability=1e-9)
    >>> policy = plan(mdp, [[1.0, 1.0, 1.0, 0.0]]).policies[0]
    >>> trajectories = expand_and_compress(mdp, policy)
    >>> crash = trajectories.returns[:, -1] > 0
    >>> len(trajectories), f"{float(trajectories.weights[crash].sum()):.3g}"
    (5, '1.9e-08')
    """

    states: NDArray[np.int32]
    actions: NDArray[np.int32]
    weights: FloatArray
    returns: FloatArray
    mdp: MultiObjectiveMDP

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def value(self) -> FloatArray:
        """Weighted return: the value of the policy."""
        return np.asarray(self.weights @ self.returns)

    def describe(
        self,
        state_names: Sequence[str] | None = None,
        objective_names: Sequence[str] | None = None,
        *,
        max_steps: int = 12,
    ) -> str:
        """Return one line per trajectory: probability, route, what it yields in original units."""
        objectives = tuple(objective_names or self.mdp.objective_names)
        names = state_names if state_names is not None else self.mdp.state_names
        lines = []
        for i in np.argsort(-self.weights, kind="stable"):
            gains = self.mdp.original_value(self.returns[i])
            told = ", ".join(f"{name} {gain:.4g}" for name, gain in zip(objectives, gains))
            route = _route(self.states[i], names, max_steps)
            lines.append(f"{_percent(float(self.weights[i]))}: {route} ({told})")
        return "\n".join(lines)

    def summary(self) -> str:
        """Return the description with a headline."""
        head = f"{len(self)} trajectories whose weighted return is the value of the policy"
        return f"{head}\n{self.describe()}"

    def to_frame(self) -> pd.DataFrame:
        """Return one row per trajectory: weight, returns in original units, states."""
        import pandas as pd

        frame = pd.DataFrame(
            self.mdp.original_value(self.returns), columns=list(self.mdp.objective_names)
        )
        frame.insert(0, "weight", self.weights)
        frame["states"] = [row.tolist() for row in self.states]
        return frame.sort_values("weight", ascending=False, ignore_index=True)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw, per objective, how the weighted returns add up to the value of the policy."""
        with figure_style():
            axes = axes_or_new(ax)
            positions = np.arange(self.returns.shape[1])
            base = np.zeros(len(positions))
            for rank, i in enumerate(np.argsort(-self.weights, kind="stable")):
                part = self.weights[i] * self.returns[i]
                axes.bar(
                    positions,
                    part,
                    bottom=base,
                    color=PALETTE[rank % len(PALETTE)],
                    label=f"{_percent(float(self.weights[i]))}",
                    width=0.6,
                )
                base += part
            axes.set_xticks(positions, list(self.mdp.objective_names))
            axes.set_ylabel("weighted return (normalised)")
            axes.legend(title="trajectory", fontsize=8)
        return axes

    def diluted(self, chance: float) -> WeightedTrajectorySet:
        """Return the set of "this policy with probability ``chance``, otherwise do nothing".

        The result again has at most k+1 trajectories; this costs one small compression.
        """
        probability = check_fraction(chance, "chance")
        if probability == 1.0:
            return self
        nothing = idle_trajectory(self.mdp)
        return combine([self, nothing], [probability, 1.0 - probability])

    def check(self, policy: ArrayLike | PolicyMixture) -> None:
        """Raise unless the set is valid for ``policy``: size, support, weights and exact value."""
        k = self.mdp.n_objectives
        if len(self) > k + 1:
            raise InvalidInputError(f"{len(self)} trajectories are more than k+1 = {k + 1}")
        if (self.weights < 0).any() or abs(self.weights.sum() - 1.0) > 1e-10:
            raise InvalidInputError("the weights are no probability distribution")
        value = policy_value(self.mdp, policy)
        gap = np.abs(self.value - value) / np.where(np.abs(value) > 0, np.abs(value), 1.0)
        if gap.max() > 1e-10:
            raise InvalidInputError(f"the weighted return misses the value by {gap.max():.3g}")
        parts = policy.policies if isinstance(policy, PolicyMixture) else (policy,)
        possible = np.any([support(self, part) for part in parts], axis=0)
        if not possible.all():
            raise InvalidInputError(
                f"trajectory {int(np.flatnonzero(~possible)[0])} is impossible under the policy"
            )


def support(trajectories: WeightedTrajectorySet, policy: ArrayLike) -> NDArray[np.bool_]:
    """Return which trajectories have positive probability under the policy."""
    mdp = trajectories.mdp
    checked = check_policy(mdp, policy)
    possible = trajectories.states[:, 0] == mdp.s0
    for t in range(mdp.H):
        state, action = trajectories.states[:, t], trajectories.actions[:, t]
        if checked.ndim == 2:
            possible &= checked[t, state] == action
        else:
            possible &= checked[t, state, action] > 0
        rows = mdp.P[state.astype(np.int64) * mdp.n_actions + action]
        arrival = rows[np.arange(len(state)), trajectories.states[:, t + 1]]
        possible &= np.asarray(arrival > 0).ravel()
    return np.asarray(possible)


def trajectory_returns(
    mdp: MultiObjectiveMDP, states: NDArray[Any], actions: NDArray[Any]
) -> FloatArray:
    """Return the sum of rewards along each trajectory."""
    return np.asarray(mdp.R[states[:, :-1], actions].sum(axis=1))


def idle_trajectory(mdp: MultiObjectiveMDP) -> WeightedTrajectorySet:
    """Return the set with the single trajectory that does nothing."""
    action = require_do_nothing(mdp)
    return WeightedTrajectorySet(
        np.full((1, mdp.H + 1), mdp.s0, dtype=np.int32),
        np.full((1, mdp.H), action, dtype=np.int32),
        np.ones(1),
        np.zeros((1, mdp.n_objectives)),
        mdp,
    )


def combine(
    parts: Sequence[WeightedTrajectorySet], probabilities: Sequence[float]
) -> WeightedTrajectorySet:
    """Return the set of a mixture: draw a part, then one of its trajectories; at most k+1."""
    weights = np.concatenate([p * part.weights for p, part in zip(probabilities, parts)])
    returns = np.concatenate([part.returns for part in parts])
    kept = compress(returns, weights)
    return WeightedTrajectorySet(
        np.concatenate([part.states for part in parts])[kept.indices],
        np.concatenate([part.actions for part in parts])[kept.indices],
        kept.weights,
        returns[kept.indices],
        parts[0].mdp,
    )


def _percent(weight: float) -> str:
    if weight >= 0.01:
        return f"{100 * weight:.3g} %"
    return f"{weight:.2e}" if weight < 1e-5 else f"{100 * weight:.2g} %"


def _route(states: NDArray[Any], names: Sequence[str] | None, max_steps: int) -> str:
    """States in order, repetitions collapsed, shortened in the middle."""
    steps: list[list[Any]] = []
    for state in states.tolist():
        if steps and steps[-1][0] == state:
            steps[-1][1] += 1
        else:
            steps.append([state, 1])
    words = [
        (str(names[s]) if names is not None else str(s)) + (f" ({n} times)" if n > 2 else "")
        for s, n in steps
    ]
    if len(words) > max_steps:
        half = max_steps // 2
        words = [*words[:half], f"... {len(words) - 2 * half} more ...", *words[-half:]]
    return " > ".join(words)
