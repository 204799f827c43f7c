"""Preference estimates and the improved regret bounds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import null_space

from counterplay.core.stats import loglog_slope
from counterplay.elicitation import (
    LinearPreferenceUser,
    PreferenceElicitor,
    answered_by,
    bounds,
    instances,
    plan,
)
from counterplay.elicitation.lab import (
    MDPOracle,
    PointSetOracle,
    SharedBases,
    basis_policies,
    nonnegative_preference,
    ratio_matrix,
    solve_preference,
    truncated_preference,
    truncation_delta,
    truncation_dimension,
)
from counterplay.errors import InvalidInputError
from elicitation.problems import unit


def sup_gap(oracle: MDPOracle | PointSetOracle, delta: np.ndarray) -> float:
    """Largest |<delta, V>| over all options, by two directions."""
    _, values = oracle.argmax(np.stack([delta, -delta]))
    return float(max(values[0] @ delta, -(values[1] @ delta)))


@pytest.mark.claim("08.09")
@pytest.mark.parametrize("seed", range(6))
def test_both_systems_have_the_same_minimum_norm_solution(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = instances.random_mdp(seed, k=5, rank=3 + seed % 3)
    oracle = MDPOracle(mdp)
    basis = basis_policies(oracle, oracle.argmax(np.eye(5))[1][0])
    alpha = rng.random(basis.d - 1) * 2
    w = solve_preference(basis.values, alpha)
    matrix = ratio_matrix(basis.values, alpha)
    assert np.abs(matrix @ w - np.eye(basis.d)[0]).max() <= 1e-10
    other = np.linalg.lstsq(matrix, np.eye(basis.d)[0], rcond=None)[0]
    values = oracle.argmax(rng.normal(size=(50, 5)))[1]
    assert np.abs(values @ (w - other)).max() <= 1e-9
    rows = np.linalg.qr(basis.values.T)[0]
    assert w == pytest.approx(rows @ (rows.T @ w), abs=1e-10)  # in the row space
    kernel = null_space(matrix)
    if kernel.size:
        shifted = w + kernel @ rng.normal(size=kernel.shape[1])
        assert np.abs(values @ (shifted - w)).max() <= 1e-9


@pytest.mark.claim("08.09")
def test_extents_down_to_1e_10_leave_no_residual() -> None:
    for eta in (1e-3, 1e-6, 1e-10):
        thin = instances.thin_direction(eta).values
        w = solve_preference(thin, [1.3, 0.7])
        assert np.abs(thin @ w - [1.0, 1.3, 0.7]).max() <= 1e-10


EPS_GRID = 10.0 ** -np.arange(1, 7)


@pytest.fixture(scope="module")
def linear_runs() -> list[dict[str, float]]:
    """Thesis and barycentric procedures on 25 random processes and six precisions."""
    runs = []
    rng = np.random.default_rng(0)
    for seed in range(25):
        mdp = instances.random_mdp(seed)  # k = 4, ten states, four actions, six steps
        w = unit(rng, 4)
        best = float(plan(mdp, w).scalar_values[0])
        for kind in ("thesis", "barycentric"):
            shared = SharedBases(mdp, kind=kind)
            for eps in EPS_GRID:
                result = answered_by(PreferenceElicitor(shared), LinearPreferenceUser(w, eps))
                estimate = result.estimate
                x = float(estimate.basis_values[0] @ w)
                alpha = estimate.basis_values[1:] @ w / x
                runs.append(
                    {
                        "kind": kind,
                        "eps": eps,
                        "d": len(alpha) + 1,
                        "x": x,
                        "E": float(np.abs(estimate.alpha_hat - alpha).max()),
                        "gap": x * sup_gap(shared.oracle, estimate.w_hat - w / x),
                        "regret": best - float(result.value @ w),
                        "certificate": result.regret_certificate,
                        "best": best,
                        "questions": result.n_queries,
                    }
                )
    return runs


@pytest.mark.claim("08.10")
def test_error_is_linear_in_the_precision_with_an_explicit_constant(
    linear_runs: list[dict[str, float]],
) -> None:
    thesis = [run for run in linear_runs if run["kind"] == "thesis"]
    for run in thesis:
        B = bounds.spread_factor(4, int(run["d"]))
        assert run["gap"] <= run["x"] * B * run["E"] + 1e-7
        assert run["regret"] <= bounds.regret_thesis_basis(4, int(run["d"]), run["eps"]) + 1e-9
    means = [np.mean([r["gap"] for r in thesis if r["eps"] == eps]) for eps in EPS_GRID]
    assert 0.9 <= loglog_slope(EPS_GRID, means).estimate <= 1.1


@pytest.mark.claim("08.11")
def test_barycentric_regret_has_no_exponential_factor(
    linear_runs: list[dict[str, float]],
) -> None:
    runs = [run for run in linear_runs if run["kind"] == "barycentric"]
    for run in runs:
        assert run["regret"] <= bounds.regret_barycentric(4, int(run["d"]), run["eps"]) + 1e-9
        assert run["gap"] <= run["x"] * 1.5 * (run["d"] - 1) * run["E"] + 1e-7


@pytest.mark.claim("08.27")
def test_certificate_of_the_guaranteed_procedure_holds(
    linear_runs: list[dict[str, float]],
) -> None:
    for run in linear_runs:
        assert run["regret"] <= run["certificate"] * run["best"] + 1e-9
    fine = [run["certificate"] for run in linear_runs if run["eps"] == 1e-6]
    assert max(fine) < 1e-3


@pytest.mark.claim("08.10")
@pytest.mark.filterwarnings("ignore::counterplay.errors.AssumptionWarning")  # eps above the best
def test_linear_bound_on_point_sets() -> None:
    rng = np.random.default_rng(3)
    for _ in range(150):
        k = int(rng.integers(2, 6))
        points = rng.random((15, k)) ** 2
        w, eps = unit(rng, k), 10 ** rng.uniform(-5, 0.5)
        shared = SharedBases(points, kind="thesis")
        result = answered_by(PreferenceElicitor(shared), LinearPreferenceUser(w, eps))
        d = len(result.estimate.basis_values)
        regret = (points @ w).max() - float(result.value @ w)
        assert regret <= bounds.regret_thesis_basis(k, d, eps) + 1e-9
        assert regret <= result.regret_certificate * (points @ w).max() + 1e-9


@pytest.mark.claim("08.13")
@pytest.mark.parametrize("eps", [1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9])
def test_truncated_estimator_pays_the_cube_root(eps: float) -> None:
    instance = instances.truncation_bias(eps)
    worth = instance.values @ instance.w
    user = LinearPreferenceUser(instance.w, eps)
    delta = truncation_delta("statement", k=2, d=2, scale=np.sqrt(2), eps=eps)
    truncated = answered_by(
        PreferenceElicitor(instance.values, estimator="truncated", delta=delta), user
    )
    regret = worth.max() - worth[truncated.index]
    assert truncated.estimate.d_used == 1
    assert regret == pytest.approx(instance.regret, rel=1e-9)
    assert regret / eps ** (1 / 3) == pytest.approx(0.79 * 2 ** (5 / 3), rel=0.03)
    full = answered_by(PreferenceElicitor(instance.values), user)
    assert worth[full.index] == worth.max()


@pytest.mark.claim("08.13")
def test_cube_root_ratio_converges() -> None:
    ratios = [instances.truncation_bias(e).regret / e ** (1 / 3) for e in 10.0 ** -np.arange(4, 13)]
    assert ratios == sorted(ratios)
    assert ratios[-1] == pytest.approx(2.508, abs=1e-3)


@pytest.mark.claim("08.13")
def test_any_solution_of_the_truncated_system_is_not_enough() -> None:
    points = np.array([[1, 0, 0], [0, 1, 0], [0.3, 0.3, 0.01], [0.9, 0.05, 0]])
    w = np.array([1.0, 0.5, 0.2])
    oracle = PointSetOracle(points)
    basis = basis_policies(oracle, points[0])
    alpha = basis.values[1:] @ w / (basis.values[0] @ w)
    w_hat, d_used = truncated_preference(basis.values, alpha, basis.extents, 0.05)
    assert d_used == 2
    worth = points @ w
    assert worth[oracle.argmax(w_hat)[0][0]] == worth.max()
    other = w_hat + np.array([0.0, 0.0, 100.0])
    assert basis.values[:2] @ other == pytest.approx(basis.values[:2] @ w_hat)
    assert worth.max() - worth[oracle.argmax(other)[0][0]] == pytest.approx(0.548, abs=1e-12)


@pytest.mark.claim("08.14")
def test_dropping_thin_directions_costs_what_the_lemma_says() -> None:
    rng = np.random.default_rng(4)
    truncated = 0
    for seed in range(25):
        k = 4
        mdp = instances.random_mdp(seed, k=k, n_states=6, horizon=4)
        oracle = MDPOracle(mdp)
        basis = basis_policies(oracle, oracle.argmax(np.eye(k))[1][seed % k])
        w = unit(rng, k)
        reference = w / (basis.values[0] @ w)
        delta = float(np.median(basis.extents[1:]))
        d_delta = truncation_dimension(basis.extents, delta)
        truncated += d_delta < basis.d
        # A^(full): the first d_delta rows with exact ratios, then an orthonormal completion.
        alpha = basis.values[1:d_delta] @ reference
        rows = ratio_matrix(basis.values[:d_delta], alpha)
        completion = null_space(basis.values[:d_delta]).T
        system = np.vstack([rows, completion])
        goal = np.zeros(len(system))
        goal[0] = 1.0
        solution = np.linalg.lstsq(system, goal, rcond=None)[0]
        limit = bounds.truncation_bias_gap(k, delta, float(np.linalg.norm(reference)))
        values = oracle.argmax(rng.normal(size=(60, k)))[1]
        assert np.abs(values @ (solution - reference)).max() <= limit + 1e-9
    assert truncated >= 20


def test_toy_of_the_appendix_has_the_stated_errors_and_its_feasible_variant_is_flat() -> None:
    for eta in (0.4, 0.1, 0.01, 0.001):
        toy = instances.epsilon_toy(eta, feasible=False)
        exact = toy.values[1:] @ toy.w
        error = 0.01
        shifted = solve_preference(toy.values, exact + error)
        assert shifted[1] - toy.w[1] == pytest.approx(error / 2 * (1 + 1 / eta))
        assert shifted[2] - toy.w[2] == pytest.approx(error / 2 * (1 - 1 / eta))
        feasible = instances.epsilon_toy(eta)
        e = np.array([0.003, -0.002])
        estimate = solve_preference(feasible.values, feasible.values[1:] @ feasible.w + e)
        off = (estimate - feasible.w)[1] - (estimate - feasible.w)[2]
        assert off == pytest.approx((e[1] - e[0] / 2) / eta)
        assert np.abs(feasible.values @ (estimate - feasible.w)).max() == pytest.approx(0.003)


def test_nonnegative_projection() -> None:
    rng = np.random.default_rng(11)
    for seed in range(10):
        mdp = instances.random_mdp(seed)
        w = rng.dirichlet(np.full(4, 0.2))
        w /= np.linalg.norm(w)
        user = LinearPreferenceUser(w, 0.02)
        result = answered_by(PreferenceElicitor(mdp, nonneg=True), user)
        assert result.estimate.w_hat.min() >= 0
        best = plan(mdp, w).scalar_values[0]
        assert best - result.value @ w <= result.regret_certificate * best + 1e-9
    assert nonnegative_preference([[1.0, 0.0], [1.0, 1.0]], [0.5], [0.1]) is None


def test_rules_for_delta() -> None:
    assert truncation_delta(0.3, k=3, d=3, scale=1.0) == 0.3
    proof = truncation_delta(
        "proof", k=3, d=3, scale=np.sqrt(3) * 10, eps=1e-3, norm_w=1.0, best_value=5.0
    )
    assert proof == pytest.approx(9.6, abs=0.05)
    with pytest.raises(InvalidInputError, match="delta='statement' needs quantities"):
        PreferenceElicitor(instances.random_mdp(0), estimator="truncated", delta="statement").ask()


@pytest.mark.parametrize("name", ["k", "d", "scale", "eps", "norm_w", "best_value"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, "3", None])
def test_no_threshold_follows_from_what_is_no_number(name: str, value: object) -> None:
    """``truncation_delta(k=nan)`` was nan."""
    given = {"k": 3, "d": 3, "scale": 2.0, "eps": 1e-3, "norm_w": 1.0, "best_value": 5.0}
    with pytest.raises(InvalidInputError, match=name):
        truncation_delta("proof", **{**given, name: value})  # type: ignore[arg-type]  # wrong


def test_huge_numbers_are_refused_instead_of_infinite() -> None:
    with pytest.raises(InvalidInputError, match="not finite"):
        truncation_delta("proof", k=3, d=3, scale=1e300, eps=1.0, norm_w=1.0, best_value=1.0)


@pytest.mark.parametrize(
    ("V", "row"),
    [([[0.0, 0.0], [0.0, 0.0]], 0), ([[1.0, 2.0], [2.0, 4.0]], 1), ([[1.0, 0.0], [0.0, 0.0]], 1)],
)
def test_dependent_rows_are_named(V: list[list[float]], row: int) -> None:
    """``truncated_preference`` with V all zero raised LinAlgError."""
    with pytest.raises(InvalidInputError, match=f"row {row} of V depends"):
        truncated_preference(V, [0.5], extents=[1.0, 1.0], delta=0.01)
    with pytest.raises(InvalidInputError, match="never independent"):
        solve_preference([[1.0], [2.0]], [0.5])
