"""Sampling: a few parties answer per round. Who leaves, and is "converged" true?"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.defection.split import heterogeneous_split
from counterplay.federated import (
    ADAGD,
    CallableObjective,
    Decision,
    FedAvg,
    LayeredObjective,
    LocalParties,
    LocalWork,
    Reports,
    Rule,
    RuleState,
    SafeStep,
    train,
)
from counterplay.studies.defection.sampling_pictures import distances, traces
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most, equals

if TYPE_CHECKING:
    import pandas as pd

EPS, DELTA, CAP, STEP, ROUNDS = 0.2, 0.02, 0.2, 0.5, 400
ADA_STEP = 0.05
FRACTION = 0.3
LOCAL = LocalWork(5, 32)
CONVEX = ("cuts", "sample only", "ADA-GD with cuts")
DIGITS = (
    "FedAvg",
    "sample only",
    "cuts",
    "everybody",
    "FedAvg, ordinary",
    "ordinary, nominal scale",
    "ordinary, learned scale",
    "ADA-GD with cuts",
    "ADA-GD, everybody",
)


class SampleOnly:
    """SafeStep that sees those who answered in this round, and believes them: a baseline."""

    def __init__(self, rule: SafeStep) -> None:
        self.rule, self.delta = rule, rule.delta

    def decide(self, reports: Reports, step_size: float, state: RuleState) -> Decision:
        """Decide as if nobody else was there."""
        return self.rule.decide(reports, step_size, state)


class HuberWorld:
    """Eight parties with four rows each in 36 dimensions: convex, and all can be served at once."""

    def __init__(self, seed: int, parties: int = 8, rows: int = 4, d: int = 36) -> None:
        rng = np.random.default_rng(seed)
        self.rows = rng.normal(size=(parties, rows, d))
        self.rows /= np.linalg.norm(self.rows, axis=2, keepdims=True)
        self.w0 = 2.0 * rng.normal(size=d)
        self.H = max(float(np.linalg.eigvalsh(a.T @ a / rows)[-1]) for a in self.rows)
        first = float(self.losses(self.w0).min())
        self.eps, self.delta = 0.1 * first, 0.05 * first

    def losses(self, w: Any) -> Any:
        """Loss of every party."""
        even = np.full(self.rows.shape[1], 1.0 / self.rows.shape[1])
        return np.array([huber(w, a, None, even)[0] for a in self.rows])

    def parties(self) -> LocalParties:
        """The parties, ready to train."""
        labels = np.zeros(self.rows.shape[1], dtype=int)
        data = {f"p{m}": (a, labels) for m, a in enumerate(self.rows)}
        objective = CallableObjective(self.rows.shape[2], huber, start=self.w0)
        return LocalParties(objective, data, threshold=self.eps)


def huber(w: Any, rows: Any, labels: Any, weights: Any) -> tuple[float, Any]:
    """Mean Huber loss of ``rows @ w`` around 0, and its gradient."""
    z = rows @ w
    size = np.abs(z)
    values = np.where(size <= 1.0, z * z / 2.0, size - 0.5)
    return float(weights @ values), rows.T @ (weights * np.clip(z, -1.0, 1.0))


class Watched(LayeredObjective):
    """A network that remembers the model of every round."""

    seen: list[Any]

    def gradients(self, w: Any, x: Any, y: Any, weight: Any) -> tuple[Any, Any, Any]:
        """Return loss, accuracy and gradients."""
        self.seen.append(w[0].copy())
        return super().gradients(w, x, y, weight)


def _grid(scale: Scale) -> list[Params]:
    quick = scale == "quick"
    steps = (1.0,) if quick else (0.5, 1.0, 5.0)
    cells: list[Params] = [
        {"task": "convex", "rule": rule, "fraction": f, "steps": s, "replicate": r}
        for rule in CONVEX
        for f in (0.25, 0.5, 1.0)
        for s in steps
        for r in range(3 if quick else 20)
        if not (rule == "sample only" and f == 1.0)
    ]
    cells += [
        {"task": "digits", "rule": rule, "fraction": FRACTION, "steps": 1.0, "replicate": r}
        for rule in DIGITS
        for r in range(1 if quick else 5)
    ]
    return cells


def _cell(params: Params, seed: int) -> Record:
    return _convex(params) if params["task"] == "convex" else _digits(params)


def _convex(params: Params) -> Record:
    replicate, fraction = int(params["replicate"] or 0), float(params["fraction"] or 1.0)
    world = HuberWorld(replicate)
    rules: dict[str, Rule] = {
        "cuts": SafeStep(world.delta),
        "sample only": SampleOnly(SafeStep(world.delta)),
        "ADA-GD with cuts": ADAGD(world.delta),
    }
    run = train(
        world.parties(),
        rules[str(params["rule"])],
        step_size=float(params["steps"] or 1.0) / world.H,
        fraction=fraction,
        convex=True,
        random_state=replicate,
    )
    frame = run.to_frame()
    stayed = [run.final[name] for name in run.final if name not in run.left]
    return {
        "status": run.status,
        "left": len(run.left),
        "answers": run.answers,
        "rounds": len(run.rounds),
        "worst": (max(stayed, default=math.nan) - world.eps) / world.delta,
        "room": float(((frame["loss"] - frame["threshold"]) / world.delta).min()),
        "undone": sum("fell too little" in remark for remark in run.remarks),
        "trace": "",
    }


def _digits(params: Params) -> Record:
    replicate, name = int(params["replicate"] or 0), str(params["rule"])
    parties = digits_parties(replicate, name)
    safe = SafeStep(DELTA, cap=CAP)
    rule: Rule = ADAGD(DELTA) if name.startswith("ADA-GD") else safe
    if name.startswith("FedAvg"):
        rule = FedAvg()
    elif name == "sample only":
        rule = SampleOnly(safe)
    run = train(
        parties,
        rule,
        step_size=ADA_STEP if isinstance(rule, ADAGD) else STEP,
        fraction=1.0 if name.endswith("everybody") else FRACTION,
        rounds=1000 if isinstance(rule, ADAGD) else ROUNDS,
        random_state=replicate,
    )
    return {
        "status": run.status,
        "left": len(run.left),
        "answers": run.answers,
        "rounds": len(run.rounds),
        "worst": float(run.final_losses.max() - EPS) / DELTA,
        "room": float(run.to_frame()["gap"].min() / DELTA),
        "undone": 0,
        "trace": json.dumps(_trace(parties, run)) if replicate == 0 else "",
    }


def digits_parties(replicate: int, name: str) -> LocalParties:
    """Ten parties that keep 90 % of their own classes."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    owner = heterogeneous_split(X, y, 10, own_fraction=0.9, random_state=replicate).agent_of_row
    data = {f"site {m}": (X[owner == m] / 16.0, y[owner == m]) for m in range(10)}
    model = Watched([64, 32, 10])
    model.seen = []
    ordinary = "ordinary" in name
    parties = LocalParties(
        model,
        data,
        threshold=EPS,
        work=LOCAL if ordinary else LocalWork(),
        learn_scale="nominal" not in name,
    )
    return parties.ordinary() if ordinary and not name.startswith("FedAvg") else parties


