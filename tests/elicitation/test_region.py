"""Branch and bound against a fine grid of weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplay.core.validation import FloatArray
from counterplay.elicitation import region as regions
from counterplay.elicitation.region import ModelRegion, Region, start_cells
from counterplay.elicitation.regrets import item_regrets, regrets

POINTS = 200_000


def grid(k: int, unknown: int, rng: np.random.Generator) -> FloatArray:
    """Preferences spread over all signs, corners and edges included."""
    weights = rng.dirichlet(np.full(k, 0.7), POINTS)
    if unknown:
        weights[:, -unknown:] *= rng.choice([-1.0, 1.0], size=(POINTS, unknown))
    corners = start_cells(k, np.arange(k - unknown, k)).reshape(-1, k)
    return np.vstack([weights, corners])


def random_log(region: Any, k: int, size: int, rng: np.random.Generator) -> FloatArray:
    """Answers of somebody who errs, with any forecasts."""
    w = rng.dirichlet(np.ones(k))
    for _ in range(int(rng.integers(1, 40))):
        options = rng.random((size, k))
        best = int((options @ w).argmax())
        chosen = best if rng.random() < 0.85 else int(rng.integers(size))
        region.add(options, chosen, float(rng.uniform(0.3, 0.95) if chosen == best else 0.2))
    return np.asarray(w)


@pytest.mark.claim("26.04")
@pytest.mark.parametrize(
    ("k", "size", "jnd", "unknown", "running"),
    [
        (2, 2, 0.0, 0, False), (3, 2, 0.0, 0, True), (3, 2, 0.05, 0, False), (3, 3, 0.0, 0, False),
        (2, 4, 0.05, 0, True), (3, 4, 0.0, 0, False), (2, 2, 0.0, 1, False), (3, 3, 0.0, 1, False),
    ],
)  # fmt: skip
def test_search_agrees_with_a_grid(
    k: int, size: int, jnd: float, unknown: int, running: bool
) -> None:
    """25 logs each: certified means that nobody on the grid objects; witnesses are real."""
    rng = np.random.default_rng([k, size, unknown])
    weights = grid(k, unknown, rng)
    start = start_cells(k, np.arange(k - unknown, k))
    mode = regions.RANGE if unknown else regions.RATIO
    seen = set()
    for _ in range(25):
        region = Region(k, 0.1, jnd, 0.05, running)
        w = random_log(region, k, size, rng)
        items = rng.random((12, k))
        item = int((items @ w).argmax()) if rng.random() < 0.7 else int(rng.integers(12))
        r = float(rng.choice([0.1, 0.3]))
        found = region.search(start, items, item, r, mode, 20_000)
        seen.add(found.status)
        if found.status == regions.CERTIFIED:
            solvent = weights[region.contains(weights)]
            own = item_regrets(solvent, items, items[item], ranged=bool(unknown))
            assert (own <= r + 1e-9).all()
        if len(found.witnesses):
            assert region.contains(found.witnesses).all()
            theirs = regrets(found.witnesses, items, ranged=bool(unknown))[:, item]
            assert (theirs > r - 1e-9).all()
    assert seen >= {regions.CERTIFIED, regions.REFUTED}  # both happen


@pytest.mark.claim("26.11")
def test_an_empty_region_is_found_empty() -> None:
    """Opposite answers to two questions, each given five times: nobody can be indifferent to
    both, so everybody is contradicted in at least a quarter of the answers."""
    region = Region(2, 0.1, 0.0, 0.05, False)
    options = np.array([[1.0, 0.0], [0.0, 1.0]])
    for chosen in (0, 1) * 5:
        region.add(options, chosen, 0.5)
        region.add(np.array([[1.0, 0.0], [0.6, 0.6]]), chosen, 0.5)
    assert region.contains(np.array([[0.5, 0.5]])).tolist() == [False]
    found = region.search(start_cells(2, np.zeros(0, int)), options, 0, 0.0, regions.ANY, 10_000)
    assert found.status == regions.CERTIFIED
    assert not region.contains(np.random.default_rng(0).dirichlet([1, 1], 1000)).any()


@pytest.mark.claim("26.36")
def test_the_answer_model_is_bounded_on_boxes() -> None:
    """Whoever the search excludes has too small a likelihood at every lapse and temperature."""
    rng = np.random.default_rng(5)
    weights = grid(3, 0, rng)[:3000]
    for _ in range(6):
        region = ModelRegion(3, 0.05)
        random_log(region, 3, 2, rng)
        items = rng.random((10, 3))
        start = start_cells(3, np.zeros(0, int))
        found = region.search(start, items, 0, 0.1, regions.RATIO, 5000)
        own = regrets(weights, items, ranged=False)[:, 0]
        if found.status == regions.CERTIFIED:
            assert not (region.contains(weights) & (own > 0.1 + 1e-9)).any()
        assert region.contains(found.witnesses).all()


@pytest.mark.parametrize("ranged", [False, True])
def test_the_regret_of_one_item_is_its_column(ranged: bool) -> None:
    rng = np.random.default_rng(0)
    weights, items = rng.dirichlet(np.ones(3), 600), rng.random((40, 3))
    every = regrets(weights, items, ranged=ranged)
    for item in (0, 17):
        own = item_regrets(weights, items, items[item], ranged=ranged)
        np.testing.assert_allclose(own, every[:, item], atol=1e-12)
