"""Recount the certificates of a labelling campaign from its answers, with arithmetic of its own.

Every test is walked through again: the order of the checks must be that of the committed seed, the
wrong labels among them are counted, and the evidence is computed by the logarithms of factorials.
Source: docs/theory/24-campaign.md, "The audit".
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from counterplay.core import export_bodies as lines
from counterplay.core.records import require_state
from counterplay.core.seeds import derive_seed
from counterplay.core.validation import FloatArray

Finding = tuple[str, str | None, str]
"""Name, what is wrong (None if nothing), and what was found."""
TOLERANCE = 1e-7


class Recount:
    """Answers of a campaign, and the tests that rest on them.

    Parameters
    ----------
    config:
        What was begun.
    """

    def __init__(self, config: lines.CampaignConfig) -> None:
        self.config = config
        names = config.names or tuple(config.parties)
        fits = len(set(names)) == len(names) and set(names) == set(config.parties)
        require_state(fits, "the configuration", "names", "must be those of the parties")
        self.owns = [set(config.parties[name]) for name in names]
        fits = all(rows and max(rows) < config.items for rows in self.owns)
        what = "the configuration"
        require_state(fits, what, "parties", f"rows must be below {config.items}")
        total = sum(config.blocks)
        require_state(total == config.items, what, "blocks", f"must add up to {config.items}")
        self.answers: dict[tuple[int, str, int], dict[int, int]] = {}
        self.launched: dict[int, lines.CampaignLaunched] = {}
        self.certified: dict[int, lines.CampaignCertified] = {}
        self.order = 0
        self._orders: dict[int, int] = {}  # vector -> which order its checks follow
        self._drawn: dict[tuple[int, int], FloatArray] = {}
        self._committed = self._digest()  # before any items were added

    def add(self, party: int, rows: Sequence[int]) -> None:
        """New items of a party, or of a new one, with the places that the seed gives them."""
        if party == len(self.owns):
            self.owns.append(set())
        self.owns[party] |= set(rows)
        self._drawn.clear()

    def draw_again(self) -> None:
        """Tests that are launched from now on follow the next order of the seed."""
        self.order += 1

    def told(self, told: lines.CampaignTold, what: str) -> None:
        """Take an answer."""
        inside = told.party < len(self.owns) and told.item in self.owns[told.party]
        require_state(inside, what, "party", "does not own the item")
        code = -1 if told.label is None else told.label
        require_state(code < len(self.config.classes), what, "label", "is no class")
        kind = told.kind if self.config.noisy else "label"
        self.answers.setdefault((told.item, kind, told.repeat), {})[told.party] = code

    def launch(self, launched: lines.CampaignLaunched, what: str) -> None:
        """Take a test."""
        fits = max(launched.parties) < len(self.owns)
        require_state(fits, what, "parties", "there is no such party")
        pool = set().union(*(self.owns[p] for p in launched.parties))
        fits = set(launched.items) <= pool and len(set(launched.items)) == len(launched.items)
        require_state(fits, what, "items", "must be different items of the parties")
        fits = len(launched.labels) == len(launched.items)
        fits = fits and max(launched.labels, default=0) < len(self.config.classes)
        require_state(fits, what, "labels", "must be one class for each item")
        require_state(launched.n <= len(pool), what, "n", "is larger than the parties' pools")
        self.launched[launched.vector] = launched
        self._orders[launched.vector] = self.order

    def findings(self, stated: lines.CampaignStated) -> list[Finding]:
        """Everything that the export states, recounted."""
        found = [self.commitment(), *self.levels()]
        found += [self.test(passed, stated.labels) for passed in self.certified.values()]
        holds = {passed.scope for passed in self.certified.values()}
        missing = [scope for scope in stated.certificates if scope not in holds]
        told = f"nothing certifies {missing[0]!r:.60}" if missing else None
        found.append(("certificates", told, f"{len(stated.certificates)} stated, all recounted"))
        found.append(self._labels(stated))
        return found

    def _keys(self, party: int, order: int) -> FloatArray:
        """Random key of every item for a party, from the seed."""
        if (party, order) not in self._drawn:
            again = (order,) if order else ()
            seeds = (
                derive_seed("audit order", self.config.seed, party, block, *again)
                for block in range(len(self.config.blocks))
            )
            parts = [
                np.random.default_rng(seed).random(n) for seed, n in zip(seeds, self.config.blocks)
            ]
            self._drawn[party, order] = np.concatenate(parts)
        return self._drawn[party, order]

    def _digest(self) -> str:
        state = hashlib.sha256()
        for party in range(len(self.owns)):
            state.update(self._keys(party, 0).astype("<f8").tobytes())
        return state.hexdigest()

    def commitment(self) -> Finding:
        """The orders of the checks must be those of the committed seed."""
        same = self._committed == self.config.commit
        wrong = None if same else "the orders of the seed are not those that were committed to"
        return "audit orders", wrong, "follow from the committed seed"

    def levels(self) -> list[Finding]:
        """The levels of all tests of one scope must add up to at most alpha."""
        spent: dict[tuple[bool, tuple[int, ...] | None], float] = {}
        for test in self.launched.values():
            one = test.parties if test.own or len(test.parties) == 1 else None
            key = test.own, one
            spent[key] = spent.get(key, 0.0) + test.alpha
        alpha = 1.0 - self.config.confidence
        most = max(spent.values(), default=0.0)
        wrong = None if most <= alpha + TOLERANCE else f"{most:.4g} was spent of {alpha:.4g}"
        return [("levels", wrong, f"at most {most:.4g} of {alpha:.4g} spent on any scope")]

    def test(self, passed: lines.CampaignCertified, labels: Sequence[int | None] = ()) -> Finding:
        """Walk through a test again, with the answers so far and the labels in the end."""
        name = f"certificate of {passed.scope[:60]}"
        test = self.launched.get(passed.vector)
        if test is None:
            return name, "there is no such test", ""
        if not self._ordered(test):
            return name, "the checks are not in the committed order", ""
        t = k = gone = 0
        for item, label in zip(test.items, test.labels):
            if t == passed.checked:
                break
            result = self._result(item, test.parties)
            if item in self.config.withdrawn and (result is None or result < 0):
                gone += 1
                continue
            if result is None:
                return name, f"item {item} comes before the last check and has no answer", ""
            t += 1
            k += result != label
        if (t, k) != (passed.checked, passed.wrong):
            return (
                name,
                f"stated {passed.wrong} wrong of {passed.checked}, there are {k} of {t}",
                "",
            )
        known = sum(
            1
            for item, label in zip(test.items, test.labels)
            if (found := self._fixed(item)) is not None and found != label
        )
        if passed.known_wrong > known:
            return name, f"stated {passed.known_wrong} corrected, there are {known}", ""
        lost = self._untested(test) + self._overruled(test, labels)
        return self._evidence(name, test, passed, len(test.items) - gone, lost)

    def _evidence(
        self,
        name: str,
        test: lines.CampaignLaunched,
        passed: lines.CampaignCertified,
        population: int,
        lost: int,
    ) -> Finding:
        allowed = math.floor(self.config.max_error * test.n + 1e-9)
        known = passed.known_wrong
        m = allowed - lost + known + 1
        if lost > allowed or not self._refuted(m, population, passed, test.alpha):
            return name, f"{allowed} wrong labels of {test.n} are not shown by the checks", ""
        high = math.ceil(passed.bound * test.n - 1e-9) - lost + known + 1
        if not self._refuted(high, population, passed, test.alpha):
            return name, f"the bound {passed.bound:.4g} is not shown by the checks", ""
        told = f"{passed.wrong} wrong of {passed.checked} checked, bound {passed.bound:.4g}"
        return name, None, f"{told}, recounted"

    def _untested(self, test: lines.CampaignLaunched) -> int:
        """Items of the pool that were not tested and that nobody labelled: each counts as wrong."""
        pool = self._pool(test)
        pool -= {*test.items, *self.config.withdrawn, *dict(self.config.known)}
        return sum(self._fixed(item) is None for item in pool)

    def _overruled(self, test: lines.CampaignLaunched, labels: Sequence[int | None]) -> int:
        """Shared items whose label in the end is that of another test: each counts as wrong."""
        stated = dict(enumerate(labels))
        pairs = zip(test.items, test.labels)
        return sum(stated.get(x, code) != code and self._fixed(x) is None for x, code in pairs)

    def _pool(self, test: lines.CampaignLaunched) -> set[int]:
        """What the test speaks of: items that came later are none of its ``n``.

        A block that was there is tested, or people have labelled all of it.
        """
        mine = set().union(*(self.owns[party] for party in test.parties))
        ends = np.cumsum(self.config.blocks)
        blocks: list[set[int]] = [set() for _ in ends]
        for row in mine:
            blocks[int(np.searchsorted(ends, row, side="right"))].add(row)
        tested = [i == 0 or not rows.isdisjoint(test.items) for i, rows in enumerate(blocks)]
        pool = set().union(*(rows for rows, inside in zip(blocks, tested) if inside))
        rest = [rows for rows, inside in zip(blocks, tested) if not inside]
        for rows in sorted(rest, key=lambda rows: sum(self._fixed(row) is None for row in rows)):
            pool |= rows if len(pool) < test.n else set()
        return pool

    def _refuted(
        self, m: int, population: int, passed: lines.CampaignCertified, alpha: float
    ) -> bool:
        t, k = passed.checked, passed.wrong
        if m > population - (t - k):
            return True
        if t == 0 or m * t <= k * population:
            return False
        b = 2.5 / self.config.max_error
        mixture = _log_beta(0.5 + k, b + t - k) - _log_beta(0.5, b)
        likelihood = _log_choose(population - t, m - k) - _log_choose(population, m)
        return mixture - likelihood >= -math.log(alpha) - TOLERANCE

    def _ordered(self, test: lines.CampaignLaunched) -> bool:
        order = self._orders[test.vector]
        keys = [
            self._keys(next(p for p in test.parties if item in self.owns[p]), order)[item]
            for item in test.items
        ]
        return all(a <= b for a, b in zip(keys, keys[1:]))

    def _result(self, item: int, parties: Sequence[int]) -> int | None:
        """The adjudicated answer, by the home party or whoever was asked."""
        home = next(p for p in parties if item in self.owns[p])
        if self.config.free != "any":
            found = self._adjudicated(item, home, alone=True)
            if found is not None or self.config.free == "own":
                return found
        return self._adjudicated(item, home, alone=False)

    def _adjudicated(self, item: int, party: int, *, alone: bool) -> int | None:
        """What a party's answers say, filled up with those of others unless it counts alone."""
        counts: Counter[int] = Counter()
        kind = "audit" if self.config.noisy else "label"
        for repeat in range(len(self.answers) + 1):
            told = self.answers.get((item, kind, repeat), {})
            if not told or (alone and party not in told):
                break
            code = told[party if party in told else min(told)]
            counts[code] += 1
            if counts[code] == self.config.first_to:
                return code
        return None

    def _fixed(self, item: int) -> int | None:
        """The label that people gave an item: of several parties, the first that did not skip."""
        kind = "audit" if self.config.noisy else "label"
        repeats = (self.answers.get((item, kind, r), {}) for r in range(self.config.first_to))
        for party in sorted({party for told in repeats for party in told}):
            found = self._result(item, [party])
            if found is not None and found >= 0:
                return found
        return None

    def _labels(self, stated: lines.CampaignStated) -> Finding:
        """Labels are answers where there are any, and what was tested where it is certified."""
        name = "labels"
        if len(stated.labels) != self.config.items:
            return name, f"there are {self.config.items} items", ""
        expected: dict[int, set[int]] = {}
        for number in self.certified.keys() & self.launched.keys():
            test = self.launched[number]
            for item, code in zip(test.items, test.labels):
                expected.setdefault(item, set()).add(code)
        for item in {key[0] for key in self.answers}:
            if (found := self._fixed(item)) is not None:
                expected[item] = {found}
        expected.update({item: {code} for item, code in self.config.known})
        for item, codes in expected.items():
            if stated.labels[item] not in codes:
                right = " or ".join(map(str, sorted(codes)))
                told = f"item {item} is stated as class {stated.labels[item]}, not {right}"
                return name, told, ""
        return name, None, f"{len(expected)} follow from answers and certified tests"


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
