"""The audit: menus on encoded rows against a frame per option, and where its time goes.

    python benchmarks/bench_audit.py

Prints ratios from one run, in CPU seconds. With ``COUNTERPLAY_DATA`` German credit is audited, else
the breast cancer table that comes with scikit-learn. giskard's scan is timed beside it where that
package is installed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from counterplay.auditing.context import Context
from counterplay.auditing.plan import run_plan
from counterplay.auditing.sections import GamingSection, HonestSection, PlantedSection
from counterplay.auditing.sections.gaming import budgets_of, cheapest_of, moves_of
from counterplay.core.threads import one_thread
from counterplay.studies.auditing.people import STAND_IN, available, context_of, table


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of one call, and its result."""
    began = time.process_time()
    result = call()
    return time.process_time() - began, result


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
    """Print the table."""
    name = "german_credit" if available("german_credit") else STAND_IN
    rows = np.arange(len(table(name)[1]))
    context = context_of(name, "LR", rows)
    with one_thread():
        cheapest_of(context, rows[:20])  # compile
        ours, plan = seconds(lambda: [cheapest_of(context, rows) for _ in budgets_of(context)[1:]])
        theirs, asked = seconds(lambda: pandas_copies(context))
        print(f"{name}: cheapest moves of {len(rows)} rows at {len(plan)} budgets, exact")
        print(f"  encoded menus          {ours:8.2f} s")
        print(
            f"  a copy per option      {theirs:8.2f} s ({asked:,} rows asked, single changes only)"
        )
        print(f"  ratio                  {theirs / ours:8.1f} (bar: 10)")
        total, run = seconds(
            lambda: run_plan(
                context_of(name, "LR", rows),
                sections=[HonestSection(), GamingSection(), PlantedSection()],
                time_budget=3600,
            )
        )
    print(f"audit, three sections: {total:.1f} s of CPU")
    print(pd.DataFrame([vars(log) for log in run.stages])[["section", "stage", "done", "used_s"]])
    if find_spec("giskard"):
        print(f"  against giskard's scan: {total / giskard_scan(context):.2f} (bar: 2)")
    else:
        print("  giskard is not installed: its scan is not timed")


def giskard_scan(context: Context) -> float:
    """CPU seconds of giskard's scan of the same model and table."""
    giskard: Any = import_module("giskard")
    frame = context.table.frame()
    data = giskard.Dataset(frame.assign(outcome=context.labels), target="outcome")
    model = giskard.Model(
        context.estimator.predict_proba, model_type="classification",
        classification_labels=list(context.estimator.classes_), feature_names=list(frame.columns),
    )  # fmt: skip
    return seconds(lambda: giskard.scan(model, data, verbose=False))[0]


if __name__ == "__main__":
    main()
