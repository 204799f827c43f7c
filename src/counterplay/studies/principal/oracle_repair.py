"""The linear-contract oracle as printed and as repaired, on random contract games.

Source: Theorem 7.3, repaired, see docs/theory/07-principal.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.core.stats import clopper_pearson
from counterplay.principal import LinearContractGame, LinearContractOracle
from counterplay.principal.bounds import linear_contract_loss
from counterplay.principal.lab import is_stable
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

STEPS = (0.05, 0.01, 0.005, 0.001)


def grid(scale: Scale) -> Sequence[Params]:
    """Both oracles x step of the benchmark grid x blocks of random instances."""
    blocks = 2 if scale == "quick" else 40
    return [
        {"oracle": oracle, "step": step, "block": block}
        for oracle in ("printed", "repaired")
        for step in STEPS
        for block in range(blocks)
    ]


def cell(params: Params, seed: int) -> Record:
    """Violations of the theorem in 100 random (game, forecast) pairs; the same for both oracles."""
    step, block = float(str(params["step"])), int(str(params["block"]))
    rng = np.random.default_rng([block, round(1 / step)])
    shares = np.arange(round(1 / step) + 1) * step
    counts = {"loss_violations": 0, "stability_violations": 0, "instances": 0}
    worst = 0.0
    for _ in range(20):
        game, beta, delta = _instance(rng)
        oracle = LinearContractOracle(
            game, np.minimum(shares, 1.0), beta, delta, as_printed=params["oracle"] == "printed"
        )
        allowed = linear_contract_loss(game.costs.size, beta, delta)
        for pi in rng.dirichlet(np.ones(game.n_states), size=5):
            loss, fine = _loss(oracle, game, pi)
            counts["instances"] += 1
            counts["loss_violations"] += loss > allowed + 1e-9
            counts["stability_violations"] += not fine
            worst = max(worst, loss / allowed)
    return {**counts, "worst_ratio": worst}


def _instance(rng: np.random.Generator) -> tuple[LinearContractGame, float, float]:
    n, m = int(rng.integers(2, 7)), int(rng.integers(1, 6))
    costs = np.cumsum(rng.uniform(0.01, 1 / n, size=n))
    game = LinearContractGame(np.sort(rng.random((n, m)), axis=0), costs)
    return game, float(rng.uniform(0.01, 0.1)), 1 / int(rng.integers(20, 101))


def _loss(oracle: LinearContractOracle, game: Any, pi: Any) -> tuple[float, bool]:
    f = game.values @ pi
    _, init, hoped, _ = oracle.benchmark_decisions(pi)
    best = (1 - oracle.benchmark[init]) * f[hoped]
    share, action = oracle.recommend(pi)
    return float(best - (1 - share) * f[action]), is_stable(game, share, pi, oracle.margin, 0.0)


def verdicts(frame: pd.DataFrame) -> Sequence[Verdict]:
    """No violation of the repaired oracle, some of the printed one."""
    totals = frame.groupby("oracle")[["loss_violations", "stability_violations", "instances"]].sum()
    fixed, printed = totals.loc["repaired"], totals.loc["printed"]
    share = clopper_pearson(int(printed["loss_violations"]), int(printed["instances"]))
    worst = frame.groupby("oracle")["worst_ratio"].max()
    return [
        equals(
            "07.04",
            "The repaired oracle never loses more than n (beta + delta) and is always stable.",
            fixed["loss_violations"] + fixed["stability_violations"],
            0,
            what=f"largest loss {worst['repaired']:.2f} of the bound; violations in "
            f"{int(fixed['instances'])}:",
        ),
        at_least(
            "07.05",
            "The printed oracle breaks its theorem on random instances.",
            printed["loss_violations"],
            1,
            what=f"largest loss {worst['printed']:.1f} times the bound; share {share}, violations",
        ),
    ]


def loss_figure(frame: pd.DataFrame) -> Figure:
    """Largest loss of the linear-contract oracle, as a multiple of what the theorem allows. The
    printed stability test accepts contracts at which the Agent shirks; the two-sided test does
    not."""
    figure, (axis,) = panels(1)
    worst = frame.groupby(["oracle", "step"])["worst_ratio"].max().unstack("oracle")
    worst = worst.sort_index(ascending=False)
    x = np.arange(len(worst))
    for i, name in enumerate(("printed", "repaired")):
        bars = axis.bar(x + 0.4 * i - 0.2, worst[name], 0.38, color=PALETTE[1 - i], label=name)
        axis.bar_label(bars, fmt="%.2f", fontsize=8, padding=1)
    axis.axhline(1.0, **THEORY, label="allowed by the theorem")
    axis.set_xticks(x, [f"{step:g}" for step in worst.index])
    axis.set_xlabel("step of the benchmark contracts")
    axis.set_ylabel("largest loss / allowed loss")
    axis.legend()
    return figure


ORACLE_REPAIR = Study(
    name="oracle-repair",
    title="The linear-contract oracle, printed and repaired",
    question=(
        "Does the oracle keep the promise of its theorem? As printed it may return a contract "
        "whose near-best actions are better for the Principal than what she gets; the repaired, "
        "two-sided test excludes that."
    ),
    claims=("07.04", "07.05"),
    grid=grid,
    cell=cell,
    verdicts=verdicts,
    figures={"loss": loss_figure},
)
