"""Links of a release lead to pages that are there: on a host of code, and on the site."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from email.message import Message
from pathlib import Path

import pytest

from counterplay import addresses

from .scripts import ROOT

sys.path.insert(0, str(ROOT / "docs"))

import release_readme

HOST = "https://example.org/counterplay"
SITE = "https://docs.example.org"
README = (
    "![A page](docs/assets/a.png) [Audit](docs/audit.md) [Start](docs/index.md#now)\n"
    "[Book](docs/theory/index.md) [`one`](examples/flower-defection) [Cite](CITATION.cff)\n"
    "[Elsewhere](https://example.com/x)\n"
)


def test_links_lead_to_the_tag_on_a_host_of_code() -> None:
    text = release_readme.standing_alone(README, addresses.release(HOST, "", "1.2"))
    assert text == (
        f"![A page]({HOST}/raw/v1.2/docs/assets/a.png) [Audit]({HOST}/blob/v1.2/docs/audit.md) "
        f"[Start]({HOST}/blob/v1.2/docs/index.md#now)\n"
        f"[Book]({HOST}/blob/v1.2/docs/theory/index.md) "
        f"[`one`]({HOST}/tree/v1.2/examples/flower-defection) "
        f"[Cite]({HOST}/blob/v1.2/CITATION.cff)\n"
        "[Elsewhere](https://example.com/x)\n"
    )


def test_links_to_the_docs_lead_to_the_pages_of_the_version_on_the_site() -> None:
    text = release_readme.standing_alone(README, addresses.release(HOST, SITE, "1.2"))
    assert text == (
        f"![A page]({SITE}/1.2/assets/a.png) [Audit]({SITE}/1.2/audit/) [Start]({SITE}/1.2/#now)\n"
        f"[Book]({SITE}/1.2/theory/) [`one`]({HOST}/tree/v1.2/examples/flower-defection) "
        f"[Cite]({HOST}/blob/v1.2/CITATION.cff)\n"
        "[Elsewhere](https://example.com/x)\n"
    )


def test_links_without_an_address_are_text() -> None:
    assert release_readme.standing_alone(README, {}) == (
        " Audit Start\nBook `one` Cite\n[Elsewhere](https://example.com/x)\n"
    )


def test_every_link_of_the_readme_is_a_file_that_is_there() -> None:
    """A file of docs becomes a page of the site, whose own links another test follows."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = [target for _, _, target in release_readme._LINK.findall(text)]
    assert len(targets) > 8
    assert [target for target in targets if not (ROOT / target.partition("#")[0]).exists()] == []
    whole = release_readme.standing_alone(text, addresses.release(HOST, SITE, "1.2"))
    assert not re.search(r"\]\((?!https://)", whole)


def test_a_release_names_its_addresses() -> None:
    assert addresses.release("", "", "1.2") == {}
    assert addresses.release(HOST, "", "1.2") == {
        "Homepage": HOST,
        "Source": f"{HOST}/tree/v1.2",
        "Documentation": f"{HOST}/blob/v1.2/docs/index.md",
        "Changes": f"{HOST}/blob/v1.2/CHANGELOG.md",
        "Issues": f"{HOST}/issues",
    }
    both = addresses.release(HOST, SITE, "1.2")
    assert (both["Homepage"], both["Documentation"]) == (HOST, f"{SITE}/1.2/")


def test_an_installed_package_reads_its_addresses_from_its_metadata(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    message = Message()
    for label, url in addresses.release(HOST, SITE, "1.2").items():
        message["Project-URL"] = f"{label}, {url}"
    monkeypatch.setattr(importlib.metadata, "metadata", lambda name: message)
    assert addresses.where("docs/audit.md") == "docs/audit.md"  # here it is
    monkeypatch.setattr(addresses, "_CHECKOUT", tmp_path)
    addresses.named.cache_clear()
    try:
        assert addresses.where("docs/audit.md#gates") == f"{SITE}/1.2/audit/#gates"
        assert addresses.where("SECURITY.md") == f"{HOST}/blob/v1.2/SECURITY.md"
    finally:
        addresses.named.cache_clear()


def test_addresses_come_from_the_project_file_or_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COUNTERPLAY_REPOSITORY", raising=False)
    assert release_readme.setting("repository", {"repository": ""}) == ""
    assert release_readme.setting("repository", {"repository": f"{HOST}/"}) == HOST
    monkeypatch.setenv("COUNTERPLAY_REPOSITORY", f"{SITE}/x")
    assert release_readme.setting("repository", {"repository": HOST}) == f"{SITE}/x"
    monkeypatch.setenv("COUNTERPLAY_REPOSITORY", "example.org/counterplay")
    with pytest.raises(ValueError, match="the repository must be an address"):
        release_readme.setting("repository", {})
