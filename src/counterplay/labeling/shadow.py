"""A party's solo run inside the campaign, and the account of its work.

The shadow run advances only with people's answers, in the order of its own questions, so it is
always a prefix of what the party would have done alone. A question may be put to the party if the
run will surely ask it (the core), or if free answers have made up for it (the slack). Then the work
together is at most the work alone, surely.
Source: docs/theory/24-campaign.md, Theorem 24.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

from counterplay.errors import ProtocolError
from counterplay.labeling.certificate import SKIPPED, WITHDRAWN
from counterplay.labeling.solo import Step

Key = tuple[int, str, int]
"""A question: item, kind, and how many times it was asked before."""
Free = Literal["own", "any"]


class Answers:
    """Everything people said, and what follows for a party.

    Parameters
    ----------
    first_to:
        Answers that one label needs when a check is adjudicated.
    noisy:
        Whether answers may be wrong: then learning and checking are asked apart.
    free:
        Whose answers count for a party: its own, or anybody's.
    known:
        Labels known from the start, by item.
    """

    def __init__(self, first_to: int, noisy: bool, free: Free, known: dict[int, int]) -> None:
        self.first_to, self.noisy, self.free, self.known = first_to, noisy, free, known
        self.given: dict[Key, dict[int, int]] = {}  # question -> party -> code
        self.purpose: dict[Key, str] = {}  # what a question was put for
        self.withdrawn: set[int] = set()

    def key(self, item: int, kind: str, repeat: int = 0) -> Key:
        """The question; without noise an item has only one."""
        return (item, kind, repeat) if self.noisy else (item, "label", repeat)

    def lookup(self, party: int, key: Key) -> int | None:
        """The answer that counts for a party: its own before another's."""
        told = self.given.get(key)
        found = None
        if told:
            if party in told:
                found = told[party]
            elif self.free == "any":
                found = told[min(told)]
        # an item that nobody could label and that was then taken out is no wrong label
        gone = key[0] in self.withdrawn and (found is None or found == SKIPPED)
        return WITHDRAWN if gone else found

    def result(self, party: int, item: int, kind: str) -> int | None:
        """The label of an item: one learning answer, or the adjudicated ones of a check."""
        if item in self.known:
            return self.known[item]
        if kind == "learn" or self.first_to == 1:
            return self.lookup(party, self.key(item, kind))
        counts: Counter[int] = Counter()
        for repeat in range(10_000):
            code = self.lookup(party, self.key(item, kind, repeat))
            if code is None or code == WITHDRAWN:
                return code
            counts[code] += 1
            if counts[code] == self.first_to:
                return code
        return None

    def fixed(self, item: int) -> int:
        """The label that people gave an item, -1 where there is none.

        Of several parties the first one counts that gave a label, not a skip. With noise only an
        adjudicated answer is a label.
        """
        repeats = (self.given.get(self.key(item, "audit", r)) for r in range(self.first_to))
        for party in sorted({party for told in repeats for party in told or ()}):
            found = self.result(party, item, "audit")
            if found is not None and found >= 0:
                return found
        return SKIPPED

    def keys(self, party: int, item: int, kind: str) -> list[Key]:
        """Questions about an item that are surely needed, answered ones included."""
        if item in self.known:
            return []
        if kind == "learn" or self.first_to == 1:
            return [self.key(item, kind)]
        counts: Counter[int] = Counter()
        found: list[Key] = []
        while max(counts.values(), default=0) < self.first_to:
            key = self.key(item, kind, len(found))
            code = self.lookup(party, key)
            if code is None or code == WITHDRAWN:
                missing = self.first_to - max(counts.values(), default=0)
                return found + [self.key(item, kind, len(found) + j) for j in range(missing)]
            counts[code] += 1
            found.append(key)
        return found

    def missing(self, party: int, item: int, kind: str) -> list[Key]:
        """The needed questions without an answer."""
        return [key for key in self.keys(party, item, kind) if self.lookup(party, key) is None]


