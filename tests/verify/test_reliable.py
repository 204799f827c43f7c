"""Exports of questionnaires with people who slip: recomputed by a search of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from counterplay.core import export_bodies as lines
from counterplay.core.exports import EventChain, read_export, write_export
from counterplay.elicitation import (
    AtMost,
    Catalogue,
    NoisyUser,
    ReliableElicitor,
    Unknown,
    answered_by,
)
from counterplay.elicitation import region as regions
from counterplay.errors import InvalidInputError, InvalidStateError
from counterplay.verify import Verification, verify
from counterplay.verify.reliable import Choice, Region


def session(k: int = 3, seed: int = 0, n: int = 80, flips: float = 0.05, **options: Any) -> Any:
    rng = np.random.default_rng(seed)
    items, w = rng.random((n, k)), rng.dirichlet(np.ones(k))
    elicitor = ReliableElicitor(items, target_regret=0.1, random_state=seed, **options)
    user = NoisyUser(w / np.linalg.norm(w), 0.0, flip_prob=flips, random_state=seed)
    answered_by(elicitor, user)
    return elicitor


def forged(text: str, change: Callable[[list[Any], dict[str, Any]], None]) -> bytes:
    """Change bodies or the configuration and mend all hashes: only the numbers can tell."""
    export = read_export(text.encode())
    events = [[event.kind, dict(event.body or {})] for event in export.events]
    config = dict(export.study.config)
    change(events, config)
    chain = EventChain("person")
    for kind, body in events:
        chain.add(kind, body, actor="person")
    return write_export("forged", "elicitation", config, [chain]).encode()


def told(found: Verification) -> str:
    return "\n".join(str(check) for check in found.checks if check.status == "failed")


@pytest.mark.claim("26.37")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"show": 3},
        {"show": "rank"},
        {"errors": AtMost((0.1, 0.2), jnd=0.01)},
        {"errors": AtMost(0.1, running=True)},
        {"stop": "credible"},
        {"k": 2, "check_every": 2, "flips": 0.3},
    ],
)
def test_an_honest_export_is_proved_again(options: dict[str, Any]) -> None:
    elicitor = session(**options)
    found = verify(elicitor.export().encode())
    assert found.holds, found.summary()
    if elicitor.result.regret_certificate is not None:
        assert "proved on" in found.summary()


@pytest.mark.claim("26.37")
def test_a_certificate_below_the_truth_is_refuted() -> None:
    elicitor = session()
    true = elicitor.result.regret_certificate

    def lower(events: list[Any], config: dict[str, Any]) -> None:
        events[-1][1]["regret_certificate"] = 0.5 * true

    assert "regrets more" in told(verify(forged(elicitor.export(), lower)))

    def another(events: list[Any], config: dict[str, Any]) -> None:
        events[-1][1]["item"] = int(np.argmin(np.sum(config["items"], axis=1)))

    assert "regrets more" in told(verify(forged(elicitor.export(), another)))


def dropped(events: list[Any], config: dict[str, Any]) -> None:
    del events[4:-1]


def kinder(events: list[Any], config: dict[str, Any]) -> None:
    config["rates"] = [0.01]


def empty(events: list[Any], config: dict[str, Any]) -> None:
    """Two clear answers that nobody gives, again and again."""
    shown = [{"id": None, "values": [1, 1, 1]}, {"id": None, "values": [0, 0, 0]}]
    body = {"shown": shown, "forecast": [0.5, 0.5], "order": [1]}
    events[-1:-1] = [["elicit.volunteered", body] for _ in range(9)]


@pytest.mark.claim("26.37")
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (dropped, "there are questions"),
        (kinder, "0.1 is no bound of the configuration"),
        (empty, "no preference is left"),
    ],
)
def test_what_does_not_follow_is_named(change: Any, sentence: str) -> None:
    assert sentence in told(verify(forged(session().export(), change)))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda e, c: e[0][1].update(forecast=[0.9, 0.9]), "forecast"),
        (lambda e, c: e[0][1].update(forecast=[1.0, 0.0]), "forecast"),
        (lambda e, c: e[0][1]["shown"][0].update(values=[9, 9, 9]), "shown"),
        (lambda e, c: e[0][1]["shown"][0].update(values=[1, 1]), "shown"),
        (lambda e, c: e[0][1]["shown"][0].update(id=10**6), "shown"),
        (lambda e, c: e[1][1].update(order=[2]), "order"),
        (lambda e, c: e[1][1].update(order=[0, 1]), "order"),
        (lambda e, c: e[1][1].update(asked=3), "asked"),
        (lambda e, c: e[2][1].update(number=7), "number"),
        (lambda e, c: e[2][1].update(repeat_of=5), "repeat_of"),
        (lambda e, c: e[0][1].update(then=[[0.5, 0.5]]), "then"),
        (lambda e, c: e.insert(1, e[0]), "number"),
        (lambda e, c: c.update(jnd=-1), "jnd"),
        (lambda e, c: c.update(jnd="0"), "jnd"),
        (lambda e, c: c.update(rates=[0.2, 0.1]), "rates"),
        (lambda e, c: c.update(rates=[0.5]), "rates"),
        (lambda e, c: c.update(unknown=[3]), "unknown"),
        (lambda e, c: c.update(confidence=1.0), "confidence"),
        (lambda e, c: c.update(items=[[-1, 0, 1], [0, 0, 0]]), "items"),
        (lambda e, c: c.update(more=1), "more"),
    ],
)
def test_events_that_do_not_fit_are_refused_by_name(change: Any, field: str) -> None:
    with pytest.raises(InvalidStateError, match=field):
        verify(forged(session(n=30).export(), change))


def test_erased_answers_erase_the_certificate() -> None:
    rows = [json.loads(row) for row in session(n=30).export().splitlines()]
    rows[2].update(body=None, salt=None)
    found = verify(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    assert found.holds
    assert "erased" in found.summary()


def test_an_answer_model_cannot_be_exported() -> None:
    elicitor = ReliableElicitor(np.eye(2), errors=Unknown(), random_state=0)
    with pytest.raises(InvalidInputError, match="AtMost"):
        elicitor.export()


def test_items_of_a_catalogue_are_rows_of_its_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.random((60, 3)), columns=["speed", "price", "size"])
    frame.loc[3, "price"] = np.nan
    frame.to_csv(tmp_path / "table.csv", index=False)
    catalogue = Catalogue(
        frame, ["speed"], ["price"], either=["size"], curves={"price": 2}, on_missing="drop"
    )
    elicitor = ReliableElicitor(catalogue, target_regret=0.2, max_questions=6, random_state=0)
    while not elicitor.done:
        values = [option.value for option in elicitor.ask().options]
        elicitor.tell(1 + int(np.argmax([v @ [0.3, 0.2, 0.3, -0.2] for v in values])))
    export = elicitor.export().encode()
    found = verify(export, table=tmp_path / "table.csv")
    assert found.holds, found.summary()
    assert "59 items are rows of it" in found.summary()
    frame.assign(price=frame.price + frame.speed).to_csv(tmp_path / "other.csv", index=False)
    assert "not the rows" in told(verify(export, table=tmp_path / "other.csv"))


@pytest.mark.claim("26.37")
@pytest.mark.parametrize("jnd", [0.0, 0.03])
@pytest.mark.parametrize("running", [False, True])
def test_both_searches_agree_on_random_answers(jnd: float, running: bool) -> None:
    """The two implementations share nothing but the theorem."""
    rng = np.random.default_rng(int(1000 * jnd) + running)
    for _ in range(6):
        items = rng.random((12, 3))
        mine = regions.Region(3, 0.1, jnd, 0.05, running)
        choices = []
        for _ in range(8):
            m = int(rng.integers(2, 5))
            options, chosen = items[rng.permutation(12)[:m]], int(rng.integers(m))
            p = float(rng.uniform(0.05, 0.95))
            mine.add(options, chosen, p)
            choices.append(Choice(options, chosen, p))
        config = lines.ReliableConfig(
            promise="reliable", items=tuple(map(tuple, items.tolist())), unknown=(), target=0.1,
            confidence=0.95, rates=(0.1,), jnd=jnd, running=running,
        )  # fmt: skip
        other = Region(choices, config, 0.1, 0.05)
        weights = rng.dirichlet(np.ones(3), size=500)
        np.testing.assert_allclose(mine.evidence(weights), other.evidence(weights), atol=1e-9)
        start = regions.start_cells(3, np.zeros(0, dtype=np.int64))
        for regret in (0.05, 0.2, 0.4):
            found = mine.search(start, items, 0, regret, regions.RATIO, 40_000).status
            theirs = other.search(items, 0, regret)[0]
            names = {regions.CERTIFIED: "proved", regions.REFUTED: "refuted"}
            assert names.get(found, theirs) == theirs
