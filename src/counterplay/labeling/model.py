"""The problem of a joint labelling campaign: who owns which points, which labelings are possible.

A problem is a matrix of labelings (one row per hypothesis, one column per pool point), a weight per
row, and the columns each agent owns. Rows are distinct: equal labelings are merged, their weights
added. Every label complexity is computed from this object alone.
Source: docs/theory/06-labeling.md, "Setting".
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.bits import Words, pack_rows, unique_rows
from counterplay.core.finite_class import FiniteClass
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    array_fault,
    check_int,
)
from counterplay.core.version_space import VersionSpace
from counterplay.core.weights import Weights, check_weights
from counterplay.errors import InvalidInputError

MOST_LABELS = 255  # codes of labels are bytes
LabelMatrix: TypeAlias = NDArray[np.uint8]
Coalition: TypeAlias = tuple[int, ...]
Members: TypeAlias = Iterable[int] | None
"""Agents that work together; None is everybody."""


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class PoolProblem:
    """Pools of unlabeled points, their owners, and the labelings that are possible.

    Use it to describe a campaign before planning it. Build it with :meth:`from_labelings` or
    :meth:`from_class`; the plain constructor expects distinct rows of positive weight.

    Parameters
    ----------
    H:
        Distinct labelings, ``uint8 (N, m)``.
    weights:
        Positive weights of the rows; an object array of Python ints keeps everything exact.
    agents:
        For each agent the columns it owns; overlaps are allowed, every column has an owner.
    n_classes:
        How many labels there are; 2 unless told otherwise.
    point_ids:
        Names of the points, such as the index of a frame; results are indexed by them.
    agent_names:
        Names of the agents for reports.

    Examples
    --------
    Four thresholds, two agents (the example of the chapter):

    >>> points = np.array([0.25, 0.5, 0.75, 0.3, 0.45, 0.55, 0.7])
    >>> labelings = points >= np.array([[0.2], [0.4], [0.6], [0.8]])
    >>> problem = PoolProblem.from_labelings(labelings, agents=[[0, 1, 2], [3, 4, 5, 6]])
    >>> problem
    PoolProblem(4 labelings, 7 points, 2 agents)
    >>> problem.entropy()
    2.0

    References
    ----------
    "Setting", see docs/theory/06-labeling.md.
    """

    H: LabelMatrix
    weights: Weights
    agents: tuple[IntArray, ...]
    n_classes: int = 2
    point_ids: tuple[Hashable, ...] | None = None
    agent_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.H.ndim != 2 or 0 in self.H.shape or self.H.dtype != np.uint8:
            raise InvalidInputError(
                "H must be a matrix of bytes with at least one labeling and one point, got "
                f"{self.H.dtype} of shape {self.H.shape}; use from_labelings"
            )
        n, m = self.H.shape
        top = check_int(self.n_classes, "n_classes", low=2, high=MOST_LABELS) - 1
        if self.H.max() > top:
            raise InvalidInputError(f"labels must be 0 to {top}, got {self.H.max()}")
        if self.weights.shape != (n,) or not (self.weights > 0).all():
            raise InvalidInputError(f"weights must be {n} positive numbers")
        object.__setattr__(self, "agents", _check_agents(self.agents, m))
        if self.point_ids is not None and len(self.point_ids) != m:
            raise InvalidInputError(f"point_ids must have {m} names, got {len(self.point_ids)}")
        if self.agent_names is not None and len(self.agent_names) != len(self.agents):
            raise InvalidInputError(
                f"agent_names must have {len(self.agents)} names, got {len(self.agent_names)}"
            )
        for array in (self.H, self.weights, *self.agents):
            array.setflags(write=False)

    @classmethod
    @checked
    def from_labelings(
        cls,
        labels: ArrayLike,
        weights: ArrayLike | None = None,
        agents: Sequence[ArrayLike] = (),
        *,
        exact: bool = False,
        n_classes: int = 2,
        point_ids: Sequence[Hashable] | None = None,
        agent_names: Sequence[str] | None = None,
    ) -> PoolProblem:
        """Check the labelings, drop rows of weight zero, merge equal rows by adding weights."""
        n_classes = check_int(n_classes, "n_classes", low=2, high=MOST_LABELS)
        H = _check_labelings(labels, n_classes)
        # Python integers beyond 2**63 would become floats in an array without a dtype.
        kind = object if exact else None
        w = np.ones(len(H), dtype=np.int64) if weights is None else np.asarray(weights, dtype=kind)
        if w.shape != (len(H),):
            raise InvalidInputError(f"weights must have length {len(H)}, got shape {w.shape}")
        checked = check_weights(w, exact=exact)
        if not (checked > 0).any():
            raise InvalidInputError("all weights are 0; at least one labeling must be possible")
        keep = np.asarray(checked > 0, dtype=np.bool_)
        H, merged = merge_rows(H[keep], checked[keep])[:2]
        return cls(
            H,
            merged,
            _check_agents(agents, H.shape[1]),
            n_classes,
            None if point_ids is None else tuple(point_ids),
            None if agent_names is None else tuple(map(str, agent_names)),
        )

    @classmethod
    @checked
    def from_class(
        cls, hypotheses: FiniteClass, agents: Sequence[ArrayLike], *, exact: bool = False
    ) -> PoolProblem:
        """Build the problem from a finite class on the pool; its weights are the prior."""
        exact = exact or hypotheses.is_exact
        return cls.from_labelings(hypotheses.labels, hypotheses.weights, agents, exact=exact)

    def __repr__(self) -> str:
        extra = ", exact" if self.is_exact else ""
        return f"PoolProblem({self.N} labelings, {self.m} points, {self.k} agents{extra})"

    @property
    def N(self) -> int:
        """Number of possible labelings."""
        return int(self.H.shape[0])

    @property
    def m(self) -> int:
        """Number of points."""
        return int(self.H.shape[1])

    @property
    def k(self) -> int:
        """Number of agents."""
        return len(self.agents)

    @property
    def everybody(self) -> Coalition:
        """The coalition of all agents."""
        return tuple(range(self.k))

    @property
    def is_exact(self) -> bool:
        """Whether the weights are Python ints or Fractions."""
        return self.weights.dtype == object

    @cached_property
    def prior(self) -> Weights:
        """Probability of each labeling; Fractions in exact mode."""
        one: Any = Fraction(1) if self.is_exact else 1.0
        prior: Weights = self.weights * one / self.weights.sum()
        prior.setflags(write=False)
        return prior

    @cached_property
    def owner_mask(self) -> BoolArray:
        """Who owns what, ``bool (k, m)``."""
        mask = np.zeros((self.k, self.m), dtype=np.bool_)
        for i, columns in enumerate(self.agents):
            mask[i, columns] = True
        mask.setflags(write=False)
        return mask

    def name(self, agent: int) -> str:
        """The agent's name for reports."""
        return self.agent_names[agent] if self.agent_names else f"agent {agent + 1}"

    def point_name(self, point: int) -> str:
        """The point's name for reports."""
        if not self.point_ids:
            return f"point {point}"
        name = self.point_ids[point]
        return name if isinstance(name, str) else f"row {name}"

    def union(self, coalition: Iterable[int]) -> IntArray:
        """Columns owned by at least one member, increasing."""
        members = self.check_coalition(coalition)
        return np.flatnonzero(self.owner_mask[list(members)].any(axis=0)).astype(np.int64)

    def check_coalition(self, coalition: Members) -> Coalition:
        """Return the coalition as a sorted tuple of agents; None is everybody."""
        if coalition is None:
            return self.everybody
        members = tuple(sorted({check_int(i, "agent", low=0, high=self.k - 1) for i in coalition}))
        if not members:
            raise InvalidInputError("a coalition needs at least one agent")
        return members

    def restrict(self, coalition: Members) -> Restriction:
        """The problem as a coalition sees it: its points only, equal rows merged."""
        members = self.check_coalition(coalition)
        columns = self.union(members)
        H, weights, inverse = merge_rows(self.H[:, columns], self.weights)
        position = np.full(self.m, -1, dtype=np.int64)
        position[columns] = np.arange(columns.size)
        owned = tuple(position[self.agents[i]] for i in members)
        problem = PoolProblem(H, weights, owned, self.n_classes)
        return Restriction(problem, members, columns, inverse)

    def n_labelings(self, columns: ArrayLike) -> int:
        """How many different labelings the given columns have."""
        return len(merge_rows(self.H[:, np.asarray(columns, dtype=np.int64)], self.weights)[0])

    def entropy(self, coalition: Members = None) -> float:
        """Entropy in bits of the labels of a coalition's points."""
        problem = self if coalition is None else self.restrict(coalition).problem
        p: FloatArray = problem.prior.astype(np.float64)
        p = p[p > 0]
        return float(max(0.0, -(p * np.log2(p)).sum()))

    def query_floor(self, coalition: Members = None) -> float:
        """Fewest expected queries of any protocol that finds the labels of a coalition's points.

        An answer that can be one of L labels carries at most log2 L bits, so the floor is the
        entropy divided by log2 L, with the largest L of all points. With two labels it is the
        entropy itself.

        Examples
        --------
        All nine labelings of two points with three labels: both points must be asked.

        >>> nine = [[a, b] for a in range(3) for b in range(3)]
        >>> problem = PoolProblem.from_labelings(nine, agents=[[0], [1]], n_classes=3)
        >>> round(problem.query_floor(), 6), round(problem.entropy(), 2)
        (2.0, 3.17)
        """
        problem = self if coalition is None else self.restrict(coalition).problem
        present = [np.any(label == problem.H, axis=0) for label in range(problem.n_classes)]
        most = int(np.sum(present, axis=0).max())
        return problem.entropy() / float(np.log2(most)) if most > 1 else 0.0

    def version_space(self) -> VersionSpace:
        """A fresh version space over the labelings, with the weights as masses."""
        return VersionSpace(self.N, self.weights, exact=self.is_exact)


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class Restriction:
    """A problem seen by a coalition, and how it maps to the full one.

    Attributes
    ----------
    problem:
        The coalition's own problem; its agents are the members in order.
    members:
        The agents of the full problem.
    columns:
        Full column of each restricted column.
    inverse:
        Restricted row of each full row.
    """

    problem: PoolProblem
    members: Coalition
    columns: IntArray
    inverse: IntArray

    def in_order(self, order: IntArray) -> IntArray:
        """Restricted columns in the order in which ``order`` lists the full ones."""
        position = np.full(order.size, -1, dtype=np.int64)
        position[self.columns] = np.arange(self.columns.size)
        restricted = position[order]
        return restricted[restricted >= 0]


