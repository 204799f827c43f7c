"""The checks of chapter 22 at their full size, on bundled data: the studies themselves."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from counterplay.invariance import groups, symmetry_advisor
from counterplay.studies import registry
from counterplay.studies.results import StudyResult, load_result
from counterplay.studies.runner import run_studies
from counterplay.studies.store import Store

pytestmark = pytest.mark.slow
STUDIES = {entry.id: entry for entry in registry.studies_of(registry.load_areas())}


@pytest.mark.claim("22.01")  # labels
@pytest.mark.claim("22.02")  # size: 200 runs per cell
@pytest.mark.claim("22.03")  # power: 40 runs per cell
@pytest.mark.claim("22.04")
@pytest.mark.claim("22.07")  # level: 400 runs, 60 per rate
@pytest.mark.claim("22.08")  # 300 samples of 500 pairs
@pytest.mark.claim("22.10")  # 200 searches
@pytest.mark.claim("22.11")  # advisor: 20 training sets
@pytest.mark.claim("22.12")
@pytest.mark.claim("22.13")
@pytest.mark.claim("22.16")  # race: 12 training sets
@pytest.mark.parametrize("name", ["symmetry-labels", "symmetry-size", "symmetry-power",
                                  "symmetry-level", "symmetry-race", "advisor"])  # fmt: skip
def test_full_scale_verdicts_hold_without_other_data(name, tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("COUNTERPLAY_DATA", raising=False)
    entry = STUDIES[f"invariance/{name}"]
    with Store(tmp_path / "studies.sqlite") as store:
        run_studies([entry], store, scale="full", progress=False)
        result = load_result(entry, store, scale="full")
    assert isinstance(result, StudyResult)
    assert all(verdict.holds for verdict in result.verdicts), result.verdicts


@pytest.mark.claim("22.20")
def test_a_million_rows() -> None:
    """Canonical form, orbit numbers and advice; seconds are in the benchmark."""
    X = np.random.default_rng(0).integers(0, 4, size=(1_000_000, 64), dtype=np.uint8)
    group = groups.d4((8, 8))
    group.canonical(X[:10])
    tracemalloc.start()
    group.canonical(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 200 * 2**20

    class Counting(DecisionTreeClassifier):
        sizes: list[int] = []  # noqa: RUF012

        def fit(self, X, y):
            Counting.sizes.append(len(X))
            return super().fit(X, y)

    y = (X[:, :32].sum(axis=1) > X[:, 32:].sum(axis=1)).astype(int)
    advice = symmetry_advisor(Counting(max_depth=3), X, y, group, candidates=["smallest"],
                              check=False, random_state=0)  # fmt: skip
    assert max(Counting.sizes[:-1]) < 20_000
    assert Counting.sizes[-1] == 1_000_000
    assert "used 20,000 of 1,000,000 rows" in advice.summary()
