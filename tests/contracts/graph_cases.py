"""Contract cases of the manipulation graphs in counterplay.strategic."""

import math

import numpy as np
from sklearn.cluster import KMeans

from counterplay.core.finite_class import FiniteClass
from counterplay.strategic import (
    Action,
    GraphApplicants,
    ManipulationGraph,
    StrategicERM,
    StrategicLinearClassifier,
    bounds,
    instances,
    play,
    strategic_accuracy,
)
from counterplay.strategic.lab import (
    FEATURES_FIRST,
    FEATURES_FIRST_GRAPH,
    REPORT_ONLY_GRAPH,
    SOA,
    AgnosticCoverHedge,
    BiasedMajorityVote,
    ConsistentGraphOnly,
    DisjunctionElimination,
    ExplicitGraphClass,
    GridThreshold,
    Halving,
    HedgeOverH,
    LearnerDashboard,
    LittlestoneSolver,
    LocalGraph,
    NeighborhoodLearner,
    PerceptronLearner,
    ProductGraphClass,
    Red2OnlineFI,
    Red2OnlinePMF,
    SingletonLearner,
    StrategyUnawareOnline,
    SuperGraph,
    UnknownGraphOnline,
    UnknownGraphPACAgnostic,
    UnknownGraphPACRealizable,
    WinnowLearner,
    graph_loss,
    induced_predictions,
    littlestone_dimension,
    probe,
    proxy_loss,
    respond,
    stackelberg_regret,
    worst_case_mistakes,
)

LINE = FiniteClass.thresholds(range(5))
NODES, LABELS = [0, 1, 2, 0], [1, 1, 0, 1]


def line():
    return ManipulationGraph.from_lists([[1], [], []], features=[[0.0], [1.0], [2.0]])


def rules():
    return FiniteClass.from_matrix([[0, 1, 0], [0, 0, 1], [0, 0, 0]])


def candidates():
    return ExplicitGraphClass.from_graphs(
        [
            ManipulationGraph.from_lists([[1, 2], [], []]),
            ManipulationGraph.from_lists([[1], [], []]),
        ]
    )


def shift(x):
    return x + np.array([[1.0]])


def last_is_large(Z):
    return Z[:, -1] >= 1


def played(mode):
    return lambda learner: play(learner, GraphApplicants(line(), NODES, LABELS, setting=mode))


def predictions(points):
    return lambda learner: learner.updated(points[0], 1).predict(points)


def clicks():
    rng = np.random.default_rng(0)
    return rng.normal(size=(12, 3))[rng.integers(0, 12, size=60)], rng.integers(0, 4, size=60)


# Trained on one item per visit, it predicts whole sets: an indicator matrix, not one label per row.
NEIGHBORHOOD_CHECKS = {
    "check_classifiers_one_label": "predicts sets of items, the check compares single labels",
    "check_classifiers_classes": "predicts sets of items, the check compares single labels",
    "check_classifiers_train": "predicts sets of items, the check wants one label per row",
}

ASKED = "the labels are neither 0/1 nor True/False, so that the wanted one is asked for"
CLASSIFIER_CHECKS = {
    "check_estimators_dtypes": ASKED,
    "check_sample_weights_pandas_series": ASKED,
    "check_sample_weights_not_an_array": ASKED,
    "check_sample_weights_shape": ASKED,
    "check_sample_weights_not_overwritten": ASKED,
    "check_classifier_data_not_an_array": ASKED,
    "check_classifiers_classes": ASKED,
    "check_fit2d_1feature": ASKED,
    "check_dtype_object": "a cell that is no number raises InvalidInputError, a ValueError",
}

