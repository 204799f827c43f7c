"""A server that says how much CPU it used, the question rule counted apart.

``python cpu_server.py FOLDER``: writes ``ready.json``, serves until it is told to stop, and then
writes ``cpu.json`` with the seconds since the signal USR1, the memory before the first request and
with the compiled question rule. Packages that the extra ``studio`` does not bring, but which its
dependencies load where they find them, are hidden.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

OTHERS = ("charset_normalizer", "colorama", "coverage", "pyarrow", "watchfiles", "yaml")
if __name__ == "__main__":  # before the next imports, and never in a process that only reads this
    sys.modules.update(dict.fromkeys(OTHERS))  # type: ignore[arg-type]

from counterplay.studio.app import serve  # noqa: E402
from counterplay.studio.kinds.elicitation_engine import Engine, warm_up  # noqa: E402
from counterplay.studio.settings import Settings  # noqa: E402
from counterplay.studio.web import join  # noqa: E402

spent = {"rule": 0.0, "idle": 0.0, "warm": 0.0}


def counted(work: Any) -> Any:
    """Add the time of a method to the rule's."""

    def run(*given: Any, **more: Any) -> Any:
        began = time.thread_time()
        try:
            return work(*given, **more)
        finally:
            spent["rule"] += time.thread_time() - began

    return run


def resident() -> float:
    """Memory of this process in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def main(folder: Path) -> None:
    """Serve and count."""
    join._warm = lambda: None  # type: ignore[assignment]
    for name in ("question", "take", "stated"):
        setattr(Engine, name, counted(getattr(Engine, name)))
    settings = Settings(
        data=folder / "data", port=0, workers=0, requests_per_minute=1e9, writes_per_minute=1e9,
        write_burst=1e9,
    )  # fmt: skip
    began = 0.0

    def ready(_: object) -> None:
        spent["idle"] = resident()
        warm_up()
        spent["warm"] = resident()

    def count(*_: object) -> None:
        nonlocal began
        began, spent["rule"] = time.process_time(), 0.0

    signal.signal(signal.SIGUSR1, count)
    serve(settings, folder / "ready.json", announce=ready)
    total = time.process_time() - began
    (folder / "cpu.json").write_text(json.dumps({"total": total, **spent}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
