"""labeling"""

from counterplay.labeling.gbs import GBS
from counterplay.labeling.model import PoolProblem
from counterplay.labeling import instances
from counterplay.labeling.optimal_tree import OptimalTree, optimal_cost
from counterplay.labeling.scan import FixedOrderScan, RandomQuery
from counterplay.labeling.b2ir import B2IR, B2IRPlus
from counterplay.labeling.report import IncentiveReport, incentive_report
from counterplay.labeling.partial_sir import OptPartialSIR, PrunedPartialSIR
from counterplay.labeling.assumptions import AssumptionCheck, check_assumption1, check_assumption2
from counterplay.labeling.mixture import (
    Mixture,
    NotStrictlyImprovable,
    OptimalMixture,
    SIRMixture,
    optimal_mixture,
    sir_mixture,
)
from counterplay.labeling.monte_carlo import SafeViolators, safe_violators_mc
from counterplay.labeling.coalitions import CoalitionTable, compute_equilibria
from counterplay.labeling.session import (
    Answer,
    LabelQuery,
    LabelingSession,
    run,
    simulate,
    smallest_conflict,
)
from counterplay.labeling.campaign import CampaignPlan, plan_campaign
from counterplay.labeling.drawing import draw_tree
from counterplay.labeling.strategies import CommitteeSplitStrategy
