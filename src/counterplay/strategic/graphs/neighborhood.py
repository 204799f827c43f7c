"""Learn whole liked sets from one click per visit: unknown graphs as a multi-label problem.

People and items are the two sides of a graph; somebody who is shown everything clicks on one random
item of her set. The smallest set that explains every click, or the one of least proxy loss, is
found without ever seeing a whole set.

Source: Proposition 3.F, see docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from counterplay.core.arguments import check_parameters
from counterplay.core.validation import (
    BoolArray,
    IntArray,
    array_fault,
    check_choice,
    check_int,
)
from counterplay.errors import InvalidInputError, NotRealizableError
from counterplay.strategic.bounds import log_sauer
from counterplay.strategic.features import translated, validated
from counterplay.strategic.graphs.graph_classes import GraphClass
from counterplay.strategic.graphs.moves import Moves, build, rank
from counterplay.strategic.graphs.unknown_pac import smallest_graph
from counterplay.tables import Table
from counterplay.tables.models import model_names
from counterplay.tables.table import check_weights


class NeighborhoodLearner(ClassifierMixin, BaseEstimator):
    """Multi-label classifier that learns the set of items each person likes from single clicks.

    Use it for recommenders and application data: every row is one visit (who came, what she
    clicked on), the prediction is the whole set.

    Parameters
    ----------
    graphs:
        Candidate taste models, graphs from people to items; nodes are people and items together,
        so X and y are node numbers. None: all sets of at most ``k`` items are candidates, for
        every person on her own, and people and items may have any names.
    mode:
        ``"agnostic"`` (least proxy loss: an item is liked when its share of the clicks pays for
        it) or ``"realizable"`` (fewest items that explain every click).
    k:
        Most items a person likes, where ``graphs`` is None.
    people:
        None: every distinct row of X is one person, so a column of ids is enough. A clusterer such
        as ``KMeans(8)``: X are features, and the people of one cluster share their set.

    Attributes
    ----------
    classes_:
        The items, in the order of the columns of the prediction.
    graph_:
        The chosen model, where ``graphs`` was given.
    choice_:
        Its index.
    people_:
        The fitted clusterer, or the known rows of X.

    Notes
    -----
    Clicks must be uniform on the liked set. Without noise ``bounds.graph_T_realizable``
    visits learn all but a share eps of the sets, with noise ``graph_T_agnostic``; the logarithm of
    the number of candidates is the attribute ``log_size_``.

    Examples
    --------
    >>> visits = [[7], [7], [7], [9], [9], [9]]
    >>> clicks = ["tea", "milk", "tea", "coffee", "coffee", "coffee"]
    >>> learner = NeighborhoodLearner(k=2).fit(visits, clicks)
    >>> learner.predict(7) == {"tea", "milk"}, learner.predict(9)
    (True, {'coffee'})
    >>> learner.predict([[7], [9]])  # columns: coffee, milk, tea
    array([[0, 1, 1],
           [1, 0, 0]])
    """

    def __init__(
        self,
        graphs: GraphClass | None = None,
        mode: str = "agnostic",
        *,
        k: int = 10,
        people: Any = None,
    ) -> None:
        self.graphs = graphs
        self.mode = mode
        self.k = k
        self.people = people

    def fit(
        self, X: ArrayLike, y: ArrayLike, *, slates: Sequence[ArrayLike] | None = None
    ) -> NeighborhoodLearner:
        """Fit to visits X and clicked items y, or to an indicator matrix of clicks.

        A click of -1 (or a row of zeros) means that nothing was clicked. ``slates`` lists what was
        shown when it was not everything: then a missing click says nothing and is left out, except
        where a slate held every item.
        """
        check_parameters(self)
        check_choice(self.mode, "mode", ("agnostic", "realizable"))
        rows = self._rows(X, reset=True)
        visit, item = self._clicks(y, len(rows))
        if slates is not None:
            telling = self._telling(slates, visit, item, len(rows))
            visit, item = visit[telling], item[telling]
        if self.classes_.size == 0 or visit.size == 0:
            raise InvalidInputError("nothing was clicked in any visit; there is nothing to fit")
        if self.people is not None:
            self.people_ = translated(translated(clone, self.people).fit, rows)
        elif self.graphs is None:
            self.people_ = _distinct(rows)[0]
        who = self._who(rows)[visit]
        if self.graphs is None:
            self._fit_free(who, item)
        else:
            self._fit_graphs(self.graphs, who, item)
        return self

    def predict(self, X: ArrayLike) -> Any:
        """Indicator matrix of the liked items, one row per row of X; for a single id the set."""
        check_is_fitted(self, "classes_")
        rows = self._rows(X, reset=False)
        table = self._table[self._who(rows)]
        if np.asarray(X).ndim == 0:
            return set(self.classes_[table[0] == 1].tolist())
        return table

    def predict_sets(self, X: ArrayLike) -> list[set[Any]]:
        """The liked items of each row of X as sets."""
        return [set(self.classes_[row == 1].tolist()) for row in self.predict(np.atleast_1d(X))]

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Share of sets that are exactly right, for an indicator matrix ``y`` of whole sets.

        For single clicks the whole sets are unknown; then it is minus twice the share of clicks
        outside the predicted set minus its mean size / k: minus the proxy loss, up to a constant.
        """
        said, truth = self.predict(X), np.asarray(y)
        if len(said) != (len(truth) if truth.ndim else -1):
            raise InvalidInputError(f"got {len(said)} visits but y of shape {truth.shape}")
        n = len(said)
        weights = np.ones(n) if sample_weight is None else check_weights(sample_weight, n)
        if truth.ndim == 2 and truth.shape[1] > 1:
            right = (said == truth).all(axis=1)
            return float(np.average(right, weights=weights))
        place = {item: i for i, item in enumerate(self.classes_.tolist())}
        inside = [
            str(item) == "-1" or (item in place and bool(row[place[item]]))
            for row, item in zip(said, truth.reshape(-1).tolist())
        ]
        k = self.k if self.graphs is None else max(1, self.graphs.k)
        loss = 2.0 * ~np.array(inside) + said.sum(axis=1) / k
        return -float(np.average(loss, weights=weights))

    def _fit_free(self, who: IntArray, item: IntArray) -> None:
        """All sets of at most k items, independently for every person."""
        k = check_int(self.k, "k", low=1, high=10**9)
        known = len(self.people_) if isinstance(self.people_, np.ndarray) else 0
        n, m = max(int(who.max()) + 1, known), self.classes_.size
        self._table, self.log_size_ = liked_sets(
            who, item, n, m, k, exactly=self.mode == "realizable"
        )

    def _fit_graphs(self, graphs: GraphClass, who: IntArray, item: IntArray) -> None:
        """The best of the given candidates; people and items are nodes."""
        nodes = np.where(item < 0, who, self.classes_[np.maximum(item, 0)].astype(np.int64))
        moves = Moves.of(who, nodes, graphs.n)
        chosen = (
            rank(graphs, moves).best() if self.mode == "agnostic" else smallest_graph(graphs, moves)
        )
        self.graph_, self.choice_ = build(graphs, chosen)
        self.log_size_ = graphs.log_size
        self._table = self.graph_.dense[:, self.classes_.astype(np.int64)].astype(np.int64)

    def _rows(self, X: ArrayLike, *, reset: bool) -> NDArray[Any]:
        """X as a table; a list of ids becomes a column."""
        table = self._visits(X, reset)
        ids = isinstance(table, np.ndarray) and table.ndim <= 1 and table.dtype.kind in "iuUSO"
        if ids and (reset or self.n_features_in_ == 1):
            table = table.reshape(-1, 1)
        rows: NDArray[Any] = validated(self, table, reset=reset, dtype=None)
        return rows.astype(str) if rows.dtype.kind in "OUS" else rows

    def _visits(self, X: Any, reset: bool) -> Any:
        """X as an array of cells, or as the frame or sparse matrix that it is."""
        if X is None or sparse.issparse(X):
            return X
        if isinstance(X, np.ndarray | list | tuple) or np.ndim(X) <= 1:
            if fault := array_fault(X, kinds="biufUOc"):
                raise InvalidInputError(f"X must be one row per visit: {fault}")
            return np.asarray(X)
        read = Table.of(X, columns=None if reset else model_names(self))
        assert read.kinds  # refuses cells that are no numbers, words, flags or times
        return read.rows

    def _clicks(self, y: ArrayLike, n: int) -> tuple[IntArray, IntArray]:
        """Visit and item of every click, item -1 where a visit had none; sets ``classes_``."""
        if y is None:
            raise InvalidInputError(
                "NeighborhoodLearner requires y to be passed, but the target y is None"
            )
        if fault := array_fault(y, kinds="biufUO"):
            raise InvalidInputError(f"y must be one item per visit: {fault}")
        clicked = np.asarray(y)
        if clicked.ndim == 0 or len(clicked) != n:
            raise InvalidInputError(f"got {n} visits but y of shape {clicked.shape}")
        if clicked.ndim == 2 and clicked.shape[1] > 1:
            return self._indicator(clicked)
        labels = translated(column_or_1d, clicked, warn=True)
        if labels.dtype.kind == "f":
            if not np.isfinite(labels).all():
                raise InvalidInputError("Input y contains NaN or infinity; -1 means no click")
            if (labels != np.floor(labels)).any():
                raise InvalidInputError("Unknown label type: continuous. Clicks are item ids")
        if labels.dtype.kind == "O":
            if any(v is None or v != v for v in labels):
                raise InvalidInputError("Input y contains NaN or None; -1 means no click")
            labels = labels if all(isinstance(v, (int, np.integer)) for v in labels) else (
                labels.astype(str)
            )  # fmt: skip
        none = np.array(labels == -1) if labels.dtype.kind in "iufO" else np.array(labels == "-1")
        items = self._items(labels[~none])
        self.classes_ = items
        item = np.full(labels.size, -1, dtype=np.int64)
        item[~none] = np.searchsorted(items, labels[~none])
        return np.arange(n), item

    def _items(self, clicked: NDArray[Any]) -> NDArray[Any]:
        """All items: those clicked, and where models are given every item in one of them."""
        if self.graphs is None:
            return np.unique(clicked)
        return np.union1d(clicked.astype(np.int64), _targets(self.graphs))

    def _indicator(self, Y: NDArray[Any]) -> tuple[IntArray, IntArray]:
        if not np.isin(Y, (0, 1)).all():
            raise InvalidInputError("Unknown label type: y with several columns must be 0/1 clicks")
        if self.graphs is not None and Y.shape[1] != _targets(self.graphs).size:
            raise InvalidInputError(
                f"y has {Y.shape[1]} columns, the candidate graphs {_targets(self.graphs).size} "
                "items; give one column per item"
            )
        self.classes_ = np.arange(Y.shape[1]) if self.graphs is None else _targets(self.graphs)
        visit, item = np.nonzero(Y)
        idle = np.flatnonzero(~Y.astype(np.bool_).any(axis=1))
        order = np.argsort(np.concatenate([visit, idle]), kind="stable")
        return (
            np.concatenate([visit, idle])[order],
            np.concatenate([item, np.full(idle.size, -1)])[order],
        )

    def _telling(
        self, slates: Sequence[ArrayLike], visit: IntArray, item: IntArray, n: int
    ) -> BoolArray:
        """Visits that say something: a click, or no click although everything was shown."""
        if len(slates) != n:
            raise InvalidInputError(f"got {n} visits but {len(slates)} slates")
        telling = item >= 0
        everything = set(self.classes_.tolist())
        for t, (row, i) in enumerate(zip(visit.tolist(), item.tolist())):
            shown = set(np.asarray(slates[row]).reshape(-1).tolist())
            if i >= 0 and self.classes_[i].item() not in shown:
                raise InvalidInputError(f"visit {row} clicked on an item that was not shown")
            telling[t] |= everything <= shown
        return telling

    def _who(self, rows: NDArray[Any]) -> IntArray:
        """The person (node) of every row."""
        if self.people is not None:
            who = np.asarray(translated(self.people_.predict, rows), dtype=np.int64)
        elif self.graphs is not None:
            who = np.asarray(rows[:, 0], dtype=np.int64)
        else:
            return self._known(rows)
        if self.graphs is not None and ((who < 0) | (who >= self.graphs.n)).any():
            bad = int(np.flatnonzero((who < 0) | (who >= self.graphs.n))[0])
            raise InvalidInputError(
                f"row {bad} of X is node {who[bad]}; nodes are 0 to {self.graphs.n - 1}"
            )
        return who

    def _known(self, rows: NDArray[Any]) -> IntArray:
        seen = self.people_
        both, place = _distinct(np.concatenate([seen, rows]))
        number = np.full(len(both), -1, dtype=np.int64)
        number[place[: len(seen)]] = np.arange(len(seen))
        who: IntArray = number[place[len(seen) :]]
        if (who < 0).any():
            bad = int(np.flatnonzero(who < 0)[0])
            raise InvalidInputError(
                f"row {bad} of X is a person without a visit; give people= a clusterer, which "
                "assigns new people to a group"
            )
        return who

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.single_output = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _distinct(rows: NDArray[Any]) -> tuple[NDArray[Any], IntArray]:
    """Distinct rows in order, and the number of each row."""
    if rows.shape[1] == 1:
        values, place = np.unique(rows[:, 0], return_inverse=True)
        return values[:, None], place
    table, place = np.unique(rows, axis=0, return_inverse=True)
    return table, place.reshape(-1)


