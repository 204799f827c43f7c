"""What the live guard promises, tried at length: regret, harm, purse, calibration, alarms."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.core.validation import FloatArray
from counterplay.errors import AssumptionWarning
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most
from counterplay.tradeoff import HarmBudget, bounds
from counterplay.tradeoff.evidence import BET
from counterplay.tradeoff.lab import LiveChampion

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

REGRET = {"regret, K = 3": (3, 4000), "regret, K = 5": (5, 20_000), "regret, shift": (5, 20_000)}
COUNTS = {"harm": 300, "purse": 200, "calibration": 400, "alarm": 2000}
CORRELATIONS, HISTORIES, ALPHA = (0.0, 0.5, 0.8), (100, 400), 0.05


def _grid(scale: Scale) -> Sequence[Params]:
    full = scale == "full"
    cells: list[Params] = [
        {"kind": kind, "policy": policy, "setting": 0.0, "history": 0, "replicate": i}
        for kind in REGRET
        for policy in ("guaranteed", "adaptive")
        for i in range(20 if full else 1)
        if full or kind == "regret, K = 3"
    ]
    for kind, settings in (("harm", (0.0,)), ("purse", (0.0,)), ("alarm", (0.05, 0.1))):
        size = 1 if kind != "alarm" else 200  # streams of a cell
        count = COUNTS[kind] // size if full else 2
        cells += [
            {"kind": kind, "policy": "", "setting": c, "history": 0, "replicate": i}
            for c in settings
            for i in range(count)
        ]
    return cells + [
        {"kind": "calibration", "policy": "", "setting": rho, "history": T0, "replicate": i}
        for rho in (CORRELATIONS if full else (0.5,))
        for T0 in (HISTORIES if full else (100,))
        for i in range(COUNTS["calibration"] if full else 2)
    ]


def _cell(params: Params, seed: int) -> Record:
    kind, rng = str(params["kind"]), np.random.default_rng(seed)
    record: dict[str, Any] = {
        "value": None,
        "bound": None,
        "other": None,
        "length": None,
        "streams": 1,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        if kind in REGRET:
            return record | _regret(kind, str(params["policy"]), rng)
        if kind in ("harm", "purse"):
            return record | _harm(kind, rng)
        if kind == "calibration":
            return record | _calibration(
                float(params["setting"] or 0.0), int(params["history"] or 0), rng
            )
    return record | _alarms(float(params["setting"] or 0.0), rng)


def _regret(kind: str, policy: Any, rng: np.random.Generator) -> dict[str, Any]:
    K, T = REGRET[kind]
    means = np.tile(np.linspace(0.5, 0.3, K), (T, 1))
    if kind == "regret, shift":
        means[T // 2 :] = means[T // 2 :, ::-1]
    error = (rng.random((T, K)) < means).astype(float)
    live = LiveChampion(
        n_models=K, horizon=T, budget=HarmBudget(0.5, 1e6), policy=policy, random_state=rng
    )
    path, _ = _driven(live, error, np.zeros((T, K)), 0)
    value = float(error[np.arange(T), path].sum() - error.sum(axis=0).min())
    return {"value": value, "bound": bounds.live_regret(T, K, live._guard.settings.epoch)}


def _harm(kind: str, rng: np.random.Generator) -> dict[str, Any]:
    """Regimes of harm 0, c and 1; the safe model is harmless or keeps the rate."""
    K, T = int(rng.integers(2, 6)), int(rng.integers(200, 1501))
    delay, c = int(rng.choice([0, 5, 20])), float(rng.choice([0.05, 0.1, 0.3]))
    # stretches of full harm are rare enough that somebody is usually allowed
    full = 0.3 if kind == "purse" else float(rng.choice([0.05, 0.1, 0.15]))
    harm = np.empty((T, K))
    for model in range(K):
        t = 0
        while t < T:
            n = int(rng.integers(5, 80))
            harm[t : t + n, model] = rng.choice([0.0, c, 1.0], p=[0.5 - full, 0.5, full])
            t += n
    options: dict[str, Any] = {}
    burst = float(rng.uniform(1, 8))
    if kind == "purse":
        harm[:, 0], burst = float(rng.choice([0.0, c])), 50.0
        options = {"safe": 0, "purse": float(rng.uniform(2, 15))}
    live = LiveChampion(
        n_models=K, horizon=T, budget=HarmBudget(c, burst), max_delay=delay, random_state=rng,
        **options,
    )  # fmt: skip
    path, stated = _driven(live, rng.random((T, K)), harm, delay)
    excess = np.cumsum(harm[np.arange(T), path] - c)
    if kind == "purse":
        return {
            "value": float(excess.max()),
            "bound": bounds.purse_harm(options["purse"], c, delay),
        }
    # at every time with the returns so far, until nobody is allowed: from then on it is infinite
    worst = int(np.argmax(excess / stated))
    void = float(np.isinf(stated[-1]))
    return {"value": float(excess[worst]), "bound": float(stated[worst]), "other": void}


def _driven(live: LiveChampion, error: FloatArray, harm: FloatArray, delay: int) -> Any:
    """Who was live in every round, and the harm bound that was stated after its decision."""
    path, stated = np.empty(len(error), dtype=np.int64), np.empty(len(error))
    for t in range(len(error)):
        path[t] = live.act().model
        stated[t] = live._harm_bound()
        due = t - delay
        if due >= 0:
            model = path[due]
            live.observe(due, primary=float(error[due, model]), secondary=float(harm[due, model]))
    return path, stated


def _calibration(rho: float, T0: int, rng: np.random.Generator) -> dict[str, Any]:
    """Autoregressive harm: is the burst, or the largest CUSUM of the history, exceeded?"""
    harm = _autoregressive(T0 + 1000, rho, rng)
    budget = HarmBudget.calibrate(harm[:T0], horizon=1000, random_state=rng)
    future = harm[T0:]
    recipe_rate = float(harm[:T0].mean())
    recipe = _largest(harm[:T0] - recipe_rate)
    return {
        "value": float(_largest(future - budget.rate) > budget.burst),
        "other": float(_largest(future - recipe_rate) > recipe),
    }


def _autoregressive(n: int, rho: float, rng: np.random.Generator) -> FloatArray:
    noise, level = rng.standard_normal(n), np.empty(n)
    level[0] = noise[0]
    for t in range(1, n):
        level[t] = rho * level[t - 1] + np.sqrt(1 - rho**2) * noise[t]
    return np.clip(0.1 + 0.05 * level, 0.0, 1.0)


def _largest(steps: FloatArray) -> float:
    sums = np.concatenate([[0.0], np.cumsum(steps)])
    return float((sums - np.minimum.accumulate(sums)).max())


def _alarms(c: float, rng: np.random.Generator) -> dict[str, Any]:
    """200 streams of 5,000 rounds at the rate, and of 40/c at twice the rate."""
    streams, T = 200, 5000
    steps = np.log1p(BET * ((rng.random((streams, T)) < c) - c))
    ever = float((np.cumsum(steps, axis=1) >= np.log(1 / ALPHA)).any(axis=1).mean())
    twice = np.log1p(BET * ((rng.random((streams, int(40 / c))) < 2 * c) - c))
    found = {"value": ever, "other": float((_waits(twice) <= twice.shape[1]).mean())}
    return found | {"length": float(np.minimum(_waits(steps), T).mean()), "streams": streams}


def _waits(steps: FloatArray) -> FloatArray:
    """Rounds until the bet that starts again whenever it has lost raises its alarm; or infinity."""
    level, waits = np.zeros(len(steps)), np.full(len(steps), np.inf)
    for t, column in enumerate(steps.T, start=1):
        level = np.maximum(level, 0.0) + column
        waits = np.where(level >= np.log(1 / ALPHA), np.minimum(waits, t), waits)
    return waits


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    found = []
    for (kind, policy), rows in frame[frame.kind.isin(list(REGRET))].groupby(["kind", "policy"]):
        told = f"{kind}, {policy}: mean regret"
        found.append(at_most("26.27", told, float(rows.value.mean()), float(rows.bound.iloc[0])))
    for kind, claim in (("harm", "26.28"), ("purse", "26.29")):
        rows = frame[(frame.kind == kind) & frame.bound.notna()]
        ratio = float((rows.value.astype(float) / rows.bound.astype(float)).max())
        told = f"{kind}: largest excess as a share of its bound, {len(rows)} streams"
        if kind == "harm":
            told += f", {int((rows.other == 0).sum())} of them not void at the end"
        found.append(at_most(claim, told, ratio, 1.0 + 1e-9))
    rows = frame[frame.kind == "calibration"]
    for (rho, T0), part in rows.groupby(["setting", "history"]):
        told = f"Calibrated burst exceeded, correlation {rho:g}, {T0} rounds of history"
        found.append(at_most("26.32", told, float(part.value.mean()), 0.1 if len(part) > 50 else 1))
        if len(part) > 50:
            told = f"The largest CUSUM of the history exceeded, {rho:g}, {T0} rounds"
            found.append(at_least("26.32", told, float(part.other.mean()), 0.5))
    for c, part in frame[frame.kind == "alarm"].groupby("setting"):
        n = int(part.streams.sum())
        limit = ALPHA + 3 * np.sqrt(ALPHA * (1 - ALPHA) / n)
        told = f"Alarm ever raised at the rate {c:g}, {n} streams of 5,000 rounds"
        found.append(at_most("26.33", told, float(part.value.mean()), limit))
        told = f"Rounds until the restarting alarm at the rate {c:g}, at most 5,000"
        found.append(at_least("26.33", told, float(part.length.mean()), 1 / ALPHA))
        told = f"Alarm raised within 40/c rounds at twice the rate {c:g}"
        found.append(at_least("26.33", told, float(part.other.mean()), 0.99))
    return found


def _ratios(frame: pd.DataFrame) -> Figure:
    """Measured number as a share of its bound (left), and share of futures in which the budget is
    exceeded (right): calibrated, and by the largest CUSUM of the history."""
    figure, (left, right) = panels(2, width=4.4, height=3.4)
    bounded = frame[frame.bound.notna()]
    for i, (_, rows) in enumerate(bounded.groupby("kind")):
        ratio = rows.value.astype(float) / rows.bound.astype(float)
        left.plot(ratio, np.full(len(rows), i), "o", color=PALETTE[0], alpha=0.25, ms=4)
    left.set_yticks(range(bounded.kind.nunique()), sorted(bounded.kind.unique()))
    left.axvline(1.0, color="0.3", ls="--", lw=1)
    left.set_xlabel("share of the bound")
    rows = frame[frame.kind == "calibration"]
    for i, (T0, part) in enumerate(rows.groupby("history")):
        shares = part.groupby("setting")[["value", "other"]].mean()
        right.plot(shares.value, "o-", color=PALETTE[i], label=f"calibrated, {T0} rounds")
        right.plot(shares.other, "s:", color=PALETTE[i], label=f"largest of {T0} rounds")
    right.axhline(0.1, color="0.3", ls="--", lw=1)
    right.set(xlabel="correlation of the harm", ylabel="share of futures that exceed it")
    right.legend(fontsize=7)
    return figure


GUARD_BOUNDS = Study(
    name="guard-bounds",
    title="What the live guard promises, tried at length",
    question=(
        "Regret, harm on every path, the purse, budgets from history and alarms: how near do "
        "simulated streams come to what is promised?"
    ),
    claims=("26.27", "26.28", "26.29", "26.32", "26.33"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"ratios": _ratios},
)
