"""Training of a partition: rows are dealt to blocks, each block fits the pipeline on its own.

An update fits only the blocks whose rows changed; the result is that of a fresh fit.
Source: docs/theory/21-sources.md, "Updates".
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from counterplay.core.seeds import derive_seed
from counterplay.core.validation import IntArray
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.poisoning.block_fits import Constant, Failed, fit_held
from counterplay.poisoning.block_store import StoredRows, alone
from counterplay.poisoning.block_votes import collect_votes
from counterplay.poisoning.block_workers import Progress, Workers
from counterplay.poisoning.certificates import spread_parts
from counterplay.poisoning.errors import NotDeterministicWarning
from counterplay.poisoning.held_rows import (
    BlockRows,
    ChangedRows,
    Held,
    check_duplicate_ids,
    deal,
    joined,
    split_blocks,
)
from counterplay.poisoning.model import BatchLearner
from counterplay.poisoning.model_rows import ModelRows, PartFacts
from counterplay.poisoning.partition_settings import (
    check_settings,
    checked_threshold,
    dealer_of,
    seed_of,
)
from counterplay.poisoning.removals import Removal, changed_parts
from counterplay.poisoning.saved_partition import (
    check_store,
    check_unchanged,
    save_changed,
    save_partition,
    store_alone,
    stored_rows,
)
from counterplay.poisoning.training_rows import (
    Rows,
    accept,
    check_classes,
    column_of,
    entry,
    in_class_order,
    warn_rejected,
)
from counterplay.poisoning.units import Fitted, Unit, encoded_ids, encoded_sources
from counterplay.poisoning.update_report import UpdateReport
from counterplay.poisoning.voting import VotingClassifier
from counterplay.tables import Schema, Table
from counterplay.tables.labels import as_labels

_CHECKED_ROWS = 200
_STATE = (
    "models_", "_marks", "_facts", "classes_", "partition_sizes_", "n_empty_", "failures_",
    "n_failed_", "rows_rejected_",
)  # fmt: skip


class PartitionTraining(VotingClassifier):
    """The half of :class:`PartitionClassifier` that fits and updates."""

    _in_parts = True
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
    backend: Literal["loky", "threading", "ray"] | None
    block_timeout: float | None
    progress: Progress
    store: str | Path | None

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
        with store_alone(self):
            return self._fit(X, y, sources, row_ids)

    def _fit(self, X: Any, y: Any, sources: Any, row_ids: Any) -> Self:
        folder = check_store(self)
        schema = self.schema
        if not isinstance(self.estimator, BatchLearner):
            X, y = entry(X), column_of(y)
        if schema is None and sources is not None and not isinstance(self.estimator, BatchLearner):
            schema = self._voted(X, encoded_sources(sources, len(Table.of(X))))
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
        held, block = deal(found, self._dealer, owners, ids)
        if not len(held):
            raise InvalidInputError("no row is left: every row is without a source and dropped")
        check_duplicate_ids(held, row_ids, found.places)
        del found  # what is no longer needed is not there twice
        nothing = held.take(np.zeros(0, dtype=np.int64))
        parts = [nothing] * self._dealer.n_blocks
        for i, part in split_blocks(held, block):
            parts[i] = part
        del held, block
        self.design_: IntArray | None = (
            spread_parts(self.n_partitions_, self.spread) if self.spread > 1 else None
        )
        self._fit_models(parts)
        self._parts: BlockRows = parts
        if self.check:
            self._warn_random()
        if folder is not None:
            self._manifest: Any = save_partition(self, folder, live=True)
            self._parts = stored_rows(self, folder, self._manifest)
        return self

    def _voted(self, X: Any, owners: Sequence[bytes | None]) -> Schema:
        """Return the schema that the sources vote for, each of them once: a radius counts them.

        The pool of rows without a source is one of them; rows that are dropped have no vote.
        """
        voters = owners
        if self.unknown_source == "pool":
            voters = [b"" if owner is None else owner for owner in owners]
        elif self.unknown_source == "drop" and None in owners and any(owners):
            places = [i for i, owner in enumerate(owners) if owner is not None]
            X, voters = _safe_indexing(X, places), [owners[i] for i in places]
        return Schema.infer(X, voters)

    def _count(self, X: Any, y: Any, sources: Any) -> int:
        if self.n_partitions != "auto":
            return int(self.n_partitions)
        from counterplay.poisoning.choose_partitions import choose_n_partitions

        chosen: int = choose_n_partitions(
            self.estimator, X, y, sources=sources, budget=self.budget, n_jobs=self.n_jobs
        ).best
        return chosen

    def _fit_models(self, parts: BlockRows, changed: Iterable[int] | None = None) -> int:
        """Fit the models whose rows changed (all by default); return their number."""
        rows, n = ModelRows(parts, self._dealer, self.design_), len(parts)
        fresh = changed is None
        places, models = rows.touched(range(n) if changed is None else changed)
        marks: list[bytes] = [b""] * n if fresh else list(self._marks)
        todo = []
        for i in models:
            mark = rows[i].signature()
            if fresh or mark != marks[i]:
                todo.append(i)
            marks[i] = mark
        tasks = [partial(rows.__getitem__, i) for i in todo]
        fitted = fit_held(self._base(), tasks, self._block_seeds(todo), self._workers())
        found = [None] * n if fresh else list(self.models_)
        for i, model in zip(todo, fitted):
            found[i] = model
        facts = {} if fresh else dict(enumerate(self._facts))
        facts |= {i: rows.facts(i) for i in places}
        self._note_models(found)
        self._marks: list[bytes] = marks
        self._facts: list[PartFacts] = [facts[i] for i in range(n)]
        if self.classes is None and not isinstance(self.estimator, BatchLearner):
            self.classes_ = as_labels(in_class_order(set().union(*(f.labels for f in self._facts))))
        self.partition_sizes_: IntArray = np.array([f.kept for f in self._facts], dtype=np.int64)
        self._warn_empty()
        return len(todo)

    def _workers(self) -> Workers:
        limit = None if self.block_timeout is None else float(self.block_timeout)
        return Workers(self.n_jobs, self.backend, limit, self.progress)

    def _block_seeds(self, blocks: Sequence[int]) -> list[int]:
        seed = seed_of(self)
        return [derive_seed("block", seed, i) % 2**31 for i in blocks]

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
        rows = ModelRows(self._parts, self._dealer, self.design_)
        real = [
            (int(self.partition_sizes_[i]), i)
            for i, model in enumerate(self.models_)
            if model is not None and not isinstance(model, Constant | Failed)
        ]
        if not real or hasattr(base, "fit_blocks"):
            return
        i = min(real)[1]
        again = fit_held(base, [partial(rows.__getitem__, i)], self._block_seeds([i]), Workers())
        seen = self._some_rows(_CHECKED_ROWS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            first, second = (
                _quiet_votes(m, seen, self.classes_) for m in (self.models_[i], again[0])
            )
        if not np.array_equal(first, second):
            warnings.warn(
                "fitting one block twice gave different votes, and no certificate covers that: set "
                "n_jobs=1 or the seed inside the estimator",
                NotDeterministicWarning,
                stacklevel=3,
            )

    def _some_rows(self, most: int) -> Rows:
        """Return up to so many training rows."""
        chosen: list[Held] = []
        for i, fact in enumerate(self._facts):
            if fact.rows and sum(map(len, chosen)) < most:
                chosen.append(self._parts[i])
        return joined(chosen).rows.part(slice(0, most))

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
        check_is_fitted(self)
        if isinstance(self.estimator, BatchLearner):
            raise InvalidInputError("update is for scikit-learn estimators; fit the learner again")
        if (X is None) != (y is None):
            raise InvalidInputError("new rows need labels: give both X and y")
        folder = self._parts.folder if isinstance(self._parts, StoredRows) else None
        with contextlib.nullcontext() if folder is None else alone(folder):
            found = self._update(
                (X, y, sources, row_ids), remove, all_copies, remove_ids, remove_sources
            )
        return replace(found, seconds=time.perf_counter() - start)

    def _update(
        self, more: Any, remove: Any, all_copies: bool, remove_ids: Any, remove_sources: Any
    ) -> UpdateReport:
        if isinstance(self._parts, StoredRows):
            check_unchanged(self, self._parts.folder, self._manifest)
        removal = Removal(self._parts, self._dealer, self._fitted)
        if remove_sources is not None:
            removal.sources(remove_sources)
        if remove_ids is not None:
            removal.ids(remove_ids)
        if remove is not None:
            removal.content(self.schema_, remove, all_copies)
        gone = sum(int(mask.sum()) for mask in removal.gone.values())
        new, rejected = ([], 0) if more[0] is None else self._new_rows(*more)
        added = sum(len(part) for _, part in new)
        if self._n_rows() - gone + added == 0:
            raise InvalidInputError("no row would be left; fit on other rows instead")
        changed = changed_parts(self._parts, removal.gone, new)
        if more[3] is not None:
            self._check_ids(changed)
        before = {name: getattr(self, name) for name in _STATE}
        try:
            refitted = self._fit_models(ChangedRows(self._parts, changed), changed)
            self.rows_rejected_ = rejected
            self._keep(changed)
        except BaseException:
            for name, value in before.items():
                setattr(self, name, value)
            raise
        return UpdateReport(refitted, len(self.models_), added, gone, rejected, 0.0)

    def _keep(self, changed: Mapping[int, Held]) -> None:
        """Hold the new rows instead of the old ones."""
        if isinstance(self._parts, StoredRows):
            folder = self._parts.folder
            self._manifest = save_changed(self, folder, self._manifest, changed)
            self._parts = stored_rows(self, folder, self._manifest)
            return
        parts: Any = self._parts
        for i, part in changed.items():
            parts[i] = part

    def _n_rows(self) -> int:
        return sum(fact.rows for fact in self._facts)

    def _check_ids(self, changed: Mapping[int, Held]) -> None:
        """Refuse one id for rows of different content, wherever they are."""
        parts = ChangedRows(self._parts, changed)
        chosen = changed if self._fitted == "ids" else range(len(parts))
        whole = joined([parts[i] for i in chosen])
        check_duplicate_ids(whole)

    def _new_rows(
        self, X: Any, y: Any, sources: Any, row_ids: Any
    ) -> tuple[list[tuple[int, Held]], int]:
        some = self._parts[0]
        for given, fitted, word in (
            (sources, some.owners, "sources"),
            (row_ids, some.ids, "row_ids"),
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
        held, block = deal(found, self._dealer, owners, ids)
        return list(split_blocks(held, block)), len(found.rejected)


def _quiet_votes(model: Any, rows: Rows, classes: NDArray[Any]) -> IntArray:
    try:
        return collect_votes([model], rows, classes)
    except InvalidInputError:
        return np.full((1, len(rows)), -1)
