"""Contracts and persuasion against an Agent who learns, without a common prior.

A Principal commits to a policy every round: a commission, a payment scheme, a rule for what to
disclose. An Agent answers, then the state of nature is revealed. Nobody knows its distribution; it
may drift or be chosen by an opponent. :func:`design_contract`, :func:`design_disclosure` and
:func:`audit` are the one-line versions for people with data. Behind them: forecast the state so
that the forecasts are unbiased exactly where decisions change (:class:`UnbiasedForecaster`), turn
the forecast into a policy without near-ties (an oracle), and let :class:`StableMechanism`
:func:`play` the :class:`RepeatedContract`: its regret against every fixed policy vanishes, counting
how the Agent would have reacted to it.
"""

from counterplay.core.play import play
from counterplay.principal import bounds, instances, lab
from counterplay.principal.agents import ContextualSwapAgent, FollowRecommendation
from counterplay.principal.audit import audit
from counterplay.principal.comparison import compare_forecasters
from counterplay.principal.contract_lp import ContractGame, ContractLPOracle
from counterplay.principal.design import design_contract, design_disclosure
from counterplay.principal.events import Decision
from counterplay.principal.fitting import fit_game
from counterplay.principal.forecaster import UnbiasedForecaster
from counterplay.principal.games import LinearContractGame
from counterplay.principal.linear_contracts import LinearContractOracle
from counterplay.principal.mechanisms import StableMechanism
from counterplay.principal.offer_planner import OfferPlanner
from counterplay.principal.persuasion import DisclosureGame, PersuasionGame
from counterplay.principal.persuasion_oracle import PersuasionOracle
from counterplay.principal.repeated_contract import RepeatedContract

__all__ = [
    "ContextualSwapAgent",
    "ContractGame",
    "ContractLPOracle",
    "Decision",
    "DisclosureGame",
    "FollowRecommendation",
    "LinearContractGame",
    "LinearContractOracle",
    "OfferPlanner",
    "PersuasionGame",
    "PersuasionOracle",
    "RepeatedContract",
    "StableMechanism",
    "UnbiasedForecaster",
    "audit",
    "bounds",
    "compare_forecasters",
    "design_contract",
    "design_disclosure",
    "fit_game",
    "instances",
    "lab",
    "play",
]
