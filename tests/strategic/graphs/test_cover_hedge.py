"""Cover hedge: equal to brute force over all experts, and its regret."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from counterplay.core.finite_class import FiniteClass
from counterplay.errors import InvalidInputError, NotRealizableError
from counterplay.strategic import GraphApplicants, ManipulationGraph, bounds, play
from counterplay.strategic.lab import (
    FEATURES_FIRST_GRAPH,
    SOA,
    AgnosticCoverHedge,
    HedgeOverH,
    Red2OnlineFI,
    littlestone_dimension,
    stackelberg_regret,
    worst_case_mistakes,
)
from strategic.graph_problems import random_class, random_graph


def expert_predictions(rules, graph, nodes, flips) -> list[int]:
    """One expert, simulated on its own labels."""
    learner, dead, said = Red2OnlineFI(SOA(rules), exact=True), False, []
    for t, x in enumerate(nodes):
        bag = graph.closed(int(x))
        says = not dead and learner.decide(bag)
        label = int(says) ^ int(t in flips)
        if t in flips and not dead:
            try:
                learner.update(bag, label)
            except NotRealizableError:
                dead = True
        said.append(label)
    return said


@pytest.mark.claim("03.20")
@pytest.mark.parametrize(
    ("T", "M", "seed"), [(14, 3, 0), (10, 2, 1), (9, 3, 2), (8, 0, 3), (5, 5, 4)]
)
def test_merged_states_equal_brute_force(T: int, M: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rules, graph = random_class(rng, 8, 5), random_graph(rng, 5, 2)
    nodes, y = rng.integers(0, 5, size=T), rng.integers(0, 2, size=T)
    sets = [set(flips) for L in range(min(M, T) + 1) for flips in combinations(range(T), L)]
    table = np.array([expert_predictions(rules, graph, nodes, flips) for flips in sets])
    eta = math.sqrt(8 * math.log(len(sets)) / T) if len(sets) > 1 else 0.0
    learner = AgnosticCoverHedge(SOA(rules), M=M, horizon=T, random_state=0)
    assert learner.eta == pytest.approx(eta, abs=1e-12)
    weights = np.ones(len(sets))
    for t in range(T):
        play(learner, GraphApplicants(graph, [int(nodes[t])], [int(y[t])]))
        expected = float(weights @ table[:, t] / weights.sum())
        assert learner.probability == pytest.approx(expected, abs=1e-12)
        weights = weights * np.exp(-eta * (table[:, t] != y[t]))


@pytest.mark.claim("03.20")
def test_some_expert_reproduces_every_rule() -> None:
    rng = np.random.default_rng(5)
    for _ in range(30):
        rules, graph = random_class(rng, 8, 6), random_graph(rng, 6, 2)
        nodes = rng.integers(0, 6, size=25)
        induced = graph.induced(rules.labels)
        most = bounds.red2online_fi_mistakes(littlestone_dimension(rules).value, graph.k)
        for row in induced:
            learner, flips = Red2OnlineFI(SOA(rules), exact=True), set()
            for t, x in enumerate(nodes):
                bag = graph.closed(int(x))
                if learner.decide(bag) != bool(row[x]):
                    flips.add(t)
                    learner.update(bag, int(row[x]))
            assert len(flips) <= most
            assert expert_predictions(rules, graph, nodes, flips) == row[nodes].astype(int).tolist()


@pytest.mark.claim("03.20")
def test_regret_stays_below_its_bound_on_every_stream() -> None:
    rng = np.random.default_rng(6)
    T, M = 80, 6
    bound = bounds.cover_hedge_regret(T, M)
    log_n = math.log(sum(math.comb(T, L) for L in range(M + 1)))
    assert bound == pytest.approx(math.sqrt(T / 2 * log_n))
    largest, streams = -math.inf, 0
    while streams < 50:
        rules, graph = random_class(rng, 6, 6), random_graph(rng, 6, 2)
        if worst_case_mistakes(Red2OnlineFI(SOA(rules)), rules, graph, FEATURES_FIRST_GRAPH) > M:
            continue  # M must bound the mistakes on realizable streams
        streams += 1
        nodes = rng.integers(0, 6, size=T)
        truth = graph.induced(rules.labels[:1])[0][nodes]
        y = (truth ^ (rng.random(T) < 0.25)).astype(int)
        learner = AgnosticCoverHedge(SOA(rules), M=M, horizon=T, random_state=0)
        losses = []
        for x, label in zip(nodes.tolist(), y.tolist()):
            play(learner, GraphApplicants(graph, [x], [label]))
            losses.append(abs(learner.probability - label))  # expected loss of the draw
        regret = stackelberg_regret(losses, nodes, y, rules, graph)
        assert regret <= bound
        largest = max(largest, regret)
    assert largest > 0


@pytest.mark.claim("03.20")
def test_flips_look_at_the_closed_neighbourhood() -> None:
    # The learner accepts node 0 and rejects its only neighbour. Experts for T=2, M=1: keep, flip
    # round 1, flip round 2. The flip in round 1 must reject node 0, so two of three accept; with
    # the open neighbourhood of the source all three would.
    rules = FiniteClass.from_matrix([[1, 0], [0, 0]])
    graph = ManipulationGraph.from_lists([[1], []])
    learner = AgnosticCoverHedge(SOA(rules, tie=1), M=1, horizon=2, random_state=0)
    play(learner, GraphApplicants(graph, [0], [0]))
    assert learner.probability == pytest.approx(2 / 3, abs=1e-12)


@pytest.mark.claim("03.29")
def test_without_a_horizon_epochs_double_and_their_bounds_add_up() -> None:
    rng = np.random.default_rng(9)
    T, M = 100, 6
    bound = bounds.cover_hedge_doubling_regret(T, M)
    parts = [
        math.log(sum(math.comb(n, L) for L in range(min(M, n) + 1))) for n in 2 ** np.arange(7)
    ]
    assert bound == pytest.approx(sum(math.sqrt(2**i / 2 * p) for i, p in enumerate(parts)))
    for _ in range(15):
        rules, graph = random_class(rng, 5, 6), random_graph(rng, 6, 2)
        if worst_case_mistakes(Red2OnlineFI(SOA(rules)), rules, graph, FEATURES_FIRST_GRAPH) > M:
            continue
        nodes = rng.integers(0, 6, size=T)
        noise = rng.random(T) < 0.25
        y = (graph.induced(rules.labels[:1])[0][nodes] ^ noise).astype(int)
        learner = AgnosticCoverHedge(SOA(rules), M=M, random_state=0)
        losses, epochs = [], set()
        for x, label in zip(nodes.tolist(), y.tolist()):
            play(learner, GraphApplicants(graph, [x], [label]))
            losses.append(abs(learner.probability - label))
            epochs.add(learner.T)
        assert epochs == {1, 2, 4, 8, 16, 32, 64}
        assert stackelberg_regret(losses, nodes, y, rules, graph) <= bound


def test_an_epoch_is_a_fresh_learner() -> None:
    rng = np.random.default_rng(10)
    rules, graph = random_class(rng, 8, 5), random_graph(rng, 5, 2)
    nodes, y = rng.integers(0, 5, size=15), rng.integers(0, 2, size=15)
    endless = AgnosticCoverHedge(SOA(rules), M=2, random_state=0)
    fresh = AgnosticCoverHedge(SOA(rules), M=2, horizon=8, random_state=0)
    for t in range(15):  # epochs 1, 2, 4 and then 8
        play(endless, GraphApplicants(graph, [int(nodes[t])], [int(y[t])]))
        if t >= 7:
            play(fresh, GraphApplicants(graph, [int(nodes[t])], [int(y[t])]))
            assert endless.probability == pytest.approx(fresh.probability, abs=1e-12)


def test_long_horizons_need_few_states() -> None:
    rng = np.random.default_rng(7)
    rules, graph = random_class(rng, 6, 6), random_graph(rng, 6, 2)
    T = 300
    learner = AgnosticCoverHedge(SOA(rules), M=8, horizon=T, random_state=0)
    nodes = rng.integers(0, 6, size=T)
    y = rng.integers(0, 2, size=T)
    play(learner, GraphApplicants(graph, nodes, y))
    assert learner.n_states < 200
    with pytest.raises(InvalidInputError, match="horizon"):
        play(learner, GraphApplicants(graph, [0], [0]))


def test_hedge_over_rules_has_the_usual_regret() -> None:
    rng = np.random.default_rng(8)
    rules, graph = random_class(rng, 6, 6), random_graph(rng, 6, 2)
    T = 800
    nodes = rng.integers(0, 6, size=T)
    y = (graph.induced(rules.labels[:1])[0][nodes] ^ (rng.random(T) < 0.25)).astype(int)
    learner = HedgeOverH(rules, horizon=T, random_state=0)
    played = play(learner, GraphApplicants(graph, nodes, y))
    losses = (played["yhat"] != played["y"]).astype(float)
    bound = math.sqrt(T / 2 * math.log(len(rules))) + math.sqrt(T / 2 * math.log(1e6))
    assert stackelberg_regret(losses, nodes, y, rules, graph) <= bound
