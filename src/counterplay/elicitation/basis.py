"""Bases of options: a few options whose worth determines the worth of all others.

``basis_policies`` is the thesis' choice. ``barycentric_basis`` improves it by swaps until every
option is a combination with small coefficients, which removes the factor exponential in the
dimension from the regret.
Source: Algorithm 8.1, step 2; docs/theory/08-elicitation.md, "Barycentric basis".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, check_float_array, check_real
from counterplay.elicitation.oracles import LinearOracle
from counterplay.errors import ConvergenceError, InvalidInputError

Complement: TypeAlias = Literal["svd", "random"] | Callable[[FloatArray], FloatArray]
"""How the orthonormal basis of the complement is chosen; a function gets the stacked values."""


@dataclass(frozen=True, eq=False)
class Basis:
    """Basis options: their items, values and how far options extend in each new direction."""

    items: tuple[Any, ...]
    values: FloatArray
    """Value vectors (d, k); row 0 is the benchmark."""
    directions: FloatArray
    """Unit directions u (d, k), each orthogonal to the values before it."""
    extents: FloatArray
    """m (d,): the largest extent of any option along u; entry 0 is the benchmark's length."""
    n_calls: int
    """Directions the oracle maximised."""
    swaps: int = 0

    @property
    def d(self) -> int:
        """Dimension of the span of all values."""
        return len(self.values)

    def coefficients(self, values: ArrayLike) -> FloatArray:
        """Return c (n, d) with ``values = c @ self.values`` for values in the span."""
        rows = np.atleast_2d(check_float_array(values, "values"))
        return rows @ _functionals(self.values).T


@checked
def basis_policies(
    oracle: LinearOracle,
    V1: ArrayLike,
    *,
    item: Any = None,
    complement: Complement = "svd",
    random_state: RandomState = None,
    tol: float = 1e-9,
) -> Basis:
    """Choose a well-spread basis that starts with the benchmark; asks no questions.

    Parameters
    ----------
    oracle:
        The options.
    V1:
        Value vector of the benchmark.
    item:
        The benchmark itself.
    complement:
        ``"svd"``, ``"random"`` (randomly rotated), or a function from the stacked values to an
        orthonormal basis (rows) of their orthogonal complement.
    random_state:
        Seed for ``"random"``.
    tol:
        Stop when no option extends further than ``tol * oracle.scale``.

    Returns
    -------
    Basis
        For every option and every unit vector xi orthogonal to the first i-1 values:
        ``|<xi, V>| <= sqrt(k+1-i) * m_i``. It takes ``d(2k-d-1)`` directions.

    Examples
    --------
    The best options of the three single objectives span a plane only; the basis finds the third
    dimension:

    >>> from counterplay.elicitation import instances
    >>> from counterplay.elicitation.lab import MDPOracle
    >>> oracle = MDPOracle(instances.linear_dependence())
    >>> _, best = oracle.argmax(np.eye(3))
    >>> int(np.linalg.matrix_rank(best, tol=1e-9)), basis_policies(oracle, best[1]).d
    (2, 3)
    """
    benchmark = _check_benchmark(oracle, V1)
    k = oracle.k
    start = oracle.n_calls
    random = generator(random_state) if complement == "random" else None
    values, items = [benchmark], [item]
    length = float(np.linalg.norm(benchmark))
    directions, extents = [benchmark / length], [length]
    for _ in range(2, k + 1):
        rho = _complement(np.stack(values), complement, random)
        found, reached = oracle.argmax(np.concatenate([rho, -rho]))
        n = len(rho)
        up = (rho * reached[:n]).sum(axis=1)
        down = -(rho * reached[n:]).sum(axis=1)
        j = int(np.maximum(up, down).argmax())
        extent = float(max(up[j], down[j]))
        if extent <= tol * oracle.scale:
            break
        chosen = j if up[j] > down[j] else n + j
        items.append(found[chosen])
        values.append(reached[chosen])
        directions.append(rho[j])
        extents.append(extent)
    return Basis(
        tuple(items),
        np.stack(values),
        np.stack(directions),
        np.array(extents),
        oracle.n_calls - start,
    )


