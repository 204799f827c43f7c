"""poisoning_report: can somebody flip single decisions of your pipeline by adding rows?

Attacks are real: rows are added, the whole pipeline is refitted, the decision is looked at. Errors
are against your labels. What is found is a lower bound; only a certificate bounds from above, and
the report shows what the same pipeline inside a partition could promise.
Source: docs/theory/21-sources.md, "Attack estimates".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.progress import track
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import BoolArray, IntArray, check_choice, check_int, check_real
from counterplay.errors import InvalidInputError
from counterplay.poisoning.attackers.proposals import Attack, Bench, numeric, seeded
from counterplay.poisoning.exposure import PoisoningReport
from counterplay.poisoning.partition_classifier import PartitionClassifier
from counterplay.poisoning.training_rows import Rows, accept, block_labels
from counterplay.poisoning.units import encoded_sources, listed_values
from counterplay.tables import Schema, Table
from counterplay.tables.cells import shown

ATTACKS: tuple[Attack, ...] = ("true_rows", "wrong_label")
_MOST_BUDGET = 1000


@checked
def poisoning_report(
    pipeline: Any,
    X: Any,
    y: Any,
    *,
    sources: Any = None,
    budget: int = 3,
    effort: int = 24,
    n_test: int = 60,
    attacks: Sequence[str] = ATTACKS,
    labeler: Callable[[Any], Any] | None = None,
    n_partitions: int | None = None,
    time_limit: float | None = 300.0,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: RandomState = None,
) -> PoisoningReport:
    """Attack single decisions of a pipeline by adding rows, and report how exposed it is.

    Parameters
    ----------
    pipeline:
        Any scikit-learn classifier. It is refitted with every poison, with all its steps.
    X:
        The rows, in any container. A quarter is held out: test rows, and the pool of true rows
        that may be added.
    y:
        Their labels.
    sources:
        Who sent each row: whole sources are held out, and the partition is by source.
    budget:
        Most rows an attacker adds.
    effort:
        Most refits per test row and kind of attack. More effort never finds less.
    n_test:
        Test rows to attack.
    attacks:
        ``"true_rows"``: rows of the pool with their given labels; ``"wrong_label"``: copies of the
        test row with the label of its strongest rival.
    labeler:
        Says which label a row would get, for tables of numbers: adds attacks with rows that are
        made just across its boundary and labelled by it.
    n_partitions:
        Blocks of the guarded version; default 10 budget + 1.
    time_limit:
        Seconds for attacks, None for no limit. Test rows that no attack has begun on by then are
        left out; they are a random part, and the summary counts them.
    n_jobs:
        Workers of joblib; the numbers do not depend on it.
    progress:
        Show a bar.
    random_state:
        Seed of the split.

    Notes
    -----
    ``attacked(t)`` is a lower bound with the poison kept (:meth:`PoisoningReport.poison_for`).
    It never falls with t, with effort or with more attacks. A failed attack proves nothing.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.svm import SVC
    >>> X, y = load_digits(n_class=2, return_X_y=True)
    >>> report = poisoning_report(SVC(kernel="linear"), X, y, budget=1, n_test=5, random_state=0)
    >>> report.has_certificate, report.attackable_upper
    (False, 1.0)

    References
    ----------
    "Attack estimates", see docs/theory/21-sources.md.
    """
    t = check_int(budget, "budget", low=1, high=_MOST_BUDGET)
    tries = check_int(effort, "effort", low=0)
    kinds: Any = tuple(check_choice(kind, "attacks", ATTACKS) for kind in attacks)
    if n_jobs == 0:
        raise InvalidInputError("n_jobs must be None, a number of workers, or -1 for all; got 0")
    if isinstance(pipeline, type) or not hasattr(pipeline, "fit"):
        raise InvalidInputError(f"pipeline must be a classifier with fit, got {shown(pipeline)}")
    seconds = None if time_limit is None else check_real(time_limit, "time_limit", low=0)
    rows, labels = _read(X, y)
    if labeler is not None:
        kinds = (*kinds, "labelled_steps")
        if not callable(labeler) or numeric(rows.take()) is None:
            raise InvalidInputError("labeler= needs a function of rows and a table of numbers")
    train, order, pool = _parts(labels, sources, check_int(n_test, "n_test", low=1), random_state)
    own = isinstance(pipeline, PartitionClassifier)
    owners = None if sources is None or not own else _listed(sources, len(labels))
    model = _fitted(pipeline, rows, labels, train, owners)
    bench = Bench(
        pipeline, rows, labels, train, pool, _features(model, rows), t, tries, labeler, owners
    )
    found = _attacked(bench, order, model, kinds, seconds, n_jobs, progress)
    test = np.sort(order[: len(found)])
    outcomes = [found[i] for i in np.argsort(order[: len(found)], kind="stable")]
    guarded = _certified(pipeline, rows, labels, train, test, sources, n_partitions, t)
    return PoisoningReport(
        rows=test,
        index=tuple(Table.of(X).index[test].tolist()),
        margins=np.array([outcome.best for outcome in outcomes], dtype=np.float64),
        certified=guarded if own else np.zeros_like(guarded),
        guarded=guarded,
        has_certificate=own,
        poison=tuple(tuple(outcome.poison) for outcome in outcomes),
        budget=t,
        model=type(pipeline).__name__,
        skipped=len(order) - len(found),
    )


def _attacked(
    bench: Bench, order: IntArray, model: Any, kinds: Any, seconds: float | None,
    n_jobs: int | None, progress: bool,
) -> list[Any]:  # fmt: skip
    """What attacks find, row by row; fewer rows if the time is over, but at least one."""
    limited = replace(bench, until=np.inf if seconds is None else time.time() + seconds)
    places = order.tolist()
    if n_jobs is None or n_jobs == 1:
        outcomes: Any = (limited.attack(i, model, kinds) for i in places)
    else:
        pool = Parallel(n_jobs=n_jobs, return_as="generator")
        outcomes = pool(delayed(limited.attack)(i, model, kinds) for i in places)
    found = list(track(outcomes, "test rows", total=len(places), enabled=progress))
    begun = next((i for i, outcome in enumerate(found) if outcome is None), len(found))
    if not begun:
        return [replace(bench, effort=0).attack(places[0], model, kinds)]
    return found[:begun]


def _listed(sources: Any, n: int) -> NDArray[Any]:
    values = np.empty(n, dtype=object)
    values[:] = listed_values(sources, n, "sources")
    return values


def _read(X: Any, y: Any) -> tuple[Rows, NDArray[Any]]:
    """Cast all rows; they are the user's, so one that does not fit is an error."""
    found = accept(X, y, Schema.infer(X))
    if found.rejected:
        first = found.rejected[0]
        raise InvalidInputError(
            f"row {first.row} does not fit: column {shown(first.column, 40)} is "
            f"{first.value[:60]}; mend or drop it"
        )
    if len(set(found.labels.tolist())) < 2:
        raise InvalidInputError("all labels are equal; two classes are needed")
    return found.rows, found.labels


