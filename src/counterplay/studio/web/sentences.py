"""Sentences of the library in the reader's language.

The library says in English what is wrong with a file or an answer. The catalogue holds each such
sentence with places to fill in; a sentence is recognised by what stands between the places, and
said again in another language with the same values. A value called ``problem`` is a sentence
itself, ``problems`` are several with semicolons between.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import NamedTuple

PREFIX = "said."
LONGEST = 4_000


class Found(NamedTuple):
    """A sentence that is in the catalogue: its key and its values."""

    key: str
    values: dict[str, str]


class Sentences:
    """The sentences of the English catalogue.

    Those that begin with words of their own go first, then those with the most of them.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        made = [(key, _parts(text)) for key, text in texts.items() if key.startswith(PREFIX)]
        made.sort(key=lambda one: (not one[1][0][0], -sum(len(own) for own, _ in one[1])))
        self._known = made

    def find(self, sentence: str) -> Found | None:
        """Return the key and the values of a sentence, None if it is not in the catalogue.

        Examples
        --------
        >>> known = Sentences({"said.twice": "item {name} is there twice"})
        >>> known.find("Item 'a' is there twice").values
        {'name': "'a'"}
        """
        if len(sentence) > LONGEST:
            return None
        for key, parts in self._known:
            values = _fit(parts, sentence)
            if values is not None:
                return Found(key, values)
        return None


def _parts(text: str) -> list[tuple[str, str | None]]:
    return [(literal, name) for literal, name, _, _ in string.Formatter().parse(text)]


def _fit(parts: list[tuple[str, str | None]], sentence: str) -> dict[str, str] | None:
    """Match piece by piece from the left; linear, whatever people wrote into their files."""
    values: dict[str, str] = {}
    place, waiting = 0, None
    for number, (literal, name) in enumerate(parts):
        last = number == len(parts) - 1 and name is None
        if number == 0:
            head = sentence[: len(literal)]
            if head[:1].lower() + head[1:] != literal[:1].lower() + literal[1:]:
                return None
            place = len(literal)
        else:
            end = len(sentence) - len(literal) if last else sentence.find(literal, place)
            if end < place or not sentence.startswith(literal, end):
                return None
            assert waiting is not None
            values[waiting] = sentence[place:end]
            place = end + len(literal)
        waiting = name
    if waiting is not None:
        values[waiting] = sentence[place:]
        place = len(sentence)
    return values if place == len(sentence) and all(values.values()) else None
