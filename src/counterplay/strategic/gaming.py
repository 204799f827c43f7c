"""What happens to a fitted model when applicants game it: honest and gamed accuracy side by side.

Everybody who is rejected and can afford the way to acceptance goes there; true labels stay. The
report counts what that does to accuracy, who moves and where to, and what it costs the qualified.

Source: "The gaming report", "Setting", "Algorithms", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.stats import clopper_pearson
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    check_float_array,
    check_open_fraction,
    check_size,
)
from counterplay.errors import InvalidInputError, UnknownNameError
from counterplay.strategic.agents import check_radius
from counterplay.strategic.features import LARGEST
from counterplay.strategic.moves import Moves
from counterplay.strategic.moves_report import moves_report
from counterplay.strategic.reach import BinaryModel, Reach, reach_of
from counterplay.tables.cells import shown
from counterplay.tables.table import check_groups

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class GamingReport(Report):
    """Accuracy, errors, moves and costs as a function of how far applicants can move.

    Made by :func:`gaming_report`.

    Parameters
    ----------
    radius:
        The abilities to report on.
    X:
        Features.
    qualified:
        True labels (True: deserves a yes).
    reach:
        Distance of everybody to acceptance.
    ability:
        Factor of each applicant: she can spend ``radius * ability``.
    names:
        Names of the features.
    confidence:
        Level of the intervals.
    wanted:
        The class people want.
    units:
        What an effort of 1 is.
    held:
        Columns that nobody can move, and why.
    index:
        Identity of the applicants: the index of the user's rows.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> model = LogisticRegression().fit(X, [0, 0, 1, 1])
    >>> report = gaming_report(model, X, [0, 0, 1, 1], radius=[0.0, 1.0])
    >>> report.to_frame()["accuracy"].tolist()
    [1.0, 0.75]
    """

    radius: FloatArray
    X: FloatArray
    qualified: BoolArray
    reach: Reach
    ability: FloatArray
    names: tuple[str, ...]
    confidence: float = 0.95
    wanted: Any = 1
    units: str = "the units of the columns"
    held: tuple[str, ...] = ()
    index: Any = None

    def __repr__(self) -> str:
        radii = ", ".join(f"{r:g}" for r in self.radius[:8])
        return f"GamingReport({self.qualified.size} applicants, radius=[{radii}], {self.reach!r})"

    def to_frame(self) -> pd.DataFrame:
        """Return one row per radius.

        ``accuracy`` counts the moves that are known to work; ``accuracy_low`` and ``accuracy_high``
        are certified whatever else people find (equal to it for exact reports); ``ci_low`` and
        ``ci_high`` are the sampling interval. ``social_burden`` is the mean cost paid by the
        qualified, ``gaming_cost`` by the others.
        """
        return self.at(self.radius)

    def at(self, radius: ArrayLike) -> pd.DataFrame:
        """Return the same table for other radii."""
        import pandas as pd

        return pd.DataFrame([self._row(float(r)) for r in _check_radii(radius)])

    def _row(self, radius: float) -> dict[str, float | int | bool]:
        budget = radius * self.ability
        sure, maybe = self.reach.surely(budget), self.reach.possibly(budget)
        y, m = self.qualified, self.qualified.size
        correct = int((sure == y).sum())
        unsure = maybe & ~sure
        interval = clopper_pearson(correct, m, self.confidence)
        moved = sure & (self.reach.upper > 0)
        cost = np.where(moved, self.reach.upper, 0.0)
        return {
            "radius": radius,
            "accuracy": correct / m,
            "accuracy_low": (correct - int((unsure & ~y).sum())) / m,
            "accuracy_high": (correct + int((unsure & y).sum())) / m,
            "ci_low": interval.low,
            "ci_high": interval.high,
            "false_positives": int((sure & ~y).sum()),
            "false_negatives": int((~sure & y).sum()),
            "moved": int(moved.sum()),
            "moved_unqualified": int((moved & ~y).sum()),
            "social_burden": float(cost[y].mean()) if y.any() else 0.0,
            "gaming_cost": float(cost[~y].mean()) if (~y).any() else 0.0,
            "exact": self.reach.exact,
        }

    def moves(self, radius: float) -> pd.DataFrame:
        """Return who moves at this radius and where to: one row per mover, changes per feature."""
        import pandas as pd

        budget = _check_radii([radius])[0] * self.ability
        who = np.flatnonzero(self.reach.surely(budget) & (self.reach.upper > 0))
        changes = self.reach.goals[who] - self.X[who]
        rows = who if self.index is None else self.index[who]
        frame = pd.DataFrame(changes, columns=list(self.names), index=rows)
        if frame.index.nlevels == 1 and frame.index.name is None:
            frame.index.name = "applicant"
        frame.insert(0, "qualified", self.qualified[who])
        frame.insert(1, "cost", self.reach.upper[who])
        return frame

    def by_group(self, groups: Any) -> pd.DataFrame:
        """Return the table for each group of applicants."""
        import pandas as pd

        labels = check_groups(groups, self.qualified.size)
        parts = []
        for group in sorted(set(labels.tolist()), key=lambda g: (isinstance(g, str), g)):
            part = self._take(labels == group).to_frame()
            part.insert(0, "group", group)
            parts.append(part)
        return pd.concat(parts, ignore_index=True)

    def _take(self, mask: BoolArray) -> GamingReport:
        lower, upper, goals = self.reach.lower, self.reach.upper, self.reach.goals
        reach = replace(self.reach, lower=lower[mask], upper=upper[mask], goals=goals[mask])
        rows = {name: getattr(self, name)[mask] for name in ("X", "qualified", "ability")}
        index = None if self.index is None else self.index[mask]
        return replace(self, reach=reach, index=index, **rows)

    @property
    def burden_to_acceptance(self) -> float:
        """Mean cost at which every qualified applicant would be accepted."""
        return float(self.reach.upper[self.qualified].mean()) if self.qualified.any() else 0.0

    def summary(self) -> str:
        """Return the report in a few lines."""
        honest = self._row(0.0)
        how = "exact" if self.reach.exact else "certified bounds in brackets"
        lines = [
            f"Gaming report: {self.qualified.size} applicants, wanted: {shown(self.wanted)}, "
            f"{self.reach.method}, {how}",
            f"  radius in {self.units}",
            f"  honest (nobody moves): accuracy {honest['accuracy']:.3f}, "
            f"{honest['false_positives']} false positives, "
            f"{honest['false_negatives']} false negatives",
        ]
        if self.held:
            lines.insert(2, f"  held fixed: {', '.join(self.held)}")
        for row in self.to_frame().to_dict("records"):
            bounds = ""
            if not row["exact"]:
                bounds = f" [{row['accuracy_low']:.3f}, {row['accuracy_high']:.3f}]"
            lines.append(
                f"  radius {row['radius']:g}: accuracy {row['accuracy']:.3f}{bounds}, "
                f"{row['false_positives']} false positives, {row['false_negatives']} false "
                f"negatives, {row['moved']} move ({row['moved_unqualified']} of them unqualified), "
                f"social burden {row['social_burden']:.3g}"
            )
        return "\n".join(lines)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw accuracy and both error rates over the radius."""
        from counterplay.core.figures import PALETTE, THEORY, axes_or_new, figure_style

        top = float(self.radius.max()) or 1.0
        curve = self.at(np.linspace(0.0, top, 101))
        positives = max(1, int(self.qualified.sum()))
        negatives = max(1, int((~self.qualified).sum()))
        with figure_style():
            ax = axes_or_new(ax)
            r = curve["radius"]
            ax.plot(r, curve["accuracy"], color=PALETTE[0], label="accuracy when gamed")
            if not self.reach.exact:
                ax.fill_between(
                    r, curve["accuracy_low"], curve["accuracy_high"], color=PALETTE[0], alpha=0.15
                )
            ax.plot(
                r,
                curve["false_positives"] / negatives,
                color=PALETTE[1],
                label="unqualified accepted",
            )
            ax.plot(
                r,
                curve["false_negatives"] / positives,
                color=PALETTE[2],
                label="qualified rejected",
            )
            marks = self.to_frame()
            ax.plot(marks["radius"], marks["accuracy"], "o", color=PALETTE[0], markersize=4)
            ax.axhline(float(curve["accuracy"].iloc[0]), label="accuracy if honest", **THEORY)
            ax.set_xlabel("effort an applicant can afford (radius)")
            ax.set_ylabel("share of applicants")
            ax.set_ylim(-0.02, 1.02)
            ax.legend()
        return ax


