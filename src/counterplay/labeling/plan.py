"""Plan a joint labelling campaign from what people have: a pool, owners, and some models.

The plan says what each party would need alone and together, certifies that nobody loses (or that
everybody gains), and starts a session that asks real labelers.
Source: docs/theory/06-labeling.md, "Sessions with people".
"""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.finite_class import FiniteClass
from counterplay.core.report import Report
from counterplay.core.validation import check_choice
from counterplay.errors import InvalidInputError
from counterplay.labeling.algorithm import QueryAlgorithm, TreeAlgorithm
from counterplay.labeling.answers import assumption
from counterplay.labeling.b2ir import B2IR
from counterplay.labeling.committee import Committee, check_number, coded
from counterplay.labeling.gbs import GBS
from counterplay.labeling.guarded import GuardedShadow
from counterplay.labeling.mixture import ProtocolMixture, check_assumption2, sir_mixture
from counterplay.labeling.model import PoolProblem
from counterplay.labeling.owners import read_owners
from counterplay.labeling.report import IncentiveReport, incentive_report
from counterplay.labeling.session import LabelingSession
from counterplay.tables import Table
from counterplay.tables.cells import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@checked
@dataclass(frozen=True, eq=False)
class CampaignPlan(Report):
    """Who labels what, what it costs everybody, and the certificate.

    Attributes
    ----------
    problem:
        Pool, owners and possible labelings.
    protocol:
        What decides who is asked.
    report:
        Expected queries alone and together; ``report.is_ir`` and ``report.is_sir``. They hold for
        ``protocol``, and if one of the labelings is right.
    no_gain:
        Agents about whose labels the others can say nothing; they cannot gain strictly.
    classes:
        The labels people use.
    ir_total:
        Expected total if nobody is to lose in expectation only; None if that is the protocol.
    """

    problem: PoolProblem
    protocol: QueryAlgorithm
    report: IncentiveReport
    no_gain: tuple[int, ...]
    classes: tuple[Any, ...]
    ir_total: float | None = None

    def start(self, seed: int = 0) -> LabelingSession:
        """Begin the campaign."""
        return LabelingSession(self.problem, self.protocol, seed=seed, classes=self.classes)

    def resume(self, text: str) -> LabelingSession:
        """Continue a session saved with ``to_json``."""
        return LabelingSession.from_json(text, self.problem, self.protocol, classes=self.classes)

    def summary(self) -> str:
        """The plan as text."""
        p = self.problem
        head = (
            f"{p.k} parties, {p.m} points, {p.N} possible labelings; no protocol can do with fewer "
            f"than {p.query_floor():.2f} queries on average"
        )
        lines = [
            head,
            self.report.summary(),
            f"assumed, not tested: {assumption(p)}; for real pools use Campaign",
        ]
        if self.ir_total is not None:
            lines.append(
                f"expected total {float(self.report.total):.3f}; {self.ir_total:.3f} if nobody is "
                "to lose in expectation only"
            )
        if self.no_gain:
            names = ", ".join(p.name(i) for i in self.no_gain)
            lines.append(f"the others' labels say nothing about the points of {names}")
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """One row per party; see ``IncentiveReport.to_frame``."""
        return self.report.to_frame()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Bars per party: expected queries alone and together."""
        return self.report.plot(ax)

    def plot_tree(self, ax: Axes | None = None) -> Axes:
        """Draw the joint query tree (small pools); hatched answers cost nobody anything."""
        from counterplay.labeling.drawing import draw_tree

        protocol = self.protocol
        if isinstance(protocol, ProtocolMixture):
            protocol = protocol.components[0]
        return draw_tree(self.problem, protocol, ax=ax)


@checked
def plan_campaign(
    pool: Any,
    *,
    owners: Any,
    hypotheses: Any,
    weights: ArrayLike | None = None,
    baseline: TreeAlgorithm | None = None,
    incentive: Literal["ir", "sir", "every target"] = "ir",
    eps: float = 0.1,
    agent_names: Sequence[str] | None = None,
    point_ids: Sequence[Hashable] | None = None,
) -> CampaignPlan:
    """Plan who labels which point so that nobody does more work than alone.

    Parameters
    ----------
    pool:
        The points, one row each: a frame, an array, a sparse matrix, texts, images, or single
        numbers. Each model gets the columns that it was fitted on, by name.
    owners:
        One owner per row (numbers or texts), or a list with one list of row numbers per party
        (overlaps allowed).
    hypotheses:
        A list of fitted classifiers (a committee), ``"halfspaces"`` (two features),
        ``"thresholds"`` (one feature), ``"stumps"`` (one of the features, one cut, either side), a
        ``FiniteClass`` on the pool, or a matrix of labelings, one row each. Labels may be numbers
        or texts.
    weights:
        Prior weight of each hypothesis; equal by default.
    baseline:
        What each party would run alone; ``GBS()`` by default.
    incentive:
        ``"ir"``: nobody loses in expectation. ``"every target"``: nobody loses, whichever labeling
        is right (:class:`GuardedShadow`). ``"sir"``: everybody gains strictly, for at most ``eps``
        more queries in total; raises ``NotStrictlyImprovable`` when that is impossible.
    eps:
        Extra queries allowed for ``"sir"``.
    agent_names:
        Names of the parties for reports.
    point_ids:
        Names of the points for reports; default the index of a frame.

    Examples
    --------
    >>> plan = plan_campaign([[1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0]],
    ...                      owners=["a", "b", "a", "b", "a", "b", "a"], hypotheses="thresholds")
    >>> plan.report.is_ir, float(plan.report.total), float(plan.report.baseline_cost.sum())
    (True, 3.0, 4.375)

    References
    ----------
    "Sessions with people", see docs/theory/06-labeling.md.
    """
    check_choice(incentive, "incentive", ("ir", "sir", "every target"))
    table = _pool(pool)
    names, columns = read_owners(owners, pool, len(table))
    labelings, classes = _labelings(hypotheses, table)
    problem = PoolProblem.from_labelings(
        labelings,
        weights,
        columns,
        n_classes=max(2, len(classes)),
        point_ids=_row_names(table.index) if point_ids is None else point_ids,
        agent_names=names if agent_names is None else agent_names,
    )
    rule = GBS() if baseline is None else baseline
    protocol = _protocol(incentive, rule, problem, eps)
    report = incentive_report(protocol, rule, problem)
    smallest = float(B2IR(rule).expected_costs(problem).sum()) if incentive != "ir" else None
    no_gain = check_assumption2(problem).failing
    return CampaignPlan(problem, protocol, report, no_gain, classes, smallest)


def _protocol(
    incentive: str, rule: TreeAlgorithm, problem: PoolProblem, eps: float
) -> QueryAlgorithm:
    if incentive == "ir":
        return B2IR(rule)
    if incentive == "sir":
        return sir_mixture(rule, problem, eps)
    return GuardedShadow(rule)


def _pool(pool: Any) -> Table:
    """Read the pool; single numbers are a table with one column."""
    if isinstance(pool, pd.Series) and pd.api.types.is_numeric_dtype(pool.dtype):
        pool = pool.to_frame()
    if isinstance(pool, list | tuple) and all(isinstance(cell, numbers.Real) for cell in pool):
        pool = np.array(pool, dtype=np.float64)
    if isinstance(pool, np.ndarray) and pool.ndim == 1 and pool.dtype.kind in "fiub":
        pool = pool[:, None]
    return Table.of(pool, what="pool")


def _labelings(hypotheses: Any, pool: Table) -> tuple[NDArray[Any], tuple[Any, ...]]:
    """The labelings as codes 0, 1, ... and the labels people use."""
    if isinstance(hypotheses, str):
        return _listed(hypotheses, pool).labels, (0, 1)
    if isinstance(hypotheses, FiniteClass):
        matrix: NDArray[Any] = hypotheses.labels
    elif isinstance(hypotheses, list | tuple) and any(hasattr(h, "predict") for h in hypotheses):
        classes, codes = Committee.of(hypotheses).labelings(pool)
        return codes, classes
    else:
        matrix = _matrix(hypotheses)
    if matrix.ndim != 2 or matrix.shape[1] != len(pool) or not len(matrix):
        raise InvalidInputError(
            "hypotheses must be fitted classifiers, 'halfspaces', 'thresholds', 'stumps', a "
            f"FiniteClass or a matrix with one column for each of {len(pool)} points, got "
            f"{type(hypotheses).__name__} with shape {matrix.shape}"
        )
    classes, codes = coded(matrix, "the matrix of labelings")
    check_number(classes)
    if set(classes) <= {0, 1}:
        return matrix.astype(np.uint8), (0, 1)
    return codes, classes


def _matrix(hypotheses: Any) -> NDArray[Any]:
    try:
        found = np.asarray(hypotheses)
        # texts beside numbers: the numbers must stay numbers
        return found if found.dtype.kind != "U" else np.asarray(hypotheses, dtype=object)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"hypotheses must be fitted classifiers or a matrix, got {shown(hypotheses)}"
        ) from None


def _listed(name: str, pool: Table) -> FiniteClass:
    """A class of labelings by its name."""
    check_choice(name, "hypotheses", ("halfspaces", "thresholds", "stumps"))
    X = pool.numbers().reshape(len(pool), -1)
    if name == "stumps":
        rows = [FiniteClass.thresholds(column, direction="both").labels for column in X.T]
        return FiniteClass.from_matrix(np.vstack(rows)).deduplicated().unique
    if X.shape[1] != (2 if name == "halfspaces" else 1):
        raise InvalidInputError(f"{name} do not fit a pool with {X.shape[1]} features")
    return FiniteClass.halfspaces_2d(X) if name == "halfspaces" else FiniteClass.thresholds(X[:, 0])


def _row_names(index: pd.Index) -> tuple[Any, ...] | None:
    """The user's names of the rows; None if they are just numbered."""
    return None if index.equals(pd.RangeIndex(len(index))) else tuple(index.tolist())
