"""What must hold before a release is uploaded; run it with `make release-check`.

Builds the source archive and the wheel, checks their metadata, installs the wheel into empty
environments with the newest and the oldest declared versions and with every declared Python that is
installed here, imports every module, runs the commands and the README there, builds a wheel from
the source archive and runs a slice of the tests that it brings, and writes the list of dependencies
with their licences. Needs a package index.

Everything is written to build/release: the files to upload and a transcript, release-check.txt.
Numbers as arguments run only these steps; the first one begins anew.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUT = ROOT / "build" / "release"
SLICE = ["tests/core", "tests/tables", "tests/test_cli.py", "tests/test_errors.py"]
STEPS: list[Callable[[], str]] = []


def step(function: Callable[[], str]) -> Callable[[], str]:
    """Add a step; it returns the line that the transcript shows, or raises."""
    STEPS.append(function)
    return function


def run(*command: str | Path, folder: Path = ROOT) -> str:
    """Run a command without the settings of this shell; return what it printed."""
    hidden = ("PYTEST", "PYTHONPATH", "COUNTERPLAY_DATA")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(
            f"{' '.join(map(str, command))} ended with {done.returncode}\n"
            f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        )
    return done.stdout


@contextmanager
def environment(*requirements: str | Path) -> Iterator[Path]:
    """The interpreter of a fresh environment that holds these packages."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        run(python, "-m", "pip", "--disable-pip-version-check", "-q", "install", *requirements)
        yield python


def built(ending: str) -> Path:
    """Return the file of this kind that the first step made."""
    (path,) = OUT.glob(f"*{ending}")
    return path


@step
def build_and_metadata() -> str:
    """Source archive and wheel; their metadata renders on a package index."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    with environment("build", "twine") as python:
        run(python, "-m", "build", "--outdir", OUT, ROOT)
        run(python, "-m", "twine", "check", "--strict", *OUT.glob("counterplay-*"))
    return f"built {built('.whl').name} and {built('.tar.gz').name}; twine check passed"


def wheel_alone(name: str, chosen: str) -> None:
    """Add a step: the tests of the wheel in one kind of environment, without constraints."""

    def in_environment() -> str:
        command = [sys.executable, "-m", "pytest", "-q", "-rs", "-m", "slow or not slow"]
        shown = run(*command, "-k", chosen, "tests/test_wheel.py")
        missing = re.search(r"Python 3\.\d+ is not installed here", shown)
        return f"wheel, {name}: {missing[0] if missing else shown.splitlines()[-1].strip('= ')}"

    in_environment.__doc__ = f"The wheel without constraints: {name}."
    step(in_environment)


HERE = f"3.{sys.version_info.minor}"
wheel_alone(f"newest versions, Python {HERE}", "newest or g8")
wheel_alone(f"oldest declared versions, Python {HERE}", "oldest and not extras and not torch")
wheel_alone(f"oldest declared versions of the extras, Python {HERE}", "extras")
wheel_alone(f"oldest declared torch, Flower and Ray, Python {HERE}", "torch")
for other in sorted({"3.11", "3.12", "3.13"} - {HERE}):
    wheel_alone(f"newest versions, Python {other}", other)


@step
def readme_and_licences() -> str:
    """Every Python block of the README as it stands, and the licences of what comes along."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    with environment(built(".whl")) as python, tempfile.TemporaryDirectory() as folder:
        licences = json.loads(run(python, "-c", LICENCES))
        ran = 0
        for block in blocks:
            if "flwr" in block:
                continue  # needs an extra: run below
            (Path(folder) / "snippet.py").write_text(block, encoding="utf-8")
            run(python, "snippet.py", folder=Path(folder))
            ran += 1
    with tempfile.TemporaryDirectory() as folder:
        for block in blocks:
            (Path(folder) / "snippet.py").write_text(block, encoding="utf-8")
            run(sys.executable, "snippet.py", folder=Path(folder))
    table = "\n".join(f"{name}\t{version}\t{licence}" for name, version, licence in licences)
    (OUT / "dependencies.tsv").write_text(f"package\tversion\tlicence\n{table}\n", encoding="utf-8")
    unknown = [name for name, _, licence in licences if not licence]
    if unknown:
        raise SystemExit(f"no licence is stated by {', '.join(unknown)}")
    return (
        f"{ran} of {len(blocks)} README blocks ran beside the bare wheel, all with the extras; "
        f"{len(licences)} packages in dependencies.tsv, each with its licence"
    )


LICENCES = """
import importlib.metadata as m, json
def licence(d):
    known = d.metadata.get("License-Expression") or ""
    kinds = d.metadata.get_all("Classifier") or []
    short = [kind.rpartition(" :: ")[2] for kind in kinds if kind.startswith("License")]
    text = (d.metadata.get("License") or "").strip().splitlines()
    return known or "; ".join(short) or (text[0] if text else "")
found = {d.metadata["Name"]: d for d in m.distributions()}
print(json.dumps(sorted([n, d.version, licence(d)] for n, d in found.items() if n not in ("pip",))))
"""


@step
def source_archive() -> str:
    """A wheel built from the source archive is the same, and the tests of the archive run."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(built(".tar.gz")) as archive:
            archive.extractall(folder, filter="data")
        (source,) = Path(folder).iterdir()
        with environment("build", "hypothesis", "pytest", "polars", "pyarrow", "skops") as python:
            run(python, "-m", "build", "--wheel", "--outdir", source / "made", source)
            (wheel,) = (source / "made").glob("*.whl")
            run(python, "-m", "pip", "-q", "install", wheel)
            files = set(zipfile.ZipFile(wheel).namelist())
            if files != set(zipfile.ZipFile(built(".whl")).namelist()):
                raise SystemExit("the wheel of the source archive holds other files")
            shutil.rmtree(source / "src")
            shown = run(python, "-m", "pytest", "-q", "-m", "not slow", *SLICE, folder=source)
    return f"source archive builds the same {len(files)} files; tests: {shown.splitlines()[-1]}"


def main(numbers: list[int]) -> None:
    """Run every step, or those with these numbers; stop at the first one that fails."""
    for number, function in enumerate(STEPS, 1):
        if numbers and number not in numbers:
            continue
        print(f"[{number}/{len(STEPS)}] {(function.__doc__ or '').splitlines()[0]}", flush=True)
        line = function()
        print(f"      {line}", flush=True)
        with (OUT / "release-check.txt").open("a", encoding="utf-8") as transcript:
            transcript.write(line + "\n")


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
