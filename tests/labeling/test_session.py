from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplay.errors import (
    ContradictionError,
    InvalidInputError,
    InvalidStateError,
    ProtocolError,
)
from counterplay.labeling import (
    B2IR,
    GBS,
    LabelingSession,
    PoolProblem,
    instances,
    plan_campaign,
    sir_mixture,
)
from counterplay.labeling.lab import Answer, LabelQuery
from counterplay.verify import verify
from labeling.problems import answer_all

PLAYTHROUGHS = Path(__file__).parents[1] / "playthroughs"


@pytest.mark.claim("06.32")
def test_resuming_after_every_answer_changes_nothing() -> None:
    problem = instances.gbs_counterexample(6)
    protocol = sir_mixture(GBS(tie_break=[8]), problem, Fraction(4))
    for h in range(problem.N):
        truth = problem.H[h]
        straight = answer_all(LabelingSession(problem, protocol, seed=h), truth)
        session, asked = LabelingSession(problem, protocol, seed=h), []
        while (query := session.ask()) is not None:
            asked.append((query.agent, query.point))
            session.tell(query, int(truth[query.point]))
            session = LabelingSession.from_json(session.to_json(), problem, protocol)
        assert asked == straight
        assert np.array_equal(session.labels, truth)


@pytest.mark.claim("06.31")
def test_wrong_label_is_not_recorded_and_can_be_corrected() -> None:
    labels = np.array([[0, 0, 0, 1], [0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1], [1, 1, 1, 1]])
    problem = PoolProblem.from_labelings(labels, agents=[[0, 1], [2, 3]])
    session = LabelingSession(problem, GBS(), seed=0)
    first = session.ask()
    assert first is not None
    with pytest.raises(InvalidInputError, match="not a label"):
        session.tell(first, "maybe")
    before = session.to_json()
    # no hypothesis gives the pair (asked point, impossible label): ask until one side is empty
    while (query := session.ask()) is not None:
        alive = problem.H[session.posterior > 0]
        session.tell(query, int(alive[0, query.point]))
    assert session.ask() is None
    with pytest.raises(ProtocolError, match="finished"):
        session.tell(first, 0)
    assert before != session.to_json()
    answered = session.answers[0].point
    session.retract(answered)
    again = session.ask()
    assert again is not None
    assert again.point == answered
    with pytest.raises(ProtocolError, match="not finished; there are questions left"):
        session.verify()
    while (query := session.ask()) is not None:
        alive = problem.H[session.posterior > 0]
        session.tell(query, int(alive[-1, query.point]))
    truth = 1 - session.labels  # no labeling is right, and the audit sees it
    audit = session.verify(max_error=0.3, random_state=0)
    while (item := audit.ask()) is not None:
        audit.tell(item, truth[item])
    assert audit.certificate.wrong > 0
    assert np.mean(audit.labels != truth) <= 0.3


@pytest.mark.claim("06.31")
def test_label_outside_the_class_is_explained() -> None:
    """With three labels, one of them impossible at a point, the answer contradicts the class."""
    labels = np.array([[0, 0], [0, 1], [1, 1]])
    problem = PoolProblem.from_labelings(labels, agents=[[0], [1]], n_classes=3)
    session = LabelingSession(problem, B2IR(GBS()), seed=0, classes=["low", "mid", "high"])
    query = session.ask()
    assert query is not None
    state = session.to_json()
    with pytest.raises(ContradictionError) as error:
        session.tell(query, "high")
    assert len(error.value.conflict) == 1
    assert session.to_json() == state


def test_sessions_cost_what_the_matrix_says() -> None:
    problem, gbs = instances.gbs_counterexample(5), GBS(tie_break=[7])
    protocol = B2IR(gbs)
    costs = protocol.cost_matrix(problem)
    for h in range(problem.N):
        session = LabelingSession(problem, protocol)
        answer_all(session, problem.H[h])
        transcript = session.transcript()
        counts = np.bincount(transcript["agent"], minlength=2)
        assert np.array_equal(counts, costs[h])
        assert transcript["entropy_after"][-1] == pytest.approx(0, abs=1e-12)


def test_golden_transcript() -> None:
    problem = instances.gbs_counterexample(6)
    session = LabelingSession(problem, B2IR(GBS(tie_break=[8])), seed=3653403231)
    answer_all(session, problem.H[5])
    stored = PLAYTHROUGHS / "labeling_b2ir.txt"
    assert session.transcript().text() + "\n" == stored.read_text(encoding="utf-8")


