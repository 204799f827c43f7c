"""Hard instances and worked examples: populations and adversaries that make the bounds tight."""

from counterplay.strategic.instances.adversaries import (
    HalvingAdversary,
    MWMRAdversary,
    OnlineAdversary,
    StarAdversary,
)
from counterplay.strategic.instances.generators import (
    blind_lb_instance,
    conservative_lb_instance,
    nonball_lb_instance,
    proper_lb_instance,
    sparse_wrong,
)
from counterplay.strategic.instances.information import (
    LinearBanditEnv,
    bernoulli_kl,
    kl_divergence,
    kl_table,
)
from counterplay.strategic.instances.online import (
    OnlineInstance,
    mwmr_worst_case,
    online_lb_instance,
    star_instance,
    threshold_line,
)
from counterplay.strategic.instances.populations import (
    BlindInstance,
    ConservativeInstance,
    HardPopulation,
    NonBallInstance,
    ProperInstance,
    SparseWrong,
)

__all__ = [
    "BlindInstance",
    "ConservativeInstance",
    "HalvingAdversary",
    "HardPopulation",
    "LinearBanditEnv",
    "MWMRAdversary",
    "NonBallInstance",
    "OnlineAdversary",
    "OnlineInstance",
    "ProperInstance",
    "SparseWrong",
    "StarAdversary",
    "bernoulli_kl",
    "blind_lb_instance",
    "conservative_lb_instance",
    "kl_divergence",
    "kl_table",
    "mwmr_worst_case",
    "nonball_lb_instance",
    "online_lb_instance",
    "proper_lb_instance",
    "sparse_wrong",
    "star_instance",
    "threshold_line",
]
