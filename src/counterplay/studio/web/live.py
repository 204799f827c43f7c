"""Live numbers: server-sent events that follow the log, computed once for all who look.

A listener waits for the one broadcaster of the store; what it is told is computed once per change
and audience, from the state in memory, so two hundred listeners cost what one costs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse

from counterplay.core.exports import receipt
from counterplay.studio.errors import Unavailable
from counterplay.studio.web import pages
from counterplay.studio.web.house import House, house_of
from counterplay.studio.web.people import People
from counterplay.studio.web.sessions import admin_study

if TYPE_CHECKING:
    from starlette.requests import Request

    from counterplay.studio.store import Folded
    from counterplay.studio.store.base import StudyRow
    from counterplay.studio.web.texts import Language

Look = Callable[["Folded"], dict[str, str]]
Told = tuple[str, bool]  # the numbers, and whether to load the page again
router = APIRouter()
HEARTBEAT = 15.0
POLL = 2.0
MOST_LISTENERS = 1_000
_NOTHING = ": still here\n\n"
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


class Feed:
    """What listeners are told, computed once per change and audience."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.listeners = 0
        self.people: dict[int, People] = {}  # by the row number of the study
        self._told: OrderedDict[tuple[str, str], tuple[int, asyncio.Future[Told]]] = OrderedDict()

    async def told(self, stream: str, who: str, seq: int, look: Look) -> Told:
        """Return the numbers of a change for an audience; the first to ask computes them."""
        key = (stream, who)
        known = self._told.get(key)
        if known is not None and known[0] >= seq and not known[1].cancelled():
            return await asyncio.shield(known[1])
        task = asyncio.ensure_future(self._look(stream, seq, look))
        self._told[key] = (seq, task)
        while len(self._told) > 2_000:
            self._told.popitem(last=False)
        return await asyncio.shield(task)

    async def polled(self, who: str, look: Callable[[], dict[str, str]]) -> Told:
        """Return what was looked up at most a moment ago for an audience."""
        tick, key = int(time.monotonic() / POLL), ("", who)
        known = self._told.get(key)
        if known is None or known[0] != tick or known[1].cancelled():
            known = self._told[key] = (tick, asyncio.ensure_future(self._look_up(look)))
        return await asyncio.shield(known[1])

    async def _look_up(self, look: Callable[[], dict[str, str]]) -> Told:
        return _told(await self.house.store.run(look))

    async def _look(self, stream: str, seq: int, look: Look) -> Told:
        return _told(await self.house.store.view(stream, look, known=seq))


def _told(found: dict[str, str]) -> Told:
    again = found.pop("reload", None) is not None
    return json.dumps(found, ensure_ascii=False, allow_nan=False), again


def feed_of(house: House) -> Feed:
    """Return the one feed of an application."""
    found = getattr(house, "_feed", None)
    if found is None:
        found = house._feed = Feed(house)  # type: ignore[attr-defined]
    return found


def events(request: Request, stream: str, who: str, look: Look) -> Response:
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
        Computes the numbers from the state. If there is one called "reload", the page is told to
        load again.
    """
    feed = feed_of(house_of(request))
    return _streamed(request, _follow(feed, stream, who, look))


def polled(request: Request, who: str, look: Callable[[], dict[str, str]]) -> Response:
    """Tell what no stream tells: looked up every few seconds, once for all of an audience."""
    feed = feed_of(house_of(request))
    return _streamed(request, _poll(feed, who, look))


def _streamed(request: Request, told: AsyncIterator[str]) -> Response:
    """Send messages as they come; counted, so that there are not too many such pages."""
    feed = feed_of(house_of(request))
    if feed.listeners >= MOST_LISTENERS:
        raise Unavailable("Too many pages are open; the numbers follow when one is closed.")
    counted = _counted(feed, told)
    return StreamingResponse(counted, 200, _HEADERS, media_type="text/event-stream")


async def _counted(feed: Feed, told: AsyncIterator[str]) -> AsyncIterator[str]:
    feed.listeners += 1
    try:
        async with contextlib.aclosing(told) as messages:  # type: ignore[type-var]
            async for message in messages:
                yield message
    finally:
        feed.listeners -= 1


async def _follow(feed: Feed, stream: str, who: str, look: Look) -> AsyncIterator[str]:
    changes = feed.house.store.listen([stream])
    waiting = asyncio.ensure_future(anext(changes))
    try:
        yield "retry: 3000\n\n"
        await asyncio.sleep(0)  # from here on the listener hears of every change
        seq = await feed.house.store.view(stream, lambda folded: folded.seq)
        while True:
            numbers, again = await feed.told(stream, who, seq, look)
            if again:
                yield message("reload", "{}")
            yield message("numbers", numbers)
            while not (await asyncio.wait({waiting}, timeout=HEARTBEAT))[0]:
                yield _NOTHING
            try:
                _, seq = waiting.result()
            except StopAsyncIteration:
                return
            waiting = asyncio.ensure_future(anext(changes))
    finally:
        waiting.cancel()


async def _poll(feed: Feed, who: str, look: Callable[[], dict[str, str]]) -> AsyncIterator[str]:
    before = ""
    yield "retry: 3000\n\n"
    while not feed.house.store.changed.closed:
        numbers, again = await feed.polled(who, look)
        if again:
            yield message("reload", "{}")
            return
        yield message("numbers", numbers) if numbers != before else _NOTHING
        before = numbers
        await asyncio.sleep(POLL)


async def _follow_people(feed: Feed, study: StudyRow, words: Language) -> AsyncIterator[str]:
    """Follow the participants of a study; whoever is first starts the one task that looks."""
    people = feed.people.get(study.id)
    if people is None or people.over:
        people = feed.people[study.id] = People(feed.house.store, study)
    people.listeners += 1
    try:
        yield "retry: 3000\n\n"
        async for numbers in people.follow(words, HEARTBEAT):
            yield message("numbers", numbers) if numbers else _NOTHING
    finally:
        people.listeners -= 1
        if not people.listeners:
            people.close()
            if feed.people.get(study.id) is people:
                del feed.people[study.id]


def head(folded: Folded, words: Language) -> str:
    """Number and code of the newest entry of a stream: what a coordinator publishes."""
    return words("study.head", n=words.number(folded.seq), code=receipt(folded.hash))


def message(name: str, data: str) -> str:
    """Return an event as it is sent."""
    return f"event: {name}\ndata: {data}\n\n"


async def study_events(request: Request) -> Response:
    """Follow a study as its coordinator: counts, ledger or guard."""
    _, study = await admin_study(request)
    house, words = house_of(request), pages.reader(request)
    stream, who = house.store.stream_of(study), f"coordinator {words.code}"
    if study.kind == "campaign":
        from counterplay.studio.kinds.campaign_live import live_coordinator

        return events(
            request, stream, who,
            lambda f: live_coordinator(f.state, words) | {"head": head(f, words)},
        )  # fmt: skip
    if study.kind == "guard":
        from counterplay.studio.web.guard_pages import live_guard

        return events(
            request, stream, who, lambda f: live_guard(f.state, words) | {"head": head(f, words)}
        )
    if study.kind == "elicitation":
        return _streamed(request, _follow_people(feed_of(house), study, words))
    return events(request, stream, who, lambda f: {"events": str(f.seq)})


router.add_route("/admin/studies/{study}/live", study_events, methods=["GET"])
