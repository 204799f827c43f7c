"""Linear games with caps and effects of either sign: every plan is a small program over a box.

Party ``i`` is served when ``w_i . n >= N_i`` with ``0 <= n <= cap``. Caps give the big-M constants,
so nothing needs ``W`` to be positive, symmetric or definite.
Source: "Plans of a capped game", see docs/theory/23-consortium.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from counterplay.core.programs import minimize_integer, minimize_linear
from counterplay.core.validation import BoolArray, FloatArray
from counterplay.errors import InfeasibleError

GAUSS_SEIDEL = 400
CLOSE = 1e-6


@dataclass(frozen=True)
class Capped:
    """Effects ``W``, needs ``N``, caps and prices; ``step`` is what counts as strictly more."""

    W: FloatArray
    need: FloatArray
    cap: FloatArray
    cost: FloatArray
    step: float = 1.0

    @property
    def k(self) -> int:
        """Number of parties."""
        return len(self.need)

    @property
    def own(self) -> FloatArray:
        """What a party's own unit is worth to it."""
        return np.diagonal(self.W).copy()

    @property
    def room(self) -> FloatArray:
        """How far ``w_i . n`` can exceed ``N_i`` in the box: the big-M constants."""
        return np.maximum(np.maximum(self.W, 0.0) @ self.cap - self.need, 0.0)

    def slack(self, n: FloatArray) -> FloatArray:
        """Effective units above the need, party by party."""
        return np.asarray(self.W @ n - self.need)

    def against_interest(self, n: FloatArray) -> FloatArray:
        """``h_i``: units that i could withdraw and still be served."""
        return np.clip(np.minimum(n, self.slack(n) / self.own), 0.0, None)

    def envies(self, n: FloatArray) -> BoolArray:
        """``[i, j]``: i carries more than j, could swap with it, and would still be served."""
        swapped = (self.W @ n)[:, None] + (n[:, None] - n[None, :]) * (self.W - self.own[:, None])
        heavier = n[:, None] > n[None, :] + CLOSE
        possible = n[:, None] <= self.cap[None, :] + CLOSE
        return np.asarray(heavier & possible & (swapped >= self.need[:, None] - CLOSE))


def cheapest(game: Capped) -> FloatArray:
    """Least cost with everybody served; an error if even the best point of the box does not."""
    solved = minimize_linear(
        game.cost,
        A_ub=-game.W,
        b_ub=-game.need,
        bounds=_box(game),
        what="the program of the cheapest plan",
        infeasible="no plan within the caps serves everybody; lower the targets or raise the caps",
    )
    return np.clip(solved.point, 0.0, game.cap)


def stable(game: Capped, sense: int = 1) -> FloatArray | None:
    """Cheapest (``sense=-1``: dearest) plan from which nobody can withdraw; None if there is none.

    ``z_i = 1``: i is served exactly; ``z_i = 0``: i brings nothing.
    """
    k, eye = game.k, sparse.identity(game.k)
    W, zero = sparse.csr_array(game.W), sparse.csr_array((game.k, game.k))
    room = game.room
    solved = minimize_integer(
        np.concatenate([sense * game.cost, np.zeros(k)]),
        rows=sparse.vstack(
            [
                sparse.hstack([eye, -sparse.diags(game.cap)]),  # n_i <= cap_i z_i
                sparse.hstack([W, zero]),  # w_i.n >= N_i
                sparse.hstack([W, sparse.diags(room)]),  # w_i.n <= N_i + B_i (1 - z_i)
            ]
        ),
        low=np.concatenate([np.full(k, -np.inf), game.need, np.full(k, -np.inf)]),
        high=np.concatenate([np.zeros(k), np.full(k, np.inf), game.need + room]),
        integers=np.repeat([0, 1], k),
        bounds=(np.zeros(2 * k), np.concatenate([game.cap, np.ones(k)])),
        gap=0.0,
        what="the program of the stable plan",
        allow=("infeasible",),
    )
    if solved.x is None:
        return None
    return _stable_on(game, solved.x[k:] > 0.5, sense)


def _stable_on(game: Capped, tight: BoolArray, sense: int) -> FloatArray | None:
    """The same with the tight parties fixed, so that the plan is exact; None if it was not one."""
    solved = minimize_linear(
        sense * game.cost,
        A_ub=-game.W[~tight] if (~tight).any() else None,
        b_ub=-game.need[~tight] if (~tight).any() else None,
        A_eq=game.W[tight] if tight.any() else None,
        b_eq=game.need[tight] if tight.any() else None,
        bounds=_box(replace(game, cap=np.where(tight, game.cap, 0.0))),
        allow=("infeasible",),
    )
    return None if solved.x is None else np.clip(solved.x, 0.0, game.cap)


