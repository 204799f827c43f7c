"""Which rows each model of a partition is fitted on: its parts, within the cap of their sources."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from counterplay.core.validation import BoolArray, IntArray
from counterplay.poisoning.held_rows import BlockRows, Held, in_order, joined
from counterplay.poisoning.units import Dealer, Digests, within_cap


@dataclass(frozen=True)
class PartFacts:
    """What is remembered of the rows of a part.

    Parameters
    ----------
    rows
        Number of rows.
    kept
        Those within the cap.
    labels
        The labels that occur.
    unknown
        Whether some rows have no source.
    """

    rows: int
    kept: int
    labels: frozenset[str | int | float | bool]
    unknown: bool


class ModelRows:
    """The rows of each model.

    Parameters
    ----------
    parts
        All rows, part by part.
    dealer
        What dealt them.
    design
        For each part the models that use it; None if model i uses part i.
    """

    def __init__(self, parts: BlockRows, dealer: Dealer, design: IntArray | None) -> None:
        self._parts, self._dealer, self._design = parts, dealer, design
        self._everywhere = dealer.cap is not None and dealer.several
        self._masks = _masks_of_all(parts, dealer.cap or 0) if self._everywhere else None
        self._used: list[list[int]] = []
        if design is not None:
            self._used = [[] for _ in range(len(parts))]
            for part, users in enumerate(design.tolist()):
                for model in users:
                    self._used[model].append(part)

    def __getitem__(self, model: int) -> Held:
        if self._design is None:
            return self.kept(model)
        return joined([self.kept(part) for part in self._used[model]]).sorted()

    def kept(self, part: int) -> Held:
        """Return the rows of a part that are within the cap of their source.

        If sources have several slots their rows are ranked over all of them.
        """
        held, cap = self._parts[part], self._dealer.cap
        if cap is None or held.owners is None:
            return held
        if self._masks is not None:
            return held.take(self._masks[part])
        return held.take(_mask(held.owners, np.arange(len(held)), cap))

    def facts(self, part: int) -> PartFacts:
        """Return what is to be remembered of a part."""
        held = self._parts[part]
        return PartFacts(
            len(held),
            len(self.kept(part)),
            frozenset(held.labels.tolist()),
            held.owners is not None and not bool(held.owners.any(axis=1).all()),
        )

    def touched(self, parts: Iterable[int]) -> tuple[list[int], list[int]]:
        """Return the parts and the models that may change when the rows of some parts do."""
        if self._everywhere:
            everything = list(range(len(self._parts)))
            return everything, everything
        chosen = sorted(set(parts))
        if self._design is None:
            return chosen, chosen
        return chosen, np.unique(self._design[chosen]).tolist()


def _masks_of_all(parts: BlockRows, cap: int) -> list[BoolArray] | None:
    """Return which rows of each part are within the cap, ranked over all parts."""
    labels, marks, owners = [], [], []
    for i in range(len(parts)):
        held = parts[i]
        if held.owners is None:
            return None
        labels.append(held.labels)
        marks.append(held.marks)
        owners.append(held.owners)
    who = np.concatenate(owners)
    order = in_order(np.concatenate(labels), [np.concatenate(marks), who])
    return np.split(_mask(who, order, cap), np.cumsum([len(part) for part in labels])[:-1])


def _mask(owners: Digests, order: IntArray, cap: int) -> BoolArray:
    known: BoolArray = np.asarray(owners.any(axis=1))
    return within_cap(owners, known, order, cap)
