"""Which symmetries do my labels respect? A library of candidates, two families of tests.

"Violated" and "holds up to eta0" are two families of hypotheses, each controlled by Holm's method
at half the level, so with probability 1 - alpha (under the assumption of the test) no true symmetry
is called violated and no map with a violation rate of eta0 or more is called holding.
Source: docs/theory/22-symmetry.md, "Search with error control".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new, figure_style
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, IntArray, check_choice, check_size, shorten
from counterplay.core.validation import check_open_fraction as fraction
from counterplay.errors import InvalidInputError
from counterplay.invariance.embedding import KINDS, Kind
from counterplay.invariance.images import Form, group_for
from counterplay.invariance.label_test import LabelTest
from counterplay.invariance.naturalness import naturalness
from counterplay.invariance.permutation_groups import CoordinatePermutationGroup
from counterplay.invariance.symmetry import (
    NOTHING,
    Question,
    conclude,
    drawn_uniformly,
    read_labels,
    read_question,
    run_label_test,
)
from counterplay.invariance.symmetry_check import SymmetryCheck, Verdict
from counterplay.invariance.symmetry_library import Library, column_candidates, library
from counterplay.invariance.table_rows import TableRows
from counterplay.invariance.texts import token_order_question
from counterplay.invariance.transformations import TransformationSet
from counterplay.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_COLUMNS = 200  # all pairs of them are compared
_SEARCHED = 0.7  # share of the rows of a table that the search uses; the rest tests merged groups


@checked
@dataclass(frozen=True)
class SymmetrySearch(Report):
    """What the labels say about every candidate.

    Attributes
    ----------
    checks:
        (name, check) of every candidate, verdicts adjusted for their number.
    p_adjusted:
        Holm's p-values of "labels do not change", in the same order.
    candidates:
        The transformations by name.
    merged:
        Check of the group made of accepted swaps, on rows the search did not use; None if there
        is none.
    notes:
        What was left out, and why.

    Examples
    --------
    >>> from counterplay.invariance import find_symmetries
    >>> from counterplay.invariance.lab import tic_tac_toe_endgames
    >>> boards, won = tic_tac_toe_endgames()
    >>> find_symmetries(boards, won, kind="board", random_state=0).best
    'all symmetries of the board'
    """

    checks: tuple[tuple[str, SymmetryCheck], ...]
    p_adjusted: tuple[float, ...]
    candidates: dict[str, TransformationSet]
    merged: SymmetryCheck | None = None
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> str | None:
        """Name of the largest group that holds; None if none does."""
        held = [name for name, check in self.checks if check.verdict == "holds up to eta0"]
        return max(held, key=lambda name: self.candidates[name].order) if held else None

    def to_frame(self) -> pd.DataFrame:
        """One row per candidate."""
        rows = []
        for (name, check), adjusted in zip(self.checks, self.p_adjusted):
            clash = check.conflicts.head(1)
            rows.append(
                {
                    "name": name, "verdict": check.verdict, "p_value": check.p_value,
                    "p_adjusted": adjusted, "eta_low": check.eta_low, "eta_high": check.eta_high,
                    "eta_safe": check.eta_safe, "testable_share": check.testable_share,
                    "n_tuples": check.n_tuples,
                    "natural_accuracy":
                        np.nan if check.natural is None else check.natural.accuracy,
                    "clash": "" if clash.empty else
                        f"{clash['label'].iloc[0]} -> {clash['lands_among'].iloc[0]}",
                }
            )  # fmt: skip
        return pd.DataFrame(rows, columns=_COLUMNS)

    def summary(self) -> str:
        """The table, the merged group, what was left out, and the assumption."""
        level = next((f" (violated: p_adjusted <= {c.alpha / 2:g})" for _, c in self.checks), "")
        lines = [
            f"Candidate symmetries: {len(self.checks)}; verdicts are adjusted for their number"
            f"{level}.",
            self.to_frame().to_string(index=False, float_format=lambda v: f"{v:.3g}"),
            f"Largest symmetry that holds: {self.best or 'none'}.",
        ]
        if self.merged is not None:
            lines.append(f"Accepted swaps together, on fresh rows: {self.merged.verdict}.")
        lines += [*self.notes, *(check.assumption for _, check in self.checks[:1])]
        return "\n".join(lines)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Interval of the violation rate of every candidate; grey bars are testable shares."""
        colours = {"violated": PALETTE[1], "holds up to eta0": PALETTE[2],
                   "no violation seen": PALETTE[0], "not testable": "#999999"}  # fmt: skip
        with figure_style():
            axes = axes_or_new(ax, height=0.45 * len(self.checks) + 1.4)
            shown: set[str] = set()
            for place, (_, check) in enumerate(self.checks):
                axes.barh(place, check.testable_share, 0.8, color="#DDDDDD")
                if check.verdict != "not testable":
                    label = None if check.verdict in shown else check.verdict
                    axes.plot([check.eta_low, check.eta_high], [place, place], lw=4,
                              color=colours[check.verdict], label=label)  # fmt: skip
                    shown.add(check.verdict)
            axes.set_yticks(np.arange(len(self.checks)), [name for name, _ in self.checks])
            axes.invert_yaxis()
            numbers = any(check.about_numbers for _, check in self.checks)
            what = "squared change / 2 variance" if numbers else "violation rate"
            most = max([1.0, *(c.eta_high for _, c in self.checks)])
            axes.set(xlim=(0, most), xlabel=f"{what} (grey bars: testable share of rows)")
            if shown:
                axes.legend(fontsize=8)
        return axes


