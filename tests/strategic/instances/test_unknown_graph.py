"""Hard instances on unknown graphs: honest adversaries, and what their graphs cost."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterplay.core.setting import Setting
from counterplay.strategic import (
    instances,
    play,
)
from counterplay.strategic.lab import (
    FEATURES_AFTER_GRAPH,
    FEATURES_FIRST,
    SOA,
    Halving,
    Red2OnlinePMF,
    UnknownGraphOnline,
    UnknownGraphPACRealizable,
    probe,
    respond,
)
from strategic.graph_problems import (
    Recorder,
    perfect_rule,
)


@pytest.mark.claim("03.19")
@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_group_adversary_is_honest(n: int) -> None:
    instance = instances.group_singletons(n)
    adversary = instance.adversary()
    spy = Recorder(UnknownGraphOnline(SOA(instance.hypotheses), instance.graphs))
    played = play(spy, adversary)
    assert played.mistakes == n >= instance.expected["lower"]
    graph = adversary.final_graph()
    assert perfect_rule(played["x"], played["y"], instance.hypotheses, graph) is not None
    moves = [respond(rule, int(x), graph) for rule, x in zip(spy.rules, played["x"])]
    assert moves == played["report"].tolist()


@pytest.mark.claim("03.19")
@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_path_adversary_is_honest(n: int) -> None:
    instance = instances.path_AB_C(n)
    adversary = instance.adversary()
    spy = Recorder(Red2OnlinePMF(SOA(instance.hypotheses), n + 1))
    played = play(spy, adversary)
    assert played.mistakes == n >= instance.expected["lower"]
    i = min(adversary.alive)
    graph = instance.graphs.graph(i)
    assert perfect_rule(played["x"], played["y"], instance.hypotheses.select([i]), graph) == 0
    moves = [respond(rule, int(x), graph) for rule, x in zip(spy.rules, played["x"])]
    assert moves == played["report"].tolist()


def published_rules(groups, x, v, y) -> dict[str, np.ndarray]:
    """What three learners publish after the same sample: proper, cautious and improper."""
    n, nodes = groups.n, groups.graphs.n
    fit = UnknownGraphPACRealizable(groups.hypotheses, groups.graphs).fit(x, v, y)
    diagonal = np.zeros(nodes, dtype=bool)
    diagonal[[(j + 1) * n + j for j in range(n)]] = True  # one other group in every block
    return {
        "proper": groups.hypotheses.labels[fit.hypothesis],
        "nobody": np.zeros(nodes, dtype=bool),
        "diagonal": diagonal,
    }


@pytest.mark.claim("03.28")
def test_few_samples_leave_every_learner_with_loss_eps() -> None:
    groups = instances.sampled_groups(16, 0.05)
    enough = math.ceil(groups.graphs.log_size / math.log(2) / 0.05)
    assert (groups.few, enough) == (39, 1308)
    bad = dict.fromkeys(("proper", "nobody", "diagonal"), 0)
    for seed in range(200):
        x, v, y = groups.sample(groups.few, seed)
        for name, rule in published_rules(groups, x, v, y).items():
            bad[name] += groups.worst_case(rule, x)[2] >= 0.05
    assert min(bad.values()) >= 100  # constant probability; the proof gives one half
    for seed in range(200):
        x, v, y = groups.sample(enough, seed)
        assert set(range(16)) <= set(x.tolist())
        for rule in published_rules(groups, x, v, y).values() if seed < 5 else ():
            assert groups.worst_case(rule, x)[2] < 0.05


@pytest.mark.claim("03.19")
def test_the_sampling_adversary_is_honest() -> None:
    rng = np.random.default_rng(11)
    for n in (2, 3, 5):
        groups = instances.sampled_groups(n, 0.2)
        assert groups.distribution.sum() == pytest.approx(1)
        choices = [{None, *((i * n + j) for i in range(1, n + 1))} for j in range(n)]
        for _ in range(60):
            x, v, y = groups.sample(int(rng.integers(1, 8)), rng)
            rule = rng.random(groups.graphs.n) < rng.choice([0.0, 0.1, 0.5])
            graph, target, loss = groups.worst_case(rule, x)
            truth = groups.hypotheses.select([target])
            assert perfect_rule(x, y, truth, graph) == 0
            assert (probe(graph, x, 0) == v).all()  # sampled people have no moves
            for j in range(n):
                assert next(iter(graph.neighbors(j).tolist()), None) in choices[j]
            # No other target and arcs hurt more: each block errs or not on its own.
            assert loss >= _best_loss(groups, rule, x) - 1e-12


def _best_loss(groups, rule, x) -> float:
    """Largest loss over all targets, each unseen block with its worst arc."""
    n, mass, best = groups.n, groups.distribution, 0.0
    for target in range(1, n + 1):
        total = mass[-1] * rule[-1]
        for j in range(n):
            outcomes = [bool(rule[j])]  # no arc: label 0
            if j not in x:
                outcomes += [
                    (bool(rule[j] | rule[i * n + j])) != (i == target) for i in range(1, n + 1)
                ]
            total += mass[j] * max(outcomes)
        best = max(best, float(total))
    return best


def played(instance, learner, mode: Setting) -> int:
    return play(learner, instance.adversary()).mistakes


@pytest.mark.claim("03.27")
@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_unknown_graphs_cost_log_size_over_loglog_size_or_their_number(n: int) -> None:
    groups = instances.group_singletons(n)
    learner = UnknownGraphOnline(Halving(groups.hypotheses), groups.graphs)
    bits = groups.graphs.log_size / math.log(2)
    cost = played(groups, learner, FEATURES_FIRST)
    assert cost == n
    assert 0.8 <= cost / (bits / math.log2(bits)) <= 1.6
    path = instances.path_AB_C(n)
    assert played(path, Red2OnlinePMF(SOA(path.hypotheses), n + 1), FEATURES_AFTER_GRAPH) == n
    assert len(path.graphs) == n