LEARNERS = {
    "Red2OnlineFI": {
        "make": lambda: Red2OnlineFI(SOA(rules())),
        "run": played(FEATURES_FIRST_GRAPH),
    },
    "Red2OnlinePMF": {
        "make": lambda: Red2OnlinePMF(SOA(rules()), 1),
        "run": played(REPORT_ONLY_GRAPH),
        "bad": {"k": lambda: Red2OnlinePMF(SOA(rules()), -1)},
    },
    "LearnerDashboard": {
        "make": lambda: LearnerDashboard(Red2OnlinePMF(SOA(rules()), 1)),
        "run": lambda board: [
            [board.update(v, bag, y) for v, bag, y in [(1, [1], 0), (0, [0, 1], 0), (2, [2], 1)]],
            board.to_frame(),
        ],
        "bad": {
            "learner": lambda: LearnerDashboard(SOA(rules())),
            "label": lambda: LearnerDashboard(Red2OnlineFI(SOA(rules()))).update(0, [0], -1),
            "more moves than k": lambda: LearnerDashboard(Red2OnlinePMF(SOA(rules()), 1)).update(
                0, [0, 1, 2], 1
            ),
        },
    },
    "UnknownGraphOnline": {
        "make": lambda: UnknownGraphOnline(Halving(rules()), candidates()),
        "run": played(FEATURES_FIRST),
        "bad": {"k": lambda: UnknownGraphOnline(Halving(rules()), candidates(), k=1)},
    },
    "AgnosticCoverHedge": {
        "make": lambda: AgnosticCoverHedge(SOA(rules()), M=2, horizon=9, random_state=0),
        "run": played(FEATURES_FIRST_GRAPH),
        "bad": {"horizon": lambda: AgnosticCoverHedge(SOA(rules()), M=2, horizon=0)},
    },
    "BiasedMajorityVote": {
        "make": lambda: BiasedMajorityVote(rules(), 1),
        "run": played(REPORT_ONLY_GRAPH),
        "bad": {"k": lambda: BiasedMajorityVote(rules(), -1)},
    },
    "HedgeOverH": {
        "make": lambda: HedgeOverH(rules(), 9, random_state=0),
        "run": played(FEATURES_FIRST_GRAPH),
        "bad": {"horizon": lambda: HedgeOverH(rules(), 0)},
    },
    "StrategyUnawareOnline": {
        "make": lambda: StrategyUnawareOnline(SOA(rules())),
        "run": played(REPORT_ONLY_GRAPH),
    },
    "ConsistentGraphOnly": {
        "make": lambda: ConsistentGraphOnly(rules(), candidates()),
        "run": lambda model: model.fit([0, 2], [1, 2], [1, 0]).choice,
        "bad": {
            "labels": lambda: ConsistentGraphOnly(rules(), candidates()).fit([0], [1], [-1]),
        },
    },
    "SuperGraph": {
        "make": lambda: SuperGraph(rules(), candidates()),
        "run": lambda model: model.fit([0, 2], [1, 2], [1, 0]).hypothesis,
    },
    "PerceptronLearner": {
        "make": lambda: PerceptronLearner(2, 1.0, 0.1),
        "run": predictions([[1.0, 0.0], [0.0, -1.0]]),
        "bad": {"no margin": lambda: PerceptronLearner(2, 1.0, 0.0)},
    },
    "WinnowLearner": {
        "make": lambda: WinnowLearner(4, 1),
        "run": predictions([[1, 0, 0, 0], [0, 1, 1, 0]]),
        "bad": {"r": lambda: WinnowLearner(4, 0)},
    },
    "DisjunctionElimination": {
        "make": lambda: DisjunctionElimination(3),
        "run": predictions([[1, 0, 0], [0, 1, 1]]),
        "bad": {"p": lambda: DisjunctionElimination(0)},
    },
    "SingletonLearner": {"make": SingletonLearner, "run": predictions([3, 4])},
    "GridThreshold": {
        "make": lambda: GridThreshold(7),
        "run": predictions([2, 5]),
        "bad": {"N": lambda: GridThreshold(0)},
    },
}

GRAPHS = {
    "Action": {
        "make": lambda: Action("close a card", 1, -1, cost=1.0),
        "bad": {"cost": lambda: Action("free", 0, 1, cost=0.0)},
    },
    "ManipulationGraph": {
        "make": line,
        "bad": {"self-loop": lambda: ManipulationGraph.from_lists([[0]])},
    },
    "LocalGraph": {
        "make": lambda: LocalGraph(shift, k=1),
        "bad": {"too many": lambda: LocalGraph(shift, k=0).closed([0.0])},
    },
    "ExplicitGraphClass": {
        "make": candidates,
        "bad": {"empty": lambda: ExplicitGraphClass(np.zeros((0, 2, 2), dtype=bool))},
    },
    "ProductGraphClass": {
        "make": lambda: ProductGraphClass(3, (((0,), ({}, {0: (1,)})),)),
        "bad": {"no candidate": lambda: ProductGraphClass(3, (((0,), ()),))},
    },
    "GraphApplicants": {
        "make": lambda: GraphApplicants(line(), NODES, LABELS),
        "run": lambda game: play(Red2OnlineFI(SOA(rules())), game).to_frame(),
        "bad": {
            "labels": lambda: GraphApplicants(line(), NODES, [1]),
            "node": lambda: GraphApplicants(line(), [3], [1]),
            "setting": lambda: GraphApplicants(line(), NODES, LABELS, setting="blind"),
        },
    },
    "UnknownGraphFit": {
        "make": lambda: UnknownGraphPACAgnostic(rules(), candidates()).fit([0], [1], [0], [1])
    },
    "UnknownGraphPACRealizable": {
        "make": lambda: UnknownGraphPACRealizable(rules(), candidates()),
        "run": lambda learner: learner.fit([0, 2], [1, 2], [1, 0]),
        "bad": {
            "nodes": lambda: UnknownGraphPACRealizable(FiniteClass.singletons(2), candidates())
        },
    },
    "UnknownGraphPACAgnostic": {
        "make": lambda: UnknownGraphPACAgnostic(rules(), candidates()),
        "run": lambda learner: learner.fit([0, 2], [1, 2], [0, 2], [1, 0]),
        "bad": {"nodes": lambda: UnknownGraphPACAgnostic(FiniteClass.singletons(2), candidates())},
    },
}