_COLUMNS = [
    "name", "verdict", "p_value", "p_adjusted", "eta_low", "eta_high", "eta_safe",
    "testable_share", "n_tuples", "natural_accuracy", "clash",
]  # fmt: skip


@checked
def find_symmetries(
    X: Any,
    y: Any,
    *,
    kind: Kind,
    shape: Sequence[int] | None = None,
    columns: Sequence[Any] | None = None,
    candidates: Mapping[str, Any] | None = None,
    eta0: float = 0.05,
    alpha: float = 0.05,
    random_state: RandomState = None,
) -> SymmetrySearch:
    """Which of the usual symmetries do my labels respect?

    Parameters
    ----------
    X:
        Rows: flat or with their axes; a frame for ``kind="table"``; texts for ``kind="text"``.
    y:
        Labels in any coding, or numbers.
    kind:
        "image", "board", "sequence", "set", "graph", "text" or "table".
    shape:
        Shape of one item where rows are flat: (height, width), (length, channels), ...
    columns:
        Columns of a table that may be exchanged; default: all.
    candidates:
        Your own symmetries by name.
    eta0:
        Largest violation rate that you would accept.
    alpha:
        Probability of a wrong statement about any candidate, under the assumption.
    random_state:
        Seed.

    Returns
    -------
    SymmetrySearch
        With ``to_frame()``, ``best``, ``checks``, ``plot()``.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> found = find_symmetries(X[:900], y[:900], kind="image", shape=(8, 8), random_state=0)
    >>> found.to_frame().set_index("name").loc[["quarter turns", "transpose"], "verdict"].tolist()
    ['violated', 'not testable']

    References
    ----------
    "Search with error control", Proposition 22.F, see docs/theory/22-symmetry.md.
    """
    check_choice(kind, "kind", [k for k in KINDS if k != "auto"])
    level, accepted = fraction(alpha, "alpha"), fraction(eta0, "eta0")
    rng = generator(random_state)
    if kind == "text":
        asked: list[tuple[str, Question]] = [token_order_question(X, y)]
        return _search(asked, [], level, accepted, rng)
    read = TableRows.of(X, columns) if kind == "table" else None
    if read is not None:
        check_size(len(read.allowed), MOST_COLUMNS, "columns to exchange (name fewer by columns=)")
    rows = X if read is None else read.rows
    found = _candidates(rows, kind, shape, read, candidates)
    questions, notes = _questions(rows, y, kind, found, read)
    if read is None:
        return _search(questions, notes, level, accepted, rng)
    order = rng.permutation(len(read.rows))
    cut = int(_SEARCHED * len(order))
    parts = [(name, question.part(order[:cut])) for name, question in questions]
    search = _search(parts, notes, level, accepted, rng)
    merged = _merged(search, read.rows.shape[1])
    if merged is None:
        return search
    question = read_question(read.rows, y, merged, kind="table", feats=read.embed)
    test = run_label_test(question.part(order[cut:]), 10, 5, 4000, rng)
    check = conclude(question, test, None, level, accepted)
    return SymmetrySearch(search.checks, search.p_adjusted, search.candidates, check, search.notes)


