"""The numbers of the worked examples."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import SVC

from counterplay.defection import (
    ADAGD,
    FedAvg,
    FederationGame,
    HealthGauge,
    RationalAgent,
    SafeStep,
    Server,
    check_assumptions,
    instances,
    play,
)
from counterplay.defection.lab import IrrationalAgent, in_target
from counterplay.federated import Decision, Reports, RuleState


@pytest.mark.claim("05.12")
def test_ada_gd_never_stops_on_the_unbounded_example() -> None:
    c = instances.nonterminating_example()
    run = play(
        Server(ADAGD(0.05), c.w0, step_size=c.expected["eta"]),
        FederationGame(c.problem, c.eps, keep_every=1),
        rounds=100_000,
    )
    assert run.models is not None
    assert run.status == "max_rounds"
    assert run.n_defections == 0
    assert not (run["case"] == 3).any()
    entered = int(np.flatnonzero(run["predicted"][:, 0])[0])
    assert run["predicted"][entered:, 0].all()
    frozen = run.models[entered:, 1]
    assert np.abs(frozen - frozen[0]).max() <= 1e-12
    assert frozen[0] == pytest.approx(c.expected["frozen_w2"], abs=1e-6)
    assert run.w[0] > 14
    for r, w1 in c.expected["w1"].items():
        if r <= 100_000:
            assert run.models[r, 0] == pytest.approx(w1, abs=5e-3)
    assert run.loss[0] == pytest.approx(c.expected["frozen_loss"], abs=1e-6)
    # the progress lemma holds all the way, so this is no accident of a bad step
    F = run.losses.mean(axis=1)
    size = (run["step_length"] / c.expected["eta"]) ** 2
    promised = c.expected["eta"] / 2 * np.where(run["case"] == 2, size, size / 2)
    assert (F[1:] - F[:-1] + promised).max() <= 1e-12


@pytest.mark.claim("05.12")
def test_the_unbounded_example_satisfies_the_printed_hypotheses() -> None:
    c = instances.nonterminating_example()
    points = np.random.default_rng(0).uniform([-6.0, -1.0], [30.0, 8.0], size=(150, 2))
    report = check_assumptions(c.problem, points, 0, pairs=2000)
    assert report.holds
    assert [a.holds for a in report.assumptions] == [True] * 5


@pytest.mark.claim("05.12")
def test_safe_step_does_not_stop_there_either() -> None:
    c = instances.nonterminating_example()
    run = play(
        Server(SafeStep(0.05), c.w0, step_size=1 / 6),
        FederationGame(c.problem, c.eps),
        rounds=5_000,
    )
    assert run.status == "max_rounds"
    assert run.loss[0] == pytest.approx(0.15, abs=1e-6)
    assert run.loss[1] > 1.0


class FixedWeights:
    """Weights a and 1 - a for agents 0 and 1."""

    def __init__(self, a: float) -> None:
        self.weights = np.array([a, 1.0 - a])

    def decide(self, reports: Reports, eta: float, state: RuleState) -> Decision:
        step = reports.gradients.combine(-eta * self.weights[reports.ids])
        return Decision(step, "running", 0, np.zeros(len(reports.ids), dtype=bool))


@pytest.mark.claim("05.13")
@pytest.mark.parametrize(
    ("a", "eta"), [(k / 10, 0.01) for k in range(10)] + [(0.0, 0.001), (0.5, 0.001)]
)
def test_every_fixed_weighting_loses_agent_zero(a: float, eta: float) -> None:
    c = instances.non_heterogeneous_example()
    run = play(
        Server(FixedWeights(a), c.w0, step_size=eta),
        FederationGame(c.problem, c.eps),
        rounds=30_000,
    )
    first, second = run.defect_round
    assert 0 < first < second
    assert 1.0 <= run.loss[0] <= 1.05
    assert run.loss[1] <= 0.05
    assert run.w == pytest.approx(c.expected["final"], abs=0.02)
    assert run.harmful


@pytest.mark.claim("05.13")
def test_without_defections_the_same_problem_is_solved() -> None:
    c = instances.non_heterogeneous_example()
    stay = RationalAgent(0.05, behaviour=IrrationalAgent())
    run = play(
        Server(FedAvg(), [-3.0, 0.0], step_size=0.01), FederationGame(c.problem, stay), rounds=797
    )
    assert in_target(run.loss, 0.05)
    assert not in_target(run.losses[-2], 0.05)


@pytest.mark.claim("05.13")
def test_ada_gd_keeps_both_and_creeps() -> None:
    c = instances.non_heterogeneous_example()
    gauge = HealthGauge(every=1000)
    run = play(
        Server(ADAGD(0.05), c.w0, step_size=0.01, watch=[gauge]),
        FederationGame(c.problem, c.eps),
        rounds=6_000,
    )
    assert run.status in ("stalled", "max_rounds")
    assert run.n_defections == 0
    assert run.loss[1] > 5
    assert run["step_length"][-1] < 0.05 * run["step_length"][0]
    assert gauge.last.parallel is not None
    assert gauge.last.parallel[2] < 5.0


@pytest.mark.claim("05.14")
@pytest.mark.parametrize("eta", [1.0, 0.5, 0.05])
def test_benign_departures(eta: float) -> None:
    c = instances.benign_example()
    run = play(Server(FedAvg(), c.w0, step_size=eta), FederationGame(c.problem, c.eps))
    assert tuple(run.defect_round) == c.expected["defect_rounds"][eta]
    assert (run.loss <= c.eps).all()
    assert not run.harmful
    if eta in c.expected["loss"]:
        assert run.loss == pytest.approx(c.expected["loss"][eta], abs=5e-6)


@pytest.mark.claim("05.14")
def test_benign_classification_form() -> None:
    rng = np.random.default_rng(0)
    radius, turn = np.sqrt(rng.random(200_000)), rng.uniform(0, 2 * np.pi, 200_000)
    disc = np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=1)
    for theta in (0.2, 1.0, 2.0):
        normal = np.array([np.cos(theta), np.sin(theta)])
        wrong = ((disc @ normal <= 0) != (disc[:, 0] <= 0)).mean()
        assert wrong == pytest.approx(theta / np.pi, abs=0.006)  # five standard errors
        ends = np.array([[1.0, 0.0], [-1.0, 0.0]])
        other = ((ends @ normal <= 0) != (ends[:, 0] <= 0)).mean()
        assert other == float(theta >= np.pi / 2)


@pytest.mark.claim("05.15")
def test_identical_agents_stall() -> None:
    c = instances.identical_agents()
    gauge = HealthGauge()
    run = play(
        Server(ADAGD(0.05), c.w0, step_size=0.01, watch=[gauge]), FederationGame(c.problem, c.eps)
    )
    assert run.status == "stalled"
    assert len(run) == c.expected["rounds"]
    assert run.loss == pytest.approx(c.expected["stalled_at"], abs=1e-12)
    assert np.isfinite(run.w).all()
    assert gauge.last.parallel is not None
    assert gauge.last.parallel[:2] == ("agent 0", "agent 1")


@pytest.mark.claim("05.16")
def test_two_silo_errors_are_exact() -> None:
    silos = instances.two_silo_cartoon()
    red, blue, union = silos.normals
    assert [silos.error(red, "red"), silos.error(blue, "blue")] == [0.0, 0.0]
    assert [silos.error(red, "blue"), silos.error(blue, "red")] == [0.2, 0.2]
    assert (silos.error(red, "red") + silos.error(red, "blue")) / 2 == 0.1
    assert [silos.error(union, "red"), silos.error(union, "blue")] == [0.0, 0.0]


@pytest.mark.claim("05.16")
def test_the_normals_are_those_of_a_support_vector_machine() -> None:
    silos = instances.two_silo_cartoon()
    sets = [
        (silos.red, silos.red_labels),
        (silos.blue, silos.blue_labels),
        (np.vstack([silos.red, silos.blue]), np.concatenate([silos.red_labels, silos.blue_labels])),
    ]
    for (X, y), normal in zip(sets, silos.normals):
        machine = SVC(kernel="linear", C=1e6).fit(X, y)
        angle = np.degrees(np.arctan2(machine.coef_[0, 1], machine.coef_[0, 0]))
        assert angle == pytest.approx(normal, abs=1e-3)
        assert machine.intercept_[0] == pytest.approx(0.0, abs=1e-3)


@pytest.mark.claim("05.01")
@pytest.mark.parametrize("eta", [1.0, 0.25, 0.75])
def test_exact_values(eta: float) -> None:
    c = instances.bad_init_example()
    run = play(Server(FedAvg(), c.w0, step_size=eta), FederationGame(c.problem, c.eps), rounds=50)
    expected = c.expected["runs"][eta]
    assert run.w.tolist() == list(expected["w"])
    assert run.defect_round.tolist() == list(expected["defect_rounds"])
    if eta == 0.75:
        assert run.status == "max_rounds"
        assert run.loss.mean() == expected["mean_loss"]
    else:
        assert run.loss.tolist() == list(expected["loss"])


@pytest.mark.parametrize("name", ["benign_example", "nonterminating_example",
                                  "non_heterogeneous_example", "identical_agents"])  # fmt: skip
def test_gradients_of_the_constructions_are_derivatives(name: str) -> None:
    problem = getattr(instances, name)().problem
    rng, h = np.random.default_rng(0), 1e-6
    for w in rng.normal(size=(30, 2)) * 3.0:
        numeric = np.stack(
            [(problem.losses(w + h * e) - problem.losses(w - h * e)) / (2 * h) for e in np.eye(2)],
            axis=1,
        )
        assert problem.gradients(w) == pytest.approx(numeric, abs=1e-4)
