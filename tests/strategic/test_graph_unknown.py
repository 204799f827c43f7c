"""Unknown graphs: online learning, probing, minimal degree, the proxy loss, product classes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from counterplay.core.dimensions import littlestone_dimension
from counterplay.core.finite_class import FiniteClass
from counterplay.core.online import SOA, Halving
from counterplay.errors import CounterplayWarning, InvalidInputError, NotRealizableError
from counterplay.strategic import (
    GraphApplicants,
    ManipulationGraph,
    StrategicERM,
    bounds,
    instances,
    play,
)
from counterplay.strategic.lab import (
    FEATURES_FIRST,
    ConsistentGraphOnly,
    ExplicitGraphClass,
    Red2OnlineFI,
    Red2OnlinePMF,
    SuperGraph,
    UnknownGraphOnline,
    UnknownGraphPACAgnostic,
    UnknownGraphPACRealizable,
    consistent_graph,
    graph_loss,
    is_realizable,
    probe,
    proxy_graph,
    proxy_loss,
    respond,
)
from strategic.graph_problems import play_until_quiet, random_class, random_graph
from strategic.test_red2online import Recorder


def random_candidates(rng: np.random.Generator, n: int, k: int, g: int) -> ExplicitGraphClass:
    return ExplicitGraphClass.from_graphs([random_graph(rng, n, k) for _ in range(g)])


@pytest.mark.claim("03.13")
@pytest.mark.parametrize("eager", [True, False])
def test_mistakes_by_type_stay_below_their_bounds(eager: bool) -> None:
    rng = np.random.default_rng(0)
    seen = {"a": 0, "b": 0, "c": 0}
    for _ in range(400):
        n, k, g = int(rng.integers(3, 7)), int(rng.integers(1, 3)), int(rng.integers(2, 9))
        graphs, rules = random_candidates(rng, n, k, g), random_class(rng, 6, n)
        true, h = int(rng.integers(g)), int(rng.integers(len(rules)))
        learner = UnknownGraphOnline(SOA(rules), graphs, k, eager=eager)
        truth = graphs.graph(true)
        for _ in play_until_quiet(learner, truth, rules.labels[h], FEATURES_FIRST, rng):
            assert learner.candidates.alive[true]
            assert learner._majority.size <= 2 * k
        M = littlestone_dimension(rules).value
        assert learner.types["a"] <= math.log2(g)
        others = learner.types["b"] + learner.types["c"]
        assert others <= bounds.red2online_pmf_mistakes(M, 2 * k) + 1e-9
        for kind, count in learner.types.items():
            seen[kind] += count
    assert min(seen.values()) > 10


@pytest.mark.claim("03.14")
def test_the_printed_algorithm_errs_for_ever_and_the_repaired_one_once() -> None:
    instance = instances.majority_graph_counterexample()
    assert is_realizable(instance.nodes, instance.labels, instance.hypotheses, instance.graph) == 2

    def mistakes(**options: bool) -> int:
        learner = UnknownGraphOnline(SOA(instance.hypotheses), instance.graphs, **options)
        return play(
            learner, GraphApplicants(instance.graph, [0] * 1000, [1] * 1000, setting=FEATURES_FIRST)
        ).mistakes

    assert mistakes(literal=True) == 1000
    assert mistakes(eager=False) == 1
    assert mistakes(eager=True) <= 1


@pytest.mark.claim("03.13")
def test_counterexample_costs_one_mistake_lazily() -> None:
    instance = instances.majority_graph_counterexample()
    learner = UnknownGraphOnline(SOA(instance.hypotheses), instance.graphs, eager=False, exact=True)
    played = play(
        learner, GraphApplicants(instance.graph, [0] * 50, [1] * 50, setting=FEATURES_FIRST)
    )
    assert played.mistakes == 1
    assert learner.types == {"a": 0, "b": 0, "c": 1}


def trap_losses(T: int, runs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    small, anything, proxy = [], [], []
    for seed in range(runs):
        trap = instances.superset_trap(40, 6, 64, random_state=seed)
        rng = np.random.default_rng(1000 + seed)
        x = rng.integers(0, 40, size=T)
        v = probe(trap.graph, x, rng)
        fit = UnknownGraphPACRealizable(trap.hypotheses, trap.graphs).fit(x, v, np.ones(T))
        small.append(graph_loss(fit.graph, trap.graph))
        anything.append(
            graph_loss(trap.graphs.graph(consistent_graph(trap.graphs, x, v)), trap.graph)
        )
        proxy.append(graph_loss(proxy_graph(trap.graphs, x, v)[0], trap.graph))
    return np.array(small), np.array(anything), np.array(proxy)


@pytest.mark.claim("03.15")
def test_fewest_arcs_find_the_graph_where_consistency_alone_fails() -> None:
    small, anything, proxy = trap_losses(160, runs=100)
    assert small.mean() <= 0.01
    assert proxy.mean() <= 0.01
    assert anything.mean() >= 0.9


@pytest.mark.claim("03.15")
def test_sample_size_and_certificate_hold_with_their_probability() -> None:
    eps, delta, k = 0.1, 0.05, 6
    T = bounds.graph_T_realizable(k, math.log(64), eps, delta)
    good = covered = 0
    for seed in range(400):
        if seed % 20 == 0:
            trap = instances.superset_trap(40, k, 64, random_state=seed)
        rng = np.random.default_rng(5000 + seed)
        x = rng.integers(0, 40, size=T)
        v = probe(trap.graph, x, rng)
        learner = UnknownGraphPACRealizable(trap.hypotheses, trap.graphs, delta=delta)
        good += graph_loss(learner.fit(x, v, np.ones(T)).graph, trap.graph) <= eps
        few = slice(0, 30)  # a small sample, where the certificate is not trivially met by zero
        fit = learner.fit(x[few], v[few], np.ones(30))
        different = (fit.graph.dense != trap.graph.dense).any(axis=1)
        empirical = float(different[x[few]].mean())
        bound = 2 * k * math.log(64 / delta) / 30
        assert fit.certificate == pytest.approx(bound)
        covered += empirical <= bound
    assert good >= 380
    assert covered >= 380


@pytest.mark.claim("03.16")
def test_isolated_nodes_are_evidence() -> None:
    instance = instances.empty_neighborhoods()
    x = np.array([0, 1, 2, 2])
    v = probe(instance.graph, x, 0)
    assert v.tolist() == [1, 1, 2, 2]
    labels = instance.graph.induced(instance.hypotheses.labels[:1])[0][x].astype(int)
    fit = UnknownGraphPACRealizable(instance.hypotheses, instance.graphs).fit(x, v, labels)
    assert fit.choice == instance.expected["truth"]
    # Without the stay at node 2 both graphs explain everything; with it the busy one is refuted.
    busy = ExplicitGraphClass.from_graphs([instance.graphs.graph(0)])
    UnknownGraphPACRealizable(instance.hypotheses, busy).fit([0, 1], [1, 1], [1, 1])
    with pytest.raises(NotRealizableError, match="moves and stays"):
        UnknownGraphPACRealizable(instance.hypotheses, busy).fit(x, v, labels)
    # The literal constraint v in N(x) fails for every graph, the true one included.
    assert not any(instance.graphs.tensor[g, x, v].all() for g in range(len(instance.graphs)))


@pytest.mark.claim("03.17")
def test_proxy_loss_is_sandwiched() -> None:
    rng = np.random.default_rng(1)
    empty = 0
    for _ in range(3000):
        n = int(rng.integers(2, 7))
        k = int(rng.integers(1, n))
        truth, other = random_graph(rng, n, k), random_graph(rng, n, k)
        mass = rng.dirichlet(np.ones(n))
        loss, proxy = graph_loss(other, truth, mass), proxy_loss(other, truth, k, mass)
        assert loss / k - 1e-12 <= proxy <= 3 * loss + 1e-12
        empty += (truth.degrees == 0).any()
    assert empty > 500


@pytest.mark.claim("03.17")
def test_minimiser_of_the_proxy_has_small_losses() -> None:
    rng = np.random.default_rng(2)
    for _ in range(2000):
        n = int(rng.integers(3, 6))
        k = int(rng.integers(1, n))
        truth = random_graph(rng, n, k)
        candidates = [_perturbed(rng, truth, k) for _ in range(4)]
        mass = rng.dirichlet(np.ones(n))
        nearest = min(graph_loss(graph, truth, mass) for graph in candidates)
        chosen = min(candidates, key=lambda graph: proxy_loss(graph, truth, k, mass))
        assert graph_loss(chosen, truth, mass) <= 3 * k * nearest + 1e-12
        rules, y = rng.random((5, n)) < 0.4, rng.random(n)  # y: Pr(label 1) at each node
        under = _strategic_losses(rules, chosen, mass, y)
        real = _strategic_losses(rules, truth, mass, y)
        assert real[under.argmin()] <= 6 * k * nearest + real.min() + 1e-12


def _perturbed(rng: np.random.Generator, truth: ManipulationGraph, k: int) -> ManipulationGraph:
    replaced = (rng.random(truth.n) < 0.3)[:, None]
    arcs = np.where(replaced, random_graph(rng, truth.n, k).dense, truth.dense)
    indptr = np.concatenate([[0], np.cumsum(arcs.sum(axis=1))])
    return ManipulationGraph(indptr, np.nonzero(arcs)[1])


def _strategic_losses(rules, graph: ManipulationGraph, mass, y) -> np.ndarray:
    induced = (rules[:, None, :] & (graph.dense | np.eye(graph.n, dtype=bool))).any(axis=2)
    return np.where(induced, 1 - y, y) @ mass


@pytest.mark.claim("03.17")
def test_agnostic_learner_minimises_the_empirical_proxy() -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        graphs, k = random_candidates(rng, 6, 3, 12), 3
        truth = random_graph(rng, 6, 3)
        x = rng.integers(0, 6, size=80)
        v = probe(truth, x, rng)
        fit = UnknownGraphPACAgnostic(random_class(rng, 4, 6), graphs).fit(x, v, x, x % 2)
        k = graphs.k
        scores = [
            2 * np.mean([b != a and b not in g.neighbors(a) for a, b in zip(x, v)])
            + np.mean([g.neighbors(a).size for a in x]) / k
            for g in graphs.graphs()
        ]
        assert scores[fit.choice] == pytest.approx(min(scores))
        assert math.isnan(fit.certificate)
        assert not fit.used_labels


@pytest.mark.claim("03.18")
def test_product_class_equals_the_listed_class() -> None:
    instance = instances.group_singletons(3)
    product = instance.graphs
    listed = product.explicit()
    assert len(listed) == 64 == round(math.exp(product.log_size))
    rng = np.random.default_rng(4)
    for _ in range(30):
        choice = tuple(int(i) for i in rng.integers(0, 4, size=3))
        truth, h = product.build(choice), int(rng.integers(3))
        x = rng.integers(0, 12, size=8)
        v = probe(truth, x, rng)
        y = truth.induced(instance.hypotheses.labels[h : h + 1])[0][x].astype(int)
        fits = [
            UnknownGraphPACRealizable(instance.hypotheses, graphs).fit(x, v, y)
            for graphs in (product, listed)
        ]
        assert fits[0].degree == fits[1].degree
        assert (fits[0].graph.dense == fits[1].graph.dense).all()
        assert np.ravel_multi_index(fits[0].choice, (4, 4, 4)) == fits[1].choice
        a, b = (proxy_graph(graphs, x, v)[0] for graphs in (product, listed))
        assert (a.indptr == b.indptr).all()
        assert (a.indices == b.indices).all()
        runs = []
        for graphs in (product, listed):
            spy = Recorder(UnknownGraphOnline(SOA(instance.hypotheses), graphs))
            target = instance.hypotheses.labels[h]
            order = np.random.default_rng(7)
            wrong = [w for _, _, w in play_until_quiet(spy, truth, target, FEATURES_FIRST, order)]
            runs.append((wrong, np.array(spy.rules)))
        assert runs[0][0] == runs[1][0]
        assert (runs[0][1] == runs[1][1]).all()


@pytest.mark.claim("03.18")
def test_astronomically_many_graphs_are_handled() -> None:
    instance = instances.group_singletons(64)
    assert instance.graphs.log_size == pytest.approx(64 * math.log(65))
    learner = UnknownGraphOnline(Halving(instance.hypotheses), instance.graphs)
    played = play(learner, instance.adversary())
    assert 63 <= played.mistakes <= 64
    fit = UnknownGraphPACRealizable(instance.hypotheses, instance.graphs).fit([0], [64], [1])
    assert fit.hypothesis == 0
    assert fit.graph.neighbors(0).tolist() == [64]


@pytest.mark.claim("03.19")
@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_group_adversary_is_honest(n: int) -> None:
    instance = instances.group_singletons(n)
    adversary = instance.adversary()
    spy = Recorder(UnknownGraphOnline(SOA(instance.hypotheses), instance.graphs))
    played = play(spy, adversary)
    assert played.mistakes == n >= instance.expected["lower"]
    graph = adversary.final_graph()
    assert is_realizable(played["x"], played["y"], instance.hypotheses, graph) is not None
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
    assert is_realizable(played["x"], played["y"], instance.hypotheses.select([i]), graph) == 0
    moves = [respond(rule, int(x), graph) for rule, x in zip(spy.rules, played["x"])]
    assert moves == played["report"].tolist()


@pytest.mark.claim("03.19")
@pytest.mark.parametrize("k", [2, 3, 8])
def test_code_and_star_adversaries_are_honest(k: int) -> None:
    code = instances.binary_code_instance(k, 2)
    learner = Red2OnlineFI(SOA(code.hypotheses))
    played = play(learner, code.adversary())
    assert is_realizable(played["x"], played["y"], code.hypotheses, code.graph) is not None
    star = instances.star_singletons(k, 2)
    hidden = Red2OnlinePMF(SOA(star.hypotheses), k)
    played = play(hidden, star.adversary())
    assert is_realizable(played["x"], played["y"], star.hypotheses, star.graph) is not None
    # The source's star: centre labelled 0 after it was labelled 1 can be realized by no rule.
    assert is_realizable([0, 0], [1, 0], star.hypotheses, star.graph) is None


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
            assert is_realizable(x, y, truth, graph) == 0
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


def test_rules_from_an_estimator_use_the_graph_chosen_by_the_moves() -> None:
    rng = np.random.default_rng(14)
    points = np.stack(np.meshgrid(np.arange(5.0), np.arange(5.0)), axis=-1).reshape(-1, 2)
    right = [[i + 1] if i % 5 < 4 else [] for i in range(25)]
    up = [[i + 5] if i < 20 else [] for i in range(25)]
    both = [a + b for a, b in zip(right, up)]
    graphs = ExplicitGraphClass.from_graphs(
        [ManipulationGraph.from_lists(lists) for lists in (both, right, up)]
    )
    truth = graphs.graph(2)
    x = rng.integers(0, 25, size=120)
    y = truth.induced((points[:, 1] >= 3)[None, :])[0][x].astype(int)
    erm = StrategicERM()
    for learner, data in (
        (UnknownGraphPACRealizable(erm, graphs, features=points), (x, probe(truth, x, 0), y)),
        (UnknownGraphPACAgnostic(erm, graphs, features=points), (x, probe(truth, x, 0), x, y)),
    ):
        fit = learner.fit(*data)
        assert fit.choice == 2
        assert fit.loss == 0
        assert not fit.used_labels
        assert fit.hypothesis.optimal_
        frame = fit.to_frame()
        assert frame["chosen"].sum() == 1
        assert frame.loc[frame["chosen"], "candidate"].item() == 2
    with pytest.raises(InvalidInputError, match="features"):
        UnknownGraphPACRealizable(erm, graphs)


@pytest.mark.parametrize("product", [False, True])
def test_graph_baselines_take_too_many_arcs(product: bool) -> None:
    instance = instances.group_singletons(3)
    graphs = instance.graphs if product else instance.graphs.explicit()
    truth = instance.graphs.build((0, 1, 2))
    x = np.arange(3)
    v, y = probe(truth, x, 0), truth.induced(instance.hypotheses.labels[:1])[0][x].astype(int)
    consistent = ConsistentGraphOnly(instance.hypotheses, graphs).fit(x, v, y)
    everything = SuperGraph(instance.hypotheses, graphs).fit(x, v, y)
    smallest = UnknownGraphPACRealizable(instance.hypotheses, graphs).fit(x, v, y)
    assert consistent.degree == 1 > smallest.degree == pytest.approx(2 / 3)
    assert everything.degree == 3
    assert everything.choice == -1
    assert graph_loss(smallest.graph, truth) == 0 < graph_loss(consistent.graph, truth)


def test_too_small_samples_warn_and_slack_is_the_one_of_the_theorem() -> None:
    rng = np.random.default_rng(15)
    graphs, rules = random_candidates(rng, 6, 2, 8), random_class(rng, 4, 6)
    truth = graphs.graph(3)
    x = rng.integers(0, 6, size=200)
    learner = UnknownGraphPACAgnostic(rules, graphs, eps=0.1)
    with pytest.warns(CounterplayWarning, match="200 moves are fewer"):
        fit = learner.fit(x, probe(truth, x, 0), x, x % 2)
    k, eps, delta = max(1, graphs.k), 0.1, 0.05
    T1 = bounds.unknown_graph_T1(k, graphs.log_size, eps, delta)
    half = bounds.unknown_graph_slack(k, graphs.log_size, 0.0, T1, 10**12, delta)
    assert half == pytest.approx(eps / 2, rel=1e-3)
    assert fit.slack > 1
    assert "Delta_G" in fit.summary()


def test_probes_are_uniform_over_the_neighbourhood() -> None:
    star = ManipulationGraph.from_lists([[1, 2, 3], [], [], []])
    counts = np.bincount(probe(star, np.zeros(6000, dtype=int), 0), minlength=4)
    assert counts[0] == 0
    assert (np.abs(counts[1:] - 2000) < 5 * np.sqrt(6000 * 2 / 9)).all()


def test_rules_that_explain_nothing_are_reported() -> None:
    graphs = ExplicitGraphClass.from_graphs([ManipulationGraph.from_lists([[1], []])])
    rules = FiniteClass.from_matrix([[0, 0]])
    with pytest.raises(NotRealizableError, match="no rule explains"):
        UnknownGraphPACRealizable(rules, graphs).fit([0], [1], [1])
