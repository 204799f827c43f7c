"""A log of several models in use: the guard of `counterplay.tradeoff` replayed on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from counterplay.auditing.context import Context
from counterplay.auditing.findings import Column, Finding, Grid, Missing, SectionResult
from counterplay.auditing.quantity import Quantity
from counterplay.auditing.section import Stage, stage_records
from counterplay.auditing.sections.logs import log_missing, read_log
from counterplay.core.report import plural
from counterplay.core.validation import IntArray
from counterplay.errors import InvalidInputError
from counterplay.tradeoff import ChampionChallenger, HarmBudget

SECONDS = 2e-4  # of one round


class ChampionSection:
    """Would a guard have kept the harm within its budget?"""

    name, title, order, version = "champion", "Which model should be live?", 60, 1
    reads = ("champion",)

    def needs(self, context: Context) -> list[Missing]:
        """Return what is missing: the log."""
        return log_missing(context, "champion", "log of models in use")

    def stages(self, context: Context) -> list[Stage]:
        """Return one stage: the replay."""
        rounds = len(_losses(context)[0])
        return [
            Stage(
                name="replay", items=1, n_min=1, n_want=1, batch=1, run=_replay,
                seconds=lambda pilot, m: SECONDS * rounds,
            )
        ]  # fmt: skip

    def result(self, context: Context, records: pd.DataFrame) -> SectionResult:
        """Return losses and harm of every model and of the guard."""
        return _result(context, stage_records(records, "replay"))


def _losses(context: Context) -> tuple[Any, Any, list[str]]:
    """Return primary loss and harm per round and model, and the names of the models."""
    keys = {k: str(context.setting("champion", k, k)) for k in ("time", "model", "primary", "harm")}
    log = read_log(context, "champion", list(keys.values()))
    parts = [
        log.pivot_table(index=keys["time"], columns=keys["model"], values=keys[k], aggfunc="mean")
        for k in ("primary", "harm")
    ]
    if any(part.isna().to_numpy().any() for part in parts):
        raise InvalidInputError(
            "the log of [champion] lacks some model at some time; every model must be judged at "
            "every time"
        )
    tables = [part.to_numpy(dtype=np.float64) for part in parts]
    if any((t < 0).any() or (t > 1).any() for t in tables):
        raise InvalidInputError("losses and harm in the log of [champion] must be between 0 and 1")
    return tables[0], tables[1], list(map(str, parts[0].columns))


def budget_of(context: Context, harm: Any) -> HarmBudget:
    """Return the tolerated harm: the rate of the config, and bursts of the root of the rounds."""
    rate = context.setting("champion", "budget")
    rate = float(harm.mean()) if rate is None else float(rate)
    return HarmBudget(min(1.0, rate), float(max(1.0, np.sqrt(len(harm)))))


def _replay(context: Context, items: IntArray) -> list[dict[str, Any]]:
    """Return the totals of every model and of the guard on the log."""
    primary, harm, names = _losses(context)
    budget = budget_of(context, harm)
    guard = ChampionChallenger(
        n_models=len(names), budget=budget, horizon=len(primary), policy="adaptive",
        random_state=context.seed,
    )  # fmt: skip
    for losses, harms in zip(primary, harm):
        guard.step(losses, harms)
    report = guard.report()
    records: list[dict[str, Any]] = [
        {"item": 0, "who": name, "primary": float(report.primary[j]), "harm": float(report.harm[j])}
        for j, name in enumerate(names)
    ]
    records.append(
        {
            "item": 0, "who": "(guard)", "primary": report.played[0], "harm": report.played[1],
            "switches": len(report.switch_log) - 1, "rounds": len(primary), "rate": budget.rate,
            "burst": budget.burst, "bound": float(report.harm_bound),
            "void": bool(report.nobody_left),
        }
    )  # fmt: skip
    return records


def _result(context: Context, records: pd.DataFrame) -> SectionResult:
    guard = records[records["who"] == "(guard)"].iloc[0]
    rounds = int(guard["rounds"])

    def mean(value: float) -> Quantity:
        return Quantity.certain(value / rounds, unit="share", n=rounds)

    lines = [(str(r.who), mean(r.primary), mean(r.harm)) for r in records.itertuples(index=False)]
    excess = (guard["harm"] - guard["rate"] * rounds) / rounds
    kept = excess <= 0
    sentence = (
        f"Replayed on {rounds:,} rounds, the guard has a loss of {guard['primary'] / rounds:.3f} "
        f"and a harm of {guard['harm'] / rounds:.3f} against a budget of {guard['rate']:.3f}, with "
        f"{plural(int(guard['switches']), 'switch', 'switches')}."
    )
    if bool(guard["void"]):
        sentence += " At some time every model was above the budget: nothing is guaranteed."
    return SectionResult(
        name="champion",
        title=ChampionSection.title,
        lead=("Every model of the log was judged at every time; the guard decides with the past "
              "alone.",),
        findings=(
            Finding(
                name="replayed_guard", sentence=sentence, severity="good" if kept else "medium",
                quantity=mean(float(guard["harm"])),
            ),
        ),
        tables=(
            Grid(
                title="Models and guard", rows=tuple(lines),
                columns=(Column(name="model"), Column(name="primary loss", number=True),
                         Column(name="harm", number=True)),
                note=f"Means per round; harm budget {guard['rate']:.3f} per round, bursts of "
                f"{guard['burst']:.3g}.",
            ),
        ),
        quantities={"guard_harm": mean(float(guard["harm"])),
                    "guard_primary": mean(float(guard["primary"]))},
        assumptions=("Losses in the log do not react to which model was live.",),
    )  # fmt: skip
