"""Certified accuracy, precision, recall and F1, with a bracket of what an attacker can attain.

Per point: at budget t every right decision whose radius is below the budget counts as lost, every
wrong one stays. Each metric can only fall when a decision is lost, so losing all that can be lost
is the worst case. From the other side, a real set of blocks (one for all points) shows what is
attained. ``collective=True`` closes in from both sides on what one set of blocks can do.
Source: docs/theory/21-sources.md, "Certified metrics".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.validation import BoolArray, IntArray, check_choice, check_int, check_real
from counterplay.errors import InvalidInputError
from counterplay.poisoning.ballots import (
    METRICS,
    NEVER,
    Ballots,
    ballots_of,
    best_threshold,
    metric_value,
)
from counterplay.poisoning.metric_table import MetricTable
from counterplay.poisoning.training_rows import positions_of
from counterplay.poisoning.units import Unit, listed_values
from counterplay.tables.cells import is_missing, listed, shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_MOST_BUDGETS = 200
_DRAWS, _MOST_SETS = 200, 3000


@checked
@dataclass(frozen=True, eq=False)
class CertifiedMetrics(Report):
    """Metrics that no attacker within a budget can undercut, and what one attains.

    Made by :meth:`counterplay.poisoning.PartitionClassifier.certified_metrics`. The certified
    number lets the attacker choose other blocks for every test row; ``attained`` is reached by one
    set of blocks for all of them, so the truth for one poisoned training set lies between. A
    collective report certifies that truth from below; its numbers are about the test rows together
    and say nothing about a single decision.

    Parameters
    ----------
    table
        One row per budget, metric, class and group.
    unit
        What a budget counts: ``"rows"`` or ``"sources"``.
    budgets
        The budgets.
    classes
        The classes.
    positive
        The class that precision and recall are about; None for all.
    collective
        Whether the certified numbers are about one set of blocks for all test rows.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from counterplay.poisoning import PartitionClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> guarded = PartitionClassifier(n_partitions=21, classes=(0, 1)).fit(X[:400], y[:400])
    >>> report = guarded.certified_metrics(X[400:], y[400:], positive=1)
    >>> report.at("recall", 0) >= report.at("recall", 3) > 0.7
    True

    References
    ----------
    "Certified metrics", Proposition 21.D, see docs/theory/21-sources.md.
    """

    table: pd.DataFrame
    unit: Unit
    budgets: tuple[int, ...]
    classes: tuple[Any, ...]
    positive: Any = None
    collective: bool = False
    _ballots: Any = field(default=None, repr=False)
    _groups: Any = field(default=None, repr=False)
    _cost: int = field(default=1, repr=False)
    _most: int = field(default=NEVER, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.classes, tuple) or not self.classes:
            raise InvalidInputError("classes must be a tuple of labels")
        if self._ballots is not None and not isinstance(self._ballots, Ballots):
            raise InvalidInputError("a report of metrics is made by certified_metrics")
        if self.positive is not None and not any(
            type(self.positive) is type(c) and self.positive == c for c in self.classes
        ):
            raise InvalidInputError(f"positive must be a class, got {shown(self.positive)}")
        if not {"budget", "metric", "class", "group", "certified"} <= set(self.table.columns):
            raise InvalidInputError("a report of metrics is made by certified_metrics")

    def at(self, metric: str, budget: int, group: Any = None) -> float:
        """Certified value of a metric at a budget, of all rows or of a group."""
        _check_metric(metric)
        t = check_int(budget, "budget", low=0, high=NEVER)
        rows = self.table[(self.table.metric == metric) & (self.table.budget == t)]
        rows = rows[rows.group.isna()] if group is None else rows[rows.group == group]
        if metric != "accuracy":
            rows = rows[rows["class"] == ("all" if self.positive is None else self.positive)]
        if not len(rows):
            raise InvalidInputError(
                f"there is no {metric} at budget {t} for group {shown(group)}; "
                f"budgets are {listed(self.budgets)}"
            )
        return float(rows.certified.iloc[0])

    def best_threshold(self, metric: str, budget: int) -> float:
        """Share of blocks, for ``vote_threshold``, with the best certified metric at a budget.

        Choose it on rows you trust, and judge it on others.
        """
        _check_metric(metric)
        t = check_int(budget, "budget", low=0, high=NEVER)
        b = self._needed()
        if len(self.classes) != 2 or self.positive is None:
            raise InvalidInputError("a threshold needs two classes and positive=")
        code = self.classes.index(self.positive)
        return best_threshold(metric, b, code, self._cost * t, self._most)

    def blind(self, budget: int, metric: str = "accuracy") -> tuple[float, float]:
        """Mean and 5 % quantile of a metric against an attacker who does not know the key.

        His units fall into random blocks; no certificate, but what to expect. Over all sets of
        different blocks if there are at most 3000, else over 200 of them drawn at random. Units
        that share a block only help the defender.
        """
        _check_metric(metric)
        t = check_int(budget, "budget", low=0, high=NEVER)
        b, code = self._needed(), self._code(metric)
        values = [
            metric_value(metric, b, code, b.flips(chosen))
            for chosen in _random_sets(b.parts, min(self._cost * t, b.parts))
        ]
        return float(np.mean(values)), float(np.quantile(values, 0.05))

    def gap(self, metric: str, budget: int, group: Any, other: Any) -> float:
        """Smallest certified difference of a metric between two groups, the first minus the other.

        The first group at its worst, the other at its best: all wrong decisions that can change do.
        """
        _check_metric(metric)
        t = check_int(budget, "budget", low=0, high=NEVER)
        b, code = self._needed(), self._code(metric)
        ends: list[float] = []
        for name in (group, other):
            inside = np.array([g == name for g in self._groups or ()], dtype=bool)
            if not inside.any():
                raise InvalidInputError(f"there is no group {shown(name)}; give groups=")
            part = b.part(inside)
            hit = part.reachable(self._cost * t, self._most)
            ends.append(metric_value(metric, part, code, hit, best=len(ends) == 1))
        return ends[0] - ends[1]

    def _code(self, metric: str) -> int:
        if metric != "accuracy" and self.positive is None:
            raise InvalidInputError(f"{metric} needs positive=")
        return 0 if self.positive is None else self.classes.index(self.positive)

    def _needed(self) -> Ballots:
        if not isinstance(self._ballots, Ballots):
            raise InvalidInputError("this report has no votes; make it by certified_metrics")
        return self._ballots

    def summary(self) -> str:
        """Certified and attained values at a few budgets."""
        word = self.unit
        chosen = [t for t in (0, 1, 3, 5, 10, 20) if t in self.budgets]
        about = f" of {self.positive!r}" if self.positive is not None else ""
        about_all = "one poisoned training set, all test rows together: " * self.collective
        lines = [
            f"{about_all}certified against {word} an attacker controls (attained by one set of "
            "blocks)"
        ]
        frame = self.table[self.table.group.isna()]
        label = "all" if self.positive is None else self.positive
        for metric in METRICS:
            cells = []
            for t in chosen:
                row = frame[(frame.metric == metric) & (frame.budget == t)]
                if metric != "accuracy":
                    row = row[row["class"] == label]
                cells.append(f"{row.certified.iloc[0]:.3f} ({row.attained.iloc[0]:.3f}) at {t}")
            lines.append(f"{metric}{about if metric != 'accuracy' else ''}: {', '.join(cells)}")
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """One row per budget, metric, class and group."""
        return self.table.copy()

    def plot(self, ax: Axes | None = None, *, metric: str = "f1") -> Axes:
        """Draw the certified curve of a metric, and dotted what is attained."""
        from counterplay.core.figures import axes_or_new

        _check_metric(metric)
        axes = axes_or_new(ax)
        rows = self.table[(self.table.metric == metric) & self.table.group.isna()]
        if metric != "accuracy":
            rows = rows[rows["class"] == ("all" if self.positive is None else self.positive)]
        (line,) = axes.step(rows.budget, rows.certified, where="post", label=f"certified {metric}")
        axes.step(
            rows.budget, rows.attained, where="post", linestyle=":", color=line.get_color(),
            label="attained by one set of blocks",
        )  # fmt: skip
        axes.set_xlabel(f"{self.unit} an attacker controls")
        axes.set_ylabel(metric)
        axes.set_ylim(0, 1.02)
        axes.legend()
        return axes


def _check_metric(metric: Any) -> None:
    check_choice(metric if isinstance(metric, str) else type(metric).__name__, "metric", METRICS)


def certified_metrics(
    model: Any,
    X: Any,
    y: Any,
    *,
    positive: Any = None,
    groups: Any = None,
    budgets: Sequence[int] | IntArray | None = None,
    collective: bool = False,
    time_limit: float = 30.0,
) -> CertifiedMetrics:
    """Return the metrics of a fitted :class:`~counterplay.poisoning.PartitionClassifier`."""
    import pandas as pd

    seconds = check_real(time_limit, "time_limit", low=0, open_low=True)
    rows = model._points(X)
    truth = model._truth(y, len(rows))
    classes = tuple(model.classes_.tolist())
    if positive is not None and positive not in classes:
        raise InvalidInputError(
            f"positive={shown(positive)} is not a class; the classes are {listed(classes)}"
        )
    ballots = ballots_of(model, rows, positions_of(truth, model.classes_))
    cost = max(1, model._cost(model.unit_, "replaced" if model.unit_ == "sources" else "inserted"))
    margin = NEVER if model.schema_margin_ is None else max(0, model.schema_margin_ - 1) * cost
    most = min((model._alive() - 1) // model.spread, margin)
    radius = np.min([ballots.answered(), *(ballots.radius(c) for c in ballots.rivals)], axis=0)
    largest = int(np.minimum(radius, most).max(initial=0)) // cost
    codes = list(range(len(classes))) if positive is None else [classes.index(positive)]
    given = None if groups is None else _named(groups, len(rows))
    named = [] if given is None else sorted(set(given), key=lambda g: (isinstance(g, str), g))
    table = MetricTable(
        _budgets(budgets, largest), cost, most, classes, codes,
        seconds / (1 + len(named)) if collective else None, positive is None,
    )  # fmt: skip
    lines = table.lines(ballots, None)
    for group in named:
        inside = np.array([g == group for g in given or ()], dtype=bool)
        lines += table.lines(ballots.part(inside), group)
    order = {name: j for j, name in enumerate(METRICS)}
    frame = pd.DataFrame(lines).sort_values(
        ["budget", "metric"], key=lambda s: s.map(order) if s.name == "metric" else s, kind="stable"
    )
    return CertifiedMetrics(
        frame.reset_index(drop=True), model.unit_, tuple(table.levels), classes, positive,
        collective, ballots, given, cost, most,
    )  # fmt: skip


def _named(groups: Any, n: int) -> list[Any]:
    """Return the group of each row; one that is missing would pass for all rows together."""
    values = listed_values(groups, n, "groups")
    gone = next((i for i, value in enumerate(values) if is_missing(value)), None)
    if gone is not None:
        raise InvalidInputError(f"groups has no group for row {gone}; drop such rows or name them")
    return values


def _budgets(budgets: Any, largest: int) -> list[int]:
    if budgets is None:
        return list(range(min(largest + 2, _MOST_BUDGETS)))
    found = sorted({check_int(t, "budgets", low=0) for t in list(budgets)})
    if not found or len(found) > _MOST_BUDGETS:
        raise InvalidInputError(f"budgets must be 1 to {_MOST_BUDGETS} numbers, got {len(found)}")
    return found


def _random_sets(parts: int, size: int) -> Iterator[BoolArray]:
    """All sets of so many parts, or some of them drawn at random."""
    if math.comb(parts, size) <= _MOST_SETS:
        sets: Any = itertools.combinations(range(parts), size)
    else:
        rng = np.random.default_rng(0)
        sets = (rng.permutation(parts)[:size] for _ in range(_DRAWS))
    for places in sets:
        chosen = np.zeros(parts, dtype=bool)
        chosen[list(places)] = True
        yield chosen
