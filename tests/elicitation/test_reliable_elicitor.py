"""The questionnaire for people who err: coverage, certificates, stops, sessions, bad input."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.elicitation.people import person, questionnaire, regret

from counterplay.core.stats import binomial_p_value
from counterplay.elicitation import (
    AtMost,
    Catalogue,
    LinearPreferenceUser,
    NoisyUser,
    PolytopeElicitor,
    ReliableElicitor,
    Unknown,
    answered_by,
)
from counterplay.elicitation.forecast import Forecast
from counterplay.elicitation.lab import bet_factor
from counterplay.errors import InvalidInputError, InvalidStateError, ProtocolError
from counterplay.verify import verify

TABLE = np.random.default_rng(1).random((30, 2))


@pytest.mark.claim("26.03")
@pytest.mark.parametrize("rate", [0.1, 0.2])
def test_the_true_preference_rarely_leaves(rate: float) -> None:
    """2,000 people who slip exactly at the bound, 60 answers, a forecast that learns from them."""
    left = round(2000 * share_that_leaves(rate, rate, 2000, 3))
    assert binomial_p_value(left, 2000, 0.05, alternative="greater") > 1e-3


@pytest.mark.claim("26.03")
def test_the_true_preference_stays_under_the_real_policy() -> None:
    """Five people, small catalogue, slips at the bound: the study has 2,000 of them."""
    values = np.random.default_rng(0).random((12, 2))
    left = 0
    for seed in range(5):
        w = np.random.default_rng(seed).dirichlet([1, 1])
        session = ReliableElicitor(
            values, target_regret=1e-6, max_questions=15, check_every=0, random_state=seed
        )
        user, out = person(w, seed, flip_prob=0.1), False
        while (query := session.ask()) is not None:
            session.tell(query.answer_of(user))
            out |= not session._state.regions[0].contains(w[None])[0]
        left += out
    assert left <= 2  # the chance of more is 0.001 at most


@pytest.mark.claim("26.05")
@pytest.mark.claim("26.06")
@pytest.mark.parametrize("flip", [0.0, 0.1, 0.2])
def test_certificates_survive_slips(flip: float) -> None:
    """A slice of the study (k = 3, 60 items): no certificate is false, few questions."""
    runs = [questionnaire(seed, 3, 60, flip) for seed in range(4)]
    assert all(result.regret_certificate is not None for result, _ in runs)
    assert sum(true > result.regret_certificate + 1e-9 for result, true in runs) == 0
    assert np.median([result.n_queries for result, _ in runs]) <= 25


@pytest.mark.claim("26.06")
def test_best_of_three_needs_fewer_questions() -> None:
    two, three = (
        np.mean([questionnaire(seed, 3, 60, 0.0, show=m)[0].n_queries for seed in range(4)])
        for m in (2, 3)
    )
    assert three <= two + 1


@pytest.mark.claim("26.07")
@pytest.mark.parametrize(
    "noise",
    [
        {"bradley_terry_temperature": 0.02},
        {"position_bias": 0.2},
        {"lapse": 0.1, "fatigue": 0.005},
        {"probit": 0.01},
    ],
    ids=["logit", "lazy", "tired", "probit"],
)
def test_other_ways_of_erring(noise: dict[str, float]) -> None:
    rng = np.random.default_rng(7)
    for seed in range(2):
        values, w = rng.random((60, 3)), rng.dirichlet(np.ones(3))
        session = ReliableElicitor(values, check_every=0, random_state=seed)
        result = answered_by(session, person(w, seed, **noise))
        assert result.regret_certificate is not None
        assert regret(values, w, result.item) <= max(0.05, result.regret_certificate)


@pytest.mark.claim("26.08")
@pytest.mark.claim("26.25")
def test_a_wrong_prior_fools_the_credible_stop_only() -> None:
    rng = np.random.default_rng(8)
    base = 40 * np.array([0.7, 0.2, 0.1])
    prior = rng.dirichlet(base[::-1], 500)
    false = {"credible": 0, "reliable": 0}
    for seed in range(5):
        values, w = rng.random((40, 3)), rng.dirichlet(base)
        for stop in ("credible", "reliable"):
            session = ReliableElicitor(
                values, prior=prior, stop=stop, check_every=0, random_state=seed
            )
            result = answered_by(session, person(w, seed, flip_prob=0.05))
            false[stop] += regret(values, w, result.item) > 0.05
    assert false["credible"] >= 1
    assert false["reliable"] <= 1
    assert "posterior probability" in " ".join(
        ReliableElicitor(TABLE, stop="credible", random_state=0).result.notes
    )


@pytest.mark.claim("26.09")
@pytest.mark.parametrize("seed", range(3))
def test_the_exact_stop_is_the_exact_questionnaire(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, w = rng.random((60, 3)), rng.dirichlet(np.ones(3))
    user = LinearPreferenceUser(w / np.linalg.norm(w), eps=1e-9)
    reliable = ReliableElicitor(values, stop="exact", target_regret=0.02, random_state=seed)
    ours = answered_by(reliable, user)
    exact = answered_by(PolytopeElicitor(values, target_regret=0.02, random_state=seed), user)
    assert ours.n_queries == exact.n_queries
    assert ours.item == exact.index
    assert ours.if_every_answer_is_right == pytest.approx(exact.regret_certificate, abs=1e-9)


def share_that_leaves(error: float, rate: float, people: int, seed: int) -> float:
    """Share of people whose own preference is ruined within 60 answers, at this error rate."""
    rng = np.random.default_rng(seed)
    wrong = rng.random((people, 60)) < error
    heard = np.cumsum(wrong, axis=1) - wrong
    forecast = (0.2 + heard) / (2.0 + np.arange(60))  # of a wrong answer, from the past alone
    p = np.where(wrong, forecast, 1 - forecast)
    logs = np.log([[bet_factor(a, bool(b), rate) for a, b in zip(*row)] for row in zip(p, wrong)])
    return float((np.cumsum(logs, axis=1) >= np.log(20)).any(axis=1).mean())


@pytest.mark.claim("26.10")
def test_shuffling_is_part_of_the_proof() -> None:
    """First-tickers (z = .6) err at 30 % when options are shuffled, at 60 % when the better one is
    always second: the bound .3 holds in the first case only."""
    z = 0.6
    assert share_that_leaves(z / 2, 0.3, 600, 0) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 600)
    assert share_that_leaves(z, 0.3, 200, 1) > 0.6


@pytest.mark.claim("26.10")
def test_the_order_is_a_stream_of_its_own() -> None:
    """What was answered does not enter the order of the next options; both orders come up."""
    orders = []
    for answer in (1, 2):
        session = ReliableElicitor(TABLE, random_state=0)
        session.ask()
        session.tell(answer)
        orders.append(session._state._order((3, 8, 11)))
    assert orders[0] == orders[1]
    seen = {ReliableElicitor(TABLE, random_state=s)._state._order((3, 8)) for s in range(8)}
    assert seen == {(3, 8), (8, 3)}


@pytest.mark.claim("26.11")
def test_a_refuted_bound_voids_the_certificate() -> None:
    """Everybody prefers more of everything; somebody who says the opposite again and again errs."""
    session = ReliableElicitor([[1.0, 0.0], [0.0, 1.0]], random_state=0)
    for _ in range(12):
        session.volunteer([1.0, 1.0], [0.2, 0.2], "second")
    result = session.result
    assert result.regret_certificate is None
    assert result.errors_tested.refuted
    assert session.done
    assert "no preference explains these answers with at most 10 % errors" in result.summary()
    assert "AtMost((0.1, 0.2))" in result.summary()


def test_a_ladder_goes_on_with_the_next_bound() -> None:
    """Four of twelve answers that nobody means: too many for 1 %, not for 30 %."""
    session = ReliableElicitor([[1.0, 0.0], [0.0, 1.0]], errors=AtMost((0.01, 0.3)), random_state=0)
    for answer in ["first", "second", "first"] * 4:
        session.volunteer([1.0, 1.0], [0.2, 0.2], answer)
    result = session.result
    assert "30 %" in result.condition
    assert result.regret_certificate is not None
    assert any("was refuted" in note for note in result.notes)


@pytest.mark.claim("26.11")
def test_repeats_look_at_forecasts_not_at_answers() -> None:
    session = ReliableElicitor(
        TABLE, check_every=3, target_regret=1e-6, max_questions=18, random_state=0
    )
    result = answered_by(session, person(np.array([0.7, 0.3]), 0))
    again = [entry for entry in result.answers if entry.kind == "repeat"]
    assert again
    assert result.errors_tested.n == len(again)
    assert result.errors_tested.disagreements == 0
    assert not result.errors_tested.refuted
    for entry in again:
        first = result.answers[entry.repeats]
        assert sorted(first.rows) == sorted(entry.rows)


@pytest.mark.claim("26.12")
def test_a_bent_price_needs_a_curve() -> None:
    """Somebody who cares about cheap prices only: the certificate with segments holds."""
    rng = np.random.default_rng(12)
    frame = pd.DataFrame({"speed": rng.random(60), "price": rng.random(60)})
    bent = Catalogue(frame, ["speed"], ["price"], curves={"price": 3})
    assert bent.values.shape == (60, 4)
    assert bent.columns == ("speed", "price")
    knots = np.quantile(frame.price, [0, 1 / 3, 2 / 3, 1])
    assert bent.values[:, 1] == pytest.approx(1 - np.clip(
        (frame.price - knots[0]) / (knots[1] - knots[0]), 0, 1))  # fmt: skip
    w = np.array([0.4, 0.5, 0.1, 0.0])
    session = ReliableElicitor(bent, target_regret=0.1, random_state=0)
    result = answered_by(session, person(w, 0, flip_prob=0.05))
    assert result.regret_certificate is not None
    assert regret(bent.values, w, result.item) <= result.regret_certificate
    plain = Catalogue(frame, ["speed"], ["price"]).values
    straight = Catalogue(frame, ["speed"], ["price"], curves={"price": 1})
    assert np.abs(straight.values - plain).max() <= 1e-12


@pytest.mark.claim("26.13")
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_attribute_of_unknown_sign(sign: float) -> None:
    rng = np.random.default_rng(13)
    frame = pd.DataFrame(rng.random((40, 3)), columns=["speed", "weight", "screen"])
    items = Catalogue(frame, ["speed"], ["weight"], either=["screen"])
    w = np.array([0.5, 0.2, sign * 0.3])
    session = ReliableElicitor(items, target_regret=0.1, random_state=0)
    assert len(session._items.pool) == 40  # nothing is dominated when a sign is unknown
    rng_person = np.random.default_rng(1)
    while (query := session.ask()) is not None:
        best = int(np.argmax([option.value @ w for option in query.options]))
        session.tell(1 + (1 - best if rng_person.random() < 0.05 else best))
    result = session.result
    assert result.regret_certificate is not None
    assert regret(items.values, w, result.item, ranged=True) <= result.regret_certificate
    assert "from the best to the worst" in result.summary()
    with pytest.raises(InvalidInputError, match="'screen'"):
        PolytopeElicitor(items).ask()


@pytest.mark.claim("26.14")
def test_volunteered_vectors_are_in_raw_units() -> None:
    """Of two equally good items the cheaper one is better."""
    frame = pd.DataFrame({"quality": [1.0, 2.0, 3.0, 2.5], "price": [5.0, 10.0, 30.0, 20.0]})
    session = ReliableElicitor(Catalogue(frame, ["quality"], ["price"]), random_state=0)
    session.volunteer([2.0, 10.0], [2.0, 20.0], "first")
    assert session.result.if_every_answer_is_right is not None
    session.volunteer([2.0, 20.0], [2.0, 10.0], "first")
    assert session.result.if_every_answer_is_right is None


@pytest.mark.claim("26.18")
@pytest.mark.parametrize(
    "settings",
    [{}, {"show": 3}, {"show": "rank"}, {"stop": "credible"}, {"stop": "exact"},
     {"errors": Unknown()}],
    ids=str,
)  # fmt: skip
def test_a_restored_session_asks_the_same(settings: dict[str, Any]) -> None:
    user = NoisyUser([1.0, 0.4], 0.0, flip_prob=0.1, random_state=0)
    session = ReliableElicitor(
        TABLE, target_regret=0.02, check_every=3, max_questions=7, random_state=5, **settings
    )
    while (query := session.ask()) is not None:
        twin = ReliableElicitor.from_json(session.to_json(), TABLE)
        assert twin.ask() is not None
        assert twin.ask().rows == query.rows
        answer = query.answer_of(user)
        session.tell(answer)
        twin.tell(answer)
        session = twin
    assert ReliableElicitor.from_json(session.to_json(), TABLE).result.summary() == (
        pickle.loads(pickle.dumps(session)).result.summary()
    )


def test_nobody_is_asked_the_same_twice_in_a_row() -> None:
    for seed in range(6):
        result, _ = questionnaire(seed, 3, 60, 0.1)
        sets = [tuple(sorted(entry.rows)) for entry in result.answers]
        assert all(a != b for a, b in zip(sets, sets[1:]))
    session = ReliableElicitor([[1.0, 0.0], [0.0, 1.0]], random_state=0)
    result = answered_by(session, person(np.array([0.5, 0.4]), 0))
    assert [sorted(entry.rows) for entry in result.answers] == [[0, 1], [0, 1]]  # no other pair


def test_undo_works_after_the_last_answer() -> None:
    session = ReliableElicitor(TABLE, target_regret=0.02, random_state=0)
    before = session.to_json()
    answered_by(session, person(np.array([0.5, 0.5]), 0))
    n = len(session.events)
    session.undo()
    assert not session.done
    assert len(session.events) == n - 1
    for _ in range(n - 1):
        session.undo()
    assert session.to_json() == before
    with pytest.raises(ProtocolError, match="take back"):
        session.undo()


def test_cannot_say_changes_nothing_and_ends_after_eight() -> None:
    session = ReliableElicitor(TABLE, random_state=0)
    before = session._state.forecast.posterior.copy()
    for _ in range(8):
        session.ask()
        session.tell("cannot say")
    assert (session._state.forecast.posterior == before).all()
    assert session.done
    assert session.result.cannot_say == 8
    assert "eight questions in a row" in session.result.summary()


def test_answers_may_be_names() -> None:
    frame = pd.DataFrame(
        {"name": ["ant", "bee", "bee"], "a": [0.0, 1.0, 0.5], "b": [1.0, 0.0, 0.6]}
    )
    session = ReliableElicitor(Catalogue(frame, ["a", "b"], name="name"), random_state=0)
    query = session.ask()
    assert query is not None
    session.tell(query.labels[1])
    assert session.events[0].order == (1,)
    query = session.ask()
    assert query is not None
    rows = ", ".join(map(str, query.rows))
    with pytest.raises(
        InvalidInputError, match=f"'blue' is none of the 2 options shown .rows {rows}"
    ):
        session.tell("blue")


def test_rows_are_those_of_the_callers_frame() -> None:
    """An incomplete first row does not shift the others."""
    frame = pd.DataFrame({"a": [np.nan, 0.1, 0.9, 0.3], "b": [0.5, 0.2, 0.8, 0.9]})
    items = Catalogue(frame, ["a", "b"], on_missing="drop")
    result = answered_by(ReliableElicitor(items, random_state=0), person(np.array([0.9, 0.1]), 0))
    assert result.row == 2
    assert items.rows.tolist() == [1, 2, 3]
    with pytest.raises(InvalidInputError, match="on_missing"):
        Catalogue(frame, ["a", "b"])


@pytest.mark.claim("26.25")
def test_the_flat_fifth_bounds_the_loss_of_a_wrong_prior() -> None:
    """The product of 1,000 forecasts is never below a fifth of the flat fifth's own."""
    rng = np.random.default_rng(25)
    flat = rng.dirichlet(np.ones(3), 60)
    mixed = Forecast(np.vstack([rng.dirichlet([1.0, 5.0, 30.0], 240), flat]))
    alone = Forecast(flat)
    w, ours, theirs = np.array([0.7, 0.2, 0.1]), 0.0, 0.0
    for _ in range(1000):
        options = rng.random((2, 3))
        chosen = int((options @ w).argmax())
        ours += np.log(mixed.update(options, chosen))
        theirs += np.log(alone.update(options, chosen))
        assert ours >= theirs - np.log(5) - 1e-6


