"""Prices of plans in measured consortia: with common margins none is below 1.

Small invented sites with rules that differ a little, measured with the fewest fits.
Source: Theorem 23.2, docs/theory/23-consortium.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplay.contribution import measure_sites, plan_consortium
from counterplay.contribution.sites.result import ConsortiumPlan
from counterplay.studies.study import Record

WITHIN = 0.02
FEATURES = 5


def prices_cell(seed: int) -> Record:
    """Measure two to five invented sites and compare all plans."""
    rng = np.random.default_rng([seed, 17])
    rule = rng.standard_normal(FEATURES)
    sites: dict[str, Any] = {}
    for j in range(int(rng.integers(2, 6))):
        X = rng.standard_normal((int(rng.integers(60, 400)), FEATURES))
        own = rule + 0.4 * rng.standard_normal(FEATURES)
        sites[f"site {j}"] = (X, (X @ own + rng.standard_normal(len(X)) > 0).astype(int))
    budget = 48 + 5 + 3 * len(sites)
    points = measure_sites(sites, budget=budget, progress=False, random_state=seed)
    return {"sites": len(sites), **prices(plan_consortium(points, f"within={WITHIN}"))}


def prices(plan: ConsortiumPlan) -> dict[str, Any]:
    """Prices of stability, fairness and anarchy, of compensating and of the contract."""
    assert plan.solved is not None
    optimum = plan.solved.optimum
    found = {
        "stability": plan.price_of_stability,
        "fairness": plan.price_of_fairness,
        "anarchy": plan.price_of_anarchy,
    }
    for name in ("compensated", "contract"):
        if name in plan.plans and optimum > 1e-9:
            found[f"price_{name}"] = plan.plans[name].cost / optimum
    return {**found, "least_price": min(found.values())}
