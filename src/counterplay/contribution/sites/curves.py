"""Learning curves in effective rows, with bands that know how few rows are behind them.

``e_i(n) = c + d (1 + s/tau)^(-p)`` with ``s = max(0, sum_j w_ij n_j)``: one row of j is worth
``w_ij`` own rows to i. Uncertainty comes from randomised refits, each with one shared shift of the
whole curve, because all scores of a site come from the same few people.
Source: "Curves in effective rows", see docs/theory/23-consortium.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.contribution.linear import LinearGame
from counterplay.contribution.sites import fitting
from counterplay.contribution.sites.fitting import SHAPE, Problem
from counterplay.contribution.sites.points import SitePoints
from counterplay.contribution.sites.scoring import spread, to_error, to_score
from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    BoolArray,
    FloatArray,
    check_float_array,
    check_int,
    check_open_fraction,
)
from counterplay.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# bounds and priors of c, d, log tau, p, and of an exchange rate
LOW = np.array([0.0, 0.0, np.log(3.0), 0.15])
HIGH = np.array([0.9, 0.9, np.log(3e4), 2.0])
PRIOR = np.array([np.nan, 0.15, np.log(60.0), 0.6])
PRIOR_SD = np.array([0.05, 0.2, 1.5, 0.25])
RATE, RATE_SD, RATE_LOW, RATE_HIGH = 0.6, 0.5, -0.3, 3.0
HURTS = -2.0
FLOOR_BELOW = 0.02
EXTRA = 1e-4
"""Variance of a score beyond its test rows: which rows were drawn for training."""
TYPICAL = 0.15
"""Errors of the log loss are scaled so that their spread is that of a typical accuracy."""
MOST_DRAWS = 2000
STARTS = tuple(
    (drop, log_tau, rate)
    for drop in (0.15, 0.4)
    for log_tau, rate in ((np.log(60.0), RATE), (np.log(60.0), 0.0), (np.log(20.0), -0.5))
)


@dataclass(frozen=True)
class Errors:
    """Points of one site in its own units: rows, errors and their variances."""

    rows: FloatArray
    error: FloatArray
    variance: FloatArray
    scale: float


def site_errors(points: SitePoints, i: int, which: BoolArray | None = None) -> Errors:
    """The points of site ``i`` as errors; the log loss is scaled by its own spread."""
    own = points.site == i if which is None else (points.site == i) & which
    error = to_error(points.score[own], points.metric)
    rows = points.test_rows[own]
    # an error of 0 on few rows is not certain: one more wrong and one more right row
    variance = spread((error * rows + 1.0) / (rows + 2.0), points.metric) / rows
    if points.metric == "neg_log_loss":
        variance = spread(error, points.metric) / rows
    scale = 1.0
    if points.metric == "neg_log_loss":
        width = np.subtract(*np.quantile(error, [0.9, 0.1]))
        scale = TYPICAL / max(float(width), 1e-3)
    return Errors(points.rows[own].astype(np.float64), error * scale, variance * scale**2, scale)


def problem_of(
    sites: list[Errors], floor_below: float, floor_sd: float, *, widen: float = 1.0
) -> Problem:
    """Stack the sites into one problem; unused points get an infinite standard deviation."""
    k = sites[0].rows.shape[1]
    most = max(len(site.error) for site in sites)
    shape = (len(sites), most)
    rows, errors, sd = np.zeros((*shape, k)), np.zeros(shape), np.full(shape, np.inf)
    q = SHAPE + k
    centre, prior_sd = np.full((len(sites), q), RATE), np.full((len(sites), q), RATE_SD)
    low, high = np.full((len(sites), q), RATE_LOW), np.full((len(sites), q), RATE_HIGH)
    for g, site in enumerate(sites):
        m = len(site.error)
        rows[g, :m], errors[g, :m] = site.rows, site.error
        sd[g, :m] = widen * np.sqrt(site.variance + EXTRA)
        centre[g, :SHAPE], prior_sd[g, :SHAPE] = PRIOR, PRIOR_SD
        low[g, :SHAPE], high[g, :SHAPE] = LOW, HIGH
        centre[g, 0] = max(0.0, float(np.quantile(site.error, 0.1)) - floor_below)
        prior_sd[g, 0] = floor_sd
        if site.scale != 1.0:  # a loss has no natural upper end
            high[g, 0] = high[g, 1] = 1e3
    return Problem(rows, errors, sd, centre, prior_sd, low, high)


def with_reference(problem: Problem, reference: list[int]) -> Problem:
    """Fix the exchange rate of one site per curve at 1: effective rows are counted in its rows."""
    centre, low, high = problem.centre.copy(), problem.low.copy(), problem.high.copy()
    for g, j in enumerate(reference):
        centre[g, SHAPE + j] = low[g, SHAPE + j] = high[g, SHAPE + j] = 1.0
    return replace(problem, centre=centre, low=low, high=high)


def best_fit(problem: Problem) -> FloatArray:
    """The best of several starts: a flat curve and useless rows are local minima."""
    starts = np.repeat(problem.centre[:, None], len(STARTS), axis=1)
    for i, (drop, log_tau, rate) in enumerate(STARTS):
        starts[:, i, 1], starts[:, i, 2], starts[:, i, SHAPE:] = drop, log_tau, rate
    theta = fitting.fit(problem, starts)
    best = np.argmin(fitting.losses(problem, theta), axis=1)
    return np.asarray(theta[np.arange(len(theta)), best][:, None])


def redraws(
    problem: Problem, theta: FloatArray, draws: int, rngs: list[np.random.Generator]
) -> FloatArray:
    """Refit with data and prior centres perturbed by their standard deviations."""
    G, P = problem.sd.shape
    q = theta.shape[-1]
    errors, centre = np.empty((G, draws, P)), np.empty((G, draws, q))
    for g, rng in enumerate(rngs):
        there = np.isfinite(problem.sd[g])
        noise = rng.standard_normal((draws, int(there.sum())))
        errors[g] = problem.errors[g]
        errors[g][:, there] += noise * problem.sd[g][there]
        centre[g] = problem.centre[g] + rng.standard_normal((draws, q)) * problem.prior_sd[g]
    start = np.repeat(theta, draws, axis=1)
    return fitting.fit(problem.draws(errors, centre), start)


def fit_curves(
    points: SitePoints, *, draws: int = 40, widen: float = 1.0, random_state: RandomState = 0
) -> SiteCurves:
    """Fit one curve per scored site and redraw it ``draws`` times; ``widen`` scales the noise."""
    check_int(draws, "draws", low=2, high=MOST_DRAWS)
    scored = list(points.scored)
    sites = [site_errors(points, i) for i in scored]
    base = problem_of(sites, FLOOR_BELOW, float(PRIOR_SD[0]), widen=widen)
    reference = list(scored)
    problem = with_reference(base, reference)
    theta = best_fit(problem)
    problem, reference = _released(base, problem, theta, scored, reference)
    theta = best_fit(problem)
    misfit = _misfit(problem, theta)
    problem = replace(problem, sd=problem.sd * misfit[:, None])
    seed = int(generator(random_state).integers(2**62))
    rngs = [np.random.default_rng([seed, 5, i]) for i in scored]
    samples = redraws(problem, theta, draws, rngs)
    shift = np.stack(
        [_shift(points, i, site, draws, rng) for i, site, rng in zip(scored, sites, rngs)]
    )
    return SiteCurves(
        points=points,
        scored=tuple(scored),
        theta=theta[:, 0],
        samples=samples,
        shift=shift,
        scale=np.array([site.scale for site in sites]),
        misfit=misfit,
        reference=tuple(reference),
    )


def _released(
    base: Problem, problem: Problem, theta: FloatArray, scored: list[int], reference: list[int]
) -> tuple[Problem, list[int]]:
    """Lower the bound of rates that ended at it; count in other rows if own ones are useless."""
    rates = theta[:, 0, SHAPE:]
    low, high = base.low.copy(), base.high.copy()
    changed = list(reference)
    for g, i in enumerate(scored):
        hurting = rates[g] <= RATE_LOW + 1e-9
        low[g, SHAPE:][hurting] = HURTS
        others = np.delete(rates[g], i)
        if others.size and others.max() >= RATE_HIGH - 1e-6:
            changed[g] = int(np.argmax(np.where(np.arange(len(rates[g])) == i, -9.0, rates[g])))
            low[g, SHAPE + i] = 1e-3  # the programs need a positive own effect
    return with_reference(replace(base, low=low, high=high), changed), changed


def _misfit(problem: Problem, theta: FloatArray) -> FloatArray:
    """``max(1, chi / sqrt(dof))`` per site: what the curve cannot explain widens the band."""
    fitted = fitting.curve(theta, theta[..., SHAPE:] @ problem.rows.transpose(0, 2, 1))[:, 0]
    chi2 = (((problem.errors - fitted) / problem.sd) ** 2).sum(axis=1)
    count = np.isfinite(problem.sd).sum(axis=1)
    dof = np.maximum(count - theta.shape[-1] + 1, 1)
    return np.asarray(np.maximum(1.0, np.sqrt(chi2 / dof)))


def _shift(
    points: SitePoints, i: int, site: Errors, draws: int, rng: np.random.Generator
) -> FloatArray:
    """One error of the whole curve per draw: the site's scores come from the same few rows."""
    if points.metric == "accuracy":
        rows = float(points.owned[i])
    else:  # effective rows of one held-out part, of which a site has about four
        rows = 4.0 * float(np.median(points.test_rows[points.site == i]))
    best = float(np.quantile(site.error, 0.1)) / site.scale
    sd = np.sqrt(float(spread(np.array(best), points.metric)) / rows) * site.scale
    return np.asarray(sd * rng.standard_normal(draws))


