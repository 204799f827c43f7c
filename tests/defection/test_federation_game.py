"""The protocol: who is asked, who is gone, local steps, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplay.core.validation import FloatArray, IntArray
from counterplay.defection import (
    ADAGD,
    FedAvg,
    FederationGame,
    FunctionProblem,
    LocalWork,
    MWFed,
    SafeStep,
    Server,
    instances,
    play,
)
from counterplay.defection.lab import FederatedProblem, ReportNoise, check_span
from counterplay.errors import AssumptionWarning, InvalidInputError, ProtocolError
from counterplay.federated import Reports, RuleState
from counterplay.federated.stack import NumpyStack
from defection.problems import linear_losses, setting

sys.path.insert(0, str(Path(__file__).parents[1]))

from scripts import run_python


@pytest.mark.claim("05.17")
def test_one_full_batch_local_step_is_uniform_aggregation_bit_for_bit() -> None:
    for seed in range(10):
        c, _ = setting(seed)
        plain = play(
            Server(FedAvg(), c.w0, step_size=0.3), FederationGame(c.problem, c.eps), rounds=200
        )
        local = play(
            Server(FedAvg(), c.w0, step_size=0.3),
            FederationGame(c.problem, c.eps, local_work=LocalWork(1)),
            rounds=200,
            random_state=0,
        )
        assert np.array_equal(plain.w, local.w)
        assert np.array_equal(plain.losses, local.losses)
        assert np.array_equal(plain.defect_round, local.defect_round)


@pytest.mark.claim("05.17")
@pytest.mark.parametrize("K", [2, 5, 10])
def test_local_steps_on_linear_losses_change_nothing(K: int) -> None:
    problem, w0 = linear_losses(), np.ones(4)
    one = play(
        Server(FedAvg(), w0, step_size=0.1),
        FederationGame(problem, 0.0, local_work=LocalWork(1)),
        rounds=20,
        random_state=0,
    )
    many = play(
        Server(FedAvg(), w0, step_size=0.1),
        FederationGame(problem, 0.0, local_work=LocalWork(K)),
        rounds=20,
        random_state=0,
    )
    assert np.abs(one.w - many.w).max() <= 1e-12
    full = LocalWork(K, rescale=False)
    sums = play(
        Server(FedAvg(), w0, step_size=0.1),
        FederationGame(problem, 0.0, local_work=full),
        rounds=20,
        random_state=0,
    )
    assert np.abs((sums.w - w0) - K * (one.w - w0)).max() <= 1e-12


@pytest.mark.claim("05.18")
def test_mw_fed_without_a_margin_is_fedavg() -> None:
    worst, different = 0.0, 0
    for seed in range(54):
        c, delta = setting(seed)
        runs = [
            play(
                Server(rule, c.w0, step_size=0.5),
                FederationGame(c.problem, c.eps, keep_every=1),
                rounds=150,
            )
            for rule in (FedAvg(), MWFed(gap=0.0), MWFed(gap=delta))
        ]
        plain, none, gap = (np.asarray(run.models) for run in runs)
        assert plain.shape == none.shape
        worst = max(worst, float(np.abs(plain - none).max()))
        different += plain.shape != gap.shape or float(np.abs(plain - gap).max()) > 1e-6
    assert worst <= 1e-12
    assert different >= 45


@pytest.mark.claim("05.18")
def test_minibatch_loads_of_mw_fed() -> None:
    rule, state = MWFed(growth=2.0, work=4, rounding="floor"), RuleState()
    reports = Reports(np.array([1.0, 5.0]), NumpyStack([[1.0], [1.0]]), np.array([2.0, 2.0]))
    rule.decide(reports, 1.0, state)
    assert rule.local_steps(np.arange(2), state).tolist() == [4, 4]
    rule.decide(reports, 1.0, state)  # agent 1 is above its target: weights 1 and 2 of 3
    assert rule.local_steps(np.arange(2), state).tolist() == [2, 5]


class Spy(FederatedProblem):
    """Writes down whose gradient was asked for in which round."""

    def __init__(self, inner: FederatedProblem) -> None:
        super().__init__(inner.n_agents, inner.dimension)
        self.inner = inner
        self.asked: list[list[int]] = []

    def oracle(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        raise AssertionError("the protocol must ask for losses and gradients separately")

    def losses(self, w: FloatArray) -> FloatArray:
        return self.inner.losses(w)

    def gradients(self, w: FloatArray, ids: IntArray | None = None) -> FloatArray:
        self.asked.append(list(range(self.n_agents)) if ids is None else ids.tolist())
        return self.inner.gradients(w, ids)


@pytest.mark.claim("05.19")
def test_leavers_are_never_asked_again() -> None:
    c, _ = setting(9)
    eps = np.array(c.eps)
    eps[1] = float(c.problem.losses(c.w0)[1])  # satisfied at once: the comparison is inclusive
    spy = Spy(c.problem)
    run = play(Server(FedAvg(), c.w0, step_size=0.2), FederationGame(spy, eps), rounds=3000)
    assert run.defect_round[1] == 1
    assert run.n_defections >= 2
    for r, asked in enumerate(spy.asked, start=1):
        gone = [m for m in range(len(eps)) if 0 <= run.defect_round[m] <= r]
        assert set(asked).isdisjoint(gone)
        assert asked == np.flatnonzero(run["active"][r - 1]).tolist()
    assert (np.diff(run["active"].astype(int), axis=0) <= 0).all()
    assert np.array_equal(run.workload, run["active"].sum(axis=0))


@pytest.mark.claim("05.19")
def test_model_freezes_when_all_have_left() -> None:
    c = instances.benign_example()
    run = play(Server(FedAvg(), c.w0, step_size=0.5), FederationGame(c.problem, c.eps), rounds=1000)
    assert run.status == "everybody_left"
    assert len(run) == int(run.defect_round.max()) - 1
    again = play(
        Server(FedAvg(), run.w, step_size=0.5), FederationGame(c.problem, c.eps), rounds=50
    )
    assert np.array_equal(again.w, run.w)
    assert len(again) == 0
    assert again.defect_round.tolist() == [1, 1]


@pytest.mark.claim("05.19")
def test_last_model_is_judged_but_not_shown() -> None:
    c = instances.benign_example()
    run = play(Server(FedAvg(), c.w0, step_size=1.0), FederationGame(c.problem, c.eps), rounds=1)
    assert run.loss[1] <= c.eps[1]
    assert run.defect_round.tolist() == [-1, -1]


def test_noise_breaks_the_guarantee_and_a_margin_repairs_it() -> None:
    left = {0.0: 0, 4.0: 0}
    for z in left:
        for seed in range(12):
            rng = np.random.default_rng([7, seed])
            c = instances.random_overparameterised(M=5, n=2, d=12, random_state=rng)
            run = play(
                Server(SafeStep(0.05, z=z), c.w0, step_size=1 / c.problem.H),
                FederationGame(c.problem, c.eps, noise=ReportNoise(loss=0.03, gradient=0.2)),
                rounds=300,
                random_state=seed,
            )
            left[z] += run.n_defections > 0
    assert left[0.0] >= 6
    assert left[4.0] <= left[0.0] - 5


def test_accuracies_are_of_everybody_also_of_those_who_left() -> None:
    c = instances.benign_example()
    run = play(
        Server(FedAvg(), c.w0, step_size=0.05),
        FederationGame(
            c.problem,
            c.eps,
            accuracy=lambda w: np.exp(-c.problem.losses(w)),
            population_accuracy=lambda w: w[0],
        ),
        rounds=60,
    )
    h = run
    assert h.acc is not None
    assert h.pop_acc is not None
    assert h.n_defections > 0
    assert np.array_equal(h.acc, np.exp(-h.losses))
    assert h.pop_acc[-1] == run.w[0]
    peak, final = h.peak_vs_final
    assert peak == h.acc.mean(axis=1).max()
    assert final == h.acc[-1].mean()
    assert h.disparity == pytest.approx(float(np.ptp(h.acc[-1])))
    assert "accuracy" in h.to_frame()
    assert (h.extra_workload == h.workload - h.workload.min()).all()


def test_rules_that_leave_the_span_are_caught() -> None:
    class Cheat(FedAvg):
        def decide(self, reports, eta, state):  # type: ignore[no-untyped-def]
            decision = super().decide(reports, eta, state)
            object.__setattr__(decision, "step", decision.step + 0.01)
            return decision

    c, _ = setting(0)
    with pytest.raises(ProtocolError, match="span"):
        play(
            Server(Cheat(), c.w0, step_size=0.1, watch=[check_span]),
            FederationGame(c.problem, c.eps),
            rounds=5,
        )


def test_bad_input_is_refused_in_plain_words() -> None:
    c, _ = setting(0)
    M = c.problem.n_agents

    def run(problem: FederatedProblem, rule: Any, w0: Any, agents: Any) -> None:
        play(Server(rule, w0, step_size=0.1), FederationGame(problem, agents), rounds=5)

    with pytest.raises(InvalidInputError, match="w0 must have shape"):
        run(c.problem, ADAGD(0.1), np.ones(2), 0.1)
    with pytest.raises(InvalidInputError, match="eps must be one number or one per agent"):
        run(c.problem, ADAGD(0.1), c.w0, np.ones(M + 1))
    with pytest.raises(InvalidInputError, match="eps must not be negative; agent 0"):
        run(c.problem, ADAGD(0.1), c.w0, [-0.1] + [0.1] * (M - 1))
    with pytest.raises(InvalidInputError, match="eps must be finite"):
        run(c.problem, ADAGD(0.1), c.w0, np.nan)
    with pytest.raises(InvalidInputError, match="step_size must be positive"):
        play(Server(ADAGD(0.1), c.w0, step_size=0.0), FederationGame(c.problem, 0.1), rounds=5)
    with pytest.raises(InvalidInputError, match="one per round"):
        play(
            Server(ADAGD(0.1), c.w0, step_size=[0.1, 0.1]), FederationGame(c.problem, 0.1), rounds=5
        )
    with pytest.raises(InvalidInputError, match="delta"):
        SafeStep(delta=0.0)
    wrong = FunctionProblem(lambda w: (np.ones(3), np.ones((2, 2))), 2, 2)
    with pytest.raises(InvalidInputError, match="one loss per agent"):
        wrong.losses(np.ones(2))
    explode = FunctionProblem(lambda w: (np.array([1.0, np.inf]), np.ones((2, 2))), 2, 2)
    with pytest.raises(InvalidInputError, match="loss of agent 1 is inf in round 1"):
        run(explode, FedAvg(), np.ones(2), 0.1)
    gradient = FunctionProblem(lambda w: (np.ones(2), np.array([[1.0], [np.nan]])), 2, 1)
    with pytest.raises(InvalidInputError, match="gradient of agent 1 is not finite in round 1"):
        run(gradient, FedAvg(), np.ones(1), 0.1)
    crowd = FunctionProblem(lambda w: (np.ones(3) + w[0], np.ones((3, 1))), 3, 1)
    with pytest.warns(AssumptionWarning, match="minimal heterogeneity is impossible"):
        run(crowd, SafeStep(0.1), np.ones(1), 0.1)


@pytest.mark.claim("05.29")
def test_the_area_needs_numpy_alone(tmp_path: Path) -> None:
    code = """
import sys
for name in ("scipy", "sklearn", "numba", "pandas", "matplotlib", "networkx", "torch", "flwr"):
    sys.modules[name] = None
import numpy as np
from counterplay.defection import ADAGD, FederationGame, SafeStep, Server, instances, land, play
from counterplay.defection.bounds import adagd_step_size
c = instances.random_overparameterised(random_state=0, delta=1e-3)
for rule in (ADAGD(0.05), SafeStep(1e-3)):
    run = play(Server(rule, c.w0, step_size=0.05), FederationGame(c.problem, c.eps))
    assert run.status == "converged" and run.n_defections == 0
assert land(c.problem, run.w, c.eps).certified
print("done")
"""
    assert run_python(["-c", code], tmp_path, 120).splitlines()[-1] == "done"
