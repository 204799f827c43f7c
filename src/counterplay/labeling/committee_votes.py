"""A committee that reacts to every label: members are reweighted at once, refitted one by one.

The votes of all members on all items are kept as one table of codes. A label changes the members'
weights and with them the mass of every class at every item in one pass; in each update one member
is refitted, and only its votes are exchanged.
Source: docs/theory/24-campaign.md, "Committees".
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from counterplay.core.seeds import derive_seed
from counterplay.core.validation import FloatArray, IntArray
from counterplay.labeling.models import RefittedModel
from counterplay.tables import Table

ERROR = 0.1
"""Assumed chance that a member votes wrongly; it sets how fast weights move."""


class CommitteeModel:
    """Bootstrap committee whose scores are weighted votes.

    Parameters
    ----------
    table:
        The pool.
    estimator:
        What every member is, or a list of estimators that take turns.
    n_classes:
        Number of classes.
    seed:
        Seed of the bootstrap samples.
    members:
        Number of members.
    """

    def __init__(
        self, table: Table, estimator: Any, n_classes: int, seed: int, members: int
    ) -> None:
        self.n_classes, self.members, self.seed = n_classes, members, seed
        kinds = estimator if isinstance(estimator, list | tuple) else [estimator]
        self._kinds = [RefittedModel(table, kind, n_classes, seed) for kind in kinds]
        self.votes: NDArray[np.uint8] = np.zeros((len(table), members), dtype=np.uint8)
        self.log_weights: FloatArray = np.zeros(members)
        self.masses: FloatArray = np.zeros((len(table), n_classes))
        self._seen = 0
        self._fitted_at = 0
        self._next = 0

    def fit(self, rows: IntArray, codes: IntArray) -> FloatArray:
        """Take the labels that are new; return the weighted votes of all rows."""
        if self._fitted_at == 0 or len(rows) < self._seen:
            self._refit_all(rows, codes)
        elif len(rows) > self._seen:
            new = slice(self._seen, len(rows))
            self._reweight(rows[new], codes[new])
            if len(rows) >= 2 * self._fitted_at:
                self._refit_all(rows, codes)
            else:
                self._shift(rows, codes)
        self._seen = len(rows)
        return self.masses

    def held_out(self, rows: IntArray, codes: IntArray) -> FloatArray:
        """Scores of labelled rows by single models that were not trained on them."""
        return self._kinds[0].held_out(rows, codes)

    def _reweight(self, rows: IntArray, codes: IntArray) -> None:
        """Members lose weight for every new label that they contradict."""
        right = np.equal(self.votes[rows], codes[:, None]).sum(axis=0)
        gain, loss = np.log(1.0 - ERROR), np.log(ERROR / max(1, self.n_classes - 1))
        self.log_weights += right * gain + (len(rows) - right) * loss
        vote_masses(self.votes, self._weights(), self.masses)

    def _weights(self) -> FloatArray:
        weights = np.exp(self.log_weights - self.log_weights.max())
        result: FloatArray = weights / weights.sum()
        return result

    def _refit_all(self, rows: IntArray, codes: IntArray) -> None:
        for member in range(self.members):
            self.votes[:, member] = self._member(member, rows, codes)
        self.log_weights[:] = 0.0
        self._fitted_at = max(1, len(rows))
        vote_masses(self.votes, self._weights(), self.masses)

    def _shift(self, rows: IntArray, codes: IntArray) -> None:
        """Refit one member; move its weight from its old votes to the new ones."""
        member, self._next = self._next, (self._next + 1) % self.members
        fresh = self._member(member, rows, codes)
        move_votes(self.votes, member, fresh, self._weights()[member], self.masses)

    def _member(self, member: int, rows: IntArray, codes: IntArray) -> NDArray[np.uint8]:
        rng = np.random.default_rng(derive_seed("member", self.seed, member, len(rows)))
        sample = rng.integers(0, len(rows), len(rows)) if len(rows) else np.empty(0, dtype=np.int64)
        scores = self._kinds[member % len(self._kinds)].fit(rows[sample], codes[sample])
        codes_of_all: NDArray[np.uint8] = scores.argmax(axis=1).astype(np.uint8)
        return codes_of_all


@numba.njit(cache=True)
def vote_masses(
    votes: NDArray[np.uint8], weights: FloatArray, masses: FloatArray
) -> None:  # pragma: no cover
    """Write into ``masses`` the weight of the members that vote for each class, item by item."""
    n, members = votes.shape
    classes = masses.shape[1]
    for x in range(n):
        # forget the old masses of the item
        for c in range(classes):
            masses[x, c] = 0.0
        # every member gives its weight to the class that it votes for; codes are below `classes`
        for b in range(members):
            masses[x, votes[x, b]] += weights[b]


@numba.njit(cache=True)
def move_votes(
    votes: NDArray[np.uint8],
    member: int,
    fresh: NDArray[np.uint8],
    weight: float,
    masses: FloatArray,
) -> None:  # pragma: no cover
    """Exchange the votes of one member and move its weight where they differ."""
    for x in range(votes.shape[0]):
        old, new = votes[x, member], fresh[x]
        if old != new:
            # only two classes of this item change their mass; rounding may not make one negative
            masses[x, old] = max(0.0, masses[x, old] - weight)
            masses[x, new] += weight
            votes[x, member] = new
