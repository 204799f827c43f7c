"""Time of `import counterplay` against importing numpy and scipy.sparse, in fresh processes."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from ledger import Times, compare

from counterplay import AREAS

RUNS = 11
LIMIT = 1.3
REFERENCE = "import numpy, scipy.sparse"
CODE = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"


def seconds(statement: str) -> float:
    """Return the time one fresh interpreter needs for the statement, without its own start."""
    source = importlib.util.find_spec("counterplay")
    assert source is not None
    assert source.origin is not None
    path = os.pathsep.join(
        filter(None, (str(Path(source.origin).parents[1]), os.environ.get("PYTHONPATH", "")))
    )
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(statement)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def medians(statements: list[str], runs: int) -> dict[str, Times]:
    """Return the times of each statement; the runs are interleaved, the first is warm-up."""
    times: dict[str, list[float]] = {statement: [] for statement in statements}
    for _ in range(runs + 1):
        for statement, measured in times.items():
            measured.append(seconds(statement))
    return {statement: Times(tuple(found[1:]), "median") for statement, found in times.items()}


def main() -> None:
    areas = [f"import counterplay.{name}" for name in (*AREAS, "datasets") if present(name)]
    result = medians([REFERENCE, "import counterplay", *areas], RUNS)
    base = result.pop(REFERENCE)
    for statement, found in result.items():
        compare(
            "core",
            f"{statement} in a fresh process",
            found,
            base,
            against=REFERENCE,
            package="scipy",
            bar=1 / LIMIT if statement == "import counterplay" else None,
        )
    if result["import counterplay"].value > LIMIT * base.value:
        raise SystemExit(1)


def present(area: str) -> bool:
    """Whether the area package exists."""
    spec = importlib.util.find_spec(f"counterplay.{area}")
    return spec is not None and spec.origin is not None


if __name__ == "__main__":
    main()
