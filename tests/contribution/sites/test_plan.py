"""Plans of measured consortia: caps, prices, promises, warnings, words."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import least_squares

from contribution.sites.worlds import invented, measured, opposite, three_sites
from counterplay.contribution import (
    CoverageGame,
    capped,
    measure_sites,
    plan_consortium,
    plan_contributions,
)
from counterplay.contribution.sites import fitting
from counterplay.contribution.sites.bands import Bands
from counterplay.contribution.sites.curves import problem_of, site_errors, with_reference
from counterplay.contribution.sites.result import PLANS
from counterplay.errors import InvalidInputError
from counterplay.studies.contribution import consortium as study
from counterplay.studies.contribution.consortium_prices import prices_cell
from counterplay.studies.contribution.odd_site import odd_cell


def test_the_batched_fit_finds_what_scipy_finds() -> None:
    points = measured()
    sites = [site_errors(points, i) for i in range(3)]
    problem = with_reference(problem_of(sites, 0.02, 0.05), [0, 1, 2])
    theta = fitting.fit(problem, problem.centre[:, None])[:, 0]
    for g in range(3):
        free = problem.low[g] < problem.high[g]
        there = np.isfinite(problem.sd[g])

        def residual(x: np.ndarray, g: int = g, free: np.ndarray = free) -> np.ndarray:
            full = problem.centre[g].copy()
            full[free] = x
            s = problem.rows[g] @ full[4:]
            miss = ((fitting.curve(full, s) - problem.errors[g]) / problem.sd[g])[there]  # noqa: B023
            return np.r_[miss, ((full - problem.centre[g]) / problem.prior_sd[g])[free]]

        bounds = problem.low[g][free], problem.high[g][free]
        start = np.clip(theta[g][free], bounds[0] + 1e-9, bounds[1] - 1e-9)
        other = least_squares(residual, start, bounds=bounds)
        assert (residual(theta[g][free]) ** 2).sum() <= 2 * other.cost * (1 + 1e-2)


@pytest.mark.claim("23.06")
def test_pooling_everything_is_a_plan_even_with_rates_that_solvers_leave_out() -> None:
    """HiGHS drops coefficients below 1e-9; times a thousand rows they are more than it forgives."""
    found = plan_consortium(measured(), "within=0.02").promises
    assert found is not None
    theta = found.curves.theta.copy()
    theta[0, -2:] = 9e-10
    cap = 1000.0 * found.cap
    promises = replace(found, curves=replace(found.curves, theta=theta), cap=cap)
    game = promises.game(np.full(3, 0.5))  # everything is needed
    assert (game.slack(cap) >= 0).all()
    assert capped.cheapest(game) == pytest.approx(cap)


@pytest.mark.claim("23.06")
def test_no_plan_asks_for_more_than_is_owned() -> None:
    plan = plan_consortium(measured(), "within=0.02", caps={"a": 100}, costs={"b": 2.0})
    for name in PLANS:
        if name in plan.plans:
            assert (plan.plans[name].rows <= [100, 120, 60]).all(), name
    rng = np.random.default_rng(0)
    tables = [pd.DataFrame(rng.normal(size=(n, 2))) for n in (60, 200, 200)]
    game = CoverageGame.from_tables(tables, 0.8, cells=40)
    found = plan_contributions(game)
    assert "0.8 is coverage of 40 cells, not accuracy" in found.summary().splitlines()[0]
    for some in found.plans.values():
        assert (some.theta <= [60, 200, 200]).all()
    with pytest.raises(InvalidInputError, match="even if everybody contributes up to the caps"):
        CoverageGame.from_tables([t.iloc[:5] for t in tables], 0.99, cells=15)
    assert CoverageGame.from_tables(tables, 0.9, cells=40, caps=None).upper is None


@pytest.mark.claim("23.07")
@pytest.mark.parametrize(("k", "seed"), [(2, 0), (3, 1), (3, 2), (4, 3)])
def test_prices_are_at_least_one(k: int, seed: int) -> None:
    plan = plan_consortium(invented(k, seed), "within=0.03")
    prices = plan.price_of_stability, plan.price_of_fairness, plan.price_of_anarchy
    assert min(prices) >= 1 - 1e-9
    assert plan.price_of_anarchy >= plan.price_of_stability - 1e-9
    assert plan.cheapest is not None
    assert (plan.cheapest.probability[plan.promised] >= 0.9 - 1e-9).all()
    if plan.stable is None:
        assert plan.why_not["stable"]
        assert plan.compensated.against_interest.sum() > 0
    fair = plan.envy_free
    assert fair is None or not any(fair.envies)
    assert plan.promises is not None
    assert plan.solved is not None
    for n in (plan.solved.compensated, plan.solved.contract, plan.solved.dearest):
        if n is not None and plan.promises.kept(n):  # no plan that holds is cheaper
            assert plan.cheapest.cost <= plan.promises.cost @ n + 1e-6


@pytest.mark.claim("23.07")
@pytest.mark.parametrize(
    ("k", "seed", "target"),
    [(2, 2, "within=0.03"), (3, 1, "within=0.01"), (3, 4, "within=0.03"), (3, 6, "within=0.01")],
)
def test_plans_are_what_their_names_say_with_confidence(k: int, seed: int, target: str) -> None:
    """All plans of a grid, and every site's alternatives, judged by the redraws themselves."""
    plan = plan_consortium(invented(k, seed), target)
    promises, solved = plan.promises, plan.solved
    assert promises is not None
    assert solved is not None
    axes = [np.linspace(0.0, cap, {2: 25, 3: 11}[k]) for cap in promises.cap]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, k)
    served = np.array([(promises.short(n) <= 1e-6).all() for n in grid])
    assert promises.cost @ solved.cheapest <= (grid @ promises.cost)[served].min() + 1e-6
    for n in (solved.cheapest, solved.contract, solved.stable):
        assert n is None or (promises.short(n) <= 1e-6).all()
    if solved.stable is None:  # then those who are left alone do not end there either
        assert (promises.short(solved.left_alone) > 1e-6).any()
    else:
        for i in np.flatnonzero(solved.stable > 1.0):
            less = np.where(np.arange(k) == i, 0.97 * solved.stable, solved.stable)
            assert promises.short(less)[i] > 0.0
        assert plan.stable.sure.max() <= 1.0  # rows are rounded up
    assert plan.left_alone.against_interest.max() <= 1e-3  # nobody brings more than it wants to
    chosen = plan.plans[str(plan.recommended)]
    assert chosen.short[plan.promised].max() <= 1e-6


