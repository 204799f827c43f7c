"""What every page needs: the store, the server's key, the templates, the limits."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from counterplay.studio.settings import Settings
from counterplay.studio.web.limits import Buckets

if TYPE_CHECKING:
    import jinja2
    from starlette.requests import Request

    from counterplay.studio.store import Store


@dataclass
class House:
    """One per application."""

    settings: Settings
    store: Store
    server_key: bytes
    writes: Buckets = field(init=False)
    logins: Buckets = field(init=False)
    links: Buckets = field(init=False)

    def __post_init__(self) -> None:
        settings = self.settings
        self.writes = Buckets(settings.writes_per_minute, settings.write_burst)
        self.logins = Buckets(settings.logins_per_minute, settings.logins_per_minute)
        self.links = Buckets(30, 30)  # wrong links per address
        self.so_far: OrderedDict[str, Any] = OrderedDict()  # by the hash of the last event
        self._guests: OrderedDict[tuple[int, str], list[str]] = OrderedDict()

    def came(self, study: int, address: str, label: str) -> None:
        """Remember, until the server ends, from where somebody used an open link."""
        guests = self._guests.setdefault((study, address), [])
        if label not in guests and len(guests) < 20:
            guests.append(label)
        while len(self._guests) > 20_000:
            self._guests.popitem(last=False)

    def twins(self, study: int) -> list[str]:
        """Return who used an open link from the address of another: one line per address."""
        groups = [names for (room, _), names in self._guests.items() if room == study]
        return [", ".join(names) for names in groups if len(names) > 1]

    @cached_property
    def templates(self) -> jinja2.Environment:
        """The compiled templates; every value is escaped."""
        from counterplay.studio.web.pages import environment

        return environment()


def house_of(request: Request) -> House:
    """Return the house of a request."""
    state: Any = request.scope["app"].state
    found = getattr(state, "house", None) or state.open_house()
    assert isinstance(found, House)
    return found
