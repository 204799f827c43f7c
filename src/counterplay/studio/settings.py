"""Where a studio keeps its data and how its server is reached."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from counterplay.errors import InvalidInputError


@dataclass(frozen=True)
class Settings:
    """Everything an operator chooses.

    Parameters
    ----------
    data:
        Folder of the database file, the artifacts and the operator's models; servers and workers
        of one database need the same.
    database:
        URL of a PostgreSQL database; a SQLite file in the folder by default.
    host:
        Address to listen on; others than loopback need https or ``insecure_http``.
    port:
        Port to listen on; 0 picks a free one.
    base_url:
        How people reach the server, such as ``https://studio.example.org``.
    workers:
        Processes that run jobs beside the server.
    trusted_proxies:
        Number of proxies whose X-Forwarded-For is believed.
    insecure_http:
        Whether a network may be served without https.
    allow_model_upload:
        Whether audits may bring models as .onnx or .skops files.
    requests_per_minute:
        Most requests from one address, at least 1.
    writes_per_minute:
        Most answers by one link, of a campaign ten times as many; ``write_burst`` at once.
    write_burst:
        How many answers a link may send at once, of a campaign ten times as many.
    logins_per_minute:
        Most attempts to log in.
    metrics_token:
        Bearer token with which ``/metrics`` may be read from other machines.
    lease:
        Seconds after which the job of a silent worker is given to another.
    job_memory:
        Most bytes of memory of one job.
    job_seconds:
        Most seconds of one job.
    ray:
        Address of a Ray cluster to which workers send the batches of an audit.

    Examples
    --------
    >>> Settings(data=Path("studio")).database_url
    'sqlite:///studio/studio.sqlite'

    References
    ----------
    docs/studio.md.
    """

    data: Path = field(default_factory=lambda: Path("studio"))
    database: str | None = field(default=None, repr=False)  # may hold a password
    host: str = "127.0.0.1"
    port: int = 8700
    base_url: str | None = None
    workers: int = 1
    trusted_proxies: int = 0
    insecure_http: bool = False
    allow_model_upload: bool = False
    requests_per_minute: float = 300.0
    writes_per_minute: float = 30.0
    write_burst: float = 20.0
    logins_per_minute: float = 5.0
    metrics_token: str | None = field(default=None, repr=False)
    lease: float = 60.0
    job_memory: int = 4 * 2**30
    job_seconds: float = 3600.0
    ray: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", Path(self.data))
        if self.database is not None and not _is_database(self.database):
            raise InvalidInputError(  # without the URL: it may hold a password
                "the database must be a URL such as postgresql+psycopg://user@host/name, "
                f"got one that begins with {self.database.partition(':')[0][:30]!r}"
            )
        if not 0 <= self.port <= 65_535:
            raise InvalidInputError(f"the port must be in 0 ... 65535, got {self.port}")
        if not self.requests_per_minute >= 1.0:
            raise InvalidInputError(
                f"the requests per minute must be at least 1, got {self.requests_per_minute:g}"
            )
        if self.base_url is not None:
            parts = urlsplit(self.base_url)
            if parts.scheme not in ("http", "https") or not parts.netloc or parts.query:
                raise InvalidInputError(
                    f"the base URL must look like https://studio.example.org, "
                    f"got {self.base_url[:100]!r}"
                )
            object.__setattr__(self, "base_url", self.base_url.rstrip("/"))

    @property
    def database_url(self) -> str:
        """The database as SQLAlchemy names it."""
        if self.database is None:
            return f"sqlite:///{self.data / 'studio.sqlite'}"
        if self.database.startswith("postgresql://"):
            return self.database.replace("postgresql://", "postgresql+psycopg://", 1)
        return self.database

    @property
    def sqlite_file(self) -> Path | None:
        """The database file, None for PostgreSQL."""
        url = self.database_url
        return Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:") else None

    @property
    def https(self) -> bool:
        """Whether people reach the server by https."""
        return (self.base_url or "").startswith("https://")

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def check_host(self) -> None:
        """Refuse to serve a network without https, unless the operator insists."""
        if not (self.loopback or self.https or self.insecure_http):
            raise InvalidInputError(
                "Without https everybody on the network can read the links. Put a proxy in "
                "front (--base-url https://...) or say --insecure-http."
            )


def _is_database(url: str) -> bool:
    """Whether this is an address that the store can use."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        found = make_url(url)
    except (ArgumentError, ValueError):  # such as a port that is no number
        return False
    if found.drivername == "sqlite":  # a file: the log must outlive the process
        return url.startswith("sqlite:///") and found.database not in (None, "", ":memory:")
    return found.drivername in ("postgresql", "postgresql+psycopg")
