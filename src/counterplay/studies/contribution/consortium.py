"""Do promises hold on fresh rows? Consortia cut from credit and census tables.

Each site owns a few rows; all other rows of its kind are fresh. A promise is kept if the model of
the plan, averaged over redraws, is at most the promised margin below the model of all owned rows.
Quick: a table bundled with scikit-learn stands in.
Source: docs/theory/23-consortium.md, "Measured".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.contribution import capped, measure_sites, plan_contributions
from counterplay.contribution.coverage import CoverageGame
from counterplay.contribution.sites import plan as planning
from counterplay.contribution.sites.curves import fit_curves
from counterplay.contribution.sites.learners import Learner
from counterplay.contribution.sites.measuring import Job, Measurement
from counterplay.contribution.sites.points import SitePoints
from counterplay.contribution.sites.ray import GRID
from counterplay.contribution.sites.result import ConsortiumPlan
from counterplay.contribution.sites.robust import Promises, robust_cheapest, whole_rows
from counterplay.contribution.sites.targets import Targets
from counterplay.core.validation import FloatArray
from counterplay.errors import CounterplayError
from counterplay.studies.contribution.consortium_figures import promise_figure, share_figure
from counterplay.studies.contribution.consortium_prices import prices, prices_cell
from counterplay.studies.contribution.consortium_tables import REDRAWS, Consortium, consortium
from counterplay.studies.contribution.odd_site import odd_cell
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most

if TYPE_CHECKING:
    import pandas as pd

ALPHA = 0.1
CELLS = (400, 100)
COVERAGE = 0.85
"""What users give ``from_tables`` as if it were an accuracy."""
PLANS = ("share", "share plug-in", "cheapest", "plug-in", "absolute", "plug-in absolute",
         "cells 400", "cells 100", "proportional")  # fmt: skip


def grid(scale: Scale) -> Sequence[Params]:
    """Consortia of three tables, variants of measuring, one odd small site, and prices."""
    if scale == "quick":
        return [
            {"kind": "promise", "data": "cancer", "replicate": 0},
            {"kind": "odd", "data": "synthetic", "replicate": 0},
            {"kind": "prices", "data": "synthetic", "replicate": 0},
        ]
    cells: list[dict[str, Any]] = []
    for data, seeds in (("heloc", 12), ("adult", 12), ("taiwan", 5)):
        cells += [{"kind": "promise", "data": data, "replicate": r} for r in range(seeds)]
    cells += [{"kind": "odd", "data": "synthetic", "replicate": r} for r in range(24)]
    for data, seeds in (("heloc", 8), ("adult", 4)):
        cells += [{"kind": "variants", "data": data, "replicate": r} for r in range(seeds)]
    cells += [{"kind": "prices", "data": "synthetic", "replicate": r} for r in range(50)]
    return cells


def cell(params: Params, seed: int) -> Record:
    """Plans of one consortium, and how many sites each really serves."""
    replicate = int(str(params["replicate"]))
    if params["kind"] == "odd":
        return odd_cell(replicate)
    if params["kind"] == "prices":
        return prices_cell(replicate)
    world = consortium(str(params["data"]), replicate)
    if params["kind"] == "variants":
        return _variants(world, replicate)
    return _promises(world, replicate)


def _promises(world: Consortium, seed: int) -> Record:
    pooled = world.truth(world.sites.sizes.astype(float), 1, seed)
    full = world.sites.k > 4  # the stand-in of the quick scale has four sites
    points = measure_sites(world.sites, metric=world.metric, progress=False, random_state=seed,
                           budget=None if full else 80)  # fmt: skip
    run = _measurement(world, seed)
    asked = _request(world, world.within)
    first = planning.planned(points, asked)
    verified = planning._verified(points, run, asked, 2)
    plan = planning.planned(verified, asked)
    own = _request(world, world.within, least=pooled - world.within)
    absolute = planning.planned(planning._verified(points, run, own, 2), own)
    rows = {
        "share": plan.share.rows.to_numpy(dtype=float),
        "share plug-in": np.ceil(_plug_in_share(first, world) * world.sites.sizes),
        "cheapest": plan.plans["cheapest"].rows.to_numpy(dtype=float),
        "plug-in": _plug_in(plan),
        "absolute": absolute.plans["cheapest"].rows.to_numpy(dtype=float),
        "plug-in absolute": _plug_in(absolute),
        **{f"cells {n}": _by_cells(world, n if full else n // 10) for n in CELLS},
    }
    share = rows["cheapest"].sum() / world.sites.sizes.sum()
    rows["proportional"] = np.ceil(share * world.sites.sizes)
    record: dict[str, Any] = {"sites": world.sites.k, "owned": int(world.sites.sizes.sum())}
    for name, n in rows.items():
        kept = world.truth(n, REDRAWS, seed) >= pooled - world.within - 1e-12
        key = name.replace(" ", "_").replace("-", "_")
        record |= {f"{key}_at": int(kept.sum()), f"{key}_rows": int(n.sum())}
    again = world.truth(rows["plug-in"], REDRAWS, seed + 1000) >= pooled - world.within - 1e-12
    record["plug_in_again_at"] = int(again.sum())
    record["absolute_given"] = float(absolute.promised.mean())
    record["verified"] = int((plan.share.basis == "verified").sum())
    return {**record, **(_shapes(first) if full else {})}


def _shapes(plan: ConsortiumPlan) -> dict[str, Any]:
    """What the plans look like before verifying: existence, totals, interest, who is short."""
    record: dict[str, Any] = {"voluntary": _number(plan.best_voluntary_target())}
    assert plan.solved is not None
    base = plan.solved.optimum  # the cheapest mixture at the margins of all plans
    for name in ("cheapest", "stable", "contract", "compensated", "envy_free", "left_alone"):
        some = plan.plans.get(name)
        record[f"{name}_exists"] = some is not None
        record[f"{name}_ratio"] = None if some is None else some.cost / base
        record[f"{name}_against"] = None if some is None else float(some.against_interest.sum())
        record[f"{name}_late"] = None if some is None else int((some.short > 0.006).sum())
        record[f"{name}_short"] = None if some is None else float(some.short.max())
    assert plan.promises is not None
    free = plan.promises.game(np.zeros(len(plan.points.scored)))
    record["stable_at_estimates"] = capped.stable(free) is not None
    return record | prices(plan)


def _number(target: str | None) -> float | None:
    return None if target is None else float(target.split("=")[1])


def _variants(world: Consortium, seed: int) -> Record:
    """More fits, fewer demands, and points on the axes only: rows asked and promises kept."""
    pooled = world.truth(world.sites.sizes.astype(float), 1, seed)
    run = _measurement(world, seed)
    asked = _request(world, world.within)
    points = measure_sites(world.sites, metric=world.metric, progress=False, random_state=seed)
    mixed = replace(points, rows=points.rows[~points.ray], site=points.site[~points.ray],
                    score=points.score[~points.ray], test_rows=points.test_rows[~points.ray],
                    ray=points.ray[~points.ray], held_out=None)  # fmt: skip
    more = measure_sites(
        world.sites, metric=world.metric, budget=336, progress=False, random_state=seed
    )
    axes = _axes(run, world)
    found: dict[str, FloatArray] = {
        "no_verifying": _cheapest(mixed, asked),
        "more_fits": _cheapest(planning._verified(more, run, asked, 2), asked),
        "confidence_75": _cheapest(
            planning._verified(mixed, run, replace(asked, alpha=0.25, asked=0.25), 2),
            replace(asked, alpha=0.25, asked=0.25),
        ),
        "axes": _cheapest(axes, asked),
        "axes_wide": _cheapest(axes, asked, widen=1.5),
    }
    record: dict[str, Any] = {"sites": world.sites.k, "owned": int(world.sites.sizes.sum())}
    for name, n in found.items():
        kept = world.truth(n, REDRAWS, seed) >= pooled - world.within - 1e-12
        record |= {f"{name}_at": int(kept.sum()), f"{name}_rows": int(n.sum())}
    return record


def _cheapest(points: SitePoints, asked: planning.Request, widen: float = 1.0) -> FloatArray:
    curves = fit_curves(points, draws=asked.draws, widen=widen, random_state=asked.seed)
    promises = Promises(curves, asked.targets, asked.cap, asked.cost, asked.alpha)
    return whole_rows(promises, robust_cheapest(promises))


def _axes(run: Measurement, world: Consortium) -> SitePoints:
    """Models of one site's rows only, at four sizes, scored everywhere: what an exchange gives."""
    k = world.sites.k
    repeats = max(1, 80 // (4 * k))
    jobs = [
        Job(2_000_000 + r, tuple(share * (np.arange(k) == j)))
        for r in range(repeats)
        for j in range(k)
        for share in (1.0, 0.5, 0.25, 0.125)
    ]
    return run.points(jobs, time_limit=None, progress=False)


def _measurement(world: Consortium, seed: int) -> Measurement:
    from counterplay.core.seeds import generator

    learner = Learner(world.sites, "logistic", chances=False)
    return Measurement(learner, world.metric, 4, int(generator(seed).integers(2**62)), 1)


def _request(world: Consortium, within: float, least: FloatArray | None = None) -> planning.Request:
    k = world.sites.k
    none = np.full(k, np.nan)
    targets = (
        Targets(np.full(k, within), none, f"within={within:g}")
        if least is None
        else Targets(none, least, f"{world.metric}=...")
    )
    cap = world.sites.sizes.astype(float)
    return planning.Request(targets, ALPHA, ALPHA, cap, np.ones(k), 1)


def _plug_in(plan: ConsortiumPlan) -> FloatArray:
    """The cheapest plan of the estimates themselves, without margins."""
    assert plan.promises is not None
    game = plan.promises.game(np.zeros(len(plan.points.scored)))
    return np.minimum(np.ceil(capped.cheapest(game) - 1e-6), game.cap)


def _plug_in_share(plan: ConsortiumPlan, world: Consortium) -> float:
    loss = plan.ray.expected - plan.ray.expected[:, -1:]
    kept = (loss <= world.within).all(axis=0)
    return float(GRID[np.argmax(kept)])


def _by_cells(world: Consortium, cells: int) -> FloatArray:
    """The cheapest plan for covering cells, as users ask for it; at most what is owned."""
    pool = world.sites.pool
    frames = [pool.frame().iloc[world.sites.own(i)] for i in range(world.sites.k)]
    try:
        game = CoverageGame.from_tables(
            [f.fillna(0) for f in frames], COVERAGE, cells=cells, caps=None
        )
        theta = plan_contributions(game, time_limit=5.0).optimal.theta
    except CounterplayError:
        theta = np.zeros(world.sites.k)
    return np.minimum(np.ceil(theta), world.sites.sizes)


def verdicts(frame: pd.DataFrame) -> Sequence[Verdict]:
    """Kept promises and rows asked, per table; verified promises of the odd consortium."""
    found: list[Verdict] = []
    promise = frame[frame["kind"] == "promise"]
    least_rows = {"heloc": 0.8, "adult": 0.65, "taiwan": 0.8, "cancer": 1.0}
    for data, part in promise.groupby("data", sort=False):
        everybody = float((part["share_at"] == part["sites"]).mean())
        found.append(at_least("23.08", f"All sites keep their promise under one share ({data}).",
                              everybody, 11 / 12 if len(part) > 5 else 0.8,
                              what="share of consortia"))  # fmt: skip
        asked = float((part["share_rows"] / part["owned"]).mean())
        found.append(at_most("23.08", f"The share asks for less than everything ({data}).", asked,
                             least_rows[str(data)], what="share of the rows"))  # fmt: skip
        sites = float(part["cheapest_at"].sum() / part["sites"].sum())
        found.append(at_least("23.08", f"Sites served by the robust cheapest plan ({data}).",
                              sites, 0.9 if len(part) > 4 else 0.5))  # fmt: skip
    if "least_price" in frame:
        least = frame["least_price"].dropna()
        found.append(at_least("23.07", f"Prices in {len(least)} measured consortia.",
                              float(least.min()), 1.0, what="least price", slack=1e-9))  # fmt: skip
    odd = frame[frame["kind"] == "odd"]
    if len(odd):
        found.append(at_least("23.39", "A small odd site is called modelled.",
                              float((odd["odd_basis"] == "modelled").mean()), 1.0))  # fmt: skip
        given = float(odd["verified"].sum())
        kept = float(odd["verified_kept"].sum()) / given if given else 1.0
        found.append(at_least("23.39", "Promises called verified are kept.", kept, 0.9))
        if len(odd) > 5:
            found.append(at_least("23.39", "The odd site's own promise (nominal 0.9).",
                                  float(odd["odd_kept"].sum()), 11, what="of 24"))  # fmt: skip
    return found


STUDY = Study(
    name="consortium",
    title="From site tables to a plan that holds",
    question=(
        "Sites with 60 to 1,500 rows want a model within 1.5 points of pooling everything. How "
        "often does every site get it on fresh rows, with how many rows, under one common share, "
        "the robust and the plug-in cheapest plan, and plans from cell coverage?"
    ),
    claims=("23.07", "23.08", "23.39"),
    grid=grid,
    cell=cell,
    verdicts=verdicts,
    figures={"promises": promise_figure, "shares": share_figure},
    data=("heloc", "adult", "taiwan"),
    full_needs="the tables heloc, adult and taiwan",
)
