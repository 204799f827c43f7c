"""Some starts are lost for every protocol, and equal weights fail whatever they look at."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from counterplay.core.validation import FloatArray
from counterplay.defection import ADAGD, FedAvg, FederationGame, SafeStep, Server, instances, play
from counterplay.defection.bounds import adagd_step_size
from counterplay.defection.lab import (
    adversarial_alpha,
    bad_region_linear,
    check_span,
    in_target,
    repair_against,
)
from counterplay.federated import Decision, Reports, RuleState

EPS = 1 / 16


@cache
def schedule(seed: int) -> FloatArray:
    """Positive steps of one size class between 1e-3 and 1e2, with jitter."""
    rng = np.random.default_rng([3, seed])
    base = np.exp(rng.uniform(np.log(1e-3), np.log(1e2)))
    return np.asarray(base * np.exp(rng.normal(scale=0.5, size=20_000)))


@pytest.mark.claim("05.03")
@pytest.mark.parametrize("with_nu", [False, True])
def test_the_adversary_defeats_fifty_schedules(with_nu: bool) -> None:
    left = 0
    for seed in range(50):
        etas = schedule(seed)
        rng = np.random.default_rng([4, seed])
        nu = np.exp(rng.normal(size=len(etas))) if with_nu else np.ones(len(etas))
        weights = iter(nu)
        rule = FedAvg(lambda reports, it=weights: next(it))
        alpha = adversarial_alpha(etas, EPS, nu)
        c = instances.uniform_fails_family(alpha, EPS)
        run = play(
            Server(rule, c.w0, step_size=etas), FederationGame(c.problem, c.eps), rounds=len(etas)
        )
        assert run.harmful
        assert run.loss.mean() >= 0.5 - 1e-12
        left += int(run.n_defections > 0)
    assert left >= 40  # the adversary is tested on runs in which somebody really leaves


@pytest.mark.claim("05.03")
def test_dyadic_example_is_exact() -> None:
    etas = np.concatenate([[10.0], np.full(99, 1 / 64)])
    assert adversarial_alpha(etas, EPS) == 4.0
    for alpha, loss in ((0.0, [1 / 16, 0.0]), (4.0, [1 / 16, 15 / 16])):
        c = instances.uniform_fails_family(alpha, EPS)
        run = play(
            Server(FedAvg(), c.w0, step_size=etas), FederationGame(c.problem, c.eps), rounds=100
        )
        assert run.w.tolist() == [-3.0, 1 / 16]
        assert run.loss.tolist() == loss
        assert run.defect_round.tolist() == [62, 2]
    assert run.loss.mean() == 0.5


@pytest.mark.claim("05.03")
def test_small_constant_steps_need_no_adversary() -> None:
    c = instances.uniform_fails_family(0.0, 0.05)
    run = play(Server(FedAvg(), c.w0, step_size=0.01), FederationGame(c.problem, c.eps))
    assert run.loss.mean() == pytest.approx(0.5225, abs=1e-9)


@pytest.mark.claim("05.03")
@pytest.mark.parametrize("alpha", [0.0, 0.5, 4.0, 100.0])
def test_polyak_solves_the_printed_family(alpha: float) -> None:
    c = instances.uniform_fails_family(alpha, EPS)
    run = play(
        Server(FedAvg("polyak"), c.w0, step_size=1.0), FederationGame(c.problem, c.eps), rounds=20
    )
    assert run.w.tolist() == [-alpha, 0.0]
    assert run.loss.tolist() == [0.0, 0.0]
    assert run.defect_round.tolist() == [3, 2]


class ValueDependent:
    """A deterministic uniform weight that depends on the reported losses."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([9, seed])
        self.a, self.b, self.c = np.exp(rng.normal(size=3))
        self.p, self.q = rng.uniform(0.2, 2.0, size=2)
        self.wave = rng.uniform(0.0, 0.9)

    def __call__(self, reports: Reports) -> float:
        first, last = float(reports.loss[0]), float(reports.loss[-1])
        value = self.a * first**self.p + self.b * last**self.q + 0.05 * self.c
        return value * (1.0 + self.wave * np.sin(7.0 * last))


@pytest.mark.claim("05.03")
def test_the_repaired_instance_defeats_rules_that_look_at_values() -> None:
    polyak = FedAvg("polyak")
    c = repair_against(polyak, 0.05)
    run = play(Server(polyak, c.w0, step_size=1.0), FederationGame(c.problem, c.eps), rounds=1000)
    assert run.loss[0] == 0.0
    assert run.loss[1] == pytest.approx(0.5247, abs=1e-3)
    assert run.loss[1] > c.expected["loss_after"] - 1e-12
    defeated = left = 0
    for seed in range(300):
        rule = FedAvg(ValueDependent(seed))
        c = repair_against(rule, 0.05, rounds=300)
        run = play(Server(rule, c.w0, step_size=1.0), FederationGame(c.problem, c.eps), rounds=300)
        defeated += run.harmful
        left += int(run.defect_round[1] >= 0)
    assert defeated == 300
    assert left >= 250


