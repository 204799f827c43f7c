"""A release pins every base dependency with hashes, at the versions that are tested."""

from __future__ import annotations

import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import counterplay

from .scripts import ROOT


def pinned() -> dict[str, tuple[str, int]]:
    """Version and number of hashes of each package of the release file."""
    text = (ROOT / "requirements-release.txt").read_text(encoding="utf-8")
    found = {}
    for block in re.split(r"\n(?=[A-Za-z])", text):
        head = re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)", block)
        if head:
            hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}", block)
            found[canonicalize_name(head[1])] = (head[2], len(hashes))
    return found


def test_every_base_dependency_is_pinned_with_hashes_at_the_tested_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {
        canonicalize_name(Requirement(d).name): Requirement(d) for d in project["dependencies"]
    }
    tested = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
        if "==" in line
    )
    tested = {canonicalize_name(name): version for name, version in tested.items()}
    release = pinned()
    assert set(wanted) <= set(release)
    for name, (version, hashes) in release.items():
        assert hashes >= 1, f"{name} has no hash"
        assert version == tested.get(name, version), f"{name} is tested at {tested.get(name)}"
        if name in wanted:
            assert wanted[name].specifier.contains(version)


def test_the_release_file_names_no_place_to_download_from() -> None:
    text = (ROOT / "requirements-release.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert "--index-url" not in text


def test_the_citation_names_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (\S+)$", text, flags=re.MULTILINE)[1] == counterplay.__version__


def test_no_document_sends_readers_to_a_package_index_that_does_not_have_the_library() -> None:
    pages = [ROOT / "README.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        found = re.findall(r"pip install [^\n]*counterplay(?!-)", page.read_text(encoding="utf-8"))
        assert not found, f"{page.name}: {found}"
