"""What a kind of study must say: its configuration, its rules, and how its events fold.

The store knows streams, numbers and hashes; a kind knows what the events mean. ``apply`` is pure
and deterministic and reads only what events hold: replay never calls a question rule, so that a
better rule cannot change history. Only ``follow`` chooses, once, in the transaction of the event
that it follows.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec

from counterplay.core.exports import Event
from counterplay.core.records import to_record
from counterplay.errors import InvalidInputError, InvalidStateError, UnknownNameError

NAMES = ("elicitation", "campaign", "guard", "audit")
MODULES = {name: f"{__name__}.{name}" for name in NAMES}
"""Where each kind lives; imported when it is first used."""
FileName = Annotated[str, msgspec.Meta(max_length=255)]


@dataclass(frozen=True)
class NewEvent:
    """An event that somebody wants to append; ``key`` makes a retry harmless."""

    kind: str
    body: dict[str, Any]
    key: str
    actor: str


class Kind(Protocol):
    """A kind of study; implementations are instances called ``KIND`` of their modules.

    A kind whose streams are shared by several parties may also have
    ``erases(config, events, party) -> Iterable[int]``: the numbers of the events whose content
    goes when a party withdraws (by default those whose actor is the party).
    """

    name: str
    fold_version: int

    def read_config(self, raw: dict[str, Any], folder: Path) -> dict[str, Any]:
        """Turn the fields of a TOML file or of the wizard into a frozen configuration."""

    def begin(self, config: dict[str, Any]) -> Any:
        """Return the state of an empty stream."""

    def apply(self, config: dict[str, Any], state: Any, event: Event) -> Any:
        """Return the state after an event; an erased event has no body."""

    def check(self, config: dict[str, Any], state: Any, event: NewEvent) -> None:
        """Raise :class:`~counterplay.studio.errors.Refused` if the event is not legal now."""

    def follow(self, config: dict[str, Any], state: Any, event: Event) -> Sequence[NewEvent]:
        """Return what the server itself appends after an event, in the same transaction."""

    def export(self, config: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the kind and the configuration that an export states in line 1."""


def typed(raw: Mapping[str, Any], fields: type[msgspec.Struct], what: str) -> dict[str, Any]:
    """Return the fields of a TOML file that say something; each must be of its kind.

    Raises
    ------
    InvalidInputError
        There is no such field, or it holds a text where a number belongs, and the like.
    """
    from counterplay.tables.cells import listed

    names = sorted(field.name for field in msgspec.structs.fields(fields))
    odd = sorted(set(map(str, raw)) - set(names))
    if odd:
        raise InvalidInputError(f"{what} has no field {odd[0]!r}; fields are {listed(names)}")
    given = {name: value for name, value in raw.items() if value is not None and value != ""}
    try:
        to_record(given, fields, what=what)
    except InvalidStateError as error:
        raise InvalidInputError(str(error)) from None
    return given


def kind_of(name: str) -> Kind:
    """Return the kind with this name; its module is imported now."""
    if name not in NAMES:
        raise UnknownNameError.among("kind of study", name, NAMES)
    kind: Kind = importlib.import_module(MODULES[name]).KIND
    return kind