def test_a_site_that_is_better_off_alone_binds_nobody() -> None:
    rng = np.random.default_rng(1)
    rule, sites = rng.normal(size=4), {}
    for name in ("odd", "b", "c"):
        n = int(rng.integers(60, 400))
        X = rng.normal(size=(n, 4)) + 0.5 * rng.normal(size=4)
        own = rule + rng.normal(size=4)
        sites[name] = (X, (rng.random(n) < 1 / (1 + np.exp(-X @ own))).astype(int))
    points = measure_sites(sites, budget=100, progress=False)
    plan = plan_consortium(points, "within=0.01")
    assert plan.promised.to_dict() == {"odd": False, "b": True, "c": True}
    assert plan.cheapest is not None
    assert plan.cheapest.rows["odd"] == 0
    assert plan.cheapest.short[["b", "c"]].max() <= 1e-6
    assert plan.cheapest.total < 0.6 * plan.owned.sum()
    assert "odd is better off alone" in plan.summary()


@pytest.mark.claim("23.07")
@pytest.mark.parametrize("seed", range(3))
def test_prices_of_the_study_are_at_least_one(seed: int) -> None:
    record = prices_cell(seed)
    assert float(str(record["least_price"])) >= 1 - 1e-9


@pytest.mark.claim("23.34")
@pytest.mark.parametrize(("k", "seed"), [(2, 0)])
def test_the_best_voluntary_target(k: int, seed: int) -> None:
    plan = plan_consortium(invented(k, seed), "within=0.01")
    target = plan.best_voluntary_target()
    if target is None:
        assert plan.what_if(target="within=0.2").stable is None
        return
    g = float(target.split("=")[1])
    assert plan.what_if(target=target).stable is not None
    tighter = float(f"{0.9 * g:.3g}")
    assert g <= 1e-4 or plan.what_if(target=f"within={tighter:g}").stable is None


@pytest.mark.claim("23.34")
def test_no_voluntary_target_is_none() -> None:
    """The example of two sites of which one needs more than the other will ever bring."""
    plan = plan_consortium(opposite(), "within=0.01")
    target = plan.best_voluntary_target()
    assert target is None or plan.what_if(target=target).stable is not None


@pytest.mark.claim("23.09")
def test_sites_that_contradict_each_other_are_told_so() -> None:
    plan = plan_consortium(opposite(), "within=0.01")
    assert plan.curves is not None
    rates = plan.curves.exchange_rates.xs("rate", axis=1, level=1)
    assert rates.loc["left", "right"] < -0.5
    assert rates.loc["right", "left"] < -0.5
    assert plan.promises is not None
    assert plan.promises.alone.all()
    assert plan.recommended is None
    text = plan.summary()
    assert text.count("is better off alone") == 2
    assert "no joint plan" in text


@pytest.mark.claim("23.08")
def test_the_study_cell_keeps_promises_on_a_bundled_table() -> None:
    record = study.cell({"kind": "promise", "data": "cancer", "replicate": 0}, 0)
    assert record["share_at"] == record["sites"] == 4
    assert 0 < int(str(record["share_rows"])) <= int(str(record["owned"]))


