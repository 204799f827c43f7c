"""How much data should each party bring, so that nobody holds back and nobody feels cheated?

Parties pool data for a shared model. Each wants to reach its own target and to bring little. The
cheapest joint plan often asks one party for nearly everything, and that party walks away. This area
computes plans nobody leaves (stable), plans nobody would swap out of (envy-free), and their price::

    plan = plan_consortium({"north": north, "south": south}, "within=0.01", label="y")
    print(plan.summary()); plan.write_flower("out/")

    game = LinearGame(overlap, mu=1.0)  # or CoverageGame.from_histograms(label_counts, mu=0.85)
    plan = plan_contributions(game, names=["north", "south", "east"])
    print(plan.summary()); plan.to_frame(); plan.plot()

Audits say of any plan who over-contributes and who envies whom. ``lab`` has exact solvers and
certificates, and measures on real training runs how far a party could defect unnoticed under the
federated averaging and the MW-FED of ``counterplay.federated``.
"""

from counterplay.contribution import bounds, instances, lab
from counterplay.contribution.audit import envy_report, stability_report
from counterplay.contribution.coverage import CoverageGame
from counterplay.contribution.dynamics import best_response_dynamics
from counterplay.contribution.empirical import EmpiricalGame
from counterplay.contribution.equal import equal_allocation
from counterplay.contribution.game import CollabGame
from counterplay.contribution.linear import LinearGame
from counterplay.contribution.margins import audit_margins, predicted_margins
from counterplay.contribution.plan import plan_contributions
from counterplay.contribution.sites.measuring import measure_sites
from counterplay.contribution.sites.plan import plan_consortium
from counterplay.contribution.sites.points import SitePoints
from counterplay.contribution.tabular import TabularGame

__all__ = [
    "CollabGame",
    "CoverageGame",
    "EmpiricalGame",
    "LinearGame",
    "SitePoints",
    "TabularGame",
    "audit_margins",
    "best_response_dynamics",
    "bounds",
    "envy_report",
    "equal_allocation",
    "instances",
    "lab",
    "measure_sites",
    "plan_consortium",
    "plan_contributions",
    "predicted_margins",
    "stability_report",
]
