"""Server rules, one file each: mathematics on reports, NumPy only."""

from counterplay.federated.rules.ada_gd import ADAGD
from counterplay.federated.rules.fed_avg import FedAvg
from counterplay.federated.rules.mw_fed import MWFed
from counterplay.federated.rules.safe_step import SafeStep

__all__ = ["ADAGD", "FedAvg", "MWFed", "SafeStep"]
