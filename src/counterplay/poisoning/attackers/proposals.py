"""What an attacker tries against one decision of a pipeline: rows to add, each followed by a refit.

Proposals come in a fixed order and later ones depend on earlier ones only, so that more effort or
more budget never finds less. Source: docs/theory/21-sources.md, "Attack estimates".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from counterplay.core.validation import FloatArray, IntArray
from counterplay.poisoning.attackers.practical import beyond, crossing_towards
from counterplay.poisoning.training_rows import Rows, block_labels, positions_of

Attack = Literal["true_rows", "wrong_label", "labelled_steps"]
Row = int | tuple[float, ...]
"""A row that is added: a position in the given rows, or the numbers of a row that was made."""

_NEAREST, _WIDTH, _ENDS = 4, 6, 2
_COPIES = (1, 2, 4, 8)
_STEPS = (1.001, 1.2, 1.5, 2.0)  # 1 is the boundary, 2 the mirror image of the test row


@dataclass(frozen=True, eq=False)
class Bench:
    """A pipeline, its training rows, and the pool of true rows an attacker may add.

    Parameters
    ----------
    pipeline
        The pipeline; refitted with every poison.
    rows
        All rows: training, pool and test.
    labels
        Their labels.
    train
        Positions of the training rows.
    pool
        Positions of the rows that may be added with their own labels.
    features
        Numbers in which the nearest rows are looked for, one line per row.
    budget
        Most rows that are added.
    effort
        Most refits per decision and kind of attack.
    labeler
        Labels rows that are made, if there is one.
    sources
        Sources of all rows, for a pipeline that is fitted with them; every added row gets a source
        of its own.
    until
        Time of the clock at which to stop.
    """

    pipeline: Any
    rows: Rows
    labels: NDArray[Any]
    train: IntArray
    pool: IntArray
    features: Any
    budget: int
    effort: int
    labeler: Any = None
    sources: NDArray[Any] | None = None
    until: float = np.inf

    def fit(self, added: list[Row], labels: NDArray[Any]) -> Any:
        """Fit the pipeline on the training rows and the added ones; None if that raises."""
        known = [row for row in added if isinstance(row, int)]
        made = [row for row in added if not isinstance(row, int)]
        X = self.rows.take(np.concatenate([self.train, np.array(known, dtype=np.int64)]))
        if made:
            X = stacked(X, np.array(made))
        given = np.concatenate([self.labels[self.train], labels])
        more = {}
        if self.sources is not None:
            planted = np.array([f"planted {i}" for i in range(len(added))], dtype=object)
            more["sources"] = np.concatenate([self.sources[self.train], planted])
        try:
            return seeded(self.pipeline).fit(X, block_labels(given), **more)
        except Exception:  # a pipeline that cannot be refitted is not flipped by this poison
            return None

    def attack(self, row: int, model: Any, attacks: tuple[Attack, ...]) -> Outcome | None:
        """Try all proposals against one decision of the unpoisoned model; None if time is over."""
        if time.time() > self.until:
            return None
        found = Outcome(self.budget)
        found.note(0, margin(model, self.rows.take([row]), self.labels[row]), (), ())
        kinds: dict[str, Callable[[int, Any], Proposals]] = {
            "true_rows": self._true_rows,
            "wrong_label": self._wrong_labels,
            "labelled_steps": self._labelled_steps,
        }
        for kind in attacks:
            proposals = kinds[kind](row, model)
            answer: float | None = None
            for _ in range(self.effort):
                if found.done or time.time() > self.until:
                    return found
                try:
                    added, labels = (
                        proposals.send(answer) if answer is not None else next(proposals)
                    )
                except StopIteration:
                    break
                again = self.fit(added, labels)
                answer = np.inf
                if again is not None:
                    answer = margin(again, self.rows.take([row]), self.labels[row])
                found.note(len(added), answer, tuple(added), tuple(labels.tolist()))
        return found

    def _true_rows(self, row: int, model: Any) -> Proposals:
        """Nearest rows of other classes, alone and in copies, then the best ones together."""
        other = self.pool[np.array([self.labels[i] != self.labels[row] for i in self.pool], bool)]
        if not len(other):
            return
        near = other[np.argsort(distances(self.features, row, other), kind="stable")]
        for place in near[:_NEAREST]:
            for copies in dict.fromkeys((1, self.budget)):
                yield self._true([int(place)] * copies)
        chosen: list[int] = []
        while len(chosen) < self.budget:
            left = [int(i) for i in near if int(i) not in chosen][:_WIDTH]
            if not left:
                return
            values = []
            for i in left:
                values.append((yield self._true([*chosen, i])))
            chosen.append(left[int(np.argmin(values))])

    def _true(self, places: list[int]) -> _Proposal:
        return list(places), self.labels[places]

    def _wrong_labels(self, row: int, model: Any) -> Proposals:
        """Copies of the test row itself with the label of its strongest rival."""
        rival = strongest_rival(model, self.rows.take([row]), self.labels[row])
        if rival is None:
            return
        for copies in sorted({min(c, self.budget) for c in (*_COPIES, self.budget)}):
            labels = np.empty(copies, dtype=object)
            labels[:] = [rival] * copies
            yield [row] * copies, labels

    def _labelled_steps(self, row: int, model: Any) -> Proposals:
        """Rows just across the labeler's boundary, on the way to the nearest rows of others."""
        whole = self.rows.take()
        numbers = numeric(whole)
        if numbers is None or self.labeler is None:
            return
        truth, point = self.labels[row], numbers[row]

        def teacher(points: NDArray[Any]) -> NDArray[Any]:
            return np.asarray(self.labeler(like(whole, points)), dtype=object)

        known = np.concatenate([self.train, self.pool])
        other = known[np.array([self.labels[i] != truth for i in known], bool)]
        other = other[teacher(numbers[other]) != truth]
        for place in other[np.argsort(distances(numbers, row, other), kind="stable")][:_ENDS]:
            crossing = crossing_towards(teacher, point, truth, numbers[place], depth=8)
            for step in _STEPS:
                for copies in dict.fromkeys((1, self.budget)):
                    made = beyond(point, crossing, step, copies)
                    labels = teacher(made)
                    good = labels != truth
                    if good.any():
                        yield [tuple(r) for r in made[good].tolist()], labels[good]


