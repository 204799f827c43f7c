"""From measured ratios to a preference vector.

The full estimator solves ``<w, V_1> = 1, <w, V_i> = alpha_i``. The truncated one of the thesis
drops thin directions; it is biased and offered for fidelity. Weights have no meaning outside the
span of the values: only inner products with value vectors do.
Source: Theorems 8.1 and 8.2; docs/theory/08-elicitation.md, "Preference, precision, refinement".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from counterplay.core.arguments import checked
from counterplay.core.programs import minimize_linear
from counterplay.core.validation import (
    FloatArray,
    array_fault,
    check_float_array,
    check_int,
    check_positive_int,
    check_real,
    shorten,
)
from counterplay.errors import InvalidInputError

_FLAT = 1e-15  # distance from the rows before, relative to the row: only rounding is left

Delta: TypeAlias = float | Literal["statement", "proof", "auto"]


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class PreferenceEstimate:
    """An estimated preference with everything it was computed from.

    ``w_hat`` estimates ``w*/x``, the preference in units of the benchmark's worth. It may have
    negative entries; compare it through inner products with value vectors only.

    Examples
    --------
    >>> from counterplay.elicitation import LinearPreferenceUser, PreferenceElicitor, answered_by
    >>> items = [[1.0, 0.0], [0.0, 1.0]]
    >>> user = LinearPreferenceUser([1.0, 0.5], 1e-3)
    >>> found = answered_by(PreferenceElicitor(items), user).estimate
    >>> found.weights().round(3).tolist()
    [0.667, 0.333]
    """

    w_hat: FloatArray
    basis_values: FloatArray
    directions: FloatArray
    extents: FloatArray
    alpha_hat: FloatArray
    benchmark_index: int
    n_queries: int
    ratio_error_bound: FloatArray
    """Guaranteed error of each ratio (d-1,); infinite where the answers do not limit the ratio,
    such as for a person who cannot tell the benchmark from nothing."""
    d_used: int

    def weights(self) -> FloatArray | None:
        """Return the weights scaled to sum 1, or None if the values do not determine them."""
        if self.d_used < self.w_hat.size or self.w_hat.sum() <= 0:
            return None
        return np.asarray(self.w_hat / self.w_hat.sum())


@checked
def solve_preference(V: ArrayLike, alpha_hat: ArrayLike, d_used: int | None = None) -> FloatArray:
    """Return the minimum-norm w with ``<w, V_1> = 1`` and ``<w, V_i> = alpha_{i-1}``.

    Parameters
    ----------
    V:
        Basis values (d, k), linearly independent.
    alpha_hat:
        Ratios (d-1,).
    d_used:
        Use only the first rows (the truncated estimator).

    Returns
    -------
    ndarray
        The same as the minimum-norm solution of the thesis' system ``A_hat w = e_1``. With E the
        largest error of a ratio, ``|<w_hat - w*/x, V>| <= B E`` for every option, see
        :func:`~counterplay.elicitation.bounds.spread_factor`.

    Examples
    --------
    >>> solve_preference([[1.0, 0.0], [1.0, 1.0]], [1.5]).round(12).tolist()
    [1.0, 0.5]
    """
    values = check_float_array(V, "V", ndim=2)
    ratios = check_float_array(alpha_hat, "alpha_hat", ndim=1)
    if ratios.size != len(values) - 1:
        raise InvalidInputError(f"alpha_hat must have {len(values) - 1} entries, got {ratios.size}")
    d = len(values) if d_used is None else check_int(d_used, "d_used", low=1, high=len(values))
    target = np.concatenate([[1.0], ratios])[:d]
    if d > values.shape[1]:
        raise InvalidInputError(
            f"{d} rows of V with {values.shape[1]} columns are never independent; use fewer"
        )
    q, r = np.linalg.qr(values[:d].T)
    flat = np.flatnonzero(np.abs(np.diag(r)) <= _FLAT * np.abs(r).max(axis=0))
    if flat.size:
        raise InvalidInputError(
            f"row {int(flat[0])} of V depends on the rows before it; a basis is needed"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        solution = np.asarray(q @ solve_triangular(r.T, target, lower=True, check_finite=False))
    if not np.isfinite(solution).all():
        raise InvalidInputError("V and alpha_hat are too far apart in size for a finite preference")
    return solution


@checked
def ratio_matrix(V: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """Return the thesis' matrix A: row 1 is V_1, row i is ``alpha_{i-1} V_1 - V_i``.

    Examples
    --------
    >>> ratio_matrix([[1.0, 0.0], [1.0, 1.0]], [1.5]).tolist()
    [[1.0, 0.0], [0.5, -1.0]]
    """
    values = check_float_array(V, "V", ndim=2)
    ratios = check_float_array(alpha, "alpha", ndim=1)
    if ratios.size != len(values) - 1:
        raise InvalidInputError(f"alpha must have {len(values) - 1} entries, got {ratios.size}")
    rows = ratios[:, None] * values[0] - values[1:]
    return np.vstack([values[:1], rows])


@checked
def truncation_dimension(extents: ArrayLike, delta: float) -> int:
    """Return d_delta: how many basis options come before the first extent of at most delta.

    Examples
    --------
    >>> truncation_dimension([2.0, 0.5, 0.01, 0.3], delta=0.05)
    2
    """
    m = check_float_array(extents, "extents", ndim=1)
    thin = np.flatnonzero(m[1:] <= check_real(delta, "delta", low=0.0))
    return int(thin[0]) + 1 if thin.size else len(m)


@checked
def truncated_preference(
    V: ArrayLike, alpha_hat: ArrayLike, extents: ArrayLike, delta: float
) -> tuple[FloatArray, int]:
    """Return the truncated minimum-norm estimate and the number of basis options it uses.

    It is the estimator of Theorem 8.2. "Any solution" in that theorem is wrong
    when directions are dropped; the minimum-norm solution is what the proof needs.

    Examples
    --------
    >>> V = [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 0.01]]
    >>> truncated_preference(V, [1.5, 1.2], extents=[1.0, 1.0, 0.01], delta=0.05)[1]
    2
    """
    d_used = truncation_dimension(extents, check_real(delta, "delta", low=0.0))
    return solve_preference(V, alpha_hat, d_used), d_used


@checked
def truncation_delta(
    rule: Delta,
    *,
    k: int,
    d: int,
    scale: float,
    eps: float | None = None,
    norm_w: float | None = None,
    best_value: float | None = None,
    ratio_error: float | None = None,
) -> float:
    """Return the threshold delta of a rule.

    ``"statement"`` is ``k^(5/3) eps^(1/3)``. ``"proof"`` is
    ``(C_V^4 k^5 ||w|| eps / v*^2)^(1/3)``. ``"auto"`` minimises the bound of Lemma
    8.2 for ratio errors ``ratio_error`` and ``norm_w = ||w*/x||``.

    Examples
    --------
    >>> round(truncation_delta("proof", k=3, d=3, scale=3 ** 0.5 * 10, eps=1e-3, norm_w=1.0,
    ...                        best_value=5.0), 1)
    9.6
    """
    if not isinstance(rule, str):
        return check_real(rule, "delta", low=0.0)
    needed = {
        "statement": {"eps": eps},
        "proof": {"eps": eps, "norm_w": norm_w, "best_value": best_value},
        "auto": {"norm_w": norm_w, "ratio_error": ratio_error},
    }
    if rule not in needed:
        raise InvalidInputError(
            f"delta must be a number or one of {sorted(needed)}, got {shorten(rule, 60)}"
        )
    objectives, rank = check_positive_int(k, "k"), check_positive_int(d, "d")
    size = check_real(scale, "scale", low=0.0)
    given = {
        name: check_real(value, name, low=0.0, open_low=name == "best_value")
        for name, value in needed[rule].items()
    }
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        n, c = np.float64(objectives), np.float64(size)
        if rule == "statement":
            delta = n ** (5 / 3) * given["eps"] ** (1 / 3)
        elif rule == "proof":
            inside = c**4 * n**5 * given["norm_w"] * given["eps"] / given["best_value"] ** 2
            delta = inside ** (1 / 3)
        else:
            inside = 4 * n * c**4 * rank**1.5 * given["norm_w"] * given["ratio_error"] / np.sqrt(n)
            delta = inside ** (1 / 3)
    if not np.isfinite(delta):
        raise InvalidInputError(f"delta of the rule {rule!r} is not finite for these numbers")
    return float(delta)


@checked
def nonnegative_preference(
    V: ArrayLike, alpha_hat: ArrayLike, errors: ArrayLike
) -> FloatArray | None:
    """Return w >= 0 that explains the ratios within their errors, as close to them as possible.

    Minimises the largest deviation ``|<w, V_i> - alpha_{i-1}|`` in units of its error. None if no
    non-negative preference explains the ratios: then the answers contradict the model. An error
    may be infinite.

    Examples
    --------
    >>> w = nonnegative_preference([[1.0, 0.0], [1.0, 1.0]], [0.999], [0.01])
    >>> w.round(9).tolist()
    [1.0, 0.0]
    """
    values = check_float_array(V, "V", ndim=2)
    ratios = check_float_array(alpha_hat, "alpha_hat", ndim=1)
    if ratios.size != len(values) - 1:
        raise InvalidInputError(f"alpha_hat must have {len(values) - 1} entries, got {ratios.size}")
    if fault := array_fault(errors, kinds="biuf"):
        raise InvalidInputError(f"errors must be numbers: {fault}")
    slack = np.maximum(np.asarray(errors, dtype=np.float64), 1e-15)
    if slack.shape != ratios.shape or np.isnan(slack).any():
        raise InvalidInputError(f"errors must be {ratios.size} numbers, one for each ratio")
    k = values.shape[1]
    known = np.isfinite(slack)  # an unlimited error asks nothing of the weights
    rows = values[1:][known] / slack[known, None]
    goal = ratios[known] / slack[known]
    ones = np.ones((len(rows), 1))
    answer = minimize_linear(
        np.append(np.zeros(k), 1.0),
        A_ub=np.vstack([np.hstack([rows, -ones]), np.hstack([-rows, -ones])])
        if len(rows)
        else None,
        b_ub=np.concatenate([goal, -goal]) if len(rows) else None,
        A_eq=np.append(values[0], 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * k + [(0, 1.0 + 1e-9)],
        what="the program for the weights",
        allow=("infeasible",),
    )
    return None if answer.x is None else np.maximum(answer.x[:k], 0.0)
