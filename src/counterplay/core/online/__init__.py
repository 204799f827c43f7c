"""Standard online learners, each written once for all areas.

Over K experts with one loss per expert and round (see ``ScalarLearner``): Hedge and its lazy
relatives; ``reset``, ``act``, ``observe`` in a stream, ``marginals``, ``chain``, ``sample`` on a
loss sequence that is fixed in advance.
"""

from counterplay.core.online.chain import LazyChain
from counterplay.core.online.coupling import MaximalCouplingSampler, maximal_coupling
from counterplay.core.online.doubling import Doubling
from counterplay.core.online.explore_then_commit import ExploreThenCommit
from counterplay.core.online.follow_lazy_leader import FollowLazyLeader
from counterplay.core.online.follow_the_leader import FollowPerturbedLeader, FollowTheLeader
from counterplay.core.online.hedge import Hedge
from counterplay.core.online.learner import ScalarLearner
from counterplay.core.online.shrinking_dartboard import ShrinkingDartboard

__all__ = [
    "Doubling",
    "ExploreThenCommit",
    "FollowLazyLeader",
    "FollowPerturbedLeader",
    "FollowTheLeader",
    "Hedge",
    "LazyChain",
    "MaximalCouplingSampler",
    "ScalarLearner",
    "ShrinkingDartboard",
    "maximal_coupling",
]
