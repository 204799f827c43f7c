"""Contract cases of counterplay.strategic."""

import networkx as nx
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from contracts.graph_cases import GRAPH_CASES
from counterplay.strategic import (
    MWMR,
    Ability,
    Agents,
    Applicants,
    ApplicantStream,
    Change,
    Derived,
    EstimatorClass,
    LinearClass,
    Moves,
    NotAbove,
    OneHot,
    StrategicHalving,
    Switch,
    bounds,
    cheapest_moves,
    estimate_ability,
    gaming_report,
    instances,
    play,
    rethreshold,
    value_of_information,
)
from counterplay.strategic.lab import (
    AllNegative,
    BoxClass,
    ConfidenceBoost,
    DeltaOnlyElimination,
    DistanceTableClass,
    EmpiricalPopulation,
    Feedback,
    FiniteERM,
    FiniteMetricClass,
    GraphMetric,
    GraphMetricClass,
    LongestSurvivor,
    MajorityHalving,
    Marginals,
    MedianMapPredictor,
    NormMetric,
    PermutationMetric,
    PermutationMetricClass,
    PositiveSet,
    ProperUnionSampling,
    QuantileProbe,
    Reaction,
    RuleSetClass,
    Seen,
    SequentialElimination,
    TableMetric,
    TabulatedClass,
    ThresholdClass,
    UnionPredictor,
    UnionSamplingClassifier,
    UnionSamplingLearner,
    make_conservative,
    minimax_mistakes,
    mistake_filter,
    mwmr_worst_mistakes,
    safe_filter,
)

