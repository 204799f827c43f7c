"""One studio and one browser for all tests of the pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from studio.web_house import Web

if find_spec("sqlalchemy"):
    from store_fixtures import cluster, settings, store, tally  # noqa: F401

collect_ignore_glob = [] if find_spec("fastapi") and find_spec("sqlalchemy") else ["*.py"]


@pytest.fixture(scope="session")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A running studio."""
    from studio.web_house import Web

    house = Web(tmp_path_factory.mktemp("web"))
    yield house
    house.close()


@pytest.fixture(scope="module")  # while it is open, no other event loop can run in this thread
def chromium() -> Iterator[Any]:
    """A real browser, without a window."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None or find_spec("playwright") is None:
        pytest.skip("no chromium or no playwright here")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        yield browser
        browser.close()
