"""Contracts and persuasion against an Agent who learns, without a common prior.

A Principal commits to a policy every round: a commission, a payment scheme, a rule for what to
disclose. An Agent answers, then the state of nature is revealed. Nobody knows its distribution; it
may drift or be chosen by an opponent. The recipe has two parts. (1) Forecast the state so that the
forecasts are unbiased exactly where decisions change (:class:`UnbiasedForecaster`, useful on its
own). (2) Turn the forecast into a policy without near-ties, which the Agent could break either way
(:class:`LinearContractOracle`, :class:`PersuasionOracle`, :class:`FiniteStableOracle`, the LP
oracles). :class:`StableMechanism` puts them together and has vanishing regret against every fixed
policy, counting how the Agent would have reacted to it. :func:`simulate` plays it with all
counterfactuals; :func:`design_contract`, :func:`design_disclosure` and :func:`audit` are the
one-line versions for people with data.
"""

from counterplay.principal.agents import (
    Agent,
    CommonPriorAgent,
    ContextualSwapAgent,
    FollowRecommendation,
    ForecastBestResponseAgent,
    SecretInfoAgent,
    SpitefulAgent,
)
from counterplay.principal.audit import AuditReport, audit
from counterplay.principal.baselines import (
    ClassifierForecaster,
    ConstantForecaster,
    EmpiricalMeanForecaster,
    EWMAForecaster,
    NetCalibratedForecaster,
)
from counterplay.principal.behaviour import Behaviour, Stage, behaviour, conditional_bias
from counterplay.principal.comparison import BiasComparison, compare_forecasters
from counterplay.principal.contract_lp import ContractGame, ContractLPOracle, optimal_payments
from counterplay.principal.design import Design, design_contract, design_disclosure
from counterplay.principal.events import (
    Always,
    Bins,
    Context,
    Decision,
    EventFamilies,
    EventFamily,
    Events,
    MostLikely,
    NetPoint,
)
from counterplay.principal.finite_oracle import FiniteStableOracle, NoStablePolicy
from counterplay.principal.forecaster import (
    ForecastCertificate,
    Forecaster,
    UnbiasedForecaster,
)
from counterplay.principal.games import FiniteGame, LinearContractGame, PrincipalAgentGame
from counterplay.principal.instances import (
    Instance,
    OracleBug,
    near_tie_contract,
    no_stable_policy_instance,
    oracle_bug_instances,
    prosecutor_game,
    random_contract_game,
    random_persuasion_game,
    reactive_mechanism,
    secret_information_instance,
)
from counterplay.principal.linear_contracts import (
    LinearContractOracle,
    contract_grid,
    tie_points,
)
from counterplay.principal.mechanisms import (
    BestResponseMechanism,
    ConstantMechanism,
    ForecastMechanism,
    ScriptedMechanism,
    StableMechanism,
)
from counterplay.principal.minimax import Mixture, solve_minimax
from counterplay.principal.obedience import (
    ObedienceOracle,
    ObedienceSolution,
    disclosure_library,
    largest_margin,
    obedience_lp,
)
from counterplay.principal.persuasion import (
    DisclosureGame,
    PersuasionGame,
    PersuasionGeometry,
    Scheme,
)
from counterplay.principal.persuasion_oracle import (
    KGRule,
    PersuasionOracle,
    StabilizedPersuasion,
    benchmark_schemes,
)
from counterplay.principal.protocol import Mechanism, NatureView, Offer, Play
from counterplay.principal.responses import (
    OracleSpec,
    best_response,
    br,
    eps_ball,
    is_stable,
    optimality_loss,
    optimistic_pair,
    optimistic_response,
    principal_best_response,
)
from counterplay.principal.rules import BestResponseRule, OptimisticRule, PolicyRule
from counterplay.principal.simulate import InteractionProtocol, gap_adversary, simulate
from counterplay.principal.transcript import (
    Transcript,
    alignment_constants,
    regret_bound_from_transcript,
)

__all__ = [
    "Agent",
    "Always",
    "AuditReport",
    "Behaviour",
    "BestResponseMechanism",
    "BestResponseRule",
    "BiasComparison",
    "Bins",
    "ClassifierForecaster",
    "CommonPriorAgent",
    "ConstantForecaster",
    "ConstantMechanism",
    "Context",
    "ContextualSwapAgent",
    "ContractGame",
    "ContractLPOracle",
    "Decision",
    "Design",
    "DisclosureGame",
    "EWMAForecaster",
    "EmpiricalMeanForecaster",
    "EventFamilies",
    "EventFamily",
    "Events",
    "FiniteGame",
    "FiniteStableOracle",
    "FollowRecommendation",
    "ForecastBestResponseAgent",
    "ForecastCertificate",
    "ForecastMechanism",
    "Forecaster",
    "Instance",
    "InteractionProtocol",
    "KGRule",
    "LinearContractGame",
    "LinearContractOracle",
    "Mechanism",
    "Mixture",
    "MostLikely",
    "NatureView",
    "NetCalibratedForecaster",
    "NetPoint",
    "NoStablePolicy",
    "ObedienceOracle",
    "ObedienceSolution",
    "Offer",
    "OptimisticRule",
    "OracleBug",
    "OracleSpec",
    "PersuasionGame",
    "PersuasionGeometry",
    "PersuasionOracle",
    "Play",
    "PolicyRule",
    "PrincipalAgentGame",
    "Scheme",
    "ScriptedMechanism",
    "SecretInfoAgent",
    "SpitefulAgent",
    "StabilizedPersuasion",
    "StableMechanism",
    "Stage",
    "Transcript",
    "UnbiasedForecaster",
    "alignment_constants",
    "audit",
    "behaviour",
    "benchmark_schemes",
    "best_response",
    "br",
    "compare_forecasters",
    "conditional_bias",
    "contract_grid",
    "design_contract",
    "design_disclosure",
    "disclosure_library",
    "eps_ball",
    "gap_adversary",
    "is_stable",
    "largest_margin",
    "near_tie_contract",
    "no_stable_policy_instance",
    "obedience_lp",
    "optimal_payments",
    "optimality_loss",
    "optimistic_pair",
    "optimistic_response",
    "oracle_bug_instances",
    "principal_best_response",
    "prosecutor_game",
    "random_contract_game",
    "random_persuasion_game",
    "reactive_mechanism",
    "regret_bound_from_transcript",
    "secret_information_instance",
    "simulate",
    "solve_minimax",
    "tie_points",
]
