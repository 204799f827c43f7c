"""The participants of a study while they answer: each change moves one row and three sums.

Every participant has a stream of her own. A change costs one look at the fold of that stream, and
people who come by an open link are noticed within seconds.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from counterplay.studio.web import activity
from counterplay.studio.web.live import message

if TYPE_CHECKING:
    from counterplay.studio.store import Store
    from counterplay.studio.store.base import StudyRow
    from counterplay.studio.web.texts import Language

NEWCOMERS = 5.0
"""Seconds after which the list of participants is read again."""


async def follow_people(store: Store, study: StudyRow, words: Language) -> AsyncIterator[str]:
    """Tell the sums now, then what changes."""
    rows = {row["id"]: row for row in await store.run(activity.participants, store, study)}
    yield "retry: 3000\n\n"
    yield message("numbers", json.dumps({"people": _sums(rows, words)}))
    while True:
        listening = sorted(rows)
        changes = store.listen([study.public_id, *listening])
        waiting = asyncio.ensure_future(anext(changes))
        try:
            while sorted(rows) == listening:
                done, _ = await asyncio.wait({waiting}, timeout=NEWCOMERS)
                if not done:
                    known = await store.run(activity.people, store, study)
                    for party in known[: activity.MOST_PARTIES]:
                        if party.public_id not in rows:
                            rows[party.public_id] = await _row(store, study, party.public_id)
                    yield ": still here\n\n"
                    continue
                try:
                    stream, _ = waiting.result()
                except StopAsyncIteration:
                    return
                waiting = asyncio.ensure_future(anext(changes))
                if stream in rows:
                    rows[stream] = await _row(store, study, stream)
                    told = {f"progress-{stream}": progress(rows[stream], words),
                            "people": _sums(rows, words)}  # fmt: skip
                    yield message("numbers", json.dumps(told, ensure_ascii=False))
        finally:
            waiting.cancel()
        yield message("numbers", json.dumps({"people": _sums(rows, words)}))


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


def _sums(rows: dict[str, dict[str, Any]], words: Language) -> str:
    answers = sum(row["answers"] for row in rows.values())
    done = sum(bool(row["result"]) for row in rows.values())
    return words("study.live", people=len(rows), answers=answers, done=done)


async def _row(store: Store, study: StudyRow, stream: str) -> dict[str, Any]:
    found: dict[str, Any] = await store.view(
        stream, lambda folded: activity.progress(store, study, folded)
    )
    return found
