"""StrategicERM: the rule of a class with the fewest errors after everybody has moved.

Source: "Strategic empirical risk minimisation", Theorem B.1, see
docs/theory/03-strategic-infinite.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from counterplay.core.arguments import check_parameters
from counterplay.core.finite_class import FiniteClass
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_int,
    check_real,
    shorten,
)
from counterplay.errors import InvalidInputError, UnknownNameError
from counterplay.strategic.features import check_scale, named, read_rows, read_sample
from counterplay.strategic.graphs.bags import BagSample, merge_bags
from counterplay.strategic.graphs.halfspace_erm import (
    EXACT_POINTS,
    HalfspaceFit,
    halfspace_2d_exact,
    halfspace_heuristic,
    halfspace_milp,
    threshold_1d,
)
from counterplay.strategic.graphs.manipulation_graph import LocalGraph, ManipulationGraph
from counterplay.strategic.graphs.move_bags import move_bags
from counterplay.strategic.graphs.response import accept_function
from counterplay.strategic.moves import Moves, check_budget
from counterplay.tables.models import model_names

_BACKENDS = (
    "auto", "finite", "threshold1d", "halfspace", "halfspace2d_exact", "halfspace_milp",
    "halfspace_heuristic",
)  # fmt: skip
_MILP_BAGS = 60


class StrategicERM(ClassifierMixin, BaseEstimator):
    """Fit the rule with the fewest errors after people have moved.

    Use it when the cheap moves are known: ``moves`` with steps and a ``budget``, or
    ``fit(X, y, graph=...)``. Fitting is exact for finite
    classes, one feature and (but for directions too close for floats) two features; with more
    features it is exact where a proof succeeds. ``optimal_`` says whether the result is.

    Parameters
    ----------
    backend:
        ``"auto"``, ``"finite"`` (needs ``hypotheses``), ``"threshold1d"``, ``"halfspace"`` (the
        best halfspace method for the data), ``"halfspace2d_exact"``, ``"halfspace_milp"`` or
        ``"halfspace_heuristic"``.
    hypotheses:
        For ``"finite"``: functions from feature rows to 0/1, or fitted classifiers.
    time_limit:
        Seconds for the MILP.
    restarts:
        Restarts of the heuristic.
    random_state:
        Seed of the heuristic.
    positive:
        The class people want; may be left out when the labels are 0 and 1 or True and False.
    moves:
        What people can change: :class:`Moves` whose columns have steps, grids or numeric
        categories; every row within the budget is listed.
    budget:
        What everybody can spend; default: that of ``moves``.

    Attributes
    ----------
    classes_:
        Both classes, the wanted one last.
    positive_:
        The wanted class.
    loss_:
        Strategic error rate on the training sample.
    optimal_:
        Whether it is proved that no rule of the class does better on the sample; if not, the rule
        is the best one found.
    gap_:
        Share of the loss that may be avoidable: 0 if proved optimal, 1 if nothing is proved.
    coef_:
        The halfspace ``coef_ @ z >= threshold_`` (halfspace backends).
    threshold_:
        Its threshold.
    best_:
        Index of the chosen hypothesis, ``minimisers_`` all of them (finite backend).
    backend_:
        The method that was used.

    Notes
    -----
    With d = VCdim(H) and out-degree k, O(d log(kd)/eps^2) examples suffice (Theorem B.1);
    see ``bounds.pac_T_agnostic``. Minimising over halfspaces is NP-hard in general.

    Examples
    --------
    >>> from counterplay.strategic import Action, ManipulationGraph, strategic_accuracy
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]]); y = np.array([0, 0, 1, 1])
    >>> graph = ManipulationGraph.from_actions(X, [Action("study", 0, 1, cost=1.0)], budget=1.0)
    >>> model = StrategicERM().fit(X, y, graph=graph)
    >>> strategic_accuracy(model, X, y, graph=graph), model.optimal_
    (1.0, True)

    References
    ----------
    "Strategic empirical risk minimisation", Theorem B.1, Proposition 3.I, see
    docs/theory/03-strategic-infinite.md.
    """

    def __init__(
        self,
        backend: str = "auto",
        *,
        hypotheses: Any = None,
        time_limit: float = 60.0,
        restarts: int = 10,
        random_state: RandomState = None,
        positive: Any = None,
        moves: Any = None,
        budget: float | None = None,
    ) -> None:
        self.backend = backend
        self.hypotheses = hypotheses
        self.time_limit = time_limit
        self.restarts = restarts
        self.random_state = random_state
        self.positive = positive
        self.moves = moves
        self.budget = budget

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        graph: ManipulationGraph | LocalGraph | None = None,
        neighbors: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> StrategicERM:
        """Fit to original features; without a graph (or ``neighbors`` function) nobody moves."""
        check_parameters(self)
        if self.backend not in _BACKENDS:
            raise UnknownNameError.among("backend", self.backend[:80], _BACKENDS)
        check_real(self.time_limit, "time_limit", low=0.0, high=1e6)
        check_int(self.restarts, "restarts", low=1, high=100_000)
        self._check_moves(graph, neighbors)
        rows, labels, weights = read_sample(self, X, y, sample_weight)
        used = weights > 0
        if self.moves is None:
            arcs = graph if neighbors is None else LocalGraph(neighbors, k=np.iinfo(np.int32).max)
            points = named(rows[used], model_names(self))
            sample = _sample(points, labels[used], weights[used], arcs)
        else:
            bags = self._bags(rows[used])
            sample = merge_bags(*bags, labels[used], weights[used])
        self.backend_ = self._choose(sample)
        if self.backend_ != "threshold1d":  # it only compares
            check_scale(sample.points)
        if self.backend_ == "finite":
            self._fit_finite(sample)
        else:
            self._keep(self._fit_halfspace(sample), sample)
        return self

    def _check_moves(self, graph: Any, neighbors: Any) -> None:
        """Refuse two descriptions of what people can do, before anything is read."""
        if self.moves is None:
            if self.budget is not None:
                raise InvalidInputError("budget needs moves=: say what people can change")
            return
        if not isinstance(self.moves, Moves):
            raise InvalidInputError(f"moves must be Moves, got {shorten(self.moves, 100)}")
        if graph is not None or neighbors is not None:
            raise InvalidInputError("give moves or a graph, not both")
        self._budget()

    def _budget(self) -> float:
        budget = self.moves.budget if self.budget is None else self.budget
        if budget is None:
            raise InvalidInputError("budget is needed: what can people spend on their moves?")
        value = check_budget(budget)
        if not np.isfinite(value):
            raise InvalidInputError("budget must be finite to list what people can reach")
        return value

    def _bags(self, rows: FloatArray) -> tuple[FloatArray, IntArray, IntArray]:
        """Return the rows that everybody can show under ``moves``."""
        names = model_names(self)
        known = list(range(rows.shape[1])) if names is None else list(names)
        self.moves.check_columns(known)
        return move_bags(self.moves, rows, known, self._budget())

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Decide on reported features."""
        check_is_fitted(self)
        rows = read_rows(self, X)
        accepted = self._accept(rows)
        labels: NDArray[Any] = self.classes_[accepted.astype(np.int64)]
        return labels

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """How far inside the accepted region a reported point is (not for finite classes)."""
        check_is_fitted(self)
        rows = read_rows(self, X)
        if self.backend_ == "finite":
            return np.where(self._accept(rows), 1.0, -1.0)
        scores: FloatArray = rows @ self.coef_ - self.threshold_
        return scores

    def _choose(self, sample: BagSample) -> str:
        if self.backend == "auto" and self.hypotheses is not None:
            return "finite"
        if self.backend not in ("auto", "halfspace"):
            return self.backend
        p = sample.points.shape[1]
        if p == 1 and self.backend == "auto":
            return "threshold1d"
        if p == 2 and len(sample.points) <= EXACT_POINTS:
            return "halfspace2d_exact"
        if p <= 10 and sample.n_bags <= _MILP_BAGS:
            return "halfspace_milp"
        return "halfspace_heuristic"

    def _fit_halfspace(self, sample: BagSample) -> HalfspaceFit:
        if self.backend_ == "threshold1d":
            return threshold_1d(sample)
        if self.backend_ == "halfspace2d_exact":
            return halfspace_2d_exact(sample)
        if self.backend_ == "halfspace_milp":
            return halfspace_milp(sample, time_limit=self.time_limit)
        rng = generator(self.random_state)
        return halfspace_heuristic(sample, restarts=self.restarts, rng=rng)

    def _keep(self, fit: HalfspaceFit, sample: BagSample) -> None:
        self.coef_, self.threshold_ = fit.weights, fit.threshold
        self.loss_, self.optimal_, self.gap_ = fit.loss / sample.total, fit.optimal, fit.gap

    def _fit_finite(self, sample: BagSample) -> None:
        if self.hypotheses is None:
            raise InvalidInputError("backend='finite' needs hypotheses")
        if isinstance(self.hypotheses, FiniteClass):
            raise InvalidInputError(
                "hypotheses must be functions or fitted classifiers; use FiniteERM for a "
                "FiniteClass on graph nodes"
            )
        if not isinstance(self.hypotheses, list | tuple) or not self.hypotheses:
            raise InvalidInputError(
                f"hypotheses must be a list of rules, got {shorten(self.hypotheses, 100)}"
            )
        names = model_names(self)
        rows = np.stack(
            [accept_function(h, names, self._wanted(h))(sample.points) for h in self.hypotheses]
        )
        losses = sample.loss(rows)
        self.best_ = int(losses.argmin())
        self.minimisers_ = np.flatnonzero(losses <= losses.min() + 1e-12)
        self.loss_, self.optimal_, self.gap_ = float(losses.min()) / sample.total, True, 0.0

    def _wanted(self, hypothesis: Any) -> Any:
        """The wanted class, if that is how the classifier codes it; else its own coding says it."""
        classes = list(getattr(hypothesis, "classes_", ()))
        return self.positive_ if self.positive_ in classes else None

    def _accept(self, X: FloatArray) -> BoolArray:
        if self.backend_ == "finite":
            best = self.hypotheses[self.best_]
            return accept_function(best, model_names(self), self._wanted(best))(X)
        accepted: BoolArray = X @ self.coef_ >= self.threshold_
        return accepted

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _sample(
    X: ArrayLike,
    y: BoolArray,
    weights: FloatArray,
    graph: ManipulationGraph | LocalGraph | None,
) -> BagSample:
    if graph is None:
        rows = np.asarray(X) + 0.0
        points, position = np.unique(rows, axis=0, return_inverse=True)
        pointers = np.arange(len(rows) + 1)
        return merge_bags(points, pointers, position.reshape(-1), y, weights)
    return merge_bags(*graph.bag_points(X), y, weights)
