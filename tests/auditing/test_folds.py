"""Folds: stratified, by whole groups, in the order of time."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.auditing.folds import inner_folds, make_folds
from counterplay.errors import InvalidInputError


def outcomes(n: int = 200, share: float = 0.3, seed: int = 0):
    return np.random.default_rng(seed).random(n) < share


def test_every_row_is_judged_once_by_a_model_that_has_not_seen_it() -> None:
    y = outcomes()
    folds = make_folds(y, seed=3)
    assert sorted(np.concatenate(folds.test).tolist()) == list(range(200))
    for test, train in zip(folds.test, folds.train):
        assert not set(test) & set(train)
        assert abs(y[test].mean() - y.mean()) < 0.03


def test_folds_depend_on_the_seed_alone() -> None:
    y = outcomes()
    assert (make_folds(y, seed=1).of_row == make_folds(y, seed=1).of_row).all()
    assert (make_folds(y, seed=1).of_row != make_folds(y, seed=2).of_row).any()


def test_rows_of_one_group_are_on_one_side() -> None:
    y = outcomes()
    groups = np.repeat(np.arange(50), 4)
    folds = make_folds(y, groups=groups, seed=0)
    for test, train in zip(folds.test, folds.train):
        assert not set(groups[test]) & set(groups[train])


def test_time_is_never_shuffled() -> None:
    y = outcomes(300)
    time = np.random.default_rng(1).integers(0, 40, 300)
    folds = make_folds(y, time=time, seed=0)
    for test, train in zip(folds.test, folds.train):
        assert time[train].max() < time[test].min()
    first = np.flatnonzero(folds.of_row == -1)
    assert 0 < len(first) < 120  # the first rows are judged by nobody


def test_inner_folds_stay_inside_the_training_part() -> None:
    y = outcomes()
    folds = make_folds(y, seed=0)
    inside = inner_folds(folds, 2, y, None, None, 0)
    every = np.concatenate(inside.test)
    assert set(every.tolist()) == set(folds.train[2].tolist())
    assert (inside.of_row[folds.test[2]] == -1).all()


def test_one_row_of_an_outcome_cannot_be_cross_fitted() -> None:
    y = np.zeros(100, dtype=bool)
    y[3] = True
    with pytest.raises(InvalidInputError, match="1 of 100 rows"):
        make_folds(y)
