"""Read a log of a repeated principal-agent relation and say what it supports.

From policies, recommendations, actions and states alone one can see whether the Agent behaved
rationally (swap regret), whether he used information the Principal did not have, and whether his
deviations were harmless (alignment), hence which guarantee the log can invoke.
Source: sec:behavior, asp:alignment, thm:stable, thm:general; spec 07, section 9.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, axes_or_new, figure_style
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_open_fraction,
    check_positive_int,
    check_real,
)
from counterplay.errors import InvalidInputError
from counterplay.principal.behaviour import Behaviour, Stage, behaviour, conditional_bias
from counterplay.principal.games import PrincipalAgentGame, check_forecasts
from counterplay.principal.transcript import ContractTranscript

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class AuditReport:
    """What a log supports.

    Attributes
    ----------
    rounds, behaviour:
        Length of the log and the measured quantities.
    swap_limit:
        Largest regret that counts as none: ``4 sqrt(contexts n ln n / T)``, what a learner without
        swap regret stays below, but never more than ``tolerance``.
    secret_p_value:
        Permutation test of "actions carry no information about the states, given policy and
        recommendation": small means secret information.
    alignment_M2:
        Smallest M2 with M1 = 1 such that the Agent's deviations cost the Principal at most
        ``M1 * gap + M2``.
    bias:
        Bias of the forecasts per (policy, recommendation), or None if the log has no forecasts.
    level:
        Level of the test.
    """

    rounds: int
    behaviour: Behaviour
    swap_limit: float
    secret_p_value: float
    alignment_M2: float
    deviation_rate: float
    deviation_cost: float
    bias: FloatArray | None
    level: float

    @property
    def rational(self) -> bool:
        """Whether the swap regret is as small as a learning Agent's."""
        return self.behaviour.swap_regret <= self.swap_limit

    @property
    def no_secret_information(self) -> bool:
        """Whether the permutation test finds no secret information."""
        return self.secret_p_value > self.level

    @property
    def no_negative_regret(self) -> bool:
        """Whether he did not beat the best fixed response per context by more than noise."""
        return self.behaviour.negative_regret <= self.swap_limit

    @property
    def aligned(self) -> bool:
        """Whether deviations were harmless up to their gap (M1 = 1, M2 at most 0.01)."""
        return self.alignment_M2 <= 0.01

    def guarantees(self) -> tuple[str, ...]:
        """Return the names of the theorems whose assumptions the log supports."""
        found = []
        if self.rational and self.no_secret_information:
            found.append("stable mechanism (thm:stable)")
        if self.rational and self.no_negative_regret and self.aligned:
            found.append("best-response mechanism (thm:general)")
        return tuple(found)

    def summary(self) -> str:
        """Return the findings as text."""
        b = self.behaviour
        lines = [
            f"{self.rounds} rounds, {b.n_k.size} contexts; the Agent deviated in "
            f"{self.deviation_rate:.1%} of the rounds, which cost the Principal "
            f"{self.deviation_cost:.4f} per round",
            _line("no swap regret", self.rational, b.swap_regret, f"limit {self.swap_limit:.4f}"),
            _line(
                "no secret information",
                self.no_secret_information,
                b.secret_information,
                f"p-value {self.secret_p_value:.3g}, kappa {b.kappa:.2f}",
            ),
            _line(
                "no negative regret",
                self.no_negative_regret,
                b.negative_regret,
                f"limit {self.swap_limit:.4f}",
            ),
            _line("alignment", self.aligned, self.alignment_M2, "M2 for M1 = 1"),
        ]
        if self.bias is not None:
            lines.append(f"forecasts: total bias on (policy, recommendation) {self.bias.sum():.4f}")
        names = ", ".join(self.guarantees()) or "none"
        lines.append(f"guarantees whose assumptions the log supports: {names}")
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per assumption."""
        import pandas as pd

        b = self.behaviour
        return pd.DataFrame(
            {
                "assumption": [
                    "no swap regret",
                    "no secret information",
                    "no negative regret",
                    "alignment",
                ],
                "measured": [
                    b.swap_regret,
                    b.secret_information,
                    b.negative_regret,
                    self.alignment_M2,
                ],
                "supported": [
                    self.rational,
                    self.no_secret_information,
                    self.no_negative_regret,
                    self.aligned,
                ],
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the deviation from independence per context against its size."""
        with figure_style():
            axes = axes_or_new(ax)
            n, b = self.behaviour.n_k, self.behaviour.b_k
            axes.plot(n, b, "o", color=PALETTE[0], label="contexts")
            grid = np.geomspace(max(n.min(), 1), max(n.max(), 2), 50)
            axes.plot(grid, np.minimum(1 / np.sqrt(grid), 1), "k--", label="$1/\\sqrt{n}$")
            axes.set_xscale("log")
            axes.set_xlabel("rounds in the context")
            axes.set_ylabel("deviation from independence, per round")
            axes.legend()
        return axes


