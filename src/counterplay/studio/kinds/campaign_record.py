"""What the log of a campaign says by itself: who was asked what, and what was answered and stated.

No protocol runs here. The record is what pages show where the rule of today would have asked
otherwise, and all that a campaign needs to be computed again: from other answers, or by another
rule. Looking at a party's cards costs the same whatever they are for.
Source: docs/theory/28-studio.md, "State by replay".
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import msgspec

from counterplay.core import export_bodies as bodies
from counterplay.core.exports import Event
from counterplay.core.records import Count, Word, require_state, to_record
from counterplay.labeling import campaign_log as lines
from counterplay.labeling.campaign_questions import Question
from counterplay.labeling.joint import UNION
from counterplay.studio.kinds.campaign_adding import Addition, enlarged

WHAT = "the campaign"


class _Imported(msgspec.Struct, frozen=True):
    """What counts of ``label.imported``."""

    known: tuple[tuple[Count, Count], ...] = ()
    answers: tuple[tuple[Word, Count | None, str | None], ...] = ()
    source: str = "import"


@dataclass
class Answer:
    """An answer as the log holds it; ``code`` is -1 for "cannot tell"."""

    seq: int
    question: str
    party: str
    item: int
    code: int
    labeler: str | None
    at: str
    source: str = ""


@dataclass
class CampaignRecord:
    """Everything that the events of a campaign say."""

    config: dict[str, Any]
    known: list[tuple[int, int]]
    begun: bool = False
    start: dict[str, Any] = field(default_factory=dict)
    """The line it began with, or with which it went on: what wrote the questions after it."""
    questions: dict[str, Question] = field(default_factory=dict)
    """All that were handed out, by id."""
    names: dict[str, str] = field(default_factory=dict)
    """Ids by the names that pages use."""
    asked_at: dict[str, str] = field(default_factory=dict)
    cards: dict[str, dict[str, None]] = field(default_factory=dict)
    """Ids that wait for an answer, by party."""
    answers: dict[str, Answer] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    """Answers in use, by party."""
    told: dict[int, dict[str, int]] = field(default_factory=dict)
    """Labels that people gave, by item and question."""
    alone: dict[str, int] = field(default_factory=dict)
    """What a party would surely have been asked alone, as of its last question."""
    retracted: dict[str, int] = field(default_factory=dict)
    launched: dict[int, bodies.CampaignLaunched] = field(default_factory=dict)
    certified: dict[int, bodies.CampaignCertified] = field(default_factory=dict)
    finished: dict[str, str] = field(default_factory=dict)
    """Parties with a certificate: their own, or a joint one."""
    stated: bodies.CampaignStated | None = None
    disagreed: dict[int, str] = field(default_factory=dict)
    """Items on which people differ, with the state of it."""
    imported: dict[str, int] = field(default_factory=dict)
    again: set[str] = field(default_factory=set)
    """Questions whose answer was taken back: they are handed out first."""
    withdrawn: dict[int, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    """Who has left with all answers: their account is empty."""
    added: list[Addition] = field(default_factory=list)
    life: int = 0
    """How often everything was computed again; tests are counted anew each time."""
    changes: int = 0
    """How often it went on under another rule; each time with another order of the checks."""
    done: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Accounts of parties that had their certificate when the rule changed."""
    since: list[int] = field(default_factory=list)
    """Tests that were launched since everything was last computed again."""
    missing: set[str] = field(default_factory=set)
    """Who erased what they said and has not left yet: until then answers are unknown."""

    def secret(self, question: str) -> str:
        """Name of a question on pages: it tells neither its number nor its purpose."""
        return self._name(self.questions[question])

    def find(self, secret: str) -> str | None:
        """The question behind a name of a page."""
        return self.names.get(secret)

    def waiting(self, party: str) -> list[Question]:
        """Open questions that were handed out to a party, oldest first."""
        return [self.questions[q] for q in self.cards.get(party, ())]

    def deal(self) -> None:
        """Find out who has which cards, from what was handed out and not answered."""
        self.cards = {party: {} for party in self.config["parties"]}
        for name in self.asked_at:
            q = self.questions[name]
            gone = q.party in self.gone or q.item in self.withdrawn
            if name not in self.answers and not gone:
                self.cards[q.party][name] = None

    def account(self, party: str) -> dict[str, Any]:
        """What the record says of a party's work."""
        if party in self.done:
            return self.done[party]
        void = self.retracted.get(party, 0)
        asked = self.counts.get(party, 0) + len(self.cards.get(party, ())) + void
        alone = self.alone.get(party, 0)
        return {
            "party": party, "asked": asked, "alone_at_least": alone, "free": None,
            "saved_at_least": alone + void - asked, "retracted": void, "expected_saving": None,
            "finished_by": self.standing(party),
        }  # fmt: skip

    def standing(self, party: str) -> str:
        """Whether a party has left, has its certificate, was asked everything, or works."""
        if party in self.gone:
            return "left"
        return self.finished.get(party, "all" if self.stated else "open")

    def note(self, word: str, event: Event) -> None:
        """Take an event; what cannot have happened is refused."""
        body, where = event.body or {}, f"event {event.seq}"
        taken = _NOTES.get(word)
        require_state(taken is not None, WHAT, where, f"there is no event {word[:40]!r}")
        assert taken is not None
        taken(self, event, body, where)

    def line(self, word: str, body: dict[str, Any]) -> lines.Line:
        """The line of the campaign's log that an event holds."""
        kind = lines._LINES[word]
        told = {k: v for k, v in body.items() if k in _fields(kind)}
        return to_record({"type": word, **told}, kind, what="the event")

    def _name(self, q: Question) -> str:
        text = f"{self.config['seed']}|{q.id}|{q.party}|{q.item}|{q.kind}|{q.repeat}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _owns(self, party: str, item: int) -> bool:
        owned: set[int] = _owned(self).get(party, set())
        return item in owned

    def _start(self, event: Event, body: dict[str, Any], where: str) -> None:
        self.begun, self.start = True, body

    def _ask(self, event: Event, body: dict[str, Any], where: str) -> None:
        line = self.line("ask", body)
        assert isinstance(line, lines.Ask)
        asked = Question(line.id, line.party, line.item, line.kind, line.repeat)
        require_state(self._owns(line.party, line.item), WHAT, where, "the item is not the party's")
        known = self.questions.get(line.id, asked)
        same = (known.party, known.item, known.repeat) == (line.party, line.item, line.repeat)
        require_state(same, WHAT, where, f"{line.id} is the id of another question")
        fresh = line.id not in self.asked_at or bool(self.missing)
        require_state(fresh, WHAT, where, f"{line.id} was asked before")
        self.questions[line.id] = asked
        self.names[self._name(asked)] = line.id
        self.asked_at[line.id] = event.at
        self.cards.setdefault(line.party, {})[line.id] = None
        self.alone[line.party] = line.passed + line.ahead
        self.again.discard(line.id)

    def _tell(self, event: Event, body: dict[str, Any], where: str) -> None:
        line = self.line("tell" if event.kind == "label.tell" else "skip", body)
        assert isinstance(line, lines.Tell | lines.Skip)
        code = line.label if isinstance(line, lines.Tell) else -1
        self._answered(event, line.id, code, line.labeler, "", where)

    def _answered(
        self, event: Event, name: str, code: int, labeler: str | None, source: str, where: str
    ) -> None:
        asked = self.questions.get(name)
        waits = name in self.asked_at and name not in self.answers
        require_state(waits, WHAT, where, f"{name[:40]} is no open question")
        require_state(code < len(self.config["classes"]), WHAT, where, f"there is no class {code}")
        assert asked is not None
        self.cards.get(asked.party, {}).pop(name, None)
        self.counts[asked.party] = self.counts.get(asked.party, 0) + 1
        self.answers[name] = Answer(
            event.seq, name, asked.party, asked.item, code, labeler, event.at, source
        )
        if code >= 0:
            self.told.setdefault(asked.item, {})[name] = code

    def _import(self, event: Event, body: dict[str, Any], where: str) -> None:
        told = to_record(body, _Imported, what=where)
        if told.known:
            n, classes = self.config["items"], len(self.config["classes"])
            fits = not self.answers and all(i < n and c < classes for i, c in told.known)
            require_state(fits, WHAT, where, "these labels cannot be known")
            self.known = sorted((dict(self.known) | dict(told.known)).items())
            self.begun = False
            for kept in (self.questions, self.names, self.asked_at, self.launched, self.alone):
                kept.clear()
            self.deal()
            self.since.clear()
            self.imported |= {str(item): event.seq for item, _ in told.known}
        for name, code, labeler in told.answers:
            said = -1 if code is None else code
            self._answered(event, name, said, labeler, told.source[:200], where)

    def _retract(self, event: Event, body: dict[str, Any], where: str) -> None:
        line = self.line("retract", body)
        assert isinstance(line, lines.Retract)
        taken = self._forget(line.id)
        require_state(taken or bool(self.missing), WHAT, where, f"{line.id} has no answer")
        self.asked_at.pop(line.id, None)
        self.again.add(line.id)
        if line.id in self.questions:
            party = self.questions[line.id].party
            self.retracted[party] = self.retracted.get(party, 0) + 1
        self._anew()

    def _forget(self, name: str) -> bool:
        answer = self.answers.pop(name, None)
        if answer is None:
            return False
        self.counts[answer.party] -= 1
        self.told.get(answer.item, {}).pop(name, None)
        return True

    def _anew(self) -> None:
        """Everything is computed again: what was certified will be stated anew."""
        self.added = [replace(one, begins=0) for one in self.added]
        self.life += 1
        self.stated = None
        self.since.clear()
        self.certified.clear()
        self.finished.clear()
        self.done.clear()

    def _withdraw(self, event: Event, body: dict[str, Any], where: str) -> None:
        line = self.line("withdraw", body)
        assert isinstance(line, lines.Withdraw)
        inside = line.item < self.config["items"]
        require_state(inside, WHAT, where, f"there is no item {line.item}")
        self.withdrawn[line.item] = line.reason
        self.deal()

    def _add(self, event: Event, body: dict[str, Any], where: str) -> None:
        line = self.line("add", body)
        assert isinstance(line, lines.Add)
        first = self.config["items"]
        fits = line.rows == tuple(range(first, first + len(line.rows)))
        fits = fits and len(line.rows) == len(body["cells"])
        fits = fits and line.joins == (line.party not in self.config["parties"])
        require_state(fits, WHAT, where, "these items cannot come now")
        self.added.append(Addition(line.party, line.rows, int(body["begins"]), line.joins))
        self.config = enlarged(self.config, line.party, body["cells"])
        self.cards.setdefault(line.party, {})

    def _party(self, event: Event, body: dict[str, Any], where: str) -> None:
        line = self.line("party", body)
        assert isinstance(line, lines.Leave)
        known = line.party in self.config["parties"]
        require_state(known, WHAT, where, "there is no such party")
        self.gone.add(line.party)
        self.cards[line.party] = {}
        if not line.forget:
            return
        for name in [k for k, a in self.answers.items() if a.party == line.party]:
            self._forget(name)
        self.forgotten.add(line.party)
        self.alone.pop(line.party, None)
        self.retracted.pop(line.party, None)
        for other, lost in (body.get("lost") or {}).items():
            self.retracted[other] = self.retracted.get(other, 0) + int(lost)
        self._anew()

    def _launch(self, event: Event, body: dict[str, Any], where: str) -> None:
        told = to_record(body, bodies.CampaignLaunched, what=where)
        require_state(told.vector not in self.launched, WHAT, where, "it was launched before")
        fits = max(told.parties) < len(self.config["parties"])
        fits = fits and len(told.items) == len(told.labels)
        fits = fits and max(told.items, default=0) < self.config["items"]
        fits = fits and max(told.labels, default=0) < len(self.config["classes"])
        require_state(fits, WHAT, where, "these labels cannot be tested")
        self.launched[told.vector] = told
        self.since.append(told.vector)

    def _certify(self, event: Event, body: dict[str, Any], where: str) -> None:
        told = to_record(body, bodies.CampaignCertified, what=where)
        require_state(told.vector in self.launched, WHAT, where, "there is no such test")
        self.certified[told.vector] = told
        test, names = self.launched[told.vector], list(self.config["parties"])
        for party in test.parties:
            self.finished.setdefault(names[party], "own" if test.own else "joint")

    def _result(self, event: Event, body: dict[str, Any], where: str) -> None:
        told = to_record(body, bodies.CampaignStated, what=where)
        fits = len(told.labels) == self.config["items"]
        fits = fits and all(
            label is None or label < len(self.config["classes"]) for label in told.labels
        )
        require_state(fits, WHAT, where, "there must be one label for each item")
        self.stated = told

    def _disagree(self, event: Event, body: dict[str, Any], where: str) -> None:
        self.disagreed[int(body["item"])] = "open"

    def _resolve(self, event: Event, body: dict[str, Any], where: str) -> None:
        self.disagreed[int(body["item"])] = str(body.get("note", ""))[:1000]

    def _rule(self, event: Event, body: dict[str, Any], where: str) -> None:
        """It goes on by another rule: open questions are withdrawn, certificates stand."""
        self.done |= {party: self.account(party) for party in self.finished}
        for name in [q for q in self.questions if q not in self.answers]:
            del self.questions[name]
            self.asked_at.pop(name, None)
        self.names = {self._name(asked): name for name, asked in self.questions.items()}
        self.deal()
        self.again.clear()
        self.added = [replace(one, begins=0) for one in self.added]
        self.start, self.stated = body, None
        self.since.clear()
        self.life += 1
        self.changes += 1

    def levels(self) -> tuple[dict[int, float], dict[int, float]]:
        """What was left of each level, own and joint, when everything was last computed again."""
        own: dict[int, float] = {}
        joint: dict[int, float] = {}
        union = self.config["page"]["settings"].get("scope") == "union"
        before = [test for number, test in self.launched.items() if number not in self.since]
        for test in before:
            place = UNION if union and not test.own else test.parties[0]
            (own if test.own else joint)[place] = test.alpha
        return own, joint


