"""What must hold before a release is uploaded; run it with `make release-check`.

Builds the source archive and the wheel, checks their metadata, installs the wheel into empty
environments with the newest and the oldest declared versions and with every declared Python that is
installed here, imports every module, runs the commands and the README there, builds a wheel from
the source archive and runs a slice of the tests that it brings, and lists the dependencies and
those of the extras with their licences. Needs a package index. The last line says whether the files
name an address, without which they are not for upload.

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
from typing import Any

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
wheel_alone(
    f"oldest declared versions of the extras, of docs and dev, Python {HERE} "
    "(mypy and the browser of Playwright only installed)",
    "extras",
)
wheel_alone(f"oldest declared torch, Flower and Ray, Python {HERE}", "torch")
for other in sorted({"3.11", "3.12", "3.13"} - {HERE}):
    wheel_alone(f"newest versions, Python {other}", other)


@step
def readme() -> str:
    """Every Python block of the README as it stands, beside the bare wheel and with the extras."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    bare = [block for block in blocks if "flwr" not in block]
    with environment(built(".whl")) as python:
        run_blocks(python, bare)
    run_blocks(Path(sys.executable), blocks)
    return f"{len(bare)} of {len(blocks)} README blocks ran beside the bare wheel, all with extras"


def run_blocks(python: Path, blocks: list[str]) -> None:
    """Run programs, each by itself, in a folder that holds nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        for block in blocks:
            (Path(folder) / "snippet.py").write_text(block, encoding="utf-8")
            run(python, "snippet.py", folder=Path(folder))


@step
def licences() -> str:
    """What comes along with the base and with the extras, with versions and licences."""
    base = brought(str(built(".whl")))
    extras = brought(f"{built('.whl')}[all]")
    extras = {name: told for name, told in extras.items() if name not in base}
    for file, packages in (("dependencies", base), ("dependencies-extras", extras)):
        rows = [(name, told[0], told[1] or "not stated") for name, told in packages.items()]
        lines = ["\t".join(row) for row in [("package", "version", "licence"), *rows]]
        (OUT / f"{file}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if unknown := [name for name, (_, licence) in base.items() if not licence]:
        raise SystemExit(f"no licence is stated by {', '.join(unknown)}")
    silent = [name for name, (_, licence) in extras.items() if not licence]
    return (
        f"{len(base)} packages in dependencies.tsv, each with its licence, and {len(extras)} more "
        f"in dependencies-extras.tsv, without a licence: {', '.join(silent) or 'none'}"
    )


def brought(requirement: str) -> dict[str, tuple[str, str]]:
    """Version and licence of all packages that a requirement installs, which are not installed."""
    with environment("--upgrade", "pip") as python:
        ask = [python, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        report = run(*ask, "--report", "-", requirement)
    found = [item["metadata"] for item in json.loads(report)["install"]]
    return {one["name"]: (one["version"], licence(one)) for one in sorted(found, key=_name)}


def _name(metadata: dict[str, Any]) -> str:
    return str(metadata["name"]).casefold()


def licence(metadata: dict[str, Any]) -> str:
    """Return the licence that a package states: an expression, classifiers or a line of text."""
    kinds = [kind for kind in metadata.get("classifier", []) if kind.startswith("License")]
    short = "; ".join(kind.rpartition(" :: ")[2] for kind in kinds)
    text = metadata.get("license", "").strip().splitlines()
    return metadata.get("license_expression") or short or (text[0].strip() if text else "")


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


def addresses() -> str:
    """Return whether what was built names an address, as the last line of the transcript."""
    with zipfile.ZipFile(built(".whl")) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        text = wheel.read(name).decode()
    named = re.findall(r"^Project-URL: (?:Source|Documentation), (.*)$", text, flags=re.MULTILINE)
    if not re.search(r"^Project-URL: Source, ", text, flags=re.MULTILINE):
        return (
            "NOT FOR UPLOAD: no address. The files do not say where the repository is; set it in "
            "pyproject.toml or in COUNTERPLAY_REPOSITORY, and run this again"
        )
    return f"links lead to {' and '.join(named)}: they must be there before the upload"


def main(numbers: list[int]) -> None:
    """Run every step, or those with these numbers; stop at the first one that fails."""
    for number, function in enumerate(STEPS, 1):
        if numbers and number not in numbers:
            continue
        print(f"[{number}/{len(STEPS)}] {(function.__doc__ or '').splitlines()[0]}", flush=True)
        note(function(), "      ")
    note(addresses(), "")


def note(line: str, margin: str) -> None:
    """Print a line and add it to the transcript."""
    print(f"{margin}{line}", flush=True)
    with (OUT / "release-check.txt").open("a", encoding="utf-8") as transcript:
        transcript.write(line + "\n")


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
