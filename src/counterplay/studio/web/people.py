"""The participants of a study while they answer: one task per study, for all who look.

Every participant has a stream of her own. The task hears of each change and of everybody who comes,
and looks once; those who look at the page are told what it found.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

from counterplay.studio.errors import StudioError
from counterplay.studio.web import activity

if TYPE_CHECKING:
    from counterplay.studio.store import Store
    from counterplay.studio.store.base import StudyRow
    from counterplay.studio.web.texts import Language

PAUSE = 0.2
"""Seconds between two messages to the same page, however many people answer."""


class People:
    """Where the participants of one study are, and who wants to know."""

    def __init__(self, store: Store, study: StudyRow) -> None:
        self.store, self.study = store, study
        self.listeners, self.over = 0, False
        self._rows: dict[str, dict[str, Any]] = {}
        self._number = 0  # of the last change
        self._changed: dict[str, int] = {}  # its number, by stream
        self._told: dict[tuple[str, int], str] = {}  # by language and what was heard before
        self._next: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(self._work())

    def close(self) -> None:
        """Stop; nobody looks any more."""
        self.over = True
        self._task.cancel()

    async def follow(self, words: Language, heartbeat: float) -> AsyncIterator[str]:
        """Yield everything, then what has changed; an empty text if nothing has for a while."""
        heard = 0
        while not self.over:
            waited = self._next
            if self._number > heard:
                before, heard = heard, self._number
                yield self._news(words, before)
                await asyncio.sleep(PAUSE)
                continue
            done, _ = await asyncio.wait({waited}, timeout=heartbeat)
            if not done:
                yield ""

    async def _work(self) -> None:
        """Follow the streams of the study until nobody looks or the store closes."""
        changes = self.store.listen([self.study.id])
        waiting = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)  # from here on it hears of every change
        try:
            with contextlib.suppress(StudioError, StopAsyncIteration):
                for row in await self.store.run(activity.participants, self.store, self.study):
                    self._rows[row["id"]] = row
                self._step(list(self._rows))
                while True:
                    stream, seq = await waiting
                    waiting = asyncio.ensure_future(anext(changes))
                    if await self._is_listed(stream, seq):
                        await self._look(stream, seq)
        finally:
            waiting.cancel()
            self.over = True
            self._step([])

    async def _is_listed(self, stream: str, seq: int) -> bool:
        """Whether there is something new of a participant who is shown, or will be."""
        if stream in self._rows:
            return bool(seq > self._rows[stream]["seq"])
        if stream == self.study.public_id or len(self._rows) >= activity.MOST_PARTIES:
            return False
        party = await self.store.run(self.store.party, stream)
        return party.role == "participant"

    async def _look(self, stream: str, seq: int) -> None:
        def look(folded: Any) -> dict[str, Any]:
            return activity.progress(self.store, self.study, folded)

        self._rows[stream] = await self.store.view(stream, look, known=seq)
        self._step([stream])

    def _step(self, streams: list[str]) -> None:
        """Note what changed, and wake everybody."""
        self._number += 1
        self._changed |= dict.fromkeys(streams, self._number)
        self._told = {}
        self._next.set_result(None)
        self._next = asyncio.get_running_loop().create_future()

    def _news(self, words: Language, before: int) -> str:
        """What changed after a number, in a language; the first to ask writes it."""
        key = (words.code, before)
        if key not in self._told:
            told = {
                f"progress-{stream}": progress(self._rows[stream], words)
                for stream, number in self._changed.items()
                if number > before
            }
            told["people"] = sums(self._rows.values(), words)
            told["nobody"] = words("study.load_again" if self._rows else "study.no_people")
            self._told[key] = json.dumps(told, ensure_ascii=False)
        return self._told[key]


def progress(row: dict[str, Any], words: Language) -> str:
    """How far somebody is, in words."""
    if row["erased"]:
        return words("study.progress_erased")
    if row["result"]:
        done = words("study.progress_done", name=row["result"])
        return f"{words('study.progress_asked', n=row['answers'])}, {done}"
    if row["joined"]:
        return words("study.progress_asked", n=row["answers"])
    return words("study.progress_none")


def sums(rows: Iterable[dict[str, Any]], words: Language) -> str:
    """How many participants there are, and what they come to, in words."""
    listed = list(rows)
    answers = sum(row["answers"] for row in listed)
    return words(
        "study.live", people=words("study.people", n=len(listed)),
        answers=words("study.progress_asked", n=answers),
        done=sum(bool(row["result"]) for row in listed),
    )  # fmt: skip
