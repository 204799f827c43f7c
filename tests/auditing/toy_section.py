"""A section that needs no model: for tests of the plan, also in processes of their own."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import numpy as np
import pandas as pd

from counterplay.auditing.context import Context
from counterplay.auditing.findings import SectionResult
from counterplay.auditing.plan import run_plan
from counterplay.auditing.quantity import Quantity
from counterplay.auditing.section import Stage, stage_records
from counterplay.tables import Table


class Yes:
    """Accepts everybody."""

    classes_ = np.array([0, 1])

    def predict(self, rows: Any) -> Any:
        return np.ones(len(rows), dtype=int)


class Toy:
    """Two stages of arithmetic over rows; may stop or fail on purpose."""

    name, title, order, version, reads = "toy", "Toy", 5, 1, ("toy",)

    def __init__(
        self, *, n_min: int = 10, fail: str = "", each: float = 1e-9, then: float | None = None
    ) -> None:
        self.n_min, self.fail = n_min, fail
        self.each = (each, each if then is None else then)  # seconds of an item, it says

    def needs(self, context: Context) -> list[Any]:
        return []

    def stages(self, context: Context) -> list[Stage]:
        return [
            Stage(
                name=name, items=context.n, n_min=self.n_min, n_want=context.n, batch=7,
                seconds=lambda pilot, m, each=each: each * m, run=work,
            )
            for name, work, each in zip(("one", "two"), (first, second), self.each)
        ]  # fmt: skip

    def result(self, context: Context, records: pd.DataFrame) -> SectionResult:
        if self.fail == "result":
            raise RuntimeError("toy broke")
        parts = [stage_records(records, name) for name in ("one", "two")]
        value = sum(float(part["x"].mean()) for part in parts if len(part))
        mean = Quantity.certain(value, unit="share", n=len(parts[0]), basis="measured")
        return SectionResult(name="toy", title="Toy", quantities={"toy": mean})


def first(context: Context, items: Any) -> list[dict[str, Any]]:
    rows = context.order[items]
    return [
        {"item": int(i), "row": int(r), "x": float(np.sin(r + context.seed))}
        for i, r in zip(items, rows)
    ]


def second(context: Context, items: Any) -> list[dict[str, Any]]:
    return [record | {"x": record["x"] / 3} for record in first(context, items)]


def toy_context(n: int = 100, **more: Any) -> Context:
    frame = pd.DataFrame({"x": np.arange(n, dtype=float)})
    labels = (np.arange(n) % 2).astype(int)
    return Context(
        table=Table.of(frame), labels=labels, positive=1, estimator=Yes(), frame=frame, **more
    )


def killed(store: str, after: int, sig: int) -> None:
    """Run the toy and die by a signal after some batches are stored."""
    seen = 0

    def progress(text: str, done: int, total: int) -> None:
        nonlocal seen
        seen += total > 0
        if seen == after:
            os.kill(os.getpid(), sig)

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    run = run_plan(toy_context(), sections=[Toy()], store=store, progress=progress)
    print("interrupted" if run.interrupted else "done")


if __name__ == "__main__":
    killed(sys.argv[1], int(sys.argv[2]), getattr(signal, sys.argv[3]))
