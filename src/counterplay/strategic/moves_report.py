"""What happens to a model when people make the moves they can afford.

Everybody whose cheapest accepted move is within the budget makes it; true labels stay. People for
whom only a bracket of the price is known count both ways.

Source: "The report", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from counterplay.core.report import Report
from counterplay.core.stats import clopper_pearson
from counterplay.core.validation import BoolArray, FloatArray, check_open_fraction
from counterplay.errors import InvalidInputError
from counterplay.strategic.cheapest import MovePlan, plan_moves
from counterplay.strategic.fold import Asked
from counterplay.strategic.moves import Moves, check_budget, check_budgets
from counterplay.tables.cells import shown
from counterplay.tables.table import check_groups, check_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DEFAULT_BUDGETS = (0.0, 0.25, 0.5, 1.0)
DRAWS = 200


@dataclass(frozen=True, eq=False)
class MovesReport(Report):
    """Accuracy, errors, moves, burdens and value as a function of what people can spend.

    Made by `gaming_report` with `Moves`.

    Parameters
    ----------
    plan
        The cheapest accepted move of everybody.
    qualified
        True labels (True: deserves a yes).
    budget
        Budgets to report on.
    weights
        Weight of each person.
    weighted
        Whether weights were given.
    value
        What a decision is worth: rows by true label, columns by decision; None if not given.
    groups
        Group of each person, if given.
    confidence
        Level of the intervals.
    """

    plan: MovePlan
    qualified: BoolArray
    budget: FloatArray
    weights: FloatArray = field(repr=False)
    weighted: bool = False
    value: FloatArray | None = None
    groups: NDArray[Any] | None = field(default=None, repr=False)
    confidence: float = 0.95

    def to_frame(self) -> pd.DataFrame:
        """Return one row per budget.

        ``accuracy`` counts the moves that are known to work; ``accuracy_low`` and
        ``accuracy_high`` are certified whatever else people find; ``ci_low`` and ``ci_high`` are
        the sampling interval. ``social_burden`` is the mean price paid by the qualified,
        ``gaming_cost`` by the others; ``value`` is per person; ``burden_gap`` is the largest
        difference between groups of the mean acceptance price of the qualified.
        """
        return self.at(self.budget)

    def at(self, budget: Any) -> pd.DataFrame:
        """Return the same table for other budgets."""
        return pd.DataFrame([self._row(r) for r in check_budgets(budget)])

    def accepted(self, budget: float) -> tuple[BoolArray, BoolArray]:
        """Return who is certainly, and who is possibly, accepted at a budget."""
        already = self.plan.upper == 0
        if budget == 0:  # nobody moves
            return already, already
        roof = budget * (1 + 1e-9)
        return self.plan.upper <= roof, already | (self.plan.lower <= roof)

    def _row(self, budget: float) -> dict[str, Any]:
        sure, maybe = self.accepted(budget)
        y, w = self.qualified, self.weights
        total = float(w.sum())
        unsure = maybe & ~sure
        right = float(w[sure == y].sum())
        moved = sure & (self.plan.upper > 0)
        paid = np.where(moved, self.plan.upper, 0.0)
        low, high = self._interval(sure == y)
        row: dict[str, Any] = {
            "budget": budget,
            "accuracy": right / total,
            "accuracy_low": (right - float(w[unsure & ~y].sum())) / total,
            "accuracy_high": (right + float(w[unsure & y].sum())) / total,
            "ci_low": low,
            "ci_high": high,
            "acceptance_rate": float(w[sure].sum()) / total,
            "false_positives": self._count(sure & ~y),
            "false_negatives": self._count(~sure & y),
            "moved": self._count(moved),
            "moved_unqualified": self._count(moved & ~y),
            "social_burden": _mean(paid, w * y),
            "gaming_cost": _mean(paid, w * ~y),
            "exact": bool(not unsure.any()),
        }
        if self.value is not None:
            worth = self.value[y.astype(int), sure.astype(int)]
            other = self.value[y.astype(int), maybe.astype(int)]
            row["value"] = float((w * worth).sum()) / total
            row["value_low"] = float((w * np.minimum(worth, other)).sum()) / total
            row["value_high"] = float((w * np.maximum(worth, other)).sum()) / total
        if self.groups is not None:
            row["burden_gap"] = self._gap(self.plan.upper, w * y)
            row["acceptance_gap"] = self._gap(sure.astype(np.float64), w)
        return row

    def _count(self, mask: BoolArray) -> float | int:
        return float(self.weights[mask].sum()) if self.weighted else int(mask.sum())

    def _interval(self, right: BoolArray) -> tuple[float, float]:
        """Return the interval of the accuracy: binomial, or of 200 weighted draws of people."""
        if not self.weighted:
            interval = clopper_pearson(int(right.sum()), right.size, self.confidence)
            return interval.low, interval.high
        rng = np.random.default_rng(0)
        draws = rng.multinomial(right.size, np.full(right.size, 1 / right.size), size=DRAWS)
        mass = draws @ self.weights
        shares = (draws @ (self.weights * right))[mass > 0] / mass[mass > 0]
        tail = (1 - self.confidence) / 2
        low, high = np.quantile(shares, [tail, 1 - tail])
        return float(low), float(high)

    def _gap(self, values: FloatArray, weights: FloatArray) -> float:
        """Return the largest difference between groups of a weighted mean."""
        assert self.groups is not None
        means = [
            _mean(values[mine], weights[mine])
            for group in set(self.groups.tolist())
            if weights[mine := self.groups == group].sum() > 0
        ]
        low, high = (min(means), max(means)) if means else (0.0, 0.0)
        return 0.0 if low == high else high - low  # infinite if one group cannot be accepted

    def by_group(self) -> pd.DataFrame:
        """Return the table for each group."""
        if self.groups is None:
            raise InvalidInputError("the report was made without groups=")
        parts = []
        for group in sorted(set(self.groups.tolist()), key=lambda g: (isinstance(g, str), g)):
            part = self._take(self.groups == group).to_frame()
            part.insert(0, "group", group)
            parts.append(part)
        return pd.concat(parts, ignore_index=True)

    def _take(self, mask: BoolArray) -> MovesReport:
        plan = replace(
            self.plan,
            lower=self.plan.lower[mask],
            upper=self.plan.upper[mask],
            exact=self.plan.exact[mask],
        )
        weights, y = self.weights[mask], self.qualified[mask]
        return replace(self, plan=plan, qualified=y, weights=weights, groups=None)

    def moves(self, budget: float) -> pd.DataFrame:
        """Return who moves at this budget and what they change, one row per changed cell."""
        sure, _ = self.accepted(check_budget(budget))
        people = self.plan.people.index[sure & (self.plan.upper > 0)]
        changes = self.plan.changes()
        return changes[changes["person"].isin(people)].reset_index(drop=True)

    def summary(self) -> str:
        """Return the report in a few lines."""
        n, share = self.qualified.size, float(np.average(self.qualified, weights=self.weights))
        plan = self.plan
        lines = [
            f"Gaming report: {n} people, wanted: {shown(plan.wanted, 40)} ({share:.0%} of the "
            f"labels), {plan.method}",
            f"  {plan.moves.units}; prices combine as {plan.moves.combine}; "
            f"{len(plan.moves.columns)} of {plan.people.shape[1]} columns can move",
            f"  prices exact for {int(plan.exact.sum())} of {n} people"
            + ("" if plan.exact.all() else "; certified brackets for the rest"),
        ]
        for row in self.to_frame().to_dict("records"):
            bounds = (
                "" if row["exact"] else f" [{row['accuracy_low']:.3f}, {row['accuracy_high']:.3f}]"
            )
            worth = f", value {row['value']:.3g} per person" if "value" in row else ""
            lines.append(
                f"  budget {row['budget']:g}: accuracy {row['accuracy']:.3f}{bounds}, "
                f"{row['false_positives']:g} false positives, {row['false_negatives']:g} false "
                f"negatives, {row['moved']:g} move ({row['moved_unqualified']:g} of them "
                f"unqualified), social burden {row['social_burden']:.3g}{worth}"
            )
        return "\n".join(lines)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw accuracy and both error rates over the budget."""
        from counterplay.core.figures import PALETTE, THEORY, axes_or_new, figure_style

        curve = self.at(np.linspace(0.0, float(self.budget.max()) or 1.0, 101))
        positives = max(1e-300, float(self.weights[self.qualified].sum()))
        negatives = max(1e-300, float(self.weights[~self.qualified].sum()))
        with figure_style():
            ax = axes_or_new(ax)
            r = curve["budget"]
            ax.plot(r, curve["accuracy"], color=PALETTE[0], label="accuracy when gamed")
            ax.fill_between(
                r, curve["accuracy_low"], curve["accuracy_high"], color=PALETTE[0], alpha=0.15
            )
            rates = (
                ("false_positives", negatives, "unqualified accepted"),
                ("false_negatives", positives, "qualified rejected"),
            )
            for k, (name, size, label) in enumerate(rates, start=1):
                ax.plot(r, curve[name] / size, color=PALETTE[k], label=label)
            ax.axhline(float(curve["accuracy"].iloc[0]), label="accuracy if honest", **THEORY)
            ax.set_xlabel("what a person can spend (budget)")
            ax.set_ylabel("share of people")
            ax.set_ylim(-0.02, 1.02)
            ax.legend()
        return ax


