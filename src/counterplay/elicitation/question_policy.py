"""Which options to show next: the set whose answer is expected to ruin the most dangerous bets.

Threats are solvent preferences that regret the recommended item too much. A set is scored by how
fast their evidence grows if the person answers as forecast, plus a little mutual information; the
first questions go by mutual information alone. Any policy keeps the certificate valid.
Source: docs/theory/26-people.md, "Forecasts and questions".
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations

import numpy as np

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
    asked: Counter[tuple[int, ...]],
    *,
    show: int,
    rate: float,
    widen: float,
    rng: np.random.Generator,
) -> Choice | None:
    """Return the best set of ``show`` rows of ``values``, or None if there is only one row.

    ``asked`` counts how often each sorted set was shown; ``widen`` is the least difference of worth
    that two options should have for the average person, raised when answers fail to come.
    """
    scorer = _Scorer(values, forecast, threats, rate, first=sum(asked.values()) < _FIRST, rng=rng)
    candidates = _candidates(values, scorer, threats, recommended)
    pairs = list(combinations(candidates.tolist(), 2))
    if not pairs:
        return None
    if show == 2:  # what was asked twice is asked again only when nothing else is left
        often = np.array([asked[(min(pair), max(pair))] for pair in pairs])
        limit = max(_ASKED, int(often.min()) + 1)
        pairs = [pair for pair, times in zip(pairs, often) if times < limit]
    scores = scorer.pairs(np.array(pairs))
    if widen:
        far = scorer.spread(np.array(pairs)) >= widen
        scores = np.where(far, scores, scores - 1e6)
    rows = list(pairs[int(scores.argmax())])
    while len(rows) < min(show, len(candidates)):
        rest = [j for j in candidates.tolist() if j not in rows]
        new = [j for j in rest if asked[tuple(sorted([*rows, j]))] < _ASKED] or rest
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
        order = np.argsort(threats.evidence)[:_SOLVENT]
        self.threats = threats.weights[order]
        chance = np.exp(_POWER * (threats.evidence.min(initial=0.0) - threats.evidence[order]))
        self.shares = chance / chance.sum() if len(chance) else chance
        self.threat_worth = self.threats @ values.T
        self.first = first or not len(order)

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
        gain = self._growth(p, 1 - p, wrong)
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

    def _growth(self, p: FloatArray, rest: FloatArray, wrong: np.ndarray) -> FloatArray:
        """Expected growth of the log evidence against each threat, per pair."""
        (up_a, down_a), (up_b, down_b) = _gains(p, self.rate), _gains(rest, self.rate)
        return np.where(wrong, p * up_a + rest * down_b, p * down_a + rest * up_b)


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
