"""SafeStep: its quadratic program, its guarantees, and the landing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from counterplay.core.validation import FloatArray
from counterplay.defection import (
    FederationGame,
    LocalWork,
    SafeStep,
    Server,
    bounds,
    instances,
    land,
    play,
)
from counterplay.defection.lab import in_target
from counterplay.errors import InfeasibleError, InvalidInputError
from counterplay.federated import Reports, RuleState
from counterplay.federated.landing import landing_step
from counterplay.federated.quadratic import nonnegative_dual
from counterplay.federated.stack import NumpyStack
from defection.problems import ada_gd_case, safe_step_case, setting


def random_program(seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rows, bounds (not positive) and a target point; often with dependent or zero rows."""
    rng = np.random.default_rng([22, seed])
    M, d = int(rng.integers(1, 12)), int(rng.integers(1, 20))
    G = rng.normal(size=(M, d)) * np.exp(rng.normal(size=(M, 1)))
    if seed % 3 == 0 and M > 1:
        G[-1] = G[0] * rng.uniform(0.1, 3.0)
    if seed % 5 == 0 and M > 2:
        G[1] = 0.0
    if seed % 7 == 0 and M > 3:
        G[2] = G[0] - G[-1]
    b = -np.abs(rng.normal(size=M)) * rng.choice([0.0, 0.01, 1.0], size=M)
    return G, b, rng.normal(size=d) * 3.0


def by_lawson_hanson(G: FloatArray, h: FloatArray) -> FloatArray:
    """min |x| s.t. G x >= h, from a nonnegative least-squares problem."""
    E = np.vstack([G.T, h])
    f = np.zeros(len(E))
    f[-1] = 1.0
    u, _ = nnls(E, f, maxiter=10_000)
    r = E @ u - f
    return np.asarray(-r[:-1] / r[-1])


@pytest.mark.claim("05.22")
def test_dual_solver_against_least_distance_programming() -> None:
    for seed in range(400):
        G, b, s0 = random_program(seed)
        h = b - G @ s0
        lam = nonnegative_dual(G @ G.T, h)
        s = s0 + G.T @ lam
        assert (lam >= 0).all()
        assert (G @ s >= b - 1e-10 * (1 + np.linalg.norm(G, axis=1))).all()
        assert s == pytest.approx(s0 + by_lawson_hanson(G, h), abs=1e-8)


@pytest.mark.claim("05.22")
def test_dual_solver_against_a_convex_solver() -> None:
    cvxpy = pytest.importorskip("cvxpy")
    for seed in range(12):
        G, b, s0 = random_program(seed)
        s = cvxpy.Variable(len(s0))
        program = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(s - s0)), [G @ s >= b])
        program.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
        ours = s0 + G.T @ nonnegative_dual(G @ G.T, b - G @ s0)
        assert np.sum((ours - s0) ** 2) == pytest.approx(program.value, abs=1e-8, rel=1e-8)
        assert ours == pytest.approx(s.value, abs=1e-5)  # the solver stops on the value


