"""A linear classifier trained for people who move before they are judged.

Someone at x is accepted by w.z >= b after moving iff the support function max over reachable z of
w.z is at least b. Training on it instead of w.x is the whole difference. When everybody can move
equally far in a ball, it is a shift of the offset of ordinary logistic regression; otherwise the
direction is found by descent, and the offset is then set exactly.

Source: "Strategic empirical risk minimisation", see docs/theory/03-strategic-infinite.md, and
"Training with moves", see docs/theory/20-moves.md.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from counterplay.core.arguments import check_parameters
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    check_choice,
    check_float_array,
    check_int,
    check_real,
)
from counterplay.errors import InvalidInputError
from counterplay.strategic.cuts import CutProblem, best_cut
from counterplay.strategic.features import (
    check_scale,
    named,
    read_rows,
    read_sample,
    translated,
)
from counterplay.strategic.graphs.bags import best_threshold, score_rounding
from counterplay.strategic.graphs.manipulation_graph import LocalGraph, ManipulationGraph
from counterplay.strategic.metrics import DUAL
from counterplay.strategic.moves import Moves, check_budget
from counterplay.strategic.moves_training import MoveOracle, train
from counterplay.strategic.reachable_sets import Bags, Balls, best_direction, best_offset
from counterplay.tables import Table
from counterplay.tables.cells import shown
from counterplay.tables.models import model_names

RANGE = 5  # budgets of a range at which the worst loss is taken


class StrategicLinearClassifier(ClassifierMixin, BaseEstimator):
    """Logistic regression for applicants who game it.

    Use it like ``LogisticRegression`` when you know what people can do: moves with prices and a
    budget, or arcs of a manipulation graph.

    Parameters
    ----------
    moves:
        What people can change, and at which price: :class:`Moves`. None: nobody moves (or along
        the ``graph`` given to ``fit``).
    budget:
        What everybody can spend: a number, or a pair (low, high) for the least worst loss over the
        range. Default: the budget of ``moves``. One per training row goes to ``fit``.
    preprocessor:
        Transformer of the raw columns, such as a ``ColumnTransformer``; moves are of raw columns.
        It must treat columns one by one for an exact answer to moves.
    positive:
        The class people want; may be left out when the labels are 0 and 1 or True and False.
    class_weight:
        As in ``LogisticRegression``.
    C:
        Inverse strength of the ridge penalty, as in ``LogisticRegression``.
    max_iter:
        Iterations of the optimiser.
    radius:
        Old form of a ball, for one more release: how far everybody can move, or one per row; use
        ``moves=Moves.ball(X, per="unit")`` and ``budget``.
    norm:
        Norm of the old form: 1, 2 or ``inf``.

    Attributes
    ----------
    classes_:
        Both classes, the wanted one last.
    positive_:
        The wanted class.
    coef_:
        The rule on *reported* (and preprocessed) features accepts iff
        ``coef_ @ z + intercept_ >= 0``.
    intercept_:
        Its offset.
    loss_:
        Strategic error rate on the training sample (weighted); the worst one over a range.
    objective_:
        The objective after each step of training with moves; it never rises.
    preprocessor_:
        The fitted preprocessor, or None.

    Notes
    -----
    The direction is the minimiser of a surrogate or that of logistic regression, whichever errs
    less after moves, each with its best offset; so the strategic error on the training sample is
    never larger than that of logistic regression with its best cut. In a ball with a common budget
    the strategic loss of (w, b) is the ordinary loss of (w, b - r ||w||_*), so fitting is as fast
    as logistic regression. ``predict_proba`` is the logistic function of the score: it is meant for
    inputs of people who moved, and says nothing about others. More than 25 different budgets of
    single people are rounded down to 25 (balls: exact).

    Examples
    --------
    >>> import pandas as pd
    >>> from counterplay.strategic import Change, Moves, gaming_report
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"late": rng.integers(0, 8, 300), "debt": rng.normal(size=300)})
    >>> y = (X["late"] + X["debt"] < 3).astype(int)
    >>> moves = Moves({"late": Change("down", step=1, per="step", low=0)}, budget=2.0)
    >>> naive = StrategicLinearClassifier().fit(X, y)
    >>> ready = StrategicLinearClassifier(moves).fit(X, y)
    >>> [gaming_report(m, X, y, moves).to_frame()["accuracy"].round(3).item()
    ...  for m in (naive, ready)]
    [0.757, 0.983]

    References
    ----------
    Levanon, Rosenfeld: Generalized Strategic Classification and the Case of Aligned Incentives,
    ICML 2022 (surrogate losses for strategic classification).
    """

    def __init__(
        self,
        moves: Any = None,
        *,
        budget: Any = None,
        preprocessor: Any = None,
        positive: Any = None,
        class_weight: Any = None,
        C: float = 1.0,
        max_iter: int = 200,
        radius: Any = None,
        norm: float = 2,
    ) -> None:
        self.moves = moves
        self.budget = budget
        self.preprocessor = preprocessor
        self.positive = positive
        self.class_weight = class_weight
        self.C = C
        self.max_iter = max_iter
        self.radius = radius
        self.norm = norm

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        budget: ArrayLike | None = None,
        graph: ManipulationGraph | LocalGraph | None = None,
    ) -> StrategicLinearClassifier:
        """Fit to original features.

        Parameters
        ----------
        X:
            Original features, before anybody has moved.
        y:
            True labels.
        sample_weight:
            Weight of each row.
        budget:
            What each person of the sample can spend, one per row; goes through pipelines and
            searches like a weight.
        graph:
            Where people can go, instead of ``moves``.
        """
        check_parameters(self, nonfinite=["norm"])
        check_choice(self.norm, "norm", tuple(DUAL))
        check_real(self.C, "C", low=0.0, open_low=True, high=1e12)
        check_int(self.max_iter, "max_iter", low=1, high=1_000_000)
        self._check_moves(graph, budget)
        people, rows, labels, weights = self._read(X, y, sample_weight)
        start = LogisticRegression(C=float(self.C), max_iter=int(self.max_iter))
        start.fit(rows, labels, sample_weight=weights)
        self.n_iter_ = int(start.n_iter_[0])
        if graph is not None:
            bags = Bags(*graph.bag_points(named(rows, model_names(self))))
            self._fit_reach(bags, labels, weights, start)
        elif isinstance(self.moves, Moves):
            budgets = self._budgets(len(rows), budget)
            self._fit_moves(self.moves, budgets, people, rows, labels, weights, start)
        elif self.radius is not None:
            ball = Moves.ball(people, norm=self.norm, per="unit")
            budgets = [self._radii(len(rows))]
            self._fit_moves(ball, budgets, people, rows, labels, weights, start)
        else:  # nobody moves
            self._fit_reach(Balls(rows, np.zeros(len(rows)), 2.0), labels, weights, start)
        return self

    def _check_moves(self, graph: Any, budget: Any) -> None:
        if self.moves is not None and not isinstance(self.moves, Moves):
            raise InvalidInputError(f"moves must be Moves, got {shown(self.moves)}")
        if self.moves is not None and (graph is not None or self.radius is not None):
            raise InvalidInputError("give moves, graph or radius, only one of them")
        if self.moves is None and (budget is not None or self.budget is not None):
            raise InvalidInputError("budget needs moves=: say what people can change")
        if self.radius is not None:
            warnings.warn(
                'radius and norm go with the next release: use moves=Moves.ball(X, per="unit") '
                "and budget=",
                DeprecationWarning,
                stacklevel=3,
            )

    def _read(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Any, FloatArray, BoolArray, FloatArray]:
        """Return the people, their encoded rows, which labels are wanted, and weights."""
        self.preprocessor_ = None
        people = X
        if self.preprocessor is not None:
            frame = Table.of(X).frame()
            self.preprocessor_ = translated(clone(self.preprocessor).fit, frame, y)
            people = frame
        rows, labels, weights = read_sample(
            self, X if self.preprocessor_ is None else self._encoded(people), y, sample_weight
        )
        if self.preprocessor_ is None:
            people = named(rows, model_names(self))
        else:
            self.feature_names_in_ = np.asarray(people.columns, dtype=object)
            self.n_features_in_ = people.shape[1]
        check_scale(rows)
        if self.class_weight is not None:
            chosen = self.classes_[labels.astype(np.int64)]
            factor = translated(compute_sample_weight, self.class_weight, chosen)
            weights = weights * factor
        return people, rows, labels, weights

    def _encoded(self, people: Any) -> FloatArray:
        """Return raw rows after the preprocessor, as numbers."""
        if self.preprocessor_ is None:
            return np.asarray(people, dtype=np.float64)
        rows = translated(self.preprocessor_.transform, people)
        dense = rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)
        return np.asarray(dense, dtype=np.float64)

    def _fit_reach(
        self, reach: Balls | Bags, y: BoolArray, weights: FloatArray, start: LogisticRegression
    ) -> None:
        w = start.coef_[0]
        if not (isinstance(reach, Balls) and np.ptp(reach.radius) == 0):
            # A common radius only shifts the offset; otherwise the direction matters.
            offset = -float(start.intercept_[0])
            loss = reach.objective(y, weights, self.C)
            found, steps = best_direction(reach, w, offset, weights, loss, self.max_iter)
            self.n_iter_ += steps
            losses = [float(best_offset(reach, v, y, weights)[0]) for v in (found, w)]
            w = w if losses[1] < losses[0] else found
        least, cut = best_offset(reach, w, y, weights)
        self._keep(w, float(cut), float(least) / float(weights.sum()))

    def _fit_moves(
        self,
        moves: Moves,
        budgets: list[FloatArray],
        people: Any,
        rows: FloatArray,
        y: BoolArray,
        weights: FloatArray,
        start: LogisticRegression,
    ) -> None:
        """Fit for people who make moves."""
        names = list(people.columns) if isinstance(people, pd.DataFrame) else list(
            range(rows.shape[1])
        )  # fmt: skip
        moves.check_columns(names)
        units = moves.ball_units(names) if self.preprocessor_ is None else None
        if units is not None and len(budgets) == 1:
            dual = {"sum": np.inf, "euclid": 2.0, "max": 1.0}[moves.combine]
            self._fit_reach(Balls(rows, budgets[0], dual, units), y, weights, start)
            return
        first = np.append(start.coef_[0], -float(start.intercept_[0]))
        oracles = [MoveOracle(people, self._encoded, self.preprocessor_, moves, r) for r in budgets]
        ways = oracles if len(oracles) == 1 else [oracles[0], oracles[len(oracles) // 2],
                                                  oracles[-1]]  # fmt: skip
        directions = [start.coef_[0]]
        for oracle in ways:
            trained = train(oracle, y, weights, first, float(self.C), int(self.max_iter))
            directions.append(trained.weights)
            self.objective_ = np.array(trained.objective)
        found = [_offset_for(oracles, w, y, weights) for w in directions]
        best = int(np.argmin([loss for loss, _ in found]))
        self._keep(directions[best], found[best][1], found[best][0])

    def _budgets(self, n: int, given: Any) -> list[FloatArray]:
        """Return what everybody can spend, once per budget of a range."""
        if given is not None:
            each = check_float_array(given, "budget", ndim=1)
            if each.size != n or (each < 0).any():
                raise InvalidInputError(f"budget must be {n} numbers of at least 0, one per row")
            return [each]
        budget = self.moves.budget if self.budget is None else self.budget
        if budget is None:
            raise InvalidInputError("budget is needed: what can people spend on their moves?")
        if isinstance(budget, tuple):
            ends = [check_budget(r) for r in budget]
            if len(ends) != 2 or not ends[0] <= ends[1] < np.inf:
                raise InvalidInputError(
                    f"budget must be numbers of at least 0, or (low, high); got {shown(budget)}"
                )
            return [np.full(n, r) for r in np.unique(np.linspace(ends[0], ends[1], RANGE))]
        one = check_budget(budget)
        if not np.isfinite(one):
            raise InvalidInputError("budget must be finite")
        return [np.full(n, one)]

    def _keep(self, w: FloatArray, cut: float, loss: float) -> None:
        self.coef_ = w[None, :]
        self.intercept_ = np.array([-cut])
        self.loss_ = loss

    def _radii(self, n: int) -> FloatArray:
        radius = check_float_array(self.radius, "radius")
        if radius.ndim > 1 or (radius.ndim == 1 and radius.size != n):
            raise InvalidInputError(
                f"radius must be a number or one per row ({n}), got {radius.shape}"
            )
        if (radius < 0).any():
            raise InvalidInputError("radius must not be negative")
        check_scale(radius, "radius")
        return np.broadcast_to(radius, (n,))

    def decision_function(self, X: Any) -> FloatArray:
        """Signed score of reported features; accepted from 0 on."""
        check_is_fitted(self)
        if self.preprocessor_ is None:
            rows = read_rows(self, X)
        else:
            rows = self._encoded(Table.of(X, columns=model_names(self)).frame())
        scores: FloatArray = rows @ self.coef_[0] + self.intercept_[0]
        return scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Decide on reported features."""
        accepted = self.decision_function(X) >= 0
        labels: NDArray[Any] = self.classes_[accepted.astype(np.int64)]
        return labels

    def predict_proba(self, X: Any) -> FloatArray:
        """Return chances of both classes, the wanted one last, for people who have moved."""
        chance = expit(self.decision_function(X))
        return np.column_stack((1 - chance, chance))

    def halfspace(self) -> StrategicLinearClassifier:
        """Return the rule on preprocessed features, without the preprocessor."""
        check_is_fitted(self)
        rule = StrategicLinearClassifier(positive=self.positive)
        rule.preprocessor_ = None
        rule.classes_, rule.positive_ = self.classes_, self.positive_
        rule.coef_, rule.intercept_ = self.coef_, self.intercept_
        rule.n_features_in_ = self.coef_.shape[1]
        return rule

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _offset_for(
    oracles: list[MoveOracle], w: FloatArray, y: BoolArray, weights: FloatArray
) -> tuple[float, float]:
    """Return the least strategic loss in a direction (the worst over the budgets), and its cut."""
    goals = [oracle(w) for oracle in oracles]
    scores = np.column_stack([goal @ w for goal in goals])
    if len(oracles) == 1:
        rounding = score_rounding(goals[0], w)
        least, cut = best_threshold(scores[:, 0], weights * y, weights * ~y, rounding)
        return float(least) / float(weights.sum()), float(cut)
    found = best_cut(
        CutProblem(np.arange(float(len(oracles))), scores, scores, y, weights), "worst"
    )
    return found.worst, found.cut
