"""PartitionClassifier: blocks by content, row id or source and a vote, with certified predictions.

A planted row reaches one block and changes one vote; so does everything a source sends. Any rows
come in (frames, texts, sparse matrices, images), each is cast alone to a frozen schema, and all
preprocessing is inside the blocks.
Source: docs/theory/21-sources.md; docs/theory/10-poisoning.md, "Votes with certificates".
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import check_parameters
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_choice,
    check_int,
    check_size,
)
from counterplay.core.validation import check_positive_int as positive
from counterplay.core.votes import Vote
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.poisoning.certificates import (
    CertifiedAccuracy,
    finite_aggregation_radius,
    partition_radius,
    spread_parts,
    threshold_radius,
)
from counterplay.poisoning.errors import NotDeterministicWarning
from counterplay.poisoning.model import BatchLearner
from counterplay.poisoning.run_off import RunOff, run_off, run_off_radius, run_off_spread_radius
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
    owner_marks,
    warn_rejected,
)
from counterplay.poisoning.units import (
    CHANGES,
    Changes,
    Dealer,
    Fitted,
    Unit,
    Unknown,
    encoded_ids,
    encoded_sources,
)
from counterplay.poisoning.update_report import UpdateReport
from counterplay.poisoning.voting import (
    Constant,
    Failed,
    VotingClassifier,
    collect_scores,
    collect_votes,
    count_votes,
    fit_blocks,
)
from counterplay.tables import Schema
from counterplay.tables.cells import is_missing, listed, shown
from counterplay.tables.encoding import check_key, encode_identity, row_digests
from counterplay.tables.labels import as_labels, cast_labels

if TYPE_CHECKING:
    from counterplay.poisoning.certified_metrics import CertifiedMetrics

_MOST_BLOCKS = 1_000_000
_CHECKED_ROWS = 200
Key = bytes | str | None


class PartitionClassifier(VotingClassifier):
    """Classifier whose predictions come with a certificate against planted training rows.

    Every row goes to the block given by a hash of its content, its id or its source; each block
    trains the whole pipeline on its rows alone, and the models vote. One planted row, or one source
    with all it sends, reaches one block, so a lead of 2t votes survives t of them, whatever they
    are: clean or not, duplicated or crafted.

    Parameters
    ----------
    estimator:
        Any scikit-learn classifier or pipeline, with all its preprocessing, or a learner of
        :mod:`~counterplay.poisoning.lab`; default: one nearest neighbour. Blocks in which it
        cannot be fitted abstain (``failures_`` lists them), blocks with one class vote for it.
    n_partitions:
        Number of blocks, or ``"auto"``: the best certified accuracy at ``budget`` on a held-out
        part (see :func:`choose_n_partitions`). More blocks certify more, but each model sees less
        data. Fix the number, or choose it on data you trust.
    classes:
        The labels there are. Rows with other labels are then left out, and certificates need not
        fear a label that nobody has seen. Default: the labels that occur.
    vote_threshold:
        ``{label: share}`` for one of two ``classes``: it is predicted if at least this share of all
        blocks votes for it. Less than one half buys recall with precision. Default: most votes.
    schema:
        Kinds of the columns (:class:`counterplay.tables.Schema`); inferred at ``fit`` by default,
        by a majority of the rows or sources, and then no radius reaches the number of them that
        could change a kind.
    key:
        Secret of the hash, a text or 1 to 64 bytes. Without it the blocks are public and can be
        aimed at; the certificate holds either way. Shown nowhere; copies and pickles keep it.
    committee:
        Slots of a source: its rows are dealt to so many blocks, and it costs as many. 1 unless
        blocks of few sources are too different from each other.
    rows_per_source:
        Keep so many rows of each source, those with the smallest hashes; None for all.
    split:
        ``{source: slots}`` for heavy sources you know; they cost as many blocks. A list that you
        fix, never a rule by counts: an attacker would grow heavy to be split.
    unknown_source:
        Rows without a source: ``"row"`` (each its own source), ``"pool"`` (all in one block) or
        ``"drop"``.
    spread:
        1: deep partition aggregation. d > 1: finite aggregation with d times as many models, each
        trained on d of ``n_partitions * d`` parts; sharper certificates, d times the work.
    aggregation:
        ``"plurality"``: the class with most votes. ``"runoff"``: the two classes with most votes
        meet in a second round, in which every model chooses between them by its scores.
    min_lead:
        Abstain when the winner's lead is below this many votes. The certificate is for the label:
        planted rows may still turn a prediction into an abstention.
    budget:
        Planted rows to optimise for when ``n_partitions="auto"``.
    check:
        Look for signs of features computed from all rows, and fit one block twice to see whether
        fitting is deterministic. To see no warning proves nothing.
    random_state:
        Seed of the base models. An integer; None means 0, since equal blocks must give equal
        models for the certificate.
    n_jobs:
        Workers of joblib for fitting and voting.
    backend:
        ``"loky"`` (processes, the default) or ``"threading"``.

    Attributes
    ----------
    schema_:
        What was frozen.
    classes_:
        What may be predicted.
    models_:
        One model per block; None where it is empty.
    unit_:
        ``"rows"`` or ``"sources"``: what a radius counts.
    partition_sizes_:
        Rows of each block (of each part with ``spread``).
    n_empty_:
        Number of blocks without rows.
    failures_:
        Block, type and message of each model that could not be fitted.
    rows_rejected_:
        Number of training rows that did not fit schema or classes.
    assumptions_:
        What every certificate rests on, in sentences.

    Notes
    -----
    Guaranteed: ``certify(X)`` changes leave the prediction as it is (Levine and Feizi 2021; for
    ``spread`` > 1 Wang, Levine and Feizi 2022; for the run-off Rezaei et al. 2023), under the
    ``assumptions_``. A scaler, a vocabulary or tf-idf fitted on all rows before the call carries
    one planted row into every block: put such steps into the estimator. Blocks without rows
    abstain; no rule can fill every block and still let a row reach one block only. Source ids are
    compared as Unicode texts: normalise the case of addresses yourself. Pandas before
    3 reads a CSV exactly with ``float_precision="round_trip"`` only.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> guarded = PartitionClassifier(n_partitions=25).fit(X[:1200], y[:1200])
    >>> curve = guarded.certified_accuracy(X[1200:1400], y[1200:1400])
    >>> curve.at(0) > 0.85, curve.at(3) > 0.75
    (True, True)

    References
    ----------
    Levine and Feizi (2021), "Deep partition aggregation: provable defenses against general
    poisoning attacks". Rezaei, Banihashem, Chegini and Feizi (2023), "Run-off election".
    """

    def __init__(
        self,
        estimator: Any = None,
        n_partitions: int | Literal["auto"] = 25,
        *,
        classes: Sequence[Any] | NDArray[Any] | None = None,
        vote_threshold: Mapping[Any, Any] | None = None,
        schema: Schema | None = None,
        key: bytes | str | None = None,
        committee: int = 1,
        rows_per_source: int | None = None,
        split: Mapping[Any, int] | None = None,
        unknown_source: Literal["row", "pool", "drop"] = "row",
        spread: int = 1,
        aggregation: Literal["plurality", "runoff"] = "plurality",
        min_lead: int = 0,
        budget: int = 3,
        check: bool = True,
        random_state: int | None = None,
        n_jobs: int | None = None,
        backend: Literal["loky", "threading"] | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_partitions = n_partitions
        self.classes = classes
        self.vote_threshold = vote_threshold
        self.schema = schema
        self.key = key
        self.committee = committee
        self.rows_per_source = rows_per_source
        self.split = split
        self.unknown_source = unknown_source
        self.spread = spread
        self.aggregation = aggregation
        self.min_lead = min_lead
        self.budget = budget
        self.check = check
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.backend = backend

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
        self._check_settings()
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
        self._check_threshold()
        if self.check:
            self._warn_global(found.rows)
        self.n_partitions_ = self._count(X, y, sources)
        self._dealer = self._make_dealer(self.n_partitions_ * positive(self.spread, "spread"))
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

    def _check_settings(self) -> None:
        """Refuse parameters that cannot be, before any work."""
        if isinstance(self.random_state, np.random.RandomState | np.random.Generator):
            raise InvalidInputError(
                "random_state must be None or an integer: a certificate speaks about refits, and a "
                "generator gives every fit another seed"
            )
        check_parameters(self)
        self._seed()
        check_int(self.min_lead, "min_lead", low=0)
        check_int(self.budget, "budget", low=0, high=10**6)
        check_key(self.key)
        count = 25 if self.n_partitions == "auto" else positive(self.n_partitions, "n_partitions")
        check_size(count * positive(self.spread, "spread"), _MOST_BLOCKS, "blocks")
        if self.rows_per_source is not None:
            positive(self.rows_per_source, "rows_per_source")
        if self.n_jobs is not None and abs(self.n_jobs) > 10_000:
            raise InvalidInputError("n_jobs must be a number of workers, at most 10000")
        if self.n_jobs == 0:
            raise InvalidInputError(
                "n_jobs must be None, a number of workers, or -1 for all; got 0"
            )
        for what, slots in [("committee", self.committee), *_split_items(self.split)]:
            check_int(slots, what, low=1)
            if self.n_partitions != "auto" and slots > count * self.spread:
                raise InvalidInputError(
                    f"{what} has {slots} slots, but there are only {count * self.spread} blocks"
                )
        if hasattr(self.estimator, "get_params"):
            for name, value in self.estimator.get_params().items():
                if name.split("__")[-1] == "warm_start" and value is True:
                    raise InvalidInputError(
                        f"{name}=True carries one fit into the next; set it to False"
                    )

    def _check_threshold(self) -> None:
        """Freeze the votes that the class with a threshold needs."""
        self._least: tuple[int, float] | None = None
        if self.vote_threshold is None:
            return
        given = dict(self.vote_threshold)
        known = self.classes_.tolist()
        share = next(iter(given.values()), None)
        good = (
            self.classes is not None
            and len(known) == 2
            and len(given) == 1
            and next(iter(given)) in known
        )
        if not good:
            raise InvalidInputError(
                f"a vote threshold needs classes= with two classes, one of them in {shown(given)}; "
                f"got {listed(known) if self.classes is not None else None}"
            )
        if share is None:
            return
        if (
            isinstance(share, bool)
            or not isinstance(share, int | float | np.number)
            or not 0 < float(share) <= 1
        ):
            raise InvalidInputError(
                f"a vote threshold is a share above 0 and up to 1, got {shown(share)}"
            )
        if self.aggregation == "runoff" or self.min_lead > 0:
            raise InvalidInputError("a vote threshold goes with plurality and min_lead=0 only")
        self._least = (known.index(next(iter(given))), float(share))

    def _make_dealer(self, n_blocks: int) -> Dealer:
        split = {encode_identity(name): slots for name, slots in (self.split or {}).items()}
        unknown: Unknown = self.unknown_source
        return Dealer(n_blocks, self.key, self.committee, self.rows_per_source, split, unknown)

    def _seed(self) -> int:
        return (
            0 if self.random_state is None else check_int(self.random_state, "random_state", low=0)
        )

    def _count(self, X: Any, y: Any, sources: Any) -> int:
        if self.n_partitions != "auto":
            return int(self.n_partitions)
        from counterplay.poisoning.choose_partitions import choose_n_partitions

        chosen: int = choose_n_partitions(
            self.estimator, X, y, sources=sources, budget=self.budget, key=self.key,
            n_jobs=self.n_jobs,
        ).best  # fmt: skip
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
        seeds = self._seeds(total, self._seed())
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
        seed = self._seeds(len(self.models_), self._seed())[i]
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
        gone = self._removed(held, remove, all_copies, remove_ids, remove_sources)
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
        from sklearn.utils.validation import check_is_fitted

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

    def _removed(
        self, held: Held, remove: Any, all_copies: bool, remove_ids: Any, remove_sources: Any
    ) -> BoolArray:
        gone = np.zeros(len(held), dtype=bool)
        if remove_sources is not None:
            if held.owners is None:
                raise InvalidInputError("this classifier was not fitted by sources")
            names = encoded_sources(remove_sources, len(remove_sources))
            gone |= _among(
                held.owners, owner_marks([n for n in names if n is not None], self._dealer)
            )
        if remove_ids is not None:
            if held.ids is None:
                raise InvalidInputError("this classifier was not fitted with row ids")
            marks = row_digests(encoded_ids(remove_ids, len(remove_ids)), key=self.key, domain="id")
            gone |= _among(held.ids, marks)
        if remove is not None:
            rows, labels = (
                remove if isinstance(remove, tuple) and len(remove) == 2 else (remove, None)
            )
            self._remove_content(held, gone, rows, labels, all_copies)
        return gone

    def _remove_content(
        self, held: Held, gone: BoolArray, X: Any, labels: Any, all_copies: bool
    ) -> None:
        cast = self.schema_.cast(X)
        cast.raise_rejected("row")
        wanted = Rows(cast).digests(self.key)
        values = None if labels is None else cast_labels(labels)[0]
        if values is not None and len(values) != len(wanted):
            raise InvalidInputError(f"remove has {len(wanted)} rows, its labels {len(values)}")
        places: dict[bytes, list[int]] = {}
        for i in np.flatnonzero(~gone).tolist():
            places.setdefault(held.marks[i].tobytes(), []).append(i)
        for j, mark in enumerate(wanted):
            here = [i for i in places.get(mark.tobytes(), []) if not gone[i]]
            if values is not None:
                here = [i for i in here if held.labels[i] == values[j]]
            if not here:
                raise InvalidInputError(f"row {j} of remove is not among the training rows")
            if values is None and not all_copies and len({held.labels[i] for i in here}) > 1:
                raise InvalidInputError(
                    f"row {j} of remove has copies with different labels; give remove=(X, y)"
                )
            gone[here if all_copies else here[:1]] = True

    @property
    def assumptions_(self) -> tuple[str, ...]:
        """What every certificate rests on."""
        what = {"rows": "content", "ids": "id", "sources": "source"}[self._fitted]
        return (
            f"A1: the block of a row depends on its {what} and the key alone",
            "A2: fitting a block is a deterministic function of its rows, its seed, the parameters "
            "and the frozen schema",
            "A3: the vote at a row depends on the block's model and that row alone",
            "A4: the number of blocks, key, schema, classes, threshold, estimator and its "
            "parameters were not chosen from rows the attacker could touch"
            + ("" if self.schema is not None else " (columns taken from the training rows)"),
        )

    def summary(self) -> str:
        """Say what was fitted, what was left out, and what every certificate rests on."""
        sizes = self.partition_sizes_
        self._fitted_rows()
        lines = [
            f"{len(self.models_)} blocks by {'source' if self.unit_ == 'sources' else 'row'}, "
            f"{int(sizes.min())} to {int(sizes.max())} rows each; {self.n_empty_} empty, "
            f"{self.n_failed_} failed, {self.rows_rejected_} rows left out",
            f"schema: {self.schema_.summary()}",
        ]
        for name, slots in (self.split or {}).items():
            lines.append(f"source {shown(name, 40)} costs {slots} blocks")
        return "\n".join([*lines, *self.assumptions_])

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

    def is_safe(self, X: Any, *, sources: int = 0, rows: int = 0) -> BoolArray:
        """Whether predictions survive so many taken-over sources and changed rows of others."""
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
        unknown = self._held.owners is not None and not self._held.owners.any(axis=1).all()
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
        held = radius // cost if cost else np.full_like(radius, len(self._held))
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
        most = (self._alive() - 1) // self.spread  # one model is left, so nothing can raise
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
        return CertifiedAccuracy(radius, np.asarray(right & (radius >= 0), dtype=np.bool_))

    def certified_metrics(
        self,
        X: Any,
        y: Any,
        *,
        positive: Any = None,
        groups: Any = None,
        budgets: Sequence[int] | IntArray | None = None,
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
        """
        from counterplay.poisoning.certified_metrics import certified_metrics

        return certified_metrics(self, X, y, positive=positive, groups=groups, budgets=budgets)

    def _truth(self, y: Any, n: int) -> NDArray[Any]:
        values, known = cast_labels(y)
        if len(values) != n:
            raise InvalidInputError(f"X has {n} rows, y {len(values)}")
        if not known.all():
            raise InvalidInputError(
                f"y has no label in row {int(np.argmin(known))}; drop such rows"
            )
        return values

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return the parameters; the key is a secret and shows as ``'...'``."""
        if self.key is None:
            text: str = super().__repr__(N_CHAR_MAX)
            return text
        from sklearn.base import clone

        return repr(clone(self).set_params(key=None)).replace(
            "PartitionClassifier(", "PartitionClassifier(key='...', ", 1
        )

    def _repr_html_(self) -> str:
        """Return the representation for notebooks, without the key."""
        import html

        return f"<pre>{html.escape(repr(self))}</pre>"


def _split_items(split: Mapping[Any, int] | None) -> list[tuple[str, int]]:
    if split is None:
        return []
    if any(is_missing(name) for name in split):
        raise InvalidInputError("split names a missing source; use unknown_source= for those")
    return [(f"split[{shown(name, 40)}]", slots) for name, slots in split.items()]


def _among(marks: NDArray[np.uint8], wanted: NDArray[np.uint8]) -> BoolArray:
    """Which digests are among the wanted ones."""
    chosen = {mark.tobytes() for mark in wanted}
    return np.fromiter((mark.tobytes() in chosen for mark in marks), bool, len(marks))


def _quiet_votes(model: Any, rows: Rows, classes: NDArray[Any]) -> IntArray:
    try:
        return collect_votes([model], rows, classes)
    except InvalidInputError:
        return np.full((1, len(rows)), -1)
