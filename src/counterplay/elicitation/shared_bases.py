"""Bases that are computed once and shared by all users of the same set of options.

Only the choice of the benchmark depends on the user, and there are only k benchmarks, so n users
need at most k bases and n final plans.
Source: docs/theory/08-elicitation.md, "Proposition 8.B: the basis" (section 8.4.1 of the thesis).
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, check_choice, check_int, check_size
from counterplay.elicitation.basis import (
    Basis,
    Complement,
    barycentric_basis,
    basis_policies,
    spanner_coefficients,
)
from counterplay.elicitation.benchmark_policy import single_objective_best
from counterplay.elicitation.oracles import as_oracle
from counterplay.elicitation.showroom import Representation, Showroom

MOST_OBJECTIVES = 300
"""A basis needs one maximisation for each pair of objectives."""

BasisKind: TypeAlias = Literal["barycentric", "thesis", "single"]


@checked
class SharedBases:
    """Caches what does not depend on the user: single-objective optima, bases, coefficients.

    Parameters
    ----------
    source:
        A process, a catalogue, a table of values or an oracle.
    kind:
        ``"barycentric"`` (no exponential factor), ``"thesis"``, or ``"single"`` (the naive basis
        of single-objective optima, which can miss dimensions).
    C:
        Largest coefficient of the barycentric basis.
    complement:
        How the complement of the values found so far is searched; see :func:`basis_policies`.
    random_state:
        Seed for ``complement="random"``.
    representation:
        How options are shown.

    Examples
    --------
    >>> from counterplay.elicitation import instances
    >>> bases = SharedBases(instances.random_mdp(0))
    >>> bases.basis(0).d, bases.basis(0) is bases.basis(0)
    (4, True)
    """

    def __init__(
        self,
        source: Any,
        *,
        kind: BasisKind = "barycentric",
        C: float = 1.5,
        complement: Complement = "svd",
        random_state: RandomState = None,
        representation: Representation = "values",
    ) -> None:
        self.kind = check_choice(kind, "basis", ("barycentric", "thesis", "single"))
        self.oracle = as_oracle(source)
        check_size(self.oracle.k, MOST_OBJECTIVES, "objectives")
        self.showroom = Showroom(self.oracle, representation)
        self.C = C
        self.complement = complement
        self._rng = generator(random_state) if complement == "random" else None
        self._best: tuple[list[Any], FloatArray] | None = None
        self._bases: dict[int, Basis] = {}
        self._coefficients: dict[int, FloatArray] = {}

    def __repr__(self) -> str:
        return f"SharedBases({self.oracle!r}, kind={self.kind!r}, computed={len(self._bases)})"

    def single_best(self) -> tuple[list[Any], FloatArray]:
        """Best item and value of each single objective."""
        if self._best is None:
            self._best = single_objective_best(self.oracle)
        return self._best

    def basis(self, benchmark: int) -> Basis:
        """Basis that starts with the best option of objective ``benchmark``."""
        check_int(benchmark, "benchmark", low=0, high=self.oracle.k - 1)
        if benchmark not in self._bases:
            items, values = self.single_best()
            if self.kind == "single":
                self._bases[benchmark] = _single_objective_basis(items, values, benchmark)
            elif self.kind == "thesis":
                self._bases[benchmark] = basis_policies(
                    self.oracle,
                    values[benchmark],
                    item=items[benchmark],
                    complement=self.complement,
                    random_state=self._rng,
                )
            else:
                self._bases[benchmark] = barycentric_basis(
                    self.oracle,
                    values[benchmark],
                    self.C,
                    item=items[benchmark],
                    complement=self.complement,
                    random_state=self._rng,
                )
        return self._bases[benchmark]

    def coefficients(self, benchmark: int) -> FloatArray:
        """Largest coefficient any option has on each basis option but the benchmark."""
        check_int(benchmark, "benchmark", low=0, high=self.oracle.k - 1)
        if benchmark not in self._coefficients:
            sizes = spanner_coefficients(self.oracle, self.basis(benchmark))[1:]
            self._coefficients[benchmark] = sizes
        return self._coefficients[benchmark]


def _single_objective_basis(items: list[Any], values: FloatArray, benchmark: int) -> Basis:
    """The single-objective optima, dependent ones dropped; the benchmark first."""
    chosen = [benchmark]
    for j in range(len(items)):
        rows = values[[*chosen, j]]
        if j != benchmark and np.linalg.matrix_rank(rows, tol=1e-9) == len(rows):
            chosen.append(j)
    rows = values[chosen]
    q, r = np.linalg.qr(rows.T)
    return Basis(tuple(items[j] for j in chosen), rows, q.T, np.abs(np.diag(r)), 0)
