"""ADA-GD: the theorem, its lemmas at every round, and mutants that must be caught."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from counterplay.core.validation import BoolArray, FloatArray
from counterplay.defection import ADAGD, FederationGame, LocalWork, Server, bounds, instances, play
from counterplay.defection.instances import Construction
from counterplay.defection.lab import FederationTranscript, check_span
from counterplay.federated import Reports, RuleState
from counterplay.federated.history import RoundEvent
from counterplay.federated.projection import project_out
from counterplay.federated.stack import NumpyStack, Stack, Vector
from defection.problems import Case, ada_gd_case, safe_step_case

PROBLEMS = range(100)
WATCHED = range(25)


@pytest.mark.claim("05.05")
def test_theorem_on_a_hundred_random_problems() -> None:
    for seed in PROBLEMS:
        case = ada_gd_case(seed)
        eps, loss = case.construction.eps, case.run.loss
        assert case.run.status == "converged"
        assert case.run.n_defections == 0
        assert (loss > eps + case.delta - 1e-9).all()
        assert (loss <= eps + 2 * case.delta + 1e-9).all()
        assert loss.mean() <= eps.mean() + 2 * case.delta + 1e-9


def smallest_surplus(c: Construction, run: FederationTranscript, delta: float) -> float:
    """min over time and agents of F_m(w_t) - min(F_m(w_0), eps_m + delta)."""
    floor = np.minimum(run.losses[0], c.eps + delta)
    return float((run.losses - floor).min())


@pytest.mark.claim("05.06")
@pytest.mark.parametrize("delta", [0.0, 0.05])
@pytest.mark.parametrize("eta", [0.05, 0.5, 5.0, 50.0, 500.0])
def test_nobody_leaves_at_any_step_size(eta: float, delta: float) -> None:
    for seed in range(28):
        c = any_step_problem(seed)
        run = play(
            Server(ADAGD(delta), c.w0, step_size=eta), FederationGame(c.problem, c.eps), rounds=250
        )
        assert smallest_surplus(c, run, delta) >= -1e-9
        assert run.n_defections == 0


def any_step_problem(seed: int) -> Construction:
    rng = np.random.default_rng([6, seed])
    return instances.random_overparameterised(M=2 + seed % 4, n=2, d=12, random_state=rng)


@pytest.mark.claim("05.07")
def test_progress_lemma_at_every_round() -> None:
    for seed in WATCHED:
        case = ada_gd_case(seed)
        run = case.run
        F = run.losses.mean(axis=1)
        M = len(case.construction.eps)
        assert (np.diff(F) < 0).all()
        # |step| = eta * min(|u|, 1), so min(|u|^2, 1) is known without looking inside the rule
        size = (run["step_length"] / case.eta) ** 2
        promised = case.eta / 2 * np.where(run["case"] == 2, size, size / M)
        assert (F[1:] - F[:-1] + promised).max() <= 1e-12
        assert {1, 2} >= set(run["case"].tolist())


@pytest.mark.claim("05.07")
def test_case_two_follows_the_mean_gradient() -> None:
    case = ada_gd_case(0)
    problem, run = case.construction.problem, case.run
    assert run.models is not None
    for r in np.flatnonzero(run["case"] == 2)[:50]:
        mean = problem.gradients(run.models[r]).mean(axis=0)
        step = run.models[r + 1] - run.models[r]
        cap = min(float(np.linalg.norm(mean)), 1.0) / float(np.linalg.norm(mean))
        assert step == pytest.approx(-case.eta * cap * mean, abs=1e-12)


@pytest.mark.claim("05.08")
def test_prediction_is_right_in_both_directions() -> None:
    checked = [0, 0]
    for seed in WATCHED:
        case = ada_gd_case(seed)
        problem, eps, delta = case.construction.problem, case.construction.eps, case.delta
        assert problem.H is not None
        assert case.eta <= math.sqrt(2 * delta / problem.H)
        assert case.run.models is not None
        for w in case.run.models[:: max(1, len(case.run.models) // 60)]:
            F, G = problem.oracle(w)
            decision = ADAGD(delta).decide(Reports(F, NumpyStack(G), eps), case.eta, RuleState())
            for m in range(len(F)):
                ahead = problem.losses(w - case.eta * G[m] / np.linalg.norm(G[m]))[m]
                if decision.predicted[m]:
                    assert ahead <= eps[m] + 2 * delta + 1e-12
                else:
                    assert ahead > eps[m] + delta - 1e-12
                checked[int(decision.predicted[m])] += 1
    assert min(checked) > 300


def deviation(case: Case) -> tuple[float, float]:
    """Largest cosine between a step and a predicted leaver's gradient, and span residual."""
    problem, run = case.construction.problem, case.run
    assert run.models is not None
    worst, outside = 0.0, 0.0
    for r in range(len(run)):
        G = problem.gradients(run.models[r])
        step = run.models[r + 1] - run.models[r]
        length = float(np.linalg.norm(step))
        coefficients = np.linalg.lstsq(G.T, step, rcond=None)[0]
        outside = max(outside, float(np.linalg.norm(step - coefficients @ G)) / length)
        D = G[run["predicted"][r]]
        if len(D):
            worst = max(worst, float((np.abs(D @ step) / np.linalg.norm(D, axis=1)).max()) / length)
    return worst, outside


