"""Policy regret against the number of rounds: stable rules, unstable rules, kind and unkind Agents.

Source: Theorems 7.2 and 7.3, "Near-ties cost", see docs/theory/07-principal.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import mean_interval
from counterplay.principal import (
    ContextualSwapAgent,
    FollowRecommendation,
    LinearContractOracle,
    RepeatedContract,
    StableMechanism,
    play,
)
from counterplay.principal.bounds import TUNINGS, linear_contract_rate
from counterplay.principal.instances import near_tie_contract, random_contract_game
from counterplay.principal.lab import (
    BestResponseMechanism,
    ForecastMechanism,
    Mechanism,
    OptimisticRule,
    SpitefulAgent,
)
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

RULES = ("stable", "stable-thesis", "best-response", "optimistic")
AGENTS = ("follow", "learner", "spiteful")
NAMES = {
    "stable": "stable (balanced)",
    "stable-thesis": "stable (thesis tuning)",
    "best-response": "best response p*",
    "optimistic": "optimistic",
}


def grid(scale: Scale) -> Sequence[Params]:
    """Rules x rounds x replicates, on the near-tie contract and on random games."""
    quick = scale == "quick"
    rounds = (256, 512, 1024, 2048) if quick else tuple(2**k for k in range(9, 16))
    games = [("near-tie", i) for i in range(2 if quick else 10)]
    games += [("random", i) for i in range(1 if quick else 20)]
    return [
        {"game": game, "replicate": i, "rule": rule, "T": T}
        for game, i in games
        for rule in RULES
        for T in rounds
    ]


def cell(params: Params, seed: int) -> Record:
    """Regret of one rule against the three Agents, on the same states and forecasts."""
    T, replicate = int(str(params["T"])), int(str(params["replicate"]))
    game, benchmark, states = _situation(str(params["game"]), replicate, T)
    mechanism = _mechanism(str(params["rule"]), game, benchmark, T, seed)
    offers = play(mechanism, RepeatedContract(game, FollowRecommendation(), states))
    record: dict[str, Any] = {}
    for name, agent in (
        ("follow", FollowRecommendation()),
        ("learner", ContextualSwapAgent(random_state=seed)),
        ("spiteful", SpitefulAgent()),
    ):
        transcript = offers.against(agent)
        record[f"regret_{name}"] = transcript.policy_regret
        record[f"swap_{name}"] = transcript.behaviour.swap_regret
        if mechanism.kind == "stable":
            frame = transcript.regret_bounds()
            record[f"slack_{name}"] = float((frame["bound"] - frame["regret"]).min())
        else:
            record[f"slack_{name}"] = None
    return record


def _situation(name: str, replicate: int, rounds: int) -> tuple[Any, Any, Any]:
    if name == "near-tie":
        instance = near_tie_contract(rounds, random_state=replicate)
        return instance.game, instance.benchmark, instance.states
    game = random_contract_game(4, 4, random_state=replicate)
    rng = np.random.default_rng(1000 + replicate)
    return game, np.linspace(0, 1, 11), rng.choice(4, size=rounds, p=rng.dirichlet(np.full(4, 2.0)))


def _mechanism(rule: str, game: Any, benchmark: Any, rounds: int, seed: int) -> Mechanism:
    if rule == "best-response":
        return BestResponseMechanism(game, benchmark, random_state=seed)
    if rule == "optimistic":
        eps = LinearContractOracle(game, benchmark, horizon=rounds).eps
        return ForecastMechanism(OptimisticRule(game, benchmark, eps=eps), random_state=seed)
    tuning: Any = "balanced" if rule == "stable" else "thesis"
    oracle = LinearContractOracle(game, benchmark, horizon=rounds, tuning=tuning)
    return StableMechanism(oracle, random_state=seed)


def verdicts(frame: pd.DataFrame) -> Sequence[Verdict]:
    """The inequality of the theorem, and the price of near-ties at the longest horizon."""
    slack = frame[[f"slack_{agent}" for agent in AGENTS]].to_numpy(dtype=float)
    slack = slack[~np.isnan(slack)]
    longest = frame[(frame["T"] == frame["T"].max()) & (frame["game"] == "near-tie")]
    spite = longest.set_index("rule")["regret_spiteful"]
    unstable, stable = spite.loc[["best-response"]].mean(), spite.loc[["stable"]].mean()
    return [
        at_least(
            "07.19",
            "On every stable transcript the regret is below the bound of the theorem.",
            slack.min(),
            0.0,
            what=f"smallest slack in {slack.size} transcripts",
            slack=1e-12,
        ),
        at_least(
            "07.21",
            "A spiteful Agent costs the best-response rule a lot.",
            unstable,
            0.12,
            what=f"regret per round at T = {frame['T'].max()}",
        ),
        at_most(
            "07.21",
            "The same Agent costs the stable rule less.",
            stable,
            0.10,
            what=f"regret per round at T = {frame['T'].max()}",
        ),
    ]


def regret_figure(frame: pd.DataFrame) -> Figure:
    """Policy regret per round on the near-tie contract. Against an Agent who breaks near-ties
    against the Principal the unstable rules get stuck and the stable ones do not; dashed lines are
    the rates of the theorem for the two tunings, up to a constant."""
    figure, axes = panels(2, width=4.6, height=3.9)
    near = frame[frame["game"] == "near-tie"]
    for axis, agent, title in (
        (axes[0], "spiteful", "spiteful Agent"),
        (axes[1], "learner", "learning Agent"),
    ):
        for i, rule in enumerate(RULES):
            rows = near[near["rule"] == rule]
            T, mean, half = _means(rows, f"regret_{agent}")
            axis.errorbar(T, mean, half, fmt="o-", color=PALETTE[i], label=NAMES[rule], capsize=2)
        axis.axhline(0.0, color="black", linewidth=0.6)
        axis.set_xscale("log", base=2)
        axis.set_xlabel("rounds T")
        axis.set_title(title)
    start, top = float(near["T"].min()), 0.12
    grid_T = np.geomspace(start, near["T"].max(), 30)
    for tuning, name in zip(TUNINGS, ("$T^{-1/5}$", "$T^{-1/8}$")):
        rate = linear_contract_rate(tuning)
        curve = top * (grid_T / start) ** rate
        axes[0].plot(grid_T, curve, **THEORY)
        axes[0].annotate(name, (grid_T[-1], curve[-1]), fontsize=8, va="bottom")
    axes[0].set_ylabel("policy regret per round")
    axes[1].set_ylim(top=0.12)
    axes[1].legend(fontsize=8, loc="upper right")
    return figure


def random_figure(frame: pd.DataFrame) -> Figure:
    """Policy regret per round on random contract games with four actions and four states, averaged
    over the games, against the spiteful Agent."""
    figure, (axis,) = panels(1)
    rows = frame[frame["game"] == "random"]
    for i, rule in enumerate(RULES):
        T, mean, half = _means(rows[rows["rule"] == rule], "regret_spiteful")
        axis.errorbar(T, mean, half, fmt="o-", color=PALETTE[i], label=NAMES[rule], capsize=2)
    axis.axhline(0.0, color="black", linewidth=0.6)
    axis.set_xscale("log", base=2)
    axis.set_xlabel("rounds T")
    axis.set_ylabel("policy regret per round")
    axis.legend(fontsize=8)
    return figure


def _means(rows: pd.DataFrame, column: str) -> tuple[Any, Any, Any]:
    """Rounds, means and half-widths of 95% intervals over the replicates."""
    T, mean, half = [], [], []
    for rounds, group in rows.groupby("T"):
        values = group[column].to_numpy(dtype=float)
        T.append(rounds)
        mean.append(values.mean())
        half.append(mean_interval(values).high - values.mean() if values.size > 2 else 0.0)
    return T, mean, half


REGRET = Study(
    name="regret",
    title="Regret against every fixed contract",
    question=(
        "How fast does the Principal's regret vanish, and what happens when the Agent breaks "
        "near-ties against her? Stable rules should keep falling; rules that sit on a near-tie "
        "should get stuck against the spiteful Agent."
    ),
    claims=("07.19", "07.21"),
    grid=grid,
    cell=cell,
    verdicts=verdicts,
    figures={"near_tie": regret_figure, "random_games": random_figure},
)
