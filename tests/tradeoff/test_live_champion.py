"""The guard under bandit feedback: identities, bounds on every path, late outcomes, state."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from counterplay.errors import (
    AssumptionWarning,
    InvalidInputError,
    InvalidStateError,
    ProtocolError,
)
from counterplay.tradeoff import ChampionChallenger, HarmBudget, Money, bounds
from counterplay.tradeoff.lab import LiveChampion
from counterplay.tradeoff.live_weights import BanditWeights

BUDGET = HarmBudget(0.1, 5.0)


def guard(K: int = 3, T: int = 300, **settings: Any) -> Any:
    settings = {"budget": BUDGET, "random_state": 0, **settings}
    return ChampionChallenger(n_models=K, horizon=T, feedback="live", **settings)


def drive(live: Any, error: np.ndarray, harm: np.ndarray, delay: int = 0) -> np.ndarray:
    """Run a whole stream; outcomes arrive ``delay`` rounds late. Returns who was live."""
    T, path, waiting = len(error), [], []
    for t in range(T):
        decision = live.act()
        path.append(decision.model)
        waiting.append((t, decision.id, decision.model))
        while waiting and waiting[0][0] <= t - delay:
            when, number, model = waiting.pop(0)
            live.observe(number, primary=error[when, model], secondary=harm[when, model])
    return np.array(path)


def regimes(K: int, T: int, c: float, rng: np.random.Generator) -> np.ndarray:
    """Harm of 0, c or 1 in stretches."""
    harm = np.empty((T, K))
    for model in range(K):
        t = 0
        while t < T:
            n = int(rng.integers(5, 80))
            harm[t : t + n, model] = rng.choice([0.0, c, 1.0], p=[0.3, 0.4, 0.3])
            t += n
    return harm


@pytest.mark.claim("26.26")
@pytest.mark.parametrize("policy", ["guaranteed", "adaptive"])
def test_identities_of_the_estimates(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original, etas = BanditWeights.learn, []

    def learn(self: Any, epoch: Any) -> None:
        before, spent = self.regret.copy(), self.variance
        original(self, epoch)
        if not epoch.cut and not epoch.seen:
            assert (self.regret == before).all()
            return
        loss, p = 1.0 if epoch.cut else epoch.total / epoch.seen, epoch.chances
        moved = self.regret - before
        assert (moved[epoch.allowed == 0] == 0).all()
        assert (p[epoch.allowed == 0] == 0).all()
        assert abs(p @ moved) <= 1e-12
        expected = loss**2 * (1 / epoch.probability - 1)
        assert p @ moved**2 == pytest.approx(expected, abs=1e-12)
        assert self.variance - spent == pytest.approx(expected)
        etas.append(self.eta)

    monkeypatch.setattr(BanditWeights, "learn", learn)
    rng = np.random.default_rng(0)
    live = guard(4, 600, policy=policy, champion=1)
    drive(live, rng.random((600, 4)), regimes(4, 600, 0.1, rng))
    assert len(etas) > 30
    assert (np.diff(etas) <= 0).all()


@pytest.mark.claim("26.27")
@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("policy", ["guaranteed", "adaptive"])
def test_regret_stays_below_the_bound_in_advance(policy: str, shift: bool) -> None:
    K, T = 3, 4000
    bound = bounds.live_regret(T, K, 16)
    assert round(bound) == 750
    means, found = np.tile(np.linspace(0.5, 0.3, K), (T, 1)), []
    if shift:  # the best becomes the worst
        means[T // 2 :] = means[T // 2 :, ::-1]
    for seed in range(2):
        rng = np.random.default_rng(seed)
        error = (rng.random((T, K)) < means).astype(float)
        live = guard(K, T, policy=policy, random_state=seed, budget=HarmBudget(0.5, 50.0))
        path = drive(live, error, np.zeros((T, K)))
        found.append(error[np.arange(T), path].sum() - error.sum(axis=0).min())
        assert live.report().regret_bound is not None
    assert np.mean(found) <= bound


@pytest.mark.claim("26.28")
def test_harm_is_bounded_on_every_path() -> None:
    void, worst = 0, 0.0
    for seed in range(40):
        rng = np.random.default_rng([28, seed])
        K, T = int(rng.integers(2, 6)), int(rng.integers(200, 500))
        delay, c = int(rng.choice([0, 5, 20])), float(rng.choice([0.05, 0.1, 0.3]))
        harm = regimes(K, T, c, rng)
        budget = HarmBudget(c, float(rng.uniform(1, 8)))
        live = guard(K, T, budget=budget, max_delay=delay, random_state=seed)
        path = drive(live, rng.random((T, K)), harm, delay)
        report = live.report()
        excess = harm[np.arange(T), path].sum() - c * T
        if report.void_since is not None:
            assert math.isinf(report.harm_bound)
            assert report.regret_bound is None
            void += 1
            continue
        assert excess <= report.harm_bound
        worst = max(worst, excess / report.harm_bound)
    assert void < 30
    assert worst > 0.1


@pytest.mark.claim("26.29")
def test_the_purse_is_kept_with_a_harmless_safe_model() -> None:
    worst = 0.0
    for seed in range(40):
        rng = np.random.default_rng([29, seed])
        K, T = int(rng.integers(2, 5)), int(rng.integers(100, 400))
        delay, c = int(rng.choice([0, 3, 10])), 0.1
        harm = regimes(K, T, c, rng)
        harm[:, 0] = float(rng.choice([0.0, c]))
        purse = float(rng.uniform(2, 15))
        live = guard(
            K, T, budget=HarmBudget(c, 50.0), safe=0, purse=purse, max_delay=delay,
            random_state=seed,
        )  # fmt: skip
        path = drive(live, rng.random((T, K)), harm, delay)
        excess = np.cumsum(harm[np.arange(T), path] - c).max()
        bound = bounds.purse_harm(purse, c, delay)
        assert excess <= bound + 1e-9
        worst = max(worst, excess / bound)
    assert worst > 0.9


@pytest.mark.claim("26.29")
def test_the_purse_is_kept_when_outcomes_come_later_than_was_stated() -> None:
    worst, c = 0.0, 0.1
    for seed in range(60):
        rng = np.random.default_rng([31, seed])
        late, calm = int(rng.integers(1, 25)), int(rng.integers(0, 14))
        stated, purse = int(rng.integers(0, late + 1)), float(rng.uniform(2, 15))
        live = guard(
            2, 4000, budget=HarmBudget(c, 500.0), safe=0, purse=purse, max_delay=stated,
            random_state=seed,
        )  # fmt: skip
        waiting: list[tuple[int, float]] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssumptionWarning)
            for t in range(120):  # at once at first, then late; the safe model does no harm
                decision = live.act()
                waiting.append((decision.id, float(decision.mode != "safe")))
                while waiting and (t < calm or waiting[0][0] <= t - late):
                    number, harm = waiting.pop(0)
                    live.observe(number, primary=0.5, secondary=harm)
        report = live.report()
        assert report.purse_bound is not None
        assert report.trace[:, 1].max() <= report.purse_bound + 1e-9
        worst = max(worst, report.trace[:, 1].max() / report.purse_bound)
    assert worst > 0.9


@pytest.mark.parametrize(("harm", "told"), [(0.0, "2 below the rate"), (0.2, "2 above the rate")])
def test_the_report_says_on_which_side_of_the_rate_the_harm_is(harm: float, told: str) -> None:
    live = guard(2, 20)  # a rate of 0.1 tolerates 2 in 20 rounds
    drive(live, np.full((20, 2), 0.5), np.full((20, 2), harm))
    assert told in live.report().summary()


@pytest.mark.claim("26.30")
def test_void_guarantees_are_shown_as_void() -> None:
    live = guard(2, 200, budget=HarmBudget(0.1, 2.0))
    drive(live, np.full((200, 2), 0.5), np.ones((200, 2)))
    for found in (live, ChampionChallenger.from_json(live.to_json())):
        report = found.report()
        assert report.void_since is not None
        assert math.isinf(report.harm_bound)
        assert report.regret_bound is None
        assert "void" in report.summary()
        late = report.trace[report.trace[:, 0] > report.void_since + 1]
        assert np.isinf(late[:, 2]).all()  # the picture draws no line there
    ax = report.plot()
    lines = [line for line in ax.lines if line.get_label() == "guaranteed below"]
    assert max(lines[0].get_xdata()) <= report.void_since + 1


@pytest.mark.claim("26.28")
@pytest.mark.claim("26.30")
def test_a_safe_model_that_exceeds_its_own_burst_voids_the_bound() -> None:
    void = 0
    for seed in range(40):
        rng = np.random.default_rng([30, seed])
        K, T = int(rng.integers(2, 5)), int(rng.integers(200, 500))
        delay, c = int(rng.choice([0, 5, 40])), 0.1  # the longest is longer than the first rest
        harm = regimes(K, T, c, rng)
        live = guard(
            K, T, budget=HarmBudget(c, float(rng.uniform(4, 40))), safe=0,
            purse=float(rng.uniform(2, 15)), max_delay=delay, random_state=seed,
        )  # fmt: skip
        drive(live, rng.random((T, K)), harm, delay)
        report = live.report()
        assert (report.trace[:, 1] <= report.trace[:, 2]).all()  # at every time
        again = ChampionChallenger.from_json(live.to_json()).report()
        assert again.void_since == report.void_since
        void += report.void_since is not None
    assert 5 < void < 35
    bad = guard(2, 500, budget=HarmBudget(0.05, 10.0), safe=0, purse=3.0)
    drive(bad, np.full((500, 2), 0.5), np.ones((500, 2)))
    assert math.isinf(bad.report().harm_bound)
    assert "void" in bad.report().summary()


@pytest.mark.claim("26.31")
def test_late_doubled_unknown_and_impossible_outcomes() -> None:
    live = guard(2, 100, max_delay=2)
    numbers = [live.act().id for _ in range(6)]
    live.observe(numbers[3], primary=0.5, secondary=0.0)
    with pytest.raises(ProtocolError, match="decision 3 already has an outcome"):
        live.observe(numbers[3], primary=0.5, secondary=0.0)
    with pytest.raises(InvalidInputError, match="there is no decision 9999"):
        live.observe(9999, primary=0.5, secondary=0.0)
    for bad in (3.2, float("nan"), None, "x", True):
        with pytest.raises(InvalidInputError, match=r"primary of decision 4 .* use Money"):
            live.observe(numbers[4], primary=bad, secondary=0.0)
    with pytest.warns(AssumptionWarning, match="came 5 rounds late, max_delay is 2"):
        live.observe(numbers[0], primary=0.5, secondary=0.0)
    assert live.report().max_delay == 5
    live.observe(numbers[1], missing=True)
    report = live.report()
    assert (report.judged, report.missing, report.open_outcomes) == (2, 1, 3)
    assert report.worst_excess == pytest.approx(report.harm_excess + 0.9 * 4)


@pytest.mark.claim("26.31")
def test_fuses_go_by_arrival_and_by_the_model_of_the_decision() -> None:
    """The sum of a model's outcomes does not depend on their order while the fuse stays open."""
    levels = []
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        live = guard(2, 100, max_delay=10, champion=0)
        decisions = [live.act() for _ in range(4)]
        for i in order:
            live.observe(decisions[i].id, primary=0.1, secondary=0.5)
        levels.append(live._guard.level)
    assert levels[0] == pytest.approx(levels[1])


