"""For researchers: other baselines, favouring protocols, coalitions, exact costs, pictures.

What the theorems are made of and measured against: baselines that do not look ahead, the protocols
that favour one agent, mixtures with any weights, the conditions under which everybody can gain, the
coalitions that would form, query trees and their pictures; files of questions and answers, how
reliable labelers are; and the classes of what users receive.
"""

from counterplay.labeling.algorithm import QueryAlgorithm
from counterplay.labeling.answers import (
    Answer,
    LabelingResult,
    Retraction,
    smallest_conflict,
)
from counterplay.labeling.b2ir import SafeViolators
from counterplay.labeling.campaign_files import (
    FileAnswer,
    label_studio_tasks,
    question_rows,
    read_answers,
    tell_all,
)
from counterplay.labeling.campaign_questions import Question
from counterplay.labeling.campaign_report import (
    CampaignResult,
    CampaignStatus,
    PartyWork,
    WorkReport,
)
from counterplay.labeling.campaign_study import CampaignStudy
from counterplay.labeling.certificate import LabelCertificate
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
from counterplay.labeling.reliability import LabelerRecord, Reliability, labeler_reliability
from counterplay.labeling.report import IncentiveReport
from counterplay.labeling.scan import FixedOrderScan, RandomQuery
from counterplay.labeling.session import LabelQuery
from counterplay.labeling.solo import SoloPool, Step
from counterplay.labeling.tree import QueryTree

__all__ = [
    "Answer",
    "AssumptionCheck",
    "CampaignPlan",
    "CampaignResult",
    "CampaignStatus",
    "CampaignStudy",
    "CoalitionTable",
    "FileAnswer",
    "FixedOrderScan",
    "IncentiveReport",
    "LabelCertificate",
    "LabelQuery",
    "LabelerRecord",
    "LabelingResult",
    "OptPartialSIR",
    "OptimalMixture",
    "PartyWork",
    "ProtocolMixture",
    "PrunedPartialSIR",
    "QueryAlgorithm",
    "QueryTree",
    "Question",
    "RandomQuery",
    "Reliability",
    "Restriction",
    "Retraction",
    "SIRMixture",
    "SafeViolators",
    "SoloPool",
    "Step",
    "TooLargeError",
    "WorkReport",
    "check_assumption1",
    "check_assumption2",
    "compute_equilibria",
    "draw_tree",
    "label_studio_tasks",
    "labeler_reliability",
    "optimal_cost",
    "question_rows",
    "read_answers",
    "smallest_conflict",
    "tell_all",
]
