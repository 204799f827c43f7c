"""A connection to a Ray cluster for the length of a block; one that is there already is used."""

from __future__ import annotations

import importlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from counterplay.errors import InvalidInputError, MissingDependencyError

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
"""What limits the threads of numerical libraries in a new process."""


@contextmanager
def connected(address: str | None, cpus: int = 1) -> Iterator[Any]:
    """Yield Ray, connected to a cluster; ``None`` starts one on this machine with so many CPUs.

    Raises
    ------
    InvalidInputError
        No cluster answers at the address.
    """
    ray = needed()
    started = not ray.is_initialized()
    if started:
        _connect(ray, address, cpus)
    try:
        yield ray
    finally:
        if started:
            ray.shutdown()


def needed() -> Any:
    """Return Ray, or say what to install."""
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise MissingDependencyError.for_extra("ray", "ray") from None


def _connect(ray: Any, address: str | None, cpus: int) -> None:
    options: dict[str, Any] = {
        "runtime_env": {"env_vars": dict.fromkeys(THREAD_VARIABLES, "1")},
        "log_to_driver": False,
        "logging_level": "ERROR",
    }
    if address is None:
        options |= {"num_cpus": cpus, "include_dashboard": False}
    else:
        check_reachable(address)
    try:
        ray.init(address=address, **options)
    except (ConnectionError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidInputError(f"no Ray cluster answers at {address!r}: {reason}") from error


def check_reachable(address: str) -> None:
    """Knock at ``[ray://]HOST:PORT`` first: Ray itself would wait for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):
        return  # "auto" and the like
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise InvalidInputError(f"no Ray cluster answers at {address!r}: {error}") from error
