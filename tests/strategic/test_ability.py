"""Budgets from before and after: hand cases, coverage, flags, effort, decisions, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

from counterplay.errors import InvalidInputError
from counterplay.strategic import (
    Change,
    Moves,
    Switch,
    cheapest_moves,
    estimate_ability,
    gaming_report,
    rethreshold,
)
from counterplay.strategic.budget_law import BudgetLaw, paired_law, share_interval, unpaired_law
from counterplay.strategic.effort import effort_by_column, total_effort

N = 1000


def prices(*counts: tuple[float, int], n: int = N) -> np.ndarray:
    """A sample of prices: so many at each, the rest accepted."""
    values = np.concatenate([np.full(k, t) for t, k in counts])
    return np.concatenate((values, np.zeros(n - values.size)))


@pytest.mark.claim("20.22")
@pytest.mark.parametrize(
    ("after", "expected", "share"),
    [((40, 80), [0.4, 0.8], 0.08), ((80, 40), [0.6, 0.6], 0.08), ((120, 80), [1.0, 1.0], 0.0)],
)
def test_ratios_by_hand(after: tuple[int, int], expected: list[float], share: float) -> None:
    before = prices((1.0, 100), (2.0, 100))
    seen = prices((1.0, after[0]), (2.0, after[1]))
    law = unpaired_law(before, seen, 0.95)
    np.testing.assert_allclose(law.values, expected, rtol=1e-12)
    gap, low, high = share_interval((before > 0).sum(), N, (seen > 0).sum(), N, 0.95)
    assert gap == pytest.approx(share)
    assert low < gap < high
    assert not law.above_one.any()
    assert not law.empty.size


def test_paired_people_give_the_shares_that_stayed() -> None:
    d = np.repeat([1.0, 2.0], 100)
    stayed = np.concatenate((np.arange(100) < 40, np.arange(100) < 80))
    law = paired_law(d, stayed, 0.95)
    np.testing.assert_allclose(law.values, [0.4, 0.8])
    low, high = law.band(np.array([1.0, 2.0]))
    assert (low < [0.4, 0.8]).all()
    assert (high > [0.4, 0.8]).all()


def exponential(t: np.ndarray) -> np.ndarray:
    return 1 - np.exp(-t / 0.5)


def some_able(t: np.ndarray) -> np.ndarray:
    return np.where(t > 0, 0.6 + 0.4 * stats.lognorm.cdf(t, 0.8, scale=0.5), 0.0)


def draw(kind: str, rng: np.random.Generator, n: int) -> np.ndarray:
    if kind == "exponential":
        return rng.exponential(0.5, n)
    return np.where(rng.random(n) < 0.4, rng.lognormal(np.log(0.5), 0.8, n), 0.0)


@pytest.mark.claim("20.23")
@pytest.mark.parametrize("kind", ["exponential", "some able"])
def test_band_and_share_cover_the_truth(kind: str) -> None:
    rng = np.random.default_rng(0)
    truth = exponential if kind == "exponential" else some_able
    signed = rng.normal(0.2, 0.8, 1500)
    people = np.where(signed > 0, np.round(signed, 2) + 0.01, 0.0)  # ties, as of steps
    share = np.where(people > 0, 1 - truth(people), 0.0).mean()
    covered = shares = refuted = 0
    for _ in range(100):
        before, after = rng.choice(people, N), rng.choice(people, N)
        stay = (after > 0) & (draw(kind, rng, N) < after)
        seen = np.where(stay, after, 0.0)
        law = unpaired_law(before, seen, 0.95)
        low, high = law.band(law.prices)
        H = truth(law.prices)
        covered += bool(((low <= H + 1e-12) & (high + 1e-12 >= H)).all())
        _, bottom, top = share_interval((before > 0).sum(), N, stay.sum(), N, 0.95)
        shares += bottom <= share <= top
        refuted += flagged(law)
    assert covered >= 93
    assert 88 <= shares <= 100  # 90 to 99 of 100, three standard deviations
    assert refuted <= 5


def flagged(law: BudgetLaw) -> bool:
    return bool(law.above_one.any() or law.empty.size)


@pytest.mark.claim("20.24")
def test_flags() -> None:
    """Prices on a line: rational movers, a worse population, movers who go part of the way."""
    rng = np.random.default_rng(1)
    flags = {"rational": 0, "worse": 0, "part of the way": 0}
    n = 5000
    for _ in range(30):
        before, after = rng.normal(0.2, 0.8, (2, n))
        budget = rng.exponential(0.5, n)
        d0, d1 = np.maximum(before, 0), np.maximum(after, 0)
        rational = np.where(budget >= d1, 0.0, d1)
        flags["rational"] += flagged(unpaired_law(d0, rational, 0.95))
        worse = np.maximum(after + 0.3, 0)
        flags["worse"] += flagged(unpaired_law(d0, np.where(budget >= worse, 0, worse), 0.95))
        flags["part of the way"] += flagged(unpaired_law(d0, np.maximum(d1 - budget, 0), 0.95))
    assert flags["rational"] <= 2
    assert flags["worse"] >= 26
    assert flags["part of the way"] >= 24


def late_people(rng: np.random.Generator, n: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "late": rng.poisson(2.0, n).astype(float),
            "debt": rng.normal(0, 1, n),
            "age": rng.integers(20, 70, n),
        }
    )


@pytest.fixture(scope="module")
def lender() -> tuple[Any, Moves]:
    X = late_people(np.random.default_rng(2), 2000)
    model = LogisticRegression(max_iter=1000).fit(X, X["late"] + X["debt"] < 2)
    moves = Moves(
        {
            "late": Change("down", step=1, per="step", cost=0.5, low=0),
            "debt": Change("down", per="unit", low=-3),
        }
    )
    return model, moves


def gamed(model: Any, people: pd.DataFrame, moves: Moves, budget: np.ndarray) -> Any:
    plan = cheapest_moves(model, people, moves, positive=True)
    moved = (plan.upper > 0) & (budget >= plan.upper)
    after = people.copy()
    after.loc[moved] = plan.destination.loc[moved]
    return after, np.where(moved, plan.upper, 0.0).mean(), plan


@pytest.mark.claim("20.25")
def test_certified_effort_is_below_the_true_one_and_names_the_column(lender: Any) -> None:
    model, moves = lender
    rng = np.random.default_rng(3)
    above = 0
    for _ in range(8):
        before, people = late_people(rng, 500), late_people(rng, 500)
        after, spent, _ = gamed(model, people, moves, rng.exponential(0.5, 500))
        effort = effort_by_column(before, after, moves, 0.95, rng, exchanges=0)
        assert (effort["p_value"] == 1).all()  # none are asked for
        above += total_effort(effort["certified"].to_numpy(), "sum") > spent
    assert above <= 1
    before, people = late_people(rng, 2000), late_people(rng, 2000)
    after, spent, _ = gamed(model, people, moves, np.full(2000, 10.0))
    effort = effort_by_column(before, after, moves, 0.95, np.random.default_rng(0))
    assert 0 < effort.loc["late", "certified"] <= spent
    assert effort.loc["late", "p_value"] < 0.01


@pytest.mark.claim("20.24")
def test_nobody_moves_and_nothing_is_certified(lender: Any) -> None:
    model, moves = lender
    rng = np.random.default_rng(4)
    for _ in range(3):
        ability = estimate_ability(
            model, late_people(rng, 800), late_people(rng, 800), moves, positive=True
        )
        assert ability.effort_certified == 0
        assert not ability.refuted
        assert 0 in ability.share_gaming


def test_a_way_that_is_closed_refutes_the_moves(lender: Any) -> None:
    model, moves = lender
    rng = np.random.default_rng(5)
    before, after = late_people(rng, 2000), late_people(rng, 2000)
    after["late"] += 1
    ability = estimate_ability(model, before, after, moves, positive=True, random_state=0)
    assert any("'late' changed in a way that Moves forbids" in text for text in ability.refuted)
    assert "more people at price" in ability.summary() or "forbids" in ability.summary()


def test_another_population_is_seen_in_what_nobody_can_move(lender: Any) -> None:
    model, moves = lender
    rng = np.random.default_rng(6)
    before, after = late_people(rng, 800), late_people(rng, 800)
    after["age"] += 5
    ability = estimate_ability(model, before, after, moves, positive=True, random_state=0)
    assert bool(ability.checks.loc["age", "differs"])
    text = ability.summary()
    assert "the population is not the same" in text.splitlines()[1]
    assert "bootstrap of 200 draws" in text
    same = estimate_ability(
        model, before, late_people(rng, 800), moves, positive=True, random_state=0
    )
    assert not same.checks["differs"].any()


def test_categories_are_carried_by_allowed_switches() -> None:
    rng = np.random.default_rng(7)
    old = pd.DataFrame({"home": rng.choice(["rent", "own"], 3000, p=[0.7, 0.3])})
    new = pd.DataFrame({"home": rng.choice(["rent", "own"], 3000, p=[0.4, 0.6])})
    open_ = Moves({"home": Switch({("rent", "own"): 2.0})})
    effort = effort_by_column(old, new, open_, 0.95, rng, exchanges=0)
    assert 0.4 < effort.loc["home", "certified"] < 0.6 < effort.loc["home", "estimate"] + 0.06
    closed = Moves({"home": Switch({("own", "rent"): 2.0})})
    effort = effort_by_column(old, new, closed, 0.95, rng, exchanges=0)
    assert effort.loc["home", "refuted"] == "no allowed switch"
    assert effort.loc["home", "certified"] == 0


def test_holes_that_may_be_filled_are_a_category() -> None:
    rng = np.random.default_rng(8)
    old = pd.DataFrame({"income": np.where(rng.random(3000) < 0.5, np.nan, rng.normal(size=3000))})
    new = pd.DataFrame({"income": np.where(rng.random(3000) < 0.1, np.nan, rng.normal(size=3000))})
    moves = Moves({"income": Change("up", missing=0.5, low=-4, high=4, per="unit")})
    found = effort_by_column(old, new, moves, 0.95, rng, exchanges=0).loc["income"]
    assert 0.1 < found["certified"] <= 0.4 * 0.5
    assert found["refuted"] == ""


@pytest.mark.claim("20.26")
def test_a_cut_for_estimated_budgets_is_as_good_as_for_true_ones(lender: Any) -> None:
    model, moves = lender
    rng = np.random.default_rng(9)
    before, people, other = (late_people(rng, n) for n in (2000, 2000, 400))
    after, _, _ = gamed(model, people, moves, rng.exponential(0.5, 2000))
    ability = estimate_ability(model, before, after, moves, positive=True, random_state=0)
    y = (other["late"] + other["debt"] + rng.normal(0, 0.5, 400) < 2).to_numpy()
    fix = rethreshold(model, other, y, moves, ability=ability, objective="expected", positive=True)
    radii = np.array([-0.5 * np.log(1 - q) for q in (np.arange(15) + 0.5) / 15])
    known = rethreshold(model, other, y, moves, list(radii), positive=True)
    table = known.problem
    losses = {cut: float(np.mean(np.add(*table.errors(cut)[:2]))) for cut in (fix.cut, fix.old)}
    values = np.unique(table.low)[::7]
    best = min(float(np.mean(np.add(*table.errors(c)[:2]))) for c in values)
    assert losses[fix.cut] <= best + 0.005
    assert losses[fix.old] > losses[fix.cut] + 0.01


def test_ability_stands_for_a_budget(lender: Any) -> None:
    model, moves = lender
    rng = np.random.default_rng(10)
    people = late_people(rng, 1500)
    after, _, plan = gamed(model, people, moves, np.where(rng.random(1500) < 0.5, 1.0, 0.0))
    ability = estimate_ability(model, people, after, moves, paired=True, positive=True)
    moved = (plan.upper > 0) & (after != people).any(axis=1).to_numpy()
    assert ability.share_gaming.estimate == pytest.approx(moved.mean(), abs=1e-12)
    assert "natural churn: 0.0%" in ability.summary()
    y = (people["late"] + people["debt"] < 2).to_numpy()
    row = gaming_report(model, people, y, moves, ability=ability, positive=True).to_frame().iloc[0]
    chance = np.where(plan.upper > 0, 1 - ability.cdf(plan.upper), 1.0)
    assert row["moved"] == pytest.approx(chance[plan.upper > 0].sum(), abs=1e-6)
    assert row["accuracy_low"] <= row["accuracy"] <= row["accuracy_high"]
    again = gaming_report(model, people, y, moves, budget=ability, positive=True).to_frame()
    assert again["accuracy"].iloc[0] == row["accuracy"]
    at, mass = ability.atoms()
    assert mass.sum() == pytest.approx(1)
    assert at.size <= 41
    draws = ability.sample(2000, random_state=0)
    t = ability.law.prices[len(ability.law.prices) // 2]
    assert np.mean(draws < t) == pytest.approx(ability.cdf([t])[0], abs=0.05)
    assert ability.quantile(0.0) == 0.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"after": lambda X: X.drop(columns="age")}, "after: .*age"),
        ({"before": lambda X: X.head(37)}, "37 people are too few for a band"),
        ({"paired": True, "after": lambda X: X.head(60)}, "equally many rows"),
        ({"confidence": 1.5}, "confidence"),
        ({"moves": Moves({"ages": Change("up", per="unit")})}, "did you mean 'age'"),
    ],
)
def test_bad_samples(lender: Any, change: dict[str, Any], words: str) -> None:
    model, moves = lender
    X = late_people(np.random.default_rng(11), 100)
    given: dict[str, Any] = {"before": X, "after": X, "moves": moves, "positive": True}
    for name, value in change.items():
        given[name] = value(X) if callable(value) else value
    with pytest.raises(InvalidInputError, match=words):
        estimate_ability(model, **given)
