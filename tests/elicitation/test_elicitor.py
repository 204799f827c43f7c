"""The guaranteed procedure as a session."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest

from counterplay.elicitation import (
    LinearPreferenceUser,
    PreferenceElicitor,
    answered_by,
    bounds,
    instances,
    plan,
)
from counterplay.elicitation.comparisons import Answer, Option
from counterplay.elicitation.lab import estimate_ratios
from counterplay.errors import (
    AssumptionWarning,
    ContradictionError,
    InvalidInputError,
    InvalidStateError,
    ProtocolError,
)
from elicitation.problems import unit


class Stubborn:
    """Always gives the same answer."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def compare(self, first: Option, second: Option) -> Answer:
        return self.answer


@pytest.mark.claim("08.22")
@pytest.mark.parametrize("seed", range(3))
def test_representation_does_not_change_a_single_question(seed: int) -> None:
    mdp = instances.random_mdp(seed, k=3)
    user = LinearPreferenceUser([0.9, 0.6, 0.3], 0.01)
    runs = {
        shown: answered_by(PreferenceElicitor(mdp, representation=shown), user)
        for shown in ("values", "policy", "trajectories")
    }
    reference = runs["values"]
    for result in runs.values():
        assert result.n_queries == reference.n_queries
        for mine, theirs in zip(result.answers, reference.answers):
            assert mine.answer is theirs.answer
            assert mine.first == pytest.approx(theirs.first, abs=1e-12)
            assert mine.second == pytest.approx(theirs.second, abs=1e-12)
        assert result.policy.tolist() == reference.policy.tolist()
        assert result.estimate.w_hat.tolist() == reference.estimate.w_hat.tolist()


@pytest.mark.claim("08.22")
def test_questions_show_trajectory_sets_of_at_most_k_plus_1() -> None:
    mdp = instances.random_mdp(0, k=3)
    elicitor = PreferenceElicitor(mdp, representation="trajectories")
    user = LinearPreferenceUser([0.9, 0.6, 0.3], 0.01)
    while not elicitor.done:
        query = elicitor.ask()
        for option in (query.first, query.second):
            assert len(option.trajectories) <= 4
            assert option.trajectories.value == pytest.approx(option.value, abs=1e-12)
        elicitor.tell(user.compare(query.first, query.second))


@pytest.mark.claim("08.23")
@pytest.mark.parametrize("params", [{}, {"refine": 2, "precision": True}, {"max_queries": 9}])
def test_saving_and_restoring_after_every_question_changes_nothing(params: dict) -> None:
    mdp = instances.random_mdp(1, k=3)
    user = LinearPreferenceUser([0.9, 0.6, 0.3], 0.01)
    straight = answered_by(PreferenceElicitor(mdp, **params), user)
    elicitor = PreferenceElicitor(mdp, **params)
    while not elicitor.done:
        query = elicitor.ask()
        elicitor.tell(user.compare(query.first, query.second).value)
        elicitor = PreferenceElicitor.from_json(elicitor.to_json(), mdp)
    assert elicitor.result().n_queries == straight.n_queries
    assert elicitor.result().estimate.w_hat.tolist() == straight.estimate.w_hat.tolist()
    assert elicitor.result().policy.tolist() == straight.policy.tolist()
    twin = pickle.loads(pickle.dumps(elicitor))
    assert twin.result().n_queries == straight.n_queries


@pytest.mark.claim("08.23")
@pytest.mark.parametrize("answer", [Answer.FIRST, Answer.SECOND])
def test_stubborn_answers_end_with_an_error(answer: Answer) -> None:
    mdp = instances.random_mdp(2, k=3)
    elicitor = PreferenceElicitor(mdp)
    with pytest.raises(ContradictionError) as caught:
        answered_by(elicitor, Stubborn(answer))
    assert caught.value.conflict
    assert 0 < len(elicitor.events) <= 2 + 200
    elicitor.ask()  # the session is still usable


@pytest.mark.claim("08.23")
def test_stubborn_second_is_recognised_at_the_first_ratio_question() -> None:
    mdp = instances.random_mdp(2, k=3)
    elicitor = PreferenceElicitor(mdp)
    with pytest.raises(ContradictionError, match="diluted"):
        answered_by(elicitor, Stubborn(Answer.SECOND))
    assert [a.purpose for a in elicitor.events].count("ratio") == 0


@pytest.mark.claim("08.23")
def test_plain_bisection_without_an_end_raises_within_the_cap() -> None:
    values = np.array([[1.0, 0.1], [0.4, 0.9]])
    for answer in (Answer.FIRST, Answer.SECOND):
        with pytest.raises(ContradictionError, match="still no answer was 'same'"):
            estimate_ratios(values, Stubborn(answer))


