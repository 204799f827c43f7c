"""What a stranger gets: the wheel in an empty environment, without constraints.

The test run itself uses the versions of constraints.txt, so it cannot see an undeclared dependency,
a library that changed, or a lower bound that is not true. This file builds the wheel and installs
it twice: with the newest version of everything, and, in the slow tests and in `make
release-check`, with the oldest ones that it declares.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", folder, ROOT], check=True
    )
    (built,) = folder.glob("counterplay-*.whl")
    return built


@pytest.fixture(scope="module", params=["newest", pytest.param("oldest", marks=pytest.mark.slow)])
def python(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The interpreter of an environment that holds the wheel and what it declares."""
    folder = tmp_path_factory.mktemp(request.param)
    venv.create(folder, with_pip=True)
    interpreter = folder / "bin" / "python"
    exact = oldest_versions() if request.param == "oldest" else []
    wanted = [wheel, "pytest", "hypothesis", *exact]
    subprocess.run([interpreter, *PIP, "install", "--no-compile", *wanted], check=True)
    return interpreter


def oldest_versions() -> list[str]:
    """The declared lower bounds as exact requirements."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [requirement.replace(">=", "==") for requirement in project["dependencies"]]


def run(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(
        [python, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--help"], "Machine learning when the data plays back"),
        (["list"], "tradeoff/switch-tax"),
        (["run", "tradeoff/switch-tax", "--check"], "holds"),
    ],
)
def test_g1_commands_work_without_constraints(
    python: Path, tmp_path: Path, arguments: list[str], expected: str
):
    done = run(python, tmp_path, "-m", "counterplay", *arguments)
    assert (done.returncode, done.stderr if "--help" in arguments else "") == (0, "")
    assert expected in done.stdout


@pytest.mark.claim("27.24")
def test_g1_the_audit_helps_without_constraints(python: Path, tmp_path: Path):
    script = python.parent / "counterplay"
    ways = [[script], [python, "-m", "counterplay"]]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    told = [
        subprocess.run(
            [*way, "audit", "--help"], cwd=tmp_path, env=environment, capture_output=True,
            text=True, check=True,
        ).stdout
        for way in ways
    ]  # fmt: skip
    assert told[0] == told[1]
    assert "audit init" in told[0]
    program = (
        "import sys; from counterplay.cli import run; run(['audit', '--help'])\n"
        "bad = {'torch', 'ray', 'fastapi'} & set(sys.modules)\n"
        "sys.exit(f'imported {bad}' if bad else 0)"
    )
    assert run(python, tmp_path, "-c", program).returncode == 0


def test_g1_a_wrong_option_is_one_sentence(python: Path, tmp_path: Path):
    done = run(python, tmp_path, "-m", "counterplay", "--nope")
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("counterplay: ")
    assert "--nope" in line


def test_g9_a_stranger_may_use_the_word_claim_in_his_own_tests(python: Path, tmp_path: Path):
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.mark.claim('x')\ndef test_it(): assert True\n"
    )
    done = run(python, tmp_path, "-m", "pytest", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_g3_every_module_imports(python: Path, tmp_path: Path):
    program = (
        "import importlib, pkgutil, counterplay\n"
        "extras = {'torch', 'flwr', 'ray', 'cvxpy', 'mo_gymnasium', 'gymnasium',\n"
        "          'river', 'pyarrow', 'PIL', 'skactiveml', 'modAL', 'fastapi', 'starlette',\n"
        "          'uvicorn', 'sqlalchemy', 'alembic', 'argon2', 'psycopg', 'python_multipart'}\n"
        "for module in pkgutil.walk_packages(counterplay.__path__, 'counterplay.'):\n"
        "    try:\n"
        "        importlib.import_module(module.name)\n"
        "    except ImportError as error:\n"
        "        told = type(error).__name__ == 'MissingDependencyError'\n"
        "        name = (error.name or '').split('.')[0]\n"
        "        assert told or name in extras, (module.name, error)\n"
        "    except SystemExit:\n"
        "        assert module.name.endswith('__main__')\n"
    )
    done = run(python, tmp_path, "-c", program)
    assert done.returncode == 0, done.stderr


def test_g3_code_that_leans_on_its_libraries_works(python: Path, tmp_path: Path):
    files = [
        "invariance/test_inclusion.py",
        "strategic/graphs/test_strategic_erm.py::test_s3_optimal_means_that_no_halfspace_is_better",
        "tables/test_table.py",
        "tables/test_labels.py",
    ]
    shutil.copytree(
        ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "conftest.py", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    done = run(python, tmp_path, "-m", "pytest", "-q", *(f"tests/{name}" for name in files))
    assert done.returncode == 0, done.stdout[-3000:]
