"""One-inclusion predictors: the best worst-case learners under transformations.

For a test point, list the labelings of the orbits of (training points + test point) that the class
allows, join those that differ at one orbit, orient the graph so that no labeling has a large
in-degree, and predict the tail of the edge that the training labels leave open. Only invariant
hypotheses count in the invariant setting (H(X)), all that agree on observed points in the
relaxed one (H'(X)), and those that are not constant on few orbits in between (H^eta(X)).
Source: Theorems 11.4 and 11.7, Proposition J.1; docs/theory/11-invariance.md, "Optimal learners".
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.validation import FloatArray, IntArray, check_choice, check_real
from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.invariance.classes import as_hypotheses, budget
from counterplay.invariance.explanation import OneInclusionView
from counterplay.invariance.inclusion import OneInclusionGraph
from counterplay.invariance.model import Learner

Kind = Literal["forced", "oriented", "arbitrary"]
_PEEL_ABOVE = 200_000
_REFUSE_ABOVE = 5_000_000


@checked(arrays=True)
@dataclass(frozen=True)
class CertifiedPredictions(Report):
    """Predictions with the reason for each of them.

    Attributes
    ----------
    labels:
        Predicted labels.
    kinds:
        "forced" (the orbit was seen, or only one label is consistent: right for certain if the
        assumptions hold), "oriented" (both labels are possible, the graph decides) or "arbitrary"
        (no hypothesis of the class fits: the assumptions are violated).
    error_bounds:
        0 for forced; largest in-degree / (n + 1) for oriented: the chance of a mistake when the
        test point is a random one of the n + 1 points; 1 for arbitrary.

    Examples
    --------
    >>> from counterplay.invariance import instances
    >>> hard = instances.da_lower_bound(3, 1 / 64, random_state=0)
    >>> learner = OneInclusionRelaxed(hard.problem).fit(*hard.distribution.sample(20, 0))
    >>> learner.certify([0]).kinds
    ('forced',)
    """

    labels: NDArray[np.int8]
    kinds: tuple[Kind, ...]
    error_bounds: FloatArray

    def summary(self) -> str:
        """One sentence with the counts."""
        counts = Counter(self.kinds)
        parts = [f"{counts.get(k, 0)} {k}" for k in ("forced", "oriented", "arbitrary")]
        return f"{len(self.kinds)} predictions: {', '.join(parts)}"

    def to_frame(self) -> pd.DataFrame:
        """One row per test point."""
        return pd.DataFrame(
            {"label": self.labels, "kind": list(self.kinds), "error_bound": self.error_bounds}
        )


@dataclass(frozen=True)
class _Answer:
    label: int
    kind: Kind
    bound: float


class _Restriction:
    """The labelings of one multiset of points, and the graphs for different budgets."""

    def __init__(
        self, V: NDArray[np.uint8], c: IntArray, keys: list[Any], open_columns: NDArray[np.bool_]
    ) -> None:
        self.V, self.c, self.keys, self.open_columns = V, c, keys, open_columns
        self._graphs: dict[int, OneInclusionGraph] = {}

    def graph(self, allowed: int) -> OneInclusionGraph:
        least = int(self.c[self.c <= allowed].max())  # equal classes share one graph
        if least not in self._graphs:
            self._graphs[least] = OneInclusionGraph(
                self.V[self.c <= allowed], edge_columns=self.open_columns
            )
        return self._graphs[least]


class _OneInclusion(Learner):
    """Shared machinery; subclasses say how many non-constant orbits are allowed."""

    _by_orbit = False  # whether the labelings depend on orbits only

    def __init__(
        self,
        hypotheses: Any,
        group: Any = None,
        orientation: Literal["flow", "peel", "fractional"] = "flow",
    ) -> None:
        self.hypotheses, self.group = as_hypotheses(hypotheses, group)
        self.orientation = check_choice(orientation, "orientation", ("flow", "peel", "fractional"))
        self._cache: dict[Any, _Restriction] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_cache": {}}

    def _allowed(self, size: int) -> int:
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: ArrayLike) -> Any:
        """Remember the natural sample; graphs are built when a test point asks for them."""
        points, labels = self._check_sample(X, y)
        keys = self.group.point_key(points)
        first: dict[Any, int] = {}
        for i, key in enumerate(keys):
            first.setdefault(key, i)
        counts = Counter(keys)
        index = np.array(list(first.values()), dtype=np.int64)
        self.points_ = points[index]
        self.mult_ = np.array([counts[key] for key in first], dtype=np.int64)
        self.labels_ = labels[index]
        self.n_samples_ = len(points)
        self._point_keys = list(first)
        self.seen_ = {}
        if self.group.is_group:
            orbit_keys = self.group.orbit_key(self.points_)
            self.seen_ = dict(zip(orbit_keys, self.labels_.tolist()))
        self.forced_fraction_ = math.nan
        self.n_arbitrary_ = 0
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int8]:
        """Labels of natural test points."""
        return self.certify(X).labels

    def certify(self, X: ArrayLike) -> CertifiedPredictions:
        """Labels together with how each came about and its leave-one-out bound."""
        points = self._check_fitted(X, "points_")
        keys = self.group.orbit_key(points) if self._by_orbit else self.group.point_key(points)
        answers: dict[Any, _Answer] = {}
        for key, point in zip(keys, points):
            if key not in answers:
                answers[key] = self._answer(np.asarray(point)[None])
        given = [answers[key] for key in keys]
        kinds = tuple(answer.kind for answer in given)
        if kinds:
            self.forced_fraction_ = kinds.count("forced") / len(kinds)
            self.n_arbitrary_ = kinds.count("arbitrary")
        labels = np.array([answer.label for answer in given], dtype=np.int8)
        return CertifiedPredictions(labels, kinds, np.array([a.bound for a in given], dtype=float))

    def explain(self, x: Any) -> OneInclusionView:
        """The oriented graph behind the prediction at one point, for drawing."""
        point = self._check_fitted(np.asarray(x)[None], "points_")
        restriction, known, column = self._restrict(point)
        allowed = self._allowed(self.n_samples_ + 1)
        if column is None or not (restriction.c <= allowed).any():
            raise InvalidInputError(
                "there is no graph at this point: its orbit is in the training set, or no "
                "hypothesis fits the points"
            )
        graph = restriction.graph(allowed)
        orientation = graph.orient(self._method(graph))
        return OneInclusionView(
            vertices=graph.vertices.astype(np.uint8),
            edges=graph.edges,
            heads=orientation.head,
            known=known,
            column=column,
            answer=self._answer(point).label,
            kind=self._answer(point).kind,
        )

    def _answer(self, point: NDArray[Any]) -> _Answer:
        if self.group.is_group:
            label = self.seen_.get(self.group.orbit_key(point)[0])
            if label is not None:
                return _Answer(int(label), "forced", 0.0)
        restriction, known, column = self._restrict(point)
        if column is None:  # the test point is tied to a training point
            label = int(known[self._tied_column])
            return _Answer(max(label, 0), "forced" if label >= 0 else "arbitrary", float(label < 0))
        allowed = self._allowed(self.n_samples_ + 1)
        fits = restriction.c <= allowed
        agree = known == restriction.V
        agree[:, column] = True
        match = fits & agree.all(axis=1)
        options = np.unique(restriction.V[match, column])
        if options.size == 0:
            return _Answer(0, "arbitrary", 1.0)
        if options.size == 1:
            return _Answer(int(options[0]), "forced", 0.0)
        graph = restriction.graph(allowed)
        method = self._method(graph)
        answer = graph.predict(column, known, method)
        if method == "fractional":
            worst: float = graph.orient_fractional().value
        else:
            worst = graph.orient(method).max_indegree
        return _Answer(answer.label, "oriented", min(1.0, worst / (self.n_samples_ + 1)))

    def _restrict(self, point: NDArray[Any]) -> tuple[_Restriction, NDArray[np.int8], int | None]:
        """Labelings of sample plus test point, known labels per column, column of the test."""
        key = self.group.point_key(point)[0]
        if key in self._point_keys:
            points, mult = self.points_, self.mult_.copy()
            where = self._point_keys.index(key)
            mult[where] += 1
        else:
            points = np.concatenate([self.points_, point]) if len(self.points_) else point
            mult = np.append(self.mult_, 1)
            where = len(points) - 1
        ids, column_keys = self.group.components(points)
        columns = len(column_keys)
        total = np.bincount(ids, weights=mult, minlength=columns).astype(np.int64)
        known = np.full(columns, -1, dtype=np.int8)
        train = ids[: len(self.points_)]
        known[train] = self.labels_
        if (known[train] != self.labels_).any():  # two components merged with different labels
            clash = np.unique(train[known[train] != self.labels_])
            known[clash] = -1
        tied = total[ids[where]] > 1
        self._tied_column = int(ids[where])
        restriction = self._labelings(points, mult, column_keys, total)
        return restriction, known, None if tied else int(ids[where])

    def _labelings(
        self, points: NDArray[Any], mult: IntArray, column_keys: list[Any], total: IntArray
    ) -> _Restriction:
        if self._by_orbit:
            name: Any = tuple(zip(column_keys, np.minimum(total, 2).tolist()))
        else:
            name = tuple(sorted(zip(self.group.point_key(points), mult.tolist())))
        if name not in self._cache:
            if len(self._cache) > 4000:
                self._cache.clear()
            V, c = self.hypotheses.labelings(points, mult, self.group)
            self._cache[name] = _Restriction(V, c, column_keys, total == 1)
        return self._cache[name]

    def _method(self, graph: OneInclusionGraph) -> Any:
        if graph.n_vertices > _REFUSE_ABOVE:
            raise InvalidInputError(
                f"the one-inclusion graph has {graph.n_vertices:,} labelings; use fewer points"
            )
        if graph.n_vertices > _PEEL_ABOVE and self.orientation != "peel":
            warnings.warn(
                f"{graph.n_vertices:,} labelings: using the peel orientation, whose bound is "
                "twice as large",
                AssumptionWarning,
                stacklevel=3,
            )
            return "peel"
        return self.orientation


@checked
class OneInclusionInvariant(_OneInclusion):
    """Optimal learner when some hypothesis is right and constant on all data orbits.

    Use it when you trust the invariance and data are scarce. It is improper: it looks at the orbit
    of the test point and may answer like no single hypothesis. It only uses orbits, so it may also
    be fed augmented data.

    Parameters
    ----------
    hypotheses:
        A finite problem, a label matrix or a :class:`HypothesisClass`.
    group:
        The transformations (default: those of the problem).
    orientation:
        "flow" (meets the bound), "peel" (twice the bound, fast) or "fractional".

    Notes
    -----
    Expected error at most VCo / (n + 1) after n samples (Theorem 11.4). Optimal in the worst
    case, not on every benign distribution.

    Examples
    --------
    VCo is 0 here, so the learner is right without any data, where ERM and augmentation need many:

    >>> from counterplay.invariance import instances
    >>> hard = instances.da_lower_bound(4, 1 / 64, random_state=0)
    >>> hard.distribution.error_of(OneInclusionInvariant(hard.problem).fit([], []))
    0.0

    References
    ----------
    Shao, Montasser and Blum (2022), "A theory of PAC learnability under transformation
    invariances".
    """

    _by_orbit = True

    def _allowed(self, size: int) -> int:
        return 0


@checked
class OneInclusionRelaxed(_OneInclusion):
    """Optimal learner when some hypothesis is right on natural data, maybe not on its copies.

    Only observed points of one orbit must agree. The sample must be natural, never augmented.
    Parameters as for :class:`OneInclusionInvariant`.

    Notes
    -----
    Expected error at most VCao / (n + 1) after n samples (Theorem 11.7). For maps without group
    laws, points whose orbits intersect are tied, which the source forgets (Proposition 11.B).

    Examples
    --------
    >>> from counterplay.invariance import instances
    >>> birds = instances.background_birds(5, random_state=0)
    >>> learner = OneInclusionRelaxed(birds.problem).fit(*birds.distribution.sample(1, 0))
    >>> birds.distribution.error_of(learner)
    0.0
    """

    def _allowed(self, size: int) -> int:
        return 2**62


@checked
class OneInclusionEta(_OneInclusion):
    """One-inclusion learner on H^eta: at most a share eta of the points may have mixed orbits.

    The building block of :class:`KnownEta` and :class:`AdaptiveRelaxed`.

    Parameters
    ----------
    hypotheses:
        The class.
    group:
        The transformations.
    orientation:
        As for :class:`OneInclusionInvariant`.
    eta:
        Allowed share; the test point counts as one of the n + 1 points. Negative: no labeling.

    Examples
    --------
    >>> from counterplay.invariance import instances
    >>> case = instances.eta_family(4, 0.2, random_state=0)
    >>> learner = OneInclusionEta(case.problem, eta=1.0).fit(*case.distribution.sample(200, 0))
    >>> case.distribution.error_of(learner)
    0.0
    """

    def __init__(
        self,
        hypotheses: Any,
        group: Any = None,
        eta: float = 0.0,
        orientation: Literal["flow", "peel", "fractional"] = "flow",
    ) -> None:
        super().__init__(hypotheses, group, orientation)
        self.eta = check_real(eta, "eta")

    def _allowed(self, size: int) -> int:
        return budget(self.eta, size)
