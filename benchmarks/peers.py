"""All benchmarks beside every peer that installs: ``make bench-peers``.

Makes ``.venv-peers`` with the package and its extras and installs the packages of ``peers.txt`` one
by one; one that does not install beside ``constraints.txt`` is reported and left out. A peer that
needs older libraries than ours gets an environment of its own. Then says which data sets are not
here (``COUNTERPLAY_DATA`` names their folder), runs every ``bench_*.py`` and writes
``results.jsonl``. Names as arguments run only these benchmarks and add
to the file: ``python benchmarks/peers.py core tables``. A benchmark that fails does not stop the
others; the exit code says so at the end.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
VENV = ROOT / ".venv-peers"
PYTHON = VENV / ("Scripts" if os.name == "nt" else "bin") / "python"
RESULTS = HERE / "results.jsonl"
TORCH = "torch==2.13.0"
APART = {  # variable that names its Python, what is installed there: the peer first
    "COUNTERPLAY_GISKARD": "giskard==2.19.2",
    "COUNTERPLAY_DEEPCHECKS": "deepchecks==0.19.1 scikit-learn==1.5.2 numpy==1.26.4 pandas==2.2.3",
}
RECORD = "import json, sys, ledger; ledger.setup(*map(json.loads, sys.argv[1:]))"


def requirements() -> list[str]:
    """Return the requirements of peers.txt."""
    lines = (HERE / "peers.txt").read_text(encoding="utf-8").splitlines()
    return [found for line in lines if (found := line.partition("#")[0].strip())]


def install(*what: str) -> bool:
    """Install into the environment; whether it worked."""
    return _pip(PYTHON, "--constraint", str(ROOT / "constraints.txt"), *what)


def _pip(python: Path, *what: str) -> bool:
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*command, *what], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{what[-1]} does not install: {done.stderr.strip().splitlines()[-1:]}", flush=True)
    return done.returncode == 0


def apart() -> dict[str, str]:
    """Make an environment for each peer that needs one; return the variables that name them."""
    found = {}
    for variable, requirement in APART.items():
        folder = ROOT / ".venv-peers-apart" / requirement.split()[0]
        python = folder / PYTHON.relative_to(VENV)
        if variable in os.environ:
            found[variable] = os.environ[variable]
        elif (folder / "made").exists() or _own(folder, python, requirement):
            found[variable] = str(python)
    return found


def _own(folder: Path, python: Path, requirement: str) -> bool:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    made = _pip(python, *requirement.split())
    if made:
        (folder / "made").touch()
    return made


def make() -> dict[str, str]:
    """Make the environment once; return the version of each peer, or that it is not there."""
    if not (VENV / "made").exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        if not install(TORCH, "--editable", f"{ROOT}[all]"):
            raise SystemExit("counterplay with its extras does not install")
        for peer in requirements():
            install(peer)
        (VENV / "made").touch()
    listed = subprocess.run(
        [PYTHON, "-m", "pip", "list", "--format", "json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    versions = {plain(row["name"]): row["version"] for row in json.loads(listed.stdout)}
    names = [peer.partition("==")[0] for peer in requirements()]
    return {name: versions.get(plain(name), "does not install") for name in ["torch", *names]}


def plain(name: str) -> str:
    """Return the name of a package as indexes compare it."""
    return name.lower().replace("_", "-").replace(".", "-")


def busy() -> tuple[float, float, float]:
    """Return the time, and the CPU seconds of all programs and of our own children so far."""
    try:
        words = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:]
    except OSError:  # only Linux tells
        return time.monotonic(), math.nan, math.nan
    user, nice, system, _idle, _waiting, *more = (int(word) for word in words[:8])
    children = os.times()
    every = (user + nice + system + sum(more)) / os.sysconf("SC_CLK_TCK")
    return time.monotonic(), every, children.children_user + children.children_system


def others(begun: tuple[float, float, float]) -> float | None:
    """Return how many cores programs other than the benchmarks used since then, on average."""
    seconds, every, own = (now - then for now, then in zip(busy(), begun))
    return None if math.isnan(every) else max(0.0, (every - own) / max(seconds, 1e-9))


def main(names: list[str]) -> None:
    peers, own = make(), apart()
    for variable, requirement in APART.items():
        name, _, version = requirement.split()[0].partition("==")
        peers[name] = version if variable in own else "does not install"
    if not names:
        RESULTS.unlink(missing_ok=True)
    environment = {
        **os.environ, **own, "COUNTERPLAY_BENCH": str(RESULTS), "PYTHONPATH": str(HERE),
    }  # fmt: skip
    subprocess.run([PYTHON, str(HERE / "needed_tables.py")], cwd=ROOT, env=environment, check=True)
    failed, begun = [], busy()
    for script in sorted(HERE.glob("bench_*.py")):
        name = script.stem.removeprefix("bench_")
        if not names or name in names:
            print(f"== {name}", flush=True)
            done = subprocess.run([PYTHON, str(script)], cwd=ROOT, env=environment, check=False)
            failed += [name] if done.returncode else []
    load = json.dumps(others(begun))
    subprocess.run([PYTHON, "-c", RECORD, json.dumps(peers), load], env=environment, check=True)
    if failed:
        raise SystemExit(f"these benchmarks failed: {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
