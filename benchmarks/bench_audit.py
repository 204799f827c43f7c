"""The audit: menus on encoded rows against a frame per option, and where its time goes.

    python benchmarks/bench_audit.py

Prints ratios from one run, in CPU seconds. With ``COUNTERPLAY_DATA`` German credit is audited, else
the breast cancer table that comes with scikit-learn. giskard's scan is timed beside it where that
package is installed.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from ledger import compare, growth, skipped, timed

from counterplay.auditing.context import Context
from counterplay.auditing.plan import run_plan
from counterplay.auditing.sections import GamingSection, HonestSection, PlantedSection
from counterplay.auditing.sections.gaming import budgets_of, cheapest_of, moves_of
from counterplay.core.threads import one_thread
from counterplay.studies.auditing.people import STAND_IN, available, context_of, table


def options(context: Context) -> list[tuple[Any, Any]]:
    """Column and value of every single change that some person can make within the budget."""
    frame, moves = context.table.frame(), moves_of(context)
    found = []
    for name in moves.columns:
        for value in frame[name].dropna().unique()[:12].tolist():
            found.append((name, value))
    return found


def pandas_copies(context: Context) -> int:
    """Ask the model about every single change by a copy of the frame: what a first draft does."""
    frame = context.table.frame()
    asked = 0
    for _ in budgets_of(context)[1:]:
        for name, value in options(context):
            copy = frame.copy()
            copy[name] = value
            context.estimator.predict(copy)
            asked += len(copy)
    return asked


def main() -> None:
    """Record the comparisons."""
    name = "german_credit" if available("german_credit") else STAND_IN
    rows = np.arange(len(table(name)[1]))
    context = context_of(name, "LR", rows)
    with one_thread():
        cheapest_of(context, rows[:20])  # compile
        budgets = budgets_of(context)[1:]
        ours = timed(lambda: [cheapest_of(context, rows) for _ in budgets], cpu=True)
        theirs = timed(lambda: pandas_copies(context), cpu=True)
        compare("audit", f"cheapest moves at {len(budgets)} budgets on encoded menus, {name}", ours,
                theirs, against="a copy of the frame per option", package="pandas", bar=10,
                note=f"ours exact; theirs asks {theirs.result:,} rows, single changes")  # fmt: skip
        total = timed(
            lambda: run_plan(
                context_of(name, "LR", rows),
                sections=[HonestSection(), GamingSection(), PlantedSection()],
                time_budget=3600,
            ),
            cpu=True,
        )
    for log in total.result.stages:
        growth("audit", f"{log.section}, {log.stage}, {name}", {len(rows): log.used_s}, size="rows",
               note="" if log.done else "not done")  # fmt: skip
    what = f"audit of {name}, three sections"
    if not find_spec("giskard"):
        skipped("audit", what, "giskard is not installed")
        return
    try:
        scan = timed(lambda: giskard_scan(context), cpu=True)
    except Exception as error:  # its own dependencies may be too new for it
        skipped("audit", what, f"giskard's scan fails: {type(error).__name__}")
        return
    compare("audit", what, total, scan, against="giskard's scan", package="giskard", bar=1 / 2)


def giskard_scan(context: Context) -> None:
    """giskard's scan of the same model and table."""
    giskard: Any = import_module("giskard")
    frame = context.table.frame()
    data = giskard.Dataset(frame.assign(outcome=context.labels), target="outcome")
    model = giskard.Model(
        context.estimator.predict_proba, model_type="classification",
        classification_labels=list(context.estimator.classes_), feature_names=list(frame.columns),
    )  # fmt: skip
    giskard.scan(model, data, verbose=False)


if __name__ == "__main__":
    main()
