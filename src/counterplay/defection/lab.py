"""For researchers: behaviours of agents, adversaries, exact tests, and what the rules are made of.

Agents that doubt, lie, look at releases only or weigh value against cost; instances that defeat a
given rule; tests of minimal heterogeneity; the pieces of the losses; and the classes that users
only receive. What runs the rules (reports, stacks, spans) is in ``counterplay.federated``.
"""

from counterplay.defection.adversaries import adversarial_alpha, bad_region_linear, repair_against
from counterplay.defection.agents import (
    AgentPool,
    AgentView,
    BetaUser,
    GroupPredictor,
    IrrationalAgent,
    MisreportingAgent,
    ThresholdAgent,
    UnderconfidentAgent,
    UtilityAgent,
    stopping_utilities,
    underconfidence_threshold,
)
from counterplay.defection.assumptions import Assumption, AssumptionReport
from counterplay.defection.classify import Defection, DefectionReport
from counterplay.defection.federation_game import Broadcast, ReportNoise, check_span
from counterplay.defection.heterogeneity import (
    HeterogeneityMargin,
    LinearHeterogeneity,
    bounded_agent,
    heterogeneity_margin,
    search_dependence,
)
from counterplay.defection.landing import Landing
from counterplay.defection.problem import FederatedProblem, local_updates, population_loss
from counterplay.defection.simulation_result import SimulationResult
from counterplay.defection.smoothing import huber_tau, huber_tau_slope, psi_tau, psi_tau_slope
from counterplay.defection.split import HeterogeneousSplit
from counterplay.defection.transcript import FederationTranscript, in_target
from counterplay.federated.history import RoundEvent, RoundGauge, most_parallel
from counterplay.federated.landing import landing_step
from counterplay.federated.projection import project_out
from counterplay.federated.quadratic import nonnegative_dual
from counterplay.federated.reports import Decision, Reports, Rule, RuleState
from counterplay.federated.stack import NumpyStack, Stack

__all__ = [
    "AgentPool",
    "AgentView",
    "Assumption",
    "AssumptionReport",
    "BetaUser",
    "Broadcast",
    "Decision",
    "Defection",
    "DefectionReport",
    "FederatedProblem",
    "FederationTranscript",
    "GroupPredictor",
    "HeterogeneityMargin",
    "HeterogeneousSplit",
    "IrrationalAgent",
    "Landing",
    "LinearHeterogeneity",
    "MisreportingAgent",
    "NumpyStack",
    "ReportNoise",
    "Reports",
    "RoundEvent",
    "RoundGauge",
    "Rule",
    "RuleState",
    "SimulationResult",
    "Stack",
    "ThresholdAgent",
    "UnderconfidentAgent",
    "UtilityAgent",
    "adversarial_alpha",
    "bad_region_linear",
    "bounded_agent",
    "check_span",
    "heterogeneity_margin",
    "huber_tau",
    "huber_tau_slope",
    "in_target",
    "landing_step",
    "local_updates",
    "most_parallel",
    "nonnegative_dual",
    "population_loss",
    "project_out",
    "psi_tau",
    "psi_tau_slope",
    "repair_against",
    "search_dependence",
    "stopping_utilities",
    "underconfidence_threshold",
]