ESTIMATORS = {
    "StrategicERM": {
        "make": lambda: StrategicERM(restarts=1, random_state=0),
        "check_estimator": CLASSIFIER_CHECKS,
        "bad": {"backend": lambda: StrategicERM("x").fit([[0.0], [1.0]], [0, 1])},
    },
    "StrategicLinearClassifier": {
        "make": lambda: StrategicLinearClassifier(radius=0.5),
        "check_estimator": CLASSIFIER_CHECKS,
        "bad": {"norm": lambda: StrategicLinearClassifier(norm=3).fit([[0.0], [1.0]], [0, 1])},
    },
    "NeighborhoodLearner": {
        "make": lambda: NeighborhoodLearner(k=2, people=KMeans(3, n_init=1, random_state=0)),
        "data": clicks,
        "check_estimator": NEIGHBORHOOD_CHECKS,
        "bad": {
            "mode": lambda: NeighborhoodLearner(mode="best").fit([0], [1]),
            "k": lambda: NeighborhoodLearner(k=0).fit([0], [1]),
            "lengths": lambda: NeighborhoodLearner().fit([0], [1, 2]),
            "stranger": lambda: NeighborhoodLearner().fit([0, 1], [1, 1]).predict([7]),
        },
    },
}

FUNCTIONS = {
    "respond": {
        "args": lambda: {"labels": [0, 1, 1], "x": 0, "graph": line(), "random_state": 0},
        "bad": {"tie": lambda: respond([0, 1, 1], 0, line(), "nearest")},
    },
    "induced_predictions": {
        "args": lambda: {"model": last_is_large, "X": [[0.0], [2.0]], "graph": line()},
        "bad": {"no rule": lambda: induced_predictions(3, [[0.0]])},
    },
    "strategic_accuracy": {
        "args": lambda: {"model": last_is_large, "X": [[0.0]], "y": [1], "graph": line()},
        "bad": {"labels": lambda: strategic_accuracy(last_is_large, [[0.0]], [-1], graph=line())},
    },
    "stackelberg_regret": {
        "args": lambda: {"losses": [1], "nodes": [0], "y": [1], "cls": rules(), "graph": line()},
        "bad": {"labels": lambda: stackelberg_regret([1], [0], [-1], rules(), line())},
    },
    "probe": {
        "args": lambda: {"graph": line(), "nodes": NODES, "random_state": 0},
        "bad": {"node": lambda: probe(line(), [7])},
    },
    "proxy_loss": {
        "args": lambda: {"candidate": line(), "truth": candidates().graph(0), "k": 2},
        "bad": {"k": lambda: proxy_loss(line(), line(), 0)},
    },
    "graph_loss": {
        "args": lambda: {"candidate": line(), "truth": candidates().graph(0)},
        "bad": {"sizes": lambda: graph_loss(line(), ManipulationGraph.from_lists([[]]))},
    },
    "worst_case_mistakes": {
        "args": lambda: {
            "learner": Red2OnlineFI(SOA(rules())),
            "hypotheses": rules(),
            "graph": line(),
            "setting": FEATURES_FIRST_GRAPH,
        },
        "bad": {
            "most": lambda: worst_case_mistakes(
                Red2OnlineFI(SOA(rules())), rules(), line(), FEATURES_FIRST_GRAPH, most=0
            )
        },
    },
}

