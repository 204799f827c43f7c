"""A download cache of its own for every test, and the folder of real data where there is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from counterplay.datasets import downloads, sources


@pytest.fixture(autouse=True)
def empty_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path_factory.mktemp("cache")
    for module in (sources, downloads):
        monkeypatch.setattr(module, "cache_folder", lambda: cache)
    return cache


@pytest.fixture
def real_data() -> Path:
    folder = os.environ.get("COUNTERPLAY_DATA")
    if not folder:
        pytest.skip("COUNTERPLAY_DATA is not set")
    return Path(folder)
