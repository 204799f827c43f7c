"""One stream of a kind without a database: events are checked, linked and folded."""

from __future__ import annotations

from typing import Any

from counterplay.core.exports import START, Event, EventChain, write_export
from counterplay.studio.kinds import Kind, NewEvent
from counterplay.studio.store.append import prepare
from counterplay.studio.store.folds import Folded


class Stream:
    """A stream in memory."""

    def __init__(self, kind: Kind, config: dict[str, Any], name: str = "study") -> None:
        self.kind, self.config, self.name = kind, config, name
        self.events: list[Event] = []
        self.folded = Folded(name, 1, None, 1, 0, START, kind.begin(config))

    @property
    def state(self) -> Any:
        """The state now."""
        return self.folded.state

    def add(self, kind: str, body: dict[str, Any], actor: str = "admin", key: str = "") -> Event:
        """Append an event and what follows from it; return the event itself."""
        new = NewEvent(kind, body, key or f"k{len(self.events)}", actor)
        ready = prepare(self.kind, self.config, "open", self.folded, [new])
        self.folded = ready.after
        first = len(self.events)
        self.events += ready.events
        return self.events[first]

    def replayed(self, events: list[Event] | None = None) -> Any:
        """The state of the same events, folded again from nothing."""
        state = self.kind.begin(self.config)
        for event in self.events if events is None else events:
            state = self.kind.apply(self.config, state, event)
        return state

    def export(self) -> bytes:
        """The export of the stream."""
        study_kind, config = self.kind.export(self.config)
        chain = EventChain(self.name)
        chain.events = list(self.events)
        return write_export(self.name, study_kind, config, [chain]).encode()  # type: ignore[arg-type]
