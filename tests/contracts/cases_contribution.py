"""Contract cases of counterplay.contribution."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from cases_contribution_defectors import CASES as DEFECTORS
from cases_contribution_defectors import curve

from counterplay.contribution import (
    CoverageGame,
    EmpiricalGame,
    LinearGame,
    SitePoints,
    TabularGame,
    audit_margins,
    best_response_dynamics,
    bounds,
    envy_report,
    equal_allocation,
    instances,
    measure_sites,
    plan_consortium,
    plan_contributions,
    predicted_margins,
    stability_report,
)
from counterplay.contribution.lab import (
    CyclePACGame,
    FiniteClassPACGame,
    Tolerances,
    cell_histograms,
    cheaper_envy_free_plan,
    core_set_certificate,
    coverage_opt_integer,
    coverage_opt_real,
    coverage_opt_relaxation,
    coverage_potential,
    describe_site,
    envy_free_infimum,
    equilibrium_boxes,
    fit_site_models,
    improve_envy_free,
    integer_equilibrium_coverage,
    is_feasible,
    multiplicative_weights_lp,
    mw_game_allocation,
    optimal_envy_free_linear,
    optimal_stable_coverage,
    optimal_stable_linear,
    optimal_stable_linear_cp,
    pos_is_one,
    price_ratio,
    sample_cycle,
    samples_needed,
    score_site_models,
    socially_optimal_linear,
    solve_ncp,
    stable_linear_dynamics,
    stable_linear_milp,
    well_behaved_report,
)


@cache
def sites() -> dict[str, Any]:
    """Two sites with one rule."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=80) > 0).astype(int)
    return {"a": (X[:50], y[:50]), "b": (X[50:], y[50:])}


@cache
def points() -> Any:
    return measure_sites(sites(), budget=59, progress=False)


@cache
def models() -> Any:
    return [fit_site_models(rows, name=name, repeats=1) for name, rows in sites().items()]


PAIR = [[1.0, 0.5], [0.5, 1.0]]
ROWS = [[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]]
RETURNED = "returned by the functions of the area"


def linear() -> LinearGame:
    return LinearGame(PAIR, 1.0)


def four() -> LinearGame:
    return LinearGame(np.full((4, 4), 0.5) + 0.5 * np.eye(4), 1.0)


def coverage(integral: bool = False) -> CoverageGame:
    return CoverageGame(ROWS, 0.8, integral=integral)


@cache
def parts() -> tuple[tuple[Any, Any], ...]:
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    return tuple((X[i::2], y[i::2]) for i in range(2))


def estimator() -> Any:
    from sklearn.naive_bayes import GaussianNB

    return GaussianNB()


def utilities(game: Any) -> Any:
    return game.utilities(np.ones(game.k)), game.best_response_map(np.ones(game.k))


