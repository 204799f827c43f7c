"""Benchmark, basis, ratios and their guarantees."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.elicitation import (
    LinearPreferenceUser,
    PreferenceElicitor,
    answered_by,
    bounds,
    instances,
    plan,
)
from counterplay.elicitation.comparisons import Answer, Option
from counterplay.elicitation.lab import (
    MDPOracle,
    PointSetOracle,
    barycentric_basis,
    basis_policies,
    estimate_ratios,
    find_benchmark,
    policy_value,
    solve_preference,
    spanner_coefficients,
)
from elicitation.problems import unit


class CountingUser(LinearPreferenceUser):
    def __init__(self, w: np.ndarray, eps: float) -> None:
        super().__init__(w, eps)
        self.count = 0

    def compare(self, first: Option, second: Option) -> Answer:
        self.count += 1
        return super().compare(first, second)


@pytest.mark.claim("08.03")
@pytest.mark.parametrize("k", [1, 2, 4, 6])
def test_benchmark_uses_k_minus_1_questions_and_loses_at_most_eps(k: int) -> None:
    rng = np.random.default_rng(k)
    for _ in range(60):
        oracle = PointSetOracle(rng.random((30, k)))
        w = unit(rng, k)
        eps = 10 ** rng.uniform(-4, 1)
        user = CountingUser(w, eps)
        found = find_benchmark(oracle, user)
        assert user.count == found.n_queries == k - 1 == bounds.benchmark_questions(k)
        _, single = oracle.argmax(np.eye(k))
        assert found.value @ w >= (single @ w).max() - eps - 1e-12


@pytest.mark.claim("08.04")
def test_benchmark_has_a_fair_share_of_the_best_value() -> None:
    rng = np.random.default_rng(0)
    checked = 0
    for seed in range(60):
        k = int(rng.integers(2, 6))
        mdp = instances.random_mdp(seed, k=k, n_states=6, horizon=4)
        w = unit(rng, k)
        best = float(plan(mdp, w).scalar_values[0])
        eps = best / (2 * k) * rng.uniform(0.01, 1.0)
        x = find_benchmark(MDPOracle(mdp), LinearPreferenceUser(w, eps)).value @ w
        assert x >= bounds.benchmark_share(k) * best - 1e-12
        checked += 1
    assert checked == 60


@pytest.mark.claim("08.05")
@pytest.mark.parametrize(("k", "rank"), [(5, 2), (6, 3), (4, 4), (5, 1), (3, 3)])
@pytest.mark.parametrize("complement", ["svd", "random"])
def test_basis_calls_orthogonality_extents_and_rank(k: int, rank: int, complement: str) -> None:
    mdp = instances.random_mdp(k * 10 + rank, k=k, rank=rank)
    oracle = MDPOracle(mdp)
    _, single = oracle.argmax(np.eye(k))
    for seed in range(3):
        oracle.n_calls = k
        basis = basis_policies(oracle, single[0], complement=complement, random_state=seed)
        assert basis.d == rank
        assert oracle.n_calls == bounds.basis_oracle_calls(k, rank)
        for i in range(1, basis.d):
            assert np.abs(basis.values[:i] @ basis.directions[i]).max() <= 1e-10
            reached = abs(basis.directions[i] @ basis.values[i])
            assert reached == pytest.approx(basis.extents[i], abs=1e-12)


@pytest.mark.claim("08.05")
@pytest.mark.parametrize("complement", ["svd", "random"])
def test_no_policy_extends_further_than_the_basis_says(complement: str) -> None:
    """1,000 random policies, and 800 extreme ones that random policies never come close to."""
    rng = np.random.default_rng(1)
    k = 4
    mdp = instances.random_mdp(11, k=k)
    oracle = MDPOracle(mdp)
    _, single = oracle.argmax(np.eye(k))
    probabilities = rng.random((1000, mdp.H, mdp.n_states, mdp.n_actions)) ** 4
    probabilities *= mdp.action_mask
    probabilities /= probabilities.sum(axis=3, keepdims=True)
    values = np.array([policy_value(mdp, policy) for policy in probabilities])
    values = np.vstack([values, oracle.argmax(rng.normal(size=(800, k)))[1]])
    for seed in range(3):
        basis = basis_policies(oracle, single[seed], complement=complement, random_state=seed)
        for i in range(2, basis.d + 1):
            previous = basis.values[: i - 1]
            outside = np.linalg.svd(previous)[2][i - 1 :]
            lengths = np.linalg.norm(values @ outside.T, axis=1)  # the worst unit direction
            assert lengths.max() <= np.sqrt(k + 1 - i) * basis.extents[i - 1] + 1e-9


@pytest.mark.claim("08.06")
@pytest.mark.parametrize(
    ("w", "benchmark", "order", "questions", "alpha"),
    [
        ([1.0, 1.0, 1.0], 2, [2, 1, 3], 28, 0.42333984),
        ([1.0, 0.0, 0.0], 0, [0, 1, 3], 26, 0.12597656),
        ([0.0, 0.0, 1.0], 1, [1, 0, 3], 22, 0.66796875),
    ],
)
def test_single_objectives_do_not_span_but_the_basis_does(
    w: list[float], benchmark: int, order: list[int], questions: int, alpha: float
) -> None:
    bandit = instances.linear_dependence()
    _, single = MDPOracle(bandit).argmax(np.eye(3))
    assert np.linalg.matrix_rank(single, tol=1e-9) == 2
    result = answered_by(PreferenceElicitor(bandit, basis="thesis"), LinearPreferenceUser(w, 1e-3))
    estimate = result.estimate
    assert estimate.d_used == 3
    rewards = bandit.R[0]
    assert estimate.basis_values == pytest.approx(rewards[order], abs=1e-12)
    assert order[0] == benchmark
    assert result.n_queries == questions
    assert estimate.alpha_hat == pytest.approx([alpha, alpha], abs=5e-9)
    assert (rewards @ w).max() - result.value @ w == pytest.approx(0.0, abs=1e-12)


@pytest.mark.claim("08.06")
def test_naive_basis_of_single_objectives_misses_a_dimension() -> None:
    bandit = instances.linear_dependence()
    result = answered_by(
        PreferenceElicitor(bandit, basis="single"), LinearPreferenceUser([1.0, 1.0, 1.0], 1e-3)
    )
    assert result.estimate.d_used == 2


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


def test_every_question_is_counted() -> None:
    class Counting(LinearPreferenceUser):
        asked = 0

        def compare(self, first: object, second: object) -> Answer:
            self.asked += 1
            return super().compare(first, second)  # type: ignore[arg-type]  # passed on

    thin = instances.thin_direction(0.1)
    user = Counting(thin.w, thin.eps)
    found = estimate_ratios(thin.values, user)
    assert user.asked == found.n_queries == sum(ratio.n_queries for ratio in found.ratios)


def test_cap_on_questions_asks_the_widest_bracket_first() -> None:
    values = np.array([[1.0, 0.2, 0.1], [0.3, 0.9, 0.2], [0.2, 0.1, 0.8]])
    user = LinearPreferenceUser([1.0, 0.5, 0.4], 1e-6)
    for cap in range(12):
        found = estimate_ratios(values, user, max_queries=cap)
        assert found.n_queries <= cap
        widths = [ratio.high - ratio.low for ratio in found.ratios]
        assert max(widths) <= 2 * min(widths) + 1e-12
        truth = values[1:] @ user.w / (values[0] @ user.w)
        assert (np.abs(found.alpha_hat - truth) <= found.errors + 1e-12).all()


@pytest.mark.claim("08.11")
def test_barycentric_basis_has_small_coefficients_and_few_swaps() -> None:
    rng = np.random.default_rng(2)
    for seed in range(40):
        k = int(rng.integers(2, 7))
        oracle = PointSetOracle(np.random.default_rng(seed).random((40, k)) ** 3)
        V1 = oracle.argmax(np.eye(k))[1][0]
        C = 1.2 if seed % 2 else 1.5
        start = basis_policies(oracle, V1)
        before = oracle.n_calls
        basis = barycentric_basis(oracle, V1, C)
        rounds = basis.swaps + 1
        assert oracle.n_calls - before == start.n_calls + rounds * 2 * (basis.d - 1)
        assert basis.values[0] == pytest.approx(V1, abs=0)
        assert basis.swaps <= bounds.barycentric_swaps(k, basis.d, C)
        coefficients = basis.coefficients(oracle.X)[:, 1:]
        assert np.abs(coefficients).max() <= C + 1e-9
        reported = spanner_coefficients(oracle, basis)[1:]
        assert reported == pytest.approx(np.abs(coefficients).max(axis=0), abs=1e-9)