@pytest.mark.claim("05.03")
def test_the_repair_hides_until_the_departure() -> None:
    rule = FedAvg(ValueDependent(0))
    repaired, plain = repair_against(rule, 0.05), instances.uniform_fails_family(0.0, 0.05)
    runs = [
        play(
            Server(rule, c.w0, step_size=1.0),
            FederationGame(c.problem, c.eps, keep_every=1),
            rounds=300,
        )
        for c in (repaired, plain)
    ]
    left = int(runs[0].defect_round[1])
    assert left == int(runs[1].defect_round[1]) > 1
    first, second = (run.losses[: left - 1] for run in runs)
    assert np.array_equal(first, second)
    assert runs[0].losses[left - 1, 1] == 0.05


@pytest.mark.claim("05.04")
@pytest.mark.parametrize("alpha", [0.0, 4.0])
def test_ada_gd_is_exact_on_the_family(alpha: float) -> None:
    c = instances.uniform_fails_family(alpha, EPS)
    run = play(
        Server(ADAGD(EPS), c.w0, step_size=1 / 64, watch=[check_span]),
        FederationGame(c.problem, c.eps),
    )
    expected = c.expected["ada_gd"]
    counts = [int((run["case"] == k).sum()) for k in (2, 1)]
    assert run.status == "converged"
    assert counts == [expected["case_2"], expected["case_1"]]
    assert run.w.tolist() == list(expected["w"])
    assert run.loss.tolist() == list(expected["loss"])
    assert run.n_defections == 0
    safe = play(Server(SafeStep(EPS), c.w0, step_size=0.5), FederationGame(c.problem, c.eps))
    assert len(safe) == c.expected["safe_step"]["rounds"]
    assert safe.loss.tolist() == list(c.expected["safe_step"]["loss"])


@pytest.mark.claim("05.04")
def test_ada_gd_keeps_everybody_where_uniform_fails() -> None:
    for seed in range(50):
        alpha = adversarial_alpha(schedule(seed), EPS)
        c = instances.uniform_fails_family(alpha, EPS)
        run = play(
            Server(ADAGD(EPS), c.w0, step_size=1 / 64),
            FederationGame(c.problem, c.eps),
            rounds=50_000,
        )
        assert run.status == "converged"
        assert run.n_defections == 0
        assert in_target(run.loss, c.eps, 2 * EPS)


@pytest.mark.claim("05.04")
def test_smoothed_family() -> None:
    for alpha, rounds in ((0.0, 84), (4.0, 310)):
        c = instances.uniform_fails_family(alpha, 0.05, tau=0.25)
        run = play(
            Server(ADAGD(0.05), c.w0, step_size=adagd_step_size(2, 8.0, 2**0.5, 0.05)),
            FederationGame(c.problem, c.eps),
        )
        assert len(run) == rounds
        assert run.loss[0] == pytest.approx(0.13254, abs=5e-6)


class RandomSpan:
    """A legal protocol with arbitrary coefficients, also negative ones."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def decide(self, reports: Reports, eta: float, state: RuleState) -> Decision:
        M = len(reports.loss)
        step = reports.gradients.combine(eta * self.rng.normal(size=M) * 3.0)
        return Decision(step, "running", 0, np.zeros(M, dtype=bool))


def rules() -> list[Any]:
    fixed = [ADAGD(0.05), SafeStep(0.05), FedAvg(), FedAvg("polyak")]
    return fixed + [RandomSpan(seed) for seed in range(5)]


@pytest.mark.claim("05.01")
@pytest.mark.parametrize("schedule", range(20))
def test_no_protocol_leaves_the_line(schedule: int) -> None:
    c = instances.bad_init_example()
    rng = np.random.default_rng(schedule)
    etas = np.exp(rng.uniform(np.log(1e-3), np.log(10.0), size=60))
    for rule in rules():
        run = play(
            Server(rule, c.w0, step_size=etas),
            FederationGame(c.problem, c.eps, keep_every=1),
            rounds=60,
        )
        assert run.models is not None
        assert (run.models[:, 0] == 1.0).all()
        assert run.defect_round[1] == 1
        assert run.loss.mean() >= 0.5
        assert run.loss.max() >= 0.5
        assert run.harmful


@pytest.mark.claim("05.02")
def test_bad_region_against_reachability() -> None:
    eps, h = 0.1, 1e-3
    rng = np.random.default_rng(0)
    w = rng.uniform(-1.0, 1.0, size=(20_000, 2))
    w[:6_000, 1] = rng.uniform(-1.5 * eps, 1.5 * eps, size=6_000)
    w[6_000:12_000, 0] = w[6_000:12_000, 1] + rng.uniform(-1.5 * eps, 1.5 * eps, size=6_000)
    formula = bad_region_linear(w, eps)
    t = np.arange(-3.0, 3.0, h)
    brute = np.zeros(len(w), dtype=bool)
    for i, (a, b) in enumerate(w):
        first, second = abs(b) <= eps, abs(a - b) <= eps
        if first == second:  # both satisfied, or nobody: the two gradients reach every point
            continue
        # the agent who stays can move along its own gradient only
        x, y = (a + t, b - t) if first else (a + 0.0 * t, b + t)
        brute[i] = not ((np.abs(y) <= eps) & (np.abs(x - y) <= eps)).any()
    differ = formula != brute
    edge = bad_region_linear(w, eps + 3 * h) != bad_region_linear(w, eps - 3 * h)
    assert formula.sum() > 3_000
    assert not (differ & ~edge).any()
    assert differ.sum() <= 20
