"""Live numbers: server-sent events that follow the log, computed once for all who look.

A listener waits for the one broadcaster of the store; what it is told is computed once per change
and audience, from the state in memory, so two hundred listeners cost what one costs.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse

from counterplay.studio.errors import Unavailable
from counterplay.studio.web.house import House, house_of
from counterplay.studio.web.sessions import admin_study

if TYPE_CHECKING:
    from starlette.requests import Request

    from counterplay.studio.store import Folded

router = APIRouter()
HEARTBEAT = 15.0
MOST_LISTENERS = 1_000
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


class Feed:
    """What listeners are told, computed once per change and audience."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.listeners = 0
        self._told: OrderedDict[tuple[str, str], tuple[int, asyncio.Future[str]]] = OrderedDict()

    async def told(self, stream: str, who: str, seq: int, look: Callable[[Folded], Any]) -> str:
        """Return the message of a change for an audience; the first to ask computes it."""
        key = (stream, who)
        known = self._told.get(key)
        if known is not None and known[0] >= seq and not known[1].cancelled():
            return await asyncio.shield(known[1])
        task = asyncio.ensure_future(self._look(stream, look))
        self._told[key] = (seq, task)
        while len(self._told) > 2_000:
            self._told.popitem(last=False)
        return await asyncio.shield(task)

    async def _look(self, stream: str, look: Callable[[Folded], Any]) -> str:
        found = await self.house.store.view(stream, look)
        return json.dumps(found, ensure_ascii=False, allow_nan=False)


def feed_of(house: House) -> Feed:
    """Return the one feed of an application."""
    found = getattr(house, "_feed", None)
    if found is None:
        found = house._feed = Feed(house)  # type: ignore[attr-defined]
    return found


def events(
    request: Request,
    stream: str,
    who: str,
    look: Callable[[Folded], dict[str, str]],
    *,
    reload: Callable[[], Awaitable[bool]] | None = None,
) -> Response:
    """Follow a stream: one message with the numbers now, then one after every change.

    Parameters
    ----------
    request:
        The request; it stays open.
    stream:
        What to follow.
    who:
        The audience; listeners with the same one share their messages.
    look:
        Computes the numbers from the state.
    reload:
        Whether the page should be loaded again instead, asked after every change.
    """
    feed = feed_of(house_of(request))
    if feed.listeners >= MOST_LISTENERS:
        raise Unavailable("Too many pages are open; the numbers follow when one is closed.")
    told = _follow(feed, stream, who, look, reload)
    return StreamingResponse(told, 200, _HEADERS, media_type="text/event-stream")


async def _follow(
    feed: Feed,
    stream: str,
    who: str,
    look: Callable[[Folded], dict[str, str]],
    reload: Callable[[], Awaitable[bool]] | None,
) -> AsyncIterator[str]:
    feed.listeners += 1
    changes = feed.house.store.listen([stream])
    waiting = asyncio.ensure_future(anext(changes))
    try:
        yield "retry: 3000\n\n"
        now = await feed.house.store.view(stream, lambda folded: folded.seq)
        yield _message("numbers", await feed.told(stream, who, now, look))
        while True:
            done, _ = await asyncio.wait({waiting}, timeout=HEARTBEAT)
            if not done:
                yield ": still here\n\n"
                continue
            try:
                _, seq = waiting.result()
            except StopAsyncIteration:
                return
            waiting = asyncio.ensure_future(anext(changes))
            if reload is not None and await reload():
                yield _message("reload", "{}")
            yield _message("numbers", await feed.told(stream, who, seq, look))
    finally:
        feed.listeners -= 1
        waiting.cancel()


def _message(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"


async def study_events(request: Request) -> Response:
    """Follow a study as its coordinator: counts, ledger or guard."""
    _, study = await admin_study(request)
    house = house_of(request)
    stream = house.store.stream_of(study)
    if study.kind == "campaign":
        from counterplay.studio.kinds.campaign_views import numbers

        return events(request, stream, "coordinator", lambda f: numbers(f.state, None))
    if study.kind == "guard":
        from counterplay.studio.kinds.guard_views import live_numbers

        return events(request, stream, "coordinator", lambda f: live_numbers(f.state))
    return events(request, stream, "coordinator", lambda f: {"events": str(f.seq)})


router.add_route("/admin/studies/{study}/live", study_events, methods=["GET"])
