from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplay.errors import (
    AssumptionWarning,
    ContradictionError,
    InvalidInputError,
    ProtocolError,
)
from counterplay.labeling import (
    B2IR,
    GBS,
    Answer,
    CollaborativeActiveLearner,
    LabelingSession,
    PoolProblem,
    PrunedPartialSIR,
    RandomQuery,
    compute_equilibria,
    draw_tree,
    instances,
    plan_campaign,
    run,
    simulate,
    sir_mixture,
    smallest_conflict,
)

PLAYTHROUGHS = Path(__file__).parents[1] / "playthroughs"


def answer_all(session: LabelingSession, truth: np.ndarray) -> list[tuple[int, int]]:
    asked = []
    while (query := session.ask()) is not None:
        asked.append((query.agent, query.point))
        session.tell(query, int(truth[query.point]))
    return asked


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
            text = session.to_json()
            session = LabelingSession(problem, protocol)
            session.replay(text)
        assert asked == straight
        assert np.array_equal(session.labels, truth)


@pytest.mark.claim("06.31")
def test_conflicts_are_smallest() -> None:
    rng = np.random.default_rng(0)
    compared = 0
    while compared < 40:
        H = rng.integers(0, 2, size=(6, 8))
        problem = PoolProblem.from_labelings(H, agents=[np.arange(8)])
        answers = [Answer(0, x, int(rng.integers(2))) for x in rng.permutation(8)[:6]]
        wrong = np.stack([problem.H[:, a.point] != a.label for a in answers], axis=1)
        if not wrong.any(axis=1).all():
            with pytest.raises(InvalidInputError, match="no conflict"):
                smallest_conflict(problem, answers)
            continue
        sizes = [
            size
            for size in range(1, 7)
            if any(wrong[:, list(c)].any(axis=1).all() for c in combinations(range(6), size))
        ]
        conflict = smallest_conflict(problem, answers)
        chosen = [answers.index(answer) for answer in conflict]
        assert wrong[:, chosen].any(axis=1).all()
        assert len(conflict) == sizes[0]
        compared += 1


@pytest.mark.claim("06.31")
def test_wrong_label_is_not_recorded_and_can_be_corrected_or_tolerated() -> None:
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
    with pytest.warns(AssumptionWarning):
        session.tolerate_noise(0.2)
    while (query := session.ask()) is not None:
        session.tell(query, int(problem.H[4, query.point]))
    assert np.array_equal(session.labels, problem.H[4])
    assert (session.confidence_if_realizable > 0.5).all()


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
    with pytest.warns(AssumptionWarning):
        session.tolerate_noise(0.1)
    while (query := session.ask()) is not None:
        session.tell(query, "low")
    assert session.labels.tolist() == ["low", "low"]


@pytest.mark.claim("06.29")
def test_bad_problems_name_the_item() -> None:
    good = [[0, 1], [1, 0]]
    cases = [
        ({"labels": good, "agents": [[0]]}, "column 1 is owned by nobody"),
        ({"labels": good, "agents": [[0, 1], []]}, "agent 1 has an empty pool"),
        ({"labels": good, "agents": [[0, 1, 5]]}, "agent 0 lists column 5"),
        ({"labels": good, "agents": [[0, 1, 1]]}, "agent 0 lists a column twice"),
        ({"labels": good, "weights": [1, -2], "agents": [[0, 1]]}, r"weights\[1\] is negative"),
        ({"labels": good, "weights": [1, np.nan], "agents": [[0, 1]]}, "finite"),
        ({"labels": good, "weights": [0, 0], "agents": [[0, 1]]}, "positive sum"),
        ({"labels": [[0, 2]], "agents": [[0, 1]]}, "labeling 0 gives point 1 the label 2"),
        ({"labels": np.zeros((0, 2)), "agents": [[0, 1]]}, "must not be empty"),
        ({"labels": good, "weights": [1], "agents": [[0, 1]]}, "length 2"),
    ]
    for arguments, message in cases:
        with pytest.raises(InvalidInputError, match=message):
            PoolProblem.from_labelings(**arguments)


