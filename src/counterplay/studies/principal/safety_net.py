"""The safety net: guarded forecasts, limits of audits, insured advice, flu trends by week.

Source: docs/theory/25-offers.md, "Measured".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, THEORY, panels
from counterplay.principal import (
    ContextualSwapAgent,
    Decision,
    LinearContractOracle,
    StableMechanism,
    UnbiasedForecaster,
    behaviour_audit,
    decision_audit,
)
from counterplay.principal.behaviour_audit import swap_limits
from counterplay.principal.lab import (
    EmpiricalMeanForecaster,
    EWMAForecaster,
    Stage,
    insured,
)
from counterplay.studies.principal.advice_runs import GAME, INSIDE, inside_run, insured_run
from counterplay.studies.principal.forecast_logs import EXPERTS, FLU, expert_run, flu_run
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

HALF = Decision([[1.0, 0.0], [0.0, 1.0]], name="half", actions=["no", "yes"])
KINDS = ("iid", "drifting", "periodic", "threshold")


def grid(scale: Scale) -> Sequence[Params]:
    """Guard: sequences x bases; audits; insured advice; full: flu, guards inside, experts."""
    quick = scale == "quick"
    cells: list[dict[str, Any]] = []

    def add(part: str, case: str, other: str, count: int) -> None:
        cells.extend(
            {"part": part, "case": case, "other": other, "replicate": i} for i in range(count)
        )

    for kind in KINDS:
        for base in ("ewma", "mean"):
            add("guard", kind, base, 1 if quick else 50)
    add("adversary", "threshold", "ewma", 1 if quick else 5)
    for case in ("0.4", "0.02"):
        add("limits", case, "", 1 if quick else 30)
    add("threshold", "", "", 1 if quick else 50)
    for agent in ("swap", "spiteful"):
        for advice in ("0.55", "0.05", "0.95"):
            few = 4 if (agent, advice) != ("swap", "0.55") else 40
            add("insured", agent, advice, (1 if agent == "swap" else 0) if quick else few)
    if not quick:
        for order in ("file", "weeks"):
            for name in FLU:
                add("flu", order, name, 5 if name in ("unbiased", "guarded running mean") else 1)
        for kind in ("spiteful", "spiteful shift", "swap"):
            for base in INSIDE:
                add("inside 200", kind, base, 10)
                add("inside 1000", kind, base, 5)
        for expert in EXPERTS:
            add("experts", expert, "", 1)
    return cells


def cell(params: Params, seed: int) -> Record:
    """One run of a part; limits and thresholds are ten runs."""
    part, case, other = (str(params[name]) for name in ("part", "case", "other"))
    if part == "guard":
        return _guard(case, other, seed)
    if part == "adversary":
        return _adversary(seed)
    if part == "limits":
        return _mean([_limits(float(case), [seed, i]) for i in range(10)])
    if part == "threshold":
        return _mean([_threshold([seed, i]) for i in range(10)])
    if part == "insured":
        return insured_run(case, float(other), seed)
    if part.startswith("inside"):
        return inside_run(case, other, int(part.split()[1]), seed)
    return expert_run(case) if part == "experts" else flu_run(case, other, seed)


def _mean(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def outcomes(kind: str, rounds: int, seed: int) -> Any:
    """A series; None for the adversary who answers 1 exactly when the forecast is below 1/2."""
    rng, t = np.random.default_rng([seed, 1]), np.arange(rounds)  # not the forecaster's stream
    if kind == "threshold":
        return None
    if kind == "periodic":
        return (t % 7 < 2).astype(int)
    chance = 0.3 + 0 * t if kind == "iid" else 0.5 + 0.45 * np.sin(t / 60)
    return (rng.random(rounds) < chance).astype(int)


def forecast(forecaster: Any, kind: str, rounds: int, seed: int) -> tuple[Any, Any]:
    """Forecasts and outcomes of a run."""
    given, made, seen = outcomes(kind, rounds, seed), [], []
    for t in range(rounds):
        points, weights = forecaster.distribution()
        y = int(weights @ points[:, 1] < 0.5) if given is None else int(given[t])
        made.append(forecaster.predict_one())
        forecaster.learn_one(y)
        seen.append(y)
    return np.array(made), np.array(seen)


def _guard(kind: str, base: str, seed: int) -> dict[str, float]:
    source = EWMAForecaster() if base == "ewma" else EmpiricalMeanForecaster()
    made = UnbiasedForecaster(2, events=[HALF], base=source, horizon=600, random_state=seed)
    forecast(made, kind, 600, seed)
    found = made.certificate()
    return {
        "potential": found.potential / found.start,
        "bound": found.budget / found.start,
        "account": found.account,
        "kept": found.kept,
        "ratio": found.worst_ratio,
    }


def _adversary(seed: int) -> dict[str, float]:
    """Bias of a recent average and of its guarded version at 1,000 rounds."""
    alone, guarded = EWMAForecaster(2), UnbiasedForecaster(
        2, events=[HALF], base=EWMAForecaster(), horizon=1000, random_state=seed
    )  # fmt: skip
    points, y = forecast(alone, "threshold", 1000, seed)
    act = np.array([HALF.key(point, None) for point in points])
    bias = sum(np.abs((points - np.eye(2)[y])[act == a].sum(axis=0)).sum() for a in (0, 1)) / 1000
    forecast(guarded, "threshold", 1000, seed)
    certificate = guarded.certificate()
    return {
        "alone": float(bias),
        "guarded": float(guarded.bias_report()["alpha"].sum()),
        "ratio": certificate.worst_ratio,
    }


def _limits(rare: float, key: list[int]) -> dict[str, float]:
    rng, T = np.random.default_rng(key), 400
    y = (rng.random(T) < rare).astype(np.int64)
    actions, p_idx = rng.integers(0, 3, T), rng.integers(0, 2, T)
    stage = Stage(GAME, (0.3, 0.6), p_idx, np.zeros(T, dtype=np.int64), y)
    low, high = swap_limits(stage, actions, 0.95)
    true = 0.0
    for i, policy in enumerate((0.3, 0.6)):
        expected = GAME.agent_utility(policy) @ np.array([1 - rare, rare])
        for a in range(3):
            true += float(np.mean((p_idx == i) & (actions == a)) * (expected.max() - expected[a]))
    inside = low - 1e-12 <= true <= high + 1e-12
    return {"covered": float(inside), "width": (high - low) / stage.stakes[0]}


def _threshold(key: list[int]) -> dict[str, float]:
    rng = np.random.default_rng(key)
    tau, risk = float(rng.uniform(0.15, 0.6)), rng.beta(1, 2, 600)
    log = {"done": risk >= tau, "event": (rng.random(600) < risk).astype(int)}
    limits = decision_audit(log, decision="done", outcome="event").threshold
    assert limits is not None
    return {"covered": float(limits[0] <= tau <= limits[1]), "width": limits[1] - limits[0]}


def verdicts(frame: pd.DataFrame) -> Sequence[Verdict]:
    """Account, potential, bias, coverage and switches."""
    quick = len(frame) < 60
    own = dict(list(frame.groupby("part")))
    guard = own["guard"].groupby(["case", "other"]).mean(numeric_only=True)
    limits = own["limits"].groupby("case")["covered"].mean()
    swap = own["insured"][own["insured"]["case"] == "swap"]
    right = swap[swap["other"] == "0.55"]
    wrong = swap[swap["other"] == "0.95"]
    return [
        at_most("25.21", "The account never exceeds the budget.", own["guard"]["account"].max(),
                1.0, slack=1e-9, what="largest account / K"),
        at_most("25.21", "The mean potential stays below its bound.",
                (guard["potential"] / guard["bound"]).max(), 1.0 + 2.0 * quick,
                what="largest ratio"),
        at_least("25.23", "The adversary breaks a recent average.",
                 own["adversary"]["alone"].min(), 1.0, what="bias"),
        at_most("25.23", "He does not break the guarded one.", own["adversary"]["guarded"].max(),
                0.08, what="bias"),
        at_least("25.16", "Limits of the swap regret cover.", limits.min(), 0.95 - 0.3 * quick),
        at_least("25.27", "The interval covers the threshold.", own["threshold"]["covered"].mean(),
                 0.95 - 0.3 * quick),
        at_least("25.26", "Right advice is never left.", (right["switch"] > 1500).mean(), 0.95),
        at_most("25.26", "Wrong advice is left in time.", wrong["switch"].max(), 400,
                what="last switch"),
        at_most("25.26", "The coin is independent of the states.",
                own["insured"]["correlation"].quantile(0.95), 3.0,
                what="95 % quantile of correlation x sqrt(rounds)"),
    ]  # fmt: skip


def telescope_figure(frame: pd.DataFrame) -> Figure:
    """Summed residual of outcome 1 over the rounds: a recent average telescopes on a calm series
    (left) and is driven away by the adversary (right), where its guarded version stays within its
    bound (dashed)."""
    figure, axes = panels(2, width=5.2, height=3.6)
    for axis, kind in zip(axes, ("drifting", "threshold")):
        for i, (name, base) in enumerate((("recent average", None), ("guarded", EWMAForecaster()))):
            made: Any = EWMAForecaster(2)
            if base is not None:
                made = UnbiasedForecaster(2, events=[HALF], base=base, horizon=800, random_state=0)
            points, y = forecast(made, kind, 800, 0)
            act = np.array([HALF.key(point, None) for point in points])
            total = np.cumsum(np.where(act == 1, points[:, 1] - y, 0.0))
            axis.plot(np.abs(total), color=PALETTE[i], label=name)
            if base is not None:
                bound = made.potential_.bound(made.budget_, 0.05)[:, 1].max()
                axis.axhline(bound, **THEORY)
        axis.set_xlabel("round")
        axis.set_ylabel("|summed residual| on 'yes'")
        axis.set_title({"drifting": "drifting series", "threshold": "adversary"}[kind], fontsize=10)
        axis.legend()
    return figure


def audit_figure(frame: pd.DataFrame) -> Figure:
    """Relative regret of three agents as intervals: one who takes the best action, one who plays at
    random, one who always takes the dearest; dashed: the tolerance."""
    figure, (axis,) = panels(1, height=2.6)
    rng = np.random.default_rng(0)
    states = rng.integers(0, 2, 600)
    names = ("best action", "at random", "dearest action")
    for i, actions in enumerate((np.full(600, 1), rng.integers(0, 3, 600), np.full(600, 2))):
        log = {"offer": [0.3] * 600, "action": actions, "state": states}
        report = behaviour_audit(log, GAME)
        low, high = report.relative_limits
        axis.plot([low, high], [i, i], color=PALETTE[i], linewidth=5, alpha=0.4)
        axis.plot([report.relative], [i], "o", color=PALETTE[i])
    axis.axvline(0.1, **THEORY)
    axis.set_yticks(range(3), names)
    axis.set_ylim(-0.6, 2.6)
    axis.set_xlabel("regret as a share of what was at stake")
    return figure


def insured_figure(frame: pd.DataFrame) -> Figure:
    """Running means of the two arms of insured advice; the dashed line is the switch. Right advice
    (left) is kept, wrong advice (right) is left."""
    figure, axes = panels(2, width=5.0, height=3.4)
    states = (np.random.default_rng(5).random(1000) < 0.6).astype(np.int64)
    oracle = LinearContractOracle(GAME, np.linspace(0, 1, 21), horizon=1000)
    for axis, advice in zip(axes, (0.55, 0.95)):
        mechanism = StableMechanism(oracle, random_state=0)
        insured(mechanism, advice, ContextualSwapAgent(), states, random_state=0).plot(axis)
        axis.set_title(f"advice {advice:g}", fontsize=10)
    return figure


SAFETY_NET = Study(
    name="safety-net",
    title="Forecasts, audits and advice with a safety net",
    question=(
        "Does a guarded forecaster keep its base where it does well and its bound where it does "
        "not, do the limits of audits cover, and what does insuring an advised offer cost and save?"
    ),
    claims=("25.16", "25.21", "25.23", "25.26", "25.27"),
    grid=grid,
    cell=cell,
    verdicts=verdicts,
    figures={"telescope": telescope_figure, "audit": audit_figure, "insured": insured_figure},
    data=("flusight", "gjp"),
    full_needs="the FluSight and Good Judgment data",
)