_Proposal = tuple[list[Any], NDArray[Any]]
Proposals = Generator[_Proposal, float, None]


@dataclass
class Outcome:
    """Smallest margin reached with at most so many added rows, and the rows that reach it."""

    budget: int
    best: list[float] = field(default_factory=list)
    poison: list[tuple[tuple[Row, ...], tuple[Any, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.best = [np.inf] * (self.budget + 1)
        self.poison = [((), ())] * (self.budget + 1)

    def note(
        self, size: int, value: float, places: tuple[Row, ...], labels: tuple[Any, ...]
    ) -> None:
        """Remember a margin that ``size`` added rows reach."""
        for t in range(size, self.budget + 1):
            if value < self.best[t]:
                self.best[t] = value
                self.poison[t] = (places, labels)

    @property
    def done(self) -> bool:
        """Whether one row is enough, or none."""
        return self.best[min(1, self.budget)] < 0


def margin(model: Any, row: Any, truth: Any) -> float:
    """How sure the model is of the truth; negative exactly where its answer is another."""
    try:
        model, row = _last_step(model, row)
        wrong = positions_of(model.predict(row), block_labels(np.array([truth], object)))[0] < 0
        value = _confidence(model, row, truth)
    except Exception:  # a model that cannot answer is not flipped
        return np.inf
    return -1.0 - abs(value) if wrong else abs(value)


def _last_step(model: Any, row: Any) -> tuple[Any, Any]:
    """The last step of a pipeline and the row as it sees it, so that it is transformed once."""
    from sklearn.pipeline import Pipeline

    if type(model) is not Pipeline or len(model) < 2:
        return model, row
    return model[-1], model[:-1].transform(row)


def _confidence(model: Any, row: Any, truth: Any) -> float:
    scores = _scores(model, row)
    if scores is None:
        return 0.0
    place = int(
        positions_of(block_labels(np.array([truth], object)), np.asarray(model.classes_))[0]
    )
    if place < 0 or len(scores) < 2:
        return 0.0
    value = float(scores[place] - np.delete(scores, place).max())
    return value if np.isfinite(value) else 0.0


def _scores(model: Any, row: Any) -> FloatArray | None:
    """One score per class, or None."""
    for name in ("decision_function", "predict_proba"):
        if hasattr(model, name) and hasattr(model, "classes_"):
            values = np.ravel(np.asarray(getattr(model, name)(row), dtype=np.float64))
            if len(values) == 1 and len(model.classes_) == 2:
                values = np.array([-values[0], values[0]])
            if len(values) == len(model.classes_):
                return values
    return None


def strongest_rival(model: Any, row: Any, truth: Any) -> Any:
    """The class that the model finds most likely after the truth; None if there is none."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        return None
    try:
        scores = _scores(model, row)
    except Exception:
        scores = None
    order = np.arange(len(classes)) if scores is None else np.argsort(-scores, kind="stable")
    names = np.asarray(classes).tolist()
    return next((names[i] for i in order.tolist() if names[i] != truth), None)


def numeric(rows: Any) -> FloatArray | None:
    """The numbers of a dense table; None if it has other cells."""
    if hasattr(rows, "to_numpy"):
        if not all(kind.kind in "fiub" for kind in rows.dtypes):
            return None
        rows = rows.to_numpy()
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.dtype.kind not in "fiub":
        return None
    numbers = rows.astype(np.float64)
    return numbers if np.isfinite(numbers).all() else None


def like(rows: Any, numbers: FloatArray) -> Any:
    """Numbers in the container of other rows."""
    if hasattr(rows, "columns"):
        return type(rows)(numbers, columns=rows.columns).astype(rows.dtypes)
    return numbers.astype(rows.dtype)


def stacked(rows: Any, numbers: FloatArray) -> Any:
    """Rows with some more, given as numbers."""
    more = like(rows, numbers)
    if not hasattr(rows, "columns"):
        return np.vstack([rows, more])
    import pandas as pd

    return pd.concat([rows, more], ignore_index=True)


def distances(features: Any, row: int, others: IntArray) -> FloatArray:
    """Euclidean distances of a row to others; sparse features stay sparse."""
    from sklearn.metrics import pairwise_distances

    own = features[[row]]
    result: FloatArray = pairwise_distances(own, features[others])[0]
    return result


def seeded(pipeline: Any) -> Any:
    """A copy whose unset seeds are 0, so that a refit differs by its rows only."""
    copy = clone(pipeline)
    if hasattr(copy, "get_params"):
        unset = {
            name: 0
            for name, value in copy.get_params().items()
            if name.split("__")[-1] == "random_state" and value is None
        }
        copy.set_params(**unset)
    return copy
