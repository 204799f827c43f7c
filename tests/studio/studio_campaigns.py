"""A small campaign of four clinics, and people who label it by HTTP."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pandas as pd

from counterplay.studio.kinds.campaign import KIND
from studio.kind_driver import Stream

if TYPE_CHECKING:
    from counterplay.studio.store.base import StudyRow
    from studio.web_house import Web

PARTIES = ("clinic 0", "clinic 1", "clinic 2", "clinic 3")
CLASSES = ["benign", "malignant"]
CARD = re.compile(r'<form method="post" action="(/l/[^"]+/answer)".*?</form>', re.S)
HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"')
ITEM = re.compile(r'data-item="(\d+)"')


def pool(n: int = 160, seed: int = 0, parties: int = 4) -> tuple[pd.DataFrame, np.ndarray]:
    """Cases with two measures, and their true labels."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "case": [f"c{i}" for i in range(n)],
            "size": rng.normal(size=n).round(3),
            "shape": rng.normal(size=n).round(3),
            "site": [f"clinic {i % parties}" for i in range(n)],
        }
    )
    return frame, (frame["size"] + 0.3 * frame["shape"] > 0).to_numpy().astype(int)


def campaign_config(folder: Path, n: int = 132, **more: Any) -> tuple[dict[str, Any], np.ndarray]:
    """The configuration of a campaign over such cases, and their true labels."""
    frame, truth = pool(n, parties=more.pop("parties", 4))
    frame.to_csv(folder / "cases.csv", index=False)
    raw = {
        "kind": "campaign", "name": "Scans", "table": "cases.csv", "owner": "site", "id": "case",
        "classes": CLASSES, "scope": "union", "max_error": 0.1, "seed": 5, **more,
    }  # fmt: skip
    return KIND.read_config(raw, folder), truth


def label_all(stream: Stream, truth: np.ndarray, most: int = 10_000, *, skip: str = "") -> int:
    """Let everybody answer rightly until nothing is open; return how many answers."""
    count = 0
    while count < most:
        asked = [q for p in stream.config["parties"] if p != skip for q in stream.state.waiting(p)]
        if not asked:
            break
        for q in asked[: most - count]:
            if stream.state.state.is_open(*stream.state.campaign._where(q)):
                body = {"id": q.id, "label": int(truth[q.item]), "party": q.party}
                stream.add("label.tell", body, actor=q.party)
                count += 1
    return count


class Labeller:
    """A clinic in its browser."""

    def __init__(self, web: Web, study: StudyRow, name: str) -> None:
        self.web, self.study, self.name = web, study, name
        self.party = web.store.new_party(study, role="labeller", label=name)
        self.client = web.client()
        token = web.store.new_link(self.party)
        page = self.client.get(f"/j/{token}")
        form = re.search(r'<form[^>]* action="([^"]+)"', page.text)
        assert form is not None
        hidden = dict(HIDDEN.findall(page.text))
        self.page = self.client.post(form[1], data={**hidden, "consent": "yes"})

    @property
    def home(self) -> str:
        """Where the queue is."""
        return f"/l/{self.study.public_id}"

    def look(self) -> httpx.Response:
        """Load the queue."""
        self.page = self.client.get(self.home)
        return self.page

    @property
    def cards(self) -> list[tuple[int, dict[str, str]]]:
        """Item and hidden fields of every card."""
        return [
            (int(ITEM.search(card[0])[1]), dict(HIDDEN.findall(card[0])))  # type: ignore[index]
            for card in CARD.finditer(self.page.text)
        ]

    def answer(self, fields: dict[str, str], label: int | str) -> httpx.Response:
        """Press a label of a card."""
        self.page = self.client.post(f"{self.home}/answer", data={**fields, "label": str(label)})
        return self.page