@pytest.mark.claim("08.23")
def test_user_without_precision_needs_a_cap() -> None:
    mdp = instances.random_mdp(0, k=3)
    exact = LinearPreferenceUser([0.9, 0.6, 0.3], 0.0)
    with pytest.raises(InvalidInputError, match="set max_queries"):
        answered_by(PreferenceElicitor(mdp), exact)
    with pytest.raises(InvalidInputError, match="set max_queries"):
        estimate_ratios([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], exact)
    result = answered_by(PreferenceElicitor(mdp, max_queries=30), exact)
    assert result.n_queries == 30
    best = plan(mdp, exact.w).scalar_values[0]
    assert best - result.value @ exact.w <= result.regret_certificate * best + 1e-9


def test_all_same_means_that_nothing_can_be_measured() -> None:
    mdp = instances.random_mdp(0, k=3)
    with pytest.warns(AssumptionWarning, match="cannot tell the yardstick from nothing"):
        result = answered_by(PreferenceElicitor(mdp), Stubborn(Answer.INDISTINGUISHABLE))
    assert result.n_queries == 2 + 2 + 1
    assert result.regret_certificate == 1.0
    assert "note:" in result.summary()


def test_a_refused_answer_can_be_given_again() -> None:
    mdp = instances.random_mdp(1, k=3)
    user = LinearPreferenceUser([0.9, 0.6, 0.3], 0.01)
    elicitor = PreferenceElicitor(mdp)
    while elicitor.ask().purpose == "benchmark":
        query = elicitor.ask()
        elicitor.tell(user.compare(query.first, query.second))
    question = elicitor.ask()
    with pytest.raises(ContradictionError, match="although it was diluted to 1/6"):
        elicitor.tell("second")
    assert len(elicitor.events) == 2
    assert elicitor.ask().second.value.tolist() == question.second.value.tolist()
    assert (
        answered_by(elicitor, user).n_queries
        == answered_by(PreferenceElicitor(mdp), user).n_queries
    )


def test_undo_takes_back_exactly_one_answer() -> None:
    mdp = instances.random_mdp(1, k=3)
    user = LinearPreferenceUser([0.9, 0.6, 0.3], 0.01)
    elicitor = PreferenceElicitor(mdp)
    questions = []
    for _ in range(8):
        query = elicitor.ask()
        questions.append(query.first.value.tolist())
        elicitor.tell(user.compare(query.first, query.second))
    for back in range(7, -1, -1):
        elicitor.undo()
        assert elicitor.ask().first.value.tolist() == questions[back]
    with pytest.raises(ProtocolError, match="no answer to take back"):
        elicitor.undo()
    assert (
        answered_by(elicitor, user).n_queries
        == answered_by(PreferenceElicitor(mdp), user).n_queries
    )


def test_saved_state_of_another_model_is_refused() -> None:
    user = LinearPreferenceUser([0.9, 0.6, 0.3], 0.01)
    elicitor = PreferenceElicitor(instances.random_mdp(1, k=3))
    query = elicitor.ask()
    elicitor.tell(user.compare(query.first, query.second))
    text = elicitor.to_json()
    with pytest.raises(InvalidStateError, match="belongs to another problem: its rewards differ"):
        PreferenceElicitor.from_json(text, instances.random_mdp(2, k=3))
    with pytest.raises(InvalidStateError, match="objectives was 3 and is 4 here"):
        PreferenceElicitor.from_json(text, instances.random_mdp(1, k=4))
    damaged = json.loads(text)
    del damaged["answers"][0]["first"]
    with pytest.raises(InvalidStateError, match=r"answers\[0\]: object missing .* `first`"):
        PreferenceElicitor.from_json(json.dumps(damaged), instances.random_mdp(1, k=3))
    shifted = json.loads(text)
    shifted["answers"][0]["first"][0] += 0.1
    with pytest.raises(InvalidStateError, match="question 1 of the saved session shows other"):
        PreferenceElicitor.from_json(json.dumps(shifted), instances.random_mdp(1, k=3))


def test_questions_stay_below_the_bound() -> None:
    rng = np.random.default_rng(1)
    for seed in range(10):
        mdp = instances.random_mdp(seed)
        w = unit(rng, 4)
        result = answered_by(PreferenceElicitor(mdp), LinearPreferenceUser(w, 1e-3))
        x = float(result.estimate.basis_values[0] @ w)
        d = len(result.estimate.basis_values)
        assert result.n_queries <= bounds.total_questions(4, d, x / 1e-3)


