"""Hostile saved states: mutations of valid ones of every class that reads one.

A mutated state may be refused with one sentence, or accepted if it still is a state. What is
accepted is used, and its guarantee is recomputed from its own history: a difference is a forgery.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from . import state_subjects
from .tally import Tried, in_child, judged

DEEP = 100_000
LONG = 100 * 2**20
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 10**6, 2**31, 2**63, 10**18, 0.5, 1.5, -1e308, 1e-320, "",
    "false", "first", "\u0000", "ü", [], {}, [0], [[]], [None], {"a": 1}, {"__object__": "Hedge"},
)  # fmt: skip
_MARK = "\u2600mark\u2600"  # replaced in the text by something that no JSON writer would write


@dataclass(frozen=True)
class Subject:
    """A class with a saved state: a valid text, how it is read, and how it is put to use."""

    name: str
    text: str
    read: Callable[[str | bytes], Any]
    use: Callable[[Any], None]
    """Goes on with the state; raises ForgedError if a guarantee does not follow from history."""
    others: tuple[str, ...] = ()
    """Valid states of other problems or classes, which must be refused."""


def run(n: int = 5000, seed: int = 0, only: str = "") -> list[Tried]:
    """Try about ``n`` hostile states, shared out over all classes."""
    subjects = [subject for subject in all_subjects() if only in subject.name]
    each = -(-n // len(subjects))
    rows: list[Tried] = []
    for subject in subjects:
        rows += in_child(subject.name, each, _trial(subject, seed))
    return rows


@cache
def all_subjects() -> tuple[Subject, ...]:
    """Every class with a saved state, after some use."""
    return tuple(Subject(*parts) for parts in state_subjects.build())


def _trial(subject: Subject, seed: int) -> Callable[[int], Tried]:
    def one(number: int) -> Tried:
        rng = random.Random(f"{seed}/{subject.name}/{number}")
        what, text = mutated(subject, rng, number)
        return judged(subject.name, what, lambda: subject.read(text), subject.use)

    return one


def mutated(subject: Subject, rng: random.Random, number: int) -> tuple[str, str | bytes]:
    """One hostile text and what was done to it."""
    if number < len(subject.others):
        return f"other {number}", subject.others[number]
    kind = rng.choices(("tree", "text", "huge"), (75, 23, 2))[0]
    if kind == "text":
        return _broken_text(subject.text, rng)
    tree = json.loads(subject.text)
    places = list(_places(tree))
    if kind == "huge":
        where = _put(tree, rng.choice(places), _MARK)
        what, huge = rng.choice(_HUGE)
        return f"{what} at {where}", json.dumps(tree).replace(json.dumps(_MARK), huge())
    done = [_mutate(tree, rng.choice(places), places, rng)]
    if rng.random() < 0.15:
        done.append(_mutate(tree, rng.choice(places), places, rng))
    return "; ".join(done), json.dumps(tree)


_HUGE: tuple[tuple[str, Callable[[], str]], ...] = (
    ("deep list", lambda: "[" * DEEP + "]" * DEEP),
    ("deep object", lambda: '{"a":' * DEEP + "1" + "}" * DEEP),
    ("unclosed", lambda: "[" * DEEP),
    ("100 MB text", lambda: '"' + "x" * LONG + '"'),
    ("5,000 digits", lambda: "9" * 5000),
    ("-5,000 digits", lambda: "-" + "9" * 5000),
    ("5,000 decimals", lambda: "0." + "9" * 5000),
    ("1e999", lambda: "1e999"),
    ("NaN", lambda: "NaN"),
    ("Infinity", lambda: "-Infinity"),
    ("a million zeros", lambda: "[" + ",".join("0" * 1_000_000) + "]"),
    ("same key", lambda: '{"a": 1, "a": 2}'),
    ("half a pair", lambda: '"\\ud800"'),
)


def _broken_text(text: str, rng: random.Random) -> tuple[str, str | bytes]:
    at = rng.randrange(len(text))
    match rng.randrange(8):
        case 0:
            return f"cut at {at}", text[:at]
        case 1:
            return f"letter {at}", text[:at] + chr(rng.randrange(32, 127)) + text[at + 1 :]
        case 2:
            data = bytearray(text.encode())
            data[at % len(data)] ^= 1 << rng.randrange(8)
            return f"bit {at}", bytes(data)
        case 3:
            return "twice", text + text
        case 4:
            return "first key again", "{" + text[1:].split(",", 1)[0] + "," + text[1:]
        case 5:
            return "byte order mark", "\ufeff" + text
        case 6:
            end = min(len(text), at + rng.randrange(1, 60))
            return f"without {at}:{end}", text[:at] + text[end:]
    return "something else", rng.choice(
        ["", "null", "[]", "{}", "0", '"x"', "\x00", "\ud800", "[" * 9]
    )


_Place = tuple[Any, Any]


def _places(tree: Any) -> Iterator[_Place]:
    """Every (container, key) of a JSON tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in list(items):
        yield tree, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _put(tree: Any, place: _Place, value: Any) -> str:
    container, key = place
    container[key] = value
    return repr(key)[:40]


def _mutate(tree: Any, place: _Place, places: list[_Place], rng: random.Random) -> str:
    """Change one place; places of a subtree that was cut off before are changed in vain."""
    container, key = place
    if isinstance(container, list) and key >= len(container):
        return "nothing"
    if isinstance(container, dict) and key not in container:
        return "nothing"
    value, where = container[key], repr(key)[:40]
    match rng.randrange(7):
        case 0:
            del container[key]
            return f"without {where}"
        case 1 if isinstance(container, dict):
            container[rng.choice(["extra", "_live", "certificate", "__class__"])] = rng.choice(
                _VALUES
            )
            return "an extra key"
        case 1:
            container.insert(key, copy.deepcopy(value))
            return f"{where} twice"
        case 2:
            other, its_key = rng.choice(places)
            fits = its_key in other if isinstance(other, dict) else its_key < len(other)
            if fits:
                container[key] = copy.deepcopy(other[its_key])
            return f"{where} is that of {its_key!r}"
        case 3 if isinstance(value, list) and len(value) > 1:
            rng.shuffle(value)
            return f"{where} shuffled"
        case 3 | 4 if isinstance(value, int | float) and not isinstance(value, bool):
            container[key] = rng.choice(
                [value + 1, value - 1, -value, value * 1000, value + 1e-9, value * 0.999, value / 2]
            )
            return f"{where} = {container[key]!r:.30}"
        case 4 if isinstance(value, str) and value:
            at = rng.randrange(len(value))
            container[key] = value[:at] + rng.choice("019afxX ") + value[at + 1 :]
            return f"{where} = {container[key]!r:.30}"
    container[key] = copy.deepcopy(rng.choice(_VALUES))
    return f"{where} = {container[key]!r:.30}"
