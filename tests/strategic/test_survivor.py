"""From few mistakes to a small error."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pytest

from counterplay.core.setting import Setting
from counterplay.core.stats import binomial_p_value
from counterplay.errors import InvalidInputError, NotRealizableError
from counterplay.strategic import (
    MWMR,
    Agents,
    Applicants,
    ApplicantStream,
    LinearClass,
    StrategicHalving,
    bounds,
    instances,
    play,
)
from counterplay.strategic.applicants import ObliviousGame
from counterplay.strategic.lab import (
    BLIND,
    LongestSurvivor,
    MedianMapPredictor,
    SequentialElimination,
    ThresholdClass,
    UnionPredictor,
    UnionSamplingLearner,
    make_conservative,
)


@pytest.mark.claim("02.24")
@pytest.mark.parametrize("mistakes", [0, 1, 5])
def test_latest_possible_survivor(mistakes: int) -> None:
    """Each of the B mistakes comes after s - 1 correct rounds of the current rule."""
    eps, delta = 0.1, 0.05
    s = math.ceil(math.log((mistakes + 1) / delta) / eps)
    assert bounds.survivor_length(mistakes, eps, delta) == s
    n = mistakes + 1
    rules = ThresholdClass(np.arange(1.0, n + 1))
    rows, labels = [], []
    for stage in range(n):
        good = [[0.5]] * (s - 1)  # rejected by everybody, rightly
        rows += good
        labels += [0] * (s - 1)
        if stage < mistakes:
            rows.append([stage + 1.5])  # accepted by the current rule, wrongly
            labels.append(0)
    rows.append([0.5])
    labels.append(0)
    agents = Agents(X=rows, y=labels, radius=0.0)
    assert len(agents) == (mistakes + 1) * s
    search = LongestSurvivor(SequentialElimination(rules), eps, delta)
    search.fit(Applicants(agents, "blind"))
    assert search.certified_
    assert search.rounds_ == (mistakes + 1) * s
    assert search.mistakes_ == mistakes
    assert search.predictor_.members.tolist() == [mistakes]
    if mistakes:  # the source stops here: nobody has survived yet
        early = LongestSurvivor(SequentialElimination(rules), eps, delta)
        early.fit(Applicants(agents.take(np.arange(mistakes * s)), "blind"))
        assert not early.certified_


@pytest.mark.claim("02.24")
def test_single_rule_needs_no_mistakes() -> None:
    rules = ThresholdClass([1.0])
    people = Agents.from_target(rules, [[0.0], [2.0]], radius=0.3, target=0)
    search = LongestSurvivor(StrategicHalving(rules), eps=0.1, delta=0.05)
    search.fit(ApplicantStream(people, random_state=0))
    assert search.rounds_ == math.ceil(math.log(1 / 0.05) / 0.1)
    assert search.mistakes_ == 0


@pytest.mark.claim("02.25")
def test_median_map_is_probably_approximately_correct() -> None:
    eps, delta, runs, failures = 0.05, 0.1, 60, 0
    rounds = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        rules = LinearClass(rng.normal(size=(256, 4)), rng.normal(size=256))
        people = Agents.from_target(
            rules,
            rng.normal(size=(4000, 4)),
            radius=rng.exponential(0.5, size=4000),
            target=int(rng.integers(256)),
        )
        search = LongestSurvivor(StrategicHalving(rules), eps, delta)
        search.fit(ApplicantStream(people, random_state=seed))
        assert isinstance(search.predictor_, MedianMapPredictor)
        failures += search.predictor_.loss(people) > eps
        rounds.append(search.rounds_)
    assert max(rounds) <= bounds.halving_pac_rounds(256, eps, delta) == 810
    assert binomial_p_value(failures, runs, delta, "greater") > 0.001
    assert failures <= delta * runs


@pytest.mark.claim("02.25")
def test_elimination_survivor_is_one_rule_in_the_blind_setting() -> None:
    population = instances.BlindInstance(8, 1 / 48, target=5)
    search = LongestSurvivor(SequentialElimination(population.hypotheses), 1 / 48, 0.125)
    search.fit(ApplicantStream(population, "blind", random_state=0))
    assert search.predictor_.members.tolist() == [5]
    assert search.rounds_ <= bounds.sequential_pac_rounds(8, 1 / 48, 0.125)


def test_only_conservative_learners_are_accepted() -> None:
    rules = ThresholdClass([1.0, 2.0])
    for learner in (MWMR(rules), UnionSamplingLearner(rules)):
        with pytest.raises(InvalidInputError, match="without a mistake"):
            LongestSurvivor(learner, 0.1, 0.1)
    with pytest.raises(InvalidInputError, match="safe filter"):
        LongestSurvivor(StrategicHalving(rules, filter="safe"), 0.1, 0.1)
    for eps in (0.0, 1.0, -0.1):
        with pytest.raises(InvalidInputError, match="eps"):
            LongestSurvivor(StrategicHalving(rules), eps, 0.1)


def test_too_many_mistakes_are_reported() -> None:
    rules = ThresholdClass([1.0, 2.0])
    noisy = Agents(X=[[0.0]], y=[1], radius=0.0)
    learner = SequentialElimination(rules, on_empty="restart")
    with pytest.raises(NotRealizableError, match="instead of at most 1"):
        LongestSurvivor(learner, 0.2, 0.2).fit(ApplicantStream(noisy, "blind", random_state=0))


@pytest.mark.parametrize("seed", range(5))
def test_make_conservative_forgets_correct_rounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rules = LinearClass(rng.normal(size=(64, 3)), rng.normal(size=64))
    agents = Agents.from_target(rules, rng.normal(size=(300, 3)), radius=0.3, target=9)
    wrapped = make_conservative(StrategicHalving(rules, filter="safe"))
    game = play(wrapped, Applicants(agents))
    assert game.mistakes <= 6
    sizes = np.concatenate([[64], game.version_space_sizes])
    assert (np.diff(sizes)[~game["mistake"]] == 0).all()
    assert wrapped.frozen().loss(agents) <= 1
    with pytest.raises(InvalidInputError, match="randomised"):
        make_conservative(MWMR(rules))


def test_wrapped_learner_survives() -> None:
    rng = np.random.default_rng(0)
    rules = LinearClass(rng.normal(size=(64, 3)), rng.normal(size=64))
    people = Agents.from_target(rules, rng.normal(size=(2000, 3)), radius=0.3, target=9)
    wrapped = make_conservative(StrategicHalving(rules, filter="safe"))
    search = LongestSurvivor(wrapped, 0.1, 0.1).fit(ApplicantStream(people, random_state=0))
    assert search.certified_
    assert search.predictor_.loss(people) <= 0.1


class _Flaky(SequentialElimination):
    """A learner without a bound of its own."""

    needs: ClassVar[Setting] = BLIND

    def mistake_bound(self, rounds: int | None = None) -> Any:
        return None


def test_a_bound_must_be_known() -> None:
    rules = ThresholdClass([1.0, 2.0])
    with pytest.raises(InvalidInputError, match="pass mistakes"):
        LongestSurvivor(_Flaky(rules), 0.1, 0.1)
    search = LongestSurvivor(_Flaky(rules), 0.1, 0.1, mistakes=1)
    people = Agents.from_target(rules, [[0.0], [1.5], [3.0]], radius=0.1, target=1)
    stream: ObliviousGame = ApplicantStream(people, "blind", random_state=0)
    assert isinstance(search.fit(stream).predictor_, UnionPredictor)
