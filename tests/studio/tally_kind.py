"""The smallest kind of study: people add numbers, may take the last back; the server echoes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from counterplay.core.exports import Event
from counterplay.studio.errors import Refused
from counterplay.studio.kinds import NewEvent


class Tally:
    """State: the numbers that count, with their events, and how often the server spoke."""

    name = "elicitation"
    fold_version = 1

    def read_config(self, raw: dict[str, Any], folder: Path) -> dict[str, Any]:
        return raw

    def begin(self, config: dict[str, Any]) -> dict[str, Any]:
        return {"numbers": [], "echoes": 0, "erased": 0}

    def apply(self, config: dict[str, Any], state: dict[str, Any], event: Event) -> Any:
        if event.body is None:
            state["erased"] += 1
        elif event.kind == "tally.added":
            state["numbers"].append((event.seq, event.body["n"]))
        elif event.kind == "tally.undone":
            state["numbers"].pop()
        elif event.kind == "tally.echo":
            state["echoes"] += 1
        return state

    def check(self, config: dict[str, Any], state: dict[str, Any], event: NewEvent) -> None:
        if event.kind == "tally.undone":
            last = state["numbers"][-1][0] if state["numbers"] else None
            if event.body.get("seq") != last:
                raise Refused("Only the last number can be taken back.", "seq")
        elif event.kind == "tally.added" and not isinstance(event.body.get("n"), int | float):
            raise Refused("This is no number.", "n")

    def follow(self, config: dict[str, Any], state: Any, event: Event) -> Sequence[NewEvent]:
        if event.kind != "tally.added":
            return []
        return [NewEvent("tally.echo", {"of": event.seq}, f"echo:{event.hash[:40]}", "studio")]

    def export(self, config: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        return "elicitation", config


KIND = Tally()


def use() -> None:
    """Let this kind stand for elicitations in this process."""
    from counterplay.studio import kinds

    kinds.MODULES["elicitation"] = __name__


def added(n: float, key: str, actor: str = "somebody") -> NewEvent:
    """A number to add."""
    return NewEvent("tally.added", {"n": n}, key, actor)