def moves_report(
    model: Any,
    X: Any,
    y: Any,
    moves: Moves,
    *,
    budget: Any = None,
    positive: Any = None,
    value: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    confidence: float = 0.95,
    nodes: int = 20_000,
) -> MovesReport:
    """Return the report of `gaming_report` for people who make `Moves`; arguments come first."""
    given = (
        (moves.budget if moves.budget is not None else DEFAULT_BUDGETS)
        if budget is None
        else budget
    )
    budgets = check_budgets(given)
    level = check_open_fraction(confidence, "confidence")
    matrix = _check_value(value)
    asked = Asked(model, X, positive, y)
    labels = asked.table.labels
    assert labels is not None
    n = len(asked.frame)
    weights = np.ones(n) if sample_weight is None else check_weights(sample_weight, n)
    who = None if groups is None else check_groups(groups, n)
    plan = plan_moves(asked, X, moves, float(budgets.max()) if who is None else np.inf, nodes)
    qualified = labels.codes == labels.position(asked.positive)
    return MovesReport(
        plan, qualified, budgets, weights, sample_weight is not None, matrix, who, level
    )


def _check_value(value: Any) -> FloatArray | None:
    """Return the value matrix [[tn, fp], [fn, tp]]."""
    if value is None:
        return None
    try:
        matrix = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.zeros(0)
    if matrix.shape != (2, 2) or not np.isfinite(matrix).all():
        raise InvalidInputError(
            f"value must be [[tn, fp], [fn, tp]], four finite numbers; got {shown(value)}"
        )
    return matrix


def _mean(values: FloatArray, weights: FloatArray) -> float:
    total = float(weights.sum())
    if not total > 0:
        return 0.0
    counted = weights > 0
    return float((values[counted] * weights[counted]).sum() / total)