@pytest.mark.claim("26.31")
def test_permuted_outcomes_give_the_report_of_the_decisions() -> None:
    """Totals and evidence go by the decisions, so the order of arrival leaves no trace in them."""
    rng = np.random.default_rng(31)
    harms, found = rng.random(40) * 0.3, []
    for shuffled in (False, True):
        live = guard(3, 300, max_delay=10, budget=HarmBudget(0.1, 50.0), champion=0)
        for start in range(0, 40, 8):
            decisions = [live.act() for _ in range(8)]
            for i in rng.permutation(8) if shuffled else range(8):
                live.observe(decisions[i].id, primary=0.2, secondary=float(harms[start + i]))
        found.append(live.report().to_frame().to_numpy(dtype=float))
    assert found[1] == pytest.approx(found[0], abs=1e-12)


@pytest.mark.claim("26.31")
def test_missing_as_worst_moves_the_fuse() -> None:
    live = guard(2, 100, missing="worst", budget=HarmBudget(0.1, 2.0))
    for _ in range(30):
        live.observe(live.act().id, missing=True)
    assert live.report().take_downs >= 1


@pytest.mark.claim("26.18")
def test_a_restored_guard_goes_on_as_the_original() -> None:
    rng = np.random.default_rng(0)
    error, harm = rng.random((120, 3)), regimes(3, 120, 0.1, rng)
    live = guard(3, 120, max_delay=3, safe=2, purse=4.0, budget=HarmBudget(0.1, 2.0))
    for t in range(120):
        twin = ChampionChallenger.from_json(live.to_json())
        assert isinstance(twin, LiveChampion)
        assert twin.report().to_dict() == live.report().to_dict()
        ours = live.act()
        assert twin.act() == ours
        live = twin
        live.observe(ours.id, primary=error[t, ours.model], secondary=harm[t, ours.model])


