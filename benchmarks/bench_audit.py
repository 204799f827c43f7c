"""The audit: menus on encoded rows against a frame per option, and where its time goes.

    python benchmarks/bench_audit.py

Prints ratios from one run, in CPU seconds. With ``COUNTERPLAY_DATA`` German credit is audited, else
the breast cancer table that comes with scikit-learn. giskard's scan and deepchecks' full suite are
timed beside it where ``COUNTERPLAY_GISKARD`` and ``COUNTERPLAY_DEEPCHECKS`` name a Python that has
the package; both need older packages than ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from ledger import Times, compare, growth, skipped, timed

from counterplay import cli
from counterplay.auditing.context import Context
from counterplay.auditing.plan import run_plan
from counterplay.auditing.sections import (
    GamingSection,
    HonestSection,
    PlantedSection,
    SymmetrySection,
)
from counterplay.auditing.sections.gaming import budgets_of, cheapest_of
from counterplay.core.threads import one_thread
from counterplay.studies.auditing.people import STAND_IN, available, context_of, table
from counterplay.tables import Table

PEERS = {"giskard": "its scan", "deepchecks": "its full suite"}
WIDTH, DEPTH = 3, 4  # of the search: partial changes that a person keeps, columns they change
Option = tuple[str, Callable[[Any], tuple[Any, Any]], float]


def options(context: Context) -> list[Option]:
    """Column, change (new values of a column, and where they are possible) and price of each."""
    frame, top = context.table.frame(), budgets_of(context)[-1]
    found: list[Option] = []
    for name, entry in context.settings["movable"].items():
        if "switch" in entry:
            for source, targets in entry["switch"].items():
                found += [(name, _switched(source, to), price) for to, price in targets.items()]
        elif "direction" in entry:
            way = entry["step"] * (-1 if entry["direction"] == "down" else 1)
            ends = entry.get("low", -np.inf), entry.get("high", np.inf)
            steps = range(1, int(top / entry["cost"]) + 1)
            found += [(name, _stepped(k * way, *ends), k * entry["cost"]) for k in steps]
        else:
            values = frame[name].unique().tolist()
            found += [(name, _switched(None, to), entry["cost"]) for to in values]
    return found


def _switched(source: Any, to: Any) -> Callable[[Any], tuple[Any, Any]]:
    return lambda column: (to, column != to if source is None else column == source)


def _stepped(by: float, low: float, high: float) -> Callable[[Any], tuple[Any, Any]]:
    return lambda column: (column + by, (column + by >= low) & (column + by <= high))


def pandas_copies(context: Context) -> list[int]:
    """Return who is accepted at each budget by a search that copies the frame for each option.

    What a first draft does: everybody keeps his three best partial changes and adds one column at
    a time, at most four. It reaches at most what the exact search does.
    """
    start, menu, found = context.table.frame(), options(context), []
    for budget in budgets_of(context)[1:]:
        best = context.scores(context.estimator, Table.of(start))
        slots = [(start, np.zeros(len(start)), np.zeros((len(start), start.shape[1]), dtype=bool))]
        for _ in range(DEPTH):
            grown = []
            for frame, spent, used in slots:
                for name, change, price in menu:
                    place = start.columns.get_loc(name)
                    values, possible = change(frame[name])
                    ok = (spent + price <= budget + 1e-9) & ~used[:, place] & np.asarray(possible)
                    copy = frame.copy()
                    copy[name] = frame[name].where(~ok, values)
                    score = np.where(ok, context.scores(context.estimator, Table.of(copy)), -np.inf)
                    touched = used.copy()
                    touched[:, place] |= ok
                    grown.append((score, copy, spent + price * ok, touched))
            scores = np.array([score for score, *_ in grown])
            order = np.argsort(-scores, axis=0)[:WIDTH]
            best = np.maximum(best, scores.max(axis=0))
            slots = [_picked(grown, choice) for choice in order]
        found.append(int((best > 0).sum()))
    return found


def _picked(grown: list[Any], choice: Any) -> tuple[Any, Any, Any]:
    """Return for every person the partial change that was chosen."""
    every = np.arange(len(choice))
    frames = pd.concat([copy for _, copy, *_ in grown], ignore_index=True)
    frame = frames.iloc[choice * len(choice) + every].reset_index(drop=True)
    spent, used = (np.array([item[k] for item in grown])[choice, every] for k in (2, 3))
    return frame, spent, used


def main() -> None:
    """Record the comparisons."""
    name = "german_credit" if available("german_credit") else STAND_IN
    rows = np.arange(len(table(name)[1]))
    context = context_of(name, "LR", rows)
    sections = [HonestSection(), GamingSection(), PlantedSection(), SymmetrySection()]
    with one_thread():
        run_plan(context_of(name, "LR", rows[:200]), sections=sections, time_budget=3600)  # compile
        budgets = budgets_of(context)[1:]
        ours = timed(lambda: cheapest_of(context, rows), cpu=True)  # prices answer for all budgets
        theirs = timed(lambda: pandas_copies(context), cpu=True)
        reached = [int((ours.result.upper <= b * (1 + 1e-9)).sum()) for b in budgets]
        compare("audit", f"cheapest moves at {len(budgets)} budgets on encoded menus, {name}", ours,
                theirs, against="a copy of the frame per option", package="pandas", bar=10,
                note=f"accepted {reached} by ours, exact, and {theirs.result} by theirs, a search "
                "that keeps three partial changes a person")  # fmt: skip
        total = timed(
            lambda: run_plan(
                context_of(name, "LR", rows),
                sections=sections,
                time_budget=3600,
            ),
            cpu=True,
        )
    for log in total.result.stages:
        growth("audit", f"{log.section}, {log.stage}, {name}", {len(rows): log.used_s}, size="rows",
               note="" if log.done else "not done")  # fmt: skip
    for package, said in PEERS.items():
        peer(package, said, name, context, total)
    pages(context)
    if available("taiwan"):
        in_time()


def in_time() -> None:
    """Record the wall time of an audit of 30,000 rows that is given a minute."""
    rows = np.arange(len(table("taiwan")[1]))
    context = context_of("taiwan", "HGB", rows)
    spent = timed(lambda: run_plan(context, time_budget=60.0), 1)
    cut = [f"{log.section}.{log.stage}" for log in spent.result.stages if log.done < log.wanted]
    growth("audit", "boosted trees on Taiwan, a minute is given", {len(rows): spent}, size="rows",
           bar=80.0, note=f"wall time; cut short: {', '.join(cut) or 'nothing'}")  # fmt: skip


def peer(package: str, said: str, name: str, context: Context, ours: Times) -> None:
    """Compare with a package on the same kind of model and table, in the Python that has it."""
    what, variable = f"audit of {name}, all default sections", f"COUNTERPLAY_{package.upper()}"
    python = os.environ.get(variable)
    if not python:
        skipped("audit", f"{what}, {package}", f"{variable} does not name a Python that has it")
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "table.csv")
        context.frame.assign(outcome=context.labels).to_csv(file, index=False)
        script = Path(__file__).with_name(f"{package}_peer.py")
        done = subprocess.run(
            [python, str(script), str(file), "outcome"], capture_output=True, text=True, check=False
        )
    if done.returncode:
        skipped("audit", f"{what}, {package}", f"it fails: {done.stderr.strip()[-120:]}")
        return
    told = json.loads(done.stdout.strip().splitlines()[-1])
    note = f"it finds {told['issues']} issues; compilation is not counted"
    bar = 1 / 2 if package == "giskard" else None
    compare("audit", what, ours, Times(tuple(told["seconds"])), package=package, bar=bar,
            against=f"{package} {told['version']}, {said}", note=note)  # fmt: skip


def pages(context: Context) -> None:
    """Record how long the page takes, and the check of a config."""
    from counterplay.auditing.demo import demo_audit
    from counterplay.auditing.page import render_page

    audit = demo_audit(sections=["honest", "gaming"])
    growth("audit", "page rendered", {audit.record.subject.n: timed(
        lambda: render_page(audit.record), turns=3, cpu=True)}, size="rows", bar=1.0)  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        table, config = Path(folder, "loans.csv"), Path(folder, "audit.toml")
        frame = context.frame.assign(outcome=context.labels)
        frame.to_csv(table, index=False)
        config.write_text(f'[data]\nlabel = "outcome"\npositive = {context.positive!r}\n')
        checked = timed(lambda: cli.run(["audit", "check", str(config), str(table)]), cpu=True)
        growth("audit", "audit check", {len(frame): checked}, size="rows", bar=2.0)


if __name__ == "__main__":
    main()
