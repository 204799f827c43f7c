"""Participants of a studio as one client process: think, load the page, answer; on plain sockets.

    python benchmarks/studio_load.py URL TOKENS.json SECONDS THINK

Prints one JSON object: latencies of pages and answers in seconds, cycles, errors. Kept apart from
the server's process so that its own work is not counted.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
import time
from pathlib import Path
from urllib.parse import urlencode

HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"')
FORM = re.compile(r'<form[^>]* action="([^"]+)"')
ITEMS = re.compile(r'data-item="(\d+)"')


class Browser:
    """One connection with its cookies."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port, self.cookie = host, port, ""
        self.pair: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, path: str, fields: dict[str, str] | None = None) -> tuple[int, str, str]:
        """Return status, text and where the answer sends us; an idle connection may be closed."""
        try:
            return await self._send(path, fields)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.pair = None
            return await self._send(path, fields)

    async def _send(self, path: str, fields: dict[str, str] | None) -> tuple[int, str, str]:
        if self.pair is None:
            self.pair = await asyncio.open_connection(self.host, self.port)
        reader, writer = self.pair
        body = urlencode(fields) if fields is not None else ""
        lines = [f"{'GET' if fields is None else 'POST'} {path} HTTP/1.1", f"Host: {self.host}"]
        if self.cookie:
            lines.append(f"Cookie: {self.cookie}")
        if fields is not None:
            lines += ["Content-Type: application/x-www-form-urlencoded",
                      f"Content-Length: {len(body)}"]  # fmt: skip
        writer.write(("\r\n".join(lines) + "\r\n\r\n" + body).encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, length, where = int(head.split(" ", 2)[1]), 0, ""
        for line in head.split("\r\n")[1:]:
            name, _, value = line.partition(": ")
            match name.lower():
                case "content-length":
                    length = int(value)
                case "location":
                    where = value
                case "set-cookie":
                    self.cookie = value.split(";", 1)[0]
        text = (await reader.readexactly(length)).decode() if length else ""
        return status, text, where


async def participant(
    url: str, tokens: list[str], until: float, think: float, found: dict[str, list[float]]
) -> None:
    """Answer one study after the other until the time is over."""
    host, port = url.removeprefix("http://").split(":")
    await asyncio.sleep(random.random() * think)
    while tokens and time.monotonic() < until:
        browser, token = Browser(host, int(port)), tokens.pop()
        _, text, _ = await browser.send(f"/j/{token}")
        form = FORM.search(text)
        if form is None:
            found["errors"].append(1.0)
            return
        _, _, where = await browser.send(form[1], {**dict(HIDDEN.findall(text)), "consent": "yes"})
        while time.monotonic() < until:
            begun = time.monotonic()
            status, text, _ = await browser.send(where)
            found["get"].append(time.monotonic() - begun)
            shown = [int(i) for i in ITEMS.findall(text)]
            form = FORM.search(text)
            if status != 200 or 'data-page="question"' not in text or form is None:
                found["errors"] += [1.0] if status != 200 else []
                break
            await asyncio.sleep(random.expovariate(1.0 / think) if think else 0.0)
            said = "first" if shown[0] < shown[1] else "second"
            begun = time.monotonic()
            status, _, where = await browser.send(
                form[1], {**dict(HIDDEN.findall(text)), "answer": said}
            )
            found["post"].append(time.monotonic() - begun)
            found["errors"] += [1.0] if status != 303 else []
        if browser.pair:
            browser.pair[1].close()


async def main() -> None:
    """Run all participants at once."""
    url, file, seconds, think = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    given = json.loads(Path(file).read_text())
    found: dict[str, list[float]] = {"get": [], "post": [], "errors": []}
    until = time.monotonic() + seconds
    tokens = list(given["tokens"])
    await asyncio.gather(
        *(participant(url, tokens, until, think, found) for _ in range(given["people"]))
    )
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main())
