"""What to deploy instead: the same model with a cut that is good over a range of budgets.

A cut for people who can spend 1 turns away everybody if nobody moves; the old cut lets everybody
in if all do. This one loses least against the best cut of each budget, certified for all budgets
of a range and for every mixture of them.

Source: "One cut for a range of budgets", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.validation import BoolArray, FloatArray, check_choice
from counterplay.errors import InvalidInputError
from counterplay.strategic.ability import Ability
from counterplay.strategic.best_shown import best_shown, shown_scores
from counterplay.strategic.cuts import (
    OBJECTIVES,
    Cut,
    CutProblem,
    Objective,
    best_cut,
    bootstrap_regret,
    cut_over_budgets,
    error_prices,
)
from counterplay.strategic.fold import Asked, describe_model
from counterplay.strategic.measures import check_value
from counterplay.strategic.moves import Moves, check_budget
from counterplay.tables.cells import shown
from counterplay.tables.table import check_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Rethreshold", "best_shown", "cut_over_budgets", "rethreshold"]

RADII = 21
MOST_RADII = 101
CLOSE = 0.005  # wanted distance of the certificate from the regret at the budgets
NARROW = 1e-3  # intervals of the range that are not halved any more
NODES = 4000


@dataclass(frozen=True, eq=False)
class Rethreshold(Report):
    """A model with a new cut, and what the cut costs at every budget.

    Made by `rethreshold`.

    Parameters
    ----------
    model
        The model to deploy: the old score with the new cut.
    cut
        Accepted are scores of at least this.
    cuts
        Least and largest cut that are as good within 0.001.
    regret
        Worst loss over the best cut of each budget, at the budgets of ``curve``; for the
        objectives "individual" and "expected" that of the cut chosen by them.
    regret_certified
        The same for every budget of the range, and every mixture; NaN where nothing is certified.
    interval
        Bootstrap interval of ``regret`` over draws of the people.
    problem
        Best shown scores at every budget.
    old
        The old cut on the same score.
    objective
        What was minimised.
    worst
        Least value of the objective.
    wanted
        The class people want.
    how
        How best shown scores were found.
    moves
        What people could do.
    whole_range
        Whether the certificate holds between the budgets.
    """

    model: Any
    cut: float
    cuts: tuple[float, float]
    regret: float
    regret_certified: float
    interval: tuple[float, float]
    problem: CutProblem = field(repr=False)
    old: float
    objective: Objective
    worst: float
    wanted: Any
    how: str = field(repr=False)
    moves: Moves = field(repr=False)
    whole_range: bool = False

    def regret_of(self, cut: float) -> float:
        """Return the worst regret of another cut at the same budgets."""
        return float(self.problem.regret(cut).max())

    @property
    def curve(self) -> pd.DataFrame:
        """Loss per budget of the old cut, the new one and the best for that budget alone."""
        return self.to_frame()

    def to_frame(self) -> pd.DataFrame:
        """Return one row per budget: losses of the old, the new and the best cut, and regrets."""
        least, _ = self.problem.least()
        losses = {}
        for name, cut in (("old", self.old), ("new", self.cut)):
            fp, fn, _, _ = self.problem.errors(cut)
            losses[name] = fp + fn
        return pd.DataFrame(
            {
                "budget": self.problem.budgets,
                "loss_old": losses["old"],
                "loss_new": losses["new"],
                "loss_best": least,
                "regret_old": losses["old"] - least,
                "regret": losses["new"] - least,
            }
        )

    def summary(self) -> str:
        """Return the cut and its losses in a few lines."""
        problem = self.problem
        share = float(np.average(problem.qualified, weights=problem.weights))
        exact = int((problem.low == problem.high).all(axis=1).sum())
        r = problem.budgets
        where = f"budgets from {r[0]:g} to {r[-1]:g}" if self.whole_range else f"{r.size} budgets"
        lines = [
            f"New cut {self.cut:.6g} (old {_short(self.old)}), as good within 0.001: "
            f"[{self.cuts[0]:.6g}, {self.cuts[1]:.6g}]",
            f"  {problem.qualified.size} people, wanted: {shown(self.wanted, 40)} ({share:.0%} of "
            f"the labels), {self.how}",
            f"  {self.moves.units}; {len(self.moves.columns)} columns can move",
            f"  best shown scores exact for {exact} of {problem.qualified.size} people",
            f"  objective {self.objective} {self.worst:.4f} over {where}",
            f"  worst regret {self.regret:.4f} (old cut {self.regret_of(self.old):.4f}), bootstrap "
            f"[{self.interval[0]:.4f}, {self.interval[1]:.4f}]",
        ]
        if self.whole_range:
            lines.append(
                f"  certified: at most {self.regret_certified:.4f} at every budget of the range "
                "and for every mixture of them, on these people"
            )
        else:
            lines.append("  nothing is certified for other budgets than these")
        frame = self.to_frame()
        for k in np.unique([0, len(frame) // 2, len(frame) - 1]).tolist():
            row = frame.iloc[k]
            lines.append(
                f"  budget {row['budget']:g}: loss old {row['loss_old']:.3f}, new "
                f"{row['loss_new']:.3f}, best {row['loss_best']:.3f}"
            )
        if max(share, 1 - share) > 0.9:
            lines.append(self._balanced())
        return "\n".join(lines)

    def _balanced(self) -> str:
        """Say the balanced error where one class is so large that accuracy hides the other."""
        problem = self.problem
        y, w = problem.qualified, problem.weights
        parts = []
        for name, cut in (("old", self.old), ("new", self.cut)):
            wrong = [
                (np.average(problem.low[y, k] < cut, weights=w[y])
                 + np.average(problem.high[~y, k] >= cut, weights=w[~y])) / 2
                for k in (0, -1)
            ]  # fmt: skip
            parts.append(f"{name} {wrong[0]:.3f} to {wrong[1]:.3f}")
        return f"  one class is above 90 %: balanced error, {', '.join(parts)}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the loss over the budget: old cut, new cut, best cut for each budget."""
        from counterplay.core.figures import PALETTE, THEORY, axes_or_new, figure_style

        frame = self.to_frame()
        with figure_style():
            ax = axes_or_new(ax)
            for k, (column, label) in enumerate((("loss_old", "old cut"), ("loss_new", "new cut"))):
                ax.plot(frame["budget"], frame[column], color=PALETTE[k], label=label)
            ax.plot(frame["budget"], frame["loss_best"], label="best for this budget", **THEORY)
            ax.set_xlabel("what a person can spend (budget)")
            ax.set_ylabel("loss per person")
            ax.legend()
        return ax


