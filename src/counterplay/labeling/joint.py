"""The joint protocol: shadow runs learn, a joint model stops them earlier, an audit decides.

Rounds are synchronous: the protocol waits until every question it has put is answered, so the state
does not depend on who was quicker. It is written as a generator that yields the questions it waits
for.
Source: docs/theory/24-campaign.md, "The joint protocol".
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from counterplay.core.validation import FloatArray, IntArray
from counterplay.labeling.certificate import WITHDRAWN, FrozenVector, LabelCertificate, by_order
from counterplay.labeling.models import PoolModel
from counterplay.labeling.scores import calibration, frozen_labels, judged, smallest_margins
from counterplay.labeling.shadow import Answers, Key, Shadow
from counterplay.labeling.solo import GROWTH

Scope = Literal["party", "union"]
Wants = list[tuple[int, Key]]
UNION = -1
"""Stands for all parties where a party's number could stand."""


@dataclass
class JointSettings:
    """What the joint protocol needs to know besides the shadow runs."""

    names: Sequence[str]
    n_items: int
    n_classes: int
    max_error: float
    alpha: float
    scope: Scope
    noise: float
    stake: int
    keys: Mapping[int, FloatArray]
    model: PoolModel | None  # None: one party, together is alone
    outside: frozenset[int] = frozenset()
    alpha_left: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Launch:
    """A joint vector was frozen."""

    scope: int
    vector: FrozenVector


@dataclass(frozen=True)
class Certified:
    """A joint vector was certified: the parties it covers are done."""

    scope: int
    vector: FrozenVector
    certificate: LabelCertificate