_NOTES = {
    "start": CampaignRecord._start,
    "ask": CampaignRecord._ask,
    "tell": CampaignRecord._tell,
    "skip": CampaignRecord._tell,
    "imported": CampaignRecord._import,
    "retract": CampaignRecord._retract,
    "withdraw": CampaignRecord._withdraw,
    "add": CampaignRecord._add,
    "party": CampaignRecord._party,
    "launch": CampaignRecord._launch,
    "certify": CampaignRecord._certify,
    "result": CampaignRecord._result,
    "disagreed": CampaignRecord._disagree,
    "resolved": CampaignRecord._resolve,
    "rule": CampaignRecord._rule,
}


def _owned(record: CampaignRecord) -> dict[str, set[int]]:
    """Items of every party; computed once for each configuration."""
    known: tuple[Any, dict[str, set[int]]] | None = getattr(record, "_sets", None)
    if known is None or known[0] is not record.config:
        sets = {party: set(rows) for party, rows in record.config["parties"].items()}
        known = (record.config, sets)
        record._sets = known  # type: ignore[attr-defined]
    return known[1]


@cache
def _fields(kind: type[msgspec.Struct]) -> frozenset[str]:
    """Names of the fields of a line."""
    return frozenset(f.name for f in msgspec.structs.fields(kind))