@checked
def rethreshold(
    model: Any,
    X: Any,
    y: Any,
    moves: Any = None,
    budget: Any = None,
    *,
    objective: Objective = "regret",
    positive: Any = None,
    value: Any = None,
    sample_weight: Any = None,
    ability: Any = None,
) -> Rethreshold:
    """Return a fitted model with the cut that is best for people who move.

    Use it when the model is good and its cut was chosen for people who do not react. The default
    is safe when nobody knows how much people can spend: the worst regret over a range of budgets.

    Parameters
    ----------
    model
        Fitted binary classifier with a score, in any pipeline; a threshold wrapper around it is
        replaced.
    X
        People to choose the cut on; best not those the model was fitted on.
    y
        Their true labels; None for the objective ``"decisions"``.
    moves
        What people can change, and at which price.
    budget
        A pair (low, high): the whole range, certified; a list: exactly these; a number: this one.
        Default: the budget of ``moves``, else (0, 1). An `Ability` is one, too.
    objective
        ``"regret"``: least worst regret. ``"individual"``: least loss if everybody has the budget
        of the range that is worst for the decision on her. ``"expected"``: least mean loss under
        ``ability``. ``"decisions"``: the decisions of the old model among people who do not move
        (one budget).
    positive
        The class people want; may be left out if the classes are 0/1 or False/True.
    value
        What decisions are worth, ``[[tn, fp], [fn, tp]]`` per person; default: errors cost 1.
    sample_weight
        Weight of each person.
    ability
        Distribution of budgets, from `estimate_ability`, for ``"expected"``.

    Notes
    -----
    Guarantee: on the given people no cut has a smaller objective, and ``regret_certified`` bounds
    the regret at every budget of the range and under every distribution of budgets on it, see
    propositions 20.D and 20.E. The certificate is about the sample: a bootstrap interval of the
    regret is given beside it. For a linear model and an unbounded ball the objective
    ``"decisions"`` gives everybody, after her move, exactly the decision she had before.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    >>> fix = rethreshold(model, X, y, Moves.ball(X), budget=(0, 2))
    >>> round(fix.regret_of(fix.old), 3), round(fix.regret, 3)  # nobody knows who can do what
    (0.149, 0.079)

    References
    ----------
    "One cut for a range of budgets", Proposition 20.D, Proposition 20.E, see
    docs/theory/20-moves.md.
    """
    check_choice(objective, "objective", OBJECTIVES)
    if not isinstance(moves, Moves):
        raise InvalidInputError(
            f"moves must be Moves, got {shown(moves)}; Moves.ball(X) is the ball around every row"
        )
    ability, budgets, whole = _budgets(budget, moves, ability, objective)
    prices = error_prices(check_value(value))
    base = scoring_model(model)
    own = Asked(model, X, positive, None if objective == "decisions" else y)
    asked = Asked(base, X, own.positive)
    weights = check_weights(sample_weight, len(asked.frame)) if sample_weight is not None else None
    accepted = own.accepts(own.frame)
    qualified = accepted if objective == "decisions" else _qualified(own)
    if objective != "decisions" and qualified.all() | (~qualified).all():
        raise InvalidInputError("y holds one class only; a cut needs both")
    search = _Search(asked, moves, qualified, weights, prices)
    if objective == "regret" and whole:
        problem, cut = search.over_range(budgets)
    else:
        problem = search.problem(budgets)
        shares = None if ability is None else ability.atoms()[1]
        kind: Objective = "regret" if objective == "decisions" else objective
        cut = best_cut(problem, kind, shares)
    old = _old_cut(search.scores(), accepted)
    if objective == "decisions":
        cut = _shifted(cut, problem, search.scores(), old)
    return _result(search, problem, cut, old, objective, whole)


