"""Games on graphs: who is told what, refused learners, contradictions, bad input."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.core.finite_class import FiniteClass
from counterplay.core.setting import Setting
from counterplay.errors import (
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
)
from counterplay.strategic.lab import (
    FEATURES_AFTER,
    FEATURES_AFTER_GRAPH,
    FEATURES_FIRST,
    FEATURES_FIRST_GRAPH,
    REPORT_ONLY_GRAPH,
    SOA,
    AgnosticCoverHedge,
    BiasedMajorityVote,
    ExplicitGraphClass,
    Halving,
    LocalGraph,
    PerceptronLearner,
    Red2OnlineFI,
    Red2OnlinePMF,
    StrategicLearner,
    UnknownGraphOnline,
    UnknownGraphPACRealizable,
    induced_predictions,
    respond,
)
from counterplay.strategic.settings import GRAPH_SETTINGS

TWO = FiniteClass.from_matrix([[0, 0], [0, 1]])
ARC = ManipulationGraph.from_lists([[1], []])


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
