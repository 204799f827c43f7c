"""Intervals cover as promised, computed from exact distributions."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from counterplay.core import stats
from counterplay.errors import InvalidInputError


@pytest.mark.parametrize(("n", "p"), [(10, 0.1), (25, 0.5), (60, 0.9)])
def test_clopper_pearson_covers(n: int, p: float) -> None:
    weights = scipy_stats.binom.pmf(np.arange(n + 1), n, p)
    covered = sum(w for k, w in enumerate(weights) if p in stats.clopper_pearson(k, n, 0.9))
    assert covered >= 0.9


def test_clopper_pearson_ends() -> None:
    none, all_ = stats.clopper_pearson(0, 20), stats.clopper_pearson(20, 20)
    assert none.low == 0.0
    assert all_.high == 1.0
    assert none.high == pytest.approx(1 - 0.025 ** (1 / 20))
    assert all_.low == pytest.approx(0.025 ** (1 / 20))
    interval = stats.clopper_pearson(3, 10)
    reference = scipy_stats.binomtest(3, 10).proportion_ci(0.95, "exact")
    assert (interval.low, interval.high) == pytest.approx((reference.low, reference.high))
    assert interval.confidence == 0.95
    assert str(interval).startswith("0.3 [")


def test_binomial_p_values() -> None:
    assert stats.binomial_p_value(10, 10, 0.5, "greater") == pytest.approx(2**-10)
    assert stats.binomial_p_value(5, 10, 0.5) == pytest.approx(1.0)
    assert stats.binomial_p_value(0, 4, 0.5, "less") == pytest.approx(1 / 16)


def test_mean_interval() -> None:
    interval = stats.mean_interval([1.0, 2.0, 3.0, 4.0], 0.9)
    half = scipy_stats.t.ppf(0.95, 3) * np.sqrt(5 / 3) / 2
    assert interval.estimate == 2.5
    assert interval.high - 2.5 == pytest.approx(half)
    assert 2.5 - interval.low == pytest.approx(half)
    rng = np.random.default_rng(0)
    hits = sum(0.0 in stats.mean_interval(rng.normal(size=8)) for _ in range(400))
    assert 0.95 in stats.clopper_pearson(hits, 400, 0.999)


def test_loglog_slope() -> None:
    x = np.array([1.0, 2, 4, 8, 16])
    exact = stats.loglog_slope(x, 5 * x**-0.5)
    assert exact.estimate == pytest.approx(-0.5)
    assert exact.high - exact.low < 1e-9
    noisy = stats.loglog_slope(x, x**2 * np.exp([0.1, -0.1, 0.05, 0, -0.05]))
    assert 2.0 in noisy
    level = stats.loglog_slope([1, 2, 3], [5, 5, 5])
    assert (level.estimate, level.low, level.high) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: stats.clopper_pearson(3, 2),
        lambda: stats.clopper_pearson(0, 0),
        lambda: stats.clopper_pearson(1, 2, 1.0),
        lambda: stats.mean_interval([1.0]),
        lambda: stats.loglog_slope([1, 2], [1, 2]),
        lambda: stats.loglog_slope([1, 2, 3], [1, 2, 0]),
        lambda: stats.loglog_slope([1, 2, 3], [1, 2]),
        lambda: stats.loglog_slope([2, 2, 2], [1, 2, 3]),
    ],
)
def test_bad_input(call: object) -> None:
    with pytest.raises(InvalidInputError):
        call()  # type: ignore[operator]  # a function
