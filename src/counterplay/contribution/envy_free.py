"""Cheapest envy-free plan of a linear game, by branch and bound.

Envy-freeness is an open condition: for every pair either i carries no more than j, or the swap
leaves i *strictly* below its target. Relaxing "strictly" returns plans that are not envy-free.
Branch and bound starts from the cheapest plan without regard to envy and splits on that choice
while somebody envies; each part is a linear program whose value bounds every envy-free plan inside.
Source: Proposition 4.D (ours; the chapter gives no algorithm), see docs/theory/04-contribution.md.
"""

from __future__ import annotations

import heapq
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from counterplay.contribution.audit import Allocation, allocation, envy_report
from counterplay.contribution.equal import smallest_common_level
from counterplay.contribution.linear import LinearGame, as_linear_game
from counterplay.contribution.social_optimum import lift
from counterplay.contribution.stable_linear import optimal_stable_linear
from counterplay.core.arguments import checked
from counterplay.core.programs import minimize_linear
from counterplay.core.validation import BoolArray, FloatArray, check_real
from counterplay.errors import ConvergenceError, InfeasibleError, InvalidInputError

MIN_EPS = 1e-5
TIE = 1e-7
"""Contributions that differ by less are equal."""

_CUTOFF = 1e-7
_DIVE_EVERY = 50

Split = tuple[int, int, bool]
"""Parties i and j; True if the swap must leave i below its target, False if i carries no more."""


@checked
def optimal_envy_free_linear(
    W: Any,
    mu: ArrayLike | None = None,
    eps: float = 1e-4,
    *,
    time_limit: float | None = None,
) -> Allocation:
    """Return the cheapest plan in which nobody would rather carry a lighter load.

    Exact in seconds up to about 30 parties; above, give a ``time_limit`` and read the proven gap.

    Parameters
    ----------
    W:
        A :class:`LinearGame`, or its matrix.
    mu:
        Targets, if ``W`` is a matrix.
    eps:
        How far below its target a swap must leave an otherwise envious party; at least 1e-5,
        because zero would turn the strict condition into a weak one and give wrong plans.
    time_limit:
        Seconds; then the best plan so far is returned.

    Returns
    -------
    Allocation
        Checked with ``envy_report``. The certificate holds ``bound``: no plan that is envy-free
        with margin ``eps`` costs less; ``proved`` says whether the plan meets it.

    Notes
    -----
    ``OPT <= EF <= k t`` with the equal plan ``t``, and ``EF <= EQ`` if ``W_ij < W_ii``. Caps are
    respected, but a swap that would break a cap still counts as possible.

    References
    ----------
    Blum, Haghtalab, Phillips, Shao (2021), Sec. 3 (envy-free equilibria).

    Examples
    --------
    >>> from counterplay.contribution import instances
    >>> round(optimal_envy_free_linear(instances.flower(5).linear()).total, 3)
    13.0
    """
    game = as_linear_game(W, mu)
    check_real(eps, "eps", low=0.0)
    if eps < MIN_EPS:
        raise InvalidInputError(
            f"eps must be at least {MIN_EPS:g}, got {eps:g}: without a strict margin the program "
            "returns plans that are not envy-free"
        )
    if (game.cost <= 0).any():
        raise InvalidInputError("the cheapest envy-free plan needs positive prices")
    plans = [improve_envy_free(game, theta, eps) for theta in _starts(game)]
    start = min(plans, key=lambda plan: plan.total).theta if plans else None
    search = EnvyFreeSearch(game, eps, start)
    bound = search.run(time_limit)
    if search.best is None:
        if np.isfinite(bound):
            raise ConvergenceError("no envy-free plan was found in time; raise time_limit")
        raise InfeasibleError("no envy-free plan respects the caps; raise them")
    total = game.total(search.best)
    proved = bool(total <= bound + 1e-4 * max(1.0, total))
    facts = {"eps": eps, "bound": bound, "nodes": search.nodes, "proved": proved}
    return allocation(game, search.best, "envy-free", facts)


def _starts(game: LinearGame) -> list[FloatArray]:
    """Envy-free plans that are easy to find: equal loads, and a stable plan if it is one."""
    plans = [np.full(game.k, smallest_common_level(game))]
    if game.is_psd:
        with suppress(InfeasibleError):  # no stable plan may respect the caps
            plans.append(np.asarray(optimal_stable_linear(game).theta))
    inside = [plan for plan in plans if (plan <= game.caps).all()]
    return [plan for plan in inside if envy_report(game, plan).is_envy_free]


@checked
def improve_envy_free(game: LinearGame, theta: ArrayLike, eps: float = 1e-4) -> Allocation:
    """Lower the total of an envy-free plan by linear programs that keep it envy-free.

    For each pair the plan either keeps its order or keeps the swap unattractive; within that
    pattern the cheapest plan is a linear program. Repeats until nothing improves. Polynomial, but
    only a local optimum.
    """
    best = game._vector(theta).copy()
    if not envy_report(game, best).is_envy_free:
        raise InvalidInputError("theta must be envy-free; start from equal_allocation(game)")
    rounds = 0
    while rounds < 50:
        rounds += 1
        candidate = pattern_program(game, *pattern(game, best, eps), eps)
        if candidate is None or game.total(candidate) > game.total(best) - 1e-9:
            break
        if not envy_report(game, candidate).is_envy_free:
            break
        best = candidate
    return allocation(game, best, "envy-free", {"eps": eps, "rounds": rounds, "local": True})


