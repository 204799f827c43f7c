"""Responses, induced labels, information modes and errors on manipulation graphs."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from counterplay.core.finite_class import FiniteClass
from counterplay.core.online import SOA, Halving
from counterplay.core.setting import Setting
from counterplay.errors import (
    CounterplayWarning,
    InformationError,
    InvalidInputError,
    NotRealizableError,
    OpenProblemError,
)
from counterplay.strategic import (
    Action,
    GraphApplicants,
    ManipulationGraph,
    StrategicERM,
    play,
    strategic_accuracy,
)
from counterplay.strategic.lab import (
    FEATURES_AFTER,
    FEATURES_AFTER_GRAPH,
    FEATURES_FIRST,
    FEATURES_FIRST_GRAPH,
    REPORT_ONLY_GRAPH,
    AgnosticCoverHedge,
    BiasedMajorityVote,
    ExplicitGraphClass,
    LocalGraph,
    PerceptronLearner,
    Red2OnlineFI,
    Red2OnlinePMF,
    StrategicLearner,
    StrategicTranscript,
    UnknownGraphOnline,
    UnknownGraphPACRealizable,
    induced_predictions,
    is_realizable,
    respond,
    stackelberg_regret,
)
from counterplay.strategic.settings import GRAPH_SETTINGS
from strategic.graph_problems import random_graph

TWO = FiniteClass.from_matrix([[0, 0], [0, 1]])
ARC = ManipulationGraph.from_lists([[1], []])


@pytest.mark.claim("03.01")
def test_agents_move_only_to_be_accepted_and_induced_labels_are_maxima() -> None:
    rng = np.random.default_rng(0)
    for _ in range(1000):
        n = int(rng.integers(2, 9))
        graph = random_graph(rng, n, int(rng.integers(1, n)))
        rule, x = rng.random(n) < 0.3, int(rng.integers(n))
        neighbors = set(graph.neighbors(x).tolist())
        accepted = {z for z in neighbors if rule[z]}
        expected = bool(rule[x] or accepted)
        for tie in ("first", "uniform", lambda options: int(options[-1])):
            v = respond(rule, x, graph, tie, random_state=1)
            if rule[x] or not accepted:
                assert v == x
            else:
                assert v in accepted
            assert bool(rule[v]) == expected
        assert graph.induced(rule[None, :])[0, x] == expected


@pytest.mark.claim("03.01")
def test_the_label_stays_with_the_person() -> None:
    line = ManipulationGraph.from_lists([[1], []], features=[[0.0], [1.0]])
    assert strategic_accuracy(lambda Z: Z[:, 0] >= 1, [[0.0], [1.0]], [0, 1], graph=line) == 0.5
    assert strategic_accuracy(lambda Z: Z[:, 0] >= 1, [[0.0], [1.0]], [1, 1], graph=line) == 1.0


def test_ties_are_uniform_on_request() -> None:
    star = ManipulationGraph.from_lists([[1, 2, 3], [], [], []])
    rng = np.random.default_rng(0)
    places = [respond([0, 1, 1, 1], 0, star, "uniform", rng) for _ in range(3000)]
    counts = np.bincount(places, minlength=4)
    assert counts[0] == 0
    assert (np.abs(counts[1:] - 1000) < 5 * np.sqrt(3000 * 2 / 9)).all()


class Spy(StrategicLearner):
    """Records everything it is told."""

    on_graph = True

    def __init__(self, mode: Setting) -> None:
        self.needs = mode
        self.before: list[object] = []
        self.after: list[object] = []

    def act(self, seen=None):
        self.before.append(seen)
        return np.zeros(seen.n, dtype=bool)

    def observe(self, after) -> None:
        self.after.append(after)


@pytest.mark.claim("03.11")
def test_each_mode_reveals_what_it_says_and_nothing_else() -> None:
    graph = ManipulationGraph.from_lists([[1, 2], [], [1]])
    before_x = {FEATURES_FIRST_GRAPH: 0, FEATURES_FIRST: 0}
    for mode in GRAPH_SETTINGS:
        spy = Spy(mode)
        play(spy, GraphApplicants(graph, [0], [1], setting=mode))
        before, after = spy.before[0], spy.after[0]
        assert before.x == before_x.get(mode)
        assert (before.neighbourhood is not None) == (mode == FEATURES_FIRST_GRAPH)
        assert after.y == 1
        assert after.report == 0
        assert after.yhat == 0
        assert (after.x is None) == (mode == REPORT_ONLY_GRAPH)
        assert (after.neighbourhood is None) == (mode in (FEATURES_FIRST, FEATURES_AFTER))


@pytest.mark.claim("03.11")
def test_hidden_feature_feedback_shows_the_neighbourhood_of_where_the_agent_went() -> None:
    class Accept2(Spy):
        def act(self, seen=None):
            super().act(seen)
            return np.array([False, False, True])

    graph = ManipulationGraph.from_lists([[1, 2], [], [1]])
    spy = Accept2(REPORT_ONLY_GRAPH)
    play(
        spy, GraphApplicants(graph, [0], [1], setting=FEATURES_AFTER_GRAPH)
    )  # the game knows x; the learner asked for less
    assert spy.after[0].x is None
    assert spy.after[0].report == 2
    assert spy.after[0].neighbourhood.tolist() == [2, 1]


@pytest.mark.claim("03.11")
def test_learners_are_refused_where_too_little_is_revealed() -> None:
    graphs = ExplicitGraphClass.from_graphs([ARC])
    learners = [
        (Red2OnlineFI(SOA(TWO)), {FEATURES_FIRST_GRAPH}),
        (
            Red2OnlinePMF(SOA(TWO), 1),
            {FEATURES_FIRST_GRAPH, FEATURES_AFTER_GRAPH, REPORT_ONLY_GRAPH},
        ),
        (UnknownGraphOnline(SOA(TWO), graphs), {FEATURES_FIRST_GRAPH, FEATURES_FIRST}),
    ]
    for learner, enough in learners:
        for mode in GRAPH_SETTINGS:
            if mode in enough:
                play(learner, GraphApplicants(ARC, [0], [0], setting=mode))
            else:
                with pytest.raises(InformationError, match=type(learner).__name__) as caught:
                    play(learner, GraphApplicants(ARC, [0], [0], setting=mode))
                assert not isinstance(caught.value, NotImplementedError)


@pytest.mark.claim("03.11")
def test_agnostic_learning_with_less_information_names_the_open_problem() -> None:
    learner = AgnosticCoverHedge(SOA(TWO), M=2, horizon=5, random_state=0)
    for mode in (FEATURES_AFTER_GRAPH, REPORT_ONLY_GRAPH, FEATURES_FIRST, FEATURES_AFTER):
        with pytest.raises(OpenProblemError, match="hidden features or unknown graphs is an open"):
            play(learner, GraphApplicants(ARC, [0], [0], setting=mode))
    assert issubclass(OpenProblemError, InformationError)  # both families of users can catch it
    assert issubclass(OpenProblemError, NotImplementedError)


@pytest.mark.claim("03.23")
@pytest.mark.parametrize(
    ("make", "mode"),
    [
        (lambda: Red2OnlineFI(SOA(TWO)), FEATURES_FIRST_GRAPH),
        (lambda: Red2OnlineFI(Halving(TWO), prune=False), FEATURES_FIRST_GRAPH),
        (lambda: Red2OnlinePMF(SOA(TWO), k=1), REPORT_ONLY_GRAPH),
        (lambda: BiasedMajorityVote(TWO, k=1), REPORT_ONLY_GRAPH),
        (
            lambda: UnknownGraphOnline(SOA(TWO), ExplicitGraphClass.from_graphs([ARC])),
            FEATURES_FIRST,
        ),
    ],
)
def test_contradictions_stop_with_the_round(make, mode: Setting) -> None:
    learner = make()
    with pytest.raises(NotRealizableError, match=r"round \d+") as caught:
        play(learner, GraphApplicants(ARC, [0, 1] * 20, [1, 0] * 20, setting=mode))
    assert 1 <= caught.value.round <= 40
    assert f"round {caught.value.round}" in str(caught.value)


@pytest.mark.claim("03.23")
def test_no_graph_left_stops_with_the_round() -> None:
    isolated = ManipulationGraph.from_lists([[], []])
    learner = UnknownGraphOnline(SOA(TWO), ExplicitGraphClass.from_graphs([isolated]), k=1)
    with pytest.raises(NotRealizableError, match="round 1: no candidate graph"):
        play(learner, GraphApplicants(ARC, [0, 0], [1, 1], setting=FEATURES_FIRST))


@pytest.mark.claim("03.23")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ManipulationGraph.from_lists([[0], []]), "node 0 has an arc to itself"),
        (lambda: ManipulationGraph.from_lists([[1, 2], [], []], k=1), "k=1 but node 0 has 2"),
        (lambda: ManipulationGraph.from_lists([[], [7]]), "node 1 has an arc to 7"),
        (lambda: ManipulationGraph.from_lists([[], [-1]]), "node 1 has an arc to -1"),
        (lambda: ManipulationGraph.from_lists([]), "at least one node"),
        (lambda: ManipulationGraph.from_lists([[]], features=[[np.nan]]), "features"),
        (lambda: ManipulationGraph.from_lists([[]], features=[[1.0], [2.0]]), "1 rows"),
        (lambda: ManipulationGraph.from_matrix(np.ones((2, 3))), "square"),
        (lambda: ARC.neighbors(2), "node"),
        (lambda: ARC.node_of([[1.0]]), "no features"),
        (lambda: ARC.induced([[0, 1, 0]]), "2 columns"),
        (lambda: respond([0, 1], 0, ARC, "nearest"), "tie must be"),
        (lambda: respond([0, 1], 0, ARC, lambda options: 0), "tie rule chose node 0"),
        (lambda: respond([0, 1, 1], 0, ARC), "one per node"),
        (lambda: LocalGraph(lambda x: np.stack([x + 1, x + 2]), k=1).closed([0.0]), "k=1"),
        (lambda: LocalGraph(lambda x: x[None], k=1).closed([0.0]), "lists itself"),
        (lambda: is_realizable([0], [-1], TWO, ARC), "0 and 1"),
        (lambda: play(Red2OnlineFI(SOA(TWO)), GraphApplicants(ARC, [0, 1], [-1, 1])), "-1/.1"),
        (lambda: ExplicitGraphClass(np.eye(2, dtype=bool)[None]), "to itself"),
        (lambda: UnknownGraphOnline(SOA(TWO), ExplicitGraphClass.from_graphs([ARC]), 0), "k=0"),
        (lambda: PerceptronLearner(2, 1.0, 0.0), "margin"),
        (lambda: Action("nothing", 0, 0.0, 1.0), "changes nothing"),
        (lambda: ManipulationGraph.from_actions([[0.0]], [Action("a", 3, 1, 1)], 1), "column 3"),
        (lambda: induced_predictions(lambda Z: Z[:, 0] + 5, [[0.0]]), "other than 0 and 1"),
        (lambda: StrategicERM("fast").fit([[0.0], [1.0]], [0, 1]), "backend"),
        (lambda: StrategicERM("finite").fit([[0.0], [1.0]], [0, 1]), "needs hypotheses"),
        (
            lambda: UnknownGraphPACRealizable(
                FiniteClass.singletons(3), ExplicitGraphClass.from_graphs([ARC])
            ),
            "must agree",
        ),
    ],
)  # fmt: skip
def test_bad_input_says_what_is_wrong(call, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        call()


def test_duplicate_arcs_are_dropped_with_a_warning() -> None:
    with pytest.warns(CounterplayWarning, match="node 0"):
        graph = ManipulationGraph.from_lists([[1, 1], []])
    assert graph.neighbors(0).tolist() == [1]


def test_the_same_graph_from_lists_matrix_and_networkx() -> None:
    lists = [[1, 2], [2], []]
    matrix = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]])
    digraph = nx.DiGraph([(0, 1), (0, 2), (1, 2)])
    for graph in (
        ManipulationGraph.from_lists(lists),
        ManipulationGraph.from_matrix(matrix),
        ManipulationGraph.from_networkx(digraph),
    ):
        assert [graph.neighbors(x).tolist() for x in range(3)] == lists
        assert graph.k == 2


def test_actions_reach_exactly_what_the_budget_allows() -> None:
    X = np.array([[0.0, 0.0], [3.0, 2.0]])
    actions = [Action("a", 0, 1, cost=1.0), Action("b", 1, 2, cost=1.5)]
    graph = ManipulationGraph.from_actions(X, actions, budget=2.5)
    reached = {tuple(p) for p in graph.features[graph.neighbors(graph.node_of(X[:1])[0])]}
    affordable = {
        (float(i), 2.0 * j)
        for i in range(4)
        for j in range(3)
        if 0 < i + 1.5 * j <= 2.5 and i <= 3 and 2 * j <= 2
    }
    assert reached == affordable
    assert graph.neighbors(graph.node_of(X[1:])[0]).size == 0  # nothing leaves the seen range


def test_regret_compares_with_every_rule_under_its_own_responses() -> None:
    # The rule 1{node 1} accepts the agent at 0 as well, who moves there.
    assert stackelberg_regret([0, 0], [0, 1], [1, 1], TWO, ARC) == 0
    assert stackelberg_regret([1, 1], [0, 1], [0, 1], TWO, ARC) == 1


def test_transcripts_count_both_kinds_of_mistakes() -> None:
    columns = {"x": [0, 0, 1], "report": [0, 0, 1], "yhat": [1, 0, 1], "y": [0, 1, 1]}
    game = StrategicTranscript({name: np.array(values) for name, values in columns.items()}, {})
    assert (game.mistakes, game.false_positives, game.false_negatives) == (2, 1, 1)
    assert "2 mistakes" in game.summary()


def test_a_graph_can_be_rebuilt_from_its_own_matrix() -> None:
    again = ManipulationGraph.from_matrix(ARC.adjacency, features=[[0.0], [2.0]])
    assert again.neighbors(0).tolist() == [1]
    assert ARC.neighbors(0).tolist() == [1]


def test_s4_limits_bind_only_the_features_that_change() -> None:
    """S4: who stands outside the limits of one action may still take another one."""
    X = np.array([[3.0, 0.0], [6.0, 0.0], [6.0, 1.0]])
    actions = [
        Action("close a card", column=0, change=-1, cost=1.0, low=5),
        Action("raise income", column=1, change=1, cost=1.0),
    ]
    graph = ManipulationGraph.from_actions(X, actions, budget=1.0)

    def reached(point: list[float]) -> set[tuple[float, ...]]:
        node = int(graph.node_of([point])[0])
        return {tuple(row) for row in graph.features[graph.neighbors(node)]}

    assert reached([3.0, 0.0]) == {(3.0, 1.0)}  # two cards fewer than allowed, income is free
    assert reached([6.0, 0.0]) == {(5.0, 0.0), (6.0, 1.0)}
    assert reached([6.0, 1.0]) == {(5.0, 1.0)}  # income ends at the largest value seen
