"""What `make release-check` says about the files it has built."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from .scripts import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import release_check


@pytest.fixture
def out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(release_check, "OUT", tmp_path)
    monkeypatch.setattr(release_check, "STEPS", [only_step])
    return tmp_path


def only_step() -> str:
    """Stands for all steps."""
    return "done"


def wheel(folder: Path, *lines: str) -> None:
    with zipfile.ZipFile(folder / "counterplay-1.2-py3-none-any.whl", "w") as archive:
        archive.writestr("counterplay-1.2.dist-info/METADATA", "\n".join(("Name: x", *lines, "")))


def test_files_without_an_address_are_not_for_upload(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel(out)
    release_check.main([])
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("NOT FOR UPLOAD: no address.")
    assert (out / "release-check.txt").read_text() == f"done\n{last}\n"


def test_the_site_alone_is_not_enough(out: Path) -> None:
    wheel(out, "Project-URL: Documentation, https://docs.example.org/1.2/")
    assert release_check.addresses().startswith("NOT FOR UPLOAD: no address.")


def test_the_addresses_of_a_release_are_named(out: Path) -> None:
    wheel(
        out,
        "Project-URL: Source, https://example.org/x/tree/v1.2",
        "Project-URL: Documentation, https://docs.example.org/1.2/",
    )
    assert release_check.addresses().startswith(
        "links lead to https://example.org/x/tree/v1.2 and https://docs.example.org/1.2/:"
    )


REPORT = """{"install": [
 {"metadata": {"name": "b", "version": "2", "license_expression": "MIT",
               "classifier": ["License :: OSI Approved :: Other"]}},
 {"metadata": {"name": "A", "version": "1", "license": "Old text",
               "classifier": ["Typing :: Typed", "License :: OSI Approved :: BSD License"]}},
 {"metadata": {"name": "c", "version": "3", "license": "\\n Apache 2.0\\nand more"}},
 {"metadata": {"name": "d", "version": "4"}}]}"""


def test_licences_are_read_from_what_pip_would_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_check.venv, "create", lambda *given, **more: None)
    monkeypatch.setattr(
        release_check, "run", lambda *command: REPORT if "--report" in command else ""
    )
    assert list(release_check.brought("counterplay[all]").items()) == [
        ("A", ("1", "BSD License")),
        ("b", ("2", "MIT")),
        ("c", ("3", "Apache 2.0")),
        ("d", ("4", "")),
    ]


def test_the_lists_of_the_base_and_of_the_extras_are_apart(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(out)
    base = {"numpy": ("2", "BSD")}
    extras = {**base, "ray": ("1", "MIT")}
    monkeypatch.setattr(
        release_check, "brought", lambda name: extras if name.endswith("[all]") else base
    )
    assert release_check.licences().endswith("without a licence: none")
    head = "package\tversion\tlicence\n"
    assert (out / "dependencies.tsv").read_text() == f"{head}numpy\t2\tBSD\n"
    assert (out / "dependencies-extras.tsv").read_text() == f"{head}ray\t1\tMIT\n"


def test_packages_that_state_no_licence_are_named(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(out)
    base = {"numpy": ("2", "BSD")}
    extras = {**base, "ray": ("1", "")}
    monkeypatch.setattr(
        release_check, "brought", lambda name: extras if name.endswith("[all]") else base
    )
    assert release_check.licences().endswith("without a licence: ray")
    assert "\nray\t1\tnot stated\n" in (out / "dependencies-extras.tsv").read_text()
    base["numpy"] = ("2", "")
    with pytest.raises(SystemExit, match="no licence is stated by numpy"):
        release_check.licences()
