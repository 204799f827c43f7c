"""Share the label queries so that everyone gains.

Several parties own pools of unlabeled points that one unknown rule labels. Together they need far
fewer labels than alone, but the standard greedy protocol may load the work on one party, who then
walks away. This area plans campaigns nobody walks away from: describe the campaign
(:func:`plan_campaign`, or a :class:`PoolProblem` for full control), pick a baseline everybody would
run alone (:class:`GBS`, :class:`OptimalTree`), wrap it so that nobody loses (:class:`B2IR`) or
everybody gains (:func:`sir_mixture`, :func:`optimal_mixture`), read the exact expected workload of
each party (:func:`incentive_report`), and run it with real labelers (:class:`LabelingSession`).
Source: chapter "Incentives in Collaborative Active Learning".
"""

from counterplay.labeling import bounds, hypotheses, instances
from counterplay.labeling.algorithm import QueryAlgorithm
from counterplay.labeling.assumptions import AssumptionCheck, check_assumption1, check_assumption2
from counterplay.labeling.b2ir import B2IR, B2IRPlus
from counterplay.labeling.campaign import CampaignPlan, plan_campaign
from counterplay.labeling.coalitions import CoalitionTable, compute_equilibria
from counterplay.labeling.collaborative import CollaborativeActiveLearner
from counterplay.labeling.drawing import draw_tree
from counterplay.labeling.gbs import GBS
from counterplay.labeling.mixture import (
    Mixture,
    NotStrictlyImprovable,
    OptimalMixture,
    SIRMixture,
    optimal_mixture,
    sir_mixture,
)
from counterplay.labeling.model import PoolProblem, Restriction
from counterplay.labeling.monte_carlo import SafeViolators, safe_violators_mc
from counterplay.labeling.optimal_tree import OptimalTree, TooLargeError, optimal_cost
from counterplay.labeling.partial_sir import OptPartialSIR, PrunedPartialSIR
from counterplay.labeling.report import IncentiveReport, incentive_report
from counterplay.labeling.scan import FixedOrderScan, RandomQuery
from counterplay.labeling.session import (
    Answer,
    LabelingSession,
    LabelQuery,
    run,
    simulate,
    smallest_conflict,
)
from counterplay.labeling.strategies import CommitteeSplitStrategy
from counterplay.labeling.tree import QueryTree

__all__ = [
    "B2IR",
    "GBS",
    "Answer",
    "AssumptionCheck",
    "B2IRPlus",
    "CampaignPlan",
    "CoalitionTable",
    "CollaborativeActiveLearner",
    "CommitteeSplitStrategy",
    "FixedOrderScan",
    "IncentiveReport",
    "LabelQuery",
    "LabelingSession",
    "Mixture",
    "NotStrictlyImprovable",
    "OptPartialSIR",
    "OptimalMixture",
    "OptimalTree",
    "PoolProblem",
    "PrunedPartialSIR",
    "QueryAlgorithm",
    "QueryTree",
    "RandomQuery",
    "Restriction",
    "SIRMixture",
    "SafeViolators",
    "TooLargeError",
    "bounds",
    "check_assumption1",
    "check_assumption2",
    "compute_equilibria",
    "draw_tree",
    "hypotheses",
    "incentive_report",
    "instances",
    "optimal_cost",
    "optimal_mixture",
    "plan_campaign",
    "run",
    "safe_violators_mc",
    "simulate",
    "sir_mixture",
    "smallest_conflict",
]