@pytest.mark.claim("06.29")
def test_contradicting_label_names_point_and_agent() -> None:
    problem = PoolProblem.from_labelings([[0, 0], [0, 1]], agents=[[0], [1]])
    state = B2IR(GBS()).start(problem)
    agent, x = state.next_query() or (0, 0)
    with pytest.raises(ValueError, match=rf"label 7 of point {x} \(agent {agent}\)"):
        state.update(x, 7)


def test_run_and_simulate_agree() -> None:
    problem, gbs = instances.gbs_counterexample(5), GBS(tie_break=[7])
    protocol = B2IR(gbs)
    costs = simulate(protocol, problem)
    for h in range(problem.N):
        transcript = run(protocol, problem, problem.H[h], random_state=0)
        counts = np.bincount(transcript["agent"], minlength=2)
        assert np.array_equal(counts, costs[h])
        assert transcript["entropy_after"][-1] == pytest.approx(0, abs=1e-12)
    assert np.array_equal(simulate(protocol, problem, np.array([3, 1])), costs[[3, 1]])


def test_golden_transcript() -> None:
    problem = instances.gbs_counterexample(6)
    game = run(B2IR(GBS(tie_break=[8])), problem, problem.H[5], random_state=0)
    stored = PLAYTHROUGHS / "labeling_b2ir.txt"
    assert game.text() + "\n" == stored.read_text(encoding="utf-8")


def test_campaign_from_owners_matrix_and_multiclass_committee() -> None:
    from sklearn.datasets import load_iris
    from sklearn.tree import DecisionTreeClassifier

    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    names = np.array(["setosa", "versicolor", "virginica"])
    members = []
    for _ in range(40):
        rows = rng.integers(0, len(X), 30)
        members.append(DecisionTreeClassifier(random_state=0).fit(X[rows], names[y[rows]]))
    pool = rng.choice(len(X), 40, replace=False)
    plan = plan_campaign(
        X[pool], owners=["a"] * 20 + ["b"] * 20, hypotheses=members, incentive="sir", eps=0.5
    )
    assert plan.report.is_sir
    truth = members[3].predict(X[pool])
    session = plan.start(seed=5)
    while (query := session.ask()) is not None:
        session.tell(query, truth[query.point])
        session = plan.resume(session.to_json())
    assert np.array_equal(session.labels, truth)
    assert "2 parties, 40 points" in plan.summary()
    with pytest.raises(InvalidInputError, match="one owner for each"):
        plan_campaign(X[pool], owners=["a"] * 3, hypotheses=members)
    with pytest.raises(InvalidInputError, match="do not fit"):
        plan_campaign(X[pool], owners=["a"] * 40, hypotheses="halfspaces")


def hatched(ax: Any) -> list[str]:
    return [t.get_text() for t in ax.texts if t.get_bbox_patch() and t.get_bbox_patch().get_hatch()]


def test_questions_that_nobody_answers_are_hatched() -> None:
    violation, trap = instances.gbs_violation_7x6(), instances.weak_pruning_trap()
    tree = GBS().tree(violation)
    asked = [f"point {x}" for x in tree.point if x > 0]  # point 0 is agent 2's
    assert sorted(hatched(draw_tree(violation, B2IR(GBS())))) == sorted(asked)
    assert not hatched(draw_tree(violation, GBS()))
    pruned = PrunedPartialSIR(GBS(), 0)
    assert not hatched(draw_tree(trap, pruned))  # pruned only where agent 2's label is 1
    for target in range(trap.N):
        free = hatched(draw_tree(trap, pruned, target=target))
        assert free == (["point 1"] if trap.H[target, 2] == 1 else [])
    with pytest.raises(InvalidInputError, match="target"):
        draw_tree(trap, pruned, target=7)
    with pytest.raises(InvalidInputError, match="tree algorithms"):
        draw_tree(trap, RandomQuery())