def compensated(game: Capped) -> FloatArray:
    """Fewest units (times prices) brought against interest; among those plans the smallest total.

    Two programs, one after the other: a small weight on the total would trade interest for it.
    """
    first = _against(game, None)
    least = float(game.cost @ first[1])
    n, _ = _against(game, least)
    return n


def _against(game: Capped, at_most: float | None) -> tuple[FloatArray, FloatArray]:
    """One of the two programs: ``h_i >= n_i`` or ``h_i >= (w_i.n - N_i) / w_ii``, by ``z_i``."""
    k, own = game.k, game.own
    eye, zero = sparse.identity(k), sparse.csr_array((k, k))
    room = game.room / own
    scaled = sparse.csr_array(game.W / own[:, None])
    rows = [
        sparse.hstack([-eye, eye, sparse.diags(game.cap)]),  # h - n + cap z >= 0
        sparse.hstack([-scaled, eye, -sparse.diags(room)]),  # h - w.n/w_ii - B z >= -N/w_ii - B
        sparse.hstack([sparse.csr_array(game.W), zero, zero]),
    ]
    low = [np.zeros(k), -game.need / own - room, game.need]
    cost = np.concatenate([np.zeros(k), game.cost, np.zeros(k)])
    if at_most is not None:  # among the plans with this sum, the smallest total
        rows.append(sparse.csr_array(-cost[None, :]))
        low.append(np.array([-at_most - 1e-9]))
        cost = np.concatenate([np.ones(k), np.zeros(2 * k)])
    top = np.concatenate([game.cap, game.cap, np.ones(k)])
    solved = minimize_integer(
        cost,
        rows=sparse.vstack(rows),
        low=np.concatenate(low),
        integers=np.repeat([0, 0, 1], k),
        bounds=(np.zeros(3 * k), top),
        gap=0.0,
        what="the program of the compensated plan",
    )
    fixed = np.round(solved.point[2 * k :])
    exact = minimize_linear(  # the same with z fixed: exact
        cost,
        A_ub=-sparse.vstack(rows),
        b_ub=-np.concatenate(low),
        bounds=np.column_stack(
            [np.concatenate([np.zeros(2 * k), fixed]), np.concatenate([game.cap, game.cap, fixed])]
        ),
        allow=("infeasible",),
    )
    x = solved.point if exact.x is None else exact.x
    n = np.clip(x[:k], 0.0, game.cap)
    return n, game.against_interest(n)


def contract(game: Capped) -> FloatArray | None:
    """Cheapest plan in which nobody brings more than it would need alone; None if there is none."""
    alone = np.minimum(game.cap, np.maximum(game.need, 0.0) / game.own)
    try:
        return cheapest(replace(game, cap=alone))
    except InfeasibleError:
        return None


@dataclass(frozen=True)
class Fair:
    """An envy-free plan, what no such plan can cost less than, and whether that is met."""

    n: FloatArray
    bound: float
    proved: bool


def envy_free(
    game: Capped, *, strict: float = 0.5, whole: bool = True, time_limit: float | None = 10.0
) -> Fair | None:
    """Cheapest plan in which nobody would rather carry a lighter load; None if none was found.

    For each ordered pair one of: ``n_i <= n_j``; j cannot carry ``n_i``; the swap leaves i at least
    ``strict`` below its need. ``whole`` asks for whole numbers at the end.
    """
    pairs = [(i, j) for i in range(game.k) for j in range(game.k) if i != j]
    solved = _envy_program(game, pairs, strict, None, time_limit)
    if solved.x is None:
        return None
    if whole:
        again = _envy_program(game, pairs, strict, np.round(solved.x[game.k :]), time_limit)
        solved_n = solved.x[: game.k] if again.x is None else np.round(again.x[: game.k])
    else:
        solved_n = solved.x[: game.k]
    n = np.clip(solved_n, 0.0, game.cap)
    bound = float(solved.bound or 0.0)
    return Fair(n, bound, bool(solved.status == "optimal"))


