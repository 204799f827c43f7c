"""One fixed rule from agents seen first."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.errors import InformationError
from counterplay.strategic import Agents, ApplicantStream, LinearClass, bounds, instances, play
from counterplay.strategic.lab import QuantileProbe


@pytest.mark.claim("02.29")
@pytest.mark.parametrize("n", [8, 16, 32])
def test_mean_error_on_the_proper_population(n: int) -> None:
    eps = 0.01
    T = bounds.quantile_probe_rounds(n, eps)
    population = instances.ProperInstance(n, eps, target=1)
    losses = []
    for seed in range(6):
        probe = QuantileProbe(population.hypotheses, random_state=seed)
        play(
            probe,
            ApplicantStream(population, "features_first", random_state=seed),
            rounds=T,
            fast=True,
        )
        losses.append(population.output_loss(probe))
        output = probe.output(seed)
        assert output.members.size == 1
        assert 0 <= output.members[0] < n
    assert np.mean(losses) <= bounds.quantile_probe_error(n, T) <= eps


@pytest.mark.claim("02.29")
def test_mean_error_on_linear_rules_and_sparse_wrong() -> None:
    rng = np.random.default_rng(0)
    rules = LinearClass(rng.normal(size=(64, 4)), rng.normal(size=64))
    people = Agents.from_target(
        rules, rng.normal(size=(4000, 4)), radius=rng.exponential(0.5, 4000), target=5
    )
    T = 2000
    losses = []
    for seed in range(10):
        probe = QuantileProbe(rules, random_state=seed)
        play(probe, ApplicantStream(people, random_state=seed), rounds=T, fast=True)
        losses.append(probe.expected_loss(people))
    assert np.mean(losses) <= bounds.quantile_probe_error(64, T)
    for label in (0, 1):
        population = instances.SparseWrong(128, 0.03, label=label, target=5)
        losses = []
        for seed in range(10):
            probe = QuantileProbe(population.hypotheses, random_state=seed)
            play(probe, ApplicantStream(population, random_state=seed), rounds=T, fast=True)
            losses.append(population.output_loss(probe))
        assert np.mean(losses) <= bounds.quantile_probe_error(128, T)


@pytest.mark.claim("02.29")
@pytest.mark.parametrize("m", [1, 2, 3, 8, 13])
def test_probed_ranks(m: int) -> None:
    """Nearest or farthest with equal probability, j = 1, 2, 4, .. up to m."""
    probe = QuantileProbe(instances.threshold_line(m).hypotheses, random_state=0)
    ranks = probe.block_ranks(m, 20_000)
    levels = [2**j for j in range(m.bit_length())]
    law = np.zeros(m)
    for j in levels:
        law[j - 1] += 0.5 / len(levels)
        law[m - j] += 0.5 / len(levels)
    counts = np.bincount(ranks, minlength=m)
    assert (counts[law == 0] == 0).all()
    assert np.allclose(counts / 20_000, law, atol=4 * np.sqrt(0.25 / 20_000))


def test_needs_x_first() -> None:
    probe = QuantileProbe(instances.threshold_line(4).hypotheses)
    with pytest.raises(InformationError, match="before it publishes"):
        probe.act(None)
