"""How much data should each party bring, so that nobody holds back and nobody feels cheated?

Parties pool data for a shared model. Each wants to reach its own target and to bring little. The
cheapest joint plan often asks one party for nearly everything, and that party walks away. This area
computes plans nobody leaves (stable), plans nobody would swap out of (envy-free), and their price::

    game = LinearGame(overlap, mu=1.0)  # or CoverageGame.from_histograms(label_counts, mu=0.85)
    plan = plan_contributions(game, names=["north", "south", "east"])
    print(plan.summary()); plan.to_frame(); plan.plot()

Audits say who over-contributes and who envies whom. ``training`` measures, on real training runs,
how far a party could defect unnoticed under federated averaging and MW-FED; ``flower`` runs MW-FED
on Flower. ``instances`` holds the examples of the theory and ``bounds`` its numbers.
"""

from counterplay.contribution import bounds, instances, training
from counterplay.contribution.audit import (
    envy_report,
    is_feasible,
    natural_residual,
    price_of_anarchy,
    price_of_fairness,
    price_of_stability,
    stability_report,
)
from counterplay.contribution.certificates import (
    ConditionReport,
    CoreSetCertificate,
    WellBehavedReport,
    core_set_certificate,
    pos_is_one,
    stable_implies_envy_free,
    well_behaved_report,
)
from counterplay.contribution.coverage import CoverageGame
from counterplay.contribution.coverage_optimum import coverage_opt_integer, coverage_opt_real
from counterplay.contribution.coverage_relaxation import Relaxation, coverage_opt_relaxation
from counterplay.contribution.coverage_stable import (
    coverage_potential,
    integer_equilibrium_coverage,
    optimal_stable_coverage,
)
from counterplay.contribution.curves import LearningCurves, measure_learning_curves
from counterplay.contribution.cycle import CyclePACGame, sample_cycle, samples_needed
from counterplay.contribution.dynamics import (
    DynamicsResult,
    NonConvergence,
    best_response_dynamics,
)
from counterplay.contribution.empirical import EmpiricalGame, MeasuredResponse
from counterplay.contribution.envy_free import improve_envy_free, optimal_envy_free_linear
from counterplay.contribution.equal import equal_allocation
from counterplay.contribution.finite_pac import FiniteClassPACGame
from counterplay.contribution.game import CollabGame, Tolerances
from counterplay.contribution.linear import LinearGame
from counterplay.contribution.margins import MarginAudit, audit_margins, predicted_margins
from counterplay.contribution.multiplicative import (
    multiplicative_weights_lp,
    mw_game_allocation,
)
from counterplay.contribution.ncp import solve_ncp
from counterplay.contribution.plan import analyse, plan_contributions
from counterplay.contribution.plan_report import GameReport, WhatIf
from counterplay.contribution.reports import Allocation, EnvyReport, StabilityReport
from counterplay.contribution.social_optimum import socially_optimal_linear
from counterplay.contribution.stable_cp import optimal_stable_linear_cp
from counterplay.contribution.stable_linear import optimal_stable_linear, stable_linear_dynamics
from counterplay.contribution.stable_milp import stable_linear_milp
from counterplay.contribution.tables import cell_histograms
from counterplay.contribution.tabular import TabularGame

__all__ = [
    "Allocation",
    "CollabGame",
    "ConditionReport",
    "CoreSetCertificate",
    "CoverageGame",
    "CyclePACGame",
    "DynamicsResult",
    "EmpiricalGame",
    "EnvyReport",
    "FiniteClassPACGame",
    "GameReport",
    "LearningCurves",
    "LinearGame",
    "MarginAudit",
    "MeasuredResponse",
    "NonConvergence",
    "Relaxation",
    "StabilityReport",
    "TabularGame",
    "Tolerances",
    "WellBehavedReport",
    "WhatIf",
    "analyse",
    "audit_margins",
    "best_response_dynamics",
    "bounds",
    "cell_histograms",
    "core_set_certificate",
    "coverage_opt_integer",
    "coverage_opt_real",
    "coverage_opt_relaxation",
    "coverage_potential",
    "envy_report",
    "equal_allocation",
    "improve_envy_free",
    "instances",
    "integer_equilibrium_coverage",
    "is_feasible",
    "measure_learning_curves",
    "multiplicative_weights_lp",
    "mw_game_allocation",
    "natural_residual",
    "optimal_envy_free_linear",
    "optimal_stable_coverage",
    "optimal_stable_linear",
    "optimal_stable_linear_cp",
    "plan_contributions",
    "pos_is_one",
    "predicted_margins",
    "price_of_anarchy",
    "price_of_fairness",
    "price_of_stability",
    "sample_cycle",
    "samples_needed",
    "socially_optimal_linear",
    "solve_ncp",
    "stability_report",
    "stable_implies_envy_free",
    "stable_linear_dynamics",
    "stable_linear_milp",
    "training",
    "well_behaved_report",
]
