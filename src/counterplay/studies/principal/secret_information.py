"""Why "no secret information" is needed: an Agent who knows the future and hides it.

Source: Propositions 7.1 and 7.2, Algorithm F.2, see docs/theory/07-principal.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.principal import (
    ContextualSwapAgent,
    LinearContractOracle,
    RepeatedContract,
    StableMechanism,
    play,
)
from counterplay.principal.bounds import secret_information_regret
from counterplay.principal.instances import reactive_mechanism, secret_information_instance
from counterplay.principal.lab import Agent, SecretInfoAgent
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

STATES: tuple[Literal["M", "H"], ...] = ("M", "H")


def grid(scale: Scale) -> Sequence[Params]:
    """Agent x first state x rounds x replicates."""
    quick = scale == "quick"
    rounds = (256, 512, 1024, 2048) if quick else tuple(2**k for k in range(9, 15))
    return [
        {"agent": agent, "first": first, "T": T, "replicate": i}
        for agent in ("secret", "printed", "learner")
        for first in STATES
        for T in rounds
        for i in range(1 if quick else 10)
    ]


def cell(params: Params, seed: int) -> Record:
    """Regret against contracts 0.5 and 0.6 with the fixed recommendation "work"."""
    T, which = int(str(params["T"])), STATES[params["first"] == "H"]
    instance = secret_information_instance(
        T, which, random_state=1000 * T + int(str(params["replicate"]))
    )
    agent: Agent
    if params["agent"] == "learner":
        agent = ContextualSwapAgent(random_state=seed)
    else:
        agent = SecretInfoAgent(check_first_round=params["agent"] == "secret", random_state=seed)
    mechanism: Any = StableMechanism(
        LinearContractOracle(instance.game, instance.benchmark, horizon=T), random_state=seed
    )
    if params["agent"] == "printed":  # the mechanism that defeats the printed algorithm
        mechanism = reactive_mechanism(instance.game)
    transcript = play(
        mechanism, RepeatedContract(mechanism.game, agent, instance.states, fixed_recommendation=1)
    )
    paths = [transcript.behaviour] + [transcript.benchmark_behaviours(j)[0] for j in range(2)]
    return {
        "regret": transcript.policy_regret,
        "swap_regret": max(path.swap_regret for path in paths),
        "negative_regret": max(path.negative_regret for path in paths),
        "secret_information": max(path.secret_information for path in paths),
    }


def verdicts(frame: pd.DataFrame) -> Sequence[Verdict]:
    """The lower bounds, the blind regret tests, and the statistic that sees it."""
    secret = frame[frame["agent"] == "secret"]
    longest = secret[secret["T"] == secret["T"].max()]
    escaped = frame[frame["agent"] == "printed"]["regret"].max()
    learner = frame[(frame["agent"] == "learner") & (frame["T"] == frame["T"].max())]
    regrets = longest[["swap_regret", "negative_regret"]].max().max()
    detected = longest["secret_information"].min()
    blank = learner["secret_information"].max()
    return [
        *(
            at_least(
                "07.22",
                f"The secretly informed Agent causes regret that does not vanish (first {first}).",
                float(secret[secret["first"] == first]["regret"].min()),
                secret_information_regret(first),
                what=f"honest learner {learner['regret'].max():.3f}; smallest regret",
            )
            for first in STATES
        ),
        at_most(
            "07.22",
            "Without the check of round 1, a reactive mechanism escapes the printed Agent.",
            escaped,
            0.01,
            what="largest regret",
        ),
        at_most(
            "07.23",
            "Regret tests are blind to him.",
            regrets,
            0.03,
            what="largest swap or negative regret",
        ),
        at_least(
            "07.23",
            "The secret-information statistic is not.",
            detected,
            0.1,
            what=f"honest learner {blank:.3f}; statistic",
        ),
    ]


def regret_figure(frame: pd.DataFrame) -> Figure:
    """Left: policy regret of the stable mechanism against the secretly informed Agent stays near
    1/4 and 1/5 (dashed: the proven lower bounds) and vanishes against an honest learner. Right: his
    swap and negative regret vanish, too; only the secret-information statistic sees him."""
    figure, axes = panels(2, width=4.6, height=3.8)
    mean = frame.groupby(["agent", "first", "T"]).mean(numeric_only=True)
    for i, first in enumerate(STATES):
        curve = mean.loc[("secret", first)]["regret"]
        axes[0].plot(
            curve.index, curve, "o-", color=PALETTE[i], label=f"secret, first state {first}"
        )
        level = secret_information_regret(first)
        axes[0].axhline(level, **(THEORY | {"color": PALETTE[i]}))
    honest = frame[frame["agent"] == "learner"].groupby("T")["regret"].mean()
    axes[0].plot(honest.index, honest, "s-", color=PALETTE[2], label="honest learner")
    axes[0].set_ylabel("policy regret per round")
    axes[0].legend(fontsize=8, loc="center right")
    secret = frame[frame["agent"] == "secret"].groupby("T").mean(numeric_only=True)
    for i, (column, label) in enumerate(
        (
            ("secret_information", "secret information"),
            ("swap_regret", "swap regret"),
            ("negative_regret", "negative regret"),
        )
    ):
        axes[1].plot(secret.index, secret[column], "o-", color=PALETTE[i], label=label)
    axes[1].set_ylabel("per round, largest over paths")
    axes[1].legend(fontsize=8, loc="center right")
    for axis in axes:
        axis.set_xscale("log", base=2)
        axis.set_xlabel("rounds T")
        axis.axhline(0.0, color="black", linewidth=0.6)
    return figure


SECRET_INFORMATION = Study(
    name="secret-information",
    title="An Agent who knows more than he shows",
    question=(
        "Is the assumption that the Agent has no secret information necessary? Against an Agent "
        "who knows the states and uses it without leaving any regret behind, the regret should "
        "stay near 1/4 and 1/5, while it vanishes against an honest learner."
    ),
    claims=("07.22", "07.23"),
    grid=grid,
    cell=cell,
    verdicts=verdicts,
    figures={"regret": regret_figure},
)
