"""What people can really spend, read off two samples: before they could react, and after.

Nobody knows the budget of an applicant. But a person who can afford her cheapest accepted move is
no longer rejected after deployment; so the prices of the rejected, before and after, tell the
distribution of budgets, with a confidence band, and whether the story holds at all.

Source: "Budgets from before and after", see docs/theory/20-moves.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator
from counterplay.core.stats import Interval, clopper_pearson
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    check_fraction,
    check_open_fraction,
    check_positive_int,
)
from counterplay.errors import InvalidInputError
from counterplay.strategic.budget_law import (
    BudgetLaw,
    paired_law,
    share_interval,
    unpaired_law,
)
from counterplay.strategic.cheapest import MovePlan, plan_moves
from counterplay.strategic.effort import effort_by_column, total_effort
from counterplay.strategic.fold import Asked
from counterplay.strategic.moves import Moves
from counterplay.strategic.same_people import compare_immutable, density_weights
from counterplay.tables.cells import listed, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST = 50
DRAWS = 200
NODES = 4000


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class Ability(Report):
    """The distribution of budgets in a population, as far as the data tell it.

    Made by `estimate_ability`; accepted by `gaming_report` and `rethreshold`.

    Parameters
    ----------
    law
        Estimate of P(budget < t) and its band.
    share_gaming
        Share of all people who moved to acceptance, with its interval.
    effort
        Per column what was spent at least: ``certified``, ``estimate``, ``p_value``, ``refuted``.
    checks
        Per immutable column whether it has the same law before and after.
    before
        Acceptance prices before.
    after
        Acceptance prices after.
    confidence
        Level of band and interval.
    refuted
        Sentences about what cannot be: empty if the samples fit the story.
    notes
        How the numbers were made.
    combine
        How prices of several columns add up.
    units
        What a price of 1 buys.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from counterplay.strategic import Change
    >>> before = np.repeat([0.0, 1.0, 2.0], 100)[:, None]
    >>> model = LogisticRegression().fit(before, before[:, 0] > 1.5)
    >>> moves = Moves({0: Change("up", step=1, per="step", low=0, high=2)})
    >>> after = np.repeat([0.0, 1.0, 2.0], [80, 40, 180])[:, None]  # 20 and 60 of 100 moved
    >>> ability = estimate_ability(model, before, after, moves, positive=True, random_state=0)
    >>> ability.cdf([1.0, 2.0]).round(2).tolist()
    [0.4, 0.8]

    References
    ----------
    "Budgets from before and after", Proposition 20.F, see docs/theory/20-moves.md.
    """

    law: BudgetLaw = field(repr=False)
    share_gaming: Interval
    effort: pd.DataFrame = field(repr=False)
    checks: pd.DataFrame = field(repr=False)
    before: FloatArray = field(repr=False)
    after: FloatArray = field(repr=False)
    confidence: float = 0.95
    refuted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    combine: str = "sum"
    units: str = ""

    def cdf(self, t: ArrayLike) -> FloatArray:
        """Return the estimate of P(budget < t).

        Beyond the largest price that was seen it stays at its last value: nothing is known there.
        """
        return self.law.cdf(np.asarray(t, dtype=np.float64))

    def band(self, t: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return simultaneous bounds on P(budget < t).

        Where no distribution fits (see ``refuted``) the bounds are those of the estimate's clip.
        """
        low, high = self.law.band(np.asarray(t, dtype=np.float64))
        return np.minimum(low, high), np.maximum(low, high)

    def can_pay(self, prices: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the chance that a budget covers each price: at least, and at most.

        They differ only beyond the last price that was seen: what is left of the people there may
        have just that budget, or any.
        """
        with np.errstate(invalid="ignore"):
            chance = 1 - self.cdf(np.where(np.isfinite(prices), prices, np.inf))
        beyond = prices > self.largest * (1 + 1e-9)
        low = np.where(beyond, 0.0, chance)
        return low, np.where(np.isinf(prices), 0.0, chance)

    @property
    def largest(self) -> float:
        """Largest price at which budgets are identified."""
        return float(self.law.prices[-1]) if self.law.prices.size else 0.0

    @property
    def effort_certified(self) -> float:
        """Mean price spent per person, at least."""
        return total_effort(self.effort["certified"].to_numpy(dtype=float), self.combine)

    def atoms(self, most: int = 41) -> tuple[FloatArray, FloatArray]:
        """Return budgets and their shares; what is beyond the last price is put at it.

        At most ``most`` of them: neighbours are merged downward.
        """
        t = self.law.prices
        if not t.size:
            return np.zeros(1), np.ones(1)
        # P(budget < t_j) is h_j: a mass of h_1 lies below t_1, h_2 - h_1 from t_1 on, and so on.
        at = np.concatenate(([0.0], t))
        mass = np.diff(np.concatenate(([0.0], self.cdf(t), [1.0])))
        keep = mass > 1e-12
        at, mass = at[keep], mass[keep]
        if at.size > most:
            group = np.minimum((np.cumsum(mass) - mass / 2) * most, most - 1).astype(np.int64)
            first = np.unique(group, return_index=True)[1]
            mass = np.add.reduceat(mass, first)
            at = at[first]
        return at, mass / mass.sum()

    def quantile(self, q: ArrayLike) -> FloatArray:
        """Return budgets that a share q of people does not exceed; the last price at most."""
        at, mass = self.atoms(most=1_000_000)
        wanted = np.asarray(q, dtype=np.float64)
        for item in np.ravel(wanted):
            check_fraction(float(item), "q")
        place = np.searchsorted(np.cumsum(mass), wanted - 1e-12)
        return at[np.minimum(place, at.size - 1)]

    def sample(self, n: int, random_state: RandomState = None) -> FloatArray:
        """Draw budgets; those beyond the last price that was seen are put at it."""
        at, mass = self.atoms(most=1_000_000)
        return generator(random_state).choice(at, size=check_positive_int(n, "n"), p=mass)

    def to_frame(self) -> pd.DataFrame:
        """Return P(budget < t) with its band at the prices that were seen."""
        low, high = self.band(self.law.prices)
        return pd.DataFrame(
            {"price": self.law.prices, "cdf": self.cdf(self.law.prices), "low": low, "high": high}
        )

    def summary(self) -> str:
        """Return the estimate in a few lines: first whether the population is the same."""
        moved = [str(name) for name in self.checks.index[self.checks["differs"].astype(bool)]]
        control = (
            f"the immutable columns {listed(moved)} changed: the population is not the same"
            if moved
            else f"no immutable column ({len(self.checks)} tested) shows another population"
            if len(self.checks)
            else "no immutable column to compare: nothing tells whether the population is the same"
        )
        rejected = int((self.before > 0).sum()), int((self.after > 0).sum())
        share = self.share_gaming
        lines = [
            f"Ability: {self.before.size} people before, {self.after.size} after",
            f"  control: {control}",
            f"  rejected before {rejected[0]}, after {rejected[1]}; share of gaming "
            f"{share.estimate:.3f} [{share.low:.3f}, {share.high:.3f}]",
            f"  {self.units}",
        ]
        if self.law.prices.size:
            spots = np.unique(np.quantile(self.law.prices, [0.25, 0.5, 0.75, 1.0]))
            low, high = self.band(spots)
            for t, h, a, b in zip(spots, self.cdf(spots), low, high):
                lines.append(f"  budget below {t:.3g}: {h:.2f} of people [{a:.2f}, {b:.2f}]")
            lines.append(f"  nothing is known about budgets beyond {self.largest:.3g}")
        named = self.effort[self.effort["certified"] > 0]
        lines.append(
            f"  effort per person: at least {self.effort_certified:.3g}"
            + (f" (certified on {listed([str(c) for c in named.index])})" if len(named) else "")
        )
        lines += [f"  refuted: {sentence}" for sentence in self.refuted]
        lines += [f"  {sentence}" for sentence in self.notes]
        lines.append("  a population that became better by itself looks like gaming here")
        return "\n".join(lines)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw P(budget < t) with its band, and the prices of the rejected underneath."""
        from counterplay.core.figures import PALETTE, axes_or_new, figure_style

        with figure_style():
            ax = axes_or_new(ax)
            top = self.largest or 1.0
            t = np.linspace(0, top, 400)
            low, high = self.band(t)
            ax.fill_between(t, low, high, color=PALETTE[0], alpha=0.2, label="band")
            ax.plot(t, self.cdf(t), color=PALETTE[0], label="estimate")
            edges = np.linspace(0, top, 25)
            counts = []
            for prices in (self.before, self.after):
                inside = prices[(prices > 0) & (prices <= top)]
                counts.append(np.histogram(inside, edges)[0] / prices.size)
            scale = 0.35 / max(float(np.max(counts)), 1e-12)
            for share, color, label in zip(counts, PALETTE[1:], ("before", "after")):
                ax.stairs(share * scale, edges, color=color, label=f"rejected {label} (scaled)")
            ax.set_xlabel("price of acceptance, budget")
            ax.set_ylabel("P(budget < t)")
            ax.set_ylim(-0.02, 1.02)
            ax.legend()
        return ax


@checked
def estimate_ability(
    model: Any,
    before: Any,
    after: Any,
    moves: Moves,
    *,
    paired: bool = False,
    positive: Any = None,
    confidence: float = 0.95,
    random_state: RandomState = None,
) -> Ability:
    """Estimate what people can spend from two samples, before and after a model was deployed.

    Use it once a model has been in force for a while: it says how many people game it, what budgets
    they have, and gives `gaming_report` and `rethreshold` the budgets that nobody could name.

    Parameters
    ----------
    model
        The deployed model with the cut that was in force; people knew it.
    before
        Applicants from before they could react.
    after
        Applicants from afterwards.
    moves
        What people could do, and at which price.
    paired
        Whether row i of both is the same person.
    positive
        The class people want; may be left out if the classes are 0/1 or False/True.
    confidence
        Level of the band and of the share.
    random_state
        Seed of permutations and of the bootstrap.

    Notes
    -----
    Assumes (A1) the same population before and after, (A2) that a rejected person moves to
    acceptance exactly if her budget covers the cheapest move, (A3), only to carry the result to
    another model, that budgets do not depend on the person beyond her price. Identified is
    P(budget < t) at prices of people rejected before; where movers land is not used. What the
    samples refute is said in ``refuted``; a population that became better by itself looks like
    gaming, and only immutable columns can tell. See proposition 20.F for the band and 20.G for the
    certified effort.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> from counterplay.strategic import Change
    >>> rng = np.random.default_rng(0)
    >>> before = pd.DataFrame({"late": rng.integers(0, 9, 2000).astype(float)})
    >>> model = LogisticRegression().fit(before, before["late"] <= 2)
    >>> moves = Moves({"late": Change("down", step=1, per="unit", low=0)})
    >>> after = pd.DataFrame({"late": rng.integers(0, 9, 2000).astype(float)})
    >>> able = after["late"] - 2 <= rng.integers(0, 3, 2000)  # budgets 0, 1 or 2, a third each
    >>> after.loc[(after["late"] > 2) & able, "late"] = 2.0
    >>> ability = estimate_ability(model, before, after, moves, positive=True, random_state=0)
    >>> ability.cdf([1.0, 2.0]).round(2).tolist()
    [0.34, 0.67]

    References
    ----------
    "Budgets from before and after", Proposition 20.F, see docs/theory/20-moves.md.
    """
    level = check_open_fraction(confidence, "confidence")
    rng = generator(random_state)
    first, second = (_asked(model, X, positive, what) for X, what in
                     ((before, "before"), (after, "after")))  # fmt: skip
    for asked, what in ((first, "before"), (second, "after")):
        if len(asked.frame) < FEWEST:
            raise InvalidInputError(
                f"{what}: {len(asked.frame)} people are too few for a band ({FEWEST} at least)"
            )
    if paired and len(first.frame) != len(second.frame):
        raise InvalidInputError(
            f"paired samples have equally many rows; before has {len(first.frame)}, after "
            f"{len(second.frame)}"
        )
    moves.check_columns(list(first.frame.columns), "before")
    plans = [plan_moves(asked, asked.frame, moves, np.inf, NODES) for asked in (first, second)]
    samples = _Samples(first.frame, second.frame, plans[0], plans[1], moves, level)
    return samples.paired(rng) if paired else samples.unpaired(rng)


def _asked(model: Any, X: Any, positive: Any, what: str) -> Asked:
    try:
        return Asked(model, X, positive)
    except InvalidInputError as error:
        raise InvalidInputError(f"{what}: {error}") from None


@dataclass(frozen=True, eq=False)
class _Samples:
    """Both samples with their prices."""

    before: pd.DataFrame
    after: pd.DataFrame
    plan0: MovePlan
    plan1: MovePlan
    moves: Moves
    confidence: float

    @property
    def immutable(self) -> list[Any]:
        return [name for name in self.before.columns if name not in self.moves.touched]

    @property
    def notes(self) -> list[str]:
        loose = int((~self.plan0.exact).sum()) + int((~self.plan1.exact).sum())
        total = self.plan0.exact.size + self.plan1.exact.size
        if not loose:
            return []
        return [f"prices of {loose} of {total} people are best found, not exact"]

    def unpaired(self, rng: np.random.Generator) -> Ability:
        """Compare the prices of two samples of different people."""
        d0, d1 = self.plan0.upper, self.plan1.upper
        checks = compare_immutable(self.before, self.after, self.immutable, 1 - self.confidence)
        notes, weights = self.notes, None
        n0 = float(d0.size)
        if checks["differs"].any():
            weights = density_weights(self.before, self.after, self.immutable)
            n0 = float(weights.sum() ** 2 / (weights**2).sum())
            law = _bootstrap_law(d0, d1, weights, self.confidence, rng)
            notes.append(
                f"'before' is weighted by its immutable columns (effective size {n0:.0f} of "
                f"{d0.size}); the band is a bootstrap of {DRAWS} draws"
            )
        else:
            law = unpaired_law(d0, d1, self.confidence)
        share = float(np.average(d0 > 0, weights=weights))
        gap, low, high = share_interval(
            share * n0, n0, float((d1 > 0).sum()), float(d1.size), self.confidence
        )
        interval = Interval(gap, low, high, self.confidence)
        return self._ability(law, interval, checks, notes, rng)

    def paired(self, rng: np.random.Generator) -> Ability:
        """Follow the same people."""
        d0, d1 = self.plan0.upper, self.plan1.upper
        rejected = (d0 > 0) & np.isfinite(d0)
        stayed: BoolArray = d1 > 0
        law = paired_law(d0[rejected], stayed[rejected], self.confidence)
        moved = int(((d0 > 0) & ~stayed).sum())
        share = clopper_pearson(moved, d0.size, self.confidence)
        checks = pd.DataFrame(
            {
                "test": "same cell",
                "p_value": np.nan,
                "differs": [_changed(self.before, self.after, n).any() for n in self.immutable],
            },
            index=pd.Index(self.immutable, name="column"),
        )
        accepted = d0 == 0
        churn = np.zeros(d0.size, dtype=bool)
        for name in self.moves.blocks:
            churn |= _changed(self.before, self.after, name)
        notes = self.notes
        if accepted.any():
            notes.append(
                f"natural churn: {churn[accepted].mean():.1%} of the people who were accepted "
                "anyway changed a movable column"
            )
        return self._ability(law, share, checks, notes, rng)

    def _ability(
        self,
        law: BudgetLaw,
        share: Interval,
        checks: pd.DataFrame,
        notes: list[str],
        rng: np.random.Generator,
    ) -> Ability:
        effort = effort_by_column(self.before, self.after, self.moves, self.confidence, rng)
        refuted = _refuted(law) + [
            f"{shown(name, 40)} changed in a way that Moves forbids ({way})"
            for name, way in effort["refuted"].items()
            if way
        ]
        return Ability(
            law,
            share,
            effort,
            checks,
            self.plan0.upper,
            self.plan1.upper,
            self.confidence,
            tuple(refuted),
            tuple(notes),
            self.moves.combine,
            self.moves.units,
        )


def _refuted(law: BudgetLaw) -> list[str]:
    """Return what no distribution of budgets can explain."""
    if law.above_one.any():
        k = int(np.argmax(np.where(law.above_one, law.low, -np.inf)))
        return [
            f"more people at price [{law.left[k]:.3g}, {law.right[k]:.3g}] after than before: "
            "people moved part of the way, or the population changed"
        ]
    empty = law.empty
    if empty.size:
        return [
            f"no distribution of budgets fits the prices around {empty[0]:.3g}: people moved part "
            "of the way, or the population changed"
        ]
    return []


def _changed(a: pd.DataFrame, b: pd.DataFrame, name: Any) -> BoolArray:
    """Return in which rows a cell differs."""
    x, z = a[name].astype(object), b[name].astype(object)
    both = x.isna().to_numpy() & z.isna().to_numpy()
    return np.asarray((x.to_numpy() != z.to_numpy()) & ~both, dtype=bool)


def _bootstrap_law(
    before: FloatArray,
    after: FloatArray,
    weights: FloatArray,
    confidence: float,
    rng: np.random.Generator,
) -> BudgetLaw:
    """Return the weighted estimate with a band of equal width from draws of both samples."""
    law = unpaired_law(before, after, confidence, weights)
    t = law.prices
    away = np.zeros(DRAWS)
    for k in range(DRAWS):
        i, j = (rng.integers(0, n, n) for n in (before.size, after.size))
        drawn = unpaired_law(before[i], after[j], confidence, weights[i])
        place = np.minimum(np.searchsorted(drawn.prices, t), max(drawn.prices.size - 1, 0))
        if drawn.prices.size:
            away[k] = np.abs(drawn.values[place] - law.values).max(initial=0.0)
    width = float(np.quantile(away, confidence))
    low, high = np.maximum(law.values - width, 0), np.minimum(law.values + width, 1)
    none = np.zeros(t.size, dtype=bool)
    return BudgetLaw(t, law.values, t, t, low, high, none)
