"""What a careful party would do alone: learn, and test before it stops.

:class:`TestFirstSolo` is the default; a party may bring its own protocol: an object with
``start(pool)`` that returns a run with ``ask() -> Step | None``, ``tell(results)``, ``core()`` and,
if it likes, ``frozen`` and ``certificate``. The run must be a function of the results it is told.
Source: docs/theory/24-campaign.md, "The solo protocol".
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, Protocol

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.audit import fewest_checks
from counterplay.core.seeds import derive_seed
from counterplay.core.validation import FloatArray, IntArray, check_choice, check_int
from counterplay.labeling.certificate import (
    SKIPPED,
    WITHDRAWN,
    FrozenVector,
    LabelCertificate,
    by_order,
)
from counterplay.labeling.models import PoolModel
from counterplay.labeling.scores import calibration, frozen_labels, judged, smallest_margins

Kind = Literal["learn", "audit"]
GROWTH = 1.15
"""A new vector is frozen only when the training set has grown by this factor."""


@checked
@dataclass(frozen=True)
class Step:
    """Questions that a solo run puts at once, and what they are for.

    Examples
    --------
    >>> Step("learn", (3, 1))
    Step(kind='learn', items=(3, 1))
    """

    kind: Kind
    items: tuple[int, ...]


class SoloRun(Protocol):
    """A solo protocol in progress."""

    def ask(self) -> Step | None:
        """The questions it waits for; None when it has stopped."""

    def tell(self, results: Mapping[int, int]) -> None:
        """Take the results of all items of the step; -1 is a skip, -2 a withdrawn item."""

    def core(self) -> Sequence[int]:
        """Items that it will surely audit before it stops, whatever the missing answers are."""


@dataclass
class SoloPool:
    """What a solo run may see: its items, the random keys of its audit order, and settings.

    Attributes
    ----------
    items:
        Positions of the party's items in the campaign's table.
    keys:
        Random key of each item of the campaign; the audit order sorts by it.
    model:
        Predicts the classes of the party's items.
    n_classes:
        Number of classes.
    known:
        Labels known from the start, as codes by item.
    max_error:
        Share of wrong labels to be shown.
    alpha:
        Probability of a false certificate.
    alpha_left:
        What is left of ``alpha`` after a retraction.
    noise:
        Assumed chance of a wrong answer.
    batch:
        Questions of a learning step.
    seed:
        Seed of the run.
    outside:
        Items that no population may hold: audited before a coordinator's retraction.
    lost:
        Those of them that nobody labelled.
    """

    items: IntArray
    keys: FloatArray
    model: PoolModel
    n_classes: int
    max_error: float
    alpha: float
    alpha_left: float
    seed: int
    known: dict[int, int] = field(default_factory=dict)
    noise: float = 0.0
    batch: int = 10
    outside: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()


@checked
@dataclass(frozen=True)
class TestFirstSolo:
    """Learn until the model looks good enough, then test it on random items before stopping.

    The test needs at least ``h0`` random items, which are asked for first: enough to certify a
    vector with ``spare`` wrong labels among them.

    Parameters
    ----------
    spare:
        Wrong labels in the test for which its first part has room. 1 leaves room for a joint vector
        with one error, 0 is what a thrifty party would do alone.
    first:
        Random items that are labelled first.
    choose:
        What is learned next: the items with the smallest ``"margin"``, or ``"random"`` ones.

    Examples
    --------
    >>> TestFirstSolo(spare=0).checks(189, max_error=0.05, alpha=0.05)
    62

    References
    ----------
    "The solo protocol", see docs/theory/24-campaign.md.
    """

    __test__ = False  # its name looks like that of a test

    spare: int = 1
    first: int = 20
    choose: Literal["margin", "random"] = "margin"

    def __post_init__(self) -> None:
        check_int(self.spare, "spare", low=0)
        check_int(self.first, "first", low=1)
        check_choice(self.choose, "choose", ("margin", "random"))

    def checks(self, n: int, *, max_error: float, alpha: float) -> int:
        """Number of random items that every stop requires."""
        return fewest_checks(n, max_error=max_error, alpha=alpha / 2, wrong=min(self.spare, n))

    def start(self, pool: SoloPool) -> TestFirstRun:
        """Begin a run."""
        return TestFirstRun(self, pool)


class TestFirstRun:
    """A run of :class:`TestFirstSolo`."""

    __test__ = False

    def __init__(self, solo: TestFirstSolo, pool: SoloPool) -> None:
        self.solo, self.pool = solo, pool
        self.learned: dict[int, int] = {}  # learning results, skips included
        self.audited: dict[int, int] = {}
        self.vectors: list[FrozenVector] = []
        self.certificate: LabelCertificate | None = None
        self.certified: FrozenVector | None = None
        self.frozen: dict[int, int] = {}
        self.scores: FloatArray | None = None
        self.alpha_left = pool.alpha_left
        self._withdrawn: dict[int, bool] = {}  # item -> whether it had been answered or skipped
        self._prefix_end = 0.0
        self._last_launch = 0
        self._judged: list[tuple[bool, float]] = []  # wrong?, predicted chance of that
        self._index()
        self._set_prefix()
        self._steps = self._run()
        self._step: Step | None = next(self._steps, None)

    def ask(self) -> Step | None:
        """The questions it waits for."""
        return self._step

    def tell(self, results: Mapping[int, int]) -> None:
        """Take the results of the step's items."""
        try:
            self._step = self._steps.send(results)
        except StopIteration:
            self._step = None

    def core(self) -> list[int]:
        """The first items of the audit order: every stop requires them."""
        return [] if self._step is None else self._prefix().tolist()

    def add(self, items: IntArray, keys: FloatArray, model: PoolModel) -> None:
        """Take new items; they stand at random places of the order, launched vectors die."""
        pool = self.pool
        pool.items = np.union1d(pool.items, items)
        pool.keys, pool.model = keys, model
        for vector in self.vectors:
            vector.dead = True
        self._last_launch = 0
        self.scores = None
        self._index()

    def withdraw(self, item: int, *, answered: bool) -> None:
        """An item is taken out: vectors that hold it die, or if it was skipped begin again."""
        self._withdrawn[item] = answered
        for vector in self.vectors:
            if item in vector.items:
                vector.dead |= not answered
                vector.begin_again()

    def _index(self) -> None:
        """Which items are labelled and asked, by their places; the audit order."""
        pool = self.pool
        self._labelled = np.isin(pool.items, list(pool.known))
        self._order = by_order(pool.items[~self._labelled], pool.keys)
        self._asked = self._labelled.copy()
        for x, code in self.learned.items():
            self._note(x, code)

    def _note(self, item: int, code: int) -> None:
        """A learning answer: the item is not asked again; a skipped one stays without a label."""
        place = self._places([item])[0]
        self._asked[place] = True
        self._labelled[place] |= code != SKIPPED

    def _places(self, items: Any) -> IntArray:
        """Positions of items among those of the party."""
        places: IntArray = np.searchsorted(self.pool.items, items).astype(np.int64)
        return places

    def _set_prefix(self) -> None:
        n, pool = len(self._order), self.pool
        if n:
            h0 = self.solo.checks(len(pool.items), max_error=pool.max_error, alpha=pool.alpha)
            self._prefix_end = float(pool.keys[self._order[min(h0, n) - 1]])

    def _prefix(self) -> IntArray:
        """The required part of the order; items that come later and fall into it belong to it."""
        return self._order[self.pool.keys[self._order] <= self._prefix_end]

    def _run(self) -> Generator[Step, Mapping[int, int], None]:
        pool = self.pool
        rng = np.random.default_rng(derive_seed("first questions", pool.seed))
        unknown = np.sort(self._order)
        first = rng.permutation(unknown)[: self.solo.first]
        if first.size:
            yield from self._learn(first)
        while True:
            scores = self._fit()
            if self._promising(scores):
                yield from self._audit()
                if self.certificate is not None:
                    return
                count = max(1, pool.batch // 2)
                if self.scores is None:  # items came in while it waited
                    scores = self._fit()
            else:
                count = pool.batch
            chosen = self._unsure(scores, count)
            if not chosen.size:
                # every item was asked; what is missing are checks
                yield from self._finish()
                if self.scores is None:
                    continue
                return
            yield from self._learn(chosen)

    def _fit(self) -> FloatArray:
        rows, codes = self._training()
        self.scores = self.pool.model.fit(rows, codes)
        return self.scores

    def _training(self) -> tuple[IntArray, IntArray]:
        """Places and codes of all learning answers that are labels."""
        told = {**self.pool.known, **self.learned}
        labels = {x: code for x, code in told.items() if code >= 0}
        items = np.fromiter(labels, dtype=np.int64, count=len(labels))
        codes = np.fromiter(labels.values(), dtype=np.int64, count=len(labels))
        return self._places(items), codes

    def _open(self) -> IntArray:
        """Items without a label from a person; a skipped one has none."""
        return self.pool.items[~self._labelled]

    def _promising(self, scores: FloatArray) -> bool:
        pool, n = self.pool, len(self.pool.items)
        if n - self._labelled.sum() <= 2 * pool.max_error * n:
            return True
        doubt = float((1.0 - scores[~self._labelled].max(axis=1)).sum())
        return calibration(self._judged) * doubt / n <= pool.max_error / 2

    def _unsure(self, scores: FloatArray, count: int) -> IntArray:
        """Items with the smallest margin between the two best classes; ties by number."""
        left = self.pool.items[~self._asked]
        if not left.size:
            return left
        if self.solo.choose == "random":
            rng = np.random.default_rng(
                derive_seed("random questions", self.pool.seed, len(self.learned))
            )
            return rng.permutation(left)[:count]
        return left[smallest_margins(scores[~self._asked], count)]

    def _learn(self, items: IntArray) -> Generator[Step, Mapping[int, int], None]:
        results = yield Step("learn", tuple(items.tolist()))
        if self.scores is not None:
            told = [results[x] for x in items.tolist()]
            self._judged += judged(self.scores[self._places(items)], told)
        for x in items.tolist():
            self.learned[x] = results[x]
            self._note(x, results[x])

    def _audit(self) -> Generator[Step, Mapping[int, int], None]:
        """Launch a vector if there is something new, check it; then five checks more."""
        if len(self.learned) >= GROWTH * self._last_launch:
            self._launch()
        required = [x for x in self._prefix().tolist() if x not in self.audited]
        if required:
            yield from self._check(required)
        if not self._certify():
            more = self._next_checks(5)
            if more:
                yield from self._check(more)
                self._certify()

    def _finish(self) -> Generator[Step, Mapping[int, int], None]:
        self._launch()
        while not self._certify():
            more = self._next_checks(self.pool.batch)
            if not more or self.scores is None:
                return
            yield from self._check(more)

    def _next_checks(self, count: int) -> list[int]:
        unchecked = (int(x) for x in self._order if int(x) not in self.audited)
        return list(islice(unchecked, count))

    def _check(self, items: list[int]) -> Generator[Step, Mapping[int, int], None]:
        results = yield Step("audit", tuple(items))
        self.audited.update({x: results[x] for x in items})

    def _launch(self) -> None:
        """Freeze the labels of what nobody labelled, at half of what is left of alpha."""
        pool = self.pool
        assert self.scores is not None
        rows, codes = self._training()
        labels = frozen_labels(self.scores, pool.model, rows, codes, pool.noise)
        self.frozen = dict(zip(pool.items.tolist(), labels.tolist()))
        holds = self._order if pool.noise else by_order(self._open(), pool.keys)
        unchecked = [x for x, answered in self._withdrawn.items() if not answered]
        population = holds[~np.isin(holds, [*pool.outside, *unchecked])]
        self.alpha_left /= 2.0
        self._last_launch = max(1, len(self.learned))
        values = labels[self._places(population)]
        vector = FrozenVector(
            len(self.vectors), population, values, n=len(pool.items) - len(self._withdrawn),
            max_error=pool.max_error, alpha=self.alpha_left,
            lost=len(pool.lost.difference(self.pool.items[self._labelled].tolist())),
        )  # fmt: skip
        self.vectors.append(vector)

    def _certify(self) -> bool:
        """Whether one of the vectors is certified now."""
        size = max(int(self.pool.items.max(initial=0)) + 1, len(self.pool.keys))
        fixed = np.full(size, -1, dtype=np.int64)
        results = self.audited if self.pool.noise else {**self.audited, **self.learned}
        gone = {x for x in self._withdrawn if results.get(x) == SKIPPED}
        results = {x: WITHDRAWN if x in gone else code for x, code in results.items()}
        for x, code in results.items():
            fixed[x] = code
        for vector in self.vectors:
            if vector.dead:
                continue
            vector.advance(results.get)
            vector.note_answers(fixed)
            if vector.is_certified():
                self.certificate = vector.certificate("", 1.0 - self.pool.alpha)
                self.certified = vector
                places = vector.items.tolist()
                self.frozen = dict(zip(places, vector.labels.tolist()))
                return True
        return False
