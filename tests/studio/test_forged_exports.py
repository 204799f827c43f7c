"""Exports that somebody rewrote as a whole: every hash fits, and what does not follow is seen.

What ``verify`` cannot see in such a file is said in docs/theory/28-studio.md, "Proof"; the last
test keeps that list honest.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import golden_logs
import pytest

from counterplay.core.exports import START, body_hash, config_hash, event_hash
from counterplay.errors import InvalidStateError
from counterplay.studio.kinds.audit import audit_config
from counterplay.studio.kinds.campaign import KIND as CAMPAIGN
from counterplay.verify import verify
from studio.kind_driver import Stream
from studio.studio_campaigns import campaign_config, label_all

Line = dict[str, Any]
Edit = Callable[[Line, list[Line]], object]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """One honest export of each kind; of a campaign also one that is not finished."""
    newest = sorted(golden_logs.FOLDER.iterdir())[-1]
    found = {name: (newest / f"{name}.jsonl").read_bytes() for name in ("elicitation", "guard")}
    config, truth = campaign_config(tmp_path_factory.mktemp("pool"), 132, parties=2, max_error=0.2)
    stream = Stream(CAMPAIGN, config)
    stream.add("study.opened", {})
    while not stream.state.certified:
        label_all(stream, truth, 1)
    found["running"] = stream.export()
    label_all(stream, truth)
    found["campaign"] = stream.export()
    return found | {"audit": audit_export()}


def audit_export() -> bytes:
    """An audit as it is handed in, with a record as the golden log has it."""
    newest = sorted(golden_logs.FOLDER.iterdir())[-1]
    lines = [json.loads(line) for line in (newest / "audit.jsonl").read_bytes().splitlines()]
    config = audit_config(
        {"table": ("t.csv", b"a,b\n1,2\n2,3\n"), "config": ("c.toml", b"[model]\n")}
    )
    lines[0]["config"] = config
    lines[1]["body"] = {"inputs": config["inputs"], "config": "[model]\n"}
    return rehashed(lines)


def rehashed(lines: list[Line]) -> bytes:
    """The file with every hash, number and head made again."""
    study, events = lines[0], lines[1:]
    study["config_hash"] = config_hash(study["config"])
    previous, seq = START, 0
    for event in events:
        seq += 1
        if event["body"] is not None:
            event["body_hash"] = body_hash(event["salt"], event["body"])
        place = (event["stream"], seq, event["kind"], event["body_hash"])
        previous = event_hash(previous, *place)
        event |= {"seq": seq, "hash": previous, "key": f"k{seq}"}
    study["heads"] = [{"stream": events[0]["stream"], "seq": seq, "hash": previous}]
    written = (json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n" for line in lines)
    return "".join(written).encode()


def said(export: bytes) -> str:
    """What failed, or why the file cannot be used; empty where all holds."""
    try:
        found = verify(export)
    except InvalidStateError as error:
        return str(error)
    return "\n".join(str(check) for check in found.checks if check.status == "failed")


def forged(export: bytes, edit: Edit) -> bytes | None:
    """The export after an edit; None if the edit says that nothing was changed."""
    lines = [json.loads(line) for line in export.splitlines()]
    return None if edit(lines[0]["config"], lines) is False else rehashed(lines)


def the(lines: list[Line], kind: str, number: int = -1) -> Line:
    """The body of an event of this kind, the last one by default."""
    found: Line = [line for line in lines[1:] if line["kind"] == kind][number]["body"]
    return found


def without(kind: str, number: int = -1) -> Edit:
    def edit(_: Line, lines: list[Line]) -> None:
        lines.remove([line for line in lines[1:] if line["kind"] == kind][number])

    return edit


def setting(kind: str, name: str, value: Any, number: int = -1) -> Edit:
    def edit(_: Line, lines: list[Line]) -> None:
        body = the(lines, kind, number)
        assert body[name] != value
        body[name] = value

    return edit


def configured(name: str, value: Any) -> Edit:
    return lambda config, _: config.update({name: value})


def twice(kind: str) -> Edit:
    def edit(_: Line, lines: list[Line]) -> None:
        place = max(i for i, line in enumerate(lines) if line.get("kind") == kind)
        lines.insert(place + 1, json.loads(json.dumps(lines[place])))

    return edit


def other_cards(config: Line, _: list[Line]) -> None:
    raw = config["page"]["raw"]
    raw[0], raw[1] = raw[1], raw[0]


def other_unit(config: Line, _: list[Line]) -> None:
    config["page"]["columns"][1]["high"] *= 2


def cheaper_is_worse(config: Line, _: list[Line]) -> None:
    config["page"]["columns"][1]["direction"] = "benefit"


def lower(_: Line, lines: list[Line]) -> None:
    the(lines, "elicit.result")["regret_certificate"] -= 1e-3


def swapped_answer(_: Line, lines: list[Line]) -> None:
    body = the(lines, "elicit.answered")
    body["order"] = [1 - body["order"][0]]


def swapped_with_its_word(_: Line, lines: list[Line]) -> None:
    swapped_answer(_, lines)
    body = the(lines, "elicit.answered")
    body["answer"] = ("first", "second")[body["order"][0]]


def smaller_bound(_: Line, lines: list[Line]) -> None:
    the(lines, "label.certify")["bound"] *= 0.9


def answer_of_another(_: Line, lines: list[Line]) -> None:
    body = the(lines, "label.tell")
    body["party"] = "clinic 1" if body["party"] == "clinic 0" else "clinic 0"


def question_to_another(_: Line, lines: list[Line]) -> None:
    body = the(lines, "label.ask")
    body["party"] = "clinic 1" if body["party"] == "clinic 0" else "clinic 0"


def of_another(_: Line, lines: list[Line]) -> None:
    """A certificate gets the name of somebody else."""
    the(lines, "label.certify")["scope"] = "clinic 0"
    result = the(lines, "label.result")
    result["certificates"] = ["clinic 0"]


def wrong_check(_: Line, lines: list[Line]) -> None:
    """The answer to a check is turned around, after which the label was frozen."""
    certified = the(lines, "label.certify")
    launched = the(lines, "label.launch", [line["body"]["vector"] for line in lines[1:]
                   if line["kind"] == "label.launch"].index(certified["vector"]))  # fmt: skip
    item = launched["items"][0]
    ask = next(line["body"]["id"] for line in lines[1:]
               if line["kind"] == "label.ask" and line["body"]["item"] == item)  # fmt: skip
    told = next(line["body"] for line in lines[1:]
                if line["kind"] == "label.tell" and line["body"]["id"] == ask)  # fmt: skip
    told["label"] = 1 - told["label"]


def less_alone(_: Line, lines: list[Line]) -> None:
    the(lines, "label.ask")["passed"] = 0
    the(lines, "label.ask")["ahead"] = 0


def other_order(config: Line, lines: list[Line]) -> None:
    config["seed"] += 1
    the(lines, "label.start")["seed"] += 1


def another_table(config: Line, _: list[Line]) -> None:
    config["files"]["table"]["text"] += "9,9\n"


def another_setting(config: Line, _: list[Line]) -> None:
    config["files"]["config"]["text"] += "# more\n"


FORGED: list[tuple[str, Edit, str]] = [
    ("elicitation", lower, "somebody whom the answers do not exclude regrets more"),
    ("elicitation", swapped_answer, "is not the option in the order"),
    ("elicitation", swapped_with_its_word, "certificate"),
    ("elicitation", without("elicit.answered", 0), "has no answer"),
    ("elicitation", without("elicit.asked", 0), "must be the open question"),
    ("elicitation", other_cards, "those of item 0 are not its values"),
    ("elicitation", other_unit, "numbers on the cards"),
    ("elicitation", cheaper_is_worse, "numbers on the cards"),
    ("elicitation", configured("confidence", 0.9999), "somebody whom the answers do not exclude"),
    ("elicitation", configured("rates", [0.3]), "is no bound of the configuration"),
    ("elicitation", setting("elicit.result", "rate", 0.05), "is no bound of the configuration"),
    ("elicitation", setting("elicit.result", "questions", 4), "there are questions 5"),
    ("elicitation", setting("elicit.result", "if_every_answer_is_right", 0.0), "recomputed"),
    ("campaign", smaller_bound, "is not shown by the checks"),
    ("campaign", wrong_check, "certificate"),
    ("campaign", of_another, "it covers clinic 0, clinic 1"),
    ("campaign", answer_of_another, "was not asked this"),
    ("campaign", question_to_another, "is not the party's"),
    ("campaign", less_alone, "alone at least"),
    ("campaign", other_order, "audit orders"),
    ("campaign", configured("seed", 6), "seed is not that of the configuration"),
    ("campaign", configured("max_error", 0.1), "max_error is not that of the configuration"),
    ("campaign", configured("confidence", 0.99), "confidence is not that of the configuration"),
    ("campaign", without("label.start"), "has not begun"),
    ("campaign", without("label.launch", 0), ""),
    ("campaign", without("label.certify"), "nothing certifies"),
    ("campaign", without("label.tell"), ""),
    ("running", configured("confidence", 0.99), "confidence is not that of the configuration"),
    ("guard", without("guard.ended", 3), "has not ended"),
    ("guard", without("guard.decided", 3), ""),
    ("guard", without("guard.outcome", 3), ""),
    ("guard", twice("guard.ended"), "once"),
    ("guard", setting("guard.ended", "after", 7, 2), "once"),
    ("guard", setting("guard.decided", "epoch", 1, 3), "its epoch began in round 0"),
    ("guard", setting("guard.decided", "draw", 0.25, 0), "is not that of the seed"),
    ("guard", setting("guard.decided", "allowed", [0], 3), "allowed were"),
    ("guard", setting("guard.result", "harm_bound", 60.0), "recomputed"),
    ("guard", setting("guard.result", "largest_excess", 0.5), "recounted"),
    ("guard", configured("safe", 1_000_000), "there is no such model"),
    ("guard", configured("champion", 3), "there is no such model"),
    ("guard", configured("seed", 5), "live models"),
    ("guard", configured("rate", 0.2), "largest excess"),
    ("audit", another_table, "the table in the configuration is another one"),
    ("audit", another_setting, "the config in the configuration is another one"),
    ("audit", setting("audit.requested", "config", "[more]\n"), "the settings are not those"),
    ("audit", twice("audit.finished"), "ended twice"),
    ("audit", twice("audit.requested"), "requested twice"),
    ("audit", setting("audit.finished", "gates", []), "not those of the record"),
    ("audit", lambda _, lines: the(lines, "audit.finished")["record"].update(more=1), "content"),
]


@pytest.mark.claim("28.07")
@pytest.mark.parametrize("kind", ["elicitation", "campaign", "running", "guard", "audit"])
def test_a_rewritten_honest_export_holds(made: dict[str, bytes], kind: str) -> None:
    assert said(made[kind]) == ""
    assert said(rehashed([json.loads(line) for line in made[kind].splitlines()])) == ""


@pytest.mark.claim("28.07")
@pytest.mark.parametrize(
    ("kind", "edit", "sentence"),
    FORGED,
    ids=[f"{kind}-{i}" for i, (kind, _, _) in enumerate(FORGED)],
)
def test_what_does_not_follow_is_seen(
    made: dict[str, bytes], kind: str, edit: Edit, sentence: str
) -> None:
    export = forged(made[kind], edit)
    assert export is not None
    found = said(export)
    assert found != ""
    assert sentence in found


def test_levels_are_recounted_before_the_end(made: dict[str, bytes]) -> None:
    """A certificate of a campaign that still runs has its level, too."""

    def edit(_: Line, lines: list[Line]) -> None:
        for line in lines[1:]:
            if line["kind"] == "label.launch":
                line["body"]["alpha"] = 0.9

    export = forged(made["running"], edit)
    assert export is not None
    assert "was spent of 0.05" in said(export)


def test_the_table_may_be_written_as_people_do(made: dict[str, bytes], tmp_path: Path) -> None:
    """A table that the studio took, with semicolons and decimal commas, is recognised."""
    config = json.loads(made["elicitation"].splitlines()[0])["config"]
    names = [*config["columns"]["benefits"], *config["columns"]["costs"]]
    rows = [";".join(f"{x:.2f}".replace(".", ",") for x in row) for row in config["page"]["raw"]]
    table = tmp_path / "things.csv"
    table.write_text("\n".join([";".join(names), *rows]) + "\n", encoding="utf-8")
    found = verify(made["elicitation"], table=table)
    assert found.holds, found.summary()
    assert f"{len(rows)} items are rows of it" in found.summary()
    table.write_text("\n".join([";".join(names), *rows[1:], rows[0]]) + "\n", encoding="utf-8")
    assert not verify(made["elicitation"], table=table).holds


UNSEEN: list[tuple[str, Edit]] = [
    ("elicitation", lambda config, _: config["page"]["names"].reverse()),
    ("elicitation", lambda _, lines: the(lines, "elicit.result")["compared"].pop()),
    ("elicitation", setting("elicit.result", "credible_regret", 0.0)),
    ("elicitation", without("elicit.result")),
    ("guard", without("guard.result")),
    ("guard", lambda _, lines: lines[-1].update(at="2020-01-01", actor="somebody")),
    ("audit", without("audit.finished")),
]


@pytest.mark.claim("28.07")
@pytest.mark.parametrize(("kind", "edit"), UNSEEN)
def test_what_a_rewritten_export_can_hide(made: dict[str, bytes], kind: str, edit: Edit) -> None:
    """Documented: only a receipt tells such a file from the true one."""
    export = forged(made[kind], edit)
    assert export is not None
    assert said(export) == ""
