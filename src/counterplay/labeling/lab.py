"""For researchers: other baselines, favouring protocols, coalitions, exact costs, pictures.

What the theorems are made of and measured against: baselines that do not look ahead, the protocols
that favour one agent, mixtures with any weights, the conditions under which everybody can gain, the
coalitions that would form, query trees and their pictures; and the classes of what users receive.
"""

from counterplay.labeling.algorithm import QueryAlgorithm
from counterplay.labeling.answers import (
    Answer,
    LabelingResult,
    NoiseAssumed,
    Retraction,
    smallest_conflict,
)
from counterplay.labeling.b2ir import SafeViolators
from counterplay.labeling.coalitions import CoalitionTable, compute_equilibria
from counterplay.labeling.drawing import draw_tree
from counterplay.labeling.mixture import (
    AssumptionCheck,
    OptimalMixture,
    ProtocolMixture,
    SIRMixture,
    check_assumption1,
    check_assumption2,
)
from counterplay.labeling.model import Restriction
from counterplay.labeling.optimal_tree import TooLargeError, optimal_cost
from counterplay.labeling.partial_sir import OptPartialSIR, PrunedPartialSIR
from counterplay.labeling.plan import CampaignPlan
from counterplay.labeling.report import IncentiveReport
from counterplay.labeling.scan import FixedOrderScan, RandomQuery
from counterplay.labeling.session import LabelQuery
from counterplay.labeling.tree import QueryTree

__all__ = [
    "Answer",
    "AssumptionCheck",
    "CampaignPlan",
    "CoalitionTable",
    "FixedOrderScan",
    "IncentiveReport",
    "LabelQuery",
    "LabelingResult",
    "NoiseAssumed",
    "OptPartialSIR",
    "OptimalMixture",
    "ProtocolMixture",
    "PrunedPartialSIR",
    "QueryAlgorithm",
    "QueryTree",
    "RandomQuery",
    "Restriction",
    "Retraction",
    "SIRMixture",
    "SafeViolators",
    "TooLargeError",
    "check_assumption1",
    "check_assumption2",
    "compute_equilibria",
    "draw_tree",
    "optimal_cost",
    "smallest_conflict",
]
