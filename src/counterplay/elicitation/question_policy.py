"""Which options to show next: the set whose answer is expected to ruin the most dangerous bets.

Threats are solvent preferences that regret the recommended item too much. A set is scored by how
fast their evidence grows if the person answers as forecast, plus a little mutual information; the
first questions go by mutual information alone. Any policy keeps the certificate valid.
Source: docs/theory/26-people.md, "Forecasts and questions".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit

from counterplay.core.validation import FloatArray, IntArray
from counterplay.elicitation.forecast import Forecast, choice_chances

CANDIDATES = 35
_DRAWS = 300
_FAVOURITES = 120
_SOLVENT = 600
_CURIOSITY = 0.6
_POWER = 0.3  # of the evidence in the chance that a threat stays solvent
_FIRST = 4  # questions that go by mutual information alone
_FEW = 12  # candidates at least
_ASKED = 2  # how often the same set may be asked
_AT_ONCE = 16  # pairs that are scored before the others are looked at
_ROUNDING = 1e-9  # of the bound of a score
_FAR = 1300.0  # differences in units of the temperature whose exponentials overflow


@dataclass(frozen=True)
class Threats:
    """Solvent preferences that regret the recommended item too much."""

    weights: FloatArray
    evidence: FloatArray
    """Logarithm of the evidence against each of them."""


@dataclass(frozen=True)
class Choice:
    """A set to show and why."""

    rows: tuple[int, ...]
    forecast: FloatArray
    information: float


def most_telling(
    values: FloatArray,
    forecast: Forecast,
    threats: Threats,
    recommended: int,
    asked: Sequence[tuple[int, ...]],
    *,
    show: int,
    rate: float,
    widen: float,
    rng: np.random.Generator,
) -> Choice | None:
    """Return the best set of ``show`` rows of ``values``, or None if there is only one row.

    ``asked`` are the sorted sets that were shown; ``widen`` is the least difference of worth that
    two options should have for the average person, raised when answers fail to come.
    """
    scorer = _Scorer(values, forecast, threats, rate, first=len(asked) < _FIRST, rng=rng)
    times = Counter(asked)
    if asked:  # nobody is asked the same twice in a row if there is anything else to ask
        times[asked[-1]] = max(times[asked[-1]], _ASKED)
    candidates = _candidates(values, scorer, threats, recommended)
    if len(candidates) < 2:
        return None
    first, second = np.triu_indices(len(candidates), 1)
    if show == 2:  # what was asked twice is asked again only when nothing else is left
        often = _asked_often(candidates, times)[first, second]
        fresh = often < max(_ASKED, int(often.min()) + 1)
        first, second = first[fresh], second[fresh]
    best = scorer.best(candidates, first, second, widen)
    rows = [int(candidates[first[best]]), int(candidates[second[best]])]
    while len(rows) < min(show, len(candidates)):
        rest = [j for j in candidates.tolist() if j not in rows]
        new = [j for j in rest if times[tuple(sorted([*rows, j]))] < _ASKED] or rest
        rows.append(new[int(np.argmax([scorer.score([*rows, j]) for j in new]))])
    return Choice(tuple(rows), forecast.predict(values[rows]), scorer.information(rows))


class _Scorer:
    """Scores sets on posterior draws and threats."""

    def __init__(
        self,
        values: FloatArray,
        forecast: Forecast,
        threats: Threats,
        rate: float,
        *,
        first: bool,
        rng: np.random.Generator,
    ) -> None:
        self.values, self.rate = values, max(rate, 1e-3)
        who, self.lapse, self.temperature = forecast.sample(_DRAWS, rng)
        self.people = forecast.weights[who]
        self.worth = self.people @ values.T
        # equal ones in the order in which they were found, whatever the last digits are
        order = np.argsort(np.round(threats.evidence, 9), kind="stable")[:_SOLVENT]
        self.threats = threats.weights[order]
        chance = np.exp(_POWER * (threats.evidence.min(initial=0.0) - threats.evidence[order]))
        self.shares = chance / chance.sum() if len(chance) else chance
        self.threat_worth = self.threats @ values.T
        self.first = first or not len(order)

    def best(self, candidates: IntArray, first: IntArray, second: IntArray, widen: float) -> int:
        """Return which pair of candidates has the largest score, the first one of equals.

        An upper bound of every score is cheap, so few pairs need their own. Pairs that are closer
        than ``widen`` for the average person come after all others.
        """
        bound = self._bounds(candidates, first, second)
        pairs = np.column_stack([candidates[first], candidates[second]])
        late = np.zeros(len(pairs))
        if widen:
            late[self.spread(pairs) < widen] = -1e6
        bound += late + _ROUNDING
        order = np.argsort(-bound, kind="stable")
        scores = np.full(len(pairs), -np.inf)
        done, until = 0, min(_AT_ONCE, len(order))
        while done < until:  # those that the best so far does not rule out
            chosen = order[done:until]
            scores[chosen] = self.pairs(pairs[chosen]) + late[chosen]
            done, until = until, int((bound >= scores.max()).sum())
        return int(scores.argmax())

    def _bounds(self, candidates: IntArray, first: IntArray, second: IntArray) -> FloatArray:
        """Upper bounds of the scores: the entropy of an answer lies above a chord.

        As a function of the variance c (1 - c) the entropy of c is concave; a chance lies between
        the lapse and one half, or on the other side of it.
        """
        top, low = np.log(2.0), _entropy(self.lapse)
        least = self.lapse * (1 - self.lapse)
        slope = (top - low) / (0.25 - least)
        chance, variance = _pair_sums(
            np.ascontiguousarray(self.worth[:, candidates]), self.lapse, self.temperature, slope
        )
        p, spread = chance[first, second], variance[first, second]
        bound = _entropy(p) - (low - slope * least).mean() - spread
        if self.first:
            return np.asarray(bound)
        wrong = _wrong_shares(np.ascontiguousarray(self.threat_worth[:, candidates]), self.shares)[
            first, second
        ]
        when_wrong, when_right = self._growth(p, 1 - p)
        gain = wrong * when_wrong + (1 - wrong) * when_right
        return np.asarray(gain + _CURIOSITY * bound)

    def pairs(self, pairs: IntArray) -> FloatArray:
        """Return the score of many pairs at once."""
        a, b = pairs.T
        gap = (self.worth[:, a] - self.worth[:, b]) / self.temperature[:, None]
        slip = self.lapse[:, None]
        chance = slip + (1 - 2 * slip) / (1 + np.exp(-np.clip(gap, -500, 500)))
        p = chance.mean(axis=0)
        information = _entropy(p) - _entropy(chance).mean(axis=0)
        if self.first:
            return np.asarray(information)
        # what the threat would call wrong: the first, where it likes the second better
        wrong = self.threat_worth[:, a] < self.threat_worth[:, b]
        gain = np.where(wrong, *self._growth(p, 1 - p))
        return np.asarray(self.shares @ gain + _CURIOSITY * information)

    def score(self, rows: list[int]) -> float:
        """Return the score of one set."""
        chance = choice_chances(self.worth[:, rows], self.lapse, self.temperature)
        p = chance.mean(axis=0)
        information = _entropies(p) - _entropies(chance).mean()
        if self.first:
            return float(information)
        liked = self.threat_worth[:, rows].argmax(axis=1)
        q = self.rate
        against, agreed = _gains(p, q)
        gain = (p * against).sum() + (p * (agreed - against))[liked]
        return float(self.shares @ gain + _CURIOSITY * information)

    def information(self, rows: tuple[int, ...] | list[int]) -> float:
        """Return the bits that the answer to a set is expected to give."""
        chance = choice_chances(self.worth[:, list(rows)], self.lapse, self.temperature)
        entropy = _entropies(chance.mean(axis=0)) - _entropies(chance).mean()
        return float(entropy / np.log(2))

    def spread(self, pairs: IntArray) -> FloatArray:
        """Return the average difference of worth of each pair."""
        a, b = pairs.T
        return np.asarray(np.abs(self.worth[:, a] - self.worth[:, b]).mean(axis=0))

    def _growth(self, p: FloatArray, rest: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Expected growth of the log evidence, per pair: against a threat that calls the first
        option wrong, and against one that calls the second wrong."""
        (up_a, down_a), (up_b, down_b) = _gains(p, self.rate), _gains(rest, self.rate)
        return p * up_a + rest * down_b, p * down_a + rest * up_b


