"""Server rules: uniform averaging, MW-FED, ADA-GD and SafeStep, one file each; NumPy only."""

from counterplay.defection.reports import Aggregator, Decision, Reports, RuleState, RuleStatus
from counterplay.defection.rules.ada_gd import ADAGD
from counterplay.defection.rules.mw_fed import MWFed
from counterplay.defection.rules.safe_step import SafeStep
from counterplay.defection.rules.uniform import FedAvg, UniformAggregation

__all__ = [
    "ADAGD",
    "Aggregator",
    "Decision",
    "FedAvg",
    "MWFed",
    "Reports",
    "RuleState",
    "RuleStatus",
    "SafeStep",
    "UniformAggregation",
]
