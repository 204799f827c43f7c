"""Training of a partition: rows are dealt to blocks, each block fits the pipeline on its own.

An update fits only the blocks whose rows changed; the result is that of a fresh fit.
Source: docs/theory/21-sources.md, "Updates".
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from counterplay.core.validation import IntArray
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.poisoning.block_fits import Constant, Failed, fit_blocks
from counterplay.poisoning.block_votes import collect_votes
from counterplay.poisoning.certificates import spread_parts
from counterplay.poisoning.errors import NotDeterministicWarning
from counterplay.poisoning.model import BatchLearner
from counterplay.poisoning.partition_settings import (
    check_settings,
    checked_threshold,
    dealer_of,
    seed_of,
)
from counterplay.poisoning.removals import removed
from counterplay.poisoning.training_rows import (
    Held,
    Rows,
    accept,
    check_classes,
    check_duplicate_ids,
    column_of,
    deal,
    distinct,
    entry,
    warn_rejected,
)
from counterplay.poisoning.units import Fitted, Unit, encoded_ids, encoded_sources
from counterplay.poisoning.update_report import UpdateReport
from counterplay.poisoning.voting import VotingClassifier
from counterplay.tables import Schema
from counterplay.tables.labels import as_labels

_CHECKED_ROWS = 200


class PartitionTraining(VotingClassifier):
    """The half of :class:`PartitionClassifier` that fits and updates."""

    n_partitions: int | Literal["auto"]
    classes: Sequence[Any] | NDArray[Any] | None
    vote_threshold: Mapping[Any, Any] | None
    schema: Schema | None
    key: bytes | str | None
    committee: int
    rows_per_source: int | None
    split: Mapping[Any, int] | None
    unknown_source: Literal["row", "pool", "drop"]
    spread: int
    aggregation: Literal["plurality", "runoff"]
    min_lead: int
    budget: int
    check: bool
    random_state: int | None
    backend: Literal["loky", "threading"] | None

    def fit(self, X: Any, y: Any, *, sources: Any = None, row_ids: Any = None) -> Self:
        """Deal the rows to blocks and fit one pipeline per block.

        Parameters
        ----------
        X:
            Rows in any container: a frame, an array, a sparse matrix, texts, images.
        y:
            One label per row, in any coding.
        sources:
            Who sent each row: then a block holds all rows of its sources, and a radius counts
            sources.
        row_ids:
            Ids that you gave the rows; without ``sources`` the block of a row is that of its id.
        """
        check_settings(self)
        schema = self.schema
        if not isinstance(self.estimator, BatchLearner):
            X, y = entry(X), column_of(y)
        if schema is None and sources is not None and not isinstance(self.estimator, BatchLearner):
            schema = Schema.infer(X, list(sources) if hasattr(sources, "__len__") else sources)
        found = self._accepted(X, y, schema, self.classes)
        self.schema_margin_ = None if self.schema is not None else self.schema_.margin
        n = len(found.places) + len(found.rejected)
        owners = None if sources is None else encoded_sources(sources, n)
        ids = None if row_ids is None else encoded_ids(row_ids, n)
        checked_threshold(self)
        if self.check:
            self._warn_global(found.rows)
        self.n_partitions_ = self._count(X, y, sources)
        self._dealer = dealer_of(self, self.n_partitions_ * self.spread)
        self._fitted: Fitted = (
            "sources" if owners is not None else "ids" if ids is not None else "rows"
        )
        self.unit_: Unit = "sources" if owners is not None else "rows"
        held = deal(found, self._dealer, owners, ids)
        if row_ids is not None:
            check_duplicate_ids(held, found.places, list(row_ids))
        self._models_of(held, {})
        if self.check:
            self._warn_random()
        return self

    def _count(self, X: Any, y: Any, sources: Any) -> int:
        if self.n_partitions != "auto":
            return int(self.n_partitions)
        from counterplay.poisoning.choose_partitions import choose_n_partitions

        chosen: int = choose_n_partitions(
            self.estimator, X, y, sources=sources, budget=self.budget, n_jobs=self.n_jobs
        ).best
        return chosen

    def _models_of(self, held: Held, known: dict[tuple[int, bytes], Any]) -> int:
        """Fit the models whose rows changed; return their number."""
        d, total = self.spread, self._dealer.n_blocks
        parts = held.members(total, self.rows_per_source)
        blocks, design = parts, None
        if d > 1:
            design = spread_parts(self.n_partitions_, d)
            used: list[list[int]] = [[] for _ in range(total)]
            for part, users in enumerate(design.tolist()):
                for model in users:
                    used[model].append(part)
            blocks = [held.sorted(np.concatenate([parts[p] for p in own])) for own in used]
        marks = [held.signature(places) for places in blocks]
        todo = [i for i, mark in enumerate(marks) if (i, mark) not in known]
        seeds = self._seeds(total, seed_of(self))
        fitted = fit_blocks(
            self._base(), held.rows, held.labels, [blocks[i] for i in todo],
            [seeds[i] for i in todo], self.n_jobs, self.backend,
        )  # fmt: skip
        fresh = dict(zip(todo, fitted))
        models = [fresh[i] if i in fresh else known[i, mark] for i, mark in enumerate(marks)]
        self._note_models(models)
        if self.classes is None and not isinstance(self.estimator, BatchLearner):
            self.classes_ = as_labels(distinct(held.labels))
        self.design_: IntArray | None = design
        self.partition_sizes_: IntArray = np.array([len(part) for part in parts], dtype=np.int64)
        self._held, self._marks, self._blocks = held, marks, blocks
        self._warn_empty()
        return len(todo)

    def _warn_empty(self) -> None:
        total, alive = len(self.models_), self._alive()
        if 2 * self.n_empty_ > total and not isinstance(self.estimator, BatchLearner):
            warnings.warn(
                f"{self.n_empty_} of {total} blocks are empty and abstain; at most "
                f"{max(0, (alive - 1) // 2)} {self.unit_} can be certified",
                AssumptionWarning,
                stacklevel=4,
            )

    def _alive(self) -> int:
        """Blocks that have a model."""
        return len(self.models_) - self.n_empty_ - self.n_failed_

    def _warn_random(self) -> None:
        """Fit the smallest block with a real model again and compare the votes."""
        base = self._base()
        real = [
            (len(self._blocks[i]), i)
            for i, model in enumerate(self.models_)
            if model is not None and not isinstance(model, Constant | Failed)
        ]
        if not real or hasattr(base, "fit_blocks"):
            return
        i = min(real)[1]
        seed = self._seeds(len(self.models_), seed_of(self))[i]
        again = fit_blocks(base, self._held.rows, self._held.labels, [self._blocks[i]], [seed])
        rows = self._held.rows.part(slice(0, _CHECKED_ROWS))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            first, second = (
                _quiet_votes(m, rows, self.classes_) for m in (self.models_[i], again[0])
            )
        if not np.array_equal(first, second):
            warnings.warn(
                "fitting one block twice gave different votes, and no certificate covers that: set "
                "n_jobs=1 or the seed inside the estimator",
                NotDeterministicWarning,
                stacklevel=3,
            )

    def update(
        self,
        X: Any = None,
        y: Any = None,
        *,
        sources: Any = None,
        row_ids: Any = None,
        remove: Any = None,
        all_copies: bool = False,
        remove_ids: Any = None,
        remove_sources: Any = None,
    ) -> UpdateReport:
        """Add and remove training rows; only blocks whose rows change are fitted again.

        The result equals a fresh fit on the rows that are left, with the schema as it is, vote by
        vote: removed rows leave no trace (exact unlearning).

        Parameters
        ----------
        X:
            New rows.
        y:
            Their labels.
        sources:
            Their sources, if the classifier was fitted by sources.
        row_ids:
            Their ids, if it was fitted with ids.
        remove:
            Rows to remove by content, or a pair of rows and labels: one copy of each.
        all_copies:
            Remove all copies of the rows in ``remove``.
        remove_ids:
            Ids of rows to remove.
        remove_sources:
            Sources to remove with all their rows.
        """
        start = time.perf_counter()
        held = self._fitted_rows()
        if isinstance(self.estimator, BatchLearner):
            raise InvalidInputError("update is for scikit-learn estimators; fit the learner again")
        if (X is None) != (y is None):
            raise InvalidInputError("new rows need labels: give both X and y")
        before = len(held)
        gone = removed(held, self._dealer, remove, all_copies, remove_ids, remove_sources)
        left = held.keep(~gone) if gone.any() else held
        rejected, added = 0, 0
        if X is not None:
            new, rejected = self._new_rows(X, y, sources, row_ids)
            added = len(new)
            left = left.join(new) if added else left
        if len(left) == 0:
            raise InvalidInputError("no row would be left; fit on other rows instead")
        known = {(i, mark): self.models_[i] for i, mark in enumerate(self._marks)}
        refitted = self._models_of(left, known)
        self.rows_rejected_ = rejected
        seconds = time.perf_counter() - start
        return UpdateReport(
            refitted, len(self.models_), added, before - int((~gone).sum()), rejected, seconds
        )

    def _fitted_rows(self) -> Held:
        check_is_fitted(self)
        return self._held

    def _new_rows(self, X: Any, y: Any, sources: Any, row_ids: Any) -> tuple[Held, int]:
        for given, fitted, word in (
            (sources, self._held.owners, "sources"),
            (row_ids, self._held.ids, "row_ids"),
        ):
            if (given is None) != (fitted is None):
                verb = "was" if fitted is not None else "was not"
                raise InvalidInputError(
                    f"this classifier {verb} fitted by {word}; "
                    f"{'give' if fitted is not None else 'leave out'} {word}= for the new rows"
                )
        classes = None if self.classes is None else check_classes(self.classes)
        found = accept(X, y, self.schema_, classes)
        n = len(found.places) + len(found.rejected)
        warn_rejected(found.rejected, n + 1, stacklevel=4)
        owners = None if sources is None else encoded_sources(sources, n)
        ids = None if row_ids is None else encoded_ids(row_ids, n)
        return deal(found, self._dealer, owners, ids), len(found.rejected)


def _quiet_votes(model: Any, rows: Rows, classes: NDArray[Any]) -> IntArray:
    try:
        return collect_votes([model], rows, classes)
    except InvalidInputError:
        return np.full((1, len(rows)), -1)
