"""Today's contract or disclosure rule from the history of states, in one call.

The mechanism is run over the past, its next forecast is today's, and the stable policy for it is
the answer. The regret so far is measured against a modelled Agent, because a log of states cannot
show how he would have reacted to other policies.
Source: Theorems 7.3 and 7.4, see docs/theory/07-principal.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new, figure_style
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState
from counterplay.core.validation import FloatArray
from counterplay.principal.agents import Agent, ContextualSwapAgent
from counterplay.principal.finite_oracle import FiniteStableOracle
from counterplay.principal.games import LinearContractGame, PrincipalAgentGame, check_states
from counterplay.principal.linear_contracts import LinearContractOracle
from counterplay.principal.mechanisms import StableMechanism
from counterplay.principal.obedience import disclosure_library, positive_margin
from counterplay.principal.persuasion import DisclosureGame, PersuasionGame
from counterplay.principal.persuasion_oracle import PersuasionOracle
from counterplay.principal.repeated_contract import RepeatedContract
from counterplay.principal.responses import is_stable
from counterplay.principal.rules import PolicyRule
from counterplay.principal.transcript import ContractTranscript

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@checked(arrays=True)
@dataclass(frozen=True)
class Design(Report):
    """Today's policy, and how the mechanism has done so far.

    Attributes
    ----------
    game:
        The stage game.
    policy:
        What to offer today.
    recommendation:
        Which action to recommend with it.
    forecast:
        The forecast behind it.
    stable:
        Whether the policy is stable under the forecast with the oracle's margins.
    transcript:
        The game so far against the modelled Agent, with the regret against every fixed policy.
    """

    game: PrincipalAgentGame
    policy: Any
    recommendation: int
    forecast: FloatArray
    stable: bool
    transcript: ContractTranscript = field(repr=False)

    def to_frame(self) -> pd.DataFrame:
        """Return the regret so far against every fixed policy."""
        import pandas as pd

        labels = [self.game.policy_label(policy) for policy in self.transcript.benchmark]
        return pd.DataFrame(
            {
                "policy": labels,
                "value": self.transcript.benchmark_values.mean(axis=0),
                "regret": self.transcript.regrets,
            }
        )

    def summary(self) -> str:
        """Return today's policy and the regret so far as text."""
        forecast = ", ".join(f"{p:.3f}" for p in self.forecast)
        return "\n".join(
            [
                f"today: offer {self.game.policy_label(self.policy)}, recommend "
                f"{self.game.action_label(self.policy, self.recommendation)}"
                f" ({'stable' if self.stable else 'NOT stable'})",
                f"forecast of the state: ({forecast})",
                f"so far ({len(self.transcript)} rounds): {self.transcript.policy_regret:+.4f} per "
                "round against the best fixed policy",
            ]
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the running regret against every fixed policy."""
        with figure_style():
            axes = axes_or_new(ax)
            log = self.transcript
            rounds = np.arange(1, len(log) + 1)
            running = np.cumsum(log.benchmark_values - log.principal_values[:, None], axis=0)
            running /= rounds[:, None]
            best = int(log.regrets.argmax())
            axes.plot(rounds, running, color="#bbbbbb", linewidth=0.7)
            label = f"best fixed policy ({self.game.policy_label(log.benchmark[best])})"
            axes.plot(rounds, running[:, best], color=PALETTE[1], label=label)
            axes.plot([], [], color="#bbbbbb", label="other fixed policies")
            axes.axhline(0.0, color="black", linewidth=0.8)
            low = float(np.quantile(running[len(log) // 10 :], 0.01))
            axes.set_ylim(min(low, -0.05), max(float(running[len(log) // 10 :].max()) * 1.2, 0.05))
            axes.set_xlabel("round")
            axes.set_ylabel("regret per round so far")
            axes.legend()
        return axes


@checked
def design_contract(
    values: ArrayLike,
    costs: ArrayLike,
    history: ArrayLike,
    *,
    benchmark: ArrayLike | None = None,
    agent: Agent | None = None,
    replicates: int = 10,
    random_state: RandomState = 0,
) -> Design:
    """Today's commission: stable, near-optimal, with the regret so far against every fixed one.

    Parameters
    ----------
    values:
        ``values[a, y]`` in [0, 1], see :class:`LinearContractGame`.
    costs:
        ``costs[a]`` in [0, 1].
    history:
        States of the past rounds, oldest first.
    benchmark:
        Fixed commissions to compare with; default 0, 0.05, ..., 1.
    agent:
        Model of the counterparty; default a learner without swap regret.
    replicates:
        Replicates of the modelled Agent.
    random_state:
        Seed.

    Examples
    --------
    >>> import numpy as np
    >>> history = np.random.default_rng(0).choice(2, p=[0.3, 0.7], size=500)
    >>> design = design_contract([[0, 0], [0, 1]], [0, 0.25], history)
    >>> 0.36 < design.policy < 0.75, design.recommendation, design.stable
    (True, 1, True)

    References
    ----------
    Theorem 7.3, see docs/theory/07-principal.md.
    """
    game = LinearContractGame(values, costs)
    y = check_states(history, game.n_states)
    shares = np.linspace(0.0, 1.0, 21) if benchmark is None else benchmark
    oracle = LinearContractOracle(game, shares, horizon=y.size + 1)
    return _design(oracle, y, agent, replicates, random_state)


@checked
def design_disclosure(
    u: ArrayLike,
    v: ArrayLike,
    history: ArrayLike,
    *,
    benchmark: Any = None,
    prune: bool = False,
    agent: Agent | None = None,
    replicates: int = 10,
    random_state: RandomState = 0,
) -> Design:
    """Today's disclosure rule: stable, near-optimal, with the regret so far against fixed rules.

    Binary states with a state-independent ``v`` use the persuasion oracle; anything else the best
    stable scheme from a library of obedience programs (see :func:`disclosure_library`).

    Parameters
    ----------
    u:
        ``u[s, y]`` in [0, 1] for the Agent.
    v:
        ``v[s]`` or ``v[s, y]`` in [0, 1] for the Principal.
    history:
        States of the past rounds, oldest first.
    benchmark:
        Fixed schemes to compare with; default a small menu.
    prune:
        Leave out strategies that are never strictly best (two states with a state-independent
        ``v``; elsewhere they do no harm); by default they are refused.
    agent:
        Model of the counterparty; default a learner without swap regret.
    replicates:
        Replicates of the modelled Agent.
    random_state:
        Seed.

    Examples
    --------
    >>> import numpy as np
    >>> guilty = (np.random.default_rng(0).random(500) < 0.3).astype(int)
    >>> design = design_disclosure([[1, 0], [0, 1]], [0, 1], guilty)
    >>> rate = float(design.policy.signal_probabilities(design.forecast)[1])
    >>> design.stable, 0.4 < rate < 0.7
    (True, True)

    References
    ----------
    Theorem 7.4, see docs/theory/07-principal.md.
    """
    oracle: PolicyRule
    horizon = np.size(history) + 1
    if np.ndim(v) == 1 and np.ndim(u) == 2 and np.shape(u)[1] == 2:
        oracle = PersuasionOracle(PersuasionGame(u, v), benchmark, horizon=horizon, prune=prune)
    else:
        game = DisclosureGame(u, v)
        margin, x = positive_margin(game) / 2, 0.1
        library = disclosure_library(game, margin=margin)
        menu = dict.fromkeys((game.no_disclosure(), game.full_disclosure()))
        P0 = tuple(menu) if benchmark is None else benchmark
        oracle = FiniteStableOracle(
            game, eps=x * margin, beta=x * margin, gamma=x, policies=library, P0=P0
        )
    y = check_states(history, oracle.game.n_states)
    return _design(oracle, y, agent, replicates, random_state)


def _design(
    oracle: PolicyRule,
    y: Any,
    agent: Agent | None,
    replicates: int,
    random_state: RandomState,
) -> Design:
    mechanism = StableMechanism(oracle, random_state=random_state)
    model = ContextualSwapAgent(random_state=random_state) if agent is None else agent
    game = RepeatedContract(oracle.game, model, y, replicates=replicates)
    game.start(y.size, None)
    mechanism.begin(y.size + 1)  # today's round is still to come
    for _ in y:
        game.arrive(mechanism)
        mechanism.observe(game.respond(mechanism.act()))
    today = mechanism.act()
    assert today.forecast is not None
    assert oracle.spec is not None
    return Design(
        game=oracle.game,
        policy=today.policy,
        recommendation=today.recommendation,
        forecast=today.forecast,
        stable=is_stable(
            oracle.game, today.policy, today.forecast, oracle.spec.beta, oracle.spec.gamma
        ),
        transcript=game.transcript(mechanism),
    )