@pytest.mark.claim("26.17")
@pytest.mark.parametrize("bad", [None, "false", 10**9, -1, [], 0.5], ids=str)
def test_damaged_states_are_refused(bad: Any) -> None:
    live = guard(2, 60)
    drive(live, np.full((20, 2), 0.3), np.full((20, 2), 0.1))
    good = json.loads(live.to_json())
    fine = {("purse", 0.5), ("rate", 0.5), ("burst", 0.5), ("burst", 10**9)}
    fine |= {("seed", 10**9), ("outcomes", ())}
    for name, value in good.items():
        damaged = {**good, name: bad}
        if bad is None:
            del damaged[name]
        if value == bad or (name, bad if bad != [] else ()) in fine:
            continue
        with pytest.raises(InvalidStateError):
            ChampionChallenger.from_json(json.dumps(damaged))
    for place, wrong in ((0, 10**6), (1, 10**6), (2, 3.0), (3, -1.0), (2, None)):
        damaged = json.loads(live.to_json())
        damaged["outcomes"][5][place] = wrong
        with pytest.raises(InvalidStateError):
            ChampionChallenger.from_json(json.dumps(damaged))


@pytest.mark.claim("26.17")
def test_flipped_bytes_give_a_valid_guard_or_one_sentence() -> None:
    rng = np.random.default_rng(17)
    live = guard(2, 60)
    drive(live, np.full((6, 2), 0.3), np.full((6, 2), 0.1))
    text = live.to_json().encode()
    for _ in range(250):
        data = bytearray(text)
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        try:
            twin = ChampionChallenger.from_json(data.decode("utf-8", "replace"))
        except InvalidStateError:
            continue
        assert twin.report().judged <= twin.rounds


