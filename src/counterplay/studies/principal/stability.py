"""The price of stability in persuasion, and what it buys.

Source: Proposition 7.C, Theorem 7.4, Figure 7.1, see docs/theory/07-principal.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.principal import (
    PersuasionGame,
    PersuasionOracle,
    RepeatedContract,
    StableMechanism,
    bounds,
    play,
)
from counterplay.principal.instances import prosecutor_game
from counterplay.principal.lab import (
    ForecastMechanism,
    KGRule,
    PersuasionGeometry,
    SpitefulAgent,
    StabilizedPersuasion,
    best_response,
)
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

KINDS = ("rounding", "logit")
GUILTY = 0.3  # share of the guilty


def four_strategies() -> PersuasionGame:
    """A game with four strategies whose values are not monotone, as in the thesis' figures."""
    return PersuasionGame(
        u=[[0.8, 0.0], [0.7, 0.35], [0.45, 0.7], [0.0, 0.95]],
        v=[0.15, 0.75, 0.4, 0.6],
        strategy_names=("s1", "s2", "s3", "s4"),
    )


def grid(scale: Scale) -> Sequence[Params]:
    """Game x beta x discretisation."""
    quick = scale == "quick"
    betas = (0.01, 0.02, 0.04, 0.08, 0.12) if quick else tuple(np.geomspace(0.005, 0.12, 12))
    return [
        {"game": game, "beta": float(beta), "kind": kind, "T": 1000 if quick else 20_000}
        for game in ("prosecutor", "four")
        for beta in betas
        for kind in KINDS
        if game == "prosecutor" or beta in betas[1:2]
    ]


def cell(params: Params, seed: int) -> Record:
    """Largest loss over the priors, size of the menu, and regret against a spiteful Agent."""
    game = prosecutor_game() if params["game"] == "prosecutor" else four_strategies()
    beta, kind = float(str(params["beta"])), str(params["kind"])
    discretization: Any = kind
    oracle = PersuasionOracle(game, beta=beta, discretization=discretization)
    geometry, stable = oracle.geometry, oracle.stabilized
    menu_allowed = bounds.log_odds_loss(beta, geometry.C)
    if kind == "rounding":
        menu_allowed = bounds.rounded_loss(beta, geometry.C, oracle.delta)
    priors = np.linspace(0, 1, 2001)
    lost_stable = max(geometry.v_star(mu) - stable.value(mu) for mu in priors)
    lost = max(geometry.v_star(mu) - _value(game, oracle.scheme(mu), mu) for mu in priors[::4])
    visited = len({oracle._locate(mu) for mu in priors.tolist()})
    T = int(str(params["T"]))
    states = (np.random.default_rng(7).random(T) < GUILTY).astype(int)
    repeated = RepeatedContract(game, SpitefulAgent(), states)
    transcript = play(StableMechanism(oracle, random_state=seed), repeated)
    unstable = play(ForecastMechanism(KGRule(game), random_state=seed), repeated)
    return {
        "loss_stabilised": float(lost_stable),
        "loss": float(lost),
        "allowed_stabilised": bounds.stabilised_loss(beta, geometry.C),
        "allowed": menu_allowed,
        "menu": int(oracle.n_policies or 0),
        "menu_seen": visited,
        "thesis_menu": bounds.staircase_policies(game.n_strategies, oracle.parts, as_printed=True),
        "regret": transcript.policy_regret,
        "value": float(transcript.principal_values.mean()),
        "value_unstable": float(unstable.principal_values.mean()),
    }


def _value(game: PersuasionGame, scheme: Any, mu: float) -> float:
    pi = np.array([1 - mu, mu])
    V = game.UV([scheme], pi)[1][0, 0]
    return float(V[best_response(game, scheme, pi)])