def _parts(
    labels: NDArray[Any], sources: Any, n_test: int, random_state: RandomState
) -> tuple[IntArray, IntArray, IntArray]:
    """Positions of training rows, test rows in random order, pool; whole sources on one side."""
    rng = generator(random_state)
    n = len(labels)
    if n < 4:
        raise InvalidInputError(f"at least 4 rows are needed for a held-out quarter, got {n}")
    if sources is None:
        order = rng.permutation(n)
        held = order[: max(1, n // 4)]
    else:
        owners = encoded_sources(sources, n)
        named = sorted({owner for owner in owners if owner is not None})
        chosen = {named[i] for i in rng.permutation(len(named))[: max(1, len(named) // 4)]}
        held = rng.permutation(
            np.array([i for i in range(n) if owners[i] in chosen], dtype=np.int64)
        )
    test, pool = held[:n_test], np.sort(held[n_test:])
    train = np.setdiff1d(np.arange(n), held)
    if not len(train) or not len(test):
        raise InvalidInputError("too few sources to hold some out")
    return train.astype(np.int64), test.astype(np.int64), pool.astype(np.int64)


def _fitted(
    pipeline: Any, rows: Rows, labels: NDArray[Any], train: IntArray, owners: NDArray[Any] | None
) -> Any:
    more = {} if owners is None else {"sources": owners[train]}
    try:
        return seeded(pipeline).fit(rows.take(train), block_labels(labels[train]), **more)
    except Exception as error:
        raise InvalidInputError(f"the pipeline cannot be fitted: {shown(error, 200)}") from error


def _features(model: Any, rows: Rows) -> Any:
    """Numbers in which near rows are near: the pipeline's own, else those of the table."""
    everything = rows.take()
    if hasattr(model, "steps") and len(model.steps) > 1:
        try:
            features = model[:-1].transform(everything)
            if hasattr(features, "shape") and features.ndim == 2:
                return features.tocsr() if hasattr(features, "tocsr") else np.asarray(features)
        except Exception:
            pass  # the steps do not transform: use the table
    if rows.cast.schema.container in ("matrix", "arrays"):
        dense = everything if hasattr(everything, "tocsr") else everything.reshape(len(rows), -1)
        return dense if hasattr(dense, "tocsr") else np.nan_to_num(dense)
    from sklearn.feature_extraction.text import HashingVectorizer

    if rows.cast.schema.container == "texts":
        return HashingVectorizer().transform(everything)
    words = [
        " ".join(f"{name}={value}".replace(" ", "_") for name, value in record.items())
        for record in everything.to_dict(orient="records")
    ]
    return HashingVectorizer(token_pattern=r"\S+", lowercase=False).transform(words)


def _certified(
    pipeline: Any, rows: Rows, labels: NDArray[Any], train: IntArray, test: IntArray,
    sources: Any, n_partitions: int | None, t: int,
) -> BoolArray:  # fmt: skip
    """Which test rows the pipeline inside a partition certifies against 0..t added rows."""
    schema = rows.cast.schema
    if isinstance(pipeline, PartitionClassifier):
        guard = seeded(pipeline).set_params(schema=schema)
    else:
        guard = PartitionClassifier(
            seeded(pipeline), n_partitions or 10 * t + 1, schema=schema, check=False
        )
    given = None if sources is None else _listed(sources, len(labels))[train]
    guard.fit(rows.take(train), block_labels(labels[train]), sources=given)
    radius, answers = guard._certificate(Rows(schema.cast(rows.take(test))), "inserted", "rows")
    right = np.array([a == b for a, b in zip(answers.tolist(), labels[test].tolist())], bool)
    safe: BoolArray = right[:, None] & (radius[:, None] >= np.arange(t + 1)[None, :])
    return safe