def _short(cut: float) -> str:
    """Return a cut for people: the float above 0 is 0."""
    return f"{0.0 if abs(cut) < 1e-300 else cut:.6g}"


def _result(
    search: _Search, problem: CutProblem, cut: Cut, old: float, objective: Objective, whole: bool
) -> Rethreshold:
    regret = max(0.0, float(problem.regret(cut.cut).max()))
    certified = regret
    if whole and problem.budgets.size > 1:
        certified = max(regret, float(problem.certified(cut.cut).max()))
    return Rethreshold(
        search.deployed(cut.cut),
        cut.cut,
        (cut.low, cut.high),
        regret,
        certified,
        bootstrap_regret(problem, cut.cut, np.random.default_rng(0)),
        problem,
        old,
        objective,
        max(0.0, cut.worst),
        search.asked.positive,
        search.how,
        search.moves,
        whole,
    )


class _Search:
    """Best shown scores of the people, asked for as budgets come up."""

    def __init__(
        self,
        asked: Asked,
        moves: Moves,
        qualified: BoolArray,
        weights: FloatArray | None,
        prices: tuple[float, float],
    ) -> None:
        self.asked, self.moves = asked, moves
        self.qualified, self.prices = qualified, prices
        self.weights = np.ones(qualified.size) if weights is None else weights
        self.known: dict[float, tuple[FloatArray, FloatArray]] = {}
        self.response, self.how = "", ""

    def problem(self, budgets: FloatArray) -> CutProblem:
        """Return the scores at these budgets; only new ones are searched."""
        new = [float(r) for r in budgets if float(r) not in self.known]
        if new:
            found = shown_scores(self.asked, self.moves, np.array(new), NODES)
            self.response, self.how = found.response_method, found.method
            for k, r in enumerate(new):
                self.known[r] = found.low[:, k], found.high[:, k]
        pairs = [self.known[float(r)] for r in budgets]
        # More budget never shows less: what one budget proves holds for its neighbours.
        low = np.maximum.accumulate(np.column_stack([p[0] for p in pairs]), axis=1)
        high = np.column_stack([p[1] for p in pairs])
        high = np.minimum.accumulate(high[:, ::-1], axis=1)[:, ::-1]
        return CutProblem(
            np.asarray(budgets, dtype=np.float64), low, high, self.qualified, self.weights,
            self.prices,
        )  # fmt: skip

    def scores(self) -> FloatArray:
        """Return everybody's own score."""
        return self.problem(np.zeros(1)).low[:, 0]

    def over_range(self, ends: FloatArray) -> tuple[CutProblem, Cut]:
        """Halve intervals of budgets until the certificate is close to the regret at them."""
        budgets = np.linspace(ends[0], ends[1], RADII)
        aim = max(CLOSE, 2 / self.qualified.size) * max(self.prices)  # two people at the least
        while True:
            problem = self.problem(budgets)
            cut = best_cut(problem, "regret")
            excess = problem.certified(cut.cut) - max(0.0, cut.worst) - aim
            room = MOST_RADII - budgets.size
            # People who pass the cut at one and the same budget cannot be told apart by halving.
            wide = np.diff(budgets) > (ends[1] - ends[0]) * NARROW
            split = np.flatnonzero((excess > 0) & wide)
            if not split.size or room <= 0:
                return problem, cut
            split = split[np.argsort(-excess[split])][:room]
            middles = (budgets[split] + budgets[split + 1]) / 2
            budgets = np.union1d(budgets, middles)

    def deployed(self, cut: float) -> Any:
        """Return the model with the new cut."""
        from sklearn.frozen import FrozenEstimator
        from sklearn.model_selection import FixedThresholdClassifier

        asked = self.asked
        wrapper = FixedThresholdClassifier(
            FrozenEstimator(asked.fitted.model),
            threshold=cut,
            response_method=self.response,
            pos_label=asked.positive,
        )
        few = np.arange(min(2, len(asked.frame)))
        labels = np.resize(np.array(asked.fitted.classes), few.size)
        return wrapper.fit(asked.given(asked.frame.iloc[few]), labels)