def test_overlapping_pools_and_drawing() -> None:
    plan = plan_campaign(
        np.arange(6.0), owners=[[0, 1, 2, 3], [2, 3, 4, 5]], hypotheses="thresholds"
    )
    assert plan.problem.k == 2
    assert plan.report.is_ir
    assert plan.plot_tree().texts
    assert not hatched(plan.plot_tree())
    with pytest.raises(InvalidInputError, match="leaves"):
        plan_campaign(np.arange(90.0), owners=[0] * 90, hypotheses="thresholds").plot_tree()


def test_coalitions_of_three() -> None:
    problem = instances.identical_pools(k=3, m=7)
    table = compute_equilibria(problem, GBS(assignment="uniform"))
    assert table.total((0, 1, 2)) == pytest.approx(3)
    assert (0, 1, 2) in table.stable
    gap, shares = table.least_core
    assert shares.sum() == pytest.approx(3)
    assert gap <= 1e-9
    assert not table.core_is_empty
    assert "core: not empty" in table.summary()
    assert len(table.to_frame()) == 7


def test_one_table_per_party_on_wine() -> None:
    """Three cellars share a pool of real wines; the committee comes from other bottles."""
    from sklearn.datasets import load_wine
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    X, y = load_wine(return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[:, :4], (y == 0).astype(int)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    pool, past = order[:60], order[60:]
    members = []
    while len(members) < 60:
        rows = rng.choice(past, size=20)
        if len(set(y[rows])) == 2:
            members.append(LogisticRegression().fit(X[rows], y[rows]))
    cellars = [X[part] for part in np.array_split(pool, 3)]
    learner = CollaborativeActiveLearner(incentive="sir", eps=0.5).fit(cellars, members)
    assert learner.report_.is_sir
    assert learner.report_.total < 0.8 * learner.report_.baseline_cost.sum()
    session = learner.start(seed=3)
    truth = members[0].predict(learner.pool_)
    assert len(answer_all(session, truth)) < 30
    assert np.array_equal(session.labels, truth)
    with pytest.raises(ProtocolError, match="not fitted"):
        CollaborativeActiveLearner().start()


def coin_flip_session(seed: int) -> tuple[LabelingSession, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, size=(40, 30))
    problem = PoolProblem.from_labelings(labels, agents=[np.arange(15), np.arange(15, 30)])
    session, flips = LabelingSession(problem, B2IR(GBS()), seed=seed), rng.integers(0, 2, 30)
    answer_all(session, flips)
    return session, flips


def test_l2_certainty_is_named_as_an_assumption() -> None:
    """Coin flips contradict nothing, so 1.0 can only be a statement under the assumption."""
    wrong = 0.0
    for seed in range(50):
        session, flips = coin_flip_session(seed)
        wrong += float((session.labels != flips).mean()) / 50
        assert (session.confidence_if_realizable == 1.0).all()
        assert not hasattr(session, "confidence")
        text, n = session.summary(), len(session.answers)
        assert f"{30 - n} of 30 labels were inferred, nobody gave them" in text
        assert f"assumed, not tested: one of the {session.problem.N} labelings is right" in text
    assert wrong > 0.3  # most labels are guesses about coins
    plan = plan_campaign(np.arange(4.0), owners=[0, 0, 1, 1], hypotheses="thresholds")
    assert "assumed, not tested: one of the 5 labelings is right" in plan.summary()


def test_l3_leaving_the_protocol_is_said() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, size=(12, 40))
    problem = PoolProblem.from_labelings(labels, agents=[np.arange(20), np.arange(20, 40)])
    session, truth = LabelingSession(problem, B2IR(GBS())), rng.integers(0, 2, 40)
    assert "do not apply" not in session.summary()
    assert session.overruled == ()
    with pytest.warns(AssumptionWarning, match="incentives of the plan's report do not apply"):
        session.tolerate_noise(0.25)
    answer_all(session, truth)
    given = {answer.point: answer.label for answer in session.answers}
    lost = {point for point, label in given.items() if session.labels[point] != label}
    assert len(lost) > 3
    assert {answer.point for answer in session.overruled} == lost
    assert f"{len(lost)} of {len(given)} answers are overruled" in session.summary()
    assert "incentives of the plan's report do not apply" in session.summary()
    frame = session.to_frame()
    assert set(np.flatnonzero(frame["overruled"])) == lost
    assert set(np.flatnonzero(frame["answer"].notna())) == set(given)
    assert frame["label"].tolist() == session.labels.tolist()
    resumed = LabelingSession(problem, B2IR(GBS()))
    resumed.replay(session.to_json())
    assert resumed.summary() == session.summary()


