"""PAC games: the cycle and finite classes."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import ceil, log

import numpy as np
import pytest

from counterplay.contribution import (
    CoverageGame,
    TabularGame,
    bounds,
    instances,
)
from counterplay.contribution.lab import (
    CyclePACGame,
    FiniteClassPACGame,
    sample_cycle,
    samples_needed,
    well_behaved_report,
)
from counterplay.errors import InfeasibleError, InvalidInputError


@pytest.mark.claim("04.23")
def test_simple_cycle() -> None:
    table = TabularGame.from_game(instances.simple_cycle())
    assert int(table.feasible.sum()) == 4
    assert int(table.stable.sum()) == 0
    cheapest, fair = table.cheapest(table.feasible), table.cheapest(table.envy_free)
    assert cheapest is not None
    assert cheapest.sum() == 2
    assert fair is not None
    assert fair.sum() == 3


def stable_plans(d: int, mu: Fraction, top: int) -> list[tuple[int, int, int]]:
    """Exhaustive search with exact rationals, straight from the definition."""
    utility = [1 - Fraction(d - 1, d) ** s / 2 for s in range(2 * top + 1)]
    found = []
    for theta in product(range(top + 1), repeat=3):
        reach = [utility[theta[i] + theta[i - 1]] >= mu for i in range(3)]
        if not all(reach):
            continue
        lower = any(utility[x + theta[i - 1]] >= mu for i in range(3) for x in range(theta[i]))
        if not lower:
            found.append(theta)
    return found


@pytest.mark.claim("04.23")
@pytest.mark.parametrize("d", range(2, 13))
def test_parity_decides_existence(d: int) -> None:
    for m in range(1, 10):
        mu = 1 - Fraction(d - 1, d) ** m / 2
        game = CyclePACGame(d, mu)
        assert game.samples_needed == m
        found = stable_plans(d, mu, m + 2)
        assert len(found) == bounds.cycle_equilibria(m)
        assert found == ([] if m % 2 else [(m // 2,) * 3])
        assert game.next_odd().samples_needed == (m if m % 2 else m + 1)
        table = TabularGame.from_game(game, [np.arange(m + 3)] * 3)
        assert [tuple(p) for p in table.points[table.stable.ravel()]] == found


@pytest.mark.claim("04.23")
@pytest.mark.parametrize(
    ("d", "mu", "m"),
    [(2, "3/4", 1), (3, "4/5", 3), (3, "7/9", 2), (5, "9/10", 8), (10, "19/20", 22)],
)
def test_worked_targets(d: int, mu: str, m: int) -> None:
    expected = [] if m % 2 else [(m // 2,) * 3]
    assert stable_plans(d, Fraction(mu), m + 2) == expected
    assert CyclePACGame(d, mu).samples_needed == m
    assert CyclePACGame(d, float(Fraction(mu))).samples_needed == m


@pytest.mark.claim("04.24")
def test_samples_needed_is_exact_where_logarithms_are_not() -> None:
    wrong = 0
    for d in range(2, 40):
        for m in range(1, 30):
            mu = 1 - Fraction(d - 1, d) ** m / 2
            assert samples_needed(mu, d) == m
            assert samples_needed(float(mu), d) == m
            above = mu + Fraction(1, 10**12)
            assert samples_needed(above, d) == m + 1
            wrong += ceil(log(2 * (1 - float(mu))) / log(1 - 1 / d)) != m
    assert wrong > 300  # the formula fails on a large part of these 1102 targets


def test_bad_targets() -> None:
    with pytest.raises(InfeasibleError, match="sup of u_0 is 1"):
        CyclePACGame(3, 1)
    with pytest.raises(InvalidInputError, match="7/9"):
        CyclePACGame(3, "seven")
    assert CyclePACGame(1, 1, upper=1).samples_needed == 1


def test_simulation_of_the_cycle() -> None:
    accuracy = sample_cycle(3, [2, 1, 0], 7, draws=40_000)
    error = accuracy.std(axis=0, ddof=1) / np.sqrt(len(accuracy))
    assert (abs(accuracy.mean(axis=0) - [7 / 9, 23 / 27, 2 / 3]) <= 4 * error).all()
    game = CyclePACGame(3, "4/5", integral=False)
    real = sample_cycle(3, [1.5, 0.25, 2.0], 8, draws=40_000)
    error = real.std(axis=0, ddof=1) / np.sqrt(len(real))
    assert (abs(real.mean(axis=0) - game.utilities([1.5, 0.25, 2.0])) <= 4 * error).all()


@pytest.mark.claim("04.25")
@pytest.mark.parametrize("n", [2, 4, 6])
def test_all_labelings_give_the_coverage_game(n: int) -> None:
    rng = np.random.default_rng(n)
    H = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    Q = rng.dirichlet(np.ones(n), size=3)
    pac = FiniteClassPACGame(H, None, Q, 0.8)
    coverage = CoverageGame(Q, 0.8)
    theta = rng.random((20, 3)) * 5
    assert pac.utilities(theta) == pytest.approx(coverage.utilities(theta), abs=1e-10)
    assert pac.best_response_map(theta[0]) == pytest.approx(
        coverage.best_response_map(theta[0]), abs=1e-8
    )


@pytest.mark.claim("04.25")
def test_finite_class_of_core_brings_its_prior() -> None:
    from counterplay.core.finite_class import FiniteClass

    everything = FiniteClass.all_labelings(3)
    Q = np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]])
    theta = [1.5, 0.25]
    pac = FiniteClassPACGame(everything, None, Q, 0.8)
    assert pac.utilities(theta) == pytest.approx(CoverageGame(Q, 0.8).utilities(theta), abs=1e-12)
    tilted = everything.with_weights(np.arange(1.0, 9.0))
    weighted = FiniteClassPACGame(tilted, None, Q, 0.8)
    by_hand = FiniteClassPACGame(tilted.labels, np.arange(1.0, 9.0) / 36, Q, 0.8)
    assert weighted.utilities(theta) == pytest.approx(by_hand.utilities(theta), abs=1e-15)


@pytest.mark.claim("04.25")
def test_knowing_the_class_helps() -> None:
    game = FiniteClassPACGame([[0, 0], [1, 1]], None, [[1, 0], [0, 1]], 1.0)
    assert game.utilities([1, 0]).tolist() == [1.0, 1.0]
    assert game.utilities([0, 0]).tolist() == [0.5, 0.5]
    assert game.utilities([0.5, 0]).tolist() == [0.75, 0.75]


def test_finite_class_monte_carlo() -> None:
    rng = np.random.default_rng(3)
    H = rng.integers(0, 2, size=(6, 4))
    prior = rng.dirichlet(np.ones(6))
    Q = rng.dirichlet(np.ones(4), size=2)
    game = FiniteClassPACGame(H, prior, Q, 0.6)
    counts = (2, 1)
    hits = []
    for _ in range(6000):
        truth = H[rng.choice(6, p=prior)]
        seen = np.concatenate([rng.choice(4, size=m, p=q) for m, q in zip(counts, Q)])
        alive = (H[:, seen] == truth[seen]).all(axis=1) * prior
        vote = (alive @ H) >= alive.sum() / 2
        hits.append(Q @ (vote == truth))
    error = np.std(hits, axis=0, ddof=1) / np.sqrt(len(hits))
    assert (abs(np.mean(hits, axis=0) - game.utilities(counts)) <= 4 * error).all()


@pytest.mark.claim("04.26")
@pytest.mark.parametrize("corner", [0.0, 0.25, 0.5, 0.999, 1.0])
def test_real_cycle_constants(corner: float) -> None:
    game = CyclePACGame(1, 0.9, integral=False, upper=1)
    report = well_behaved_report(game, corner)
    assert report.exact
    assert report.c2 == pytest.approx((1 - corner) / 2, abs=1e-15)
    assert report.is_well_behaved is (corner < 1)
    rng = np.random.default_rng(0)
    theta = rng.random((200, 3)) * corner * 0.999
    h = 1e-7
    for i in range(3):
        moved = theta.copy()
        moved[:, i] += h
        slope = (game.utilities(moved)[:, i] - game.utilities(theta)[:, i]) / h
        assert (slope >= report.c2[i] - 1e-6).all()
