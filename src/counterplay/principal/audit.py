"""Read a log of a repeated principal-agent relation and say what it supports.

From policies, recommendations, actions and states alone one can see whether the Agent behaved
rationally (swap regret), whether he used information the Principal did not have, and whether his
deviations were harmless (alignment). Limits are shares of what was at stake. A theorem is named
only where the log comes from a mechanism that it is about.
Source: Assumptions 7.1, 7.2 and F.1, Theorems 7.2 and 7.5, see docs/theory/07-principal.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new, figure_style
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    IntArray,
    check_fraction,
    check_open_fraction,
    check_positive_int,
)
from counterplay.errors import InvalidInputError
from counterplay.principal.behaviour import Behaviour, Stage, behaviour, conditional_bias
from counterplay.principal.bounds import contextual_swap_regret
from counterplay.principal.games import PrincipalAgentGame, check_codes, check_forecasts
from counterplay.principal.mechanisms import Kind
from counterplay.principal.transcript import ContractTranscript
from counterplay.tables import Table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_ROUNDING = 1e-12
_NEEDED = ("policy", "recommendation", "action", "state")


@checked(arrays=True)
@dataclass(frozen=True)
class AuditReport(Report):
    """What a log supports.

    Attributes
    ----------
    rounds:
        Length of the log.
    behaviours:
        The measured quantities, one entry per replicate of the Agent.
    stakes:
        What could be won or lost by the Agent: largest minus smallest utility over the actions of a
        round, mean over the rounds.
    principal_stakes:
        The same for the Principal.
    swap_limit:
        Largest regret that counts as none: the stakes times ``4 sqrt(contexts n ln n / T)``, what a
        learner without swap regret stays below, but never more than ``tolerance`` of the stakes.
    secret_p_value:
        Permutation test of "actions carry no information about the states, given policy and
        recommendation": small means secret information.
    alignment_M2:
        Smallest M2 with M1 = 1 such that the Agent's deviations cost the Principal at most
        ``M1 * gap + M2``.
    deviation_rate:
        Share of the rounds in which he did not follow the recommendation; mean over the replicates.
    deviation_cost:
        What that cost the Principal per round; mean over the replicates.
    bias:
        Bias of the forecasts per (policy, recommendation), or None if the log has no forecasts.
    level:
        Level of the test.
    mechanism:
        Which kind of mechanism made the offers; None if the log does not say.
    """

    rounds: int
    behaviours: tuple[Behaviour, ...]
    stakes: float
    principal_stakes: float
    swap_limit: float
    secret_p_value: float
    alignment_M2: float
    deviation_rate: float
    deviation_cost: float
    bias: FloatArray | None
    level: float
    mechanism: Kind | None = None

    def each(self, name: str) -> FloatArray:
        """Return one quantity of ``Behaviour`` for every replicate."""
        return np.array([getattr(b, name) for b in self.behaviours])

    @property
    def swap_regret(self) -> float:
        """Swap regret per round, mean over the replicates."""
        return float(self.each("swap_regret").mean())

    @property
    def rational(self) -> bool:
        """Whether the swap regret of every replicate is as small as a learning Agent's."""
        return float(self.each("swap_regret").max()) <= self.swap_limit + _ROUNDING

    @property
    def no_secret_information(self) -> bool:
        """Whether the permutation test finds no secret information."""
        return self.secret_p_value > self.level

    @property
    def no_negative_regret(self) -> bool:
        """Whether no replicate beat the best fixed response per context by more than noise."""
        return float(self.each("negative_regret").max()) <= self.swap_limit + _ROUNDING

    @property
    def alignment_limit(self) -> float:
        """Largest M2 that counts as none: one percent of the Principal's stakes."""
        return 0.01 * self.principal_stakes

    @property
    def aligned(self) -> bool:
        """Whether deviations were harmless up to their gap (M1 = 1, M2 below its limit)."""
        return self.alignment_M2 <= self.alignment_limit + _ROUNDING

    def guarantees(self) -> tuple[str, ...]:
        """Return the theorem of the log's mechanism, if the log supports its assumptions.

        A log that does not say which mechanism made the offers supports no theorem.
        """
        if self.mechanism == "stable" and self.rational and self.no_secret_information:
            return ("stable mechanism (Theorem 7.2)",)
        aligned = self.no_negative_regret and self.aligned
        if self.mechanism == "best-response" and self.rational and aligned:
            return ("best-response mechanism (Theorem 7.5)",)
        return ()

    def summary(self) -> str:
        """Return the findings as text; ranges are over the replicates."""
        b = self.behaviours[0]
        lines = [
            f"{self.rounds} rounds, {b.n_k.size} contexts, {len(self.behaviours)} replicate(s); "
            f"the Agent deviated in {self.deviation_rate:.1%} of the rounds, which cost the "
            f"Principal {self.deviation_cost:.4f} per round",
            f"at stake per round: {self.stakes:.4f} for the Agent, {self.principal_stakes:.4f} for "
            "the Principal",
            *(f"  {name:<22} {_verdict(ok):<14} {text}" for name, ok, _, text in self._rows()),
        ]
        if self.stakes == 0:
            lines.append("nothing was at stake for the Agent: the log says nothing about him")
        if self.bias is not None:
            lines.append(f"forecasts: total bias on (policy, recommendation) {self.bias.sum():.4f}")
        return "\n".join([*lines, self._closing()])

    def _rows(self) -> list[tuple[str, bool, float, str]]:
        """Name, verdict, mean and text of every assumption."""
        limit, kappa = f"limit {self.swap_limit:.4f}", float(self.each("kappa").max())
        share = f", {self.swap_regret / self.stakes:.0%} of the stakes" if self.stakes > 0 else ""
        secret = f"p-value {self.secret_p_value:.3g}, kappa {kappa:.2f}"
        alignment = f"M2 for M1 = 1, limit {self.alignment_limit:.4f}"
        rows = []
        for name, ok, values, note in (
            ("no swap regret", self.rational, self.each("swap_regret"), limit + share),
            (
                "no secret information",
                self.no_secret_information,
                self.each("secret_information"),
                secret,
            ),
            ("no negative regret", self.no_negative_regret, self.each("negative_regret"), limit),
            ("alignment", self.aligned, np.array([self.alignment_M2]), alignment),
        ):
            spread = f" [{values.min():.4f}, {values.max():.4f}]" if values.size > 1 else ""
            mean = float(values.mean())
            rows.append((name, ok, mean, f"{mean:.4f}{spread} ({note})"))
        return rows

    def _closing(self) -> str:
        if self.mechanism is None:
            return "no theorem applies: the log does not say which mechanism made the offers"
        if self.mechanism == "other":
            return "no theorem applies: it was no stable or best-response mechanism"
        names = ", ".join(self.guarantees()) or "none"
        return f"guarantees whose assumptions the log supports: {names}"

    def to_frame(self) -> pd.DataFrame:
        """Return one row per assumption; measured is the mean over the replicates."""
        import pandas as pd

        rows = [(name, mean, ok) for name, ok, mean, _ in self._rows()]
        return pd.DataFrame(rows, columns=["assumption", "measured", "supported"])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the deviation from independence per context against its size."""
        with figure_style():
            axes = axes_or_new(ax)
            n = np.concatenate([b.n_k for b in self.behaviours])
            b = np.concatenate([b.b_k for b in self.behaviours])
            axes.plot(n, b, "o", color=PALETTE[0], label="contexts")
            grid = np.geomspace(max(n.min(), 1), max(n.max(), 2), 50)
            axes.plot(grid, np.minimum(1 / np.sqrt(grid), 1), "k--", label="$1/\\sqrt{n}$")
            axes.set_xscale("log")
            axes.set_xlabel("rounds in the context")
            axes.set_ylabel("deviation from independence, per round")
            axes.legend()
        return axes


@checked
def audit(
    transcript: Any,
    game: PrincipalAgentGame | None = None,
    *,
    tolerance: float = 0.1,
    permutations: int = 199,
    level: float = 0.05,
    random_state: RandomState = 0,
) -> AuditReport:
    """Which behavioural assumptions does a log support, and which guarantee follows?

    Regret is judged by what was at stake: the gap between the Agent's best and worst action. A
    theorem is named only for a transcript of a mechanism that it speaks about.

    Parameters
    ----------
    transcript:
        A :class:`ContractTranscript`, or a frame or dictionary with the columns ``policy``,
        ``recommendation``, ``action``, ``state`` and optionally ``forecast``; others are left
        alone. Policies are those of ``game`` (a share, a scheme, an index); recommendations,
        actions and states are codes, or names that the game knows. All replicates of a transcript
        are used.
    game:
        The stage game; not needed for a :class:`ContractTranscript`.
    tolerance:
        Share of the stakes that is called a large regret however short the log is.
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
    measured = tuple(behaviour(stage, column) for column in actions.T)
    stakes, principal_stakes = stage.stakes
    n = int(stage.context_sizes.max())
    learner = contextual_swap_regret(stage.n_contexts, n, len(stage), drawn=True)
    limit = stakes * min(learner, check_fraction(tolerance, "tolerance"))
    obeyed = float(stage.principal_values(stage.r).mean())
    cost = obeyed - float(stage.principal_values(actions).mean())
    bias = None
    if forecasts is not None:
        bias = conditional_bias(forecasts, stage.y, stage.contexts)[1]
    excess = max(cost - float(np.mean([b.utility_gap for b in measured])), 0.0)
    if isinstance(transcript, ContractTranscript) and "a0" in transcript.columns:
        excess = transcript.alignment_constants(M1=1.0)
    return AuditReport(
        rounds=len(stage),
        behaviours=measured,
        stakes=stakes,
        principal_stakes=principal_stakes,
        swap_limit=limit,
        secret_p_value=_permutation_test(
            stage, actions, check_positive_int(permutations, "permutations"), random_state
        ),
        alignment_M2=excess,
        deviation_rate=float((actions != stage.r[:, None]).mean()),
        deviation_cost=cost,
        bias=bias,
        level=level,
        mechanism=_mechanism(transcript),
    )