@checked(arrays=True)
@dataclass(frozen=True)
class SiteCurves(Report):
    """Fitted curves of the sites with their redraws; made by ``SitePoints.curves``.

    Parameters
    ----------
    points
        What they were fitted to.
    scored
        Sites that have a curve.
    theta
        Estimates ``(c, d, log tau, p, w_1..w_k)`` per curve.
    samples
        The same per redraw.
    shift
        Shared error of the whole curve per redraw.
    scale
        Units: errors of the log loss are multiplied by it.
    misfit
        By how much the bands were widened because the curve does not fit.
    reference
        Whose rows effective rows are counted in; usually the site's own.
    """

    points: SitePoints
    scored: tuple[int, ...]
    theta: FloatArray
    samples: FloatArray
    shift: FloatArray
    scale: FloatArray
    misfit: FloatArray
    reference: tuple[int, ...]

    def __repr__(self) -> str:
        return f"SiteCurves({len(self.scored)} curves, {self.draws} redraws)"

    @property
    def draws(self) -> int:
        """Number of redraws."""
        return int(self.samples.shape[1])

    @property
    def rates(self) -> FloatArray:
        """Estimated ``w_ij``, a row per curve."""
        return self.theta[:, SHAPE:]

    @property
    def exchange_rates(self) -> pd.DataFrame:
        """What one row of each site is worth to each site, in its own rows, with deviations.

        Columns: ``(site, "rate")`` and ``(site, "sd")``. A rate of which nothing was measured is
        NaN. Below zero: that site's rows hurt.
        """
        import pandas as pd

        names = self.points.names
        rate, sd = self.rates.copy(), self.samples[:, :, SHAPE:].std(axis=1)
        unknown = ~self.measured_pairs()
        rate[unknown], sd[unknown] = np.nan, np.nan
        columns = pd.MultiIndex.from_product([names, ["rate", "sd"]], names=["rows of", ""])
        table = np.stack([rate, sd], axis=2).reshape(len(self.scored), -1)
        index = pd.Index([names[i] for i in self.scored], name="worth to")
        return pd.DataFrame(table, index=index, columns=columns)

    def measured_pairs(self) -> BoolArray:
        """Whether rows of j were ever in a fit that was scored at i."""
        p = self.points
        pairs = [(p.rows[p.site == i] > 0).any(axis=0) for i in self.scored]
        return np.array(pairs)

    def errors(self, rows: FloatArray) -> FloatArray:
        """Estimated errors of the scored sites at one plan, in their own units."""
        s = self.rates @ rows
        return np.asarray(fitting.curve(self.theta, s[:, None])[:, 0])

    def sampled_errors(self, rows: FloatArray) -> FloatArray:
        """``(curves, draws)``: the same for every redraw, without the shared shift."""
        s = self.samples[..., SHAPE:] @ rows
        return np.asarray(fitting.curve(self.samples, s[..., None])[..., 0])

    def score(self, g: int, error: Any) -> Any:
        """Score of curve ``g`` for an error in its own units."""
        return to_score(np.asarray(error) / self.scale[g], self.points.metric)

    @checked
    def predict(self, rows: Any, level: float = 0.9) -> pd.DataFrame:
        """Expected score of every site at a plan, with the band of all redraws and shifts."""
        import pandas as pd

        check_open_fraction(level, "level")
        n = self._plan(rows)
        error, sampled = self.errors(n), self.sampled_errors(n) + self.shift
        ends = np.quantile(sampled, [0.5 + level / 2, 0.5 - level / 2], axis=1)
        table = {
            "score": [float(self.score(g, e)) for g, e in enumerate(error)],
            "low": [float(self.score(g, e)) for g, e in enumerate(ends[0])],
            "high": [float(self.score(g, e)) for g, e in enumerate(ends[1])],
        }
        return pd.DataFrame(table, index=[self.points.names[i] for i in self.scored])

    def game(self, target: Any = "within=0.01") -> LinearGame:
        """Return the capped linear game at the estimates, in effective rows."""
        from counterplay.contribution.sites.targets import read_targets

        goals = read_targets(target, self.points.names, self.points.metric)
        errors = goals.errors(self)
        need = self.needs(errors)
        if np.isinf(need).any():
            g = int(np.argmax(np.isinf(need)))
            name = self.points.names[self.scored[g]]
            raise InvalidInputError(f"{name[:60]} cannot reach its target at any size")
        W, N = self.full(self.rates, need)
        cap = self.points.owned.astype(np.float64)
        return LinearGame(W, N, upper=cap, check_scale=False).with_names(self.points.names)

    def needs(self, errors: FloatArray, samples: bool = False) -> FloatArray:
        """Effective rows for the errors; where nothing is needed the least value in the box."""
        theta = self.samples if samples else self.theta
        need = fitting.needed(theta, errors)
        least = np.minimum(theta[..., SHAPE:], 0.0) @ self.points.owned
        return np.where(np.isneginf(need), least, np.maximum(need, least))

    def full(self, rates: FloatArray, need: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A row for every site; sites without a curve want nothing and would bring nothing."""
        k = self.points.k
        W, N = np.eye(k), np.zeros(k)
        W[list(self.scored)] = rates
        N[list(self.scored)] = need
        return W, N

    def summary(self) -> str:
        """Return the curves in words: what rows are worth, and where the form does not fit."""
        names, lines = self.points.names, []
        for g, i in enumerate(self.scored):
            worth = ", ".join(
                f"{names[j]} {self.rates[g, j]:.2f}" for j in range(self.points.k) if j != i
            )
            lines.append(f"{names[i]}: one row of the others is worth {worth} own rows")
            if self.reference[g] != i:
                lines.append(f"{names[i]}'s own rows do not help {names[i]}")
            if self.misfit[g] > 1.5:
                lines.append(f"{names[i]}: the curve fits badly, bands are {self.misfit[g]:.1f} x")
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per curve: floor, drop, scale, exponent, misfit."""
        import pandas as pd

        table = {
            "floor": self.theta[:, 0] / self.scale,
            "drop": self.theta[:, 1] / self.scale,
            "scale_rows": np.exp(self.theta[:, 2]),
            "exponent": self.theta[:, 3],
            "misfit": self.misfit,
        }
        return pd.DataFrame(table, index=[self.points.names[i] for i in self.scored])

    def plot(
        self, ax: Axes | None = None, site: str | None = None, target: float | None = None
    ) -> Axes:
        """Draw one site: points against effective rows, the curve and its 90% band."""
        axes = axes_or_new(ax)
        i = self.scored[0] if site is None else self.points.index(site)
        if i not in self.scored:
            raise InvalidInputError(f"{self.points.names[i]} has no curve: it is not scored")
        g = self.scored.index(i)
        own = self.points.site == i
        s = np.maximum(self.points.rows[own] @ self.rates[g], 0.0)
        grid = np.geomspace(max(1.0, s[s > 0].min(initial=1e9)), s.max() * 1.35 + 1, 200)
        fitted = fitting.curve(self.theta[g], grid)
        bands = fitting.curve(self.samples[g], np.broadcast_to(grid, (self.draws, 200)))
        low, high = np.quantile(bands, [0.95, 0.05], axis=0)
        name = self.points.names[i]
        mixed = (self.points.rows[own] > 0).sum(axis=1) > 1
        for kind, marker, colour in ((mixed, ".", PALETTE[0]), (~mixed, "x", PALETTE[1])):
            label = "mixtures" if marker == "." else "one site only"
            axes.plot(s[kind], self.points.score[own][kind], marker, color=colour, alpha=0.6,
                      label=label)  # fmt: skip
        axes.plot(grid, self.score(g, fitted), color=PALETTE[2], label="curve")
        axes.fill_between(grid, self.score(g, low), self.score(g, high), color=PALETTE[2],
                          alpha=0.2, label="90% of redraws")  # fmt: skip
        if target is not None:
            axes.axhline(target, color="#444444", linestyle="--", label="target")
        axes.set(
            xscale="log", xlabel=f"effective rows (rows of {name})",
            ylabel=f"{self.points.metric.replace('_', ' ')} at {name}",
        )  # fmt: skip
        axes.legend()
        return axes

    def _plan(self, rows: ArrayLike | Any) -> FloatArray:
        if hasattr(rows, "reindex"):
            rows = rows.reindex(list(self.points.names)).to_numpy()
        elif isinstance(rows, dict):
            rows = [rows.get(name, 0) for name in self.points.names]
        array = check_float_array(rows, "rows", ndim=1)
        if array.shape != (self.points.k,) or (array < 0).any():
            raise InvalidInputError(f"rows must be {self.points.k} numbers, not negative")
        return array