class Joint:
    """The joint protocol in progress.

    Parameters
    ----------
    shadows:
        The parties' shadow runs, by number.
    answers:
        What people said.
    settings:
        Everything else.
    kept:
        Learning answers from before a retraction: ``(party, item)``; they train from the start.
    """

    def __init__(
        self,
        shadows: dict[int, Shadow],
        answers: Answers,
        settings: JointSettings,
        kept: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.shadows, self.answers, self.settings = shadows, answers, settings
        self.round = 0
        self.trained: dict[tuple[int, int], None] = dict.fromkeys(kept)  # (party, item), in order
        self.scores: FloatArray | None = None
        self.vectors: dict[int, list[FrozenVector]] = {}
        self.covers: dict[int, tuple[int, ...]] = {}  # vector number -> parties
        self.certified: list[Certified] = []
        self.settled: dict[int, int] = {}  # labels that certificates speak of; the first stays
        self.emitted: list[Launch | Certified] = []
        self.left_by_own: set[int] = set()
        self._judged: list[tuple[bool, float]] = []
        self._at_launch: dict[int, int] = {}
        self._launched = 0
        empty = np.empty(0, dtype=np.int64)
        self._training: tuple[IntArray, IntArray] = empty, empty

    @property
    def live(self) -> list[Shadow]:
        """Shadow runs of parties that still work."""
        return [shadow for shadow in self.shadows.values() if shadow.live]

    def run(self) -> Generator[Wants, None, None]:
        """Rounds until nobody works; yields what must be answered before it can go on."""
        while self.live:
            yield from self._learn()
            if self.settings.model is not None and self.live:
                self._fit()
                self._launch_all()
                yield from self._test()
            if self.live and all(shadow.waits for shadow in self.live):
                yield from self._release()
            self.round += 1
            yield []  # a place where items and parties may come in

    def drop(self, item: int) -> None:
        """An item was withdrawn: vectors that hold it die, or if it was skipped begin again."""
        for vectors in self.vectors.values():
            for vector in vectors:
                if not vector.dead and item in vector.items:
                    vector.dead = not self._is_checked(item)
                    vector.begin_again()

    def leave(self, party: int) -> None:
        """A party has left or has its own certificate: vectors that cover it die."""
        for vectors in self.vectors.values():
            for vector in vectors:
                vector.dead |= party in self.covers[vector.number]

    def _is_checked(self, item: int) -> bool:
        return bool(self.answers.given.get(self.answers.key(item, "audit")))

    def add(self, party: int, items: Sequence[int]) -> None:
        """A party has new items: vectors that cover its pool die, what they spent stays spent."""
        self.shadows[party].items.update(items)
        for vectors in self.vectors.values():
            for vector in vectors:
                vector.dead |= party in self.covers[vector.number]
        self._at_launch.clear()

    def _learn(self) -> Generator[Wants, None, None]:
        """Every party that wants to learn gets its questions; slack buys more."""
        learners = [shadow for shadow in self.live if not shadow.waits]
        bought = self._bought()
        while wants := [(s.party, key) for s in learners if s.live for key in s.wanted()] + [
            (party, key)
            for party, key in bought
            if self.shadows[party].live and self.answers.lookup(party, key) is None
        ]:
            yield self._put(wants, "learn")
        for shadow in learners:
            if shadow.live and shadow.step is not None:
                items = shadow.step.items
                self._note(shadow.party, items, shadow.feed())
        for party, key in bought:
            if (found := self.answers.lookup(party, key)) is not None:
                self._note(party, (key[0],), {key[0]: found})
        self._retire()

    def _bought(self) -> Wants:
        """Questions of the joint model's choice, as many as free learning answers made room for."""
        wants: Wants = []
        if self.scores is None:
            return wants
        taken = {item for _, item in self.trained}
        for shadow in self.live:
            outside = len(shadow.outside)
            room = min(shadow.slack, shadow.free_learning - outside)
            # the questions of its own step are put in this round, too
            room -= len(shadow.wanted()) if not shadow.waits else 0
            if room < 1:
                continue
            mine = np.array(sorted(shadow.items - taken - self.answers.withdrawn), dtype=np.int64)
            keys = [self.answers.key(int(x), "learn") for x in mine]
            mine = mine[[key not in self.answers.given and key not in shadow.put for key in keys]]
            for place in smallest_margins(self.scores[mine], room) if mine.size else ():
                key = self.answers.key(int(mine[place]), "learn")
                shadow.outside.add(key)
                self.answers.purpose.setdefault(key, "learn")
                wants.append((shadow.party, key))
        return wants

    def _note(self, party: int, items: Sequence[int], results: Mapping[int, int]) -> None:
        """Learning answers train the joint model; its own predictions are judged first."""
        if self.scores is not None:
            places = np.array(items, dtype=np.int64)
            self._judged += judged(self.scores[places], [results[x] for x in items])
        for item in items:
            self.trained.setdefault((party, item))

    def _put(self, wants: Wants, kind: str) -> Wants:
        """Put questions; where answers are shared each goes to one party, the others wait."""
        put: Wants = []
        seen: set[Key] = set()
        for party, key in wants:
            if self.answers.free == "any":
                if key in seen:
                    continue
                seen.add(key)
            self.shadows[party].put.add(key)
            self.answers.purpose.setdefault(key, kind)
            put.append((party, key))
        return put

    def _retire(self) -> None:
        """Parties whose own run has stopped: they take no part in later union vectors."""
        for party, shadow in self.shadows.items():
            if shadow.finished_by == "own" and party not in self.left_by_own:
                self.left_by_own.add(party)
                self.leave(party)
                certified = getattr(shadow.run, "certified", None)
                if certified is not None and self.settled:
                    certified.note_settled(self.fixed(), self.settled)
                    shadow.run.certificate = certified.certificate("", 1.0 - self.settings.alpha)
                self._settle(getattr(shadow.run, "frozen", None) or {})

    def _fit(self) -> None:
        model = self.settings.model
        assert model is not None
        self._training = self._read_training()
        self.scores = model.fit(*self._training)

    def _read_training(self) -> tuple[IntArray, IntArray]:
        """Items and codes of all learning answers; kept ones about items to come must wait."""
        pairs = list(self.answers.known.items())
        pairs += [
            (item, code)
            for party, item in self.trained
            if item < self.settings.n_items
            and (code := self.answers.result(party, item, "learn")) is not None
            and code >= 0
        ]
        rows, codes = zip(*pairs) if pairs else ((), ())
        return np.array(rows, dtype=np.int64), np.array(codes, dtype=np.int64)

    def _scopes(self) -> list[tuple[int, tuple[int, ...]]]:
        """For whom a vector may be launched: each party, or all that still work together."""
        parties = tuple(shadow.party for shadow in self.live)
        if self.settings.scope == "party":
            return [(party, (party,)) for party in parties]
        return [(UNION, parties)]

    def _launch_all(self) -> None:
        """Launch a vector where the joint model is promising, or where everybody waits."""
        size = len(self.trained)
        waiting = all(shadow.waits for shadow in self.live)
        for scope, parties in self._scopes():
            alive = [v for v in self.vectors.get(scope, ()) if not v.dead]
            last = self._at_launch.get(scope, 0)
            if not (size >= GROWTH * last or (waiting and not alive and size > last)):
                continue
            if waiting or self._promising(self._pool_of(parties)):
                self._launch(scope, parties, waiting)
                self._at_launch[scope] = max(1, size)

    def _pool_of(self, parties: Sequence[int]) -> IntArray:
        items = set().union(*(self.shadows[party].items for party in parties))
        return np.array(sorted(items - self.answers.withdrawn), dtype=np.int64)

    def _unlabelled(self, pool: IntArray) -> IntArray:
        """Items of a pool without a learning answer that is a label."""
        return pool[~np.isin(pool, self._training[0])]

    def _promising(self, pool: IntArray) -> bool:
        assert self.scores is not None
        left = self._unlabelled(pool)
        doubt = float((1.0 - self.scores[left].max(axis=1)).sum()) if left.size else 0.0
        return calibration(self._judged) * doubt / len(pool) <= self.settings.max_error / 2

    def _launch(self, scope: int, parties: tuple[int, ...], waiting: bool) -> None:
        """Freeze labels for a pool, at half of what is left of its alpha."""
        s = self.settings
        assert self.scores is not None
        assert s.model is not None
        pool = self._pool_of(parties)
        labels = frozen_labels(self.scores, s.model, *self._training, s.noise)
        taken = [x for x in self._unlabelled(pool).tolist() if x in self.settled]
        if waiting:  # where the joint model is not good enough, a party's own may be
            for party in parties:
                mine = self._pool_of([party])
                own = getattr(self.shadows[party].run, "frozen", None)
                if own and not self._promising(mine):
                    both = [x for x in self._unlabelled(mine).tolist() if x in own]
                    labels[both] = [own[x] for x in both]
        labels[taken] = [self.settled[x] for x in taken]
        holds = pool if s.noise else self._unlabelled(pool)
        out = [*self.answers.known, *s.outside]
        holds = np.union1d(holds[~np.isin(holds, out)], self._withdrawn_checks(parties))
        population = by_order(holds, self._order_keys(parties))
        aside = pool[np.isin(pool, list(s.outside))]
        left = s.alpha_left.get(scope, s.alpha) / 2.0
        s.alpha_left[scope] = left
        vector = FrozenVector(
            self._launched, population, labels[population], n=len(pool), max_error=s.max_error,
            alpha=left, lost=int((self.fixed()[aside] < 0).sum()),
        )  # fmt: skip
        self._launched += 1
        self.vectors.setdefault(scope, []).append(vector)
        self.covers[vector.number] = parties
        self.emitted.append(Launch(scope, vector))

    def _withdrawn_checks(self, parties: Sequence[int]) -> IntArray:
        """Items that were skipped when they were checked and then withdrawn: a test counts them."""
        mine = set().union(*(self.shadows[party].items for party in parties))
        gone = filter(self._is_checked, (self.answers.withdrawn & mine) - self.settings.outside)
        skipped = sorted(x for x in gone if self._result(x, parties) == WITHDRAWN)
        return np.array(skipped, dtype=np.int64)

    def _order_keys(self, parties: Sequence[int]) -> FloatArray:
        """The key of each item: that of its home, the first of the parties that owns it."""
        keys = np.ones(self.settings.n_items)
        for party in reversed(parties):
            mine = list(self.shadows[party].items)
            keys[mine] = self.settings.keys[party][mine]
        return keys

    def _home(self, item: int, parties: Sequence[int]) -> int:
        return next(party for party in parties if item in self.shadows[party].items)

    def _test(self) -> Generator[Wants, None, None]:
        """Check launched vectors along the order, with questions that are in the owners' cores."""
        while True:
            wants: Wants = []
            for scope, vectors in list(self.vectors.items()):
                for vector in vectors:
                    self._look(scope, vector)
                alive = [v for v in vectors if not v.dead]
                if alive:
                    wants += self._checks(alive[-1])
            if not wants or not self.live:
                return
            yield self._put(wants, "audit")

    def _look(self, scope: int, vector: FrozenVector) -> None:
        """Use all answers for a vector; it is certified, given up, or goes on."""
        if vector.dead:
            return
        parties = self.covers[vector.number]
        vector.advance(lambda x: self._result(x, parties))
        fixed = self.fixed()
        vector.note_answers(fixed)
        if self.settled:
            vector.note_settled(fixed, self.settled)
        if vector.is_certified():
            self._certify(scope, vector)
        elif vector.is_hopeless():
            vector.dead = True

    def _result(self, item: int, parties: Sequence[int]) -> int | None:
        return self.answers.result(self._home(item, parties), item, "audit")

    def fixed(self) -> IntArray:
        """The label that a person's answer fixes for each item; -1 where there is none."""
        labels = np.full(self.settings.n_items, -1, dtype=np.int64)
        for item in {key[0] for key in self.answers.given if key[1] != "learn"}:
            if item < len(labels):  # others are still to come in
                labels[item] = self.answers.fixed(item)
        return labels

    def _certify(self, scope: int, vector: FrozenVector) -> None:
        s = self.settings
        parties = self.covers[vector.number]
        certificate = vector.certificate(self._name(scope, parties), 1.0 - s.alpha)
        event = Certified(scope, vector, certificate)
        self.certified.append(event)
        self.emitted.append(event)
        self._settle(dict(zip(vector.items.tolist(), vector.labels.tolist())))
        for other in self.vectors[scope]:
            other.dead = True
        for party in parties:
            if self.shadows[party].live:
                self.shadows[party].finished_by = "joint"

    def _settle(self, labels: Mapping[int, int]) -> None:
        """Labels that a certificate speaks of; those of an earlier one stay."""
        self.settled = {**labels, **self.settled}

    def _name(self, scope: int, parties: Sequence[int]) -> str:
        if scope != UNION:
            return self.settings.names[scope]
        if len(parties) == len(self.settings.names):
            return "all parties"
        before = sum(event.scope == UNION for event in self.certified)
        names = ("remaining parties", "later parties", f"later parties {before}")
        return names[min(before, 2)]

    def _checks(self, vector: FrozenVector) -> Wants:
        """The next checks of a vector, up to the first that its owner would not surely make."""
        wants: Wants = []
        parties = self.covers[vector.number]
        for item in vector.to_check().tolist():
            party = self._home(item, parties)
            missing = self.answers.missing(party, item, "audit")
            if not missing:
                continue
            shadow = self.shadows[party]
            if not shadow.in_core(item, "audit"):
                if len(shadow.outside) + len(missing) > self.settings.stake:
                    break
                shadow.outside.update(missing)
            wants += [(party, key) for key in missing]
        return wants

    def _release(self) -> Generator[Wants, None, None]:
        """Everybody waits and no joint vector holds: the checks are made, exactly as alone."""
        waiting = self.live
        while wants := [(s.party, key) for s in waiting if s.live for key in s.wanted()]:
            yield self._put(wants, "audit")
        for shadow in waiting:
            if shadow.live and shadow.step is not None:
                shadow.feed()
        self._retire()
