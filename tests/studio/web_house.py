"""A studio to test against: one store, one server in a thread, people who answer by HTTP."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import uvicorn

from counterplay.studio.app import create_app
from counterplay.studio.kinds import kind_of
from counterplay.studio.settings import Settings
from counterplay.studio.store import Store
from counterplay.studio.store.base import PartyRow, StudyRow

COLUMNS = ("comfort", "price")
FORM = re.compile(r'<form[^>]* action="([^"]+)"')
HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"')
ITEMS = re.compile(r'data-item="(\d+)"')
PAGE = re.compile(r'data-page="([^"]+)"')


def catalogue(n: int = 12, columns: tuple[str, ...] = COLUMNS, seed: int = 3) -> bytes:
    """A CSV file of things to choose from, none better than another in everything."""
    rng = np.random.default_rng(seed)
    angles = np.sort(rng.uniform(0.05, 1.52, size=(n, len(columns) - 1)), axis=0)
    rows = []
    for i, angle in enumerate(angles):
        parts, rest = [], 1.0
        for a in angle:
            parts.append(rest * np.cos(a))
            rest *= np.sin(a)
        numbers = [*parts, rest]
        numbers[1] = 1.0 - numbers[1]  # a cost
        rows.append(f"thing {i}," + ",".join(f"{1000 * x:.0f}" for x in numbers))
    return ("name," + ",".join(columns) + "\n" + "\n".join(rows) + "\n").encode()


def fields(columns: tuple[str, ...] = COLUMNS, **more: Any) -> dict[str, Any]:
    """What a study's file says about the catalogue."""
    benefits = [column for column in columns if column != "price"]
    return {
        "kind": "elicitation", "name": "Things", "table": "things.csv", "name_column": "name",
        "benefits": benefits, "costs": ["price"], "target_regret": 0.05, "seed": 7, **more,
    }  # fmt: skip


class Web:
    """A running studio; every request counts as one of a person."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        generous = {
            "requests_per_minute": 1e9, "writes_per_minute": 1e9, "write_burst": 1e9,
            "logins_per_minute": 1e9,
        }  # fmt: skip
        self.settings = Settings(data=folder / "data", port=0, **{**generous, **settings})
        self.store = Store.open(self.settings, server=True)
        self.app = create_app(self.settings, store=self.store)
        self._server = uvicorn.Server(
            uvicorn.Config(
                self.app,
                port=0,
                access_log=False,
                log_level="warning",
                proxy_headers=False,
                server_header=False,
            )
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                raise RuntimeError("the server did not start")
            self._thread.join(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.config = kind_of("elicitation").read_config(
            {**fields(), "table_bytes": catalogue()}, folder
        )

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._server.serve())

    def close(self) -> None:
        """Stop the server and close the store."""
        self._server.should_exit = True
        self._thread.join(20)
        self.store.close()

    def study(self, config: dict[str, Any] | None = None, **more: Any) -> StudyRow:
        """Open a new study."""
        config = config or self.config
        name = more.pop("name", "Things")
        open_now = more.pop("open_now", True)
        return self.store.new_study("elicitation", name, config, actor="admin", open_now=open_now)

    def link(self, study: StudyRow, label: str = "ann") -> tuple[PartyRow, str]:
        """Add a participant; return the party and the token of her link."""
        party = self.store.new_party(study, role="participant", label=label)
        return party, self.store.new_link(party)

    def client(self, **more: Any) -> httpx.Client:
        """A browser without a screen."""
        plain = {"verify": False, "trust_env": False}  # reads no certificates: there is no TLS here
        chosen = {"follow_redirects": True, "timeout": 30, **plain, **more}
        return httpx.Client(base_url=self.url, **chosen)

    def person(self, study: StudyRow | None = None, label: str = "ann") -> Person:
        """Somebody who opened her link and pressed the button."""
        study = study or self.study()
        party, token = self.link(study, label)
        person = Person(self.client(), study, party, token)
        person.start()
        return person

    def admin(self, role: str = "owner", study: StudyRow | None = None) -> httpx.Client:
        """A browser of somebody who is logged in."""
        name = f"{role} {len(self.store.admins())}"
        row = self.store.new_admin(name, password=None, role=role, study=study)
        client = self.client()
        client.cookies.set("cp_admin", self.store.new_session(admin=row), path="/")
        return client


class Person:
    """A participant: what her browser holds and what the last page said."""

    def __init__(self, client: httpx.Client, study: StudyRow, party: PartyRow, token: str) -> None:
        self.client, self.study, self.party, self.token = client, study, party, token
        self.page = httpx.Response(200)

    @property
    def home(self) -> str:
        """The address of her study."""
        return f"/p/{self.study.public_id}"

    @property
    def name(self) -> str:
        """Which page it is."""
        found = PAGE.search(self.page.text)
        return found[1] if found else ""

    @property
    def hidden(self) -> dict[str, str]:
        """The hidden fields of the form."""
        return dict(HIDDEN.findall(self.page.text))

    @property
    def items(self) -> list[int]:
        """The rows of the file that are shown."""
        return [int(i) for i in ITEMS.findall(self.page.text)]

    def start(self) -> None:
        """Open the link and press the button."""
        self.page = self.client.get(f"/j/{self.token}")
        form = FORM.search(self.page.text)
        assert form is not None
        self.page = self.client.post(form[1], data={**self.hidden, "consent": "yes"})

    def look(self) -> None:
        """Load the page again."""
        self.page = self.client.get(self.home)

    def send(self, path: str, **fields: str) -> httpx.Response:
        """Send the form of the page."""
        self.page = self.client.post(f"{self.home}/{path}", data={**self.hidden, **fields})
        return self.page

    def answer(self, said: str = "first") -> httpx.Response:
        """Answer the open question."""
        return self.send("answer", answer=said)

    def finish(self, taste: tuple[float, ...] = (0.7, 0.3), most: int = 80) -> int:
        """Answer until the result by a taste over the shown values; return how many."""
        for count in range(most):
            if self.name != "question":
                return count
            self.answer("first" if self.items[0] < self.items[1] else "second")
        raise AssertionError("there was no end")
