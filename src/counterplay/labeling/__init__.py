"""Share the label queries so that everyone gains.

Several parties own pools of unlabeled points that one unknown rule labels. Together they need far
fewer labels than alone, but the standard greedy protocol may load the work on one party, who then
walks away. This area plans campaigns nobody walks away from: describe the campaign
(:func:`plan_campaign`, or a :class:`PoolProblem` for full control), pick a baseline everybody would
run alone (:class:`GBS`, :class:`OptimalTree`), wrap it so that nobody loses (:class:`B2IR`) or
everybody gains (:func:`sir_mixture`, :func:`optimal_mixture`), read the exact expected workload of
each party (:func:`incentive_report`), and run it with real labelers (:class:`LabelingSession`).
"""

from counterplay.labeling import bounds, instances, lab
from counterplay.labeling.audit import LabelAudit
from counterplay.labeling.b2ir import B2IR, safe_violators_mc
from counterplay.labeling.campaign import Campaign
from counterplay.labeling.gbs import GBS
from counterplay.labeling.guarded import GuardedShadow
from counterplay.labeling.mixture import NotStrictlyImprovable, optimal_mixture, sir_mixture
from counterplay.labeling.model import PoolProblem
from counterplay.labeling.optimal_tree import OptimalTree
from counterplay.labeling.plan import plan_campaign
from counterplay.labeling.report import incentive_report
from counterplay.labeling.session import LabelingSession
from counterplay.labeling.strategies import CommitteeStrategy

__all__ = [
    "B2IR",
    "GBS",
    "Campaign",
    "CommitteeStrategy",
    "GuardedShadow",
    "LabelAudit",
    "LabelingSession",
    "NotStrictlyImprovable",
    "OptimalTree",
    "PoolProblem",
    "bounds",
    "incentive_report",
    "instances",
    "lab",
    "optimal_mixture",
    "plan_campaign",
    "safe_violators_mc",
    "sir_mixture",
]
