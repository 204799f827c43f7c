"""Every guarantee of the chapter as a function that returns the number.

Source: docs/theory/08-elicitation.md (statements and proofs).
"""

from __future__ import annotations

import math

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.validation import (
    FloatArray,
    check_float_array,
    check_int,
    check_open_fraction,
    check_positive_int,
    check_real,
    check_same_shape,
    check_size,
)

_MOST_FACTORS = 100_000
FIBONACCI_SHARE = 0.72
"""Share of the Fibonacci factor that the instance of Proposition 8.G really loses."""


@checked
def benchmark_share(k: int) -> float:
    """Share of the best value the benchmark has at least, if ``eps <= v*/(2k)``: 1/(2k).

    Examples
    --------
    >>> benchmark_share(4)
    0.125
    """
    return 1.0 / (2 * check_positive_int(k, "k"))


@checked
def benchmark_questions(k: int) -> int:
    """Questions that find the benchmark: exactly k-1.

    Examples
    --------
    >>> benchmark_questions(5)
    4
    """
    return check_positive_int(k, "k") - 1


@checked
def basis_oracle_calls(k: int, d: int) -> int:
    """Directions the oracle maximises for benchmark and basis: k + d(2k-d-1), k^2 if d = k.

    Examples
    --------
    >>> [basis_oracle_calls(k, d) for k, d in [(5, 2), (6, 3), (4, 4), (5, 1)]]
    [19, 30, 16, 13]
    """
    n = check_positive_int(k, "k")
    rank = check_int(d, "d", low=1, high=n)
    return n + rank * (2 * n - rank - 1)


@checked
def shared_oracle_calls(k: int, d: int, users: int) -> int:
    """Directions for many users with shared bases: k + k d(2k-d-1) + one final plan per user.

    Examples
    --------
    >>> shared_oracle_calls(4, 4, 100)
    152
    """
    n = check_positive_int(k, "k")
    per_basis = basis_oracle_calls(n, d) - n
    return n + n * per_basis + check_int(users, "users", low=0)


@checked
def ratio_questions(k: int, x_over_eps: float) -> int:
    """Most questions per ratio: max(0, ceil(log2(2k x/eps))) + 1.

    Examples
    --------
    >>> ratio_questions(3, 1000.0)
    14
    """
    ratio = check_real(x_over_eps, "x_over_eps", low=0.0, open_low=True)
    return max(0, math.ceil(math.log2(2 * check_positive_int(k, "k") * ratio))) + 1


@checked
def total_questions(k: int, d: int, x_over_eps: float) -> int:
    """Most questions of the whole procedure: (k-1) + max(d, (d-1) ratio_questions(k, x/eps)).

    When every ratio is settled by its first question, one more asks whether the benchmark is worth
    anything; that makes d questions after the benchmark (none if d = 1).

    Examples
    --------
    >>> total_questions(6, 6, 95.0), total_questions(2, 2, 0.2)
    (65, 3)
    """
    ratios = check_int(d, "d", low=1, high=check_positive_int(k, "k")) - 1
    measuring = max(d, ratios * ratio_questions(k, x_over_eps)) if ratios else 0
    return benchmark_questions(k) + measuring


@checked
def ratio_error(alpha_hat: float, eps_over_x: float) -> float:
    """Largest error of a ratio: max(1, alpha_hat) eps / x (Proposition 8.C, sharper than Eq. 8.3).

    Examples
    --------
    >>> ratio_error(1.5, 0.01)
    0.015
    """
    ratio = check_real(alpha_hat, "alpha_hat", low=0.0)
    return max(1.0, ratio) * check_real(eps_over_x, "eps_over_x", low=0.0)


@checked
def ratio_error_thesis(k: int, eps: float, best_value: float) -> float:
    """Lemma 8.1: if ``eps <= v*/(2k)`` every ratio is within 4 k^2 eps / v*.

    Examples
    --------
    >>> ratio_error_thesis(3, 0.01, 1.0)
    0.36
    """
    precision = check_real(eps, "eps", low=0.0)
    best = check_real(best_value, "best_value", low=0.0, open_low=True)
    return 4 * check_positive_int(k, "k") ** 2 * precision / best


