"""A real PostgreSQL for tests and benchmarks: a cluster of its own, thrown away after.

Where it cannot be started, SkipTest says why; pytest counts that as skipped.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest import SkipTest


class Cluster:
    """A cluster in a temporary folder; as user postgres where we are root."""

    def __init__(self, folder: Path, *, durable: bool) -> None:
        self.folder = folder
        self.template = "template0"
        self._extra = "" if durable else " -c fsync=off -c full_page_writes=off"
        self.port = _free_port()
        self._count = 0
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        data = str(folder / "data")
        self._run(program("initdb"), "-D", data, "-A", "trust", "-U", "postgres", "-N")
        self.start()

    def _run(self, *words: str) -> None:
        user = "postgres" if os.geteuid() == 0 else None
        done = subprocess.run(
            words,
            user=user,
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()

    def start(self) -> None:
        """Start, and wait until it answers."""
        options = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' "
            f"-c max_connections=200{self._extra}"
        )
        log = str(self.folder / "log")
        data = str(self.folder / "data")
        self._run(program("pg_ctl"), "-w", "-D", data, "-l", log, "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop; ``immediate`` is as if the machine had lost its power."""
        self._run(program("pg_ctl"), "-w", "-D", str(self.folder / "data"), "-m", mode, "stop")

    def new_database(self) -> str:
        """Return the URL of a new database, a copy of the template."""
        import psycopg

        self._count += 1
        name = f"studio_{os.getpid()}_{self._count}"
        address = f"postgresql://postgres@127.0.0.1:{self.port}"
        with psycopg.connect(f"{address}/postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {self.template}")
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{name}"


@cache
def program(name: str) -> str:
    """Return the path of a program of PostgreSQL; skip without it."""
    found = shutil.which(name)
    if found is None:
        homes = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
        found = str(homes[0]) if homes else None
    if found is None:
        raise SkipTest("PostgreSQL is not installed here")
    return found


@contextmanager
def running(*, durable: bool = True) -> Iterator[Cluster]:
    """Start a cluster for the length of a block."""
    program("initdb")
    if os.geteuid() == 0:
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            raise SkipTest("PostgreSQL refuses root, and there is no user postgres") from None
    with tempfile.TemporaryDirectory(prefix="cp-pg-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        home = Path(folder) / "cluster"
        home.mkdir()
        cluster = Cluster(home, durable=durable)
        try:
            yield cluster
        finally:
            cluster.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
