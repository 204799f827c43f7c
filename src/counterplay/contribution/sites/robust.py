"""Plans whose promises hold with confidence.

The cheapest plan of noisy curves is too optimistic (winner's curse). The cheapest plan that keeps
its promises in all but a share alpha of the redraws is searched in the redraws themselves; the
scores that the estimates give it are what all other plans are asked for, so that their prices can
be compared.
Source: "Robust plans", see docs/theory/23-consortium.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from counterplay.contribution import capped
from counterplay.contribution.capped import Capped, Fair
from counterplay.contribution.sites.bands import Bands
from counterplay.contribution.sites.curves import SiteCurves
from counterplay.contribution.sites.fitting import SHAPE
from counterplay.contribution.sites.targets import WITHIN, Targets
from counterplay.core.validation import BoolArray, FloatArray

ROUNDS = 8
CLOSE = 1e-6
TINY = 1e-8
"""Rates below this are no rates; HiGHS leaves out coefficients below 1e-9."""
ALONE = 0.9
"""Probability from which a site counts as better off alone."""


@dataclass(frozen=True)
class Promises:
    """Curves, targets and caps: what is promised to whom, and how far a plan is from keeping it.

    ``kept_relative`` are sites whose promise is planned relative to pooling; ``promised`` says to
    which sites the promise is really given. ``bound`` are the sites that a plan must serve: all but
    those that are better off alone.
    """

    curves: SiteCurves
    targets: Targets
    cap: FloatArray
    cost: FloatArray
    alpha: float
    alone: BoolArray = field(init=False)
    kept_relative: BoolArray = field(init=False)
    promised: BoolArray = field(init=False)
    bound: BoolArray = field(init=False)

    def __post_init__(self) -> None:
        own = list(self.curves.scored)
        pooled = self.curves.sampled_errors(self.cap)
        alone = np.stack(
            [self.curves.sampled_errors(self.cap * (np.arange(len(self.cap)) == i))[g]
             for g, i in enumerate(own)]
        )  # fmt: skip
        better = (alone < pooled).mean(axis=1) > ALONE
        relative = self.targets.relative[own]
        within = np.where(relative, self.targets.within[own], WITHIN) * self.curves.scale
        absolute = self.targets.errors(self.curves, self.cap)
        sure = np.quantile(absolute[:, None] - pooled - self.curves.shift, self.alpha, axis=1) >= 0
        # relative promises hold at the caps, except to a site that does better without the others
        beside = np.quantile(alone - pooled + within[:, None], self.alpha, axis=1) >= 0
        given = np.where(relative, ~better | beside, sure)
        object.__setattr__(self, "alone", better)
        object.__setattr__(self, "kept_relative", relative | ~sure)
        object.__setattr__(self, "promised", given)
        object.__setattr__(self, "bound", given | ~relative)
        object.__setattr__(self, "_within", within)
        object.__setattr__(self, "_pooled", pooled)
        object.__setattr__(self, "_absolute", absolute)

    def slack(self, n: FloatArray) -> FloatArray:
        """``(curves, draws)``: how far the promise is kept, in errors."""
        error = self.curves.sampled_errors(n)
        return np.where(
            self.kept_relative[:, None],
            self._pooled + self._within[:, None] - error,
            self._absolute[:, None] - error - self.curves.shift,
        )

    def short(self, n: FloatArray) -> FloatArray:
        """By how much the alpha-quantile misses the promise; negative if it is kept."""
        return np.asarray(-np.quantile(self.slack(n), self.alpha, axis=1))

    def kept(self, n: FloatArray) -> bool:
        """Whether every promise is kept with confidence."""
        return bool((self.short(n)[self.bound] <= CLOSE).all())

    def game(self, margins: FloatArray) -> Capped:
        """The capped game at the estimates, with targets raised by the margins."""
        pooled = self.curves.errors(self.cap)
        goal = np.where(self.kept_relative, pooled + self._within, self._absolute) - margins
        goal = np.where(self.bound, goal, np.inf)
        # never above the curve at the caps: pooling everything is always a plan
        return self.asking(self.curves.needs(np.maximum(goal, pooled)))

    def asking(self, need: FloatArray) -> Capped:
        """The capped game at the estimates in which the curves need so many effective rows."""
        # a rate that solvers take for zero is zero here, too: else the caps would not suffice
        rates = np.where(np.abs(self.curves.rates) < TINY, 0.0, self.curves.rates)
        least = np.minimum(rates, 0.0) @ self.cap
        W, N = self.curves.full(rates, np.clip(need, least, rates @ self.cap))
        return Capped(W, N, self.cap, self.cost)

    def needed_in_draws(self) -> FloatArray:
        """``(curves, draws)``: effective rows that keep each promise, redraw by redraw."""
        goal = np.where(
            self.kept_relative[:, None],
            self._pooled + self._within[:, None],
            self._absolute[:, None] - self.curves.shift,
        )
        return self.curves.needs(goal, samples=True)

    def withdrawable(self, n: FloatArray) -> FloatArray:
        """``(sites, draws)``: rows that a site could keep back in each redraw."""
        curves, need = self.curves, self.needed_in_draws()
        rates = curves.samples[..., SHAPE:]
        own = np.stack([rates[g, :, i] for g, i in enumerate(curves.scored)])
        spare = (rates @ n - need) / np.maximum(own, 1e-9)
        result = np.repeat(n[:, None], curves.draws, axis=1)
        for g, i in enumerate(curves.scored):
            result[i] = np.clip(np.minimum(n[i], spare[g]), 0.0, None)
        return result

    _within: FloatArray = field(init=False, repr=False, compare=False)
    _pooled: FloatArray = field(init=False, repr=False, compare=False)
    _absolute: FloatArray = field(init=False, repr=False, compare=False)


@dataclass(frozen=True)
class Solved:
    """All plans; ``optimum`` is the least cost in the game in which they are compared.

    ``cheapest``, ``stable``, ``contract`` and ``left_alone`` are judged in the redraws; the others
    at the estimates, where ``need`` are the effective rows that keep promises near the cheapest.
    """

    promises: Promises
    need: FloatArray
    game: Capped
    optimum: float
    cheapest: FloatArray
    compensated: FloatArray
    stable: FloatArray | None
    dearest: FloatArray | None
    contract: FloatArray | None
    envy_free: Fair | None
    left_alone: FloatArray

    def against_interest(self, n: FloatArray) -> FloatArray:
        """Rows that each site could withdraw from a plan and keep its promise with confidence."""
        return Bands.of(self.promises).against_interest(n)


def robust_cheapest(promises: Promises) -> FloatArray:
    """The cheapest plan found that keeps every promise with confidence."""
    return Bands.of(promises).cheapest(_raised(promises))


def solve_all(promises: Promises, *, time_limit: float = 10.0) -> Solved:
    """Solve every plan; what is found on the way may be the cheapest one."""
    first, voluntary, alone = _with_confidence(promises)
    bands = Bands.of(promises)
    contract = bands.contract()
    known = [first, *voluntary, *([] if contract is None else [contract])]
    best = min(known, key=lambda n: float(promises.cost @ n))
    need = bands.need_near(best)
    game = promises.asking(need)
    compensated = voluntary[0] if voluntary else bands.until_kept(
        need, lambda more: capped.compensated(promises.asking(more)))  # fmt: skip
    fair = _fair(promises, bands, need, time_limit)
    others = [n for n in (compensated, None if fair is None else fair.n) if n is not None]
    return Solved(
        promises=promises,
        need=need,
        game=game,
        optimum=float(game.cost @ capped.cheapest(game)),
        cheapest=min(
            [best, *(n for n in others if promises.kept(n))],
            key=lambda n: float(promises.cost @ n),
        ),
        compensated=best if compensated is None else compensated,
        stable=voluntary[0] if voluntary else None,
        dearest=voluntary[-1] if voluntary else None,
        contract=contract,
        envy_free=fair,
        left_alone=alone if alone is not None else capped.left_alone(game)[0],
    )


def _fair(promises: Promises, bands: Bands, need: FloatArray, time_limit: float) -> Fair | None:
    """The cheapest envy-free plan; its bound is that of the needs around the cheapest plan."""
    found: list[Fair] = []

    def solve(more: FloatArray) -> FloatArray | None:
        fair = capped.envy_free(promises.asking(more), time_limit=time_limit)
        found.extend([] if fair is None else [fair])
        return None if fair is None else fair.n

    bands.until_kept(need, solve)
    if not found:
        return None
    proved = found[0].proved and len(found) == 1
    return Fair(found[-1].n, found[0].bound, proved)


def has_stable_plan(promises: Promises) -> bool:
    """Whether a stable plan is found."""
    return bool(_with_confidence(promises)[1])


def _with_confidence(
    promises: Promises,
) -> tuple[FloatArray, list[FloatArray], FloatArray | None]:
    """The cheapest plan, the stable ones by cost, and where sites end that are left alone."""
    bands, raised = Bands.of(promises), list(_raised(promises))
    best = bands.cheapest(raised)
    game = promises.asking(bands.need_near(best))
    likely = [capped.stable(game), capped.stable(game, -1)]
    starts = [np.zeros_like(best), promises.cap, best, *raised[-1:]]
    starts += [n for n in likely if n is not None]
    return best, bands.voluntary(starts), bands.settled(starts[0])


def _raised(promises: Promises) -> Iterator[FloatArray]:
    """Cheapest plans of the estimates with margins that rise where somebody is short, else fall."""
    margins = np.zeros(len(promises.curves.scored))
    for _ in range(ROUNDS):
        n = capped.cheapest(promises.game(margins))
        yield n
        short = promises.short(n)
        margins = np.maximum(margins + np.where(short > 0, 1.1 * short, 0.5 * short), 0.0)


def whole_rows(promises: Promises, n: FloatArray) -> FloatArray:
    """Whole numbers of rows: up, where that keeps what the plan keeps; never above the caps."""
    up = np.minimum(np.ceil(n - CLOSE), np.floor(promises.cap))
    if not promises.kept(n) or promises.kept(up):
        return up
    for i in np.argsort(up - n):  # a row may hurt somebody: then round that one down
        down = up.copy()
        down[i] = np.floor(n[i] + CLOSE)
        if promises.kept(down):
            return down
    return up


def tightened(promises: Promises, g: float) -> Promises:
    """The same promises with ``within=g`` for everybody."""
    k = len(promises.cap)
    targets = Targets(np.full(k, g), np.full(k, np.nan), f"within={g:.4g}")
    return replace(promises, targets=targets)
