"""The list of promises, and the rule that every one of them is checked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import counterplay
from counterplay.claims import Claim, load_claims, parse_claims
from counterplay.errors import InvalidInputError

ENTRY = '[[claim]]\nid="{}"\narea="a"\nstatement="S."\nsource="Thm."\n'


def test_claims_are_ordered_by_id():
    parsed = parse_claims(ENTRY.format("09.10") + ENTRY.format("02.03"))
    assert parsed == (Claim("02.03", "a", "S.", "Thm."), Claim("09.10", "a", "S.", "Thm."))
    assert parse_claims("") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ENTRY.format("02.03") * 2, r"claim 02\.03 is listed twice"),
        (ENTRY.format("2.3"), "must look like 09.03"),
        ('[[claim]]\nid="02.03"\narea="a"\nsource="T"\n', "claim 02.03 lacks statement"),
    ],
)
def test_bad_entries_are_refused(text: str, message: str):
    with pytest.raises(InvalidInputError, match=message):
        parse_claims(text)


def test_every_claim_names_an_area_and_is_a_sentence():
    for claim in load_claims():
        assert claim.area.isidentifier(), claim
        assert claim.statement.strip().endswith((".", "!", ")")), claim
        assert claim.source.strip(), claim


def pytest_with_plugin(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in ``folder`` with a library that has exactly the claims 00.01 and 00.02.

    The second one is about a time.
    """
    timed = ENTRY.format("00.02").replace("S.", "Measured: it takes seconds.")
    (folder / "conftest.py").write_text(
        "import claims_plugin\nfrom counterplay import claims\n"
        f"known = claims.parse_claims({ENTRY.format('00.01') + timed!r})\n"
        "claims_plugin.load_claims = lambda: known\n"
    )
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "claims_plugin", *options],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                (str(Path(counterplay.__file__).resolve().parents[1]), str(Path(__file__).parent))
            ),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_unknown_id_fails_the_run(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.mark.claim('00.01', '77.01')\ndef test_it(): pass\n"
    )
    done = pytest_with_plugin(tmp_path)
    assert done.returncode == 4
    assert "claims not listed in claims.toml: 77.01 (in test_it.py::test_it)" in done.stderr


def test_an_unchecked_claim_fails_the_whole_run_but_not_a_part_of_it(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.mark.claim('00.01')\ndef test_it(): pass\n"
    )
    assert pytest_with_plugin(tmp_path).returncode == 0
    done = pytest_with_plugin(tmp_path, "--require-claims")
    assert done.returncode == 4
    assert "claims without a test: 00.02" in done.stderr


def test_all_checked(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.mark.claim('00.01')\ndef test_one(): pass\n"
        "@pytest.mark.claim('00.02')\ndef test_two(): pass\n"
    )
    assert pytest_with_plugin(tmp_path, "--require-claims").returncode == 0


def test_only_a_time_may_be_left_to_the_slow_tests(tmp_path: Path):
    slow = "import pytest\n@pytest.mark.claim('{}')\n@pytest.mark.slow\ndef test_slow(): pass\n"
    quick = "@pytest.mark.claim('{}')\ndef test_quick(): pass\n"
    options = ("--require-claims", "-m", "not slow")
    (tmp_path / "test_it.py").write_text(slow.format("00.02") + quick.format("00.01"))
    assert pytest_with_plugin(tmp_path, *options).returncode == 0
    (tmp_path / "test_it.py").write_text(slow.format("00.01") + quick.format("00.02"))
    done = pytest_with_plugin(tmp_path, *options)
    assert done.returncode == 4
    assert "claims without a test: 00.01" in done.stderr
