"""The audit's mathematics: a martingale, its side condition, and how many checks it takes."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb, log

import numpy as np
import pytest

from counterplay.core.audit import (
    allowed_wrong,
    fewest_checks,
    is_rejected,
    is_too_bad,
    log_evidence,
    most_wrong,
)

CASES = [(600, 31), (600, 40), (200, 12), (2000, 110), (2000, 300)]


def false_certificates(population: int, wrong: int, runs: int, *, side: bool = True) -> float:
    """Share of runs in which more than 5 % wrong labels are certified at some time.

    Without the side condition the number to refute may also be refuted for being too small.
    """
    rng = np.random.default_rng(population + wrong)
    bad = np.arange(population) < wrong
    allowed = allowed_wrong(population, 0.05)
    found = 0
    for _ in range(runs):
        counts = np.cumsum(bad[rng.permutation(population)])
        t = np.arange(1, population + 1)
        m = allowed + counts + 1  # wrong labels that are found are corrected
        inside = m <= population - (t - counts)
        from scipy.special import betaln, gammaln

        def choose(n: np.ndarray, k: np.ndarray) -> np.ndarray:
            return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

        with np.errstate(invalid="ignore"):
            value = betaln(0.5 + counts, 50 + t - counts) - betaln(0.5, 50)
            value -= choose(population - t, m - counts) - choose(np.full_like(t, population), m)
            stop = ~inside | (value >= log(20))
        if side:
            stop &= ~inside | (m * t > counts * population)
        first = int(np.argmax(stop))
        # what remains wrong when it stops
        found += wrong - counts[first] > allowed
    return found / runs


@pytest.mark.claim("24.05")
@pytest.mark.parametrize(("population", "wrong"), CASES)
def test_false_certificates_are_at_most_alpha(population: int, wrong: int) -> None:
    share = false_certificates(population, wrong, 1000)
    assert share <= 0.05 + 3 * (0.05 * 0.95 / 1000) ** 0.5


def test_the_simulation_is_that_of_the_public_functions() -> None:
    rng = np.random.default_rng(5)
    bad = np.arange(200) < 12
    counts = np.cumsum(bad[rng.permutation(200)])
    for t in range(1, 200, 7):
        k, m = int(counts[t - 1]), 10 + int(counts[t - 1]) + 1
        if m <= 200 - (t - k):
            expected = m * t > k * 200 and log_evidence(m, 200, t, k, 0.05) >= log(20)
            assert is_rejected(m, 200, t, k, 0.05, 0.05) == expected


@pytest.mark.claim("24.06")
def test_side_condition_is_essential() -> None:
    assert false_certificates(2000, 300, 200, side=False) > 0.5
    assert false_certificates(2000, 300, 200) <= 0.05
    # 45 of 300 checked are wrong: far above 5 %, and 146 is refuted only for being too small
    assert log_evidence(146, 2000, 300, 45, 0.05) >= log(20)
    assert not is_rejected(146, 2000, 300, 45, 0.05, 0.05)
    assert is_too_bad(100, 2000, 300, 45, 0.05, 0.05)


def mixture(t: int, k: int) -> Fraction:
    """Probability of one sequence with k wrong of t under Beta(1/2, 50), by recursion."""
    value = Fraction(1)
    a, b = Fraction(1, 2), Fraction(50)
    for j in range(t):
        value *= (a + j if j < k else b + j - k) / (a + b + j)
    return value


@pytest.mark.claim("24.07")
def test_evidence_is_a_martingale_with_mean_one() -> None:
    n = 8
    for m in range(n + 1):
        for t in range(n + 1):
            total = Fraction(0)
            for places in combinations(range(n), m):  # where the wrong labels are in the order
                k = sum(place < t for place in places)
                likelihood = Fraction(comb(n - t, m - k), comb(n, m))
                evidence = mixture(t, k) / likelihood
                assert float(log_evidence(m, n, t, k, 0.05)) == pytest.approx(
                    log(evidence), abs=1e-9
                )
                total += evidence * Fraction(1, comb(n, m))
            # sequences that cannot occur under m have no weight: at most 1, and 1 if none is left
            assert total <= 1
            reachable = min(t, n - t) <= min(m, n - m) and t <= min(m, n - m)
            if reachable:
                assert total == 1


@pytest.mark.claim("24.07")
def test_bound_is_monotone_in_what_is_seen() -> None:
    for wrong in (0, 3):
        bounds = [most_wrong(500, t, min(wrong, t), 0.05, 0.05) for t in range(wrong, 501)]
        assert bounds[-1] == wrong
        right_only = bounds if wrong == 0 else bounds[5:]
        assert all(a >= b for a, b in zip(right_only, right_only[1:]))
    brute = max(m for m in range(501) if not is_rejected(m, 500, 60, 2, 0.05, 0.05))
    assert most_wrong(500, 60, 2, 0.05, 0.05) == brute


@pytest.mark.claim("24.08")
def test_fewest_checks() -> None:
    sizes = (200, 600, 2000, 10**6)
    assert [fewest_checks(n) for n in sizes] == [52, 61, 65, 67]
    assert [fewest_checks(n, alpha=0.025) for n in sizes] == [61, 74, 79, 82]
    assert [fewest_checks(n, alpha=0.025, wrong=1) for n in (189, 590, 2000)] == [94, 124, 137]
