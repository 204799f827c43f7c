"""Is the symmetry in my labels? A test under one stated assumption, an interval, the clashes.

Three facts are kept apart: labels (p(y | g x) = p(y | x)), naturalness (g X looks like X) and
usefulness (a model that uses the symmetry errs less), which only :func:`symmetry_advisor` measures.
Source: docs/theory/22-symmetry.md, "Setting" and "The matched-neighbour test".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.utils.multiclass import type_of_target

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, IntArray, check_choice, check_int
from counterplay.core.validation import check_open_fraction as fraction
from counterplay.errors import InvalidInputError
from counterplay.invariance.clashes import clashes_of
from counterplay.invariance.embedding import KINDS, Kind, embedding, kind_of
from counterplay.invariance.errors import DenseRowsError
from counterplay.invariance.images import Form, group_for, numbers_for
from counterplay.invariance.label_test import LEAST_TUPLES, LabelTest, label_test
from counterplay.invariance.naturalness import Naturalness, naturalness
from counterplay.invariance.random_images import moving_elements, random_images
from counterplay.invariance.residual_test import (
    LEAST_OVERLAP,
    LEVEL,
    MOST_COLUMNS,
    overlap,
    residual_test,
)
from counterplay.invariance.symmetry_check import ASSUMPTION, SymmetryCheck, Verdict
from counterplay.invariance.transformations import TransformationSet, byte_keys, number_keys
from counterplay.tables import Table
from counterplay.tables.labels import as_labels

NOTHING = "This transformation changes none of your rows; there is nothing to test or to gain."
_MOST_SPARSE = 100 << 20  # bytes of sparse rows that are written out
_ELEMENTS_SHOWN = 16


@dataclass(frozen=True)
class Question:
    """Rows, labels and maps, read once and checked."""

    rows: FloatArray
    y: Any  # class numbers, or floats
    classes: Any  # names of the classes; None for regression
    group: TransformationSet
    form: Form
    kind: str
    embed: Callable[[FloatArray], FloatArray]
    elements: IntArray | None  # those that move something; None where they are not listed
    clusters: Any = None

    def part(self, pick: IntArray) -> Question:
        """The same question about some of the rows."""
        clusters = None if self.clusters is None else self.clusters[pick]
        return Question(self.rows[pick], self.y[pick], self.classes, self.group, self.form,
                        self.kind, self.embed, self.elements, clusters)  # fmt: skip

    def mover(self) -> Callable[[IntArray, np.random.Generator], tuple[FloatArray, IntArray]]:
        """Images of picked rows, embedded, under elements that are not the identity."""

        def move(pick: IntArray, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
            moved, element = random_images(self.rows[pick], self.group, rng, self.elements)
            return self.embed(moved), element

        return move


@checked
def check_symmetry(
    X: Any,
    y: Any,
    group: Any,
    *,
    kind: Kind = "auto",
    method: Literal["auto", "neighbours", "residual"] = "auto",
    feats: Any = None,
    clusters: Any = None,
    k: int = 10,
    n_repeats: int = 5,
    eta0: float = 0.05,
    alpha: float = 0.05,
    max_rows: int = 4000,
    random_state: RandomState = None,
) -> SymmetryCheck:
    """Do my labels stay the same when rows are transformed?

    Parameters
    ----------
    X:
        Rows: a frame or array of numbers, or images with their axes.
    y:
        Labels in any coding, or numbers (regression).
    group:
        A group from :mod:`counterplay.invariance.groups`, or any set of maps.
    kind:
        What rows are; "auto" asks the group and the axes of X.
    method:
        "neighbours" compares transformed rows with their nearest natural rows; "residual" is for
        numeric tables of at most 60 columns with noisy labels (approximate). "auto" is
        "neighbours".
    feats:
        Function from rows to an embedding in which neighbours are meaningful; it must not have
        seen the labels. Default: pixels and cells as they are, columns standardised.
    clusters:
        One value per row; one row of each is used. Default: rows with equal features are one.
        False keeps all rows.
    k:
        Neighbours that make the ball in which a transformed row counts as natural.
    n_repeats:
        Repeats with other maps and coins; medians over them. One is sharper and depends on the
        seed.
    eta0:
        Largest violation rate that you would accept.
    alpha:
        Level of the test and of the interval.
    max_rows:
        Rows that are compared at most, a random subset in each repeat.
    random_state:
        Seed.

    Returns
    -------
    SymmetryCheck
        With ``verdict``, ``p_value``, bounds of the violation rate, ``conflicts``.

    Examples
    --------
    >>> from counterplay.invariance import groups
    >>> from counterplay.invariance.lab import tic_tac_toe_endgames
    >>> boards, won = tic_tac_toe_endgames()
    >>> check_symmetry(boards, won, groups.d4((3, 3)), random_state=0).verdict
    'holds up to eta0'

    References
    ----------
    Shah and Peters (2020), "The hardness of conditional independence testing and the generalised
    covariance measure": no test of this kind can do without an assumption.
    """
    check_choice(method, "method", ("auto", "neighbours", "residual"))
    level, accepted = fraction(alpha, "alpha"), fraction(eta0, "eta0")
    size = check_int(max_rows, "max_rows", low=10, high=20_000)
    question = read_question(X, y, group, kind=kind, feats=feats, clusters=clusters, max_rows=size)
    rng = generator(random_state)
    if method == "residual":
        return _by_residuals(question, level, accepted, size, rng)
    found = run_label_test(question, k, n_repeats, size, rng)
    natural = _natural(question, rng)
    return conclude(question, found, natural, level, accepted)


def read_question(
    X: Any,
    y: Any,
    group: Any,
    *,
    kind: str = "auto",
    feats: Any = None,
    clusters: Any = None,
    max_rows: int = 4000,
) -> Question:
    """Read and check rows, labels and maps; refuse what cannot be asked."""
    check_choice(kind, "kind", KINDS)
    if feats is not None and not callable(feats):
        raise InvalidInputError("feats must be a function from rows to rows of numbers")
    if y is None:
        raise InvalidInputError("y is None; one label per row is needed")
    table = Table.of(X)
    codes, classes = read_labels(y, table, X)
    form = Form.of(table)
    found = group_for(group, form)
    if table.is_sparse:
        table, codes = _written_out(table, codes, max_rows, found)
    rows = numbers_for(table, found)
    elements = moving_elements(rows, found) if math.isfinite(found.order) else None
    if elements is not None and not len(elements):
        raise InvalidInputError(NOTHING)
    sort = kind_of(kind, found, form)
    embed = embedding(rows, found, sort, form, feats)
    return Question(
        rows, codes, classes, found, form, sort, embed, elements,
        _clusters(clusters, rows, embed),
    )  # fmt: skip


def read_labels(y: Any, table: Table, X: Any) -> tuple[Any, Any]:
    """Class numbers and classes, or floats and None where y is continuous."""
    array = np.asarray(y) if not hasattr(y, "dtype") else y
    if getattr(array, "dtype", None) is not None and str(array.dtype).startswith("float"):
        values = np.asarray(array, dtype=np.float64)
        flat = values.ndim == 1 and len(values) and np.isfinite(values).all()
        if flat and type_of_target(values) == "continuous":
            if len(values) != len(table):
                raise InvalidInputError(f"y has {len(values)} labels for {len(table)} rows")
            return values, None
    labels = Table.of(table, y).labels
    assert labels is not None
    if len(labels.classes) < 2:
        raise InvalidInputError("y has one class only; every transformation keeps it.")
    return labels.codes, as_labels(labels.classes)


def run_label_test(
    question: Question, k: int, n_repeats: int, max_rows: int, rng: np.random.Generator
) -> LabelTest:
    """The neighbour test of a question."""
    return label_test(
        question.embed(question.rows), question.y, question.mover(), clusters=question.clusters,
        k=check_int(k, "k", low=1, high=1000),
        n_repeats=check_int(n_repeats, "n_repeats", low=1, high=101),
        max_rows=max_rows, rng=rng,
    )  # fmt: skip


def conclude(
    question: Question,
    found: LabelTest,
    natural: Naturalness | None,
    alpha: float,
    eta0: float,
    verdict: Verdict | None = None,
) -> SymmetryCheck:
    """The check that follows from a test; ``verdict`` overrides that of a single test."""
    reliable = found.testable
    p = found.p_value if reliable else 1.0
    low, high = (found.low(alpha), found.high(alpha)) if reliable else (0.0, 1.0)
    safe = found.safe(alpha) if reliable else 1.0
    own: Verdict = "no violation seen"
    if not reliable:
        own = "not testable"
    elif p <= alpha:
        own = "violated"
    elif safe < eta0:
        own = "holds up to eta0"
    classes = question.classes is not None
    noisy = classes and any((r.natural > 0).any() for r in found.repeats)
    more = " Noisy labels: the lower bound is one of the total variation." if noisy else ""
    return SymmetryCheck(
        verdict or own, p, found.points() if reliable else (0.0, 1.0), low, max(low, high), safe,
        found.share, found.n_tuples, _conflicts(found, question.classes), natural,
        _elements(found), found.fixed, eta0, alpha, "neighbours",
        found.detectable(alpha) if reliable else 1.0, ASSUMPTION + more, found, None,
        clashes_of(found, question.rows, question.group, question.classes) if classes else (),
        question.form.shape or _picture(question),
    )  # fmt: skip


def _picture(question: Question) -> tuple[int, ...] | None:
    """Shape of flat pictures and boards, where they are square."""
    width = question.rows.shape[1]
    side = math.isqrt(width)
    square = question.kind in ("image", "board") and side * side == width
    return (side, side) if square else None


def _natural(question: Question, rng: np.random.Generator) -> Naturalness | None:
    features = question.embed(question.rows)
    exact = drawn_uniformly(question.group)
    return naturalness(features, question.mover(), rng, exact=exact)


def drawn_uniformly(group: TransformationSet) -> bool:
    """Whether random elements are those of a group, uniformly: naturalness is then exact."""
    return group.is_group and group.proved_group and group.uniform


def _by_residuals(
    question: Question, alpha: float, eta0: float, max_rows: int, rng: np.random.Generator
) -> SymmetryCheck:
    features = question.embed(question.rows)
    pick = rng.permutation(len(features))[:max_rows]
    moved = question.mover()(pick, rng)[0]
    value = overlap(features[pick], moved, rng) if len(pick) >= 60 else 0.0
    image = question.kind in ("image", "board", "sequence", "graph", "text")
    if image or features.shape[1] > MOST_COLUMNS or value < LEAST_OVERLAP:
        raise InvalidInputError(
            f"The residual test needs overlap; here {value:.2f}. Use method='neighbours'."
            if not image and features.shape[1] <= MOST_COLUMNS
            else f"The residual test is for tables of at most {MOST_COLUMNS} columns, here "
            f"kind={question.kind!r} with {features.shape[1]}. Use method='neighbours'."
        )
    found = residual_test(features[pick], moved, question.y[pick], rng, alpha)
    verdict: Verdict = "violated" if found.p_value <= LEVEL else "no violation seen"
    empty = pd.DataFrame({"label": [], "lands_among": [], "count": []})
    return SymmetryCheck(
        verdict, found.p_value, (found.eta_low, found.eta), found.eta_low, 1.0, 1.0, found.overlap,
        len(pick), empty, _natural(question, rng), pd.DataFrame(), 0.0, eta0, alpha, "residual",
        1.0, "Assumes that trees estimate the chances of labels and of being transformed well "
        "enough (the product of both errors must vanish); approximate.", None, found,
    )  # fmt: skip


def _conflicts(found: LabelTest, classes: Any) -> pd.DataFrame:
    if classes is None:
        return pd.DataFrame({"label": [], "lands_among": [], "count": []})
    rows = [(classes[a], classes[b], n) for (a, b), n in found.conflicts().most_common()]
    return pd.DataFrame(rows, columns=["label", "lands_among", "count"])


def _elements(found: LabelTest) -> pd.DataFrame:
    rows = [
        (g, tuples, wrong / tuples if tuples else np.nan)
        for g, (tuples, wrong) in sorted(found.by_element().items())
        if g >= 0
    ]
    table = pd.DataFrame(rows, columns=["element", "tuples", "disagreement"])
    return table if len(table) <= _ELEMENTS_SHOWN else table.iloc[:0]


def _clusters(clusters: Any, rows: FloatArray, embed: Callable[[FloatArray], FloatArray]) -> Any:
    if clusters is False:
        return None
    if clusters is None:
        features = np.ascontiguousarray(embed(rows) + 0.0)
        return number_keys(byte_keys(features))
    from counterplay.tables.table import check_groups

    return np.unique(check_groups(clusters, len(rows), "clusters"), return_inverse=True)[1]


def _written_out(
    table: Table, codes: Any, max_rows: int, group: TransformationSet
) -> tuple[Table, Any]:
    """A sparse table as a dense one, where that is small."""
    n = min(len(table), 4 * max_rows)
    if n * table.width * 8 > _MOST_SPARSE:
        n = _MOST_SPARSE // (8 * table.width)
    if n < min(len(table), 10 * LEAST_TUPLES):
        raise DenseRowsError(repr(group))
    pick = np.sort(np.random.default_rng(0).permutation(len(table))[:n])
    return Table.of(table.rows[pick].toarray()), codes[pick]
