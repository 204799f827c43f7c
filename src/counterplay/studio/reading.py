"""Tables that people hand in, read where they can hurt nobody.

A large table takes seconds of CPU and hundreds of megabytes, and the parsers hold the interpreter
while they work: in the server everybody would wait. So a table of more than :data:`SMALL` bytes is
read by a process of its own, under limits of memory and time, one at a time. It gets the file and
gives JSON back through pipes.
Source: docs/theory/28-studio.md, "Threats".
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from counterplay.core.records import canonical
from counterplay.errors import InvalidInputError
from counterplay.studio.errors import Refused

if TYPE_CHECKING:
    from counterplay.studio.store import Store

SMALL = 2**20
"""Tables up to this size are read in a thread of the server: they take a few tenths of a second."""
SECONDS = 120.0
WORK = {
    "columns": ("counterplay.studio.web.wizard", "columns_of"),
    "elicitation": ("counterplay.studio.web.wizard", "config_of"),
    "campaign": ("counterplay.studio.web.new_campaign", "config_of"),
    "known": ("counterplay.studio.kinds.campaign_uploads", "known_of"),
    "answers": ("counterplay.studio.kinds.campaign_uploads", "answers_of"),
    "items": ("counterplay.studio.kinds.campaign_uploads", "items_of"),
}
"""What can be made of a file: functions of what was entered, the file, and what came with it."""
TOO_MUCH = "The table is too large to be read here: leave out columns or rows."
_TURN = ThreadPoolExecutor(1, thread_name_prefix="studio-reading")


async def read(
    store: Store,
    what: str,
    given: dict[str, Any],
    content: bytes,
    beside: dict[str, bytes] | None = None,
) -> Any:
    """Return what ``WORK[what]`` makes of a table; in another process if it is large.

    ``beside`` are the files that came with the table, such as pictures.

    Raises
    ------
    InvalidInputError
        What is wrong with the table or with what was entered, in one sentence.
    """
    if len(content) + sum(map(len, (beside or {}).values())) <= SMALL:
        return await store.run(_make, what, given, content, beside)
    memory, loop = store.settings.job_memory, asyncio.get_running_loop()
    return await loop.run_in_executor(_TURN, read_apart, what, given, content, memory, beside)


def read_apart(
    what: str,
    given: dict[str, Any],
    content: bytes,
    memory: int,
    beside: dict[str, bytes] | None = None,
) -> Any:
    """Let another process read a table, within ``memory`` bytes and :data:`SECONDS`."""
    sizes = None if beside is None else {name: len(data) for name, data in beside.items()}
    order = json.dumps(
        {"what": what, "given": given, "memory": memory, "table": len(content), "beside": sizes}
    ).encode()
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            input=b"".join([order, b"\n", content, *(beside or {}).values()]),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
    except subprocess.TimeoutExpired:
        raise Refused(TOO_MUCH, "file") from None
    if done.returncode != 0:
        raise Refused(TOO_MUCH, "file")
    told = msgspec.json.decode(done.stdout)
    if "wrong" not in told:
        return told["made"]
    if told["field"] is not None:
        raise Refused(told["wrong"], told["field"])
    raise InvalidInputError(told["wrong"])


def main() -> None:
    """Body of the other process: limits, the order and the file in, JSON out."""
    from counterplay.studio.store.append import LARGEST
    from counterplay.studio.worker import limit_memory

    stream = sys.stdin.buffer
    order = json.loads(stream.readline())
    limit_memory(order["memory"])
    told: dict[str, Any]
    try:
        content, sizes = stream.read(order["table"]), order["beside"]
        beside = None if sizes is None else {name: stream.read(n) for name, n in sizes.items()}
        told = {"made": _make(order["what"], order["given"], content, beside)}
    except MemoryError:
        told = {"wrong": TOO_MUCH, "field": "file"}
    except InvalidInputError as error:
        told = {"wrong": str(error), "field": getattr(error, "field", None)}
    answer = canonical(told)
    if len(answer) > LARGEST:  # nothing of this size can be stored
        answer = canonical({"wrong": TOO_MUCH, "field": "file"})
    sys.stdout.buffer.write(answer)


def _make(what: str, given: dict[str, Any], content: bytes, beside: dict[str, bytes] | None) -> Any:
    module, name = WORK[what]
    make: Callable[..., Any] = getattr(import_module(module), name)
    return make(given, content) if beside is None else make(given, content, beside)


if __name__ == "__main__":
    main()
