"""Recount a campaign from the lines of its log: questions, answers, tests, certificates, labels.

The log of the studio holds every question with the account of its party, every answer, and what
was frozen and certified when. Questions are compared with the owners and with what was promised
("asked is at most alone, which never falls"); certificates are recounted at the moment they were
stated, from the answers before them.
Source: docs/theory/24-campaign.md, "The log"; docs/theory/28-studio.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

import msgspec

from counterplay.core import export_bodies as lines
from counterplay.core.exports import Event
from counterplay.core.records import Count, Word, require_state, to_record
from counterplay.verify.campaign import Finding, Recount

_USED = ("label.tell", "label.skip", "label.retract", "label.imported", "label.party")


class _Asked(msgspec.Struct, frozen=True):
    """What counts of ``label.ask``."""

    id: Word
    party: Word
    item: Count
    kind: Literal["learn", "audit"]
    repeat: Count
    passed: Count = 0
    ahead: Count = 0


class _Imported(msgspec.Struct, frozen=True):
    """What counts of ``label.imported``."""

    known: tuple[tuple[Count, Count], ...] | None = None
    answers: tuple[tuple[Word, Count | None, Any], ...] | None = None


class _Added(msgspec.Struct, frozen=True):
    """What counts of ``label.add``."""

    party: Word
    rows: Annotated[tuple[Count, ...], msgspec.Meta(min_length=1, max_length=10_000)]
    joins: bool = False


class _Left(msgspec.Struct, frozen=True):
    """What counts of ``label.party`` when somebody leaves."""

    party: Word
    forget: bool | None = None
    lost: dict[Word, Count] | None = None


class _Agreed(msgspec.Struct, frozen=True):
    """What counts of the settings in ``label.start``."""

    max_error: float
    confidence: float
    noise: float
    first_to: int
    free: Literal["own", "any"]


class _Start(msgspec.Struct, frozen=True):
    """What counts of ``label.start``."""

    n: Count
    parties: dict[Word, tuple[Count, ...]]
    classes: tuple[str | int | float | bool, ...]
    settings: _Agreed
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    commit: Word
    known: dict[str, Count]


class _Rule(msgspec.Struct, frozen=True):
    """What counts of ``label.rule``: the version by whose rule it goes on."""

    library: Word


class LogRecount:
    """The events of one campaign, taken one after the other.

    Parameters
    ----------
    config:
        What was begun, from line 1 of the export.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = to_record(config, lines.CampaignConfig, what="the configuration")
        self.recount = Recount(self.config)
        self.names = list(self.config.parties)
        self.asked: dict[str, _Asked] = {}
        self.open: set[str] = set()
        self.told: dict[str, int | None] = {}
        self.void: dict[str, int] = dict.fromkeys(self.names, 0)
        self.least: dict[str, int] = dict.fromkeys(self.names, 0)
        self.late: set[str] = set()
        """Parties whose account started again after a retraction."""
        self.wrong_work, self.begun = "", False
        self.counts: dict[str, int] = dict.fromkeys(self.names, 0)
        self.gone: set[str] = set()
        """Whose answers were erased and not yet taken out by their leaving."""

    def take(self, event: Event) -> Iterable[Finding]:
        """Take a line; certificates and results are findings."""
        body, what = event.body or {}, f"event {event.seq} of {event.stream[:60]}"
        word = event.kind.removeprefix("label.")
        match word:
            case "start":
                yield self._start(to_record(body, _Start, what=what))
            case "ask":
                self._ask(body, what)
            case "tell" | "skip":
                self._by(body, what)
                self._tell(str(body.get("id")), body.get("label") if word == "tell" else None, what)
            case "imported":
                self._import(body, what)
            case "retract":
                self._by(body, what)
                self._retract(str(body.get("id")), what)
            case "withdraw":
                item = body.get("item")
                inside = type(item) is int and 0 <= item < self.config.items
                require_state(inside, what, "item", "is no item")
                gone = tuple(sorted({*self.config.withdrawn, int(item or 0)}))
                self._replace(withdrawn=gone)
                owners = (p for p, rows in zip(self.names, self.recount.owns) if item in rows)
                self.late |= set(owners)  # nobody would be asked about it alone, either
                self.open = {q for q in self.open if self.asked[q].item != item}
            case "add":
                self._add(body, what)
            case "party":
                self._leave(body, what)
            case "rule":
                to_record(body, _Rule, what=what)
                self._go_on()
            case "launch":
                record = to_record(body, lines.CampaignLaunched, what=what)
                fresh = record.vector not in self.recount.launched
                require_state(fresh, what, "vector", "was launched before")
                self.recount.launch(record, what)
            case "certify":
                passed = to_record(body, lines.CampaignCertified, what=what)
                self.recount.certified[passed.vector] = passed
                yield self._named(passed) or self.recount.test(passed)
            case "result":
                stated = to_record(body, lines.CampaignStated, what=what)
                yield from self.recount.findings(stated)
                yield from self._work()

    def erased(self, event: Event) -> None:
        """Content is gone: what rests on it cannot be recounted until its party has left."""
        if event.kind in _USED:
            self.gone.add(event.actor)
        if event.kind == "label.retract":
            self._again()

    def so_far(self) -> Iterable[Finding]:
        """What can be said of a campaign that is not finished."""
        yield self.recount.commitment()
        yield from self.recount.levels()
        yield from self._work()

    def _start(self, start: _Start) -> Finding:
        """The log must begin with what the configuration says."""
        config, agreed, self.begun = self.config, start.settings, True
        for name, told, known in (
            ("items", start.n, config.items),
            ("parties", start.parties, dict(config.parties)),
            ("classes", tuple(map(str, start.classes)), config.classes),
            ("max_error", agreed.max_error, config.max_error),
            ("confidence", agreed.confidence, config.confidence),
            ("noise", agreed.noise > 0, config.noisy),
            ("first_to", agreed.first_to, config.first_to),
            ("seed", start.seed, config.seed),
            ("commit", start.commit, config.commit),
            ("known", start.known, {str(item): code for item, code in config.known}),
        ):
            if told != known:
                return "beginning", f"{name} is not that of the configuration", ""
        self._replace(free=agreed.free)
        return "beginning", None, "settings, parties and orders of the configuration"

    def _named(self, passed: lines.CampaignCertified) -> Finding | None:
        """What is wrong with the name of whose labels a certificate speaks of, if anything."""
        test, scope = self.recount.launched.get(passed.vector), passed.scope
        if test is None:
            return None
        covered = {self.names[place] for place in test.parties}
        fits = covered == {scope} or (scope == "all parties" and covered == set(self.names))
        fits = fits or (not test.own and scope.startswith(("remaining parties", "later parties")))
        told = ", ".join(sorted(covered))
        return None if fits else (f"certificate of {scope[:60]}", f"it covers {told:.100}", "")

    def _ask(self, body: dict[str, Any], what: str) -> None:
        asked = to_record(body, _Asked, what=what)
        require_state(self.begun, what, "", "the campaign has not begun")
        require_state(asked.party in self.names, what, "party", "there is no such party")
        place = self.names.index(asked.party)
        require_state(asked.item in self.recount.owns[place], what, "item", "is not the party's")
        fresh = (asked.id not in self.open and asked.id not in self.told) or bool(self.gone)
        require_state(fresh, what, "id", "was asked before and is not answered")
        self.asked[asked.id] = asked
        self.open.add(asked.id)
        alone = asked.passed + asked.ahead
        mine = asked.party
        if alone < self.least[mine] and mine not in self.late and not self.wrong_work:
            self.wrong_work = f"{mine}: alone at least fell from {self.least[mine]} to {alone}"
        self.least[mine] = max(alone, 0 if mine in self.late else self.least[mine])
        self.late.discard(mine)
        paid = self._paid(mine)
        if paid > self.least[mine] + self.void[mine] and not self.wrong_work:
            self.wrong_work = f"{mine}: {paid} asked, alone at least {self.least[mine]}"

    def _paid(self, party: str) -> int:
        waiting = sum(bool(self.asked[q].party == party) for q in self.open)
        return self.counts[party] + waiting

    def _by(self, body: dict[str, Any], what: str) -> None:
        """An answer is given, and taken back, by the party that was asked."""
        asked, party = self.asked.get(str(body.get("id"))), body.get("party")
        fits = asked is None or party in (None, asked.party)
        require_state(fits, what, "party", "was not asked this")

    def _tell(self, name: str, label: Any, what: str) -> None:
        require_state(name in self.open, what, "id", "is no open question")
        fits = label is None or (type(label) is int and 0 <= label < len(self.config.classes))
        require_state(fits, what, "label", "is no class")
        asked = self.asked[name]
        told = lines.CampaignTold(
            id=name, party=self.names.index(asked.party), item=asked.item,
            kind=asked.kind, repeat=asked.repeat, label=label,
        )  # fmt: skip
        self.recount.told(told, what)
        self.open.discard(name)
        self.told[name] = label
        self.counts[asked.party] += 1

    def _import(self, body: dict[str, Any], what: str) -> None:
        imported = to_record(body, _Imported, what=what)
        if imported.known:
            require_state(not self.told, what, "known", "came after the first answer")
            n, classes = self.config.items, len(self.config.classes)
            fits = all(i < n and c < classes for i, c in imported.known)
            require_state(fits, what, "known", "there is no such item or class")
            given = dict(self.config.known) | dict(imported.known)
            self._replace(known=tuple(sorted(given.items())))
            self.asked, self.open = {}, set()
            self.least = dict.fromkeys(self.names, 0)
            self.recount.launched.clear()
        for name, code, _ in imported.answers or ():
            self._tell(name, code, what)

    def _add(self, body: dict[str, Any], what: str) -> None:
        added = to_record(body, _Added, what=what)
        n = self.config.items
        fits = added.rows == tuple(range(n, n + len(added.rows)))
        require_state(fits, what, "rows", f"must follow row {n - 1}")
        fresh = added.party not in self.names
        require_state(fresh == added.joins, what, "joins", "is not true of the party")
        if fresh:
            self.names.append(added.party)
            for account in (self.void, self.least, self.counts):
                account[added.party] = 0
        self._replace(items=n + len(added.rows), blocks=(*self.config.blocks, len(added.rows)))
        self.recount.add(self.names.index(added.party), added.rows)
        self.late |= set(self.names)  # with more items everybody's account is another one

    def _retract(self, name: str, what: str) -> None:
        require_state(name in self.told, what, "id", "has no answer to take back")
        self._forget(name)
        party = self.asked[name].party
        self.void[party] += 1
        self._again()

    def _leave(self, body: dict[str, Any], what: str) -> None:
        left = to_record(body, _Left, what=what)
        party = left.party
        require_state(party in self.names, what, "party", "there is no such party")
        self.open = {q for q in self.open if self.asked[q].party != party}
        if left.forget:
            for name in [q for q in self.told if self.asked[q].party == party]:
                self._forget(name)
            for other, lost in (left.lost or {}).items():
                if other in self.void:
                    self.void[other] += lost
            self._again()

    def _forget(self, name: str) -> None:
        asked = self.asked[name]
        kind = asked.kind if self.config.noisy else "label"
        key = (asked.item, kind, asked.repeat)
        self.recount.answers.get(key, {}).pop(self.names.index(asked.party), None)
        if not self.recount.answers.get(key, True):
            del self.recount.answers[key]
        del self.told[name]

    def _again(self) -> None:
        """Everything is computed again without an answer: what was certified is stated anew."""
        self.recount.certified.clear()
        self._account_again()

    def _go_on(self) -> None:
        """Another rule takes over: open questions are withdrawn, what was certified stands."""
        self.open.clear()
        self.recount.draw_again()
        self._account_again()

    def _account_again(self) -> None:
        for party in self.names:  # answers that the new path does not ask for may become void
            self.late.add(party)
            given = self._paid(party) if self.gone else self.counts[party]  # erased ones look open
            self.void[party] = max(self.void[party], given)

    def _replace(self, **changes: Any) -> None:
        self.config = msgspec.structs.replace(self.config, **changes)
        self.recount.config = self.config

    def _work(self) -> Iterable[Finding]:
        told = ", ".join(f"{name} {self.counts[name]}" for name in self.names[:8])
        yield "answers of each party", None, told
        wrong = self.wrong_work or None
        yield "work of each party", wrong, "asked is at most alone at least, at every question"


