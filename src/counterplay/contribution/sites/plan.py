"""One call from sites or points to plans: who brings how many rows, with which confidence.

The default is the plainest plan, one common share of what everybody owns. The other plans say what
the cheapest mixture would be, what is stable, what is fair, and what happens if nobody plans.
Source: docs/theory/23-consortium.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.contribution.sites.curves import SiteCurves
from counterplay.contribution.sites.learners import Learner
from counterplay.contribution.sites.measuring import Measurement, measure_sites
from counterplay.contribution.sites.points import SitePoints
from counterplay.contribution.sites.ray import Share, common_share, share_from_curves
from counterplay.contribution.sites.reading import Sites, read_sites
from counterplay.contribution.sites.result import ConsortiumPlan, SitePlan
from counterplay.contribution.sites.robust import Promises, robust_cheapest, solve_all, whole_rows
from counterplay.contribution.sites.scoring import METRICS, to_score
from counterplay.contribution.sites.targets import Targets, read_targets
from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    check_int,
    check_open_fraction,
)
from counterplay.errors import InvalidInputError, UnknownNameError
from counterplay.tables.cells import shown

if TYPE_CHECKING:
    from counterplay.contribution.sites.robust import Solved

VERIFYING_FITS = 8
FIRST_VERIFYING_SPLIT = 1_000_000
"""Splits of verifying fits: new ones, whatever the budget was."""


@checked
def plan_consortium(
    sites_or_points: Any,
    target: Any = "within=0.01",
    *,
    confidence: float = 0.9,
    joint: bool = False,
    costs: Mapping[str, float] | None = None,
    caps: Mapping[str, float] | None = None,
    verify: int = 2,
    random_state: RandomState = 0,
    **measure: Any,
) -> ConsortiumPlan:
    """Plan how many rows each site brings so that everybody is served, with confidence.

    Parameters
    ----------
    sites_or_points
        Sites as in :func:`measure_sites` (they are measured first), or measured points.
    target
        ``"within=0.01"``: at most one point below what pooling everything gives the site;
        ``"accuracy=0.85"`` (the name of the metric): a score of its own; or a dictionary.
    confidence
        Probability with which each promise is to hold.
    joint
        Whether all promises are to hold together: then each gets ``1 - (1 - confidence)/k``.
    costs
        Price of a row by site, 1 where not named.
    caps
        Most rows by site, if less than it owns.
    verify
        How often the plan itself is tried with 8 fits and improved; 0 for points.
    random_state
        Seed of measuring and of the redraws.
    **measure
        Arguments of :func:`measure_sites`: ``label``, ``model``, ``metric``, ``budget``, ...

    Returns
    -------
    ConsortiumPlan
        ``summary()``, ``to_frame()``, ``plot()``; plans ``share``, ``cheapest``, ``stable``,
        ``compensated``, ``contract``, ``envy_free``, ``left_alone``; ``recommended``.

    Notes
    -----
    The recommended plan is one common share unless a stable plan costs at most 1.1 times as much,
    or the cheapest mixture less than 0.8 times. A promise that a site's own rows cannot check is
    called "modelled".

    References
    ----------
    docs/theory/23-consortium.md; Blum, Haghtalab, Phillips, Shao (2021), *One for One, or All for
    All*, ICML.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> sites = {"city": (X[:300], y[:300]), "coast": (X[300:450], y[300:450]),
    ...          "island": (X[450:], y[450:])}
    >>> plan = plan_consortium(sites, "within=0.02", verify=0, budget=80, progress=False)
    >>> bool((plan.share.rows <= plan.owned).all()), plan.recommended in plan.plans
    (True, True)
    """
    alpha = 1.0 - check_open_fraction(confidence, "confidence")
    check_int(verify, "verify", low=0, high=20)
    seed = int(generator(random_state).integers(2**62))
    if isinstance(sites_or_points, SitePoints):
        if measure:
            raise InvalidInputError(
                f"points are measured already: {shown(next(iter(measure)), 60)} has no use"
            )
        points, run = sites_or_points, None
    else:
        given = _given_sites(sites_or_points, measure)
        metric = measure.get("metric", "accuracy")
        if metric in METRICS:  # a mistake is told before the long computation
            _asked(target, caps, costs, given.names, given.sizes, metric)
        points, run = _measured(given, random_state, measure)
    goals, cap, cost = _asked(target, caps, costs, points.names, points.owned, points.metric)
    level = alpha / max(len(points.scored), 1) if joint else alpha
    request = Request(goals, level, alpha, cap, cost, seed, joint)
    if run is not None and verify and not points.ray.all():
        points = _verified(points, run, request, verify)
    plan = planned(points, request)
    return plan if run is None else replace(plan, learner=run.learner)


@dataclass(frozen=True)
class Request:
    """What was asked for: targets, level per site, caps, prices, seed."""

    targets: Targets
    alpha: float
    asked: float
    cap: FloatArray
    cost: FloatArray
    seed: int
    joint: bool = False

    @property
    def draws(self) -> int:
        """Redraws that quantiles at this level need."""
        return int(min(max(40, np.ceil(4.0 / self.alpha)), 2000))


def planned(points: SitePoints, request: Request) -> ConsortiumPlan:
    """Plan from points: curves, share, all plans at common margins."""
    curves = promises = solved = None
    if not points.ray.all():
        curves = points.curves(draws=request.draws, random_state=request.seed)
        promises = Promises(curves, request.targets, request.cap, request.cost, request.alpha)
        solved = solve_all(promises)
    share = _share(points, curves, promises, request)
    plans = {"share": _share_plan(points, share, promises, solved, request)}
    if promises is not None and solved is not None:
        plans |= _mixed_plans(points, promises, solved, request)
    return ConsortiumPlan(
        points=points,
        request=request,
        curves=curves,
        promises=promises,
        solved=solved,
        ray=share,
        plans=plans,
    )


def _given_sites(sites: Any, settings: dict[str, Any]) -> Sites:
    unknown = set(settings) - set(inspect.signature(measure_sites).parameters) | (
        set(settings) & {"sites", "random_state"}
    )
    if unknown:
        raise InvalidInputError(f"there is no argument {shown(sorted(unknown)[0], 60)}")
    return sites if isinstance(sites, Sites) else read_sites(
        sites, settings.get("label"), contribute_only=settings.get("contribute_only", ())
    )  # fmt: skip


def _asked(
    target: Any,
    caps: Mapping[str, float] | None,
    costs: Mapping[str, float] | None,
    names: Sequence[str],
    owned: IntArray,
    metric: str,
) -> tuple[Targets, FloatArray, FloatArray]:
    """The targets, caps and costs that are asked for, read and checked."""
    return read_targets(target, names, metric), _caps(caps, names, owned), _costs(costs, names)


def _measured(
    given: Sites, random_state: RandomState, settings: dict[str, Any]
) -> tuple[SitePoints, Measurement]:
    seed = int(generator(random_state).integers(2**62)) if not isinstance(
        random_state, int) else random_state  # fmt: skip
    points = measure_sites(given, random_state=seed, **settings)
    metric = settings.get("metric", "accuracy")
    learner = Learner(
        given, settings.get("model", "logistic"), chances=metric in ("neg_log_loss", "roc_auc")
    )
    key = int(generator(seed).integers(2**62))
    return points, Measurement(learner, metric, settings.get("folds", 4), key, 1)


def _verified(points: SitePoints, run: Measurement, request: Request, rounds: int) -> SitePoints:
    """Fit at the cheapest plan itself, on new splits, and plan again: the curve is needed there."""
    for r in range(rounds):
        curves = points.curves(draws=request.draws, random_state=request.seed)
        promises = Promises(curves, request.targets, request.cap, request.cost, request.alpha)
        n = robust_cheapest(promises)
        if not (n >= 1.0).any():  # nothing is asked for: there is nothing to fit
            break
        first = FIRST_VERIFYING_SPLIT + r * VERIFYING_FITS
        points = points.joined(run.at(n, VERIFYING_FITS, first))
    return points


def _share(
    points: SitePoints, curves: SiteCurves | None, promises: Promises | None, request: Request
) -> Share:
    whole = bool((request.cap == points.owned).all())
    on_ray = all((points.ray & (points.site == i)).sum() >= 3 for i in points.scored)
    if whole and on_ray:
        given = None if promises is None else promises.promised
        return common_share(
            points, request.targets, request.alpha, draws=request.draws, promised=given,
            random_state=request.seed,
        )  # fmt: skip
    if curves is None or promises is None:
        raise InvalidInputError(
            "only common shares of all rows were measured; caps, a site that leaves, or so few "
            "points need mixtures: measure with plans='all'"
        )
    return share_from_curves(curves, request.targets, request.cap, request.alpha, promises.promised)


def _share_plan(
    points: SitePoints,
    share: Share,
    promises: Promises | None,
    solved: Solved | None,
    request: Request,
) -> SitePlan:
    n = share.share * request.cap
    rows = np.minimum(np.ceil(n - 1e-6), np.floor(request.cap))
    at = share.at(share.share)
    scored = list(points.scored)
    within = request.targets.within[scored]
    relative = request.targets.relative[scored] | ~_given(promises, len(scored))
    scale = _scale(points, promises)
    goal = np.where(np.isfinite(within), within, 0.01) * scale
    from counterplay.contribution.sites.scoring import to_error

    least = to_error(request.targets.least[scored], points.metric) * scale
    kept = np.where(
        relative[:, None],
        share.losses[:, :, at] <= goal[:, None] + 1e-9,
        share.errors[:, :, at] + share.shift <= np.nan_to_num(least, nan=9e9)[:, None] + 1e-9,
    )
    ends = np.quantile(
        share.errors[:, :, at] + share.shift, [1.0 - request.alpha, request.alpha], axis=1
    )
    scores = [share.expected[:, at], *ends]
    return SitePlan.of(
        points,
        "share",
        rows=rows,
        cost=float(request.cost @ rows),
        probability=kept.mean(axis=1),
        verified=share.verified,
        scores=[to_score(e / scale, points.metric) for e in scores],
        interest=None if solved is None else solved.against_interest(n),
        envies=None if solved is None else solved.game.envies(rows),
        withdraw=None if promises is None else _withdraw(promises, rows, request.alpha),
        short=np.maximum(np.quantile(share.losses[:, :, at], 1 - request.alpha, axis=1) - goal, 0)
        / scale,
    )


def _mixed_plans(
    points: SitePoints, promises: Promises, solved: Solved, request: Request
) -> dict[str, SitePlan]:
    fair = solved.envy_free
    found: dict[str, FloatArray | None] = {
        "cheapest": solved.cheapest,
        "stable": solved.stable,
        "compensated": solved.compensated,
        "contract": solved.contract,
        "envy_free": None if fair is None else fair.n,
        "left_alone": solved.left_alone,
    }
    return {
        name: _mixed_plan(points, name, n, promises, solved, request)
        for name, n in found.items()
        if n is not None
    }


def _mixed_plan(
    points: SitePoints,
    name: str,
    n: FloatArray,
    promises: Promises,
    solved: Solved,
    request: Request,
) -> SitePlan:
    rows = whole_rows(promises, n)
    slack = promises.slack(rows)
    curves = promises.curves
    sampled = curves.sampled_errors(rows) + curves.shift
    ends = np.quantile(sampled, [1.0 - request.alpha, request.alpha], axis=1)
    return SitePlan.of(
        points,
        name,
        rows=rows,
        cost=float(request.cost @ n),
        probability=(slack >= -2e-6).mean(axis=1),
        verified=np.zeros(len(curves.scored), dtype=bool),
        scores=[to_score(e / curves.scale, points.metric) for e in (curves.errors(rows), *ends)],
        interest=solved.against_interest(n),
        envies=solved.game.envies(rows),
        withdraw=_withdraw(promises, rows, request.alpha),
        short=np.maximum(promises.short(rows), 0.0) / curves.scale,
    )


def _withdraw(promises: Promises, rows: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Rows that a site would surely, and perhaps, keep back."""
    spare = promises.withdrawable(rows)
    sure = np.quantile(spare, alpha, axis=1, method="lower")  # in all redraws but a share alpha
    return sure, np.quantile(spare, 1.0 - alpha, axis=1, method="higher")