def _envy_program(
    game: Capped,
    pairs: list[tuple[int, int]],
    strict: float,
    pattern: FloatArray | None,
    time_limit: float | None,
) -> Any:
    """The mixed-integer program of envy-free plans, or the whole-number one of a fixed pattern."""
    k, m = game.k, len(pairs)
    first, second = (np.array(side) for side in zip(*pairs)) if pairs else (np.zeros(0, int),) * 2
    effect = game.W[first, second] - game.own[first]
    swap = game.W[first].copy()  # w_i.n + (n_i - n_j)(w_ij - w_ii)
    swap[np.arange(m), first] += effect
    swap[np.arange(m), second] -= effect
    order = np.zeros((m, k))
    order[np.arange(m), first] += 1.0
    order[np.arange(m), second] -= 1.0
    own_load = np.zeros((m, k))
    own_load[np.arange(m), first] = 1.0
    eye, none = np.eye(m), np.zeros((m, m))
    beyond = game.cap[second] + game.step  # what j cannot carry
    limit = game.need[first] - strict
    big = np.maximum(np.maximum(swap, 0.0) @ game.cap - limit, 0.0)
    rows = np.vstack(
        [
            np.hstack([game.W, np.zeros((k, 2 * m))]),
            np.hstack([order, game.cap[first][:, None] * eye, none]),  # n_i - n_j <= cap_i (1 - a)
            np.hstack([own_load, none, -beyond[:, None] * eye]),  # n_i >= (cap_j + 1) b
            np.hstack([swap, -big[:, None] * eye, -big[:, None] * eye]),
        ]
    )
    low = np.concatenate([game.need, np.full(m, -np.inf), np.zeros(m), np.full(m, -np.inf)])
    high = np.concatenate([np.full(k, np.inf), game.cap[first], np.full(m, np.inf), limit])
    most = np.concatenate([np.ones(m), (game.cap[first] >= beyond).astype(float)])
    least = np.zeros(2 * m)
    if pattern is not None:
        least = most = np.minimum(pattern, most)
    cost = np.concatenate([game.cost, np.zeros(2 * m)])
    return minimize_integer(
        cost,
        rows=sparse.csr_array(rows),
        low=low,
        high=high,
        integers=np.concatenate([np.full(k, float(pattern is not None)), np.ones(2 * m)]),
        bounds=(
            np.concatenate([np.zeros(k), least]),
            np.concatenate([np.floor(game.cap) if pattern is not None else game.cap, most]),
        ),
        time_limit=time_limit,
        what="the program of the envy-free plan",
        allow=("infeasible", "limit"),
    )


def left_alone(game: Capped) -> tuple[FloatArray, float]:
    """Where best responses settle, each limited by what the party owns; and the residual.

    Gauss-Seidel from nothing, then damped: the map is continuous on a box, so a point exists. Where
    the answers go round in circles, a program with two binaries per party finds one.
    """
    best, residual = np.zeros(game.k), np.inf
    for damping in (1.0, 0.5, 0.1):
        n = best.copy() if np.isfinite(residual) else np.zeros(game.k)
        for _ in range(GAUSS_SEIDEL):
            for i in range(game.k):
                others = game.W[i] @ n - game.W[i, i] * n[i]
                answer = min(max((game.need[i] - others) / game.W[i, i], 0.0), game.cap[i])
                n[i] += damping * (answer - n[i])
            found = _residual(game, n)
            if found < residual:
                best, residual = n.copy(), found
            if residual <= 1e-9 * max(1.0, game.cap.max()):
                return best, residual
    n = _settled(game)
    found = _residual(game, n)
    return (n, found) if found < residual else (best, residual)


def _settled(game: Capped) -> FloatArray:
    """A fixed point of best responses, as a program: who brings nothing, some, or all.

    ``a_i = 0`` brings nothing and may have more than it needs, ``b_i = 0`` brings all and may be
    short; with both at 1 it has exactly what it needs.
    """
    k, eye, zero = game.k, sparse.identity(game.k), sparse.csr_array((game.k, game.k))
    W = sparse.csr_array(game.W)
    short = np.maximum(game.need - np.minimum(game.W, 0.0) @ game.cap, 0.0)
    spare = np.maximum(game.room, 0.0)
    rows = sparse.vstack(
        [
            sparse.hstack([-eye, sparse.diags(game.cap), zero]),  # n <= cap a
            sparse.hstack([eye, zero, sparse.diags(game.cap)]),  # n >= cap (1 - b)
            sparse.hstack([-W, -sparse.diags(spare), zero]),  # w.n <= N + spare (1 - a)
            sparse.hstack([W, zero, -sparse.diags(short)]),  # w.n >= N - short (1 - b)
        ]
    )
    low = np.concatenate([np.zeros(k), game.cap, -game.need - spare, game.need - short])
    solved = minimize_integer(
        np.concatenate([np.ones(k), np.zeros(2 * k)]),
        rows=rows,
        low=low,
        integers=np.repeat([0, 1, 1], k),
        bounds=(np.zeros(3 * k), np.concatenate([game.cap, np.ones(2 * k)])),
        what="the program of sites that are left alone",
    )
    some, less = (np.round(solved.point[part : part + k]) == 1 for part in (k, 2 * k))
    n = np.where(less, 0.0, game.cap)
    free = some & less  # these have exactly what they need: a linear system
    n[free] = np.linalg.lstsq(
        game.W[np.ix_(free, free)], game.need[free] - game.W[free] @ n, rcond=None
    )[0]
    return np.clip(n, 0.0, game.cap)


def _residual(game: Capped, n: FloatArray) -> float:
    others = game.W @ n - game.own * n
    answer = np.clip((game.need - others) / game.own, 0.0, game.cap)
    return float(abs(answer - n).max())


def _box(game: Capped) -> FloatArray:
    return np.column_stack([np.zeros(game.k), game.cap])
