"""The state of a campaign in the studio: its record, and the campaign itself that runs along.

Every event is a line of the campaign's log. Answers are taken as they are; questions, frozen
labels and certificates that follow from them are appended by the server in the same transaction,
and compared when the stream is folded again. Where the rule of today departs from what is
recorded, the record stands: it is shown as it was, and the campaign stops until somebody says how
it goes on. What a labeller sees never tells whether a question is for learning or a check: it goes
by a name made from the secret seed.
Source: docs/theory/28-studio.md, "State by replay"; docs/theory/24-campaign.md, "The log".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from counterplay.core import export_bodies as bodies
from counterplay.core.exports import Event
from counterplay.core.records import require_state
from counterplay.errors import CounterplayError, InvalidInputError
from counterplay.labeling import Campaign
from counterplay.labeling import campaign_log as lines
from counterplay.labeling.campaign_export import tested_vectors
from counterplay.labeling.campaign_questions import Question
from counterplay.labeling.campaign_replay import apply_line
from counterplay.labeling.campaign_state import CampaignState
from counterplay.labeling.certificate import SKIPPED
from counterplay.labeling.joint import Joint
from counterplay.studio.kinds.campaign_adding import added_table
from counterplay.studio.kinds.campaign_config import new_campaign
from counterplay.studio.kinds.campaign_record import WHAT, CampaignRecord
from counterplay.studio.kinds.campaign_reload import begun_alike, reload

BATCH = 10
"""Questions that a party is handed at a time; the next ones come when these are answered."""
_DERIVED = ("launch", "certify", "result")
_QUIET = (*_DERIVED, "disagreed", "resolved", "ask")
Test = tuple[bool, int, int]
"""Own or joint, party or life, number there."""


@dataclass(frozen=True)
class Departure:
    """Where the rule of today departs from the record."""

    seq: int
    told: str


@dataclass
class CampaignFold(CampaignRecord):
    """Everything that follows from the events of a campaign."""

    first: dict[str, Any] = field(default_factory=dict)
    """The configuration before anything was added."""
    running: Campaign | None = None
    departed: Departure | None = None
    tests: dict[Test, int] = field(default_factory=dict)
    """Number in the log of every vector."""
    problem: str = ""
    committed: bool = True
    """Whether the seed gives the orders of the checks that were committed to."""
    moved: bool = False
    """Whether the protocol went on with the last event."""
    pending: bool = False
    """Whether something may follow that was not told yet."""
    wants: Any = None
    """What the protocol waited for when its questions got their numbers."""
    idle: list[Any] = field(default_factory=list)
    """Whose models the last round left as they were."""

    @classmethod
    def begin(cls, config: dict[str, Any]) -> CampaignFold:
        """Return the state before the first event."""
        state = cls(config, [(int(i), int(c)) for i, c in config["known"]])
        state.cards, state.first = {party: {} for party in config["parties"]}, config
        try:
            state.running = new_campaign(config)
            state.committed = state.state.commitment() == config["commit"]
        except CounterplayError as error:
            state.departed, state.committed = Departure(0, str(error)), False
        return state

    @property
    def campaign(self) -> Campaign:
        """The campaign that runs along."""
        assert self.running is not None
        return self.running

    @property
    def state(self) -> CampaignState:
        """The campaign's own state."""
        return self.campaign._state

    @property
    def runs(self) -> bool:
        """Whether the campaign is where the record is: nothing departs and nothing is unknown."""
        return self.departed is None and not self.missing

    @property
    def solo(self) -> str:
        """What a party would do alone; empty where another version knew it."""
        return str(self.state.settings.solo) if self.departed is None else ""

    @property
    def over(self) -> bool:
        """Whether nothing is left to ask."""
        return self.state.finished if self.departed is None else self.stated is not None

    def take(self, event: Event) -> None:
        """Apply an event of the campaign."""
        word, self.moved = event.kind.removeprefix("label."), False
        if event.kind == "party.withdrawn":
            self._left_for_good(event)
            return
        if event.body is None:
            if event.kind in ("label.tell", "label.skip", "label.retract"):
                self.missing.add(event.actor)
            return
        if self.runs:
            self._compare(word, event, event.body)
        self.note(word, event)
        known = self.missing and event.body.get("who") in self.missing
        try:
            if known:
                self.missing.discard(event.body["who"])
            if word == "rule":
                self._go_on(event)
            elif self.runs and known:
                self._reload()
                self._proceed(word)
            elif self.runs:
                self._run(word, event, event.body)
        except CounterplayError as error:
            self._depart(event, str(error))

    def settle(self) -> None:
        """Go on as far as answers allow; give open questions their numbers, parties their cards."""
        self.problem, fitted = "", self._fitted()
        try:
            self.campaign._advance()
        except InvalidInputError as error:  # an estimator that cannot be fitted loses no answer
            self.problem = str(error)
            return
        self.moved = self.moved or self.state.wants is not self.wants
        self.wants = self.state.wants
        self.idle = [owner for owner, scores in fitted if owner.scores is scores]
        waits = {q.id for q in self.campaign._open()}
        self.cards = {party: {} for party in self.config["parties"]}
        for name in self.asked_at:
            if name in waits:
                self.cards[self.questions[name].party][name] = None

    def _fitted(self) -> list[tuple[Any, Any]]:
        """Who has a model: the joint protocol and every party at work, with its scores now."""
        joint = self.state.joint
        if joint is None:
            return []
        runs = [shadow.run for shadow in joint.live if hasattr(shadow.run, "scores")]
        return [(owner, owner.scores) for owner in (joint, *runs)]

    def even_out(self) -> None:
        """Fit for nothing what the last round did not fit.

        Only rounds of learning change the models; without this the time of the answer that ends a
        round would tell what its questions were for.
        """
        for owner in self.idle:
            if isinstance(owner, Joint):
                if owner.settings.model is not None:
                    owner.settings.model.fit(*owner._training)
            else:
                owner.pool.model.fit(*owner._training())
        self.idle = []

    def due(self) -> tuple[str, dict[str, Any], Test] | None:
        """What follows from the answers and was not told yet: frozen labels, or a certificate."""
        vectors = self.vectors()
        for key, (vector, scope, parties, own, _) in vectors.items():
            if key not in self.tests:
                number = 1 + max(self.launched, default=-1)
                launched = bodies.CampaignLaunched(
                    vector=number, scope=scope, parties=parties, own=own, n=vector.n,
                    alpha=vector.alpha, items=tuple(vector.items.tolist()),
                    labels=tuple(vector.labels.tolist()),
                )  # fmt: skip
                return "launch", plain(launched), key
        for key, (vector, scope, _, _, certificate) in vectors.items():
            if certificate is not None and self.tests[key] not in self.certified:
                passed = bodies.CampaignCertified(
                    vector=self.tests[key], scope=scope, checked=certificate.checked,
                    wrong=certificate.wrong, known_wrong=vector.known_wrong,
                    bound=certificate.bound,
                )  # fmt: skip
                return "certify", plain(passed), key
        return None

    def vectors(self) -> dict[Test, Any]:
        """All vectors under test: own or not, the party or none, and the number there."""
        if self.state.joint is None:
            return {}
        found = {}
        for test in tested_vectors(self.state):
            vector, _, parties, own, _ = test
            place = self.life * 10_000 + (parties[0] if own else 0)
            found[own, place, vector.number] = test
        return found

    def result(self) -> dict[str, Any]:
        """The labels, and whose certificates hold: those of today, and those that stand."""
        result = self.campaign.result()
        place = {label: code for code, label in enumerate(self.config["classes"])}
        codes = tuple(place.get(label) for label in result.labels.tolist())
        stand = [c.scope for c in self.certified.values()] if self.done else []
        holds = [scope for scope, found in result.certificates.items() if found.holds]
        scopes = tuple(dict.fromkeys([*stand, *holds]))
        return plain(bodies.CampaignStated(labels=codes, certificates=scopes))

    def _compare(self, word: str, event: Event, body: dict[str, Any]) -> None:
        """What follows from answers must be told, as it is, before anything else happens."""
        if self.problem or not (self.pending or word in _DERIVED):
            return
        due = self.due()
        if due is None and word == "result" and self.state.finished:
            fits = self.result() == body
        elif due is None:
            self.pending, fits = False, word not in _DERIVED
        else:
            fits = (word, body) == due[:2]
            if fits and word == "launch":
                self.tests[due[2]] = int(body["vector"])
        if not fits:
            self._depart(event, f"{word} is not what follows from the answers")

    def _run(self, word: str, event: Event, body: dict[str, Any]) -> None:
        """Let the campaign do what the event says."""
        match word:
            case "start":
                alike = begun_alike(self.campaign, body)
                require_state(alike, WHAT, "", "it began with other settings or orders")
            case "ask":
                self._asked(body)
            case "tell" | "skip" | "withdraw":
                self._apply(word, event, body)
            case "imported":
                self._add_labels(event, body)
            case "add":
                apply_line(self.campaign, self.line("add", body), added_table(self.config),
                           f"event {event.seq}")  # fmt: skip
            case "retract" | "party":
                self._take_back(word, event, body)
        if word not in _QUIET:
            self._proceed(word)

    def _proceed(self, word: str) -> None:
        """The protocol goes on when nobody holds a card any more, or when something else moved."""
        if word in ("tell", "skip") and any(self.cards.values()):
            return  # nothing opens before the protocol goes on
        self.settle()
        self.pending = self.pending or self.moved

    def _apply(self, word: str, event: Event, body: dict[str, Any]) -> None:
        line = self.line(word, body)
        if not isinstance(line, lines.Tell | lines.Skip):
            apply_line(self.campaign, line, self.state.table, f"event {event.seq}")
            return
        party, key = self.campaign._where(self.questions[line.id])
        told = f"question {line.id} is not open"
        require_state(self.state.is_open(party, key), WHAT, f"event {event.seq}", told)
        code = line.label if isinstance(line, lines.Tell) else SKIPPED
        self.campaign._take(self.questions[line.id], code, line.labeler)
        if self.state.settings.free == "any":
            for number, cards in enumerate(self.cards.values()):  # nobody else is asked
                cards.pop(self.campaign._ids.get((number, key), ""), None)

    def _asked(self, body: dict[str, Any]) -> None:
        """A question is handed out: it must be one that the campaign has, with its account."""
        line = self.line("ask", body)
        assert isinstance(line, lines.Ask)
        asked, campaign = self.questions[line.id], self.campaign
        party, key = campaign._where(asked)
        known = campaign._ids.get((party, key))
        told = f"question {line.id} is not what the campaign asks here"
        require_state(known is not None and self.state.is_open(party, key), WHAT, "", told)
        assert known is not None
        if known != line.id:
            self._rename(known, line.id)
        if not self.state.settings.noise:  # what it is for is as it was recorded
            self.state.purpose[key] = asked.kind
        campaign._questions[line.id] = asked
        require_state(campaign._ask_line(asked) == line, WHAT, "", told)
        campaign._show(asked)

    def _rename(self, known: str, name: str) -> None:
        """Give an open question the id that the log has for it."""
        campaign = self.campaign
        taken = campaign._questions.get(name)
        asked = campaign._questions.pop(known)
        if taken is not None:  # it was not handed out: any other id will do
            campaign._numbered += 1
            other = f"q{campaign._numbered}"
            campaign._ids[campaign._where(taken)] = other
            campaign._questions[other] = Question(
                other, taken.party, taken.item, taken.kind, taken.repeat
            )
        campaign._ids[campaign._where(asked)] = name
        campaign._numbered = max(campaign._numbered, int(name[1:]) if name[1:].isdecimal() else 0)

    def _add_labels(self, event: Event, body: dict[str, Any]) -> None:
        if body.get("known"):
            self.running = new_campaign(self.config, self.known)
            self.tests, self.wants = {}, None
        for name, code, labeler in body.get("answers", ()):
            word = "skip" if code is None else "tell"
            label = {} if code is None else {"label": code}
            self._apply(word, event, {"id": name, "labeler": labeler, **label})

    def _take_back(self, word: str, event: Event, body: dict[str, Any]) -> None:
        """Without some answers; where the rule changed, everything is computed from the record."""
        if self.changes and (word == "retract" or body["forget"]):
            self._reload()
            return
        if word == "party" and body["forget"] and body["party"] in self._left():
            self._reload()  # it had gone, and takes its answers away now
            return
        self._apply(word, event, body)

    def _left(self) -> set[str]:
        return {self.state.names[number] for number in self.state.gone}

    def _reload(self) -> None:
        reload(self.campaign, self)
        self.wants = None
        self.pending = True

    def _left_for_good(self, event: Event) -> None:
        """Somebody who erased what she said has left: the rest is computed again without it."""
        gone = (event.body or {}).get("party", event.actor)
        if gone not in self.missing:
            return
        self.missing.discard(gone)
        if self.runs:
            try:
                self._reload()
                self.settle()
                self._recognise()
            except CounterplayError as error:
                self._depart(event, str(error))

    def _recognise(self) -> None:
        """Find the tests that were told while answers were unknown among those of today."""
        vectors = self.vectors()
        for number in self.since:
            told = self.launched[number]
            key = next((k for k, test in vectors.items() if _tests(test, told)), None)
            require_state(key is not None, WHAT, "", "other labels were tested than would be now")
            assert key is not None
            self.tests[key] = number
            del vectors[key]

    def _go_on(self, event: Event) -> None:
        """Go on from the record by the rule of today, if it has the orders of the checks."""
        if self.committed:
            self.running, self.departed = new_campaign(self.first, self.known), None
            self._reload()
            self._proceed("rule")

    def _depart(self, event: Event, told: str) -> None:
        self.departed = Departure(event.seq, told)
        self.problem = ""
        self.deal()


def plain(record: msgspec.Struct) -> dict[str, Any]:
    """A body as the log holds it."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(record))
    return found


def _tests(test: Any, told: bodies.CampaignLaunched) -> bool:
    vector, _, parties, own, _ = test
    same = (parties, own, vector.n, vector.alpha) == (told.parties, told.own, told.n, told.alpha)
    same = same and vector.items.tolist() == list(told.items)
    return same and vector.labels.tolist() == list(told.labels)
