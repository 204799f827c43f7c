"""For researchers: agents with a grudge, other forecasters and oracles, responses, exact programs.

What the theorems are made of and measured against: agents that best respond, spite or know more
than they should; forecasters without a guarantee; mechanisms for comparison; the definitions
(best responses, stability, behaviour) as functions; adaptive Natures.
"""

from counterplay.principal.agents import (
    Agent,
    CommonPriorAgent,
    ForecastBestResponseAgent,
    SecretInfoAgent,
    SpitefulAgent,
)
from counterplay.principal.baselines import (
    ClassifierForecaster,
    ConstantForecaster,
    EmpiricalMeanForecaster,
    EWMAForecaster,
    NetCalibratedForecaster,
)
from counterplay.principal.behaviour import Behaviour, Stage, behaviour, conditional_bias
from counterplay.principal.behaviour_report import BehaviourReport, Replicated
from counterplay.principal.betting import betting_limits, running_mean_limits
from counterplay.principal.blum_mansour import BlumMansour
from counterplay.principal.comparison import BiasComparison
from counterplay.principal.contract_lp import optimal_payments
from counterplay.principal.decision_audit import DecisionReport, Proposal
from counterplay.principal.design import Design
from counterplay.principal.events import (
    Always,
    Bins,
    Context,
    EventFamilies,
    EventFamily,
    Events,
    MostLikely,
    NetPoint,
)
from counterplay.principal.finite_oracle import FiniteStableOracle, NoStablePolicy
from counterplay.principal.forecast_certificate import ForecastCertificate
from counterplay.principal.forecasts import Forecaster
from counterplay.principal.games import FiniteGame, PrincipalAgentGame
from counterplay.principal.insured import InsuredRun, insured
from counterplay.principal.linear_contracts import contract_grid, tie_points
from counterplay.principal.mechanisms import (
    BestResponseMechanism,
    ConstantMechanism,
    ForecastMechanism,
    Mechanism,
    NatureView,
    Offer,
    ScriptedMechanism,
)
from counterplay.principal.minimax import ForecastLottery, solve_minimax
from counterplay.principal.obedience import (
    ObedienceOracle,
    ObedienceSolution,
    disclosure_library,
    largest_margin,
    obedience_lp,
)
from counterplay.principal.offer_fit import NextOffer, OfferFit
from counterplay.principal.offer_markets import OfferMarket, Seller, random_offer_market
from counterplay.principal.offer_terms import Terms
from counterplay.principal.persuasion import PersuasionGeometry, Scheme
from counterplay.principal.persuasion_oracle import (
    KGRule,
    StabilizedPersuasion,
    benchmark_schemes,
)
from counterplay.principal.plan_report import PlanReport
from counterplay.principal.repeated_contract import gap_adversary
from counterplay.principal.response_band import ResponseBand, response_band
from counterplay.principal.responses import (
    OracleSpec,
    best_response,
    best_responses,
    eps_ball,
    is_stable,
    optimality_loss,
    optimistic_pair,
    optimistic_response,
    principal_best_response,
)
from counterplay.principal.revealed_costs import cost_ranges, smallest_regret
from counterplay.principal.rules import BestResponseRule, OptimisticRule, PolicyRule
from counterplay.principal.transcript import ContractTranscript
from counterplay.principal.worst_regret import worst_regrets

__all__ = [
    "Agent",
    "Always",
    "Behaviour",
    "BehaviourReport",
    "BestResponseMechanism",
    "BestResponseRule",
    "BiasComparison",
    "Bins",
    "BlumMansour",
    "ClassifierForecaster",
    "CommonPriorAgent",
    "ConstantForecaster",
    "ConstantMechanism",
    "Context",
    "ContractTranscript",
    "DecisionReport",
    "Design",
    "EWMAForecaster",
    "EmpiricalMeanForecaster",
    "EventFamilies",
    "EventFamily",
    "Events",
    "FiniteGame",
    "FiniteStableOracle",
    "ForecastBestResponseAgent",
    "ForecastCertificate",
    "ForecastLottery",
    "ForecastMechanism",
    "Forecaster",
    "InsuredRun",
    "KGRule",
    "Mechanism",
    "MostLikely",
    "NatureView",
    "NetCalibratedForecaster",
    "NetPoint",
    "NextOffer",
    "NoStablePolicy",
    "ObedienceOracle",
    "ObedienceSolution",
    "Offer",
    "OfferFit",
    "OfferMarket",
    "OptimisticRule",
    "OracleSpec",
    "PersuasionGeometry",
    "PlanReport",
    "PolicyRule",
    "PrincipalAgentGame",
    "Proposal",
    "Replicated",
    "ResponseBand",
    "Scheme",
    "ScriptedMechanism",
    "SecretInfoAgent",
    "Seller",
    "SpitefulAgent",
    "StabilizedPersuasion",
    "Stage",
    "Terms",
    "behaviour",
    "benchmark_schemes",
    "best_response",
    "best_responses",
    "betting_limits",
    "conditional_bias",
    "contract_grid",
    "cost_ranges",
    "disclosure_library",
    "eps_ball",
    "gap_adversary",
    "insured",
    "is_stable",
    "largest_margin",
    "obedience_lp",
    "optimal_payments",
    "optimality_loss",
    "optimistic_pair",
    "optimistic_response",
    "principal_best_response",
    "random_offer_market",
    "response_band",
    "running_mean_limits",
    "smallest_regret",
    "solve_minimax",
    "tie_points",
    "worst_regrets",
]
