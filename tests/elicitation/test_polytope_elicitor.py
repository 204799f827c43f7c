"""The adaptive questionnaire: exact certificate, question bound, resuming."""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from counterplay.elicitation import (
    Catalogue,
    LinearPreferenceUser,
    MultiObjectiveMDP,
    NoisyUser,
    PolytopeElicitor,
    answered_by,
    bounds,
    instances,
    plan,
)
from counterplay.elicitation.comparisons import Answer
from counterplay.elicitation.consistent_set import answer_rows
from counterplay.elicitation.lab import PolytopeOracle
from counterplay.errors import InvalidInputError, InvalidStateError, ProtocolError
from elicitation.problems import front

IGNORE_NORM = "ignore::counterplay.errors.AssumptionWarning"  # users whose weights sum to 1


@pytest.mark.claim("08.28")
def test_certificate_is_the_exact_maximum_and_is_attained() -> None:
    """Compare with one fractional program per rival, solved by bisection over LPs."""
    items = front(12, 3, 0)
    elicitor = PolytopeElicitor(items, random_state=0)
    user = LinearPreferenceUser([1.0, 0.8, 0.2], 0.02)
    for _ in range(3):
        query = elicitor.ask()
        elicitor.tell(user.compare(query.first, query.second))
    result = elicitor.result()
    consistent = elicitor._state.consistent
    told = [(a.difference, a.answer) for a in elicitor.events]
    rows = np.array([row for d, a in told for row in answer_rows(d, a)])

    def worst_regret(i: int) -> float:
        low, high = 0.0, 1.0
        for _ in range(26):
            middle = (low + high) / 2
            beaten = False
            for j in range(len(items)):
                goal = np.append((1 - middle) * items[j] - items[i], 0.0)
                best = linprog(
                    -goal,
                    A_ub=-rows,
                    b_ub=np.zeros(len(rows)),
                    A_eq=[np.append(np.ones(3), 0.0)],
                    b_eq=[1.0],
                    bounds=[(0, None)] * 3 + [(0, 1)],
                )
                beaten |= -best.fun > 1e-10
                if beaten:
                    break
            low, high = (middle, high) if beaten else (low, middle)
        return high

    assert result.regret_certificate > 0.005
    assert result.regret_certificate == pytest.approx(worst_regret(result.index), abs=1e-6)
    witness = consistent.vertices
    worth = witness @ items.T
    attained = (1 - worth[:, result.index] / worth.max(axis=1)).max()
    assert attained == pytest.approx(result.regret_certificate, abs=1e-12)


@pytest.mark.claim("08.28")
@pytest.mark.filterwarnings(IGNORE_NORM)
@pytest.mark.parametrize("eps", [0.0, 1e-3, 0.03, 0.2])
def test_true_regret_never_exceeds_the_certificate(eps: float) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        k = int(rng.integers(2, 6))
        items = rng.random((300, k)) ** rng.uniform(0.3, 2)
        w = rng.dirichlet(np.full(k, rng.choice([0.3, 1.0, 5.0])))
        elicitor = PolytopeElicitor(items, random_state=seed)
        worth = items @ w
        user = LinearPreferenceUser(w, eps)
        while not elicitor.done:
            now = elicitor.result()
            assert 1 - worth[now.index] / worth.max() <= now.regret_certificate + 1e-9
            query = elicitor.ask()
            elicitor.tell(user.compare(query.first, query.second))
        result = elicitor.result()
        assert 1 - worth[result.index] / worth.max() <= result.regret_certificate + 1e-9
        assert not result.contradictions
        assert (result.weight_ranges[:, 0] <= w + 1e-9).all()
        assert (w <= result.weight_ranges[:, 1] + 1e-9).all()


@pytest.mark.claim("08.29")
@pytest.mark.filterwarnings(IGNORE_NORM)
def test_questions_stay_below_the_adaptive_plus_the_guaranteed_bound() -> None:
    fallbacks = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        k = int(rng.integers(2, 5))
        items = rng.random((60, k))
        w = rng.dirichlet(np.ones(k))
        eps = 10 ** rng.uniform(-4, -1)
        adaptive = int(rng.integers(0, 4))  # so few that the fallback is needed
        elicitor = PolytopeElicitor(
            items, target_regret=1e-3, adaptive_questions=adaptive, random_state=0
        )
        result = answered_by(elicitor, LinearPreferenceUser(w, eps))
        best = float((items @ w).max())
        assert result.n_queries <= adaptive + bounds.total_questions(k, k, best / eps)
        regret = best - float(items[result.index] @ w)
        assert regret <= result.regret_certificate * best + 1e-9
        if result.notes and "guaranteed procedure" in result.notes[0]:
            fallbacks += 1
            limit = max(1e-3 * best, bounds.regret_barycentric(k, k, eps))
            assert regret <= limit + 1e-9
    assert fallbacks >= 15


