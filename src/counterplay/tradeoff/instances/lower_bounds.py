"""The five constructions behind the lower bounds.

Each is the hardest stream of its kind: no learner can do better on it than the matching function in
``bounds`` says.
Source: docs/theory/09-tradeoff.md, Theorems 9.1 to 9.3, 9.5 and 9.7.
"""

from __future__ import annotations

import math
import numbers
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    check_fraction,
    check_int,
    check_positive_int,
    check_real,
    check_size,
    shorten,
)
from counterplay.errors import InvalidInputError
from counterplay.tradeoff.metrics import rounds_since_switch
from counterplay.tradeoff.model import (
    MOST_CELLS,
    MOST_EXPERTS,
    AdaptiveSecondary,
    Instance,
    check_game_size,
    check_path,
)

Number = TypeVar("Number", float, Fraction)

# Share of negative labels and of negative predictions (h1, h2) per phase, as (numerator, denom.).
PHASES = {
    "first": ((5, 8), (1, 6), (0, 1)),
    "second in world I": ((3, 4), (0, 1), (1, 2)),
    "second in world II": ((5, 8), (1, 6), (0, 1)),
}
"""Table 9.1: label rate ``a`` and the experts' rates ``b`` in every phase."""


@checked
def classification_losses(a: Number, b: Number) -> tuple[Number, Number]:
    """Losses of an expert that predicts negative with probability ``b``.

    The label is negative with probability ``a``. Primary: any error, ``(1-a) b + a (1-b)``.
    Secondary: false negatives, ``(1-a) b``. Works with exact fractions, too.

    Examples
    --------
    >>> from fractions import Fraction
    >>> [str(x) for x in classification_losses(Fraction(5, 8), Fraction(1, 6))]
    ['7/12', '1/16']
    """
    for name, share in (("a", a), ("b", b)):
        if not isinstance(share, numbers.Real) or not 0 <= share <= 1:
            raise InvalidInputError(f"{name} must be a number in [0,1], got {shorten(share, 60)}")
    missed = (1 - a) * b
    return missed + a * (1 - b), missed