def noisy_state() -> tuple[PoolProblem, dict[str, Any]]:
    labels = np.random.default_rng(1).integers(0, 2, size=(9, 8))
    problem = PoolProblem.from_labelings(labels, agents=[np.arange(4), np.arange(4, 8)])
    session = LabelingSession(problem, GBS(), seed=3)
    with pytest.warns(AssumptionWarning):
        session.tolerate_noise(0.2)
    for _ in range(3):
        query = session.ask()
        assert query is not None
        session.tell(query, 1)
    return problem, json.loads(session.to_json())


def resumed_on(problem: PoolProblem, state: Any) -> LabelingSession:
    session = LabelingSession(problem, GBS())
    session.replay(state if isinstance(state, str) else json.dumps(state))
    return session


def test_l6_sessions_of_another_problem_are_refused() -> None:
    problem, state = noisy_state()
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
    for other in others:
        with pytest.raises(InvalidInputError, match="belongs to another problem"):
            resumed_on(other, state)


def test_l6_every_entry_of_a_saved_session_is_checked() -> None:
    problem, state = noisy_state()
    agent, point, _ = state["answers"][0]
    cases: list[tuple[str, Any, str]] = [
        ("answers", [[agent, point, 7]], "label code of saved answer 0 must be at most 1"),
        ("answers", [[agent, point, -1]], "label code of saved answer 0 must be at least 0"),
        ("answers", [[agent, point, 1.0]], "label code of saved answer 0 must be an integer"),
        ("answers", [[agent, -1, 1]], "point of saved answer 0 must be at least 0"),
        ("answers", [[agent, 8, 1]], "point of saved answer 0 must be at most 7"),
        ("answers", [[99, point, 1]], "agent of saved answer 0 must be at most 1"),
        ("answers", [[1 - agent, point, 1]], "does not own"),
        ("answers", [[agent, point, 1]] * 2, "saved answer 1 repeats"),
        ("answers", [[agent, point]], "saved answer 0 must be a list"),
        ("answers", {"0": 1}, "no list of answers"),
        ("answers", None, "no list of answers"),
        ("seed", None, "seed of the saved session must be an integer"),
        ("seed", -1, "seed of the saved session must be at least 0"),
        ("noise", 0.7, "noise of the saved session must be in"),
        ("noise", float("nan"), "noise of the saved session must be in"),
        ("noise", "0.2", "noise of the saved session must be a number"),
        ("format", 1, "format 1, expected 2"),
    ]
    for key, value, message in cases:
        with pytest.raises(InvalidInputError, match=message):
            resumed_on(problem, {**state, key: value})
        left = {name: entry for name, entry in state.items() if name != key}
        if key != "noise":
            with pytest.raises(InvalidInputError):
                resumed_on(problem, left)
    for text in ("", "[]", "{", "[" * 100_000, "null"):
        with pytest.raises(InvalidInputError, match="not a saved session"):
            resumed_on(problem, text)


def test_l6_a_refused_file_leaves_the_session_fresh() -> None:
    problem = instances.threshold_example()
    session = LabelingSession(problem, GBS(), seed=2)
    answer_all(session, problem.H[0])
    state = json.loads(session.to_json())
    first, second = state["answers"]
    owned_by_first = [x for x in problem.agents[first[0]] if x not in (first[1], second[1])]
    bad = {**state, "answers": [first, [first[0], int(owned_by_first[0]), 0]]}
    fresh = LabelingSession(problem, GBS(), seed=5)
    with pytest.raises(InvalidInputError, match="do not belong to this campaign"):
        fresh.replay(json.dumps(bad))
    assert (fresh.answers, fresh.seed) == ((), 5)
    fresh.replay(json.dumps(state))
    assert np.array_equal(fresh.labels, problem.H[0])
