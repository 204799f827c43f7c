"""Many browsers that follow the live numbers of one page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import httpx


async def listen_all(
    browser: httpx.Client, path: str, n: int, change: Callable[[], None]
) -> tuple[list[tuple[str, str]], float]:
    """Open n streams, make one change; return what each heard before and after, and until when."""
    host, port = browser.base_url.host, browser.base_url.port or 80
    cookie = "; ".join(f"{one.name}={one.value}" for one in browser.cookies.jar)
    head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n"
    pairs = []
    for _ in range(n):
        pair = await asyncio.open_connection(host, port)
        pair[1].write(head.encode())
        pairs.append(pair)

    async def told(reader: asyncio.StreamReader) -> str:
        while True:
            line = (await reader.readline()).decode()
            if line.startswith("data:") and line.strip() != "data: {}":
                return line

    firsts = await asyncio.gather(*(told(reader) for reader, _ in pairs))
    changing = asyncio.create_task(asyncio.to_thread(change))
    async with asyncio.timeout(30):
        laters = await asyncio.gather(*(told(reader) for reader, _ in pairs))
    ended = time.monotonic()
    await changing
    for _, writer in pairs:
        writer.close()
    return list(zip(firsts, laters)), ended