@checked
def gaming_report(
    model: Any,
    X: Any,
    y: Any,
    moves: Any = None,
    *,
    budget: Any = None,
    positive: Any = None,
    ability: Any = None,
    value: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    confidence: float = 0.95,
    **ball: Any,
) -> Any:
    """Report what happens to a fitted binary classifier when applicants game it.

    Use it before deployment: the model may be perfect on past data and useless once people know it.

    Parameters
    ----------
    model:
        Fitted scikit-learn classifier, pipeline or search with two classes.
    X:
        Test applicants; the columns of a frame are matched by name with those the model was fitted
        on.
    y:
        Their true labels.
    moves:
        What people can change and what it costs them: :class:`Moves`. Exact for linear models
        behind column-wise steps and for tree ensembles, on frames with words and missing values.
        Without it people move in a Euclidean ball around numeric columns, a standard deviation at a
        price of 1, and other columns are held fixed.
    budget:
        What one person can spend on ``moves``: a number or several. Default: the budget of
        ``moves``, else 0, 0.25, 0.5 and 1.
    positive:
        The class people want; may be left out when the labels are 0 and 1 or True and False.
    ability:
        The distribution of budgets, from :func:`estimate_ability`, instead of ``budget``.
    value:
        What decisions are worth, ``[[tn, fp], [fn, tp]]`` per person.
    sample_weight:
        Weight of each person, in every mean.
    groups:
        Group of each person, for the gaps in burden and acceptance.
    confidence:
        Level of the sampling intervals.
    ball:
        Old arguments of the ball, for one more release: ``radius``, ``norm``, ``costs``, ``pool``,
        ``lipschitz`` and ``ability`` as one factor per applicant; use ``Moves.ball``.

    Notes
    -----
    With growing budget nobody who was accepted is rejected, so false positives never decrease and
    false negatives never increase. People whose price is only bracketed count both ways in
    ``accuracy_low`` and ``accuracy_high``. Without ``moves`` the report is exact for linear models
    and decision trees, otherwise certified from below and above.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> from counterplay.strategic import Change, Moves
    >>> people = pd.DataFrame({"late": [0.0, 1.0, 3.0, 4.0], "age": [30.0, 50.0, 40.0, 20.0]})
    >>> model = LogisticRegression().fit(people, [1, 1, 0, 0])
    >>> moves = Moves({"late": Change("down", step=1, cost=2.0, per="unit", low=0)})
    >>> report = gaming_report(model, people, [1, 1, 0, 0], moves, budget=[0, 2, 8])
    >>> report.to_frame()["accuracy"].tolist()
    [1.0, 0.75, 0.5]

    A norm ball around every row:

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    >>> report = gaming_report(model, X, y, Moves.ball(X), budget=[0.0, 2.0])
    >>> report.to_frame()["accuracy"].round(3).tolist()
    [0.988, 0.842]
    """
    if odd := [
        name for name in ball if name not in ("radius", "norm", "costs", "pool", "lipschitz")
    ]:
        raise UnknownNameError.among("argument", odd[0][:80], _ARGUMENTS)
    if isinstance(moves, Moves):
        if ball:
            raise InvalidInputError(f"{next(iter(ball))} belongs to the ball; moves say what "
                                    "things cost")  # fmt: skip
        return moves_report(
            model,
            X,
            y,
            moves,
            budget=budget,
            positive=positive,
            ability=ability,
            value=value,
            sample_weight=sample_weight,
            groups=groups,
            confidence=confidence,
        )
    for name, item in (
        ("budget", budget),
        ("value", value),
        ("groups", groups),
        ("sample_weight", sample_weight),
    ):
        if item is not None:
            raise InvalidInputError(f"{name} needs moves=: say what people can change")
    if moves is not None:
        if "radius" in ball:
            raise InvalidInputError("give radius once")
        ball["radius"] = moves
    if ball.keys() & {"radius", "norm", "costs"}:
        warnings.warn(
            "radius, norm and costs go with the next release: use moves=Moves.ball(X, norm=..., "
            "per=...), or Moves with a Change per column, and budget=",
            DeprecationWarning,
            stacklevel=3,
        )
    return _ball_report(model, X, y, positive, ability, confidence, **ball)


