"""Recompute the certificate of a questionnaire with people who slip, by a search of its own.

Every bet follows from the recorded forecasts and answers. The preferences are cut into cells until
each cell is either ruined by the answers or content with the recommended item; a preference that
is neither refutes the certificate. Cells are looked at in batches, in plain array arithmetic.
Source: docs/theory/26-people.md, "Branch and bound".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from counterplay.core import export_bodies as lines
from counterplay.core.exports import Event
from counterplay.core.records import require_state, to_record
from counterplay.core.validation import BoolArray, FloatArray

Finding = tuple[str, str | None, str]
"""Name, what is wrong (None if nothing), and what was found."""
Verdict = Literal["proved", "refuted", "undecided"]
TOLERANCE = 1e-7
USED = ("elicit.asked", "elicit.answered", "elicit.cannot_say", "elicit.volunteered",
        "elicit.undone")  # fmt: skip
MOST_DIMENSIONS = 6
_CELLS = 1_000_000
_NUMBERS = 2_000_000  # of one batch
_BATCH = 512
_SMALL = 1e-4
_ROUNDING = 1e-12
_WORST = 6


@dataclass(frozen=True)
class Choice:
    """One of several options was chosen, which had this forecast before."""

    values: FloatArray
    chosen: int
    forecast: float

    @property
    def differences(self) -> FloatArray:
        """Chosen option minus each of the others."""
        return np.asarray(self.values[self.chosen] - np.delete(self.values, self.chosen, axis=0))


class Answers:
    """Questions and answers of one person, taken event by event.

    Parameters
    ----------
    config:
        Items and promise.
    """

    def __init__(self, config: lines.ReliableConfig) -> None:
        self.config, self.items = config, np.array(config.items)
        what, k = "the configuration", self.items.shape[1]
        require_state(k <= MOST_DIMENSIONS, what, "items", f"more than {MOST_DIMENSIONS} values")
        fits = len(set(config.unknown)) == len(config.unknown) and all(
            j < k for j in config.unknown
        )
        require_state(fits, what, "unknown", f"must be places below {k}, each once")
        rising = all(a < b for a, b in zip(config.rates, config.rates[1:]))
        require_state(rising, what, "rates", "must rise")
        sound = bool(config.unknown) or bool((self.items >= 0).all())
        require_state(sound, what, "items", "values must not be negative")
        self.asked: dict[int, lines.Asked] = {}
        self.open: int | None = None
        self.log: list[tuple[int, lines.Asked | None, tuple[int, ...], list[Choice]]] = []

    def take(self, event: Event) -> None:
        """Take one event; each must fit those before."""
        what = f"event {event.seq} of {event.stream[:60]}"
        if event.kind == "elicit.asked":
            self._ask(event.seq, to_record(event.body, lines.Asked, what=what), what)
        elif event.kind == "elicit.answered":
            said = to_record(event.body, lines.Chosen, what=what)
            words = (None, ("first", "second")[said.order[0]] if max(said.order) < 2 else None)
            require_state(said.answer in words, what, "answer", "is not the option in the order")
            self._answer(event.seq, said.asked, said.order, what)
        elif event.kind == "elicit.cannot_say":
            self._answer(event.seq, to_record(event.body, lines.Unsaid, what=what).asked, (), what)
        elif event.kind == "elicit.volunteered":
            offered = to_record(event.body, lines.Volunteered, what=what)
            self._check_options(offered.shown, offered.forecast, what)
            fits = all(place < 2 for place in offered.order)
            require_state(fits, what, "order", "must name an option that was offered")
            choices = [
                Choice(_values(offered.shown), place, offered.forecast[place])
                for place in offered.order
            ]
            self.log.append((event.seq, None, offered.order, choices))
        elif event.kind == "elicit.undone":
            seq = to_record(event.body, lines.Undone, what=what).seq
            fits = bool(self.log) and self.log[-1][0] == seq
            require_state(fits, what, "seq", "must be that of the last answer")
            self.log.pop()
            self.open = None

    def findings(self, stated: lines.ReliableStated) -> Iterable[Finding]:
        """Compare what is stated with what follows from the answers."""
        asked = [entry for entry in self.log if entry[1] is not None]
        repeats = self._repeats()
        counts = (len(asked), sum(not entry[2] for entry in asked), len(repeats), sum(repeats))
        said = (stated.questions, stated.cannot_say, stated.repeats, stated.disagreements)
        told = "questions {}, undecided {}, asked again {}, answered differently {}".format(*counts)
        yield "questions", None if said == counts else f"there are {told}", told
        yield self._certificate(stated, repeats)

    def choices(self) -> list[Choice]:
        """Every choice of one option, in order; a ranking is a chain of them."""
        return [choice for entry in self.log for choice in entry[3]]

    def _certificate(self, stated: lines.ReliableStated, repeats: Sequence[bool]) -> Finding:
        config, name = self.config, "reliable certificate"
        regret = stated.regret_certificate
        if stated.item >= len(self.items):
            return name, f"there is no item {stated.item}", ""
        if regret is None:
            return name, None, "none is stated"
        if stated.rate not in config.rates:
            return name, f"{stated.rate:g} is no bound of the configuration", ""
        alpha = 1.0 - config.confidence
        if stated.refuted or _against(repeats, stated.rate) >= 1.0 / alpha:
            return name, "the bound on wrong answers is refuted by questions asked again", ""
        region = Region(self.choices(), config, stated.rate, alpha / len(config.rates))
        found, seen = region.search(self.items, stated.item, regret + TOLERANCE)
        condition = f"if at most {100 * stated.rate:g} % of the answers are wrong"
        told = f"stated {regret:.4g} with {100 * config.confidence:g} % confidence, {condition}"
        if found == "refuted":
            return name, f"{told}; somebody whom the answers do not exclude regrets more", ""
        if found == "undecided":
            return name, f"{told}; no proof within {seen:,} cells", ""
        if region.search(self.items, stated.item, None)[0] != "refuted":
            return name, "no preference is left that explains the answers within the bound", ""
        return name, None, f"{told}; proved on {seen:,} cells from {len(self.choices())} choices"

    def _ask(self, seq: int, asked: lines.Asked, what: str) -> None:
        number = sum(entry[1] is not None for entry in self.log)
        require_state(self.open is None, what, "number", "the question before has no answer")
        require_state(asked.number == number, what, "number", f"must be {number}")
        self._check_options(asked.shown, asked.forecast, what)
        m = len(asked.shown)
        ranks = len(asked.then) in (0, m) and all(len(row) == m - 1 for row in asked.then)
        require_state(ranks and (m == 3 or not asked.then), what, "then",
                      "must forecast the others for each of three options")  # fmt: skip
        for row in asked.then:
            require_state(abs(sum(row) - 1.0) < 1e-9, what, "then", "must add up to 1")
        if asked.repeat_of is not None:
            before = [entry[1] for entry in self.log if entry[1] is not None]
            known = asked.repeat_of < len(before)
            ids = {option.id for option in asked.shown}
            same = known and ids == {o.id for o in _shown(before[asked.repeat_of])} != {None}
            require_state(same, what, "repeat_of", "must be a question about the same items")
        self.asked[seq], self.open = asked, seq

    def _answer(self, seq: int, question: int, order: tuple[int, ...], what: str) -> None:
        require_state(question == self.open, what, "asked", "must be the open question")
        asked, self.open = self.asked[question], None
        m = len(asked.shown)
        lengths = (0, m) if asked.then else (0, 1)
        require_state(len(order) in lengths, what, "order", "does not fit the question")
        fits = len(set(order)) == len(order) and all(place < m for place in order)
        require_state(fits, what, "order", "must name options that were shown, each once")
        values, choices = _values(asked.shown), []
        if order:
            choices.append(Choice(values, order[0], asked.forecast[order[0]]))
        if len(order) > 1:  # the best of the rest
            left = [i for i in range(m) if i != order[0]]
            second = left.index(order[1])
            choices.append(Choice(values[left], second, asked.then[order[0]][second]))
        self.log.append((seq, asked, order, choices))

    def _check_options(
        self, shown: Sequence[lines.Shown], forecast: Sequence[float], what: str
    ) -> None:
        k = self.items.shape[1]
        for place, option in enumerate(shown):
            where = f"shown[{place}]"
            require_state(len(option.values) == k, what, where, f"must have {k} values")
            if option.id is not None:
                inside = option.id < len(self.items)
                require_state(inside, what, where, "is no item of the configuration")
                same = np.allclose(option.values, self.items[option.id], rtol=1e-9, atol=1e-12)
                require_state(same, what, where, f"does not show the values of item {option.id}")
        fits = len(forecast) == len(shown) and abs(sum(forecast) - 1.0) < 1e-9
        require_state(fits, what, "forecast", "must have one chance per option, which add up to 1")

    def _repeats(self) -> list[bool]:
        """Whether each question that was asked again was answered differently."""
        asked = [(entry[1], entry[2]) for entry in self.log if entry[1] is not None]
        found = []
        for question, order in asked:
            if question.repeat_of is None or not order:
                continue
            before, then = asked[question.repeat_of]
            if then:
                found.append(before.shown[then[0]].id != question.shown[order[0]].id)
        return found


class Region:
    """Preferences whose bets the answers have not ruined.

    Parameters
    ----------
    choices:
        What was chosen, with forecasts.
    config:
        Just noticeable difference, unknown signs, whether exclusion is for good.
    rate:
        Bound on the share of wrong answers.
    alpha:
        Error probability of this bound.
    """

    def __init__(
        self, choices: Sequence[Choice], config: lines.ReliableConfig, rate: float, alpha: float
    ) -> None:
        self.jnd, self.running, self.rate = config.jnd, config.running, rate
        self.unknown, self.k = config.unknown, len(config.items[0])
        self.limit = math.log(1.0 / alpha)
        self.choices = [(choice.differences, self._steps(choice)) for choice in choices]
        # answers to one pair: nobody agrees with both of two opposite ones
        summed: dict[tuple[float, ...], FloatArray] = {}
        for differences, steps in self.choices:
            if len(differences) == 1:
                d = differences[0] + 0.0
                leading = d[np.flatnonzero(d)][:1]
                turn = bool(leading.size and leading[0] < 0)
                key = tuple((-d if turn else d).tolist())
                summed[key] = summed.get(key, np.zeros(5)) + (steps[::-1] if turn else steps)
        self.pairs = np.array(list(summed)).reshape(-1, self.k)
        self.pair_steps = np.array(list(summed.values())).reshape(-1, 5)

    def _steps(self, choice: Choice) -> FloatArray:
        """Logarithm of the bet's factor by the difference in favour of what was chosen: clearly
        against it, just against it, none, just in favour, clearly in favour."""
        p, q = choice.forecast, self.rate
        against = math.log(p / max(min(p, q), 1e-300))
        agreed = math.log(p / max(p, 1.0 - q))
        if len(choice.values) > 2:
            return np.array([against, agreed, agreed, agreed, agreed])
        close = math.log(p / max(p, 0.5))
        return np.array([against, math.log(p / min(p, 0.5)), close, close, agreed])

    def evidence(self, weights: FloatArray) -> FloatArray:
        """Logarithm of the bets against preferences (n, k)."""
        total, most = np.zeros(len(weights)), np.zeros(len(weights))
        for differences, steps in self.choices:
            total = total + steps[self._step((weights @ differences.T).min(axis=1))]
            most = np.maximum(most, total)
        return most if self.running else total

    def search(self, items: FloatArray, item: int, regret: float | None) -> tuple[Verdict, int]:
        """Look for a solvent preference that regrets the item by more (None: for any at all)."""
        cells, seen, undecided = self._start(), 0, False
        rivals = items
        if regret is not None and not self.unknown:  # the others nobody can regret
            rivals = items[((1 - regret) * items > items[item]).any(axis=1)]
        size = max(1, min(_BATCH, _NUMBERS // (self.k * max(1, len(rivals)) * _WORST)))
        while len(cells):
            if seen >= _CELLS:
                return "undecided", seen
            batch, cells = cells[-size:], cells[:-size]
            seen += len(batch)
            if regret is not None:
                batch = batch[self._regretful(batch, rivals, items[item], regret)]
            batch = batch[~self._ruined(batch)]
            if not len(batch):
                continue
            centres = batch.mean(axis=1)
            bad = np.ones(len(batch), dtype=bool)
            if regret is not None:
                bad = self._regrets(centres, rivals, items[item], regret)
            if (bad & (self.evidence(centres) < self.limit)).any():
                return "refuted", seen
            halves, small = _halved(batch)
            undecided = undecided or small
            cells = np.concatenate([cells, halves])
        return ("undecided" if undecided else "proved"), seen

    def _start(self) -> FloatArray:
        cells = []
        for signs in product((1.0, -1.0), repeat=len(self.unknown)):
            cell = np.eye(self.k)
            cell[list(self.unknown)] *= np.array(signs)[:, None]
            cells.append(cell)
        return np.array(cells)

    def _step(self, gap: FloatArray) -> np.ndarray:
        """Which of the five steps a difference falls on."""
        return (gap >= -self.jnd).astype(int) + (gap >= 0) + (gap > 0) + (gap > max(self.jnd, 0.0))

    def _ruined(self, cells: FloatArray) -> BoolArray:
        """Whether every preference of a cell is ruined: by the most favourable difference on it."""
        last = np.zeros(len(cells))
        if len(self.pairs):
            worth = cells @ self.pairs.T
            low, high = worth.min(axis=1) - _ROUNDING, worth.max(axis=1) + _ROUNDING
            d = self.jnd
            reached = np.stack(
                [low < -d, (low < 0) & (high >= -d) & (d > 0), (low <= 0) & (high >= 0),
                 (high > 0) & (low <= d) & (d > 0), high > d]
            )  # fmt: skip
            least = np.where(reached, self.pair_steps.T[:, None, :], np.inf).min(axis=0)
            last = least.sum(axis=1)
        total, most = np.zeros(len(cells)), np.zeros(len(cells))
        for differences, steps in self.choices:
            if len(differences) == 1 and not self.running:
                continue
            gap = (cells @ differences.T).max(axis=1).min(axis=1) + _ROUNDING
            value = steps[self._step(gap)]
            total = total + value
            most = np.maximum(most, total)
            if len(differences) > 1:
                last = last + value
        found = np.maximum(last, most) if self.running else last
        return np.asarray(found >= self.limit)

    def _regretful(
        self, cells: FloatArray, rivals: FloatArray, own: FloatArray, r: float
    ) -> BoolArray:
        """Whether somebody in a cell may regret the item by more than ``r``."""
        if not len(rivals):
            return np.zeros(len(cells), dtype=bool)
        worth, mine = cells @ rivals.T, (cells @ own)[:, :, None]
        if not self.unknown:
            return np.asarray(((1 - r) * worth - mine > _ROUNDING).any(axis=(1, 2)))
        worst = np.argsort(worth.mean(axis=1), axis=1)[:, :_WORST]
        low = np.take_along_axis(worth, worst[:, None, :], axis=2)
        excess = (1 - r) * worth[:, :, :, None] + r * low[:, :, None, :] - mine[:, :, :, None]
        wide = np.all(excess <= _ROUNDING, axis=1)  # one low item settles it at all vertices
        return np.asarray(~np.all(np.any(wide, axis=2), axis=1))

    def _regrets(
        self, weights: FloatArray, rivals: FloatArray, own: FloatArray, r: float
    ) -> BoolArray:
        worth = weights @ rivals.T
        excess = (1 - r) * worth.max(axis=1) - weights @ own
        if self.unknown:
            excess = excess + r * worth.min(axis=1)
        return np.asarray(excess > _ROUNDING)


def _halved(cells: FloatArray) -> tuple[FloatArray, bool]:
    """Cut the longest edge of every cell; cells that are too small are dropped, and told."""
    n, k = cells.shape[:2]
    a, b = np.triu_indices(k, 1)
    if not len(a):
        return cells[:0], True
    lengths = ((cells[:, a] - cells[:, b]) ** 2).sum(axis=2)
    longest = lengths.argmax(axis=1)
    large = lengths[np.arange(n), longest] >= _SMALL**2
    cells, at = cells[large], np.arange(int(large.sum()))
    one, other = a[longest[large]], b[longest[large]]
    middle = 0.5 * (cells[at, one] + cells[at, other])
    left, right = cells.copy(), cells.copy()
    left[at, one], right[at, other] = middle, middle
    return np.concatenate([left, right]), bool((~large).any())


def _against(repeats: Sequence[bool], rate: float) -> float:
    """Evidence of questions that were asked again against a bound on independent slips."""
    d = 2 * rate * (1 - rate)
    if d == 0.0:
        return 1.0
    return math.prod(0.5 / d if differs else 0.5 / (1 - d) for differs in repeats)


def _values(shown: Sequence[lines.Shown]) -> FloatArray:
    return np.array([option.values for option in shown])


def _shown(asked: lines.Asked | None) -> Sequence[lines.Shown]:
    return () if asked is None else asked.shown
