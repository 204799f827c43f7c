"""What happens to a fitted model when applicants game it: honest and gamed accuracy side by side.

Everybody who is rejected and can afford the way to acceptance goes there; true labels stay. The
report counts what that does to accuracy, who moves and where to, and what it costs the qualified.

Source: "The gaming report", "Setting", "Algorithms", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.report import Report
from counterplay.core.stats import clopper_pearson
from counterplay.core.validation import BoolArray, FloatArray, check_open_fraction
from counterplay.errors import InvalidInputError
from counterplay.strategic.columns import column_names
from counterplay.strategic.reach import BinaryModel, Reach, acceptance_distance

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


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
        frame = pd.DataFrame(changes, columns=list(self.names), index=who)
        frame.index.name = "applicant"
        frame.insert(0, "qualified", self.qualified[who])
        frame.insert(1, "cost", self.reach.upper[who])
        return frame

    def by_group(self, groups: ArrayLike) -> pd.DataFrame:
        """Return the table for each group of applicants."""
        import pandas as pd

        labels = np.asarray(groups)
        if labels.shape != self.qualified.shape:
            raise InvalidInputError(
                f"groups must name one group per applicant ({self.qualified.size}), "
                f"got shape {labels.shape}"
            )
        parts = []
        for group in np.unique(labels):
            part = self._take(labels == group).to_frame()
            part.insert(0, "group", group)
            parts.append(part)
        return pd.concat(parts, ignore_index=True)

    def _take(self, mask: BoolArray) -> GamingReport:
        lower, upper, goals = self.reach.lower, self.reach.upper, self.reach.goals
        reach = replace(self.reach, lower=lower[mask], upper=upper[mask], goals=goals[mask])
        rows = {name: getattr(self, name)[mask] for name in ("X", "qualified", "ability")}
        return replace(self, reach=reach, **rows)

    @property
    def burden_to_acceptance(self) -> float:
        """Mean cost at which every qualified applicant would be accepted."""
        return float(self.reach.upper[self.qualified].mean()) if self.qualified.any() else 0.0

    def summary(self) -> str:
        """Return the report in a few lines."""
        honest = self._row(0.0)
        how = "exact" if self.reach.exact else "certified bounds in brackets"
        lines = [
            f"Gaming report: {self.qualified.size} applicants, {self.reach.method}, {how}",
            f"  honest (nobody moves): accuracy {honest['accuracy']:.3f}, "
            f"{honest['false_positives']} false positives, "
            f"{honest['false_negatives']} false negatives",
        ]
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


def gaming_report(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    radius: float | Sequence[float] | ArrayLike,
    *,
    positive: Any | None = None,
    norm: float = 2,
    costs: ArrayLike | None = None,
    ability: ArrayLike | None = None,
    pool: ArrayLike | None = None,
    lipschitz: float | None = None,
    confidence: float = 0.95,
) -> GamingReport:
    """Report what happens to a fitted binary classifier when applicants game it.

    Use it before deployment: the model may be perfect on past data and useless once people know it.

    Parameters
    ----------
    model:
        Fitted scikit-learn classifier, pipeline or search with two classes.
    X:
        ``(m, d)`` numeric features of test applicants; the columns of a frame are matched by name
        with those the model was fitted on.
    y:
        Their true labels.
    radius:
        Efforts to report on; 0 means that nobody moves.
    positive:
        The class people want; default: the larger one.
    norm:
        How effort adds up over features: 1, 2 or ``numpy.inf``.
    costs:
        Price of one unit of each feature; ``numpy.inf`` for a feature that cannot be moved. A
        Series is matched by name.
    ability:
        Factor per applicant: she can spend ``radius * ability``. Default: 1 for all.
    pool:
        Points that may be copied by the search for moves (models without formula).
    lipschitz:
        For models without a certificate: bound on the slope of ``decision_function``.
    confidence:
        Level of the sampling intervals.

    Notes
    -----
    Exact for linear models and decision trees, also in pipelines with scalers; otherwise certified
    from below and above, see :func:`acceptance_distance`. With growing radius nobody who was
    accepted is rejected, so false positives never decrease and false negatives never increase.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    >>> report = gaming_report(model, X, y, radius=[0.0, 2.0], costs=1 / X.std(axis=0))
    >>> report.to_frame()["accuracy"].round(3).tolist()
    [0.988, 0.842]
    """
    reach = acceptance_distance(
        model,
        X,
        positive=positive,
        norm=norm,
        costs=costs,
        pool=pool,
        lipschitz=lipschitz,
    )
    wrapped = BinaryModel(model, positive)
    rows, labels = wrapped.rows(X), np.asarray(y)
    names = wrapped.names or column_names(X)
    if labels.shape != (rows.shape[0],):
        raise InvalidInputError(f"X has {rows.shape[0]} rows but y has shape {labels.shape}")
    unknown = ~np.isin(labels, wrapped.classes)
    if unknown.any():
        raise InvalidInputError(
            f"y contains {labels[unknown][0]!r}, but the model knows {wrapped.classes.tolist()}"
        )
    return GamingReport(
        radius=_check_radii(radius),
        X=rows,
        qualified=labels == wrapped.positive,
        reach=reach,
        ability=_check_ability(ability, rows.shape[0]),
        names=names or tuple(f"x{j}" for j in range(rows.shape[1])),
        confidence=check_open_fraction(confidence, "confidence"),
    )


def _check_radii(radius: Any) -> FloatArray:
    try:
        r = np.atleast_1d(np.asarray(radius, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"radius must be a number or a list of numbers: {error}") from None
    if r.ndim != 1 or r.size == 0 or not np.isfinite(r).all() or (r < 0).any():
        raise InvalidInputError("radius must contain finite numbers of at least 0")
    return r


def _check_ability(ability: ArrayLike | None, m: int) -> FloatArray:
    if ability is None:
        return np.ones(m)
    a: NDArray[np.float64] = np.asarray(ability, dtype=np.float64)
    if a.shape != (m,) or not np.isfinite(a).all() or (a < 0).any():
        raise InvalidInputError(f"ability must be {m} finite numbers of at least 0")
    return a
