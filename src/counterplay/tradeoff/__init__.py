"""One metric to win, one harm budget to keep: experts with a primary and a secondary loss.

Each round you play one of K experts (models, policies). Everybody's primary loss (what you are
judged on) and secondary loss (what the people affected suffer) are then revealed. You want to be
almost as good as the best expert while the secondary loss stays within ``c`` per round.
``ChampionChallenger`` does this for models in production. In general nobody can do both
(``impossibility_report``); it becomes possible when no expert exceeds the rate by more than a burst
budget on any interval (``burst_check``, ``required_budget``) and you switch rarely
(``EpochLearner``, ``LazyHedge``). When experts misbehave, a watchdog (``CusumOracle``) switches
them off (``DeactivationLearner``) and on again (``ReactivationLearner``). ``play`` any learner on a
``LossStream``; ``bounds`` has every guarantee, ``instances`` the streams that show its limits.
"""

from counterplay.core.play import play
from counterplay.tradeoff import bounds, instances, lab
from counterplay.tradeoff.adapters import (
    RiverExperts,
    error_rate,
    missed_positives,
    replay_losses,
)
from counterplay.tradeoff.budget import HarmBudget
from counterplay.tradeoff.bursts import burst_check, required_budget, required_rate
from counterplay.tradeoff.champion import ChampionChallenger
from counterplay.tradeoff.deactivation import DeactivationLearner
from counterplay.tradeoff.diagnosis import impossibility_report
from counterplay.tradeoff.epoch_learner import EpochLearner, LazyHedge
from counterplay.tradeoff.loss_stream import LossStream
from counterplay.tradeoff.money import Money
from counterplay.tradeoff.oracle import CusumOracle
from counterplay.tradeoff.reactivation import ReactivationLearner

__all__ = [
    "ChampionChallenger",
    "CusumOracle",
    "DeactivationLearner",
    "EpochLearner",
    "HarmBudget",
    "LazyHedge",
    "LossStream",
    "Money",
    "ReactivationLearner",
    "RiverExperts",
    "bounds",
    "burst_check",
    "error_rate",
    "impossibility_report",
    "instances",
    "lab",
    "missed_positives",
    "play",
    "replay_losses",
    "required_budget",
    "required_rate",
]