@pytest.mark.claim("05.09")
def test_steps_are_orthogonal_to_leavers_and_in_the_span() -> None:
    # w_{t+1} - w_t carries the rounding of w itself, hence the tolerance on the difference
    for seed in range(10):
        worst, outside = deviation(ada_gd_case(seed))
        assert worst <= 1e-10
        assert outside <= 1e-8


@pytest.mark.claim("05.09")
@pytest.mark.parametrize("closeness", [1.0, 1e-3, 1e-5, 1e-7, 0.0])
def test_projection_is_exact_for_nearly_parallel_rows(closeness: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        base = rng.normal(size=40)
        rows = np.array([base, base + closeness * rng.normal(size=40), rng.normal(size=40)])
        rows *= np.exp(rng.normal(scale=3.0, size=(3, 1)))
        u = project_out(NumpyStack(rows), rng.normal(size=40))
        cosines = np.abs(rows @ u) / np.linalg.norm(rows, axis=1) / np.linalg.norm(u)
        assert cosines.max() <= 1e-12
        # nothing orthogonal to the rows is lost
        basis = np.linalg.svd(rows / np.linalg.norm(rows, axis=1, keepdims=True))[2]
        outside = rng.normal(size=37) @ basis[3:]
        # a direction of relative length 1e-7 is known to 1e-16 / 1e-7 only
        rounding = 1e-7 if 0.0 < closeness < 1e-6 else 1e-9
        assert project_out(NumpyStack(rows), outside) == pytest.approx(outside, abs=rounding)


@dataclass(frozen=True)
class MeanOfOthers(ADAGD):
    """Mutant: the mean instead of the sum over the agents outside D."""

    def _others(self, reports: Reports, moves: Stack, leaving: BoolArray) -> Vector:
        others = (~leaving).astype(np.float64)
        return moves.combine(others / others.sum())


@dataclass(frozen=True)
class Strict(ADAGD):
    """Mutant: strict inequality in the prediction."""

    def _predict(self, reports: Reports, eta: float, gram: FloatArray, moves: Stack) -> BoolArray:
        return np.asarray(
            reports.loss - eta * np.sqrt(np.diagonal(gram)) < reports.eps + self.delta
        )


@dataclass(frozen=True)
class NoCap(ADAGD):
    """Mutant: the full projected gradient, without the cap at length one."""

    def _capped(self, moves: Stack, u: Vector, eta: float, size: float) -> Any:
        length = math.sqrt(moves.dot(u, u))
        if length <= self.stall_tol * max(1.0, size):
            return u * 0.0, "stalled"
        return u * -eta, "running"


def broken_floors(rule: ADAGD, eta: float, instances_count: int = 20) -> int:
    """In how many steep instances a loss falls through its floor."""
    count = 0
    for seed in range(instances_count):
        rng = np.random.default_rng([10, seed])
        c = instances.random_overparameterised(
            M=5, n=2, d=12, tau=8.0, spread=8.0, random_state=rng
        )
        run = play(Server(rule, c.w0, step_size=eta), FederationGame(c.problem, c.eps), rounds=150)
        count += smallest_surplus(c, run, rule.delta) < -1e-9
    return count


@pytest.mark.claim("05.10")
def test_removing_the_cap_is_caught() -> None:
    caught = sum(broken_floors(NoCap(0.05), eta) for eta in (0.5, 1.0, 2.0))
    assert caught > 0
    assert sum(broken_floors(ADAGD(0.05), eta) for eta in (0.5, 1.0, 2.0)) == 0


def reference_trajectory(c: Construction, delta: float, eta: float, rounds: int) -> FloatArray:
    """Algorithm 5.2 as printed, with least squares for the projection."""
    w, path = np.array(c.w0), [np.array(c.w0)]
    for _ in range(rounds):
        F, G = c.problem.oracle(w)
        D = F - eta * np.linalg.norm(G, axis=1) <= c.eps + delta
        if D.all():
            break
        u = G[~D].sum(axis=0) if D.any() else G.mean(axis=0)
        if D.any():
            u = u - G[D].T @ np.linalg.lstsq(G[D].T, u, rcond=None)[0]
        length = float(np.linalg.norm(u))
        w = w - eta * min(length, 1.0) / length * u
        path.append(w)
    return np.array(path)


@pytest.mark.claim("05.10")
def test_mean_instead_of_sum_is_caught() -> None:
    rng = np.random.default_rng(3)
    eps = np.array([2.0, 0.2, 0.2])  # agent 0 is predicted early, so that two others remain
    c = instances.random_overparameterised(M=3, n=2, d=8, eps=eps, random_state=rng)
    expected = reference_trajectory(c, 0.05, 0.05, 4000)
    runs = {
        rule: play(
            Server(rule(0.05), c.w0, step_size=0.05),
            FederationGame(c.problem, c.eps, keep_every=1),
            rounds=4000,
        )
        for rule in (ADAGD, MeanOfOthers)
    }
    good, mutant = (np.asarray(runs[rule].models) for rule in (ADAGD, MeanOfOthers))
    assert good.shape == expected.shape
    assert np.abs(good - expected).max() <= 1e-9
    assert mutant.shape != expected.shape or np.abs(mutant - expected).max() > 1e-3


@pytest.mark.claim("05.10")
def test_strict_inequality_is_caught_by_the_exact_example() -> None:
    c = instances.uniform_fails_family(0.0, 1 / 16)
    ends = {
        rule: play(
            Server(rule(1 / 16), c.w0, step_size=1 / 64), FederationGame(c.problem, c.eps)
        ).w.tolist()
        for rule in (ADAGD, Strict)
    }
    assert ends[ADAGD] == list(c.expected["ada_gd"]["w"])
    assert ends[Strict] != ends[ADAGD]


@pytest.mark.claim("05.11")
def test_round_bounds_with_the_logged_sigma() -> None:
    ratios = []
    for seed in range(40):
        case = ada_gd_case(seed)
        h, p = case.run, case.construction.problem
        sigma = float(h.sigma_min.min())
        start = float(h.losses[0].mean())
        bound = bounds.adagd_rounds(p.n_agents, start, case.eta, sigma)
        assert len(h) <= bound
        ratios.append(len(h) / bound)
        safe = safe_step_case(seed).run
        assert p.H is not None
        assert p.L is not None
        limit = bounds.safe_step_rounds(
            p.n_agents, start, p.H, p.L, case.delta, float(safe.sigma_min.min())
        )
        assert safe.status == "converged"
        assert len(safe) <= limit
    assert max(ratios) > 1e-4  # the bound is a bound, not a formality


@pytest.mark.claim("05.11")
def test_logged_sigma_is_the_smallest_singular_value() -> None:
    case = ada_gd_case(1)
    run, problem = case.run, case.construction.problem
    assert run.models is not None
    for r in range(0, len(run), 10):
        exact = np.linalg.svd(problem.gradients(run.models[r]), compute_uv=False)[-1]
        assert run.sigma_min[r] == pytest.approx(exact, rel=1e-6)


def test_effective_lipschitz_constant_bounds_all_gradients() -> None:
    for seed in range(10):
        case = ada_gd_case(seed)
        problem, run = case.construction.problem, case.run
        assert problem.H is not None
        assert run.models is not None
        limit = bounds.effective_lipschitz(problem.n_agents, problem.H, float(run.losses[0].mean()))
        for w in run.models[::20]:
            assert np.linalg.norm(problem.gradients(w), axis=1).max() <= limit


def test_l_free_step_size_reaches_the_same_quality() -> None:
    for seed in range(15):
        case = ada_gd_case(seed)
        c, delta = case.construction, case.delta
        assert c.problem.H is not None
        eta = bounds.l_free_step_size(c.problem.n_agents, c.problem.H, float(c.eps.max()), delta)
        run = play(
            Server(ADAGD(delta), c.w0, step_size=eta),
            FederationGame(c.problem, c.eps),
            rounds=100_000,
        )
        assert run.status == "converged"
        assert (run.loss <= c.eps + 2 * delta + 1e-9).all()


def test_variants_agree_without_local_steps_and_differ_with_them() -> None:
    c = ada_gd_case(2).construction
    runs = [
        play(Server(ADAGD(0.1, variant), c.w0, step_size=0.1), FederationGame(c.problem, c.eps)).w  # type: ignore[arg-type]
        for variant in ("anchored", "naive", "exact")
    ]
    assert np.array_equal(runs[0], runs[1])
    assert np.array_equal(runs[0], runs[2])
    seen: list[RoundEvent] = []
    play(
        Server(ADAGD(0.1), c.w0, step_size=0.5, watch=[seen.append, check_span]),
        FederationGame(c.problem, c.eps, local_work=LocalWork(5)),
        rounds=30,
        random_state=0,
    )
    for event in seen:
        G, U = event.reports.gradients, event.reports.updates
        assert U is not None
        larger = np.sqrt(np.maximum(np.diagonal(G.gram()), np.diagonal(U.gram())))
        expected = event.reports.loss - 0.5 * larger <= event.reports.eps + 0.1
        assert np.array_equal(event.decision.predicted, expected)
