"""The bet against one preference: its factors, and why it must be truncated."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.elicitation import AtMost
from counterplay.elicitation.lab import bet_factor
from counterplay.elicitation.slips import bet_levels
from counterplay.errors import InvalidInputError


@pytest.mark.claim("26.01")
def test_factors_are_those_of_the_theorem() -> None:
    assert bet_factor(0.5, True, 0.1) == pytest.approx(5.0)
    assert bet_factor(0.5, False, 0.1) == pytest.approx(0.5556, abs=1e-4)
    forecast = (0.4, 0.3, 0.2, 0.1)
    assert bet_factor(forecast[0], False, 0.1) == pytest.approx(0.4444, abs=1e-4)
    assert bet_factor(forecast[3], True, 0.1) == 1.0
    assert bet_factor(0.95, False, 0.1) == 1.0
    assert bet_factor(0.5, True, 0.1, close=True) == bet_factor(0.5, False, 0.1, close=True) == 1.0


@pytest.mark.claim("26.01")
@pytest.mark.parametrize("p", [0.03, 0.5, 0.97])
def test_levels_of_the_search_are_the_same_factors(p: float) -> None:
    pair = np.exp(bet_levels(p, 0.1, True))
    close = [bet_factor(p, wrong, 0.1, close=True) for wrong in (False, True)]
    clear = [bet_factor(p, wrong, 0.1) for wrong in (False, True)]
    assert pair == pytest.approx([clear[0], *close, clear[1]])
    assert np.exp(bet_levels(p, 0.1, False)) == pytest.approx([clear[0]] * 3 + [clear[1]])


@pytest.mark.claim("26.02")
def test_the_expected_factor_is_at_most_one() -> None:
    """Every size, bound, forecast, set of worse options and way of answering within the bound."""
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(2000):
        m, q = int(rng.integers(2, 6)), rng.uniform(0.005, 0.45)
        forecast = rng.dirichlet(np.full(m, rng.choice([0.2, 1.0, 5.0]))).clip(1e-9)
        forecast /= forecast.sum()
        worse = rng.random(m) < 0.5
        worse[rng.integers(m)] = False  # the best option is never worse
        wrong = rng.uniform(0, q) * (rng.random() < 0.8) if worse.any() else 0.0
        answer = np.where(worse, rng.random(m), 0.0)
        answer *= wrong / max(answer.sum(), 1e-300)
        rest = np.where(worse, 0.0, rng.random(m) ** rng.choice([1, 20]))
        answer += rest * (1 - answer.sum()) / rest.sum()
        factors = [bet_factor(float(p), bool(bad), q) for p, bad in zip(forecast, worse)]
        largest = max(largest, float(answer @ np.array(factors)))
    assert largest <= 1 + 1e-12


@pytest.mark.claim("26.02")
def test_the_plain_likelihood_ratio_is_no_bet() -> None:
    """Nobody may be rewarded for a person who errs less than the bound: here 0 of 10 %."""
    assert pytest.approx(1.056, abs=1e-3) == 0.95 / (1 - 0.1)
    assert bet_factor(0.95, False, 0.1) == 1.0


@pytest.mark.parametrize("rate", [0.5, 0.9, -0.1, (), (0.2, 0.1)])
def test_impossible_bounds_are_refused(rate: float | tuple[float, ...]) -> None:
    with pytest.raises(InvalidInputError, match=r"below 0\.5|rise|at least one"):
        AtMost(rate)
