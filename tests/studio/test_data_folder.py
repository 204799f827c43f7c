"""Servers and workers of one database share one data folder; another folder is refused."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest

from counterplay import cli
from counterplay.studio import backup, errors
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store
from counterplay.studio.worker import run_worker


@pytest.fixture(params=["sqlite", "postgresql"])
def homes(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Settings, Settings]:
    """The server's settings, and those of a machine with a folder of its own."""
    url = f"sqlite:///{tmp_path / 'shared.sqlite'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("cluster").new_database()
    return Settings(data=tmp_path / "a", database=url), Settings(data=tmp_path / "b", database=url)


def test_a_worker_without_the_folder_of_the_server_is_refused(
    homes: tuple[Settings, Settings], capsys: pytest.CaptureFixture[str]
) -> None:
    ours, other = homes
    with pytest.raises(errors.CannotStart, match="start the server first"):
        run_worker(ours, once=True)
    Store.open(ours, server=True).close()
    with Store.open(ours) as store:
        job = store.enqueue("probe", {})
        for start in (lambda: run_worker(other, once=True), lambda: Store.open(other, server=True)):
            with pytest.raises(errors.CannotStart, match="need the same folder"):
                start()
        words = ["worker", "--once", "--data", str(other.data), "--database", str(other.database)]
        assert cli.run(["studio", *words]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "is not the one of this database" in said
        assert store.job(job).state == "ready"  # nobody took it
        run_worker(ours, once=True)
        assert store.job(job).state == "done"
    Store.open(ours, server=True).close()  # again, and nothing is in its way


def test_a_file_of_the_database_in_its_folder_needs_no_mark(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "d")
    Store.open(settings, server=True).close()
    (settings.data / "studio.id").write_text("of another studio")
    Store.open(settings, server=True).close()
    with Store.open(settings) as store:
        assert (settings.data / "studio.id").read_text() == store.setting("folder")


def test_a_restored_folder_is_that_of_its_database(
    homes: tuple[Settings, Settings], tmp_path: Path
) -> None:
    ours, other = homes
    with Store.open(ours, server=True) as store:
        kept = store.add_artifact("page.html", "text/html", b"<p>kept</p>")
    backup.back_up(ours, tmp_path / "b.tar")
    backup.restore(other, tmp_path / "b.tar")
    with Store.open(other, server=True) as store:
        assert store.read_artifact(kept) == b"<p>kept</p>"


def test_a_backup_without_a_file_of_an_audit_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, target = Settings(data=tmp_path / "d"), tmp_path / "b.tar"
    with Store.open(settings) as store:
        store.add_artifact("here.html", "text/html", b"here")
        lost = store.add_artifact("lost.html", "text/html", b"lost")
    (settings.data / lost.path).unlink()
    words = ["studio", "backup", str(target), "--data", str(settings.data)]
    assert cli.run(words) == 2
    assert "1 files of audits are not in" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["d"]
    assert cli.run([*words, "--without-missing"]) == 0
    with tarfile.open(target) as tar:
        names: list[Any] = [name for name in tar.getnames() if name.startswith("artifacts/")]
    assert len(names) == 1
