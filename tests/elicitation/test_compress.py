"""C4 compression."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from counterplay.elicitation import instances
from counterplay.elicitation.lab import c4_compress
from counterplay.errors import InvalidInputError


def check(M: np.ndarray, p: np.ndarray, method: str, tolerance: float = 1e-13) -> int:
    before = M.copy(), p.copy()
    kept = c4_compress(M, p, method=method)
    assert np.array_equal(M, before[0])
    assert np.array_equal(p, before[1])
    assert len(kept.indices) <= M.shape[1] + 1
    assert np.unique(kept.indices).size == kept.indices.size
    assert (p[kept.indices] > 0).all()
    assert (kept.weights > 0).all()
    assert kept.weights.sum() == pytest.approx(1.0, abs=1e-13)
    assert np.abs(kept.weights @ M[kept.indices] - p @ M).max() <= tolerance
    return len(kept.indices)


@pytest.mark.claim("08.17")
@pytest.mark.parametrize("method", ["tree", "literal"])
def test_mean_size_and_support_on_400_random_inputs(method: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(400):
        k, n = int(rng.integers(1, 8)), int(rng.integers(1, 121))
        p = rng.random(n) ** 8
        p[rng.random(n) < 0.2] = 0.0
        p[int(rng.integers(n))] += 0.1
        check(rng.random((n, k)), p / p.sum(), method)


@pytest.mark.claim("08.17")
@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 5).flatmap(
        lambda k: st.lists(
            st.tuples(
                st.lists(st.floats(0, 1, width=32), min_size=k, max_size=k),
                st.floats(2**-10, 1, width=32),
            ),
            min_size=1,
            max_size=40,
        )
    )
)
def test_any_input_keeps_its_mean(points: list[tuple[list[float], float]]) -> None:
    M = np.array([point for point, _ in points])
    p = np.array([weight for _, weight in points])
    check(M, p / p.sum(), "tree")


@pytest.mark.claim("08.17")
def test_special_inputs() -> None:
    sizes = {}
    for name, (M, p) in instances.compression_inputs().items():
        sizes[name] = {method: check(M, p, method) for method in ("tree", "literal")}
    assert sizes["copies"]["tree"] == 1
    assert sizes["collinear"]["tree"] == 2
    assert all(size <= 4 for by_method in sizes.values() for size in by_method.values())


@pytest.mark.claim("08.17")
def test_small_inputs_are_returned_unchanged() -> None:
    M, p = np.array([[0.0, 1.0], [1.0, 0.0], [0.3, 0.3]]), np.array([0.2, 0.5, 0.3])
    kept = c4_compress(M, p)
    assert kept.indices.tolist() == [0, 1, 2]
    assert kept.weights.tolist() == p.tolist()
    with_zero = c4_compress(M, np.array([0.4, 0.0, 0.6]))
    assert with_zero.indices.tolist() == [0, 2]


@pytest.mark.claim("08.17")
def test_a_linear_program_confirms_that_the_mean_needs_no_more_points() -> None:
    rng = np.random.default_rng(1)
    M, p = rng.random((60, 4)), rng.dirichlet(np.ones(60))
    solution = linprog(
        np.zeros(60),
        A_eq=np.vstack([M.T, np.ones(60)]),
        b_eq=np.append(p @ M, 1.0),
        method="highs-ds",
    ).x
    assert (solution > 1e-12).sum() <= 5
    assert check(M, p, "tree") <= 5


@pytest.mark.claim("08.18")
def test_weights_over_twelve_orders_of_magnitude_keep_rare_points_exact() -> None:
    rng = np.random.default_rng(2)
    errors = {}
    for method in ("tree", "unscaled"):
        worst = 0.0
        for _ in range(20):
            M = np.hstack([rng.random((60, 3)), np.zeros((60, 1))])
            p = rng.dirichlet(np.ones(60))
            M[:3, 3], p[:3] = 1.0, 1e-12 * rng.random(3)
            p /= p.sum()
            kept = c4_compress(M, p, method=method)
            found = kept.weights @ M[kept.indices, 3]
            worst = max(worst, abs(found / (p @ M[:, 3]) - 1))
        errors[method] = worst
    assert errors["tree"] <= 1e-10
    assert errors["unscaled"] > 1e-7


def test_bad_input_is_named() -> None:
    with pytest.raises(InvalidInputError, match="p must have 2 entries"):
        c4_compress([[0.0], [1.0]], [1.0])
    with pytest.raises(InvalidInputError, match="sum to 1"):
        c4_compress([[0.0], [1.0]], [1.0, 1.0])