@pytest.mark.claim("26.34")
@pytest.mark.parametrize("feedback", ["full", "live"])
def test_messages_name_own_parameters(feedback: Any) -> None:
    with pytest.raises(InvalidInputError, match="horizon 3 is too short for 2 models: no learner"):
        ChampionChallenger(n_models=2, horizon=3, budget=BUDGET, feedback=feedback)
    with pytest.warns(AssumptionWarning, match=r"a burst of 0.31 is less than one bad round"):
        ChampionChallenger(n_models=2, horizon=100, budget=HarmBudget(0.1, 0.31), feedback=feedback)


@pytest.mark.parametrize(
    ("settings", "told"),
    [({"purse": 3.0}, "purse needs safe="), ({"safe": 7}, "safe"), ({"missing": "no"}, "missing"),
     ({"max_delay": -1}, "max_delay"), ({"budget": 0.1}, "HarmBudget")],
)  # fmt: skip
def test_bad_settings_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        guard(**settings)


@pytest.mark.claim("26.35")
def test_work_and_words_of_a_round() -> None:
    """One draw per epoch, a constant number of updates per outcome; strict JSON everywhere."""
    live = guard(100, 1000)
    draws = 0
    chances: Callable[..., Any] = BanditWeights.chances

    def counted(self: Any, allowed: Any) -> Any:
        nonlocal draws
        draws += 1
        return chances(self, allowed)

    BanditWeights.chances = counted  # type: ignore[method-assign]
    try:
        for _ in range(200):
            decision = live.act()
            json.dumps(decision.to_dict(), allow_nan=False)
            live.observe(decision.id, primary=0.2, secondary=1.0)
    finally:
        BanditWeights.chances = chances  # type: ignore[method-assign]
    assert draws <= 200 // 10 + 1 + live.report().take_downs
    json.dumps(live.report().to_dict(), allow_nan=False)
    json.dumps([alarm.to_dict() for alarm in live.alarms()], allow_nan=False)