def merge_rows(H: LabelMatrix, weights: Weights) -> tuple[LabelMatrix, Weights, IntArray]:
    """Merge equal rows in order of first occurrence; return rows, summed weights, inverse map."""
    first, inverse, _ = unique_rows(row_words(H))
    if weights.dtype == object:
        merged: Weights = np.zeros(first.size, dtype=object)
        np.add.at(merged, inverse, weights)
    else:
        merged = np.bincount(inverse, weights=weights, minlength=first.size)
    return np.ascontiguousarray(H[first]), merged, inverse


def column_order(first: ArrayLike, m: int, name: str) -> IntArray:
    """All columns 0 to m - 1, those listed in ``first`` before the others."""
    if fault := array_fault(first, kinds="iu"):
        raise InvalidInputError(f"{name} must list column numbers: {fault}")
    columns = np.asarray(first)
    if columns.ndim != 1 or np.unique(columns).size != columns.size:
        raise InvalidInputError(f"{name} must list different columns, best first")
    if columns.size and (columns.min() < 0 or columns.max() >= m):
        raise InvalidInputError(f"{name} must list columns from 0 to {m - 1}")
    return np.concatenate([columns, np.setdiff1d(np.arange(m), columns)]).astype(np.int64)


def row_words(H: LabelMatrix) -> Words:
    """Rows as 64-bit words: one bit per label when there are two, else one byte."""
    if H.max(initial=0) <= 1:
        return pack_rows(H)
    padded = np.zeros((len(H), -(-H.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : H.shape[1]] = H
    return padded.view(np.uint64)


def _check_labelings(labels: ArrayLike, n_classes: int) -> LabelMatrix:
    if fault := array_fault(labels, kinds="biuf"):
        raise InvalidInputError(f"labelings must be a matrix of label codes: {fault}")
    matrix = np.asarray(labels)
    if matrix.ndim != 2:
        raise InvalidInputError(f"labelings must be a matrix, got shape {matrix.shape}")
    if matrix.shape[0] == 0 or matrix.shape[1] == 0:
        raise InvalidInputError(f"labelings must not be empty, got shape {matrix.shape}")
    allowed = np.arange(n_classes)
    bad = ~np.isin(matrix, allowed)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise InvalidInputError(
            f"labeling {row} gives point {column} the label {matrix[row, column]}; "
            f"labels must be 0 to {n_classes - 1} (set n_classes for more)"
        )
    return matrix.astype(np.uint8)


def _check_agents(agents: Sequence[ArrayLike], m: int) -> tuple[IntArray, ...]:
    if len(agents) == 0:
        raise InvalidInputError("agents must list the columns of at least one agent")
    pools = []
    for i, columns in enumerate(agents):
        if fault := array_fault(columns, kinds="biuf"):
            raise InvalidInputError(f"agent {i} must list column numbers: {fault}")
        pool = np.asarray(columns)
        if pool.ndim != 1 or pool.size == 0:
            raise InvalidInputError(f"agent {i} has an empty pool; leave it out or give it points")
        if pool.dtype.kind not in "iu":
            raise InvalidInputError(f"agent {i} must list column numbers, got {pool.dtype}")
        outside = pool[(pool < 0) | (pool >= m)]
        if outside.size:
            raise InvalidInputError(f"agent {i} lists column {outside[0]}; there are only {m}")
        if np.unique(pool).size != pool.size:
            raise InvalidInputError(f"agent {i} lists a column twice")
        pools.append(pool.astype(np.int64))
    covered = np.zeros(m, dtype=np.bool_)
    covered[np.concatenate(pools)] = True
    if not covered.all():
        missing = int(np.flatnonzero(~covered)[0])
        raise InvalidInputError(f"column {missing} is owned by nobody, so it cannot be queried")
    return tuple(pools)
