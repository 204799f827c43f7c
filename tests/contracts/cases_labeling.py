"""Contract cases of counterplay.labeling."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from counterplay.labeling import (
    B2IR,
    GBS,
    Campaign,
    CommitteeStrategy,
    GuardedShadow,
    LabelAudit,
    LabelingSession,
    OptimalTree,
    PoolProblem,
    TestFirstSolo,
    incentive_report,
    instances,
    optimal_mixture,
    plan_campaign,
    safe_violators_mc,
    sir_mixture,
)
from counterplay.labeling.lab import (
    Answer,
    AssumptionCheck,
    FileAnswer,
    FixedOrderScan,
    LabelCertificate,
    LabelQuery,
    OptPartialSIR,
    ProtocolMixture,
    PrunedPartialSIR,
    Question,
    RandomQuery,
    Retraction,
    SIRMixture,
    Step,
    check_assumption2,
    compute_equilibria,
    labeler_reliability,
    read_answers,
)

PROBLEM = instances.gbs_violation_7x6()


def costs(algorithm: Any) -> Any:
    return algorithm.cost_matrix(PROBLEM).astype(float)


def finish(session: LabelingSession) -> list[int]:
    points = []
    while (query := session.ask()) is not None:
        points.append(query.point)
        session.tell(int(PROBLEM.H[3, query.point]))
    return points


def committee() -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(max_depth=2, random_state=0)


def pool() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(30, 2))
    return X, (X[:, 0] > 0).astype(int)


def half(y: np.ndarray) -> np.ndarray:
    return np.where(np.arange(len(y)) % 2 == 0, y, np.nan)


def table() -> pd.DataFrame:
    return pd.DataFrame(pool()[0], columns=["a", "b"])


def campaign() -> Campaign:
    return Campaign(
        pool()[0], owners=[0, 1] * 15, classes=[0, 1], learner=committee(), max_error=0.3,
        random_state=0,
    )  # fmt: skip


def asked() -> Campaign:
    found = campaign()
    found.ask(3)
    return found


def restored(text: str) -> LabelingSession:
    return LabelingSession.from_json(text, PROBLEM, B2IR(GBS()))


def parts() -> list[Any]:
    return [B2IR(GBS()), PrunedPartialSIR(GBS(), 0), PrunedPartialSIR(GBS(), 1)]


CASES: dict[str, dict[str, Any]] = {
    "GBS": {
        "make": lambda: GBS(tie_break="random", random_state=0),
        "run": costs,
        "bad": {"unknown rule": lambda: GBS(assignment="nobody")},
    },
    "OptimalTree": {
        "make": lambda: OptimalTree(tie="random", random_state=0),
        "run": costs,
        "bad": {"no states": lambda: OptimalTree(max_states=0)},
    },
    "FixedOrderScan": {"make": lambda: FixedOrderScan([2, 0]), "run": costs},
    "RandomQuery": {"make": lambda: RandomQuery(random_state=0), "run": costs},
    "B2IR": {"make": lambda: B2IR(GBS()), "run": costs},
    "PrunedPartialSIR": {
        "make": lambda: PrunedPartialSIR(GBS(), 0),
        "run": costs,
        "bad": {"not a tree": lambda: PrunedPartialSIR(RandomQuery(), 0)},
    },
    "OptPartialSIR": {"make": lambda: OptPartialSIR(1), "run": costs},
    "ProtocolMixture": {
        "make": lambda: ProtocolMixture([GBS(), FixedOrderScan()], [0.25, 0.75]),
        "run": costs,
        "bad": {"weights": lambda: ProtocolMixture([GBS()], [2.0])},
    },
    "SIRMixture": {
        "make": lambda: SIRMixture(B2IR(GBS()), parts()[1:], Fraction(1, 2), 6),
        "run": costs,
        "bad": {"eps = 0": lambda: SIRMixture(B2IR(GBS()), parts()[1:], 0, 6)},
    },
    "PoolProblem": {
        "make": lambda: PoolProblem.from_labelings([[0, 1], [1, 1]], agents=[[0], [1]]),
        "run": lambda problem: problem.entropy(),
        "bad": {"nobody": lambda: PoolProblem.from_labelings([[0, 1]], agents=[[0]])},
    },
    "Restriction": {"make": lambda: PROBLEM.restrict((0,)), "no_example": "made by restrict"},
    "QueryTree": {"make": lambda: GBS().tree(PROBLEM)},
    "AssumptionCheck": {
        "make": lambda: AssumptionCheck((True,), (3,)),
        "no_example": "returned by check_assumption1 and check_assumption2",
    },
    "IncentiveReport": {"make": lambda: incentive_report(GBS(), GBS(), PROBLEM)},
    "OptimalMixture": {
        "make": lambda: optimal_mixture(parts(), GBS(), PROBLEM),
        "no_example": "returned by optimal_mixture",
    },
    "SafeViolators": {
        "make": lambda: safe_violators_mc(PROBLEM, GBS(), n_targets=20, random_state=0),
        "no_example": "returned by safe_violators_mc",
        "no_plot": "a report without a picture",
    },
    "CoalitionTable": {
        "make": lambda: compute_equilibria(PROBLEM, GBS()),
        "no_plot": "a report without a picture",
    },
    "CampaignPlan": {
        "make": lambda: plan_campaign(
            np.arange(5.0), owners=[0, 1, 0, 1, 0], hypotheses="thresholds"
        ),
        "no_example": "returned by plan_campaign",
    },
    "LabelQuery": {"make": lambda: LabelQuery(0, 1, "a", "b")},
    "Answer": {"make": lambda: Answer(0, 1, 1), "no_example": "a plain record"},
    "Retraction": {"make": lambda: Retraction(3), "no_example": "a plain record"},
    "LabelingResult": {
        "make": lambda: LabelingSession(PROBLEM, B2IR(GBS())).result(),
        "no_example": "returned by LabelingSession.result",
        "no_plot": "a report without a picture",
    },
    "LabelingSession": {
        "make": lambda: LabelingSession(PROBLEM, B2IR(GBS()), seed=1),
        "run": finish,
        "restore": restored,
        "bad": {
            "negative seed": lambda: LabelingSession(PROBLEM, GBS(), seed=-1),
            "one class": lambda: LabelingSession(PROBLEM, GBS(), classes=["a"]),
            "not asked": lambda: LabelingSession(PROBLEM, GBS()).retract(0),
        },
    },
    "CommitteeStrategy": {
        "make": lambda: CommitteeStrategy(committee(), n_members=3),
        "run": lambda strategy: strategy.query(pool()[0], half(pool()[1])),
        "bad": {
            "no labels left": lambda: CommitteeStrategy(committee()).query(*pool()),
        },
    },
    "GuardedShadow": {
        "make": lambda: GuardedShadow(GBS()),
        "run": costs,
        "bad": {"random": lambda: GuardedShadow(RandomQuery())},
    },
    "Campaign": {
        "make": campaign,
        "run": lambda found: [question.item for question in found.ask(5)],
        "bad": {
            "one class": lambda: Campaign(pool()[0], owners=[0, 1] * 15, classes=[0]),
            "owners": lambda: Campaign(pool()[0], owners=[0], classes=[0, 1]),
        },
    },
    "TestFirstSolo": {
        "make": TestFirstSolo,
        "bad": {"spare": lambda: TestFirstSolo(spare=-1)},
    },
    "LabelAudit": {
        "make": lambda: LabelAudit([0, 1] * 30, random_state=0),
        "run": lambda audit: audit.ask(),
        "bad": {"order": lambda: LabelAudit([0, 1], order=[0, 0])},
    },
    "LabelCertificate": {
        "make": lambda: LabelCertificate(True, 0.04, 0.05, 0.95, 94, 1, "north"),
    },
    "Question": {"make": lambda: Question("q1", "north", 3, "learn", 0)},
    "Step": {"make": lambda: Step("learn", (3, 1))},
    "SoloPool": {
        "no_case": "made by a campaign for a solo protocol",
        "no_example": "made by a campaign for a solo protocol",
    },
    "FileAnswer": {
        "make": lambda: FileAnswer("q1", "a", None, None, "line 2"),
        "no_example": "returned by read_answers",
    },
    "CampaignResult": {
        "make": lambda: campaign().result(),
        "no_example": "returned by Campaign.result",
        "no_plot": "a report without a picture",
    },
    "CampaignStatus": {
        "make": lambda: campaign().status(),
        "no_example": "returned by Campaign.status",
        "no_plot": "a report without a picture",
    },
    "PartyWork": {
        "make": lambda: campaign().work().parties[0],
        "no_example": "part of a WorkReport",
    },
    "WorkReport": {"make": lambda: campaign().work(), "no_example": "returned by Campaign.work"},
    "CampaignStudy": {
        "make": lambda: Campaign.simulate(
            *pool(), owners=[0, 1] * 15, learner=committee(), max_error=0.3
        ),
        "no_example": "returned by Campaign.simulate",
    },
    "LabelerRecord": {
        "make": lambda: labeler_reliability([(0, "ann", 0), (0, "bob", 1)]).labelers[0],
        "no_example": "part of a Reliability",
    },
    "Reliability": {
        "make": lambda: labeler_reliability([(0, "ann", 0), (0, "bob", 1)]),
        "no_example": "returned by labeler_reliability",
        "no_plot": "a report without a picture",
    },
    "labeler_reliability": {
        "args": lambda: {"answers": [(0, "ann", 0), (0, "bob", 1)]},
        "bad": {"code": lambda: labeler_reliability([(0, "ann", 7)])},
    },
    "question_rows": {"args": lambda: {"questions": campaign().ask(2), "rows": table()}},
    "label_studio_tasks": {"args": lambda: {"questions": campaign().ask(2), "rows": table()}},
    "read_answers": {
        "args": lambda: {"text": "question,label\nq1,0\n"},
        "bad": {"column": lambda: read_answers("a,b\n1,2\n")},
    },
    "tell_all": {
        "args": lambda: {"campaign": asked(), "answers": read_answers("question,label\nq1,0\n")},
        "no_example": "changes a campaign; see the command line",
    },
    "QueryAlgorithm": {"no_case": "abstract base class"},
    "check_assumption1": {"args": lambda: {"problem": instances.weak_pruning_trap()}},
    "check_assumption2": {
        "args": lambda: {"problem": PROBLEM},
        "bad": {"agent": lambda: PROBLEM.restrict((9,)) and check_assumption2(PROBLEM)},
    },
    "compute_equilibria": {"args": lambda: {"problem": PROBLEM, "baseline": GBS()}},
    "draw_tree": {
        "args": lambda: {"problem": PROBLEM, "algorithm": GBS()},
        "no_case": "returns matplotlib axes",
    },
    "incentive_report": {
        "args": lambda: {"protocol": B2IR(GBS()), "baseline": GBS(), "problem": PROBLEM}
    },
    "optimal_cost": {"args": lambda: {"problem": PROBLEM}},
    "optimal_mixture": {
        "args": lambda: {"components": parts(), "baseline": GBS(), "problem": PROBLEM},
        "bad": {"eps": lambda: optimal_mixture(parts(), GBS(), PROBLEM, eps=-1.0)},
    },
    "plan_campaign": {
        "args": lambda: {
            "pool": np.arange(5.0),
            "owners": [0, 1, 0, 1, 0],
            "hypotheses": "thresholds",
        },
        "bad": {
            "owners": lambda: plan_campaign(np.arange(5.0), owners=[0], hypotheses="thresholds")
        },
    },
    "safe_violators_mc": {
        "args": lambda: {
            "problem": PROBLEM,
            "baseline": GBS(),
            "n_targets": 20,
            "random_state": 0,
        },
        "bad": {"delta": lambda: safe_violators_mc(PROBLEM, GBS(), delta=1.0)},
    },
    "sir_mixture": {
        "args": lambda: {"baseline": GBS(), "problem": PROBLEM, "eps": Fraction(1, 2)},
        "bad": {"eps": lambda: sir_mixture(GBS(), PROBLEM, 0)},
    },
    "smallest_conflict": {
        "args": lambda: {
            "problem": instances.identical_pools(k=1),
            "answers": [Answer(0, 1, 1), Answer(0, 3, 0)],
        }
    },
    "bounds.adjudication_error": {"args": {"noise": 0.15, "first_to": 2}},
    "bounds.gbs_queries": {"args": {"optimum": 3.0, "smallest_prior": 0.1}},
    "bounds.sir_total": {"args": {"ir_total": 4.0, "eps": 0.5, "m": 9, "largest_partial": 9.0}},
    "bounds.sir_slack": {"args": {"eps": 0.5, "k": 2, "m": 9, "gap": 0.1}},
    "bounds.pruned_queries": {"args": {"alone": 2.0, "smallest_prior": 0.125}},
    "bounds.counterexample_joint": {"args": {"n": 6, "delta": 0.01}},
    "bounds.counterexample_alone": {"args": {"n": 6, "delta": 0.01}},
    "bounds.monte_carlo_width": {"args": {"pool_size": 5, "k": 2, "n_targets": 100, "delta": 0.05}},
    "bounds.empirical_bernstein_width": {
        "args": {"pool_size": 5, "k": 2, "n_targets": 100, "delta": 0.05, "variance": 1.0}
    },
    "bounds.halfspace_labelings": {"args": {"m": 10}},
    "instances.threshold_example": {"args": {"five": True}},
    "instances.gbs_counterexample": {
        "args": {"n": 5, "delta": Fraction(1, 100)},
        "bad": {"delta": lambda: instances.gbs_counterexample(5, 0.5)},
    },
    "instances.gbs_violation_7x6": {"args": {}},
    "instances.independent_points": {"args": {"k": 2}},
    "instances.identical_pools": {"args": {"k": 2, "m": 3}},
    "instances.correlated_pairs": {"args": {}},
    "instances.weak_pruning_trap": {"args": {}},
}
