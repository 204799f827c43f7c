"""For researchers: exact solvers, certificates of theorems, PAC games, training with a defector.

``plan_contributions`` picks among these solvers; call one yourself to get its proof (duals, bounds,
residuals in ``certificate``), to compare methods, or to check a condition of a theorem on a game.
``defection_curve`` trains a federation in which one party holds data back; ``audit_margins`` reads
the curves. Sites whose tables may not be pooled are measured by ``describe_site`` and
``write_measuring_app``, or by ``fit_site_models`` and ``score_site_models``.
"""

from counterplay.contribution.audit import (
    Allocation,
    EnvyReport,
    StabilityReport,
    is_feasible,
    natural_residual,
    price_ratio,
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
from counterplay.contribution.coverage import cell_histograms
from counterplay.contribution.coverage_boxes import (
    EquilibriumBoxes,
    Infimum,
    envy_free_infimum,
    equilibrium_boxes,
)
from counterplay.contribution.coverage_optimum import (
    cheaper_envy_free_plan,
    coverage_opt_integer,
    coverage_opt_real,
)
from counterplay.contribution.coverage_relaxation import Relaxation, coverage_opt_relaxation
from counterplay.contribution.coverage_stable import (
    coverage_potential,
    integer_equilibrium_coverage,
    optimal_stable_coverage,
)
from counterplay.contribution.defectors import (
    Cohort,
    DefectionCurve,
    Difficulty,
    DigitsNetwork,
    PooledTraining,
    SearchResult,
    TrainingHistory,
    Trials,
    default_defectors,
    defection_curve,
    difficulty_scores,
    hard_and_easy,
    kept_points,
    mixture_parties,
    noisy_digits,
    pretrain,
    pretraining_digits,
    random_search,
    split_indices,
)
from counterplay.contribution.dynamics import DynamicsTranscript, NonConvergence, solve_ncp
from counterplay.contribution.empirical import MeasuredResponse
from counterplay.contribution.envy_free import improve_envy_free, optimal_envy_free_linear
from counterplay.contribution.game import Tolerances
from counterplay.contribution.margins import MarginAudit
from counterplay.contribution.multiplicative import multiplicative_weights_lp, mw_game_allocation
from counterplay.contribution.pac import (
    CyclePACGame,
    FiniteClassPACGame,
    sample_cycle,
    samples_needed,
)
from counterplay.contribution.plan import GameReport, WhatIf
from counterplay.contribution.sites.curves import SiteCurves
from counterplay.contribution.sites.description import SiteDescription, describe_site
from counterplay.contribution.sites.flower_project import write_measuring_app
from counterplay.contribution.sites.model_exchange import (
    SiteModels,
    fit_site_models,
    score_site_models,
)
from counterplay.contribution.sites.result import ConsortiumPlan, SitePlan
from counterplay.contribution.social_optimum import socially_optimal_linear
from counterplay.contribution.stable_linear import (
    optimal_stable_linear,
    optimal_stable_linear_cp,
    stable_linear_dynamics,
)
from counterplay.contribution.stable_milp import stable_linear_milp

__all__ = [
    "Allocation",
    "Cohort",
    "ConditionReport",
    "ConsortiumPlan",
    "CoreSetCertificate",
    "CyclePACGame",
    "DefectionCurve",
    "Difficulty",
    "DigitsNetwork",
    "DynamicsTranscript",
    "EnvyReport",
    "EquilibriumBoxes",
    "FiniteClassPACGame",
    "GameReport",
    "Infimum",
    "MarginAudit",
    "MeasuredResponse",
    "NonConvergence",
    "PooledTraining",
    "Relaxation",
    "SearchResult",
    "SiteCurves",
    "SiteDescription",
    "SiteModels",
    "SitePlan",
    "StabilityReport",
    "Tolerances",
    "TrainingHistory",
    "Trials",
    "WellBehavedReport",
    "WhatIf",
    "cell_histograms",
    "cheaper_envy_free_plan",
    "core_set_certificate",
    "coverage_opt_integer",
    "coverage_opt_real",
    "coverage_opt_relaxation",
    "coverage_potential",
    "default_defectors",
    "defection_curve",
    "describe_site",
    "difficulty_scores",
    "envy_free_infimum",
    "equilibrium_boxes",
    "fit_site_models",
    "hard_and_easy",
    "improve_envy_free",
    "integer_equilibrium_coverage",
    "is_feasible",
    "kept_points",
    "mixture_parties",
    "multiplicative_weights_lp",
    "mw_game_allocation",
    "natural_residual",
    "noisy_digits",
    "optimal_envy_free_linear",
    "optimal_stable_coverage",
    "optimal_stable_linear",
    "optimal_stable_linear_cp",
    "pos_is_one",
    "pretrain",
    "pretraining_digits",
    "price_ratio",
    "random_search",
    "sample_cycle",
    "samples_needed",
    "score_site_models",
    "socially_optimal_linear",
    "solve_ncp",
    "split_indices",
    "stable_implies_envy_free",
    "stable_linear_dynamics",
    "stable_linear_milp",
    "well_behaved_report",
    "write_measuring_app",
]
