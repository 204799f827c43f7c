"""Advice with a safety net: an advised offer, and a stable mechanism that takes over if it is bad.

A public coin gives a share of the rounds to the stable mechanism, the others to the advised offer.
Once the stable rounds are surely better, the mechanism gets all of them. It limits the damage of
bad advice; in the games measured it earned no more than the stable mechanism alone, so it is here
for research. Source: docs/theory/25-offers.md, "Insured advice".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new, figure_style
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, spawn
from counterplay.core.validation import FloatArray, IntArray, check_open_fraction
from counterplay.principal.agents import Agent
from counterplay.principal.betting import running_mean_limits
from counterplay.principal.games import check_states
from counterplay.principal.mechanisms import Mechanism
from counterplay.principal.responses import best_response

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_EVERY = 10  # rounds between two looks at the limits, which hold at every time


@checked(arrays=True)
@dataclass(frozen=True)
class InsuredRun(Report):
    """What happened to insured advice.

    Attributes
    ----------
    arm:
        1 in the rounds of the stable mechanism, 0 in those of the advice.
    values:
        The Principal's utility per round.
    states:
        The states.
    switch:
        Round at which the mechanism got all rounds; None if it never did.
    """

    arm: IntArray
    values: FloatArray
    states: IntArray
    switch: int | None

    @property
    def value(self) -> float:
        """Utility per round: the mean of the two arms, weighted by their rounds."""
        return float(self.values.mean())

    def mean(self, arm: int) -> float:
        """Utility per round of one arm; NaN if it had no round."""
        own = self.values[self.arm == arm]
        return float(own.mean()) if own.size else float("nan")

    def summary(self) -> str:
        """Return both arms and the switch as text."""
        when = "never" if self.switch is None else f"in round {self.switch}"
        return (
            f"{self.values.size} rounds, {self.value:.4f} per round: advice {self.mean(0):.4f}, "
            f"stable mechanism {self.mean(1):.4f}; switched {when}"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per round."""
        import pandas as pd

        return pd.DataFrame({"arm": self.arm, "state": self.states, "value": self.values})

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the running means of the two arms and the switch."""
        with figure_style():
            axes = axes_or_new(ax)
            for arm, name in ((0, "advice"), (1, "stable mechanism")):
                at = np.flatnonzero(self.arm == arm)
                running = np.cumsum(self.values[at]) / np.arange(1, at.size + 1)
                axes.plot(at + 1, running, color=PALETTE[arm], label=name)
            if self.switch is not None:
                axes.axvline(self.switch, color="#444444", linestyle="--", label="switch")
            axes.set_xlabel("round")
            axes.set_ylabel("mean utility so far")
            axes.legend()
        return axes


@checked
def insured(
    mechanism: Mechanism,
    advice: Any,
    agent: Agent,
    states: ArrayLike,
    *,
    share: float = 0.2,
    delta: float = 0.05,
    random_state: RandomState = 0,
) -> InsuredRun:
    """Play an advised policy with a stable mechanism as its safety net.

    Parameters
    ----------
    mechanism:
        The stable mechanism.
    advice:
        The advised policy; the recommendation is the best response to the states seen so far.
    agent:
        The Agent; the advised offer is a context of its own, also if the mechanism offers it, too.
    states:
        The states.
    share:
        Probability that a round belongs to the mechanism.
    delta:
        Error probability of the switch.
    random_state:
        Seed of the coin and of the Agent; they and the states have streams of their own.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.principal import (ContextualSwapAgent, LinearContractGame,
    ...                                    LinearContractOracle, StableMechanism)
    >>> game = LinearContractGame([[0, 0], [0, 1]], [0, 0.25])
    >>> oracle = LinearContractOracle(game, np.linspace(0, 1, 21), horizon=400)
    >>> states = np.random.default_rng(7).integers(0, 2, 400)
    >>> run = insured(StableMechanism(oracle, random_state=0), 0.6, ContextualSwapAgent(), states)
    >>> bool(abs(run.arm.mean() - 0.2) < 0.1)
    True
    """
    game = mechanism.game
    offered = game.check_policy(advice)
    check_open_fraction(share, "share")
    check_open_fraction(delta, "delta")
    y = check_states(states, game.n_states)
    coins, draws = spawn(random_state, 2)
    coin, uniforms = coins.random(y.size) < share, draws.random(y.size)
    policies = (*mechanism.policies, offered)
    mechanism.begin(y.size)
    agent.begin(game, policies, y.size)
    ranges = [_range(game, [offered]), _range(game, mechanism.policies)]
    seen = np.ones(game.n_states)
    arm, values = np.zeros(y.size, dtype=np.int64), np.zeros(y.size)
    switch: int | None = None
    for t in range(y.size):
        arm[t] = int(coin[t] or switch is not None)
        if arm[t]:
            offer = mechanism.act()
            index, advised = offer.policy_index, offer.recommendation
        else:
            index, advised = len(policies) - 1, best_response(game, offered, seen / seen.sum())
        action = agent.act(index, advised, float(uniforms[t]))
        agent.observe(index, advised, action, int(y[t]))
        values[t] = game.principal_utility(policies[index])[action, y[t]]
        if arm[t]:
            mechanism.observe(int(y[t]))
        seen[y[t]] += 1.0
        if switch is None and (t + 1) % _EVERY == 0:
            so_far = values[: t + 1]
            limits = [
                running_mean_limits(so_far[arm[: t + 1] == i], *ranges[i], level=1.0 - delta / 2)
                for i in (0, 1)
            ]
            switch = t + 1 if limits[1][0] > limits[0][1] else None
    return InsuredRun(arm, values, y, switch)


def _range(game: Any, policies: Any) -> tuple[float, float]:
    tables = [game.principal_utility(policy) for policy in policies]
    return min(float(np.nanmin(V)) for V in tables), max(float(np.nanmax(V)) for V in tables)