def _given(promises: Promises | None, count: int) -> BoolArray:
    return np.ones(count, dtype=bool) if promises is None else promises.promised


def _scale(points: SitePoints, promises: Promises | None) -> FloatArray:
    if promises is not None:
        return promises.curves.scale
    from counterplay.contribution.sites.curves import site_errors

    return np.array([site_errors(points, i, points.ray).scale for i in points.scored])


def _caps(caps: Mapping[str, float] | None, names: Sequence[str], owned: IntArray) -> FloatArray:
    cap = owned.astype(np.float64)
    for name, value in _by_site(caps, names, "caps"):
        i = names.index(name)
        if value > owned[i]:
            raise InvalidInputError(f"cap of {name[:60]} is {value:g}, but it owns {owned[i]} rows")
        cap[i] = np.floor(value)
    return cap


def _costs(costs: Mapping[str, float] | None, names: Sequence[str]) -> FloatArray:
    cost = np.ones(len(names))
    for name, value in _by_site(costs, names, "costs"):
        if value <= 0:
            raise InvalidInputError(f"the cost of {name[:60]} must be positive, got {value:g}")
        cost[names.index(name)] = value
    return cost


def _by_site(
    values: Mapping[str, float] | None, names: Sequence[str], what: str
) -> Sequence[tuple[str, float]]:
    pairs = []
    for name, value in (values or {}).items():
        if name not in names:
            raise UnknownNameError.among("site", str(name), names)
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = np.nan
        if not np.isfinite(number) or number < 0:
            raise InvalidInputError(
                f"{what} of {name[:60]} must be a number, not negative, got {shown(value, 60)}"
            )
        pairs.append((name, number))
    return pairs
