"""Bases: extents, rank, small coefficients."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.elicitation import (
    LinearPreferenceUser,
    PreferenceElicitor,
    answered_by,
    bounds,
    instances,
)
from counterplay.elicitation.lab import (
    MDPOracle,
    PointSetOracle,
    SharedBases,
    barycentric_basis,
    basis_policies,
    policy_value,
    spanner_coefficients,
)


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


@pytest.mark.claim("08.12")
@pytest.mark.parametrize("d", range(5, 14))
def test_fibonacci_factor_is_real_and_one_swap_removes_it(d: int) -> None:
    instance = instances.fibonacci(d)
    assert instance.values.min() >= 0
    assert instance.values.max() <= 1
    worth = instance.values @ instance.w
    user = LinearPreferenceUser(instance.w, instance.eps)

    def axes(values: np.ndarray) -> np.ndarray:
        return np.eye(values.shape[1])[len(values) :]

    thesis = SharedBases(instance.values, kind="thesis", complement=axes)
    result = answered_by(PreferenceElicitor(thesis), user)
    regret = (worth.max() - worth[result.index]) / instance.eps
    assert regret == pytest.approx(bounds.fibonacci_regret(d, 1.0), rel=0.01)
    better = SharedBases(instance.values, kind="barycentric", C=2.0, complement=axes)
    repaired = answered_by(PreferenceElicitor(better), user)
    assert better.basis(repaired.estimate.benchmark_index).swaps == 1
    assert worth[repaired.index] == worth.max()
