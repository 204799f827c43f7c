"""One common share of what everybody owns: one number to estimate, no winner's curse.

Along the ray ``n = t cap`` every site has a curve in the total of rows. Draws resample the site's
own held-out rows, the same rows at all levels, so that the few people behind a small site's scores
show in its band.
Source: "One common share", see docs/theory/23-consortium.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplay.contribution.sites import fitting
from counterplay.contribution.sites.curves import (
    FLOOR_BELOW,
    PRIOR_SD,
    Errors,
    SiteCurves,
    problem_of,
    redraws,
    site_errors,
    with_reference,
)
from counterplay.contribution.sites.fitting import Problem
from counterplay.contribution.sites.points import RayRows, SitePoints
from counterplay.contribution.sites.scoring import spread, to_error
from counterplay.contribution.sites.targets import Targets
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import BoolArray, FloatArray

LEVEL_SD = 0.012
ROW_FLOOR_BELOW, ROW_FLOOR_SD = 0.05, 0.12
VERIFIED = 1.3
"""A promise g is checked by a site's own rows if their noise is at most g / 1.3."""
GRID = np.linspace(0.001, 1.0, 1000)


@dataclass(frozen=True)
class Share:
    """The smallest common share that keeps every promise, and what it rests on.

    ``losses`` is (curves, draws, shares): error at a share minus error of everything; ``noise`` is
    the standard error of the rows' own differences (NaN without rows); ``source`` says where the
    curves come from.
    """

    share: float
    per_site: FloatArray
    losses: FloatArray
    errors: FloatArray
    expected: FloatArray
    shift: FloatArray
    noise: FloatArray
    verified: BoolArray
    source: str

    def at(self, t: float) -> int:
        """Place of a share on the grid."""
        return int(np.argmin(abs(GRID - t)))


def common_share(
    points: SitePoints,
    targets: Targets,
    alpha: float,
    *,
    draws: int,
    promised: BoolArray | None = None,
    random_state: RandomState = 0,
) -> Share:
    """Choose the share from the fits on the ray, with the rows themselves where they are there."""
    scored = list(points.scored)
    seed = int(generator(random_state).integers(2**62))
    rngs = [np.random.default_rng([seed, 6, i]) for i in scored]
    rows = points.held_out
    if rows is not None and all(rows.errors[i].shape[1] > 1 for i in scored):
        curves, estimate, scale = _from_rows(points, rows, scored, draws, rngs)
        source = "rows"
    else:
        curves, estimate, scale = _from_points(points, scored, draws, rngs)
        source = "points"
    total = GRID * float(points.owned.sum())
    errors = np.stack([fitting.curve(c, np.broadcast_to(total, (draws, total.size)))
                       for c in curves])  # fmt: skip
    expected = np.stack([fitting.curve(theta, total) for theta in estimate])
    shift = np.stack([_shift(points, i, e[:, -1], s, rng)
                      for i, e, s, rng in zip(scored, errors, scale, rngs)])  # fmt: skip
    return chosen(points, targets, alpha, (errors, expected, shift, scale), source, promised)


def share_from_curves(
    curves: SiteCurves, targets: Targets, cap: FloatArray, alpha: float, promised: BoolArray
) -> Share:
    """Read the share from the curves of mixtures along ``t cap``: where no ray was measured."""
    errors = np.stack([curves.sampled_errors(t * cap) for t in GRID], axis=2)
    expected = np.stack([curves.errors(t * cap) for t in GRID], axis=1)
    made = (errors, expected, curves.shift, curves.scale)
    return chosen(curves.points, targets, alpha, made, "curves", promised)


def chosen(
    points: SitePoints,
    targets: Targets,
    alpha: float,
    made: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    source: str,
    promised: BoolArray | None,
) -> Share:
    """The smallest share at which the (1 - alpha)-quantile of every loss is within its promise."""
    errors, expected, shift, scale = made
    scored = list(points.scored)
    relative = targets.relative[scored]
    if promised is not None:  # absolute promises that are not given are planned as relative ones
        relative = relative | ~promised
    within = np.where(targets.relative[scored], targets.within[scored], 0.01) * scale
    goal = to_error(targets.least[scored], points.metric) * scale
    losses = errors - errors[..., -1:]
    worst = np.quantile(losses, 1.0 - alpha, axis=1)
    level = np.quantile(errors + shift[..., None], 1.0 - alpha, axis=1)
    kept = np.where(relative[:, None], worst <= within[:, None] + 1e-12, level <= goal[:, None])
    # the first share from which the promise is kept at every larger one
    tail = np.logical_and.accumulate(kept[:, ::-1], axis=1)[:, ::-1]
    per_site = np.where(tail.any(axis=1), GRID[np.argmax(tail, axis=1)], 1.0)
    share = float(per_site.max())
    noise = _noise(points, scored, share) if source == "rows" else np.full(len(scored), np.nan)
    verified = relative & (noise * scale <= within / VERIFIED)
    return Share(share, per_site, losses, errors, expected, shift, noise, verified, source)