@checked
def spread_factor(k: int, d: int) -> float:
    """B = prod_{i=2..d} (1 + sqrt(k+1-i)) - 1: how the thesis' basis magnifies ratio errors.

    Examples
    --------
    >>> round(spread_factor(4, 4), 3)
    12.192
    """
    n = check_positive_int(k, "k")
    rank = check_int(d, "d", low=1, high=n)
    check_size(rank, _MOST_FACTORS, "dimensions")
    return math.prod(1 + math.sqrt(n + 1 - i) for i in range(2, rank + 1)) - 1


@checked
def regret_thesis_basis(k: int, d: int, eps: float) -> float:
    """Regret with the thesis' basis: max(2k, 4kB) eps, linear in eps.

    Examples
    --------
    >>> round(regret_thesis_basis(2, 2, 0.01), 3)
    0.08
    """
    return max(2 * k, 4 * k * spread_factor(k, d)) * check_real(eps, "eps", low=0.0)


@checked
def regret_barycentric(k: int, d: int, eps: float, C: float = 1.5) -> float:
    """Regret with the barycentric basis: max(2k, 4 k C (d-1)) eps; no exponential factor.

    Examples
    --------
    >>> regret_barycentric(6, 6, 0.01)
    1.8
    """
    n = check_positive_int(k, "k")
    rank = check_int(d, "d", low=1, high=n)
    largest = check_real(C, "C", low=1.0)
    return max(2 * n, 4 * n * largest * (rank - 1)) * check_real(eps, "eps", low=0.0)


@checked
def barycentric_swaps(k: int, d: int, C: float = 1.5) -> float:
    """Most swaps of the barycentric basis: (d-1) log_C(k) + 1.

    Examples
    --------
    >>> round(barycentric_swaps(4, 4), 2)
    11.26
    """
    base = check_real(C, "C", low=1.0, open_low=True)
    n = check_positive_int(k, "k")
    rank = check_int(d, "d", low=1, high=n)
    return (rank - 1) * math.log(n) / math.log(base) + 1


@checked
def certificate(coefficients: FloatArray, errors: FloatArray) -> float:
    """Regret in units of x: 2 sum_i max|c_i| E_i, from quantities that are known afterwards.

    Examples
    --------
    >>> certificate(np.array([1.0, 1.5]), np.array([0.01, 0.02]))
    0.08
    """
    c = check_float_array(coefficients, "coefficients", ndim=1)
    e = check_float_array(errors, "errors", ndim=1)
    check_same_shape(c, e, ("coefficients", "errors"))
    return 2 * float(np.dot(c, e))


@checked
def fibonacci_factor(d: int) -> int:
    """F(d+1) - 1, the factor the thesis' basis really loses on the Fibonacci instance.

    Examples
    --------
    >>> [fibonacci_factor(d) for d in (3, 5, 8, 13)]
    [2, 7, 33, 376]
    """
    check_size(check_int(d, "d", low=1), _MOST_FACTORS, "dimensions")
    a, b = 1, 1
    for _ in range(d - 1):
        a, b = b, a + b
    return b - 1


@checked
def fibonacci_regret(d: int, eps: float) -> float:
    """Regret of the thesis' basis on the Fibonacci instance: 0.72 (F(d+1) - 1) eps (Prop. 8.G).

    Examples
    --------
    >>> round(fibonacci_regret(8, 1e-4), 6)
    0.002376
    """
    size = check_real(eps, "eps", low=0.0)
    check_size(check_int(d, "d", low=1), 1400, "dimensions")  # beyond, no float holds the factor
    return FIBONACCI_SHARE * fibonacci_factor(d) * size


