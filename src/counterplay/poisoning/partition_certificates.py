"""From votes to predictions, radii and certified curves of a partition.

Source: docs/theory/21-sources.md; docs/theory/10-poisoning.md, "Votes with certificates".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_choice,
    check_int,
)
from counterplay.core.votes import Vote
from counterplay.errors import InvalidInputError
from counterplay.poisoning.block_votes import ABSTAIN, collect_scores, count_votes
from counterplay.poisoning.certificates import (
    CertifiedAccuracy,
    finite_aggregation_radius,
    partition_radius,
    threshold_radius,
)
from counterplay.poisoning.partition_settings import checked_threshold
from counterplay.poisoning.partition_training import PartitionTraining
from counterplay.poisoning.run_off import RunOff, run_off, run_off_radius, run_off_spread_radius
from counterplay.poisoning.training_rows import Rows
from counterplay.poisoning.units import CHANGES, Changes, Unit

if TYPE_CHECKING:
    from counterplay.poisoning.certified_metrics import CertifiedMetrics

_DONE: dict[Changes, str] = {
    "inserted": "planted", "inserted_or_removed": "planted or removed", "relabelled": "relabelled",
    "replaced": "replaced", "moved": "moved",
}  # fmt: skip


class PartitionCertificates(PartitionTraining):
    """The half of :class:`PartitionClassifier` that votes and certifies."""

    @property
    def _least(self) -> tuple[int, float] | None:
        """Class with a threshold and its share; the parameter may be set after the fit."""
        return checked_threshold(self)

    def certify(
        self, X: Any, changes: Changes = "inserted", unit: Literal["rows", "sources"] | None = None
    ) -> IntArray:
        """Return how many changes of the training rows each prediction provably survives.

        Parameters
        ----------
        X:
            Points to certify.
        changes:
            ``"inserted"`` and ``"inserted_or_removed"`` count rows of either kind, or new and
            deleted sources; ``"relabelled"`` rows that get another label; ``"replaced"`` rows whose
            cells change, or sources that are taken over; ``"moved"`` rows given to another source.
        unit:
            ``"rows"`` or ``"sources"``; default: what was fitted. Blocks one change can touch: see
            docs/theory/21-sources.md, "What a change costs". Sources in ``split`` cost as many
            blocks as their slots; everybody else is counted here.

        Returns
        -------
        Integers; -1 where the classifier abstains.
        """
        return self._certificate(self._points(X), changes, unit)[0]

    def predict_certified(
        self, X: Any, changes: Changes = "inserted", unit: Literal["rows", "sources"] | None = None
    ) -> tuple[NDArray[Any], IntArray]:
        """Return predictions and how many changes each survives, from one vote.

        Parameters
        ----------
        X:
            Points to certify.
        changes:
            What an attacker does, as in `certify`.
        unit:
            What is counted, as in `certify`.

        Returns
        -------
        What ``predict`` and ``certify`` return, in half the time.
        """
        radius, labels = self._certificate(self._points(X), changes, unit)
        return labels, radius

    def is_safe(self, X: Any, *, sources: int = 0, rows: int = 0) -> BoolArray:
        """Whether predictions survive so many taken-over sources and changed rows of others.

        Sources named in ``split`` cost as many blocks as their slots and are not among them.
        """
        s, r = check_int(sources, "sources", low=0), check_int(rows, "rows", low=0)
        radius, _, _ = self._radii(self._points(X))
        if s and self.unit_ != "sources":
            raise InvalidInputError("this classifier was fitted by rows; sources cannot be counted")
        used = self._cost("sources", "replaced") * s + self._cost("rows", "replaced") * r
        safe: BoolArray = radius >= used
        if self.schema_margin_ is not None and s + r >= self.schema_margin_:
            safe = safe & (s + r == 0)
        return safe

    def _cost(self, unit: Unit, changes: Changes) -> int:
        unknown = any(fact.unknown for fact in self._facts)
        return self._dealer.cost(unit, changes, self._fitted, unknown=unknown)

    def _certificate(
        self, rows: Rows, changes: Changes, unit: Unit | None = None
    ) -> tuple[IntArray, NDArray[Any]]:
        """Radii in units (-1: abstention) and predicted labels."""
        check_choice(changes, "changes", CHANGES)
        counted = self.unit_ if unit is None else check_choice(unit, "unit", ("rows", "sources"))
        if counted == "sources" and self.unit_ != "sources":
            raise InvalidInputError("this classifier was fitted by rows; give unit='rows'")
        if counted == "sources" and changes in ("relabelled", "moved"):
            raise InvalidInputError(f"changes={changes!r} is about rows; give unit='rows'")
        radius, lead, labels = self._radii(rows)
        cost = self._cost(counted, changes)
        held = radius // cost if cost else np.full_like(radius, self._n_rows())
        held = np.where(radius < 0, -1, held)
        if self.schema_margin_ is not None:
            held = np.minimum(held, max(0, self.schema_margin_ - 1))
        return np.where(lead < self.min_lead, -1, held).astype(np.int64), labels

    def _radii(self, rows: Rows) -> tuple[IntArray, IntArray, NDArray[Any]]:
        """Blocks (parts) that may be touched, lead of the winner, predicted labels."""
        votes, k = self._votes_of(rows), len(self.classes_)
        closed = self.classes is not None
        if self._least is not None:
            code, _ = self._least
            least = self._votes_needed()
            count = (votes == code).sum(axis=0)
            lead = np.abs(2 * count - 2 * least + 1).astype(np.int64)
            winner = np.where(count >= least, code, 1 - code)
            radius = threshold_radius(votes, code, least, self.design_)
        elif self.aggregation == "runoff":
            scores = self._scores(rows)
            election = run_off(votes, scores)
            lead, winner = election.lead, election.winner
            if self.design_ is None:
                radius = run_off_radius(election)
            else:
                radius = run_off_spread_radius(votes, scores, self.design_, election)
        else:
            counts = count_votes(votes, k)
            vote = Vote(counts.argmax(axis=1).astype(np.int64), counts, self.classes_)
            lead, winner = vote.gap, vote.winner
            if self.design_ is None:
                radius = partition_radius(vote, closed=closed)
            else:
                radius = finite_aggregation_radius(votes, self.design_, k, closed=closed)
        answers = (votes != ABSTAIN).sum(axis=0)  # one of them is left, so nothing can raise
        most = np.maximum((answers - 1) // self.spread, 0)
        return np.minimum(radius, most).astype(np.int64), lead, self.classes_[winner]

    def _votes_needed(self) -> int:
        """Votes that the class with a threshold needs, of all blocks."""
        if self._least is None:
            raise InvalidInputError("this classifier has no vote threshold")
        return max(1, math.ceil(self._least[1] * len(self.models_) - 1e-9))

    def _scores(self, rows: Rows) -> FloatArray:
        return collect_scores(self.models_, rows, self.classes_, self.n_jobs)

    def election(self, X: Any) -> RunOff:
        """Both rounds of the run-off, whatever ``aggregation`` is."""
        rows = self._points(X)
        return run_off(self._votes_of(rows), self._scores(rows))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the winner of the vote, or of the run-off; ties go to the first class."""
        if self.aggregation == "runoff":
            winner = self.election(X).winner
            return np.asarray(self.classes_[winner])
        if getattr(self, "_least", None) is not None:
            return self._radii(self._points(X))[2]
        return super().predict(X)

    def predict_proba(self, X: Any) -> FloatArray:
        """Vote shares per class; in a run-off the finalists share theirs by the second round.

        Shares are no probabilities, and certificates are for the label alone.
        """
        if self.aggregation == "runoff":
            return self.election(X).shares()
        return super().predict_proba(X)

    def vote_margin(self, X: Any) -> IntArray:
        """Votes for the winner minus votes for the strongest other class (of the final)."""
        if self.aggregation == "runoff":
            return self.election(X).lead
        return super().vote_margin(X)

    def abstains(self, X: Any) -> BoolArray:
        """Whether the lead of the winner is below ``min_lead``."""
        mask: BoolArray = self.vote_margin(X) < self.min_lead
        return mask

    def predict_or_abstain(self, X: Any) -> np.ma.MaskedArray[Any, Any]:
        """Return predictions as a masked array; abstentions are masked."""
        return np.ma.MaskedArray(self.predict(X), mask=self.abstains(X))

    def certified_accuracy(
        self, X: Any, y: Any, changes: Changes = "inserted"
    ) -> CertifiedAccuracy:
        """Return the curve of certified accuracy over the number of changed rows or sources."""
        radius, labels = self._certificate(self._points(X), changes)
        right = labels == self._truth(y, len(radius))
        correct = np.asarray(right & (radius >= 0), dtype=np.bool_)
        return CertifiedAccuracy(radius, correct, counted=f"{_DONE[changes]} {self.unit_}")

    def certified_metrics(
        self,
        X: Any,
        y: Any,
        *,
        positive: Any = None,
        groups: Any = None,
        budgets: Sequence[int] | IntArray | None = None,
        collective: bool = False,
        time_limit: float = 30.0,
    ) -> CertifiedMetrics:
        """Return precision, recall and F1 that no attacker within a budget can undercut.

        Parameters
        ----------
        X:
            Test rows.
        y:
            Their labels.
        positive:
            The class that precision and recall are about; default: all classes and their mean.
        groups:
            Group of each row: the same numbers for each group.
        budgets:
            Numbers of rows or sources; default: 0, 1, ... up to where nothing is certified.
        collective:
            Certify the test rows together, against one poisoned training set: pays for many
            classes, hardly for two. No statement about a single decision.
        time_limit:
            Seconds for the programs of ``collective``; the bounds are valid whenever they stop.
        """
        from counterplay.poisoning.certified_metrics import certified_metrics

        return certified_metrics(
            self, X, y, positive=positive, groups=groups, budgets=budgets,
            collective=collective, time_limit=time_limit,
        )  # fmt: skip