@pytest.mark.claim("23.08")
@pytest.mark.skipif("COUNTERPLAY_DATA" not in os.environ, reason="needs the table heloc")
def test_the_study_cell_keeps_promises_on_credit_rows() -> None:
    record = study.cell({"kind": "promise", "data": "heloc", "replicate": 1}, 0)
    assert record["share_at"] == 5
    assert int(str(record["cells_100_at"])) <= 2


@pytest.mark.claim("23.39")
def test_a_small_odd_site_is_not_called_verified() -> None:
    record = odd_cell(1, fresh=1000)
    assert record["odd_basis"] == "modelled"
    assert record["verified_kept"] == record["verified"]
    assert record["others_kept"] == 3
    assert float(str(record["odd_noise"])) > 0.015 / 1.3 > float(str(record["other_noise"])) / 1.2


def test_the_summary_has_its_order_and_says_what_is_not_known() -> None:
    plan = plan_consortium(measured(), "within=0.02")
    lines = plan.summary().splitlines()
    starts = ["measured: 80 fits", "recommended: ", "  a: ", "  b: ", "  c: ", "under the "]
    for line, start in zip(lines, starts):
        assert line.startswith(start)
    assert "against interest" in plan.summary() or "against its interest" in plan.summary()
    assert lines[-1].startswith("not covered")
    assert "prices against the cheapest mixture" in plan.summary()
    frame = plan.to_frame()
    assert list(frame.index) == ["a", "b", "c"]
    assert list(plan.holds_back.columns) == ["sure", "perhaps"]
    assert (plan.holds_back["sure"] <= plan.holds_back["perhaps"] + 1e-9).all()
    assert plan.plot() is not None
    assert plan.plot_rates() is not None
    assert plan.to_dict()["recommended"] == plan.recommended


def test_absolute_targets_that_rows_cannot_check_are_not_promised() -> None:
    plan = plan_consortium(measured(), "accuracy=0.995")
    assert not plan.promised.any()
    assert "cannot be reached at" in plan.summary()
    assert "pool everything" in plan.summary()
    easy = plan_consortium(measured(), {"a": "accuracy=0.6", "b": "within=0.05"})
    assert easy.promised["a"]
    assert easy.share.expected["a"] > 0.6
    near = float(plan.share.expected["c"])
    tight = plan_consortium(measured(), f"accuracy={near - 0.005:.3f}")
    assert not tight.promised["c"]
    assert "too few rows to verify" in tight.summary()


def test_what_if() -> None:
    plan = plan_consortium(measured(), "within=0.02")
    without = plan.what_if(without="c")
    assert without.share.rows["c"] == 0
    assert not without.promised["c"]
    loose = plan.what_if(target="within=0.2")
    assert loose.cheapest.cost <= plan.cheapest.cost + 1e-6
    assert plan.what_if(caps={"a": 50}).share.rows["a"] <= 50
    joint = plan_consortium(measured(), "within=0.02", joint=True)
    assert joint.ray.share >= plan.ray.share - 1e-9


def test_bad_requests_are_named() -> None:
    points = measured()
    for target in ("auc=0.9", "within=-0.1", "accuracy=1.5", 3, "accuracy"):
        with pytest.raises(InvalidInputError):
            plan_consortium(points, target)
    with pytest.raises(InvalidInputError, match="cap of a is 500, but it owns 240 rows"):
        plan_consortium(points, caps={"a": 500})
    with pytest.raises(InvalidInputError, match="cost of a must be positive"):
        plan_consortium(points, costs={"a": 0})
    with pytest.raises(InvalidInputError, match="points are measured already"):
        plan_consortium(points, budget=80)
    with pytest.raises(InvalidInputError, match="there is no argument 'bugdet'"):
        plan_consortium(three_sites(), bugdet=80)


def test_flat_accuracy_is_reported() -> None:
    rng = np.random.default_rng(0)
    sites = {}
    for name in "ab":
        X = rng.normal(size=(200, 2))
        sites[name] = (X, (rng.random(200) < 0.05).astype(int))
    plan = plan_consortium(sites, plans="share", budget=48, progress=False)
    assert "accuracy cannot tell plans apart at a" in plan.summary()
    assert "who would hold back was not measured" in plan.summary()
    assert plan.stable is None
    assert "plans='all'" in plan.why_not["stable"]


def test_redraws_that_no_number_of_rows_can_serve_are_left_to_the_others() -> None:
    """A quantile lies between two redraws: one more than may fail can be out of reach."""
    promises = plan_consortium(measured(), "within=0.02").promises
    assert promises is not None
    bands = Bands.of(promises)
    need = bands.need.copy()
    need[0, : bands.spare + 1] = np.inf
    plan = replace(bands, need=need).cheapest([])
    assert promises.kept(plan)
    assert (plan <= promises.cap).all()
