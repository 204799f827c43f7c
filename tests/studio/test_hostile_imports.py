"""Exports of strangers: refused with a sentence, or accepted, equal and shown; never a crash."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest

from counterplay.core.exports import START, body_hash, config_hash, event_hash
from counterplay.core.records import canonical
from counterplay.errors import CounterplayError
from counterplay.studio.exports import export_lines, import_study
from studio.web_house import Web

HOSTILE: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**63, 1e308, -1e-9, 0.5, "", "x" * 300, "<script>", [], {}, [[]], [1, 2],
    {"a": 1}, "2000-01-01",
)  # fmt: skip
TRIES = 120


def lines_of(web: Web) -> list[dict[str, Any]]:
    """A true export of one person, parsed."""
    person = web.person()
    person.finish()
    study = web.store.study(person.study.public_id)
    return [json.loads(line) for line in export_lines(web.store, study)]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a nested value."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key in value:
            found += places(value[key], (*path, key))
    elif isinstance(value, list):
        for i in range(min(len(value), 3)):
            found += places(value[i], (*path, i))
    return found


def spoil(value: Any, rng: np.random.Generator) -> None:
    """Replace, drop or double something somewhere inside."""
    path = places(value)
    *way, last = path[int(rng.integers(len(path)))]
    for step in way:
        value = value[step]
    if rng.random() < 0.2:
        del value[last]
    else:
        value[last] = HOSTILE[int(rng.integers(len(HOSTILE)))]


def sealed(lines: list[dict[str, Any]], name: str) -> bytes:
    """The lines with every hash made anew: nothing but their content can give them away."""
    study, events = lines[0], lines[1:]
    study["study"], was = name, study["study"]
    study["config_hash"] = config_hash(study["config"])
    heads: dict[str, dict[str, Any]] = {}
    for number, event in enumerate(events):
        event["stream"] = name if event["stream"] == was else f"{name}-{event['stream']}"[:60]
        before = heads.get(event["stream"], {"hash": START, "seq": 0})
        event["body_hash"] = body_hash(event["salt"], event["body"])
        event["seq"] = before["seq"] + 1
        event["key"] = f"k{number}"
        event["hash"] = event_hash(
            before["hash"], event["stream"], event["seq"], event["kind"], event["body_hash"]
        )
        heads[event["stream"]] = {k: event[k] for k in ("stream", "seq", "hash")}
    study["heads"] = list(heads.values())
    return b"".join(canonical(line) + b"\n" for line in lines)


@pytest.mark.claim("28.23")
@pytest.mark.parametrize("seed", range(2))
def test_forged_contents_are_refused_or_accepted_and_equal(web: Web, seed: int) -> None:
    """Fields dropped, of another type, huge or negative, under true hashes."""
    rng = np.random.default_rng(seed)
    true, admin = lines_of(web), web.admin()
    accepted, sentences = 0, []
    for number in range(TRIES):
        lines = copy.deepcopy(true)
        line = lines[int(rng.integers(len(lines)))]
        target = line["config"] if "config" in line else line["body"]
        try:
            spoil(target, rng)
            data = sealed(lines, f"forged-{seed}-{number:04d}")
        except (CounterplayError, KeyError, IndexError, ValueError):
            continue  # nothing to spoil, or nothing that JSON could say
        try:
            study = import_study(web.store, data, actor="admin")
        except CounterplayError as error:
            sentences.append(str(error))
            continue
        accepted += 1
        assert (
            "".join(export_lines(web.store, study)).splitlines()[1:]
            == data.decode().splitlines()[1:]
        )
        assert admin.get(f"/admin/studies/{study.public_id}").status_code == 200
    assert len(sentences) > TRIES // 2
    assert all(0 < len(told) < 1_000 for told in sentences)
    assert accepted > 0
