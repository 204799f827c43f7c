"""The state of a campaign in the studio: the campaign itself, and what pages need beside it.

Every event is a line of the campaign's log. Answers are taken as they are; questions, frozen
labels and certificates that follow from them are appended by the server in the same transaction,
and compared when the stream is folded again. What a labeller sees never tells whether a question
is for learning or a check: it goes by a name made from the secret seed.
Source: docs/theory/24-campaign.md, "The log".
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec

from counterplay.core.exports import Event
from counterplay.core.records import require_state, to_record
from counterplay.errors import InvalidInputError
from counterplay.labeling import Campaign
from counterplay.labeling import campaign_log as lines
from counterplay.labeling.campaign_export import tested_vectors
from counterplay.labeling.campaign_questions import Question
from counterplay.labeling.campaign_replay import apply_line
from counterplay.labeling.joint import UNION
from counterplay.studio.kinds.campaign_adding import take_addition
from counterplay.studio.kinds.campaign_config import new_campaign

BATCH = 10
"""Most questions that wait on a party's page at a time."""


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
class CampaignFold:
    """Everything that follows from the events of a campaign."""

    config: dict[str, Any]
    campaign: Campaign
    known: list[tuple[int, int]]
    begun: bool = False
    asked_at: dict[str, str] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    tests: dict[tuple[bool, int, int], int] = field(default_factory=dict)
    """Number in the log of every vector: own or joint, party or life, number there."""
    certified: set[int] = field(default_factory=set)
    life: int = 0
    """How often the campaign was computed again; vectors are counted anew each time."""
    disagreed: dict[int, str] = field(default_factory=dict)
    """Items on which people differ, with the state of it."""
    stated: int | None = None
    problem: str = ""
    again: set[str] = field(default_factory=set)
    """Questions whose answer was taken back: they are handed out first."""
    imported: dict[str, int] = field(default_factory=dict)
    erased: bool = False
    numbered: Any = None
    """What the protocol wanted when its questions got their numbers."""

    @classmethod
    def begin(cls, config: dict[str, Any]) -> CampaignFold:
        """Return the state before the first event."""
        known = [(int(i), int(c)) for i, c in config["known"]]
        return cls(config, new_campaign(config), known)

    @property
    def state(self) -> Any:
        """The campaign's own state."""
        return self.campaign._state

    def secret(self, question: str) -> str:
        """Name of a question on pages: it tells neither its number nor its purpose."""
        q = self.campaign._questions[question]
        text = f"{self.config['seed']}|{q.id}|{q.party}|{q.item}|{q.kind}|{q.repeat}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def find(self, secret: str) -> str | None:
        """The question behind a name of a page."""
        return next((q for q in self.campaign._questions if self.secret(q) == secret), None)

    def waiting(self, party: str) -> list[Question]:
        """Open questions that were handed out to a party, oldest first."""
        open_now = {q.id for q in self.campaign._open() if q.party == party}
        return [self.campaign._questions[q] for q in self.asked_at if q in open_now]

    def settle(self) -> None:
        """Go on as far as answers allow, and give every open question its number."""
        self.problem = ""
        try:
            self.campaign._advance()
        except InvalidInputError as error:  # an estimator that cannot be fitted loses no answer
            self.problem = str(error)
            return
        if self.state.wants is not self.numbered:  # nothing opens before the protocol goes on
            self.campaign._open()
            self.numbered = self.state.wants

    def take(self, event: Event) -> None:
        """Apply an event of the campaign."""
        word = event.kind.removeprefix("label.")
        if event.body is None:
            self._erase(event)
            return
        if self.erased:
            self._take_after_erasure(word, event, event.body)
            return
        match word:
            case "start":
                self.begun = True
            case "launch":
                self._launched(event.body)
            case "certify":
                self.certified.add(int(event.body["vector"]))
            case "result":
                self.stated = event.seq
            case "disagreed":
                self.disagreed[int(event.body["item"])] = "open"
            case "resolved":
                self.disagreed[int(event.body["item"])] = str(event.body.get("note", ""))[:1000]
            case "imported":
                self._import(event)
            case "add":
                take_addition(self, event, quietly=False)
            case _:
                self._line(word, event, event.body)
        if word not in ("launch", "certify", "result", "disagreed", "resolved", "ask"):
            self.settle()

    def line(self, word: str, body: dict[str, Any]) -> lines.Line:
        """The line of the campaign's log that an event holds."""
        kind = lines._LINES[word]
        told = {k: v for k, v in body.items() if k in _fields(kind)}
        return to_record({"type": word, **told}, kind, what="the event")

    def _line(self, word: str, event: Event, body: dict[str, Any]) -> None:
        line = self.line(word, body)
        if isinstance(line, lines.Ask):
            self._asked(line, event)
            return
        if word in ("retract", "party"):
            self._again(line)
        apply_line(self.campaign, line, self.state.table, f"event {event.seq}")
        if isinstance(line, lines.Tell | lines.Skip):
            self._answered(line.id, event, "")

    def _asked(self, line: lines.Ask, event: Event) -> None:
        """A question is handed out: it must be one that the campaign has, with its account."""
        asked = self.campaign._questions.get(line.id)
        same = asked is not None and self.campaign._ask_line(asked) == line
        told = f"question {line.id} is not what the campaign asks here"
        require_state(same, "the campaign", f"event {event.seq}", told)
        assert asked is not None
        self.campaign._show(asked)
        self.asked_at[line.id] = event.at

    def _answered(self, name: str, event: Event, source: str) -> None:
        asked = self.campaign._questions[name]
        code, labeler = self.campaign._answered[name]
        self.answers[name] = Answer(
            event.seq, name, asked.party, asked.item, code, labeler, event.at, source
        )

    def _again(self, line: lines.Line) -> None:
        """The campaign is computed again without some answers: its tests start anew."""
        if isinstance(line, lines.Retract):
            self.answers.pop(line.id, None)
            self.asked_at.pop(line.id, None)
            self.again.add(line.id)
        elif isinstance(line, lines.Leave):
            if not line.forget:
                return
            self.answers = {k: a for k, a in self.answers.items() if a.party != line.party}
        self.life += 1
        self.stated = None
        self.certified.clear()

    def _launched(self, body: dict[str, Any]) -> None:
        for key, number in self.untold():
            if number == int(body["vector"]):
                self.tests[key] = number
                return

    def untold(self) -> list[tuple[tuple[bool, int, int], int]]:
        """Vectors of the campaign that no event has told yet, with the numbers they get."""
        found, number = [], len(self.tests)
        for key in self.vectors():
            if key not in self.tests:
                found.append((key, number))
                number += 1
        return found

    def vectors(self) -> dict[tuple[bool, int, int], Any]:
        """All vectors under test: own or not, the party or none, and the number there."""
        if self.state.joint is None:
            return {}
        found = {}
        for test in tested_vectors(self.state):
            vector, _, parties, own, _ = test
            place = self.life * 10_000 + (parties[0] if own else 0)
            found[own, place, vector.number] = test
        return found

    def _import(self, event: Event) -> None:
        body = event.body or {}
        source = str(body.get("source", "import"))[:200]
        if body.get("known"):
            merged = dict(self.known) | {int(i): int(c) for i, c in body["known"]}
            self.known = sorted(merged.items())
            self.campaign = new_campaign(self.config, self.known)
            self.begun, self.asked_at, self.tests = False, {}, {}
            for item, _ in body["known"]:
                self.imported[str(item)] = event.seq
        for name, code, labeler in body.get("answers", ()):
            word = "skip" if code is None else "tell"
            label = {} if code is None else {"label": code}
            line = self.line(word, {"id": name, "labeler": labeler, **label})
            apply_line(self.campaign, line, self.state.table, f"event {event.seq}")
            self._answered(name, event, source)

    def _erase(self, event: Event) -> None:
        """Content is gone: from here on events are noted without running the protocol."""
        if event.kind in ("label.tell", "label.skip", "label.retract") and not self.erased:
            self.erased = True
            self.state._remember(blind=True)  # what certificates have spent stays spent

    def _take_after_erasure(self, word: str, event: Event, body: dict[str, Any]) -> None:
        """Note what is left, until the party that took its answers away has left."""
        campaign, state = self.campaign, self.state
        match word:
            case "ask":
                asked = Question(body["id"], body["party"], body["item"], body["kind"],
                                 body["repeat"])  # fmt: skip
                where = campaign._where(asked)
                campaign._questions[asked.id] = asked
                campaign._ids[where] = asked.id
                campaign._shown.add(asked.id)
                state.purpose[where[1]] = asked.kind
                self.asked_at[asked.id] = event.at
            case "tell" | "skip":
                name, code = body["id"], body.get("label", -1)
                if name in campaign._questions:
                    state.take(*campaign._where(campaign._questions[name]), code)
                    campaign._answered[name] = code, body.get("labeler")
                    self._answered(name, event, "")
            case "retract":
                self._retract_quietly(body)
            case "launch":
                union = not body["own"] and state.settings.scope == "union"
                place = UNION if union else body["parties"][0]
                state.spent[0 if body["own"] else 1][place] = body["alpha"]
                self.tests[False, -1 - len(self.tests), 0] = int(body["vector"])
            case "withdraw":
                state.withdrawn[int(body["item"])] = body["reason"]
            case "add":
                take_addition(self, event, quietly=True)
            case "party":
                self._left(body)
        if word == "party":
            self.settle()

    def _retract_quietly(self, body: dict[str, Any]) -> None:
        campaign, state, name = self.campaign, self.state, body["id"]
        if name in campaign._answered:
            party, key = campaign._where(campaign._questions[name])
            del campaign._answered[name]
            self.answers.pop(name, None)
            state.given.get(key, {}).pop(party, None)
            if not state.given.get(key, True):
                del state.given[key]
            state.extra[party] = state.extra.get(party, 0) + 1
        campaign._shown.discard(name)
        self.asked_at.pop(name, None)

    def _left(self, body: dict[str, Any]) -> None:
        """The party whose answers are gone leaves: everything is computed again without them."""
        state, campaign = self.state, self.campaign
        number = state.names.index(body["party"])
        state.joint, state._run = None, None
        for other, lost in (body.get("lost") or {}).items():
            place = state.names.index(other)
            state.extra[place] = state.extra.get(place, 0) + int(lost)
        state.leave(number, forget=True)
        campaign._emitted, campaign._own = 0, set()
        campaign._ahead.clear()
        self.answers = {k: a for k, a in self.answers.items() if a.party != body["party"]}
        self.life += 1
        self.stated = None
        self.certified.clear()
        self.erased = False


@cache
def _fields(kind: type[msgspec.Struct]) -> frozenset[str]:
    """Names of the fields of a line."""
    return frozenset(f.name for f in msgspec.structs.fields(kind))
