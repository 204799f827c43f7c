"""Simulated users: exact, noisy, fuzzy."""

from __future__ import annotations

import numpy as np
import pytest

from counterplay.core.stats import clopper_pearson
from counterplay.elicitation import (
    LinearPreferenceUser,
    NoisyUser,
    PreferenceElicitor,
    answered_by,
    bounds,
    instances,
)
from counterplay.elicitation.comparisons import Answer
from counterplay.errors import AssumptionWarning, ContradictionError, InvalidInputError


def test_preference_needs_strictly_more_than_eps() -> None:
    user = LinearPreferenceUser([1.0], 0.25)
    assert user.compare([0.5], [0.25]) is Answer.INDISTINGUISHABLE
    assert user.compare([0.25], [0.5]) is Answer.INDISTINGUISHABLE
    assert user.compare([0.5], [0.25 - 1e-9]) is Answer.FIRST
    assert user.compare([0.25 - 1e-9], [0.5]) is Answer.SECOND


def test_short_weights_only_warn() -> None:
    with pytest.warns(AssumptionWarning, match="below 1"):
        LinearPreferenceUser([0.3, 0.3], 0.1)


def test_answers_are_parsed_and_swapped() -> None:
    assert Answer.parse("Indistinguishable") is Answer.INDISTINGUISHABLE
    assert Answer.parse("1") is Answer.FIRST
    assert Answer.FIRST.swapped() is Answer.SECOND
    with pytest.raises(InvalidInputError, match="'first', 'second' or 'same'"):
        Answer.parse("dunno")


def test_flip_and_bradley_terry_rates() -> None:
    flip = NoisyUser([1.0], 0.0, flip_prob=0.2, random_state=0)
    wrong = sum(flip.compare([1.0], [0.5]) is Answer.SECOND for _ in range(2000))
    assert 0.2 in clopper_pearson(wrong, 2000, 0.999)
    soft = NoisyUser([1.0], 0.0, bradley_terry_temperature=0.5, random_state=0)
    first = sum(soft.compare([1.0], [0.5]) is Answer.FIRST for _ in range(2000))
    assert 1 / (1 + np.exp(-1.0)) in clopper_pearson(first, 2000, 0.999)


def test_fuzzy_threshold_wavers_around_eps() -> None:
    fuzzy = NoisyUser([1.0], 0.1, fuzzy_band=0.2, random_state=0)
    same = sum(fuzzy.compare([0.6], [0.5]) is Answer.INDISTINGUISHABLE for _ in range(2000))
    assert 0.5 in clopper_pearson(same, 2000, 0.999)


@pytest.mark.claim("08.36")
@pytest.mark.parametrize("p", [0.1, 0.3])
def test_majority_of_r_answers_is_right_with_the_stated_probability(p: float) -> None:
    questions, delta = 40, 0.1
    r = bounds.repetitions(questions, p, delta)
    perfect = 0
    trials = 60
    for seed in range(trials):
        user = NoisyUser([1.0], 0.0, flip_prob=p, repeat=r, random_state=seed)
        perfect += all(user.compare([1.0], [0.0]) is Answer.FIRST for _ in range(questions))
    assert clopper_pearson(perfect, trials, 0.999).high >= 1 - delta
    assert perfect >= 0.8 * trials


@pytest.mark.claim("08.36")
def test_repetition_makes_the_guaranteed_procedure_as_good_as_exact_answers() -> None:
    mdp = instances.random_mdp(0, k=3)
    w = np.array([0.8, 0.5, 0.4])
    exact = answered_by(PreferenceElicitor(mdp), LinearPreferenceUser(w, 0.01))
    r = bounds.repetitions(exact.n_queries, 0.2, 1e-4)
    noisy = NoisyUser(w, 0.01, flip_prob=0.2, repeat=r, random_state=0)
    assert answered_by(PreferenceElicitor(mdp), noisy).policy.tolist() == exact.policy.tolist()
    single = NoisyUser(w, 0.01, flip_prob=0.2, random_state=0)
    different = 0
    for _ in range(10):
        try:
            found = answered_by(PreferenceElicitor(mdp), single)
            alpha, alpha_exact = found.estimate.alpha_hat, exact.estimate.alpha_hat
            different += alpha.tolist() != alpha_exact.tolist()
        except ContradictionError:
            different += 1
    assert different >= 5
