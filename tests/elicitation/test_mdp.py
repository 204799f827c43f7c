"""Construction and validation of decision processes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from counterplay.elicitation import (
    LinearPreferenceUser,
    MultiObjectiveMDP,
    PreferenceElicitor,
    add_do_nothing,
    answered_by,
    instances,
    plan,
)
from counterplay.elicitation.lab import MDPOracle, policy_value
from counterplay.errors import CounterplayError, InvalidInputError

ONE = np.ones((1, 1, 1))


def two_states() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.ones(2), size=(2, 3)), rng.random((2, 3, 2))


def with_nan(array: np.ndarray) -> np.ndarray:
    changed = array.copy()
    changed.flat[3] = np.nan
    return changed


def test_all_forms_of_transitions_mean_the_same() -> None:
    dense, rewards = two_states()
    forms = [
        dense,
        sparse.csr_array(dense.reshape(6, 2)),
        [sparse.csr_array(dense[:, a]) for a in range(3)],
        lambda s, a: dense[s, a],
        lambda s, a: {t: dense[s, a, t] for t in range(2)},
    ]
    mask = np.ones((2, 3), dtype=bool)
    matrices = [
        MultiObjectiveMDP(form, rewards, H=2, action_mask=mask).P.toarray() for form in forms
    ]
    for matrix in matrices:
        assert matrix == pytest.approx(dense.reshape(6, 2), abs=0)


def test_reward_function_is_enumerated() -> None:
    dense, rewards = two_states()
    mask = np.ones((2, 3), dtype=bool)
    mdp = MultiObjectiveMDP(dense, lambda s, a: rewards[s, a], H=2, action_mask=mask)
    assert mdp.R.tolist() == rewards.tolist()


@pytest.mark.claim("08.25")
@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: MultiObjectiveMDP(0.9 * ONE, [[[1.0]]]), r"\(0, 0\) sums to 0.9"),
        (
            lambda: MultiObjectiveMDP(np.array([[[1.2, -0.2]], [[0, 1]]]), np.ones((2, 1, 1))),
            r"\(0, 0\) contains the negative probability -0.2",
        ),
        (lambda: MultiObjectiveMDP(ONE, [[[1.5]]]), r"\(0, 0\), objective 0, is 1.5"),
        (lambda: MultiObjectiveMDP(ONE, [[[-0.1]]]), r"is -0.1"),
        (lambda: MultiObjectiveMDP(ONE, [[[np.nan]]]), r"entry \(0, 0, 0\) is nan"),
        (
            lambda: MultiObjectiveMDP(with_nan(two_states()[0]), two_states()[1]),
            "is nan",
        ),
        (lambda: MultiObjectiveMDP(ONE, [[[0.0]]]), "all rewards are 0"),
        (lambda: MultiObjectiveMDP(ONE, [[[1.0]]], H=0), "H must be at least 1, got 0"),
        (lambda: MultiObjectiveMDP(ONE, [[[1.0]]], s0=3), "s0 must be a state in 0..0, got 3"),
        (lambda: MultiObjectiveMDP(ONE, np.zeros((1, 1, 0))), "empty axes"),
        (
            lambda: MultiObjectiveMDP(ONE, [[[1.0]]], action_mask=[[False]]),
            "all rewards are 0|no available action",
        ),
        (lambda: MDPOracle(MultiObjectiveMDP(ONE, [[[1.0]]])), "no do-nothing action in s0 = 0"),
        (
            lambda: MultiObjectiveMDP(ONE, [[[1.0]]], do_nothing=0),
            r"do-nothing action 0 must pay 0, but R is \[1.0\]",
        ),
        (lambda: LinearPreferenceUser([1.0, -0.25], 0.1), r"w\[1\] is -0.25"),
        (
            lambda: answered_by(
                PreferenceElicitor(instances.random_mdp(0)), LinearPreferenceUser([1.0, 1.0], 0.1)
            ),
            "4 objectives but the user has 2 weights",
        ),
        (lambda: plan(instances.random_mdp(0), [[1.0, 2.0]]), "4 columns"),
        (
            lambda: MultiObjectiveMDP(ONE, [[[1.0]]], objective_names=("a", "b")),
            "objective_names must have 1 entries, got 2",
        ),
    ],
)
def test_bad_input_is_named(build: object, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        build()  # type: ignore[operator]  # a function without arguments
    assert isinstance(caught.value, CounterplayError)


def test_rows_of_unavailable_actions_may_be_empty() -> None:
    transitions = np.zeros((1, 2, 1))
    transitions[0, 0, 0] = 1.0
    mdp = MultiObjectiveMDP(transitions, [[[1.0], [0.0]]], action_mask=[[True, False]])
    assert plan(mdp, [[1.0]]).values[0].tolist() == [1.0]


def test_state_without_action_is_refused_only_if_reachable() -> None:
    transitions = np.zeros((3, 1, 3))
    transitions[0, 0, 0] = transitions[1, 0, 1] = 1.0
    rewards = np.ones((3, 1, 1))
    mask = np.array([[True], [True], [False]])
    assert MultiObjectiveMDP(transitions, rewards, H=3, action_mask=mask).n_states == 3
    transitions[0, 0] = [0.5, 0.0, 0.5]
    with pytest.raises(InvalidInputError, match="state 2 can be reached"):
        MultiObjectiveMDP(transitions, rewards, H=3, action_mask=mask)


def test_rescaling_keeps_zero_and_remembers_units() -> None:
    rewards = np.array([[[4.0, 0.1], [2.0, 0.4]]])
    mdp = add_do_nothing(MultiObjectiveMDP(np.ones((1, 2, 1)), rewards, H=2, rescale=True))
    assert mdp.R[0, :2].tolist() == [[1.0, 0.25], [0.5, 1.0]]
    value = policy_value(mdp, np.zeros((2, 1), dtype=int))
    assert mdp.original_value(value).tolist() == pytest.approx([8.0, 0.2])
    weights = np.array([3.0, 1.0])
    assert mdp.original_weights(weights) @ mdp.original_value(value) == pytest.approx(
        weights @ value
    )


def test_costs_become_benefits_and_come_back_as_totals() -> None:
    rewards = np.array([[[1.0, -2.0], [0.5, -1.0]]])  # penalties
    mdp = MultiObjectiveMDP(np.ones((1, 2, 1)), rewards, H=3, costs=[1])
    assert mdp.R[0, :, 1].tolist() == [0.0, 0.5]
    full = add_do_nothing(mdp)
    assert full.R[0, 2].tolist() == [0.0, 0.0]
    value = policy_value(full, np.ones((3, 1), dtype=int))
    assert full.original_value(value).tolist() == pytest.approx([1.5, 3.0])


def test_costs_of_both_signs_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="both signs"):
        MultiObjectiveMDP(np.ones((1, 2, 1)), [[[1.0], [-1.0]]], costs=[0])


def test_do_nothing_is_found_and_added_once() -> None:
    mdp = add_do_nothing(MultiObjectiveMDP(ONE, [[[1.0]]]))
    assert mdp.do_nothing == 1
    assert add_do_nothing(mdp) is mdp
    assert MultiObjectiveMDP(mdp.P, mdp.R, action_mask=mdp.action_mask).do_nothing == 1


def test_process_is_immutable() -> None:
    mdp = instances.random_mdp(0)
    with pytest.raises(ValueError, match="read-only"):
        mdp.R[0, 0, 0] = 1.0
