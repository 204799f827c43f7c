"""Plan a joint labelling campaign from what people have: a pool, owners, and some models.

The plan says what each party would need alone and together, certifies that nobody loses (or that
everybody gains), and starts a session that asks real labelers.
Source: docs/theory/06-labeling.md, "Sessions with people".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.finite_class import FiniteClass
from counterplay.core.report import Report
from counterplay.core.validation import IntArray, check_choice
from counterplay.errors import InvalidInputError
from counterplay.labeling.algorithm import QueryAlgorithm, TreeAlgorithm
from counterplay.labeling.answers import assumption
from counterplay.labeling.b2ir import B2IR
from counterplay.labeling.gbs import GBS
from counterplay.labeling.mixture import ProtocolMixture, check_assumption2, sir_mixture
from counterplay.labeling.model import PoolProblem
from counterplay.labeling.report import IncentiveReport, incentive_report
from counterplay.labeling.session import LabelingSession

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


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
    """

    problem: PoolProblem
    protocol: QueryAlgorithm
    report: IncentiveReport
    no_gain: tuple[int, ...]
    classes: tuple[Any, ...]

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
        lines = [head, self.report.summary(), f"assumed, not tested: {assumption(p)}"]
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


def plan_campaign(
    pool: ArrayLike,
    *,
    owners: ArrayLike | Sequence[ArrayLike],
    hypotheses: Any,
    weights: ArrayLike | None = None,
    baseline: TreeAlgorithm | None = None,
    incentive: Literal["ir", "sir"] = "ir",
    eps: float = 0.1,
    agent_names: Sequence[str] | None = None,
    point_ids: Sequence[str] | None = None,
) -> CampaignPlan:
    """Plan who labels which point so that nobody does more work than alone.

    Parameters
    ----------
    pool:
        Features of the points, one row each; models are asked to predict exactly this object, so
        frames stay frames and sparse matrices sparse.
    owners:
        One owner per row (any values), or one list of row numbers per party (overlaps allowed).
    hypotheses:
        Fitted classifiers (a committee), ``"halfspaces"`` (two features), ``"thresholds"`` (one
        feature), ``"stumps"`` (one of the features, one cut, either side), a ``FiniteClass`` on the
        pool, or a matrix of labelings.
    weights:
        Prior weight of each hypothesis; equal by default.
    baseline:
        What each party would run alone; ``GBS()`` by default.
    incentive:
        ``"ir"``: nobody loses. ``"sir"``: everybody gains strictly, for at most ``eps`` more
        queries in total; raises ``NotStrictlyImprovable`` when that is impossible.
    eps:
        Extra queries allowed for ``"sir"``.
    agent_names:
        Names of the parties for reports.
    point_ids:
        Names of the points for reports.

    Examples
    --------
    >>> plan = plan_campaign([[1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0]],
    ...                      owners=["a", "b", "a", "b", "a", "b", "a"], hypotheses="thresholds")
    >>> plan.report.is_ir, float(plan.report.total), float(plan.report.baseline_cost.sum())
    (True, 3.0, 4.375)
    """
    check_choice(incentive, "incentive", ("ir", "sir"))
    n = int(np.shape(pool)[0])
    names, columns = _owners(owners, n)
    labelings, classes = _labelings(hypotheses, pool, n)
    problem = PoolProblem.from_labelings(
        labelings,
        weights,
        columns,
        n_classes=max(2, len(classes)),
        point_ids=point_ids,
        agent_names=names if agent_names is None else agent_names,
    )
    rule = GBS() if baseline is None else baseline
    protocol: QueryAlgorithm = B2IR(rule) if incentive == "ir" else sir_mixture(rule, problem, eps)
    report = incentive_report(protocol, rule, problem)
    return CampaignPlan(problem, protocol, report, check_assumption2(problem).failing, classes)


def _owners(owners: Any, n: int) -> tuple[list[str], list[IntArray]]:
    if len(owners) and all(np.ndim(entry) == 1 for entry in owners):
        pools = [np.asarray(entry, dtype=np.int64) for entry in owners]
        return [f"party {i + 1}" for i in range(len(pools))], pools
    import pandas as pd

    labels = np.asarray(owners)
    if labels.shape != (n,):
        raise InvalidInputError(
            f"owners must name one owner for each of the {n} points, got shape {labels.shape}"
        )
    missing = np.flatnonzero(pd.isna(labels))
    if missing.size:
        raise InvalidInputError(
            f"row {missing[0]} has no owner; give every row an owner or drop it"
        )
    if labels.dtype == object:  # owners of different kinds cannot be sorted
        labels = np.array([str(label) for label in labels])
    values = np.unique(labels)
    numeric = values.dtype.kind in "iuf"
    names = [f"party {value}" if numeric else str(value) for value in values]
    return names, [np.flatnonzero(labels == value) for value in values]


def _labelings(hypotheses: Any, pool: Any, n: int) -> tuple[NDArray[Any], tuple[Any, ...]]:
    """The labelings as codes 0, 1, ... and the labels people use."""
    if isinstance(hypotheses, str):
        return _listed(hypotheses, np.asarray(pool)).labels, (0, 1)
    if isinstance(hypotheses, FiniteClass):
        return hypotheses.labels, (0, 1)
    members = list(hypotheses) if not isinstance(hypotheses, np.ndarray) else None
    if members and all(hasattr(member, "predict") for member in members):
        return _predicted(members, pool)
    matrix = np.asarray(hypotheses)
    if matrix.ndim != 2 or matrix.shape[1] != n:
        raise InvalidInputError(
            "hypotheses must be fitted classifiers, 'halfspaces', 'thresholds', 'stumps', a "
            "FiniteClass or a matrix with one column per point, got "
            f"{type(hypotheses).__name__}"
        )
    values = np.unique(matrix)
    if np.isin(values, (0, 1)).all():
        return matrix, (0, 1)
    return np.searchsorted(values, matrix), tuple(values.tolist())


def _listed(name: str, pool: NDArray[Any]) -> FiniteClass:
    """A class of labelings by its name."""
    check_choice(name, "hypotheses", ("halfspaces", "thresholds", "stumps"))
    X = pool[:, None] if pool.ndim == 1 else pool
    if name == "stumps":
        rows = [FiniteClass.thresholds(column, direction="both").labels for column in X.T]
        return FiniteClass.from_matrix(np.vstack(rows)).deduplicated().unique
    if X.shape[1] != (2 if name == "halfspaces" else 1):
        raise InvalidInputError(f"{name} do not fit a pool with {X.shape[1]} features")
    return FiniteClass.halfspaces_2d(X) if name == "halfspaces" else FiniteClass.thresholds(X[:, 0])


def _predicted(members: list[Any], pool: Any) -> tuple[NDArray[Any], tuple[Any, ...]]:
    """What fitted classifiers say about the pool, and the labels they know."""
    X = pool if hasattr(pool, "shape") and len(pool.shape) == 2 else np.asarray(pool)
    X = X[:, None] if len(X.shape) == 1 else X
    rows = np.stack([np.asarray(member.predict(X)) for member in members])
    trained = [np.asarray(m.classes_) for m in members if hasattr(m, "classes_")]
    known = np.unique(np.concatenate(trained)) if len(trained) == len(members) else np.unique(rows)
    if not np.isin(rows, known).all():
        raise InvalidInputError("a hypothesis predicts a label that it was not trained on")
    return np.searchsorted(known, rows), tuple(known.tolist())
