"""Equilibria of a data-sharing game of two parties: packages for matrix games beside our plan.

    python benchmarks/bench_two_players.py

Each party brings a share of its data, in steps of one percent of the largest share that is ever
needed; whoever stays below the target loses more than any data cost. That is a game of two matrices
for nashpy and quantecon. The stable plan of this library needs no grid. A package that is not
installed, or whose answer is no equilibrium, is left out with the reason.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from ledger import compare, in_turns, skipped

from counterplay.contribution import LinearGame
from counterplay.contribution.lab import optimal_stable_linear

STEPS, HELP, TURNS = 100, 0.5, 5
Payoffs = tuple[np.ndarray, np.ndarray]


def matrices() -> tuple[np.ndarray, Payoffs]:
    """The levels that a party can choose, and the payoffs of both parties."""
    level = np.arange(STEPS) / (STEPS - 1)
    mine, other = np.meshgrid(level, level, indexing="ij")
    payoff = -mine - 10.0 * (mine + HELP * other < 1 - 1e-9)
    return level, (payoff, payoff.T)


def by_quantecon(payoffs: Payoffs) -> list[tuple[int, int]]:
    """All pure equilibria, by comparing every pair."""
    from quantecon.game_theory import NormalFormGame, Player, pure_nash_brute

    first, second = payoffs
    return list(pure_nash_brute(NormalFormGame((Player(first), Player(second.T)))))


def by_nashpy(payoffs: Payoffs) -> list[tuple[int, int]]:
    """One equilibrium, by Lemke and Howson."""
    import nashpy

    with np.errstate(all="ignore"):  # its tableau overflows; what it returns is checked
        first, second = nashpy.Game(*payoffs).lemke_howson(initial_dropped_label=0)
    return [(int(first.argmax()), int(second.argmax()))]


def stable(payoffs: Payoffs, row: int, column: int) -> bool:
    """Whether neither party gains by another level."""
    first, second = payoffs
    best = first[:, column].max(), second[row].max()
    return bool(first[row, column] >= best[0] - 1e-9 and second[row, column] >= best[1] - 1e-9)


PEERS: dict[str, tuple[str, Callable[[Payoffs], list[tuple[int, int]]]]] = {
    "quantecon": ("all pure equilibria", by_quantecon),
    "nashpy": ("one equilibrium by Lemke and Howson", by_nashpy),
}


def main() -> None:
    """Compare the cheapest stable plan with the cheapest equilibrium of the grid."""
    level, payoffs = matrices()
    what = f"cheapest stable plan of two parties, a grid of {STEPS} x {STEPS} for the others"
    matrix = np.array([[1.0, HELP], [HELP, 1.0]])
    optimal_stable_linear(LinearGame(matrix, 1.0))  # compile
    for name, (said, solve) in PEERS.items():
        try:
            wrong = [pair for pair in solve(payoffs) if not stable(payoffs, *pair)]
        except ImportError:
            skipped("contribution", what, f"{name} is not installed")
            continue
        if wrong:
            skipped("contribution", what, f"what {name} returns is no equilibrium")
            continue
        ours, theirs = in_turns(
            lambda: optimal_stable_linear(LinearGame(matrix, 1.0)),
            lambda solve=solve: solve(payoffs),
            TURNS,
        )
        least = min(level[row] + level[column] for row, column in theirs.result)
        compare("contribution", what, ours, theirs, against=said, package=name,
                note=f"totals {ours.result.total:.4f} and {least:.4f}")  # fmt: skip


if __name__ == "__main__":
    main()