def test_money_is_a_loss() -> None:
    money = Money(missed=500, false_alarm=20, positive="yes")
    assert money(["yes", "no"], ["no", "yes"]) == pytest.approx(520 / 1000)
    assert money.amount(0.52, 2) == "520 EUR"
    assert money.loss(250) == 0.5


@pytest.mark.claim("26.38")
@pytest.mark.parametrize("delay", [5, 40])
def test_learners_that_take_turns_have_heard_before_they_draw(
    delay: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: dict[int, list[int]] = {}
    heard: dict[int, list[int]] = {}
    chances, learn = BanditWeights.chances, BanditWeights.learn

    def draw(self: Any, allowed: np.ndarray) -> np.ndarray:
        assert len(heard.get(id(self), [])) == len(drawn.setdefault(id(self), []))
        drawn[id(self)].append(1)
        return chances(self, allowed)

    def hear(self: Any, epoch: Any) -> None:
        heard.setdefault(id(self), []).append(epoch.seen)
        learn(self, epoch)

    monkeypatch.setattr(BanditWeights, "chances", draw)
    monkeypatch.setattr(BanditWeights, "learn", hear)
    K, T = 3, 1000
    live = guard(K, T, max_delay=delay, copies="guaranteed", budget=HarmBudget(0.5, 500.0))
    rng = np.random.default_rng(0)
    drive(live, rng.random((T, K)), np.zeros((T, K)), delay)
    assert len(drawn) == math.ceil(delay / 10) + 1
    assert all(seen == 10 for part in heard.values() for seen in part[:-1])
    assert live.report().regret_bound is not None
    assert guard(K, T, max_delay=delay).report().regret_bound is None


@pytest.mark.claim("26.38")
def test_regret_of_learners_that_take_turns() -> None:
    K, T, delay = 3, 3000, 30
    bound, found = bounds.live_regret(T, K, 14, delay), []
    for seed in range(4):
        rng = np.random.default_rng([38, seed])
        error = (rng.random((T, K)) < [0.5, 0.4, 0.3]).astype(float)
        live = guard(K, T, random_state=seed, budget=HarmBudget(0.5, 50.0), max_delay=delay,
                     copies="guaranteed")  # fmt: skip
        path = drive(live, error, np.zeros((T, K)), delay)
        found.append(error[np.arange(T), path].sum() - error.sum(axis=0).min())
        twin = ChampionChallenger.from_json(live.to_json())
        assert twin.report().regret_bound == live.report().regret_bound
    assert np.mean(found) <= bound


def test_a_take_down_with_a_reason_that_is_no_text_changes_nothing() -> None:
    live = ChampionChallenger(n_models=3, horizon=50, budget=HarmBudget(0.1, 5.0),
                              feedback="live", random_state=0)  # fmt: skip
    live.act()
    before = live.to_json()
    with pytest.raises(InvalidInputError, match="reason must be text, got 5"):
        live.take_down(1, 5)  # type: ignore[arg-type]
    assert live.to_json() == before
    assert live.allowed == (0, 1, 2)