CASES: dict[str, dict[str, Any]] = {
    "LinearGame": {
        "make": linear,
        "run": utilities,
        "bad": {"negative": lambda: LinearGame([[1.0, -1.0], [0.0, 1.0]])},
    },
    "CoverageGame": {
        "make": coverage,
        "run": utilities,
        "bad": {"no distribution": lambda: CoverageGame([[0.5, 0.1]], 0.8)},
    },
    "CyclePACGame": {
        "make": lambda: CyclePACGame(3, "4/5"),
        "run": utilities,
        "bad": {"target 1": lambda: CyclePACGame(3, 1)},
    },
    "FiniteClassPACGame": {
        "make": lambda: FiniteClassPACGame([[0, 0], [1, 1]], None, np.eye(2), 0.9),
        "run": utilities,
        "bad": {"labels": lambda: FiniteClassPACGame([[2]], None, [[1.0]], 0.5)},
    },
    "TabularGame": {
        "make": lambda: TabularGame.from_game(CyclePACGame(3, "4/5")),
        "run": utilities,
        "bad": {"levels": lambda: TabularGame([[1, 0]], [[0, 1]], 0.5)},
    },
    "EmpiricalGame": {
        "make": lambda: EmpiricalGame(parts(), estimator(), 0.8, n_repeats=2),
        "run": lambda game: game.utilities([5, 5]),
        "bad": {"nobody": lambda: EmpiricalGame([], estimator(), 0.8)},
    },
    "CollabGame": {"no_case": "abstract base class"},
    "Tolerances": {"make": Tolerances},
    "Allocation": {"make": lambda: socially_optimal_linear(linear()), "no_example": RETURNED},
    "StabilityReport": {"make": lambda: stability_report(linear(), [1, 1]), "no_example": RETURNED},
    "EnvyReport": {"make": lambda: envy_report(linear(), [1, 0.5]), "no_example": RETURNED},
    "GameReport": {"make": lambda: plan_contributions(linear()), "no_example": RETURNED},
    "WhatIf": {
        "make": lambda: plan_contributions(linear()).what_if(targets={"0": 2.0}),
        "no_example": "returned by GameReport.what_if",
    },
    "MarginAudit": {"make": lambda: audit_margins(four(), np.ones(4), [curve()])},
    "audit_margins": {
        "args": lambda: {"game": four(), "theta": np.ones(4), "curves": [curve()]},
        "bad": {"too few parties": lambda: audit_margins(linear(), [1, 1], [curve()])},
    },
    "predicted_margins": {
        "args": lambda: {"game": linear(), "theta": [1.0, 1.0]},
        "bad": {"negative": lambda: predicted_margins(linear(), [-1.0, 1.0])},
    },
    "DynamicsTranscript": {
        "make": lambda: best_response_dynamics(linear()),
        "no_example": RETURNED,
    },
    "Relaxation": {
        "make": lambda: coverage_opt_relaxation(coverage()),
        "no_example": RETURNED,
    },
    "CoreSetCertificate": {
        "make": lambda: core_set_certificate(linear(), theta_eq=[2 / 3, 2 / 3]),
        "no_example": RETURNED,
    },
    "ConditionReport": {
        "make": lambda: pos_is_one(PAIR),
        "no_example": RETURNED,
    },
    "WellBehavedReport": {
        "make": lambda: well_behaved_report(linear()),
        "no_example": RETURNED,
    },
    "MeasuredResponse": {
        "make": lambda: CASES["EmpiricalGame"]["make"]().measured_response(0, [0, 0]),
        "no_example": "returned by EmpiricalGame.measured_response",
    },
    "measure_sites": {
        "args": lambda: {"sites": sites(), "plans": "share", "budget": 48, "progress": False},
        "bad": {"one site": lambda: measure_sites({"a": sites()["a"]}, progress=False)},
    },
    "plan_consortium": {
        "args": lambda: {"sites_or_points": points(), "target": "within=0.05"},
        "bad": {"target": lambda: plan_consortium(points(), "auc=0.9")},
    },
    "SitePoints": {"make": lambda: points(), "restore": SitePoints.parse},
    "describe_site": {
        "args": lambda: {"table": sites()["a"], "name": "a"},
        "bad": {"no name": lambda: describe_site(sites()["a"])},
    },
    "fit_site_models": {
        "args": lambda: {"table": sites()["a"], "name": "a", "repeats": 1, "random_state": 0},
        "bad": {"repeats": lambda: fit_site_models(sites()["a"], name="a", repeats=0)},
    },
    "score_site_models": {
        "args": lambda: {"table": sites()["a"], "models": models(), "name": "a", "progress": False},
        "bad": {"own models": lambda: score_site_models(sites()["a"], models()[1:], name="a")},
    },
    "write_measuring_app": {"no_case": "writes a folder; tests/contribution/sites/test_private.py"},
    "SiteDescription": {
        "make": lambda: describe_site(sites()["a"], name="a"),
        "no_example": "returned by describe_site",
    },
    "SiteModels": {
        "make": lambda: models()[0],
        "no_example": "returned by fit_site_models",
    },
    "SiteCurves": {
        "make": lambda: points().curves(draws=4),
        "no_example": "returned by SitePoints.curves",
    },
    "SitePlan": {
        "make": lambda: plan_consortium(points(), "within=0.05").share,
        "no_example": "returned by plan_consortium",
    },
    "ConsortiumPlan": {
        "make": lambda: plan_consortium(points(), "within=0.05"),
        "no_example": "returned by plan_consortium",
    },
    "Infimum": {
        "make": lambda: envy_free_infimum(coverage(), gap=0.2),
        "no_example": "returned by envy_free_infimum",
    },
    "EquilibriumBoxes": {
        "make": lambda: equilibrium_boxes(coverage()),
        "no_example": "returned by equilibrium_boxes",
    },
    "envy_free_infimum": {
        "args": lambda: {"game": coverage(), "gap": 0.2},
        "bad": {"whole": lambda: envy_free_infimum(coverage(True))},
    },
    "equilibrium_boxes": {
        "args": lambda: {"game": coverage()},
        "bad": {"whole": lambda: equilibrium_boxes(coverage(True))},
    },
    "plan_contributions": {
        "args": lambda: {"game": linear(), "names": ["a", "b"]},
        "bad": {"names": lambda: plan_contributions(linear(), names=["a"])},
    },
    "is_feasible": {
        "args": lambda: {"game": linear(), "theta": [1, 1]},
        "bad": {"length": lambda: is_feasible(linear(), [1])},
    },
    "stability_report": {"args": lambda: {"game": linear(), "theta": [1, 1]}},
    "envy_report": {"args": lambda: {"game": linear(), "theta": [1, 0.5]}},
    "natural_residual": {
        "args": lambda: {"game": linear(), "theta": [1, 0.5]},
        "no_example": "one line, see optimal_stable_linear",
    },
    "price_ratio": {
        "args": {"total": 3.0, "optimal_total": 2.0},
        "bad": {"negative": lambda: price_ratio(-1.0, 1.0)},
    },
    "cheaper_envy_free_plan": {
        "args": lambda: {"game": coverage(True), "lower": 0.0, "known": 6.0},
        "bad": {"without end": lambda: cheaper_envy_free_plan(coverage(True), 0.0, None)},
    },
    "equal_allocation": {
        "args": lambda: {"game": linear()},
        "bad": {"infeasible": lambda: equal_allocation(linear(), [0, 0])},
    },
    "socially_optimal_linear": {
        "args": {"W": PAIR, "mu": 1.0},
        "bad": {"shape": lambda: socially_optimal_linear([[1.0, 2.0]], 1.0)},
    },
    "stable_linear_dynamics": {
        "args": {"W": PAIR, "mu": 1.0},
        "bad": {"directed": lambda: stable_linear_dynamics([[1, 0.5], [0, 1]], 1.0)},
    },
    "optimal_stable_linear": {
        "args": {"W": PAIR, "mu": 1.0},
        "bad": {"sense": lambda: optimal_stable_linear(PAIR, 1.0, sense=2)},  # type: ignore[arg-type]
    },
    "optimal_stable_linear_cp": {
        "args": {"W": PAIR, "mu": 1.0},
        "bad": {"directed": lambda: optimal_stable_linear_cp([[1, 0.5], [0, 1]], 1.0)},
    },
    "stable_linear_milp": {
        "args": {"W": PAIR, "mu": 1.0},
        "bad": {"sense": lambda: stable_linear_milp(PAIR, 1.0, sense=0)},  # type: ignore[arg-type]
    },
    "optimal_envy_free_linear": {
        "args": {"W": PAIR, "mu": 1.0},
        "bad": {"eps = 0": lambda: optimal_envy_free_linear(PAIR, 1.0, eps=0.0)},
    },
    "improve_envy_free": {
        "args": lambda: {"game": linear(), "theta": [1.0, 1.0]},
        "bad": {"infeasible": lambda: improve_envy_free(linear(), [0.0, 0.0])},
        "no_example": "see plan_contributions",
    },
    "coverage_opt_relaxation": {
        "args": lambda: {"game": coverage()},
        "bad": {"bounds": lambda: coverage_opt_relaxation(coverage(), lower=[9, 9], upper=[1, 1])},
    },
    "coverage_opt_integer": {
        "args": lambda: {"game": coverage(True)},
        "bad": {"nodes": lambda: coverage_opt_integer(coverage(), max_nodes=0)},
    },
    "coverage_opt_real": {
        "args": lambda: {"game": coverage(), "n_starts": 1, "random_state": 0},
        "bad": {"seed": lambda: coverage_opt_real(coverage(), random_state=-1)},
    },
    "coverage_potential": {
        "args": lambda: {"game": coverage(True), "theta": [1, 2]},
        "bad": {"fraction": lambda: coverage_potential(coverage(), [0.5, 0.0])},
    },
    "integer_equilibrium_coverage": {
        "args": lambda: {"game": coverage(True), "random_state": 0},
        "bad": {"restarts": lambda: integer_equilibrium_coverage(coverage(), n_restarts=-1)},
    },
    "optimal_stable_coverage": {
        "args": lambda: {"game": coverage(), "n_restarts": 1, "random_state": 0},
        "bad": {"whole numbers": lambda: optimal_stable_coverage(coverage(True))},
    },
    "best_response_dynamics": {
        "args": lambda: {"game": coverage(), "random_state": 0},
        "bad": {"mode": lambda: best_response_dynamics(linear(), "fast")},  # type: ignore[arg-type]
    },
    "solve_ncp": {
        "args": lambda: {"game": linear(), "random_state": 0},
        "bad": {"whole numbers": lambda: solve_ncp(coverage(True))},
    },
    "core_set_certificate": {
        "args": lambda: {"W": PAIR, "mu": 1.0, "theta_eq": [2 / 3, 2 / 3]},
        "bad": {"not stable": lambda: core_set_certificate(PAIR, 1.0, [1.0, 1.0])},
    },
    "pos_is_one": {"args": {"W": PAIR, "mu": 1.0}},
    "stable_implies_envy_free": {"args": {"W": PAIR}},
    "well_behaved_report": {
        "args": lambda: {"game": linear()},
        "bad": {"corner": lambda: well_behaved_report(linear(), [-1, 1])},
    },
    "multiplicative_weights_lp": {
        "args": {"W": PAIR, "mu": 1.0},
        "bad": {"eps": lambda: multiplicative_weights_lp(PAIR, 1.0, eps=0.0)},
    },
    "mw_game_allocation": {
        "args": lambda: {"game": linear()},
        "bad": {"factor": lambda: mw_game_allocation(linear(), 0.5)},
    },
    "cell_histograms": {
        "args": {"tables": [[[1.0], [2.0]], [[3.0]]], "cells": 2, "random_state": 0},
        "bad": {"empty": lambda: cell_histograms([])},
    },
    "sample_cycle": {
        "args": {"d": 2, "theta": [1, 0, 1], "random_state": 0},
        "bad": {"theta": lambda: sample_cycle(2, [1, 0], 0)},
    },
    "samples_needed": {
        "args": {"mu": "7/9", "d": 3},
        "bad": {"text": lambda: samples_needed("x", 3)},
    },
    **{
        f"bounds.{name}": {"args": {"s": 3}}
        for name in (
            "flower_coverage_core_only",
            "flower_coverage_equal",
            "flower_coverage_relaxed_opt",
            "flower_coverage_stable",
            "flower_linear_envy_free",
            "flower_linear_opt",
            "flower_linear_pof",
            "flower_linear_pos",
            "flower_linear_stable",
            "flower_petal",
        )
    },
    "bounds.flower_petal_lower_bound": {"args": {}},
    "bounds.cycle_real_level": {"args": {"mu": 0.9}},
    "bounds.cycle_equilibria": {"args": {"m": 3}},
    "bounds.best_response_lipschitz": {"args": {"c1": 0.5, "c2": 0.25}},
    "bounds.pair_segment_utility": {"args": {"alpha": 0.25}},
    "instances.Flower": {"make": lambda: instances.flower(2), "no_example": "see flower"},
    "instances.flower": {"args": {"s": 2}, "bad": {"k": lambda: instances.flower(k=7)}},
    "instances.k4_segment": {
        "args": {"alpha": 0.9},
        "bad": {"alpha": lambda: instances.k4_segment(2.0)},
    },
    "instances.random_linear_game": {
        "args": {"k": 4, "n": 6, "random_state": 0},
        "bad": {"density": lambda: instances.random_linear_game(density=0.0)},
    },
    "instances.random_coverage_game": {"args": {"k": 3, "n": 6, "random_state": 0}},
    **{
        f"instances.{name}": {"args": {}}
        for name in (
            "directed_triangle",
            "dominant_but_directed",
            "identical_linear_pair",
            "identical_pair",
            "indefinite",
            "k4_edges",
            "simple_cycle",
            "stable_but_envied",
            "star_with_one_high_target",
            "unequal_targets",
        )
    },
}
CASES |= DEFECTORS
if find_spec("cvxpy") is None:
    CASES["optimal_stable_linear_cp"] = {"no_case": "cvxpy is not installed"}
assert bounds  # the module is public as a whole