def coarse_people(n: int, seed: int):
    """Random tables and people whose precision may be far above the worth of everything."""
    rng = np.random.default_rng(seed)
    while n:
        k = int(rng.integers(2, 5))
        values = rng.random((int(rng.integers(k, 12)), k)) * 10.0 ** rng.uniform(-2, 0, k)
        values[rng.random(values.shape) < 0.4] = 0.0
        if not values.any(axis=0).all():
            continue
        w = rng.random(k) * 10.0 ** rng.uniform(-2, 1, k)
        share = 10.0 ** rng.uniform(-3, 4.1)  # precision / typical worth
        yield values, w, share * float((values @ w).max())
        n -= 1


@pytest.mark.claim("26.19")
@pytest.mark.filterwarnings("ignore::counterplay.errors.AssumptionWarning")
def test_the_worth_question_is_counted() -> None:
    """Benchmark, one ratio and "benchmark or nothing": three questions."""
    result = answered_by(
        PreferenceElicitor([[1.0, 0.0], [0.0, 1.0]]), LinearPreferenceUser([1.0, 1.0], 5.0)
    )
    assert result.n_queries == 3 == bounds.total_questions(2, 2, 1 / 5)
    assert bounds.total_questions(3, 1, 1 / 5) == 2  # one dimension: benchmark questions only


@pytest.mark.claim("26.19")
@pytest.mark.filterwarnings("ignore::counterplay.errors.AssumptionWarning")
def test_coarse_people_stay_below_the_bound() -> None:
    reached = 0
    for values, w, eps in coarse_people(300, seed=6):
        result = answered_by(PreferenceElicitor(values), LinearPreferenceUser(w, eps))
        basis = result.estimate.basis_values
        x = float(basis[0] @ w)
        if x > 0:
            most = bounds.total_questions(values.shape[1], len(basis), x / eps)
            assert result.n_queries <= most
            reached += result.n_queries == most
    assert reached > 30  # the bound is attained


@pytest.mark.claim("26.20")
@pytest.mark.filterwarnings("ignore::counterplay.errors.AssumptionWarning")
@pytest.mark.parametrize(
    "options",
    [{}, {"precision": True}, {"refine": 1, "precision": True}, {"refine": 4}, {"max_queries": 4},
     {"nonneg": True}],
)  # fmt: skip
def test_ratio_errors_are_guaranteed_or_void(options: dict[str, Any]) -> None:
    """No bound is exceeded; it is infinite where the benchmark cannot be told from nothing."""
    void = 0
    for values, w, eps in coarse_people(500, seed=7):
        result = answered_by(PreferenceElicitor(values, **options), LinearPreferenceUser(w, eps))
        estimate = result.estimate
        worth = estimate.basis_values @ w
        if worth[0] <= 0:
            assert np.isinf(estimate.ratio_error_bound).all()
            continue
        error = np.abs(estimate.alpha_hat - worth[1:] / worth[0])
        assert (error <= estimate.ratio_error_bound * (1 + 1e-9) + 1e-12).all()
        finite = np.isfinite(estimate.ratio_error_bound)
        void += not finite.all()
        if "max_queries" not in options:
            assert finite.all() == (worth[0] > eps or not finite.size)
        else:
            assert result.n_queries <= options["max_queries"]
        regret = 1 - float(result.value @ w) / float((values @ w).max())
        assert regret <= result.regret_certificate + 1e-9
    assert 60 < void < 440


def test_a_session_is_described_and_its_result_is_a_report() -> None:
    mdp = instances.random_mdp(0, k=3)
    user = LinearPreferenceUser([0.9, 0.6, 0.3], 0.01)
    elicitor = PreferenceElicitor(mdp, basis="thesis")
    assert repr(elicitor) == f"PreferenceElicitor({mdp!r}, basis='thesis')"
    result = answered_by(elicitor, user)
    assert elicitor.ask() is None
    frame = result.to_frame()
    assert len(frame) == result.n_queries == len(elicitor.events)
    assert result.to_dict()["kind"] == "ElicitationResult"
    assert set(frame["purpose"]) == {"benchmark", "ratio"}


def test_one_objective_needs_no_question() -> None:
    mdp = instances.stationarity()
    result = answered_by(PreferenceElicitor(mdp), LinearPreferenceUser([1.0], 0.1))
    assert result.n_queries == 0
    assert result.value[0] == pytest.approx(1.2)
    assert result.regret_certificate == 0.0