def _mechanism(log: Any) -> Kind | None:
    """The kind of mechanism that made a transcript; its theorem needs recommendations that vary."""
    if not isinstance(log, ContractTranscript):
        return None
    return log.kind if log.fixed_recommendation is None else "other"


def _read(log: Any, game: PrincipalAgentGame | None) -> tuple[Stage, IntArray, FloatArray | None]:
    if isinstance(log, ContractTranscript):
        forecasts = log["pi"] if "pi" in log.columns else None
        return log.stage, log.actions, forecasts
    if game is None:
        raise InvalidInputError("give the game when the log is not a transcript of play")
    columns = _columns(log)
    policies = [game.check_policy(policy) for policy in columns["policy"]]
    distinct = {policy: i for i, policy in enumerate(dict.fromkeys(policies))}
    states = getattr(game, "state_names", None) or [str(y) for y in range(game.n_states)]

    @cache
    def labels(policy: Any) -> list[str]:
        return [game.action_label(policy, a) for a in range(game.n_actions(policy))]

    def actions_of(row: int) -> list[str]:
        return labels(policies[row]) if row < len(policies) else []

    stage = Stage(
        game,
        tuple(distinct),
        np.array([distinct[policy] for policy in policies], dtype=np.int64),
        check_codes(columns["recommendation"], "recommendation", actions_of),
        check_codes(columns["state"], "state", lambda _: states),
    )
    actions = stage.check_actions(check_codes(columns["action"], "action", actions_of))
    if "forecast" not in columns:
        return stage, actions, None
    forecasts = check_forecasts(_stacked(columns["forecast"]), game.n_states)
    if len(forecasts) != len(stage):
        raise InvalidInputError(f"the log has {len(forecasts)} forecasts for {len(stage)} rounds")
    return stage, actions, forecasts