@checked
def impossibility_worlds(rounds: int) -> tuple[Instance, Instance]:
    """Two worlds that look alike until half time (Theorem 9.1); ``c = 1/16``.

    Every expert ends at or below ``c T``, yet no learner keeps both regrets small in both worlds:
    see ``bounds.impossibility_average``.

    Parameters
    ----------
    rounds:
        Number of rounds, even.

    Examples
    --------
    >>> one, two = impossibility_worlds(96)
    >>> one.l1.sum(axis=0).round(6).tolist(), two.l2.sum(axis=0).round(6).tolist()
    ([64.0, 54.0], [6.0, 0.0])
    """
    check_game_size(rounds, 2)
    rounds = check_positive_int(rounds, "rounds")
    if rounds % 2:
        raise InvalidInputError(f"rounds must be even, got {rounds}")
    first = _phase("first", rounds // 2)
    worlds = []
    for world in ("I", "II"):
        second = _phase(f"second in world {world}", rounds // 2)
        l1, l2 = (np.concatenate(pair) for pair in zip(first, second))
        worlds.append(Instance(l1, l2, 1 / 16, 1.0, 1.0, {"world": world, "probability": 0.5}))
    return worlds[0], worlds[1]


def _phase(name: str, rounds: int) -> tuple[FloatArray, FloatArray]:
    (a, *experts) = (numerator / denominator for numerator, denominator in PHASES[name])
    losses = np.array([classification_losses(a, b) for b in experts])
    return np.tile(losses[:, 0], (rounds, 1)), np.tile(losses[:, 1], (rounds, 1))


@checked
def burst_pair(rounds: int, alpha: float, delta: float = 0.25) -> Instance:
    """Two experts with one burst each (Theorem 9.2); ``c = 0``.

    The bursts last ``m = round(4 delta T**alpha)`` rounds each; every learner has
    ``max(R1, R2) >= m / 6``, see ``bounds.burst_pair_minimax``.

    Parameters
    ----------
    rounds:
        Number of rounds, at least ``2 m``.
    alpha:
        Exponent of the burst budget.
    delta:
        Factor of the burst budget ``delta * T**alpha``.

    Examples
    --------
    >>> game = burst_pair(rounds=10_000, alpha=0.5)
    >>> game.meta["m"], game.l2.sum(axis=0).tolist()
    (100, [25.0, 25.0])
    """
    check_game_size(rounds, 2)
    rounds = check_positive_int(rounds, "rounds")
    budget = check_fraction(delta, "delta") * rounds ** check_fraction(alpha, "alpha")
    m = round(4 * budget)
    if m < 1 or 2 * m > rounds:
        raise InvalidInputError(
            f"bursts of m={m} rounds need 1 <= m <= rounds / 2; change delta or alpha"
        )
    quiet, loud = classification_losses(0.75, 0.0), classification_losses(0.75, 1.0)
    l1, l2 = np.full((rounds, 2), quiet[0]), np.full((rounds, 2), quiet[1])
    for expert in range(2):
        rows = slice(expert * m, (expert + 1) * m)
        l1[rows, expert], l2[rows, expert] = loud
    return Instance(l1, l2, 0.0, delta, alpha, {"m": m})


@checked
class SwitchTax(AdaptiveSecondary):
    """An expert costs only ``c`` once it has been played in all of the last ``B`` rounds.

    Use it to see what switching costs: the excess over the rate is exactly
    ``delta * sum over stints of min(length, B)``.

    Parameters
    ----------
    K:
        Number of experts.
    c:
        Loss of an expert that was played in each of the last ``B`` rounds.
    delta:
        What it costs more in the first ``B`` rounds and whenever it was not.
    B:
        Rounds it takes to get used to an expert.

    Examples
    --------
    >>> tax = SwitchTax(K=2, c=0.0, delta=0.5, B=2)
    >>> tax.played([0, 0, 0, 1, 1, 1]).tolist()
    [0.5, 0.5, 0.0, 0.5, 0.5, 0.0]
    """

    def __init__(self, K: int, c: float, delta: float, B: int) -> None:
        self.K = check_positive_int(K, "K")
        check_size(self.K, MOST_EXPERTS, "experts")
        self.c, self.delta = check_fraction(c, "c"), check_fraction(delta, "delta")
        self.B = check_positive_int(B, "B")
        if self.c + self.delta > 1:
            raise InvalidInputError(f"c + delta must be at most 1, got {self.c + self.delta:g}")

    def __repr__(self) -> str:
        return f"SwitchTax(K={self.K}, c={self.c}, delta={self.delta}, B={self.B})"

    def losses(self, t: int, actions: NDArray[np.integer[Any]]) -> FloatArray:
        """Return the losses of round ``t`` after the given actions."""
        out = np.full(self.K, self.c + self.delta)
        if t >= self.B and (actions[t - self.B : t] == actions[t - 1]).all():
            out[actions[t - 1]] = self.c
        return out

    def played(self, paths: ArrayLike) -> FloatArray:
        """Return the losses suffered along paths of shape ``(T,)`` or ``(replicates, T)``."""
        return np.where(rounds_since_switch(paths) < self.B, self.c + self.delta, self.c)

    def realise(self, path: ArrayLike) -> FloatArray:
        """Return the losses of all experts along one complete path, shape ``(T, K)``."""
        actions = check_path(path, self.K)
        check_size(actions.size * self.K, MOST_CELLS, "losses")
        out = np.full((actions.size, self.K), self.c + self.delta)
        settled = np.flatnonzero(rounds_since_switch(actions)[:-1] >= self.B - 1) + 1
        out[settled, actions[settled - 1]] = self.c
        return out


@checked
def adaptive_switch_tax(
    rounds: int, alpha: float, K: int, c: float, delta: float, random_state: RandomState = None
) -> Instance:
    """Coin-flip primary losses and a secondary loss that taxes switching (Theorem 9.3).

    The primary loss of every expert is a fair coin per epoch of ``B = round(T**alpha)`` rounds;
    the secondary loss is a ``SwitchTax``. Lower bound: ``bounds.switch_tax``.

    Parameters
    ----------
    rounds:
        Number of rounds.
    alpha:
        Exponent of the epoch length.
    K:
        Number of experts, at least 2.
    c:
        Rate.
    delta:
        Tax, with ``c + delta <= 1``.
    random_state:
        Seed of the coins.

    Examples
    --------
    >>> game = adaptive_switch_tax(rounds=400, alpha=0.5, K=3, c=0.2, delta=0.5, random_state=0)
    >>> game.l2
    SwitchTax(K=3, c=0.2, delta=0.5, B=20)
    """
    check_game_size(rounds, K)
    rounds, experts = check_positive_int(rounds, "rounds"), check_int(K, "K", low=2)
    B = max(1, round(rounds ** check_fraction(alpha, "alpha")))
    tax = SwitchTax(experts, c, delta, B)
    coins = generator(random_state).integers(0, 2, size=(-(-rounds // B), experts))
    l1 = np.repeat(coins.astype(np.float64), B, axis=0)[:rounds]
    return Instance(l1, tax, c, delta, alpha, {"B": B})


@checked
def cumulative_trap(
    rounds: int, alpha: float, c: float, world: int, random_state: RandomState = None
) -> Instance:
    """A trap for learners that only look at cumulative losses (Theorem 9.5); ``delta = 1/2``.

    World 0 alternates between the experts; world ``w >= 1`` has random losses first, arranged so
    that both experts have the cumulative losses of world 0 when interval ``w`` begins.

    Parameters
    ----------
    rounds:
        Rounds; shortened to a multiple of the interval length ``T**((1+alpha)/2)``.
    alpha:
        Exponent of the burst budget.
    c:
        Rate.
    world:
        0, or the number of an interval.
    random_state:
        Seed of the random part of worlds 1, 2, ...

    Returns
    -------
    Instance
        ``meta`` has the interval length, the number of intervals, the probability of the world and
        whether the cumulative losses could be matched (``good_event``).

    Examples
    --------
    >>> game = cumulative_trap(rounds=100_000, alpha=0.8, c=0.5, world=2, random_state=0)
    >>> M = game.meta["interval"]
    >>> game.meta["intervals"], game.l1[:M].sum(axis=0).tolist() == [M / 2, M / 2]
    (3, True)
    """
    check_game_size(rounds, 2)
    delta, rate = 0.5, check_fraction(c, "c")
    beta = (1 + check_fraction(alpha, "alpha")) / 2
    interval = 2 * max(1, round(check_positive_int(rounds, "rounds") ** beta / 2))
    n = rounds // interval
    if n < 1:
        raise InvalidInputError(
            f"rounds={rounds} is shorter than one interval of {interval} rounds"
        )
    rounds, number = n * interval, check_int(world, "world", low=0, high=n)
    x = delta * rounds ** (alpha - beta)
    if x > min(rate, 1 - rate):
        raise InvalidInputError(
            f"rounds={rounds} is too small: the swing {x:.3g} exceeds min(c, 1-c)"
        )
    l1, l2 = _trap_world_zero(n, interval, rate, x)
    good = True
    if number:
        good = _rewrite_past(l1, (number - 1) * interval, generator(random_state))
        l1[(number - 1) * interval + interval // 2 :] = 1.0
    meta = {
        "world": number,
        "interval": interval,
        "intervals": n,
        "beta": beta,
        "probability": 0.5 if number == 0 else 0.5 / n,
        "good_event": good,
    }
    return Instance(l1, l2, rate, delta, alpha, meta)


def _trap_world_zero(n: int, interval: int, c: float, x: float) -> tuple[FloatArray, FloatArray]:
    half = interval // 2
    l1 = np.concatenate([np.tile([0.0, 1.0], (half, 1)), np.tile([1.0, 0.0], (half, 1))])
    l2 = np.concatenate([np.tile([c + x, c - x], (half, 1)), np.full((half, 2), c)])
    odd_even = [(l1, l2), (l1[:, ::-1], l2[:, ::-1])]
    parts = [odd_even[i % 2] for i in range(n)]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _rewrite_past(l1: FloatArray, M: int, rng: np.random.Generator) -> bool:
    """Replace the first ``M`` rounds by coins and a window that brings both sums to ``M / 2``."""
    window = 2 * round(math.sqrt(M * math.log(len(l1))))
    coins = M - window
    if coins < 0:
        raise InvalidInputError("rounds is too small: the window does not fit before the interval")
    l1[:coins] = rng.integers(0, 2, size=(coins, 2))
    sums = l1[:coins].sum(axis=0)
    good = bool((np.abs(sums - coins / 2) <= window / 2).all())
    if good:
        ones = M // 2 - sums
        l1[coins:M] = np.arange(window)[:, None] < ones
    else:
        l1[coins:M] = 1.0
    return good


@checked
def deactivation_ladder(
    rounds: int, alpha: float, K: int, c: float = 0.2, delta: float = 0.5
) -> Instance:
    """The best expert is switched off again and again (Theorem 9.7).

    Expert ``k = 1..K`` is perfect from round ``T_{k-1}`` on and switched off exactly in round
    ``T_k``. Every learner with small sleeping regret suffers about ``K`` burst budgets:
    ``bounds.ladder_secondary``, ``bounds.ladder_target``.

    Parameters
    ----------
    rounds:
        Number of rounds.
    alpha:
        Exponent of the burst budget.
    K:
        Number of experts, at least 2.
    c:
        Rate.
    delta:
        Factor of the burst budget ``delta * T**alpha``.

    Examples
    --------
    >>> game = deactivation_ladder(rounds=2**14, alpha=0.3, K=4)
    >>> game.meta["times"], round(game.meta["ratio"], 2)
    ((18, 177, 1702, 16384), 9.62)
    """
    check_game_size(rounds, K)
    rounds, experts = check_positive_int(rounds, "rounds"), check_int(K, "K", low=2)
    rate, exponent = check_fraction(c, "c"), check_fraction(alpha, "alpha")
    ratio = rounds ** ((1 - exponent) / (experts - 1))
    if ratio <= 2:
        raise InvalidInputError(
            f"the ladder needs T**((1-alpha)/(K-1)) > 2, got {ratio:.3g}; take fewer experts"
        )
    budget = check_fraction(delta, "delta") * rounds**exponent
    powers = exponent + np.arange(experts) * (1 - exponent) / (experts - 1)
    times = np.array([round(rounds**p) for p in powers])
    lengths = np.diff(times, prepend=0)
    excess = budget / (lengths - 0.5)  # the half makes the oracle fire in round T_k exactly
    excess[-1] = budget / lengths[-1]
    if rate + excess.max() > 1:
        raise InvalidInputError(f"secondary losses would reach {rate + excess.max():.3g} > 1")
    started = np.arange(rounds)[:, None] >= (times - lengths)[None, :]
    l1, l2 = np.where(started, 0.0, 1.0), np.where(started, rate + excess, rate)
    meta = {
        "times": tuple(times.tolist()),
        "lengths": tuple(lengths.tolist()),
        "excess": tuple(excess.tolist()),
        "ratio": check_real(ratio, "ratio"),
    }
    return Instance(l1, l2, rate, delta, exponent, meta)
