"""Stores for tests, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tally_kind
from postgres import Cluster, running

from counterplay.studio import kinds
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store

Open = Callable[..., Store]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """PostgreSQL with a template that has our tables; not for tests that pull the plug."""
    with running(durable=False) as found:
        url = found.new_database()
        Store.open(Settings(data=tmp_path_factory.mktemp("template"), database=url)).close()
        found.template = url.rpartition("/")[2]
        yield found


@pytest.fixture
def tally(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest kind stands for elicitations."""
    monkeypatch.setitem(kinds.MODULES, "elicitation", tally_kind.__name__)


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """A fresh database of either kind."""
    if request.param == "sqlite":
        return Settings(data=tmp_path / "studio")
    cluster: Cluster = request.getfixturevalue("cluster")
    return Settings(data=tmp_path / "studio", database=cluster.new_database())


@pytest.fixture
def store(settings: Settings, tally: None) -> Iterator[Store]:
    with Store.open(settings) as found:
        yield found


def new_stream(store: Store, label: str = "somebody") -> str:
    """An open study with one party; returns the party's stream."""
    study = store.new_study("elicitation", "Numbers", {"most": 3}, actor="test", open_now=True)
    return store.new_party(study, role="participant", label=label).public_id
