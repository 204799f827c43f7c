"""A process that has imported what most scripts import, and forks itself once per script.

The child is as fresh as a new interpreter as far as the library is concerned: nothing of it is
imported here. Reads one JSON request per line and answers with the exit code.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import signal
import sys
import time
import traceback
from typing import Any

PRELOADED = (
    "numpy", "scipy.optimize", "scipy.sparse", "scipy.stats", "pandas", "numba",
    "matplotlib.pyplot", "sklearn.compose", "sklearn.datasets", "sklearn.ensemble",
    "sklearn.impute", "sklearn.linear_model", "sklearn.model_selection", "sklearn.pipeline",
    "sklearn.preprocessing", "sklearn.tree",
)  # fmt: skip


def main() -> None:
    """Serve requests until standard input ends."""
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(request)
        print(_wait(child, request["limit"]), flush=True)


def _wait(child: int, limit: float) -> int:
    """Return the exit code; a child that takes too long is killed, with all it has started."""
    end = time.monotonic() + limit
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -int(signal.SIGKILL)
        time.sleep(0.02)


def _become(request: dict[str, Any]) -> None:
    """Be the script: its folder, its streams, its arguments; never return."""
    code = 0
    try:
        os.setsid()
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        nothing = os.open(os.devnull, os.O_RDONLY)
        out = os.open(request["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        err = os.open(request["err"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for old, new in ((nothing, 0), (out, 1), (err, 2)):
            os.dup2(old, new)
        script = request["script"]
        sys.argv = [script]
        sys.path[0] = os.path.dirname(os.path.abspath(script))  # as the interpreter does
        runpy.run_path(script, run_name="__main__")
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
