"""What a stranger gets: the wheel in an empty environment, without constraints.

The test run itself uses the versions of constraints.txt, so it cannot see an undeclared dependency,
a library that changed, or a lower bound that is not true. This file builds the wheel and installs
it with the newest version of everything; in the slow tests and in `make release-check` also with
the oldest versions that it declares, with its extras and without, and into every other declared
Python that is installed here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from counterplay import __version__

ROOT = Path(__file__).parents[1]
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
OTHERS = [f"3.{minor}" for minor in (11, 12, 13) if minor != sys.version_info.minor]
EXTRAS = ("audit", "boosting", "convex", "data", "fast", "gym", "postgres", "river", "studio")
SKIPPED_MODULES = (
    "torch", "flwr", "ray", "cvxpy", "mo_gymnasium", "gymnasium", "river", "pyarrow", "PIL",
    "fastapi", "starlette", "uvicorn", "sqlalchemy", "alembic", "argon2", "psycopg",
    "python_multipart",
)  # fmt: skip
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


def build(folder: Path, repository: str = "", documentation: str = "") -> Path:
    """Build the wheel of a release with these addresses; without any it links to nothing."""
    addresses = {
        "COUNTERPLAY_REPOSITORY": repository,
        "COUNTERPLAY_DOCUMENTATION": documentation,
    }
    subprocess.run(
        [sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", folder, ROOT],
        env={**os.environ, **addresses},
        check=True,
    )
    (built,) = folder.glob("counterplay-*.whl")
    return built


def metadata(wheel: Path) -> str:
    (name,) = (n for n in zipfile.ZipFile(wheel).namelist() if n.endswith("/METADATA"))
    return zipfile.ZipFile(wheel).read(name).decode()


def test_the_wheel_is_typed_and_its_description_has_no_dead_link(wheel: Path):
    files = zipfile.ZipFile(wheel).namelist()
    assert {"counterplay/py.typed", "counterplay/claim_tests.json"} <= set(files)
    assert any(name.endswith("/licenses/LICENSE") for name in files)
    assert not re.search(r"\]\((?!https://)", metadata(wheel))
    assert "Project-URL" not in metadata(wheel)


@pytest.mark.slow
def test_a_release_with_addresses_has_absolute_links(tmp_path: Path):
    host, site = "https://example.org/counterplay", "https://docs.example.org"
    text = metadata(build(tmp_path, f"{host}/", site))
    tag = f"v{__version__}"
    named = dict(re.findall(r"^Project-URL: (\w+), (.*)$", text, flags=re.MULTILINE))
    assert named == {
        "Homepage": host,
        "Source": f"{host}/tree/{tag}",
        "Documentation": f"{site}/{__version__}/",
        "Changes": f"{host}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{host}/issues",
    }
    assert f"]({site}/{__version__}/assets/audit-page.png)" in text
    assert f"]({site}/{__version__}/tutorials/data-scientist/)" in text
    assert f"]({host}/tree/{tag}/examples/flower-defection)" in text
    assert f"]({host}/blob/{tag}/CONTRIBUTING.md)" in text
    assert not re.search(r"\]\((?!https://)", text)


@pytest.fixture(
    scope="module",
    params=[
        "newest",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("oldest", *OTHERS)),
    ],
)
def python(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The interpreter of an environment that holds the wheel and what it declares."""
    base = interpreter(request.param) if request.param in OTHERS else sys.executable
    if base is None:
        pytest.skip(f"Python {request.param} is not installed here")
    exact = oldest_versions() if request.param == "oldest" else []
    return environment(tmp_path_factory.mktemp(request.param), base, wheel, *exact)


def environment(folder: Path, base: str, *wanted: Path | str) -> Path:
    """Install into an empty environment; return its interpreter."""
    subprocess.run([base, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    packages = [*wanted, "pytest", "hypothesis"]
    subprocess.run([python, *PIP, "install", "--no-compile", *packages], check=True)
    return python


def interpreter(version: str) -> str | None:
    """Return an installed Python of this version that works, from the path or from pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    known = [shutil.which(f"python{version}"), *pyenv.glob(f"versions/{version}.*/bin/python")]
    for found in filter(None, known):
        if not subprocess.run([found, "-V"], capture_output=True, check=False).returncode:
            return str(found)
    return None


def oldest_versions(*extras: str) -> list[str]:
    """The declared lower bounds as exact requirements."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [project["optional-dependencies"][extra] for extra in extras]
    return [
        requirement.replace(">=", "==") for part in [project["dependencies"], *named]
        for requirement in part if not requirement.startswith("counterplay[")
    ]  # fmt: skip


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
        (["list"], "defection/sandwich"),
        (["run", "defection/sandwich", "--check"], "holds"),
    ],
)
def test_commands_work_without_constraints(
    python: Path, tmp_path: Path, arguments: list[str], expected: str
):
    done = run(python, tmp_path, "-m", "counterplay", *arguments)
    assert (done.returncode, done.stderr if "--help" in arguments else "") == (0, "")
    assert expected in done.stdout