def _candidates(
    rows: Any, kind: str, shape: Any, read: TableRows | None, more: Mapping[str, Any] | None
) -> Library:
    if read is not None:
        found = column_candidates(read.rows, read.names, read.kinds, read.allowed)
    else:
        table = Table.of(rows)
        form = Form.of(table)
        found = library(kind, table.width, form.shape if shape is None else shape)
    form = Form.of(Table.of(rows)) if read is None else Form(rows.shape[1], read.names)
    for name, group in (more or {}).items():
        if not isinstance(name, str):
            raise InvalidInputError(f"names of candidates must be texts, got {shorten(name, 60)}")
        found[name] = group_for(group, form)
    return found


def _questions(
    rows: Any, y: Any, kind: str, found: Library, read: TableRows | None
) -> tuple[list[tuple[str, Question]], list[str]]:
    questions, notes = [], []
    read_labels(
        y, Table.of(rows), rows
    )  # what is wrong with labels is said even without candidates
    for name, group in found.items():
        try:
            feats = None if read is None else read.embed
            questions.append((name, read_question(rows, y, group, kind=kind, feats=feats)))
        except InvalidInputError as error:
            if str(error) != NOTHING:
                raise
            notes.append(f"{name}: does nothing on your data.")
    return questions, notes


def _search(
    questions: Sequence[tuple[str, Question]],
    notes: Sequence[str],
    alpha: float,
    eta0: float,
    rng: np.random.Generator,
) -> SymmetrySearch:
    tests = [
        run_label_test(q, 10, 5, 4000, s) for (_, q), s in zip(questions, rng.spawn(len(questions)))
    ]
    verdicts, adjusted = judge(tests, alpha, eta0)
    checks = []
    for (name, question), test, verdict, stream in zip(
        questions, tests, verdicts, rng.spawn(len(questions))
    ):
        exact = drawn_uniformly(question.group)
        features = question.embed(question.rows)
        natural = naturalness(features, question.mover(), stream, exact=exact, max_rows=1000)
        checks.append((name, conclude(question, test, natural, alpha, eta0, verdict)))
    groups_by_name = {name: question.group for name, question in questions}
    return SymmetrySearch(tuple(checks), tuple(adjusted), groups_by_name, None, tuple(notes))


def judge(
    tests: Sequence[LabelTest], alpha: float, eta0: float
) -> tuple[list[Verdict], list[float]]:
    """Verdicts of several tests with two families at alpha/2 each, and adjusted p-values."""
    able = np.array([test.testable for test in tests], dtype=np.bool_)
    violated, held = np.ones(len(tests)), np.ones(len(tests))
    violated[able] = holm(np.array([t.p_value for t, a in zip(tests, able) if a]))
    held[able] = holm(np.array([t.safe_p_value(eta0) for t, a in zip(tests, able) if a]))
    verdicts: list[Verdict] = []
    for a, v, h in zip(able, violated, held):
        if not a:
            verdicts.append("not testable")
        elif v <= alpha / 2:
            verdicts.append("violated")
        else:
            verdicts.append("holds up to eta0" if h <= alpha / 2 else "no violation seen")
    return verdicts, violated.tolist()


def holm(p_values: FloatArray) -> FloatArray:
    """Holm's adjusted p-values.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, 0.03])).round(3)
    array([0.03, 0.06, 0.06])
    """
    order = np.argsort(p_values, kind="stable")
    steps = np.arange(len(p_values), 0, -1) * p_values[order]
    out = np.empty(len(p_values))
    out[order] = np.minimum(1.0, np.maximum.accumulate(steps)) if len(p_values) else steps
    return out


def _merged(search: SymmetrySearch, width: int) -> TransformationSet | None:
    """The group of all permutations inside connected components of accepted swaps."""
    pairs: list[IntArray] = []
    for name, check in search.checks:
        group = search.candidates[name]
        if check.verdict == "holds up to eta0" and isinstance(group, CoordinatePermutationGroup):
            moved = np.flatnonzero(group.perms[-1] != np.arange(width))
            if len(group.perms) == 2 and len(moved) == 2:
                pairs.append(moved)
    if len(pairs) < 2:
        return None
    links = np.array(pairs)
    graph = coo_array((np.ones(len(links)), links.T), shape=(width, width))
    label = connected_components(graph, directed=False)[1]
    sizes = np.bincount(label)
    generators = [np.arange(width)]
    for a, b in links.tolist():
        swap = np.arange(width)
        swap[[a, b]] = b, a
        generators.append(swap)
    if math.prod(math.factorial(int(s)) for s in sizes) > 10_000:
        return None
    return CoordinatePermutationGroup.closure(np.array(generators))
