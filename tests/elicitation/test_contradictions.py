"""Contradictory answers in the adaptive questionnaire."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linprog

from counterplay.elicitation import LinearPreferenceUser, NoisyUser, PolytopeElicitor, answered_by
from counterplay.elicitation.comparisons import Answer
from counterplay.elicitation.consistent_set import answer_rows
from counterplay.elicitation.contradictions import explainable
from counterplay.elicitation.lab import fewest_to_set_aside, smallest_conflict
from counterplay.errors import ContradictionError
from elicitation.problems import front

IGNORE_NORM = "ignore::counterplay.errors.AssumptionWarning"  # users whose weights sum to 1


@pytest.mark.claim("08.31")
def test_contradictions_are_detected_exactly() -> None:
    """The polytope is empty exactly when an LP with strict margins finds no preference."""
    rng = np.random.default_rng(0)
    seen = {True: 0, False: 0}
    for _ in range(150):
        k = int(rng.integers(2, 4))
        answers = [
            (rng.random(k) - rng.random(k), list(Answer)[rng.integers(3)])
            for _ in range(int(rng.integers(2, 9)))
        ]
        rows, strict = [], []
        for d, a in answers:
            for row in answer_rows(d, a):
                rows.append(row)
                strict.append(a is not Answer.INDISTINGUISHABLE)
        best = linprog(
            np.append(np.zeros(k + 1), -1.0),
            A_ub=np.hstack([-np.array(rows), np.array(strict, dtype=float)[:, None]]),
            b_ub=np.zeros(len(rows)),
            A_eq=[np.concatenate([np.ones(k), [0.0, 0.0]])],
            b_eq=[1.0],
            bounds=[(0, None)] * k + [(0, 1), (None, 1)],
        )
        margin = -best.fun if best.status == 0 else -1.0
        if abs(margin) < 1e-7 and any(strict):
            continue  # on the edge of the LP's own tolerance
        possible = margin > 0
        assert explainable(answers) is possible
        seen[possible] += 1
        conflict = smallest_conflict(answers)
        assert bool(conflict) is not possible
        if conflict:
            assert not explainable([answers[i] for i in conflict])
            for left_out in conflict:
                assert explainable([answers[i] for i in conflict if i != left_out])
            dropped = fewest_to_set_aside(answers)
            assert explainable([a for i, a in enumerate(answers) if i not in dropped])
            if len(dropped) > 1:
                for i in range(len(answers)):
                    assert not explainable([a for j, a in enumerate(answers) if j != i])
    assert min(seen.values()) >= 30


def contradict(elicitor: PolytopeElicitor) -> None:
    """Offer three comparisons of which any two fit together, but not all three."""
    elicitor.volunteer(0, 1, "first")
    elicitor.volunteer(1, 2, "first")
    elicitor.volunteer(2, 0, "first")


@pytest.mark.claim("08.31")
@pytest.mark.parametrize("policy", ["ask", "set_aside"])
def test_contradictory_people_get_a_recommendation_and_a_report(policy: str) -> None:
    items = front(100, 3, 0)
    elicitor = PolytopeElicitor(items, contradictions=policy, random_state=0)
    contradict(elicitor)
    result = answered_by(elicitor, LinearPreferenceUser([1.0, 0.6, 0.3], 1e-3))
    (contradiction,) = result.contradictions[:1]
    assert contradiction.conflict == (0, 1, 2)
    assert len(contradiction.set_aside) == 1
    assert str(contradiction) in result.summary()
    assert result.regret_certificate <= 0.01


@pytest.mark.claim("08.31")
@pytest.mark.filterwarnings(IGNORE_NORM)
@pytest.mark.parametrize("policy", ["ask", "set_aside"])
def test_noisy_people_never_cause_a_hang(policy: str) -> None:
    regrets, reported = [], 0
    for seed in range(15):
        rng = np.random.default_rng(seed)
        items = rng.random((200, 3))
        w = rng.dirichlet(np.ones(3))
        user = NoisyUser(w, 0.005, flip_prob=0.15, random_state=seed)
        elicitor = PolytopeElicitor(
            items, contradictions=policy, adaptive_questions=3, target_regret=1e-3, random_state=0
        )
        result = answered_by(elicitor, user)
        reported += len(result.contradictions)
        worth = items @ w
        regrets.append(1 - worth[result.index] / worth.max())
        assert result.n_queries <= 120
        for contradiction in result.contradictions:
            assert contradiction.conflict
            assert contradiction.set_aside or contradiction.changed
    assert np.median(regrets) <= 0.1
    assert reported >= 3


@pytest.mark.claim("08.31")
def test_one_early_slip_does_not_outweigh_later_answers() -> None:
    """A slip contradicts true answers one at a time; two of them are enough to drop it."""
    items = front(100, 3, 0)
    truth = LinearPreferenceUser([1.2, 0.6, 0.2], 1e-4)
    worth = items @ truth.w
    order = [int(i) for i in np.argsort(-worth)]
    elicitor = PolytopeElicitor(items, contradictions="set_aside", random_state=0)
    elicitor.volunteer(order[60], order[0], "first")  # the slip
    elicitor.volunteer(order[0], order[60], "first")
    elicitor.volunteer(order[0], order[60], "first")
    result = answered_by(elicitor, truth)
    first, second = result.contradictions
    assert (first.set_aside, first.restored) == ((1,), ())
    assert (second.set_aside, second.restored) == ((0,), (1,))
    assert str(second) == "answers 1, 3 exclude each other; 1 set aside, 2 counted again"
    assert 1 - worth[result.index] / worth.max() <= 0.01


@pytest.mark.claim("08.31")
def test_fewest_to_set_aside_equals_brute_force() -> None:
    rng = np.random.default_rng(1)
    sizes = []
    for _ in range(40):
        w = rng.dirichlet(np.ones(3))
        answers = []
        for _ in range(8):
            d = rng.random(3) - rng.random(3)
            told = d @ w if rng.random() < 0.7 else -(d @ w)
            answers.append((d, Answer.FIRST if told > 0 else Answer.SECOND))
        smallest = next(
            n
            for n in range(9)
            for gone in combinations(range(8), n)
            if explainable([a for i, a in enumerate(answers) if i not in gone])
        )
        dropped = fewest_to_set_aside(answers)
        assert len(dropped) == smallest
        assert explainable([a for i, a in enumerate(answers) if i not in dropped])
        sizes.append(smallest)
    assert max(sizes) >= 2


@pytest.mark.claim("08.31")
def test_contradiction_raises_when_not_tolerated_and_nothing_is_lost() -> None:
    items = front(100, 3, 0)
    for settings in ({"contradictions": "raise"}, {"max_contradictions": 0}):
        elicitor = PolytopeElicitor(items, random_state=0, **settings)
        question = elicitor.ask().options
        with pytest.raises(ContradictionError, match="answers 1, 2, 3 exclude") as caught:
            contradict(elicitor)
        assert len(caught.value.conflict) == 3
        assert len(elicitor.events) == 2
        elicitor.undo()
        elicitor.undo()
        assert elicitor.ask().options == question


@pytest.mark.claim("08.31")
def test_a_person_who_corrects_a_slip_ends_with_the_exact_answer() -> None:
    items = np.random.default_rng(3).random((300, 3))
    user = LinearPreferenceUser([1.0, 0.4, 0.7], 1e-3)
    worth = items @ user.w
    elicitor = PolytopeElicitor(items, random_state=0)
    query = elicitor.ask()
    assert user.compare(query.first, query.second).value != "same"
    elicitor.tell(user.compare(query.first, query.second).swapped())  # a slip
    first, second = query.options
    pool = elicitor._state.pool
    elicitor.volunteer(  # the person meant this
        pool.items[first], pool.items[second], user.compare(query.first, query.second)
    )
    again = elicitor.ask()
    assert again.purpose == "confirm"
    assert again.about == 0
    assert "exclude each other" in elicitor.ask().reason
    elicitor = PolytopeElicitor.from_json(elicitor.to_json(), items)
    assert elicitor.ask().purpose == "confirm"
    result = answered_by(elicitor, user)
    assert result.contradictions[0].changed == (0,)
    assert 1 - worth[result.index] / worth.max() <= result.regret_certificate + 1e-9
