"""Streams that show one effect each, for tests and figures.

Source: docs/theory/09-tradeoff.md, Theorems 9.6 and 9.8 (measured).
"""

from __future__ import annotations

import math

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import (
    FloatArray,
    check_fraction,
    check_int,
    check_positive_int,
    check_real,
    check_size,
)
from counterplay.errors import InvalidInputError
from counterplay.tradeoff.model import EpochGrid, Instance, check_game_size


@checked
def calm(
    rounds: int,
    alpha: float,
    K: int,
    c: float = 0.2,
    delta: float = 0.5,
    random_state: RandomState = None,
) -> Instance:
    """Nobody misbehaves: expert 0 errs with probability .4 per epoch, the others with .5.

    Examples
    --------
    >>> game = calm(rounds=10_000, alpha=0.5, K=3, random_state=0)
    >>> game.l1.mean(axis=0).tolist(), float(game.l2.max())
    ([0.3, 0.46, 0.46], 0.2)
    """
    check_game_size(rounds, K)
    grid = EpochGrid.from_rule(rounds, "thesis", alpha=alpha)
    chance = np.where(np.arange(check_positive_int(K, "K")) == 0, 0.4, 0.5)
    errs = generator(random_state).random((grid.E, K)) < chance
    l1 = np.repeat(errs.astype(np.float64), grid.B, axis=0)[:rounds]
    return Instance(
        l1, np.full((rounds, K), check_fraction(c, "c")), c, delta, alpha, {"B": grid.B}
    )


@checked
def burst(
    rounds: int, alpha: float, K: int, N: int = 3, c: float = 0.2, delta: float = 0.5
) -> Instance:
    """The best expert misbehaves once in every segment between two resets.

    Expert 0 has primary loss 0, expert 1 has 1/2, the others 1. In the middle of each of the
    ``N + 1`` segments expert 0 exceeds the rate by 0.6 for a little more than two budgets' worth
    of rounds. ``meta["resets"]`` are the reset times. A learner that forgets to restore experts
    that come back has linear sleeping regret here.

    Examples
    --------
    >>> game = burst(rounds=8192, alpha=0.4, K=4, N=3)
    >>> game.meta["resets"]
    (0, 2072, 4107, 6142)
    """
    check_game_size(rounds, K)
    grid = EpochGrid.from_rule(rounds, "thesis", alpha=alpha)
    rate, experts = check_fraction(c, "c"), check_int(K, "K", low=2)
    budget = check_fraction(delta, "delta") * rounds**alpha
    segments = check_int(N, "N", low=0) + 1
    check_size(segments, rounds, "segments for these rounds")
    if rate > 0.4:
        raise InvalidInputError(f"c must be at most 0.4, got {rate:g}")
    resets = grid.B * np.round(np.arange(segments) * grid.E / segments).astype(int)
    length = math.ceil(2 * budget + 2)
    if np.diff(resets, append=rounds).min() < 2 * length + 2 * grid.B:
        raise InvalidInputError(f"{segments} segments are too short for bursts of {length} rounds")
    l1 = np.ones((rounds, experts))
    l1[:, 0], l1[:, 1] = 0.0, 0.5
    l2 = np.full((rounds, experts), rate)
    for start, end in zip(resets, np.append(resets[1:], rounds)):
        middle = (start + end) // 2
        l2[middle : middle + length, 0] = rate + 0.6
    return Instance(l1, l2, rate, delta, alpha, {"resets": tuple(resets.tolist()), "B": grid.B})


@checked
def prefix_star(
    rounds: int, alpha: float, K: int, T_h: int, c: float = 0.2, delta: float = 0.5
) -> Instance:
    """One perfect expert that is switched off exactly in round ``T_h``; all others always err.

    Shows why a learner tuned for all rounds does not compete with an expert that lives shorter.

    Examples
    --------
    >>> game = prefix_star(rounds=4096, alpha=0.4, K=16, T_h=800)
    >>> round(float((game.l2[:800, 0] - game.c).sum() - game.threshold), 4)
    0.0087
    """
    check_game_size(rounds, K)
    rounds, experts = check_positive_int(rounds, "rounds"), check_int(K, "K", low=2)
    life = check_int(T_h, "T_h", low=1, high=rounds)
    budget = check_fraction(delta, "delta") * rounds ** check_fraction(alpha, "alpha")
    l1 = np.ones((rounds, experts))
    l1[:, 0] = 0.0
    l2 = np.full((rounds, experts), check_fraction(c, "c"))
    l2[:, 0] += _excess_until(life, budget, c)
    return Instance(l1, l2, c, delta, alpha, {"T_h": life})


@checked
def staggered(rounds: int, alpha: float, K: int, c: float = 0.2, delta: float = 0.5) -> Instance:
    """All experts but the last are useless and are switched off one by one, evenly spaced.

    Shows what restarting at every deactivation costs.

    Examples
    --------
    >>> staggered(rounds=4096, alpha=0.3, K=8).meta["times"]
    (512, 1024, 1536, 2048, 2560, 3072, 3584)
    """
    check_game_size(rounds, K)
    rounds, experts = check_positive_int(rounds, "rounds"), check_int(K, "K", low=2)
    budget = check_fraction(delta, "delta") * rounds ** check_fraction(alpha, "alpha")
    times = [round(k * rounds / experts) for k in range(1, experts)]
    l1 = np.ones((rounds, experts))
    l1[:, -1] = 0.0
    l2 = np.full((rounds, experts), check_fraction(c, "c"))
    for expert, time in enumerate(times):
        l2[:, expert] += _excess_until(time, budget, c)
    return Instance(l1, l2, c, delta, alpha, {"times": tuple(times)})


def _excess_until(last_round: int, budget: float, c: float) -> float:
    """Constant excess with which an expert is switched off exactly in the given round."""
    excess = budget / (last_round - 0.5)
    if c + excess > 1:
        raise InvalidInputError(
            f"an expert cannot be switched off as early as round {last_round}: its secondary loss "
            f"would be {c + excess:.3g} > 1"
        )
    return excess


@checked
def random_bounded(
    rounds: int, K: int, c: float, threshold: float, random_state: RandomState = None
) -> Instance:
    """Random losses whose secondary part keeps the burst budget, often exactly.

    Secondary losses are uniform, but lowered whenever the CUSUM would exceed the threshold.

    Examples
    --------
    >>> from counterplay.tradeoff import required_budget
    >>> game = random_bounded(rounds=500, K=3, c=0.3, threshold=4.0, random_state=0)
    >>> required_budget(game.l2, game.c).round(9).tolist()
    [4.0, 4.0, 4.0]
    """
    check_game_size(rounds, K)
    rng = generator(random_state)
    rounds, experts = check_positive_int(rounds, "rounds"), check_positive_int(K, "K")
    rate, budget = check_fraction(c, "c"), check_real(threshold, "threshold", low=0.0, high=rounds)
    l1, l2 = rng.random((rounds, experts)), rng.random((rounds, experts))
    level: FloatArray = np.zeros(experts)
    for t in range(rounds):
        room = budget - np.maximum(level, 0.0)
        l2[t] = np.minimum(l2[t], rate + room)
        level = np.maximum(level, 0.0) + l2[t] - rate
    if budget <= 1:
        delta, alpha = budget, 0.0
    else:
        delta, alpha = 1.0, math.log(budget) / math.log(rounds)
    return Instance(l1, l2, rate, delta, alpha, {})
