"""Words of the pages by language, and how numbers and dates are written in it.

One TOML file per language; English is complete by definition, every other language is compared
with it by a test. Nothing a person reads is written anywhere else.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any

from markupsafe import Markup

from counterplay.studio.web.sentences import Found, Sentences

LANGUAGES = ("en", "de")
_GROUPED = re.compile(r"[0-9]{1,3}(,[0-9]{3})+")
_MARKS = {"en": (",", "."), "de": ("\N{NO-BREAK SPACE}", ",")}


class Language:
    """The texts of one language; called with a key and what is to be filled in.

    Examples
    --------
    >>> language("en").number(22000.5, 1)
    '22,000.5'
    >>> language("de").number(0.5, 2)
    '0,50'
    """

    def __init__(self, code: str, texts: Mapping[str, str]) -> None:
        self.code = code
        self.texts = texts
        self._group, self._point = _MARKS[code]
        self._own = frozenset(texts.values())

    def __call__(self, key: str, **values: Any) -> str:
        """Return a text; ``n`` chooses between its forms for one and for several."""
        text = self.texts.get(key)
        if text is None and "n" in values:
            form = "one" if values["n"] in (1, "1") else "other"
            text = self.texts[f"{key}.{form}"]
        if text is None:
            raise KeyError(f"no text {key!r} in {self.code}")
        if any(isinstance(value, Markup) for value in values.values()):
            text = Markup(text)  # our own words; what is filled in is escaped
        return text.format(**values) if values else text

    def has(self, key: str) -> bool:
        """Whether there is a text of this name."""
        return key in self.texts

    def said(self, sentence: str) -> str:
        """Return a sentence of the library in this language; one that is not known stays English.

        Examples
        --------
        >>> language("de").said("Line 3 has 2 fields, the header has 4.")
        'Zeile 3 hat 2 Felder, die Kopfzeile hat 4.'
        """
        if sentence in self._own:
            return sentence
        found = recognised(sentence)
        if self.code == "en":
            named = found is not None and self.texts[found.key].startswith("{")  # v7, t.csv
            return sentence if named else sentence[:1].upper() + sentence[1:]
        if found is None:
            return Markup(self.texts["error.said"]).format(
                sentence=Markup('<span lang="en">{}</span>').format(sentence)
            )
        values = {name: self._value(name, text) for name, text in found.values.items()}
        return self.texts[found.key].format(**values)

    def _value(self, name: str, text: str) -> str:
        if name == "problem":
            return str(self.said(text))
        if name == "problems":
            return "; ".join(str(self.said(one)).removesuffix(".") for one in text.split("; "))
        if text == "the file":
            return self.texts["error.the_file"]
        if _GROUPED.fullmatch(text):
            return self.number(int(text.replace(",", "")))
        return text

    def number(self, value: float, digits: int = 0) -> str:
        """Return a number with this many decimal places, grouped as people write it here."""
        told = f"{value:,.{digits}f}"
        if told.startswith("-") and not any(c in "123456789" for c in told):
            told = told[1:]
        if self.code == "en":
            return told
        marks = {",": self._group, ".": self._point}
        return "".join(marks.get(letter, letter) for letter in told)

    def short(self, value: float) -> str:
        """Return a number with no more decimal places than it needs.

        Examples
        --------
        >>> language("de").short(0.05), language("en").short(20.0)
        ('0,05', '20')
        """
        return self.number(value, len(f"{value:.6f}".rstrip("0").partition(".")[2]))

    def above(self, value: float, digits: int) -> str:
        """Return a bound, rounded up so that it never promises too much.

        Examples
        --------
        >>> language("en").above(37.32, 1), language("en").above(20.0, 1)
        ('37.4', '20.0')
        """
        step = 10**digits
        return self.number(-(-round(value * step, 6) // 1) / step, digits)

    def percent(self, share: float) -> str:
        """Return a share in per cent, rounded up so that a bound never promises too much.

        Examples
        --------
        >>> language("en").percent(0.0171)
        '1.8\\xa0%'
        """
        hundred = round(100 * share, 9)
        digits = 0 if hundred >= 10 or hundred == round(hundred) else 1
        up = math.ceil(round(hundred * 10**digits, 9)) / 10**digits
        return f"{self.number(up, digits)}\N{NO-BREAK SPACE}%"

    def stated(self, share: float) -> str:
        """Return a confidence, or what a promise allows for, in per cent: never more than it is.

        Examples
        --------
        >>> language("en").stated(0.975), language("en").stated(0.99999)
        ('97.5\\xa0%', '99.99\\xa0%')
        """
        hundred = round(100 * share, 9)
        digits = next((n for n in (0, 1) if hundred == round(hundred, n)), 2)
        down = math.floor(round(hundred * 10**digits, 9)) / 10**digits
        return f"{self.number(down, digits)}\N{NO-BREAK SPACE}%"

    def date(self, at: str | datetime) -> str:
        """Return a day in words, such as 3 May 2026."""
        moment = datetime.fromisoformat(at) if isinstance(at, str) else at
        month = self.texts[f"month.{moment.month}"]
        return self.texts["date.day"].format(day=moment.day, month=month, year=moment.year)

    def moment(self, at: str | datetime, live: str = "") -> Markup:
        """Return a day with its time, UTC; the page's script says it in the reader's own zone.

        With a name in ``live`` it follows the live numbers of the page; it may be empty at first.
        """
        if live:
            shown = self.moment(at).striptags() if at else ""
            return Markup('<time data-live="{}" datetime="{}">{}</time>').format(live, at, shown)
        when = datetime.fromisoformat(at) if isinstance(at, str) else at
        told = f"{self.date(when)}, {when:%H:%M} UTC"
        return Markup('<time datetime="{}">{}</time>').format(when.isoformat(), told)


@cache
def language(code: str) -> Language:
    """Return a language; unknown ones are English."""
    known = code if code in LANGUAGES else "en"
    folder = resources.files("counterplay.studio").joinpath("texts")
    texts: dict[str, str] = {}
    for name in (f"{known}.toml", f"said.{known}.toml"):
        texts |= _flat(tomllib.loads(folder.joinpath(name).read_text("utf-8")))
    return Language(known, texts)


def recognised(sentence: str) -> Found | None:
    """Return which sentence of the catalogue this is, and its values."""
    return _english().find(sentence)


@cache
def _english() -> Sentences:
    return Sentences(language("en").texts)


def wanted(accept: str) -> str:
    """Return the first language of an Accept-Language header that there is.

    Examples
    --------
    >>> wanted("fr;q=0.9, de-AT, en;q=0.5"), wanted("ja")
    ('de', 'en')
    """
    found: list[tuple[float, int, str]] = []
    for place, part in enumerate(accept[:500].split(",")):
        name, _, quality = part.partition(";q=")
        try:
            weight = float(quality) if quality else 1.0
        except ValueError:
            weight = 0.0
        code = name.strip().lower()[:2]
        if code in LANGUAGES and weight > 0:
            found.append((-weight, place, code))
    return min(found)[2] if found else "en"


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in tree.items():
        key = f"{prefix}{name}"
        flat |= _flat(value, f"{key}.") if isinstance(value, Mapping) else {key: str(value)}
    return flat
