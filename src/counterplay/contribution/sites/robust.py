"""Plans whose promises hold with confidence: solve, look who is short in the bands, ask for more.

The cheapest plan of noisy curves is too optimistic (winner's curse). Margins on the targets are
raised until the promise holds in all but a share alpha of the redraws; all plans are solved with
the same margins, so that their prices can be compared.
Source: "Robust plans", see docs/theory/23-consortium.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from counterplay.contribution import capped
from counterplay.contribution.capped import Capped, Fair
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
    which sites the promise is really given.
    """

    curves: SiteCurves
    targets: Targets
    cap: FloatArray
    cost: FloatArray
    alpha: float
    alone: BoolArray = field(init=False)
    kept_relative: BoolArray = field(init=False)
    promised: BoolArray = field(init=False)

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
        return bool((self.short(n) <= CLOSE).all())

    def game(self, margins: FloatArray) -> Capped:
        """The capped game at the estimates, with targets raised by the margins."""
        pooled = self.curves.errors(self.cap)
        goal = np.where(self.kept_relative, pooled + self._within, self._absolute) - margins
        # never above the curve at the caps: pooling everything is always a plan
        need = self.curves.needs(np.maximum(goal, pooled))
        # a rate that solvers take for zero is zero here, too: else the caps would not suffice
        rates = np.where(np.abs(self.curves.rates) < TINY, 0.0, self.curves.rates)
        W, N = self.curves.full(rates, np.minimum(need, rates @ self.cap))
        return Capped(W, N, self.cap, self.cost)

    def withdrawable(self, n: FloatArray) -> FloatArray:
        """``(sites, draws)``: rows that a site could keep back in each redraw."""
        curves = self.curves
        goal = np.where(
            self.kept_relative[:, None],
            self._pooled + self._within[:, None],
            self._absolute[:, None] - curves.shift,
        )
        need = curves.needs(goal, samples=True)
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
    """All plans at common margins; ``optimum`` is the least cost at these margins."""

    promises: Promises
    margins: FloatArray
    game: Capped
    optimum: float
    cheapest: FloatArray
    compensated: FloatArray
    stable: FloatArray | None
    dearest: FloatArray | None
    contract: FloatArray | None
    envy_free: Fair | None
    left_alone: FloatArray
    residual: float


def robust_cheapest(promises: Promises) -> FloatArray:
    """The cheapest plan that keeps every promise with confidence."""
    return _robust(promises, capped.cheapest)[0]


def solve_all(promises: Promises, *, time_limit: float = 10.0) -> Solved:
    """Solve every plan with the same margins."""
    margins = common_margins(promises)
    game = promises.game(margins)
    first = capped.cheapest(game)
    exists = capped.stable(game)
    alone, residual = capped.left_alone(game)
    compensated = capped.compensated(game) if exists is None else exists
    contract, fair = capped.contract(game), capped.envy_free(game, time_limit=time_limit)
    found = [compensated, contract, None if fair is None else fair.n]
    return Solved(
        promises=promises,
        margins=margins,
        game=game,
        optimum=float(game.cost @ first),
        cheapest=_kept_cheapest(promises, first, found),
        compensated=compensated,
        stable=exists,
        dearest=None if exists is None else capped.stable(game, -1),
        contract=contract,
        envy_free=fair,
        left_alone=alone,
        residual=residual,
    )


def _kept_cheapest(
    promises: Promises, first: FloatArray, others: list[FloatArray | None]
) -> FloatArray:
    """The cheapest plan if it keeps every promise, else the cheapest known plan that does."""
    if promises.kept(first):
        return first
    known = [n for n in (*others, robust_cheapest(promises)) if n is not None]
    return min(
        [n for n in known if promises.kept(n)] or [promises.cap],
        key=lambda n: float(promises.cost @ n),
    )


def common_margins(promises: Promises) -> FloatArray:
    """Largest margins that cheapest and compensated need, raised until the cheapest plan holds."""
    margins = np.maximum(
        _robust(promises, capped.cheapest)[1], _robust(promises, capped.compensated)[1]
    )
    for _ in range(ROUNDS):
        short = promises.short(capped.cheapest(promises.game(margins)))
        if (short <= CLOSE).all():
            break
        margins = margins + 1.1 * np.maximum(short, 0.0)
    return margins


def has_stable_plan(promises: Promises) -> bool:
    """Whether a stable plan exists at the common margins."""
    return capped.stable(promises.game(common_margins(promises))) is not None


def _robust(
    promises: Promises, solve: Callable[[Capped], FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Raise margins while somebody is short, lower them while there is room; keep the cheapest."""
    margins = np.zeros(len(promises.curves.scored))
    best: tuple[FloatArray, FloatArray] | None = None
    n = promises.cap
    for _ in range(ROUNDS):
        n = solve(promises.game(margins))
        short = promises.short(n)
        if (short <= CLOSE).all() and (best is None or promises.cost @ n < promises.cost @ best[0]):
            best = n, margins
        margins = np.maximum(margins + np.where(short > 0, 1.1 * short, 0.5 * short), 0.0)
    if best is not None:
        return best
    while not promises.kept(n) and (n < promises.cap).any():
        n = np.minimum(1.05 * n + 0.01 * promises.cap, promises.cap)
    return n, margins


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
