"""For researchers: baselines, exact programs, regret notions, and what the learners are made of.

Learners for comparison (mixed losses, restarts, rules of cumulative losses, AdaNormalHedge), the
least regret anybody can reach as a linear program, secondary losses that react to the play, and the
records that learners and reports hand out. Learners of one loss are in ``counterplay.core.online``.
"""

from counterplay.tradeoff.adanormalhedge import AdaNormalHedge
from counterplay.tradeoff.baselines import (
    CumulativeLossLearner,
    RestartAtReset,
    RestartOnDeactivation,
    ScalarizedLearner,
)
from counterplay.tradeoff.budget import CalibratedBudget
from counterplay.tradeoff.bursts import BurstCheck, check_stint_budget, cusum
from counterplay.tradeoff.champion_report import ChampionReport
from counterplay.tradeoff.diagnosis import ImpossibilityReport
from counterplay.tradeoff.epoch_learner import anytime
from counterplay.tradeoff.evidence import Alarm
from counterplay.tradeoff.learner import BicriteriaLearner, Losses
from counterplay.tradeoff.live_champion import LiveChampion
from counterplay.tradeoff.live_report import Decision, LiveReport
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
from counterplay.tradeoff.oracle import Deactivation, OracleRun
from counterplay.tradeoff.plan import Plan
from counterplay.tradeoff.reactivation import ReactivationTrace
from counterplay.tradeoff.selective_champion import SelectiveChampion
from counterplay.tradeoff.transcript import LossTranscript

__all__ = [
    "AdaNormalHedge",
    "AdaptiveSecondary",
    "Alarm",
    "BicriteriaLearner",
    "BurstCheck",
    "CalibratedBudget",
    "CallableSecondary",
    "ChampionReport",
    "CumulativeLossLearner",
    "Deactivation",
    "Decision",
    "EpochGrid",
    "ImpossibilityReport",
    "Instance",
    "LiveChampion",
    "LiveReport",
    "LossTranscript",
    "Losses",
    "Minimax",
    "OracleRun",
    "Phase",
    "Plan",
    "ReactivationTrace",
    "RestartAtReset",
    "RestartOnDeactivation",
    "ScalarizedLearner",
    "SelectiveChampion",
    "anytime",
    "burst_pair_phases",
    "burst_threshold",
    "check_stint_budget",
    "count_switches",
    "cusum",
    "frontier",
    "impossibility_phases",
    "minimax",
    "primary_regret",
    "rounds_since_switch",
    "secondary_regret",
    "sleeping_regret",
    "stints",
]