def coin_flip_session(seed: int) -> tuple[LabelingSession, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, size=(40, 30))
    problem = PoolProblem.from_labelings(labels, agents=[np.arange(15), np.arange(15, 30)])
    session, flips = LabelingSession(problem, B2IR(GBS()), seed=seed), rng.integers(0, 2, 30)
    answer_all(session, flips)
    return session, flips


def test_certainty_is_named_as_an_assumption() -> None:
    """Coin flips contradict nothing, so 1.0 can only be a statement under the assumption."""
    wrong = 0.0
    for seed in range(50):
        session, flips = coin_flip_session(seed)
        wrong += float((session.labels != flips).mean()) / 50
        result = session.result()
        assert (result.confidence_if_realizable == 1.0).all()
        assert not hasattr(result, "confidence")
        text, n = result.summary(), len(session.answers)
        assert f"{30 - n} of 30 labels were inferred, nobody gave them" in text
        assert f"assumed, not tested: one of the {session.problem.N} labelings is right" in text
    assert wrong > 0.3  # most labels are guesses about coins
    plan = plan_campaign(np.arange(4.0), owners=[0, 0, 1, 1], hypotheses="thresholds")
    assert "assumed, not tested: one of the 5 labelings is right" in plan.summary()


def saved_state() -> tuple[PoolProblem, dict[str, Any]]:
    labels = np.random.default_rng(1).integers(0, 2, size=(9, 8))
    problem = PoolProblem.from_labelings(labels, agents=[np.arange(4), np.arange(4, 8)])
    session = LabelingSession(problem, GBS(), seed=3)
    for _ in range(2):
        query = session.ask()
        assert query is not None
        session.tell(query, int(problem.H[1, query.point]))
    return problem, json.loads(session.to_json())


def resumed_on(problem: PoolProblem, state: Any) -> LabelingSession:
    text = state if isinstance(state, str) else json.dumps(state)
    return LabelingSession.from_json(text, problem, GBS())


def test_sessions_of_another_problem_are_refused() -> None:
    problem, state = saved_state()
    resumed = resumed_on(problem, state)
    assert json.loads(resumed.to_json()) == state
    H, owners = problem.H, [np.arange(4), np.arange(4, 8)]
    others = [
        PoolProblem.from_labelings(H[:, ::-1], agents=owners),
        PoolProblem.from_labelings(H[:, :6], agents=[np.arange(4), np.arange(4, 6)]),
        PoolProblem.from_labelings(H, agents=owners[::-1]),
        PoolProblem.from_labelings(H, np.arange(1, 10), owners),
        PoolProblem.from_labelings(H, agents=owners, point_ids=list("abcdefgh")),
        PoolProblem.from_labelings(H, agents=owners, n_classes=3),
    ]
    named = ("its labelings differ", "points was 8 and is 6 here", "its owners differ",
             "its weights differ", "its names differ", "its classes differ")  # fmt: skip
    for other, difference in zip(others, named):
        told = f"belongs to another problem: {difference}"
        with pytest.raises(InvalidStateError, match=told):
            resumed_on(other, state)


def test_every_entry_of_a_saved_session_is_checked() -> None:
    problem, state = saved_state()
    first = state["events"][0]
    agent, point = first["agent"], first["point"]

    def told(agent: Any, point: Any, label: Any) -> list[Any]:
        return [{"event": "tell", "agent": agent, "point": point, "label": label}]

    cases: list[tuple[str, Any, str]] = [
        ("events", told(agent, point, 7), r"events\[0\].label: must be below 2, got 7"),
        ("events", told(agent, point, -1), r"events\[0\].label: expected `int` >= 0"),
        ("events", told(agent, point, 1.0), r"events\[0\].label: expected `int`, got `float`"),
        ("events", told(agent, -1, 1), r"events\[0\].point: expected `int` >= 0"),
        ("events", told(agent, 8, 1), r"events\[0\].point: must be below 8, got 8"),
        ("events", told(99, point, 1), r"events\[0\].agent: must be below 2, got 99"),
        ("events", told(1 - agent, point, 1), r"events\[0\]: the protocol asks"),
        ("events", told(agent, point, 1) * 2, r"events\[1\]: the protocol asks"),
        ("events", [{"event": "tell", "agent": agent, "point": point}], "required field `label`"),
        ("events", [{"event": "forget", "point": point}], r"events\[0\].event: invalid value"),
        ("events", [{"point": point}], r"events\[0\]: object missing required field `event`"),
        ("events", ["tell"], r"events\[0\]: expected `object`, got `str`"),
        ("events", [{"event": "retract", "point": point}], "no answer for point"),
        ("events", {"0": 1}, "events: expected `array`, got `object`"),
        ("events", None, "events: expected `array`, got `null`"),
        ("seed", None, "seed: expected `int`, got `null`"),
        ("seed", -1, "seed: expected `int` >= 0"),
        ("version", 3, "it has format 3, this version reads format 5"),
        ("labels", [0], "object contains unknown field `labels`"),
    ]
    for key, value, message in cases:
        with pytest.raises(InvalidStateError, match=message):
            resumed_on(problem, {**state, key: value})
        left = {name: entry for name, entry in state.items() if name != key}
        if left != state:
            with pytest.raises(InvalidStateError):
                resumed_on(problem, left)
    for text in ("", "[]", "{", "[" * 100_000, "null"):
        with pytest.raises(InvalidStateError, match="the saved session cannot be used"):
            resumed_on(problem, text)


