"""The heterogeneous split is a partition with equal sizes and the promised mix of classes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.datasets import load_digits

from counterplay.defection import heterogeneous_split
from counterplay.errors import InvalidInputError
from counterplay.federated import LayeredObjective, LocalParties, SafeStep, local_work, train

X, Y = load_digits(return_X_y=True)


@pytest.mark.claim("05.20")
@given(
    own=st.floats(0, 1),
    agents=st.integers(1, 25),
    seed=st.integers(0, 1000),
)
def test_split_is_a_partition_with_equal_sizes(own: float, agents: int, seed: int) -> None:
    split = heterogeneous_split(X, Y, agents, own, random_state=seed)
    parts = [split.rows(m) for m in range(agents)]
    held = np.concatenate(parts)
    assert len(np.unique(held)) == len(held)  # nobody shares a row
    assert len({len(part) for part in parts}) == 1
    left_out = np.flatnonzero(split.agent_of_row == -1)
    assert sorted([*held, *left_out]) == list(range(len(Y)))  # nothing is lost


@pytest.mark.claim("05.20")
def test_only_surplus_rows_of_large_classes_are_left_out() -> None:
    split = heterogeneous_split(X, Y, 10, 0.9, random_state=0)
    smallest = np.bincount(Y).min()
    assert (split.agent_of_row == -1).sum() == len(Y) - 10 * smallest
    everything = heterogeneous_split(X, Y, 10, 0.9, equalise=False, random_state=0)
    assert (everything.agent_of_row >= 0).all()


@pytest.mark.claim("05.20")
def test_own_fraction_one_gives_single_class_agents() -> None:
    counts = heterogeneous_split(X, Y, 10, 1.0, random_state=1).class_counts
    assert (counts > 0).sum(axis=1).tolist() == [1] * 10
    assert np.array_equal(counts > 0, np.eye(10, dtype=bool))


@pytest.mark.claim("05.20")
def test_own_fraction_zero_mixes_classes_uniformly() -> None:
    p_values = []
    for seed in range(40):
        counts = heterogeneous_split(X, Y, 10, 0.0, random_state=seed).class_counts
        p_values.append(stats.chi2_contingency(counts).pvalue)
    # 40 independent uniform p-values: none absurdly small, and spread over the unit interval
    assert min(p_values) > 1e-5
    assert stats.kstest(p_values, "uniform").pvalue > 1e-4


@pytest.mark.claim("05.20")
@pytest.mark.parametrize("q", [0.0, 0.25, 0.9, 1.0])
def test_conventions_mirror_each_other(q: float) -> None:
    figures = heterogeneous_split(X, Y, 10, q=q, convention="figures", random_state=3)
    formula = heterogeneous_split(X, Y, 10, q=1 - q, convention="formula", random_state=3)
    plain = heterogeneous_split(X, Y, 10, q, random_state=3)
    assert np.array_equal(figures.agent_of_row, formula.agent_of_row)
    assert np.array_equal(figures.agent_of_row, plain.agent_of_row)
    own = np.diagonal(figures.class_counts) / figures.sizes
    assert (own >= round(q * figures.sizes[0]) / figures.sizes[0]).all()


def test_classes_are_dealt_round_robin() -> None:
    few = heterogeneous_split(X, Y, 4, 1.0, random_state=0)
    assert few.own_classes[1] == (1, 5, 9)
    assert few.class_counts[1, [0, 2, 3, 4, 6, 7, 8]].sum() == 0
    many = heterogeneous_split(X, Y, 20, 1.0, random_state=0)
    assert many.own_classes[13] == (3,)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "own_fraction"),
        ({"q": 0.5}, "convention"),
        ({"own_fraction": 0.5, "q": 0.5, "convention": "figures"}, "not both"),
        ({"own_fraction": 1.5}, "own_fraction must be"),
        ({"q": 0.5, "convention": "text"}, "convention must be 'figures'"),
        ({"own_fraction": 0.5, "n_agents": 0}, "n_agents"),
        ({"own_fraction": 0.5, "n_agents": 4000}, "too few"),
    ],
)
def test_bad_input_gets_a_sentence(options: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        heterogeneous_split(X, Y, **options)


@pytest.mark.parametrize("n_agents", [301, 10**6, 2**63, 10**300])
def test_more_agents_than_rows_are_refused_before_the_work(n_agents: int) -> None:
    with pytest.raises(InvalidInputError, match="300 rows are too few for") as caught:
        heterogeneous_split(np.zeros((300, 1)), np.arange(300) % 3, n_agents, own_fraction=0.5)
    assert len(str(caught.value)) <= 300


def test_words_and_frames_are_dealt_like_numbers() -> None:
    y = np.arange(60) % 3
    X = pd.DataFrame({"a": np.zeros(60), "b": "text"})
    words = np.array(["bad", "good", "ugly"])[y]
    plain = heterogeneous_split(np.zeros((60, 1)), y, 4, own_fraction=0.5, random_state=1)
    named = heterogeneous_split(X, words, 4, own_fraction=0.5, random_state=1)
    assert (plain.agent_of_row == named.agent_of_row).all()
    assert named.to_frame().columns.tolist() == ["bad", "good", "ugly"]
    with pytest.raises(InvalidInputError, match="y has no label in row 4"):
        heterogeneous_split(X, np.where(np.arange(60) == 4, np.nan, y), 4, own_fraction=0.5)


def test_missing_labels_and_infinite_cells_are_named_by_their_place() -> None:
    with pytest.raises(InvalidInputError, match="row 8"):
        heterogeneous_split(np.zeros((10, 2)), [0, 1] * 4 + [np.nan, 1], own_fraction=0.5)
    X = np.ones((5, 4))
    X[3, 2] = -np.inf
    labels = [0, 1, 0, 1, 0]
    sites = {"a": (X, labels), "b": (np.ones((5, 4)), labels)}
    parties = LocalParties(LayeredObjective([4, 2]), sites, threshold=0.2)
    with pytest.raises(InvalidInputError, match="row 3 of X of 'a' in column 2 is infinite"):
        train(parties, SafeStep(0.02), step_size=0.1, rounds=3)


def test_more_agents_than_rows_and_infinite_local_work_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"n_agents|agents"):
        heterogeneous_split(np.zeros((10, 2)), [0, 1] * 5, 10**9, own_fraction=0.5)
    X = np.ones((5, 4))
    X[3, 2] = -np.inf
    with pytest.raises(InvalidInputError, match="row 3"):
        local_work(LayeredObjective([4, 2]), (X, [0, 1, 0, 1, 0]), np.zeros(10), step_size=0.1)