class Shadow:
    """One party's shadow run and its account.

    Parameters
    ----------
    party:
        Number of the party.
    items:
        The items it may be asked about.
    run:
        Its solo run.
    answers:
        What people said.
    """

    def __init__(self, party: int, items: Iterable[int], run: Any, answers: Answers) -> None:
        self.party, self.items, self.run, self.answers = party, set(items), run, answers
        self.put: set[Key] = set()
        self.passed: dict[Key, str] = {}
        self.outside: set[Key] = set()
        self.finished_by: Literal["open", "own", "joint", "left"] = "open"
        self._told: set[tuple[str, int]] = set()
        self._core: set[int] = set()
        self.step: Step | None = None
        self._next()

    @property
    def live(self) -> bool:
        """Whether the party is still working."""
        return self.finished_by == "open"

    @property
    def waits(self) -> bool:
        """Whether the run wants checks; waiting for them is no work."""
        return self.step is not None and self.step.kind == "audit"

    def wanted(self) -> list[Key]:
        """Questions of the current step that nobody has answered."""
        if self.step is None:
            return []
        kind = self.step.kind
        return [
            key for item in self.step.items for key in self.answers.missing(self.party, item, kind)
        ]

    def feed(self) -> dict[int, int]:
        """Pass the step's questions, all answered; return their results."""
        assert self.step is not None
        step, results = self.step, {}
        for item in step.items:
            for key in self.answers.keys(self.party, item, step.kind):
                self._pass(key)
            found = self.answers.result(self.party, item, step.kind)
            assert found is not None
            results[item] = found
        self.run.tell(results)
        self._next()
        return results

    def in_core(self, item: int, kind: str) -> bool:
        """Whether the run will surely ask this."""
        if self.step is not None and item in self.step.items:
            return not self.answers.noisy or kind == self.step.kind
        return item in self._core and (kind == "audit" or not self.answers.noisy)

    def may_put(self, key: Key) -> bool:
        """Whether a question is allowed: in the core, or made up for by free answers."""
        kind = "audit" if key[1] == "label" else key[1]
        if key in self.passed:
            return False
        return self.in_core(key[0], kind) or len(self.put) + 1 <= len(self.passed)

    @property
    def slack(self) -> int:
        """Free answers that the run used, minus questions put that it has not passed."""
        return len(self.passed) - len(self.put)

    @property
    def free_learning(self) -> int:
        """Passed questions that another party had answered in order to learn."""
        return sum(source == "free learning" for source in self.passed.values())

    @property
    def free(self) -> int:
        """Passed questions that another party had answered."""
        return sum(source.startswith("free") for source in self.passed.values())

    @property
    def alone_at_least(self) -> int:
        """Questions that the solo run has passed or will surely ask."""
        return len(self.passed) + len(self.core_keys())

    def core_keys(self) -> set[Key]:
        """Questions surely asked that were not passed yet."""
        found: set[Key] = set()
        if self.step is not None:
            for item in self.step.items:
                found.update(self.answers.keys(self.party, item, self.step.kind))
            for item in self._core:
                found.update(self.answers.keys(self.party, item, "audit"))
        gone, given = self.answers.withdrawn, self.answers.given
        left = found - self.passed.keys()
        # of a withdrawn item only what was answered is work, alone as well
        return {key for key in left if key[0] not in gone or key in given} if gone else left

    def refresh(self) -> None:
        """Read the core again, after the pool has grown."""
        core = getattr(self.run, "core", None)
        self._core = set(map(int, core())) if core is not None else set()

    def _pass(self, key: Key) -> None:
        told = self.answers.given.get(key)
        if told is None:  # withdrawn: nobody's work
            return
        if self.party in told:
            self.passed[key] = "own"
        else:
            learned = self.answers.purpose.get(key) == "learn"
            self.passed[key] = "free learning" if learned else "free check"

    def _next(self) -> None:
        self.step = self.run.ask()
        if self.step is None:
            self._core = set()
            if self.live:
                self.finished_by = "own"
            return
        for item in self.step.items:
            name = type(self.run).__name__
            if item not in self.items:
                raise ProtocolError(f"{name} asks about item {item}, which is not in its pool")
            if (self.step.kind, item) in self._told:
                raise ProtocolError(f"{name} asks about item {item} twice")
            self._told.add((self.step.kind, item))
        self.refresh()
