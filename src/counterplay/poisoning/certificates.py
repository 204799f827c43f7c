"""How many training rows may change before a vote does, and the curve of certified accuracy.

Deep partition aggregation: one row touches one block, one block is one vote. Finite aggregation:
every row belongs to one of k d parts, every model is trained on d parts; the damage of a row is
counted per part, which certifies more at small budgets.
Source: docs/theory/10-poisoning.md, Propositions 10.I and 10.J; Wang, Levine and Feizi (2022),
"Improved certified defenses against data poisoning with (deterministic) finite aggregation".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.stats import Interval, clopper_pearson
from counterplay.core.validation import BoolArray, FloatArray, IntArray, check_int
from counterplay.core.votes import Vote
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def partition_radius(vote: Vote, *, closed: bool = False) -> IntArray:
    """Rows that may be inserted or removed without changing the winner; one vote per row.

    A label that does not occur yet may be inserted, too; it starts with no votes and is assumed to
    win ties. ``closed``: there are no other labels, since rows with other labels are rejected.

    Examples
    --------
    >>> from counterplay.core.votes import plurality
    >>> partition_radius(plurality([[0], [0], [0], [0], [1]]))
    array([1])
    """
    if closed:
        return vote.tolerance
    unknown = (vote.top - 1) // 2
    return np.minimum(vote.tolerance, unknown).astype(np.int64)


def spread_parts(k: int, d: int) -> IntArray:
    """Models that use each part in finite aggregation: a fixed d-regular design, shape (k d, d).

    Part j is used by models j, j + o_1, j + o_2, ... modulo k d, with offsets o drawn once from a
    fixed generator; every model uses exactly d parts.

    Examples
    --------
    >>> spread_parts(3, 2).shape
    (6, 2)
    """
    total = check_int(k, "k", low=1) * check_int(d, "d", low=1)
    offsets = np.random.default_rng([total, d]).permutation(total)[:d]
    members: IntArray = (np.arange(total)[:, None] + offsets[None, :]) % total
    return members


def threshold_radius(
    votes: ArrayLike, code: int, least: int, spread: ArrayLike | None = None
) -> IntArray:
    """Blocks (parts of a design) that may be touched when a class needs ``least`` votes of all.

    Parameters
    ----------
    votes:
        Class positions, shape (models, points); -1 abstains.
    code:
        Position of the class with the threshold.
    least:
        Votes it needs, of all models, voting or not.
    spread:
        Models that use each part, shape (parts, d); None if every model has a block of its own.

    Notes
    -----
    A touched model moves the count by at most one, so the slack is the radius. A touched part
    moves it by its models that vote for the class (or, where the class lost, that do not).

    Examples
    --------
    >>> threshold_radius([[1, 0], [1, 0], [0, 1], [-1, 0]], 1, 2)
    array([0, 0])
    >>> threshold_radius([[1, 0], [1, 0], [1, 0], [-1, 0]], 1, 2)
    array([1, 1])
    """
    table = np.asarray(votes)
    hits = table == code
    count = hits.sum(axis=0)
    chosen = count >= least
    slack = np.where(chosen, count - least, least - 1 - count).astype(np.int64)
    if spread is None:
        radius: IntArray = np.minimum(slack, len(table))
        return radius
    damage = np.where(chosen[None, :], hits, ~hits).astype(np.int64)
    return surviving_parts(part_table(spread, len(table)), damage, slack).astype(np.int64)


def finite_aggregation_radius(
    votes: ArrayLike, spread: ArrayLike, n_classes: int, *, closed: bool = False
) -> IntArray:
    """Rows that may be inserted or removed when each row touches one part of the design.

    Parameters
    ----------
    votes:
        Class positions, shape (models, points); -1 abstains.
    spread:
        Models that use each part, shape (parts, d).
    n_classes:
        Number of classes; ties go to the first.
    closed:
        Whether there are no other labels.

    Examples
    --------
    >>> finite_aggregation_radius(np.zeros((6, 1), int), spread_parts(3, 2), 2)
    array([1])
    """
    table, design = np.asarray(votes), np.asarray(spread)
    uses = part_table(design, len(table))
    counts = np.stack([(table == c).sum(axis=0) for c in range(n_classes)], axis=1)
    winner = counts.argmax(axis=1)
    top = counts[np.arange(len(winner)), winner]
    radius = np.full(len(winner), design.shape[0], dtype=np.int64)
    for rival in range(
        0 if closed else -1, n_classes
    ):  # -1: a label nobody has voted for yet, winning ties
        rival_votes = counts[:, rival] if rival >= 0 else np.zeros_like(top)
        slack = top - rival_votes - (rival < winner)
        # A touched model can leave the winner (-1) and join the rival (+1).
        damage = 1 + (table == winner[None, :]).astype(np.int64) - (table == rival)
        damage[(table == rival) & (rival >= 0)] = 0
        survives = surviving_parts(uses, damage, slack)
        radius = np.where(rival == winner, radius, np.minimum(radius, survives))
    return radius.astype(np.int64)


def part_table(spread: ArrayLike, n_models: int) -> NDArray[np.float32]:
    """Which model (row) uses which part (column), from the models that use each part.

    Examples
    --------
    >>> part_table([[0, 1], [1, 2]], 3).tolist()
    [[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    """
    design = np.asarray(spread)
    uses = np.zeros((n_models, len(design)), dtype=np.float32)
    uses[design, np.arange(len(design))[:, None]] = 1
    return uses


def surviving_parts(uses: NDArray[np.float32], damage: IntArray, slack: IntArray) -> IntArray:
    """How many parts may be touched before their damage exceeds the slack; worst parts first.

    ``damage`` is what a touched model can do at each point, shape (models, points), 0 or more.

    Examples
    --------
    >>> surviving_parts(part_table([[0], [1], [2]], 3), np.array([[2], [1], [2]]), np.array([3]))
    array([1])
    """
    per_part = damage.T.astype(np.float32) @ uses  # (points, parts), small integers: exact
    worst = -np.sort(-per_part, axis=1)
    survives: IntArray = (np.cumsum(worst, axis=1) <= slack[:, None]).sum(axis=1)
    return survives  # cumulative sums never decrease


@checked
@dataclass(frozen=True)
class CertifiedAccuracy(Report):
    """Fraction of predictions that are right and provably stay so, by number of planted rows.

    Parameters
    ----------
    radii:
        Certified radius of each prediction; -1 for abstentions.
    correct:
        Whether the prediction is right.
    confidence:
        Level of the intervals over test rows.
    counted:
        What a radius counts, in words.

    Examples
    --------
    >>> curve = CertifiedAccuracy(np.array([0, 3, 5, 9]), np.array([True, True, False, True]))
    >>> curve.at(0), curve.at(3), curve.at(4)
    (0.75, 0.5, 0.25)

    References
    ----------
    Proposition 10.I, Proposition 10.J, see docs/theory/10-poisoning.md.
    """

    radii: IntArray
    correct: BoolArray
    confidence: float = 0.95
    counted: str = "planted rows"

    def __post_init__(self) -> None:
        if not (isinstance(self.radii, np.ndarray) and isinstance(self.correct, np.ndarray)):
            raise InvalidInputError("radii and correct must be arrays")
        if self.radii.shape != self.correct.shape or self.radii.ndim != 1 or not self.radii.size:
            raise InvalidInputError("radii and correct must be vectors of the same length")
        for name in ("radii", "correct"):
            array = np.array(getattr(self, name))
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    def at(self, t: int) -> float:
        """Certified accuracy against ``t`` planted rows, or whatever is counted."""
        budget = check_int(t, "t", low=0)
        return float((self.correct & (self.radii >= budget)).mean())

    def interval(self, t: int) -> Interval:
        """Exact interval of the certified accuracy over test points."""
        hits = int((self.correct & (self.radii >= check_int(t, "t", low=0))).sum())
        return clopper_pearson(hits, self.radii.size, self.confidence)

    @property
    def median_radius(self) -> float:
        """Largest t with certified accuracy of at least one half; -1 if there is none."""
        alive = np.where(self.correct, self.radii, -1)
        return float(np.sort(alive)[::-1][(alive.size + 1) // 2 - 1])

    def budgets(self) -> IntArray:
        """Budgets 0, 1, ... up to one beyond the largest radius."""
        return np.arange(int(self.radii.max(initial=0)) + 2, dtype=np.int64)

    def curve(self) -> FloatArray:
        """Certified accuracy at each of :meth:`budgets`."""
        alive = np.where(self.correct, self.radii, -1)
        return np.array([(alive >= t).mean() for t in self.budgets()], dtype=np.float64)

    def summary(self) -> str:
        """Accuracy, certified accuracy at a few budgets, median radius."""
        points = ", ".join(f"{self.at(t):.3f} at {t}" for t in (1, 5, 10))
        return (
            f"accuracy {self.at(0):.3f}; certified {points} {self.counted}; "
            f"median radius {self.median_radius:g}"
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per budget, with exact intervals."""
        import pandas as pd

        spans = [self.interval(int(t)) for t in self.budgets()]
        return pd.DataFrame(
            {
                self.counted.replace(" ", "_"): self.budgets(),
                "certified_accuracy": self.curve(),
                "low": [span.low for span in spans],
                "high": [span.high for span in spans],
            }
        )

    def plot(self, ax: Axes | None = None, *, label: str | None = None) -> Axes:
        """Draw the curve."""
        from counterplay.core.figures import axes_or_new

        axes = axes_or_new(ax)
        frame = self.to_frame()
        budgets = frame.iloc[:, 0]
        (line,) = axes.step(budgets, frame.certified_accuracy, where="post", label=label)
        axes.fill_between(
            budgets, frame.low, frame.high, step="post", alpha=0.15,
            color=line.get_color(), linewidth=0,
        )  # fmt: skip
        axes.set_xlabel(self.counted)
        axes.set_ylabel("certified accuracy")
        axes.set_ylim(0, 1.02)
        return axes
