"""PartitionClassifier: blocks by content, row id or source and a vote, with certified predictions.

A planted row reaches one block and changes one vote; so does everything a source sends. Any rows
come in (frames, texts, sparse matrices, images), each is cast alone to a frozen schema, and all
preprocessing is inside the blocks.
Source: docs/theory/21-sources.md; docs/theory/10-poisoning.md, "Votes with certificates".
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from counterplay.poisoning.block_store import alone
from counterplay.poisoning.partition_certificates import PartitionCertificates
from counterplay.poisoning.saved_partition import (
    check_folder,
    load_partition,
    made_folder,
    save_partition,
)
from counterplay.tables import Schema
from counterplay.tables.cells import shown
from counterplay.tables.encoding import check_key


class PartitionClassifier(PartitionCertificates):
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
        ``"loky"`` (processes, the default), ``"threading"`` or ``"ray"`` (the cluster that
        ``RAY_ADDRESS`` names, or one on this machine). The votes are the same. A block whose
        process dies abstains.
    block_timeout:
        Seconds after which a block is given up and abstains; None for never. It is fitted in a
        process for that. Times are not deterministic, so the certificate then holds only if the
        same blocks are given up again.
    progress:
        True for a bar on standard error, or a function of the blocks done and all blocks.
    store:
        Folder for the rows and models; updates go there, too, and rows are read when they are
        needed. One classifier at a time may write there; another one is refused. Sources and ids
        are written as keyed hashes: give a ``key``. Sources named in ``split`` are settings and
        stay readable. None: everything is in memory.

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
        backend: Literal["loky", "threading", "ray"] | None = None,
        block_timeout: float | None = None,
        progress: bool | Callable[[int, int], object] = False,
        store: str | Path | None = None,
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
        self.block_timeout = block_timeout
        self.progress = progress
        self.store = store

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
        check_is_fitted(self)
        sizes = self.partition_sizes_
        lines = [
            f"{len(self.models_)} blocks by {'source' if self.unit_ == 'sources' else 'row'}, "
            f"{int(sizes.min())} to {int(sizes.max())} rows each; {self.n_empty_} empty, "
            f"{self.n_failed_} failed, {self.rows_rejected_} rows left out",
            f"schema: {self.schema_.summary()}",
        ]
        for name, slots in (self.split or {}).items():
            lines.append(f"source {shown(name, 40)} costs {slots} blocks")
        if self.block_timeout is not None:
            lines.append(
                f"blocks are given up after {self.block_timeout:g} s; times are not deterministic, "
                "so another run may give up others (A2)"
            )
        return "\n".join([*lines, *self.assumptions_])

    def save(self, folder: str | Path) -> None:
        """Write rows, models and settings into a new folder; see :meth:`load`.

        Models are skops files (extra ``audit``), tables Parquet files (extra ``data``). The key is
        not written. A process that is killed meanwhile leaves a folder that is not a partition.

        Parameters
        ----------
        folder:
            A folder without a partition; it is made if need be.
        """
        check_is_fitted(self)
        with alone(made_folder(folder)):
            save_partition(self, check_folder(folder), live=False)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        key: bytes | str | None = None,
        *,
        estimator: Any = None,
        trust_pickle: bool = False,
    ) -> Self:
        """Return the classifier in a folder that :meth:`save` or ``store=`` wrote.

        Hashes of rows and blocks are computed again. A block whose rows, model and manifest do not
        belong together is fitted again and named in a warning, and what an update that was killed
        left behind is deleted.

        Parameters
        ----------
        folder:
            The folder.
        key:
            The key of the classifier; another one is refused.
        estimator:
            Estimator to fit all blocks again from the rows, which gives the same models. Needed
            where the folder's own is of a type that is not trusted.
        trust_pickle:
            Open pickles and types that are not trusted. Such a file can run any code: say so only
            of folders that nobody else can write.
        """
        guard = cls(key=key)
        check_key(key)
        load_partition(guard, Path(folder), estimator=estimator, trust_pickle=bool(trust_pickle))
        return guard

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return the parameters; the key is a secret and shows as ``'...'``."""
        if self.key is None:
            text: str = super().__repr__(N_CHAR_MAX)
            return text
        return repr(clone(self).set_params(key=None)).replace(
            "PartitionClassifier(", "PartitionClassifier(key='...', ", 1
        )

    def _repr_html_(self) -> str:
        """Return the representation for notebooks, without the key."""
        return f"<pre>{html.escape(repr(self))}</pre>"
