"""What a campaign is made of, and how it goes on when answers arrive.

The state is a function of the settings and of what people did: answers, withdrawals, comings and
goings. After a retraction it is computed again without the answer; everything else that was paid
for stays and is used.
Source: docs/theory/24-campaign.md, "Comings, goings, retraction".
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from counterplay.core.records import canonical
from counterplay.core.seeds import derive_seed
from counterplay.core.validation import FloatArray, IntArray
from counterplay.errors import InvalidInputError
from counterplay.labeling.committee_votes import CommitteeModel
from counterplay.labeling.joint import Joint, JointSettings, Scope, Wants
from counterplay.labeling.models import PoolModel, RefittedModel
from counterplay.labeling.shadow import Answers, Free, Key, Shadow
from counterplay.labeling.solo import SoloPool
from counterplay.tables import Table


@dataclass(frozen=True)
class CampaignSettings:
    """Everything that is fixed at the start."""

    classes: tuple[Any, ...]
    learner: Any
    committee: int
    max_error: float
    confidence: float
    scope: Scope
    noise: float
    first_to: int
    free: Free
    stake: int
    batch: int
    solo: Any
    seed: int

    @property
    def alpha(self) -> float:
        """Probability of a false certificate."""
        return round(1.0 - self.confidence, 12)


@dataclass
class Amendment:
    """New items of a party, which come in at the beginning of a round."""

    round: int
    party: int
    items: IntArray
    size: int  # rows of the table from then on


@dataclass
class CampaignState:
    """A campaign in progress."""

    settings: CampaignSettings
    table: Table
    names: list[str]
    rows: list[IntArray]  # of each party at the start, or when it joined
    known: dict[int, int]
    blocks: list[int] = field(default_factory=list)  # rows at the start, then of every addition
    amendments: list[Amendment] = field(default_factory=list)
    given: dict[Key, dict[int, int]] = field(default_factory=dict)
    purpose: dict[Key, str] = field(default_factory=dict)
    withdrawn: dict[int, str] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    joined: dict[int, int] = field(default_factory=dict)  # party -> round
    extra: dict[int, int] = field(default_factory=dict)  # work that a retraction made void
    kept: list[tuple[int, int]] = field(default_factory=list)
    paid: dict[int, set[Key]] = field(default_factory=dict)  # before the last retraction
    outside: frozenset[int] = frozenset()
    left: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # account when it went
    late: list[int] = field(default_factory=list)  # items of a party that was done by then
    spent: tuple[dict[int, float], dict[int, float]] = field(default_factory=lambda: ({}, {}))
    order: int = 0  # which of the seed's audit orders is in use
    stand: dict[int, int] = field(default_factory=dict)  # labels of certificates from before

    def __post_init__(self) -> None:
        if not self.blocks:
            self.blocks = [len(self.table)]
        self.wants: Wants = []
        self.finished = False
        self.joint: Joint | None = None
        self._run: Generator[Wants, None, None] | None = None

    def keys(self, party: int, order: int | None = None) -> FloatArray:
        """Random key of every row for a party; sorting by it gives the audit order."""
        chosen = self.order if order is None else order
        again = (chosen,) if chosen else ()
        streams = (
            np.random.default_rng(
                derive_seed("audit order", self.settings.seed, party, block, *again)
            )
            for block in range(len(self.blocks))
        )
        return np.concatenate([rng.random(n) for rng, n in zip(streams, self.blocks)])

    def commitment(self) -> str:
        """SHA-256 of all audit keys: it fixes the orders without telling them."""
        state = hashlib.sha256()
        for party in range(len(self.names)):
            state.update(self.keys(party, 0).astype("<f8").tobytes())
        return state.hexdigest()

    def advance(self) -> None:
        """Go on until an answer is missing or everybody is done."""
        if self._run is None and not self.finished:
            self._begin()
        while not self.finished and not self.waiting():
            assert self._run is not None
            assert self.joint is not None
            if not self.wants:
                self._amend()
            try:
                self.wants = next(self._run)
            except StopIteration:
                self.finished, self.wants = True, []
            except InvalidInputError:
                self._run = None  # no answer is lost: the next call begins again
                raise

    def open(self) -> Wants:
        """Questions that the protocol waits for."""
        return [] if self.joint is None else [want for want in self.wants if self._waits(*want)]

    def waiting(self) -> bool:
        """Whether the protocol waits for any answer."""
        return self.joint is not None and any(self._waits(*want) for want in self.wants)

    def is_open(self, party: int, key: Key) -> bool:
        """Whether the protocol waits for an answer to this question."""
        return self.joint is not None and (party, key) in self.wants and self._waits(party, key)

    def _waits(self, party: int, key: Key) -> bool:
        told = self.given.get(key, ())
        answered = bool(told) if self.settings.free == "any" else party in told
        return not answered and party not in self.gone and key[0] not in self.withdrawn

    def take(self, party: int, key: Key, code: int) -> None:
        """Record an answer."""
        self.given.setdefault(key, {})[party] = code

    def retract(self, party: int, key: Key, *, blind: bool) -> None:
        """Compute the state again without an answer; nothing that was spent comes back."""
        self._remember(blind)
        del self.given[key][party]
        if not self.given[key]:
            del self.given[key]
        self.extra[party] = self.extra.get(party, 0) + 1
        self._restart()

    def leave(self, party: int, *, forget: bool) -> None:
        """A party goes; its answers stay unless they are to be forgotten."""
        self.gone.add(party)
        if self.joint is not None and party in self.joint.shadows:
            shadow = self.joint.shadows[party]
            self.left[party] = shadow.alone_at_least, shadow.free, len(shadow.outside)
            shadow.finished_by = "left"
            self.joint.leave(party)
        if not forget:
            return
        self.left.pop(party, None)
        self._remember(blind=True)
        if self.joint is not None:
            for other, shadow in self.joint.shadows.items():
                lost = sum(set(self.given.get(key, ())) == {party} for key in shadow.passed)
                if other != party and lost:
                    self.extra[other] = self.extra.get(other, 0) + lost
        for key in [key for key, told in self.given.items() if party in told]:
            del self.given[key][party]
            if not self.given[key]:
                del self.given[key]
        self.kept = [pair for pair in self.kept if pair[0] != party]
        self.extra.pop(party, None)  # nothing is left of its account
        self._restart()

    def withdraw(self, item: int, reason: str) -> None:
        """An item leaves all pools."""
        self.withdrawn[item] = reason
        if self.joint is None:
            return
        self.joint.answers.withdrawn.add(item)
        self.joint.drop(item)
        for shadow in self.joint.shadows.values():
            self._withdraw_from(shadow, item)
            open_keys = {key for key in shadow.put if key[0] == item and key not in self.given}
            shadow.put -= open_keys

    def _withdraw_from(self, shadow: Shadow, item: int) -> None:
        """Tell a party's run, if it can hear it."""
        if item in shadow.items and hasattr(shadow.run, "withdraw"):
            answered = bool(self.given.get(shadow.answers.key(item, "audit")))
            shadow.run.withdraw(item, answered=answered)

    def add(self, table: Table, party: int, items: IntArray) -> None:
        """New items of a party come in at the beginning of the next round."""
        self.blocks.append(len(table) - len(self.table))
        self.table = table
        begin = 0 if self.joint is None else self.joint.round + 1
        self.amendments.append(Amendment(begin, party, items, len(table)))

    def asked(self, party: int) -> int:
        """Questions put to a party, answered or open."""
        shadow = None if self.joint is None else self.joint.shadows.get(party)
        paid = {key for key, told in self.given.items() if party in told}
        put = shadow.put if shadow is not None else set()
        waiting = {key for who, key in self.open() if who == party}
        return len(paid | (put & waiting)) + self._taken_back(party)

    def void(self, party: int) -> int:
        """Answers that are retracted, or paid for before a retraction and off the path now."""
        shadow = None if self.joint is None else self.joint.shadows.get(party)
        if shadow is None:
            return self._taken_back(party)
        stray = self.paid.get(party, set()) & self._paid(party)
        stray = stray - shadow.passed.keys() - shadow.core_keys()
        return self._taken_back(party) + len(stray)

    def digest(self) -> str:
        """Hash of answers, open questions and tested vectors, whatever the order of arrival."""
        joint = self.joint
        vectors = [] if joint is None else [
            [scope, v.number, v.checked, v.wrong, v.known_wrong, bool(v.dead), v.alpha]
            for scope, group in sorted(joint.vectors.items())
            for v in group
        ]  # fmt: skip
        content = {
            "given": sorted(
                [*key, p, c] for key, told in self.given.items() for p, c in told.items()
            ),
            "open": sorted([party, *key] for party, key in self.open()),
            "vectors": vectors,
        }
        return hashlib.sha256(canonical(content)).hexdigest()

    def model(self, table: Table, name: int) -> PoolModel:
        """A model for the rows of a table."""
        s = self.settings
        seed = derive_seed("model", s.seed, name)
        if s.committee:
            return CommitteeModel(table, s.learner, len(s.classes), seed, s.committee)
        return RefittedModel(table, s.learner, len(s.classes), seed)

    def items_of(self, party: int) -> IntArray:
        """All items of a party, additions included."""
        new = [a.items for a in self.amendments if a.party == party]
        return np.unique(np.concatenate([self.rows[party], *new])).astype(np.int64)

    def solo_pool(self, party: int, items: IntArray) -> SoloPool:
        """What a party's solo run sees."""
        s = self.settings
        return SoloPool(
            items=items, keys=self.keys(party), model=self.model(self.table.part(items), party),
            n_classes=len(s.classes), max_error=s.max_error, alpha=s.alpha,
            alpha_left=self.spent[0].get(party, s.alpha), seed=derive_seed(s.seed, party),
            known={x: c for x, c in self.known.items() if x in set(items.tolist())} if self.known
            else {}, noise=s.noise, batch=s.batch, outside=self.outside,
            lost=frozenset(x for x in self.outside if x in set(items.tolist())
                           and not self._has_label(x)),
        )  # fmt: skip

    def _begin(self) -> None:
        """Start the protocol with everything that is known."""
        s = self.settings
        answers = Answers(s.first_to, s.noise > 0, s.free, self.known)
        answers.given, answers.purpose = self.given, self.purpose
        answers.withdrawn = set(self.withdrawn)
        early = [a for a in self.amendments if a.round == 0]
        size = max([self.blocks[0], *(a.size for a in early)])
        parties = [p for p in range(len(self.names)) if p not in self.gone]
        shadows = {p: self._shadow(p, answers) for p in parties if self.joined.get(p, 0) == 0}
        joint = len(self.names) > 1
        settings = JointSettings(
            names=self.names, n_items=size, n_classes=len(s.classes), max_error=s.max_error,
            alpha=s.alpha, scope=s.scope, noise=s.noise, stake=s.stake,
            keys={p: self.keys(p) for p in range(len(self.names))},
            model=self.model(self.table.part(slice(0, size)), -1) if joint else None,
            outside=self.outside, alpha_left=dict(self.spent[1]),
        )  # fmt: skip
        self.joint = Joint(shadows, answers, settings, self.kept)
        self.joint.settled = dict(self.stand)
        self._run = self.joint.run()
        self.wants, self.late = [], []

    def _shadow(self, party: int, answers: Answers, upto: int = 0) -> Shadow:
        new = [a.items for a in self.amendments if a.party == party and a.round <= upto]
        items = np.unique(np.concatenate([self.rows[party], *new])).astype(np.int64)
        solo = self.settings.solo
        chosen = solo[self.names[party]] if isinstance(solo, dict) else solo
        shadow = Shadow(party, items.tolist(), chosen.start(self.solo_pool(party, items)), answers)
        shadow.put |= self._paid(party)
        for item in self.withdrawn:
            self._withdraw_from(shadow, item)
        return shadow

    def _paid(self, party: int) -> set[Key]:
        return {key for key, told in self.given.items() if party in told}

    def _taken_back(self, party: int) -> int:
        return self.extra.get(party, 0)

    def _amend(self) -> None:
        """Let items and parties in that came since the last round."""
        joint = self.joint
        assert joint is not None
        if not joint.round:
            return
        now = [a for a in self.amendments if a.round == joint.round]
        if not now:
            return
        settings = joint.settings
        # after a retraction rounds count anew: what came later may come in earlier
        settings.n_items = max([settings.n_items, *(a.size for a in now)])
        settings.names = self.names
        settings.keys = {p: self.keys(p) for p in range(len(self.names))}
        if len(self.names) > 1:
            settings.model = self.model(self.table.part(slice(0, settings.n_items)), -1)
        joint.scores = None
        for change in now:
            self._let_in(change)

    def _let_in(self, change: Amendment) -> None:
        joint, party = self.joint, change.party
        assert joint is not None
        shadow = joint.shadows.get(party)
        if shadow is None and party not in self.gone:
            joint.shadows[party] = self._shadow(party, joint.answers, change.round)
            joint.add(party, ())
        elif shadow is not None and party not in self.gone and not shadow.live:
            self.late += change.items.tolist()
        elif shadow is not None and shadow.live:
            joint.add(party, change.items.tolist())
            items = np.array(sorted(shadow.items), dtype=np.int64)
            shadow.run.add(
                change.items, self.keys(party), self.model(self.table.part(items), party)
            )
            shadow.refresh()

    def _has_label(self, item: int) -> bool:
        """Whether people gave the item a label, adjudicated where answers may be wrong."""
        s = self.settings
        counts: dict[tuple[int, int], int] = {}
        for (x, kind, _), told in self.given.items():
            if x == item and kind != "learn":
                for pair in told.items():
                    counts[pair] = counts.get(pair, 0) + 1
        return any(n >= s.first_to and code >= 0 for (_, code), n in counts.items())

    def _remember(self, blind: bool) -> None:
        """Keep what was spent and paid before the state is computed again."""
        joint = self.joint
        learned = [
            (party, key[0])
            for key, told in self.given.items()
            for party in told
            if self.purpose.get(key) == "learn"
        ]
        self.kept = sorted({*self.kept, *learned})
        self.paid = {p: self.paid.get(p, set()) | self._paid(p) for p in range(len(self.names))}
        if joint is None:
            return
        own = {
            p: shadow.run.alpha_left
            for p, shadow in joint.shadows.items()
            if hasattr(shadow.run, "alpha_left")
        }
        self.spent = ({**self.spent[0], **own}, dict(joint.settings.alpha_left))
        if not blind:
            checked = {key[0] for key in self.given if self.purpose.get(key) == "audit"}
            self.outside = self.outside | frozenset(checked)

    def _restart(self) -> None:
        self._run, self.joint, self.finished, self.wants = None, None, False, []
        for change in self.amendments:  # the new path may be shorter: all that came is there
            change.round = 0
        self.joined = dict.fromkeys(self.joined, 0)
        self.kept = [pair for pair in self.kept if self._still_learned(*pair)]

    def _still_learned(self, party: int, item: int) -> bool:
        kind = "learn" if self.settings.noise else "label"
        return party in self.given.get((item, kind, 0), {})
