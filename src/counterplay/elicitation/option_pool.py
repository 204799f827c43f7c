"""The options an adaptive questionnaire works with, and the exact certificate over them.

A table gives all its undominated rows at once. For other oracles the pool grows: the best option
of every vertex of the consistent set is added, which is all the certificate needs.
Source: docs/theory/08-elicitation.md, "Proposition 8.L: the adaptive certificate is exact".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from counterplay.core.validation import FloatArray, IntArray
from counterplay.elicitation.catalogue import undominated
from counterplay.elicitation.consistent_set import ConsistentSet
from counterplay.elicitation.oracles import LinearOracle, PointSetOracle
from counterplay.errors import InvalidInputError

_CACHED = 2**17  # worths compared at a time


@dataclass(frozen=True)
class Certificate:
    """The option with the smallest largest regret, and who regrets it most."""

    option: int
    """Position in the pool."""
    regret: float
    """Largest regret over every consistent preference, as a fraction of the best value."""
    rival: int
    """The option that the most regretful preference would rather have."""
    excess: float
    """Largest regret minus ``factor`` times the precision, in absolute units (see ``evaluate``)."""
    contenders: IntArray = field(compare=False, repr=False)
    """The option and all that are better for some consistent preference; no other is ever best."""
    champions: IntArray = field(compare=False, repr=False)
    """A best option for each vertex."""


def clean(regret: float) -> float:
    """Return 0 for what is only rounding."""
    return regret if regret > 1e-12 else 0.0


class OptionPool:
    """Options found so far; answers "what is best for these weights" exactly."""

    def __init__(self, oracle: LinearOracle, witnesses: FloatArray | None = None) -> None:
        self.oracle = oracle
        self.table = isinstance(oracle, PointSetOracle)
        self.items: list[Any] = []
        self.values = np.zeros((0, oracle.k))
        self.witnesses = np.zeros((0, oracle.k))
        self._known: dict[bytes, int] = {}
        self._best: dict[bytes, int] = {}
        if isinstance(oracle, PointSetOracle):
            rows = undominated(oracle.X)
            self.items = [int(row) for row in rows]
            self.values = oracle.X[rows]
        elif witnesses is not None and len(witnesses):
            self._search(np.asarray(witnesses, dtype=np.float64))
        else:
            self._search(np.eye(oracle.k))
        empty = np.flatnonzero(~(self.best_values(np.eye(oracle.k)) > 0))
        if empty.size:
            raise InvalidInputError(
                f"no option has anything of objective {int(empty[0])}; leave it out"
            )

    def __len__(self) -> int:
        return len(self.items)

    def best(self, weights: FloatArray) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the position of a best option for each row of weights, over ALL options."""
        if self.table:
            return np.asarray((weights @ self.values.T).argmax(axis=1))
        keys = [np.round(row, 12).tobytes() for row in weights]
        missing = {key: i for i, key in enumerate(keys) if key not in self._best}
        if missing:
            self._search(weights[list(missing.values())], list(missing))
        return np.array([self._best[key] for key in keys])

    def best_values(self, weights: FloatArray) -> FloatArray:
        """Return the best value for each row of weights, over all options."""
        return np.asarray((weights * self.values[self.best(weights)]).sum(axis=1))

    def evaluate(
        self, consistent: ConsistentSet, factor: float = 0.0, among: IntArray | None = None
    ) -> Certificate:
        """Return the option with the smallest largest regret over all consistent preferences.

        Both the relative regret and ``regret - factor * eps`` are largest at vertices, so this is
        exact. The second is at most 0 when the guarantee ``regret <= factor * eps`` already holds
        for every consistent person. ``among``: the contenders of a larger consistent set, which
        are all that matter for this one (tables only).
        """
        weights = consistent.vertices
        if self.table and among is not None:
            positions = among
        else:
            if not self.table:
                self.best(weights)  # finds the best options of all vertices
            positions = np.arange(len(self))
        worth = weights @ self.values[positions].T
        champion = worth.argmax(axis=1)
        best = worth[np.arange(len(worth)), champion]
        relative = 1.0 - worth / best[:, None]
        worst = relative.max(axis=0)
        option = int(worst.argmin())
        vertex = int(relative[:, option].argmax())
        loss = best - worth[:, option] - factor * consistent.precisions
        better = (worth > worth[:, [option]]).any(axis=0)  # linear: if at no vertex, then nowhere
        contenders = np.sort(np.append(np.flatnonzero(better), option))
        return Certificate(
            int(positions[option]),
            clean(float(worst[option])),
            int(positions[champion[vertex]]),
            float(loss.max()),
            positions[contenders],
            positions[champion],
        )

    def excesses(self, consistent: ConsistentSet, factor: float) -> FloatArray:
        """Return, for each option, the largest ``regret - factor * eps`` in absolute units."""
        weights = consistent.vertices
        best = self.best_values(weights)
        loss = best[:, None] - weights @ self.values.T - factor * consistent.precisions[:, None]
        return np.asarray(loss.max(axis=0))

    def worst_regrets(self, consistent: ConsistentSet) -> FloatArray:
        """Return the largest relative regret of each option over all consistent preferences."""
        weights = consistent.vertices
        best = self.best_values(weights)
        return np.asarray((1.0 - (weights @ self.values.T) / best[:, None]).max(axis=0))

    def position_of(self, item: Any, value: FloatArray, witness: FloatArray) -> int:
        """Return the position of an option, adding it if it is new."""
        key = np.round(value, 12).tobytes()
        if self.table:
            return (
                self.items.index(item)
                if item in self.items
                else int(np.abs(self.values - value).sum(axis=1).argmin())
            )
        if key not in self._known:
            self._append(item, value, witness, key)
        return self._known[key]

    def _search(self, weights: FloatArray, keys: list[bytes] | None = None) -> None:
        found, values = self.oracle.argmax(weights)
        names = keys or [np.round(row, 12).tobytes() for row in weights]
        for item, value, witness, name in zip(found, values, weights, names):
            key = np.round(value, 12).tobytes()
            if key not in self._known:
                self._append(item, value, witness, key)
            self._best[name] = self._known[key]

    def _append(self, item: Any, value: FloatArray, witness: FloatArray, key: bytes) -> None:
        self._known[key] = len(self.items)
        self.items.append(item)
        self.values = np.vstack([self.values, value])
        self.witnesses = np.vstack([self.witnesses, witness])


def best_among(weights: FloatArray, values: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return which of the options (n, k) is best for each row of weights, and its worth.

    Compared in single precision and block by block, so that the table of worths stays in cache.
    """
    rows, columns = weights.astype(np.float32), values.astype(np.float32).T
    block = max(1, _CACHED // len(values))
    table = np.empty((min(block, len(rows)), len(values)), dtype=np.float32)
    place = np.empty(len(rows), dtype=np.int64)
    for start in range(0, len(rows), block):
        part = rows[start : start + block]
        worth = np.matmul(part, columns, out=table[: len(part)])
        worth.argmax(axis=1, out=place[start : start + len(part)])
    return place, np.asarray((weights * values[place]).sum(axis=1))