@pytest.mark.claim("27.24")
def test_the_audit_helps_without_constraints(python: Path, tmp_path: Path):
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


def test_a_wrong_option_is_one_sentence(python: Path, tmp_path: Path):
    done = run(python, tmp_path, "-m", "counterplay", "--nope")
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("counterplay: ")
    assert "--nope" in line


def test_a_stranger_may_use_the_word_claim_in_his_own_tests(python: Path, tmp_path: Path):
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.mark.claim('x')\ndef test_it(): assert True\n"
    )
    done = run(python, tmp_path, "-m", "pytest", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.slow
def test_an_audit_runs_without_constraints(python: Path, tmp_path: Path):
    done = run(python, tmp_path, "-m", "counterplay", "audit", "demo", "-o", "audit.html")
    assert done.returncode == 0, done.stderr
    assert "Do this next" in (tmp_path / "audit.html").read_text(encoding="utf-8")


def test_every_module_imports(python: Path, tmp_path: Path):
    import_everything(python, tmp_path, SKIPPED_MODULES)


@pytest.mark.slow
def test_the_oldest_versions_of_the_extras(
    wheel: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
):
    """With what tests and pages need, too; mypy and the browser of Playwright are not run."""
    folder = tmp_path_factory.mktemp("extras")
    exact = oldest_versions(*EXTRAS, "docs", "dev")
    python = environment(folder, sys.executable, wheel, *exact)
    import_everything(python, tmp_path, ("torch", "flwr", "ray"))
    slice_of_tests(python, tmp_path, OF_EXTRAS, "-n", "1", "--cov=counterplay.tables")
    for command in OF_TOOLS:
        program, *arguments = command.format(site=tmp_path / "site").split()
        done = run(python.parent / program, ROOT, *arguments)
        assert done.returncode == 0, (command, (done.stdout + done.stderr)[-3000:])


@pytest.mark.slow
def test_the_oldest_versions_of_torch_flower_and_ray(
    wheel: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
):
    """Apart from the other extras: these wheels bring gigabytes, and Flower newer packages."""
    folder = tmp_path_factory.mktemp("clusters")
    newer = ("rich", "requests")
    exact = [r for r in oldest_versions("federated", "ray") if not r.startswith(newer)]
    python = environment(folder, sys.executable, wheel, *exact)
    slice_of_tests(python, tmp_path, OF_CLUSTERS, "-m", "slow or not slow")


def import_everything(python: Path, folder: Path, extras: tuple[str, ...]) -> None:
    """Import every module; only those of the named packages may be missing."""
    program = (
        "import importlib, pkgutil, counterplay\n"
        f"extras = {set(extras)}\n"
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
    done = run(python, folder, "-c", program)
    assert done.returncode == 0, done.stderr


OF_EXTRAS = [
    "tables/test_model_files.py",
    "tables/test_files.py",
    "strategic/test_tree_readers.py",
    "contribution/test_stable_linear.py",
    "elicitation/test_gym_models.py",
    "tradeoff/test_adapters.py",
    "studio/test_guard_http.py",
    "studio/test_store_append.py",
    "core/test_bits.py",
    "auditing/test_models.py",
]
OF_TOOLS = [
    "ruff check --no-cache .",
    "ruff format --no-cache --check .",
    "lint-imports --no-cache",
    "mkdocs build --strict --quiet --site-dir {site}",
]
OF_CLUSTERS = [
    "federated/test_local.py",
    "federated/test_many.py",
    "federated/test_modules.py",
    "federated/test_server.py",
    "federated/flower/test_strategy.py",
    "defection/test_federated_classifier.py",
    "invariance/test_torch.py",
    "poisoning/test_block_workers.py",
]


def test_code_that_leans_on_its_libraries_works(python: Path, tmp_path: Path):
    slice_of_tests(
        python,
        tmp_path,
        [
            "invariance/test_inclusion.py",
            "strategic/graphs/test_strategic_erm.py::test_optimal_means_that_no_halfspace_is_better",
            "tables/test_table.py",
            "tables/test_labels.py",
        ],
    )


def slice_of_tests(python: Path, folder: Path, files: list[str], *options: str) -> None:
    """Run some tests in a folder that has no sources, so that the installed package is tested."""
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "conftest.py", folder)
    shutil.copy(ROOT / "pyproject.toml", folder)
    chosen = [f"tests/{name}" for name in files]
    done = run(python, folder, "-m", "pytest", "-q", "-m", "not slow", *options, *chosen)
    assert done.returncode == 0, done.stdout[-3000:]
