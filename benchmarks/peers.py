"""All benchmarks beside every peer that installs: ``make bench-peers``.

Makes ``.venv-peers`` with the package and its extras, installs the packages of ``peers.txt`` one by
one (a package that does not install beside ``constraints.txt`` is said and left out), runs every
``bench_*.py`` and writes ``results.jsonl``. Names as arguments run only these benchmarks and add
to the file: ``python benchmarks/peers.py core tables``. A benchmark that fails does not stop the
others; the exit code says so at the end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
VENV = ROOT / ".venv-peers"
PYTHON = VENV / ("Scripts" if os.name == "nt" else "bin") / "python"
RESULTS = HERE / "results.jsonl"
TORCH = "torch==2.13.0"
RECORD = "import json, sys, ledger; ledger.setup(json.loads(sys.argv[1]))"


def requirements() -> list[str]:
    """Return the requirements of peers.txt."""
    lines = (HERE / "peers.txt").read_text(encoding="utf-8").splitlines()
    return [found for line in lines if (found := line.partition("#")[0].strip())]


def install(*what: str) -> bool:
    """Install into the environment; whether it worked."""
    command = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--constraint", str(ROOT / "constraints.txt"), *what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{what[-1]} does not install: {done.stderr.strip().splitlines()[-1:]}", flush=True)
    return done.returncode == 0


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


def main(names: list[str]) -> None:
    peers = make()
    if not names:
        RESULTS.unlink(missing_ok=True)
    environment = {**os.environ, "COUNTERPLAY_BENCH": str(RESULTS), "PYTHONPATH": str(HERE)}
    subprocess.run([PYTHON, "-c", RECORD, json.dumps(peers)], env=environment, check=True)
    failed = []
    for script in sorted(HERE.glob("bench_*.py")):
        name = script.stem.removeprefix("bench_")
        if not names or name in names:
            print(f"== {name}", flush=True)
            done = subprocess.run([PYTHON, str(script)], cwd=ROOT, env=environment, check=False)
            failed += [name] if done.returncode else []
    if failed:
        raise SystemExit(f"these benchmarks failed: {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
