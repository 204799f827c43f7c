"""For researchers: behaviours of agents, adversaries, exact tests, and the pieces of the losses.

Agents that doubt, lie, look at releases only or weigh value against cost; instances that defeat a
given rule; tests of minimal heterogeneity; smooth pieces of losses; and the classes that users
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

__all__ = [
    "AgentPool",
    "AgentView",
    "Assumption",
    "AssumptionReport",
    "BetaUser",
    "Broadcast",
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
    "ReportNoise",
    "SimulationResult",
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
    "local_updates",
    "population_loss",
    "psi_tau",
    "psi_tau_slope",
    "repair_against",
    "search_dependence",
    "stopping_utilities",
    "underconfidence_threshold",
]