def test_answers_that_the_protocol_does_not_ask_for_are_refused() -> None:
    problem = instances.threshold_example()
    session = LabelingSession(problem, GBS(), seed=2)
    answer_all(session, problem.H[0])
    state = json.loads(session.to_json())
    first, second = state["events"]
    paid = (first["point"], second["point"])
    other = next(int(x) for x in problem.agents[first["agent"]] if x not in paid)
    bad = {**state, "events": [first, {**first, "point": other, "label": 0}]}
    with pytest.raises(InvalidStateError, match=r"events\[1\]: the protocol asks"):
        resumed_on(problem, bad)
    assert np.array_equal(resumed_on(problem, state).labels, problem.H[0])


def test_retraction_keeps_the_other_answers() -> None:
    """One wrong answer of many is taken back: nobody is asked again for what he has answered."""
    rng = np.random.default_rng(2)
    asked_again = changed = 0
    for seed in range(40):
        labels = rng.integers(0, 2, size=(60, 24))
        problem = PoolProblem.from_labelings(labels, agents=[np.arange(12), np.arange(12, 24)])
        truth = problem.H[seed % problem.N].copy()
        session = LabelingSession(problem, B2IR(GBS()), seed=seed)
        wrong = truth.copy()
        second = 0
        for n in range(4):  # the second answer is wrong
            query = session.ask()
            assert query is not None
            if n == 1:
                second = query.point
                wrong[second] = 1 - truth[second]
            session.tell(int(wrong[query.point]))
        before = {answer for answer in session.answers if answer.point != second}
        session.retract(second)
        assert set(session.answers) == before
        again = session.ask()
        assert again is not None
        assert again.point == second
        paid = {answer.point for answer in before}
        try:
            asked = {point for _, point in answer_all(session, truth)}
        except ContradictionError:  # the answers after the wrong one were those of the truth
            pytest.fail("true answers cannot contradict each other")
        asked_again += len(asked & paid)
        changed += len(session.answers) > len(before) + 1
        assert np.array_equal(session.labels, truth)
        resumed = LabelingSession.from_json(session.to_json(), problem, B2IR(GBS()))
        assert resumed.events == session.events
        assert resumed.answers == session.answers
        assert resumed.ask() is None
    assert asked_again == 0
    assert changed > 10


def test_both_forms_of_tell_and_the_log() -> None:
    problem = instances.threshold_example()
    session = LabelingSession(problem, GBS(tie_break=[1, 3, 6]))
    first = session.ask()
    assert first is session.ask()
    assert first is not None
    with pytest.raises(ProtocolError, match="the open question is"):
        session.tell(LabelQuery(1, 3), 0)
    with pytest.raises(InvalidInputError, match="not a label"):
        session.tell(7)
    assert session.events == ()
    session.tell(0)
    second = session.ask()
    assert second is not None
    session.tell(LabelQuery(second.agent, second.point), 1)
    assert [type(event) for event in session.events] == [Answer, Answer]
    assert session.events == session.answers
    with pytest.raises(ProtocolError, match="finished"):
        session.tell(1)


def test_the_export_is_verified_by_other_code() -> None:
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 3, size=(30, 12))
    problem = PoolProblem.from_labelings(
        labels, rng.random(30), [np.arange(7), np.arange(5, 12)], n_classes=3
    )
    session = LabelingSession(problem, B2IR(GBS()), seed=1, classes=["cat", "dog", "owl"])
    truth = problem.H[3]
    query = session.ask()
    assert query is not None
    session.tell(session.classes[truth[query.point]])
    session.retract(query.point)
    while (query := session.ask()) is not None:
        session.tell(session.classes[truth[query.point]])
    found = verify(session.export().encode())
    assert found.holds, found.summary()
    lie = session.export().replace('"label":2', '"label":1', 1)
    assert not verify(lie.encode()).holds
