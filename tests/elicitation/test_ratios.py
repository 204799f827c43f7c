"""Ratios by bisection, and below the precision."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.elicitation import (
    LinearPreferenceUser,
    NoisyUser,
    bounds,
    instances,
)
from counterplay.elicitation.lab import (
    PointSetOracle,
    basis_policies,
    estimate_precision,
    estimate_ratios,
    find_benchmark,
    refine_ratios,
    solve_preference,
    zone_ratio,
)
from counterplay.errors import ContradictionError
from elicitation.problems import unit


def ratio_cases(n: int) -> list[tuple[np.ndarray, np.ndarray, float]]:
    rng = np.random.default_rng(5)
    cases = []
    for _ in range(n):
        k = int(rng.integers(2, 6))
        cases.append((rng.random((20, k)), unit(rng, k), 10 ** rng.uniform(-4, 0.5)))
    return cases


@pytest.mark.claim("08.07")
def test_ratio_errors_and_questions_stay_below_their_bounds() -> None:
    guaranteed = 0
    for points, w, eps in ratio_cases(300):
        k = points.shape[1]
        oracle, user = PointSetOracle(points), LinearPreferenceUser(w, eps)
        start = find_benchmark(oracle, user)
        basis = basis_policies(oracle, start.value, item=start.item)
        found = estimate_ratios(basis.values, user)
        x, best = start.value @ w, (points @ w).max()
        alpha = basis.values[1:] @ w / x
        error = np.abs(found.alpha_hat - alpha)
        assert not found.suspicious
        for ratio, e in zip(found.ratios, error):
            assert e <= bounds.ratio_error(ratio.estimate, eps / x) + 1e-12
            assert e <= ratio.error + 1e-12
            assert ratio.estimate <= 2 * k
            assert ratio.n_queries <= bounds.ratio_questions(k, x / eps)
        if eps <= best / (2 * k) and error.size:
            guaranteed += 1
            assert error.max() <= bounds.ratio_error_thesis(k, eps, best) + 1e-12
    assert guaranteed > 150


@pytest.mark.claim("08.07")
def test_first_question_never_favours_the_diluted_option() -> None:
    """10,000 random instances with eps from far below to far above the best value."""
    rng = np.random.default_rng(6)
    for _ in range(100):
        k = int(rng.integers(2, 7))
        points = rng.random((100, 25, k)) ** rng.uniform(0.3, 5)
        w = rng.dirichlet(np.full(k, 0.7), size=100)
        worth = np.einsum("nik,nk->ni", points, w)
        eps = worth.max(axis=1) * 10 ** rng.uniform(-3, 1, size=100)
        champions = points.argmax(axis=1)  # best option of each objective
        x = worth[np.arange(100), champions[:, 0]]
        for j in range(1, k):
            rival = worth[np.arange(100), champions[:, j]]
            x = np.where(rival - x > eps, rival, x)
        diluted = worth / (2 * k)
        assert (diluted - x[:, None] <= eps[:, None]).all()


@pytest.mark.claim("08.08")
@pytest.mark.parametrize(
    ("eta", "l2", "gap"), [(0.01, 0.119, 0.0125), (0.001, 6.91, 0.0125), (1e-5, 780.0, 0.0125)]
)
def test_thin_direction_spoils_weights_but_not_decisions(eta: float, l2: float, gap: float) -> None:
    thin = instances.thin_direction(eta)
    found = estimate_ratios(thin.values, LinearPreferenceUser(thin.w, thin.eps), C_alpha=6)
    assert found.alpha_hat.tolist() == [1.6875, 1.0078125]
    assert found.ratios[0].n_queries == 6
    w_hat = solve_preference(thin.values, found.alpha_hat)
    reference = thin.w / (thin.w @ thin.values[0])
    assert np.linalg.norm(w_hat - reference) == pytest.approx(l2, rel=5e-3)
    assert np.abs(thin.values @ (w_hat - reference)).max() == pytest.approx(gap, rel=5e-3)


def test_near_indistinguishable_basis_gives_wrong_weights_and_right_values() -> None:
    near = instances.near_indistinguishable()
    found = estimate_ratios(near.values, LinearPreferenceUser(near.w, near.eps))
    w_hat = solve_preference(near.values, found.alpha_hat)
    assert w_hat == pytest.approx([1.0, 0.0, 0.0, 0.0], abs=1e-12)
    reference = near.w / (near.w @ near.values[0])
    assert np.linalg.norm(w_hat - reference) == pytest.approx(0.976, abs=1e-3)
    assert np.abs(near.values @ (w_hat - reference)).max() <= near.eps


@pytest.mark.claim("08.16")
@pytest.mark.parametrize(
    ("alpha", "branch"), [(0.5, "both below 1"), (1.6, "both above 1"), (1.02, "across 1")]
)
def test_refinement_reaches_far_below_the_precision(alpha: float, branch: str) -> None:
    values = np.array([[1.0, 0.0], [0.0, 1.0]])
    user = LinearPreferenceUser([1.0, alpha], 0.1)
    coarse = estimate_ratios(values, user)
    fine = refine_ratios(values, user, coarse, extra_queries=40)
    assert abs(fine.alpha_hat[0] - alpha) <= 1e-10
    assert abs(fine.alpha_hat[0] - alpha) <= fine.errors[0] + 1e-15


@pytest.mark.claim("08.16")
def test_refinement_without_a_lower_end_uses_the_precision() -> None:
    values = np.array([[1.0, 0.0], [0.0, 1.0]])
    user = LinearPreferenceUser([1.0, 0.05], 0.1)  # 0.05 cannot be told from nothing
    coarse = estimate_ratios(values, user)
    precision = estimate_precision(values[0], user, rel_tol=1e-12, max_iter=60)
    fine = refine_ratios(
        values, user, coarse, extra_queries=45, precision=(precision.low, precision.high)
    )
    assert abs(fine.alpha_hat[0] - 0.05) <= 1e-10


def test_zone_formulas_invert_the_boundaries() -> None:
    rng = np.random.default_rng(10)
    for _ in range(3000):
        alpha, e = rng.uniform(0.05, 6), rng.uniform(1e-3, 0.4)
        low = alpha - e if alpha - e <= 1 else alpha / (1 + e)
        high = alpha + e if alpha + e <= 1 else alpha / (1 - e)
        if low <= 0:
            continue
        found, precision = zone_ratio(low, high)
        assert found == pytest.approx(alpha, abs=1e-9)
        assert precision == pytest.approx(e, abs=1e-9)
        assert zone_ratio(None, high, e)[0] == pytest.approx(alpha, abs=1e-9)
        assert zone_ratio(low, None, e)[0] == pytest.approx(alpha, abs=1e-9)


@pytest.mark.claim("08.16")
def test_refinement_helps_even_if_the_threshold_wavers() -> None:
    """Mean ratio error falls by far, as measured for e = 0.05 (0.45 e to 0.08 e)."""
    rng = np.random.default_rng(0)
    coarse_errors, fine_errors = [], []
    values = np.array([[1.0, 0.0], [0.0, 1.0]])
    for seed in range(150):
        alpha = rng.uniform(0.2, 2.0)
        user = NoisyUser([1.0, alpha], 0.05, fuzzy_band=0.2, random_state=seed)
        try:
            coarse = estimate_ratios(values, user)
            fine = refine_ratios(values, user, coarse, extra_queries=6)
        except ContradictionError:
            continue
        coarse_errors.append(abs(coarse.alpha_hat[0] - alpha) / 0.05)
        fine_errors.append(abs(fine.alpha_hat[0] - alpha) / 0.05)
    assert len(fine_errors) >= 140
    assert np.mean(fine_errors) < 0.5 * np.mean(coarse_errors)
