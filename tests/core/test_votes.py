"""Partitions that depend on what they should, and votes whose tolerance is exact."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from counterplay.core.votes import (
    majority,
    margins,
    minority_counts,
    plurality,
    random_blocks,
)
from counterplay.errors import InvalidInputError


@pytest.mark.parametrize(("n", "count"), [(10, 3), (11, 11), (100, 7)])
def test_random_blocks_are_equal_disjoint_and_uniform(n: int, count: int) -> None:
    part = random_blocks(n, count, random_state=1)
    blocks = list(part)
    assert part.sizes.tolist() == [n // count] * count
    rows = np.concatenate(blocks)
    assert len(set(rows.tolist())) == rows.size == n - part.n_dropped
    assert all((part.block[block] == b).all() for b, block in enumerate(blocks))
    again = random_blocks(n, count, random_state=1)
    np.testing.assert_array_equal(part.block, again.block)
    assert len(part) == count


def test_random_blocks_of_given_sizes() -> None:
    part = random_blocks(10, sizes=[4, 0, 5], random_state=0)
    assert part.sizes.tolist() == [4, 0, 5]
    assert part.n_dropped == 1
    first = [random_blocks(6, sizes=[1], random_state=s).block.argmax() for s in range(600)]
    assert np.bincount(first, minlength=6).min() > 60  # each row about 100 times


votes = hnp.arrays(np.int64, st.tuples(st.integers(1, 5), st.just(1)), elements=st.integers(0, 2))


@given(votes)
def test_tolerance_is_the_exact_number_of_changes(table: np.ndarray) -> None:
    classes = [2, 0, 1]  # ties go to the class that comes first in this list
    vote = plurality(table, classes)
    counts = [int((table[:, 0] == c).sum()) for c in classes]
    assert vote.counts[0].tolist() == counts
    assert vote.winner[0] == int(np.argmax(counts))
    assert vote.labels[0] == classes[int(np.argmax(counts))]
    others = [c for i, c in enumerate(counts) if i != vote.winner[0]]
    assert vote.gap[0] == vote.top[0] - max(others)
    radius = -1
    for changes in range(len(table) + 1):
        outcomes = {
            int(plurality(np.array(other)[:, None], classes).labels[0])
            for other in product(classes, repeat=len(table))
            if (np.array(other) != table[:, 0]).sum() <= changes
        }
        if outcomes != {int(vote.labels[0])}:
            break
        radius = changes
    assert vote.tolerance[0] == radius or radius == len(table)


@given(hnp.arrays(bool, st.tuples(st.integers(1, 6), st.integers(1, 4))))
def test_majority_and_margins(table: np.ndarray) -> None:
    ones = table.sum(0)
    n = len(table)
    np.testing.assert_array_equal(majority(table, tie=0), 2 * ones > n)
    np.testing.assert_array_equal(majority(table), 2 * ones >= n)
    np.testing.assert_array_equal(margins(table), ones - (n - ones))
    np.testing.assert_array_equal(minority_counts(table), np.minimum(ones, n - ones))
    if (2 * ones == n).any():
        with pytest.raises(InvalidInputError, match="tie"):
            majority(table, tie="raise")
    else:
        np.testing.assert_array_equal(majority(table, tie="raise"), 2 * ones > n)


def test_bad_input() -> None:
    with pytest.raises(InvalidInputError, match="fewer blocks"):
        random_blocks(3, 4)
    with pytest.raises(InvalidInputError, match="either"):
        random_blocks(3)
    with pytest.raises(InvalidInputError, match="sizes sum to 4"):
        random_blocks(3, sizes=[2, 2])
    with pytest.raises(InvalidInputError, match="not among"):
        plurality([[3]], classes=[0, 1])
    with pytest.raises(InvalidInputError, match="different"):
        plurality([[1]], classes=[1, 1])
    with pytest.raises(InvalidInputError, match="voters"):
        plurality(np.zeros((0, 2)))
    with pytest.raises(InvalidInputError, match="0 and 1"):
        majority([[2]])
    with pytest.raises(InvalidInputError, match="voters"):
        margins([0, 1])
    assert plurality([[1]], classes=[1]).tolerance[0] == np.iinfo(np.int64).max
