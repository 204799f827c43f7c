"""One model per block; what cannot be fitted abstains.

A contaminated block may be unlearnable and must not stop the others: whatever its model raises, the
block abstains. So does a block whose model cannot predict the block's own rows: it is not asked
again. A block with one class votes for it. If no block has a model, the first error is raised,
because then the estimator itself is wrong. A certified vote has a model left after the certified
number of changes, so it cannot be stopped by them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import IntArray
from counterplay.core.votes import random_blocks
from counterplay.errors import InvalidInputError
from counterplay.poisoning.block_workers import Backend, Dead, Workers
from counterplay.poisoning.errors import BlockFailureWarning, TooFewSamplesError
from counterplay.poisoning.held_rows import Held, joined
from counterplay.poisoning.model import BatchLearner, LabelledSet, fresh
from counterplay.poisoning.training_rows import Rows, block_labels
from counterplay.tables.cells import shown

_PROBED = 3  # own rows that a new model is asked about


class Constant:
    """Always gives the same label."""

    def __init__(self, label: Any) -> None:
        self.label = label

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label for every row."""
        return np.full(n_rows(X), self.label)


@dataclass(frozen=True)
class Failed:
    """Stands for a model that could not be fitted: it abstains."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: Exception) -> Failed:
        """Keep the type and one line of the message of an error."""
        return cls(type(error).__name__, " ".join(str(error).split())[:200])

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


@dataclass(frozen=True, eq=False)
class Categorised:
    """A model with the categories of its block: it sees other values as missing."""

    model: Any
    categories: dict[str, Any]


def fit_blocks(
    base: Any,
    X: NDArray[Any] | Rows,
    y: NDArray[Any],
    blocks: Sequence[IntArray],
    seeds: Sequence[int],
    n_jobs: int | None = None,
    backend: Backend | None = None,
) -> list[Any]:
    """Return one fitted model per block; None for empty blocks, `Failed` where fitting raised.

    Blocks of classifiers with ``fit_blocks(X, y, blocks)`` are fitted by that method in one go.
    """
    take = X.take if isinstance(X, Rows) else X.__getitem__
    tasks = [partial(_task, base, take, y, rows, seed) for rows, seed in zip(blocks, seeds)]
    return _completed(_together(base, X, y, blocks, seeds), tasks, Workers(n_jobs, backend))


def fit_held(
    base: Any, blocks: Sequence[Callable[[], Held]], seeds: Sequence[int], workers: Workers
) -> list[Any]:
    """Return one fitted model for each block, as `fit_blocks` does; its rows are read in turn."""
    done: dict[int, Any] = {}
    if hasattr(base, "fit_blocks") and blocks:
        held = [block() for block in blocks]
        whole = joined([part for part in held if len(part)] or held[:1])
        ends = np.cumsum([0, *map(len, held)])
        places = [np.arange(a, b) for a, b in zip(ends[:-1], ends[1:])]
        done = _together(base, whole.rows, whole.labels, places, seeds)
    tasks = [partial(_held_task, base, block, seed) for block, seed in zip(blocks, seeds)]
    return _completed(done, tasks, workers)


def _task(base: Any, take: Any, y: NDArray[Any], rows: IntArray, seed: int) -> tuple[Any, ...]:
    return base, take(rows), y[rows], seed


def _held_task(base: Any, block: Callable[[], Held], seed: int) -> tuple[Any, ...]:
    part = block()
    return base, own_copy(part.rows.take()) if len(part) else None, part.labels, seed


def _completed(done: dict[int, Any], tasks: Sequence[Any], workers: Workers) -> list[Any]:
    """Return the models that are there, and run the tasks of the others."""
    left = [i for i in range(len(tasks)) if i not in done]
    answers = workers.run(_fit, [tasks[i] for i in left])
    fitted = [Failed(a.kind, a.message) if isinstance(a, Dead) else a for a in answers]
    every = done | dict(zip(left, fitted))
    return [every[i] for i in range(len(tasks))]


def report_failures(models: Sequence[Any], stacklevel: int = 4) -> None:
    """Warn once of blocks that could not be fitted; raise if no block has a model."""
    failed = [model for model in models if isinstance(model, Failed)]
    if failed and len(failed) == sum(model is not None for model in models):
        raise InvalidInputError(
            f"no block could be fitted; first: {shown(Exception(failed[0]), 200)}"
        )
    if failed:
        warnings.warn(
            f"{len(failed)} of {len(models)} blocks could not be fitted and abstain; "
            f"first: {failed[0]}",
            BlockFailureWarning,
            stacklevel=stacklevel,
        )


def _together(
    base: Any, X: NDArray[Any] | Rows, y: NDArray[Any], blocks: Sequence[IntArray],
    seeds: Sequence[int],
) -> dict[int, Any]:  # fmt: skip
    """Return the models of a base that fits many blocks in one go, by block.

    Blocks whose labels are of one kind go together, and a block with labels of several kinds is
    left out: what becomes of a block must not depend on the labels of others.
    """
    points = X.take() if isinstance(X, Rows) else X
    if not hasattr(base, "fit_blocks") or not isinstance(points, np.ndarray) or points.ndim != 2:
        return {}
    own = [block_labels(y[rows]) for rows in blocks]
    kinds = ["number" if labels.dtype.kind in "iuf" else labels.dtype.kind for labels in own]
    found: dict[int, Any] = {}
    for kind in sorted(set(kinds) - {"O"}):
        chosen = [i for i, k in enumerate(kinds) if k == kind]
        labels = np.zeros(len(y), dtype=np.result_type(*(own[i].dtype for i in chosen)))
        for i in chosen:
            labels[blocks[i]] = own[i]
        models = fresh(base).fit_blocks(
            points, labels, [blocks[i] for i in chosen], [seeds[i] for i in chosen]
        )
        found |= dict(zip(chosen, models))
    return found


def _fit(base: Any, X: Any, y: NDArray[Any], seed: int) -> Any:
    if len(y) == 0:
        return None
    labels = block_labels(y) if y.dtype == object else y
    if (y == y[0]).all() and not isinstance(base, BatchLearner):  # our learners have a rule for it
        return Constant(y[0])
    try:
        model = fresh(base, seed).fit(X, labels)
    except Exception as error:
        return Failed.of(error)
    if not isinstance(base, BatchLearner) and (failed := _mute(model, X)) is not None:
        return failed
    categories = _categories(X)
    return Categorised(model, categories) if categories else model


def _mute(model: Any, X: Any) -> Failed | None:
    """Return why a model predicts none of the first rows of its block; None if it does."""
    places = [slice(i, i + 1) for i in range(min(_PROBED, n_rows(X)))]
    failed = None
    for place in (slice(0, _PROBED), *places):  # all at once first: that is the usual case
        rows = X.iloc[place].copy() if isinstance(X, pd.DataFrame) else own_copy(X[place])
        try:
            if len(model.predict(rows)) == n_rows(rows):
                return None
            failed = Failed("ValueError", "the model does not give one prediction for each row")
        except Exception as error:
            failed = Failed.of(error)
    return failed


def _categories(X: Any) -> dict[str, Any]:
    if not isinstance(X, pd.DataFrame):
        return {}
    return {
        str(name): X[name].cat.categories.tolist()
        for name, dtype in X.dtypes.items()
        if isinstance(dtype, pd.CategoricalDtype)
    }


def own_copy(X: Any) -> Any:
    """Return rows that a model may change: what it does to them is seen by no other model."""
    return X.copy() if isinstance(X, np.ndarray) or hasattr(X, "tocsr") else X


def n_rows(X: Any) -> int:
    """Number of rows of a container."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def fit_random_blocks(
    base: Any, S: LabelledSet, n_blocks: int, random_state: RandomState
) -> list[Any]:
    """Models of equal random blocks, the remainder dropped."""
    if len(S) < n_blocks:
        raise TooFewSamplesError(
            f"{len(S)} rows cannot fill {n_blocks} blocks; lower t or add rows"
        )
    rng = generator(random_state)
    blocks = list(random_blocks(len(S), n_blocks, random_state=rng))
    seeds = [int(s) for s in rng.integers(2**31, size=n_blocks)]
    models = fit_blocks(base, S.X, S.y, blocks, seeds)
    report_failures(models)
    return models