def audit(
    transcript: ContractTranscript | pd.DataFrame | dict[str, Any],
    game: PrincipalAgentGame | None = None,
    *,
    tolerance: float = 0.05,
    permutations: int = 199,
    level: float = 0.05,
    random_state: RandomState = 0,
) -> AuditReport:
    """Which behavioural assumptions does a log support, and which guarantee follows?

    Parameters
    ----------
    transcript:
        A :class:`ContractTranscript`, or a frame or dictionary with the columns ``policy``,
        ``recommendation``, ``action``, ``state`` and optionally ``forecast``. Policies are those
        of ``game`` (a share, a scheme, an index).
    game:
        The stage game; not needed for a :class:`ContractTranscript`.
    tolerance:
        Regret per round that is called large however short the log is.
    permutations:
        Number of permutations of the test for secret information.
    level:
        Level of that test.
    random_state:
        Seed of the permutations.

    Examples
    --------
    >>> from counterplay.principal import RepeatedContract, audit, play
    >>> from counterplay.principal.instances import secret_information_instance
    >>> from counterplay.principal.lab import ConstantMechanism, SecretInfoAgent
    >>> instance = secret_information_instance(1000, "M", random_state=0)
    >>> mechanism = ConstantMechanism(instance.game, 0.5, recommendation=1)
    >>> game = RepeatedContract(instance.game, SecretInfoAgent(random_state=0), instance.states)
    >>> log = play(mechanism, game)
    >>> report = audit(log)
    >>> report.rational, report.no_negative_regret, report.no_secret_information
    (True, True, False)
    """
    stage, actions, forecasts = _read(transcript, game)
    check_open_fraction(level, "level")
    measured = behaviour(stage, actions)
    n = int(stage.context_sizes.max())
    learner = 4 * math.sqrt(stage.n_contexts * n * math.log(max(n, 2)) / len(stage))
    limit = min(learner, check_real(tolerance, "tolerance", low=0.0))
    obeyed = float(stage.principal_values(stage.r).mean())
    cost = obeyed - float(stage.principal_values(actions).mean())
    bias = None
    if forecasts is not None:
        bias = conditional_bias(forecasts, stage.y, stage.contexts)[1]
    excess = max(cost - measured.utility_gap, 0.0)
    if isinstance(transcript, ContractTranscript) and "a0" in transcript.columns:
        excess = transcript.alignment_constants(M1=1.0)
    return AuditReport(
        rounds=len(stage),
        behaviour=measured,
        swap_limit=limit,
        secret_p_value=_permutation_test(
            stage, actions, measured, check_positive_int(permutations, "permutations"), random_state
        ),
        alignment_M2=excess,
        deviation_rate=float((actions != stage.r).mean()),
        deviation_cost=cost,
        bias=bias,
        level=level,
    )


def _read(log: Any, game: PrincipalAgentGame | None) -> tuple[Stage, IntArray, FloatArray | None]:
    if isinstance(log, ContractTranscript):
        forecasts = log["pi"] if "pi" in log.columns else None
        return log.stage, np.asarray(log.actions[:, 0]), forecasts
    if game is None:
        raise InvalidInputError("give the game when the log is not a transcript of play")
    missing = [c for c in ("policy", "recommendation", "action", "state") if c not in log]
    if missing:
        raise InvalidInputError(f"the log lacks the column(s) {', '.join(missing)}")
    policies = [game.check_policy(policy) for policy in log["policy"]]
    distinct = {policy: i for i, policy in enumerate(dict.fromkeys(policies))}
    stage = Stage(
        game,
        tuple(distinct),
        np.array([distinct[policy] for policy in policies], dtype=np.int64),
        np.asarray(log["recommendation"], dtype=np.int64),
        np.asarray(log["state"], dtype=np.int64),
    )
    actions = stage.check_actions(np.asarray(log["action"], dtype=np.int64))[:, 0]
    if "forecast" not in log:
        return stage, actions, None
    return stage, actions, check_forecasts(np.stack(list(log["forecast"])), game.n_states)


def _permutation_test(
    stage: Stage, actions: IntArray, measured: Behaviour, times: int, random_state: RandomState
) -> float:
    """Permute the actions within every context and compare the secret-information statistic."""
    rng = generator(random_state)
    order = np.argsort(stage.contexts, kind="stable")
    reached = 0
    shuffled = np.empty_like(actions)
    for _ in range(times):
        mixed = np.lexsort((rng.random(actions.size), stage.contexts))
        shuffled[order] = actions[mixed]
        found = behaviour(stage, shuffled).secret_information
        reached += found >= measured.secret_information - 1e-12
    return (1 + reached) / (1 + times)


def _line(name: str, supported: bool, value: float, note: str) -> str:
    return f"  {name:<22} {'supported' if supported else 'NOT supported':<14} {value:.4f} ({note})"
