"""The search that counts rows against the search that visits every shattered set."""

from itertools import combinations

import numpy as np
import pytest

from counterplay.core import threads
from counterplay.core.dimensions import deep_search, vc_dimension
from counterplay.core.dimensions import vc as vc_module
from counterplay.core.dimensions.deep_search import find_shattered

NONE = np.zeros((0, 0), dtype=bool)


def both_ways(monkeypatch, rows, conflicts=None):
    monkeypatch.setattr(vc_module, "_FIRST_STEPS", 10**9)
    plain = vc_dimension(rows, conflicts=conflicts)
    monkeypatch.setattr(vc_module, "_FIRST_STEPS", 40)
    deep = vc_dimension(rows, conflicts=conflicts)
    return plain, deep


@pytest.fixture(params=["any order", "around the circle"], autouse=True)
def way(request, monkeypatch) -> None:
    """Every test once without and once with the restriction to short stretches."""
    if request.param == "around the circle":
        monkeypatch.setattr(deep_search, "_FREE_STEPS", 0)


@pytest.mark.parametrize("seed", range(12))
def test_same_dimension_as_the_plain_search(seed: int, monkeypatch) -> None:
    rng = np.random.default_rng(seed)
    n_rows, n_columns = int(rng.integers(60, 400)), int(rng.integers(8, 16))
    rows = (rng.random((n_rows, n_columns)) < rng.uniform(0.3, 0.7)).astype(np.uint8)
    conflicts = None
    if seed % 2:
        groups = rng.integers(6, size=n_columns)
        conflicts = groups[:, None] == groups[None, :]
    plain, deep = both_ways(monkeypatch, rows, conflicts)
    assert plain.exact
    assert deep.exact
    assert plain.value == deep.value
    assert deep.verify(rows)
    if conflicts is not None:
        chosen = list(deep.points)
        assert conflicts[np.ix_(chosen, chosen)].sum() == deep.value  # only with themselves


def test_more_columns_than_one_word_and_planted_sets(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    rows = (rng.random((256, 70)) < 0.05).astype(np.uint8)  # few labelings on most sets
    hidden = np.sort(rng.choice(70, size=7, replace=False))
    rows[:128, hidden] = (np.arange(128)[:, None] >> np.arange(7)) & 1
    found = find_shattered(np.ascontiguousarray(rows.T), NONE, 7)
    assert sorted(found.tolist()) == hidden.tolist()
    assert find_shattered(np.ascontiguousarray(rows.T), NONE, 8).size == 0
    plain, deep = both_ways(monkeypatch, rows)
    assert plain.value == deep.value == 7


def test_every_size_against_all_sets() -> None:
    rng = np.random.default_rng(1)
    for _ in range(6):
        rows = rng.integers(0, 2, size=(int(rng.integers(40, 160)), 9)).astype(np.uint8)
        largest = max(
            k
            for k in range(8)
            if any(len(np.unique(rows[:, s], axis=0)) == 2**k for s in combinations(range(9), k))
        )
        columns = np.ascontiguousarray(rows.T)
        for size in (5, 6, 7):
            assert (find_shattered(columns, NONE, size).size == size) == (largest >= size)


def test_the_set_does_not_depend_on_the_number_of_threads(monkeypatch) -> None:
    rows = np.random.default_rng(3).integers(0, 2, size=(900, 24)).astype(np.uint8)
    columns = np.ascontiguousarray(rows.T)
    found = []
    for n_threads in (1, 4):
        monkeypatch.setattr(threads, "cores", lambda n=n_threads: n)
        found.append(find_shattered(columns, NONE, 7).tolist())
    assert found[0] == found[1]
    assert len(np.unique(rows[:, found[0]], axis=0)) == 2**7
