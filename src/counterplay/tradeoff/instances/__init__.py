"""Hard instances behind the lower bounds, and streams that show one effect each."""

from counterplay.tradeoff.instances.lower_bounds import (
    SwitchTax,
    adaptive_switch_tax,
    burst_pair,
    classification_losses,
    cumulative_trap,
    deactivation_ladder,
    impossibility_worlds,
)
from counterplay.tradeoff.instances.workloads import (
    burst,
    calm,
    prefix_star,
    random_bounded,
    staggered,
)

__all__ = [
    "SwitchTax",
    "adaptive_switch_tax",
    "burst",
    "burst_pair",
    "calm",
    "classification_losses",
    "cumulative_trap",
    "deactivation_ladder",
    "impossibility_worlds",
    "prefix_star",
    "random_bounded",
    "staggered",
]