@pytest.mark.claim("05.22")
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 8), st.integers(1, 8))
def test_optimality_conditions(seed: int, M: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    G = rng.integers(-2, 3, size=(M, d)).astype(float)  # many ties and dependent rows
    room = rng.integers(0, 3, size=M) / 2.0
    s0 = rng.integers(-3, 4, size=d).astype(float)
    lam = nonnegative_dual(G @ G.T, -room - G @ s0)
    s = s0 + G.T @ lam
    assert (lam >= 0).all()
    assert (G @ s >= -room - 1e-9).all()
    assert np.abs(lam * (G @ s + room)).max() <= 1e-8


@pytest.mark.claim("05.22")
def test_impossible_demands_are_named() -> None:
    with pytest.raises(InfeasibleError):
        nonnegative_dual(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([1.0, 1.0]))
    with pytest.raises(InfeasibleError):
        nonnegative_dual(np.zeros((1, 1)), np.ones(1))


@pytest.mark.claim("05.22")
@pytest.mark.parametrize("cap", [None, "step_size", 0.05])
def test_step_keeps_every_constraint_with_and_without_local_steps(cap: object) -> None:
    for seed in range(200):
        G, b, _ = random_program(seed)
        rng = np.random.default_rng(seed)
        eps = np.full(len(b), 0.1)
        rule = SafeStep(0.05, cap=cap)  # type: ignore[arg-type]
        for updates in (None, NumpyStack(G + 0.3 * rng.normal(size=G.shape))):
            loss = eps + 0.05 - b
            state = RuleState(per_party=dict(enumerate((loss + 1.0).tolist())))
            reports = Reports(loss, NumpyStack(G), eps, updates=updates)
            decision = rule.decide(reports, 0.7, state)
            assert (G @ decision.step >= b - 1e-10 * (1 + np.linalg.norm(G, axis=1))).all()
            if cap == "step_size":
                assert np.linalg.norm(decision.step) <= 0.7 + 1e-12


@pytest.mark.claim("05.27")
@pytest.mark.parametrize("eta", [0.05, 1.0, 20.0, 500.0])
def test_nobody_falls_below_the_floor_at_any_step_size(eta: float) -> None:
    for seed in range(15):
        c, delta = setting(seed)
        run = play(
            Server(SafeStep(delta), c.w0, step_size=eta),
            FederationGame(c.problem, c.eps),
            rounds=300,
        )
        floor = c.eps + np.minimum(delta, run.losses[0] - c.eps)
        assert (run.losses >= floor - 1e-9).all()
        assert run.n_defections == 0


@pytest.mark.claim("05.27")
def test_progress_and_target() -> None:
    for seed in range(40):
        case = safe_step_case(seed)
        run = case.run
        H = case.construction.problem.H
        assert H is not None
        F = run.losses.mean(axis=1)
        promised = (1 / case.eta - H / 2) * run["step_length"] ** 2
        assert (F[1:] - F[:-1] + promised).max() <= 1e-12
        assert case.run.status == "converged"
        assert in_target(case.run.loss, case.construction.eps, 2 * case.delta)


@pytest.mark.claim("05.27")
def test_fewer_rounds_than_ada_gd() -> None:
    ratios = [
        len(ada_gd_case(seed).run) / max(len(safe_step_case(seed).run), 1) for seed in range(40)
    ]
    assert float(np.median(ratios)) > 2.0


@pytest.mark.claim("05.27")
@pytest.mark.parametrize("eta", [0.01, 1.0])
def test_parallel_gradients_stop_safe_step_at_the_floor(eta: float) -> None:
    c = instances.identical_agents()
    run = play(
        Server(SafeStep(0.05), c.w0, step_size=eta), FederationGame(c.problem, c.eps), rounds=5000
    )
    assert run.status == "stalled"
    assert run.loss == pytest.approx([0.55, 0.55], abs=1e-9)
    assert run.n_defections == 0


def test_local_steps_with_full_anchors_keep_everybody() -> None:
    for seed in range(10):
        c, delta = setting(seed)
        server = Server(SafeStep(delta, cap="step_size"), c.w0, step_size=0.5)
        game = FederationGame(c.problem, c.eps, local_work=LocalWork(5, batch_size=1))
        run = play(server, game, rounds=400, random_state=seed)
        assert run.n_defections == 0


@pytest.mark.claim("05.23")
def test_certified_landings_satisfy_everybody() -> None:
    landed = {1e-2: 0, 1e-3: 0, 1e-4: 0}
    for delta in landed:
        for seed in range(25):
            rng = np.random.default_rng([23, seed])
            c = instances.random_overparameterised(M=4, n=2, d=12, delta=delta, random_state=rng)
            assert c.problem.H is not None
            run = play(
                Server(SafeStep(delta), c.w0, step_size=1 / c.problem.H),
                FederationGame(c.problem, c.eps),
                rounds=3000,
            )
            landing = land(c.problem, run.w, c.eps)
            landed[delta] += landing.certified
            if landing.certified:
                assert (c.problem.losses(landing.w) <= c.eps + 1e-12).all()
            else:
                assert np.array_equal(landing.w, run.w)
    assert landed[1e-4] == 25
    assert landed[1e-2] <= landed[1e-3] <= landed[1e-4]


@pytest.mark.claim("05.23")
def test_landing_refuses_what_it_cannot_certify() -> None:
    c, _ = setting(0)
    far = land(c.problem, c.w0, c.eps)
    assert not far.certified
    assert np.array_equal(far.w, c.w0)
    same = instances.identical_agents()
    assert "dependent" in land(same.problem, [1.05, 1.0], same.eps).reason
    bad = instances.bad_init_example()
    with pytest.raises(InvalidInputError, match="smoothness"):
        land(bad.problem, [1.0, 1.0], bad.eps)


@pytest.mark.claim("05.23")
def test_closed_form_is_the_fixed_point() -> None:
    for seed in range(30):
        rng = np.random.default_rng([24, seed])
        G = rng.normal(size=(3, 8))
        excess = rng.uniform(0.0, 0.05, size=3)
        H = float(rng.uniform(0.1, 2.0))
        K, mu = G @ G.T, 0.0
        for _ in range(500):
            s = -G.T @ np.linalg.solve(K, excess + mu)
            mu = 0.5 * H * float(s @ s)
        step, _ = landing_step(Reports(excess + 0.1, NumpyStack(G), np.full(3, 0.1)), H)
        if np.isfinite(mu) and mu < 1e3:
            assert step is not None
            assert step == pytest.approx(s, abs=1e-10)


@pytest.mark.claim("05.28")
def test_landing_always_exists_below_the_margin() -> None:
    for seed in range(300):
        rng = np.random.default_rng([28, seed])
        M = int(rng.integers(1, 7))
        G = rng.normal(size=(M, 9)) * np.exp(rng.normal(size=(M, 1)))
        H = float(np.exp(rng.normal()))
        sigma = float(np.linalg.svd(G, compute_uv=False)[-1])
        delta = bounds.landing_margin(M, H, sigma) * (1 - 1e-9)  # at the margin roots coincide
        worst = rng.random() < 0.5
        excess = np.full(M, 2 * delta) if worst else rng.uniform(0, 2 * delta, size=M)
        step, reason = landing_step(Reports(excess + 0.3, NumpyStack(G), np.full(M, 0.3)), H)
        assert step is not None, reason
        certificate = excess + G @ step + 0.5 * H * float(step @ step)
        assert certificate.max() <= 1e-9 * max(1.0, delta)