def _from_rows(
    points: SitePoints,
    rows: RayRows,
    scored: list[int],
    draws: int,
    rngs: list[np.random.Generator],
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Refit to errors whose rows were drawn again, the same rows at all levels."""
    sites, redrawn = [], []
    for i, rng in zip(scored, rngs):
        error = level_errors(rows, i, None)
        scale = site_errors(points, i, points.ray).scale
        sites.append(Errors(rows.sizes[:, None], error * scale, np.full(len(error), 0.0), scale))
        redrawn.append(np.stack([level_errors(rows, i, rng) for _ in range(draws)]) * scale)
    base = problem_of(sites, ROW_FLOOR_BELOW, ROW_FLOOR_SD)
    problem = Problem(base.rows, base.errors, np.full(base.sd.shape, LEVEL_SD), base.centre,
                      base.prior_sd, base.low, base.high)  # fmt: skip
    problem = with_reference(problem, [0] * len(sites))
    theta = fitting.fit(problem, problem.centre[:, None])
    centre = np.stack([
        c + rng.standard_normal((draws, len(c))) * sd
        for c, sd, rng in zip(problem.centre, problem.prior_sd, rngs)
    ])  # fmt: skip
    samples = fitting.fit(problem.draws(np.stack(redrawn), centre), np.repeat(theta, draws, axis=1))
    return samples, theta[:, 0], np.array([site.scale for site in sites])


def level_errors(rows: RayRows, i: int, rng: np.random.Generator | None) -> FloatArray:
    """Error of site ``i`` at every level; with a generator the rows are drawn again."""
    errors, group, weight = rows.errors[i], rows.group[i], rows.weight[i]
    total = np.zeros(len(errors))
    for g, share in enumerate(weight):
        own = np.flatnonzero(group == g)
        taken = own if rng is None else own[rng.integers(0, len(own), len(own))]
        total += share * errors[:, taken].mean(axis=1)
    return total


def _from_points(
    points: SitePoints, scored: list[int], draws: int, rngs: list[np.random.Generator]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Refit to the scores on the ray as if they were independent: all that points can say."""
    sites = []
    for i in scored:
        own = site_errors(points, i, points.ray)
        sites.append(Errors(own.rows.sum(axis=1, keepdims=True), own.error, own.variance,
                            own.scale))  # fmt: skip
    problem = problem_of(sites, FLOOR_BELOW, float(PRIOR_SD[0]))
    problem = with_reference(problem, [0] * len(sites))
    theta = fitting.fit(problem, problem.centre[:, None])
    scale = np.array([site.scale for site in sites])
    return redraws(problem, theta, draws, rngs), theta[:, 0], scale


def _noise(points: SitePoints, scored: list[int], share: float) -> FloatArray:
    """Standard error of the paired differences between the share's level and the top level."""
    rows = points.held_out
    assert rows is not None  # asked for with rows only
    # the level that is to the top level as the share is to everything; never the top level itself
    lower = rows.sizes[:-1] <= share * rows.sizes[-1] * (1.0 + 1e-9)
    level = int(np.flatnonzero(lower)[-1]) if lower.any() else 0
    noise = []
    for i in scored:
        difference = rows.errors[i][level] - rows.errors[i][-1]
        variance = 0.0
        for g, weight in enumerate(rows.weight[i]):
            own = difference[rows.group[i] == g]
            variance += weight**2 * (own.var(ddof=1) / len(own) if len(own) > 1 else 0.25)
        noise.append(np.sqrt(variance))
    return np.array(noise)


def _shift(
    points: SitePoints, i: int, error: FloatArray, scale: float, rng: np.random.Generator
) -> FloatArray:
    rows = float(points.owned[i])
    if points.metric != "accuracy":
        rows = 4.0 * float(np.median(points.test_rows[points.site == i]))
    e = np.array(float(np.median(error)) / scale)
    sd = np.sqrt(float(spread(e, points.metric)) / rows) * scale
    return np.asarray(sd * rng.standard_normal(len(error)))
