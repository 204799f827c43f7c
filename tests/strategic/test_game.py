"""The information contract, enforced by the runner."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplay.errors import InformationError, InvalidInputError, ProtocolError, UnknownNameError
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
from counterplay.strategic.lab import (
    BLIND,
    DeltaOnlyElimination,
    EmpiricalPopulation,
    Feedback,
    QuantileProbe,
    SequentialElimination,
    StrategicLearner,
    UnionPredictor,
    UnionSamplingLearner,
)
from counterplay.strategic.settings import SETTINGS


def population(n: int = 20, m: int = 200, seed: int = 0) -> tuple[LinearClass, Agents]:
    rng = np.random.default_rng(seed)
    rules = LinearClass(rng.normal(size=(n, 3)), rng.normal(size=n))
    radius = rng.exponential(0.5, size=m)
    return rules, Agents.from_target(rules, rng.normal(size=(m, 3)), radius=radius, target=3)


class Spy(StrategicLearner):
    """Publishes one rule and writes down everything it is told."""

    needs = BLIND

    def __init__(self, rules: LinearClass) -> None:
        self.rules = rules
        self.contexts: list[Any] = []
        self.feedback: list[Feedback] = []

    def act(self, seen: Any = None) -> UnionPredictor:
        self.contexts.append(seen)
        return UnionPredictor(self.rules, [0])

    def observe(self, feedback: Feedback) -> None:
        self.feedback.append(feedback)


@pytest.mark.claim("02.22")
@pytest.mark.parametrize(
    ("setting", "before", "x", "delta"),
    [
        ("features_first", True, True, True),
        ("features_after", False, True, True),
        ("report_only", False, False, True),
        ("blind", False, False, False),
    ],
)
def test_the_runner_hides_what_the_setting_hides(
    setting: str, before: bool, x: bool, delta: bool
) -> None:
    rules, agents = population()
    spy = Spy(rules)
    play(spy, Applicants(agents, setting))
    assert all((context is not None) == before for context in spy.contexts)
    assert all((feedback.x is not None) == x for feedback in spy.feedback)
    assert all((feedback.report is not None) == delta for feedback in spy.feedback)
    if x:
        assert all(np.array_equal(f.x, row) for f, row in zip(spy.feedback, agents.X))
    if delta:
        reported, accepted = UnionPredictor(rules, [0]).respond(agents)
        assert all(np.array_equal(f.report, row) for f, row in zip(spy.feedback, reported))
        assert [f.yhat for f in spy.feedback] == accepted.astype(int).tolist()
    assert not any(hasattr(feedback, "radius") for feedback in spy.feedback)


@pytest.mark.claim("02.22")
@pytest.mark.parametrize(
    ("make", "allowed"),
    [
        (StrategicHalving, {"features_first"}),
        (QuantileProbe, {"features_first"}),
        (MWMR, {"features_first", "features_after"}),
        (UnionSamplingLearner, {"features_first", "features_after"}),
        (DeltaOnlyElimination, {"features_first", "features_after", "report_only"}),
        (SequentialElimination, {"features_first", "features_after", "report_only", "blind"}),
    ],
)
@pytest.mark.parametrize("run", [play, lambda a, b: play(a, b, fast=True)])
def test_learners_are_refused_where_they_see_too_little(
    make: Any, allowed: set[str], run: Any
) -> None:
    rules, agents = population(n=6, m=30)
    for setting in SETTINGS:
        if setting.name in allowed:
            run(make(rules), Applicants(agents, setting))
        else:
            with pytest.raises(InformationError, match="reveals less"):
                run(make(rules), Applicants(agents, setting))


@pytest.mark.claim("02.22")
def test_without_feedback_only_labels_and_decisions_matter() -> None:
    """Two populations with the same labels and decisions give the same transcript."""
    star = instances.star_instance(6).hypotheses
    rng = np.random.default_rng(0)
    points = rng.integers(1, 7, size=300)
    here = Agents(X=points, y=points == 4, radius=0.0)
    # The same decisions for every singleton rule: agents at the centre who reach nothing else
    # cannot be told apart by what is seen, so replace positions by relabelled leaves.
    shift = np.array([0, 2, 3, 1, 4, 6, 5])
    there = Agents(X=shift[points], y=points == 4, radius=0.0)
    order = [1, 2, 0, 3, 5, 4]  # rule i of the first run is rule order[i] of the second
    one = play(SequentialElimination(star), Applicants(here, "blind"))
    two = play(SequentialElimination(star, order=order), Applicants(there, "blind"))
    assert one.to_frame().equals(two.to_frame())


@pytest.mark.claim("02.22")
def test_a_learner_that_reads_hidden_fields_gets_none_or_an_error() -> None:
    rules, agents = population(n=6, m=60)

    class Greedy(MWMR):
        needs = BLIND  # lies about its needs

    with pytest.raises(InformationError, match="hides them"):
        play(Greedy(rules, random_state=0), Applicants(agents, "blind"))


def test_games_continue_and_endless_games_need_a_length() -> None:
    rules, agents = population()
    learner = StrategicHalving(rules)
    first = play(learner, Applicants(agents.take(np.arange(100))))
    second = play(learner, Applicants(agents.take(np.arange(100, 200))))
    whole = play(StrategicHalving(rules), Applicants(agents))
    assert first.mistakes + second.mistakes == whole.mistakes
    with pytest.raises(ProtocolError, match="no end"):
        play(learner, ApplicantStream(agents))
    with pytest.raises(ProtocolError, match="no end"):
        play(learner, ApplicantStream(agents), fast=True)
    with pytest.raises(UnknownNameError, match="features_first"):
        Applicants(agents, "xdelta")


def test_protocol_order_is_checked() -> None:
    rules, agents = population()
    with pytest.raises(ProtocolError, match="before act"):
        StrategicHalving(rules).observe(Feedback(y=0, yhat=0))
    with pytest.raises(ProtocolError, match="arrive"):
        Applicants(agents).react(UnionPredictor(rules, [0]))


def test_stream_is_reproducible_and_never_repeats() -> None:
    _, agents = population()
    one = ApplicantStream(agents, random_state=4)
    two = ApplicantStream(EmpiricalPopulation(agents), random_state=4)
    a = np.concatenate([one.next_agents(k).X for k in (1, 5, 4096, 3, 9000)])
    b = two.next_agents(13105).X
    assert np.array_equal(a, b)
    assert one.used == two.used == 13105


def test_shuffled_applicants_are_a_permutation() -> None:
    rules, agents = population()
    game = Applicants(agents, "features_after", shuffle=True, random_state=0)
    one = play(MWMR(rules, random_state=0), game)
    two = play(MWMR(rules, random_state=0), game)
    again = Applicants(agents, "features_after", shuffle=True, random_state=0)
    assert np.array_equal(one["y"], play(MWMR(rules, random_state=0), again)["y"])
    assert one["y"].sum() == two["y"].sum() == agents.y.sum()
    assert not np.array_equal(one["y"], two["y"])


def test_distance_learners_are_refused_on_manipulation_sets() -> None:
    population = instances.NonBallInstance(5, 0.05, target=1)
    stream = ApplicantStream(population, "features_first", random_state=0)
    with pytest.raises(InformationError, match="no balls"):
        play(StrategicHalving(population.hypotheses), stream, rounds=10)
    listed = Applicants(population.sample(10, random_state=0), "features_first")
    with pytest.raises(InformationError, match="no balls"):
        play(StrategicHalving(population.hypotheses), listed, fast=True)


def test_the_summary_names_the_guarantee() -> None:
    rules, agents = population()
    one = play(StrategicHalving(rules), Applicants(agents), rounds=50)
    assert f"at most {bounds.halving_mistakes(20)}" in one.summary()
    assert "of 20 rules left" in one.summary()


def test_transcript_plots_mistakes_and_bound() -> None:
    rules, agents = population()
    game = play(StrategicHalving(rules), Applicants(agents))
    ax = game.plot()
    assert ax.get_xlabel() == "round"
    assert ax.lines[0].get_ydata()[-1] == game.mistakes
    with pytest.raises(InvalidInputError):
        play(StrategicHalving(rules), Applicants(agents), rounds=-1)