def test_predicted_choices_sum_to_one() -> None:
    frame = pd.DataFrame(np.random.default_rng(0).random((20, 2)), columns=["a", "b"])
    session = ReliableElicitor(Catalogue(frame, ["a"], ["b"]), random_state=0)
    answered_by(session, person(np.array([0.9, 0.1]), 0))
    chances = session.predict_choice(frame.iloc[[3, 5, 7]])
    assert chances.sum() == pytest.approx(1.0)
    assert chances.index.tolist() == [3, 5, 7]
    assert session.predict_choice([3, 5, 7]).to_numpy() == pytest.approx(chances.to_numpy())


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: ReliableElicitor(TABLE, confidence=1.0), "strictly between 0 and 1, got 1.0"),
        (lambda: ReliableElicitor(np.eye(7)), r"7 dimensions \(7 attributes\); certificates go up"),
        (lambda: ReliableElicitor(TABLE, show=5), "show"),
        (lambda: ReliableElicitor(pd.DataFrame(TABLE)), "Catalogue"),
        (lambda: ReliableElicitor(TABLE, prior=[[1.0, 2.0, 3.0]]), "prior"),
    ],
)
def test_bad_settings_are_refused(build: Callable[[], Any], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        build()


@pytest.mark.claim("26.17")
@pytest.mark.parametrize("bad", [None, "false", float("nan"), 10**6, -1, [], {"a": 1}], ids=str)
def test_damaged_states_are_refused(bad: Any) -> None:
    """Every field dropped or replaced; only what has the same meaning is accepted."""
    import json

    session = ReliableElicitor(TABLE, random_state=0, target_regret=0.1)
    for _ in range(2):
        session.ask()
        session.tell(1)
    good = json.loads(session.to_json())
    for name in good:
        damaged = dict(good)
        damaged[name] = bad
        if bad is None:
            del damaged[name]
        if good[name] == bad or (name, bad) in (("seed", 10**6), ("answers", []), ("prior", None)):
            continue
        with pytest.raises(InvalidStateError):
            ReliableElicitor.from_json(json.dumps(damaged), TABLE)
    for name in good["answers"][0]:
        damaged = json.loads(session.to_json())
        damaged["answers"][1][name] = bad
        if good["answers"][1][name] == bad or (name in ("repeats", "values") and not bad):
            continue
        with pytest.raises(InvalidStateError):
            ReliableElicitor.from_json(json.dumps(damaged), TABLE)


@pytest.mark.claim("26.17")
def test_flipped_bytes_give_a_valid_session_or_one_sentence() -> None:
    rng = np.random.default_rng(17)
    session = ReliableElicitor(TABLE, random_state=0, target_regret=0.1)
    session.ask()
    session.tell(1)
    text = session.to_json().encode()
    for _ in range(120):
        data = bytearray(text)
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        try:
            twin = ReliableElicitor.from_json(data.decode("utf-8", "replace"), TABLE)
        except InvalidStateError:
            continue
        assert len(twin.events) == 1


def test_settings_of_numpy_types_are_stored_as_numbers() -> None:
    items = np.random.default_rng(0).random((30, 3))
    elicitor = ReliableElicitor(
        items, show=np.int64(3), max_questions=np.int32(20), check_every=np.int64(4),  # type: ignore[arg-type]
        errors=AtMost([np.float64(0.1), 0.2]), confidence=np.float32(0.9), random_state=0,  # type: ignore[arg-type]
    )  # fmt: skip
    assert elicitor.errors.rates == (0.1, 0.2)
    elicitor.ask()
    elicitor.tell(np.int64(1))
    again = ReliableElicitor.from_json(elicitor.to_json(), items)
    assert again.to_json() == elicitor.to_json()
    assert verify(elicitor.export().encode()).holds