def _asked_often(candidates: IntArray, asked: Counter[tuple[int, ...]]) -> IntArray:
    """How often each pair of candidates was asked, (c, c)."""
    place = {row: i for i, row in enumerate(candidates.tolist())}
    often = np.zeros((len(candidates), len(candidates)), dtype=np.int64)
    for pair, times in asked.items():
        if len(pair) == 2 and pair[0] in place and pair[1] in place:
            a, b = place[pair[0]], place[pair[1]]
            often[a, b] = often[b, a] = times
    return often


def _candidates(
    values: FloatArray, scorer: _Scorer, threats: Threats, recommended: int
) -> IntArray:
    """The favourites of the draws and of the most solvent threats, most frequent first."""
    favourites = scorer.worth[:_FAVOURITES].argmax(axis=1)
    dangerous = scorer.threat_worth.argmax(axis=1) if len(scorer.threats) else favourites[:0]
    found = [recommended]
    for source in (dangerous, favourites):
        rows, counts = np.unique(source, return_counts=True)
        ranked = rows[np.argsort(-counts, kind="stable")].tolist()
        room = CANDIDATES // 2 if source is dangerous else CANDIDATES - len(found)
        found += [row for row in ranked if row not in found][:room]
    if len(found) < _FEW:  # everybody likes the same items: compare them with their neighbours
        people = scorer.threat_worth if len(scorer.threats) else scorer.worth
        near = np.argsort(-people.mean(axis=0), kind="stable").tolist()
        found += [j for j in near if j not in found][: _FEW - len(found)]
    return np.array(found[:CANDIDATES], dtype=np.int64)


