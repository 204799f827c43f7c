"""``/readyz`` says yes only while answers can be stored."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from counterplay.studio.app import create_app
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store
from counterplay.studio.store.database import make_engine
from counterplay.studio.web import health


def asked(settings: Settings, store: Store) -> tuple[int, dict[str, Any]]:
    """What a monitor is told."""
    with TestClient(create_app(settings, store=store)) as client:
        answer = client.get("/readyz")
    return answer.status_code, answer.json()


def test_a_studio_that_can_store_answers_is_ready(settings: Settings) -> None:
    with Store.open(settings, server=True) as store:
        key = store.server_key().hex()
        assert asked(settings, store) == (200, {"ready": True})
        assert store.setting("server_key") == key  # what was written was taken back
        assert not [path for path in settings.data.iterdir() if path.suffix in (".tmp", "")]


def test_a_database_that_only_reads_is_not_ready(settings: Settings) -> None:
    with Store.open(settings, server=True) as store:
        store.server_key()
        if settings.sqlite_file is None:
            name = sa.engine.make_url(settings.database_url).database
            change = f"ALTER DATABASE {name} SET default_transaction_read_only = on"
            engine = sa.create_engine(settings.database_url, isolation_level="AUTOCOMMIT")
            with engine.connect() as connection:
                connection.exec_driver_sql(change)
            engine.dispose()
        else:

            @sa.event.listens_for(store.engine, "connect")
            def _only(connection: Any, _: Any) -> None:
                connection.execute("PRAGMA query_only=ON").close()

        store._writer._drop(store._writer._connected())  # type: ignore[union-attr]
        store.engine.dispose()
        status, told = asked(settings, store)
    assert (status, told["ready"]) == (503, False)


def test_another_schema_is_not_ready(settings: Settings) -> None:
    with Store.open(settings, server=True) as store:
        engine = make_engine(settings)
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
        engine.dispose()
        assert asked(settings, store) == (503, {"ready": False, "reason": "schema"})


def test_a_folder_that_takes_no_files_is_not_ready(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: Any) -> Any:
        raise OSError(30, "Read-only file system")

    settings = Settings(data=tmp_path / "d")
    with Store.open(settings, server=True) as store:
        monkeypatch.setattr(health.tempfile, "TemporaryFile", full)
        assert asked(settings, store) == (503, {"ready": False, "reason": "OSError"})
