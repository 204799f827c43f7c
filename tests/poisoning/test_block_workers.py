"""Workers: the same votes everywhere, progress, blocks that die or take too long."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from tests.poisoning.test_sources import mixed, pipeline

from counterplay.errors import InvalidInputError
from counterplay.poisoning import BlockFailureWarning, PartitionClassifier
from counterplay.tables import hash_blocks

QUIET = pytest.mark.filterwarnings("ignore::counterplay.errors.CounterplayWarning")


def problem(n: int = 90):
    X = np.random.default_rng(0).normal(size=(n, 2))
    return X, (X[:, 0] > 0).astype(int)


class Odd(ClassifierMixin, BaseEstimator):
    """Dies or sleeps when it meets the numbers 98 and 99."""

    def fit(self, X, y):
        if (X == 98).any():
            time.sleep(600)
        if (X == 99).any():
            os._exit(3)
        self.model_ = GaussianNB().fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)


def last_of_three(odd: float) -> np.ndarray:
    """A row with an odd number that goes to the last of three blocks: no process follows it."""
    rows = np.column_stack([np.full(30, odd), np.arange(30.0)])
    return rows[hash_blocks(rows, 3).block == 2][:1]


def two_odd_rows():
    """Rows that go to two different blocks of seven, in neither of which they are alone."""
    X, y = problem()
    return np.vstack([X, [[98.0, 0.5], [99.0, 0.0]]]), np.append(y, [0, 1])


@pytest.mark.claim("21.23")
def test_a_block_that_takes_too_long_abstains_and_the_rest_is_there() -> None:
    X, y = problem()
    before = PartitionClassifier(Odd(), 3, check=False).fit(X, y)
    guard = PartitionClassifier(Odd(), 3, check=False, block_timeout=2.0)
    with pytest.warns(BlockFailureWarning, match="1 of 3 blocks"):
        guard.fit(np.vstack([X, last_of_three(98.0)]), np.append(y, 0))
    ((block, kind, message),) = guard.failures_
    assert (kind, message) == ("TimeoutError", "not fitted within 2 s")
    assert np.flatnonzero((guard.votes(X) != before.votes(X)).any(axis=1)).tolist() == [block]
    assert "times are not deterministic" in guard.summary()


@QUIET
@pytest.mark.claim("21.38")
def test_votes_do_not_depend_on_workers_or_backend() -> None:
    X, y = mixed(120)
    votes = [
        PartitionClassifier(pipeline(), 5, check=False, n_jobs=jobs, backend=backend)
        .fit(X, y)
        .votes(X)
        for jobs, backend in ((1, None), (2, "threading"), (2, "loky"))
    ]
    assert np.array_equal(votes[0], votes[1])
    assert np.array_equal(votes[0], votes[2])


@QUIET
@pytest.mark.claim("21.23")
def test_a_dead_worker_costs_its_block_only() -> None:
    X, y = problem()
    before = PartitionClassifier(Odd(), 3, check=False).fit(X, y).votes(X)
    guard = PartitionClassifier(Odd(), 3, n_jobs=2, check=False)
    guard.fit(np.vstack([X, last_of_three(99.0)]), np.append(y, 0))
    ((block, kind, _),) = guard.failures_
    assert kind == "BrokenExecutor"
    guard.n_jobs = None
    assert np.flatnonzero((guard.votes(X) != before).any(axis=1)).tolist() == [block]


def test_progress_is_told_block_by_block(capsys) -> None:
    X, y = problem()
    told: list[tuple[int, int]] = []
    PartitionClassifier(
        GaussianNB(), 5, check=False, progress=lambda done, total: told.append((done, total))
    ).fit(X, y)
    assert told == [(k, 5) for k in range(1, 6)]
    PartitionClassifier(GaussianNB(), 5, check=False, progress=True).fit(X, y)
    assert "5/5" in capsys.readouterr().err


def test_timeouts_need_processes() -> None:
    X, y = problem()
    with pytest.raises(InvalidInputError, match="block_timeout needs processes"):
        PartitionClassifier(None, 3, block_timeout=1.0, backend="threading").fit(X, y)
    with pytest.raises(InvalidInputError, match="block_timeout"):
        PartitionClassifier(None, 3, block_timeout=0.0).fit(X, y)


@QUIET
def test_models_that_change_their_rows_change_nobody_elses() -> None:
    X, y = problem()
    base = make_pipeline(StandardScaler(copy=False), LogisticRegression())
    safe = make_pipeline(StandardScaler(), LogisticRegression())
    guard = PartitionClassifier(base, 5, check=False).fit(X * 9 + 3, y)
    other = PartitionClassifier(safe, 5, check=False).fit(X * 9 + 3, y)
    assert np.array_equal(guard.votes(X * 9 + 3), other.votes(X * 9 + 3))
    assert guard.update((X * 9 + 3)[:1], y[:1]).blocks_refitted == 1  # the kept rows are as given
    given = X * 9 + 3
    kept = given.copy()
    guard.fit(given, y).predict(given)
    assert np.array_equal(given, kept)


@pytest.mark.slow
@QUIET
def test_a_real_ray_cluster_gives_the_same_votes() -> None:
    pytest.importorskip("ray")
    X, y = problem()
    base = DecisionTreeClassifier(max_features=1)  # draws coins: seeds go with the blocks
    here = PartitionClassifier(base, 7, check=False, random_state=3).fit(X, y).votes(X)
    for jobs in (1, 2):
        guard = PartitionClassifier(
            base, 7, check=False, random_state=3, n_jobs=jobs, backend="ray"
        ).fit(X, y)
        assert np.array_equal(guard.votes(X), here)


@pytest.mark.slow
@QUIET
def test_dead_and_slow_blocks_abstain_on_ray_too() -> None:
    import tests.poisoning.test_block_workers as this

    ray = pytest.importorskip("ray")
    cloudpickle = ray.cloudpickle
    cloudpickle.register_pickle_by_value(this)
    X, y = problem()
    more, labels = two_odd_rows()
    before = PartitionClassifier(Odd(), 7, check=False).fit(X, y).votes(X)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        guard = PartitionClassifier(Odd(), 7, check=False, backend="ray", block_timeout=5.0)
        guard.fit(more, labels)
        assert len(guard.failures_) == 2
        guard = PartitionClassifier(Odd(), 7, check=False, backend="ray")
        guard.fit(np.vstack([X, [[99.0, 0.0]]]), np.append(y, 1))
        ((block, _, _),) = guard.failures_
        assert np.flatnonzero((guard.votes(X) != before).any(axis=1)).tolist() == [block]
        assert ray.is_initialized()  # somebody else's cluster stays
    finally:
        ray.shutdown()
        cloudpickle.unregister_pickle_by_value(this)
