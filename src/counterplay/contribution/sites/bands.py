"""Plans judged in the redraws themselves: cheapest, voluntary, and what sites do if left alone.

In each redraw a promise is one linear inequality, ``w . n >= N``. A promise holds with confidence
if its inequality holds in all redraws but a few; which few is chosen anew at every plan. So the
cheapest plan is a sequence of linear programs, and what a site answers to the others is an order
statistic of what it needs in the redraws.
Source: "Robust plans", see docs/theory/23-consortium.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from counterplay.contribution.sites.fitting import SHAPE
from counterplay.core.programs import minimize_linear
from counterplay.core.validation import FloatArray

if TYPE_CHECKING:
    from counterplay.contribution.sites.robust import Promises

PROGRAMS = 20
SWEEPS = 400
HALVINGS = 30
RAISES = 5
OVER = 1.1
"""Needs are raised by this much of what is lacking."""
SETTLED = 1e-7
"""Largest change of an answer, as a share of the largest cap, that counts as none."""
USELESS = 1e-6
"""Own rows worth less than this much are no answer to anything."""


@dataclass(frozen=True)
class Bands:
    """The promises of all sites, redraw by redraw.

    ``rates`` is (promises, draws, sites), ``need`` (promises, draws); ``owner`` says whose promise
    it is, ``spare`` in how many redraws a promise may fail.
    """

    promises: Promises
    rates: FloatArray
    need: FloatArray
    owner: tuple[int, ...]
    spare: int

    @classmethod
    def of(cls, promises: Promises) -> Bands:
        """The redraws of the promises that bind a plan."""
        bound, curves = promises.bound, promises.curves
        need = promises.needed_in_draws()[bound]
        owner = tuple(i for i, held in zip(curves.scored, bound) if held)
        spare = int(np.floor(promises.alpha * (curves.draws - 1) + 1e-9))
        return cls(promises, curves.samples[bound][..., SHAPE:], need, owner, spare)

    def cheapest(self, starts: Iterable[FloatArray]) -> FloatArray:
        """The cheapest plan found downhill from plans of which pooling everything is one."""
        return self._below(self.promises.cap, starts)

    def contract(self) -> FloatArray | None:
        """The cheapest plan found in which nobody brings more than it would need alone.

        None if all of that together does not keep every promise.
        """
        alone, nothing = np.zeros_like(self.promises.cap), np.zeros_like(self.promises.cap)
        for g, i in enumerate(self.owner):
            alone[i] = self.answer(g, nothing)
        return self._below(alone, ()) if self.promises.kept(alone) else None

    def _below(self, cap: FloatArray, starts: Iterable[FloatArray]) -> FloatArray:
        plans = [cap, self._common_share(cap), *(n for n in starts if self.promises.kept(n))]
        return min((self._downhill(n, cap) for n in plans), key=self._cost)

    def _cost(self, n: FloatArray) -> float:
        return float(self.promises.cost @ n)

    def _common_share(self, cap: FloatArray) -> FloatArray:
        """The smallest share of all caps that is found to keep every promise by halving."""
        low, high = 0.0, 1.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            low, high = (low, middle) if self.promises.kept(middle * cap) else (middle, high)
        return high * cap

    def _downhill(self, n: FloatArray, cap: FloatArray) -> FloatArray:
        """Least cost with the redraws that hold best at ``n``; again, until nothing is gained."""
        for _ in range(PROGRAMS):
            slack = self.rates @ n - self.need
            place = np.argsort(np.argsort(slack, axis=1), axis=1)
            # quantiles lie between two redraws: one more than spare may fail at a plan that holds
            kept = (place >= self.spare) & (slack >= -1e-9)
            solved = minimize_linear(
                self.promises.cost,
                A_ub=-self.rates[kept],
                b_ub=-self.need[kept],
                bounds=np.column_stack([np.zeros(len(n)), cap]),
                what="the program of the cheapest plan",
                allow=("infeasible",),
            )
            if solved.x is None:  # by the rounding of the solver: n itself is a plan
                break
            new = np.clip(solved.x, 0.0, cap)
            if self._cost(new) >= self._cost(n) - 1e-6 or not self.promises.kept(new):
                break
            n = new
        return n

    def need_near(self, n: FloatArray) -> FloatArray:
        """``(curves,)``: effective rows at the estimates that are only just enough around a plan.

        What the estimates give the plan, less what each promise can spare there with confidence.
        """
        need = np.full(len(self.promises.bound), -np.inf)
        given = (self.promises.curves.rates @ n)[self.promises.bound]
        need[self.promises.bound] = given - np.maximum(self._slack(n), 0.0)
        return need

    def _slack(self, n: FloatArray) -> FloatArray:
        """Effective rows that each promise can spare with confidence; negative if it is short."""
        return np.partition(self.rates @ n - self.need, self.spare, axis=1)[:, self.spare]

    def until_kept(
        self, need: FloatArray, solve: Callable[[FloatArray], FloatArray | None]
    ) -> FloatArray | None:
        """A plan of the estimates whose needs are raised where it is short with confidence.

        The last one tried, if none keeps every promise.
        """
        need, n = need.copy(), None
        for _ in range(RAISES):
            found = solve(need)
            if found is None:
                break
            n = found
            if self.promises.kept(n):
                break
            need[self.promises.bound] += OVER * np.maximum(-self._slack(n), 0.0)
        return n

    def answer(self, g: int, n: FloatArray) -> float:
        """Fewest rows with which the owner of promise ``g`` is served, given those of the others.

        All it has, if nothing suffices.
        """
        i, cap = self.owner[g], float(self.promises.cap[self.owner[g]])
        own = self.rates[g, :, i]
        others = self.rates[g] @ n - own * n[i]
        with np.errstate(over="ignore"):
            needed = (self.need[g] - others) / np.maximum(own, USELESS)
        most = len(needed) - 1 - self.spare  # so many redraws, and this one, must hold
        return float(np.clip(np.partition(needed, most)[most], 0.0, cap))

    def against_interest(self, n: FloatArray) -> FloatArray:
        """Rows that each site could withdraw and keep its promise; all, where it has none."""
        spare = n.copy()
        for g, i in enumerate(self.owner):
            spare[i] = max(n[i] - self.answer(g, n), 0.0)
        return spare

    def settled(self, start: FloatArray) -> FloatArray | None:
        """Where answers in turn settle from a start, damped if they oscillate; None if nowhere.

        A site without a promise brings nothing.
        """
        n = np.zeros_like(start)
        n[list(self.owner)] = start[list(self.owner)]
        for damping in (1.0, 0.5, 0.1):
            for _ in range(SWEEPS):
                before = n.copy()
                for g, i in enumerate(self.owner):
                    n[i] += damping * (self.answer(g, n) - n[i])
                if abs(n - before).max(initial=0.0) <= damping * SETTLED * max(
                    1.0, float(self.promises.cap.max())
                ):
                    return n
        return None

    def voluntary(self, starts: Iterable[FloatArray]) -> list[FloatArray]:
        """Plans that keep every promise and from which nobody can withdraw, cheapest first."""
        ends = [end for end in map(self.settled, starts) if end is not None]
        return sorted((n for n in ends if self.promises.kept(n)), key=self._cost)
