"""Words of the pages: all in the catalogue, the same in every language, numbers as people write."""

from __future__ import annotations

import re
import string
from importlib import resources

import numpy as np
import pytest

from counterplay.studio.web.people import sums
from counterplay.studio.web.texts import LANGUAGES, language, wanted
from studio.web_house import Web

TEMPLATES = resources.files("counterplay.studio").joinpath("templates")
WORDS = re.compile(r"[A-Za-zÄÖÜäöüß]{2,}")
SAID = re.compile(r"""\bt\(\s*['"]([a-z_0-9.]+)['"]\s*([~,)])""")


def places(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.claim("28.22")
@pytest.mark.parametrize("code", [code for code in LANGUAGES if code != "en"])
def test_every_language_is_complete(code: str) -> None:
    english, other = language("en").texts, language(code).texts
    assert sorted(english) == sorted(other)
    for key, text in english.items():
        assert places(text) == places(other[key]), key
        assert other[key].strip(), key


@pytest.mark.claim("28.22")
@pytest.mark.parametrize("file", sorted(f.name for f in TEMPLATES.iterdir()))
def test_templates_hold_no_words(file: str) -> None:
    text = TEMPLATES.joinpath(file).read_text("utf-8")
    named = re.sub(r"\{% block (?:name|width) %\}[a-z-]*\{% endblock %\}", " ", text)
    bare = re.sub(r"\{[{%#].*?[#%}]\}", " ", named, flags=re.DOTALL)
    told = re.findall(r'(?:aria-label|title|alt|placeholder)="([^"]*)"', bare)
    seen = re.sub(r"<code>[^<]*</code>|<[^>]*>", " ", bare)  # commands are the same everywhere
    assert WORDS.findall(" ".join([seen, *told])) == []


@pytest.mark.claim("28.22")
@pytest.mark.parametrize("file", sorted(f.name for f in TEMPLATES.iterdir()))
def test_templates_say_what_the_catalogue_has(file: str) -> None:
    known = language("en").texts
    for key, after in SAID.findall(TEMPLATES.joinpath(file).read_text("utf-8")):
        forms = (key, f"{key}.one") if after != "~" else ()
        if after == "~":
            assert any(name.startswith(key) for name in known), key
        else:
            assert any(form in known for form in forms), key


COUNTED = {
    "en": re.compile(r"\{(\w+)\} (?:[a-z]+ )?(?:[a-z]+s|people|are|were)\b"),
    "de": re.compile(r"\{(\w+)\} (?:[a-zäöü]+en |)(?:[A-ZÄÖÜ][a-zäöüß]*(?:en|er|le)|sind|waren)\b"),
}
NO_COUNTS = {"column", "model", "round", "wrong"}
ALWAYS_MANY = ("times.many", "new.more_columns")  # the first begins with six, the second with 61


@pytest.mark.claim("28.22")
@pytest.mark.parametrize("code", LANGUAGES)
def test_whatever_is_counted_has_a_text_for_one(code: str) -> None:
    """A text with a number before a plural has two forms; that for one has no plural."""
    texts = language(code).texts
    pages = [key for key in texts if not key.startswith("said.")]
    plurals = {
        key for key in pages
        if any(name not in NO_COUNTS for name in COUNTED[code].findall(texts[key]))
    }  # fmt: skip
    bare = {key for key in plurals if not key.endswith((".one", ".other"))}
    assert bare - set(ALWAYS_MANY) == set()
    for key in pages:
        if key.endswith(".other"):
            assert f"{key.removesuffix('.other')}.one" in texts


@pytest.mark.claim("28.22")
def test_one_of_each_is_said_as_one() -> None:
    for words, told in ((language("en"), "1 person, 1 answer, 1 finished"),
                        (language("de"), "1 Mensch, 1 Antwort, 1 fertig")):  # fmt: skip
        assert sums([{"answers": 1, "result": "a"}], words) == told
    english, german = language("en"), language("de")
    assert english("ledger.all", n=1) == "1 party"
    assert english("ledger.you", n=1, alone=1).startswith("You: 1 question; alone")
    assert english("guard.chart_alt", n=1, used="2").endswith("with 1 switch")
    assert english("guard.lacking", n=1) == "1 is missing"
    assert german("guard.lacking", n=1) == "1 fehlt"
    assert german("coordinator.items", n="1") == "1 Stück"


@pytest.mark.claim("28.22")
def test_numbers_and_dates_follow_the_language() -> None:
    english, german = language("en"), language("de")
    assert english.number(22000.5, 1) == "22,000.5"
    assert german.number(22000.5, 1) == "22\N{NO-BREAK SPACE}000,5"
    assert english.number(-0.0001, 2) == "0.00"
    assert english.date("2026-05-03T10:00:00+00:00") == "3 May 2026"
    assert german.date("2026-05-03T10:00:00+00:00") == "3. Mai 2026"
    assert wanted("de-CH, en;q=0.8") == "de"
    assert wanted("") == "en"


def test_promises_are_rounded_up() -> None:
    english = language("en")
    assert english.percent(0.0101) == "1.1\N{NO-BREAK SPACE}%"
    assert english.percent(0.05) == "5\N{NO-BREAK SPACE}%"
    assert english.percent(0.121) == "13\N{NO-BREAK SPACE}%"
    assert english.percent(0.0) == "0\N{NO-BREAK SPACE}%"


@pytest.mark.parametrize("hundredths", range(101))
def test_whole_per_cents_are_told_as_they_are(hundredths: int) -> None:
    """7 % is 7.000000000000001 % in floating point: that is no reason to say 8 %."""
    english, told = language("en"), f"{hundredths}\N{NO-BREAK SPACE}%"
    assert english.percent(hundredths / 100) == english.stated(hundredths / 100) == told


@pytest.mark.parametrize("seed", range(20))
def test_no_confidence_is_told_higher_than_it_is(seed: int) -> None:
    share = 1.0 - 10.0 ** np.random.default_rng(seed).uniform(-9, -0.3)
    told = language("en").stated(share).removesuffix("\N{NO-BREAK SPACE}%")
    assert share - 1e-4 <= float(told) / 100 <= share + 1e-11
    assert told != "100"


@pytest.mark.claim("28.22")
def test_a_person_chooses_her_language(web: Web) -> None:
    person = web.person()
    assert "Which would you rather have?" in person.page.text
    german = person.client.get(f"{person.home}?lang=de")
    assert 'lang="de"' in german.text
    assert "Was hätten Sie lieber?" in german.text
    assert "Was hätten Sie lieber?" in person.client.get(person.home).text
    with web.client(headers={"accept-language": "de"}) as client:
        assert "Dieser Link öffnet nichts" in client.get("/j/nothing").text
