"""Tell listeners that a stream has gone on: one broadcaster, however many listen."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterable


class Broadcast:
    """Passes (stream, seq) to every listener of the stream or of its study; the slow skip numbers.

    Who listens to a study, by its row number, also hears of streams that begin, with number 0.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[str | int, set[_Listener]] = {}
        self.closed = False

    def followed(self) -> tuple[list[str], list[int]]:
        """Return the streams and the studies that somebody listens to."""
        with self._lock:
            names = list(self._listeners)
        streams = [name for name in names if isinstance(name, str)]
        return streams, [name for name in names if isinstance(name, int)]

    def publish(self, stream: str, seq: int, study: int) -> None:
        """Wake the listeners of a stream and of its study; from any thread."""
        with self._lock:
            listeners = {one for key in (stream, study) for one in self._listeners.get(key, ())}
        for listener in listeners:
            listener.wake(stream, seq)

    async def listen(self, streams: Iterable[str | int]) -> AsyncIterator[tuple[str, int]]:
        """Yield (stream, seq) after each commit, until the broadcaster closes."""
        listener = _Listener(asyncio.get_running_loop())
        names = set(streams)
        with self._lock:
            for name in names:
                self._listeners.setdefault(name, set()).add(listener)
        try:
            while not self.closed:
                await listener.event.wait()
                listener.event.clear()
                news, listener.news = listener.news, {}
                for item in news.items():
                    yield item
        finally:
            with self._lock:
                for name in names:
                    left = self._listeners.get(name, set())
                    left.discard(listener)
                    if not left:
                        self._listeners.pop(name, None)

    def close(self) -> None:
        """End all listening."""
        self.closed = True
        with self._lock:
            everyone = {one for group in self._listeners.values() for one in group}
        for listener in everyone:
            listener.wake("", 0)


class _Listener:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.event = asyncio.Event()
        self.news: dict[str, int] = {}

    def wake(self, stream: str, seq: int) -> None:
        with contextlib.suppress(RuntimeError):  # its loop is closed
            self.loop.call_soon_threadsafe(self._take, stream, seq)

    def _take(self, stream: str, seq: int) -> None:
        if stream:
            self.news[stream] = max(seq, self.news.get(stream, 0))
        self.event.set()
