"""Which rules survive a round."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterplay.errors import InvalidInputError
from counterplay.strategic import MWMR, Agents, Applicants, StrategicHalving, instances, play
from counterplay.strategic.lab import (
    DistanceTableClass,
    QuantileProbe,
    UnionSamplingLearner,
    mistake_filter,
    safe_filter,
    safe_set_filter,
)

GRID = np.arange(0.0, 8.0, 0.25)


@pytest.mark.claim("02.28")
@settings(max_examples=200, deadline=None)
@given(
    row=st.lists(st.integers(0, 6), min_size=1, max_size=8),
    rho=st.integers(0, 6),
    low=st.integers(0, 3),
    width=st.integers(0, 4),
    y=st.integers(0, 1),
    yhat=st.integers(0, 1),
)
def test_safe_filter_is_the_search_over_all_radii(
    row: list[int], rho: int, low: int, width: int, y: int, yhat: int
) -> None:
    d = np.array(row, dtype=float)
    radii = GRID[(low <= GRID) & (low + width >= GRID)]
    explains = radii[(rho <= radii) == (yhat == 1)]
    if explains.size == 0:
        return  # such a round cannot happen
    keep = [bool(((h <= explains) == (y == 1)).any()) for h in d]
    assert safe_filter(d, rho, y, yhat, low, low + width).tolist() == keep
    unlimited = safe_filter(d, rho, y, yhat)
    everything = np.arange(0.0, 50.0, 0.25)
    explains = everything[(rho <= everything) == (yhat == 1)]
    if explains.size:
        keep = [bool(((h <= explains) == (y == 1)).any()) for h in d]
        assert unlimited.tolist() == keep


@pytest.mark.claim("02.28")
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_safe_keeps_the_target_and_never_more_than_the_mistake_filter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    target = int(rng.integers(n))
    rows = rng.integers(0, 5, size=(60, n)).astype(float)
    agents = Agents.from_target(
        DistanceTableClass(n), rows, radius=rng.integers(0, 5, size=60), target=target
    )
    safe, plain = np.ones(n, dtype=bool), np.ones(n, dtype=bool)
    for t in range(60):  # identical plays: the same published distances for both
        rho = float(rng.choice(rows[t][plain]))
        y, yhat = int(agents.y[t]), int(rho <= agents.radius[t])
        plain &= mistake_filter(rows[t], rho, y, yhat)
        safe &= safe_filter(rows[t], rho, y, yhat)
        assert safe[target]
        assert not (safe & ~plain).any()


@pytest.mark.claim("02.28")
@pytest.mark.parametrize("make", [StrategicHalving, MWMR, UnionSamplingLearner, QuantileProbe])
def test_learners_with_the_safe_filter_keep_the_target(make: type) -> None:
    rng = np.random.default_rng(3)
    for seed in range(10):
        n = 30
        rows = rng.integers(0, 6, size=(150, n)).astype(float)
        radius = rng.integers(1, 5, size=150).astype(float)
        agents = Agents.from_target(DistanceTableClass(n), rows, radius=radius, target=4)
        learner = make(DistanceTableClass(n), filter="safe", radius_range=(1, 4), random_state=seed)
        play(learner, Applicants(agents))
        assert 4 in learner.version_space


@pytest.mark.claim("02.28")
def test_set_filter_is_sound_and_uses_everything() -> None:
    rng = np.random.default_rng(4)
    for _ in range(300):
        size, n = 5, 5
        rules = rng.random((n, size)) < 0.4
        published = rules[rng.integers(n)] | (rng.random(size) < 0.1)
        x = int(rng.integers(size))
        u = rng.random(size) < 0.5
        u[x] = True
        truth = rules[rng.integers(n)]
        y = int((truth & u).any())
        if published[x]:
            yhat, delta = 1, x
        else:
            options = np.flatnonzero(published & u)
            yhat, delta = (1, int(rng.choice(options))) if options.size else (0, x)
        keep = safe_set_filter(rules, published, x, delta, y, yhat)
        # Brute force: some set u' explains the round and makes the rule right.
        possible = []
        for rule in rules:
            found = False
            for code in range(1 << size):
                v = np.array([(code >> i) & 1 for i in range(size)], dtype=bool)
                if not v[x] or not v[delta]:
                    continue
                if yhat == 0 and (v & published).any():
                    continue
                if int((rule & v).any()) == y:
                    found = True
                    break
            possible.append(found)
        if y == 1 and yhat == 1:
            assert (keep | ~np.array(possible)).all()  # sound
        else:
            assert keep.tolist() == possible


def test_bad_values_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="NaN or negative"):
        safe_filter([1.0, math.nan], 1.0, 0, 1)
    with pytest.raises(InvalidInputError, match="NaN or negative"):
        mistake_filter([-1.0], 1.0, 0, 1)
    with pytest.raises(InvalidInputError, match="r_max"):
        safe_filter([1.0], 1.0, 0, 1, r_min=2.0, r_max=1.0)
    with pytest.raises(InvalidInputError, match="yhat"):
        safe_filter([1.0], 1.0, 0, 2)
    with pytest.raises(InvalidInputError, match="radius_range"):
        StrategicHalving(instances.threshold_line(3).hypotheses, radius_range=(2, 1))
