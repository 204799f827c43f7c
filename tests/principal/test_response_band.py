"""The band holds for all offers at once, tried and untried."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import InvalidInputError
from counterplay.principal.lab import random_offer_market, response_band
from counterplay.principal.offer_groups import group_rows

FINE = np.linspace(0.1, 0.5, 41)


def market_rows(seed, rows, shares=None):
    market = random_offer_market(np.random.default_rng([seed, 1]))
    rng = np.random.default_rng([seed, 2])
    s = np.sort(rng.uniform(0.1, 0.5, rows)) if shares is None else np.repeat(shares, rows)
    mean = np.array([market.response(x) for x in s])
    return market, s, mean * market.noise(rng, s.size)


def covered(market, band):
    truth = np.array([market.response(x) for x in FINE])
    low, high = band.lower(FINE), band.upper(FINE)
    return bool(((low <= truth + 1e-9) & (truth <= high + 1e-9)).all())


@pytest.mark.claim("25.05")
@pytest.mark.parametrize(("rows", "shares", "seeds"), [(20, 5, 120), (100, 5, 120), (400, 0, 40)])
def test_band_covers_all_offers_at_once(rows, shares, seeds):
    """A slice of the study: at nominal .95, fewer than .88 of 120 has probability below 1e-3."""
    tried = np.linspace(0.1, 0.5, 5) if shares else None
    hits = 0
    for seed in range(seeds):
        market, s, m = market_rows(seed, rows, tried)
        hits += covered(market, response_band(s, m))
    assert hits >= 0.88 * seeds


@pytest.mark.claim("25.05")
def test_band_covers_with_nineteen_zeros_in_twenty():
    shares, hits = np.linspace(0.1, 0.5, 5), 0
    for seed in range(100):
        market, s, m = market_rows(seed, 50, shares)
        rng = np.random.default_rng([seed, 3])
        m = m * (rng.random(m.size) < 0.05) * 20
        band = response_band(s, m)
        hits += covered(market, band)
    assert hits >= 90


@pytest.mark.claim("25.06")
@pytest.mark.parametrize("rows", [60, 400])
def test_binary_outcomes_have_exact_limits(rows):
    chances, hits = np.array([0.05, 0.2, 0.4, 0.4, 0.7]), 0
    for seed in range(500):
        rng = np.random.default_rng([rows, seed])
        at = np.repeat(np.arange(5), rows // 5)
        band = response_band(at * 0.1, (rng.random(at.size) < chances[at]) * 1.0)
        assert band.maxima is None
        s = np.arange(5) * 0.1
        hits += bool(((band.lower(s) <= chances) & (chances <= band.upper(s))).all())
    assert hits >= 0.95 * 500


@pytest.mark.claim("25.08")
def test_false_rejections_are_rare_and_a_fall_of_a_third_is_seen():
    false = seen = 0
    for seed in range(60):
        _, s, m = market_rows(seed, 60, np.linspace(0.1, 0.5, 5))
        false += not response_band(s, m).monotone
        rng = np.random.default_rng([seed, 4])
        sigma = np.sqrt(np.log(1.36))
        fallen = np.where(s < 0.25, 1.0, 0.7) * 500 * rng.lognormal(-(sigma**2) / 2, sigma, s.size)
        seen += not response_band(s, fallen).monotone
    assert false <= 3
    assert seen >= 0.7 * 60  # .80 is the bar of the study; fewer than 42 of 60 then is 1 in 30


def test_untried_offers_get_what_monotonicity_gives():
    rng = np.random.default_rng(0)
    s = np.repeat([0.1, 0.4], 100)
    band = response_band(s, rng.normal(np.where(s < 0.3, 50.0, 90.0), 10.0))
    low, high = band.lower([0.05, 0.1, 0.2, 0.4, 0.6]), band.upper([0.05, 0.1, 0.2, 0.4, 0.6])
    assert low[0] == 0.0
    assert low[2] == low[1]
    assert high[2] == high[3]
    assert high[4] == np.inf
    assert (np.diff(low) >= 0).all()
    assert (np.diff(high) >= 0).all()


def test_slack_widens_and_far_offers_still_speak():
    rng = np.random.default_rng(0)
    s = np.repeat([0.1, 0.4], 100)
    m = rng.normal(np.where(s < 0.3, 50.0, 90.0), 10.0)
    plain, loose = response_band(s, m), response_band(s, m, slack=2.0)
    grid = np.array([0.1, 0.15, 0.3, 0.4])
    assert (loose.lower(grid) <= plain.lower(grid) + 1e-9).all()
    assert (loose.upper(grid) >= plain.upper(grid) - 1e-9).all()
    assert loose.lower(0.3)[0] == pytest.approx(plain.lower(0.1)[0] - 4.0 / 0.2)
    assert loose.lower(0.1)[0] == pytest.approx(plain.lower(0.1)[0], rel=0.02)


def test_agents_with_their_own_level_widen_the_band():
    """Ten rows per agent that repeat each other are worth about one row."""
    rng, hits, naive = np.random.default_rng(5), 0, 0
    for _ in range(60):
        agent = np.repeat(np.arange(60), 10)
        s = np.repeat(np.array([0.1, 0.2, 0.3]), 200)
        level = np.exp(0.6 * rng.standard_normal(60))[agent] / np.exp(0.18)
        m = 100 * level * rng.lognormal(-0.02, 0.2, 600)
        for clusters in (agent, None):
            band = response_band(s, m, agent=clusters)
            fine = (band.lower([0.1, 0.2, 0.3]) <= 100) & (band.upper([0.1, 0.2, 0.3]) >= 100)
            hits += bool(fine.all()) and clusters is not None
            naive += bool(fine.all()) and clusters is None
    assert hits >= 50
    assert naive <= 30


def test_agents_under_several_offers_move_means_together():
    rng = np.random.default_rng(6)
    agent = np.tile(np.arange(30), 20)
    s = np.repeat([0.1, 0.2], 300)
    m = 100 * np.exp(0.6 * rng.standard_normal(30))[agent] * rng.lognormal(-0.02, 0.2, 600)
    groups = group_rows(s, m, agent=agent)
    assert not groups.is_diagonal
    correlation = groups.cov[0, 1] / np.sqrt(groups.cov[0, 0] * groups.cov[1, 1])
    assert correlation > 0.9
    assert response_band(s, m, agent=agent).monotone


def test_strata_undo_what_the_season_did():
    """High offers were made in bad months: raw means fall, within months they rise."""
    rng = np.random.default_rng(7)
    month = rng.integers(0, 4, 1200)
    high = rng.random(1200) < np.array([0.9, 0.7, 0.3, 0.1])[month]
    m = np.array([50.0, 100.0, 200.0, 300.0])[month] * np.where(high, 1.2, 1.0)
    m = m * rng.lognormal(-0.02, 0.2, 1200)
    s = np.where(high, 0.3, 0.1)
    assert not response_band(s, m).monotone
    band = response_band(s, m, stratum=month)
    assert band.monotone
    assert band.groups.mean[1] / band.groups.mean[0] == pytest.approx(1.2, abs=0.05)


def test_groups_have_enough_rows_that_differ():
    rng = np.random.default_rng(8)
    s, m = np.sort(rng.random(400)), rng.lognormal(0, 1, 400)
    groups = group_rows(s, m)
    assert groups.rows.min() >= 15
    assert groups.rows.sum() == 400
    zeros = np.where(rng.random(400) < 0.95, 0.0, m)
    rare = group_rows(s, zeros)
    off = [np.count_nonzero(zeros[rare.group == g]) for g in range(len(rare))]
    assert min(off) >= 5
    assert len(group_rows(np.sort(rng.random(5000)), rng.lognormal(0, 1, 5000))) == 40


def test_one_row_that_dominates_is_found():
    m = np.ones(60) + 0.01 * np.arange(60)
    m[3] = 500.0
    assert group_rows(np.repeat([0.1, 0.2], 30), m).dominated.tolist() == [0]


@pytest.mark.parametrize("column", ["agent", "stratum"])
def test_offers_that_nobody_took_have_no_zero_width_limits(column: str) -> None:
    """With agents or strata the limits rest on the variance, which all zeros do not have."""
    rng = np.random.default_rng(0)
    power = np.repeat([0.05, 0.1, 0.2, 0.3], 150)
    taken = np.zeros(600)
    taken[[310, 350, 400, 440, *range(460, 600, 12)]] = 1.0
    codes = {column: rng.integers(0, 20 if column == "agent" else 4, 600)}
    band = response_band(power, taken, **codes)  # type: ignore[arg-type]
    assert (band.upper([0.05, 0.1]) > 0.005).all()
    assert (band.upper([0.05, 0.1, 0.2, 0.3]) > band.lower([0.05, 0.1, 0.2, 0.3])).all()


def test_one_agent_shows_nothing_about_how_agents_differ() -> None:
    rng = np.random.default_rng(0)
    power, outcome = np.repeat([0.1, 0.2], 50), rng.gamma(2.0, 50.0, 100)
    with pytest.raises(InvalidInputError, match="all rows are of one agent"):
        response_band(power, outcome, agent=np.zeros(100, dtype=np.int64))
