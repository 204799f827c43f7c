"""One metric to win, one harm budget to keep: experts with a primary and a secondary loss.

Each round you play one of K experts (models, policies). Everybody's primary loss (what you are
judged on) and secondary loss (what the people affected suffer) are then revealed. You want to be
almost as good as the best expert while the secondary loss stays within ``c`` per round.
In general nobody can do both, even if every expert ends below the rate: ``impossibility_report``.
It becomes possible when no expert exceeds the rate by more than a burst budget on any interval
(``check_bounded_burst``, ``required_budget``) and you switch rarely (``EpochLearner``,
``LazyHedge``). When experts misbehave, a watchdog (``CusumOracle``) switches them off
(``DeactivationLearner``) and on again (``ReactivationLearner``). ``ChampionChallenger`` wraps all
this for models in production.
``bounds`` has every guarantee as a number, ``instances`` the streams that show it cannot be better.
"""

from counterplay.core.online import (
    Doubling,
    ExploreThenCommit,
    FollowLazyLeader,
    FollowPerturbedLeader,
    FollowTheLeader,
    Hedge,
    MaximalCouplingSampler,
    ShrinkingDartboard,
)
from counterplay.tradeoff import bounds, instances
from counterplay.tradeoff.adanormalhedge import AdaNormalHedge
from counterplay.tradeoff.adapters import (
    RiverExperts,
    error_rate,
    missed_positives,
    replay_losses,
)
from counterplay.tradeoff.bursts import (
    BurstCheck,
    burst_check,
    check_bounded_burst,
    check_stint_budget,
    cusum,
    required_budget,
    required_rate,
)
from counterplay.tradeoff.champion import ChampionChallenger, HarmBudget
from counterplay.tradeoff.champion_report import ChampionReport
from counterplay.tradeoff.cumulative import CumulativeLossLearner
from counterplay.tradeoff.deactivation import DeactivationLearner
from counterplay.tradeoff.diagnosis import ImpossibilityReport, impossibility_report
from counterplay.tradeoff.epoch_learner import EpochLearner, LazyHedge, anytime
from counterplay.tradeoff.instances import SwitchTax
from counterplay.tradeoff.learner import BicriteriaLearner
from counterplay.tradeoff.metrics import (
    count_switches,
    primary_regret,
    rounds_since_switch,
    secondary_regret,
    sleeping_regret,
    stints,
)
from counterplay.tradeoff.minimax import (
    Minimax,
    Phase,
    burst_pair_phases,
    frontier,
    impossibility_phases,
    minimax,
)
from counterplay.tradeoff.model import (
    AdaptiveSecondary,
    CallableSecondary,
    EpochGrid,
    Instance,
    burst_threshold,
)
from counterplay.tradeoff.oracle import CusumOracle, Deactivation, OracleRun
from counterplay.tradeoff.plan import Plan
from counterplay.tradeoff.reactivation import ReactivationLearner, ReactivationTrace
from counterplay.tradeoff.restart import RestartAtReset, RestartOnDeactivation
from counterplay.tradeoff.result import RunResult
from counterplay.tradeoff.scalarized import ScalarizedLearner

__all__ = [
    "AdaNormalHedge",
    "AdaptiveSecondary",
    "BicriteriaLearner",
    "BurstCheck",
    "CallableSecondary",
    "ChampionChallenger",
    "ChampionReport",
    "CumulativeLossLearner",
    "CusumOracle",
    "Deactivation",
    "DeactivationLearner",
    "Doubling",
    "EpochGrid",
    "EpochLearner",
    "ExploreThenCommit",
    "FollowLazyLeader",
    "FollowPerturbedLeader",
    "FollowTheLeader",
    "HarmBudget",
    "Hedge",
    "ImpossibilityReport",
    "Instance",
    "LazyHedge",
    "MaximalCouplingSampler",
    "Minimax",
    "OracleRun",
    "Phase",
    "Plan",
    "ReactivationLearner",
    "ReactivationTrace",
    "RestartAtReset",
    "RestartOnDeactivation",
    "RiverExperts",
    "RunResult",
    "ScalarizedLearner",
    "ShrinkingDartboard",
    "SwitchTax",
    "anytime",
    "bounds",
    "burst_check",
    "burst_pair_phases",
    "burst_threshold",
    "check_bounded_burst",
    "check_stint_budget",
    "count_switches",
    "cusum",
    "error_rate",
    "frontier",
    "impossibility_phases",
    "impossibility_report",
    "instances",
    "minimax",
    "missed_positives",
    "primary_regret",
    "replay_losses",
    "required_budget",
    "required_rate",
    "rounds_since_switch",
    "secondary_regret",
    "sleeping_regret",
    "stints",
]
