"""The reductions: exact weight invariants, exhaustive adversaries, lower bounds, merging, speed."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplay.core.finite_class import FiniteClass
from counterplay.core.setting import Setting
from counterplay.errors import NotRealizableError
from counterplay.strategic import GraphApplicants, bounds, instances, play
from counterplay.strategic.lab import (
    FEATURES_AFTER_GRAPH,
    FEATURES_FIRST_GRAPH,
    REPORT_ONLY_GRAPH,
    SOA,
    BiasedMajorityVote,
    Halving,
    PerceptronLearner,
    Red2OnlineFI,
    Red2OnlinePMF,
    StrategicLearner,
    StrategyUnawareOnline,
    littlestone_dimension,
    minimax_mistakes,
    respond,
    worst_case_mistakes,
)
from strategic.graph_problems import (
    Recorder,
    play_until_quiet,
    random_class,
    random_graph,
    random_instance,
)

PLAYTHROUGHS = Path(__file__).parents[2] / "playthroughs"


def target_weight(learner, h: int) -> Fraction:
    return max((w for a, w in learner.experts.entries if a.alive[h]), default=Fraction(0))


@pytest.mark.claim("03.07")
@pytest.mark.parametrize("aggressive", [False, True])
def test_known_graph_weights_fall_by_a_quarter_per_mistake(aggressive: bool) -> None:
    rng = np.random.default_rng(0)
    mistakes = 0
    for _ in range(150):
        rules, graph = random_instance(rng, n=7, m=14, k=4)
        h = int(rng.integers(len(rules)))
        learner = Red2OnlineFI(SOA(rules), exact=True, aggressive=aggressive)
        floor = Fraction(1, 2 * (graph.k + 1)) ** littlestone_dimension(rules).value
        before = learner.experts.total
        for _, _, wrong in play_until_quiet(
            learner, graph, rules.labels[h], FEATURES_FIRST_GRAPH, rng
        ):
            after = learner.experts.total
            assert after <= Fraction(3, 4) * before if wrong else after == before
            assert target_weight(learner, h) >= floor
            before, mistakes = after, mistakes + wrong
    assert mistakes > 100


@pytest.mark.claim("03.07")
def test_hidden_feature_weights_fall_as_proved() -> None:
    rng = np.random.default_rng(1)
    kinds = {0: 0, 1: 0}
    for _ in range(150):
        rules, graph = random_instance(rng, n=7, m=14, k=4)
        h, k = int(rng.integers(len(rules))), graph.k
        learner = Red2OnlinePMF(SOA(rules), k, exact=True)
        floor = Fraction(1, 2 * (k + 1)) ** littlestone_dimension(rules).value
        before = learner.experts.total
        for _, y, wrong in play_until_quiet(
            learner, graph, rules.labels[h], REPORT_ONLY_GRAPH, rng
        ):
            after = learner.experts.total
            if wrong:
                share = Fraction(3, 4) if y else 1 - Fraction(1, 4 * (k + 1))
                assert after <= share * before
                kinds[y] += 1
            else:
                assert after == before
            assert target_weight(learner, h) >= floor
            before = after
    assert min(kinds.values()) > 30


def exhaustive(count: int, seed: int) -> tuple[float, float]:
    rng = np.random.default_rng(seed)
    largest = [0.0, 0.0]
    for _ in range(count):
        rules, graph = random_instance(rng)
        M, k = littlestone_dimension(rules).value, graph.k
        games = (
            (Red2OnlineFI(SOA(rules)), FEATURES_FIRST_GRAPH, bounds.red2online_fi_mistakes(M, k)),
            (Red2OnlinePMF(SOA(rules), k), REPORT_ONLY_GRAPH, bounds.red2online_pmf_mistakes(M, k)),
        )
        for i, (learner, mode, bound) in enumerate(games):
            worst = worst_case_mistakes(learner, rules, graph, mode)
            assert worst <= bound + 1e-9, (rules.labels, graph.indices)
            if bound:
                largest[i] = max(largest[i], worst / bound)
    return largest[0], largest[1]


@pytest.mark.claim("03.08")
def test_exhaustive_adversaries_stay_below_the_bounds() -> None:
    fi, pmf = exhaustive(250, seed=2)
    assert fi > 0.2
    assert pmf > 0.1


@pytest.mark.slow
@pytest.mark.claim("03.08")
def test_exhaustive_adversaries_stay_below_the_bounds_on_many_instances() -> None:
    exhaustive(2000, seed=3)


@pytest.mark.claim("03.09")
@pytest.mark.parametrize(
    ("k", "d"), [(2, 1), (4, 1), (8, 1), (16, 1), (32, 1), (4, 2), (8, 2), (4, 3), (16, 2)]
)
def test_code_adversary_forces_every_bit(k: int, d: int) -> None:
    instance = instances.binary_code_instance(k, d)
    played = play(Red2OnlineFI(SOA(instance.hypotheses)), instance.adversary())
    expected = d * int(math.log2(k))
    assert played.mistakes == expected
    assert expected <= bounds.red2online_fi_mistakes(d, k)


@pytest.mark.claim("03.09")
@pytest.mark.parametrize(
    ("k", "d"), [(2, 1), (4, 1), (8, 1), (16, 1), (32, 1), (2, 2), (4, 2), (6, 2), (3, 3)]
)
def test_two_way_star_costs_k_per_star(k: int, d: int) -> None:
    instance = instances.star_singletons(k, d)
    played = play(Red2OnlinePMF(SOA(instance.hypotheses), k), instance.adversary())
    assert (played.false_negatives, played.false_positives) == (d, d * (k - 1))
    others: list[StrategicLearner] = [
        Red2OnlinePMF(SOA(instance.hypotheses, tie=1), k),
        Red2OnlinePMF(Halving(instance.hypotheses), k),
        BiasedMajorityVote(instance.hypotheses, k),
        StrategyUnawareOnline(SOA(instance.hypotheses)),
        StrategyUnawareOnline(Halving(instance.hypotheses)),
    ]
    for learner in others:
        assert play(learner, instance.adversary()).mistakes >= d * (k - 1)


@pytest.mark.claim("03.09")
def test_random_codes_cost_half_of_the_bits_in_expectation() -> None:
    """Randomised learners cannot be forced to err on every bit: half of them is what is left."""
    instance, rng = instances.binary_code_instance(8, 1), np.random.default_rng(10)
    centres = instance.expected["centres"]
    truth = instance.graph.induced(instance.hypotheses.labels)[:, list(centres)]
    for make in (SOA, Halving):
        mistakes = []
        for _ in range(400):
            y = truth[int(rng.integers(len(truth)))].astype(int)
            mistakes.append(
                play(
                    Red2OnlineFI(make(instance.hypotheses)),
                    GraphApplicants(instance.graph, centres, y),
                ).mistakes
            )
        assert abs(np.mean(mistakes) - 1.5) < 5 * math.sqrt(3 / 4 / 400)


class AcceptTheCentre(StrategicLearner):
    """Publishes 1{centre} until a leaf is known."""

    on_graph = True
    needs = FEATURES_AFTER_GRAPH

    def __init__(self) -> None:
        self.leaf: int | None = None

    def act(self, seen=None):
        n = seen.n
        rule = np.zeros(n, dtype=bool)
        rule[0 if self.leaf is None else self.leaf] = True
        return rule

    def observe(self, after) -> None:
        if after.yhat == 0 and after.y == 1:
            self.leaf = after.x


@pytest.mark.claim("03.09")
@pytest.mark.parametrize("k", [2, 3, 4, 5, 6])
def test_game_values_of_the_stars(k: int) -> None:
    two_way = instances.star_singletons(k)
    directed = instances.star_singletons(k, directed=True)
    assert minimax_mistakes(two_way.hypotheses, FEATURES_AFTER_GRAPH, graph=two_way.graph) == k - 1
    assert minimax_mistakes(directed.hypotheses, FEATURES_AFTER_GRAPH, graph=directed.graph) == 1
    learner = AcceptTheCentre()
    worst = worst_case_mistakes(
        learner, directed.hypotheses, directed.graph, FEATURES_AFTER_GRAPH, most=4
    )
    assert worst == 1  # the source's star does not show a factor k


@pytest.mark.claim("03.09")
def test_no_learner_beats_the_value_of_the_game() -> None:
    rng = np.random.default_rng(4)
    for _ in range(40):
        rules, graph = random_instance(rng, n=4, m=5, k=2)
        value = minimax_mistakes(rules, FEATURES_FIRST_GRAPH, graph=graph)
        induced = FiniteClass.from_matrix(graph.induced(rules.labels)).deduplicated().unique
        assert value == littlestone_dimension(induced).value  # SOA on the induced class
        worst = worst_case_mistakes(Red2OnlineFI(SOA(rules)), rules, graph, FEATURES_FIRST_GRAPH)
        assert worst >= value
        hidden = minimax_mistakes(rules, FEATURES_AFTER_GRAPH, graph=graph)
        learner = Red2OnlinePMF(SOA(rules), graph.k)
        assert worst_case_mistakes(learner, rules, graph, FEATURES_AFTER_GRAPH) >= hidden >= value


@pytest.mark.claim("03.10")
@pytest.mark.parametrize("mode", [FEATURES_FIRST_GRAPH, REPORT_ONLY_GRAPH])
def test_merging_changes_no_prediction(mode: Setting) -> None:
    rng = np.random.default_rng(5)
    merged_some = 0
    for i in range(200):
        rules, graph = random_class(rng, 20, 7, share=0.3), random_graph(rng, 7, 3)
        target = rules.labels[int(rng.integers(len(rules)))]
        runs = []
        for merge in (True, False):
            options = {"exact": True, "merge": merge}
            inner: StrategicLearner = (
                Red2OnlineFI(SOA(rules), **options)
                if mode is FEATURES_FIRST_GRAPH
                else Red2OnlinePMF(SOA(rules), graph.k, **options)
            )
            spy = Recorder(inner)
            list(play_until_quiet(spy, graph, target, mode, np.random.default_rng(i)))
            runs.append((spy.rules, len(inner.experts)))
        assert len(runs[0][0]) == len(runs[1][0])
        assert all((a == b).all() for a, b in zip(runs[0][0], runs[1][0]))
        merged_some += runs[0][1] < runs[1][1]
    assert merged_some > 0


@pytest.mark.claim("03.10")
def test_dropping_dead_experts_changes_votes_but_keeps_the_bound() -> None:
    """Dead experts still vote where they are kept, so predictions may differ; the bound holds."""
    changed = 0
    rng = np.random.default_rng(5)
    for i in range(40):
        rules, graph = random_class(rng, 20, 7, share=0.3), random_graph(rng, 7, 3)
        runs = []
        for prune in (True, False):
            spy = Recorder(Red2OnlineFI(SOA(rules), exact=True, prune=prune))
            order = np.random.default_rng(i)
            list(play_until_quiet(spy, graph, rules.labels[0], FEATURES_FIRST_GRAPH, order))
            runs.append(np.array(spy.rules[:7]))
        changed += not (runs[0] == runs[1]).all()
    assert changed > 0
    rng = np.random.default_rng(6)
    for _ in range(60):
        rules, graph = random_instance(rng)
        M, k = littlestone_dimension(rules).value, graph.k
        for prune in (True, False):
            fi = Red2OnlineFI(SOA(rules), exact=True, prune=prune)
            worst = worst_case_mistakes(fi, rules, graph, FEATURES_FIRST_GRAPH)
            assert worst <= bounds.red2online_fi_mistakes(M, k) + 1e-9


def test_floating_point_weights_play_like_exact_ones() -> None:
    rng = np.random.default_rng(7)
    for i in range(60):
        rules, graph = random_instance(rng, n=7, m=12, k=4)
        target = rules.labels[int(rng.integers(len(rules)))]
        runs = []
        for exact in (True, False):
            spy = Recorder(Red2OnlinePMF(SOA(rules), graph.k, exact=exact))
            list(play_until_quiet(spy, graph, target, REPORT_ONLY_GRAPH, np.random.default_rng(i)))
            runs.append(spy.rules)
        assert len(runs[0]) == len(runs[1])
        assert all((a == b).all() for a, b in zip(*runs))


def test_a_beam_says_that_the_guarantee_is_lost() -> None:
    instance = instances.star_singletons(6)
    learner = Red2OnlinePMF(SOA(instance.hypotheses), 6, max_experts=2)
    assert not learner.guarantee_lost
    learner.update_false_negative(instance.graph.closed(0))
    assert learner.guarantee_lost
    assert learner.experts.dropped > 0


@pytest.mark.claim("03.12")
@pytest.mark.parametrize(("k", "r", "size"), [(4, 40, 9885), (2, 20, 1551), (8, 40, 710)])
def test_small_dimension_beats_counting_hypotheses(k: int, r: int, size: int) -> None:
    trap = instances.halving_trap(r, k)
    assert len(trap.hypotheses) == size
    assert littlestone_dimension(trap.hypotheses).value == 2
    baseline = BiasedMajorityVote(trap.hypotheses, k)
    assert (
        play(
            baseline,
            GraphApplicants(trap.graph, trap.nodes, trap.labels, setting=FEATURES_AFTER_GRAPH),
        ).mistakes
        == r
    )
    assert r <= bounds.biased_majority_mistakes(size, k) <= (k + 2) * math.log(size)
    learner = Red2OnlinePMF(SOA(trap.hypotheses), k)
    reduced = sum(int(learner.accepts(np.array([x]))[0]) for x in trap.nodes)
    assert reduced == 0  # all agents are isolated and labelled 0: accepting is a mistake


@pytest.mark.claim("03.22")
def test_mistakes_scale_with_log_k_and_with_k() -> None:
    ks = [2, 4, 8, 16, 32]
    fi, pmf = [], []
    for k in ks:
        code, star = instances.binary_code_instance(k, 1), instances.star_singletons(k)
        learner = Red2OnlineFI(SOA(code.hypotheses))
        fi.append(play(learner, code.adversary()).mistakes)
        hidden = Red2OnlinePMF(SOA(star.hypotheses), k)
        pmf.append(play(hidden, star.adversary()).mistakes)
    assert np.corrcoef(np.log2(ks), fi)[0, 1] ** 2 > 0.99
    slope, _offset = np.polyfit(ks, pmf, 1)
    assert slope == pytest.approx(1, abs=1e-9)
    assert np.corrcoef(ks, pmf)[0, 1] ** 2 > 0.99
    double = []
    for k in (2, 4, 6, 8):
        star = instances.star_singletons(k, 2)
        hidden = Red2OnlinePMF(SOA(star.hypotheses), k)
        double.append(play(hidden, star.adversary()).mistakes)
    assert np.polyfit((2, 4, 6, 8), double, 1)[0] == pytest.approx(2, abs=1e-9)  # the dimension


@pytest.mark.claim("03.22")
def test_a_round_costs_a_few_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    n = 2000
    points = rng.normal(size=(n, 2))
    w, b = rng.normal(size=(2000, 2)), 0.5 * rng.normal(size=2000)
    rules = FiniteClass.from_matrix(w @ points.T >= b[:, None])  # a trace of halfspaces
    graph = random_graph(rng, n, 4)
    truth = graph.induced(rules.labels[7][None, :])[0]
    learner = Red2OnlinePMF(Halving(rules), 4)
    nodes = rng.integers(0, n, size=200)
    play(learner, GraphApplicants(graph, nodes[:5], truth[nodes[:5]], setting=REPORT_ONLY_GRAPH))
    votes = []
    count = Halving.table

    def counted(expert: Halving) -> Any:
        votes.append(expert._table is None)
        return count(expert)

    monkeypatch.setattr(Halving, "table", counted)
    play(learner, GraphApplicants(graph, nodes, truth[nodes], setting=REPORT_ONLY_GRAPH))
    assert sum(votes) < 10 * nodes.size  # votes of all rules on all nodes that were counted


def test_perceptron_experts_learn_halfspaces_with_hidden_features() -> None:
    rng = np.random.default_rng(9)
    w = np.array([0.6, -0.8, 0.0])
    points = rng.uniform(-1, 1, size=(400, 3))
    points = points[np.abs(points @ w) > 0.05]
    graph = random_graph(rng, len(points), 3)
    learner = Red2OnlinePMF(PerceptronLearner(3, R=math.sqrt(3), gamma=0.05), 3)
    truth = graph.induced((points @ w > 0)[None, :].astype(int))[0]
    mistakes = 0
    for x in rng.integers(0, len(points), size=1500).tolist():
        accepted = learner.accepts(points)
        v = respond(accepted, x, graph)
        if accepted[v] != truth[x]:
            mistakes += 1
            if accepted[v]:
                learner.update_false_positive(points[v])
            else:
                learner.update_false_negative(points[graph.closed(v)])
    assert mistakes <= 100
    assert len(learner.experts) <= 64


@pytest.mark.claim("03.29")
def test_the_expert_that_follows_the_truth_is_never_dropped() -> None:
    rng = np.random.default_rng(12)
    mistakes = 0
    for _ in range(6):
        w = rng.normal(size=3)
        w /= np.linalg.norm(w)
        points = rng.uniform(-1, 1, size=(60, 3))
        points = points[np.abs(points @ w) > 0.3]
        right, graph = points @ w > 0, random_graph(rng, len(points), 3)
        truth = graph.induced(right[None, :])[0]
        first = PerceptronLearner(3, float(np.linalg.norm(points, axis=1).max()), gamma=0.3)
        learner, follower = Red2OnlinePMF(first, 3), first
        for x in rng.integers(0, len(points), size=150).tolist():
            accepted = learner.accepts(points)
            v = respond(accepted, x, graph)
            if accepted[v] == truth[x]:
                continue
            mistakes += 1
            bag = graph.closed(v)
            if accepted[v]:
                learner.update_false_positive(points[v])
                follower = follower.updated(points[v], 0)
            else:
                learner.update_false_negative(points[bag])
                if not follower.predict(points[bag]).any():
                    follower = follower.updated(points[bag[right[bag]][0]], 1)
            keys = [a.key() for a, _ in learner.experts.entries]
            assert follower.key() in keys
            assert learner.experts.mistakes[keys.index(follower.key())] <= first.mistake_bound
            assert max(learner.experts.mistakes) <= first.mistake_bound
    assert mistakes > 20


@pytest.mark.claim("03.29")
def test_experts_past_their_mistake_bound_are_dropped() -> None:
    bag = np.array([[1.0], [-1.0]])
    tight = PerceptronLearner(1, R=1.0, gamma=1.0)  # one mistake allowed
    learner = Red2OnlineFI(tight, exact=True)
    learner.update(bag, 1)
    assert learner.experts.mistakes == [1, 1]
    with pytest.raises(NotRealizableError, match="round"):
        learner.update(bag, 0)  # both copies err a second time
    loose = Red2OnlineFI(PerceptronLearner(1, R=1.0, gamma=0.5), exact=True)  # four allowed
    loose.update(bag, 1)
    loose.update(bag, 0)
    assert loose.experts.mistakes == [2]  # equal again, merged


@pytest.mark.claim("03.08")
def test_aggressive_updates_keep_the_bounds() -> None:
    rng = np.random.default_rng(13)
    for _ in range(80):
        rules, graph = random_instance(rng)
        M, k = littlestone_dimension(rules).value, graph.k
        fi = Red2OnlineFI(SOA(rules), aggressive=True)
        pmf = Red2OnlinePMF(SOA(rules), k, aggressive=True)
        assert pmf.needs is FEATURES_AFTER_GRAPH
        worst = worst_case_mistakes(fi, rules, graph, FEATURES_FIRST_GRAPH)
        assert worst <= bounds.red2online_fi_mistakes(M, k) + 1e-9
        worst = worst_case_mistakes(pmf, rules, graph, FEATURES_AFTER_GRAPH)
        assert worst <= bounds.red2online_pmf_mistakes(M, k) + 1e-9


def test_star_playthrough() -> None:
    instance = instances.star_singletons(4, 1)
    learner = Red2OnlinePMF(SOA(instance.hypotheses), k=4, exact=True)
    spy = Recorder(learner)
    played = play(spy, instance.adversary())
    lines = ["Red2OnlinePMF(SOA) on the two-way star with 4 leaves, hidden features"]
    for t in range(len(played)):
        rule = "".join("01"[int(z)] for z in spy.rules[t])
        x, v, yhat, y = (int(played[name][t]) for name in ("x", "report", "yhat", "y"))
        lines.append(f"round {t + 1}: rule {rule}, agent {x} moves to {v}, told {yhat}, is {y}")
    weights = sorted((str(w) for _, w in learner.experts.entries), key=Fraction)
    lines += [played.summary(), "weights left: " + ", ".join(weights)]
    text = "\n".join(lines) + "\n"
    assert text == (PLAYTHROUGHS / "strategic_graph_star.txt").read_text(encoding="utf-8")