def questions_until(items: np.ndarray, w: np.ndarray, target: float, seed: int) -> int:
    """Questions until the current recommendation is within ``target`` of the best."""
    elicitor = PolytopeElicitor(items, target_regret=target, random_state=seed)
    user = LinearPreferenceUser(w, 0.0)
    worth = items @ w
    while not elicitor.done:
        if 1 - worth[elicitor.best_guess()] / worth.max() <= target:
            break
        query = elicitor.ask()
        elicitor.tell(user.compare(query.first, query.second))
    return len(elicitor.events)


@pytest.mark.claim("08.30")
@pytest.mark.filterwarnings(IGNORE_NORM)
@pytest.mark.parametrize(("kind", "most"), [("scattered", 5), ("undominated", 6)])
@pytest.mark.parametrize("prior", ["uniform", "sparse", "even", "sphere"])
def test_median_number_of_questions_for_a_thousand_items(prior: str, kind: str, most: int) -> None:
    counts = []
    for seed in range(20 if kind == "scattered" else 60):
        rng = np.random.default_rng(seed)
        items = rng.random((1000, 4)) if kind == "scattered" else front(1000, 4, 1000 + seed)
        concentration = {"uniform": 1.0, "sparse": 0.3, "even": 10.0}.get(prior)
        if concentration is None:
            w = np.abs(rng.normal(size=4))
        else:
            w = rng.dirichlet(np.full(4, concentration))
        counts.append(questions_until(items, w / w.sum(), 0.01, seed))
    assert np.median(counts) <= most


def transcript(elicitor: PolytopeElicitor) -> list[tuple[list[float], list[float], str]]:
    return [(a.first.tolist(), a.second.tolist(), a.answer.value) for a in elicitor.events]


@pytest.mark.claim("08.32")
@pytest.mark.parametrize("kind", ["table", "process", "noisy", "fallback"])
def test_saving_restoring_and_undoing_anywhere_changes_no_question(kind: str) -> None:
    source = np.random.default_rng(0).random((200, 3))
    params: dict = {"random_state": 5}
    if kind == "process":
        source = instances.random_mdp(0, k=3)
    if kind == "fallback":
        params |= {"adaptive_questions": 2, "target_regret": 1e-4}

    def user() -> LinearPreferenceUser:
        if kind == "noisy":
            return NoisyUser([1.0, 0.6, 0.3], 0.01, flip_prob=0.25, random_state=3)
        return LinearPreferenceUser([1.0, 0.6, 0.3], 0.01)

    straight = PolytopeElicitor(source, **params)
    answered_by(straight, user())
    person = user()
    resumed = PolytopeElicitor(source, **params)
    while not resumed.done:
        query = resumed.ask()
        answer = person.compare(query.first, query.second)
        if len(resumed.events) % 3 == 0:
            resumed = PolytopeElicitor.from_json(resumed.to_json(), source)
            assert resumed.ask().first.value.tolist() == query.first.value.tolist()
        if len(resumed.events) % 4 == 1:  # a wrong answer, taken back
            before = resumed.to_json()
            resumed.ask()
            resumed.tell("same")
            resumed.undo()
            resumed = PolytopeElicitor.from_json(before, source)
        resumed.ask()
        resumed.tell(answer)
    assert transcript(resumed) == transcript(straight)
    assert resumed.result().regret_certificate == straight.result().regret_certificate
    twin = pickle.loads(pickle.dumps(resumed))
    assert transcript(twin) == transcript(straight)


@pytest.mark.claim("08.32")
def test_undo_returns_to_the_same_question() -> None:
    items = np.random.default_rng(1).random((200, 3))
    elicitor = PolytopeElicitor(items, random_state=0)
    user = LinearPreferenceUser([1.0, 0.6, 0.3], 0.01)
    asked = []
    for _ in range(3):
        query = elicitor.ask()
        asked.append(query.options)
        elicitor.tell(user.compare(query.first, query.second))
    for back in (2, 1, 0):
        elicitor.undo()
        assert elicitor.ask().options == asked[back]
    with pytest.raises(ProtocolError, match="no answer to take back"):
        elicitor.undo()