def _columns(log: Any) -> dict[str, Any]:
    """Return the columns of a log by name; a frame may have others."""
    if not isinstance(log, Mapping):
        table = Table.of(log, what="the log")
        if table.names is None:
            raise InvalidInputError(f"the log needs columns with names: {', '.join(_NEEDED)}")
        log = {name: table.column(j) for j, name in enumerate(table.names)}
    missing = [name for name in _NEEDED if name not in log]
    if missing:
        raise InvalidInputError(f"the log lacks the column(s) {', '.join(missing)}")
    return {name: list(log[name]) if name == "policy" else log[name] for name in log}


def _stacked(forecasts: Any) -> FloatArray:
    """Return one forecast per round, from an array or a column of lists."""
    try:
        return np.stack([np.asarray(row, dtype=np.float64) for row in forecasts])
    except (TypeError, ValueError):
        raise InvalidInputError(
            "forecast must hold one list of probabilities per round, all of one length"
        ) from None


def _permutation_test(
    stage: Stage, actions: IntArray, times: int, random_state: RandomState
) -> float:
    """Permute the actions within every context and compare the secret-information statistic.

    All replicates saw the same states, so their actions are permuted together.
    """

    def statistic(a: IntArray) -> float:
        return float(np.mean([behaviour(stage, column).secret_information for column in a.T]))

    rng, observed = generator(random_state), statistic(actions)
    order = np.argsort(stage.contexts, kind="stable")
    reached = 0
    shuffled = np.empty_like(actions)
    for _ in range(times):
        mixed = np.lexsort((rng.random(len(actions)), stage.contexts))
        shuffled[order] = actions[mixed]
        reached += statistic(shuffled) >= observed - _ROUNDING
    return (1 + reached) / (1 + times)


def _verdict(supported: bool) -> str:
    return "supported" if supported else "NOT supported"