def scoring_model(model: Any) -> Any:
    """Return the model without its threshold wrapper; refuse one that has no score."""
    inner = model
    while type(getattr(inner, "best_estimator_", inner)).__name__ in (
        "FixedThresholdClassifier",
        "TunedThresholdClassifierCV",
    ):
        inner = getattr(inner, "best_estimator_", inner)
        inner = getattr(inner, "estimator_", inner.estimator)
    if not (hasattr(inner, "decision_function") or hasattr(inner, "predict_proba")):
        raise InvalidInputError(
            f"{describe_model(inner)} only says yes or no; a new cut needs decision_function or "
            "predict_proba"
        )
    return inner


def _budgets(
    budget: Any, moves: Moves, ability: Any, objective: str
) -> tuple[Ability | None, FloatArray, bool]:
    """Return the ability, the budgets in rising order, and whether they are the ends of a range."""
    if isinstance(budget, Ability):
        if ability is not None:
            raise InvalidInputError("give budgets or ability=, not both")
        ability, budget = budget, None
    if (ability is not None) != (objective == "expected"):
        raise InvalidInputError('objective="expected" and ability= (from estimate_ability) belong '
                                "together")  # fmt: skip
    if ability is not None:
        if not isinstance(ability, Ability):
            raise InvalidInputError(
                f"ability must come from estimate_ability, got {shown(ability)}"
            )
        if budget is not None:
            raise InvalidInputError("give budgets or ability=, not both")
        return ability, ability.atoms()[0], False
    if budget is None:
        budget = (0.0, 1.0) if moves.budget is None else moves.budget
    if isinstance(budget, tuple):
        return None, *_range(budget)
    several = isinstance(budget, list | np.ndarray) and np.ndim(budget) == 1
    values = np.unique([check_budget(r) for r in (list(budget) if several else [budget])])
    if not values.size or values.size > MOST_RADII or not np.isfinite(values).all():
        raise InvalidInputError(
            f"budget must be a pair (low, high) or 1 to {MOST_RADII} finite numbers"
        )
    if objective == "decisions" and values.size > 1:
        raise InvalidInputError('objective="decisions" is for one budget')
    return None, values, False


def _range(budget: tuple[Any, ...]) -> tuple[FloatArray, bool]:
    ends = [check_budget(r) for r in budget]
    if len(ends) != 2 or not ends[0] <= ends[1] or not np.isfinite(ends[1]):
        raise InvalidInputError(
            f"budget must be numbers of at least 0, or (low, high); got {shown(budget)}"
        )
    return np.unique(ends), len(set(ends)) == 2


def _qualified(asked: Asked) -> BoolArray:
    labels = asked.table.labels
    assert labels is not None
    return np.asarray(labels.codes == labels.position(asked.positive), dtype=bool)


def _old_cut(scores: FloatArray, accepted: BoolArray) -> float:
    """Return a cut on the score that gives the model's own decisions on these people."""
    below = float(scores[~accepted].max(initial=-np.inf))
    above = float(scores[accepted].min(initial=np.inf))
    for usual in (np.nextafter(0.0, 1.0), np.nextafter(0.5, 1.0), 0.0, 0.5):
        if below < usual <= above:
            return float(usual)
    return above


def _shifted(cut: Cut, problem: CutProblem, scores: FloatArray, old: float) -> Cut:
    """Return the old cut, moved by what everybody gains, where all gain the same."""
    gain = problem.low[:, 0] - scores
    size = 1 + np.abs(scores).max() + np.abs(gain).max()
    same = np.ptp(gain) <= 1e-9 * size and (problem.low == problem.high).all()
    if not same or not np.isfinite(old):
        return cut
    middle = float(old + np.median(gain))
    return Cut(middle, 0.0, min(middle, cut.low), max(middle, cut.high))
