"""Halving and SOA: mistake bounds on every realizable sequence, copies, keys."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from counterplay.core.finite_class import FiniteClass
from counterplay.errors import InvalidInputError
from counterplay.strategic.graphs.finite_learners import FiniteLearner, OnlineLearner
from counterplay.strategic.lab import (
    SOA,
    Halving,
    littlestone_dimension,
)
from strategic.graph_problems import random_class

matrices = hnp.arrays(bool, st.tuples(st.integers(1, 8), st.integers(1, 4)))


def most_mistakes(learner: SOA, alive: np.ndarray, labels: np.ndarray) -> int:
    """Worst case over all realizable sequences, by following every possible mistake."""
    worst = 0
    for x in range(labels.shape[1]):
        y = 1 - int(learner.predict(x))
        left = alive & (labels[:, x] == bool(y))
        if left.any():
            worst = max(worst, 1 + most_mistakes(learner.updated(x, y), left, labels))
    return worst


@pytest.mark.claim("03.06")
@pytest.mark.parametrize("tie", [0, 1])
def test_soa_errs_exactly_the_littlestone_dimension_in_the_worst_case(tie: int) -> None:
    rng = np.random.default_rng(3)
    for _ in range(150):
        rules = random_class(rng, int(rng.integers(1, 9)), int(rng.integers(1, 6)), share=0.5)
        everything = np.ones(len(rules), dtype=bool)
        worst = most_mistakes(SOA(rules, tie=tie), everything, rules.labels)
        assert worst == littlestone_dimension(rules).value


def worst_case(learner: FiniteLearner, rows: np.ndarray) -> int:
    """Most mistakes an adversary can force while some row stays consistent."""
    memo: dict[tuple[int, bytes], int] = {}

    def value(state: FiniteLearner, alive: np.ndarray) -> int:
        name = state.key(), alive.tobytes()
        if name not in memo:
            memo[name] = 0
            best = 0
            for x, y in product(range(rows.shape[1]), (0, 1)):
                left = alive & (rows[:, x] == y)
                if left.any() and state.predict(x) != y:
                    best = max(best, 1 + value(state.updated(x, y), left))
            memo[name] = best
        return memo[name]

    return value(learner, np.ones(len(rows), dtype=bool))


@settings(deadline=None)
@given(matrices, st.integers(0, 1))
def test_mistake_bounds_over_all_sequences(rows: np.ndarray, tie: int) -> None:
    cls = FiniteClass.from_matrix(rows)
    soa, halving = SOA(cls, tie=tie), Halving(cls, tie=tie)
    assert soa.mistake_bound == littlestone_dimension(cls).value
    assert worst_case(soa, rows) == soa.mistake_bound  # optimal, so exactly
    assert worst_case(halving, rows) <= halving.mistake_bound
    assert halving.mistake_bound == len(cls).bit_length() - 1


@settings(deadline=None)
@given(matrices, st.integers(0, 1), st.data())
def test_predictions_follow_their_definition(
    rows: np.ndarray, tie: int, data: st.DataObject
) -> None:
    cls = FiniteClass.from_matrix(rows)
    p = rows.shape[1]
    learners: list[FiniteLearner] = [SOA(cls, tie=tie), Halving(cls, tie=tie)]
    for _ in range(3):
        for learner in learners:
            left = rows[learner.alive]
            for x in range(p):
                parts = [left[~left[:, x]], left[left[:, x]]]
                if isinstance(learner, Halving):
                    scores = [len(part) for part in parts]
                else:
                    scores = [
                        littlestone_dimension(FiniteClass.from_matrix(part)).value
                        if len(part)
                        else -1
                        for part in parts
                    ]
                expected = tie if scores[0] == scores[1] else int(scores[1] > scores[0])
                assert learner.predict(x) == expected
            assert learner.predict(np.arange(p)).tolist() == [learner.predict(x) for x in range(p)]
        x = data.draw(st.integers(0, p - 1))
        learners = [learner.updated(x, 1 - learner.predict(x)) for learner in learners]


def test_updates_are_conservative_and_copies_independent() -> None:
    cls = FiniteClass.thresholds(range(7))
    for kind in (SOA, Halving):
        learner = kind(cls)
        assert isinstance(learner, OnlineLearner)
        assert learner.updated(3, learner.predict(3)) is learner
        wrong = 1 - learner.predict(3)
        child = learner.updated(3, wrong)
        assert child.mistakes == 1
        assert learner.mistakes == 0
        assert learner.key() == 2**8 - 1
        assert child.key() != learner.key()
        np.testing.assert_array_equal(child.alive, cls.labels[:, 3] == wrong)
        place = learner.copy()
        assert place.update(3, wrong)
        assert not place.update(3, wrong)
        assert place.key() == child.key()
        assert learner.key() == 2**8 - 1
        assert pickle.loads(pickle.dumps(child)).key() == child.key()
        assert "mistakes" in repr(child)


def test_dead_learners() -> None:
    for kind in (SOA, Halving):
        learner = kind(FiniteClass.from_matrix([[0, 1]]))
        assert not learner.is_dead()
        dead = learner.updated(0, 1)
        assert dead.is_dead()
        assert len(dead) == 0
        assert dead.predict(0) == 0
        assert kind(FiniteClass.from_matrix([[0, 1]]), tie=1).updated(0, 1).predict(0) == 1
    assert SOA(FiniteClass.singletons(3)).updated(0, 1).dimension() == 0


def test_soa_on_a_large_class_with_small_dimension() -> None:
    cls = FiniteClass.singletons(3000, include_empty=True)
    learner = SOA(cls)
    assert learner.mistake_bound == 1
    child = learner.updated(2999, 1)
    assert child.predict(2999) == 1
    assert child.predict(np.arange(50)).sum() == 0
    assert child.updated(2999, 0).is_dead()


def test_bad_input() -> None:
    learner = Halving(FiniteClass.singletons(3))
    with pytest.raises(InvalidInputError, match="point"):
        learner.predict(3)
    with pytest.raises(InvalidInputError, match="label"):
        learner.updated(0, 2)
    with pytest.raises(InvalidInputError, match="tie"):
        Halving(FiniteClass.singletons(3), tie=2)
