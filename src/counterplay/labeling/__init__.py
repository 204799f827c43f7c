"""Share the label queries so that everyone gains.

Several parties own pools of unlabelled items. Together they need far fewer labels than alone, but a
protocol that looks only at the total may load the work on one party, who then walks away. On real
pools, where no model is right and people err, run a :class:`Campaign`: every party is asked only
what it would surely have asked alone (:class:`TestFirstSolo`), and the end is an audit with a bound
that can be signed. Labels that somebody delivered are audited by :class:`LabelAudit`; other
active-learning loops can use :class:`CommitteeStrategy`. Where one of finitely many labelings is
exactly right, plan with :func:`plan_campaign` or a :class:`PoolProblem`: a baseline (:class:`GBS`,
:class:`OptimalTree`), wrapped so that nobody loses on average (:class:`B2IR`), or for every target
(:class:`GuardedShadow`), or everybody gains (:func:`sir_mixture`, :func:`optimal_mixture`), its
exact costs (:func:`incentive_report`) and a :class:`LabelingSession` with people.
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
from counterplay.labeling.solo import TestFirstSolo
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
    "TestFirstSolo",
    "bounds",
    "incentive_report",
    "instances",
    "lab",
    "optimal_mixture",
    "plan_campaign",
    "safe_violators_mc",
    "sir_mixture",
]