@checked
def truncated_gap(
    *,
    k: int,
    d_delta: int,
    scale: float,
    norm_w: float,
    ratio_error: float,
    delta: float,
) -> float:
    """Bound on the value error of the truncated estimate, with the constants of the proof.

    ``inf`` when the precondition ``C_V sqrt(d_delta) ||w'|| eta <= 1/3`` fails.

    Examples
    --------
    >>> round(truncated_gap(k=2, d_delta=1, scale=1.0, norm_w=1.0, ratio_error=0.0, delta=0.1), 4)
    0.1414
    """
    check_positive_int(k, "k")
    check_positive_int(d_delta, "d_delta")
    for name, number in (("scale", scale), ("norm_w", norm_w), ("ratio_error", ratio_error)):
        check_real(number, name, low=0.0)
    check_real(delta, "delta", low=0.0, open_low=True)
    if ratio_error == 0:
        eta = 0.0
    else:
        try:
            eta = 4 * (2 * k) * scale**2 * d_delta * ratio_error / delta**2
        except (OverflowError, ZeroDivisionError):  # beyond all floats: the precondition fails
            return math.inf
    if scale * math.sqrt(d_delta) * norm_w * eta > 1 / 3:
        return math.inf
    largest = 1.5 * norm_w
    estimation = 2 * (scale * largest + 1) * scale * math.sqrt(d_delta) * largest * eta
    return estimation + math.sqrt(k) * delta * norm_w


@checked
def truncation_bias_gap(k: int, delta: float, norm_w: float) -> float:
    """Lemma G.1: dropping directions of extent delta costs sqrt(k) delta ||w'||.

    Examples
    --------
    >>> truncation_bias_gap(4, 0.1, 2.0)
    0.4
    """
    size = check_real(norm_w, "norm_w", low=0.0)
    return math.sqrt(check_positive_int(k, "k")) * check_real(delta, "delta", low=0.0) * size


@checked
def trajectory_set_size(k: int) -> int:
    """Most trajectories needed to represent a policy exactly: k+1 (Theorem 8.3).

    Examples
    --------
    >>> trajectory_set_size(5)
    6
    """
    return check_positive_int(k, "k") + 1


@checked
def flow_paths(n_edges: int, n_vertices: int) -> int:
    """Most paths of a flow decomposition: |E| - |V| + 2.

    Examples
    --------
    >>> flow_paths(27980, 982)
    27000
    """
    return check_positive_int(n_edges, "n_edges") - check_positive_int(n_vertices, "n_vertices") + 2


@checked
def sample_size(k: int, accuracy: float, delta: float) -> int:
    """Sampled trajectories that bring every objective within ``accuracy`` (returns divided by H).

    Examples
    --------
    >>> sample_size(3, 0.05, 0.05)
    958
    """
    eps = check_real(accuracy, "accuracy", low=0.0, open_low=True)
    n = check_positive_int(k, "k")
    return math.ceil(math.log(2 * n / check_open_fraction(delta, "delta")) / (2 * eps**2))


@checked
def repetitions(questions: int, flip_prob: float, delta: float = 0.05) -> int:
    """Repetitions per question so that all majorities are right with probability 1-delta.

    Examples
    --------
    >>> repetitions(50, 0.2)
    43
    """
    p = check_real(flip_prob, "flip_prob", low=0.0, high=0.5, open_high=True)
    n = check_positive_int(questions, "questions")
    return math.ceil(math.log(2 * n / check_open_fraction(delta, "delta")) / (2 * (0.5 - p) ** 2))


@checked
def adaptive_questions(k: int, target_regret: float) -> int:
    """Most adaptive questions before the guaranteed procedure takes over.

    ``k (ceil(log2(2k / target)) + 1)``: of the same order as the guaranteed procedure itself.

    Examples
    --------
    >>> adaptive_questions(4, 0.01)
    44
    """
    target = check_real(target_regret, "target_regret", low=1e-300, high=1.0, open_high=True)
    n = check_positive_int(k, "k")
    return n * (math.ceil(math.log2(2 * n / target)) + 1)
