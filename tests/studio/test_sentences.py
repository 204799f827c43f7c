"""Sentences of the library in German: every one that the code can raise, and on the pages."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import counterplay
from counterplay.studio.web.sentences import Sentences
from counterplay.studio.web.texts import language, recognised
from studio.guards import guard_config
from studio.studio_campaigns import HIDDEN, campaign_config
from studio.web_house import Web

HOME = Path(counterplay.__file__).parent
# What people meet in the browser. Fields of TOML files are met on the command line only.
FILES = [
    *sorted((HOME / "studio" / "web").glob("*.py")),
    *(HOME / "studio" / "kinds" / f"{name}.py" for name in (
        "audit", "campaign", "campaign_adding", "campaign_config", "elicitation",
        "elicitation_config", "guard")),
    HOME / "studio" / "exports.py", HOME / "studio" / "passwords.py",
    HOME / "studio" / "store" / "studies.py", HOME / "studio" / "store" / "base.py",
    HOME / "tables" / "files.py", HOME / "elicitation" / "catalogue.py",
]  # fmt: skip
RAISED = ("Refused", "InvalidInputError", "DataUnavailableError")
ON_THE_COMMAND_LINE = re.compile(
    r"(a|an) (campaign|guard|audit) (has no field|needs)|(models|mode|valid_for_s|§) (must be|=)|"
    r"the body of an event"
)


def sentences() -> list[Any]:
    """Every sentence that is raised, with § for what is filled in."""
    found = []
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                name = getattr(node.exc.func, "id", "")
                text = _text(node.exc.args[0])
                if name in RAISED and text and not ON_THE_COMMAND_LINE.match(text):
                    found.append(pytest.param(text, id=f"{file.stem}:{node.lineno}"))
    return found


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(p.value) if isinstance(p, ast.Constant) else "§" for p in node.values)
    return ""  # a sentence that was made elsewhere


@pytest.mark.claim("28.22")
@pytest.mark.parametrize("text", sentences())
def test_every_sentence_is_in_the_catalogue(text: str) -> None:
    if text.replace("§", "").strip() in ("", "."):
        return  # passed on
    filled = text.replace("§ is §. §", "t.csv is a pickle. §")
    assert recognised(filled) is not None, text


@pytest.mark.claim("28.22")
def test_values_are_found_whatever_they_are() -> None:
    known = Sentences({"said.a": "There is no column {column}; there are {names}."})
    found = known.find("There is no column '; there are'; there are a, b.")
    assert found is not None
    assert found.key == "said.a"
    assert known.find("There is no column ; there are .") is None
    assert known.find("x" * 5_000) is None
    hostile = "There is no column " + "; there are " * 300
    assert known.find(hostile) is None


def test_a_sentence_that_nobody_knows_is_marked_as_english() -> None:
    german = language("de")
    told = german.said("<b>odd</b>")
    assert str(told) == 'Das Programm sagt: <span lang="en">&lt;b&gt;odd&lt;/b&gt;</span>'
    assert german.said(german("new.gone")) == german("new.gone")
    assert language("en").said("odd") == "Odd"


def german(web: Web, role: str = "owner") -> Any:
    """An operator who reads German."""
    admin = web.admin(role)
    admin.headers["accept-language"] = "de"
    return admin


def csrf(client: Any, path: str) -> str:
    return dict(HIDDEN.findall(client.get(path).text))["csrf"]


@pytest.mark.claim("28.22")
@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a,b\n1\n", "Zeile 2 hat 1 Felder, die Kopfzeile hat 2."),
        (b"a,b\n1,\xff\n", "Zeile 2 ist nicht UTF-8."),
        (b"PK\x03\x04", "Das ist keine Textdatei."),
        (b"a,a\n1,2\n", "mehr als eine Spalte namens"),
        (b"", "Die Datei ist leer."),
        (b"a\n" + b"1\n" * 200_002, "mehr als 200\N{NO-BREAK SPACE}000 Zeilen"),
    ],
)
def test_files_are_refused_in_german(web: Web, content: bytes, told: str) -> None:
    admin, path = german(web), "/admin/studies/new"
    sent = admin.post(path, data={"csrf": csrf(admin, path)}, files={"file": ("t.csv", content)})
    assert sent.status_code == 422
    assert told in sent.text
    assert "Das Programm sagt" not in sent.text


@pytest.mark.claim("28.22")
def test_columns_are_refused_beside_their_field_in_german(web: Web) -> None:
    admin, path = german(web), "/admin/studies/new"
    table = b"name,price,size\na,1,5\nb,2,5\nc,3,5\n"
    sent = admin.post(path, data={"csrf": csrf(admin, path)}, files={"file": ("t.csv", table)})
    chosen = {"direction-1": "cost", "direction-2": "benefit", "csrf": csrf(admin, str(sent.url))}
    sent = admin.post(str(sent.url), data=chosen)
    assert sent.status_code == 422
    column = re.search(r"<fieldset[^>]*><legend>size.*?</fieldset>", sent.text, re.S)
    assert column is not None
    assert "ist bei allen Dingen gleich; lassen Sie sie weg." in column[0]
    assert column[0].count('aria-describedby="wrong"') == 2


@pytest.mark.claim("28.22")
def test_campaigns_guards_and_audits_answer_in_german(web: Web, tmp_path: Path) -> None:
    admin = german(web)
    config, _ = campaign_config(tmp_path, n=92)
    study = web.store.new_study("campaign", "Scans", config, actor="admin", open_now=True)
    home = f"/admin/studies/{study.public_id}"
    token = csrf(admin, home)
    key = {"csrf": token, "key": "k" * 12}
    known = b"item,label\nc1,benign\nnone,benign\nc2,odd\n"
    sent = admin.post(f"{home}/import", data={**key, "what": "known"},
                      files={"file": ("k.csv", known)})  # fmt: skip
    assert "Es wurde nichts übernommen. Zeile 3: Es gibt kein Stück" in sent.text
    assert "Zeile 4: &#39;odd&#39; ist kein Etikett dieser Kampagne" in sent.text
    sent = admin.post(f"{home}/change", data={**key, "act": "withdraw", "item": "none"})
    assert "Dieses Stück gibt es nicht." in sent.text
    guard = web.store.new_study("guard", "Loans", guard_config(), actor="admin", open_now=True)
    place = f"/admin/studies/{guard.public_id}"
    assert "erlaubten Modellen gelost" in admin.get(place).text
    sent = admin.post(f"{place}/take-down", data={**key, "model": "2"})
    assert "Sagen Sie, warum das Modell abgesetzt wird." in sent.text
    assert 'id="reason" name="reason" required maxlength="500" aria-invalid="true"' in sent.text
    for files, told in (
        ({"table": ("m.pkl", b"\x80\x04")}, "Nur Tabellen (.csv) und Einstellungen (.toml)"),
        ({"table": ("m.csv", b"\x80\x04")}, "m.csv ist ein Pickle."),
        (
            {"table": ("t.csv", b"a\n1\n"), "config": ("a.toml", b"[data")},
            "a.toml ist nicht lesbar",
        ),
        ({"table": ("t.csv", b"a\n1\n"), "config": ("a.toml", b"[dta]\n")}, "keine Einstellung"),
    ):
        sent = admin.post("/admin/audits", data={"csrf": token}, files=files)
        assert sent.status_code == 422
        assert told in sent.text
        assert "Das Programm sagt" not in sent.text
    sent = admin.post("/admin/studies/import", data={"csrf": token},
                      files={"file": ("e.jsonl", b"{}\n")})  # fmt: skip
    assert sent.status_code == 422
    assert 'id="wrong" role="alert"' in sent.text


@pytest.mark.claim("28.22")
def test_participants_are_answered_in_german(web: Web) -> None:
    person = web.person()
    person.client.headers["accept-language"] = "de"
    person.client.cookies.set("cp_lang", "de")
    person.look()
    answer = person.send("answer", answer="x")
    assert answer.status_code == 422
    assert "Wählen Sie eines von beiden" in answer.text
    person.look()
    answer = person.client.post(f"{person.home}/answer", data={**person.hidden, "asked": "999",
                                                               "answer": "first"})  # fmt: skip
    assert "Diese Frage ist nicht mehr offen." in answer.text


@pytest.mark.parametrize(
    ("name", "content", "told", "german_told"),
    [
        ("t.csv", b"name,price\na,1\n", "This is a table;", "Das ist eine Tabelle;"),
        ("t.zip", b"PK\x03\x04\x00\x01", "This is no text file;", "Das ist keine Textdatei;"),
        ("t.json", b"[]\n", "This is no export;", "Das ist keine Ausgabe einer Studie;"),
        ("t.jsonl", b"", "The file is empty.", "Die Datei ist leer."),
        ("t.jsonl", b" \n", "The file is empty.", "Die Datei ist leer."),
        ("", b"", "Choose a file first.", "Wählen Sie zuerst eine Datei."),
    ],
)
def test_what_is_no_export_is_called_what_it_is(
    web: Web, name: str, content: bytes, told: str, german_told: str
) -> None:
    path = "/admin/studies/import"
    for code, client, sentence in (("en", web.admin(), told), ("de", german(web), german_told)):
        parts = {"csrf": (None, csrf(client, path)), "file": (name, content)}
        sent = client.post(path, files=parts)
        assert sent.status_code == 422
        wrong = re.search(r'id="wrong"[^>]*>([^<]*)<', sent.text)
        assert wrong is not None
        assert wrong[1].startswith(sentence)
        button = language(code)("study.export")  # what gives an export
        assert (button in wrong[1]) == bool(content.strip())