def _gains(p: FloatArray, q: float) -> tuple[FloatArray, FloatArray]:
    """What a contradiction and an agreement take from the chance that a threat stays solvent."""
    return (
        1.0 - np.minimum(1.0, q / p) ** _POWER,
        1.0 - np.maximum(1.0, (1 - q) / p) ** _POWER,
    )


def _entropy(p: FloatArray) -> FloatArray:
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return np.asarray(-p * np.log(p) - (1 - p) * np.log1p(-p))


def _entropies(p: FloatArray) -> FloatArray:
    return np.asarray(-(p * np.log(np.maximum(p, 1e-300))).sum(axis=-1))


@njit(cache=True, nogil=True)
def _pair_sums(worth, lapse, temperature, slope):  # type: ignore[no-untyped-def]  # by numba
    """Over the draws, for every pair a < b: mean chance of a, and mean of slope times variance."""
    n, size = worth.shape
    chance, variance = np.zeros((size, size)), np.zeros((size, size))
    part = np.empty(size)
    for i in range(n):
        low, high = worth[i, 0], worth[i, 0]
        for a in range(size):
            low, high = min(low, worth[i, a]), max(high, worth[i, a])
        slip, rest = lapse[i], 1.0 - 2.0 * lapse[i]
        if high - low < _FAR * temperature[i]:
            # one exponential for every option
            for a in range(size):
                part[a] = np.exp((worth[i, a] - 0.5 * (low + high)) / temperature[i])
            for a in range(size):
                for b in range(a + 1, size):
                    c = slip + rest * part[a] / (part[a] + part[b])
                    chance[a, b] += c
                    variance[a, b] += slope[i] * c * (1.0 - c)
            continue
        # they are too far apart for it: one for every pair
        for a in range(size):
            for b in range(a + 1, size):
                gap = (worth[i, b] - worth[i, a]) / temperature[i]
                c = slip + rest / (1.0 + np.exp(min(gap, 700.0)))
                chance[a, b] += c
                variance[a, b] += slope[i] * c * (1.0 - c)
    return chance / n, variance / n


@njit(cache=True, nogil=True)
def _wrong_shares(worth, shares):  # type: ignore[no-untyped-def]  # compiled by numba
    """Share of the threats that like b better than a, for every pair a < b."""
    n, size = worth.shape
    result = np.zeros((size, size))
    for i in range(n):
        for a in range(size):
            own, share = worth[i, a], shares[i]
            for b in range(a + 1, size):
                # without a branch, so that several are compared at once
                result[a, b] += share * np.float64(own < worth[i, b])
    return result
