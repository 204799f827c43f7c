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
from counterplay.strategic.ability import Ability
from counterplay.strategic.best_shown import shown_scores
from counterplay.strategic.cheapest import MovePlan, plan_moves
from counterplay.strategic.fold import Asked
from counterplay.strategic.measures import (
    auc,
    check_value,
    drawn_interval,
    ks,
    largest_gap,
    split_scores,
    warn_orientation,
    weighted_mean,
)
from counterplay.strategic.moves import Moves, check_budget, check_budgets
from counterplay.tables.cells import shown
from counterplay.tables.table import check_groups, check_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DEFAULT_BUDGETS = (0.0, 0.25, 0.5, 1.0)
NODES = 20_000


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
    ability
        Distribution of budgets; None if budgets are given.
    asked
        The model with its people.
    old
        Whether it was asked for by ``radius``: then tables name their budgets so as well.
    """

    plan: MovePlan
    qualified: BoolArray
    budget: FloatArray
    weights: FloatArray = field(repr=False)
    weighted: bool = False
    value: FloatArray | None = None
    groups: NDArray[Any] | None = field(default=None, repr=False)
    confidence: float = 0.95
    ability: Ability | None = field(default=None, repr=False)
    asked: Asked | None = field(default=None, repr=False)
    old: bool = field(default=False, repr=False)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per budget; one row, "ability", if the distribution of budgets is given.

        ``accuracy`` counts the moves that are known to work; ``accuracy_low`` and
        ``accuracy_high`` are certified whatever else people find; ``ci_low`` and ``ci_high`` are
        the sampling interval. ``social_burden`` is the mean price paid by the qualified,
        ``gaming_cost`` by the others; ``value`` is per person; ``burden_gap`` is the largest
        difference between groups of the mean acceptance price of the qualified.
        """
        if self.ability is not None:
            return pd.DataFrame([self._row("ability")])
        return self.at(self.budget)

    def at(self, budget: Any) -> pd.DataFrame:
        """Return the same table for other budgets."""
        frame = pd.DataFrame([self._row(r) for r in check_budgets(budget)])
        if self.old:
            frame.insert(0, "radius", frame["budget"])
        return frame

    def accepted(self, budget: float) -> tuple[BoolArray, BoolArray]:
        """Return who is certainly, and who is possibly, accepted at a budget."""
        if budget > self.plan.budget * (1 + 1e-9):
            raise InvalidInputError(
                f"the report looked at budgets up to {self.plan.budget:g}; ask gaming_report for "
                f"budget={budget:g}"
            )
        already = self.plan.upper == 0
        if budget == 0:  # nobody moves
            return already, already
        roof = budget * (1 + 1e-9)
        return self.plan.upper <= roof, already | (self.plan.lower <= roof)

    def chances(self, budget: float | str) -> tuple[FloatArray, FloatArray]:
        """Return everybody's chance of acceptance, for certain and at most."""
        if isinstance(budget, str):
            assert self.ability is not None
            already = self.plan.upper == 0
            sure = self.ability.can_pay(self.plan.upper)[0]
            maybe = self.ability.can_pay(self.plan.lower)[1]
            return np.where(already, 1.0, sure), np.where(already, 1.0, np.maximum(sure, maybe))
        certain, possible = self.accepted(budget)
        return certain.astype(np.float64), possible.astype(np.float64)

    def _row(self, budget: float | str) -> dict[str, Any]:
        sure, maybe = self.chances(budget)
        y, w = self.qualified, self.weights
        total = float(w.sum())
        right = np.where(y, sure, 1 - sure)
        moves = np.where(self.plan.upper > 0, sure, 0.0)
        paid = moves * np.where(moves > 0, self.plan.upper, 0.0)
        low, high = self._interval(right)
        row: dict[str, Any] = {
            "budget": budget,
            "accuracy": float(w @ right) / total,
            "accuracy_low": float(w @ np.where(y, sure, 1 - maybe)) / total,
            "accuracy_high": float(w @ np.where(y, maybe, 1 - sure)) / total,
            "ci_low": low,
            "ci_high": high,
            "acceptance_rate": float(w @ sure) / total,
            "false_positives": self._count(sure * ~y),
            "false_negatives": self._count((1 - sure) * y),
            "moved": self._count(moves),
            "moved_unqualified": self._count(moves * ~y),
            "social_burden": weighted_mean(paid, w * y),
            "gaming_cost": weighted_mean(paid, w * ~y),
            "exact": bool((sure == maybe).all()),
        }
        if self.value is not None:
            worth, other = self._worth(sure), self._worth(maybe)
            row["value"] = float(w @ worth) / total
            row["value_low"] = float(w @ np.minimum(worth, other)) / total
            row["value_high"] = float(w @ np.maximum(worth, other)) / total
        if self.groups is not None:
            row["burden_gap"] = largest_gap(self.groups, self.plan.upper, w * y)
            row["acceptance_gap"] = largest_gap(self.groups, sure, w)
        return row

    def _worth(self, chance: FloatArray) -> FloatArray:
        """Return everybody's expected value, given the chance of a yes."""
        assert self.value is not None
        mine = self.value[self.qualified.astype(int)]
        return np.asarray((1 - chance) * mine[:, 0] + chance * mine[:, 1], dtype=np.float64)

    def _count(self, chance: FloatArray) -> float | int:
        total = float(self.weights @ chance)
        return total if self.weighted or self.ability is not None else round(total)

    def _interval(self, chance: FloatArray) -> tuple[float, float]:
        """Return the interval of a mean: binomial, or of 200 draws of people where it is none."""
        if not self.weighted and bool(np.isin(chance, (0.0, 1.0)).all()):
            interval = clopper_pearson(int(chance.sum()), chance.size, self.confidence)
            return interval.low, interval.high
        return drawn_interval(self.weights * chance, self.weights, self.confidence)

    def intervals(self, budget: float | None = None) -> pd.DataFrame:
        """Return every measure at one budget with both kinds of doubt.

        ``low`` and ``high`` are certified whatever people find whose moves are only bracketed;
        ``ci_low`` and ``ci_high`` are the sampling interval. Rates are shares of all people.
        Without a budget: the largest one, or the distribution of budgets.
        """
        last = "ability" if self.ability is not None else float(self.budget.max())
        at = last if budget is None else check_budget(budget)
        sure, maybe = self.chances(at)
        y, w, upper = self.qualified, self.weights, self.plan.upper
        rejected = upper > 0
        roof = np.where(np.isfinite(upper), upper, 0.0 if isinstance(at, str) else at)
        parts: dict[str, tuple[FloatArray, FloatArray, FloatArray, FloatArray]] = {}
        right = np.where(y, sure, 1 - sure)
        sides = np.where(y, sure, 1 - maybe), np.where(y, maybe, 1 - sure)
        parts["accuracy"] = right, sides[0], sides[1], w
        parts["acceptance_rate"] = sure, sure, maybe, w
        parts["false_positive_rate"] = sure * ~y, sure * ~y, maybe * ~y, w
        parts["false_negative_rate"] = (1 - sure) * y, (1 - maybe) * y, (1 - sure) * y, w
        parts["moved"] = sure * rejected, sure * rejected, maybe * rejected, w
        for name, who in (("social_burden", y), ("gaming_cost", ~y)):
            paid = np.where(rejected & (sure > 0), sure * np.where(sure > 0, upper, 0.0), 0.0)
            least = np.where(sure > 0, sure * np.minimum(self.plan.lower, roof), 0.0)
            parts[name] = paid, least, np.maximum(paid, maybe * rejected * roof), w * who
        if self.value is not None:
            ends = self._worth(sure), self._worth(maybe)
            parts["value"] = ends[0], np.minimum(*ends), np.maximum(*ends), w
        rows = []
        for name, (estimate, low, high, weight) in parts.items():
            ci = (
                self._interval(estimate)
                if weight is w and name != "value"
                else drawn_interval(weight * estimate, weight, self.confidence)
            )
            means = [weighted_mean(v, weight) for v in (estimate, low, high)]
            rows.append((name, *means, *ci))
        names = ["measure", "estimate", "low", "high", "ci_low", "ci_high"]
        return pd.DataFrame(rows, columns=names).set_index("measure")

    def ranking(self) -> pd.DataFrame:
        """Return how well scores still rank people, one row per budget.

        ``auc_shown`` and ``ks_shown`` are of the best score that everybody can show at the budget
        (brackets in ``_low`` and ``_high`` where it is not exact); ``auc_seen`` is of the scores
        after people have answered the cut that is in force.
        """
        if self.asked is None:
            raise InvalidInputError("the report of a group has no ranking; ask the whole report")
        budgets = np.unique(np.append(0.0, self.budget))
        shown_ = shown_scores(self.asked, self.plan.moves, budgets, 4000)
        y, w = self.qualified, self.weights
        sign = 1.0 if self.asked.wanted == 1 else -1.0
        method = shown_.response_method
        raw = self.asked.fitted._call(method, self.asked.given(self.plan.goals), y.size)
        goals = raw[:, self.asked.wanted] if raw.ndim == 2 else sign * raw
        own = shown_.low[:, 0]
        rows = []
        for k, r in enumerate(budgets.tolist()):
            low, high = shown_.low[:, k], shown_.high[:, k]
            sides = np.where(y, low, high), np.where(y, high, low)
            moved = self.accepted(r)[0] & (self.plan.upper > 0)
            seen = np.where(moved, goals, own)
            rows.append(
                {
                    "budget": r,
                    "auc_shown": auc(*split_scores(low, y, w)),
                    "auc_shown_low": auc(*split_scores(sides[0], y, w)),
                    "auc_shown_high": auc(*split_scores(sides[1], y, w)),
                    "ks_shown": ks(*split_scores(low, y, w)),
                    "ks_shown_low": _ks_low(low, high, y, w),
                    "ks_shown_high": ks(*split_scores(sides[1], y, w)),
                    "auc_seen": auc(*split_scores(seen, y, w)),
                    "exact": bool((low == high).all()),
                }
            )
        return pd.DataFrame(rows)

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
        return replace(self, plan=plan, qualified=y, weights=weights, groups=None, asked=None)

    def moves(self, budget: float) -> pd.DataFrame:
        """Return who moves at this budget and what they change, one row per changed cell."""
        sure, _ = self.accepted(check_budget(budget))
        return self.plan.changes(sure)

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
            budget = row["budget"] if isinstance(row["budget"], str) else f"{row['budget']:g}"
            lines.append(
                f"  budget {budget}: accuracy {row['accuracy']:.3f}{bounds}, "
                f"{row['false_positives']:g} false positives, {row['false_negatives']:g} false "
                f"negatives, {row['moved']:g} move ({row['moved_unqualified']:g} of them "
                f"unqualified), social burden {row['social_burden']:.3g}{worth}"
            )
        if max(share, 1 - share) > 0.9 and self.value is None:
            lines.append(self._balanced())
        if self.ability is not None:
            lines.append(
                f"  budgets beyond {self.ability.largest:.3g} were not identified: brackets count "
                "them both ways"
            )
        return "\n".join(lines)

    def _balanced(self) -> str:
        """Say the balanced error where one class is so large that accuracy hides the other."""
        y, w = self.qualified, self.weights
        parts = []
        for r in [0.0, *([] if self.ability is not None else [float(self.budget.max())])]:
            sure, _ = self.chances(r)
            error = (weighted_mean(1 - sure, w * y) + weighted_mean(sure, w * ~y)) / 2
            parts.append(f"{error:.3f} at budget {r:g}")
        return f"  one class is above 90 %: balanced error {', '.join(parts)}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw accuracy and both error rates over the budget."""
        from counterplay.core.figures import PALETTE, THEORY, axes_or_new, figure_style

        curve = self.at(np.linspace(0.0, float(self.budget.max()), 101))
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
    ability: Any = None,
    value: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    confidence: float = 0.95,
) -> MovesReport:
    """Return the report of `gaming_report` for people who make `Moves`; arguments come first."""
    if isinstance(budget, Ability):
        ability, budget = budget, None
    if ability is not None and (not isinstance(ability, Ability) or budget is not None):
        raise InvalidInputError(
            "with moves, ability is what estimate_ability returns, and stands instead of budget"
        )
    default = DEFAULT_BUDGETS if moves.budget is None else moves.budget
    budgets = check_budgets(default if budget is None else budget)
    level = check_open_fraction(confidence, "confidence")
    matrix = check_value(value)
    asked = Asked(model, X, positive, y)
    labels = asked.table.labels
    assert labels is not None
    n = len(asked.frame)
    weights = np.ones(n) if sample_weight is None else check_weights(sample_weight, n)
    who = None if groups is None else check_groups(groups, n)
    qualified = labels.codes == labels.position(asked.positive)
    warn_orientation(y, qualified, positive, asked.positive)
    limit = float(budgets.max()) if who is None and ability is None else np.inf
    plan = plan_moves(asked, X, moves, limit, NODES)
    return MovesReport(
        plan, qualified, budgets, weights, sample_weight is not None, matrix, who, level,
        ability, asked,
    )  # fmt: skip


def _ks_low(low: FloatArray, high: FloatArray, y: BoolArray, w: FloatArray) -> float:
    """Return a lower bound on the KS gap: unqualified certainly below, minus qualified possibly."""
    if not (w[y].sum() > 0 and w[~y].sum() > 0):
        return float("nan")
    cuts = np.unique(np.concatenate((low, high)))
    up = np.sort(high[~y]), np.sort(low[y])
    order = np.argsort(high[~y], kind="stable"), np.argsort(low[y], kind="stable")
    mass = [np.concatenate(([0.0], np.cumsum(v[o]) / v.sum())) for v, o in
            ((w[~y], order[0]), (w[y], order[1]))]  # fmt: skip
    below = [m[np.searchsorted(v, cuts, "right")] for m, v in zip(mass, up)]
    return max(0.0, float((below[0] - below[1]).max()))