@checked
def barycentric_basis(
    oracle: LinearOracle,
    V1: ArrayLike,
    C: float = 1.5,
    *,
    item: Any = None,
    complement: Complement = "svd",
    random_state: RandomState = None,
    tol: float = 1e-9,
) -> Basis:
    """Improve the thesis' basis until every option has coefficients of at most C.

    Parameters
    ----------
    oracle:
        The options.
    V1:
        Value of the benchmark, the first basis option.
    C:
        Largest coefficient allowed, above 1.
    item:
        The benchmark itself.
    complement:
        As for :func:`basis_policies`.
    random_state:
        Seed for ``complement="random"``.
    tol:
        As for :func:`basis_policies`.

    Returns
    -------
    Basis
        With ``|c_i| <= C`` for every option and every i >= 2, so the regret of the full procedure
        is at most ``4 k C (d-1) eps``; at most ``(d-1) log_C k + 1`` swaps. The benchmark is never
        replaced.

    Examples
    --------
    On the Fibonacci instance the thesis' basis needs coefficients up to 13; one swap repairs it:

    >>> from counterplay.elicitation import instances
    >>> from counterplay.elicitation.lab import PointSetOracle
    >>> fibonacci = instances.fibonacci(8)
    >>> oracle = PointSetOracle(fibonacci.values)
    >>> basis = barycentric_basis(oracle, fibonacci.values[0], C=2.0)
    >>> basis.swaps, float(round(spanner_coefficients(oracle, basis)[1:].max(), 3))
    (1, 1.0)
    """
    bound = check_real(C, "C", low=1.0, open_low=True)
    start = oracle.n_calls
    basis = basis_policies(
        oracle, V1, item=item, complement=complement, random_state=random_state, tol=tol
    )
    values, items, swaps = basis.values.copy(), list(basis.items), 0
    limit = int(np.ceil(max(basis.d - 1, 0) * np.log(max(oracle.k, 2)) / np.log(bound))) + 64
    for _ in range(limit + 1):
        sizes, found, reached = _extreme_coefficients(oracle, values)
        if not sizes.size or sizes.max() <= bound:
            break
        i = int(sizes.argmax())
        values[i + 1], items[i + 1] = reached[i], found[i]
        swaps += 1
    else:
        raise ConvergenceError(f"the basis still improved after {limit} swaps")
    return Basis(
        tuple(items),
        values,
        basis.directions,
        basis.extents,
        oracle.n_calls - start,
        swaps,
    )


@checked
def spanner_coefficients(oracle: LinearOracle, basis: Basis) -> FloatArray:
    """Return, for each basis option, the largest |coefficient| any option has; entry 0 is nan.

    Costs ``2(d-1)`` directions. These numbers turn errors of the ratios into a certificate.

    Examples
    --------
    >>> from counterplay.elicitation.lab import PointSetOracle
    >>> oracle = PointSetOracle([[1.0, 0.0], [0.5, 0.5], [0.0, 0.6]])
    >>> spanner_coefficients(oracle, basis_policies(oracle, [1.0, 0.0])).round(3).tolist()
    [nan, 1.0]
    """
    sizes, _, _ = _extreme_coefficients(oracle, basis.values)
    return np.concatenate([[np.nan], sizes])


def _extreme_coefficients(
    oracle: LinearOracle, values: FloatArray
) -> tuple[FloatArray, list[Any], FloatArray]:
    """Largest |c_i| over all options for i >= 2, with the options that attain it."""
    functionals = _functionals(values)[1:]
    n = len(functionals)
    if n == 0:
        return np.zeros(0), [], np.zeros((0, oracle.k))
    # The oracle only sees directions, so huge functionals are brought to unit length first.
    lengths = np.linalg.norm(functionals, axis=1)
    unit = functionals / lengths[:, None]
    found, reached = oracle.argmax(np.concatenate([unit, -unit]))
    up = (unit * reached[:n]).sum(axis=1) * lengths
    down = -(unit * reached[n:]).sum(axis=1) * lengths
    chosen = np.where(up >= down, np.arange(n), n + np.arange(n))
    return np.maximum(up, down), [found[i] for i in chosen], reached[chosen]


def _functionals(values: FloatArray) -> FloatArray:
    """Rows D with ``D @ values.T = I``: row i reads off coefficient i. No rank truncation."""
    q, r = np.linalg.qr(values.T)
    return np.asarray(solve_triangular(r, q.T))


def _check_benchmark(oracle: LinearOracle, V1: ArrayLike) -> FloatArray:
    benchmark = check_float_array(V1, "V1", ndim=1)
    if benchmark.shape != (oracle.k,):
        raise InvalidInputError(f"V1 must have {oracle.k} entries, got {benchmark.size}")
    if not benchmark.any():
        raise InvalidInputError("V1 is zero; the benchmark must be worth something")
    return benchmark


def _complement(
    values: FloatArray, complement: Complement, rng: np.random.Generator | None
) -> FloatArray:
    """Orthonormal rows that span the orthogonal complement of the rows of ``values``."""
    if callable(complement):
        rows = np.atleast_2d(complement(values))
    elif complement in ("svd", "random"):
        unit = values / np.linalg.norm(values, axis=1, keepdims=True)
        rows = np.linalg.svd(unit, full_matrices=True)[2][len(values) :]
    else:
        raise InvalidInputError(
            f"complement must be 'svd', 'random' or a function, got {complement!r}"
        )
    if rng is not None:
        rotation = np.linalg.qr(rng.standard_normal((len(rows), len(rows))))[0]
        rows = rotation @ rows
    return np.ascontiguousarray(rows)
