"""One call for a consortium."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

from counterplay.contribution import (
    CollabGame,
    CoverageGame,
    EmpiricalGame,
    LinearGame,
    TabularGame,
    envy_report,
    instances,
    plan_contributions,
    stability_report,
)
from counterplay.contribution.lab import (
    CyclePACGame,
    FiniteClassPACGame,
    is_feasible,
)
from counterplay.errors import InfeasibleError, InvalidInputError, UnknownNameError

OVERLAP = np.full((5, 5), 0.1)
OVERLAP[0, :] = OVERLAP[:, 0] = 0.5
np.fill_diagonal(OVERLAP, 1.0)


def empirical() -> EmpiricalGame:
    X, y = load_iris(return_X_y=True)
    parts = [(X[i::3], y[i::3]) for i in range(3)]
    return EmpiricalGame(parts, GaussianNB(), mu=0.85, n_repeats=6)


GAMES: dict[str, CollabGame] = {
    "linear": LinearGame(OVERLAP, 1.0),
    "directed": instances.directed_triangle(),
    "indefinite": instances.indefinite(),
    "many parties": instances.random_linear_game(15, 30, 0.3, 0),
    "coverage": instances.random_coverage_game(4, 8, 0),
    "whole coverage": instances.random_coverage_game(4, 8, 0, integral=True),
    "even cycle": CyclePACGame(3, "7/9"),
    "pac": FiniteClassPACGame([[0, 0, 1], [1, 1, 0], [0, 1, 1]], None, np.eye(3), 0.9),
    "table": TabularGame.from_game(CyclePACGame(3, "7/9"), [np.arange(5)] * 3),
    "measured": empirical(),
}


@pytest.mark.claim("04.38")
@pytest.mark.parametrize("name", GAMES)
def test_plans_are_what_they_claim(name: str) -> None:
    game = GAMES[name]
    plan = plan_contributions(game)
    for kind, found in plan.plans.items():
        assert is_feasible(game, found.theta), kind
    assert plan.stable is not None
    assert plan.envy_free is not None
    assert plan.equal is not None
    slack = 0.0 if game.integral else 1e-6
    assert plan.stable.best_response_gap <= slack
    assert envy_report(game, plan.envy_free.theta).is_envy_free
    assert np.ptp(plan.equal.theta) == 0
    assert plan.bounds["optimal_lower"] <= plan.optimal.total + 1e-6
    for price in (plan.price_of_stability, plan.price_of_fairness, plan.price_of_anarchy):
        assert price >= 1 - 1e-9
    assert plan.price_of_anarchy >= plan.price_of_stability - 1e-9
    assert plan.optimal.total <= min(p.total for p in plan.plans.values()) + 1e-6
    frame = plan.to_frame()
    assert len(frame) == game.k
    assert {"optimal", "stable", "envy_free", "equal"} <= set(frame)
    assert "x cheapest" in plan.summary()


@pytest.mark.claim("04.38")
def test_game_without_stable_plan_says_so() -> None:
    plan = plan_contributions(instances.simple_cycle(), names=["a", "b", "c"])
    assert plan.stable is None
    assert np.isnan(plan.price_of_stability)
    assert plan.optimal.total == 2
    assert plan.envy_free is not None
    assert plan.envy_free.total == 3
    assert plan.price_of_fairness == 1.5
    assert "no stable plan exists" in plan.summary()
    assert "none" in plan.summary()
    assert plan.to_frame()["stable"].isna().all()


NAMES = ["core", "north", "east", "south", "west"]


@pytest.mark.claim("04.38")
def test_report_of_a_consortium() -> None:
    plan = plan_contributions(LinearGame(OVERLAP, 1.0), NAMES)
    assert list(plan.to_frame().index) == NAMES
    assert plan.price_of_stability == pytest.approx((4 / 1.3) / 2)
    assert any("core carries 100%" in line for line in plan.findings())
    assert plan.envy("optimal").pairs == [(0, 1), (0, 2), (0, 3), (0, 4)]
    axes = plan.plot()
    assert len(axes.figure.axes) == 2
    assert plan.plot(axes) is axes
    with pytest.raises(UnknownNameError, match="did you mean 'stable'"):
        plan.envy("stabel")
    with pytest.raises(InvalidInputError, match="5 different names"):
        plan_contributions(LinearGame(OVERLAP, 1.0), names=["a"] * 5)


@pytest.mark.claim("04.38")
def test_what_if_changes_only_what_was_asked() -> None:
    plan = plan_contributions(LinearGame(OVERLAP, 1.0), NAMES)
    raised = plan.what_if(targets={"north": 1.5})
    assert raised.after.game.mu.tolist() == [1, 1.5, 1, 1, 1]
    assert plan.game.mu.tolist() == [1] * 5
    frame = raised.to_frame()
    assert frame.loc["north", "change"] > 0.3
    assert "north brings +" in raised.summary()
    gone = plan.what_if(remove=["core"])
    assert list(gone.after.names) == NAMES[1:]
    assert np.isnan(gone.to_frame("optimal").loc["core", "after"])
    capped = plan.what_if(caps={"core": 0.2})
    assert capped.after.optimal.theta[0] <= 0.2 + 1e-9
    assert capped.after.optimal.total > plan.optimal.total
    tight = plan.what_if(caps={"north": 0.1})
    assert tight.after.stable is None
    assert "no stable plan" in tight.summary()
    other = plan.what_if(game=instances.flower(2).linear())
    assert other.after.names == plan.names
    with pytest.raises(UnknownNameError):
        plan.what_if(targets={"nroth": 1.0})
    whole = plan_contributions(instances.random_coverage_game(3, 6, 2, integral=True))
    assert whole.what_if(caps={"0": 2}).after.optimal.theta[0] <= 2
    with pytest.raises(InvalidInputError, match="restricted"):
        plan_contributions(CyclePACGame(3, "7/9")).what_if(remove=["0"])


def test_flags_name_easy_targets_and_caps() -> None:
    plan = plan_contributions(LinearGame(np.eye(2), [0.0, 1.0]), ["lazy", "busy"])
    assert any(flag.startswith("lazy is satisfied") for flag in plan.flags)
    capped = LinearGame([[1, 1], [0, 1]], 1.0, upper=[0.5, 2.0])
    assert any("party 0 could not reach" in flag for flag in plan_contributions(capped).flags)


def test_messages_call_parties_by_their_names() -> None:
    plan = plan_contributions(LinearGame(OVERLAP, 1.0), NAMES)
    with pytest.raises(InfeasibleError, match=r"^north cannot reach mu=9"):
        plan.what_if(targets={"north": 9.0}, caps=dict.fromkeys(NAMES, 1.0))
    capped = LinearGame(OVERLAP, 1.0, upper=[2.0, 0.7, 2.0, 2.0, 2.0])
    named = plan_contributions(capped, NAMES)
    assert "north could not reach its target alone below its cap 0.7" in named.summary()
    assert "no stable plan: at least 0.18 units must be brought" in named.summary()
    assert plan.game.subset([1, 2]).party(0) == "north"


def test_planner_needs_neither_cvxpy_nor_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cvxpy", "torch", "flwr"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("linear", "coverage", "whole coverage"):
        plan = plan_contributions(GAMES[name])
        assert plan.stable is not None
        assert stability_report(GAMES[name], plan.stable.theta).is_feasible
    assert isinstance(GAMES["coverage"], CoverageGame)
