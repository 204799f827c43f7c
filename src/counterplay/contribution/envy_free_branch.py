"""Branch and bound for the cheapest envy-free plan of a linear game.

Start from the cheapest plan without regard to envy. While somebody envies, split: either the
envious party carries no more than the envied one, or the swap leaves it below its target. Each part
is a linear program, its value bounds every envy-free plan inside, and no large constants are
needed. Usually a few dozen programs are enough for thirty parties.
Source: Proposition 4.D (ours), see docs/theory/04-contribution.md.
"""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linprog

from counterplay.contribution.envy_free_patterns import TIE, settled_plan
from counterplay.contribution.linear import LinearGame
from counterplay.core.validation import FloatArray

_CUTOFF = 1e-7
_DIVE_EVERY = 50

Split = tuple[int, int, bool]
"""Parties i and j; True if the swap must leave i below its target, False if i carries no more."""


@dataclass(order=True)
class Node:
    """A part of the plans: what was decided so far, and the cheapest plan under it."""

    value: float
    number: int
    splits: tuple[Split, ...] = field(compare=False)
    theta: FloatArray = field(compare=False)


@dataclass
class BranchResult:
    """Best plan found (None if there is none), proven lower bound, and number of programs."""

    theta: FloatArray | None
    bound: float
    nodes: int


class EnvyFreeSearch:
    """Best-first search over decisions about envious pairs, with dives for good plans."""

    def __init__(self, game: LinearGame, eps: float, start: FloatArray | None = None) -> None:
        self.game, self.eps, self.W = game, eps, game.dense()
        self.effect = np.diag(self.W)[:, None] - self.W
        top = np.full(game.k, np.inf) if game.upper is None else np.asarray(game.upper)
        self.box = np.column_stack([np.zeros(game.k), top])
        self.best = start
        self.best_value = np.inf if start is None else game.total(start)
        self.unsettled = np.inf
        self.nodes = 0

    def run(self, time_limit: float | None = None) -> BranchResult:
        """Search until the plan is proved cheapest or the seconds are spent."""
        stop = np.inf if time_limit is None else time.monotonic() + time_limit
        heap: list[Node] = []
        root = self._solve(())
        if root is not None:
            heapq.heappush(heap, root)
        while heap and heap[0].value < self._cutoff() and time.monotonic() < stop:
            node = heapq.heappop(heap)
            pair = self._envious(node.theta)
            if pair is None:
                self._offer(node)
                continue
            children = self._children(node, pair)
            for child in children:
                heapq.heappush(heap, child)
            if self.nodes % _DIVE_EVERY < 2:
                self._dive(children, stop)
        open_values = [node.value for node in heap]
        bound = min([*open_values, self.unsettled, self.best_value])
        return BranchResult(self.best, float(bound), self.nodes)

    def _cutoff(self) -> float:
        return self.best_value * (1.0 - _CUTOFF) if np.isfinite(self.best_value) else np.inf

    def _children(self, node: Node, pair: tuple[int, int]) -> list[Node]:
        both = (self._solve((*node.splits, (*pair, strict))) for strict in (False, True))
        return [child for child in both if child is not None and child.value < self._cutoff()]

    def _dive(self, children: list[Node], stop: float) -> None:
        """Follow the cheaper part down to an envy-free plan; only to lower the cut-off."""
        while children and time.monotonic() < stop:
            node = min(children)
            pair = self._envious(node.theta)
            if pair is None:
                self._offer(node, final=False)
                return
            children = self._children(node, pair)

    def _solve(self, splits: tuple[Split, ...]) -> Node | None:
        """The cheapest plan that satisfies everybody and respects the decisions."""
        self.nodes += 1
        game, k = self.game, self.game.k
        rows = np.zeros((len(splits), k))
        limits = np.zeros(len(splits))
        for row, (i, j, strict) in enumerate(splits):
            if strict:  # utility of i after the swap, as a linear function
                rows[row] = self.W[i]
                rows[row, i] -= self.effect[i, j]
                rows[row, j] += self.effect[i, j]
                limits[row] = game.mu[i] - self.eps
            else:
                rows[row, i], rows[row, j] = 1.0, -1.0
        result = linprog(
            game.cost,
            A_ub=np.vstack([-self.W, rows]),
            b_ub=np.concatenate([-game.mu, limits]),
            bounds=self.box,
            method="highs",
        )
        if result.status != 0:
            return None
        theta = np.maximum(result.x, 0.0)
        return Node(float(result.fun), self.nodes, splits, np.where(theta < TIE, 0.0, theta))

    def _envious(self, theta: FloatArray) -> tuple[int, int] | None:
        """The pair with the largest envy: difference of loads times room above the target."""
        utilities = self.W @ theta
        gap = theta[:, None] - theta[None, :]
        room = (utilities - self.game.mu)[:, None] - gap * self.effect + self.eps
        envy = np.where((gap > TIE) & (room > self.eps / 2), gap * room, 0.0)
        pair = np.unravel_index(int(envy.argmax()), envy.shape)
        return (int(pair[0]), int(pair[1])) if envy[pair] > 0.0 else None

    def _offer(self, node: Node, *, final: bool = True) -> None:
        """Keep an envy-free plan; one that is not so to tolerance still bounds its part."""
        plan = settled_plan(self.game, node.theta, self.eps)
        if plan is not None and self.game.total(plan) < self.best_value:
            self.best, self.best_value = plan, self.game.total(plan)
        if final and (plan is None or self.game.total(plan) > node.value + _CUTOFF):
            self.unsettled = min(self.unsettled, node.value)