def test_foreign_states_are_refused() -> None:
    items = np.random.default_rng(1).random((200, 3))
    elicitor = PolytopeElicitor(items, random_state=0)
    elicitor.ask()
    elicitor.tell("first")
    text = elicitor.to_json()
    with pytest.raises(InvalidStateError, match="belongs to another problem: its values differ"):
        PolytopeElicitor.from_json(text, np.random.default_rng(2).random((200, 3)))
    with pytest.raises(InvalidStateError, match="options was 200 and is 199 here"):
        PolytopeElicitor.from_json(text, items[:-1])
    state = json.loads(text)
    other = PolytopeElicitor(1 - items, random_state=0)
    state["problem"] = json.loads(other.to_json())["problem"]
    with pytest.raises(InvalidStateError, match="other options"):
        PolytopeElicitor.from_json(json.dumps(state), 1 - items)
    state["version"] = 1
    with pytest.raises(InvalidStateError, match="it has format 1, this version reads format 2"):
        PolytopeElicitor.from_json(json.dumps(state), items)


def test_stopping_early_keeps_a_valid_certificate() -> None:
    items = np.random.default_rng(1).random((200, 3))
    elicitor = PolytopeElicitor(items, random_state=0)
    elicitor.ask()
    elicitor.tell("first")
    elicitor.stop()
    result = elicitor.result()
    assert elicitor.done
    assert result.regret_certificate > 0.01
    assert any("target" in note for note in result.notes)
    assert PolytopeElicitor.from_json(elicitor.to_json(), items).done


def test_reasons_say_what_the_answer_would_tell() -> None:
    elicitor = PolytopeElicitor(np.random.default_rng(1).random((200, 3)), random_state=0)
    assert "favour the first option" in elicitor.ask().reason


def test_ranking_bands_contain_the_truth() -> None:
    items = np.random.default_rng(4).random((200, 3))
    user = LinearPreferenceUser([1.0, 0.6, 0.3], 0.01)
    elicitor = PolytopeElicitor(items, random_state=0)
    answered_by(elicitor, user)
    frame = elicitor.ranking(8)
    worth = items @ user.w / (items @ user.w).max()
    pool = elicitor._state.pool
    labels = {elicitor._state.shared.showroom.label(i, items[i]): i for i in pool.items}
    for row in frame.itertuples():
        assert row.lowest - 1e-9 <= worth[labels[row.item]] <= row.highest + 1e-9


def test_works_on_processes_roads_and_polytopes() -> None:
    graph = instances.city(4, 5)
    roads = MultiObjectiveMDP.from_road_graph(
        graph, (0, 0), (3, 4), 10, objectives=["time", "scenery", "safety"], costs=["time"]
    )
    for source in (instances.random_mdp(0, k=3), roads):
        user = LinearPreferenceUser([1.0, 0.5, 0.2], 1e-3)
        result = answered_by(PolytopeElicitor(source, random_state=0), user)
        best = float(plan(source, user.w).scalar_values[0])
        assert best - result.value @ user.w <= result.regret_certificate * best + 1e-9
        assert result.regret_certificate <= 0.01
    simplex = PolytopeOracle(np.array([[1.0, 1.0, 1.0], [2.0, 1.0, 0.5]]), [1.0, 1.2])
    user = LinearPreferenceUser([1.0, 0.5, 0.9], 1e-3)
    result = answered_by(PolytopeElicitor(simplex, random_state=0), user)
    best = float(simplex.argmax(user.w)[1][0] @ user.w)
    assert best - result.value @ user.w <= result.regret_certificate * best + 1e-9


def test_small_vertex_limit_keeps_the_certificate_valid() -> None:
    rng = np.random.default_rng(0)
    items = rng.random((300, 5))
    user = LinearPreferenceUser([1.0, 0.4, 0.7, 0.2, 0.5], 1e-3)
    worth = items @ user.w
    elicitor = PolytopeElicitor(items, max_rays=12, target_regret=0.02, random_state=0)
    result = answered_by(elicitor, user)
    assert not elicitor._state.consistent.exact
    assert 1 - worth[result.index] / worth.max() <= result.regret_certificate + 1e-9
    assert any("left out" in note for note in result.notes)


