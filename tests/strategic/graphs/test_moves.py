"""Observed moves: uniform probes, and the proxy loss between its limits."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.strategic import (
    ManipulationGraph,
)
from counterplay.strategic.lab import (
    graph_loss,
    probe,
    proxy_loss,
)
from strategic.graph_problems import (
    random_graph,
)


@pytest.mark.claim("03.17")
def test_proxy_loss_is_sandwiched() -> None:
    rng = np.random.default_rng(1)
    empty = 0
    for _ in range(3000):
        n = int(rng.integers(2, 7))
        k = int(rng.integers(1, n))
        truth, other = random_graph(rng, n, k), random_graph(rng, n, k)
        mass = rng.dirichlet(np.ones(n))
        loss, proxy = graph_loss(other, truth, mass), proxy_loss(other, truth, k, mass)
        assert loss / k - 1e-12 <= proxy <= 3 * loss + 1e-12
        empty += (truth.degrees == 0).any()
    assert empty > 500


@pytest.mark.claim("03.17")
def test_minimiser_of_the_proxy_has_small_losses() -> None:
    rng = np.random.default_rng(2)
    for _ in range(2000):
        n = int(rng.integers(3, 6))
        k = int(rng.integers(1, n))
        truth = random_graph(rng, n, k)
        candidates = [_perturbed(rng, truth, k) for _ in range(4)]
        mass = rng.dirichlet(np.ones(n))
        nearest = min(graph_loss(graph, truth, mass) for graph in candidates)
        chosen = min(candidates, key=lambda graph: proxy_loss(graph, truth, k, mass))
        assert graph_loss(chosen, truth, mass) <= 3 * k * nearest + 1e-12
        rules, y = rng.random((5, n)) < 0.4, rng.random(n)  # y: Pr(label 1) at each node
        under = _strategic_losses(rules, chosen, mass, y)
        real = _strategic_losses(rules, truth, mass, y)
        assert real[under.argmin()] <= 6 * k * nearest + real.min() + 1e-12


def _perturbed(rng: np.random.Generator, truth: ManipulationGraph, k: int) -> ManipulationGraph:
    replaced = (rng.random(truth.n) < 0.3)[:, None]
    arcs = np.where(replaced, random_graph(rng, truth.n, k).dense, truth.dense)
    indptr = np.concatenate([[0], np.cumsum(arcs.sum(axis=1))])
    return ManipulationGraph(indptr, np.nonzero(arcs)[1])


def _strategic_losses(rules, graph: ManipulationGraph, mass, y) -> np.ndarray:
    induced = (rules[:, None, :] & (graph.dense | np.eye(graph.n, dtype=bool))).any(axis=2)
    return np.where(induced, 1 - y, y) @ mass


def test_probes_are_uniform_over_the_neighbourhood() -> None:
    star = ManipulationGraph.from_lists([[1, 2, 3], [], [], []])
    counts = np.bincount(probe(star, np.zeros(6000, dtype=int), 0), minlength=4)
    assert counts[0] == 0
    assert (np.abs(counts[1:] - 2000) < 5 * np.sqrt(6000 * 2 / 9)).all()
