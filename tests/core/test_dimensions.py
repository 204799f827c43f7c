"""Dimensions against brute force on tiny classes, known values on families, and certificates."""

from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from brute_dimensions import brute_vc
from counterplay.core import dimensions as dim
from counterplay.core.bits import pack_rows
from counterplay.core.dimensions import shatter_search
from counterplay.core.dimensions import vc as vc_module
from counterplay.core.finite_class import FiniteClass
from counterplay.errors import InvalidInputError

matrices = hnp.arrays(bool, st.tuples(st.integers(1, 9), st.integers(0, 5)))
partial = hnp.arrays(
    np.uint8, st.tuples(st.integers(1, 9), st.integers(0, 4)), elements=st.integers(0, 2)
)


@settings(deadline=None)
@given(matrices)
def test_vc_dimension_against_brute_force(rows: np.ndarray) -> None:
    cls = FiniteClass.from_matrix(rows)
    vc = dim.vc_dimension(cls)
    assert vc.value == brute_vc(rows.astype(np.uint8)) <= log2(len(cls))
    assert vc.verify(cls)
    assert int(vc) == vc.value
    assert str(vc.value) in vc.summary()


@settings(deadline=None)
@given(partial, st.data())
def test_partial_classes_and_conflicts(values: np.ndarray, data: st.DataObject) -> None:
    found = dim.vc_dimension(values)
    assert found.value == brute_vc(values)
    assert found.verify(values)
    p = values.shape[1]
    upper = data.draw(hnp.arrays(bool, (p, p)))
    apart = np.triu(upper, 1) | np.triu(upper, 1).T
    limited = dim.vc_dimension(values, conflicts=apart)
    assert limited.verify(values)
    assert limited.value == brute_vc(values, lambda points: not apart[np.ix_(points, points)].any())
    assert not apart[np.ix_(limited.points, limited.points)].any()


@pytest.mark.parametrize("n", [1, 2, 3, 6, 7, 8, 62, 63, 127, 128])
def test_thresholds(n: int) -> None:
    cls = FiniteClass.thresholds(range(n))
    assert dim.vc_dimension(cls).value == 1


def test_classes_with_known_values() -> None:
    intervals = FiniteClass.intervals(range(9))
    assert dim.vc_dimension(intervals).value == 2
    boxes = FiniteClass.boxes(np.random.default_rng(0).normal(size=(12, 2)))
    assert dim.vc_dimension(boxes).value == 4
    unions = FiniteClass.unions_of_intervals(range(8), 2)
    assert dim.vc_dimension(unions).value == 4
    everything = FiniteClass.all_labelings(5)
    assert dim.vc_dimension(everything).value == 5
    singletons = FiniteClass.singletons(30)
    assert dim.vc_dimension(singletons).value == 1


def test_both_searches_agree_above_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    monkeypatch.setattr(vc_module, "_BITSET_DEPTH", 2)
    for _ in range(20):
        rows = rng.integers(2, size=(60, 8)).astype(bool)
        found = dim.vc_dimension(rows)
        assert found.verify(rows)
        columns = np.ascontiguousarray(rows.T.astype(np.uint8))
        apart = np.zeros((0, 0), dtype=bool)
        direct, _, _, done = shatter_search.search_bitsets(
            pack_rows(columns == 1), pack_rows(columns == 0), apart, 5, 0
        )
        assert done
        assert direct.size == found.value


def test_budget_gives_a_lower_bound_and_says_so() -> None:
    cls = FiniteClass.from_matrix(np.random.default_rng(0).integers(2, size=(80, 12)))
    full, cut = dim.vc_dimension(cls), dim.vc_dimension(cls, budget=2)
    assert full.exact
    assert not cut.exact
    assert cut.value <= full.value
    assert "at least" in cut.summary()


def test_wrong_certificates_are_refused() -> None:
    cls = FiniteClass.thresholds(range(5))
    assert not dim.Shattering((0, 1), (0, 1, 2, 3)).verify(cls)
    assert not dim.Shattering((0,), (0,)).verify(cls)
    with pytest.raises(InvalidInputError, match="0, 1, and 2"):
        dim.vc_dimension([[3]])
    with pytest.raises(InvalidInputError, match="symmetric"):
        dim.vc_dimension([[0, 1]], conflicts=[[False, True], [False, False]])
    with pytest.raises(InvalidInputError, match="shape"):
        dim.vc_dimension([[0, 1]], conflicts=[[False]])