def _trace(parties: LocalParties, run: Any) -> dict[str, Any]:
    """Answers used so far and the loss of everybody, at the model of every round."""
    model, used, rows = parties.model, 0, []
    for w, gauge in zip(model.seen, run.rounds):
        losses = []
        for X, y in parties.data.values():
            even = np.full((1, len(y)), 1.0 / len(y))
            losses.append(float(model.evaluate(w[None], X[None], y[None], even)[0][0]))
        rows.append([used, *(round(loss, 4) for loss in losses)])
        used += len(gauge.present)
    thin = sorted({*range(0, len(rows), max(1, len(rows) // 200)), len(rows) - 1})
    return {"rows": [rows[i] for i in thin], "left": run.left, "status": run.status}


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    convex, digits = (frame[frame["task"] == task] for task in ("convex", "digits"))
    cuts = convex[(convex["rule"] == "cuts") & (convex["fraction"] < 1.0)]
    unit = convex[(convex["steps"] == 1.0)]
    old = unit[unit["rule"] == "sample only"]
    claims = old[old["status"] == "converged"]
    medians = unit[unit["rule"] == "cuts"].groupby("fraction")["answers"].median()
    own = digits.set_index("rule")
    kept, full = own.loc[["cuts"]], own.loc[["everybody"]]
    ordinary = own.loc[["ordinary, learned scale"]]
    return [
        at_least("23.16", "No loss falls below its margin at a broadcast model.",
                 float(cuts["room"].min()), 1.0 - 1e-9, what="margins"),
        equals("23.16", "Every sampled run with cuts converges, without a rollback.",
               float(((cuts["status"] == "converged") & (cuts["undone"] == 0)).sum()), len(cuts),
               what="runs"),
        at_most("23.17", "Converged is true: everybody is within twice the margin.",
                float(cuts["worst"].max()), 2.0 + 1e-9, what="margins"),
        at_least("23.17", "The rule on the sample alone claims falsely.",
                 float((claims["worst"] > 2.0).mean()), 0.8, what="share of its claims"),
        at_most("23.18", "A quarter per round: answers against everybody.",
                float(medians[0.25] / medians[1.0]), 0.4, what="ratio"),
        at_most("23.18", "Half per round: answers against everybody.",
                float(medians[0.5] / medians[1.0]), 0.65, what="ratio"),
        equals("23.20", "On digits nobody leaves and every claim is true.",
               float(((kept["left"] == 0) & (kept["worst"] <= 2.0)).sum()), len(kept), what="runs"),
        at_most("23.20", "On digits: answers against everybody.",
                float(kept["answers"].sum() / full["answers"].sum()), 0.8, what="ratio"),
        equals("23.21", "Ordinary clients with a loss stay.",
               float(ordinary["left"].sum()), 0.0, what="left"),
        at_most("23.21", "Ordinary clients end near their targets.",
                float(ordinary["worst"].max()) * DELTA, 0.08, what="excess"),
    ]  # fmt: skip


SAMPLING = Study(
    name="sampling",
    title="A few parties answer per round",
    question=(
        "Three of ten parties answer in a round, or a quarter of eight. Does a server that keeps "
        "the latest answer of everybody lose somebody, is its verdict true, and how many answers "
        "does it need? Compared with a rule that looks at the sample alone and with averaging."
    ),
    claims=("23.16", "23.17", "23.18", "23.20", "23.21"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"sampling": distances, "sampling-traces": traces},
)