def campaign_log(config: dict[str, Any], events: Sequence[Event]) -> Iterable[Finding | str]:
    """Findings of a campaign's log; a text stands for something that was erased.

    Parameters
    ----------
    config:
        The configuration of line 1.
    events:
        The events of the campaign's stream, in order.
    """
    recount = LogRecount(config)
    leavers = _leavers(events)
    stated = False
    for event in events:
        if not event.kind.startswith("label."):
            continue
        stated = stated or event.kind == "label.result"
        if event.body is None:
            recount.erased(event)
        elif recount.gone and event.kind in ("label.certify", "label.result"):
            yield "certificate" if event.kind == "label.certify" else "labels"
        else:
            yield from recount.take(event)
            recount.gone.discard(leavers.get(event.seq, ""))
    if not stated:
        yield from recount.so_far()


def _leavers(events: Sequence[Event]) -> dict[int, str]:
    """Who left with each ``label.party``: it says so, or the withdrawal that comes next does."""
    found: dict[int, str] = {}
    waiting: list[int] = []
    for event in events:
        body = event.body or {}
        if event.kind == "label.party" and body.get("forget"):
            if isinstance(body.get("who"), str):
                found[event.seq] = body["who"]
            else:
                waiting.append(event.seq)
        elif event.kind == "party.withdrawn" and waiting:
            found[waiting.pop(0)] = str(body.get("party", event.actor))
    return found
