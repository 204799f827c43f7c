"""Offers, contracts and persuasion: somebody with his own interests answers what you publish.

Start from a log of offers and outcomes: :func:`fit_game` says what it identifies and what to offer
next, an :class:`OfferPlanner` goes on from there, :func:`behaviour_audit` and
:func:`decision_audit` say how the other side behaved. With states and a game, and no common prior,
:func:`design_contract` and :func:`design_disclosure` are the one-line versions of: forecast the
state so that the forecasts are unbiased exactly where decisions change
(:class:`UnbiasedForecaster`), turn the forecast into a policy without near-ties (an oracle), and
let :class:`StableMechanism` :func:`play` the :class:`RepeatedContract`: its regret against every
fixed policy vanishes, counting how the Agent would have reacted to it.
"""

from counterplay.core.play import play
from counterplay.principal import bounds, instances, lab
from counterplay.principal.agents import ContextualSwapAgent, FollowRecommendation
from counterplay.principal.behaviour_audit import behaviour_audit
from counterplay.principal.comparison import compare_forecasters
from counterplay.principal.contract_lp import ContractGame, ContractLPOracle
from counterplay.principal.decision_audit import decision_audit
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
from counterplay.principal.recent_average import RecentAverage
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
    "RecentAverage",
    "RepeatedContract",
    "StableMechanism",
    "UnbiasedForecaster",
    "behaviour_audit",
    "bounds",
    "compare_forecasters",
    "decision_audit",
    "design_contract",
    "design_disclosure",
    "fit_game",
    "instances",
    "lab",
    "play",
]
