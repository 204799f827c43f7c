"""Drift, carry-over and offers that follow the calendar."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.principal import fit_game
from counterplay.principal.offer_checks import permutation_test


@pytest.mark.claim("25.29")
def test_permutation_checks_keep_their_level_and_see_a_drift():
    """A drift of one standard deviation from the first to the last of 200 rows."""
    rng, false, seen = np.random.default_rng(0), 0, 0
    strata, time = np.tile(np.arange(4), 50), np.arange(200.0)
    for _ in range(100):  # 500 in the study
        false += permutation_test(rng.lognormal(0, 0.6, 200), time, strata, rng)[1] <= 0.05
    for _ in range(40):
        x = rng.standard_normal(200) + np.linspace(-0.5, 0.5, 200)
        seen += permutation_test(x, time, strata, rng)[1] <= 0.05
    assert false <= 12  # 5 expected of 100
    assert seen >= 36  # .95 is the bar of the study


def rows(seed, n=200):
    rng = np.random.default_rng(seed)
    share = rng.choice([0.1, 0.3, 0.5], n)
    return rng, share, np.where(share < 0.2, 100.0, 300.0)


def verdicts(share, revenue, time, **options):
    log = {"offer": share, "outcome": revenue, "day": time, **options.pop("columns", {})}
    return fit_game(log, time="day", **options).checks().set_index("check")["verdict"]


def test_each_check_finds_its_own_defect():
    rng, share, mean = rows(1)
    noise = rng.lognormal(-0.02, 0.2, 200)
    day = np.arange(200)
    assert set(verdicts(share, mean * noise, day)[1:]) == {"not found"}
    drift = verdicts(share, mean * noise * np.linspace(0.7, 1.3, 200), day)
    assert drift["drift"] == "found"
    before = np.append(0.3, share[:-1])
    carry = verdicts(share, mean * noise * (1 - 0.6 * (before - 0.3)), day)
    assert carry["carry-over"] == "found"
    ordered = np.sort(share)
    follow = verdicts(ordered, np.where(ordered < 0.2, 100.0, 300.0) * noise, day)
    assert follow["offers follow time"] == "found"


def test_carry_over_is_within_an_agent():
    rng, share, mean = rows(2)
    agent = np.repeat(np.arange(20), 10)
    before = np.append(0.3, share[:-1])
    before[::10] = 0.3
    revenue = mean * rng.lognormal(-0.02, 0.1, 200) * (1 - 0.6 * (before - 0.3))
    day = np.tile(np.arange(10), 20)
    found = verdicts(share, revenue, day, columns={"who": agent}, agent="who")
    assert found["carry-over"] == "found"


def test_long_logs_use_the_normal_limit():
    rng = np.random.default_rng(3)
    strata = rng.integers(0, 5, 6000)
    x, time = rng.standard_normal(6000), np.arange(6000.0)
    exact = permutation_test(x[:5000], time[:5000], strata[:5000], rng)[1]
    assert 0 < exact <= 1
    assert permutation_test(x + time / 20_000, time, strata, rng)[1] < 0.01
    assert permutation_test(np.ones(50), time[:50], strata[:50], rng) == (0.0, 1.0)


def test_drift_keeps_the_planner_at_tried_offers():
    rng, share, mean = rows(4)
    revenue = mean * rng.lognormal(-0.02, 0.2, 200)
    day = np.arange(200)
    calm = fit_game({"offer": share, "outcome": revenue, "day": day}, time="day")
    assert calm.planner(10).settings.explore
    restless = {"offer": share, "outcome": revenue * np.linspace(0.6, 1.4, 200), "day": day}
    assert not fit_game(restless, time="day").planner(10).settings.explore
