"""Certified accuracy, precision, recall and F1, with a bracket of what an attacker can attain.

Per point: at budget t every right decision whose radius is below the budget counts as lost, every
wrong one stays. Each metric can only fall when a decision is lost, so losing all that can be lost
is the worst case. From the other side, a real set of blocks (one for all points) shows what is
attained. Source: docs/theory/21-sources.md, "Certified metrics".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.stats import clopper_pearson
from counterplay.core.validation import BoolArray, FloatArray, IntArray, check_choice, check_int
from counterplay.errors import InvalidInputError
from counterplay.poisoning.block_votes import count_votes
from counterplay.poisoning.certificates import part_table, surviving_parts
from counterplay.poisoning.training_rows import positions_of
from counterplay.poisoning.units import Unit, listed_values
from counterplay.tables.cells import listed, shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

METRICS = ("accuracy", "precision", "recall", "f1")
_NEVER = 1 << 30
_MOST_BUDGETS = 200
_DRAWS = 200
Sets = list[BoolArray]


@dataclass(frozen=True, eq=False)
class _Ballots:
    """Votes on test rows, and what touching blocks can do to them.

    Parameters
    ----------
    votes
        Class positions, shape (models, rows); -1 abstains.
    truth
        Class position of each row; -1 for a label the classifier does not know.
    winner
        Predicted class position.
    needed
        For each class: blocks' gain that a flip to it needs; shape (rows, classes).
    least
        Threshold class and votes it needs, or None.
    uses
        Which model (row) uses which part (column).
    closed
        Whether a label that nobody has seen is excluded.
    """

    votes: IntArray
    truth: IntArray
    winner: IntArray
    needed: IntArray
    least: tuple[int, int] | None
    uses: NDArray[np.float32]
    closed: bool = True

    def unseen_radius(self) -> IntArray:
        """Parts that may be touched before a label that nobody has seen can win."""
        if self.closed:
            return np.full(len(self.truth), _NEVER, dtype=np.int64)
        own = (self.votes == self.winner[None, :]).astype(np.int64)
        return surviving_parts(self.uses, own + 1, own.sum(axis=0) - 1)

    def gain(self, c: int) -> NDArray[np.float32]:
        """What each touched model can do for class ``c``, shape (models, rows)."""
        own = (self.votes == self.winner[None, :]).astype(np.float32)
        return np.where(self.votes == c, 0, own + 1).astype(np.float32)

    def radius(self, c: int) -> IntArray:
        """Parts that may be touched before class ``c`` can win."""
        slack = np.minimum(self.needed[:, c] - 1, _NEVER)
        radius = surviving_parts(self.uses, self.gain(c).astype(np.int64), slack)
        return np.where(self.winner == c, _NEVER, radius).astype(np.int64)

    def touched(self, chosen: BoolArray) -> NDArray[np.float32]:
        """Which models use one of these parts."""
        return np.asarray(self.uses[:, chosen].any(axis=1), dtype=np.float32)

    def flips(self, chosen: BoolArray) -> BoolArray:
        """Which rows can be flipped to which class by touching these parts."""
        models = self.touched(chosen)
        hit: BoolArray = np.zeros(self.needed.shape, dtype=bool)
        for c in range(self.needed.shape[1]):
            hit[:, c] = (models @ self.gain(c) >= self.needed[:, c]) & (self.winner != c)
        return hit


@checked
@dataclass(frozen=True, eq=False)
class CertifiedMetrics(Report):
    """Metrics that no attacker within a budget can undercut, and what one attains.

    Made by :meth:`counterplay.poisoning.PartitionClassifier.certified_metrics`. The certified
    number lets the attacker choose other blocks for every test row; ``attained`` is reached by one
    set of blocks for all of them, so the truth for one poisoned training set lies between.

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

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from counterplay.poisoning import PartitionClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> guarded = PartitionClassifier(n_partitions=21, classes=(0, 1)).fit(X[:400], y[:400])
    >>> report = guarded.certified_metrics(X[400:], y[400:], positive=1)
    >>> report.at("recall", 0) >= report.at("recall", 3) > 0.7
    True
    """

    table: pd.DataFrame
    unit: Unit
    budgets: tuple[int, ...]
    classes: tuple[Any, ...]
    positive: Any = None
    _ballots: Any = field(default=None, repr=False)
    _cost: int = field(default=1, repr=False)
    _most: int = field(default=_NEVER, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.classes, tuple) or not self.classes:
            raise InvalidInputError("classes must be a tuple of labels")
        if self._ballots is not None and not isinstance(self._ballots, _Ballots):
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
        t = check_int(budget, "budget", low=0, high=_NEVER)
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
        t = check_int(budget, "budget", low=0, high=_NEVER)
        b = self._needed()
        if len(self.classes) != 2 or self.positive is None:
            raise InvalidInputError("a threshold needs two classes and positive=")
        code = self.classes.index(self.positive)
        total, values = len(b.votes), []
        for least in range(1, total + 1):
            other = _with_threshold(b, code, least)
            lost = _lost(other, code, self._cost * t, self._most)
            values.append(_metric(metric, other, code, *lost))
        return (int(np.argmax(values)) + 1) / total

    def blind(self, budget: int, metric: str = "accuracy") -> tuple[float, float]:
        """Mean and 5 % quantile of a metric against an attacker who does not know the key.

        His units fall into random blocks; no certificate, but what to expect. 200 draws.
        """
        _check_metric(metric)
        t = check_int(budget, "budget", low=0, high=_NEVER)
        b = self._needed()
        if metric != "accuracy" and self.positive is None:
            raise InvalidInputError(f"{metric} needs positive=")
        code = 0 if self.positive is None else self.classes.index(self.positive)
        parts = b.uses.shape[1]
        rng = np.random.default_rng(0)
        values = []
        for _ in range(_DRAWS):
            chosen = np.zeros(parts, dtype=bool)
            chosen[rng.permutation(parts)[: self._cost * t]] = True
            values.append(_metric(metric, b, code, *_lost_by(b, code, b.flips(chosen))))
        return float(np.mean(values)), float(np.quantile(values, 0.05))

    def _needed(self) -> _Ballots:
        if not isinstance(self._ballots, _Ballots):
            raise InvalidInputError("this report has no votes; make it by certified_metrics")
        return self._ballots

    def summary(self) -> str:
        """Certified and attained values at a few budgets."""
        word = self.unit
        chosen = [t for t in (0, 1, 3, 5, 10, 20) if t in self.budgets]
        about = f" of {self.positive!r}" if self.positive is not None else ""
        lines = [f"certified against {word} an attacker controls (attained by one set of blocks)"]
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
) -> CertifiedMetrics:
    """Return the metrics of a fitted :class:`~counterplay.poisoning.PartitionClassifier`."""
    import pandas as pd

    rows = model._points(X)
    truth = model._truth(y, len(rows))
    classes = tuple(model.classes_.tolist())
    if positive is not None and positive not in classes:
        raise InvalidInputError(
            f"positive={shown(positive)} is not a class; the classes are {listed(classes)}"
        )
    ballots = ballots_of(model, rows, positions_of(truth, model.classes_))
    radius = model._radii(rows)[0]
    cost = model._cost(model.unit_, "replaced" if model.unit_ == "sources" else "inserted")
    cost = max(1, cost)
    margin = _NEVER if model.schema_margin_ is None else max(0, model.schema_margin_ - 1) * cost
    most = min((model._alive() - 1) // model.spread, margin)
    levels = _budgets(budgets, int(np.minimum(radius, most).max(initial=0)) // cost)
    named = [None] if groups is None else [None, *_groups(groups, len(rows))]
    parts = [] if groups is None else listed_values(groups, len(rows), "groups")
    records: list[dict[str, Any]] = []
    for group in named:
        inside = (
            np.ones(len(rows), bool) if group is None else np.array([g == group for g in parts])
        )
        part = _restricted(ballots, inside)
        codes = range(len(classes)) if positive is None else [classes.index(positive)]
        records += _records(part, levels, cost, most, radius[inside], classes, list(codes), group)
        if positive is None:
            records += _means(records, levels, group, len(classes))
    table = pd.DataFrame(records)
    order = {name: j for j, name in enumerate(METRICS)}
    table = table.sort_values(
        ["budget", "metric"], key=lambda s: s.map(order) if s.name == "metric" else s, kind="stable"
    ).reset_index(drop=True)
    return CertifiedMetrics(
        table, model.unit_, tuple(levels), classes, positive, ballots, cost, most
    )


def ballots_of(model: Any, rows: Any, truth: IntArray) -> _Ballots:
    """Return the votes of a fitted classifier with what a flip to each class needs."""
    if model.aggregation == "runoff":
        raise InvalidInputError("certified metrics go with plurality; use certified_accuracy")
    votes = model._votes_of(rows)
    parts = len(model.models_)
    design = np.arange(parts)[:, None] if model.design_ is None else model.design_
    uses = part_table(design, parts)
    if model._least is not None:
        start = _Ballots(votes, truth, np.zeros_like(truth), np.zeros((0, 2), int), None, uses)
        return _with_threshold(start, model._least[0], model._votes_needed())
    counts = count_votes(votes, len(model.classes_))
    winner = counts.argmax(axis=1)
    top = counts[np.arange(len(winner)), winner]
    ties = np.arange(counts.shape[1])[None, :] < winner[:, None]
    needed = top[:, None] - counts - ties + 1
    return _Ballots(
        votes,
        truth,
        winner.astype(np.int64),
        needed.astype(np.int64),
        None,
        uses,
        model.classes is not None,
    )


def _with_threshold(b: _Ballots, code: int, least: int) -> _Ballots:
    """The same votes under the rule: the class wins with at least so many votes."""
    count = (b.votes == code).sum(axis=0)
    winner = np.where(count >= least, code, 1 - code).astype(np.int64)
    needed = np.empty((len(count), 2), dtype=np.int64)
    needed[:, code] = least - count
    needed[:, 1 - code] = count - least + 1
    rule = _ThresholdBallots(b.votes, b.truth, winner, needed, (code, least), b.uses)
    return rule


class _ThresholdBallots(_Ballots):
    """Votes under a threshold: touching a model moves the count of one class by at most one."""

    def gain(self, c: int) -> NDArray[np.float32]:
        """What each touched model can do for class ``c``."""
        code = self.least[0] if self.least is not None else 0
        hits = self.votes == code
        gain: NDArray[np.float32] = (~hits if c == code else hits).astype(np.float32)
        return gain


def _restricted(b: _Ballots, inside: BoolArray) -> _Ballots:
    return type(b)(
        b.votes[:, inside],
        b.truth[inside],
        b.winner[inside],
        b.needed[inside],
        b.least,
        b.uses,
        b.closed,
    )


def _groups(groups: Any, n: int) -> list[Any]:
    values = listed_values(groups, n, "groups")
    return sorted(set(values), key=lambda g: (isinstance(g, str), g))


def _budgets(budgets: Any, largest: int) -> list[int]:
    if budgets is None:
        return list(range(min(largest + 2, _MOST_BUDGETS)))
    found = sorted({check_int(t, "budgets", low=0) for t in list(budgets)})
    if not found or len(found) > _MOST_BUDGETS:
        raise InvalidInputError(f"budgets must be 1 to {_MOST_BUDGETS} numbers, got {len(found)}")
    return found


def _lost(b: _Ballots, code: int, blocks: int, most: int) -> tuple[int, int]:
    """Right decisions that are lost: of the class, and of others that may become the class."""
    beyond = blocks > most
    to_code = (b.radius(code) < blocks) | beyond
    away = np.zeros(len(b.truth), dtype=bool)
    for c in range(b.needed.shape[1]):
        if c != code:
            away |= b.radius(c) < blocks
    unseen = b.unseen_radius() < blocks
    own = (b.truth == code) & (b.winner == code) & (away | beyond | unseen)
    other = (b.truth != code) & (b.winner != code) & to_code
    return int(own.sum()), int(other.sum())


def _lost_by(b: _Ballots, code: int, flips: BoolArray) -> tuple[int, int]:
    """The same for one set of blocks."""
    own = (b.truth == code) & (b.winner == code) & flips.any(axis=1)
    other = (b.truth != code) & (b.winner != code) & flips[:, code]
    return int(own.sum()), int(other.sum())


def _metric(metric: str, b: _Ballots, code: int, own: int, other: int) -> float:
    """A metric of a class after so many decisions were lost; 0/0 is 0."""
    if metric == "accuracy":
        return (int((b.truth == b.winner).sum()) - own - other) / max(1, len(b.truth))
    numerator, denominator = _ratio(metric, b, code, own, other)
    return numerator / denominator if denominator else 0.0


def _ratio(metric: str, b: _Ballots, code: int, own: int, other: int) -> tuple[int, int]:
    hit, said = b.truth == code, b.winner == code
    tp, fp, fn = int((hit & said).sum()), int((~hit & said).sum()), int((hit & ~said).sum())
    left = tp - own
    if metric == "recall":
        return left, tp + fn
    if metric == "precision":
        return left, left + fp + other
    return 2 * left, 2 * tp - own + fp + fn + other


def _records(
    b: _Ballots, levels: list[int], cost: int, most: int, radius: IntArray,
    classes: tuple[Any, ...], codes: list[int], group: Any,
) -> list[dict[str, Any]]:  # fmt: skip
    """One record per budget, metric and class."""
    found: list[dict[str, Any]] = []
    right = b.truth == b.winner
    n = max(1, len(b.truth))
    sets = [_greedy(b, code, cost * max(levels)) for code in (None, *codes)]
    attained: dict[tuple[str, int], float] = {}
    for t in levels:
        kept = int((right & (radius >= cost * t) & (cost * t <= most)).sum())
        flips = [b.flips(order[min(cost * t, len(order) - 1)]) for order in sets]
        least = min(int((right & ~f.any(axis=1)).sum()) for f in flips) / n
        low, high = _interval(kept, len(b.truth))
        attained["accuracy", -1] = min(attained.get(("accuracy", -1), 1.0), least)
        found.append(
            {
                "budget": t, "metric": "accuracy", "class": "all", "group": group,
                "certified": kept / n, "attained": attained["accuracy", -1],
                "low": low, "high": high,
            }
        )  # fmt: skip
        for code in codes:
            lost = _lost(b, code, cost * t, most)
            for metric in METRICS[1:]:
                value = _metric(metric, b, code, *lost)
                real = min(_metric(metric, b, code, *_lost_by(b, code, f)) for f in flips)
                attained[metric, code] = min(attained.get((metric, code), 1.0), real)
                low, high = (math.nan, math.nan)
                if metric != "f1":
                    low, high = _interval(*_ratio(metric, b, code, *lost))
                found.append(
                    {
                        "budget": t, "metric": metric, "class": classes[code], "group": group,
                        "certified": value, "attained": attained[metric, code],
                        "low": low, "high": high,
                    }
                )  # fmt: skip
    return found


def _means(
    records: list[dict[str, Any]], levels: list[int], group: Any, k: int
) -> list[dict[str, Any]]:
    """Mean over the classes, per budget and metric."""
    found = []
    for t in levels:
        for metric in METRICS[1:]:
            rows = [
                r for r in records
                if r["budget"] == t and r["metric"] == metric and r["group"] == group
                and r["class"] != "all"
            ]  # fmt: skip
            found.append(
                {
                    "budget": t, "metric": metric, "class": "all", "group": group,
                    "certified": sum(r["certified"] for r in rows) / k,
                    "attained": sum(r["attained"] for r in rows) / k,
                    "low": math.nan, "high": math.nan,
                }
            )  # fmt: skip
    return found


def _interval(hits: int, n: int) -> tuple[float, float]:
    if n == 0:
        return 0.0, 1.0
    span = clopper_pearson(hits, n)
    return span.low, span.high


def _greedy(b: _Ballots, code: int | None, most: int) -> Sets:
    """Nested sets of parts, each one part larger: the part that helps the most flips first."""
    parts = b.uses.shape[1]
    chosen = np.zeros(parts, dtype=bool)
    sets = [chosen.copy()]
    weight = (b.truth == b.winner).astype(np.float32)
    rivals = range(b.needed.shape[1])
    for _ in range(min(most, parts)):
        score: FloatArray = np.zeros(parts)
        models = b.touched(chosen)
        for c in rivals:
            wanted = weight * (b.winner != c)
            if code is not None:  # only what counts for this class
                wanted = wanted * ((b.truth == code) | (c == code))
            gain = b.gain(c)
            left = b.needed[:, c] - models @ gain
            open_ = (left > 0) & (wanted > 0)
            worth = np.where(open_, wanted / np.maximum(left, 1) ** 2, 0).astype(np.float32)
            score += b.uses.T @ (gain * (1 - models)[:, None]) @ worth
        score[chosen] = -1
        chosen[int(np.argmax(score))] = True
        sets.append(chosen.copy())
    return sets