def test_single_item_and_empty_objective() -> None:
    assert PolytopeElicitor([[0.4, 0.6]]).done
    with pytest.raises(InvalidInputError, match="no option has anything of objective 1"):
        PolytopeElicitor([[0.4, 0.0], [0.6, 0.0]]).ask()


def test_catalogue_result_names_the_row() -> None:
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((50, 3)), columns=["a", "b", "c"])
    frame["model"] = [f"m{i}" for i in range(50)]
    catalogue = Catalogue(frame, benefits=["a", "b"], costs=["c"], name="model")
    result = answered_by(
        PolytopeElicitor(catalogue, random_state=0), LinearPreferenceUser([1.0, 0.5, 0.5], 1e-3)
    )
    assert result.label.startswith(f"m{result.index}: a ")


def saved_states() -> dict[str, dict[str, Any]]:
    """Saved questionnaires about a table and about a process, halfway through."""
    items = np.random.default_rng(0).random((40, 3))
    table = PolytopeElicitor(items, random_state=0)
    mdp = instances.random_mdp(0, k=3)
    process = PolytopeElicitor(mdp, random_state=0)
    for elicitor in (table, process):
        elicitor.ask()
        elicitor.tell("first")
        elicitor.ask()
    return {
        "table": {"source": items, "state": json.loads(table.to_json())},
        "process": {"source": mdp, "state": json.loads(process.to_json())},
    }


@pytest.mark.parametrize("kind", ["table", "process"])
def test_damaged_questionnaires_are_refused(kind: str) -> None:
    """Every field dropped, of another type, NaN, huge or negative: refused, never guessed."""
    saved = saved_states()[kind]
    source, state = saved["source"], saved["state"]
    PolytopeElicitor.from_json(json.dumps(state), source)
    damaged: list[dict[str, Any]] = []
    wrong = ["false", None, -1, 1.5, {}, [[]], [math.nan], 10**6]
    for name in ("params", "seed", "problem", "witnesses", "answers", "stopped", "asked"):
        damaged.append({key: value for key, value in state.items() if key != name})
        fine = 10**6 if name == "seed" else None  # any number is a seed
        damaged += [{**state, name: value} for value in wrong if fine is None or value != fine]
    for name in state["params"]:
        rest = {key: value for key, value in state["params"].items() if key != name}
        damaged += [{**state, "params": rest}, {**state, "params": {**rest, name: "false"}}]
    answer = state["answers"][0]
    for name in ("first", "second", "answer", "purpose"):
        rest = {key: value for key, value in answer.items() if key != name}
        damaged += [{**state, "answers": [rest]}, {**state, "answers": [{**rest, name: [[1]]}]}]
    for change in (
        {"options": [-1, -2]}, {"options": [0, 10**6]}, {"options": [0]}, {"options": "ab"},
        {"first": [1.0]}, {"first": [math.nan] * 3}, {"first": [1.0] * 4, "second": [1.0] * 4},
        {"about": 0}, {"about": -1}, {"about": 10**6}, {"purpose": "ratio"},
    ):  # fmt: skip
        damaged.append({**state, "answers": [{**answer, **change}]})
    for change in ({"options": [-1, 0]}, {"options": [0, 10**6]}, {"about": 0}, {"reason": 1}):
        damaged.append({**state, "pending": {**state["pending"], **change}})
    for bad in damaged:
        with pytest.raises(InvalidStateError):
            PolytopeElicitor.from_json(json.dumps(bad), source)


@pytest.mark.claim("08.37")
def test_a_wrong_answer_goes_unnoticed_and_spoils_the_certificate() -> None:
    class Slipping(LinearPreferenceUser):
        count = 0

        def compare(self, first: object, second: object) -> Answer:
            self.count += 1
            answer = super().compare(first, second)
            return answer.swapped() if self.count == 1 else answer

    spoiled = noticed = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        items, w = rng.random((300, 3)), rng.dirichlet(np.ones(3)) + 0.5
        result = answered_by(
            PolytopeElicitor(items, random_state=seed), Slipping(w / np.linalg.norm(w), 1e-3)
        )
        worth = items @ w
        spoiled += 1 - worth[result.index] / worth.max() > result.regret_certificate + 1e-9
        noticed += bool(result.contradictions)
    assert spoiled >= 4
    assert noticed <= 2