BOUNDS = {
    "bounds.red2online_fi_mistakes": {"args": {"M": 2, "k": 3}},
    "bounds.red2online_pmf_mistakes": {"args": {"M": 2, "k": 3}},
    "bounds.unknown_graph_online_mistakes": {"args": {"M": 2, "k": 3, "log_G": 4.0}},
    "bounds.biased_majority_mistakes": {"args": {"n": 50, "k": 3}},
    "bounds.vc_induced_upper": {"args": {"d": 2, "k": 3, "log_G": 1.0}},
    "bounds.pac_T_realizable": {"args": {"d": 2, "k": 3, "eps": 0.1, "delta": 0.05, "log_G": 1.0}},
    "bounds.pac_T_agnostic": {"args": {"d": 2, "k": 3, "eps": 0.1, "delta": 0.05}},
    "bounds.graph_T_realizable": {
        "args": {"k": 3, "log_G": math.log(9), "eps": 0.1, "delta": 0.05}
    },
    "bounds.graph_certificate": {"args": {"k": 3, "log_G": 4.0, "samples": 90, "delta": 0.05}},
    "bounds.code_error": {"args": {"bits": 3, "labels": 9}},
    "bounds.graph_T_agnostic": {"args": {"k": 3, "log_G": math.log(9), "eps": 0.1, "delta": 0.05}},
    "bounds.unknown_graph_T1": {"args": {"k": 3, "log_G": math.log(9), "eps": 0.1, "delta": 0.05}},
    "bounds.unknown_graph_T2": {"args": {"d": 2, "k": 3, "eps": 0.1, "delta": 0.05}},
    "bounds.unknown_graph_T_realizable": {
        "args": {"d": 2, "k": 3, "log_G": 4.0, "eps": 0.1, "delta": 0.05}
    },
    "bounds.unknown_graph_slack": {
        "args": {"k": 3, "log_G": 4.0, "log_H": 3.0, "T1": 900, "T2": 400, "delta": 0.05}
    },
    "bounds.cover_hedge_regret": {"args": {"rounds": 100, "M": 3}},
    "bounds.cover_hedge_doubling_regret": {"args": {"rounds": 100, "M": 3}},
    "bounds.log_sauer": {
        "args": {"d": 2, "m": 9},
        "bad": {"d": lambda: bounds.log_sauer(-1, 9)},
    },
}

INSTANCES = {
    "instances.GraphInstance": {
        "make": lambda: instances.majority_graph_counterexample(),
        "no_example": "made by the functions of this module, which have examples",
    },
    "instances.SampledGroups": {
        "make": lambda: instances.sampled_groups(4, 0.1),
        "run": lambda groups: groups.sample(20, random_state=0),
        "no_example": "made by sampled_groups, which has an example",
    },
    "instances.sampled_groups": {
        "args": {"n": 4, "eps": 0.1},
        "bad": {"eps": lambda: instances.sampled_groups(4, 0.7)},
    },
    "instances.binary_code_instance": {
        "args": {"k": 4, "d": 1},
        "bad": {"k": lambda: instances.binary_code_instance(1)},
    },
    "instances.star_singletons": {
        "args": {"k": 3, "d": 1},
        "bad": {"k": lambda: instances.star_singletons(1)},
    },
    "instances.halving_trap": {
        "args": {"r": 3, "k": 2},
        "bad": {"r": lambda: instances.halving_trap(0, 2)},
    },
    "instances.group_singletons": {
        "args": {"n": 3},
        "bad": {"n": lambda: instances.group_singletons(1)},
    },
    "instances.path_AB_C": {
        "args": {"n": 3},
        "bad": {"n": lambda: instances.path_AB_C(1)},
    },
    "instances.superset_trap": {
        "args": {"n": 8, "k": 3, "g": 4, "random_state": 0},
        "bad": {"k": lambda: instances.superset_trap(4, 4, 4)},
    },
    "instances.majority_graph_counterexample": {"args": {}},
    "instances.empty_neighborhoods": {"args": {}},
}


def feed(learner: Halving | SOA) -> list:
    """Contradict the learner three times and record what it says."""
    path = []
    for point in (2, 1, 0):
        label = learner.predict(point)
        learner = learner.updated(point, 1 - label)
        path.append([label, learner.key(), learner.predict(np.arange(5))])
    return path


COPYABLE = {
    kind.__name__: {
        "make": lambda kind=kind: kind(FiniteClass.thresholds(range(5))),
        "run": feed,
        "bad": {
            "no such point": lambda kind=kind: kind(LINE).predict(5),
            "label 2": lambda kind=kind: kind(LINE).updated(0, 2),
            "tie 2": lambda kind=kind: kind(LINE, tie=2),
        },
    }
    for kind in (Halving, SOA)
}

DIMENSIONS = {
    "LittlestoneSolver": {
        "make": lambda: LittlestoneSolver(LINE),
        "run": lambda solver: solver.dimension(),
    },
    "littlestone_dimension": {"args": {"cls": LINE}},
    "MistakeTree": {
        "make": lambda: littlestone_dimension(LINE),
        "no_example": "shown by littlestone_dimension",
        "no_frame": "a certificate, not a table",
    },
}

GRAPH_CASES = {
    **LEARNERS,
    **COPYABLE,
    **DIMENSIONS,
    **GRAPHS,
    **ESTIMATORS,
    **FUNCTIONS,
    **BOUNDS,
    **INSTANCES,
}