def _targets(graphs: GraphClass) -> IntArray:
    """Every node to which some candidate has an arc."""
    return np.unique(graphs.union().indices)


def liked_sets(
    who: IntArray, item: IntArray, n_people: int, n_items: int, k: int, *, exactly: bool
) -> tuple[NDArray[np.int64], float]:
    """Indicator matrix (people, items) and ln of the number of candidate models.

    ``item`` is -1 where nothing was clicked. ``exactly``: the smallest sets that explain every
    click; otherwise those of least proxy loss, smaller sets first on ties.
    """
    hit = item >= 0
    counts = np.bincount(who[hit] * n_items + item[hit], minlength=n_people * n_items).reshape(
        n_people, n_items
    )
    visits = np.bincount(who, minlength=n_people)
    size = n_people * log_sauer(min(k, n_items), n_items)
    if exactly:
        _check_explained(counts, visits, k)
        return (counts > 0).astype(np.int64), size
    worth = 2 * k * counts > visits[:, None]  # its clicks against its cost in the degree term
    if n_items > k:  # keep the k most clicked ones, first item on ties
        order = np.argsort(-counts, axis=1, kind="stable")
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, np.arange(n_items)[None, :], axis=1)
        worth &= rank < k
    return worth.astype(np.int64), size


def _check_explained(counts: IntArray, visits: IntArray, k: int) -> None:
    many = np.flatnonzero((counts > 0).sum(axis=1) > k)
    if many.size:
        raise NotRealizableError(
            f"person {many[0]} clicked on {int((counts[many[0]] > 0).sum())} items, more than k={k}"
        )
    mixed = np.flatnonzero((counts.sum(axis=1) > 0) & (counts.sum(axis=1) < visits))
    if mixed.size:
        raise NotRealizableError(
            f"person {mixed[0]} clicked on something once and on nothing another time, although "
            "everything was shown; give slates, or use mode='agnostic'"
        )