@dataclass(order=True)
class Node:
    """A part of the plans: what was decided so far, and the cheapest plan under it."""

    value: float
    number: int
    splits: tuple[Split, ...] = field(compare=False)
    theta: FloatArray = field(compare=False)


class EnvyFreeSearch:
    """Best-first search over decisions about envious pairs, with dives for good plans."""

    def __init__(self, game: LinearGame, eps: float, start: FloatArray | None = None) -> None:
        self.game, self.eps, self.W = game, eps, game.dense()
        self.effect = np.diag(self.W)[:, None] - self.W
        self.box = np.column_stack([np.zeros(game.k), game.caps])
        self.best = start
        self.best_value = np.inf if start is None else game.total(start)
        self.unsettled = np.inf
        self.nodes = 0

    def run(self, time_limit: float | None = None) -> float:
        """Search until the plan is proved cheapest or the seconds are spent; return the bound."""
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
        return float(min([*open_values, self.unsettled, self.best_value]))

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
        solved = minimize_linear(
            game.cost,
            A_ub=np.vstack([-self.W, rows]),
            b_ub=np.concatenate([-game.mu, limits]),
            bounds=self.box,
            allow=("infeasible",),
        )
        if solved.x is None:
            return None
        theta = np.where(solved.x < TIE, 0.0, solved.x)
        return Node(solved.value, self.nodes, splits, theta)

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


def settled_plan(game: LinearGame, rough: FloatArray, eps: float) -> FloatArray | None:
    """Fix the pattern of a rough solution and solve it to full accuracy; None if that fails."""
    theta = np.where(rough < TIE, 0.0, rough)
    refined = pattern_program(game, *pattern(game, theta, eps / 2), eps / 2)
    candidates = [] if refined is None else [refined]
    candidates += [lift(game, snap(theta)), np.full(game.k, smallest_common_level(game))]
    for candidate in candidates:
        near = game.total(candidate) <= game.total(rough) + 1e-4 * max(1.0, game.total(rough))
        if near and envy_report(game, candidate).is_envy_free:
            return candidate
    return None


def pattern(game: LinearGame, theta: FloatArray, eps: float) -> tuple[BoolArray, BoolArray]:
    """Return pairs that must keep their order and pairs whose swap must stay unattractive."""
    margin = game.swap_utilities(theta) - game.mu[:, None]
    heavier = theta[:, None] > theta[None, :] + TIE
    unattractive = margin <= -eps
    strict = heavier | unattractive
    np.fill_diagonal(strict, False)
    order = ~strict
    np.fill_diagonal(order, False)
    return order, strict


def pattern_program(
    game: LinearGame, order: BoolArray, strict: BoolArray, eps: float
) -> FloatArray | None:
    """Return the cheapest plan of a pattern, or None if the pattern is impossible."""
    W, k = game.dense(), game.k
    keep, apart = np.argwhere(order), np.argwhere(strict)
    A = sparse.vstack([-sparse.csr_array(W), order_rows(keep, k), swap_rows(W, apart)])
    b = np.concatenate([-game.mu, np.zeros(len(keep)), (game.mu - eps)[apart[:, 0]]])
    box = np.column_stack([np.zeros(k), game.caps])
    solved = minimize_linear(game.cost, A_ub=A, b_ub=b, bounds=box, allow=("infeasible",))
    return None if solved.x is None else lift(game, snap(np.maximum(solved.x, 0.0)))


def order_rows(pairs: np.ndarray, k: int) -> Any:
    """Rows of ``theta_i - theta_j``."""
    n = len(pairs)
    rows = np.repeat(np.arange(n), 2)
    values = np.tile([1.0, -1.0], n)
    return sparse.csr_array((values, (rows, pairs.reshape(-1))), shape=(n, k))


def swap_rows(W: FloatArray, pairs: np.ndarray) -> Any:
    """Rows of ``u_i(theta swapped i, j)`` as a linear function of theta."""
    n, k = len(pairs), W.shape[0]
    rows = W[pairs[:, 0]].copy() if n else np.zeros((0, k))
    effect = W[pairs[:, 0], pairs[:, 1]] - W[pairs[:, 0], pairs[:, 0]]
    rows[np.arange(n), pairs[:, 0]] += effect
    rows[np.arange(n), pairs[:, 1]] -= effect
    return sparse.csr_array(rows)


def snap(theta: FloatArray) -> FloatArray:
    """Make contributions that differ by rounding error equal (to the largest of them)."""
    order = np.argsort(theta)
    values = theta[order]
    group = np.concatenate([[0], np.cumsum(np.diff(values) > TIE)])
    top = np.zeros(group[-1] + 1)
    np.maximum.at(top, group, values)
    snapped = np.empty_like(theta)
    snapped[order] = top[group]
    return snapped