LINE = [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
RULES = [[0, 0, 1], [0, 1, 1]]


def linear(n=12):
    rng = np.random.default_rng(0)
    return LinearClass(rng.normal(size=(n, 3)), rng.normal(size=n))


def people(m=60):
    rng = np.random.default_rng(1)
    return Agents.from_target(
        linear(), rng.normal(size=(m, 3)), radius=rng.exponential(0.5, m), target=4
    )


def applicants(setting):
    return Applicants(people(), setting)


def fitted(model=None):
    agents = people(200)
    return (model or LogisticRegression()).fit(agents.X, agents.y)


def run_in(setting):
    return lambda learner: play(learner, applicants(setting)).to_frame()


def make_union(rng):
    return UnionSamplingLearner(linear(), random_state=rng)


def boosted():
    return ConfidenceBoost(make_union, rounds=50, eps=0.1, delta=0.5, random_state=0)


def study():
    return value_of_information(linear(), people().X, radius=0.3, repeats=2, random_state=0)


NORM = {"norm 3": lambda: NormMetric(norm=3), "cost 0": lambda: NormMetric(costs=[0.0])}
STREAM = {"setting": "features_after", "random_state": 0}

CLASSES = {
    "BoxClass": {
        "make": lambda: BoxClass([[0.0, 0.0]], [[1.0, 2.0]]),
        "run": lambda c: c.distances([[2.0, 3.0]]),
        "bad": {"empty box": lambda: BoxClass([[1.0]], [[0.0]])},
    },
    "DistanceTableClass": {
        "make": lambda: DistanceTableClass(3),
        "run": lambda c: c.distances([[1.0, 0.0, 2.0]]),
        "bad": {
            "no rules": lambda: DistanceTableClass(0),
            "negative distance": lambda: DistanceTableClass(1).distances([[-1.0]]),
        },
    },
    "EstimatorClass": {
        "make": lambda: EstimatorClass([fitted()], people().X),
        "run": lambda c: c.distances(people().X[:5]),
        "bad": {"no estimators": lambda: EstimatorClass([], [[0.0]])},
    },
    "FiniteMetricClass": {
        "make": lambda: FiniteMetricClass(LINE, RULES),
        "run": lambda c: c.distances([0, 1]),
        "bad": {
            "not symmetric": lambda: FiniteMetricClass([[0, 1], [2, 0]], [[0, 1]]),
            "no rules": lambda: FiniteMetricClass(LINE, np.empty((0, 3))),
            "unknown point": lambda: FiniteMetricClass(LINE, RULES).distances([3]),
        },
    },
    "GraphMetric": {
        "make": lambda: GraphMetric(nx.path_graph(4)),
        "run": lambda m: m.pairwise([0], [3]),
        "bad": {"directed": lambda: GraphMetric(nx.DiGraph([(0, 1)]))},
    },
    "GraphMetricClass": {
        "make": lambda: GraphMetricClass(nx.path_graph(3), RULES),
        "run": lambda c: c.distances([0, 1]),
        "bad": {"wrong width": lambda: GraphMetricClass(nx.path_graph(3), [[0, 1]])},
    },
    "LinearClass": {
        "make": linear,
        "run": lambda c: c.distances(people().X),
        "bad": {
            "NaN": lambda: LinearClass([[np.nan]], [0.0]),
            "thresholds": lambda: LinearClass([[1.0]], [0.0, 1.0]),
            "norm": lambda: LinearClass([[1.0]], [0.0], norm=4),
        },
    },
    "NormMetric": {
        "make": lambda: NormMetric(1, [1.0, np.inf]),
        "run": lambda m: m.length([[1.0, 0.0]]),
        "bad": NORM,
    },
    "PermutationMetric": {
        "make": lambda: PermutationMetric(4),
        "run": lambda m: m.pairwise([[0, 1, 2, 3]], [[3, 2, 1, 0]]),
        "bad": {"n = 1": lambda: PermutationMetric(1)},
    },
    "PermutationMetricClass": {
        "make": lambda: PermutationMetricClass(4),
        "run": lambda c: c.distances([[0, 1, 2, 3]]),
        "bad": {"features": lambda: PermutationMetricClass(3).distances([[0.5, 1.0, 2.0]])},
    },
    "RuleSetClass": {
        "make": lambda: RuleSetClass.from_trees([fitted(DecisionTreeClassifier(random_state=0))]),
        "run": lambda c: c.distances(people().X),
        "bad": {"no rules": lambda: RuleSetClass([])},
    },
    "TableMetric": {
        "make": lambda: TableMetric(LINE),
        "run": lambda m: m.pairwise([0], [2]),
        "bad": {"triangle": lambda: TableMetric([[0, 1, 5], [1, 0, 1], [5, 1, 0]])},
    },
    "TabulatedClass": {
        "make": lambda: TabulatedClass(linear(), people().X),
        "run": lambda c: c.distances([0, 1]),
        "bad": {"unknown row": lambda: TabulatedClass(linear(), people().X).distances([60])},
    },
    "ThresholdClass": {
        "make": lambda: ThresholdClass([1.0, 2.0]),
        "run": lambda c: c.distances([[0.0]]),
        "bad": {"NaN": lambda: ThresholdClass([np.nan])},
    },
}

PREDICTORS = {
    "AllNegative": {"make": AllNegative, "run": lambda f: f.loss(people())},
    "MedianMapPredictor": {
        "make": lambda: MedianMapPredictor(linear(), [0, 3, 4]),
        "run": lambda f: f.loss(people()),
        "bad": {"no members": lambda: MedianMapPredictor(linear(), [])},
    },
    "PositiveSet": {
        "make": lambda: PositiveSet(TableMetric(LINE), np.array([0, 2])),
        "run": lambda f: f.distance(np.array([0, 1])),
        "bad": {"nothing": lambda: PositiveSet(TableMetric(LINE), np.array([], dtype=int))},
    },
    "UnionPredictor": {
        "make": lambda: UnionPredictor(linear(), [1, 2]),
        "run": lambda f: f.loss(people()),
        "bad": {"unknown rule": lambda: UnionPredictor(linear(), [99])},
    },
}

LEARNERS = {
    "ConfidenceBoost": {
        "make": boosted,
        "run": lambda b: b.fit(ApplicantStream(people(), **STREAM)).validation_losses_,
        "bad": {"delta": lambda: ConfidenceBoost(make_union, rounds=5, eps=0.1, delta=1.0)},
    },
    "DeltaOnlyElimination": {
        "make": lambda: DeltaOnlyElimination(linear(), random_state=0),
        "run": run_in("report_only"),
        "bad": {"choice": lambda: DeltaOnlyElimination(linear(), choice="best")},
    },
    "LongestSurvivor": {
        "make": lambda: LongestSurvivor(StrategicHalving(linear()), 0.1, 0.1),
        "run": lambda s: (
            s.fit(ApplicantStream(people(), "features_first", random_state=0)).rounds_,
            s.predictor_.members,
        ),
        "bad": {"not conservative": lambda: LongestSurvivor(MWMR(linear()), 0.1, 0.1)},
    },
    "MWMR": {
        "make": lambda: MWMR(linear(), random_state=0),
        "run": run_in("features_after"),
        "bad": {"filter": lambda: MWMR(linear(), filter="all")},
    },
    "MajorityHalving": {
        "make": lambda: MajorityHalving(instances.star_instance(4).hypotheses),
        "run": lambda f: play(f, instances.star_instance(4).adversary(), rounds=5).to_frame(),
        "bad": {"no finite space": lambda: MajorityHalving(linear())},
    },
    "FiniteERM": {
        "make": lambda: FiniteERM(linear()),
        "run": lambda e: e.fit(people()).losses_,
        "bad": {"no agents": lambda: FiniteERM(linear()).fit(people().X, people().y)},
    },
    "ProperUnionSampling": {
        "make": lambda: ProperUnionSampling(linear(), random_state=0),
        "run": run_in("features_after"),
    },
    "QuantileProbe": {
        "make": lambda: QuantileProbe(linear(), random_state=0),
        "run": run_in("features_first"),
        "bad": {"output": lambda: QuantileProbe(linear(), output="best")},
    },
    "SequentialElimination": {
        "make": lambda: SequentialElimination(linear()),
        "run": run_in("blind"),
        "bad": {"order": lambda: SequentialElimination(linear(), order=[0])},
    },
    "StrategicHalving": {
        "make": lambda: StrategicHalving(linear()),
        "run": run_in("features_first"),
        "bad": {
            "median": lambda: StrategicHalving(linear(), median="mean"),
            "setting": lambda: play(StrategicHalving(linear()), applicants("blind")),
            "radius range": lambda: StrategicHalving(linear(), radius_range=(2, 1)),
        },
    },
    "UnionSamplingClassifier": {
        "make": lambda: UnionSamplingClassifier(
            linear(), eps=0.5, delta=0.5, constant="refined", random_state=0
        ),
        "run": lambda c: c.fit(ApplicantStream(people(), **STREAM)).members_,
        "bad": {"eps": lambda: UnionSamplingClassifier(linear(), eps=0.0)},
    },
    "UnionSamplingLearner": {
        "make": lambda: UnionSamplingLearner(linear(), random_state=0),
        "run": run_in("features_after"),
        "bad": {"output first": lambda: UnionSamplingLearner(linear()).output()},
    },
}

GAME = {
    "Agents": {
        "make": people,
        "run": lambda a: a.losses(linear()),
        "bad": {
            "labels -1/+1": lambda: Agents([[0.0]], [-1], radius=0.0),
            "negative radius": lambda: Agents([[0.0]], [1], radius=-1.0),
            "neither radius nor sets": lambda: Agents([[0.0]], [1]),
        },
    },
    "ApplicantStream": {
        "make": lambda: ApplicantStream(people(), **STREAM),
        "run": lambda s: s.next_agents(10).X,
        "bad": {"setting": lambda: ApplicantStream(people(), "everything")},
    },
    "Applicants": {
        "make": lambda: applicants("features_first"),
        "run": lambda a: a.next_agents(5).X,
        "bad": {"tie": lambda: Applicants(people(), tie="last")},
    },
    "EmpiricalPopulation": {
        "make": lambda: EmpiricalPopulation(people()),
        "run": lambda p: p.sample(5, random_state=0).X,
    },
    "Feedback": {"make": lambda: Feedback(y=1, yhat=0)},
    "Marginals": {"make": lambda: Marginals(np.ones(3) / 3)},
    "Reaction": {"make": lambda: Reaction(y=1, yhat=0)},
    "Seen": {"make": lambda: Seen(3, 1)},
    "StrategicTranscript": {
        "make": lambda: play(StrategicHalving(linear()), applicants("features_first"))
    },
    "SamplePlan": {"make": lambda: UnionSamplingClassifier(linear(), eps=0.1).plan()},
    "make_conservative": {
        "args": lambda: {"learner": StrategicHalving(linear(), random_state=0)},
        "bad": {"randomised": lambda: make_conservative(MWMR(linear()))},
    },
}

FUNCTIONS = {
    "ValueOfInformation": {"make": study},
    "minimax_mistakes": {
        "args": lambda: {
            "hypotheses": FiniteMetricClass(LINE, RULES),
            "setting": "features_first",
        },
        "bad": {
            "setting": lambda: minimax_mistakes(FiniteMetricClass(LINE, RULES), "blind"),
            "no graph": lambda: minimax_mistakes(instances.path_AB_C(3).hypotheses, "blind"),
        },
    },
    "Ability": {
        "make": lambda: estimate_ability(
            fitted(),
            np.tile(people().X, (10, 1)),
            np.tile(people().X, (10, 1)),
            Moves({0: Change("both", per="unit")}),
            random_state=0,
        ),
        "run": lambda ability: ability.summary(),
        "bad": {
            "share": lambda: Ability(None, 0.3, None, None, np.zeros(1), np.zeros(1)).summary()
        },
    },
    "estimate_ability": {
        "args": lambda: {
            "model": fitted(),
            "before": np.tile(people().X, (10, 1)),
            "after": np.tile(people().X, (10, 1)),
            "moves": Moves({0: Change("both", per="unit")}),
            "random_state": 0,
        },
        "bad": {
            "few": lambda: estimate_ability(
                fitted(), people().X[:9], people().X[:9], Moves({0: Change("both", per="unit")})
            )
        },
    },
    "Change": {
        "make": lambda: Change("down", step=1.0, per="unit", low=0.0),
        "bad": {"low above high": lambda: Change("up", low=2.0, high=1.0)},
    },
    "Switch": {
        "make": lambda: Switch({("rent", "own"): 3.0}),
        "bad": {"free": lambda: Switch(0.0)},
    },
    "Derived": {
        "make": lambda: Derived("ratio", of=["debt", "income"], by="debt / income"),
        "bad": {"formula": lambda: Derived("ratio", of=["debt"], by="exec(debt)")},
    },
    "NotAbove": {
        "make": lambda: NotAbove("late90", "late60"),
        "bad": {"one column": lambda: NotAbove("late90", "late90")},
    },
    "OneHot": {
        "make": lambda: OneHot(["rents", "owns"]),
        "bad": {"one column": lambda: OneHot(["rents"])},
    },
    "Moves": {
        "make": lambda: Moves({0: Change("up"), 1: Change("both", per="sd")}, reference=people().X),
        "run": lambda moves: moves.describe(),
        "bad": {"nothing moves": lambda: Moves({})},
    },
    "cheapest_moves": {
        "args": lambda: {
            "model": fitted(),
            "X": people().X,
            "moves": Moves({0: Change("both", per="unit")}),
        },
        "bad": {
            "budget": lambda: cheapest_moves(
                fitted(), people().X, Moves({0: Change("both", per="unit")}), budget=-1.0
            )
        },
    },
    "gaming_report": {
        "args": lambda: {"model": fitted(), "X": people().X, "y": people().y, "budget": 0.3},
        "bad": {"budget": lambda: gaming_report(fitted(), people().X, people().y, budget=-1.0)},
    },
    "mistake_filter": {
        "args": {"row": [1.0, 2.0], "rho": 1.0, "y": 0, "yhat": 1},
        "bad": {"NaN": lambda: mistake_filter([np.nan], 1.0, 0, 1)},
    },
    "rethreshold": {
        "args": lambda: {
            "model": fitted(),
            "X": people().X,
            "y": people().y,
            "moves": Moves({0: Change("both", per="unit")}),
        },
        "bad": {
            "budget": lambda: rethreshold(
                fitted(), people().X, people().y, Moves({0: Change("both", per="unit")}), (2, 1)
            )
        },
    },
    "safe_filter": {
        "args": {"row": [1.0, 2.0], "rho": 1.0, "y": 0, "yhat": 0},
        "bad": {"label": lambda: safe_filter([1.0], 1.0, 2, 0)},
    },
    "safe_set_filter": {
        "args": lambda: {
            "positive": np.eye(3, dtype=bool),
            "published": np.array([True, False, False]),
            "x": 1,
            "delta": 0,
            "y": 0,
            "yhat": 1,
        },
    },
    "value_of_information": {
        "args": lambda: {
            "hypotheses": linear(),
            "X": people().X,
            "radius": 0.3,
            "repeats": 2,
            "random_state": 0,
        },
        "bad": {
            "repeats": lambda: value_of_information(linear(), people().X, radius=0.3, repeats=0)
        },
    },
    "mwmr_worst_mistakes": {
        "args": {"n": 8, "rounds": 10},
        "bad": {"n": lambda: mwmr_worst_mistakes(0, 3)},
    },
}

BOUNDS = {
    "bounds.boost_repetitions": {"args": {"delta": 0.1}},
    "bounds.boost_rounds": {"args": {"rounds": 100, "eps": 0.1, "delta": 0.1}},
    "bounds.boost_validation_size": {"args": {"eps": 0.1, "delta": 0.1}},
    "bounds.halving_mistakes": {"args": {"n": 100}},
    "bounds.halving_pac_rounds": {"args": {"n": 100, "eps": 0.1, "delta": 0.1}},
    "bounds.information_lower_bound": {
        "args": {"n": 100, "eps": 0.01},
        "bad": {"case": lambda: bounds.information_lower_bound(10, 0.1, "all")},
    },
    "bounds.lazy_adversary_rounds": {"args": {"n": 16}},
    "bounds.mwmr_mistakes": {
        "args": {"n": 64, "rounds": 100},
        "bad": {"constant": lambda: bounds.mwmr_mistakes(4, 4, "best")},
    },
    "bounds.online_lower_bound": {"args": {"n": 16, "rounds": 1000, "delta": 0.05}},
    "bounds.proper_lower_bound": {"args": {"n": 100, "eps": 0.01}},
    "bounds.quantile_probe_error": {"args": {"n": 100, "rounds": 1000}},
    "bounds.quantile_probe_rounds": {"args": {"n": 100, "eps": 0.1}},
    "bounds.random_order_mistakes": {"args": {"n": 100}},
    "bounds.sequential_mistakes": {"args": {"n": 100}},
    "bounds.sequential_pac_rounds": {"args": {"n": 100, "eps": 0.1, "delta": 0.1}},
    "bounds.survivor_length": {"args": {"mistakes": 8, "eps": 0.1, "delta": 0.1}},
    "bounds.survivor_rounds": {"args": {"mistakes": 8, "eps": 0.1, "delta": 0.1}},
    "bounds.union_sampling_constant": {"args": {"constant": "refined"}},
    "bounds.union_sampling_error": {"args": {"n": 100, "rounds": 1000}},
    "bounds.union_sampling_factor": {"args": {"m": 20}},
    "bounds.union_sampling_rounds": {"args": {"n": 100, "eps": 0.1}},
}


def star():
    return instances.star_instance(4).hypotheses


def online():
    return instances.online_lb_instance(4).hypotheses


def population(make, n=6, **options):
    return {
        "make": lambda: make(n, **options),
        "run": lambda p: p.sample(20, random_state=0).y,
    }


INSTANCES = {
    "instances.HalvingAdversary": {
        "make": lambda: instances.HalvingAdversary(ThresholdClass([1.0, 2.0, 3.0])),
        "run": lambda a: play(StrategicHalving(a.hypotheses), a).to_frame(),
    },
    "instances.LinearBanditEnv": {
        "make": lambda: instances.LinearBanditEnv(4, 1, 0.01),
        "run": lambda b: b.pull([1, 0, 1, 0], 20, random_state=0),
        "bad": {"p = 0": lambda: instances.LinearBanditEnv(4, 1, 0.0)},
    },
    "instances.MWMRAdversary": {
        "make": lambda: instances.MWMRAdversary(DistanceTableClass(4), rounds=6),
        "run": lambda a: play(MWMR(a.hypotheses, random_state=0), a).to_frame(),
        "bad": {"rounds = 0": lambda: instances.MWMRAdversary(DistanceTableClass(4), 0)},
    },
    "instances.OnlineAdversary": {
        "make": lambda: instances.OnlineAdversary(online()),
        "run": lambda a: play(MWMR(a.hypotheses, random_state=0), a, rounds=20).to_frame(),
        "bad": {"target": lambda: instances.OnlineAdversary(online(), target=1)},
    },
    "instances.OnlineInstance": {"make": lambda: instances.star_instance(3)},
    "instances.StarAdversary": {
        "make": lambda: instances.StarAdversary(star()),
        "run": lambda a: play(SequentialElimination(a.hypotheses), a, rounds=8).to_frame(),
        "bad": {
            "randomised learner": lambda: play(
                MWMR(star(), random_state=0), instances.StarAdversary(star()), rounds=3
            )
        },
    },
    "instances.bernoulli_kl": {"args": {"p": 0.5, "q": 0.25}},
    "instances.BlindInstance": {
        **population(instances.BlindInstance, eps=0.02),
        "bad": {"eps": lambda: instances.BlindInstance(6, 0.5)},
    },
    "instances.ConservativeInstance": {
        **population(instances.ConservativeInstance, eps=0.02),
        "bad": {"eps": lambda: instances.ConservativeInstance(6, 0.5)},
    },
    "instances.kl_divergence": {"args": {"p": [0.5, 0.5], "q": [0.25, 0.75]}},
    "instances.kl_table": {"args": {"n": 6, "k": 2, "p": 0.001}},
    "instances.mwmr_worst_case": {
        "args": {"n": 6, "rounds": 5},
        "bad": {"rounds": lambda: instances.mwmr_worst_case(6, 0)},
    },
    "instances.NonBallInstance": {
        **population(instances.NonBallInstance, eps=0.02),
        "bad": {"eps": lambda: instances.NonBallInstance(6, 0.5)},
    },
    "instances.online_lb_instance": {
        "args": {"n": 6},
        "bad": {"n": lambda: instances.online_lb_instance(1)},
    },
    "instances.ProperInstance": {
        **population(instances.ProperInstance, eps=0.02),
        "bad": {"n": lambda: instances.ProperInstance(2, 0.02)},
    },
    "instances.SparseWrong": {
        **population(instances.SparseWrong, share=0.2),
        "bad": {"share": lambda: instances.SparseWrong(20, 0.99)},
    },
    "instances.star_instance": {
        "args": {"n": 6},
        "bad": {"n": lambda: instances.star_instance(0)},
    },
    "instances.threshold_line": {
        "args": {"n": 6},
        "bad": {"n": lambda: instances.threshold_line(0)},
    },
}

CASES = {**CLASSES, **PREDICTORS, **LEARNERS, **GAME, **FUNCTIONS, **BOUNDS, **INSTANCES}
CASES |= GRAPH_CASES