_ARGUMENTS = (
    "moves", "budget", "positive", "ability", "value", "sample_weight", "groups", "confidence",
    "radius", "norm", "costs", "pool", "lipschitz",
)  # fmt: skip


def _ball_report(
    model: Any,
    X: Any,
    y: Any,
    positive: Any,
    ability: Any,
    confidence: float,
    *,
    radius: Any = None,
    norm: Any = 2,
    costs: Any = None,
    pool: Any = None,
    lipschitz: Any = None,
) -> GamingReport:
    """Report on people in a norm ball around their row."""
    level = check_open_fraction(confidence, "confidence")
    if radius is None and costs is not None:
        raise InvalidInputError("give radius too: it is in the units of costs")
    radii = _check_radii(DEFAULT_RADII if radius is None else radius)
    people = BinaryModel(model, positive, X, y)
    able = _check_ability(ability, len(people.rows))
    held = [f"{name} ({why})" for name, why in people.held.items()]
    units = "the units of X, one of any column" if costs is None else "the units of costs"
    if radius is None:
        units = "standard deviations of the columns of X"
        costs, still = _per_deviation(people.rows, people.names)
        held += [f"{name} (constant)" for name in still if name not in people.held]
    metric = people.metric(norm, costs)
    return GamingReport(
        radius=radii,
        X=people.rows,
        qualified=people.qualified,
        reach=reach_of(people, metric, pool, lipschitz),
        ability=able,
        names=people.names,
        confidence=level,
        wanted=people.positive,
        units=f"{units}, norm {norm:g}",
        held=tuple(held[:8] + ([f"{len(held) - 8} more"] if len(held) > 8 else [])),
        index=people.index,
    )


DEFAULT_RADII = (0.0, 0.25, 0.5, 1.0, 2.0)
MOST_RADII = 10_000


def _per_deviation(rows: FloatArray, names: Sequence[str]) -> tuple[FloatArray, list[str]]:
    """Return prices at which a standard deviation of every column costs 1, and what is constant."""
    deviation = rows.std(axis=0)
    constant = ~(deviation > 1e-12 * np.abs(rows).max(axis=0)) | (deviation < 1 / LARGEST)
    with np.errstate(divide="ignore", over="ignore"):
        prices = np.where(constant, np.inf, 1.0 / deviation)
    return prices, [shown(name, 40) for name, still in zip(names, constant) if still]


def _check_radii(radius: Any) -> FloatArray:
    r = np.atleast_1d(check_float_array(radius, "radius"))
    if r.ndim != 1 or r.size == 0 or (r < 0).any():
        raise InvalidInputError("radius must contain finite numbers of at least 0")
    check_size(r.size, MOST_RADII, "radii")
    return r


def _check_ability(ability: ArrayLike | None, m: int) -> FloatArray:
    return np.ones(m) if ability is None else check_radius(ability, m, "ability")
