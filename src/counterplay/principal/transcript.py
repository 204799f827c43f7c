"""What happened in a simulated game, and what the theory says it had to be.

The transcript holds the realised game and the counterfactual games in which a benchmark policy was
offered in every round and the Agent reacted to that. Policy regret compares the two; the bound is
the inequality of the theorem, evaluated on this very transcript.
Source: Definition 7.1, Proposition 7.B, Theorem 7.5, see docs/theory/07-principal.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.figures import axes_or_new, figure_style
from counterplay.core.seeds import RandomState, spawn
from counterplay.core.transcript import Transcript
from counterplay.core.validation import FloatArray, IntArray, check_int, check_real
from counterplay.errors import InformationError, InvalidInputError
from counterplay.principal.agents import Agent
from counterplay.principal.behaviour import Behaviour, Stage, behaviour, conditional_bias
from counterplay.principal.games import PrincipalAgentGame
from counterplay.principal.mechanisms import Kind
from counterplay.principal.responses import OracleSpec

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@checked
@dataclass(frozen=True)
class ContractTranscript(Transcript):
    """Rounds of a principal-agent game with all its counterfactuals.

    Columns: ``y``, ``p_idx``, ``r``, ``a`` and, for every benchmark policy, ``r0`` and ``a0``
    (rounds x benchmarks); with forecasts also ``pi``, ``init_idx``, ``init_a``. With several
    replicates of the Agent, ``a`` and ``a0`` have one more axis.

    Attributes
    ----------
    game:
        The stage game.
    policies:
        The policies ``p_idx`` refers to.
    benchmark:
        The benchmark policies P0.
    spec:
        The guarantee of the policy oracle.
    kind:
        The theorem that applies.
    fixed_recommendation:
        The action recommended under every benchmark policy, if it did not follow the forecast.
    """

    game: PrincipalAgentGame | None = None
    policies: tuple[Any, ...] = ()
    benchmark: tuple[Any, ...] = ()
    spec: OracleSpec | None = None
    kind: Kind = "other"
    fixed_recommendation: int | None = None

    def against(
        self,
        agent: Agent,
        *,
        replicates: int = 1,
        fixed_recommendation: int | None = None,
        random_state: RandomState = None,
    ) -> ContractTranscript:
        """Return the same offers and states, answered by another Agent.

        Mechanisms never look at the Agent's actions, so this is the game he would have had.
        """
        seed = agent.random_state if random_state is None else random_state
        return answered(self, agent, replicates, fixed_recommendation, seed)

    @cached_property
    def stage(self) -> Stage:
        """The realised offers and states."""
        assert self.game is not None
        return Stage(self.game, self.policies, self["p_idx"], self["r"], self["y"])

    @cached_property
    def benchmark_stages(self) -> tuple[Stage, ...]:
        """Offers and states of the game in which one benchmark policy is offered for ever."""
        assert self.game is not None
        zeros = np.zeros(len(self), dtype=np.int64)
        return tuple(
            Stage(self.game, (policy,), zeros, self["r0"][:, j], self["y"])
            for j, policy in enumerate(self.benchmark)
        )

    @property
    def actions(self) -> IntArray:
        """The Agent's actions, shape (rounds, replicates)."""
        return self["a"] if self["a"].ndim == 2 else self["a"][:, None]

    def benchmark_actions(self, j: int) -> IntArray:
        """The Agent's actions against benchmark policy j, shape (rounds, replicates)."""
        found: IntArray = self["a0"][:, j]
        return found if found.ndim == 2 else found[:, None]

    @cached_property
    def principal_values(self) -> FloatArray:
        """The Principal's utility per round, averaged over the replicates."""
        return np.asarray(self.stage.principal_values(self.actions).mean(axis=1))

    @cached_property
    def benchmark_values(self) -> FloatArray:
        """The Principal's utility per round and benchmark policy, averaged over the replicates."""
        columns = [
            stage.principal_values(self.benchmark_actions(j)).mean(axis=1)
            for j, stage in enumerate(self.benchmark_stages)
        ]
        return np.stack(columns, axis=1)

    @cached_property
    def regrets(self) -> FloatArray:
        """Regret per round against every benchmark policy."""
        return np.asarray(self.benchmark_values.mean(axis=0) - self.principal_values.mean())

    @property
    def policy_regret(self) -> float:
        """Regret per round against the best benchmark policy, with the Agent's reaction to it."""
        return float(self.regrets.max())

    @cached_property
    def behaviours(self) -> tuple[Behaviour, ...]:
        """Behaviour of the Agent in the realised game, one entry per replicate."""
        return tuple(behaviour(self.stage, column) for column in self.actions.T)

    @property
    def behaviour(self) -> Behaviour:
        """Behaviour of the Agent in the realised game (first replicate)."""
        return self.behaviours[0]

    def benchmark_behaviours(self, j: int) -> tuple[Behaviour, ...]:
        """Behaviour of the Agent against benchmark policy j, one entry per replicate."""
        stage = self.benchmark_stages[j]
        return tuple(behaviour(stage, column) for column in self.benchmark_actions(j).T)

    @cached_property
    def alpha(self) -> dict[str, Any]:
        """Total bias of the families: ``choice`` (E1 or E4), ``optimistic`` (E2), ``benchmark``.

        ``benchmark`` is an array with one entry per benchmark policy (E3).
        """
        if "pi" not in self.columns:
            raise InformationError("this mechanism makes no forecasts, so there is no bias")
        pi, y = self["pi"], self["y"]
        width = int(max(self["r"].max(), self["init_a"].max(), self["r0"].max())) + 1

        def total(ids: NDArray[Any]) -> float:
            return float(conditional_bias(pi, y, ids)[1].sum())

        return {
            "choice": total(self["p_idx"] * width + self["r"]),
            "optimistic": total(self["init_idx"] * width + self["init_a"]),
            "benchmark": np.array([total(column) for column in self["r0"].T]),
        }

    @cached_property
    def measured_loss(self) -> float:
        """Average loss of the chosen policies against the optimistic benchmark value (the c).

        It is what the oracle really lost under its forecasts; the guarantee is ``spec.c``.
        """
        hoped = self._expected(self.benchmark, self["init_idx"], self["init_a"])
        return float((hoped - self._expected(self.policies, self["p_idx"], self["r"])).mean())

    def _expected(self, policies: Any, index: IntArray, actions: IntArray) -> FloatArray:
        assert self.game is not None
        offered, local = np.unique(index, return_inverse=True)
        V = self.game.tables([policies[i] for i in offered])[1]
        return np.asarray(np.einsum("ty,ty->t", V[local, actions], self["pi"]))

    def regret_bounds(self) -> pd.DataFrame:
        """Regret and bound against every benchmark policy, term by term.

        For a stable mechanism this is the inequality of Theorem 7.2 with its constants; for the
        best-response mechanism that of Theorem 7.5 with the smallest M2 for M1 = 1. Both are
        deterministic: ``regret <= bound`` on every transcript.
        """
        if self.fixed_recommendation is not None:
            raise InformationError(
                "the theorem speaks about recommendations that follow the forecast; this "
                "transcript has a fixed recommendation"
            )
        if self.kind == "stable":
            return self._stable_bound()
        if self.kind == "best-response":
            return self._general_bound()
        raise InformationError("this mechanism has no regret guarantee")

    @property
    def regret_bound(self) -> float:
        """The bound on ``policy_regret`` that follows from this transcript."""
        return float(self.regret_bounds()["bound"].max())

    def _stable_bound(self) -> pd.DataFrame:
        import pandas as pd

        assert self.spec is not None
        assert self.game is not None
        low, high = self.game.value_range
        spread = high - low
        own, alpha = self.behaviours, self.alpha
        loss = self.measured_loss if self.spec.c is None else self.spec.c
        mean = _mean_of
        realised = mean(own, "swap_regret") + mean(own, "secret_information")
        rows = []
        for j, policy in enumerate(self.benchmark):
            other = self.benchmark_behaviours(j)
            secret = mean(other, "secret_information")
            answered = mean(other, "swap_regret") + secret + 2 * alpha["benchmark"][j]
            rows.append(
                {
                    "policy": self.game.policy_label(policy),
                    "regret": self.regrets[j],
                    "oracle": loss + self.spec.gamma,
                    "bias": 3 * alpha["choice"] + 2 * alpha["optimistic"] + alpha["benchmark"][j],
                    "realised": spread * (realised + 2 * alpha["choice"]) / self.spec.beta,
                    "counterfactual": spread * answered / self.spec.eps,
                    "secret": mean(own, "secret_information") + secret,
                }
            )
        frame = pd.DataFrame(rows)
        frame["bound"] = frame.loc[:, "oracle":].sum(axis=1)
        return frame

    def _general_bound(self) -> pd.DataFrame:
        import pandas as pd

        assert self.game is not None
        M1 = 1.0
        M2 = self.alignment_constants(M1=M1)
        alpha, own = self.alpha, _mean_of(self.behaviours, "utility_gap")
        rows = []
        for j, policy in enumerate(self.benchmark):
            gap = _mean_of(self.benchmark_behaviours(j), "utility_gap")
            rows.append(
                {
                    "policy": self.game.policy_label(policy),
                    "regret": self.regrets[j],
                    "bias": alpha["choice"] + alpha["benchmark"][j],
                    "alignment": M1 * (own + gap) + 2 * M2,
                }
            )
        frame = pd.DataFrame(rows)
        frame["bound"] = frame["bias"] + frame["alignment"]
        return frame

    @cached_property
    def alignment_excess(self) -> tuple[FloatArray, FloatArray]:
        """What the Principal lost by deviations, and the Agent's utility gap (Assumption F.1).

        Entry 0 is the realised game (V of the recommendations minus V of the actions), entry 1 + j
        the game of benchmark policy j (V of the actions minus V of the recommendations).
        """
        obeyed = self.stage.principal_values(self["r"]).mean()
        excess = [obeyed - self.principal_values.mean()]
        gaps = [_mean_of(self.behaviours, "utility_gap")]
        for j, stage in enumerate(self.benchmark_stages):
            recommended = stage.principal_values(self["r0"][:, j]).mean()
            excess.append(self.benchmark_values[:, j].mean() - recommended)
            gaps.append(_mean_of(self.benchmark_behaviours(j), "utility_gap"))
        return np.array(excess), np.array(gaps)

    def alignment_constants(self, *, M1: float | None = None, M2: float | None = None) -> float:
        """Smallest M2 for a given M1, or smallest M1 for a given M2, that satisfy Alignment.

        Returns infinity when no M1 is enough.
        """
        excess, gaps = self.alignment_excess
        if (M1 is None) == (M2 is None):
            raise InvalidInputError("give exactly one of M1 and M2")
        if M1 is not None:
            return float(np.maximum(excess - check_real(M1, "M1", low=0.0) * gaps, 0.0).max())
        assert M2 is not None
        left = np.maximum(excess - check_real(M2, "M2", low=0.0), 0.0)
        if (left[gaps <= 1e-12] > 1e-12).any():
            return float("inf")
        positive = gaps > 1e-12
        return float((left[positive] / gaps[positive]).max(initial=0.0))

    def summary(self) -> str:
        """Return the result of the game as text."""
        assert self.game is not None
        best = int(self.regrets.argmax())
        label = self.game.policy_label(self.benchmark[best])
        lines = [
            f"{len(self)} rounds, {np.unique(self['p_idx']).size} policies offered, "
            f"{self.actions.shape[1]} replicate(s) of {self.meta.get('agent', 'the Agent')}",
            f"Principal {self.principal_values.mean():.4f} per round; best benchmark policy "
            f"{label}: {self.benchmark_values[:, best].mean():.4f}",
            f"policy regret {self.policy_regret:.4f}",
            f"Agent{' (first replicate)' if len(self.behaviours) > 1 else ''}: "
            f"{self.behaviour.summary()}",
        ]
        try:
            lines.insert(3, f"guaranteed from this transcript: at most {self.regret_bound:.4g}")
        except InformationError:
            lines.insert(3, "no regret guarantee applies")
        return "\n".join(lines)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the cumulative utility of the Principal against every benchmark policy."""
        assert self.game is not None
        with figure_style():
            axes = axes_or_new(ax)
            rounds = np.arange(1, len(self) + 1)
            totals = np.cumsum(self.benchmark_values, axis=0)
            best = int(self.regrets.argmax())
            for j in range(totals.shape[1]):
                axes.plot(rounds, totals[:, j], color="#bbbbbb", linewidth=0.8)
            label = f"best fixed policy ({self.game.policy_label(self.benchmark[best])})"
            axes.plot(rounds, totals[:, best], color="#D55E00", label=label)
            axes.plot(rounds, np.cumsum(self.principal_values), color="#0072B2", label="mechanism")
            axes.plot([], [], color="#bbbbbb", label="other fixed policies")
            axes.set_xlabel("round")
            axes.set_ylabel("cumulative utility of the Principal")
            axes.legend()
        return axes


def answered(
    offers: ContractTranscript,
    agent: Agent,
    replicates: int,
    fixed_recommendation: int | None,
    seed: RandomState,
) -> ContractTranscript:
    """Return ``offers`` with the Agent's actions in the realised and in every benchmark game."""
    assert offers.game is not None
    game, T, P0 = offers.game, len(offers), offers.benchmark
    columns = {name: column for name, column in offers.columns.items() if name not in ("a", "a0")}
    columns["r0"] = _recommendations(offers, fixed_recommendation)
    streams = spawn(seed, 1 + len(P0))
    stage = Stage(game, offers.policies, columns["p_idx"], columns["r"], columns["y"])
    actions = stage.check_actions(agent.replay(stage, streams[0].random((T, replicates))))
    counterfactual = np.empty((T, len(P0), replicates), dtype=np.int64)
    for j, policy in enumerate(P0):
        zeros = np.zeros(T, dtype=np.int64)
        alone = Stage(game, (policy,), zeros, columns["r0"][:, j], columns["y"])
        replayed = agent.replay(alone, streams[1 + j].random((T, replicates)))
        counterfactual[:, j] = alone.check_actions(replayed)
    columns["a"] = actions[:, 0] if replicates == 1 else actions
    columns["a0"] = counterfactual[:, :, 0] if replicates == 1 else counterfactual
    return ContractTranscript(
        columns,
        {**offers.meta, "agent": repr(agent)},
        game=game,
        policies=offers.policies,
        benchmark=P0,
        spec=offers.spec,
        kind=offers.kind,
        fixed_recommendation=fixed_recommendation,
    )


def _recommendations(offers: ContractTranscript, fixed: int | None) -> NDArray[Any]:
    P0, game = offers.benchmark, offers.game
    assert game is not None
    if fixed is not None:
        smallest = min(game.n_actions(policy) for policy in P0)
        action = check_int(fixed, "fixed_recommendation", low=0, high=smallest - 1)
        return np.full((len(offers), len(P0)), action)
    if "pi" not in offers.columns:
        raise InvalidInputError(
            "this mechanism makes no forecasts; give fixed_recommendation for the benchmarks"
        )
    return offers["r0"]


def _mean_of(items: tuple[Behaviour, ...], name: str) -> float:
    return float(np.mean([getattr(item, name) for item in items]))