def verdicts(frame: pd.DataFrame) -> Sequence[Verdict]:
    """The loss bounds, the size of the menus, and what stability buys."""
    excess = frame["loss"] - frame["allowed"]
    logit = frame[frame["kind"] == "logit"]
    rounding = frame[frame["kind"] == "rounding"]
    judge = frame[(frame["game"] == "prosecutor") & (frame["kind"] == "logit")]
    return [
        at_most(
            "07.08",
            "Stabilised persuasion loses at most beta / C.",
            (frame["loss_stabilised"] - frame["allowed_stabilised"]).max(),
            0.0,
            what="largest loss minus bound",
            slack=1e-9,
        ),
        at_most(
            "07.08",
            "Rounded persuasion loses at most beta / C + 2 sqrt(delta).",
            excess[rounding.index].max(),
            0.0,
            what="largest loss minus bound",
            slack=1e-9,
        ),
        at_most(
            "07.32",
            "The log-odds grid loses at most 2 beta / C.",
            excess[logit.index].max(),
            0.0,
            what="largest loss minus bound",
            slack=1e-9,
        ),
        at_least(
            "07.32",
            "The log-odds grid needs far fewer schemes than rounding.",
            rounding["menu"].max() / logit["menu"].max(),
            20,
            what=f"{int(logit['menu'].max())} schemes at the smallest beta; factor",
        ),
        at_least(
            "07.32",
            "Against a spiteful Agent, stable persuasion at the best beta earns more than the "
            "classical scheme.",
            judge["value"].max(),
            judge["value_unstable"].max(),
            what="convictions per round",
        ),
    ]


def geometry_figure(frame: pd.DataFrame) -> Figure:
    """Left: the Agent's utility of four strategies (grey), their upper envelope, the Principal's
    value of the best one, and its concave closure v*. Right: v* and the stabilised v', whose
    extreme points are moved into the intervals by beta = 0.03."""
    figure, axes = panels(2, width=4.6, height=3.8)
    geometry = PersuasionGeometry(four_strategies())
    geometry.plot(axes[0])
    axes[0].legend(fontsize=8, loc="lower center")
    stable = StabilizedPersuasion(geometry, 0.03)
    axes[1].plot(*geometry.extreme[:2], "o--", color=PALETTE[1], label="v* and Ex")
    axes[1].plot(*stable.extreme[:2], "s-", color=PALETTE[0], label="v' and Ex'")
    for edge in geometry.edges[1:-1]:
        axes[1].axvline(edge, color="#bbbbbb", linewidth=0.8)
    axes[1].set_xlabel("belief that the state is 1")
    axes[1].set_ylabel("utility of the Principal")
    axes[1].legend(fontsize=8, loc="lower center")
    return figure


def price_figure(frame: pd.DataFrame) -> Figure:
    """Prosecutor game. Left: largest loss of the finite menus against their bounds
    (dashed). Middle: number of schemes on the menu. Right: conviction rate against a spiteful
    judge; the classical scheme leaves him indifferent and gets far less than its optimum 0.6."""
    rows = frame[frame["game"] == "prosecutor"]
    figure, axes = panels(3, width=3.7, height=3.6)
    for i, kind in enumerate(KINDS):
        part = rows[rows["kind"] == kind].sort_values("beta")
        axes[0].plot(part["beta"], part["loss"], "o-", color=PALETTE[i], label=kind)
        axes[0].plot(part["beta"], part["allowed"], **(THEORY | {"color": PALETTE[i]}))
        axes[1].plot(part["beta"], part["menu"], "o-", color=PALETTE[i], label=kind)
        axes[2].plot(part["beta"], part["value"], "o-", color=PALETTE[i], label=kind)
    part = rows[rows["kind"] == "rounding"].sort_values("beta")
    axes[1].plot(part["beta"], part["thesis_menu"], **THEORY)
    axes[1].annotate("thesis: $n^2/\\delta^2$", (0.03, 3e9), fontsize=8)
    axes[2].plot(
        part["beta"], part["value_unstable"], "x:", color=PALETTE[3], label="classical scheme"
    )
    best = PersuasionGeometry(prosecutor_game()).v_star(GUILTY)
    axes[2].axhline(best, **THEORY)
    axes[2].annotate(f"optimum {best:.1f}", (0.05, best + 0.01), fontsize=8)
    for axis, label in zip(
        axes, ("largest loss against v*", "schemes on the menu", "convictions per round")
    ):
        axis.set_ylabel(label)
        axis.set_xlabel("beta")
    axes[1].set_yscale("log")
    axes[2].set_ylim(0, 0.66)
    axes[0].legend(fontsize=8)
    axes[2].legend(fontsize=7, loc="upper right", bbox_to_anchor=(1.0, 0.9))
    return figure


STABILITY = Study(
    name="price-of-stability",
    title="What stable persuasion costs and buys",
    question=(
        "How much value does the Principal give up when she reveals slightly more than necessary, "
        "how many schemes does she need, and what does she get against an Agent who breaks ties "
        "against her?"
    ),
    claims=("07.08", "07.32"),
    grid=grid,
    cell=cell,
    verdicts=verdicts,
    figures={"geometry": geometry_figure, "price": price_figure},
)
