"""Who leaves the federation, what it does to the model, and which server rule keeps everyone in.

Several parties train one model over many rounds. Each wants a small loss on its own data, pays for
every round, and leaves for good once the broadcast model is good enough for it. Its data is then
gone and the others pull the model away. Equal weights (FedAvg) cannot avoid this; a server that
predicts who is about to leave can::

    run = run_icfo(problem, SafeStep(delta=0.05), w0, eps, eta=1 / problem.H)
    print(run.summary()); run.to_frame(); run.plot(delta=0.05)
    model = land(problem, run.w, eps)  # one last step into everybody's target

``ADAGD`` is the rule of the theory, ``UniformAggregation``, ``FedAvg`` and ``MWFed`` are the
baselines. ``instances`` holds the examples of the theory and ``bounds`` its numbers.
"""

from typing import TYPE_CHECKING, Any

from counterplay.defection import bounds, instances
from counterplay.defection.adversaries import (
    adversarial_alpha,
    bad_region_linear,
    repair_against,
)
from counterplay.defection.agents import (
    AgentPool,
    AgentView,
    BetaUser,
    IrrationalAgent,
    MisreportingAgent,
    RationalAgent,
    ThresholdAgent,
    UnderconfidentAgent,
    UtilityAgent,
    stopping_utilities,
    underconfidence_threshold,
)
from counterplay.defection.assumptions import (
    Assumption,
    AssumptionReport,
    check_assumptions,
)
from counterplay.defection.bounds import adagd_step_size
from counterplay.defection.classify import Defection, DefectionReport, classify_defections
from counterplay.defection.dual_qp import nonnegative_dual
from counterplay.defection.engine.local import LocalReport, agent_batches, local_work
from counterplay.defection.engine.training import TrainingRecord
from counterplay.defection.gauge import Health, HealthGauge, most_parallel
from counterplay.defection.group_predictor import GroupPredictor
from counterplay.defection.heterogeneity import (
    HeterogeneityMargin,
    LinearHeterogeneity,
    bounded_agent,
    heterogeneity_margin,
    minimal_heterogeneity_linear,
    search_dependence,
)
from counterplay.defection.history import FLHistory, FLResult, in_target
from counterplay.defection.icfo import ReportNoise, RoundEvent, RunSetting, run_icfo
from counterplay.defection.landing import Landing, land, landing_step
from counterplay.defection.linear_models import LinearModelProblem
from counterplay.defection.local_steps import LocalWork, local_updates
from counterplay.defection.pictures import intersection_figure
from counterplay.defection.problem import FederatedProblem, FunctionProblem, population_loss
from counterplay.defection.projection import project_out
from counterplay.defection.reports import Aggregator, Decision, Reports, RuleState
from counterplay.defection.rules import ADAGD, FedAvg, MWFed, SafeStep, UniformAggregation
from counterplay.defection.simulation_result import SimulationResult
from counterplay.defection.simulator import DefectionSimulator
from counterplay.defection.smoothing import (
    huber_tau,
    huber_tau_slope,
    psi_tau,
    psi_tau_slope,
)
from counterplay.defection.smoothness import estimate_smoothness
from counterplay.defection.split import HeterogeneousSplit, heterogeneous_split
from counterplay.defection.stack import NumpyStack, Stack

if TYPE_CHECKING:
    from counterplay.defection.federated_classifier import FederatedClassifier

__all__ = [
    "ADAGD",
    "AgentPool",
    "AgentView",
    "Aggregator",
    "Assumption",
    "AssumptionReport",
    "BetaUser",
    "Decision",
    "Defection",
    "DefectionReport",
    "DefectionSimulator",
    "FLHistory",
    "FLResult",
    "FedAvg",
    "FederatedClassifier",
    "FederatedProblem",
    "FunctionProblem",
    "GroupPredictor",
    "Health",
    "HealthGauge",
    "HeterogeneityMargin",
    "HeterogeneousSplit",
    "IrrationalAgent",
    "Landing",
    "LinearHeterogeneity",
    "LinearModelProblem",
    "LocalReport",
    "LocalWork",
    "MWFed",
    "MisreportingAgent",
    "NumpyStack",
    "RationalAgent",
    "ReportNoise",
    "Reports",
    "RoundEvent",
    "RuleState",
    "RunSetting",
    "SafeStep",
    "SimulationResult",
    "Stack",
    "ThresholdAgent",
    "TrainingRecord",
    "UnderconfidentAgent",
    "UniformAggregation",
    "UtilityAgent",
    "adagd_step_size",
    "adversarial_alpha",
    "agent_batches",
    "bad_region_linear",
    "bounded_agent",
    "bounds",
    "check_assumptions",
    "classify_defections",
    "estimate_smoothness",
    "heterogeneity_margin",
    "heterogeneous_split",
    "huber_tau",
    "huber_tau_slope",
    "in_target",
    "instances",
    "intersection_figure",
    "land",
    "landing_step",
    "local_updates",
    "local_work",
    "minimal_heterogeneity_linear",
    "most_parallel",
    "nonnegative_dual",
    "population_loss",
    "project_out",
    "psi_tau",
    "psi_tau_slope",
    "repair_against",
    "run_icfo",
    "search_dependence",
    "stopping_utilities",
    "underconfidence_threshold",
]


def __getattr__(name: str) -> Any:
    """Import scikit-learn only for its estimator: a Flower party starts a process per message."""
    if name == "FederatedClassifier":
        from counterplay.defection.federated_classifier import FederatedClassifier

        return FederatedClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
